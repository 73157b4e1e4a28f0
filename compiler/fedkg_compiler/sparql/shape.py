"""A query as words: what makes two queries be of one shape, and what differs between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urljoin

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.ontology.pattern import Token, tokens
from fedkg_compiler.ontology.places import inside
from fedkg_compiler.sparql.tree import Const, Place

_HOLES = {"iri": "<>", "pname": "<>", "number": "0", "string": '""'}
"""What stands in the shape for each kind of word that may differ."""


class SparqlProblem(Exception):  # control flow inside this folder: becomes a diagnostic of each query of the shape
    """Something in a query that cannot be read or split.

    Attributes:
        at: its place. code, message, help: of the diagnostic.
    """

    def __init__(self, code: str, at: Place, message: str, help: str = "") -> None:
        super().__init__(message)
        self.code, self.at, self.message, self.help = code, at, message, help


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryText:
    """A query file, read into words.

    Attributes:
        file: as it is shown. name: of the rule it becomes. title, kind, weight, hard: from its leading comments.
        words: its words behind the prologue. prefixes: its own, before those of the rule files.
        shape: what it has in common with queries that differ in constants alone.
    """

    file: str
    text: str
    words: tuple[Token, ...]
    prefixes: Mapping[str, str]
    base: str = ""
    shape: str = ""
    name: str = ""
    title: str = ""
    kind: str = "other"
    weight: float = 1.0
    hard: bool = False
    sha256: str = ""
    memo: dict[int, str] = field(default_factory=dict)

    def span(self, at: Place) -> Span:
        """Where a place of the tree stands in the file."""
        whole = Span(file=self.file, line=1, column=1, end_line=1, end_column=1)
        if not self.words:
            return inside(whole, self.text, 0, len(self.text))
        first, last = (min(max(i, 0), len(self.words) - 1) for i in at)
        return inside(whole, self.text, self.words[first].start, self.words[max(first, last)].end)

    def written(self, at: Place) -> str:
        """The text at a place, in one line."""
        first, last = (min(max(i, 0), len(self.words) - 1) for i in at)
        shown = " ".join(self.text[self.words[first].start : self.words[max(first, last)].end].split())
        return shown if len(shown) <= 80 else f"{shown[:77]}..."

    def constant(self, token: int) -> str:
        """The constant at a word as SPARQL without prefixes: ``<iri>``, ``5``, ``"x"@en``, ``"5"^^<iri>``.

        Raises:
            SparqlProblem: its prefix is not known.
        """
        if token not in self.memo:
            self.memo[token] = self._constant(token)
        return self.memo[token]

    def _constant(self, token: int) -> str:
        word = self.words[token]
        match word.kind:
            case "iri":
                return f"<{urljoin(self.base, word.text[1:-1]) if self.base else word.text[1:-1]}>"
            case "pname":
                prefix, _, local = word.text.partition(":")
                if prefix not in self.prefixes:
                    raise SparqlProblem("FKG110", (token, token), f"the prefix `{prefix}:` is not known", f"add `PREFIX {prefix}: <...>`")
                return f"<{self.prefixes[prefix]}{local.replace(chr(92), '')}>"
            case "string":
                following = self.words[token + 1 : token + 3]
                if following and following[0].kind == "language":
                    return word.text + following[0].text
                if len(following) == 2 and following[0].text == "^^":
                    return f"{word.text}^^{self.constant(token + 2)}"
                return word.text
            case _:
                return word.text

    def value(self, constant: Const) -> str:
        """A constant of the tree as SPARQL."""
        return constant.text if constant.token < 0 else constant.sign + self.constant(constant.token)


def read_words(text: str, prefixes: Mapping[str, str]) -> tuple[tuple[Token, ...], dict[str, str], str, str]:
    """The words of a query behind its prologue, its prefixes (over those given), its base, and its shape."""
    words = tokens(text)
    known, base, start = dict(prefixes), "", 0
    while start + 1 < len(words) and words[start].kind == "word":
        head = words[start].text.upper()
        if head == "PREFIX" and start + 2 < len(words) and words[start + 1].kind == "pname" and words[start + 2].kind == "iri":
            iri = words[start + 2].text[1:-1]
            known[words[start + 1].text[:-1]] = urljoin(base, iri) if base else iri
            start += 3
        elif head == "BASE" and words[start + 1].kind == "iri":
            base = words[start + 1].text[1:-1]
            start += 2
        else:
            break
    rest = tuple(words[start:])
    shape = " ".join(
        _HOLES.get(word.kind) or ("?" + word.text if word.kind == "variable" else word.text.upper() if word.kind == "word" else word.text)
        for word in rest
    )
    return rest, known, base, shape
