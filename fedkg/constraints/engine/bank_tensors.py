"""Banks as tensors, and the gather: the numbers of all rows of a bank at once.

Letters: R rows, B batch, N numbers read per sample, D conditions, k conditions per row, p
parameters; M members of P owners; K (row, sample) pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.constraints.applicable_samples import runs
from fedkg.constraints.binding.plan import BankPlan, MemberPlan
from fedkg.constraints.engine.batch_rows_as_traces import Lined
from fedkg.constraints.engine.device_constants import constant
from fedkg.constraints.engine.evaluation_inputs import Members, Reading
from fedkg.constraints.engine.nan_gradient_guard import shield
from fedkg.constraints.engine.shared_window_extremes import OverExtreme, place_of
from fedkg.pack.bank import Bank
from fedkg.pack.formulas import (
    Compare,
    Formula,
    FormulaPart,
    Initially,
    children,
    member_table,
    subformulas,
)

CHUNK = 1 << 18
"""Numbers per row chunk, R x B: small enough for the intermediate results to stay in a cache, large
enough to hide the calls."""

ALIVE = 48
"""Intermediate results of a chunk's size that are alive at once, at most, in formulas as rules have
them; with gradients, too."""


def chunk_of(memory: float) -> int:
    """How many numbers a chunk may have so that its evaluation takes about `memory` MiB in
    float32.
    """
    return max(1, int(memory * 2**20 / (4 * ALIVE)))


INDICES = ("input_index", "output_index", "conditions", "params", "weight", "rule", "unit")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemberTensors:
    """A `MemberPlan` as tensors on one device: fields as there and in `BankTensors`.

    Attributes:
        owner: int64 [M], the set of each member.
    """

    parent: int
    offsets: NDArray[np.int64]
    owner: Tensor
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    input_index: Tensor
    output_index: Tensor
    params: Tensor
    numbers: NDArray[np.float64]
    wild: bool

    def each(self, work: Callable[[Tensor], Tensor]) -> MemberTensors:
        """The same members, with what `work` makes of each tensor."""
        own: dict[str, Any] = {
            name: work(getattr(self, name))
            for name in ("owner", "input_index", "output_index", "params")
        }
        return replace(self, **own)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BankTensors:
    """A `BankPlan` as tensors on one device.

    Attributes:
        skeleton: the formula that all rows share.
        inputs: the slots of the skeleton that read inputs.
        outputs: the slots of the skeleton that read outputs.
        input_index: int64 [s, R], the row of the input numbers that each of the s input slots
            reads.
        output_index: int64 [s, R], the row of the output numbers that each of the s output slots
            reads.
        conditions: int64 [k, R], the positions of each row's conditions.
        params: float64 [p, R, 1], the parameters of each row.
        weight: float64 [R], the weight of each row ([R'] with `every`).
        rule: int64 [R], the rule (position in the pack) of each row ([R'] with `every`).
        quick: as in `BankPlan`.
        wild: as in `BankPlan`.
        touches_output: whether the skeleton reads an output.
        temporal: whether verdicts depend on other steps of a trace.
        asked: int64 [k, R], the `conditions` as an array on the CPU.
        numbers: float64 [p, R], the `params` as an array on the CPU.
        members: the sets over which the skeleton ranges.
        load: int64 [R + 1], the number of rows and members before each row.
        unit: float64 [R, 1], the least scale of the row's comparisons, which is the unit of smooth
            robustness; 1 for a row without comparisons.
        kept: results about the bank that do not depend on a batch, by key.
        every: int64 [R'], if fedkg evaluates equal rows only once: which of the R evaluated rows
            each of the R' rows of the pack's bank equals. None: all rows are evaluated.
    """

    skeleton: Formula
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    input_index: Tensor
    output_index: Tensor
    conditions: Tensor
    params: Tensor
    weight: Tensor
    rule: Tensor
    quick: float
    wild: bool
    touches_output: bool
    temporal: bool
    asked: NDArray[np.int64]
    numbers: NDArray[np.float64]
    members: tuple[MemberTensors, ...]
    load: NDArray[np.int64]
    unit: Tensor
    kept: dict[Any, Any] = field(default_factory=dict, init=False)
    every: Tensor | None = None

    @property
    def rows(self) -> int:
        """R."""
        return self.params.shape[1]

    def of_every(self, each: Tensor) -> Tensor:
        """What each row evaluated has, [R, ...], for each row of the pack's bank, [R', ...]."""
        return each if self.every is None else each.index_select(0, self.every)

    def sum_equal_rows(self, each: Tensor) -> Tensor:
        """What the rows of the pack's bank have, [R', ...], added up for each row evaluated, [R,
        ...].
        """
        return (
            each
            if self.every is None
            else each.new_zeros((self.rows, *each.shape[1:])).index_add(0, self.every, each)
        )

    @property
    def initial(self) -> bool:
        """Whether the rule applies at the first step of a trace alone."""
        return isinstance(self.skeleton, Initially)

    @property
    def formula(self) -> Formula:
        """What must hold where a row applies: the skeleton, without an `initially` at its top."""
        return self.skeleton.arg if isinstance(self.skeleton, Initially) else self.skeleton

    def each(self, work: Callable[[Tensor], Tensor]) -> BankTensors:
        """The same bank, with what `work` makes of each tensor: another device's, say."""
        members = tuple(table.each(work) for table in self.members)
        every = None if self.every is None else work(self.every)
        own: dict[str, Any] = {name: work(getattr(self, name)) for name in INDICES}
        return replace(self, members=members, every=every, **own)

    def asking(self, sure: NDArray[np.bool_]) -> BankTensors:
        """The same bank, asking for no condition that all its rows meet for sure; `sure` [D].

        A bank over time keeps all conditions if one is uncertain: more than one condition means
        that rows see separate traces.
        """
        doubtful = np.flatnonzero(~sure[self.asked].all(axis=1))
        if len(doubtful) == self.asked.shape[0] or (self.temporal and len(doubtful)):
            return self
        conditions = (
            torch.stack([self.conditions[at] for at in doubtful])
            if len(doubtful)
            else self.conditions[:0]
        )
        return replace(self, asked=self.asked[doubtful], conditions=conditions)

    def chunks(self, batch: int, numbers: int = CHUNK) -> Iterator[slice]:
        """The rows in runs of at most `numbers` numbers (members included), or of one row."""
        return runs(self.load * max(1, batch), numbers)

    def reading(
        self,
        rows: slice | Tensor,
        inputs: Tensor,
        outputs: Tensor,
        *,
        careful: bool,
        offset: bool = False,
        lined: Lined | None = None,
        unsure: tuple[Tensor, Tensor] | None = None,
    ) -> Reading:
        """The numbers of some rows: gathered from inputs [N, B] and outputs [N', B], in the order
        of `lined` for formulas over time.

        Rows of a bank with members are given as a slice. `unsure`: as in `Extremes`.
        """
        numbers = self.numbers[:, rows] if isinstance(rows, slice) else None
        members: Mapping[int, Members] = {}
        if self.members:
            assert isinstance(rows, slice), "sets of members are cut by runs of rows"
            members = self._members(-1, rows, inputs, outputs, careful, offset, lined)
        return Reading(
            slots=_slots(self, rows, inputs, outputs, lined),
            params=self.params[:, rows].to(inputs.dtype),
            careful=careful,
            offset=offset,
            numbers=numbers,
            members=members,
            steps=None if lined is None else lined.steps,
            unsure={} if unsure is None else _unsure(self, rows, inputs, outputs, lined, unsure),
        )

    def _members(
        self,
        parent: int,
        owners: slice,
        inputs: Tensor,
        outputs: Tensor,
        careful: bool,
        offset: bool,
        lined: Lined | None,
    ) -> dict[int, Members]:
        """The members of some owners in each of the tables over them, with the members of those in
        turn.
        """
        found: dict[int, Members] = {}
        for at, table in enumerate(self.members):
            if table.parent != parent:
                continue
            own = slice(int(table.offsets[owners.start]), int(table.offsets[owners.stop]))
            owner = table.owner[own] - owners.start
            ranged = None if lined is None else lined.of_members(owner)
            reading = Reading(
                slots=_slots(table, own, inputs, outputs, ranged),
                params=table.params[:, own].to(inputs.dtype),
                careful=careful,
                offset=offset,
                numbers=table.numbers[:, own],
                members=self._members(at, own, inputs, outputs, careful, offset, ranged),
                steps=None if ranged is None else ranged.steps,
            )
            offsets = constant(
                table.offsets[owners.start : owners.stop + 1] - own.start, owner.device
            )
            found[at] = Members(owner=owner, offsets=offsets, reading=reading)
        return found

    def paired(
        self,
        row: Tensor,
        sample: Tensor,
        inputs: Tensor,
        outputs: Tensor,
        *,
        careful: bool,
        offset: bool = False,
    ) -> Reading:
        """The numbers of (row, sample) pairs, int64 [K] each, as if every pair were a row and had
        one sample: [K, 1]; not over time.
        """
        return self._paired(-1, row, sample, inputs, outputs, careful, offset)

    def _paired(
        self,
        at: int,
        row: Tensor,
        sample: Tensor,
        inputs: Tensor,
        outputs: Tensor,
        careful: bool,
        offset: bool,
    ) -> Reading:
        """The same for pairs of a sample and a row, or member, of the table `at` (-1: the bank)."""
        table = self if at < 0 else self.members[at]
        members: dict[int, Members] = {}
        for i, other in enumerate(self.members):
            if other.parent == at:
                offsets = torch.from_numpy(other.offsets).to(row.device)
                sizes = offsets.diff()[row]
                owner = torch.repeat_interleave(sizes)
                ends = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
                own = (offsets[row] - ends[:-1])[owner] + torch.arange(
                    owner.shape[0], device=row.device
                )
                reading = self._paired(i, own, sample[owner], inputs, outputs, careful, offset)
                members[i] = Members(owner=owner, offsets=ends, reading=reading)
        return Reading(
            slots=_paired_slots(table, row, sample, inputs, outputs),
            params=table.params.to(inputs.dtype).index_select(1, row),
            careful=careful,
            offset=offset,
            numbers=table.numbers[:, row.cpu().numpy()] if members else None,
            members=members,
        )

    def applies(self, rows: slice | Tensor, met: Tensor) -> Tensor | None:
        """Where the rows apply, bool [R, B], from the conditions met [D, B].

        None when all do everywhere.
        """
        result: Tensor | None = None
        for index in self.conditions[:, rows]:
            one = met.index_select(0, index)
            result = one if result is None else result & one
        return result

    def gate(self, rows: slice, met: Tensor) -> Tensor | None:
        """`applies` in numbers, from conditions [D, B] that are 1 where met and 0 where not."""
        result: Tensor | None = None
        for index in self.conditions[:, rows]:
            one = met.index_select(0, index)
            result = one if result is None else result * one
        return result


def bank_tensors(bank: Bank, plan: BankPlan) -> BankTensors:
    """A bank and its plan as tensors on the CPU."""
    return BankTensors(
        skeleton=plan.skeleton,
        inputs=plan.inputs,
        outputs=plan.outputs,
        input_index=_tensor(plan.input_index),
        output_index=_tensor(plan.output_index),
        conditions=_tensor(plan.conditions),
        params=_tensor(plan.params)[:, :, None],
        weight=_tensor(bank.weight),
        rule=_tensor(bank.rule.astype(np.int64)),
        quick=plan.quick,
        wild=plan.wild,
        touches_output=plan.touches_output,
        temporal=plan.temporal,
        asked=plan.conditions,
        numbers=plan.params,
        members=tuple(_member_tensors(table) for table in plan.members),
        load=_load(plan),
        unit=_tensor(_least_scales(plan)[:, None]),
    )


def _member_tensors(plan: MemberPlan) -> MemberTensors:
    return MemberTensors(
        parent=plan.parent,
        offsets=plan.offsets,
        owner=_tensor(np.repeat(np.arange(plan.offsets.shape[0] - 1), np.diff(plan.offsets))),
        inputs=plan.inputs,
        outputs=plan.outputs,
        input_index=_tensor(plan.input_index),
        output_index=_tensor(plan.output_index),
        params=_tensor(plan.params)[:, :, None],
        numbers=plan.params,
        wild=plan.wild,
    )


def _load(plan: BankPlan) -> NDArray[np.int64]:
    """The number of rows and members before each row, [R + 1]."""
    load = np.arange(plan.rows + 1, dtype=np.int64)
    ends: list[NDArray[np.int64]] = []
    for table in plan.members:
        ends.append(table.offsets if table.parent < 0 else table.offsets[ends[table.parent]])
        load = load + ends[-1]
    return load


def _least_scales(plan: BankPlan) -> NDArray[np.float64]:
    """The least scale of the comparisons of each row and of its members, those inside terms left
    out; [R].
    """
    tables: tuple[BankPlan | MemberPlan, ...] = (plan, *plan.members)
    least = [np.full(table.params.shape[1], np.inf) for table in tables]
    for table, atom in _comparisons(plan.skeleton, -1):
        np.fmin(least[table + 1], tables[table + 1].params[atom.scale], out=least[table + 1])
    for at in range(len(plan.members), 0, -1):  # parents precede their members
        members = plan.members[at - 1]
        owner = np.repeat(np.arange(members.offsets.shape[0] - 1), np.diff(members.offsets))
        np.fmin.at(least[members.parent + 1], owner, least[at])
    return np.where(np.isfinite(least[0]) & (least[0] > 0), least[0], 1.0)


def _comparisons(formula: Formula, table: int) -> Iterator[tuple[int, Compare]]:
    """The comparisons that a formula is made of, each with its table."""
    if isinstance(formula, Compare):
        yield table, formula
    members = member_table(formula)
    for part in children(formula):
        if isinstance(part, FormulaPart):
            yield from _comparisons(part, table if members is None else members)


def _slots(
    table: BankTensors | MemberTensors,
    rows: slice | Tensor,
    inputs: Tensor,
    outputs: Tensor,
    lined: Lined | None,
) -> dict[int, Tensor]:
    """The numbers [R, B] of some rows in each slot."""
    found: dict[int, Tensor] = {}
    sources = (
        (table.inputs, table.input_index, inputs),
        (table.outputs, table.output_index, outputs),
    )
    for slots, index, numbers in sources:
        for slot, own in zip(slots, index[:, rows], strict=True):
            gathered = numbers.index_select(0, own)
            gathered = shield(gathered) if table.wild else gathered
            found[slot] = gathered if lined is None else lined.there(gathered)
    return found


def _unsure(
    bank: BankTensors,
    rows: slice | Tensor,
    inputs: Tensor,
    outputs: Tensor,
    lined: Lined | None,
    unsure: tuple[Tensor, Tensor],
) -> dict[int, Tensor]:
    """Where something in the window is unknown, bool [R, B], for the slots of all rows that hold
    extremes; see `Extremes`.
    """
    found: dict[int, Tensor] = {}
    extremes = {
        place_of(part) for part in subformulas(bank.skeleton) if isinstance(part, OverExtreme)
    }
    sources = (
        (bank.inputs, bank.input_index, inputs, unsure[0]),
        (bank.outputs, bank.output_index, outputs, unsure[1]),
    )
    for slots, index, numbers, flags in sources:
        first = numbers.shape[0] - flags.shape[0]  # the extremes are the last of the numbers
        for slot, own in zip(slots, index[:, rows], strict=True):
            if slot in extremes:
                gathered = flags.index_select(0, own - first)
                found[slot] = gathered if lined is None else lined.there(gathered)
    return found


def _paired_slots(
    table: BankTensors | MemberTensors, row: Tensor, sample: Tensor, inputs: Tensor, outputs: Tensor
) -> dict[int, Tensor]:
    """The numbers [K, 1] of pairs in each slot."""
    found: dict[int, Tensor] = {}
    for slots, index, numbers in (
        (table.inputs, table.input_index, inputs),
        (table.outputs, table.output_index, outputs),
    ):
        if slots:
            place = (index * numbers.shape[1]).index_select(1, row) + sample
            gathered = numbers.flatten().index_select(0, place.flatten())
            gathered = shield(gathered) if table.wild else gathered
            found |= zip(slots, gathered.view(*place.shape, 1).unbind(0), strict=True)
    return found


def _tensor(array: NDArray[np.generic]) -> Tensor:
    return torch.from_numpy(np.array(array))


def largest_number(*numbers: Tensor) -> float:
    """The largest absolute value.

    NaN when one is unknown, infinite inside transforms where values cannot be looked at.
    """
    try:
        return max(
            (float(part.detach().abs().max()) for part in numbers if part.numel()),
            key=lambda v: (v != v, v),
            default=0.0,
        )
    except RuntimeError:  # torch.func transforms and tracing refuse to turn a tensor into a number
        return float("inf")
