"""The banks of a module on fixed inputs: which rows are counted by thresholds, and the others
evaluated as they are.

Letters: P samples (rows, or steps of windows), S places of them in the order of the bits, K
clients, V runs of a model, H outputs, R constraints of the pack, r rows of a bank, N' output
numbers read per sample, C of them and of those computed from them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from fedkg._internal.threads import library_threads
from fedkg.constraints.batch_evaluation import BatchEvaluation
from fedkg.constraints.engine.bank_tensors import BankTensors
from fedkg.constraints.engine.batch_rows_as_traces import repeat_traces
from fedkg.constraints.specialised.client_threshold_membership import Clients, Fixed, Join, joined
from fedkg.constraints.specialised.client_verdict_counts import Counter, Target
from fedkg.constraints.specialised.input_folding import Folded, fold
from fedkg.constraints.specialised.violation_thresholds import Derived, Sets
from fedkg.kernels.scoring.bit_program_constants import WORD
from fedkg.pack.formulas import Implies

REPEATED = 1 << 24
"""Numbers that folded inputs may take when they are repeated for several clients."""


class SpecialBanks:
    """Folded banks, and how the verdicts of many clients on them are counted.

    Args:
        of: the batch, with answers of 0.
        outputs: int64 [N'], which of a model's V * H outputs each output number is.
    """

    def __init__(self, of: BatchEvaluation, outputs: Tensor) -> None:
        self.of, self._outputs = of, outputs
        self._known = ~torch.isnan(of.outputs)
        self.folded = tuple(fold(bank, of) for bank in of.banks)
        self._first = [0]
        for bank in of.banks:
            self._first.append(self._first[-1] + bank.rows)
        self._derived: list[Derived] = []
        self._limit = math.inf
        self._constant = of.met.new_zeros(2 * self.rows, dtype=torch.int64)
        targets: list[Target] = []
        self._evaluated = [
            not self._expressed(folded, first, targets)
            for folded, first in zip(self.folded, self._first, strict=False)
        ]
        judged = (
            plain and folded.bank.rows and not of.asleep(folded.bank)
            for plain, folded in zip(self._evaluated, self.folded, strict=True)
        )
        self._whole = not any(judged)  # no bank is evaluated for each client
        shape = (of.shape[0], self._steps)
        results = self._constant[
            : self.rows if all(int(target.place[0]) < self.rows for target in targets) else None
        ]
        self._counter = (
            Counter(targets, shape, of.inputs.dtype, results) if targets and of.batch else None
        )
        self._cores = (
            []
            if self._counter is None
            else [(one, self._counter.laid(one.folded.numbers)) for one in self._derived]
        )
        self._laid = (
            bool(self._known.all())
            and outputs.tolist() == [0]
            and self._steps == 1
            and of.batch % WORD == 0
            and not self._cores
        )

    @property
    def expressed(self) -> Tensor:
        """Bool [R]: constraints that are counted by thresholds."""
        each = [
            self._constant.new_full((folded.bank.rows,), not plain)
            for folded, plain in zip(self.folded, self._evaluated, strict=True)
        ]
        return torch.cat([self._constant[:0], *each]).bool()

    @property
    def rows(self) -> int:
        """R."""
        return self._first[-1]

    @cached_property
    def joined(self) -> tuple[tuple[BankTensors, ...], Tensor]:
        """The folded banks reading one block of numbers, and that block."""
        banks, numbers, offset = [], [self.of.inputs[:0]], 0
        for folded in self.folded:
            banks.append(folded.behind(offset))
            numbers.append(folded.numbers)
            offset += folded.numbers.shape[0]
        return tuple(banks), torch.cat(numbers)

    def decides_every_sample(self, entries: int) -> bool:
        """Whether `violated` is complete for answers with this number of entries: every entry is
        read and always evaluated.
        """
        if (
            self._counter is None
            or self._counter.programs is None
            or self._counter.results != self.rows
        ):
            return False
        return (
            self._whole and bool(self._known.all()) and len(set(self._outputs.tolist())) == entries
        )

    @property
    def evaluated(self) -> Tensor:
        """Samples (or windows) on which each constraint is evaluated where no answer decides that,
        int64 [R].
        """
        return self._constant[self.rows :]

    def violated(self, answers: Tensor) -> Tensor | None:
        """Violated samples of each constraint, int64 [K, R], where `decides_every_sample`.

        None where an answer is beyond what thresholds are for.
        """
        counts, covered = self._counted(answers)
        return counts if covered is None else None

    def counts(self, answers: Tensor, broken: Tensor | None) -> tuple[Tensor, Tensor]:
        """Violated and evaluated samples (or windows) of each constraint, int64 [K, R] each.

        See `Counts`.

        Args:
            answers: [K, V, P, H] in the rules' units.
            broken: bool [K, P], where what is unknown counts as violated; None: nowhere.
        """
        clients = answers.shape[0]
        counts, covered = self._counted(answers)
        if counts.shape[1] == self.rows:
            violated, evaluated = counts, self.evaluated.clone().expand(clients, -1)
        else:
            violated, evaluated = counts[:, : self.rows], counts[:, self.rows :]
        if broken is None and self._whole and covered is None:
            return violated, evaluated
        covered = (
            torch.ones(clients, dtype=torch.bool, device=counts.device)
            if covered is None
            else covered
        )
        uncovered = torch.nonzero(~(covered if broken is None else covered & ~broken.any(dim=1)))[
            :, 0
        ]
        everyone = torch.arange(clients, device=covered.device)
        outputs: Tensor | None = None
        for folded, first, plain in zip(self.folded, self._first, self._evaluated, strict=False):
            chosen = everyone if plain else uncovered
            rows = slice(first, first + folded.bank.rows)
            if self.of.asleep(folded.bank) or not folded.bank.rows or not chosen.shape[0]:
                continue
            if outputs is None:
                outputs, evaluated = self._numbers(answers), evaluated.clone()
            step = max(
                1, REPEATED // max(1, (folded.numbers.shape[0] + outputs.shape[0]) * self.of.batch)
            )
            for part in torch.split(chosen, step):
                judged = self._judged(
                    folded, outputs[:, part], None if broken is None else broken[part]
                )
                violated[part, rows], evaluated[part, rows] = judged
        return violated, evaluated

    @property
    def _steps(self) -> int:
        return self.of.shape[1] if len(self.of.shape) == 2 else 1

    def _expressed(self, folded: Folded, first: int, targets: list[Target]) -> bool:
        """Whether a bank is counted by thresholds.

        If so, they are added to the `targets`, and what is the same for all is counted.
        """
        bank, of, known = folded.bank, self.of, self._known
        if bank.temporal or not bank.rows:
            return False
        sets = Sets(
            folded, known, known.shape[0] + sum(int(one.rows.shape[0]) for one in self._derived)
        )
        applies: Clients = Fixed(
            mask=torch.cat(
                [
                    of.met[:0].expand(0, of.batch),
                    *(of.applies(bank, rows) for rows in of.chunks(bank)),
                ]
            )
        )
        violated = sets.of(bank.skeleton, True, satisfied=False)
        if violated is None:
            return False
        if isinstance(bank.skeleton, Implies):
            fired = sets.of(bank.skeleton.antecedent, False, satisfied=False)
            decided = sets.decided(bank.skeleton.consequent)
            evaluated = None if fired is None or decided is None else joined([fired, decided], True)
        else:
            evaluated = sets.decided(bank.skeleton)
        if evaluated is None:
            return False
        self._derived += sets.derived
        self._limit = min(self._limit, bank.quick)
        for clients, start in ((violated, first), (evaluated, first + self.rows)):
            place = torch.arange(start, start + bank.rows, device=known.device)
            found = joined([applies, clients], every=True)
            if isinstance(found, Fixed):
                self._constant[place] = (
                    found.mask.reshape(bank.rows, -1, self._steps).any(dim=2).sum(dim=1)
                )
                continue
            assert isinstance(found, Join), "masked by where the bank applies"
            *varying, fixed = found.parts
            assert isinstance(fixed, Fixed), "masks come last"
            targets.append(Target(joined(varying, every=True), fixed.mask, place))
        return True

    def _numbers(self, answers: Tensor) -> Tensor:
        """The output numbers of answers [K, V, P, H], NaN where unknown: [N', K, P]."""
        numbers = answers.permute(1, 3, 0, 2).flatten(0, 1).index_select(0, self._outputs)
        return torch.where(torch.isfinite(numbers) & self._known[:, None], numbers, torch.nan)

    def _counted(self, answers: Tensor) -> tuple[Tensor, Tensor | None]:
        """What thresholds count, and the clients for whom it is right, bool [K].

        None where it is for all.

        Counts are int64 [K, 2 R], or [K, R] where what is evaluated is the same for all. Right is
        what is counted on answers that are all known, where they can be, and within what the
        thresholds are for.
        """
        clients, count = answers.shape[0], self._outputs.shape[0]
        if self._counter is None:
            return self._constant.repeat(clients, 1), None
        limit = min(self._limit, torch.finfo(answers.dtype).max)
        if self._counter.programs is not None:
            answers = (
                answers.contiguous().resolve_neg()
            )  # loops read the numbers directly from memory
        else:
            values, covered = self._within(answers, limit)
            values = torch.cat(
                [values, *(torch.nan_to_num(one.values(values, own)) for one, own in self._cores)]
            )
            return self._counter.count(values), covered
        if (
            self._laid
            and answers.shape[1:] == (1, self.of.batch, 1)
            and answers.numel()
            and float(torch.linalg.vector_norm(answers, math.inf)) <= limit
        ):
            return self._counter.count(
                answers.reshape(1, clients, -1)
            ), None  # they lie as they are to lie
        values = answers.new_empty(
            (count + sum(one.rows.shape[0] for one in self._derived), clients, self._counter.places)
        )
        if self._counter.is_compiled:
            from fedkg.kernels.scoring import bit_program_execution

            covered = torch.from_numpy(
                bit_program_execution.lay_out(
                    answers.numpy(),
                    self._outputs.numpy(),
                    self._known.numpy(),
                    limit,
                    self._steps,
                    values.numpy(),
                )
            )
        else:
            numbers, covered = self._within(answers, limit)
            values[:count] = self._counter.laid(numbers)
        if self._cores:
            self._compute(values, count)
        return self._counter.count(values), None if bool(covered.all()) else covered

    def _within(self, answers: Tensor, limit: float) -> tuple[Tensor, Tensor]:
        """The output numbers [N', K, P], 0 where unknown or out of the limit, and the clients with
        numbers that are all within it, of those that can be known, bool [K].
        """
        numbers, known = self._numbers(answers), self._known[:, None]
        within = numbers.abs() <= limit
        covered = (within | ~known).transpose(1, 2).flatten(0, 1).all(dim=0)
        return torch.where(within, numbers, 0), covered

    def _compute(self, values: Tensor, at: int) -> None:
        """Put numbers computed from the first `at` of `values` [C, K, S] behind these."""
        outputs = values[:at]
        with library_threads(1):  # its operations are too small to be shared out
            for one, own in self._cores:
                end = at + one.rows.shape[0]
                values[at:end] = one.values(outputs, own)
                at = end

    def _judged(
        self, folded: Folded, outputs: Tensor, broken: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Violated and evaluated samples of a bank for some clients, int64 [k, r] each.

        Outputs [N', k, P].
        """
        clients, bank, of = outputs.shape[1], folded.bank, self.of
        many = replace(
            of,
            banks=(bank,),
            inputs=folded.numbers.repeat(1, clients),
            met=of.met.repeat(1, clients),
            outputs=outputs.flatten(1),
            shape=(clients * of.shape[0], *of.shape[1:]),
            traces=None if of.traces is None else repeat_traces(of.traces, clients),
        )
        found: list[tuple[Tensor, Tensor]] = []
        for rows in many.chunks(bank):
            values, applies, fired = many.verdicts(bank, rows)
            open_verdict = torch.isnan(values)
            violated = applies & (values < 0)
            if broken is not None:
                violated = violated | (applies & open_verdict & broken.flatten())
            evaluated = (fired & ~open_verdict) | violated
            found.append((self._summed(violated, clients), self._summed(evaluated, clients)))
        violated, evaluated = (torch.cat(part, dim=1) for part in zip(*found, strict=True))
        return violated, evaluated

    def _summed(self, verdicts: Tensor, clients: int) -> Tensor:
        """Samples (or windows with some step) of verdicts [r, k * P]: [k, r]."""
        laid = verdicts.reshape(verdicts.shape[0], clients, self.of.shape[0], self._steps)
        return laid.any(dim=3).sum(dim=2).T
