"""A statement as its first words and its clauses, in the order in which they are always printed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.syntax.printing import literals
from fedkg_compiler.frontends.fkg.syntax.printing.conditions import (
    WIDTH,
    apply,
    broken,
    condition,
    expression,
    fits,
)
from fedkg_compiler.frontends.fkg.syntax.printing.patterns import quantifier
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Cause,
    Choice,
    Condition,
    Constant,
    DecisionTable,
    EarlierModel,
    Example,
    Expression,
    Infer,
    KeepSet,
    Label,
    Load,
    PredictKnowledge,
    Prefix,
    Quantifier,
    RangeKnowledge,
    RowsAre,
    Rule,
    Series,
    Signal,
    Statement,
    Template,
    Timeline,
    Tree,
    Use,
    Word,
)

_INDENT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One clause: the text before its condition, the condition, the text after it; or a pattern.

    Attributes:
        span: its place in the source, None if it has none.
        shares: whether it may share a line with other clauses.
    """

    text: str = ""
    formula: Condition | None = None
    behind: str = ""
    pattern: Quantifier | None = None
    span: Span | None = None
    shares: bool = False

    def flat(self) -> str:
        """The clause on one line."""
        parts = [self.text, condition(self.formula) if self.formula else "", self.behind]
        return (
            " ".join(part for part in parts if part)
            if self.pattern is None
            else quantifier(self.pattern)
        )

    def lines(self) -> str:
        """The clause on separate lines, the first of them without its indentation."""
        flat = self.flat()
        if fits(_INDENT, flat):
            return flat
        if self.pattern is not None:
            return quantifier(self.pattern, block=True)
        if self.formula is not None:
            column = _INDENT + len(self.text) + 1 if self.text else _INDENT
            written = broken(self.formula, column, 2 * _INDENT)
            behind = f"\n{' ' * 2 * _INDENT}{self.behind}" if self.behind else ""
            return (f"{self.text} " if self.text else "") + written + behind
        return flat if "\n" in flat or '"' in flat else _filled(flat)


def _filled(flat: str) -> str:
    """A long list, broken behind its commas."""
    lines = [""]
    for piece in flat.split(", "):
        if lines[-1] and len(lines[-1]) + len(piece) + _INDENT + 4 > WIDTH:
            lines.append(" " * 2 * _INDENT + piece)
        else:
            lines[-1] += (", " if lines[-1] else "") + piece
            continue
        lines[-2] += ","
    return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementParts:
    """The parts of a statement before they are laid out on lines.

    Attributes:
        first: the text at the left edge.
        gap: the text between clauses of one line.
        tall: whether the statement always takes several lines.
        columns: whether its clauses are aligned with neighbours of the same kind.
    """

    first: str
    clauses: tuple[Clause, ...] = ()
    gap: str = " "
    tall: bool = False
    columns: bool = False


def laid(node: Statement) -> StatementParts:
    """The clauses of a statement."""
    match node:
        case Use():
            return StatementParts(
                first="use rules" if node.rules else "use",
                clauses=(Clause(text=", ".join(word.text for word in node.names)),),
            )
        case Prefix():
            return StatementParts(first=f"prefix {node.name.text}: <{node.iri.text}>")
        case Timeline():
            return _timeline(node)
        case RowsAre():
            return StatementParts(first=f"rows are {literals.term(node.term)}")
        case Signal():
            return _signal(node)
        case Label():
            classes = Clause(
                text=(
                    f"classes {', '.join(literals.class_name(word.text) for word in node.classes)}"
                ),
                span=_around(node.classes),
            )
            kept = (classes,) if node.classes else ()
            return StatementParts(
                first=f"label {node.name.text}",
                clauses=(*kept, *_column(node.column)),
                gap="  ",
                columns=True,
            )
        case Rule():
            return _rule(node)
        case Template():
            first = (
                f"template {node.name.text}({', '.join(word.text for word in node.parameters)}) ="
            )
            return StatementParts(
                first=first, clauses=(Clause(formula=node.formula, span=node.formula.span),)
            )
        case Constant():
            value = Clause(text=expression(node.value), span=node.value.span)
            return StatementParts(first=f"constant {node.name.text} =", clauses=(value,))
        case Load():
            return StatementParts(first=f"{node.what} {literals.text(node.path.text)}")
        case Example():
            first = f"example of {node.rule.text} {'holds' if node.holds else 'fails'} for"
            pieces = [
                Clause(text=f"{'and ' if i else ''}{_series(one)}", span=one.span)
                for i, one in enumerate(node.series)
            ]
            return StatementParts(first=first, clauses=tuple(pieces))
        case _:
            return _knowledge(node)


