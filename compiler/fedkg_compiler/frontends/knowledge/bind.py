"""Binds one knowledge model: each clause becomes condition banks, bound as a rule is bound.

A clause ``when C allow low .. high`` of a number is bound as the rule ``if C then low <= number <=
high``, and ``when C predict e`` as ``if C then number == e``. Units are therefore converted, names
resolved and mistakes reported in the same way as for rules. Afterwards the antecedent becomes the
condition, and the other sides of the comparisons become the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fedkg.pack import And, Compare, Formula, Implies, RuleRecord, Term, reads_output
from fedkg.pack.knowledge_models import Clause, KnowledgeModel
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.formulas.formula_algebra import with_always
from fedkg_compiler.frontends.fkg.binding.declarations import scope_of
from fedkg_compiler.frontends.fkg.binding.rule import bind_rule
from fedkg_compiler.frontends.fkg.binding.scope import FileRule, Sources
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Choice,
    Comparison,
    Condition,
    DecisionTable,
    EarlierModel,
    Expression,
    IfThen,
    Negative,
    Quantity,
    RangeKnowledge,
    Reference,
    Rule,
    RuleFile,
    Word,
)
from fedkg_compiler.frontends.knowledge.ambiguous_otherwise_rows import conflicting_rows
from fedkg_compiler.frontends.knowledge.decision_table_reader import table_clauses
from fedkg_compiler.frontends.knowledge.earlier_model import bind_network
from fedkg_compiler.frontends.knowledge.output_name_resolution import (
    Answer,
    Statement,
    answer_of,
    class_position,
)
from fedkg_compiler.frontends.sheets.sheet_cache import Sheets
from fedkg_compiler.ir import BoundRows, Program, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class _Context:
    """What the clauses of one statement are bound against.

    Attributes:
        first: the number of conditions before those of the statement.
        conditions: collects the conditions of the statement.
    """

    statement: Statement
    answer: Answer
    file: RuleFile
    sources: Sources
    sheets: Sheets
    first: int
    conditions: list[BoundRows] = field(default_factory=list)


def bind_knowledge(
    statement: Statement, file: RuleFile, sources: Sources, sheets: Sheets, first: int
) -> Program:
    """A knowledge model and its conditions; no model after an error.

    Args:
        first: the number of conditions before those of the model.
    """
    answer = answer_of(statement, sources.names, sources.problems)
    if answer is None:
        return Program()
    at = _Context(
        statement=statement, answer=answer, file=file, sources=sources, sheets=sheets, first=first
    )
    before = sources.problems.errors
    fields: dict[str, object] = {}
    network = Program()
    match statement.source:
        case EarlierModel() as model:
            fields, network = bind_network(model, statement, answer, sources, first)
        case DecisionTable() as table:
            clauses = table_clauses(table, statement, answer, sources, sheets)
            fields = {"clauses": tuple(_clauses(at, clauses)), "otherwise": _otherwise(at)}
        case None:
            fields = {
                "clauses": tuple(_clauses(at, statement.clauses)),
                "otherwise": _otherwise(at),
            }
    found = network.joined_with(Program(conditions=tuple(at.conditions)))
    if sources.problems.errors > before:
        return found
    number = answer.number
    record = KnowledgeModel.model_validate(
        {
            "name": statement.name.text,
            "kind": _kind(statement),
            "output": answer.name.text,
            "column": answer.column,
            "classes": answer.classes,
            "unit": number.unit.text if number is not None and number.unit is not None else "",
            "span": None if number is None else number.span,
            "scope": scope_of(statement.scope),
            "text": sources.written(statement.span),
            "file": Path(statement.span.file).name,
            "line": statement.span.line,
            **fields,
        }
    )
    return replace(found, knowledge=(record,))


def _kind(statement: Statement) -> str:
    return "range" if isinstance(statement, RangeKnowledge) else "predict"


def _clauses(
    at: _Context, clauses: Sequence[tuple[Condition, Choice | Expression | Word]]
) -> list[Clause]:
    return [clause for condition, stated in clauses for clause in _bind(at, condition, stated)]


def _otherwise(at: _Context) -> Clause | None:
    stated = at.statement.otherwise
    if stated is None or (isinstance(stated, Choice) and stated == Choice(span=stated.span)):
        return None
    found = _bind(at, None, stated)
    differing = conflicting_rows([at.conditions[clause.bank - at.first] for clause in found])
    if differing is not None:
        one, other = differing
        message = (
            f"the value after `otherwise` differs between rows of the quantifier: it is one for "
            f"{one} and another for {other}"
        )
        at.sources.problems.error(
            "FKG374",
            stated.span,
            message,
            "give one value for all, write another `when`, or give the class a key column "
            "(`fkg:keyColumn`) that assigns each sample to one row",
        )
    return found[0] if found else None


def _bind(
    at: _Context, condition: Condition | None, stated: Choice | Expression | Word
) -> list[Clause]:
    """One clause of a statement: as many clauses as its rows have different units."""
    place, problems = stated.span, at.sources.problems
    here = {"file": Path(place.file).name, "line": place.line}
    requirement: Condition | None = None
    fields: dict[str, object] = {}
    match stated:
        case Choice():
            if stated == Choice(span=stated.span):
                fields["anything"] = True  # it says nothing, and keeps `otherwise` away
            elif stated.classes:
                if at.answer.label is None:
                    problems.error(
                        "FKG372",
                        place,
                        f"`{at.answer.name.text}` is a number, so it has no classes",
                        "write an interval: allow 0 .. 3 bar",
                    )
                    return []
                found = [class_position(at.answer, word, problems) for word in stated.classes]
                fields["classes"] = tuple(
                    sorted({position for position in found if position is not None})
                )
            else:
                requirement = _interval(at, stated)
        case Word() if at.answer.label is None:
            problems.error(
                "FKG372",
                place,
                f"`{at.answer.name.text}` is a number, so it has no class `{stated.text}`",
                "predict a number",
            )
            return []
        case Word():
            fields["predicted"] = class_position(at.answer, stated, problems)
        case Reference() if at.answer.label is not None:
            fields["predicted"] = class_position(
                at.answer, Word(span=stated.span, text=stated.name), problems
            )
        case _ if at.answer.label is not None:
            problems.error(
                "FKG372",
                place,
                f"`{at.answer.name.text}` is a label, and this is not one of its classes",
                f"predict one of its classes: {', '.join(at.answer.classes)}",
            )
            return []
        case _:
            output = Reference(span=at.answer.name.span, name=at.answer.name.text)
            requirement = Comparison(
                span=place, operands=(output, stated), operators=(Word(span=place, text="=="),)
            )
    if at.answer.label is None and requirement is None and not fields:
        return []
    if condition is None and requirement is None:
        bank = _keep(at, _always(at))
        return [Clause.model_validate({"bank": bank, **fields, **here})]
    return [
        Clause.model_validate({"bank": _keep(at, bound), **fields, **numbers, **here})
        for bound, numbers in _bound(at, condition, requirement, place)
    ]


def _interval(at: _Context, stated: Choice) -> Condition | None:
    """``low <= number <= high``."""
    if at.answer.number is None:
        message = f"`{at.answer.name.text}` is a label, so it has no interval of numbers"
        at.sources.problems.error(
            "FKG372",
            stated.span,
            message,
            f"allow some of its classes: {', '.join(at.answer.classes)}",
        )
        return None
    if stated.ends is not None:
        low, high = stated.ends
    else:
        assert stated.interval is not None
        low, high = (_quantity(number, stated) for number in stated.interval)
    sign = Word(span=stated.span, text="<=")
    output = Reference(span=at.answer.name.span, name=at.answer.name.text)
    return Comparison(span=stated.span, operands=(low, output, high), operators=(sign, sign))


def _quantity(number: float, stated: Choice) -> Expression:
    quantity = Quantity(span=stated.span, value=abs(number), unit=stated.unit)
    return Negative(span=stated.span, arg=quantity) if number < 0 else quantity


def _bound(
    at: _Context, condition: Condition | None, requirement: Condition | None, place: Span
) -> list[tuple[BoundRows, dict[str, Term | None]]]:
    """The bound rows of a clause, their formula being its condition, with the terms of what it says
    of the number.
    """
    formula = condition if requirement is None else requirement
    if condition is not None and requirement is not None:
        formula = IfThen(span=place, antecedent=condition, consequent=requirement)
    assert formula is not None
    rule = Rule(
        span=at.statement.span,
        name=at.statement.name,
        formula=formula,
        quantifier=at.statement.quantifier,
        text=at.sources.written(place),
    )
    result = []
    for part in bind_rule(
        FileRule(rule=rule, file=at.file), at.sources, at.sheets, permits=requirement is None
    ):
        held: Formula | None = part.formula
        conclusion: Formula | None = None
        if requirement is not None:
            held, conclusion = (
                (part.formula.antecedent, part.formula.consequent)
                if isinstance(part.formula, Implies)
                else (None, part.formula)
            )
        if (held is not None and reads_output(held)) or (
            conclusion is not None and any(map(_both_sides, _compared(conclusion)))
        ):
            part_of = "a condition" if held is not None and reads_output(held) else "a value"
            message = f"{part_of} of knowledge reads an output of the model"
            at.sources.problems.error(
                "FKG373",
                place,
                message,
                "write it with signals only: knowledge is applied before the model predicts",
            )
            continue
        rows = part.rows
        if held is None:
            held, rows = with_always(rows)
        kept = replace(part, formula=held, conclusion=conclusion, rows=rows)
        result.append((kept, {} if conclusion is None else _numbers(conclusion)))
    return result


def _compared(conclusion: Formula) -> list[Compare]:
    """The comparisons of ``low <= number <= high``, or the one of ``number == value``."""
    parts = conclusion.args if isinstance(conclusion, And) else (conclusion,)
    return [part for part in parts if isinstance(part, Compare)]


def _both_sides(part: Compare) -> bool:
    return reads_output(part.left) and reads_output(part.right)


def _numbers(conclusion: Formula) -> dict[str, Term | None]:
    """The terms beside the output in ``low <= number <= high`` and ``number == value``."""
    found: dict[str, Term | None] = {}
    for part in _compared(conclusion):
        if part.op == "eq":
            found["value"] = part.right
        elif reads_output(part.right):
            found["low"] = part.left
        else:
            found["high"] = part.right
    return found


def _always(at: _Context) -> BoundRows:
    """A condition that always holds, bound once."""
    formula, rows = with_always(Rows(count=1))
    record = RuleRecord(
        name=at.statement.name.text,
        file=Path(at.statement.span.file).name,
        line=at.statement.span.line,
    )
    return BoundRows(rule=record, formula=formula, rows=rows, keys=((),), entities=("",), unit="")


def _keep(at: _Context, bound: BoundRows) -> int:
    at.conditions.append(bound)
    return at.first + len(at.conditions) - 1
