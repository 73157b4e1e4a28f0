"""What the rules say of a model's answers for each sample: bounds on one output each, and sums of
several.

Letters: R rows of a bank, B batch, H outputs, N numbers read per sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg._internal.torch_compat import are_transforms_active, being_traced
from fedkg.constraints.binding.plan import BankPlan, Plan
from fedkg.constraints.binding.rule_input_values import InputNumbers, percent
from fedkg.constraints.engine.bank_tensors import BankTensors
from fedkg.constraints.engine.evaluation_inputs import Reading
from fedkg.constraints.projecting.coefficients import Sums
from fedkg.constraints.projecting.joint_projection import sums_projected
from fedkg.constraints.projecting.linear_comparisons import (
    Linear,
    ends,
    factors,
    linear_parts,
    same_ends,
    same_factors,
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds in each bank, the sums of several outputs that hard rules bound, and the rules on
    outputs with a part that is neither or that reads the row before.
    """

    of_bank: tuple[tuple[Linear, ...], ...]
    sums: Sums
    not_projected: tuple[str, ...]


def find_bounds(plan: Plan) -> Bounds:
    """All bounds and bounded sums that the banks of a plan consist of."""
    rules = plan.pack.manifest.rules
    bounds: list[tuple[Linear, ...]] = []
    sums: list[tuple[Linear, ...]] = []
    left_out: set[int] = set()
    for planned, bank in zip(plan.banks, plan.pack.banks, strict=True):
        found: list[Linear] = []
        whole = not planned.touches_output or (
            not planned.temporal and linear_parts(planned.skeleton, found)
        )
        own = all(
            plan.runs[plan.output_reads[i].run] == 0 for i in planned.output_index.ravel().tolist()
        )
        bounds.append(tuple(part for part in found if own and len(part.slots) == 1))
        sums.append(tuple(part for part in found if own and len(part.slots) > 1))
        if planned.touches_output:
            every = whole and own
            left_out |= {
                rule
                for rule in set(bank.rule.tolist())
                if not every or (sums[-1] and not rules[rule].hard)
            }
            left_out |= set(bank.rule[_looking_back(plan, planned)].tolist())
    hard = tuple(
        torch.tensor([i for i, rule in enumerate(bank.rule.tolist()) if rules[rule].hard])
        for bank in plan.pack.banks
    )
    kept = tuple(part if len(rows) else () for part, rows in zip(sums, hard, strict=True))
    joint = Sums(
        of_bank=kept,
        rows=tuple(rows.long() for rows in hard),
        single=frozenset(_outputs(plan, bounds)),
        same_factors=all(same_factors(part) for own in kept for part in own),
        same_ends=all(
            same_ends(part) and not len(bank.conditions)
            for bank, own in zip(plan.banks, kept, strict=True)
            for part in own
        ),
    )
    return Bounds(tuple(bounds), joint, tuple(rules[rule].name for rule in sorted(left_out)))


def _looking_back(plan: Plan, bank: BankPlan) -> NDArray[np.bool_]:
    """The rows of a bank that read the row before, which a projection is not told of.

    All of them where members do.
    """
    back = np.array([read.previous >= 0 for read in plan.input_reads], dtype=np.bool_)
    members = any(back[table.input_index].any() for table in bank.members)
    return np.asarray(back[bank.input_index].any(axis=0)) | members


def _outputs(plan: Plan, bounds: Sequence[tuple[Linear, ...]]) -> Iterator[int]:
    """The outputs read that have bounds."""
    for bank, own in zip(plan.banks, bounds, strict=True):
        for bound in own:
            yield from bank.output_index[bank.outputs.index(bound.slots[0])].tolist()


