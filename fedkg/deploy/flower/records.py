"""Bytes of a message, or the text of an error, as a record that Flower carries."""

from __future__ import annotations

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

_MESSAGE, _SITE = "message", "site"
_ERROR, _BYTES, _NAME = "error", "bytes", "name"

LARGE = 1 << 22
"""Bytes from which a message is sent as an array: Flower splits arrays into parts of 5 MiB, and
other records into none; each part costs a call, and a second of waiting if it is not there yet."""


def wrap_bytes(data: bytes, *, site: str = "") -> RecordDict:
    """The bytes of a message as a record, for a site that the node does not know by itself."""
    record = RecordDict({_SITE: ConfigRecord({_NAME: site})} if site else {})
    if len(data) < LARGE:
        record[_MESSAGE] = ConfigRecord({_BYTES: data})
    else:
        array = Array(dtype="uint8", shape=(len(data),), stype=_BYTES, data=data)
        record[_MESSAGE] = ArrayRecord({_BYTES: array})
    return record


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


def read_site(content: RecordDict) -> str:
    """The site of `wrap_bytes`. Raises KeyError if the record names none."""
    return str(content.config_records[_SITE][_NAME])


def wrap_error(text: str) -> RecordDict:
    """The reason why a site has no answer."""
    return RecordDict({_MESSAGE: ConfigRecord({_ERROR: text})})


def unwrap_error(content: RecordDict) -> str:
    """The text that `wrap_error` wrapped; "" if there is none."""
    if _MESSAGE not in content.config_records:
        return ""
    return str(content.config_records[_MESSAGE].get(_ERROR, ""))
