"""Robustness with minima and maxima made smooth, in source units.

It is minus what is missing, as penalties are made of it, with two differences: inputs count by
their margins as outputs do, and all margins of a row are divided by one *unit*, the least scale of
its comparisons, and multiplied by it in the end. So numbers meet as they do in exact robustness,
and the temperature of log-sum-exp, which is in units of scales, is the finest that any of the
comparisons asks for. Margins are clipped at `FARTHEST` units, so that sums of exponentials and
squares stay finite; what is near the exact robustness is so of that clipped there, which is the
exact robustness of the clipped margins: minima and maxima keep their order.

Letters: R rows, B batch; n windows of T steps.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from fedkg.constraints.engine.evaluation import evaluate
from fedkg.constraints.engine.evaluation_inputs import Reading
from fedkg.constraints.engine.generalised_mean_extrema import norm_from_sums, weighed
from fedkg.constraints.engine.penalty import UNREACHABLE, missing_of
from fedkg.constraints.engine.unknown_value_encoding import between
from fedkg.constraints.engine.window_operators import Truth
from fedkg.pack.formulas import Formula


def soft_robustness(formula: Formula, reading: Reading, unit: Tensor, truth: Truth) -> Tensor:
    """Smooth robustness of a formula, [R, B] or broadcast to it: NaN where unknown, infinite where
    no number decides.

    By norms it is ``>= 0`` exactly where the formula is satisfied, ``< 0`` where violated and NaN
    where unknown. By log-sum-exp it is NaN also where its own sign is open, which may be so where
    the verdict is known.

    Args:
        formula: the formula to evaluate.
        reading: the numbers that the formula reads, with `offset` set.
        unit: [R, 1], the unit of each row: the least scale of its comparisons.
        truth: a smooth encoding of verdicts, for violations instead of robustness.
    """
    unit = unit.to(reading.params[0].dtype)
    missing = missing_of(formula, True, _measured(reading, unit), truth)
    open_ended = reading.careful or (reading.steps is not None and not reading.steps.clip)
    if truth.sound:
        unknown = missing == between(missing.dtype)
    elif open_ended:
        with torch.no_grad():
            unknown = torch.isnan(evaluate(formula, replace(reading, offset=False))) | torch.isnan(
                missing
            )
    else:
        unknown = torch.isnan(missing)
    decided = missing.detach().abs() >= UNREACHABLE / 2
    far = -torch.sign(missing.detach()) * math.inf
    plain = ~(unknown | decided)
    return torch.where(
        plain, -torch.where(plain, missing, 0.0) * unit, torch.where(unknown, math.nan, far)
    )


def soft_least(robustness: Tensor, unit: Tensor, truth: Truth) -> Tensor:
    """The smooth least of what is known in each window, [R, n] of [R, n, T].

    NaN where nothing is known. `unit` [R, 1].
    """
    unit = unit.to(robustness.dtype)[:, :, None]
    known = ~torch.isnan(robustness)
    number = known & torch.isfinite(robustness)
    missing = torch.where(
        number,
        -torch.where(number, robustness, 0.0) / unit,
        -torch.sign(robustness.detach()) * UNREACHABLE,
    )
    missing = torch.where(known, missing, -UNREACHABLE)
    if truth.sound:
        least = norm_from_sums(
            weighed(missing, truth.edge, lowest=False).sum(dim=-1), truth.edge, lowest=False
        )
    else:
        assert truth.temperature is not None, "smooth"
        least = truth.temperature * torch.logsumexp(missing / truth.temperature, dim=-1)
    far = -torch.sign(least.detach()) * math.inf
    plain = least.detach().abs() < UNREACHABLE / 2
    least = torch.where(plain, -torch.where(plain, least, 0.0) * unit[:, :, 0], far)
    return torch.where(known.any(dim=-1), least, math.nan)


def _measured(reading: Reading, unit: Tensor) -> Reading:
    """The reading, and that of its members, with margins in the unit of each row."""
    members = {
        at: replace(table, reading=_measured(table.reading, unit.index_select(0, table.owner)))
        for at, table in reading.members.items()
    }
    return replace(reading, unit=unit, members=members)
