"""Common sub-terms: what several rows compute of the same numbers becomes one more number of the
batch, computed once.

A term over slots and parameters with a value that several rows share, of one rule or of many, is
evaluated once for each distinct choice of what it reads and of its parameters, by the same
operations in the same order; the rows read the result as if it were a column.

Letters: N numbers of the batch, V values among them, R rows of a bank, k slots and p parameters of
a term.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.constraints.binding.plan import BankPlan, Plan
from fedkg.constraints.binding.reads import Index
from fedkg.constraints.engine.device_constants import constant
from fedkg.constraints.engine.evaluation import evaluate_term
from fedkg.constraints.engine.evaluation_inputs import Reading
from fedkg.constraints.engine.skeleton_term_substitution import (
    Column,
    next_slot,
    rewired,
    with_children,
    with_sides,
)
from fedkg.pack.formulas import (
    Call,
    Negate,
    Param,
    Power,
    Product,
    Quotient,
    Slot,
    Sum,
    Term,
    subterms,
    term_children,
    terms_of,
)

WORTH = 8
"""A term is computed beforehand from this number of rows per distinct value on."""

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Values:
    """V terms of one shape, each computed once for all rows that contain it.

    Attributes:
        term: the shape: a term over slots and parameters that are counted from 0.
        output: whether any slot reads an output.
        slots: int64 [k, V], which input or output number each slot reads.
        params: float64 [p, V], the parameters of each term.
        quick: if no number exceeds this absolute value, nothing can be unknown or overflow.
    """

    term: Term
    output: bool
    slots: Index
    params: Float
    quick: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Use:
    """A sub-term of a bank's skeleton: its shape, and per row its slots and parameters (as bits),
    [R, k + p].
    """

    bank: int
    term: Term
    shape: Term
    keys: NDArray[np.int64]


def shared_values(
    plan: Plan, banks: Sequence[BankPlan]
) -> tuple[tuple[BankPlan, ...], tuple[Values, ...]]:
    """The banks reading common sub-terms as numbers of the batch, and those: of inputs they follow
    the N inputs, of outputs likewise.
    """
    weights = [_weights(plan, bank) for bank in banks]
    uses = [use for i, bank in enumerate(banks) for use in _uses(i, bank)]
    worth = _worthwhile(uses, weights)
    chosen = [
        use for use in uses if use in worth and not any(_inside(use, other) for other in worth)
    ]
    for output, numbers in ((False, len(plan.input_reads)), (True, len(plan.output_reads))):
        own = [use for use in chosen if _reads_output(use.shape) == output]
        distinct = sum(group[0].shape[0] for group in _distinct(own).values())
        if (
            sum(weights[use.bank].sum() for use in own) - distinct < numbers
        ):  # the numbers of the batch are copied in front of them
            chosen = [use for use in chosen if use not in own]
    chosen = list(_worthwhile(chosen, weights))
    return _placed(plan, banks, chosen)


def with_values(
    values: Sequence[Values], inputs: Tensor, outputs: Tensor, largest: float
) -> tuple[Tensor, Tensor]:
    """Inputs [N, B] and outputs [N', B], each followed by its values.

    `largest`: the greatest absolute value of both.
    """
    parts: dict[bool, list[Tensor]] = {False: [inputs], True: [outputs]}
    for one in values:
        index = constant(one.slots, inputs.device)
        roles = {part.index: part.role for part in subterms(one.term) if isinstance(part, Slot)}
        slots = {
            i: (outputs if roles[i] == "output" else inputs).index_select(0, index[i])
            for i in sorted(roles)
        }
        params = constant(one.params, inputs.device).to(inputs.dtype)[:, :, None]
        careful = not largest <= one.quick
        parts[one.output].append(
            evaluate_term(
                one.term, Reading(slots=slots, params=params, careful=careful), guarded=careful
            )
        )
    inputs, outputs = (torch.cat(own) if len(own) > 1 else own[0] for own in parts.values())
    return inputs, outputs


def _uses(at: int, bank: BankPlan) -> Iterator[_Use]:
    """All sub-terms of a bank that may have separate values."""
    if bank.wild or not bank.rows:
        return
    wires = {slot: (bank.input_index, i) for i, slot in enumerate(bank.inputs)}
    wires |= {slot: (bank.output_index, i) for i, slot in enumerate(bank.outputs)}
    for term in dict.fromkeys(
        part for side in terms_of(bank.skeleton) for part in _inner(side) if _is_value(part)
    ):
        slots = list(dict.fromkeys(part.index for part in subterms(term) if isinstance(part, Slot)))
        params = list(
            dict.fromkeys(part.index for part in subterms(term) if isinstance(part, Param))
        )
        shape = _renumbered(
            term,
            {index: i for i, index in enumerate(slots)},
            {index: i for i, index in enumerate(params)},
        )
        reads = [index[i] for index, i in (wires[slot] for slot in slots)]
        keys = np.stack([*reads, *np.ascontiguousarray(bank.params[params]).view(np.int64)], axis=1)
        yield _Use(bank=at, term=term, shape=shape, keys=keys)


def _inner(term: Term) -> Iterator[Term]:
    """The term and all terms inside it in its own table, but for those of conditions."""
    yield term
    for child in term_children(term):
        yield from _inner(child)


def _is_value(term: Term) -> bool:
    """Whether a term is one of arithmetic, and more than a number that there is or its negative."""
    if isinstance(term, Slot | Param) or (
        isinstance(term, Negate) and isinstance(term.arg, Slot | Param)
    ):
        return False
    parts = list(subterms(term))
    arithmetic = all(
        isinstance(part, Slot | Param | Sum | Product | Negate | Quotient | Power | Call)
        for part in parts
    )
    return arithmetic and any(isinstance(part, Slot) for part in parts)


def _renumbered(term: Term, slots: Mapping[int, int], params: Mapping[int, int]) -> Term:
    match term:
        case Slot():
            return term.model_copy(update={"index": slots[term.index]})
        case Param():
            return term.model_copy(update={"index": params[term.index]})
        case _:
            return with_children(term, lambda child: _renumbered(child, slots, params))


def _reads_output(term: Term) -> bool:
    return any(isinstance(part, Slot) and part.role == "output" for part in subterms(term))


def _weights(plan: Plan, bank: BankPlan) -> Float:
    """On which share of the batch each row is evaluated, about: rows that select samples by
    category take theirs alone. [R].
    """
    columns = plan.pack.manifest.contract.columns
    shares = [
        1.0 / max(1, len(columns[c.column].vocabulary)) if c.code >= 0 else 1.0
        for c in plan.conditions
    ]
    found: Float = np.array(shares, dtype=np.float64)[bank.conditions].prod(axis=0)
    return found


def _distinct(uses: Sequence[_Use]) -> dict[Term, tuple[NDArray[np.int64], dict[_Use, Index]]]:
    """For each shape its distinct keys [V, k + p], and for each use which of them its rows have."""
    shapes: dict[Term, list[_Use]] = {}
    for use in uses:
        shapes.setdefault(use.shape, []).append(use)
    found: dict[Term, tuple[NDArray[np.int64], dict[_Use, Index]]] = {}
    for shape, own in shapes.items():
        keys, which = np.unique(
            np.concatenate([use.keys for use in own]), axis=0, return_inverse=True
        )
        ends = np.cumsum([use.keys.shape[0] for use in own])[:-1]
        found[shape] = keys, dict(zip(own, np.split(which.ravel(), ends), strict=True))
    return found


def _worthwhile(uses: Sequence[_Use], weights: Sequence[Float]) -> dict[_Use, None]:
    """The uses with enough rows per distinct value."""
    worth: dict[_Use, None] = {}
    for keys, which in _distinct(uses).values():
        total = np.zeros(keys.shape[0])
        for use, value in which.items():
            total += np.bincount(value, weights[use.bank], keys.shape[0])
        for use, value in which.items():
            if (weights[use.bank] / total[value]).sum() * WORTH <= weights[use.bank].sum():
                worth[use] = None
    return worth


def _inside(use: _Use, other: _Use) -> bool:
    """Whether one use is a part of another."""
    return use.bank == other.bank and use.term != other.term and use.term in _inner(other.term)


def _placed(
    plan: Plan, banks: Sequence[BankPlan], chosen: Sequence[_Use]
) -> tuple[tuple[BankPlan, ...], tuple[Values, ...]]:
    """The banks reading the chosen terms as numbers of the batch, and those."""
    counts = {False: len(plan.input_reads), True: len(plan.output_reads)}
    values: list[Values] = []
    columns: dict[int, dict[Term, Column]] = {}
    for shape, (keys, which) in _distinct(chosen).items():
        output = _reads_output(shape)
        slots = len({part.index for part in subterms(shape) if isinstance(part, Slot)})
        params = np.ascontiguousarray(keys[:, slots:].T).view(np.float64)
        quick = min(banks[use.bank].quick for use in which)
        values.append(
            Values(
                term=shape,
                output=output,
                slots=np.ascontiguousarray(keys[:, :slots].T),
                params=params,
                quick=quick,
            )
        )
        for use, value in which.items():
            own = columns.setdefault(use.bank, {})
            place = Slot(
                index=next_slot(banks[use.bank]) + len(own), role="output" if output else "input"
            )
            own[use.term] = Column(slot=place, rows=value + counts[output])
        counts[output] += keys.shape[0]
    return tuple(
        _read(bank, columns[i]) if i in columns else bank for i, bank in enumerate(banks)
    ), tuple(values)


def _read(bank: BankPlan, columns: Mapping[Term, Column]) -> BankPlan:
    def of_term(term: Term) -> Term:
        return columns[term].slot if term in columns else with_children(term, of_term)

    return rewired(bank, with_sides(bank.skeleton, of_term), list(columns.values()))
