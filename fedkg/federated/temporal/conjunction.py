"""Several conditions as one formula, and what is known of its distance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedkg.errors import KnowledgeError
from fedkg.pack import Bank
from fedkg.pack.formulas import (
    And,
    Compare,
    Formula,
    Implies,
    Initially,
    Not,
    Or,
    Renumbering,
    Temporal,
    renumbered,
    sides,
)
from fedkg.pack.term_linearity import linear_in_slots


def conjunction(banks: Sequence[Bank]) -> Bank:
    """Return a bank with one row: the conjunction of several one-row banks with concatenated
    parameters.

    Raises:
        KnowledgeError: nothing to join, or conditions over members.
    """
    if not banks or any(bank.members for bank in banks):
        raise KnowledgeError(
            "fedkg cannot join these properties of time series",
            expected="at least one property, and none with an aggregate over members of a class",
        )
    if len(banks) == 1:
        return banks[0]
    places: dict[tuple[int, int], int] = {}
    parts: list[Formula] = []
    before = 0
    for bank in banks:
        read = zip(bank.slots[0].tolist(), bank.views[0].tolist(), strict=True)
        own = [places.setdefault((column, view), len(places)) for column, view in read]
        new = Renumbering(
            # mypy does not see the default
            slot=lambda table, index, own=own: own[index],  # type: ignore[misc]
            # as above
            param=lambda table, index, before=before: before + index,  # type: ignore[misc]
            members=lambda table: table,
        )
        parts.append(renumbered(bank.skeleton, new))
        before += bank.params.shape[1]
    columns = np.array(list(places), dtype=np.int32).T
    return replace(
        banks[0],
        skeleton=And(args=tuple(parts)),
        slots=columns[:1],
        views=columns[1:],
        params=np.concatenate([bank.params for bank in banks], 1),
    )


def is_convex(formula: Formula) -> bool:
    """Whether the traces that satisfy a formula are a convex set whatever its numbers: linear
    comparisons, `and`, `always`, `historically`.

    Then the distance to it is convex in the trace (lemma 1). That the objective is convex in the
    model's parameters too needs more than the
    theorem says: outputs that are affine in them, which those of a recurrent network are not.
    """
    return _convex(formula, True)


def _convex(formula: Formula, positive: bool) -> bool:
    match formula:
        case Compare():
            one_sided = formula.op in ("le", "lt") or (formula.op == "eq") == positive
            return one_sided and all(linear_in_slots(side) for side in sides(formula))
        case Not():
            return _convex(formula.arg, not positive)
        case And():
            return positive and all(_convex(arg, True) for arg in formula.args)
        case Or():
            return not positive and all(_convex(arg, False) for arg in formula.args)
        case Implies():
            return (
                not positive
                and _convex(formula.antecedent, True)
                and _convex(formula.consequent, False)
            )
        case Initially():
            return _convex(formula.arg, positive)
        case Temporal():
            return (formula.op in ("always", "historically")) == positive and _convex(
                formula.arg, positive
            )
        case _:
            return False
