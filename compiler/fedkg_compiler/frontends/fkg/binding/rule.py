"""Binds rules: a written expression becomes a typed value (names, arities, units), a written
condition a formula over slots and parameters, and a rule the rows of its quantifier.

Letter: R bank rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.name_matching import did_you_mean
from fedkg.pack import And, Formula, Implies, Not, Or, RuleRecord, Term
from fedkg.pack.formulas import Choose, Lag
from fedkg.units.text import UnitProblem, parse_unit
from fedkg.units.unit import ANGLE, NUMBER, PRESSURE, SAME, Unit, conversion, same_dimension
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.diagnostics.record import Related, Span
from fedkg_compiler.frontends.fkg.binding.aggregates import aggregate, over_members
from fedkg_compiler.frontends.fkg.binding.category_conditions import (
    is_class,
    membership,
    past_class,
    probability,
)
from fedkg_compiler.frontends.fkg.binding.declarations import scope_of, unit_of
from fedkg_compiler.frontends.fkg.binding.durations_in_steps import other_step, steps_back
from fedkg_compiler.frontends.fkg.binding.functions import FUNCTIONS, call, in_one_unit
from fedkg_compiler.frontends.fkg.binding.missing_value_pruning import prune
from fedkg_compiler.frontends.fkg.binding.monotone import monotone
from fedkg_compiler.frontends.fkg.binding.previous_step_value import history, past
from fedkg_compiler.frontends.fkg.binding.quantifiers import note_unused, quantify
from fedkg_compiler.frontends.fkg.binding.scope import (
    MIRRORED,
    Cell,
    Environment,
    FileRule,
    First,
    Fixed,
    Mined,
    Moving,
    Place,
    Reading,
    Readings,
    Scope,
    Sources,
    Value,
    View,
    add,
    as_held,
    compare,
    divide,
    in_unit,
    in_which_unit,
    join_product,
    join_sum,
    mismatch,
    multiply,
    negate,
    raise_to,
    settled,
    term_of,
    truth_compared,
)
from fedkg_compiler.frontends.fkg.binding.signal_columns import (
    VALUE,
    is_probability,
    look_up,
    names_in,
    strange_unit,
    trees_in,
    variables_in,
    variables_of,
)
from fedkg_compiler.frontends.fkg.binding.templates import expand
from fedkg_compiler.frontends.fkg.binding.temporal import (
    at_edge,
    becomes,
    begins,
    lasting,
    may_repeat,
    only_after,
    temporal,
    until,
)
from fedkg_compiler.frontends.fkg.binding.time_reductions import over_time
from fedkg_compiler.frontends.fkg.syntax import KINDS
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Aggregate,
    Ago,
    AllOf,
    AnyOf,
    Apply,
    Arithmetic,
    AtEdge,
    Becomes,
    Begins,
    Comparison,
    Condition,
    Equivalence,
    Expression,
    Follows,
    IfThen,
    IsClass,
    Lasting,
    Membership,
    Monotone,
    Negation,
    Negative,
    OnlyAfter,
    Operator,
    OverMembers,
    OverTime,
    Past,
    Quantity,
    Raised,
    Reference,
    Temporal,
    Tree,
    Until,
    Variable,
    Window,
)
from fedkg_compiler.frontends.sheets.sheet_cache import Sheets
from fedkg_compiler.graph.rdf_terms import local_name
from fedkg_compiler.ir import BoundRows, RowBuilder

# Expressions and conditions.


def bind(node: Expression, scope: Scope) -> Value | None:
    """The value of an expression; None where something in it is wrong, which has been said."""
    match node:
        case Quantity() if not math.isfinite(node.value):
            return None  # said by the parser
        case Quantity():
            unit = unit_of(node.unit, scope.problems, scope.names.signals)
            if node.unit is not None and unit is None:
                return None
            return Fixed(values=np.full(scope.rows.count, node.value), unit=unit, span=node.span)
        case Reference():
            return _reference(node, scope)
        case Variable():
            return variable(node.name, node.span, scope)
        case Apply():
            return _apply(node, scope)
        case Arithmetic():
            return _arithmetic(node, scope)
        case Raised():
            base = bind(node.base, scope)
            return None if base is None else raise_to(base, node.exponent, node.span, scope)
        case Aggregate():
            return aggregate(node, scope)
        case OverTime():
            return over_time(node, scope)
        case Operator():
            return BINDERS[type(node)](node, scope)
        case _:
            assert_never(node)


def _negative(node: Negative, scope: Scope) -> Value | None:
    arg = bind(node.arg, scope)
    return None if arg is None else negate(arg, node.span, scope)


def _past(node: Past, scope: Scope) -> Value | None:
    return past(node, scope)


def _ago(node: Ago, scope: Scope) -> Value | None:
    """The value some steps earlier; a number is the same at every step, and has none."""
    value, steps = bind(node.arg, scope), steps_back(node, scope)
    if isinstance(value, Fixed):
        scope.problems.error(
            "FKG262",
            node.span,
            "a fixed number has no earlier value",
            "remove `ago` and the time before it",
        )
        return None
    if value is None or steps is None:
        return None
    lag = Lag(steps=scope.rows.param(steps).index, arg=value.term)
    value = replace(value, term=lag, span=node.span, plain=False)
    return value if node.initial is None else _with_initial(value, node.initial, steps, scope)


def _with_initial(
    value: Moving, node: Expression, steps: NDArray[np.float64], scope: Scope
) -> Value | None:
    """An earlier value, or another one where the trace does not reach back `steps` steps, [R]."""
    initial = bind(node, scope)
    if initial is None:
        return None
    alike = in_one_unit((value, initial), scope)
    if alike is None:
        return None
    (earlier, first), unit, held = alike
    then, otherwise = term_of(earlier, scope), term_of(first, scope)
    if then is None or otherwise is None:
        return None
    known = other_step("once", steps, scope)
    term = Choose(condition=known, then=then, otherwise=otherwise)
    bare = (*value.bare, *(initial.bare if isinstance(initial, Moving) else ()))
    return replace(value, term=term, unit=unit, bare=bare, held=held)


BINDERS: dict[type[Operator], Callable[[Any, Scope], Value | None]] = {
    Negative: _negative,
    Past: _past,
    Ago: _ago,
}
"""How each operator becomes a value."""


def _arithmetic(node: Arithmetic, scope: Scope) -> Value | None:
    left, right = bind(node.left, scope), bind(node.right, scope)
    if left is None or right is None:
        return None
    match node.op:
        case "+" | "-":
            return add(left, right, node.op, node.span, scope)
        case "*":
            _turns_twice(node, left, right, scope)
            return multiply(left, right, node.span, scope)
        case "/":
            return divide(left, right, node.span, scope)


def _turns_twice(node: Arithmetic, left: Value, right: Value, scope: Scope) -> None:
    """Warn about `pi` times a speed in revolutions, which already count 2 pi each."""
    for side, other in ((node.left, right), (node.right, left)):
        if (
            other.unit is None
            or not other.unit.exponent(ANGLE)
            or not any(_is_pi(part, scope) for part in names_in(side))
        ):
            continue
        scope.problems.warning(
            "FKG239",
            node.span,
            f"`{other.unit.text}` contains an angle, and fedkg already takes a revolution as 2 pi"
            " radians: `pi` counts that again",
            "leave out `2 * pi` or `pi` (for a circumference write the radius), or declare the"
            " column in a unit without an angle, such as 1/min",
        )


def _is_pi(node: Tree, scope: Scope) -> bool:
    return (
        isinstance(node, Reference)
        and node.name == "pi"
        and not node.quoted
        and ("pi", "") not in scope.readings.found
    )


def _reference(node: Reference, scope: Scope) -> Value | None:
    reading = scope.readings.get(node.name)
    if reading is not None:
        return moving(reading, (node.name, ""), node.span, scope)
    if _is_pi(node, scope):
        return Fixed(values=np.full(scope.rows.count, math.pi), unit=NUMBER, span=node.span)
    if node.name in scope.names.labels:
        message = f"`{node.name}` is a label: it has classes, and a number is needed here"
        scope.problems.error(
            "FKG209",
            node.span,
            message,
            f"write {node.name} is {scope.names.labels[node.name].classes[0]}",
        )
    return None


def moving(reading: Reading, key: tuple[str, str], span: Span, scope: Scope) -> Value | None:
    """The value of a reading in the unit that the rule uses; None if the members of a set measure
    different quantities.
    """
    if scope.view.past:
        reading = history(reading, scope.book)
    columns = reading.columns
    if _in_several_units(reading):
        return _harmonised(
            reading,
            scope.rows.slot((*key, scope.view.key), columns, scope.view.ids, reading.role),
            span,
            scope,
        )
    stored, rule_unit = (
        (reading.places[0].stored, reading.places[0].rule_unit) if reading.places else (None, None)
    )
    if stored is None:
        units = [
            unit
            for column in columns.tolist()
            if (unit := scope.book.compared_unit(column)) is not None
        ]
        if units:
            scope.book.tell_unit((columns,), units[0], span, scope.problems)
            stored = units[0]
    unit_place = next(
        (at for column in columns.tolist() if (at := scope.book.unit_place(column)) is not None),
        None,
    )
    slot = scope.rows.slot((*key, scope.view.key), columns, scope.view.ids, reading.role)
    value = Moving(
        term=slot,
        unit=stored,
        span=span,
        plain=True,
        unit_place=unit_place,
        bare=() if stored else (columns,),
    )
    converted = in_unit(value, rule_unit, scope)
    return replace(converted, plain=True) if isinstance(converted, Moving) else converted


def variable(name: str, span: Span, scope: Scope) -> Value | None:
    """The numbers of a quantifier's variable; texts and entities are refused."""
    if name in scope.mined:
        return _mined_value(scope.mined[name], span, scope)
    environment = scope.environment
    if name not in environment.cells:
        otherwise = (
            f"bind it: for ?{name} where {{ ... }}"
            if not environment.cells
            else f"the quantifier binds {', '.join('?' + v for v in environment.cells)}"
        )
        message = f"no quantifier of this rule binds ?{name}"
        near = did_you_mean(name, environment.cells)
        scope.problems.error(
            "FKG201", span, message, near.replace("`", "`?", 1) if near else otherwise
        )
        return None
    if not environment.known:
        return None
    cells = environment.cells[name]
    for i, cell in enumerate(cells):
        if cell is None or cell.number is None:
            triple = _triple(cell, i, scope)
            where = f" in {triple or environment.name(i)}"
            if cell is None:
                what = f"has no value{where}"
            elif cell.row:
                what = "is the table row itself"
            elif cell.iri:
                what = f"is an entity ({cell.text})"
            else:
                what = f"is a text{'' if triple else f' ({cell.text})'}{where}"
            advice = (
                f"read a value of it: signal(?{name})"
                if cell is not None and (cell.iri or cell.row)
                else _literal_advice(cell)
            )
            scope.problems.error(
                "FKG208", span, f"?{name} {what}, and a number is needed here", advice
            )
            return None
        if not math.isfinite(cell.number):
            scope.problems.error(
                "FKG228",
                span,
                f"?{name} is not finite ({cell.text}) in {environment.name(i)}",
                "leave this value out of the sheet or graph if there is no limit",
            )
            return None
    values = np.array([cell.number for cell in cells if cell is not None], dtype=np.float64)
    text = cells[0].unit if cells and cells[0] is not None else ""
    if not text:
        return Fixed(values=values, unit=None, span=span)
    unit = parse_unit(text)
    if isinstance(unit, UnitProblem):
        place = scope.environment.span or span
        scope.problems.error(
            "FKG211", place, *strange_unit(unit, text, f"?{name} comes in", scope.graph)
        )
        return None
    return Fixed(values=values, unit=unit, span=span)


