"""Words that fedkg searches for in the text of a graph before its triples.

Of a graph without a text it stores whether they occur.
"""

from __future__ import annotations

from fedkg_compiler.graph.alignment.mappings import MARK, NEWER, OLDER, SSSOM_MARK
from fedkg_compiler.graph.standard_vocabularies import FKG

MARKS = (OLDER, NEWER, FKG + MARK, SSSOM_MARK)
"""Beginnings of IRIs."""


def marks_in(lines: bytes) -> frozenset[str]:
    """Return which of them occur in N-Triples."""
    return frozenset(mark for mark in MARKS if f"<{mark}".encode() in lines)
