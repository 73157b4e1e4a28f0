"""The rules on inputs that stay the same while models change: a server's probe set, a test set that
every model of a search is judged on.

Letters: B rows (or windows) of the inputs, T steps of a window, P samples (B, or B * T), F
features, V runs of the model, H outputs, K clients (models), R constraints of the pack (banks in
pack order), N and N' input and output numbers read per sample.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from fedkg.constraints.binding.batch import Batch
from fedkg.constraints.binding.model_run_inputs import model_inputs
from fedkg.constraints.binding.model_run_outputs import shaped
from fedkg.constraints.binding.rule_input_values import (
    computing_dtype,
    in_units,
    output_numbers,
    same_units,
)
from fedkg.constraints.report import ConstraintReport
from fedkg.constraints.specialised.folded_bank_counts import SpecialBanks
from fedkg.errors import LayoutError

if TYPE_CHECKING:
    from fedkg.constraints.module import ConstraintModule

ANSWERS = 1 << 16
"""Clients counted at a time, times samples: sized so that one predicted number of all fits a cache.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counts:
    """How often the rules are evaluated and violated for K models.

    Attributes:
        violated: int64 [K, R], rows (or windows) that violate each constraint.
        evaluated: int64 [K, R], rows (or windows with a step) on which a constraint applies, its
            antecedent holds if it is of the form if-then, and its verdict is known. The first row
            under a rule that compares a row with the row before is not among them.
    """

    violated: Tensor
    evaluated: Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tally:
    """A fast way to count the violations of answers of one shape and data type.

    It exists if all checks that depend on the layout have passed and the rules read every answer.

    Attributes:
        special: the rules, specialised for these inputs.
        shape: [K, V, B, H], the shape of the answers.
        evaluated: float64 [R], the rows on which each constraint is evaluated, the same for all
            answers; see `Counts`.
    """

    special: SpecialBanks
    shape: torch.Size
    evaluated: Tensor

    def violated(self, answers: Tensor) -> Tensor | None:
        """Rows that violate each constraint, int64 [K, R].

        None where `Specialised.counts` must say, as where an answer is not finite.
        """
        return self.special.violated(answers.reshape(self.shape))


class Specialised:
    """A constraint module for one fixed batch: it evaluates the parts of rules that read only
    inputs once, in advance.

    Create it with `ConstraintModule.specialise`. Its verdicts equal those of the module bit for
    bit. It stores one number for each sample and each part that is evaluated in advance. Gradients
    reach the answers of the model.
    """

    def __init__(self, module: ConstraintModule, batch: Batch) -> None:
        self._module, self._batch = module, batch
        self._banks: dict[torch.dtype, SpecialBanks] = {}
        self._same_units = same_units(module.plan)
        self._base = self._special(computing_dtype(batch.x)).of

    @property
    def inputs(self) -> Tensor:
        """The V batches on which each model must run, [V, B, F] or for windows [V, B, T, F]."""
        runs = model_inputs(self._module.plan, self._batch.x, self._batch.before)
        return runs.reshape(runs.shape[0], *self._batch.shape, runs.shape[2])

    @property
    def inactive(self) -> Mapping[str, str]:
        """Rules with constraints that cannot be evaluated with the given arguments, and why."""
        return self._base.inactive

    @property
    def expressed(self) -> Tensor:
        """Bool [R]: constraints that are counted by thresholds.

        The others are evaluated for each model, on what is folded.
        """
        return self._special(self._base.inputs.dtype).expressed

    def __call__(self, y: Tensor) -> ConstraintReport:
        """The report on one model's answers, laid out as in `ConstraintModule.forward`."""
        plan = self._module.plan
        answers = shaped(plan, y, self._batch.shape, len(plan.runs))
        self._module.check_answers(answers)
        special = self._special(computing_dtype(self._batch.x, answers))
        outputs = output_numbers(
            plan, self._module.wires, answers, self._batch.has, special.of.inputs.dtype
        )
        banks, inputs = special.joined
        return ConstraintReport(
            replace(special.of, banks=banks, inputs=inputs, outputs=outputs, answers=answers[0])
        )

    def counts(
        self, y: Tensor, *, unanswered: Literal["unknown", "violated"] = "unknown"
    ) -> Counts:
        """How often each constraint is violated by each of K models.

        Args:
            y: the answers of each, laid out as in `ConstraintModule.forward`, one after the other:
                [K, B, H], [K, B] for one output, [K, V, B, H] where rules compare answers.
            unanswered: what to do where a verdict is unknown and an answer to the sample is not
                finite.

        Raises:
            LayoutError: answers of another shape.
        """
        plan, shape = self._module.plan, self._batch.shape
        if y.ndim < 2:
            raise LayoutError(
                "answers of several models must have one more dimension than those of one model",
                expected="[K, N] or more dimensions: K models, N rows",
                received=f"shape {list(y.shape)}",
            )
        first = y[0] if y.shape[0] else y.new_zeros(y.shape[1:])
        if first.shape != (len(plan.runs), *shape, len(plan.y)) or len(shape) > 1:
            first = shaped(plan, first, shape, len(plan.runs))
        answers = y if y.shape[1:] == first.shape else y.reshape(y.shape[0], *first.shape)
        self._module.check_answers(answers)
        special = self._special(computing_dtype(self._batch.x, answers))
        step = max(1, ANSWERS // max(1, self._batch.x.shape[0]))
        with torch.no_grad():
            several = torch.split(answers, step) if answers.shape[0] > step else (answers,)
            parts = [self._counted(special, part, unanswered) for part in several]
        violated, evaluated = (
            parts[0] if len(parts) == 1 else (torch.cat(both) for both in zip(*parts, strict=True))
        )
        return Counts(violated=violated, evaluated=evaluated)

    def tally(self, like: Tensor) -> Tally | None:
        """The short way to `counts` for answers of as many models as these, which it has taken, [K,
        V, B, H]; None where there is none.
        """
        module, special = self._module, self._special(computing_dtype(self._batch.x, like))
        entries, few = (
            len(module.plan.runs) * len(module.plan.y),
            0 < like.shape[0] * like.shape[2] <= ANSWERS,
        )
        if not (
            few
            and self._same_units
            and module.answers_checked
            and special.of.inputs.dtype == like.dtype
            and special.decides_every_sample(entries)
        ):
            return None
        return Tally(special=special, shape=like.shape, evaluated=special.evaluated.double())

    def _counted(
        self, special: SpecialBanks, answers: Tensor, unanswered: str
    ) -> tuple[Tensor, Tensor]:
        """Of answers [k, V, P, H]."""
        # A sum of numbers is one, but for too great ones; with anything else among them it is none.
        doubtful = unanswered == "violated" and not math.isfinite(answers.sum().item())
        broken = ~torch.isfinite(answers).all(dim=3).all(dim=1) if doubtful else None
        dtype = special.of.inputs.dtype
        values = (
            answers.to(dtype)
            if self._same_units
            else in_units(self._module.plan, self._module.wires, answers, dtype)
        )
        return special.counts(values, broken)

    def _special(self, dtype: torch.dtype) -> SpecialBanks:
        if dtype not in self._banks:
            module = self._module
            nothing = self._batch.x.new_zeros(
                (len(module.plan.runs), self._batch.x.shape[0], len(module.plan.y))
            )
            self._banks[dtype] = SpecialBanks(
                module.evaluate_batch(self._batch, nothing, dtype), module.wires["output_row"]
            )
        return self._banks[dtype]
