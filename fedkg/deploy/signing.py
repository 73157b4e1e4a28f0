"""Signatures of packs and folders: a site accepts only what a key that it trusts has signed.

A signature is a Sigstore bundle as the OpenSSF Model Signing specification v1.0 defines it: an
in-toto statement with the SHA-256 of every file, in a DSSE envelope signed by an elliptic-curve key
(P-256). Nothing is sent to or read from a network, and no transparency log is involved, so a key
that was stolen must be replaced by hand at every site.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkg.errors import FederationError, MissingExtra, UsageError
from fedkg.limits import parse_json, read_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import (
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
    )
    from model_signing.hashing import Config as Hashing

SIGNATURE = "signature.json"
"""The signature within a signed folder; of a file NAME it is NAME.signature.json beside it."""

OWNER_ONLY = 0o600
"""Permissions of a private key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A signature that fits.

    Attributes:
        key: the trusted public key that it was made with.
        files: the signed files by their paths within the folder, sorted; ``.`` is a single file.
    """

    key: Path
    files: tuple[str, ...]


def create_key(folder: str | Path, name: str = "signing") -> Path:
    """Create a key pair: `NAME.key`, which only its owner may read, and `NAME.pub` for others.

    Returns:
        The private key's file.

    Raises:
        UsageError: the folder contains such a key already, or cannot be written.
        MissingExtra: the library is not installed.
    """
    ec, _ = _cryptography()
    private = Path(folder) / f"{name}.key"
    key = ec.generate_private_key(ec.SECP256R1())
    try:
        private.parent.mkdir(parents=True, exist_ok=True)
        write_private(private, private_pem(key))
        private.with_suffix(".pub").write_bytes(public_pem(key.public_key()))
    except OSError as error:
        if isinstance(error, FileExistsError) and private.exists():
            raise UsageError(
                f"{private} exists already",
                help="use this key without creating one, or name another file",
            ) from error
        raise UsageError(
            f"cannot write the key {private}",
            received=error.strerror or str(error),
            help="choose a folder that you may write to",
        ) from error
    return private


def sign_folder(folder: str | Path, key: str | Path) -> Path:
    """Sign every file of a folder, or one file, and write the signature.

    Args:
        folder: the folder or file; it must not contain symbolic links.
        key: a private key that `create_key` wrote.

    Returns:
        The signature's file: `SIGNATURE` in the folder, or beside the file.

    Raises:
        UsageError: the folder or the key is missing, or other users may read the key.
        FederationError: the folder contains something that cannot be signed.
        MissingExtra: the library is not installed.
    """
    folder, key = Path(folder), Path(key)
    hashing = _hashing(folder)
    load_private_key(key)
    from model_signing import signing

    target = signature_path(folder)
    partial = target.with_name(f".{target.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        config = signing.Config().use_elliptic_key_signer(private_key=key)
        config.set_hashing_config(hashing).sign(folder, partial)
        partial.replace(target)
    except (ValueError, OSError) as error:
        raise FederationError(
            f"cannot sign {folder}",
            received=str(error),
            help="check that the folder exists, that you may write to it, and that the key is an "
            "unencrypted EC key in PEM form",
        ) from error
    return target


def verify_folder(
    folder: str | Path, trusted_keys: Sequence[str | Path], *, name: str = ""
) -> Signature:
    """Compare every file of a signed folder, or a signed file, with its signature.

    Args:
        folder: the folder or file.
        trusted_keys: public keys, one of which must have signed.
        name: the folder in messages, if it is a temporary one; empty: its path.

    Raises:
        UsageError: the folder or a key is missing.
        FederationError: there is no signature, no trusted key made it, or a file was changed,
            added or removed since; the message names each such file.
        MissingExtra: the library is not installed.
    """
    folder = Path(folder)
    hashing = _hashing(folder)
    from cryptography.exceptions import InvalidSignature
    from model_signing import verifying

    signature, shown = signature_path(folder), name or str(folder)
    shown_signature = f"{SIGNATURE} in {name}" if name else str(signature)
    signer, signed, left_out = _read_signature(signature, shown, shown_signature)
    names = {key_name(load_public_key(Path(key))): Path(key) for key in trusted_keys}
    if signer not in names:
        raise FederationError(
            f"{shown} is not signed by a trusted key",
            expected="a signature by the key "
            + " or ".join(
                key[:16] + (f" ({path})" if not name else "") for key, path in names.items()
            ),
            received=f"a signature by the key {signer[:16]}",
            help="ask whoever signed it for the public key, over another channel",
        )
    if unsigned := left_out - {SIGNATURE}:
        raise FederationError(
            f"the signature of {shown} does not cover all of its files",
            received=f"left out: {', '.join(sorted(unsigned))}",
            help="ask whoever signed it to sign all files again",
        )
    try:
        config = verifying.Config().use_elliptic_key_verifier(public_key=names[signer])
        config.set_hashing_config(hashing).verify(folder, signature)
    except InvalidSignature as error:
        raise FederationError(
            f"{shown_signature} was changed after it was signed",
            help=f"get {shown} and its signature again from whoever signed it",
        ) from error
    except (ValueError, OSError) as error:
        differences = _list_differences(folder, hashing, signed)
        if not differences and isinstance(error, OSError):
            raise FederationError(
                f"cannot compare {shown} with its signature",
                received=f"{error.strerror or error}"
                + (f" ({error.filename})" if error.filename else ""),
                help="check that you may read all of its files",
            ) from error
        raise FederationError(
            f"{shown} differs from what was signed",
            received="; ".join(differences) or str(error),
            help=f"get {shown} again from whoever signed it; if you made these changes, sign it "
            "again",
        ) from error
    return Signature(key=names[signer], files=tuple(sorted(signed)))


def signature_path(folder: Path) -> Path:
    """Where the signature of a folder or file is."""
    return folder / SIGNATURE if folder.is_dir() else folder.with_name(f"{folder.name}.{SIGNATURE}")


def key_name(key: EllipticCurvePublicKey) -> str:
    """The SHA-256 of a public key, in hexadecimal digits: its name in signatures."""
    return hashlib.sha256(public_pem(key)).hexdigest()


def load_private_key(path: Path) -> EllipticCurvePrivateKey:
    """A private key. Raises UsageError if it is missing or damaged, or others may read it."""
    ec, serialization = _cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm

    body = _read_key(path, "private")
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise UsageError(
            f"other users may read the private key {path}", help=f"run: chmod 600 {path}"
        )
    try:
        key = serialization.load_pem_private_key(body, None)
    except TypeError as error:
        raise UsageError(
            f"the private key {path} is encrypted",
            expected="a private key without a password, such as fedkg writes",
            help="`fedkg sign PATH --key KEY --new-key` creates a pair of keys",
        ) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _not_a_key(path, "private") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise _not_a_key(path, "private")
    found: EllipticCurvePrivateKey = key
    return found


def load_public_key(path: Path) -> EllipticCurvePublicKey:
    """A public key. Raises UsageError if it is missing or damaged."""
    ec, serialization = _cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        key = serialization.load_pem_public_key(_read_key(path, "public"))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _not_a_key(path, "public") from error
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise _not_a_key(path, "public")
    found: EllipticCurvePublicKey = key
    return found


def _read_key(path: Path, kind: str) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        raise UsageError(
            f"cannot read the {kind} key {path}",
            received=error.strerror or str(error),
            help="check the path; `fedkg sign PATH --key KEY --new-key` creates a key"
            if kind == "private"
            else "check the path; whoever signed with this key has the file",
        ) from error


def _not_a_key(path: Path, kind: str) -> UsageError:
    ending = ".key" if kind == "private" else ".pub"
    return UsageError(
        f"{path} is not a {kind} key that fedkg can use",
        expected=f"a {kind} elliptic-curve key in PEM form, such as fedkg writes (NAME{ending})",
        help="check the path; `fedkg sign PATH --key KEY --new-key` creates a pair of keys"
        if kind == "private"
        else "give the .pub file of whoever signed",
    )


def write_private(path: Path, body: bytes) -> None:
    """Write a new file that only its owner may read, from its first moment on.

    Raises FileExistsError, OSError.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(path, flags, OWNER_ONLY), "wb") as file:
        file.write(body)


