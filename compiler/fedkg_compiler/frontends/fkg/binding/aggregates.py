"""What is made of members: numbers (``sum of flow(?p) over ?p ...``) and conditions (``all of (...)
over ?p ...``).

Letters: R rows that own sets of members, M members of all sets together.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.name_matching import did_you_mean
from fedkg.pack import And, AtLeast, Formula, Or, Reduce
from fedkg.units.unit import NUMBER
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.aggregate_members import Members, member_scope, members_of
from fedkg_compiler.frontends.fkg.binding.missing_value_pruning import prune
from fedkg_compiler.frontends.fkg.binding.scope import (
    Fixed,
    Moving,
    Scope,
    Value,
    as_held,
    difference_advice,
    proportional,
    term_of,
    zero_of,
)
from fedkg_compiler.frontends.fkg.binding.signal_columns import variables_in
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Aggregate,
    Condition,
    Expression,
    OverMembers,
    Variable,
)

Reduction = Literal["sum", "mean", "min", "max", "count"]
REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)
"""The words before `of`."""

ELSEWHERE = {
    "average": "mean",
    "avg": "mean",
    "total": "sum",
    "minimum": "min",
    "maximum": "max",
    "number": "count",
}
"""What reductions are called elsewhere."""

_OF_NOTHING = {"sum": "their sum is 0", "count": "their count is 0"}


def aggregate(node: Aggregate, scope: Scope) -> Value | None:
    """The value of a reduction; None where something in it is wrong, which has been said."""
    word = node.function.text
    if word not in REDUCTIONS:
        advice = (
            f"did you mean `{ELSEWHERE[word]}`?"
            if word in ELSEWHERE
            else did_you_mean(word, REDUCTIONS, "write sum, mean, min, max or count")
        )
        scope.problems.error(
            "FKG202", node.function.span, f"`{word}` is not a function over members", advice
        )
        return None
    op: Reduction = next(known for known in REDUCTIONS if known == word)
    members = members_of(node, scope)
    if members is None or not _all_known(members, node.body, scope):
        return None
    if op == "count" and isinstance(node.body, Variable) and node.body.name == node.variable.text:
        return Fixed(values=members.sizes.astype(np.float64), unit=NUMBER, span=node.span)
    inner = member_scope(members, node, scope)
    value = None if inner is None else scope.bind_value(node.body, inner)
    if inner is None or value is None:
        return None
    if op == "sum" and value.unit is not None and value.unit.affine:
        message = f"values in {value.unit.text} cannot be added: {zero_of(value.unit)}"
        scope.problems.error(
            "FKG215",
            node.body.span,
            message,
            f"take their mean; or {difference_advice(value.unit)}",
        )
        return None
    _tell_empty(members, node.span, _OF_NOTHING.get(op, f"their {op} is unknown"), scope)
    unit = NUMBER if op == "count" else value.unit
    if isinstance(value, Fixed) and (op in ("sum", "count") or members.sizes.all()):
        inner.rows.forget()
        return Fixed(values=_reduce_constants(op, value.values, members), unit=unit, span=node.span)
    if op == "sum":
        value = proportional(value, inner)
    term = term_of(as_held(value), inner)
    if term is None:
        return None
    moves = isinstance(value, Moving) and op != "count"
    bare = (
        [_of_rows(columns, members) for columns in value.bare]
        if isinstance(value, Moving) and moves
        else []
    )
    return Moving(
        term=Reduce(op=op, members=inner.rows.number, arg=term),
        unit=unit,
        span=node.span,
        plain=moves and isinstance(value, Moving) and value.plain,
        bare=tuple(columns for group in bare for columns in group),
        held=value.held if moves and isinstance(value, Moving) else None,
    )


def over_members(node: OverMembers, scope: Scope) -> Formula | None:
    """The formula of ``all of``, ``any of`` and ``at least k of``; None where something in it is
    wrong, which has been said.
    """
    members = members_of(node, scope)
    if members is None:
        return None
    of_nothing = "`all of` is true there" if node.least is None else "the condition is false there"
    _tell_empty(members, node.span, of_nothing, scope)
    largest = int(members.sizes.max(initial=0))
    if node.least is not None and 0 < largest < node.least:
        message = f"no row has {node.least} members: the largest set has {largest}"
        scope.problems.warning(
            "FKG276", node.span, message, "ask for fewer, or correct the pattern"
        )
    formulas = []
    parts, left_out = _parts(node, members, scope)
    wanted = _wanted(node, members, left_out, scope)
    for part, body in parts:
        inner = member_scope(part, node, scope)
        formula = None if inner is None else scope.bind_condition(body, inner)
        if inner is None or formula is None:
            return None
        count = None if wanted is None else scope.rows.param(wanted).index
        formulas.append(AtLeast(count=count, members=inner.rows.number, arg=formula))
    if len(formulas) == 1:
        return formulas[0]
    return And(args=tuple(formulas)) if node.least is None else Or(args=tuple(formulas))


def _wanted(
    node: OverMembers, members: Members, left_out: NDArray[np.int64], scope: Scope
) -> NDArray[np.float64] | None:
    """Of how many members the body must hold, a number or one for each row [R]; None: of all.

    A member without remaining parts satisfies a requirement and fails a permission (see `prune`).

    Args:
        left_out: int64 [R], how many there are of them.
    """
    if node.least is None:
        return members.sizes.astype(np.float64) if scope.permits and left_out.any() else None
    if scope.permits or not left_out.any():
        return np.array(float(node.least))
    return np.maximum(0.0, node.least - left_out)


def _parts(
    node: OverMembers, members: Members, scope: Scope
) -> tuple[list[tuple[Members, Condition]], NDArray[np.int64]]:
    """The members with what is asked of them, and int64 [R] of how many nothing is left: where a
    value is missing, what needs it goes.

    Members that lack different values are asked different things, which is sound where `all of` is
    required and for `any of`; else only
    members that lack nothing are counted.
    """
    environment = members.environment
    used = [name for name in members.solved.own[1:] if name in variables_in(node.arg)[1]]
    lacking = [
        frozenset(name for name in used if environment.cells[name][i] is None)
        for i in range(environment.rows)
    ]
    if not any(lacking):
        return [(members, node.arg)], np.zeros_like(members.sizes)
    first = next(i for i, names in enumerate(lacking) if names)
    names_lacking = ", ".join(f"?{name}" for name in sorted(lacking[first]))
    scope.problems.info(
        "FKG174",
        node.source.span,
        f"some members lack a value ({names_lacking} of {environment.name(first)}, for example):"
        " there, fedkg leaves out the part of the rule that needs the value",
        "add the missing values; without a limit, this part of the rule is never violated",
    )
    groups: dict[frozenset[str], list[int]] = {frozenset(): []}
    for i, names in enumerate(lacking):
        groups.setdefault(names, []).append(i)
    parts, left_out = [], np.zeros_like(members.sizes)
    together = node.least == 1 or (node.least is None and not scope.permits)
    for names, at in groups.items():
        body = (
            node.arg
            if not names
            else prune(node.arg, names, permits=scope.permits)
            if together
            else None
        )
        if body is not None and (at or not names):
            parts.append((members.take(at), body))
        elif body is None:
            left_out += np.bincount(members.owners[at], minlength=left_out.size)
    return parts, left_out


def _all_known(members: Members, body: Expression, scope: Scope) -> bool:
    """Whether every member has the values that are put together."""
    for name in members.solved.own:
        if name != members.solved.own[0] and name not in variables_in(body)[1]:
            continue
        for i, cell in enumerate(members.environment.cells[name]):
            if cell is None:
                message = (
                    f"?{name} has no value for {members.environment.name(i)}: every member"
                    " needs one"
                )
                scope.problems.error(
                    "FKG279",
                    body.span,
                    message,
                    "add the value, or remove OPTIONAL to select only members with a value",
                )
                return False
    return True


def _tell_empty(members: Members, span: Span, what: str, scope: Scope) -> None:
    empty = np.flatnonzero(members.sizes == 0)
    if not empty.size or not (
        members.sizes.any() or (scope.environment.origin and members.solved.rows)
    ):
        return
    name = scope.environment.name(int(empty[0]))
    scope.problems.info(
        "FKG280",
        span,
        f"some rows have no member, {name} for example: {what}",
        "correct the pattern if they should have members",
    )


def _reduce_constants(
    op: Reduction, values: NDArray[np.float64], members: Members
) -> NDArray[np.float64]:
    """Numbers that are known when rules are compiled, [M], put together for each row: [R]; added in
    the order of the members.
    """
    rows = members.sizes.shape[0]
    match op:
        case "count":
            return members.sizes.astype(np.float64)
        case "sum" | "mean":
            total = np.bincount(members.owners, weights=values, minlength=rows).astype(np.float64)
            return total if op == "sum" else total / members.sizes
        case "min":
            return np.minimum.reduceat(values, members.offsets[:-1])
        case "max":
            return np.maximum.reduceat(values, members.offsets[:-1])


def _of_rows(columns: NDArray[np.int64], members: Members) -> tuple[NDArray[np.int64], ...]:
    """Columns [M] of members as columns [R] of rows, the first members, the second ones, and so on;
    short sets repeat a member.
    """
    sizes = members.sizes
    if not columns.size:
        return (columns,)
    start = members.offsets[:-1]
    return tuple(
        columns[np.where(sizes > 0, start + np.minimum(j, sizes - 1), 0)]
        for j in range(int(sizes.max()))
    )