def _mined_value(found: Mined, span: Span, scope: Scope) -> Moving | None:
    """The parameter as a value: in the unit that it has by now, or bare until it meets one."""
    if scope.rows is not found.rows:
        message = (
            f"?{found.name} is found for the whole formula and cannot be used inside a set of"
            " members"
        )
        scope.problems.error(
            "FKG274", span, message, f"compare the sum or count of the members with ?{found.name}"
        )
        return None
    found.values.append(span)
    columns = np.array([found.column], dtype=np.int64)
    unit, place = scope.book.compared_unit(found.column), scope.book.unit_place(found.column)
    return Moving(
        term=found.param, unit=unit, span=span, unit_place=place, bare=() if unit else (columns,)
    )


def _triple(cell: Cell | None, row: int, scope: Scope) -> str:
    """``the triple (M01, maxTorque, "70")``: the fact about an entity of the solution that gives
    the text; "" if there is none.
    """
    if cell is None or cell.iri or scope.graph is None:
        return ""
    for column in scope.environment.cells.values():
        entity = column[row]
        if entity is None or not entity.iri:
            continue
        for iri in scope.graph.properties_between(entity.iri, cell.text)[:1]:
            return f'the triple ({entity.text}, {local_name(iri)}, "{cell.text}")'
    return ""