def _knowledge(node: Infer | RangeKnowledge | PredictKnowledge | KeepSet | Cause) -> StatementParts:
    match node:
        case Infer():
            call = f"find {literals.variables(node.variables)} in {apply(node.call)}"
            per = Clause(text=f"per {node.per.text}", span=node.per.span, shares=True)
            last = Clause(text=call, span=node.call.span, shares=True)
            return StatementParts(
                first=f"infer {node.name.text}", clauses=(*_scope(node.scope), per, last)
            )
        case RangeKnowledge() | PredictKnowledge():
            return _clauses_or_file(node)
        case KeepSet():
            keep = Clause(
                text=f"keep {node.target.text} in {apply(node.call)}", span=node.target.span
            )
            first = f"set {node.name.text}"
            return StatementParts(
                first=first,
                clauses=(*_scope(node.scope), *_quantifier(node.quantifier), keep),
                gap="  ",
            )
        case Cause():
            lag = f" lag {literals.quantity(node.lag)}" if node.lag else ""
            allow = Clause(
                text=f"allow ?{node.driver.text} drives ?{node.driven.text}{lag}",
                span=node.driver.span,
            )
            return StatementParts(
                first=f"cause {node.name.text}",
                clauses=(*_quantifier(node.quantifier), allow),
                gap="  ",
            )
        case _:
            assert_never(node)


def _timeline(node: Timeline) -> StatementParts:
    clauses = []
    if node.step:
        clauses.append(
            Clause(text=f"step {literals.quantity(node.step)}", span=node.step.span, shares=True)
        )
    for word, column in (("time", node.time), ("trace", node.trace)):
        if column:
            clauses.append(
                Clause(
                    text=f"{word} column {literals.text(column.text)}",
                    span=column.span,
                    shares=True,
                )
            )
    if node.ends:
        clauses.append(Clause(text=f"ends {node.ends.text}", span=node.ends.span, shares=True))
    return StatementParts(first="timeline", clauses=tuple(clauses))


def _signal(node: Signal) -> StatementParts:
    clauses = []
    if node.term:
        clauses.append(
            Clause(text=f"is {literals.term(node.term)}", span=node.term.span, shares=True)
        )
    if node.unit:
        clauses.append(Clause(text=f"in {node.unit.text}", span=node.unit.span, shares=True))
    if node.bounds:
        low, high = map(literals.number, node.bounds)
        clauses.append(Clause(text=f"span {low} .. {high}", shares=True))
    first = f"{'signal' if node.role == 'input' else 'output'} {literals.head(node.head)}"
    return StatementParts(
        first=first, clauses=(*clauses, *_column(node.column)), gap="  ", columns=True
    )


def _column(column: Word | None) -> tuple[Clause, ...]:
    return (
        (Clause(text=f"column {literals.text(column.text)}", span=column.span, shares=True),)
        if column
        else ()
    )


def _scope(scope: Word | None) -> tuple[Clause, ...]:
    return (Clause(text=f"scope {scope.text}", span=scope.span, shares=True),) if scope else ()


def _quantifier(node: Quantifier | None) -> tuple[Clause, ...]:
    return (Clause(pattern=node, span=node.span),) if node else ()


