"""Calls like an earlier one: what does not depend on their numbers is found out once for each
shape.

Calls on a CPU with tensors as features and answers and no further arguments, of rules without
conditions on their contents, that compare neither rows with those before nor answers to several
views. The report is that of any other call, to the bit.

Letters: B rows of the batch (for windows: all their steps, one after the other), F features, H
outputs, N numbers read per sample, D conditions.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from fedkg.constraints.batch_evaluation import BatchEvaluation
from fedkg.constraints.batch_shape_cache import BatchStructure
from fedkg.constraints.binding.plan import Condition, Plan
from fedkg.constraints.binding.rule_input_values import output_numbers, percent, whole_features
from fedkg.constraints.engine.batch_rows_as_traces import Traces
from fedkg.constraints.engine.penalty import PenaltyForm
from fedkg.constraints.kernel_tensor_checks import is_near
from fedkg.kernels.checked_memory_access import address

if TYPE_CHECKING:
    from fedkg.constraints.module import ConstraintModule

MOST = 16
"""Shapes that a module remembers."""


class ShapeCaches(dict[Any, "ShapeCache | None"]):
    """What a module knows of calls by shape and type; None: nothing is gained.

    A copy knows nothing, for there are addresses in it.
    """

    @override
    def __reduce__(self) -> tuple[object, ...]:
        return ShapeCaches, ()


@dataclass(frozen=True, slots=True, eq=False)
class ShapeCache:
    """What all calls of one shape and data type have in common.

    Attributes:
        shape: (B,), or for windows (number of windows, steps of a window).
        cells: the number of rows of all banks times B.
        met: bool [D, B], whether each row of the batch meets each condition.
        traces: as in `BatchEvaluation`.
        inactive: as in `BatchEvaluation`.
        features: reads the input numbers from the features.
        answers: reads the output numbers from the answers; None if torch reads them (logits).
        structure: what the evaluations of all these batches share.
    """

    shape: tuple[int, ...]
    cells: int
    met: Tensor
    traces: Traces | None
    inactive: Mapping[str, str]
    features: Reader
    answers: Reader | None
    structure: BatchStructure

    def evaluate_batch(
        self, module: ConstraintModule, x: Tensor, y: Tensor, form: PenaltyForm
    ) -> BatchEvaluation | None:
        """What a report is computed from.

        None where the numbers cannot be looked at, or have a gradient by features.
        """
        graph = torch.is_grad_enabled()
        if (
            not is_near(x)
            or (graph and x.requires_grad)
            or not is_near(y)
            or not module.loop_use.is_worth(self.cells)
        ):
            return None
        most, rows = array("d", [0.0]), self.met.shape[1]
        inputs = self.features.read(x, rows, most)
        if self.answers is not None and not (graph and y.requires_grad):
            outputs, measured = self.answers.read(y, rows, most), most[0]
        else:
            outputs, measured = (
                output_numbers(module.plan, module.wires, y.reshape(1, rows, -1), {}, y.dtype),
                None,
            )
        sharing = module.sharing
        of = BatchEvaluation(
            pack=module.pack,
            banks=module.banks if sharing.values else sharing.banks,
            inputs=inputs,
            met=self.met,
            outputs=outputs,
            answers=y.reshape(rows, -1),
            shape=self.shape,
            sample_weight=None,
            inactive=self.inactive,
            form=form,
            traces=self.traces,
            measured=measured,
            chunk=module.chunk,
            structure=self.structure,
            loops=True,
        )
        return of.sharing(sharing.banks, sharing.values) if sharing.values else of


class Reader:
    """Reads numbers from features [B, F] or answers [B, H] with the loop
    `gather_numbers.numbers_read`.

    Args:
        columns: F, or H for answers.
        ways: for each of the N numbers, its column (-1: none, so that it is unknown) and the flags
            of what to do with it; see `gather_numbers.COLUMN` and `gather_numbers.SCALED`.
        scales: for each of the N numbers, a factor and two summands; see `gather_numbers.GAIN`.
        dtype: the data type of the samples and of the numbers.
    """

    def __init__(
        self,
        columns: int,
        ways: list[tuple[int, int]],
        scales: list[tuple[float, float, float]],
        dtype: torch.dtype,
    ) -> None:
        from fedkg.constraints.fused.bank_loop_arguments import constants, loops

        self._work, self._columns, self._count = loops(dtype).numbers_read, columns, len(ways)
        kind = torch.empty(0, dtype=dtype, device="cpu").numpy().dtype
        self._ways = np.array(ways, dtype=np.int64).reshape(-1, 2)
        self._scales = np.array(scales, dtype=np.float64).reshape(-1, 3).astype(kind)
        self._constants = constants(dtype)
        self._at = (
            address(self._ways),
            address(self._scales),
            self._count,
            address(self._constants),
        )

    def read(self, x: Tensor, places: int, most: array[float]) -> Tensor:
        """The numbers [N, B]; `most` as in the loop."""
        into = x.new_empty(self._count, places)
        if self._count and places:
            given = (
                address(x),
                0,
                places,
                places,
                self._columns,
                *self._at,
                address(into),
                address(most),
            )
            self._work(*given)
        return into


def build_shape_cache(
    module: ConstraintModule, x: Tensor, y: Any, of: BatchEvaluation
) -> ShapeCache | None:
    """Record what a call shares with all later calls of its shape; None if it cannot be shared.

    Args:
        module: the module that was called.
        x: the features of a call that has passed all checks.
        y: the `y` argument of that call.
        of: the evaluation of that call.
    """
    plan, dtype = module.plan, of.inputs.dtype
    compared = (
        plan.groups
        or plan.verdicts
        or len(plan.runs) > 1
        or any(feature >= 0 for feature in plan.raised_features)
    )
    if (
        compared
        or not isinstance(y, Tensor)
        or not (is_near(x) and is_near(y))
        or not x.dtype == y.dtype == dtype
    ):
        return None
    if not all(_is_settled(plan, condition) for condition in plan.conditions):
        return None
    met, readers = of.met.clone(), (_features(plan, dtype), _answers(plan, dtype))
    return ShapeCache(
        of.shape,
        of.cells,
        met,
        of.traces,
        of.inactive,
        *readers,
        BatchStructure(met, of.traces, dtype),
    )


def kind_of(x: Tensor, y: Any) -> tuple[torch.Size, torch.Size, torch.dtype, torch.dtype] | None:
    """By what a module knows calls; None for those that it cannot know."""
    return (x.shape, y.shape, x.dtype, y.dtype) if type(x) is Tensor and type(y) is Tensor else None


def _is_settled(plan: Plan, condition: Condition) -> bool:
    """Whether a condition holds for all samples, or none, whatever their numbers are."""
    if condition.column < 0:
        return condition.view < 0
    return (
        condition.code < 0
        and plan.pack.manifest.contract.columns[condition.column].type == "category"
    )


def _features(plan: Plan, dtype: torch.dtype) -> Reader:
    from fedkg.kernels.formulas.gather_numbers import RAISED, ROUNDED, SCALED

    ways, scales = [], []
    whole = whole_features(plan)
    raised = RAISED if any(read.delta for read in plan.input_reads) else 0
    for read in plan.input_reads:
        feature = plan.features[read.column]
        scaled = (0 if plan.x.std is None else SCALED) | (ROUNDED if feature in whole else 0)
        mean, std = (
            (0.0, 1.0)
            if plan.x.mean is None or plan.x.std is None
            else (plan.x.mean[feature], plan.x.std[feature])
        )
        ways.append((feature, scaled | raised))
        scales.append((std, mean, read.delta))
    return Reader(len(plan.x.names), ways, scales, dtype)


def _answers(plan: Plan, dtype: torch.dtype) -> Reader | None:
    from fedkg.kernels.formulas.gather_numbers import SCALED

    entries = plan.y.entries
    if any(entry.kind == "logit" for entry in entries):
        return None
    scales = [(entry.std * percent(plan, i), entry.mean, 0.0) for i, entry in enumerate(entries)]
    scaled = SCALED if any(scale[:2] != (1.0, 0.0) for scale in scales) else 0
    return Reader(
        len(entries),
        [(read.entry, scaled) for read in plan.output_reads],
        [scales[read.entry] for read in plan.output_reads],
        dtype,
    )
