"""From bytes to text: which encoding a file is in, found out from its bytes."""

from __future__ import annotations

import codecs

from fedkg.errors import TableError

MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks; longer UTF-32 marks precede the UTF-16 marks that are their prefixes."""


def decode(body: bytes) -> tuple[str, str] | None:
    """The text of a file and its encoding's name; None if the bytes are not text.

    A byte order mark decides; then zero bytes at every other place (UTF-16); then whether it is
    valid UTF-8; then Windows-1252, or Latin-1 where a byte has no meaning in it.
    """
    for mark, encoding in MARKS:
        if body.startswith(mark):
            return _strict(body, encoding)
    head = body[:4096]
    if b"\0" in head:
        even, odd = head[0::2].count(0), head[1::2].count(0)
        if odd > len(head) // 5 and even <= odd // 20:
            return _strict(body, "utf-16-le")
        return _strict(body, "utf-16-be") if even > len(head) // 5 and odd <= even // 20 else None
    found = _strict(body, "utf-8") or _strict(body, "cp1252") or _strict(body, "latin-1")
    return None if found is not None and _is_noise(found[0]) else found


def decode_as(body: bytes, encoding: str, name: str) -> tuple[str, str]:
    """The text of a file in a stated encoding, without a byte order mark.

    Raises:
        TableError: the encoding is unknown, or the bytes are not text in it.
    """
    try:
        return body.decode(encoding).removeprefix("\ufeff"), encoding.casefold()
    except LookupError as error:
        raise TableError(
            f"{name}: encoding `{encoding}` is unknown",
            expected="utf-8, utf-16, windows-1252, iso-8859-1, ...",
            received=encoding,
            help="correct `encoding` in the dialect, or remove it: fedkg detects the encoding",
        ) from error
    except UnicodeError as error:
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        line = body[:start].count(b"\n") + 1
        raise TableError(
            f"{name}: line {line} is not text in `{encoding}`",
            received=repr(body[start : start + 8])[1:],
            help="correct `encoding` in the dialect, or remove it: fedkg detects the encoding",
        ) from error


def _strict(body: bytes, encoding: str) -> tuple[str, str] | None:
    try:
        return body.decode(encoding), encoding.removesuffix("-sig")
    except UnicodeDecodeError:
        return None


def _is_noise(text: str) -> bool:
    head = text[:4096]
    return (
        sum(1 for character in head if ord(character) < 32 and character not in "\t\r\n\f")
        > len(head) // 50
    )
