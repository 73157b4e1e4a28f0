"""From bytes to text: which encoding a file is in, found out from its bytes."""

from __future__ import annotations

import codecs

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
