"""The coefficients and ends of bounded sums, and the rows of polytopes made of them.

Kept where no sample changes them.

Letters: B batch, N numbers read per sample; K outputs in sums, L sums, S bounds on single outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg._internal.torch_compat import are_transforms_active
from fedkg.constraints.binding.plan import Plan
from fedkg.constraints.binding.rule_input_values import InputNumbers, percent
from fedkg.constraints.engine.bank_tensors import BankTensors
from fedkg.constraints.projecting.linear_comparisons import Linear, ends, factors
from fedkg.projection.polytope_row_operations import UnitRows, unit_rows

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of outputs that each bank bounds.

    Attributes:
        of_bank: for each bank, the comparisons that bound a sum.
        rows: for each bank, its rows of hard rules, int64 [r]. Only these rows bound the sums.
        single: the outputs (positions among the outputs read) with separate bounds.
        same_factors: whether the sums have the same coefficients for every sample.
        same_ends: whether the sums have the same bounds for every sample.
        kept: results that are the same for every sample, by name, data type and device.
    """

    of_bank: tuple[tuple[Linear, ...], ...]
    rows: tuple[Tensor, ...]
    single: frozenset[int]
    same_factors: bool
    same_ends: bool
    kept: dict[Any, Any] = field(default_factory=dict, init=False, compare=False)

    def cached(self, name: str, same: bool, like: Tensor, make: Callable[[], T]) -> T:
        """What `make` returns.

        Kept, and not made again for tensors such as `like`, where it is the `same` for every
        sample.
        """
        key = (name, like.dtype, like.device)
        if key in self.kept:
            found: T = self.kept[key]
            return found
        if not same or are_transforms_active():  # what a transform makes is of no use after it
            return make()
        with (
            torch.inference_mode(False),
            torch.no_grad(),
        ):  # what inference makes is of no use where gradients are taken
            self.kept[key] = made = make()
        return made


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """The coefficients of the bounded sums, then of the bounded single outputs, in the units of the
    layout.

    Attributes:
        read: int64 [K], the outputs (positions among the outputs read) that occur in sums.
        columns: int64 [K], their positions in an answer of the model.
        alone: whether these are all positions of an answer, in their order.
        gain: [K], the factor from the layout's units to the rules' units.
        offset: [K], the summand from the layout's units to the rules' units.
        logit: bool [K], the outputs that are logits.
        chance: bool [K], the outputs that are probabilities or logits.
        logits: whether any output is a logit.
        bounded: int64 [S], the positions among the K outputs with separate bounds.
        rows: [L + S, K] or, if they depend on the sample, [B, L + S, K]: the coefficients.
        shift: [L] or [B, L], the contribution of the offsets to each sum.
        unit: the rows scaled to length 1 if all samples share them; otherwise None.
        directions: the matrix of `unit` as an array, which a traced function can read.
    """

    read: Tensor
    columns: Tensor
    alone: bool
    gain: Tensor
    offset: Tensor
    logit: Tensor
    chance: Tensor
    logits: bool
    bounded: Tensor
    rows: Tensor
    shift: Tensor
    unit: UnitRows | None
    directions: NDArray[np.float64] | None


def system(plan: Plan, single: frozenset[int], matrix: Tensor) -> System | None:
    """The rows of sums with coefficients [L, N] or [B, L, N] in the rules' units.

    None where all of them are 0.
    """
    read = _read(plan, matrix)
    if not len(read):
        return None
    entries = [plan.output_reads[i].entry for i in read.tolist()]
    layouts = [plan.y.entries[entry] for entry in entries]
    gain = matrix.new_tensor(
        [layout.std * percent(plan, entry) for layout, entry in zip(layouts, entries, strict=True)]
    )
    offset = matrix.new_tensor([layout.mean for layout in layouts])
    kinds = [layout.kind for layout in layouts]
    chance = [kind in ("logit", "probability") for kind in kinds]
    bounded = [i for i, at in enumerate(read.tolist()) if chance[i] or at in single]
    scaled = matrix.index_select(-1, read)
    alone = torch.eye(len(entries), dtype=scaled.dtype, device=scaled.device)[bounded]
    rows = torch.cat([scaled * gain, alone.expand(*scaled.shape[:-2], -1, -1)], -2)
    unit = unit_rows(rows) if rows.ndim == 2 else None
    return System(
        read=read,
        columns=torch.tensor(entries, device=matrix.device),
        alone=entries == list(range(len(plan.y.entries))),
        gain=gain,
        offset=offset,
        logit=torch.tensor(
            [kind == "logit" for kind in kinds], dtype=torch.bool, device=matrix.device
        ),
        chance=torch.tensor(chance, dtype=torch.bool, device=matrix.device),
        logits="logit" in kinds,
        bounded=torch.tensor(bounded, dtype=torch.int64, device=matrix.device),
        rows=rows,
        shift=scaled @ offset,
        unit=unit,
        directions=None if unit is None or are_transforms_active() else unit.matrix.cpu().numpy(),
    )


def _read(plan: Plan, matrix: Tensor) -> Tensor:
    """The outputs read with a coefficient that is not 0, int64 [K].

    Inside of transforms all of the batch itself.
    """
    try:
        return (matrix != 0).flatten(0, -2).any(0).nonzero().squeeze(1)
    except RuntimeError:  # what vmap gives has no shape that depends on numbers
        own = [i for i, read in enumerate(plan.output_reads) if read.run == 0]
        return torch.tensor(own, dtype=torch.int64, device=matrix.device)


def coefficients(
    plan: Plan, sums: Sums, banks: Sequence[BankTensors], inputs: InputNumbers
) -> tuple[Tensor, Tensor, Tensor]:
    """The sums' coefficients [L, N], or [B, L, N] where they depend on the sample, and their ends
    in the rules' units, [L, B] or [L, 1].
    """
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
            least, most = (
                end[hard]
                for end in ends(part, reading, bank.applies(slice(0, bank.rows), inputs.met))
            )
            terms = [
                (bank.output_index[bank.outputs.index(slot)], factor)
                for slot, factor in factors(part.atom, reading)
            ]
            width = max(factor.shape[1] for _, factor in terms)
            block = torch.zeros(bank.rows, width, reads, dtype=numbers.dtype, device=numbers.device)
            for index, factor in terms:
                spread = factor.to(block.dtype).expand(bank.rows, width)
                block = block.scatter_add(
                    2, index[:, None, None].expand(-1, width, 1), spread.unsqueeze(2)
                )
            block = block[hard]
            known = torch.isfinite(block).all(2) & (block != 0).any(2)
            blocks.append(torch.where(known.unsqueeze(2), block, 0))
            low.append(torch.where(known, least, -math.inf))
            high.append(torch.where(known, most, math.inf))
    width = 1 if sums.same_ends else max(end.shape[1] for end in low)
    if all(block.shape[1] == 1 for block in blocks):
        matrix = torch.cat([block[:, 0] for block in blocks])
    else:
        matrix = torch.cat([block.expand(-1, batch, -1) for block in blocks]).transpose(0, 1)
    lower, upper = (
        torch.cat([end[:, :width].expand(-1, width) for end in side]) for side in (low, high)
    )
    return matrix, lower, upper
