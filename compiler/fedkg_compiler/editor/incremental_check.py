"""Diagnostics while somebody types: only what a change can affect is compiled again.

A compilation of all statements takes too long for an answer at each key. Rules do not see each
other, except in the analysis of what they mean together. So the quick check compiles the
declarations and the changed rules, in a text in which all other rules are blank lines, and repeats
the earlier diagnostics of the others. A full check in another process (`full_check`) corrects what
this leaves out, a moment after the last change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedkg_compiler.diagnostics.record import Diagnostic, Fix, Span
from fedkg_compiler.editor.rule_document import RuleDocument, moved
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import (
    STATEMENT_WORDS,
    Chunk,
    joined,
    plain_text,
)
from fedkg_compiler.input_files import InputMemory, instead, remembering
from fedkg_compiler.pipeline import compile_rules

INDEPENDENT = frozenset({"rule", "example"})
"""First words of statements that no other statement needs, apart from examples of a rule."""

FOR_ALL = ("use", "prefix", "timeline", "rows", "shapes", "queries")
"""First words of statements that may matter to every other one, though it does not name them."""

_WORD = re.compile(r"[^\W\d]\w*")
_NAME = re.compile(r"\w+\s+(?:of\s+)?(\w+)")


@dataclass(slots=True)
class IncrementalCheck:
    """The diagnostics of one document, kept by statement.

    Attributes:
        graphs: files of graphs that the rules refer to besides those that they name themselves.
        memory: keeps the graph from one check to the next.
    """

    graphs: Sequence[Path | str] = ()
    memory: InputMemory = field(default_factory=InputMemory)
    _known: dict[str, tuple[Diagnostic, ...]] = field(default_factory=dict, init=False)
    _chunks: list[Chunk] = field(default_factory=list, init=False)
    _declarations: tuple[str, ...] | None = field(default=None, init=False)

    def check(self, document: RuleDocument) -> tuple[Diagnostic, ...]:
        """All diagnostics of the text, without those of rules that contradict each other.

        Raises:
            LimitError: the text is above a limit of `fedkg.limits`.
        """
        chunks = _units(document)
        declarations = tuple(_key(c) for c in chunks if c.first_word not in INDEPENDENT)
        changed = set(self._changed(chunks, declarations))
        text = _blank_all_but(document.text, chunks, changed | _first_of_each_kind(chunks))
        fresh = check_text(document.path, text, self.graphs, self.memory)
        found = [
            *(one for one in fresh if not _is_inside(one, chunks) or _is_inside(one, changed)),
            *self._repeated((chunk for chunk in chunks if chunk not in changed), chunks),
        ]
        return self.remember(document, found)

    def remember(
        self, document: RuleDocument, diagnostics: Sequence[Diagnostic]
    ) -> tuple[Diagnostic, ...]:
        """Keep the diagnostics of a check of this text for the next one; they come back in order.

        Args:
            document: what was checked.
            diagnostics: what the check found in all its files.
        """
        chunks = _units(document)
        self._declarations = tuple(_key(c) for c in chunks if c.first_word not in INDEPENDENT)
        self._known = {
            _key(chunk): tuple(one for one in diagnostics if _contains(chunk, one.span))
            for chunk in chunks
        }
        self._chunks = chunks
        return tuple(sorted(diagnostics, key=lambda one: (one.span, one.code)))

    def _changed(self, chunks: Sequence[Chunk], declarations: tuple[str, ...]) -> list[Chunk]:
        """The statements to compile again: all declarations, what has changed, and what that
        names.
        """
        if self._declarations is None:
            return list(chunks)
        edited = set(declarations) ^ set(self._declarations)
        if any(text.split(maxsplit=1)[:1] in ([word] for word in FOR_ALL) for text in edited):
            return list(chunks)
        names = {found[1] for text in edited if (found := _NAME.match(text.lstrip()))}
        texts = {_key(chunk) for chunk in chunks}
        gone = [chunk for chunk in self._chunks if _key(chunk) not in texts]
        changed = {
            chunk
            for chunk in chunks
            if _key(chunk) not in self._known
            or any(
                _contains(other, related.span)
                for one in self._known[_key(chunk)]
                for related in one.related
                for other in gone
            )
        }
        used = {word for chunk in changed for word in _WORD.findall(chunk.text)}
        used |= {found[1] for chunk in changed if (found := _NAME.match(chunk.text.lstrip()))}
        return [
            chunk
            for chunk in chunks
            if chunk.first_word not in INDEPENDENT
            or chunk in changed
            or (names and not names.isdisjoint(_WORD.findall(chunk.text)))
            or ((found := _NAME.match(chunk.text.lstrip())) and found[1] in used)
        ]

    def _repeated(self, repeated: Iterable[Chunk], chunks: Sequence[Chunk]) -> list[Diagnostic]:
        """The earlier diagnostics of statements, at the lines where everything is now."""
        now = {_key(chunk): chunk.line for chunk in chunks}
        distances = [
            (chunk, now[_key(chunk)] - chunk.line) for chunk in self._chunks if _key(chunk) in now
        ]

        def move(span: Span) -> Span:
            return moved(span, next((by for old, by in distances if _contains(old, span)), 0))

        return [
            _with_spans(one, move) for chunk in repeated for one in self._known.get(_key(chunk), ())
        ]


def check_text(
    path: Path, text: str, graphs: Sequence[Path | str], memory: InputMemory
) -> tuple[Diagnostic, ...]:
    """The diagnostics of a text in the place of a file, without those of several rules together."""
    with instead({path: text.encode("utf-8", "surrogatepass")}), remembering(memory):
        return compile_rules([path], graphs=graphs, reason=False, check_only=True).diagnostics


def _units(document: RuleDocument) -> list[Chunk]:
    """The statements of a document, with lines that begin no statement as part of the one above:
    the parser reads them together.
    """
    units: list[Chunk] = []
    for chunk in document.chunks:
        if units and chunk.first_word not in STATEMENT_WORDS:
            units[-1] = joined([units[-1], chunk])
        else:
            units.append(chunk)
    return units


def _first_of_each_kind(chunks: Sequence[Chunk]) -> set[Chunk]:
    """A rule and an example: without any, the text would be diagnosed as one without rules."""
    firsts = {chunk.first_word: chunk for chunk in reversed(chunks)}
    return {firsts[word] for word in INDEPENDENT if word in firsts}


def _blank_all_but(text: str, chunks: Sequence[Chunk], kept: Set[Chunk]) -> str:
    """The text with empty lines in place of all other statements."""
    text = plain_text(text)
    lead = len(text) - sum(len(chunk.text) for chunk in chunks)
    return text[:lead] + "".join(
        chunk.text if chunk in kept else "\n" * chunk.text.count("\n") for chunk in chunks
    )


def _key(chunk: Chunk) -> str:
    """The text of a statement without the blank lines below it."""
    return chunk.text.rstrip()


def _with_spans(diagnostic: Diagnostic, move: Callable[[Span], Span]) -> Diagnostic:
    """A diagnostic with all its places moved."""
    fix = diagnostic.fix
    return replace(
        diagnostic,
        span=move(diagnostic.span),
        related=tuple(replace(one, span=move(one.span)) for one in diagnostic.related),
        fix=fix and Fix(edits=tuple(replace(one, span=move(one.span)) for one in fix.edits)),
    )


def _contains(chunk: Chunk, span: Span) -> bool:
    lines = chunk.text.count("\n") + (not chunk.text.endswith("\n"))
    return span.file == chunk.file and chunk.line <= span.line < chunk.line + lines


def _is_inside(diagnostic: Diagnostic, chunks: Collection[Chunk]) -> bool:
    return any(_contains(chunk, diagnostic.span) for chunk in chunks)
