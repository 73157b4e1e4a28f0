"""The evidence of an accepted suggestion, read from the comments in its statement."""

from __future__ import annotations

import re

LABELS = ("evidence", "data", "run", "reviewed", "proposed")
"""First words of the comments that `fedkg_compiler.learned.accepted_rule_file` writes."""

_COMMENT = re.compile(rf"\s*# (?P<label>{'|'.join(LABELS)}): (?P<text>.*)")
_CONTINUED = re.compile(r"\s*#   (?P<text>.*)")


def read_evidence(text: str) -> tuple[tuple[str, str], ...]:
    """The labelled evidence in the text of a statement; () if it was not suggested."""
    found: list[tuple[str, str]] = []
    is_open = False
    for line in text.split("\n"):
        first, more = _COMMENT.fullmatch(line), _CONTINUED.fullmatch(line)
        if first:
            found.append((first["label"], first["text"]))
        elif more and is_open:
            found[-1] = (found[-1][0], f"{found[-1][1]} {more['text']}")
        is_open = bool(first or (more and is_open))
    return tuple(found)
