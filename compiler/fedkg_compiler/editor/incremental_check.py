"""Diagnostics while somebody types: only what a change can affect is compiled again.

A compilation of all statements takes too long for an answer at each key. Rules do not see each
other, except in the analysis of what they mean together. So the quick check compiles the
declarations and the changed rules, in a text in which all other rules are blank lines, and repeats
the earlier diagnostics of the others. An edited declaration changes all rules that read it: they
are compiled some at a time, so that a server can answer in between. A full check in another process
(`full_check`) corrects what this leaves out, a moment after the last change.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
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

ONCE_PER_NAME = ("FKG200", "FKG217", "FKG242", "FKG243")
"""Codes that the compiler reports once per file for the name at the beginning of the message."""

ONCE_PER_FILE = (("FKG218", "info"), ("FKG250", "error"), ("FKG260", "info"))
"""Codes and severities that the compiler reports once per file."""

APPLIES_TO_NOTHING = ("FKG112", "FKG173", "FKG235", "FKG541")
"""Codes of rules that may have no row; they are errors if no rule of the file has one."""

BINDING_ORDER = ("rule", "infer", "set", "cause", "example", "range", "predict")
"""First words of statements in the order in which the compiler binds them, after all others."""

PART_SECONDS = 0.03
"""How long a part of a check should take: a change that arrives meanwhile waits for its end, and
its diagnostics are due after 0.1 s.
"""

SHORTEST_SECONDS = 0.001
"""How long the rules of a part take at least, however coarse the clock is."""

_WORD = re.compile(r"[^\W\d]\w*")
_NAME = re.compile(r"\w+\s+(?:of\s+)?(\w+)")
_DECLARED = re.compile(r'(?:^\w+\s+(?:of\s+)?|\bcolumn\s+)(\w+|`[^`]*`|"[^"]*")')

Key = tuple[str, int]
"""The text of a statement without the blank lines below it, and the number of equal ones above."""


@dataclass(slots=True)
class IncrementalCheck:
    """The diagnostics of one document, kept by statement.

    Attributes:
        graphs: files of graphs that the rules refer to besides those that they name themselves.
        memory: keeps the graph from one check to the next.
    """

    graphs: Sequence[Path | str] = ()
    memory: InputMemory = field(default_factory=InputMemory)
    _statements: _Statements | None = field(default=None, init=False)
    _known: dict[Key | None, list[Diagnostic]] = field(default_factory=dict, init=False)
    _outdated: frozenset[Key] = field(default=frozenset(), init=False)
    _seconds_per_rule: float = field(default=0.001, init=False)

    def check(self, document: RuleDocument) -> tuple[Diagnostic, ...]:
        """All diagnostics of the text, without those of rules that contradict each other.

        Raises:
            LimitError: the text is above a limit of `fedkg.limits`.
        """
        *_, found = self.check_in_parts(document)
        return found

    def check_in_parts(self, document: RuleDocument) -> Iterator[tuple[Diagnostic, ...]]:
        """All diagnostics after each part of the check; the last ones are those of `check`.

        The first part compiles the declarations and the edited statements. The others compile what
        reads an edited declaration, and until then its earlier diagnostics are repeated, like those
        in other files. The next check compiles what a check that ended early has left out.

        Raises:
            LimitError: the text is above a limit of `fedkg.limits`.
        """
        now = _Statements(document)
        edited, affected = self._changed(now)
        renewed = edited | affected - now.independent
        part = edited & now.independent
        later = affected & now.independent - part
        waiting = [key for key in now.chunks if key in later]
        elsewhere = [
            one
            for one in self._repeated(now, {None})
            if len(affected) < len(now.chunks) and one.span.file not in ("", str(document.path))
        ]
        size, fixed = 0, 0.0
        while True:
            begun = time.process_time()
            part = now.with_named({*part, *waiting[:size]})
            waiting = [key for key in waiting if key not in part]
            compiled = part | now.declarations
            text = now.blank_all_but(compiled | now.with_named(self._sound(now)))
            fresh = check_text(document.path, text, self.graphs, self.memory)
            found = [one for one in fresh if (key := now.at(one.span)) is None or key in compiled]
            found += [*elsewhere, *self._repeated(now, now.chunks.keys() - part - renewed)]
            shown = self._keep(now, now.each_once(found), waiting)
            seconds = time.process_time() - begun
            yield shown
            if not waiting:
                return
            if size:
                rules = max(seconds - fixed, SHORTEST_SECONDS)
                self._seconds_per_rule = rules / len(part)
            else:
                fixed = seconds
            size = part_size(fixed, self._seconds_per_rule)
            part, renewed, elsewhere = set(), set(), self._known.get(None, [])

    def remember(
        self, document: RuleDocument, diagnostics: Iterable[Diagnostic]
    ) -> tuple[Diagnostic, ...]:
        """Keep the diagnostics of a check of this text for the next one; they come back in order.

        Args:
            document: what was checked.
            diagnostics: what the check found in all its files.
        """
        return self._keep(_Statements(document), diagnostics, ())

    def _keep(
        self, now: _Statements, diagnostics: Iterable[Diagnostic], outdated: Iterable[Key]
    ) -> tuple[Diagnostic, ...]:
        found = tuple(sorted(diagnostics, key=lambda one: (one.span, one.code)))
        self._known = {}
        for one in found:
            self._known.setdefault(now.at(one.span), []).append(one)
        self._statements, self._outdated = now, frozenset(outdated)
        return found

    def _changed(self, now: _Statements) -> tuple[Set[Key], Set[Key]]:
        """The edited statements, and those that the edits may affect."""
        before = self._statements
        if before is None:
            return now.chunks.keys(), set()
        new, gone = (
            now.chunks.keys() - before.chunks.keys(),
            before.chunks.keys() - now.chunks.keys(),
        )
        edited = [*(now.chunks[key] for key in new), *(before.chunks[key] for key in gone)]
        ended = [one for key in gone for one in self._known.get(key, ())]
        if any(one.first_word in FOR_ALL for one in edited) or any(
            (one.code, one.severity) in ONCE_PER_FILE for one in ended
        ):
            return new, now.chunks.keys()
        names = {name for one in edited for name in _declared(one)}
        names |= {
            name
            for one in ended
            if one.code in ONCE_PER_NAME
            for name in _WORD.findall(one.message.split("`")[1])
        }
        words = {name for one in edited for name in _WORD.findall(one.text)}
        for key in now.declarations & self._known.keys():  # a rule may be the reason
            names |= words & _declared(now.chunks[key])
        affected: set[Key] = set()
        known = 0
        while len(names) > known:  # declarations read each other
            known = len(names)
            affected = {key for key in now.chunks if not names.isdisjoint(now.words(key))}
            names |= {
                name for key in affected & now.declarations for name in _declared(now.chunks[key])
            }
        affected |= {
            key
            for key in now.chunks
            for one in self._known.get(key, ())
            if any(before.at(related.span) in gone for related in one.related)
        }
        return new, affected | (self._outdated & now.chunks.keys())

    def _sound(self, now: _Statements) -> set[Key]:
        """A rule and an example, if possible without diagnostics: without any, the text would be
        diagnosed as one without rules, or without rules that apply to anything.
        """

        def flaws(key: Key) -> tuple[bool, bool]:
            codes = {one.code for one in self._known.get(key, ())}
            return not codes.isdisjoint(APPLIES_TO_NOTHING), bool(codes)

        found: dict[str, Key] = {}
        for key in sorted((key for key in now.chunks if key in now.independent), key=flaws):
            found.setdefault(now.chunks[key].first_word, key)
        return set(found.values())

    def _repeated(self, now: _Statements, keys: Set[Key | None]) -> Iterator[Diagnostic]:
        """The earlier diagnostics of statements, at the lines where everything is now; with None,
        those outside of statements.
        """
        before = self._statements

        def move(span: Span) -> Span:
            key = None if before is None else before.at(span)
            if before is None or key is None or key not in now.chunks:
                return span
            return moved(span, now.chunks[key].line - before.chunks[key].line)

        for key in keys & self._known.keys():
            yield from (_with_spans(one, move) for one in self._known[key])


class _Statements:
    """The statements of a document, by key."""

    def __init__(self, document: RuleDocument) -> None:
        self._file = str(document.path)
        self._text = plain_text(document.text)
        self._lines: dict[int, Key] = {}
        self.chunks: dict[Key, Chunk] = {}
        above = Counter[str]()
        for chunk in _units(document):
            text = chunk.text.rstrip()
            key = text, above[text]
            above[text] += 1
            self.chunks[key] = chunk
            end = chunk.line + chunk.text.count("\n") + (not chunk.text.endswith("\n"))
            self._lines.update(dict.fromkeys(range(chunk.line, end), key))
        self.independent = {
            key for key, chunk in self.chunks.items() if chunk.first_word in INDEPENDENT
        }
        self.declarations = self.chunks.keys() - self.independent
        self._words: dict[Key, frozenset[str]] = {}

    def at(self, span: Span) -> Key | None:
        """The statement at a place; None in another file."""
        return self._lines.get(span.line) if span.file == self._file else None

    def words(self, key: Key) -> frozenset[str]:
        """The words of a statement."""
        if key not in self._words:
            self._words[key] = frozenset(_WORD.findall(key[0]))
        return self._words[key]

    def with_named(self, keys: Set[Key]) -> set[Key]:
        """Statements with the rules and examples that they name: none is complete without these."""
        used = {word for key in keys for word in self.words(key)}
        return {
            key
            for key in self.independent
            if key in keys or ((found := _NAME.match(key[0].lstrip())) and found[1] in used)
        }

    def blank_all_but(self, kept: Set[Key]) -> str:
        """The text with empty lines in place of all other statements."""
        lead = len(self._text) - sum(len(chunk.text) for chunk in self.chunks.values())
        return self._text[:lead] + "".join(
            chunk.text if key in kept else "\n" * chunk.text.count("\n")
            for key, chunk in self.chunks.items()
        )

    def each_once(self, found: Iterable[Diagnostic]) -> list[Diagnostic]:
        """Diagnostics of several compilations as one compilation reports them: what it reports once
        per file or name is kept at the place that it binds first, and equal ones are kept once.
        """
        kept: dict[object, Diagnostic] = {}
        for one in sorted(found, key=self._bound):
            is_once = one.code in ONCE_PER_NAME or (one.code, one.severity) in ONCE_PER_FILE
            name = tuple(one.message.split("`")[1:2])
            here = self.at(one.span) is not None
            kept.setdefault((one.code, one.severity, name) if is_once and here else one, one)
        return list(kept.values())

    def _bound(self, one: Diagnostic) -> tuple[int, Span]:
        """When the compiler binds the statement of a diagnostic, as a number and a place."""
        key = self.at(one.span)
        word = "" if key is None else self.chunks[key].first_word
        return BINDING_ORDER.index(word) if word in BINDING_ORDER else -1, one.span


def part_size(fixed: float, each: float) -> int:
    """The number of rules of a part, if it takes `fixed` seconds and `each` more for each rule.

    A part takes `PART_SECONDS`, or three times what every part repeats: so all parts together take
    at most about twice as long as one check of everything.
    """
    return max(1, round(max(PART_SECONDS - fixed, 2 * fixed) / each))


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


def _declared(chunk: Chunk) -> set[str]:
    """The words of the names that a statement declares."""
    names = _DECLARED.findall(chunk.text.lstrip())
    return {word for name in names for word in _WORD.findall(name)}


def _with_spans(diagnostic: Diagnostic, move: Callable[[Span], Span]) -> Diagnostic:
    """A diagnostic with all its places moved."""
    fix = diagnostic.fix
    return replace(
        diagnostic,
        span=move(diagnostic.span),
        related=tuple(replace(one, span=move(one.span)) for one in diagnostic.related),
        fix=fix and Fix(edits=tuple(replace(one, span=move(one.span)) for one in fix.edits)),
    )
