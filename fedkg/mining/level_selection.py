"""Choice of a client's level from the levels of its traces: the least, a quantile, or a private
quantile.

Letters: C clients, S traces of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.errors import KnowledgeError
from fedkg.privacy.system_noise import uniform


@dataclass(frozen=True, slots=True)
class Pick:
    """A choice of one level for each client.

    Attributes:
        choose: from levels [C, S] and a mask of valid ones, bool [C, S], to [C]; NaN for a client
            without traces, unless it is noisy.
        noisy: each choice spends privacy budget: mining chooses once for each parameter and
            releases nothing else about the data.
        epsilon: budget that each noisy choice spends.
        within: for a choice without a span, returns the choice between two levels; mining passes
            the declared span of each parameter.
    """

    choose: Callable[[Tensor, Tensor], Tensor]
    noisy: bool = False
    epsilon: float = 0.0
    within: Callable[[tuple[float, float]], Pick] | None = None


def _least(levels: Tensor, usable: Tensor) -> Tensor:
    found = torch.where(usable, levels, math.inf).amin(-1)
    return torch.where(usable.any(-1), found, math.nan)


least = Pick(_least)
"""The level that all traces satisfy."""


def quantile(share: float) -> Pick:
    """The largest level that at least this share of the traces satisfies.

    Raises:
        KnowledgeError: a share outside 0 .. 1, 0 excluded.
    """
    if not 0 < share <= 1:
        raise KnowledgeError(
            "the share of traces must be a number above 0 and at most 1", received=str(share)
        )

    def pick(levels: Tensor, usable: Tensor) -> Tensor:
        count = usable.sum(-1)
        ordered = torch.sort(torch.where(usable, levels, math.inf), dim=-1, descending=False).values
        given_up = count - torch.ceil(share * count - 1e-9).to(torch.int64)
        found = ordered.gather(-1, given_up.clamp(0, levels.shape[-1] - 1).unsqueeze(-1)).squeeze(
            -1
        )
        return torch.where(count > 0, found, math.nan)

    return Pick(pick)


def _without_span(levels: Tensor, usable: Tensor) -> Tensor:
    raise KnowledgeError(
        "a private quantile needs a span",
        help="declare the span in the rules: `signal ... span LOW .. HIGH`; or pass "
        "`span` to private(...)",
    )


def private(
    share: float,
    epsilon: float,
    span: tuple[float, float] | None,
    generator: torch.Generator | None,
) -> Pick:
    """A quantile under differential privacy: the exponential mechanism over the gaps between levels
    (Smith 2011, algorithm 2).

    Adding or removing one trace changes the probability of any published value by a factor of at
    most ``exp(epsilon)`` for each parameter. The result lies in `span`, which must not depend on
    the data: with few traces it is mostly noise, without traces only noise, and near the end of the
    span if the traces do not bind the parameter. Parameters are mined in order. fedkg rejects
    triggers that would be read from the data, bounds of windows and parameters that need bisection,
    and `MiningResult` contains no verdicts of the traces. It does contain their number.

    Args:
        share: of the traces that should satisfy the parameter.
        epsilon: above 0, spent for each published number, not for the call: `mine` with P
            parameters spends P times as much of each client's traces, which belong to that client
            only; a second call spends it again.
        span: range of levels to search, in the parameter's unit; for a parameter that is loosest
            upwards, its negative. None: the declared span of each parameter, which the rules must
            then give.
        generator: of the noise; seed it for reproducible runs, which are simulations: PyTorch's
            generators protect nothing. None: the operating system's generator. The value is then
            rounded to 2^-20 of the span, so that its last bits do not tell of the levels.

    Raises:
        KnowledgeError: an epsilon that is not above 0, an empty span, a share outside 0 .. 1.
    """
    if not 0 <= share <= 1:
        raise KnowledgeError(
            "the share of traces must be a number from 0 to 1", received=str(share)
        )
    low, high = (0.0, 1.0) if span is None else span
    if not epsilon > 0 or not low < high:
        raise KnowledgeError(
            "a private quantile needs an epsilon above 0, and a span with the lower end first",
            received=f"epsilon {epsilon}, span {low} .. {high}",
        )
    if span is None:
        return Pick(
            _without_span,
            noisy=True,
            epsilon=epsilon,
            within=lambda own: private(share, epsilon, own, generator),
        )

    def pick(levels: Tensor, usable: Tensor) -> Tensor:
        count = usable.sum(-1, keepdim=True)
        held = torch.sort(torch.where(usable, levels.clamp(low, high), high), dim=-1).values
        ends = torch.cat(
            [torch.full_like(held[:, :1], low), held, torch.full_like(held[:, :1], high)], -1
        )
        gaps = (ends[:, 1:] - ends[:, :-1]).clamp(min=0)
        below = torch.arange(gaps.shape[-1], device=levels.device).expand(
            gaps.shape
        )  # number of traces with a level below the gap
        utility = -((1 - share) * count - below).abs()
        there = (below <= count) & (gaps > 0)
        score = torch.where(
            there, torch.log(torch.where(there, gaps, 1)) + epsilon / 2 * utility, -math.inf
        )
        draws = _uniform(score, generator)
        gumbel = -torch.log(-torch.log(draws.clamp(1e-300, 1 - 1e-16)))
        gap = (score + gumbel.to(score.device)).argmax(-1, keepdim=True)
        inside = _uniform(gap.to(score.dtype), generator).to(score.device)
        found = ends.gather(-1, gap) + inside * gaps.gather(-1, gap)
        if generator is None:
            grid = (high - low) * 2.0**-20
            found = (low + ((found - low) / grid).round() * grid).clamp(low, high)
        return found.squeeze(
            -1
        )  # also without traces: NaN would reveal whether the client has a trace

    return Pick(pick, noisy=True, epsilon=epsilon)


def _uniform(like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Uniform numbers in 0 .. 1 of this shape and type, on the CPU."""
    if generator is not None:
        return torch.rand(like.shape, generator=generator, dtype=like.dtype)
    return torch.from_numpy(uniform(like.numel())).to(like.dtype).view(like.shape)
