"""Sums of several outputs that hard rules bound: for each sample a polytope, and the answers
nearest to the model's in it.

Letters: R rows of a bank, B batch, N numbers read per sample, H outputs; K outputs in sums, L sums.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedkg._internal.torch_compat import being_traced
from fedkg.constraints.binding.plan import Plan
from fedkg.constraints.binding.rule_input_values import InputNumbers
from fedkg.constraints.engine.bank_tensors import BankTensors
from fedkg.constraints.projecting.coefficients import Sums, System, coefficients, system
from fedkg.errors import LayoutError
from fedkg.projection.polytope_enumeration import nearest_by_enumeration
from fedkg.projection.polytope_gradient import nearest_points


def sums_projected(
    plan: Plan,
    sums: Sums,
    banks: Sequence[BankTensors],
    inputs: InputNumbers,
    bounds: tuple[Tensor, Tensor],
    answers: Tensor,
    moved: Tensor,
) -> Tensor:
    """`moved` [B, H] with the entries in sums replaced by the nearest to those of `answers` that
    satisfy all sums and bounds.

    Nearest is meant in the units of the layout, for logits in those of their probabilities. Where a
    sample's sums and bounds contradict each other, the answers by which the sum of the squares of
    what is missed is least. Where one of a sample's answers is not finite, sums are not kept: all
    of them stay as they are in `moved`.

    Args:
        bounds: least and most of each output read, in the rules' units, [N, B] each.
    """
    numbers = inputs.numbers
    if not answers.shape[0]:
        return moved
    if being_traced():
        _require_system(plan, sums, numbers)
    with torch.no_grad():
        matrix, low, high = sums.cached(
            "ends", sums.same_ends, numbers, lambda: coefficients(plan, sums, banks, inputs)
        )
        own = sums.cached(
            "system", sums.same_factors, numbers, lambda: system(plan, sums.single, matrix)
        )
    if own is None:
        return moved
    point = answers.to(numbers.dtype).index_select(1, own.columns)
    if own.logits:
        point = torch.where(own.logit, torch.sigmoid(point), point)
    with torch.no_grad():
        finite = point.abs().amax(1, keepdim=True) < torch.inf
        lower, upper = (end.T - own.shift for end in (low, high))
        if len(own.bounded):
            lower, upper = (
                torch.cat([part.expand(point.shape[0], -1), more], 1)
                for part, more in zip((lower, upper), _single(own, bounds), strict=True)
            )
    inward = max(4 * torch.finfo(point.dtype).eps, 64 * torch.finfo(torch.float64).eps)
    if being_traced():
        assert own.unit is not None, "`_require_system` checks it"
        assert own.directions is not None, "`_require_system` checks it"
        found = nearest_by_enumeration(own.unit, own.directions, lower, upper, point, inward)
        nearest = found.to(point.dtype)
    else:
        nearest, _, _ = nearest_points(
            point, own.rows, lower, upper, inward=inward, soft=True, unit=own.unit
        )
    if own.alone and not own.logits and nearest.dtype == moved.dtype:
        return torch.where(finite, nearest, moved)
    outside = finite & (nearest != point).any(1, keepdim=True)
    if own.logits:
        edge = torch.finfo(nearest.dtype).eps
        nearest = torch.where(
            own.logit,
            torch.logit(torch.where(own.logit, nearest, 0.5).clamp(edge, 1 - edge)),
            nearest,
        )
    return moved.index_copy(
        1,
        own.columns,
        torch.where(outside, nearest.to(moved.dtype), moved.index_select(1, own.columns)),
    )


def _require_system(plan: Plan, sums: Sums, numbers: Tensor) -> None:
    """Raise LayoutError if an exported graph cannot contain the sums of outputs."""
    records = plan.pack.manifest.rules
    names = ", ".join(
        dict.fromkeys(
            records[rule].name
            for bank, own in zip(plan.pack.banks, sums.of_bank, strict=True)
            if own
            for rule in bank.rule.tolist()
            if records[rule].hard
        )
    )
    if not sums.same_factors:
        raise LayoutError(
            f"a model with the hard rules {names} cannot be exported, because fedkg exports "
            "sums of outputs only if their factors are numbers, not inputs",
            help="in the rule that multiplies an output by an input, write a number in place of "
            "the input, or remove `hard`",
        )
    if ("system", numbers.dtype, numbers.device) not in sums.kept:
        raise LayoutError(
            f"the model has not computed the hard rules {names} yet, which read sums of outputs",
            help="call the model once with a batch before you export it",
        )


def _single(own: System, bounds: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The bounds on single outputs, in the units of the layout, [B, S] each; 0 and 1 are those of a
    probability without any.
    """
    at, chance = own.read[own.bounded], own.chance[own.bounded]
    least, most = (
        (bound[at].T - own.offset[own.bounded]) / own.gain[own.bounded] for bound in bounds
    )
    return torch.where(chance, least.clamp(0, 1), least), torch.where(
        chance, most.clamp(0, 1), most
    )
