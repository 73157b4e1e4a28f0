"""From the text of a rule file to its syntax tree and everything that is wrong with it."""

from __future__ import annotations

import re
from collections import deque
from functools import lru_cache
from itertools import islice

from fedkg._internal.name_matching import nearest_name
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.frontends.fkg.syntax.construct import (
    SIGNS,
    StatementText,
    build_declaration,
    build_knowledge,
)
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import (
    STATEMENT_WORDS,
    Branch,
    Chunk,
    Token,
    decode,
    is_table,
    joined,
    merge_markers,
    not_text,
    parse_statement,
    plain_text,
    split,
)
from fedkg_compiler.frontends.fkg.syntax.tree import Lost, RuleFile, Statement

MAX_PROBLEMS = 100
MAX_STATEMENT = 200_000
_MAX_RUN = 200
_MAX_LOST = 1_000
MAX_NESTING = 60
MAX_TERMS = 200
MAX_CHAIN = 5_000
"""Sides of one chain of comparisons and their operators."""
KEPT_STATEMENTS = 1_024
"""Statements that stay parsed: an editor compiles all declarations again after each change."""


def parse(text: str, file: str) -> tuple[RuleFile, tuple[Diagnostic, ...]]:
    """The tree of a rule file and its syntax errors, in file order; statements that do not parse
    are left out and named in ``lost``.

    Args:
        text: the text of the file, with any line ends, with or without byte order mark.
        file: the name of the file in places.

    There are at most `MAX_PROBLEMS` errors, and then one that says how many more there are.
    """
    text = plain_text(text)
    stranger = is_table(text, file) or not_text(text, file) or merge_markers(text, file)
    if stranger is not None:
        return RuleFile(file=file, text=text, statements=()), (stranger,)
    reading = _Reading(split(text, file))
    reading.run()
    reading.problems.sort(
        key=lambda problem: (problem.span.line, problem.span.column, problem.code == "FKG044")
    )
    tree = RuleFile(
        file=file, text=text, statements=tuple(reading.statements), lost=tuple(reading.lost)
    )
    return tree, tuple(reading.problems)


def statement_count(text: str) -> int:
    """How many statements a rule file has, without parsing them."""
    chunks = split(plain_text(text), "")
    return sum(chunk.first_word in STATEMENT_WORDS for chunk in chunks)


def parse_bytes(body: bytes, file: str) -> tuple[RuleFile, tuple[Diagnostic, ...]]:
    """`parse` for a file as it lies on disk: UTF-8, or UTF-16 with its byte order mark; another
    encoding is one more error.
    """
    text, problems = decode(body, file)
    tree, more = parse(text, file)
    if any(problem.code == "FKG045" for problem in more):
        return tree, more
    return tree, problems + more


class _Reading:
    """One pass over the chunks of a file."""

    def __init__(self, chunks: list[Chunk]) -> None:
        self.waiting = deque(chunks)
        self.statements: list[Statement] = []
        self.problems: list[Diagnostic] = []
        self.lost: list[Lost] = []

    def run(self) -> None:
        """Read every chunk, until there are more problems than anybody reads."""
        while self.waiting:
            chunk = self.waiting.popleft()
            if chunk.first_word in STATEMENT_WORDS:
                self._statement(chunk)
            else:
                self._stray(chunk)
            if len(self.problems) > MAX_PROBLEMS:
                self._give_up()

    def _statement(self, chunk: Chunk) -> None:
        """A chunk that begins as a statement does, with the lines below it that have lost their
        indentation.
        """
        run = self._run_below()
        if run:
            whole = joined([chunk, *run])
            parsed = _parse_chunk(whole)
            if parsed is not None:
                for _ in run:
                    self.waiting.popleft()
                self.problems.append(_why(run[0], start=True, continues=True))
                self._keep(whole, *parsed)
                return
        parsed = _parse_chunk(chunk)
        if parsed is not None:
            self._keep(chunk, *parsed)
            return
        if len(chunk.text) > MAX_STATEMENT:
            self.problems.append(_too_long(chunk))
        elif self._indented(chunk):
            return
        else:
            self.problems.append(_why(chunk))
        self._lose(chunk)

    def _indented(self, chunk: Chunk) -> bool:
        """Parse a statement that contains an indented second one as two statements, if it does."""
        from fedkg_compiler.frontends.fkg.syntax.explain import indented_statement

        parts = indented_statement(chunk)
        if parts is None:
            return False
        above, below, problem = parts
        self.problems.append(problem)
        self.waiting.appendleft(below)
        if not above.blank:
            self.waiting.appendleft(above)
        return True

    def _run_below(self) -> list[Chunk]:
        run: list[Chunk] = []
        for chunk in self.waiting:
            if chunk.first_word in STATEMENT_WORDS or len(run) == _MAX_RUN:
                break
            run.append(chunk)
        return run

    def _stray(self, chunk: Chunk) -> None:
        """A chunk that begins as no statement does."""
        self.problems.append(_why(chunk, start=True))
        self._lose(chunk)

    def _keep(
        self, chunk: Chunk, statement: Statement | None, problems: tuple[Diagnostic, ...]
    ) -> None:
        self.problems.extend(problems)
        if statement is None:
            self._lose(chunk)
        else:
            self.statements.append(statement)

    def _lose(self, chunk: Chunk) -> None:
        gone = find_lost_names(chunk)
        if gone is not None:
            self.lost.append(gone)

    def _give_up(self) -> None:
        """Keep the first problems, count what surely is wrong in the rest, and say so."""
        first = self.problems[MAX_PROBLEMS]
        more = (
            len(self.problems)
            - MAX_PROBLEMS
            + sum(chunk.first_word not in STATEMENT_WORDS for chunk in self.waiting)
        )
        for chunk in islice(self.waiting, _MAX_LOST):
            self._lose(chunk)
        self.waiting.clear()
        del self.problems[MAX_PROBLEMS:]
        message = f"at least {more:,} more problem{'s' if more > 1 else ''} from here on"
        hint = f"correct the {MAX_PROBLEMS} above first; is this a rule file at all?"
        self.problems.append(
            Diagnostic(code="FKG044", severity="error", span=first.span, message=message, help=hint)
        )