def _literal_advice(cell: Cell | None) -> str:
    """What to do about a cell or a literal of the graph that is not a number."""
    if cell is None:
        return "give it a value, or leave the row out"
    try:
        float(cell.text)
    except ValueError:
        return "write a number in the sheet or graph, or leave the value out if it is not known"
    return f"write the number in the graph without quotation marks: {cell.text}"


def _apply(node: Apply, scope: Scope) -> Value | None:
    name = node.name.text
    if is_probability(node):
        return probability(node, scope)
    if name in FUNCTIONS and name not in scope.names.signals:
        args = [bind(arg, scope) for arg in node.args]
        for word, expression in node.named:
            scope.problems.error(
                "FKG205", word.span, f"`{name}` takes no named argument", "remove the name"
            )
            bind(expression, scope)
        known = [arg for arg in args if arg is not None]
        return call(node, known, scope) if len(known) == len(args) and not node.named else None
    variables = variables_of(node)
    if variables is None:
        return None
    reading = scope.readings.get(name, variables)
    return None if reading is None else moving(reading, (name, variables), node.span, scope)


def _in_several_units(reading: Reading) -> bool:
    """Whether the places of a reading are not all in one unit; those of an ordinary rule always
    are.
    """
    first = reading.places[0] if reading.places else None
    return first is not None and any(
        (place.stored, place.rule_unit) != (first.stored, first.rule_unit)
        for place in reading.places
    )


