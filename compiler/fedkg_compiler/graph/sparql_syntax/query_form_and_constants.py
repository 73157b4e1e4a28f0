"""Splits the text of a query into its form and its constants; known forms are fast."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from fedkg_compiler.graph.sparql_syntax.query_text import Form, Prologue, QueryText, read_prologue
from fedkg_compiler.graph.sparql_syntax.tokens import Token, tokens

_HOLES = {"iri": "<>", "pname": "<>", "number": "0", "string": '""'}
"""The placeholder in the shape for each kind of token that may differ."""

_LONG = 20_000
"""Characters of a query beyond which it is read word by word; cutting takes quadratic time."""
_IRI = r"<(?![?$])[^<>\"{}|^`\\\x00-\x20]*>"
_LEAD = re.compile(r"(?:\s+|#[^\n]*)*")
_HEAD = re.compile(
    rf"(?:(?:PREFIX\s+(?:[A-Za-z][A-Za-z0-9_-]*)?:|BASE)\s*{_IRI}\s*)*", re.IGNORECASE
)
_MORE = re.compile(r"#|PREFIX\b|BASE\b", re.IGNORECASE)


@cache
def _constant() -> re.Pattern[str]:
    """The pattern of constants between other tokens; compiled on first use."""
    return re.compile(
        r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'"""
        rf"|{_IRI}"
        r"|(?<![\w:.?$@-])(?:[A-Za-z](?:[\w.-]*[\w-])?)?:[A-Za-z0-9_](?:[\w.-]*[\w-])?(?![\w:%\\-])"
        r"|(?<![\w:.?$@])[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w:-]))",
        re.ASCII,
    )


@dataclass(slots=True, eq=False)
class Reader:
    """Splits query texts into forms and constants; `prefixes` are those of the rule files.

    A text is cut at everything that looks like a constant, which takes a tenth of the time of
    reading all tokens. The pieces between the constants identify a form that was tokenised
    before. A text for which this fails is tokenised.
    """

    prefixes: Mapping[str, str]
    _prologues: dict[str, Prologue] = field(default_factory=dict)
    _forms: dict[tuple[str, ...], Form | None] = field(default_factory=dict)

    def read(self, text: str) -> QueryText:
        """The query of a text."""
        lead = _LEAD.match(text)
        head = _HEAD.match(text, lead.end() if lead else 0)
        assert head is not None, "it matches nothing too"
        body = head.end()
        if len(text) > _LONG or _MORE.match(text, body) or '"""' in text or "'''" in text:
            return self._slowly(text)
        pieces = _constant().split(text[body:])
        constants = tuple(pieces[1::2])
        key = (*pieces[::2], "".join([_kind(item) for item in constants]))
        if key not in self._forms:
            words = _behind(text, body)
            self._forms[key] = (
                _form(words) if _constant_positions(words) == _cuts(pieces, body) else None
            )
        form = self._forms[key]
        if form is None:
            return self._slowly(text)
        said = head.group()
        if said not in self._prologues:
            self._prologues[said] = read_prologue(tokens(said), self.prefixes)[0]
        return QueryText(
            text=text, prologue=self._prologues[said], form=form, constants=constants, body=body
        )

    def _slowly(self, text: str) -> QueryText:
        """The same from all words of the text."""
        words = tokens(text)
        prologue, start = read_prologue(words, self.prefixes)
        rest = words[start:]
        form = _form(rest)
        return QueryText(
            text=text,
            prologue=prologue,
            form=form,
            constants=tuple([rest[i].text for i in form.holes]),
            body=rest[0].start if rest else len(text),
        )


def _behind(text: str, body: int) -> list[Token]:
    return [word for word in tokens(text) if word.start >= body]


def _form(words: Sequence[Token]) -> Form:
    shape = " ".join(
        [
            _HOLES.get(word.kind)
            or (
                "?" + word.text
                if word.kind == "variable"
                else word.text.upper()
                if word.kind == "word"
                else word.text
            )
            for word in words
        ]
    )
    holes = [i for i, word in enumerate(words) if word.kind in _HOLES]
    return Form(
        shape,
        tuple([word.kind for word in words]),
        tuple([word.text for word in words]),
        {token: i for i, token in enumerate(holes)},
    )


def _kind(constant: str) -> str:
    first = constant[0]
    return first if first in "<\"'" else "0" if first.isdigit() else ":"


def _constant_positions(words: Sequence[Token]) -> list[tuple[int, str, str]]:
    """Return the positions, texts and kinds of the constants among the tokens."""
    marks = {"iri": "<", "pname": ":", "number": "0"}
    return [
        (word.start, word.text, marks.get(word.kind, word.text[0]))
        for word in words
        if word.kind in _HOLES
    ]


def _cuts(pieces: Sequence[str], start: int) -> list[tuple[int, str, str]]:
    """The same of the pieces of a text that was cut at its constants."""
    found = []
    for i, piece in enumerate(pieces):
        if i % 2:
            found.append((start, piece, _kind(piece)))
        start += len(piece)
    return found