def _why(chunk: Chunk, *, start: bool = False, continues: bool = False) -> Diagnostic:
    """Why a statement does not parse, or with `start` does not begin as one does; what tells that
    is imported with the first.
    """
    from fedkg_compiler.frontends.fkg.syntax.explain import explain, explain_start

    return explain_start(chunk, continues=continues) if start else explain(chunk)


@lru_cache(maxsize=KEPT_STATEMENTS)
def _parse_chunk(chunk: Chunk) -> tuple[Statement | None, tuple[Diagnostic, ...]] | None:
    """A statement and its problems; the statement is None if it is too deep. None if the chunk does
    not parse, or is too long.
    """
    tree = parse_statement(chunk.text) if len(chunk.text) <= MAX_STATEMENT else None
    if tree is None:
        return None
    at = StatementText(chunk)
    deep = too_deep(tree)
    if deep is None:
        return build_declaration(at, tree) or build_knowledge(at, tree), tuple(at.problems)
    branch, what = deep
    if what == "nesting":
        message, hint = (
            f"this is nested more than {MAX_NESTING} deep",
            "split the rule into several",
        )
    elif what == "chain":
        message, hint = (
            f"more than {MAX_CHAIN // 2:,} comparisons are chained here",
            "split the chain into several rules",
        )
    else:
        message, hint = (
            f"more than {MAX_TERMS} terms are joined here",
            "split the sum, or write: sum of ... over ... where { ... }",
        )
    problem = Diagnostic(
        code="FKG034", severity="error", span=at.span(branch), message=message, help=hint
    )
    return None, (problem,)


def _too_long(chunk: Chunk) -> Diagnostic:
    column = chunk.indent + 1
    end = column + len(chunk.first_word)
    span = Span(
        file=chunk.file, line=chunk.line, column=column, end_line=chunk.line, end_column=end
    )
    message = (
        f"this statement has {len(chunk.text):,} characters; at most {MAX_STATEMENT:,} are read"
    )
    return Diagnostic(
        code="FKG035",
        severity="error",
        span=span,
        message=message,
        help="put long lists into a sheet: in table FILE",
    )


def too_deep(tree: Branch) -> tuple[Branch, str] | None:
    """The first branch that is nested deeper than `MAX_NESTING`, or that joins more than
    `MAX_TERMS` terms or `MAX_CHAIN` comparisons, and which of the three.
    """
    waiting: list[tuple[Branch, int, int]] = [(tree, 0, 0)]
    while waiting:
        branch, depth, terms = waiting.pop()
        if depth > MAX_NESTING:
            return branch, "nesting"
        if terms > MAX_TERMS:
            return branch, "terms"
        if branch.data == "compare" and len(branch.children) > MAX_CHAIN:
            return branch, "chain"
        chained = branch.data in SIGNS
        for position, child in enumerate(branch.children):
            if isinstance(child, Token):
                continue
            if chained and position == 0 and child.data in SIGNS:
                waiting.append((child, depth, terms + 1))
            else:
                waiting.append((child, depth + 1, 0))
    return None


_NAME = re.compile(r"\s*(?:knowledge\s+|of\s+)?(?:`([^`\n]+)`|([^\W\d]\w*))")
_NAMES = re.compile(r"[^\W\d][\w.]*")


def find_lost_names(chunk: Chunk) -> Lost | None:
    """What a statement that did not parse would have been, as far as its first line tells; None
    where that is not to be seen.
    """
    first = chunk.first_word
    word = first if first in STATEMENT_WORDS else nearest_name(first.lstrip("@"), STATEMENT_WORDS)
    if word is None:
        return None
    line = chunk.text[chunk.indent + len(first) :].split("\n", 1)[0]
    if word == "use":
        names = tuple(_NAMES.findall(line.split("#")[0]))
    else:
        found = _NAME.match(line)
        names = (found[1] or found[2],) if found else ()
    start = chunk.indent + 1
    span = Span(
        file=chunk.file,
        line=chunk.line,
        column=start,
        end_line=chunk.line,
        end_column=start + len(first),
    )
    return Lost(span=span, word=word, names=names)