def _harmonised(reading: Reading, slot: Term, span: Span, scope: Scope) -> Moving | None:
    """The reading in one unit: ``slot * factor + shift`` with the numbers of each member.

    None where members measure different things.
    """
    places = reading.places
    target = next(
        (unit for place in places if (unit := place.rule_unit or place.stored) is not None), None
    )
    if target is None:
        return Moving(term=slot, unit=None, span=span, plain=True, bare=(reading.columns,))
    units = [_table_unit(place, target, span, scope) for place in places]
    for i, unit in enumerate(units):
        if not same_dimension(unit, target):
            scope.problems.error(
                "FKG278",
                span,
                f"`{reading.name}` is {in_which_unit(target)} for some members and"
                f" {in_which_unit(unit)} for {scope.environment.name(i)}: the members of one sum or"
                " mean need units of one kind",
                "correct the units in the graph, or ask for members of one kind",
                (
                    (
                        Related(
                            span=scope.environment.span, message="the members are asked for here"
                        ),
                    )
                    if scope.environment.span
                    else ()
                ),
            )
            return None
    changes = [SAME if unit == target else conversion(unit, target) for unit in units]
    term = slot
    if any(change.factor != 1 or change.turns for change in changes):
        term = join_product(term, scope.rows.param(np.array([change.scale for change in changes])))
    if any(change.shift for change in changes):
        term = join_sum(
            term, scope.rows.param(np.array([float(change.shift) for change in changes]))
        )
    return Moving(term=term, unit=target, span=span, plain=True)


