"""Reads OWL 2 functional-style syntax (W3C Structural Specification, 2nd edition 2012) into
triples, axiom by axiom.

A mistake costs its axiom; the next one is read on. py-horned-owl reads this syntax too, but loses a
whole file to one mistake (docs/decisions/037).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.diagnostic_spans import FILE_READ_ON
from fedkg_compiler.graph.sources.axiom_trees import Node, Part, Problems, Tree, Unsound, expanded
from fedkg_compiler.graph.sources.axiom_triples import NEVER_INSIDE, Axioms
from fedkg_compiler.graph.sources.result import Read
from fedkg_compiler.graph.standard_vocabularies import STANDARD_PREFIXES

_TOKEN = re.compile(
    r"""(?P<space>[\s,]+|\#[^\n]*)|(?P<iri><[^<>\n]*>)|(?P<text>"[^"\\]*(?:\\.[^"\\]*)*")
    |(?P<language>@[A-Za-z0-9-]+)|(?P<typed>\^\^)
    |(?P<open>\()|(?P<close>\))|(?P<is>=)|(?P<word>[^\s()<>"=@^\#,][^\s()<>"=@^,]*)|(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"[0-9]{1,9}\Z")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_DEEPEST_OPEN = 10_000


@dataclass(slots=True)
class _Open:
    """A construct before its closing parenthesis.

    Attributes:
        failure: the first mistake inside the construct, or None.
        pending: the last word inside a `Prefix` construct, the prefix that its IRI belongs to; None
            outside.
        typed: whether ``^^`` was read, so that a datatype follows the last part.
    """

    name: str
    at: int
    parts: list[Part] = field(default_factory=list)
    failure: Unsound | None = None
    pending: str | None = None
    typed: bool = False


class _Reader:
    """One pass over a file."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.problems = Problems(file, [])
        self.axioms = Axioms(self.problems)
        self.prefixes = dict(STANDARD_PREFIXES)
        self.declared: dict[str, str] = {}
        self.stack: list[_Open] = []
        self.word: tuple[str, int] | None = None
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def line_and_column(self, at: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        line = bisect_right(self.starts, at)
        return line, at - self.starts[line - 1] + 1

    def fail(self, at: int, message: str, help: str = FILE_READ_ON) -> None:
        """Report a mistake, or drop the axiom that contains it."""
        failure = self.problems.mistake(*self.line_and_column(at), message, help)
        if len(self.stack) > 1:
            self.stack[-1].failure = self.stack[-1].failure or failure
        else:
            self.problems.note(failure.problem)

    def run(self) -> None:
        """Read the whole file."""
        for match in _TOKEN.finditer(self.text):
            kind = match.lastgroup
            if kind == "space":
                continue
            if kind == "open":
                self.begin(match.start())
                continue
            if kind == "is" and self.stack and self.stack[-1].name == "Prefix":
                continue
            self.flush()
            if kind == "close":
                self.end(match.start())
            elif kind == "word":
                self.word = (match.group(), match.start())
            else:
                self.part(kind or "other", match.group(), match.start())
        self.flush()
        if self.stack:
            inner = self.stack[min(1, len(self.stack) - 1)]
            self.problems.note(
                self.problems.mistake(
                    *self.line_and_column(inner.at),
                    "the functional syntax ends before the part that begins here is complete",
                    "is the file complete?",
                ).problem
            )

    def begin(self, at: int) -> None:
        """Open a construct; a parenthesis without a word (in `HasKey`) groups, and adds nothing."""
        if self.word is not None and ":" in self.word[0]:
            self.flush()
        name, start = self.word if self.word is not None else ("", at)
        self.word = None
        if name in NEVER_INSIDE and len(self.stack) > 1 and self.stack[0].name == "Ontology":
            before = self.stack[1]
            message = f"`{before.name}` is not closed where the next axiom begins"
            self.problems.note(
                self.problems.mistake(
                    *self.line_and_column(before.at),
                    message,
                    "a `)` is missing; the axiom is left out",
                ).problem
            )
            del self.stack[1:]
        if len(self.stack) < _DEEPEST_OPEN:
            self.stack.append(_Open(name, start))
            if name == "Ontology" and len(self.stack) == 1:
                self.axioms.ontology = None

    def flush(self) -> None:
        """Take the word before the current token as a name, a number or a node."""
        if self.word is None:
            return
        (word, at), self.word = self.word, None
        if self.stack and self.stack[-1].name == "Prefix":
            self.stack[-1].pending = word
        elif _NUMBER.match(word):
            self.put(int(word))
        elif word.startswith("_:"):
            self.put(
                ox.BlankNode(
                    "n" + re.sub(r"[^A-Za-z0-9]", lambda mark: f"_{ord(mark.group()):x}_", word[2:])
                )
            )
        else:
            iri = expanded(word, self.prefixes)
            if iri is None:
                mark = word.partition(":")
                message = (
                    f"the prefix `{mark[0]}:` is not declared in this file"
                    if mark[1]
                    else f"`{word}` has no parentheses"
                )
                self.fail(
                    at,
                    message,
                    f"add `Prefix({mark[0]}:=<...>)`"
                    if mark[1]
                    else "add its arguments in parentheses; the axiom is left out",
                )
            else:
                self.named(iri, at)

    def named(self, iri: str, at: int) -> None:
        """Put an IRI in its place."""
        try:
            node = self.problems.iri(iri, *self.line_and_column(at))
        except Unsound as failure:
            if len(self.stack) > 1:
                self.stack[-1].failure = self.stack[-1].failure or failure
            else:
                self.problems.note(failure.problem)
            return
        top = self.stack[-1] if self.stack else None
        if (
            top is not None
            and top.typed
            and top.parts
            and isinstance(literal := top.parts[-1], ox.Literal)
        ):
            top.parts[-1] = ox.Literal(literal.value, datatype=node)
            top.typed = False
            return
        self.put(node)

    def put(self, part: Node | int) -> None:
        """Add a part to the construct at hand; for the ontology itself its IRI and version."""
        if self.stack:
            self.stack[-1].parts.append(part)

    def part(self, kind: str, text: str, at: int) -> None:
        """Take a token that is neither a word nor a parenthesis."""
        top = self.stack[-1] if self.stack else None
        if top is not None and top.name == "Prefix" and kind == "iri":
            prefix = (top.pending or ":").removesuffix(":")
            self.prefixes[prefix] = self.declared[prefix] = text[1:-1]
        elif kind == "iri":
            self.named(text[1:-1], at)
        elif kind == "text":
            self.put(ox.Literal(_ESCAPED.sub(r"\1", text[1:-1])))
        elif (
            kind == "language"
            and top is not None
            and top.parts
            and isinstance(literal := top.parts[-1], ox.Literal)
        ):
            try:
                top.parts[-1] = ox.Literal(literal.value, language=text[1:].lower())
            except ValueError:
                self.fail(at, f"`{text}` is not a language tag")
        elif (
            kind == "typed"
            and top is not None
            and top.parts
            and isinstance(top.parts[-1], ox.Literal)
        ):
            top.typed = True
        else:
            self.fail(at, f"`{text}` does not belong here")

    def end(self, at: int) -> None:
        """Close the construct at hand: into its parent, or as an axiom of the ontology."""
        if not self.stack:
            self.fail(at, "this parenthesis has no opening one")
            return
        done = self.stack.pop()
        above = self.stack[-1] if self.stack else None
        if above is None:
            if done.name == "Ontology":
                self.head(done)
            return
        if len(self.stack) == 1 and above.name == "Ontology":
            self.head(above)
            self.axiom(done)
        elif done.failure is not None:
            above.failure = above.failure or done.failure
        elif not done.name:
            above.parts += done.parts
        else:
            above.parts.append(Tree(done.name, tuple(done.parts), *self.line_and_column(done.at)))

    def head(self, ontology: _Open) -> None:
        """Say which ontology this is, once."""
        if self.axioms.ontology is None:
            names = [part for part in ontology.parts if isinstance(part, ox.NamedNode)]
            self.axioms.begin(names[0] if names else None, names[1] if len(names) > 1 else None)

    def axiom(self, done: _Open) -> None:
        """Hand an axiom on, unless something in it is wrong."""
        if done.failure is not None:
            self.problems.note(done.failure.problem)
        elif done.name == "Import":
            for part in done.parts:
                if isinstance(part, ox.NamedNode):
                    self.axioms.imports(part)
        else:
            self.axioms.add(Tree(done.name, tuple(done.parts), *self.line_and_column(done.at)))


def read(text: str, file: str, folder: Path | None) -> Read:
    """Return the triples of a file in functional syntax; `folder` plays no part."""
    del folder
    reader = _Reader(text, file)
    reader.run()
    return Read(
        triples=reader.axioms.triples,
        prefixes=reader.declared,
        problems=tuple(reader.problems.found),
    )
