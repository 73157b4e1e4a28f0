"""The words of a SPARQL pattern with their places: enough to check its names without parsing it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Literal, cast

_PN_START = (
    r"A-Za-z\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u02FF\u0370-\u037D\u037F-\u1FFF"
    r"\u200C-\u200D\u2070-\u218F\u2C00-\u2FEF\u3001-\uD7FF"
)
_PN = _PN_START + r"0-9_\u00B7\u0300-\u036F-"
_LONGEST = 100
"""Letters of a prefix; a long text without a colon is not searched from each of its letters on."""
TokenKind = Literal[
    "iri", "variable", "blank", "pname", "language", "string", "word", "number", "mark"
]


@dataclass(frozen=True, slots=True)
class Token:
    """One word of a pattern: ``text[start:end]`` of the text that was given.

    Variables come without ``?``.
    """

    kind: TokenKind
    text: str
    start: int
    end: int


@cache
def _token_pattern() -> re.Pattern[str]:
    """The pattern of a token; compiled on first use, because compiling is slow.

    An unterminated string is one token up to the end of the line or the pattern, so that no place
    is searched twice. No possessive repetition contains a look-ahead: Python 3.11.2, among others,
    matches these wrongly.
    """
    return re.compile(
        r"(?P<skip>\s+|\#[^\n]*)"
        r"""|(?P<string>\"\"\"(?:[^"\\]++|\\.|"(?!""))*(?:\"\"\"|\Z)"""
        r"""|\'\'\'(?:[^'\\]++|\\.|'(?!''))*(?:\'\'\'|\Z)"""
        r"""|"(?:[^"\\\n]++|\\.)*+(?:"|(?=\n)|\Z)|'(?:[^'\\\n]++|\\.)*+(?:'|(?=\n)|\Z))"""
        r"|(?P<iri><(?![?$])[^<>\"{}|^`\\\x00-\x20]*>)"
        r"|(?P<variable>[?$][A-Za-z_0-9\u00C0-\uD7FF]+)"
        rf"|(?P<blank>_:[{_PN}.]*[{_PN}])"
        rf"|(?P<pname>(?:[{_PN_START}][{_PN}.]{{0,{_LONGEST}}}+(?<!\.))?:"
        rf"(?:(?:[{_PN_START}_0-9:]|%[0-9A-Fa-f]{{2}}|\\.)"
        rf"(?:(?:[{_PN}:.]|%[0-9A-Fa-f]{{2}}|\\.)*(?:[{_PN}:]|%[0-9A-Fa-f]{{2}}|\\.))?)?)"
        r"|(?P<language>@[A-Za-z]+(?:-[A-Za-z0-9]+)*)"
        r"|(?P<word>[A-Za-z_][A-Za-z_0-9]*)"
        r"|(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
        r"|(?P<mark>\^\^|&&|\|\||!=|<=|>=|.)",
        re.DOTALL,
    )


def tokens(text: str) -> list[Token]:
    """Return the words of a pattern in order; white space and comments are left out."""
    return list(_tokens(text))


@lru_cache(maxsize=128)  # a query of a shape is looked at several times
def _tokens(text: str) -> tuple[Token, ...]:
    found: list[Token] = []
    for match in _token_pattern().finditer(text):
        kind = match.lastgroup
        if kind is None or kind == "skip":
            continue
        word = match.group()
        found.append(
            Token(
                cast(TokenKind, kind),
                word[1:] if kind == "variable" else word,
                match.start(),
                match.end(),
            )
        )
    return tuple(found)


def names_graph(text: str) -> bool:
    """Whether a query has GRAPH with anything but `$shapesGraph`."""
    return "GRAPH" in text.upper() and any(
        word.kind == "word" and word.text.upper() == "GRAPH" and graph.text != "shapesGraph"
        for word, graph in pairwise(tokens(text))
    )


def asks_service(text: str) -> bool:
    """Whether a query has SERVICE, for which the store opens a connection as soon as it is given
    the query.
    """
    return any(word.kind == "word" and word.text.upper() == "SERVICE" for word in tokens(text))