def _table_unit(place: Place, target: Unit, span: Span, scope: Scope) -> Unit:
    """Return the unit of the values in the table; a column without one has that of the others."""
    if place.stored is not None:
        return place.stored
    known = scope.book.compared_unit(place.column)
    if known is None:
        scope.book.tell_unit((np.array([place.column]),), target, span, scope.problems)
    return known or target


ABSOLUTE = frozenset({"bara", "bar(a)", "bar_a", "psia", "atm"})
"""Pressures that nobody writes for a gauge's."""
RISING, FALLING = frozenset({"<", "<=", "=="}), frozenset({">", ">=", "=="})
"""Operators of a chain that goes one way."""


def condition(node: Condition, scope: Scope) -> Formula | None:
    """The formula of a condition; None where something in it is wrong, which has been said."""
    match node:
        case Comparison():
            return comparison(node, scope)
        case IsClass(subject=Past() as subject) | Membership(subject=Past() as subject):
            return past_class(node, subject, scope)
        case IsClass():
            return is_class(node, scope)
        case Membership():
            return membership(node, scope)
        case OverMembers():
            return over_members(node, scope)
        case Monotone():
            return monotone(node, scope)
        case Negation():
            arg = condition(node.arg, replace(scope, permits=not scope.permits))
            return None if arg is None else Not(arg=arg)
        case AllOf() | AnyOf():
            args = [condition(arg, scope) for arg in node.args]
            known = tuple(arg for arg in args if arg is not None)
            if len(known) < len(args):
                return None
            return And(args=known) if isinstance(node, AllOf) else Or(args=known)
        case IfThen():
            antecedent = condition(node.antecedent, replace(scope, permits=not scope.permits))
            consequent = condition(node.consequent, scope)
            return (
                None
                if antecedent is None or consequent is None
                else Implies(antecedent=antecedent, consequent=consequent)
            )
        case Temporal():
            return temporal(node, scope)
        case Until():
            return until(node, scope)
        case Lasting():
            return lasting(node, scope)
        case Becomes():
            arg = condition(node.arg, scope)
            return None if arg is None else becomes(arg, node.span, scope)
        case Begins():
            arg = condition(node.arg, scope)
            return None if arg is None else begins(arg, node.span, scope)
        case AtEdge():
            return at_edge(node, scope)
        case Equivalence():
            return _equivalence(node, scope)
        case OnlyAfter():
            return only_after(node, scope)
        case Follows():
            return None  # its template could not be written out, which has been said
        case _:
            assert_never(node)


def _equivalence(node: Equivalence, scope: Scope) -> Formula | None:
    """``a iff b`` as two implications, ``a xor b`` as one without the other, or the reverse.

    Each side is bound as what is required and as what permits, because missing limits mean
    different things there.
    """
    other = replace(scope, permits=not scope.permits)
    bound = []
    for part, at in (
        (node.left, scope),
        (node.left, other),
        (node.right, scope),
        (node.right, other),
    ):
        formula = condition(part, at)
        if formula is None:
            return None
        bound.append(formula)
    if not may_repeat(And(args=tuple(bound)), node.span, scope):
        return None
    left, left_permits, right, right_permits = bound
    if node.word == "iff":
        return And(
            args=(
                Implies(antecedent=left_permits, consequent=right),
                Implies(antecedent=right_permits, consequent=left),
            )
        )
    return Or(
        args=(And(args=(left, Not(arg=right_permits))), And(args=(Not(arg=left_permits), right)))
    )


