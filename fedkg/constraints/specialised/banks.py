"""The banks of a module on fixed inputs: which rows are counted by thresholds, and the others evaluated as they are.

Letters: P samples (rows, or steps of windows), K clients, R constraints of the pack, r rows of a bank, N' output numbers read per sample.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from fedkg.constraints.engine.banks import BankTensors
from fedkg.constraints.engine.traces import repeated
from fedkg.constraints.evaluated import Evaluated
from fedkg.constraints.specialised.clients import Clients, Fixed, Join, joined
from fedkg.constraints.specialised.counting import Counter, Target
from fedkg.constraints.specialised.folding import Folded, fold
from fedkg.constraints.specialised.sets import Derived, Sets
from fedkg.pack.formulas import Implies

REPEATED = 1 << 24
"""Numbers that folded inputs may take when they are repeated for several clients."""


class SpecialBanks:
    """Folded banks, and how the verdicts of many clients on them are counted.

    Args:
        of: the batch, with answers of 0.
    """

    def __init__(self, of: Evaluated) -> None:
        self.of = of
        self.folded = tuple(fold(bank, of) for bank in of.banks)
        self._first = [0]
        for bank in of.banks:
            self._first.append(self._first[-1] + bank.rows)
        self._derived: list[Derived] = []
        self._limit = math.inf
        self._constant = of.met.new_zeros(2 * self.rows, dtype=torch.int64)
        targets: list[Target] = []
        self._evaluated = [not self._expressed(folded, first, targets) for folded, first in zip(self.folded, self._first, strict=False)]
        shape = (of.shape[0], self._steps)
        self._counter = Counter(targets, shape, of.inputs.dtype) if targets and of.batch else None

    @property
    def expressed(self) -> Tensor:
        """Bool [R]: constraints that are counted by thresholds."""
        each = [self._constant.new_full((folded.bank.rows,), not plain) for folded, plain in zip(self.folded, self._evaluated, strict=True)]
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

    def counts(self, outputs: Tensor, broken: Tensor | None) -> tuple[Tensor, Tensor]:
        """Violated and fired samples (or windows) of each constraint, int64 [K, R] each, for output numbers [N', K, P].

        Args:
            broken: bool [K, P], where what is unknown counts as violated; None: nowhere.
        """
        clients = outputs.shape[1]
        counts = self._constant[:, None].repeat(1, clients)
        if self._counter is not None:
            known = torch.nan_to_num(outputs)
            self._counter.count(torch.cat([known, *(torch.nan_to_num(one.values(known)) for one in self._derived)]), counts)
        violated, fired = counts[: self.rows].T, counts[self.rows :].T
        covered = self._covered(outputs)
        uncovered = torch.nonzero(~(covered if broken is None else covered & ~broken.any(dim=1)))[:, 0]
        everyone = torch.arange(clients, device=covered.device)
        for folded, first, plain in zip(self.folded, self._first, self._evaluated, strict=False):
            chosen = everyone if plain else uncovered
            rows = slice(first, first + folded.bank.rows)
            if self.of.asleep(folded.bank) or not folded.bank.rows or not chosen.shape[0]:
                continue
            step = max(1, REPEATED // max(1, (folded.numbers.shape[0] + outputs.shape[0]) * self.of.batch))
            for part in torch.split(chosen, step):
                judged = self._judged(folded, outputs[:, part], None if broken is None else broken[part])
                violated[part, rows], fired[part, rows] = judged
        return violated, fired

    @property
    def _steps(self) -> int:
        return self.of.shape[1] if len(self.of.shape) == 2 else 1

    def _expressed(self, folded: Folded, first: int, targets: list[Target]) -> bool:
        """Whether a bank is counted by thresholds; if so, they are added to the `targets`, and what is the same for all is counted."""
        bank, of, known = folded.bank, self.of, ~torch.isnan(self.of.outputs)
        if bank.temporal or not bank.rows:
            return False
        sets = Sets(folded, known, known.shape[0] + sum(int(one.rows.shape[0]) for one in self._derived))
        applies: Clients = Fixed(mask=torch.cat([of.met[:0].expand(0, of.batch), *(of.applies(bank, rows) for rows in of.chunks(bank))]))
        fired: Clients | None = applies
        if isinstance(bank.skeleton, Implies):
            fired = sets.of(bank.skeleton.antecedent, False, satisfied=False)
        violated = sets.of(bank.skeleton, True, satisfied=False)
        if violated is None or fired is None:
            return False
        self._derived += sets.derived
        self._limit = min(self._limit, bank.quick)
        for clients, start in ((violated, first), (fired, first + self.rows)):
            place = torch.arange(start, start + bank.rows, device=known.device)
            found = joined([applies, clients], every=True)
            if isinstance(found, Fixed):
                self._constant[place] = found.mask.reshape(bank.rows, -1, self._steps).any(dim=2).sum(dim=1)
                continue
            assert isinstance(found, Join), "masked by where the bank applies"
            *varying, fixed = found.parts
            assert isinstance(fixed, Fixed), "masks come last"
            targets.append(Target(joined(varying, every=True), fixed.mask, place))
        return True

    def _covered(self, outputs: Tensor) -> Tensor:
        """The clients whose answers are all known, where they can be, and within what the thresholds are for: bool [K]."""
        largest = outputs.masked_fill(torch.isnan(self.of.outputs)[:, None], 0).abs_().transpose(1, 2).flatten(0, 1)
        return (largest.amax(dim=0) if largest.shape[0] else largest.sum(dim=0)) <= self._limit

    def _judged(self, folded: Folded, outputs: Tensor, broken: Tensor | None) -> tuple[Tensor, Tensor]:
        """Violated and fired of a bank evaluated for some clients, int64 [k, r] each; outputs [N', k, P]."""
        clients, bank, of = outputs.shape[1], folded.bank, self.of
        many = replace(
            of,
            banks=(bank,),
            inputs=folded.numbers.repeat(1, clients),
            met=of.met.repeat(1, clients),
            outputs=outputs.flatten(1),
            shape=(clients * of.shape[0], *of.shape[1:]),
            traces=None if of.traces is None else repeated(of.traces, clients),
        )
        found: list[tuple[Tensor, Tensor]] = []
        for rows in many.chunks(bank):
            values, applies, fired = many.verdicts(bank, rows)
            violated = applies & (values < 0)
            if broken is not None:
                violated = violated | (applies & torch.isnan(values) & broken.flatten())
                fired = fired | violated
            found.append((self._summed(violated, clients), self._summed(fired, clients)))
        violated, fired = (torch.cat(part, dim=1) for part in zip(*found, strict=True))
        return violated, fired

    def _summed(self, verdicts: Tensor, clients: int) -> Tensor:
        """Samples (or windows with some step) of verdicts [r, k * P]: [k, r]."""
        laid = verdicts.reshape(verdicts.shape[0], clients, self.of.shape[0], self._steps)
        return laid.any(dim=3).sum(dim=2).T