def _rule(node: Rule) -> StatementParts:
    clauses = []
    if node.kind:
        clauses.append(Clause(text=f"kind {node.kind.text}", span=node.kind.span, shares=True))
    if node.weight:
        clauses.append(
            Clause(
                text=f"weight {literals.quantity(node.weight)}", span=node.weight.span, shares=True
            )
        )
    if node.hard:
        clauses.append(Clause(text="hard", shares=True))
    waived = [
        Clause(
            text=f"allow {waiver.code.text} because {literals.text(waiver.reason.text)}",
            span=waiver.span,
        )
        for waiver in node.waivers
    ]
    require = Clause(text="require", formula=node.formula, span=node.formula.span)
    title = f" {literals.text(node.title.text)}" if node.title else ""
    return StatementParts(
        first=f"rule {node.name.text}{title}",
        clauses=(*clauses, *_scope(node.scope), *_quantifier(node.quantifier), *waived, require),
        gap="  ",
        tall=node.title is not None,
    )


def _clauses_or_file(node: RangeKnowledge | PredictKnowledge) -> StatementParts:
    word = "range" if isinstance(node, RangeKnowledge) else "predict"
    first = f"{word} knowledge {node.name.text} of {node.output.text}"
    clauses = [*_scope(node.scope), *_quantifier(node.quantifier)]
    match node.source:
        case None:
            pass
        case DecisionTable():
            clauses.append(
                Clause(
                    text=f"in table {literals.text(node.source.path.text)}", span=node.source.span
                )
            )
        case EarlierModel():
            clauses.append(
                Clause(
                    text=f"from model {literals.text(node.source.path.text)}", span=node.source.span
                )
            )
        case _:
            assert_never(node.source)
    pairs = (
        [(when, _choice(choice)) for when, choice in node.clauses]
        if isinstance(node, RangeKnowledge)
        else []
    )
    if isinstance(node, PredictKnowledge):
        pairs = [(when, f"predict {_answer(value)}") for when, value in node.clauses]
    clauses += [
        Clause(text="when", formula=when, behind=then, span=when.span) for when, then in pairs
    ]
    if node.otherwise is not None:
        last = (
            _choice(node.otherwise)
            if isinstance(node.otherwise, Choice)
            else f"predict {_answer(node.otherwise)}"
        )
        clauses.append(Clause(text=f"otherwise {last}", span=node.otherwise.span))
    return StatementParts(first=first, clauses=tuple(clauses), gap="  ")


def _answer(node: Expression | Word) -> str:
    return literals.text(node.text) if isinstance(node, Word) else expression(node)


def _choice(node: Choice) -> str:
    if node.classes:
        first, *rest = (word.text for word in node.classes)
        return "allow " + ", ".join(
            [literals.class_name(first, ("any", "between")), *map(literals.class_name, rest)]
        )
    if node.ends:
        low, high = map(expression, node.ends)
        return f"allow between {low} and {high}"
    if node.interval:
        low, high = map(literals.number, node.interval)
        return f"allow {low} .. {high}" + (f" {node.unit.text}" if node.unit else "")
    return "allow any"


def _series(node: Series) -> str:
    if node.texts:
        values = [
            "unknown" if not word.text else literals.class_name(word.text, ("unknown", "and"))
            for word in node.texts
        ]
    else:
        values = [
            "unknown" if math.isnan(value) else literals.number(value) for value in node.values
        ]
    return f"{literals.head(node.head)} = {' '.join(values)}" + (
        f" {node.unit.text}" if node.unit else ""
    )


def _around(nodes: Sequence[Tree]) -> Span | None:
    """The place of neighbouring nodes as one."""
    if not nodes:
        return None
    first, last = nodes[0].span, nodes[-1].span
    return Span(
        file=first.file,
        line=first.line,
        column=first.column,
        end_line=last.end_line,
        end_column=last.end_column,
    )
