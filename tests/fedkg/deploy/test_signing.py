"""A site accepts only what a trusted key has signed, and learns which file was changed."""

import base64
import hashlib
import json
import stat
import subprocess

import pytest
from command import call
from model_signing import signing
from model_signing.hashing import Config

from fedkg.deploy.signing import create_key, sign_folder, verify_folder
from fedkg.errors import FederationError, UsageError


@pytest.fixture
def key(tmp_path):
    return create_key(tmp_path / "keys")


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "invitation"
    (made / "certificates").mkdir(parents=True)
    (made / "job.yaml").write_text("rounds: 3")
    (made / "certificates" / "ca.pem").write_text("pem")
    (made / ".gitignore").write_text("files of Git count too")
    return made


def test_signature_covers_every_file_of_a_folder(folder, key):
    sign_folder(folder, key)

    found = verify_folder(folder, [key.with_suffix(".pub")])

    assert found.files == (".gitignore", "certificates/ca.pem", "job.yaml")
    assert found.key == key.with_suffix(".pub")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: (f / "job.yaml").write_text("rounds: 4"), "job.yaml has changed"),
        (lambda f: (f / "job.yaml").unlink(), "job.yaml is missing"),
        (lambda f: (f / "certificates" / "b.pem").write_text(""), "certificates/b.pem is extra"),
        (lambda f: (f / "other.yaml").symlink_to(f / "job.yaml"), "symlink"),
    ],
)
def test_each_change_is_named(folder, key, change, message):
    sign_folder(folder, key)
    change(folder)

    with pytest.raises(FederationError, match=message):
        verify_folder(folder, [key.with_suffix(".pub")])


def test_a_forged_statement_does_not_fit_its_signature(folder, key):
    """The forger writes the checksum of another job into the statement, as a naive reader of the
    format would do it."""
    target = sign_folder(folder, key)
    (folder / "job.yaml").write_text("rounds: 4")
    bundle = json.loads(target.read_text())
    payload = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    entries = payload["predicate"]["resources"]
    next(one for one in entries if one["name"] == "job.yaml")["digest"] = hashlib.sha256(
        b"rounds: 4"
    ).hexdigest()
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(json.dumps(payload).encode()).decode()
    target.write_text(json.dumps(bundle))

    with pytest.raises(FederationError, match="was changed after it was signed"):
        verify_folder(folder, [key.with_suffix(".pub")])


def test_only_trusted_keys_count(folder, key, tmp_path):
    other = create_key(tmp_path / "others")
    sign_folder(folder, other)

    with pytest.raises(FederationError, match="not signed by a trusted key"):
        verify_folder(folder, [key.with_suffix(".pub")])
    trusted = [key.with_suffix(".pub"), other.with_suffix(".pub")]
    assert verify_folder(folder, trusted).key == other.with_suffix(".pub")


def test_openssl_accepts_the_signature(tmp_path, key):
    """An independent program checks the envelope: DSSE v1 defines the bytes that are signed."""
    pack = tmp_path / "rules.fkgpack"
    pack.write_bytes(b"rules")
    envelope = json.loads(sign_folder(pack, key).read_text())["dsseEnvelope"]
    payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"]
    signed = tmp_path / "signed"
    signed.write_bytes(b"DSSEv1 %d %s %d " % (len(kind), kind.encode(), len(payload)) + payload)
    signature = tmp_path / "der"
    signature.write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))

    command = ["openssl", "dgst", "-sha256", "-verify", str(key.with_suffix(".pub"))]
    try:
        found = subprocess.run(
            [*command, "-signature", str(signature), str(signed)], capture_output=True, text=True
        )
    except FileNotFoundError:
        pytest.skip("openssl is not installed")

    assert found.stdout == "Verified OK\n"
    (entry,) = json.loads(payload)["predicate"]["resources"]
    assert entry["digest"] == hashlib.sha256(b"rules").hexdigest()


def test_a_signature_that_leaves_files_out_is_rejected(folder, key):
    (folder / "run").mkdir()
    (folder / "run" / "rounds.csv").write_text("")
    hashing = Config().set_ignored_paths(paths=["signature.json", "run"], ignore_git_paths=False)
    signer = signing.Config().use_elliptic_key_signer(private_key=key)
    signer.set_hashing_config(hashing).sign(folder, folder / "signature.json")

    with pytest.raises(FederationError, match="does not cover all of its files") as caught:
        verify_folder(folder, [key.with_suffix(".pub")])
    assert caught.value.received == "left out: run"


def test_private_keys_stay_private(key, folder):
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    with pytest.raises(UsageError, match="exists already"):
        create_key(key.parent)
    key.chmod(0o640)
    with pytest.raises(UsageError, match="other users may read"):
        sign_folder(folder, key)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"dsseEnvelope": {"payload": "!"}}', "\x00"])
def test_something_else_is_not_a_signature(folder, key, text):
    (folder / "signature.json").write_text(text)

    with pytest.raises(FederationError, match="is not a signature"):
        verify_folder(folder, [key.with_suffix(".pub")])


def test_commands(folder, key, tmp_path, capsys):
    new = tmp_path / "new" / "signing.key"
    signed = call(capsys, "sign", folder, "--key", new, "--new-key")
    public = new.with_suffix(".pub")
    assert (signed.code, public.is_file()) == (0, True)

    intact = call(capsys, "verify", folder, "--key", public, "--json")
    assert (intact.code, intact.json["intact"]) == (0, True)

    (folder / "job.yaml").write_text("rounds: 4")
    changed = call(capsys, "verify", folder, "--key", public)
    assert changed.code == 1
    assert "job.yaml has changed" in changed.err
    assert call(capsys, "verify", folder, "--key", new).code == 2  # a private key is not public