def comparison(node: Comparison, scope: Scope) -> Formula | None:
    """``a <= b < c +/- t``: one comparison for each neighbouring pair, all in one unit."""
    bound = _bind_sides(node, scope)
    if bound is None:
        return None
    values, unit, evaluated, tolerance = bound
    if unit is None:
        scope.book.compare_bare(
            [columns for value in values if isinstance(value, Moving) for columns in value.bare],
            node.span,
        )
    _ask_about_gauges(values, unit, scope)
    values = [in_unit(value, unit, scope) if value.unit is None else value for value in values]
    sides = [settled(in_unit(value, evaluated, scope), scope) for value in values]
    if tolerance is None:
        _never(node, [in_unit(value, unit, scope) for value in values], scope)
        if len(sides) == 2:
            asked = _truth(sides[0], node.operators[0].text, sides[1], scope)
            if asked is not None:
                return asked
    if _tell_truth_values(node, scope):
        return None
    scope.compared.append(evaluated.step().text if evaluated else "")
    terms = [term_of(side, scope) for side in sides]
    formulas = []
    for i, operator in enumerate(node.operators):
        left, right = terms[i], terms[i + 1]
        if left is None or right is None:
            return None
        formulas.append(compare(operator.text, left, right, tolerance, scope.rows))
    return formulas[0] if len(formulas) == 1 else And(args=tuple(formulas))


def _bind_sides(
    node: Comparison, scope: Scope
) -> tuple[list[Value], Unit | None, Unit | None, Term | None] | None:
    """The compared values, the unit of bare ones among them, the unit in which they are compared,
    and the tolerance in it; None if something is wrong, which has been reported.
    """
    values = [bind(operand, scope) for operand in node.operands]
    tolerance = None if node.tolerance is None else bind(node.tolerance, scope)
    known = _as_differences([value for value in values if value is not None])
    if len(known) < len(values) or (node.tolerance is not None and tolerance is None):
        return None
    unit = comparison_unit(known) or (tolerance.unit if tolerance is not None else None)
    has_units = any(value.unit is not None for value in known)
    if unit is not None and has_units and not _comparable(known, unit, scope):
        return None
    evaluated = _evaluated_unit(known, unit, scope)
    if tolerance is None:
        return known, unit, evaluated, None
    slack = _tolerance(tolerance, unit, evaluated, scope)
    return None if slack is None else (known, unit, evaluated, slack)


def _tell_truth_values(node: Comparison, scope: Scope) -> bool:
    """Report variables with true or false from the graph: only a yes-or-no column compares with
    them.
    """
    found = [
        (operand, cell.text)
        for operand in node.operands
        if isinstance(operand, Variable)
        for cell in scope.environment.cells.get(operand.name, ())
        if cell is not None and cell.number is not None and cell.text in ("true", "false")
    ]
    for operand, text in found[:1]:
        scope.problems.error(
            "FKG208",
            operand.span,
            f"?{operand.name} is {text} in the graph, and a number is needed here",
            "write a number in the graph, or declare the signal `in boolean`",
        )
    return bool(found)


def _truth(left: Value, operator: str, right: Value, scope: Scope) -> Formula | None:
    """What a comparison of a column of truth values with a number asks of it; None of any other
    comparison.
    """
    if isinstance(left, Fixed):
        left, operator, right = right, MIRRORED[operator], left
    if not isinstance(left, Moving) or not isinstance(right, Fixed):
        return None
    return truth_compared(operator, left.term, right.values, scope.rows, scope.book)


