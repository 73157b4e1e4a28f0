"""Graph patterns as text: unchanged between the braces, moved as a block to their indentation."""

from __future__ import annotations

import textwrap
from typing import assert_never

from fedkg_compiler.frontends.fkg.syntax.printing.literals import term, text, variables
from fedkg_compiler.frontends.fkg.syntax.tree import InClass, InQuery, InTable, Pattern, Quantifier

_LONG_TEXTS = ('"""', "'''")
_OPTION, _INSIDE = 2, 4


def quantifier(node: Quantifier, *, block: bool = False) -> str:
    """``for ?a, ?b`` with its source; with `block` its pattern has separate lines."""
    source = node.source
    match source:
        case Pattern():
            over = f"where {braces(source.text, _OPTION, block=block)}"
        case InClass():
            over = f"in class {term(source.term)}"
        case InTable():
            over = f"in table {text(source.path.text)}"
        case InQuery():
            over = f"in query {text(source.path.text)}"
        case _:
            assert_never(source)
    return f"for {variables(node.variables)} {over}"


def members(source: Pattern | InClass) -> str:
    """``where { ... }`` or ``in class T``, behind ``over ?p``."""
    return (
        f"in class {term(source.term)}"
        if isinstance(source, InClass)
        else f"where {braces(source.text, _INSIDE)}"
    )


def braces(written: str, indent: int, *, block: bool = False) -> str:
    """Return a pattern in braces: on one line, or as a block that closes at column `indent`.

    A pattern with a text of several lines is not moved: its indentation belongs to the text.
    """
    if any(mark in written for mark in _LONG_TEXTS) and "\n" in written.strip():
        return f"{{{written}}}"
    if not written.strip():
        return "{ }"
    if "\n" not in written.strip() and "#" not in written and not block:
        return f"{{ {written.strip()} }}"
    first, _, rest = written.partition("\n")
    lines = [
        line.rstrip() for line in [first.strip(), *textwrap.dedent(_without_edge(rest)).split("\n")]
    ]
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    inside = " " * (indent + 2)
    shown = [inside + line if line else "" for line in lines]
    return "\n".join(["{", *shown, " " * indent + "}"])


def _without_edge(rest: str) -> str:
    """The lines below the first; blank ones, and the one before the closing brace, say nothing
    about the indentation.
    """
    return "\n".join(line if line.strip() else "" for line in rest.split("\n"))