def private_pem(key: EllipticCurvePrivateKey) -> bytes:
    """A private key as text (PKCS 8, RFC 5958)."""
    _, serialization = _cryptography()
    found: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return found


def public_pem(key: EllipticCurvePublicKey) -> bytes:
    """A public key as text (RFC 5280, SubjectPublicKeyInfo)."""
    _, serialization = _cryptography()
    found: bytes = key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return found


def _cryptography() -> tuple[Any, Any]:
    """The modules of elliptic curves and of key files. `Any`: modules.

    Raises:
        MissingExtra: they are not installed.
    """
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ModuleNotFoundError as error:
        raise MissingExtra("signing", "flower") from error
    return ec, serialization


def _hashing(folder: Path) -> Hashing:
    """How files are hashed: all of them, those of Git too."""
    try:
        from model_signing import hashing
    except ModuleNotFoundError as error:
        raise MissingExtra("signing", "flower") from error
    if not folder.exists():
        raise UsageError(f"there is no file or folder {folder}", help="check the path")
    return hashing.Config().set_ignored_paths(paths=[SIGNATURE], ignore_git_paths=False)


def _read_signature(
    signature: Path, shown: str, shown_signature: str
) -> tuple[str, dict[str, str], set[str]]:
    """What a signature claims: the name of its key, the SHA-256 of each file, and paths without
    one. Nothing of it is verified yet.

    Args:
        signature: the file.
        shown: the signed folder in messages.
        shown_signature: the signature in messages.
    """
    try:
        bundle = parse_json(read_file(signature), str(signature))
        payload = base64.b64decode(bundle["dsseEnvelope"]["payload"], validate=True)
        predicate = parse_json(payload, str(signature))["predicate"]
        return (
            str(bundle["verificationMaterial"]["publicKey"]["hint"]),
            {str(one["name"]): str(one["digest"]) for one in predicate["resources"]},
            set(map(str, predicate["serialization"].get("ignore_paths", ()))),
        )
    except FileNotFoundError as error:
        raise FederationError(
            f"{shown} is not signed",
            expected=f"a signature in {shown_signature}",
            help="get it with its signature from its owner, who signs it with `fedkg sign PATH "
            "--key KEY`",
        ) from error
    except OSError as error:
        raise FederationError(
            f"cannot read the signature {shown_signature}",
            received=error.strerror or str(error),
            help="use an ordinary file that you may read",
        ) from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise FederationError(
            f"{shown_signature} is not a signature of fedkg",
            received=f"no field {error}" if isinstance(error, KeyError) else str(error),
            help=f"get {shown} and its signature again from whoever signed it",
        ) from error


def _list_differences(folder: Path, hashing: Hashing, signed: Mapping[str, str]) -> list[str]:
    """What is wrong with each file, by its path."""
    try:
        entries = hashing.hash(folder).resource_descriptors()
    except (ValueError, OSError):  # such as a link: the error that led here describes it
        return []
    found = {entry.identifier: entry.digest.digest_hex for entry in entries}
    return [
        (folder.name if name == "." else name)
        + (
            " is missing"
            if name not in found
            else " is extra"
            if name not in signed
            else " has changed"
        )
        for name in sorted(signed.keys() | found.keys())
        if signed.get(name) != found.get(name)
    ]