def _never(node: Comparison, sides: Sequence[Value], scope: Scope) -> None:
    """Report a chain with contradicting ends in every row: ``310 <= t <= 300``."""
    for i, first in enumerate(sides):
        if not isinstance(first, Fixed) or not first.values.size:
            continue
        rising = falling = True
        strict = False
        for j, last in enumerate(sides[i + 1 :], i + 1):
            operator = node.operators[j - 1].text
            rising, falling = rising and operator in RISING, falling and operator in FALLING
            strict = strict or operator in ("<", ">")
            if not (rising or falling):
                break
            if j == i + 1 or not isinstance(last, Fixed):
                continue
            low, high = (first.values, last.values) if rising else (last.values, first.values)
            if (low > high).all() or (strict and (low >= high).all()):
                row, unit = (
                    scope.where(0),
                    f" {first.unit.text}" if first.unit and first.unit.text else "",
                )
                at_least, at_most = ("above", "below") if strict else ("at least", "at most")
                scope.problems.error(
                    "FKG244",
                    node.span,
                    f"no value is {at_least} {low[0]:g}{unit} and {at_most} {high[0]:g}{unit}{row}",
                    "exchange the two limits; to allow values on either side, join two "
                    "comparisons by `or`",
                )
                return


def _as_differences(values: Sequence[Value]) -> list[Value]:
    """The values, with numbers that are compared with a difference read as differences.

    In ``t1 - t2 <= 10 degF``, 10 degF is 10 degR: no point on the scale can be meant.
    """
    differs = any(isinstance(one, Moving) and one.unit and one.unit.difference for one in values)
    return [
        replace(value, unit=value.unit.step())
        if differs and isinstance(value, Fixed) and value.unit is not None and value.unit.affine
        else value
        for value in values
    ]


def comparison_unit(values: Sequence[Value]) -> Unit | None:
    """The unit of bare numbers in a comparison: that of the first signal standing plainly, else of
    the first number written with one.
    """
    for wanted in (
        [value for value in values if isinstance(value, Moving) and value.plain],
        [value for value in values if isinstance(value, Fixed)],
        [value for value in values if isinstance(value, Moving)],
    ):
        for value in wanted:
            if value.unit is not None:
                return value.unit
    return None


def _evaluated_unit(values: Sequence[Value], unit: Unit | None, scope: Scope) -> Unit | None:
    """The unit in which values are compared: that of the first signal standing plainly, else of the
    first calculated value, as the table holds it. Fixed numbers are converted into it, because they
    can be converted exactly.
    """
    data = [value for value in values if isinstance(value, Moving) and value.unit is not None]
    if unit is None or not data or scope.mined:  # `find` reports values in `unit`
        return unit
    held = as_held(next((value for value in data if value.plain), data[0])).unit
    # Nobody wrote the unit of a product: kW reads better than N.m.rpm.
    return unit if held is None or held.derived or conversion(held, unit).identity else held


def _comparable(values: Sequence[Value], unit: Unit, scope: Scope) -> bool:
    anchor = next(value for value in values if value.unit is unit)
    fine = True
    for value in values:
        if value.unit is None:
            continue
        if not same_dimension(value.unit, unit):
            first, second = (anchor, value) if anchor.span <= value.span else (value, anchor)
            mismatch(first, second, "compared with", scope)
            fine = False
        elif (value.unit.affine and unit.difference) or (unit.affine and value.unit.difference):
            point, step = (value, anchor) if value.unit.affine else (anchor, value)
            scope.problems.error(
                "FKG215",
                point.span,
                "a difference is compared with a point on a scale: this point is in"
                f" {point.unit.text if point.unit else ''}",
                (
                    f"if this is a difference too, give it in {point.unit.step_text}; else compare"
                    f" it with a value in {point.unit.text}"
                    if point.unit
                    else ""
                ),
                (Related(span=step.span, message="this is a difference"),),
            )
            fine = False
    return fine


