"""From a written expression to a typed value (names, arities, units), and from a written condition
to a formula over slots and parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.name_matching import did_you_mean
from fedkg.pack import And, Formula, Implies, Not, Or, Term
from fedkg.pack.formulas import Choose, Lag
from fedkg.units.text import UnitProblem, parse_unit
from fedkg.units.unit import ANGLE, NUMBER, PRESSURE, SAME, Unit, conversion, same_dimension
from fedkg_compiler.diagnostics.record import Related, Span
from fedkg_compiler.frontends.fkg.binding.aggregates import aggregate, over_members
from fedkg_compiler.frontends.fkg.binding.arithmetic import (
    MIRRORED,
    add,
    compare,
    divide,
    in_unit,
    join_product,
    join_sum,
    mismatch,
    multiply,
    negate,
    raise_to,
    term_of,
    truth_compared,
)
from fedkg_compiler.frontends.fkg.binding.category_conditions import (
    is_class,
    membership,
    past_class,
    probability,
)
from fedkg_compiler.frontends.fkg.binding.declarations import unit_of
from fedkg_compiler.frontends.fkg.binding.functions import FUNCTIONS, call, in_one_unit
from fedkg_compiler.frontends.fkg.binding.monotone import monotone
from fedkg_compiler.frontends.fkg.binding.past_operator import history, past
from fedkg_compiler.frontends.fkg.binding.scope import (
    Cell,
    Fixed,
    Mined,
    Moving,
    Place,
    Reading,
    Scope,
    Value,
)
from fedkg_compiler.frontends.fkg.binding.signal_columns import (
    is_probability,
    names_in,
    strange_unit,
    variables_of,
)
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
from fedkg_compiler.frontends.fkg.binding.window_binder import other_step, steps_back
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
)
from fedkg_compiler.graph.graph_terms import local_name


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
    (earlier, first), unit = alike
    then, otherwise = term_of(earlier, scope), term_of(first, scope)
    if then is None or otherwise is None:
        return None
    known = other_step("once", steps, scope)
    term = Choose(condition=known, then=then, otherwise=otherwise)
    bare = (*value.bare, *(initial.bare if isinstance(initial, Moving) else ()))
    return replace(value, term=term, unit=unit, bare=bare)


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
            f"`{other.unit.text}` counts revolutions, which already are 2 pi radians each: `pi`"
            " counts them again",
            "leave out `2 * pi` (for a circumference write the radius), or declare the speed in"
            " 1/min and multiply it by `pi` first",
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
            "bind it: for ?x in ..."
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
            what = "nothing" if cell is None else "an entity" if cell.iri else "a text"
            triple = _triple(cell, i, scope)
            shown = f" ({cell.text})" if cell is not None and not triple else ""
            where = "" if cell is not None and cell.iri else f" in {triple or environment.name(i)}"
            advice = (
                "read a value of it: signal(?x)"
                if cell is not None and cell.iri
                else _literal_advice(cell)
            )
            scope.problems.error(
                "FKG208",
                span,
                f"?{name} is {what}{shown}{where}, and a number is needed here",
                advice,
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
                f"`{reading.name}` is in `{target.text}` for some members and in `{unit.text}` for"
                f" {scope.environment.name(i)}: the members of one sum or mean need units of one "
                f"kind",
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
    values, unit, tolerance = bound
    if unit is None:
        scope.book.compare_bare(
            [columns for value in values if isinstance(value, Moving) for columns in value.bare],
            node.span,
        )
    _ask_about_gauges(values, unit, scope)
    sides = [in_unit(value, unit, scope) for value in values]
    if tolerance is None:
        _never(node, sides, scope)
        if len(sides) == 2:
            asked = _truth(sides[0], node.operators[0].text, sides[1], scope)
            if asked is not None:
                return asked
    scope.compared.append(unit.step().text if unit else "")
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
) -> tuple[list[Value], Unit | None, Term | None] | None:
    """The compared values, the unit of the comparison, and the tolerance in it; None if something
    is wrong, which has been reported.
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
    if tolerance is None:
        return known, unit, None
    slack = _tolerance(tolerance, unit, scope)
    return None if slack is None else (known, unit, slack)


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
                scope.problems.error(
                    "FKG244",
                    node.span,
                    f"no value is above {low[0]:g}{unit} and below {high[0]:g}{unit}{row}",
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
    """The unit in which values are compared: that of the first signal standing plainly, else of the
    first number written with one.
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
                    f"write the difference in {point.unit.step_text}, or say that its numbers are"
                    f" in {point.unit.text}"
                    if point.unit
                    else ""
                ),
                (Related(span=step.span, message="this is a difference"),),
            )
            fine = False
    return fine


def _tolerance(value: Value, unit: Unit | None, scope: Scope) -> Term | None:
    """The tolerance in the comparison's unit: a difference, fixed, not negative."""
    if not isinstance(value, Fixed):
        message, advice = (
            "a tolerance is a number or a value of the quantifier, not a signal",
            "compare the difference: abs(a - b) <= c",
        )
        scope.problems.error("FKG227", value.span, message, advice)
        return None
    if np.any(value.values < 0):
        scope.problems.error(
            "FKG227", value.span, "a tolerance must not be negative", "write: +/- 0.5"
        )
        return None
    step = None if unit is None else unit.step()
    given = None if value.unit is None else value.unit.step()
    if given is not None and step is not None and not same_dimension(given, step):
        message = f"a tolerance in `{given.text}` does not fit a comparison in `{step.text}`"
        scope.problems.error("FKG213", value.span, message, f"write it in {step.text}")
        return None
    return term_of(in_unit(replace(value, unit=given), step, scope), scope)


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
