"""A damaged file of a server or a site, or a wrong one, is named with what to do."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
import torch
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedkg.deploy.deletion import list_deletions
from fedkg.deploy.federation_folders import (
    FEDERATION,
    RULES,
    load_federation,
    read_json,
    split_address,
    unpack_invitation,
)
from fedkg.deploy.message import Message, read_message_file
from fedkg.deploy.noisy_answer_replay import LEDGER, NoisyReleases
from fedkg.deploy.proposed_rule_confirmation import list_proposed
from fedkg.deploy.signing import create_key, load_private_key, verify_folder
from fedkg.errors import FederationError, FedkgError, UsageError


def write_zip(path: Path, method: int, old: bytes, new: bytes) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("é.yaml", "rounds: 3\n" * 50)
    path.write_bytes(path.read_bytes().replace(old, new))


@pytest.mark.parametrize(
    ("method", "old", "new"),
    [
        (zipfile.ZIP_STORED, "é".encode(), b"\xff\xff"),  # a name that is not UTF-8
        (zipfile.ZIP_STORED, b"rounds", b"sounds"),
        (zipfile.ZIP_LZMA, b"\x09\x04\x05\x00\x5d", b"\x09\x04\x05\x00\xff"),
    ],
)
def test_invitation_that_cannot_be_unpacked(tmp_path, method, old, new):
    write_zip(tmp_path / "graz.zip", method, old, new)

    with pytest.raises(UsageError, match=r"cannot read the invitation .*graz\.zip"):
        unpack_invitation(tmp_path / "graz.zip", tmp_path / "unpacked")


def test_invitation_with_too_many_files_says_how_many(tmp_path):
    with zipfile.ZipFile(tmp_path / "graz.zip", "w") as archive:
        for number in range(21):
            archive.writestr(f"{number}.txt", "")

    with pytest.raises(FederationError, match="received: 21 files of 0 MiB"):
        unpack_invitation(tmp_path / "graz.zip", tmp_path / "unpacked")


@pytest.mark.parametrize(
    "address", ["a:\N{SUPERSCRIPT TWO}", "a:" + "9" * 5000, "münchen.de:9092", "[]:9092", "a:0"]
)
def test_address_that_is_not_one(address):
    with pytest.raises(UsageError, match="must be a host and a port"):
        split_address(address)


def test_address_in_a_file_is_named_with_the_file(tmp_path):
    document = {"name": "plants", "address": "nowhere", "sites": {}}
    (tmp_path / FEDERATION).write_text(json.dumps(document))

    with pytest.raises(UsageError, match=r"federation\.json: `address` must be"):
        load_federation(tmp_path)


def test_releases_that_cannot_be_read_release_nothing(tmp_path):
    (tmp_path / LEDGER).write_text("[")
    releases = NoisyReleases(folder=tmp_path, rounds=3)

    with pytest.raises(FederationError, match="cannot know which updates it has released"):
        releases.once(Message(kind="train", round=1), lambda request: request)


def test_message_in_a_damaged_file_is_not_of_a_sender(tmp_path):
    path = tmp_path / "learning.message"
    path.write_bytes(Message(kind="a", tensors={"x": torch.zeros(2)}).to_bytes()[:-3])

    with pytest.raises(FederationError, match=r"learning\.message is damaged") as caught:
        read_message_file(path, help="delete it")
    assert "help: delete it" in str(caught.value)


@pytest.mark.parametrize("text", ["[]", "{}", '{"difference": []}', '{"difference": [], "no": 1}'])
def test_documents_without_their_fields(tmp_path, text):
    (tmp_path / "deletions.json").write_text(text)
    (tmp_path / RULES).mkdir()
    (tmp_path / RULES / "new.json").write_text(text)

    for read in (list_deletions, list_proposed):
        with pytest.raises(FederationError, match="json"):
            read(tmp_path)


def test_file_that_may_not_be_read_is_not_missing(tmp_path):
    (tmp_path / "site.json").mkdir()

    with pytest.raises(UsageError, match=r"cannot read the file .*site\.json"):
        read_json(tmp_path / "site.json", "`fedkg site join`")
    with pytest.raises(UsageError, match="there is no file"):
        read_json(tmp_path / "other.json", "`fedkg site join`")


def test_keys_that_cannot_be_used(tmp_path):
    key = ec.generate_private_key(ec.SECP256R1())
    path = tmp_path / "signing.key"
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )

    with pytest.raises(UsageError, match="is encrypted"):
        load_private_key(path)
    with pytest.raises(UsageError, match="cannot write the key"):
        create_key(path)  # a file in place of the folder


def test_signature_that_cannot_be_read_is_not_missing(tmp_path):
    folder = tmp_path / "pack"
    (folder / "signature.json").mkdir(parents=True)

    with pytest.raises(FedkgError, match="cannot read the signature"):
        verify_folder(folder, [])
