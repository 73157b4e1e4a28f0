"""The numbers of one batch under one pack, and the ways to evaluate a bank on them.

Letters: B rows of the batch (for windows: all their steps, one after the other), R rows of a bank,
N and N' input and output numbers read per sample, D conditions, H outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedkg._internal.torch_compat import being_traced
from fedkg.constraints.applicable_samples import Pairs, Selection, Selector, runs
from fedkg.constraints.batch_shape_cache import BatchStructure, bank_loops
from fedkg.constraints.engine.bank_tensors import CHUNK, BankTensors, largest_number
from fedkg.constraints.engine.batch_rows_as_traces import Lined, Traces, again, line_up
from fedkg.constraints.engine.common_subterms import Values, with_values
from fedkg.constraints.engine.evaluation import evaluate, evaluate_implication, reported
from fedkg.constraints.engine.evaluation_inputs import Reading
from fedkg.constraints.engine.penalty import HINGE, PenaltyForm, penalties
from fedkg.constraints.engine.shared_window_extremes import Extreme, with_extremes
from fedkg.constraints.engine.soft import soft_least, soft_robustness
from fedkg.constraints.traced_temporal_rules import SinglePass
from fedkg.pack.formulas import Formula, Implies
from fedkg.pack.pack import Pack

if TYPE_CHECKING:
    from fedkg.constraints.fused.batch_loop_arguments import FusedBatch
    from fedkg.constraints.fused.call import Call


class Verdicts(NamedTuple):
    """Of some rows of a bank, each [R, B]: robustness with strictness nudged (NaN where unknown),
    where they apply, where they fire.
    """

    values: Tensor
    applies: Tensor
    fired: Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchEvaluation:
    """The banks, numbers and options from which a report is computed.

    Attributes:
        pack: the compiled rules.
        banks: the banks to evaluate, in pack order.
        inputs: [N, B], the input numbers in source units; NaN where unknown.
        met: bool [D, B], whether each row of the batch meets each condition.
        outputs: [N', B], the numbers read from the model's answers, in source units; NaN where
            unknown.
        answers: [B, H], the model's answers to the batch itself, without those to other views.
        shape: (B,), or for windows (number of windows, steps of a window).
        sample_weight: [B], the weight of each row in the penalty; None: 1 for each row.
        inactive: rules (by name) with rows that could not be evaluated, and the reasons.
        form: how violations become penalties.
        traces: which rows are the steps of each trace; None if the call does not say.
        measured: the value of `largest` if it is known already; otherwise None.
        chunk: how many values (rows of a bank times rows of the batch) are evaluated at once.
        structure: what is known in advance about batches of this shape; None if nothing is.
        unseen: whether fedkg must not inspect numbers (tensors on an accelerator or in a trace), so
            that any of them may be unknown.
        loops: whether compiled loops evaluate what they can.
        unsure: for the window extremes of inputs and of outputs, where something in the window is
            unknown; see `Extremes`.
    """

    pack: Pack
    banks: tuple[BankTensors, ...]
    inputs: Tensor
    met: Tensor
    outputs: Tensor
    answers: Tensor
    shape: tuple[int, ...]
    sample_weight: Tensor | None
    inactive: Mapping[str, str]
    form: PenaltyForm = HINGE
    traces: Traces | None = None
    measured: float | None = None
    chunk: int = CHUNK
    structure: BatchStructure | None = None
    unseen: bool = False
    loops: bool = False
    unsure: tuple[Tensor, Tensor] | None = None

    @property
    def is_symbolic(self) -> bool:
        """Whether the numbers are symbolic: placeholders for the arguments of a compiled
        function.
        """
        return self.unseen and being_traced()

    @property
    def batch(self) -> int:
        """B."""
        return self.inputs.shape[1]

    @cached_property
    def largest(self) -> float:
        """The largest absolute value of all numbers; NaN when one is unknown."""
        known = math.nan if self.unseen else self.measured
        return largest_number(self.inputs, self.outputs) if known is None else known

    @cached_property
    def single_pass(self) -> SinglePass:
        """What is evaluated once while numbers are being traced."""
        return SinglePass(self)

    @cached_property
    def gates(self) -> Tensor:
        """1 where a condition is met, 0 where not, [D, B]."""
        return self.met.to(self.inputs.dtype)

    def chunks(self, bank: BankTensors) -> Iterator[slice]:
        """The rows of a bank in runs that are evaluated at once on the whole batch."""
        return bank.chunks(self.batch, self.chunk)

    def runs(self, bank: BankTensors) -> Iterator[slice]:
        """The rows of a bank in runs that are evaluated at once, on the pairs in which they apply
        where it is evaluated on those.
        """
        selection = self._selection(bank)
        if selection is None:
            return self.chunks(bank)
        return runs(
            np.concatenate([[0], np.cumsum(selection.most * np.diff(bank.load))]), self.chunk
        )

    def judged(self, bank: BankTensors) -> Iterator[slice]:
        """The rows of a bank in runs evaluated at once: all rows with compiled loops, which need no
        memory.
        """
        whole = slice(0, bank.rows)
        return self.runs(bank) if self.call(bank, whole) is None else iter((whole,))

    def pairs(self, bank: BankTensors, rows: slice) -> Pairs | None:
        """The pairs on which some rows of a bank are evaluated; None for the whole batch."""
        selection = self._selection(bank)
        return None if selection is None else self._selector.pairs(bank.conditions, selection, rows)

    def numbers(self, bank: BankTensors, rows: slice) -> int:
        """How many results, at most, some rows of a bank have: one for each pair, or for each row
        and sample.
        """
        selection = self._selection(bank)
        return (
            (rows.stop - rows.start) * self.batch
            if selection is None
            else int(selection.most[rows].sum())
        )

    def _selection(self, bank: BankTensors) -> Selection | None:
        if bank not in self._selections:
            self._selections[bank] = (
                None if bank.temporal or self.is_symbolic else self._selector.select(bank.asked)
            )
        return self._selections[bank]

    @cached_property
    def _selections(self) -> dict[BankTensors, Selection | None]:
        return {}

    @cached_property
    def _selector(self) -> Selector:
        return Selector(self.met, None if self.traces is None else self.traces.rows_inside)

    def call(self, bank: BankTensors, rows: slice, *, missing: bool = False) -> Call | None:
        """Some rows of a bank for its loops, on its robustness or what is missing of it.

        None where the engine evaluates them.
        """
        key = bank, missing
        if key not in self._with_loops:
            self._with_loops[key] = self._call(bank, missing=missing)
        found = self._with_loops[key]
        return (
            found
            if found is None or rows == slice(found.first, found.last)
            else found._replace(first=rows.start, last=rows.stop)
        )

    @cached_property
    def _with_loops(self) -> dict[tuple[BankTensors, bool], Call | None]:
        return {}

    def _call(self, bank: BankTensors, *, missing: bool) -> Call | None:
        """All rows of a bank for its loops."""
        keyed = bank.temporal and bank.conditions.shape[0] > 1  # each row sees separate traces
        unsuitable = self.asleep(bank) or keyed or (missing and not self.form.exact)
        if self.unseen or not self.loops or unsuitable:
            return None
        batch = self._lined_batch if bank.temporal else self._flat_batch
        if batch is None:
            return None
        known = (
            bank_loops(bank, self.inputs.dtype, missing)
            if self.structure is None
            else self.structure.loops(bank, missing)
        )
        return None if known is None else known.call(known.fused, batch, 0, bank.rows)

    @cached_property
    def cells(self) -> int:
        """Rows of all banks times B."""
        return sum(bank.rows for bank in self.banks) * self.batch

    @cached_property
    def _flat_batch(self) -> FusedBatch | None:
        return self._as_loops_see(None)

    @cached_property
    def _lined_batch(self) -> FusedBatch | None:
        return self._as_loops_see(self.traces)

    def _as_loops_see(self, traces: Traces | None) -> FusedBatch | None:
        if self.structure is None:
            from fedkg.constraints.fused.batch_loop_arguments import fused_batch

            return fused_batch(self.inputs, self.outputs, self.met, traces)
        known = self.structure.places(traces is not None)
        return None if known is None else known.batch(self.inputs, self.outputs)

    def sharing(self, banks: tuple[BankTensors, ...], values: Sequence[Values]) -> BatchEvaluation:
        """The same with banks that evaluate once what they have in common, and read `values`."""
        if not values:
            return replace(self, banks=banks)
        inputs, outputs = with_values(values, self.inputs, self.outputs, self.largest)
        return replace(self, banks=banks, inputs=inputs, outputs=outputs, measured=self.largest)

    def hoisted(
        self, banks: Sequence[BankTensors | None], extremes: Sequence[Extreme]
    ) -> BatchEvaluation:
        """The same with banks that read extremes over windows in place of the steps, where that is
        exact.

        It is where all numbers are known and none overflows, and not for penalties that are not
        exact. Of numbers that are not looked at the result states for each window whether all are
        known.
        """
        chosen = tuple(
            bank if other is None or not (self.unseen or self.largest <= bank.quick) else other
            for bank, other in zip(self.banks, banks, strict=True)
        )
        if self.traces is None or not self.form.exact or chosen == self.banks:
            return self
        inputs, outputs, unsure = with_extremes(
            extremes, self.inputs, self.outputs, self.traces, known=not self.unseen
        )
        return replace(
            self, banks=chosen, inputs=inputs, outputs=outputs, measured=self.largest, unsure=unsure
        )

    def everywhere(self, conditions: Tensor) -> bool:
        """Whether all of some conditions are met by every row of the batch, as far as that can be
        looked at.
        """
        try:
            return not self.unseen and bool(self._always_met[conditions].all())
        except (
            RuntimeError
        ):  # torch.func transforms and tracing refuse to turn a tensor into a truth value
            return False

    @cached_property
    def _always_met(self) -> Tensor:
        return self.met.all(dim=1) if self.structure is None else self.structure.always_met

    def asleep(self, bank: BankTensors) -> bool:
        """Whether the bank needs traces and the call tells of none: then it applies nowhere."""
        return bank.temporal and self.traces is None

    def applies(self, bank: BankTensors, rows: slice) -> Tensor:
        """Where some rows of a bank apply, bool [R, B]."""
        applies, lined = self._matched(bank, rows), self.lined(bank, rows)
        if lined is not None and bank.initial:
            first = lined.first(self.met.device)
            applies = first if applies is None else applies & first
        shape = (rows.stop - rows.start, self.batch)
        return self.met.new_ones(shape) if applies is None else applies.expand(shape)

    def robustness(self, bank: BankTensors, rows: slice, *, soft: bool = False) -> Tensor:
        """As it is reported: without the nudge, NaN where unknown or not applicable; [R, B],
        differentiable.

        Args:
            soft: with the minima and maxima of the form in place of exact ones.
        """
        shape = (rows.stop - rows.start, self.batch)
        if self.asleep(bank):
            return self.inputs.new_full(shape, torch.nan)
        call = None if soft else self.call(bank, rows)
        if call is not None:
            values, inside = (
                call.robustness(self.inputs, self.outputs),
                None if self.traces is None else self.traces.rows_inside,
            )
            return values if inside is None else torch.where(inside, values, torch.nan)
        pairs = self.pairs(bank, rows)
        if pairs is not None:
            reading, unit = (
                self._paired(bank, rows, pairs, offset=soft),
                bank.unit[rows].index_select(0, pairs.row),
            )
            return pairs.spread(
                self._robustness(bank, reading, unit, soft).expand(pairs.row.shape[0], 1), torch.nan
            )
        lined = self.lined(bank, rows)
        values = self._robustness(
            bank, self._reading(bank, rows, lined, offset=soft), bank.unit[rows], soft
        )
        values = again(values, shape[0], lined).expand(shape)
        applies = self.applies(bank, rows) if bank.initial else self._matched(bank, rows)
        return values if applies is None else torch.where(applies, values, torch.nan)

    def _robustness(self, bank: BankTensors, reading: Reading, unit: Tensor, soft: bool) -> Tensor:
        if soft:
            return soft_robustness(bank.formula, reading, unit, self.form.truth)
        return reported(bank.formula, evaluate(bank.formula, reading))

    def least(self, bank: BankTensors, rows: slice, *, soft: bool = False) -> Tensor:
        """Of each window the least robustness of its steps, NaN where none is known; [R, n] for n
        windows, differentiable.
        """
        call = (
            None
            if soft or self.inputs.requires_grad or self.outputs.requires_grad
            else self.call(bank, rows)
        )
        if call is not None and call.batch.lined is not None:
            return call.least()
        laid = self.robustness(bank, rows, soft=soft).reshape(rows.stop - rows.start, *self.shape)
        if soft:
            return soft_least(laid, bank.unit[rows], self.form.truth)
        least = torch.nan_to_num(laid, nan=math.inf, posinf=math.inf, neginf=-math.inf).amin(dim=2)
        try:
            infinite = self.unseen or bool(torch.isinf(least).any())
        except (
            RuntimeError
        ):  # torch.func transforms and tracing refuse to turn a tensor into a truth value
            infinite = True
        return torch.where(torch.isnan(laid).all(dim=2), math.nan, least) if infinite else least

    def verdicts(self, bank: BankTensors, rows: slice) -> Verdicts:
        """The verdicts of some rows of a bank; see `Verdicts`."""
        applies = self.applies(bank, rows)
        if self.asleep(bank):
            nowhere = torch.zeros_like(applies)
            return Verdicts(self.inputs.new_full(applies.shape, torch.nan), nowhere, nowhere)
        call = self.call(bank, rows)
        if call is not None:
            values, fires = call.verdicts()
            return Verdicts(
                values, applies, applies & fires if isinstance(bank.skeleton, Implies) else applies
            )
        pairs, lined = self.pairs(bank, rows), self.lined(bank, rows)
        reading = (
            self._reading(bank, rows, lined) if pairs is None else self._paired(bank, rows, pairs)
        )
        holds: Tensor | None = None
        if isinstance(bank.skeleton, Implies):
            values, holds = evaluate_implication(bank.skeleton, reading)
        else:
            values = evaluate(bank.formula, reading)
        if pairs is not None:
            fired = applies if holds is None else pairs.spread(holds, False)
            return Verdicts(pairs.spread(values, torch.nan), applies, fired)
        fired = applies if holds is None else applies & again(holds, applies.shape[0], lined)
        return Verdicts(
            again(values, applies.shape[0], lined).expand(applies.shape), applies, fired
        )

    def judged_places(self, bank: BankTensors, rows: slice) -> Tensor:
        """Where some rows of a bank apply and are satisfied, are violated, fire (non-implications:
        always); bool [3, R, B].
        """
        call = self.call(bank, rows)
        if call is None:
            values, applies, fired = self.verdicts(bank, rows)
            return torch.stack([applies & (values >= 0), applies & (values < 0), fired])
        found, inside = call.judged(), None if self.traces is None else self.traces.rows_inside
        return found if inside is None else found & inside

    def judged_windows(self, bank: BankTensors, rows: slice) -> Tensor:
        """The same at some step of each of n windows, and violated at none where satisfied.

        Bool [3, R, n].
        """
        call = self.call(bank, rows)
        if call is not None and call.batch.lined is not None:
            return call.judged(whole=True)
        found = (
            self.judged_places(bank, rows).view(3, rows.stop - rows.start, *self.shape).any(dim=3)
        )
        return torch.stack([found[0] & ~found[1], found[1], found[2]])

    def over_time(self, bank: BankTensors, rows: slice, part: Formula, *, positive: bool) -> Tensor:
        """Robustness as `evaluate` gives it of a part of a bank's skeleton that looks at other
        steps, for some rows: [R, B].
        """
        lined = self.lined(bank, rows)
        return again(
            evaluate(part, self._reading(bank, rows, lined), positive=positive),
            rows.stop - rows.start,
            lined,
        )

    def always_known(self, bank: BankTensors) -> bool:
        """Whether penalties of a bank count wherever its rows apply: not over time, or known there
        whatever the numbers are.
        """
        return not bank.temporal or (
            self.traces is not None and self.traces.clip and self.largest <= bank.quick
        )

    def counted(self, bank: BankTensors, rows: slice) -> Tensor:
        """Over which pairs penalties are averaged, bool [R, B]: where a row applies and, over time,
        is known, as it is not near ends.
        """
        if self.always_known(bank):
            return self.applies(bank, rows)
        with torch.no_grad():
            if self.unseen:
                values, applies, _ = self.verdicts(bank, rows)
                return applies & ~torch.isnan(values)
            judged = self.judged_places(bank, rows)
        return judged[0] | judged[1]

    def penalties(
        self,
        bank: BankTensors,
        rows: slice,
        inputs: Tensor,
        outputs: Tensor,
        *,
        divided: bool = True,
    ) -> Tensor:
        """The penalties of some rows of a bank, [R, B], on detached copies of `inputs` and
        `outputs`.
        """
        shape = (rows.stop - rows.start, self.batch)
        if not bank.touches_output or self.asleep(bank):
            return inputs.new_zeros(shape)
        pairs = self.pairs(bank, rows)
        if pairs is not None:
            return pairs.spread(
                self.paired_penalties(bank, rows, pairs, inputs, outputs, divided=divided), 0.0
            )
        careful = not self.largest <= bank.quick
        if not bank.temporal:
            reading = bank.reading(rows, inputs, outputs, careful=careful, offset=True)
            missing = penalties(
                bank.skeleton, reading, bank.gate(rows, self.gates), self.form, divided=divided
            )
            inside = None if self.traces is None else self.traces.rows_inside
            return (missing if inside is None else missing * inside).expand(shape)
        lined = self.lined(bank, rows)
        reading = bank.reading(
            rows, inputs, outputs, careful=careful, offset=True, lined=lined, unsure=self.unsure
        )
        missing = penalties(bank.formula, reading, None, self.form, divided=divided)
        return again(missing, shape[0], lined).expand(shape) * self.applies(bank, rows)

    def paired_penalties(
        self,
        bank: BankTensors,
        rows: slice,
        pairs: Pairs,
        inputs: Tensor,
        outputs: Tensor,
        *,
        divided: bool = True,
    ) -> Tensor:
        """The penalties of the pairs alone of some rows of a bank that touches an output, [K, 1].

        Otherwise as `penalties`.
        """
        careful = not self.largest <= bank.quick
        reading = bank.paired(
            pairs.row + rows.start, pairs.sample, inputs, outputs, careful=careful, offset=True
        )
        return penalties(bank.skeleton, reading, None, self.form, divided=divided).expand(
            pairs.row.shape[0], 1
        )

    def _paired(
        self, bank: BankTensors, rows: slice, pairs: Pairs, *, offset: bool = False
    ) -> Reading:
        careful = not self.largest <= bank.quick
        return bank.paired(
            pairs.row + rows.start,
            pairs.sample,
            self.inputs,
            self.outputs,
            careful=careful,
            offset=offset,
        )

    def _reading(
        self, bank: BankTensors, rows: slice, lined: Lined | None, *, offset: bool = False
    ) -> Reading:
        careful = not self.largest <= bank.quick
        return bank.reading(
            rows,
            self.inputs,
            self.outputs,
            careful=careful,
            offset=offset,
            lined=lined,
            unsure=self.unsure,
        )

    def _matched(self, bank: BankTensors, rows: slice) -> Tensor | None:
        """Where the conditions of some rows are met and there is a step, bool [R, B] or [1, B].

        None: everywhere.
        """
        needed = bank.conditions[:, rows]
        applies = (
            None if needed.numel() and self.everywhere(needed) else bank.applies(rows, self.met)
        )
        inside = None if self.traces is None else self.traces.rows_inside
        if inside is None:
            return applies
        return inside[None] if applies is None else applies & inside

    def lined(self, bank: BankTensors, rows: slice) -> Lined | None:
        """The order in which some rows of a bank over time see the batch.

        None for a bank that needs none.
        """
        if not bank.temporal or self.traces is None:
            return None
        keyed = bank.conditions.shape[0] > 1  # besides the traces themselves
        return line_up(self.traces, bank.applies(rows, self.met) if keyed else None)
