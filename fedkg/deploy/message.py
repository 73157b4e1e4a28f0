"""What travels between the server and a site: a few fields and named tensors, as one safetensors
file. Nothing in it is executed when it is read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from fedkg.errors import FederationError
from fedkg.exclusion_reasons import OTHER_FORMAT

VERSION = 1
"""Version of the form that this code writes and reads."""

REQUEST = "request"
"""Field of an answer with the digest of its request: it tells a late answer to another request
apart."""

ROUND_KINDS = frozenset(("ask", "train"))
"""Requests that are part of a round: a quorum is enough. All others need every site, except one
whose answer is kept (`kept_descriptions`)."""

MOST_ROUNDS = (1 << 31) - 1
"""Largest number of a round."""

_HEADER = "message"
_LENGTH_BYTES = 8
"""Bytes of the length of the header at the start of a safetensors file."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Message:
    """A request of the server to a site, or the site's reply.

    Attributes:
        kind: what is asked for or answered: ``describe``, ``train``, ``evaluate``, ...
        round: the round that it belongs to; 0 before the first one.
        fields: values that JSON can express.
        tensors: named tensors. Their names and shapes are what a list of disclosures states.
    """

    kind: str
    round: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The message as bytes: equal ones for equal fields and tensors in the same order.

        The order of sites in a field is part of a training: random numbers follow from it.
        """
        header = {
            "version": VERSION,
            "kind": self.kind,
            "round": self.round,
            "fields": dict(self.fields),
            "names": list(self.tensors),
        }
        return save(
            {name: value.detach().cpu().contiguous() for name, value in self.tensors.items()},
            {_HEADER: json.dumps(header, allow_nan=False)},
        )

    @classmethod
    def from_bytes(cls, data: bytes, *, sender: str) -> Message:
        """The message that `to_bytes` wrote, with its tensors in their first order.

        Args:
            sender: who sent it, for error messages.

        Raises:
            FederationError: the bytes are not a message of this version.
        """
        try:
            header = json.loads(_metadata(data)[_HEADER], parse_constant=_reject_constant)
            tensors = load(data)
            if header["version"] != VERSION:
                raise FederationError(
                    f"{sender} {OTHER_FORMAT}",
                    expected=f"format {VERSION}",
                    received=f"format {header['version']}",
                    help="install the same version of fedkg at the server and at all sites",
                )
            return cls(
                kind=str(header["kind"]),
                round=_read_round(header["round"]),
                fields=dict(header["fields"]),
                tensors={name: tensors[name] for name in header["names"]},
            )
        except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise FederationError(
                f"{sender} sent something that is not a message of fedkg",
                received=f"{len(data)} bytes, {type(error).__name__}: {error}",
                help="install the same version of fedkg at the server and at all sites; if that "
                "does not help, see which other program uses the address of the server",
            ) from error


def read_message_file(path: Path, help: str) -> Message:
    """The message that `Message.to_bytes` wrote into a file.

    Args:
        path: the file.
        help: what to do if it is damaged.

    Raises:
        FederationError: the file is not a message of this version.
        OSError: the file cannot be read.
    """
    try:
        return Message.from_bytes(path.read_bytes(), sender=str(path))
    except FederationError as error:
        raise FederationError(
            f"{path} is damaged, or a fedkg of a different version wrote it",
            expected=error.expected,
            received=error.received,
            help=help,
        ) from error


def read_head(data: bytes) -> tuple[str, int, dict[str, Any]]:
    """Kind, round and fields of a message, without its tensors. Raises as `Message.from_bytes`."""
    try:
        header = json.loads(_metadata(data)[_HEADER], parse_constant=_reject_constant)
        return str(header["kind"]), _read_round(header["round"]), dict(header["fields"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise FederationError(
            "this is not a message of fedkg", received=f"{type(error).__name__}: {error}"
        ) from error


def request_digest(request: bytes) -> str:
    """What an answer says of its request."""
    return hashlib.sha256(request).hexdigest()


def _reject_constant(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")


def _read_round(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MOST_ROUNDS:
        raise ValueError(f"{str(value)[:20]} is not the number of a round, 0 to {MOST_ROUNDS}")
    return value


def _metadata(data: bytes) -> Mapping[str, str]:
    """The free text in the header of a safetensors file."""
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    found: Mapping[str, str] = json.loads(data[_LENGTH_BYTES : _LENGTH_BYTES + length])[
        "__metadata__"
    ]
    return found
