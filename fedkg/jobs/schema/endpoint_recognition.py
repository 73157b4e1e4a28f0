"""Recognise SPARQL endpoints among the graphs of a job."""

from __future__ import annotations


def is_address(text: str) -> bool:
    """Whether a graph is given as an address rather than a path."""
    return text.lower().startswith(("http://", "https://"))
