"""Bytes of a message, or the text of an error, as a record that Flower carries."""

from __future__ import annotations

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

_MESSAGE = "message"
_ERROR = "error"
_BYTES = "bytes"

LARGE = 1 << 22
"""Bytes from which a message is sent as an array: Flower splits arrays into parts of 5 MiB, and
other records into none; each part costs a call, and a second of waiting if it is not there yet."""


def wrap_bytes(data: bytes) -> RecordDict:
    """The bytes of a message as a record."""
    if len(data) < LARGE:
        return RecordDict({_MESSAGE: ConfigRecord({_BYTES: data})})
    array = Array(dtype="uint8", shape=(len(data),), stype=_BYTES, data=data)
    return RecordDict({_MESSAGE: ArrayRecord({_BYTES: array})})


def unwrap_bytes(content: RecordDict) -> bytes:
    """The bytes that `wrap_bytes` wrapped.

    Raises KeyError if the record is of another form.
    """
    if _MESSAGE in content.config_records:
        found = content.config_records[_MESSAGE][_BYTES]
        if not isinstance(found, bytes):
            raise KeyError(_BYTES)
        return found
    return content.array_records[_MESSAGE][_BYTES].data


def wrap_text(text: str, *, name: str = _ERROR) -> RecordDict:
    """A text under a name; `error` says why a site has no answer."""
    return RecordDict({_MESSAGE: ConfigRecord({name: text})})


def unwrap_text(content: RecordDict, *, name: str = _ERROR) -> str:
    """The text that `wrap_text` wrapped under a name; "" if there is none."""
    if _MESSAGE not in content.config_records:
        return ""
    return str(content.config_records[_MESSAGE].get(name, ""))