def _tolerance(
    value: Value, unit: Unit | None, evaluated: Unit | None, scope: Scope
) -> Term | None:
    """The tolerance in the unit that is compared in: a difference, fixed, not negative.

    A bare one is in the unit of bare numbers.
    """
    if not isinstance(value, Fixed):
        message, advice = (
            "a tolerance is a number or a value of the quantifier, not a signal",
            "compare the difference: abs(a - b) <= c",
        )
        scope.problems.error("FKG227", value.span, message, advice)
        return None
    negative = np.flatnonzero(value.values < 0)
    if negative.size:
        row = int(negative[0])
        message = f"a tolerance must not be negative, and this one is {value.values[row]:g}"
        scope.problems.error(
            "FKG227", value.span, message + scope.where(row), "write 0 or more: +/- 0.5"
        )
        return None
    step = None if unit is None else unit.step()
    given = None if value.unit is None else value.unit.step()
    if given is not None and step is not None and not same_dimension(given, step):
        message = (
            f"a tolerance {in_which_unit(given)} does not fit a comparison {in_which_unit(step)}"
        )
        advice = f"write it in {step.text}" if step.text else "write it without a unit"
        scope.problems.error("FKG213", value.span, message, advice)
        return None
    value = in_unit(value, step, scope) if given is None else replace(value, unit=given)
    return term_of(in_unit(value, evaluated and evaluated.step(), scope), scope)


def _ask_about_gauges(values: Sequence[Value], unit: Unit | None, scope: Scope) -> None:
    """Tell that bar beside barg is taken as absolute: people write it for both."""
    units = [value.unit for value in values if value.unit is not None]
    gauge = next((one for one in units if one.affine and one.dimension == PRESSURE), None)
    if gauge is None or unit is None:
        return
    for value in values:
        plain = value.unit
        if (
            plain is not None
            and not plain.affine
            and not plain.difference
            and plain.text not in ABSOLUTE
        ):
            relative = parse_unit(f"{plain.text}g")
            as_gauge = (
                f"write {plain.text}g"
                if isinstance(relative, Unit)
                else f"convert it to {gauge.text}"
            )
            absolute = {"psi": "write psia", "bar": "write bara"}.get(
                plain.text, "convert it to bara"
            )
            scope.problems.warning(
                "FKG219",
                value.span,
                f"`{plain.text}` is an absolute pressure, but `{gauge.text}` is a gauge pressure",
                f"if it is a gauge pressure, {as_gauge}; if it is absolute, {absolute}",
            )


# Rules: the quantifier gives rows, and the formula is checked once for all rows that agree in
# their units.


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
    cells = {
        name: column
        for name in sorted(used)
        if (column := environment.cells.get(name)) is not None
        and any(cell is None for cell in column)
    }
    if not cells:
        return [frozenset()] * environment.rows
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
    split = [(frozenset(variable.split()), places) for (_, variable), places in found]
    different: dict[Unit | None, int] = {}
    by_identity: dict[int, int] = {}

    def number(unit: Unit | None) -> int:
        """Equal units have one number: rows are compared by it, because units are slow to hash."""
        known = by_identity.get(id(unit))
        if known is None:
            known = by_identity[id(unit)] = different.setdefault(unit, len(different))
        return known

    groups: dict[Hashable, list[int]] = {}
    for i in range(environment.rows):
        here = missing[i]
        key: list[Hashable] = [here, *[_unit(column[i]) for column in cells]]
        for variables, places in split:
            if here.isdisjoint(variables):
                place = places[i]
                if place.column < 0:
                    break
                key += (place.role, number(place.stored), number(place.rule_unit))
        else:
            groups.setdefault(tuple(key), []).append(i)
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
    if not any(
        cell is not None and cell.key is not None for cells in others for cell in cells
    ) and (
        not any(
            place.key is not None
            for reading in readings.found.values()
            if reading is not None
            for place in reading.places
        )
    ):
        return ((),) * environment.rows
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
    texts = []
    for name, cells in environment.cells.items():
        cell = cells[row]
        if cell is not None and cell.text and (cell.iri or cell.number is None):
            texts += [cell.text] if name.casefold() != "unit" else []
    return ", ".join(texts)
