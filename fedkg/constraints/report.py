"""What the rules say of one batch. Nothing is computed before it is asked for, and nothing twice.

Letters: B batch, T steps of a window, N rows of the batch (B, or B * T), R rows of the pack (banks
in pack order).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from fedkg._internal.compile_exclusion import exclude_from_compile
from fedkg._internal.notebook_html import notebook_html
from fedkg._internal.safe_text import count_noun
from fedkg.constraints.batch_evaluation import BatchEvaluation
from fedkg.constraints.engine.bank_tensors import BankTensors
from fedkg.constraints.penalty_sum import penalty_apart, penalty_parts, total_penalty
from fedkg.errors import LayoutError, MissingExtra, UsageError

if TYPE_CHECKING:
    import pandas as pd


class _Each:
    """The verdict of every constraint on every row of a batch, each [N, R]."""

    def __init__(self, evaluated: BatchEvaluation) -> None:
        self._of = evaluated

    @cached_property
    @exclude_from_compile
    def penalties(self) -> Tensor:
        of = self._of
        return self._joined(
            lambda bank: [of.penalties(bank, rows, of.inputs, of.outputs) for rows in of.runs(bank)]
        )

    @cached_property
    @exclude_from_compile
    def robustness(self) -> Tensor:
        of = self._of
        return self._joined(lambda bank: [of.robustness(bank, rows) for rows in of.judged(bank)])

    @cached_property
    @exclude_from_compile
    def smooth_robustness(self) -> Tensor:
        of = self._of
        return self._joined(
            lambda bank: [of.robustness(bank, rows, soft=True) for rows in of.runs(bank)]
        )

    @cached_property
    @exclude_from_compile
    def applicable(self) -> Tensor:
        return self._joined(lambda bank: [self._of.applies(bank, slice(0, bank.rows))], torch.bool)

    @cached_property
    @exclude_from_compile
    def counted(self) -> Tensor:
        of = self._of
        return self._joined(
            lambda bank: [of.counted(bank, rows) for rows in of.chunks(bank)], torch.bool
        )

    @cached_property
    @exclude_from_compile
    def verdicts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Satisfied, violated, fired."""
        return self._verdicts(self._of.judged_places, self._of.batch)

    @cached_property
    @exclude_from_compile
    def verdicts_of_windows(self) -> tuple[Tensor, Tensor, Tensor]:
        """The same of each of n windows, at some step, and violated at none where satisfied; [n,
        R].
        """
        return self._verdicts(self._of.judged_windows, self._of.shape[0])

    def _verdicts(
        self, judged: Callable[[BankTensors, slice], Tensor], count: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        found: list[Tensor] = []
        with torch.no_grad():
            for bank in self._of.banks:
                own = [judged(bank, rows) for rows in self._of.judged(bank)]
                found += (
                    own
                    if bank.every is None or not own
                    else [torch.cat(own, dim=1).index_select(1, bank.every)]
                )
            planes = (
                found[0]
                if len(found) == 1
                else torch.cat([self._of.met.new_zeros(3, 0, count), *found], dim=1)
            )
            satisfied, violated, fired = planes.transpose(1, 2).unbind(0)
        return satisfied, violated, fired

    def _joined(
        self, parts: Callable[[BankTensors], list[Tensor]], dtype: torch.dtype | None = None
    ) -> Tensor:
        """The parts [r, N] of each bank as one tensor [N, R]."""
        return for_all_rows(self._of, parts, self._of.batch, dtype)


def for_all_rows(
    of: BatchEvaluation,
    parts: Callable[[BankTensors], list[Tensor]],
    count: int,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """What each bank's rows have, in parts [r, count] one after the other, for all rows of the
    pack: [count, R].
    """
    found: list[Tensor] = []
    for bank in of.banks:
        own = parts(bank)
        found += own if bank.every is None or not own else [bank.of_every(torch.cat(own))]
    if len(found) == 1:
        return found[0].T
    return torch.cat([of.inputs.new_zeros((0, count), dtype=dtype or of.inputs.dtype), *found]).T


class ConstraintReport:
    """The verdict of every constraint on every row of a batch, and the penalty to train with.

    For a batch of windows, each constraint has one verdict for each window: it must be satisfied at
    all steps where it applies and is known (a constraint that begins with `initially`: at the
    first). `at_steps` is the same report with separate steps, so its shapes are [B, T, R] in place
    of [B, R].
    """

    def __init__(self, evaluated: BatchEvaluation, each: _Each | None = None) -> None:
        self._of = evaluated
        self._each = _Each(evaluated) if each is None else each
        self._shape = evaluated.shape
        self._whole = len(evaluated.shape) == 2 and each is None

    @override
    def __repr__(self) -> str:
        size = (
            f"{count_noun(self._shape[0], 'window')} of {count_noun(self._shape[1], 'step')}"
            if len(self._shape) == 2
            else count_noun(self._of.batch, "row")
        )
        return (
            f"ConstraintReport({size}, {count_noun(self._of.pack.rows, 'constraint')} of "
            f"{count_noun(len(self._of.pack.manifest.rules), 'rule')})"
        )

    def _repr_html_(self) -> str:
        """The rules as a notebook shows them, with verdicts in the form of the call."""
        rules = self._of.pack.manifest.rules
        zeros = torch.zeros(len(rules), dtype=torch.int64, device=self.rule_index.device)
        counts = [
            zeros.index_add(0, self.rule_index, verdicts.flatten(0, -2).sum(0)).tolist()
            for verdicts in (self.satisfied, self.violated, self.unknown)
        ]
        return notebook_html(
            repr(self),
            "",
            ("rule", "satisfied", "violated", "unknown", "title"),
            (
                (rule.name, *numbers, rule.title)
                for rule, *numbers in zip(rules, *counts, strict=True)
            ),
            len(rules),
        )

    @property
    def at_steps(self) -> ConstraintReport:
        """The report with separate steps of each window; for a batch of rows, the report itself."""
        return ConstraintReport(self._of, self._each) if self._whole else self

    @property
    def outputs(self) -> Tensor:
        """The model's unchanged answers to the batch, [B, H] or [B, T, H]. Use them for the loss of
        the task instead of running the model again.
        """
        return self._of.answers.reshape(*self._shape, self._of.answers.shape[1])

    @property
    def inactive(self) -> Mapping[str, str]:
        """Rules with constraints that could not be evaluated with the arguments of the call, and
        the reasons.
        """
        return self._of.inactive

    @cached_property
    def rule_index(self) -> Tensor:
        """The rule (position in the pack) of each constraint, int64 [R]."""
        return torch.cat(
            [self._of.met.new_zeros(0, dtype=torch.int64), *(bank.rule for bank in self._of.banks)]
        )

    @cached_property
    def penalty(self) -> Tensor:
        """The violation of all rules as one differentiable number, at least 0.

        The sum over rules of ``weight * mean(penalties)``. The mean is over all (constraint, row)
        pairs in which a constraint of the rule applies, with the weights of the samples. Rules over
        inputs alone add nothing. In windows, the rows are all steps, and a constraint over time
        counts where it is known. You can differentiate it once; for higher derivatives, sum
        `penalties`.
        """
        return total_penalty(self._of)

    @exclude_from_compile
    def penalty_by(self, what: Literal["rule", "kind", "entity"]) -> dict[str, Tensor]:
        """The penalty as differentiable parts that add up to it: by rule, by kind of rule, or by
        entity.

        Rules, kinds and entities without a constraint on an output have no entry. Constraints
        without an entity are under "".

        Raises:
            UsageError: `what` is another word.
        """
        manifest, banks = self._of.pack.manifest, self._of.pack.banks
        kinds = list(dict.fromkeys(rule.kind for rule in manifest.rules))
        kind_of = np.array([kinds.index(rule.kind) for rule in manifest.rules], dtype=np.int64)
        choices: dict[str, tuple[Sequence[str], list[NDArray[np.integer]]]] = {
            "rule": ([rule.name for rule in manifest.rules], [bank.rule for bank in banks]),
            "kind": (kinds, [kind_of[bank.rule] for bank in banks]),
            "entity": (manifest.entities, [bank.entity for bank in banks]),
        }
        if what not in choices:
            raise UsageError(f"the penalty has no parts by `{what}`", expected=", ".join(choices))
        names, of_rows = choices[what]
        group = [
            torch.from_numpy(rows.astype(np.int64)).to(self.rule_index.device) for rows in of_rows
        ]
        parts = penalty_parts(self._of, group, len(names))
        held = {
            int(i)
            for rows, bank in zip(of_rows, self._of.banks, strict=True)
            if bank.touches_output
            for i in np.unique(rows)
        }
        return {names[i]: parts[i] for i in sorted(held)}

    def penalty_apart(self, weight: Tensor) -> Tensor:
        """The penalty of each of C parts of the batch as if it were a separate batch, [C].

        You can differentiate it repeatedly.

        Args:
            weight: [C, n], or for windows [C, n, T]: the weight of each row (step) of each part, in
                place of its `sample_weight`. The parts are adjacent in the batch.

        Raises:
            LayoutError: the number of weights is not the number of rows in the batch.
        """
        if weight.dim() < 2 or weight.numel() != self._of.batch:
            expected = f"[C, n] or [C, n, T], {self._of.batch:,} numbers"
            raise LayoutError(
                "`weight` must have one number for each row of each part",
                expected=expected,
                received=str([*weight.shape]),
            )
        return penalty_apart(self._of, weight.to(self._of.inputs).flatten(1))

    @cached_property
    def penalties(self) -> Tensor:
        """The penalty of each row and constraint, [B, R], in the form of the call; 0 where unknown
        or not applicable.

        fedkg divides the margin of each comparison by its scale. Conditions on inputs count as true
        or false, so the gradient goes to the model even if a guard is nearly false. The penalty is
        0 where the model cannot change the verdict. For a window, it is the mean over the `counted`
        steps.
        """
        each = self._laid(self._each.penalties)
        if not self._whole:
            return each
        counted = self._laid(self._each.counted).sum(dim=1)
        return each.sum(dim=1) / counted.clamp(min=1)

    @cached_property
    def counted(self) -> Tensor:
        """The (row, constraint) pairs in the means of the penalty, bool [B, R]: the constraint
        applies and, if it is over time, is known.
        """
        return self._any(self._each.counted)

    @cached_property
    @exclude_from_compile
    def robustness(self) -> Tensor:
        """The robustness of each constraint, [B, R], in source units: positive if satisfied,
        negative if violated.

        NaN where unknown or not applicable, infinite where the decision is not about numbers. It is
        exact, and differentiable if the model's answers are. For a window, it is the least of its
        steps.
        """
        return self._least(soft=False) if self._whole else self._laid(self._each.robustness)

    @cached_property
    @exclude_from_compile
    def smooth_robustness(self) -> Tensor:
        """`robustness` with the minima and maxima of the call's semantics, [B, R], in source units.

        It is differentiable. For a window, it is the smooth minimum of its steps. Verdicts are
        always exact.

        - "sound": ``>= 0`` exactly where `satisfied`, ``< 0`` where `violated`, NaN where unknown.
          For n numbers under one minimum or maximum, it is within the factors sqrt(n) and
          1 / sqrt(n) of the exact robustness.
        - "smooth": within temperature * log(n) of the exact robustness, in units of the least scale
          of the row's comparisons. NaN also where smoothing does not determine the sign. Margins
          are limited to 2.5e29 such units.
        - "exact": `robustness`.
        """
        if self._of.form.exact:
            return self.robustness
        return self._least(soft=True) if self._whole else self._laid(self._each.smooth_robustness)

    def _least(self, *, soft: bool) -> Tensor:
        """The least robustness of the steps of each window, [B, R]."""
        of = self._of
        return for_all_rows(
            of,
            lambda bank: [
                of.least(bank, rows, soft=soft)
                for rows in (of.chunks(bank) if soft else of.judged(bank))
            ],
            of.shape[0],
        )

    @cached_property
    def satisfied(self) -> Tensor:
        """Bool [B, R]: the constraint applies to the row and is satisfied.

        For a window: at every step where it applies and is known.
        """
        return (
            self._each.verdicts_of_windows[0] if self._whole else self._laid(self._each.verdicts[0])
        )

    @cached_property
    def violated(self) -> Tensor:
        """Bool [B, R]: the constraint applies to the row and is violated.

        A strict comparison of equal numbers is violated. For a window: at some step.
        """
        return (
            self._each.verdicts_of_windows[1] if self._whole else self._laid(self._each.verdicts[1])
        )

    @cached_property
    def unknown(self) -> Tensor:
        """Bool [B, R]: the constraint applies to the row, but a value that decides it is missing.

        For a window: at all steps where it applies.
        """
        return self.applicable & ~self.satisfied & ~self.violated

    @cached_property
    def applicable(self) -> Tensor:
        """Bool [B, R]: the row has the categories that the constraint selects.

        For a window: at some step.
        """
        return self._any(self._each.applicable)

    @cached_property
    def fired(self) -> Tensor:
        """Bool [B, R]: the constraint is applicable and, if it has the form ``if ... then``, its
        condition is true.

        For a window: at some step.
        """
        return (
            self._each.verdicts_of_windows[2] if self._whole else self._laid(self._each.verdicts[2])
        )

    @cached_property
    def violation_rate(self) -> float:
        """Share of violated among known verdicts, over all rows and constraints.

        Unknown verdicts, for example after an answer NaN, do not count. The rate is 0 if no verdict
        is known, so check `unknown` too.
        """
        violated, satisfied = (
            int(torch.count_nonzero(self.violated)),
            int(torch.count_nonzero(self.satisfied)),
        )
        return violated / (violated + satisfied) if violated + satisfied else 0.0

    def violation_rates(self) -> dict[str, float]:
        """The share of violated among known verdicts of each rule; NaN for a rule with none."""
        names = [rule.name for rule in self._of.pack.manifest.rules]
        zeros = torch.zeros(len(names), dtype=torch.float64, device=self.rule_index.device)
        violated = zeros.index_add(0, self.rule_index, self.violated.flatten(0, -2).sum(0).double())
        known = violated.index_add(
            0, self.rule_index, self.satisfied.flatten(0, -2).sum(0).double()
        )
        return dict(zip(names, (violated / known).tolist(), strict=True))

    def violations(self) -> pd.DataFrame:
        """One row for each violation: rule, entity, row (position in the batch), robustness, unit,
        title.

        For windows, one row for each violated step: `row` is the window, and `step` the step in it.

        Raises:
            MissingExtra: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtra("violations() as a data frame", "torch") from error
        manifest, banks = self._of.pack.manifest, self._of.pack.banks
        row, column = (
            index.tolist() for index in torch.nonzero(self._each.verdicts[1], as_tuple=True)
        )
        entity = [int(i) for bank in banks for i in bank.entity]
        unit = [int(i) for bank in banks for i in bank.unit]
        rule = self.rule_index.tolist()
        places = {"row": row}
        if len(self._shape) == 2:
            places = {
                "row": [r // self._shape[1] for r in row],
                "step": [r % self._shape[1] for r in row],
            }
        return pd.DataFrame(
            {
                "rule": [manifest.rules[rule[c]].name for c in column],
                "entity": [manifest.entities[entity[c]] for c in column],
                **places,
                "robustness": self._each.robustness.detach()[row, column].tolist(),
                "unit": [manifest.units[unit[c]] for c in column],
                "title": [manifest.rules[rule[c]].title for c in column],
            }
        )

    def _laid(self, each: Tensor) -> Tensor:
        """Values [N, R] as [B, R], or for windows [B, T, R]."""
        return each.reshape(*self._shape, each.shape[1]) if len(self._shape) == 2 else each

    def _any(self, each: Tensor) -> Tensor:
        """Bool [N, R] by row, or for a window as a whole whether at some step."""
        laid = self._laid(each)
        return laid.any(dim=1) if self._whole else laid
