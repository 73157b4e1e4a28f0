"""An open rule file: its statements, each parsed once, and the names in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.signal_columns import trees_in
from fedkg_compiler.frontends.fkg.syntax.parser import parse
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import Chunk, plain_text, split
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Aggregate,
    Apply,
    Cause,
    Constant,
    DecisionTable,
    EarlierModel,
    Example,
    Follows,
    Head,
    Infer,
    InQuery,
    InTable,
    IsClass,
    KeepSet,
    Label,
    Load,
    Membership,
    Monotone,
    OverMembers,
    Pattern,
    PredictKnowledge,
    Prefix,
    Quantifier,
    Quantity,
    RangeKnowledge,
    Reference,
    Rule,
    RuleFile,
    Series,
    Signal,
    Statement,
    Template,
    TermName,
    Tree,
    Use,
    Variable,
    Waiver,
    Word,
)

CACHED_STATEMENTS = 4_096
"""Statements that stay parsed; a file of 500 lines has about 300."""

Kind = Literal[
    "value", "rule", "template", "parameter", "variable", "prefix", "ontology", "term", "unit",
    "file", "code",
]  # fmt: skip
"""What a name means: `value` is a signal, an output, a label or a constant, and `parameter` one of
a template.
"""

_PNAME = re.compile(r"(?<![\w:/<])([A-Za-z][\w.-]*)?:[\w.-]*[\w-]")
_VARIABLE = re.compile(r"[?$](\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """A name at one place of a file.

    Attributes:
        span: where the name is written; of a quoted name with its quotes.
        declares: whether the statement declares the name here.
        template: of a parameter, the name of its template.
    """

    kind: Kind
    name: str
    span: Span
    declares: bool = False
    template: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedStatement:
    """A statement of a document.

    Attributes:
        tree: its syntax tree; None if it does not parse.
        of_template: whether it is an example of a template.
    """

    chunk: Chunk
    tree: Statement | None
    of_template: bool = False

    def occurrences(self) -> list[Occurrence]:
        """The names in the statement, in no particular order."""
        if self.tree is None:
            return []
        lines = self.chunk.line - 1
        return [
            replace(one, span=moved(one.span, lines))
            for one in _occurrences(self.chunk.text, self.chunk.file, self.of_template)
        ]


@dataclass(slots=True)
class RuleDocument:
    """An open rule file.

    Attributes:
        path: its place on disk; the file need not exist.
        text: the text in the editor, with ``\\n`` as its line ends.
    """

    path: Path
    text: str
    _chunks: list[Chunk] = field(default_factory=list, init=False, repr=False)
    _statements: list[ParsedStatement] = field(default_factory=list, init=False, repr=False)

    @property
    def chunks(self) -> list[Chunk]:
        """The text of each statement in the order of the file; nothing is parsed for it."""
        if not self._chunks:
            self._chunks = split(plain_text(self.text), str(self.path))
        return self._chunks

    @property
    def statements(self) -> list[ParsedStatement]:
        """All statements in the order of the file."""
        if not self._statements:
            trees = [_tree(chunk.text, str(self.path)) for chunk in self.chunks]
            templates = {tree.name.text for tree in trees if isinstance(tree, Template)}
            templates -= {tree.name.text for tree in trees if isinstance(tree, Rule)}
            self._statements = [
                ParsedStatement(
                    chunk=chunk,
                    tree=tree,
                    of_template=isinstance(tree, Example) and tree.rule.text in templates,
                )
                for chunk, tree in zip(self.chunks, trees, strict=True)
            ]
        return self._statements

    def statement_at(self, line: int) -> ParsedStatement | None:
        """The statement that a line (from 1) belongs to."""
        above = [one for one in self.statements if one.chunk.line <= line]
        return above[-1] if above else None

    def occurrence_at(self, line: int, column: int) -> Occurrence | None:
        """The name at a place; line and column count from 1."""
        statement = self.statement_at(line)
        if statement is None:
            return None
        inside = [
            one
            for one in statement.occurrences()
            if (one.span.line, one.span.column)
            <= (line, column)
            <= (one.span.end_line, one.span.end_column)
        ]
        return min(inside, key=lambda one: one.span.end_column - one.span.column, default=None)

    def occurrences(self) -> Iterator[Occurrence]:
        """All names of the file."""
        for statement in self.statements:
            yield from statement.occurrences()

    def declarations(self) -> dict[tuple[Kind, str], tuple[Occurrence, ParsedStatement]]:
        """Where each name is declared: the first place if there are several."""
        found: dict[tuple[Kind, str], tuple[Occurrence, ParsedStatement]] = {}
        for statement in self.statements:
            for one in statement.occurrences():
                if one.declares and one.kind not in {"variable", "parameter"}:
                    found.setdefault((one.kind, one.name), (one, statement))
        return found

    def same_name(self, meant: Occurrence) -> list[Occurrence]:
        """All places of a name; of a variable, those in its own statement and in its examples."""
        if meant.kind == "variable":
            statement = self.statement_at(meant.span.line)
            places = [] if statement is None else statement.occurrences()
            if statement is not None and isinstance(statement.tree, Rule):
                places += self._values_of_variables(statement.tree)
        else:
            places = list(self.occurrences())
        key = (meant.kind, meant.name, meant.template)
        return [one for one in places if (one.kind, one.name, one.template) == key]

    def _values_of_variables(self, rule: Rule) -> Iterator[Occurrence]:
        """The variables of a rule in its examples: `low` and the `?tag` of `value(?tag)`.

        In quotes or before `(`, a name is that of a signal.
        """
        names = {word.text for word in rule.quantifier.variables} if rule.quantifier else set()
        for statement in self.statements if names else ():
            tree = statement.tree
            if isinstance(tree, Example) and tree.rule.text == rule.name.text:
                for head in (series.head for series in tree.series):
                    word = head.variable or head.name
                    if word.text in names and not (head.quoted and word is head.name):
                        one = _word("variable", word)
                        yield replace(one, span=moved(one.span, statement.chunk.line - 1))


def moved(span: Span, lines: int) -> Span:
    """A span so many lines further down."""
    return replace(span, line=span.line + lines, end_line=span.end_line + lines)


@lru_cache(maxsize=CACHED_STATEMENTS)
def _parsed(text: str, file: str) -> RuleFile:
    return parse(text, file)[0]


def _tree(text: str, file: str) -> Statement | None:
    statements = _parsed(text, file).statements
    return statements[0] if statements else None


@lru_cache(maxsize=CACHED_STATEMENTS)
def _occurrences(text: str, file: str, of_template: bool) -> tuple[Occurrence, ...]:
    """The names of one statement, with spans as if it began the file."""
    tree = _tree(text, file)
    template, parameters = "", frozenset[str]()
    match tree:
        case None:
            return ()
        case Template(name=name):
            template, parameters = name.text, frozenset(word.text for word in tree.parameters)
        case Example(rule=name) if of_template:
            template, parameters = name.text, frozenset(one.head.name.text for one in tree.series)
        case _:
            pass
    nodes = trees_in(tree)
    calls = [node.call for node in nodes if isinstance(node, Follows | Infer)]
    found: list[Occurrence] = []
    for call in calls:
        found.append(_word("template", call.name))
        found += (_word("parameter", word, template=call.name.text) for word, _ in call.named)
    for node in nodes:
        if any(node is call for call in calls):
            continue
        if isinstance(node, Example) and of_template:
            found.append(_word("template", node.rule))
            continue
        for one in _of_node(node, parameters):
            is_parameter = one.name in parameters and one.kind in {"value", "parameter"}
            if is_parameter and not getattr(node, "quoted", False):
                found.append(replace(one, kind="parameter", template=template))
            else:
                found.append(one)
    return tuple(found)


def _word(kind: Kind, word: Word, *, declares: bool = False, template: str = "") -> Occurrence:
    return Occurrence(
        kind=kind, name=word.text, span=word.span, declares=declares, template=template
    )


def _of_node(node: Tree, parameters: frozenset[str]) -> Iterator[Occurrence]:
    """The names that a node itself writes; `parameters` are those of the template around it."""
    match node:
        case Use(names=names, rules=False):
            yield from (_word("ontology", word) for word in names)
        case Prefix(name=name):
            yield _word("prefix", name, declares=True)
        case Signal(head=head, unit=unit):
            yield _word("value", head.name, declares=True)
            if head.variable is not None:
                yield _word("variable", head.variable, declares=True)
            if unit is not None:
                yield _word("unit", unit)
        case Label(name=name) | Constant(name=name):
            yield _word("value", name, declares=True)
        case Template(name=name):
            yield _word("template", name, declares=True)
            yield from (_word("parameter", word, declares=True) for word in node.parameters)
        case Infer(name=name, variables=variables):
            yield _word("rule", name, declares=True)
            yield from (_word("variable", word, declares=True) for word in variables)
        case Rule(name=name):
            yield _word("rule", name, declares=True)
        case KeepSet(name=name, target=target):
            yield _word("rule", name, declares=True)
            yield _word("value", target)
        case RangeKnowledge(name=name, output=output) | PredictKnowledge(name=name, output=output):
            yield _word("rule", name, declares=True)
            yield _word("value", output)
        case Example(rule=rule):
            yield _word("rule", rule)
        case Waiver(code=code):
            yield _word("code", code)
        case Series(head=Head(name=name), unit=unit):
            yield _word("value", name)
            if unit is not None:
                yield _word("unit", unit)
        case Monotone(feature=feature, group=group):
            if group is not None:
                yield _word("value", group)
            if feature is not None:
                yield _word("value", feature.name)
                if feature.variable is not None:
                    yield _word("variable", feature.variable)
        case IsClass(form="variable", value=word):
            yield _word("variable", word)
        case IsClass(form="name", value=word) if word.text in parameters:
            yield _word("parameter", word)
        case Membership(values=words):
            yield from (_word("parameter", word) for word in words if word.text in parameters)
        case Apply(name=name):
            yield _word("value", name)
        case Reference(name=name, span=span):
            yield Occurrence(kind="value", name=name, span=span)
        case Quantity(unit=Word() as unit):
            yield _word("unit", unit)
        case TermName(text=text, span=span):
            yield Occurrence(kind="term", name=text, span=span)
        case Variable(name=name, span=span):
            yield Occurrence(kind="variable", name=name, span=span)
        case Aggregate(variable=variable) | OverMembers(variable=variable):
            yield _word("variable", variable, declares=True)
        case Cause(driver=driver, driven=driven):
            yield _word("variable", driver)
            yield _word("variable", driven)
        case Quantifier(variables=variables):
            yield from (_word("variable", word, declares=True) for word in variables)
        case InTable(path=path) | InQuery(path=path) | DecisionTable(path=path):
            yield _word("file", path)
        case EarlierModel(path=path) | Load(path=path):
            yield _word("file", path)
        case Pattern():
            yield from _of_pattern(node)
        case _:
            pass


def _of_pattern(pattern: Pattern) -> Iterator[Occurrence]:
    """Variables and prefixed names in a SPARQL pattern."""
    chunk = Chunk(file=pattern.span.file, line=pattern.span.line, text=pattern.text)
    for form in (_VARIABLE, _PNAME):
        for found in form.finditer(pattern.text):
            span = chunk.span(*found.span())
            if span.line == pattern.span.line:  # the pattern begins within a line
                span = replace(
                    span,
                    column=span.column + pattern.span.column - 1,
                    end_column=span.end_column + pattern.span.column - 1,
                )
            if form is _VARIABLE:
                yield Occurrence(kind="variable", name=found[1], span=span)
            else:
                yield Occurrence(kind="term", name=found[0], span=span)
