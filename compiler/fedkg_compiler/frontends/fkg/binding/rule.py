"""Binds one rule: its quantifier gives rows, its formula is checked once for all rows that agree in
their units.

Letter: R bank rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedkg.pack import RuleRecord
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.frontends.fkg.binding.declarations import scope_of
from fedkg_compiler.frontends.fkg.binding.expression_binder import bind, condition
from fedkg_compiler.frontends.fkg.binding.missing_value_pruning import prune
from fedkg_compiler.frontends.fkg.binding.quantifiers import note_unused, quantify
from fedkg_compiler.frontends.fkg.binding.scope import (
    Cell,
    Environment,
    FileRule,
    First,
    Place,
    Readings,
    Scope,
    Sources,
    View,
)
from fedkg_compiler.frontends.fkg.binding.signal_columns import (
    VALUE,
    look_up,
    names_in,
    trees_in,
    variables_in,
)
from fedkg_compiler.frontends.fkg.binding.templates import expand
from fedkg_compiler.frontends.fkg.syntax import KINDS
from fedkg_compiler.frontends.fkg.syntax.tree import (
    AllOf,
    Apply,
    Condition,
    Follows,
    IsClass,
    Temporal,
    Window,
)
from fedkg_compiler.frontends.sheets.sheet_cache import Sheets
from fedkg_compiler.ir import BoundRows, RowBuilder


def bind_rule(
    rule: FileRule, sources: Sources, sheets: Sheets, *, permits: bool = False
) -> list[BoundRows]:
    """The bound rows of a rule; [] where it is wrong or holds for nothing, which has been said.

    Args:
        permits: the formula says when something else is required, as behind `if`: what lacks a
            value there does not hold.
    """
    problems = sources.problems
    whole = rule.rule.formula
    if any(isinstance(node, Follows | Window) for node in trees_in(whole)):
        expanded = expand(whole, sources.names, problems)
        if expanded is None:
            return []
        whole = expanded
    rule = replace(rule, rule=replace(rule.rule, formula=_without_top_always(whole)))
    tree = rule.rule
    environment = (
        Environment(rows=1)
        if tree.quantifier is None
        else quantify(tree.quantifier, sources, sheets)
    )
    if not any(
        isinstance(node, Apply) and node.name.text == VALUE for node in names_in(tree.formula)
    ):
        environment = environment.in_its_units()
    readings = look_up(tree.formula, environment, sources)
    numbers, used = variables_in(tree.formula)
    if tree.quantifier is not None:
        note_unused(tree.quantifier, environment, used, problems)
    if not environment.known:
        if rule.file.file in sources.names.library:
            return []
        bind_part(rule, tree.formula, environment, readings, sources)
        return []
    missing = _missing(environment, used)
    _tell_missing(environment, missing, problems)
    complete = next(
        (i for i, names in enumerate(missing) if not names and readings.complete_at(i)), 0
    )
    sources.firsts.setdefault(
        tree.name.text, First(rule=rule, environment=environment.take([complete]))
    )
    bound: list[BoundRows] = []
    for rows in _groups(environment, readings, numbers, missing):
        formula: Condition | None = tree.formula
        if missing[rows[0]]:
            formula = prune(tree.formula, missing[rows[0]], permits=permits)
        if formula is None:
            continue
        bound += _bind_group(rule, formula, environment, readings, rows, sources, permits=permits)
    if any(not part.rows.slots_read() for part in bound):
        message = f"the rule `{tree.name.text}` reads no signal"
        problems.error(
            "FKG234", tree.name.span, message, "name a signal, a label or a `` `column` `` in it"
        )
        return []
    return bound


def _bind_group(
    rule: FileRule,
    formula: Condition,
    environment: Environment,
    readings: Readings,
    rows: Sequence[int],
    sources: Sources,
    *,
    permits: bool,
) -> list[BoundRows]:
    """Rows that agree in their units, bound together; row by row for a rule of the library of which
    some cannot be bound.
    """

    def bind_rows(some: Sequence[int]) -> list[BoundRows]:
        part = bind_part(
            rule, formula, environment.take(some), readings.take(some), sources, permits=permits
        )
        return [] if part is None else [part]

    together = bind_rows(rows)
    if together:
        return together
    if rule.file.file in sources.names.library:
        # A note (FKG542) names members without a column. The rule holds for the other entities.
        return [part for row in rows for part in bind_rows([row])]
    name = rule.rule.name.text
    assert sources.problems.failed, f"the rule `{name}` would be left out without a word"
    return []


def _without_top_always(condition: Condition) -> Condition:
    """The condition without the `always` that every rule means anyway: one without a window at its
    very top, alone or joined by `and`.
    """
    match condition:
        case Temporal(mode="always", window=None):
            return _without_top_always(condition.arg)
        case AllOf():
            return replace(
                condition, args=tuple(_without_top_always(arg) for arg in condition.args)
            )
        case _:
            return condition


def record_of(rule: FileRule) -> RuleRecord:
    """What the pack says of a rule of a rule file."""
    tree = rule.rule
    return RuleRecord.model_validate(
        {
            "name": tree.name.text,
            "title": tree.title.text if tree.title else "",
            "kind": (
                tree.kind.text if tree.kind is not None and tree.kind.text in KINDS else "other"
            ),
            "weight": tree.weight.value if tree.weight is not None else 1.0,
            "hard": tree.hard,
            "scope": scope_of(tree.scope),
            "text": tree.text,
            "file": Path(rule.file.file).name,
            "line": tree.span.line,
        }
    )


def _missing(environment: Environment, used: set[str]) -> list[frozenset[str]]:
    """For each row, the variables that the rule uses and that have no value."""
    cells = {name: environment.cells[name] for name in sorted(used) if name in environment.cells}
    return [
        frozenset(name for name, column in cells.items() if column[i] is None)
        for i in range(environment.rows)
    ]


def _tell_missing(
    environment: Environment, missing: Sequence[frozenset[str]], problems: Problems
) -> None:
    rows = [i for i, names in enumerate(missing) if names]
    if not rows or environment.span is None:
        return
    names = ", ".join(f"?{name}" for name in sorted(missing[rows[0]]))
    many, example = (
        (f"{len(rows)} rows lack", ", for example") if len(rows) > 1 else ("one row lacks", "")
    )
    problems.info(
        "FKG174",
        environment.span,
        f"{many} a value ({names} in {environment.name(rows[0])}{example}): there, fedkg leaves "
        f"out the part of the rule that needs the value",
        "add the missing values; without a limit, this part of the rule is never violated",
    )


def _groups(
    environment: Environment,
    readings: Readings,
    numbers: set[str],
    missing: Sequence[frozenset[str]],
) -> list[list[int]]:
    """The rows that can be bound, together where all units agree and the same values are
    missing.
    """
    cells = [environment.cells[name] for name in sorted(numbers) if name in environment.cells]
    found = sorted(
        (key, reading.places) for key, reading in readings.found.items() if reading is not None
    )
    groups: dict[Hashable, list[int]] = {}
    for i in range(environment.rows):
        places = [
            places[i] for (_, variable), places in found if missing[i].isdisjoint(variable.split())
        ]
        if all(place.column >= 0 for place in places):
            units = tuple(_unit(column[i]) for column in cells)
            groups.setdefault(
                (
                    missing[i],
                    units,
                    tuple((place.role, place.stored, place.rule_unit) for place in places),
                ),
                [],
            ).append(i)
    return list(groups.values())


def _unit(cell: Cell | None) -> tuple[str, bool] | None:
    return None if cell is None else (cell.unit, cell.number is None)


def bind_part(
    rule: FileRule,
    formula: Condition,
    environment: Environment,
    readings: Readings,
    sources: Sources,
    *,
    permits: bool = False,
) -> BoundRows | None:
    """Rows that agree in their units, bound; None where something in the formula is wrong, which
    has been said.
    """
    rows = RowBuilder(environment.rows)
    scope = Scope(
        names=sources.names,
        environment=environment,
        readings=readings,
        rows=rows,
        book=sources.book,
        problems=sources.problems,
        graph=sources.graph,
        view=View(key="base", ids=np.zeros(environment.rows, dtype=np.int64)),
        keys=_keys(rule, environment, readings, sources.problems),
        compared=[],
        bind_value=bind,
        bind_condition=condition,
        sources=sources,
        permits=permits,
    )
    bound = condition(formula, scope)
    if bound is None:
        return None
    units = set(scope.compared)
    return BoundRows(
        rule=record_of(rule),
        formula=bound,
        rows=rows.build(),
        keys=scope.keys,
        entities=tuple(_entity(environment, i) for i in range(environment.rows)),
        unit=units.pop() if len(units) == 1 else "",
        span=rule.rule.formula.span,
    )


def _keys(
    rule: FileRule, environment: Environment, readings: Readings, problems: Problems
) -> tuple[tuple[tuple[str, str], ...], ...]:
    """What selects the table rows of each bank row: the keys of the entities it is about.

    Signals that entities share demand their keys, which must not contradict each other. The other
    entities of the quantifier select too,
    except those that the formula itself compares with a category (``variant is ?v``). Where two of
    them contradict each other and no signal
    decides, neither selects and a diagnostic is reported. If every signal has a separate column,
    nothing needs to be selected.
    """
    compared = {
        node.value.text
        for node in names_in(rule.rule.formula)
        if isinstance(node, IsClass) and node.form == "variable"
    }
    others = [cells for name, cells in environment.cells.items() if name not in compared]
    result = []
    for i in range(environment.rows):
        selected: dict[str, str] = {}
        for reading in readings.found.values():
            key = None if reading is None else reading.places[i].key
            if key is not None and selected.setdefault(*key) != key[1]:
                problems.error(
                    "FKG231",
                    rule.rule.name.span,
                    f"no table row is about both {selected[key[0]]} and {key[1]}: in each row, "
                    f"column `{key[0]}` names only one of them",
                    "give each of them separate columns, so that one row has the values of both",
                )
        offered: dict[str, set[str]] = {}
        own = all(
            variable and reading is not None and _is_own(reading.places[i])
            for (_, variable), reading in readings.found.items()
        )
        for cells in () if own and readings.found else others:
            cell = cells[i]
            if cell is not None and cell.key is not None:
                offered.setdefault(cell.key[0], set()).add(cell.key[1])
        for header, texts in offered.items():
            if len(texts) == 1:
                selected.setdefault(header, *texts)
            elif header not in selected:
                one, two = sorted(texts)[:2]
                problems.warning(
                    "FKG231",
                    rule.rule.name.span,
                    f"column `{header}` tells which table rows are about {one} and which are about"
                    f" {two}: the rule is checked on all rows",
                    "read a signal of the entity that is meant, as in torque(?machine), or leave"
                    " the other one out of the variables",
                )
        result.append(tuple(sorted(selected.items())))
    return tuple(result)


def _is_own(place: Place) -> bool:
    """Whether the column is that of one entity, so that no table row has to be selected."""
    return place.key is None and not place.shared


def _entity(environment: Environment, row: int) -> str:
    """What a row is about: its entities and texts."""
    cells = (cells[row] for name, cells in environment.cells.items() if name.casefold() != "unit")
    return ", ".join(
        cell.text
        for cell in cells
        if cell is not None and cell.text and (cell.iri or cell.number is None)
    )
