"""``infer NAME per client find ?low, ?high in template(...)``: a template with open parameters
becomes a condition of the pack.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedkg._internal.name_matching import did_you_mean
from fedkg.pack import Compare, Formula, Param, RuleRecord, atoms, subterms
from fedkg.pack.parameter_mining_tasks import Direction, Inference, MinedParameter
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.diagnostics.template_span import TemplateSpan
from fedkg_compiler.formulas.formula_algebra import declared_spans, interval
from fedkg_compiler.formulas.relaxation_direction import direction, slope
from fedkg_compiler.frontends.fkg.binding.declarations import scope_of
from fedkg_compiler.frontends.fkg.binding.rule import bind, condition
from fedkg_compiler.frontends.fkg.binding.scope import (
    Environment,
    Mined,
    Scope,
    Sources,
    View,
    mined,
)
from fedkg_compiler.frontends.fkg.binding.signal_columns import look_up, names_in
from fedkg_compiler.frontends.fkg.binding.templates import call_template
from fedkg_compiler.frontends.fkg.syntax.tree import Apply, Condition, Infer, Variable
from fedkg_compiler.ir import BoundRows, Program, RowBuilder

PER = ("client", "cluster", "run")
DIRECTIONS: dict[int | None, Direction] = {1: "up", -1: "down", 0: "none", None: "none"}


def bind_infer(statement: Infer, sources: Sources, first: int) -> Program:
    """The condition and the parameters of an inference; nothing if it is wrong, which has been
    reported.

    Args:
        first: the number of conditions before this one.
    """
    problems = sources.problems
    formula = call_template(statement.call, sources.names, problems)
    if formula is None or not _is_sound(statement, formula, problems):
        return Program()
    rows = RowBuilder(1)
    found = {
        word.text: mined(word.text, rows, sources.book, statement.name.text)
        for word in statement.variables
    }
    environment = Environment(rows=1, cells={})
    scope = Scope(
        names=sources.names,
        environment=environment,
        readings=look_up(formula, environment, sources),
        rows=rows,
        book=sources.book,
        problems=problems,
        graph=sources.graph,
        view=View(key="base", ids=np.zeros(1, dtype=np.int64)),
        keys=((),),
        compared=[],
        bind_value=bind,
        bind_condition=condition,
        sources=sources,
        mined=found,
    )
    bound = condition(formula, scope)
    if bound is None or not _used_rightly(statement, found, problems):
        return Program()
    if not rows.build().slots_read():
        problems.error(
            "FKG234",
            statement.call.span,
            f"`{statement.name.text}` reads no signal",
            "name one among the arguments",
        )
        return Program()
    units = set(scope.compared)
    parameters = tuple(
        _parameter(word.span, found[word.text], bound, sources) for word in statement.variables
    )
    inference = Inference.model_validate(
        {
            "name": statement.name.text,
            "per": statement.per.text,
            "scope": scope_of(statement.scope),
            "template": statement.call.name.text,
            "text": sources.written(statement.call.span),
            "condition": first,
            "parameters": parameters,
        }
    )
    record = RuleRecord(
        name=statement.name.text,
        kind="temporal",
        text=sources.written(statement.span),
        file=Path(statement.span.file).name,
        line=statement.span.line,
    )
    part = BoundRows(
        rule=record,
        formula=bound,
        rows=rows.build(),
        keys=((),),
        entities=("",),
        unit=units.pop() if len(units) == 1 else "",
    )
    return Program(inferences=(inference,), conditions=(part,))


def _is_sound(statement: Infer, formula: Condition, problems: Problems) -> bool:
    """Return whether the clauses are valid and the template uses only the variables of `find`."""
    sound = True
    if statement.per.text not in PER:
        advice = did_you_mean(statement.per.text, PER, "write: per client")
        problems.error(
            "FKG273",
            statement.per.span,
            f"values are found per client, per cluster or per run, not per {statement.per.text}",
            advice,
        )
        sound = False
    names = [word.text for word in statement.variables]
    sound = sound and len(set(names)) == len(names)  # said by the parser
    entities = {
        id(arg)
        for node in names_in(formula)
        if isinstance(node, Apply)
        for arg in node.args
        if isinstance(arg, Variable)
    }
    for node in names_in(formula):
        if isinstance(node, Variable) and node.name not in names:
            advice = (
                "an inference has no entities: declare a signal without a variable, and name that"
                if id(node) in entities
                else did_you_mean(
                    node.name,
                    names,
                    f"add it: find {', '.join('?' + name for name in [*names, node.name])}",
                )
            )
            problems.error(
                "FKG273",
                node.span,
                f"?{node.name} has no value: it is not listed after `find`",
                advice,
            )
            sound = False
    return sound


def _used_rightly(statement: Infer, found: dict[str, Mined], problems: Problems) -> bool:
    sound = True
    for word in statement.variables:
        one = found[word.text]
        if not one.values and not one.windows:
            message = f"nothing depends on ?{word.text}: every value is as good as another"
            given = (*statement.call.args, *(value for _, value in statement.call.named))
            passed = any(isinstance(value, Variable) and value.name == word.text for value in given)
            template = statement.call.name.text
            problems.error(
                "FKG269",
                word.span,
                message,
                f"use its parameter in the condition of the template {template}, or remove it"
                if passed
                else f"pass it to the template: {template}(..., ?{word.text})",
            )
            sound = False
        places = [*one.values, *one.windows]
        if one.values and one.windows:
            second = next(
                (place for place in places if not isinstance(place, TemplateSpan)), places[-1]
            )
            message = f"?{word.text} is used both as a value and as a number of steps"
            problems.error(
                "FKG274", second, message, "list two variables after `find`, one for each"
            )
            sound = False
        elif one.first and one.last:
            problems.error(
                "FKG274",
                places[-1],
                f"?{word.text} is both the first and the last end of a window",
                "list two variables after `find`",
            )
            sound = False
    return sound


def _parameter(place: Span, found: Mined, formula: Formula, sources: Sources) -> MinedParameter:
    index, problems = found.param.index, sources.problems
    way = DIRECTIONS[direction(formula, index, declared_spans(found.rows, sources.book.columns))]
    if way == "none":
        problems.warning(
            "FKG272",
            place,
            f"?{found.name} {_why(found, formula, sources)}: fedkg cannot mine it",
            "use one variable for each side, or write a number",
        )
    unit = sources.book.compared_unit(found.column)
    if found.windows:
        found.rows.params[index] = np.array([0.0 if found.first else -1.0])
    return MinedParameter(
        name=found.name,
        param=index,
        direction=way,
        span=None if found.windows else _span(found, formula, sources),
        unit=unit.text if unit is not None else "",
        integer=bool(found.windows),
    )


def _why(found: Mined, formula: Formula, sources: Sources) -> str:
    """Why a parameter has no direction."""
    signs: set[int | None] = set()
    for atom in atoms(formula):
        if isinstance(atom, Compare) and any(
            isinstance(part, Param) and part.index == found.param.index
            for side in (atom.left, atom.right)
            for part in subterms(side)
        ):
            if atom.op in ("eq", "ne"):
                return (
                    "is compared by `==` or `!=`, where neither a larger nor a smaller value is"
                    " easier"
                )
            signs |= {
                slope(side, found.param.index, declared_spans(found.rows, sources.book.columns))
                for side in (atom.left, atom.right)
            }
    if None in signs:
        return "is part of a calculation that may rise or fall with it"
    return "makes the condition easier in one place and harder in another"


def _span(found: Mined, formula: Formula, sources: Sources) -> tuple[float, float] | None:
    """What the terms that the parameter is compared with can range over, by the declared spans."""
    ends: list[tuple[float, float]] = []
    for atom in atoms(formula):
        if not isinstance(atom, Compare):
            continue
        for side, other in ((atom.left, atom.right), (atom.right, atom.left)):
            if isinstance(side, Param) and side.index == found.param.index:
                low, high = interval(other, declared_spans(found.rows, sources.book.columns))
                ends.append((float(low[0]), float(high[0])))
    if not ends:
        return None
    least, most = min(low for low, _ in ends), max(high for _, high in ends)
    return (least, most) if np.isfinite(least) and np.isfinite(most) and least < most else None
