"""The text of a rule file from its bytes: encoding, byte order mark, line ends."""

from __future__ import annotations

import codecs
import re

from fedkg_compiler.diagnostics.record import Diagnostic, Span

_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_MERGE_MARKER = re.compile(r"^(<{7} |={7}$|>{7} )", re.MULTILINE)
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0e-\x1a\x7f]")


def plain_text(text: str) -> str:
    """The text without a byte order mark, its line ends ``\\n`` or ``\\r\\n``; no other character
    moves.
    """
    text = text.removeprefix("\ufeff")
    return re.sub(r"\r(?!\n)", "\n", text) if "\r" in text else text


def decode(body: bytes, file: str) -> tuple[str, tuple[Diagnostic, ...]]:
    """The text of a file: UTF-8, or UTF-16 with its mark; else read as Western European, with an
    error at the first foreign byte.
    """
    for mark, encoding in _UTF16.items():
        if body.startswith(mark):
            return plain_text(body[len(mark) :].decode(encoding, errors="replace")), ()
    try:
        return plain_text(body.decode("utf-8")), ()
    except UnicodeDecodeError as error:
        before = plain_text(body[: error.start].decode("utf-8"))
        message = f"the file is not UTF-8: it contains the byte 0x{body[error.start]:02X}"
        hint = "save it as UTF-8 in the editor"
        problem = Diagnostic(
            code="FKG042",
            severity="error",
            span=_span_of_character(before, file),
            message=message,
            help=hint,
        )
        return plain_text(body.decode("latin-1")), (problem,)


def not_text(text: str, file: str) -> Diagnostic | None:
    """An error at the first character that no text has (a NUL byte, a control character); None
    where there is none.
    """
    found = _UNPRINTABLE.search(text)
    if found is None:
        return None
    return Diagnostic(
        code="FKG043",
        severity="error",
        span=_span_of_character(text[: found.start()], file),
        message=f"this is not a text file: it contains the control character U+{ord(found[0]):04X}",
        help="a rule file is plain text in UTF-8; was another file meant?",
    )


def merge_markers(text: str, file: str) -> Diagnostic | None:
    """An error at the first marker of an unresolved merge; None if there is none."""
    found = _MERGE_MARKER.search(text)
    if found is None:
        return None
    line = text.count("\n", 0, found.start()) + 1
    return Diagnostic(
        code="FKG002",
        severity="error",
        span=Span(file=file, line=line, column=1, end_line=line, end_column=8),
        message="this line is the marker of an unresolved merge",
        help="keep one of the two versions, and delete the lines with <<<<<<<, ======= and >>>>>>>",
    )


def _span_of_character(before: str, file: str) -> Span:
    """The place of the one character that follows."""
    line = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1) + 1
    return Span(file=file, line=line, column=column, end_line=line, end_column=column + 1)
