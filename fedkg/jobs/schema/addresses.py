"""Graphs that a job names by the address of a SPARQL endpoint."""

from __future__ import annotations


def is_address(text: str) -> bool:
    """Whether a job names a graph by an address rather than by a path."""
    return text.lower().startswith(("http://", "https://"))
