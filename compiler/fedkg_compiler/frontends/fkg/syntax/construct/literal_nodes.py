"""Strings, names of the graph, numbers and quantities."""

from __future__ import annotations

import math
import re
import sys

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.syntax.construct.statement_context import Statement, token, tokens
from fedkg_compiler.frontends.fkg.syntax.grammar import Branch, Token
from fedkg_compiler.frontends.fkg.syntax.tree import Head, Number, Quantity, TermName, Word

_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "r": "\r"}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|[\s\S])")
_LATE = ("hard", "require")


def string(at: Statement, quoted: Token) -> Word:
    """A ``"text"`` without its quotes and escapes; its span has the quotes."""

    def unescape(found: re.Match[str]) -> str:
        letter = found[1]
        if len(letter) == 5:
            return chr(int(letter[1:], 16))
        if letter not in _ESCAPES:
            start = found.start()
            span = at.chunk.span(quoted.start_pos + start, quoted.start_pos + start + 2)
            at.report(
                "FKG036",
                span,
                f"`\\{letter}` is not a valid escape",
                'a backslash in a text is written \\\\, a quote \\"',
            )
            return found[0]
        return _ESCAPES[letter]

    raw = str(quoted)
    text = _ESCAPE.sub(unescape, raw) if "\\" in raw else raw
    return Word(span=at.span(quoted), text=text[1:-1])


def plain(at: Statement, name: Token) -> Word:
    """A name, ``"text"``, ``?variable``, ``<iri>`` or `` `tag` `` without the marks around it; its
    span has the marks.
    """
    match name.type:
        case "STRING":
            return string(at, name)
        case "QUOTED" | "IRI":
            return Word(span=at.span(name), text=str(name)[1:-1])
        case _ if str(name).startswith("?"):
            return Word(span=at.span(name), text=str(name)[1:])
        case _:
            return at.word(name)


def term_name(at: Statement, branch: Branch) -> TermName:
    """Return the one name of the graph that is a direct child of a branch."""
    name = token(branch, "PNAME", "IRI", "NAME")
    match name.type:
        case "PNAME":
            return TermName(span=at.span(name), text=str(name), form="pname")
        case "IRI":
            return TermName(span=at.span(name), text=str(name)[1:-1], form="iri")
        case _:
            return TermName(span=at.span(name), text=str(name), form="name")


def head(at: Statement, branch: Branch) -> Head:
    """``temperature(?zone)``, ``speed`` or `` `TIC-101.PV` ``."""
    name = token(branch, "NAME", "QUOTED")
    variables = tokens(branch, "VAR")
    return Head(
        span=at.span(branch),
        name=plain(at, name),
        variable=plain(at, variables[0]) if variables else None,
        quoted=name.type == "QUOTED",
    )


def number(at: Statement, written: Token) -> Number:
    """Return a number with its spelling.

    A number beyond float64 is reported, and the largest float64 replaces it.
    """
    value = float(written)
    if math.isinf(value):
        at.report(
            "FKG037",
            at.span(written),
            "this number is too large",
            "the largest number is about 1.8e308",
        )
        value = sys.float_info.max
    return Number(value, str(written))


def signed(at: Statement, branch: Branch) -> tuple[Number, Span]:
    """A number with its sign, and its place."""
    value = number(at, token(branch, "NUMBER"))
    return (Number(-value, f"-{value.written}") if len(branch.children) == 2 else value), at.span(
        branch
    )


def quantity(at: Statement, branch: Branch) -> Quantity:
    """A number with its unit, where one is written."""
    units = tokens(branch, "UNIT")
    if units and str(units[0]) in _LATE:
        hint = "options come before require: rule NAME hard require ..."
        at.report("FKG015", at.span(units[0]), f"`{units[0]}` comes after the condition", hint)
    return Quantity(
        span=at.span(branch),
        value=number(at, token(branch)),
        unit=at.word(units[0]) if units else None,
    )
