"""Bytes of a file to text: which encoding it is in, and at which place it is in none."""

from __future__ import annotations

import re

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.spans import point, report

_WIDE = {
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
    b"<\x00?\x00": "utf-16-le",
    b"\x00<\x00?": "utf-16-be",
}
"""The byte order marks of UTF-16."""


def decode(body: bytes, file: str) -> tuple[str, Diagnostic | None]:
    """Return the text of a file, or what keeps it from being one.

    UTF-8 with or without a mark, UTF-16 with one (XML without, too), and for XML the encoding that
    it names itself. What XML says of its encoding is taken out where it is another than UTF-8.
    """
    encoding = _WIDE.get(body[:2]) or _WIDE.get(body[:4]) or "utf-8-sig"
    try:
        text = body.decode(encoding).removeprefix("\ufeff")
        return (text if encoding == "utf-8-sig" else _undeclared(text)), None
    except UnicodeDecodeError as error:
        before = body[: error.start]
        if body.lstrip()[:5] == b"<?xml":
            declared = _declared_encoding(body)
            if declared is not None:
                return declared, None
        line, column = (
            before.count(b"\n") + 1,
            len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1,
        )
        what = (
            "a binary file"
            if b"\x00" in body[:4096]
            else f"not in UTF-8: byte 0x{body[error.start]:02x}"
        )
        return "", report(
            "FKG102", point(file, line, column), f"{file} is {what}", help="save the file as UTF-8"
        )


def _declared_encoding(body: bytes) -> str | None:
    """Return the text of an XML file that names its encoding, with that name taken out.

    None if it names none that works.
    """
    found = re.match(rb"""\s*<\?xml[^>]*encoding=["']([A-Za-z0-9._-]+)["']""", body)
    if found is None:
        return None
    try:
        text = body.decode(found.group(1).decode("ascii"))
    except (LookupError, UnicodeDecodeError):
        return None
    return _undeclared(text)


def _undeclared(text: str) -> str:
    return re.sub(r"""^(\s*<\?xml[^>]*?)\s+encoding=["'][^"']*["']""", r"\1", text, count=1)
