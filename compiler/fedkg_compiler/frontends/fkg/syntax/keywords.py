"""The words of the rule language."""

from __future__ import annotations

from functools import cache

from fedkg_compiler.frontends.fkg.syntax.parse_table import table


@cache
def keywords() -> dict[str, str]:
    """The words and signs of the language (``require``, ``and``, ``..``), by the name of their
    terminal in the grammar.
    """
    known = table()
    return {name: word for word, name in known.words.items()} | known.signs


STATEMENT_WORDS = (
    "use",
    "prefix",
    "timeline",
    "rows",
    "signal",
    "output",
    "label",
    "rule",
    "constant",
    "template",
    "infer",
    "range",
    "predict",
    "set",
    "cause",
    "example",
    "shapes",
    "queries",
)