def project(
    plan: Plan, bounds: Bounds, banks: Sequence[BankTensors], inputs: InputNumbers, answers: Tensor
) -> Tensor:
    """Answers [B, H] moved into all bounds, entry by entry, and into all bounded sums.

    Differentiable in `answers`.
    """
    numbers = inputs.numbers
    shape = (len(plan.output_reads), numbers.shape[1])
    low, high = numbers.new_full(shape, -math.inf), numbers.new_full(shape, math.inf)
    outputs = numbers.new_zeros(shape)
    with torch.no_grad():
        for bank, own in zip(banks, bounds.of_bank, strict=True):
            for rows in _chunks(bank, numbers.shape[1]) if own else ():
                reading = bank.reading(rows, numbers, outputs, careful=True)
                applies = bank.applies(rows, inputs.met)
                for bound in own:
                    least, most = _interval(bound, reading, applies)
                    index = bank.output_index[bank.outputs.index(bound.slots[0]), rows][
                        :, None
                    ].expand(-1, shape[1])
                    low.scatter_reduce_(0, index, least, "amax")
                    high.scatter_reduce_(0, index, most, "amin")
    moved = answers.clone()
    if any(bounds.of_bank):
        middle = (low + high) / 2
        low, high = torch.where(low > high, middle, low), torch.where(low > high, middle, high)
        columns = list(answers.to(numbers.dtype).unbind(1))
        bounded = _bounded(low, high)
        eps = max(torch.finfo(dtype).eps for dtype in (numbers.dtype, answers.dtype))
        for i, read in enumerate(plan.output_reads):
            if read.run == 0 and bounded[i]:
                least, most = _in_layout(plan, read.entry, low[i], high[i], eps)
                columns[read.entry] = torch.minimum(torch.maximum(columns[read.entry], least), most)
        moved = torch.stack(columns, dim=1).to(answers.dtype)
    return (
        sums_projected(plan, bounds.sums, banks, inputs, (low, high), answers, moved)
        if any(bounds.sums.of_bank)
        else moved
    )


def _chunks(bank: BankTensors, batch: int) -> Iterator[slice]:
    """The rows of a bank in chunks that fit a cache; all at once in an exported graph, which works
    for every batch size.
    """
    return iter((slice(0, bank.rows),)) if being_traced() else bank.chunks(batch)


def _bounded(low: Tensor, high: Tensor) -> list[bool]:
    """Which outputs read [N, B] have a bound for some sample.

    All of them inside of transforms and exported graphs, which show no numbers.
    """
    if are_transforms_active() or being_traced():
        return [True] * len(low)
    found: list[bool] = (low.isfinite() | high.isfinite()).any(1).tolist()
    return found


def _interval(bound: Linear, reading: Reading, applies: Tensor | None) -> tuple[Tensor, Tensor]:
    """Least and most that a bound allows its output, [R, B].

    Infinite where it does not apply or is unknown.
    """
    low, high = ends(bound, reading, applies)
    [(_, factor)] = factors(bound.atom, reading)
    slope = factor.to(low.dtype).expand(low.shape)
    above, below = slope > 0, slope < 0
    most, least = torch.where(above, high, low) / slope, torch.where(above, low, high) / slope
    if bound.strict:
        most, least = most - _hair(most), least + _hair(least)
    sided = above | below
    return torch.where(sided & least.isfinite(), least, -math.inf), torch.where(
        sided & most.isfinite(), most, math.inf
    )


def _hair(limit: Tensor) -> Tensor:
    """A step that a strict comparison keeps off its limit: a few units in the last place."""
    return torch.finfo(limit.dtype).eps * 4 * torch.clamp(limit.abs(), min=1)


def _in_layout(
    plan: Plan, entry: int, low: Tensor, high: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """Bounds in the rules' unit as bounds on the answer's entry.

    They move inwards by a few units in the last place (`eps`), so that the answer satisfies the
    rule after it is converted back; not where both bounds would meet.
    """
    layout = plan.y.entries[entry]
    match layout.kind:
        case "value":
            exact = layout.mean == 0 and layout.std == 1
            # tensors: ONNX files contain Python numbers in float32
            mean, std = low.new_tensor(layout.mean), low.new_tensor(layout.std)
            ends = [(b - mean) / std for b in (low, high)]
            rounding = [
                (0 if exact else 2 * eps) * (b.abs() + mean.abs()) / std for b in (low, high)
            ]
        case "probability":
            return low / percent(plan, entry), high / percent(plan, entry)
        case "logit":
            edge = torch.finfo(low.dtype).eps
            shares = [
                torch.where(b.isfinite(), (b / percent(plan, entry)).clamp(edge, 1 - edge), b)
                for b in (low, high)
            ]
            ends = [torch.where(p.isfinite(), torch.logit(p), p) for p in shares]
            rounding = [
                2 * eps / (1 - p) + eps * (2 + end.abs())
                for p, end in zip(shares, ends, strict=True)
            ]
        case "score":
            return low, high
        case _:
            assert_never(layout.kind)
    least, most = (
        torch.where(end.isfinite(), end + sign * error, end)
        for end, error, sign in zip(ends, rounding, (1, -1), strict=True)
    )
    apart = least <= most
    return torch.where(apart, least, ends[0]), torch.where(apart, most, ends[1])
