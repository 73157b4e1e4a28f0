"""Describes the tokens that the grammar accepts, in terms of rule authors."""

from __future__ import annotations

from collections.abc import Iterable

from fedkg_compiler.frontends.fkg.syntax.statement_grammar import keywords

_SAID = {
    "NUMBER": "a number",
    "NAME": "a name",
    "QUOTED": "a `name in backquotes`",
    "VAR": "a ?variable",
    "UNIT": "a unit",
    "STRING": 'a "text in quotes"',
    "CMP": "a comparison (<= >= == != < >)",
    "PNAME": "a term such as plant:Pump",
    "IRI": "an <iri>",
    "DOTTED": "a name",
    "SPARQL": "a graph pattern",
    "$END": "the end of the statement",
}
_VALUE = {"NAME", "NUMBER", "VAR", "QUOTED", "LPAR", "MINUS", "PAST"}
_CONDITION = _VALUE | {
    "NOT",
    "IF",
    "ALWAYS",
    "EVENTUALLY",
    "ONCE",
    "HISTORICALLY",
    "NEXT",
    "PREVIOUS",
    "INITIALLY",
    "FOLLOWS",
}
_ARITHMETIC = {"PLUS", "MINUS", "STAR", "SLASH", "CIRCUMFLEX"}
_RARE = {"BEGINS", "IFF", "XOR", "WEAK"}
"""Words that are listed after the others, because few statements need them."""
_MOST = 6


def describe_expected(accepts: Iterable[str]) -> list[str]:
    """Return up to `_MOST` descriptions of what may follow, the most informative ones first.

    Arithmetic operators are listed only if nothing else may follow.
    """
    known = keywords()
    names = {name for name in accepts if name in _SAID or name in known}
    said: list[str] = []
    if _VALUE - {"PAST"} <= names:
        said.append("a condition" if "NOT" in names else "a value (a name, a number, a ?variable)")
        names -= _CONDITION | {"LSQB", "WITHIN"}
    if names and names <= _ARITHMETIC:
        said.append("an operator (+ - * / ^)")
    names -= _ARITHMETIC
    if "DOTTED" in names:
        names.discard("NAME")
    end = "$END" in names
    said.extend(_SAID[name] for name in sorted(names) if name in _SAID and name != "$END")
    words = sorted(names & known.keys(), key=lambda name: (name in _RARE, name))
    said.extend(f"`{known[name]}`" for name in words)
    if end and len(said) < _MOST:
        said.append(_SAID["$END"])
    return said[:_MOST]


def join_alternatives(said: list[str]) -> str:
    """``a, b or c``."""
    return " or ".join(filter(None, [", ".join(said[:-1]), said[-1]])) if said else "nothing"
