"""What the rules say of one batch. Nothing is computed before it is asked for, and nothing twice.

Letters: B batch, R rows of the pack (banks in pack order).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedkg.constraints.evaluated import Evaluated
from fedkg.constraints.evaluation import evaluate, evaluate_implication, reported
from fedkg.constraints.total import total_penalty
from fedkg.errors import MissingExtra
from fedkg.pack.formulas import Implies

if TYPE_CHECKING:
    import pandas as pd


class ConstraintReport:
    """The verdict of every constraint on every row of a batch, and the penalty to train with."""

    def __init__(self, evaluated: Evaluated) -> None:
        self._of = evaluated

    def __repr__(self) -> str:
        return f"ConstraintReport({self._of.batch} rows, {self._of.pack.rows} constraints of {len(self._of.pack.manifest.rules)} rules)"

    @property
    def outputs(self) -> Tensor:
        """What the model said of the batch itself, [B, H], as it said it: the task's loss needs no second run."""
        return self._of.answers

    @property
    def inactive(self) -> Mapping[str, str]:
        """Rules with constraints that could not be evaluated on what the call was given, and why."""
        return self._of.inactive

    @cached_property
    def rule_index(self) -> Tensor:
        """The rule (position in the pack) of each constraint, int64 [R]."""
        return torch.cat([self._of.met.new_zeros(0, dtype=torch.int64), *(bank.rule for bank in self._of.banks)])

    @cached_property
    def penalty(self) -> Tensor:
        """How much is missing, a differentiable number >= 0.

        The sum over rules of ``weight * mean(penalties)``, the mean over all (constraint, row) pairs where a constraint of the rule
        applies, each with its sample's weight. Rules over inputs alone add nothing. It can be differentiated once; sum `penalties` for
        more.
        """
        return total_penalty(self._of)

    @cached_property
    def penalties(self) -> Tensor:
        """Per row and constraint, [B, R]: the hinge of its scaled robustness; 0 where it holds, is unknown or does not apply.

        Each comparison's margin is divided by its scale; what reads inputs alone counts as true or false, so that the gradient goes to
        the model even where a guard holds by a hair; 0 where the model cannot change the verdict.
        """
        of = self._of
        return self._joined([of.penalties(bank, rows, of.inputs, of.outputs) for bank in of.banks for rows in bank.chunks(of.batch)])

    @cached_property
    def robustness(self) -> Tensor:
        """How far each constraint is from violated, [B, R], in source units (negative: how far from satisfied); NaN where unknown or not
        applicable. Exact, and differentiable when the model's answers are.
        """
        parts = []
        for bank in self._of.banks:
            for rows in bank.chunks(self._of.batch):
                values = reported(bank.skeleton, evaluate(bank.skeleton, self._of.reading(bank, rows)))
                applies = bank.applies(rows, self._of.met)
                values = values.expand(rows.stop - rows.start, self._of.batch)
                parts.append(values if applies is None else torch.where(applies, values, torch.nan))
        return self._joined(parts)

    @property
    def satisfied(self) -> Tensor:
        """Bool [B, R]: the constraint applies to the row and holds."""
        return self._verdicts[0]

    @property
    def violated(self) -> Tensor:
        """Bool [B, R]: the constraint applies to the row and does not hold; a strict comparison that misses by nothing is violated."""
        return self._verdicts[1]

    @cached_property
    def unknown(self) -> Tensor:
        """Bool [B, R]: the constraint applies to the row, and a missing value leaves its verdict open."""
        return self.applicable & ~self.satisfied & ~self.violated

    @cached_property
    def applicable(self) -> Tensor:
        """Bool [B, R]: the row has the categories that the constraint asks for."""
        return self._joined([self._of.applies(bank, slice(0, bank.rows)) for bank in self._of.banks], torch.bool)

    @property
    def fired(self) -> Tensor:
        """Bool [B, R]: applicable and, for a constraint of the form if-then, its antecedent holds."""
        return self._verdicts[2]

    @cached_property
    def violation_rate(self) -> float:
        """Share of violated among known verdicts, over all rows and constraints; 0 when there are none."""
        violated, satisfied = int(torch.count_nonzero(self.violated)), int(torch.count_nonzero(self.satisfied))
        return violated / (violated + satisfied) if violated + satisfied else 0.0

    def violation_rates(self) -> dict[str, float]:
        """The share of violated among known verdicts of each rule; NaN for a rule with none."""
        names = [rule.name for rule in self._of.pack.manifest.rules]
        zeros = torch.zeros(len(names), dtype=torch.float64, device=self.rule_index.device)
        violated = zeros.index_add(0, self.rule_index, self.violated.sum(0).double())
        known = violated.index_add(0, self.rule_index, self.satisfied.sum(0).double())
        return dict(zip(names, (violated / known).tolist(), strict=True))

    def violations(self) -> pd.DataFrame:
        """One row per violation: rule, entity, row (position in the batch), robustness, unit, title. Raises MissingExtra without pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtra("violations() as a data frame", "torch") from error
        manifest, banks = self._of.pack.manifest, self._of.pack.banks
        row, column = (index.tolist() for index in torch.nonzero(self.violated, as_tuple=True))
        entity = [int(i) for bank in banks for i in bank.entity]
        unit = [int(i) for bank in banks for i in bank.unit]
        rule = self.rule_index.tolist()
        return pd.DataFrame(
            {
                "rule": [manifest.rules[rule[c]].name for c in column],
                "entity": [manifest.entities[entity[c]] for c in column],
                "row": row,
                "robustness": self.robustness.detach()[row, column].tolist(),
                "unit": [manifest.units[unit[c]] for c in column],
                "title": [manifest.rules[rule[c]].title for c in column],
            }
        )

    @cached_property
    def _verdicts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Satisfied, violated, fired: bool [B, R]."""
        parts: list[list[Tensor]] = [[], [], []]
        with torch.no_grad():
            for bank in self._of.banks:
                for rows in bank.chunks(self._of.batch):
                    reading, fired = self._of.reading(bank, rows), None
                    if isinstance(bank.skeleton, Implies):
                        values, fired = evaluate_implication(bank.skeleton, reading)
                    else:
                        values = evaluate(bank.skeleton, reading)
                    applies = self._of.applies(bank, rows)
                    verdicts = (applies & (values >= 0), applies & (values < 0), applies if fired is None else applies & fired)
                    for part, verdict in zip(parts, verdicts, strict=True):
                        part.append(verdict)
        satisfied, violated, fired = (self._joined(part, torch.bool) for part in parts)
        return satisfied, violated, fired

    def _joined(self, parts: list[Tensor], dtype: torch.dtype | None = None) -> Tensor:
        """Parts [r, B] as one tensor [B, R]."""
        empty = self._of.inputs.new_zeros((0, self._of.batch), dtype=dtype or self._of.inputs.dtype)
        return torch.cat([empty, *parts]).T
