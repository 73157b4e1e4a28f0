"""Sums of several outputs that hard rules bound: for each sample a polytope, and the answers nearest to the model's in it.

Letters: R rows of a bank, B batch, N numbers read per sample, H outputs; K outputs in sums, L sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.constraints.binding.numbers import InputNumbers, percent
from fedkg.constraints.binding.plan import Plan
from fedkg.constraints.engine.banks import BankTensors
from fedkg.constraints.projecting.linear import Linear, ends, factors
from fedkg.projection.polytope_gradient import nearest_points
from fedkg.projection.polytope_rows import product


@dataclass(frozen=True, slots=True)
class Sums:
    """The bounded sums in each bank, and its rows of hard rules, int64 [r]: those for which they are kept."""

    of_bank: tuple[tuple[Linear, ...], ...]
    rows: tuple[Tensor, ...]


def sums_projected(
    plan: Plan,
    sums: Sums,
    banks: Sequence[BankTensors],
    inputs: InputNumbers,
    bounds: tuple[Tensor, Tensor],
    answers: Tensor,
    moved: Tensor,
) -> Tensor:
    """`moved` [B, H] with the entries that stand in sums replaced by the nearest to those of `answers` that keep all sums and bounds.

    Nearest is meant in the units of the layout, for logits in those of their probabilities. Where a sample's sums and bounds contradict
    each other, the answers by which the sum of the squares of what is missed is least.

    Args:
        bounds: least and most of each output read, in the rules' units, [N, B] each.
    """
    numbers = inputs.numbers
    with torch.no_grad():
        matrix, low, high = _rows(plan, sums, banks, inputs)
    used = (matrix != 0).flatten(0, -2).any(0).nonzero().squeeze(1)
    if not len(used) or not len(answers):
        return moved
    entries = [plan.output_reads[i].entry for i in used.tolist()]
    layouts = [plan.y.entries[entry] for entry in entries]
    gain = numbers.new_tensor([layout.std * percent(plan, entry) for layout, entry in zip(layouts, entries, strict=True)])
    offset = numbers.new_tensor([layout.mean for layout in layouts])
    logit = torch.tensor([layout.kind == "logit" for layout in layouts], dtype=torch.bool, device=numbers.device)
    chance = torch.tensor([layout.kind in ("logit", "probability") for layout in layouts], dtype=torch.bool, device=numbers.device)
    columns = torch.tensor(entries, device=numbers.device)
    point = answers.to(numbers.dtype).index_select(1, columns)
    if bool(logit.any()):
        point = torch.where(logit, torch.sigmoid(point), point)
    with torch.no_grad():
        scaled = matrix.index_select(-1, used)
        reached = (bounds[0].amax(1) > -math.inf) | (bounds[1].amin(1) < math.inf)
        bounded = (reached[used] | chance).nonzero().squeeze(1)
        least, most = ((bound[used[bounded]].T - offset[bounded]) / gain[bounded] for bound in bounds)
        least, most = torch.where(chance[bounded], least.clamp(0, 1), least), torch.where(chance[bounded], most.clamp(0, 1), most)
        single = torch.eye(len(entries), dtype=scaled.dtype, device=scaled.device)[bounded]
        constant, scaled = scaled @ offset, scaled * gain
        rows = torch.cat([scaled, single.expand(*scaled.shape[:-2], -1, -1)], -2)
        lower, upper = (torch.cat([(end.T - constant).expand(len(point), -1), bound], 1) for end, bound in ((low, least), (high, most)))
        value, size = product(rows, point), product(rows.abs(), point.abs())
        lower, upper = _tightened(lower, upper, size)
        over = torch.maximum(value - upper, lower - value).amax(1)
        outside = ((over > 0) & (point.abs().amax(1) < math.inf)).nonzero().squeeze(1)
    if not len(outside):
        return moved
    own = rows if rows.ndim == 2 else rows[outside]
    nearest, _, _ = nearest_points(point[outside], own, lower[outside], upper[outside], soft=True)
    if bool(logit.any()):
        edge = torch.finfo(nearest.dtype).eps
        nearest = torch.where(logit, torch.logit(torch.where(logit, nearest, 0.5).clamp(edge, 1 - edge)), nearest)
    return moved.index_put((outside[:, None], columns[None, :]), nearest.to(moved.dtype))


def _rows(plan: Plan, sums: Sums, banks: Sequence[BankTensors], inputs: InputNumbers) -> tuple[Tensor, Tensor, Tensor]:
    """The sums' coefficients [L, N], or [B, L, N] where they depend on the sample, and their ends in the rules' units, [L, B] or [L, 1]."""
    numbers = inputs.numbers
    batch, reads = numbers.shape[1], len(plan.output_reads)
    outputs = numbers.new_zeros(reads, 1)
    blocks: list[Tensor] = []
    low: list[Tensor] = []
    high: list[Tensor] = []
    for bank, own, rows in zip(banks, sums.of_bank, sums.rows, strict=True):
        hard = rows.to(numbers.device)
        for part in own:
            reading = bank.reading(slice(0, bank.rows), numbers, outputs, careful=True)
            least, most = (end[hard] for end in ends(part, reading, bank.applies(slice(0, bank.rows), inputs.met)))
            terms = [(bank.output_index[bank.outputs.index(slot)], factor) for slot, factor in factors(part.atom, reading)]
            width = max(factor.shape[1] for _, factor in terms)
            block = numbers.new_zeros(bank.rows, width, reads)
            for index, factor in terms:
                spread = factor.to(block.dtype).expand(bank.rows, width)
                block.scatter_add_(2, index[:, None, None].expand(-1, width, 1), spread.unsqueeze(2))
            block = block[hard]
            known = torch.isfinite(block).all(2) & (block != 0).any(2)
            blocks.append(torch.where(known.unsqueeze(2), block, 0))
            low.append(torch.where(known, least, -math.inf))
            high.append(torch.where(known, most, math.inf))
    width = max(end.shape[1] for end in low)
    if all(block.shape[1] == 1 for block in blocks):
        matrix = torch.cat([block[:, 0] for block in blocks])
    else:
        matrix = torch.cat([block.expand(-1, batch, -1) for block in blocks]).transpose(0, 1)
    lower, upper = (torch.cat([end.expand(-1, width) for end in side]) for side in (low, high))
    return matrix, lower, upper


def _tightened(lower: Tensor, upper: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    """Ends a few units in the last place inside the given ones, so that the answers, rounded, still lie within; never past each other."""
    eps = max(4 * torch.finfo(size.dtype).eps, 64 * torch.finfo(torch.float64).eps)
    room = (upper - lower).clamp(min=0) / 4
    steps = [torch.minimum(eps * (1 + end.nan_to_num(posinf=0, neginf=0).abs() + size), room) for end in (lower, upper)]
    return lower + steps[0], upper - steps[1]
