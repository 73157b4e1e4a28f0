"""What is looked for in the text of a graph before its triples are; of a graph without a text it is noted whether it occurs."""

from __future__ import annotations

from fedkg_compiler.ontology.alignment.accepted import MARK
from fedkg_compiler.ontology.standard import FKG
from fedkg_compiler.ontology.two_names import NEWER, OLDER

MARKS = (OLDER, NEWER, FKG + MARK)
"""Beginnings of IRIs."""


def marks_in(lines: bytes) -> frozenset[str]:
    """Return which of them occur in N-Triples."""
    return frozenset(mark for mark in MARKS if f"<{mark}".encode() in lines)
