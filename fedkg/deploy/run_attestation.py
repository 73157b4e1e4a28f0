"""An attestation of a run: a signed statement that links rules, pack, run and models by SHA-256.

It is an in-toto Statement v1 (https://github.com/in-toto/attestation) in a DSSE v1 envelope. Its
subjects are the models; its predicate contains every rule, every source of the pack, the pack, and
the log of the run, which chains the checksums of all files of the run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkg._internal.atomic_file import replace_file
from fedkg.deploy.signing import load_private_key, load_public_key
from fedkg.errors import FederationError, FedkgError, JobError, MissingExtra
from fedkg.jobs.checkpoint import checkpoint_name
from fedkg.jobs.checksum_verification import verify as verify_checksums
from fedkg.jobs.file_damage import require_run
from fedkg.jobs.folder import PACK, TRIALS, RunFolder, json_text
from fedkg.limits import parse_json, read_file
from fedkg.pack import read_pack

ATTESTATION = "attestation.json"
"""The attestation within a run folder; the log of the run does not contain it."""

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://w3id.org/fedkg/provenance/v1"
PAYLOAD = "application/vnd.in-toto+json"


def attest(folder: str | Path, key: str | Path) -> Path:
    """Write the attestation of a finished run into its folder.

    Args:
        key: a private key that `fedkg.deploy.signing.create_key` wrote.

    Raises:
        UsageError: the folder holds no run, or the key cannot be used.
        JobError: the run is not finished, or one of its files has changed.
        MissingExtra: the library is not installed.
    """
    run = RunFolder(Path(folder))
    require_run(run)
    if not run.is_finished():
        raise JobError(f"the run in {folder} is not finished", help=f"fedkg run --resume {folder}")
    found = verify_checksums(folder)
    if found.problems:
        raise JobError(
            f"{folder} cannot be attested: {found.problems[0].splitlines()[0]}",
            help=f"`fedkg verify {folder}` says for each damaged file what to do",
        )
    envelope_type, signer_type, _ = _library()
    signer = signer_type(load_private_key(Path(key)))
    envelope = envelope_type(json.dumps(_statement(run)).encode(), PAYLOAD, {})
    envelope.sign(signer)
    target = run.path / ATTESTATION
    replace_file(target, json_text(envelope.to_dict()).encode())
    return target


def verify_attestation(folder: str | Path, trusted_keys: Sequence[str | Path]) -> Mapping[str, Any]:
    """Compare a run with its attestation, link by link.

    Returns:
        The attested statement. `Any`: JSON.

    Raises:
        UsageError: a key is missing.
        FederationError: there is no attestation, no trusted key made it, or a link between rule,
            pack, run and model is broken; the message names each one.
        MissingExtra: the library is not installed.
    """
    run = RunFolder(Path(folder))
    statement = _read_attestation(run.path / ATTESTATION, trusted_keys)
    try:
        broken = list(_broken_links(run, statement))
    except (LookupError, TypeError, AttributeError) as error:
        raise FederationError(
            f"{run.path / ATTESTATION} is not an attestation of a run",
            expected=f"a statement with the fields of {PREDICATE}",
            received=f"no field {error}" if isinstance(error, KeyError) else str(error),
            help=f"the owner of the run writes a new one: fedkg attest {folder} --key KEY",
        ) from error
    if broken:
        raise FederationError(
            f"the files in {folder} are not those that were attested",
            received="; ".join(dict.fromkeys(broken)),
            help="get the run folder again from its owner, or restore it from a copy",
        )
    return statement


def _statement(run: RunFolder) -> dict[str, Any]:
    """What a run folder consists of, as an in-toto statement. `Any`: JSON."""
    files = {name: state.sha256 for name, state in run.log.states().items()}
    manifest = read_pack(run.read_bytes(PACK), name=str(run.path / PACK)).manifest
    environment = run.environment()
    models = [checkpoint_name(entry["id"]) for entry in run.read_json(TRIALS)]
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": files[name]}} for name in models],
        "predicateType": PREDICATE,
        "predicate": {
            "rules": [
                {"name": rule.name, "file": rule.file, "line": rule.line, "sha256": _digest(rule)}
                for rule in manifest.rules
            ],
            "sources": [source.model_dump() for source in manifest.provenance.sources],
            "pack": {"name": PACK, "sha256": files[PACK]},
            "run": {
                "log": run.log.last,
                "job": environment["job_sha256"],
                "started": environment["started"],
                "fedkg": environment["fedkg"],
                "libraries": environment["libraries"],
            },
        },
    }


def _digest(rule: Any) -> str:
    """The SHA-256 of all that a pack states about a rule. `Any`: a `RuleRecord`."""
    return hashlib.sha256(rule.model_dump_json().encode()).hexdigest()


def _broken_links(run: RunFolder, statement: Mapping[str, Any]) -> Iterator[str]:
    """What differs between a run and its statement, from the rules to the models."""
    predicate = statement["predicate"]
    yield from _changed_rules(run.path / PACK, predicate)
    if _sha256_of(run.path / PACK) != predicate["pack"]["sha256"]:
        yield f"pack: {PACK} has changed"
    try:
        if run.log.last != predicate["run"]["log"]:
            yield f"run: {run.log.path.name} has changed"
        problems = verify_checksums(run.path).problems
        yield from (f"run: {problem.splitlines()[0]}" for problem in problems)
    except FedkgError as error:
        yield f"run: {error.message}"
    for subject in statement["subject"]:
        if _sha256_of(run.path / subject["name"]) != subject["digest"]["sha256"]:
            yield f"model: {subject['name']} has changed"


def _changed_rules(pack: Path, predicate: Mapping[str, Any]) -> Iterator[str]:
    """The rules and sources that differ from the attested ones, by name."""
    try:
        manifest = read_pack(read_file(pack), name=str(pack)).manifest
    except (FedkgError, OSError):
        return  # the pack's checksum tells it
    attested = {rule["name"]: rule["sha256"] for rule in predicate["rules"]}
    found = {rule.name: _digest(rule) for rule in manifest.rules}
    for name in sorted(attested.keys() | found.keys()):
        if attested.get(name) != found.get(name):
            yield f"rule: `{name}` has changed, was added or removed"
    sources = [source.model_dump() for source in manifest.provenance.sources]
    for source in predicate["sources"]:
        if source not in sources:
            yield f"source: {source['name']} has changed or was removed"


def _sha256_of(path: Path) -> str:
    """The SHA-256 of a file; "" if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _read_attestation(path: Path, trusted_keys: Sequence[str | Path]) -> Mapping[str, Any]:
    """The statement of an envelope that a trusted key has signed. `Any`: JSON."""
    envelope_type, _, key_type = _library()
    keys = [key_type.from_crypto(load_public_key(Path(key))) for key in trusted_keys]
    try:
        document = parse_json(read_file(path), str(path))
        envelope = envelope_type.from_dict(document)
        statement = parse_json(envelope.payload, str(path))
        if statement["_type"] != STATEMENT or statement["predicateType"] != PREDICATE:
            raise ValueError(f"{statement['_type']} with {statement['predicateType']}")
    except OSError as error:
        raise FederationError(
            f"{path.parent} has no attestation that can be read",
            expected=f"a file {path.name} in it",
            received=error.strerror or str(error),
            help=f"the owner of the run writes one: fedkg attest {path.parent} --key KEY",
        ) from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        missing = f"no field {error}" if isinstance(error, KeyError) else str(error)
        raise FederationError(
            f"{path} is not an attestation",
            expected=f"an in-toto statement with the predicate {PREDICATE}",
            received=missing,
            help=f"the owner of the run writes a new one: fedkg attest {path.parent} --key KEY",
        ) from error
    from securesystemslib.exceptions import VerificationError

    try:
        envelope.verify(keys, 1)
    except (VerificationError, ValueError) as error:
        raise FederationError(
            f"{path} is not signed by a trusted key, or was changed after it was signed",
            expected=f"a signature by {', '.join(map(str, trusted_keys))}",
            help="ask the owner of the run for the public key, over another channel",
        ) from error
    return dict(statement)


def _library() -> tuple[Any, Any, Any]:
    """The classes of envelopes, signers and public keys. `Any`: classes."""
    try:
        from securesystemslib.dsse import Envelope
        from securesystemslib.signer import CryptoSigner, SSlibKey  # type: ignore[attr-defined]
    except ModuleNotFoundError as error:
        raise MissingExtra("attestations", "flower") from error
    return Envelope, CryptoSigner, SSlibKey
