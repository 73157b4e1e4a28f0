"""A query as a text of some form: what makes two queries be of one shape, and what differs between
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import urljoin

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.graph.diagnostic_spans import inside, point
from fedkg_compiler.graph.sparql_syntax.tokens import Token, TokenKind, tokens
from fedkg_compiler.graph.sparql_syntax.tree import Const, Place


class SparqlProblem(
    Exception
):  # control flow inside this folder: becomes a diagnostic of each query of the shape
    """Something in a query that cannot be read or split.

    Attributes:
        code: the code of the diagnostic.
        at: the place of the problem in the query.
        message: the message of the diagnostic.
        help: the help of the diagnostic, or "".
    """

    def __init__(self, code: str, at: Place, message: str, help: str = "") -> None:
        super().__init__(message)
        self.code, self.at, self.message, self.help = code, at, message, help


@dataclass(frozen=True, slots=True, eq=False)
class Prologue:
    """The declarations of a query: its prefixes, those of the rule files, and the base IRI."""

    prefixes: Mapping[str, str]
    base: str
    _known: dict[str, str] = field(default_factory=dict)

    def iri(self, text: str) -> str | None:
        """``<iri>`` of an IRI or prefixed name as it is written; None where the prefix is not
        known.
        """
        if text not in self._known:
            if text.startswith("<"):
                self._known[text] = (
                    f"<{urljoin(self.base, text[1:-1]) if self.base else text[1:-1]}>"
                )
            else:
                prefix, _, local = text.partition(":")
                if prefix not in self.prefixes:
                    return None
                self._known[text] = f"<{self.prefixes[prefix]}{local.replace(chr(92), '')}>"
        return self._known[text]

    def has(self, constants: Sequence[str]) -> bool:
        """Whether the prefixes of all names among some constants are known."""
        return all(
            text in self._known or text[0] in "\"'0123456789" or self.iri(text) is not None
            for text in constants
        )


def read_prologue(words: Sequence[Token], known: Mapping[str, str]) -> tuple[Prologue, int]:
    """Return what PREFIX and BASE say, and the number of words that this takes.

    Args:
        words: the words of a query.
        known: prefixes that the query may use without declaring them.
    """
    prefixes, base, start = dict(known), "", 0
    while start + 1 < len(words) and words[start].kind == "word":
        head, kinds = (
            words[start].text.upper(),
            [word.kind for word in words[start + 1 : start + 3]],
        )
        if head == "PREFIX" and kinds == ["pname", "iri"]:
            iri = words[start + 2].text[1:-1]
            prefixes[words[start + 1].text[:-1]] = urljoin(base, iri) if base else iri
            start += 3
        elif head == "BASE" and kinds[0] == "iri":
            base = words[start + 1].text[1:-1]
            start += 2
        else:
            break
    return Prologue(prefixes, base), start


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """The words behind a prologue, without the constants among them.

    Attributes:
        shape: the words as one text, with a placeholder for each constant.
        kinds: the kind of each word.
        texts: the text of each word; for constants, that of one of the queries with this shape.
        holes: for the position of each constant among the words, its number among the constants.
    """

    shape: str
    kinds: tuple[TokenKind, ...]
    texts: tuple[str, ...]
    holes: Mapping[int, int]


@dataclass(frozen=True, kw_only=True)
class QueryText:
    """A query file, read into words.

    Attributes:
        text: the text of the query.
        prologue: its declarations.
        form: its words after the prologue, without the constants.
        constants: the constants among these words.
        body: the offset in `text` at which the prologue ends.
        file: the name of the file in messages.
        name: the name of the rule that the query becomes.
        title: the title, from the leading comments.
        kind: the kind of the rule, from the leading comments.
        weight: the weight of the rule, from the leading comments.
        hard: whether the rule is hard, from the leading comments.
        sha256: the checksum of the file, or "".
        place: the place of the whole query if it is part of another file; else None.
    """

    text: str
    prologue: Prologue
    form: Form
    constants: tuple[str, ...]
    body: int
    file: str = ""
    name: str = ""
    title: str = ""
    kind: str = "other"
    weight: float = 1.0
    hard: bool = False
    sha256: str = ""
    place: Span | None = None

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """Its words behind the prologue, with their places."""
        return tuple(word for word in tokens(self.text) if word.start >= self.body)

    def span(self, at: Place) -> Span:
        """Return the position of a place of the tree in the file."""
        if self.place is not None:
            return self.place
        whole = Span(file=self.file, line=1, column=1, end_line=1, end_column=1)
        if not self.tokens:
            return inside(whole, self.text, 0, len(self.text))
        first, last = (min(max(i, 0), len(self.tokens) - 1) for i in at)
        return inside(whole, self.text, self.tokens[first].start, self.tokens[max(first, last)].end)

    @property
    def start(self) -> Span:
        """Where it begins, behind its prologue."""
        return point(
            self.file,
            self.text.count("\n", 0, self.body) + 1,
            self.body - self.text.rfind("\n", 0, self.body),
        )

    def written(self, at: Place) -> str:
        """The text at a place, in one line."""
        first, last = (min(max(i, 0), len(self.tokens) - 1) for i in at)
        shown = " ".join(
            self.text[self.tokens[first].start : self.tokens[max(first, last)].end].split()
        )
        return shown if len(shown) <= 80 else f"{shown[:77]}..."

    def word(self, token: int) -> str:
        """The constant at a word as it is written."""
        return self.constants[self.form.holes[token]]

    def constant(self, token: int) -> str:
        """The constant at a word as SPARQL without prefixes: ``<iri>``, ``5``, ``"x"@en``,
        ``"5"^^<iri>``.

        Raises:
            SparqlProblem: its prefix is not known.
        """
        form, text = self.form, self.word(token)
        match form.kinds[token]:
            case "iri" | "pname":
                found = self.prologue.iri(text)
                if found is None:
                    prefix = text.partition(":")[0]
                    raise SparqlProblem(
                        "FKG110",
                        (token, token),
                        f"the prefix `{prefix}:` is not known",
                        f"add `PREFIX {prefix}: <...>`",
                    )
                return found
            case "string":
                following = form.kinds[token + 1 : token + 3]
                if following and following[0] == "language":
                    return text + form.texts[token + 1]
                if len(following) == 2 and form.texts[token + 1] == "^^":
                    return f"{text}^^{self.constant(token + 2)}"
                return text
            case _:
                return text

    def value(self, constant: Const) -> str:
        """A constant of the tree as SPARQL."""
        return (
            constant.text if constant.token < 0 else constant.sign + self.constant(constant.token)
        )
