"""SCFA's constants as a run shows them: full gradients of all clients where a round began, and what
follows from them.

After J. Arafat, "Semantic-Constrained Federated Aggregation", section 4; how each constant is
estimated is our reading where the paper is
silent. Gradients are of the task's loss alone, in evaluation (no dropout), as the theorems have it.

Letters: K clients, P parameters, R probe models.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated.executors.protocol import Work
from fedkg.federated.problem import Problem
from fedkg.federated.randomness import ORDER, client_keys, permutations
from fedkg.federated.round_record import RoundRecord
from fedkg.federated.server.scoring import ScoreOptions, Scorer, within_tolerance
from fedkg.federated.theory.estimators import hypothesis_share
from fedkg.models.model_protocols import Params

ROWS = 8192
"""Number of samples per gradient evaluation."""

MINIBATCHES = 4
"""Minibatches of each client from which the variance of gradients is estimated: the first ones of
the round.
"""

CLIP = 1.0
"""Norm to which gradients are clipped before their mean counts as a signal, as in the paper."""

STACK = 64
"""Probe models that are judged at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """The constants that one round shows, at the model w with which it began.

    Attributes:
        round: the number of the round that began with w.
        objective: F(w), the clients' mean losses, weighted by samples.
        gradient2: ``|grad F(w)|^2``, with the same weights.
        heterogeneity: D^2, ``mean_k |grad F_k - grad F|^2``.
        constrained: D_c^2, ``sum_k alpha_k |grad F_k - sum_i alpha_i grad F_i|^2`` with the round's
            weights; NaN if no update had any weight.
        gamma: ``1 - D_c^2 / D^2``.
        gamma_samples: the control for gamma: the same with FedAvg's weights (shares of the samples)
            of the same clients. What remains of gamma beyond it is the work of the rules.
        divergence: ``mean_k |update_k - mean|^2 / |mean|^2`` of the round's updates; NaN if no
            update was usable.
        clipped: ``|mean_k clip(grad F_k)|`` with gradients clipped to `CLIP` and clients weighted
            by samples: the signal of a noisy mean.
        variance: sigma^2 of minibatch gradients, the mean over clients.
        smoothness: ``|grad F(w') - grad F(w)| / |w' - w|`` with the model w' after the round, which
            is at most L; NaN if w' equals w.
        steepest: ``max_k |grad F_k(w)|``.
        valid: whether w satisfies all rules that can be evaluated on the probe; None if none can.
    """

    round: int
    objective: float
    gradient2: float
    heterogeneity: float
    constrained: float
    gamma: float
    gamma_samples: float
    divergence: float
    clipped: float
    variance: float
    smoothness: float
    steepest: float
    valid: bool | None


def sight(
    work: Work, options: ScoreOptions, before: Params, after: Params, record: RoundRecord
) -> Sight:
    """Compute the constants that a round shows.

    Args:
        work: the training.
        options: when a rule counts as satisfied.
        before: the server's only model at the start of the round, without a client dimension.
        after: the server's only model at the end of the round.
        record: the record of the round.
    """
    problem = work.problem
    here = _moments(problem, before, _alpha(problem, record), _sample_shares(problem, record))
    there = _moments(problem, after, None, None).mean_by_samples
    step = float(_flat(after).sub(_flat(before)).norm())
    turned = float((there - here.mean_by_samples).norm())
    whole = here.spread
    return Sight(
        round=record.round,
        objective=here.objective,
        gradient2=float(here.mean_by_samples.square().sum()),
        heterogeneity=whole,
        constrained=here.weighted_spread,
        gamma=1.0 - here.weighted_spread / whole if whole > 0 else 0.0,
        gamma_samples=1.0 - here.sample_spread / whole if whole > 0 else 0.0,
        divergence=math.nan if record.divergence is None else record.divergence,
        clipped=here.clipped,
        variance=_variance(work, before, record.round),
        smoothness=turned / step if step > 0 else math.nan,
        steepest=here.steepest,
        valid=None if problem.scorer is None else _is_valid(problem.scorer, options, before),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Theta:
    """theta: the share of models near the last one that satisfy all rules.

    Attributes:
        share: the share of the judged models that satisfy all rules.
        interval: the Wilson 95 % interval of the share.
        draws: the number of drawn models that at least one rule judges.
        radius: the size of the Gaussian from which they are drawn: the root of the expected squared
            distance from the last model.
    """

    share: float
    interval: tuple[float, float]
    draws: int
    radius: float


def theta(
    scorer: Scorer,
    options: ScoreOptions,
    last: Params,
    first: Params,
    *,
    draws: int,
    radius: float | None,
    seed: int,
) -> Theta:
    """Return the share of parameter vectors around the last model that satisfy all rules.

    The reference distribution is a Gaussian around the last model; without a radius it reaches as
    far as the model has gone, ``|w_T -
    w_0|``. The share says nothing without the distribution: a smaller radius has more models like
    the last one in it.

    Raises:
        JobError: the model has not moved and no radius is given, or the probe evaluates no rule.
    """
    far = float(_flat(last).sub(_flat(first)).norm()) if radius is None else radius
    if not far > 0:
        raise JobError(
            "the share theta is not known: the training has not changed the model, and the job "
            "sets no radius",
            help="set `theory: {radius: 0.1}`, or train for more rounds",
        )
    generator = torch.Generator().manual_seed(seed)
    count = sum(value.numel() for value in last.values())
    found = []
    for start in range(0, draws, STACK):
        size = min(STACK, draws - start)
        drawn = {
            name: (
                value
                + far
                / math.sqrt(count)
                * torch.randn(size, *value.shape, generator=generator, dtype=value.dtype)
            )
            for name, value in sorted(
                last.items()
            )  # a state that was loaded has its parameters in another order
        }
        found.append(_verdicts(scorer, options, drawn))
    verdicts = torch.cat(found)
    known = verdicts[~verdicts.isnan()]
    if not len(known):
        raise JobError(
            "theta is unknown, because no rule is evaluated on the rows of the probe",
            help="use a probe whose rows meet the conditions of the rules",
        )
    share, interval = hypothesis_share(known > 0)
    return Theta(share=share, interval=interval, draws=len(known), radius=far)


def client_gradients(problem: Problem, params: Params) -> Iterator[tuple[float, Tensor]]:
    """Per client its mean loss and the gradient of it, float64 [P], at one model (no client
    dimension), over all its samples.

    Parameters are concatenated in the order of their names.
    """
    for x, y in zip(problem.clients.x, problem.clients.y, strict=True):
        loss, total = (
            0.0,
            torch.zeros(sum(value.numel() for value in params.values()), dtype=torch.float64),
        )
        for start in range(0, len(x), ROWS):
            rows = slice(start, start + ROWS)
            part, slope = _gradient(problem, params, x[rows], y[rows])
            share = len(x[rows]) / len(x)
            loss, total = loss + share * part, total + share * slope
        yield loss, total


def _gradient(problem: Problem, params: Params, x: Tensor, y: Tensor) -> tuple[float, Tensor]:
    """Mean loss on samples, and its gradient, float64 [P]."""
    with torch.enable_grad():
        leaves = {
            name: value.detach().unsqueeze(0).requires_grad_() for name, value in params.items()
        }
        value = problem.loss.value(
            problem.model.apply(leaves, x.unsqueeze(0)), y.unsqueeze(0)
        ).mean()
        slopes = torch.autograd.grad(
            value, list(leaves.values()), allow_unused=True, materialize_grads=True
        )
    return (
        float(value.detach()),
        torch.cat(
            [
                slope.flatten()
                for _, slope in sorted(zip(leaves, slopes, strict=True), key=itemgetter(0))
            ]
        )
        .to(torch.float64)
        .cpu(),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Moments:
    """Sums over the clients' gradients, from which all spreads follow; no more than a few gradients
    are held at once.
    """

    objective: float
    mean_by_samples: Tensor
    spread: float
    weighted_spread: float
    sample_spread: float
    clipped: float
    steepest: float


def _moments(
    problem: Problem, params: Params, alpha: Tensor | None, shares: Tensor | None
) -> _Moments:
    """The moments at a model.

    Args:
        alpha: the weights of `weighted_spread`, float64 [K]; None for none.
        shares: the weights of `sample_spread`, likewise.

    Spreads are ``E |g|^2 - |E g|^2``, of gradients less that of the first client, so that nearly
    equal ones lose no digits; that of D^2 is
    around the gradient of F with clients weighted by samples; the squared difference of the two
    means is included.
    """
    samples = torch.tensor(problem.clients.samples, dtype=torch.float64)
    share = samples / samples.sum()
    count, objective, steepest = len(share), 0.0, 0.0
    first: Tensor | None = None
    sums = [torch.zeros((), dtype=torch.float64)] * 4
    squares = [0.0] * 4
    clipped = torch.zeros((), dtype=torch.float64)
    for k, (loss, gradient) in enumerate(client_gradients(problem, params)):
        first = gradient if first is None else first
        apart = gradient - first
        others = (0.0 if one is None else float(one[k]) for one in (alpha, shares))
        weights = (float(share[k]), 1 / count, *others)
        sums = [total + weight * apart for total, weight in zip(sums, weights, strict=True)]
        length = float(apart.square().sum())
        squares = [total + weight * length for total, weight in zip(squares, weights, strict=True)]
        clipped = clipped + weights[0] * gradient * min(
            1.0, CLIP / max(float(gradient.norm()), CLIP)
        )
        objective, steepest = objective + weights[0] * loss, max(steepest, float(gradient.norm()))
    assert first is not None
    spreads = [
        max(0.0, square - float(total.square().sum()))
        for square, total in zip(squares, sums, strict=True)
    ]
    return _Moments(
        objective=objective,
        mean_by_samples=first + sums[0],
        spread=spreads[1] + float((sums[1] - sums[0]).square().sum()),
        weighted_spread=math.nan if alpha is None else spreads[2],
        sample_spread=math.nan if shares is None else spreads[3],
        clipped=float(clipped.norm()),
        steepest=steepest,
    )


def _alpha(problem: Problem, record: RoundRecord) -> Tensor | None:
    """The round's weights over all clients, 0 for those that were not sampled; None where no update
    had any.
    """
    if not sum(record.alpha) > 0:
        return None
    place = {name: k for k, name in enumerate(problem.clients.names)}
    weights = torch.zeros(len(place), dtype=torch.float64)
    for name, weight in zip(record.clients, record.alpha, strict=True):
        weights[place[name]] = weight
    return weights / weights.sum()


def _sample_shares(problem: Problem, record: RoundRecord) -> Tensor | None:
    """The shares of the samples over all clients, 0 for those without weight in the round; None
    where no update had any weight.
    """
    alpha = _alpha(problem, record)
    if alpha is None:
        return None
    shares = torch.tensor(problem.clients.samples, dtype=torch.float64) * (alpha > 0)
    return shares / shares.sum()


def _variance(work: Work, params: Params, number: int) -> float:
    """sigma^2: ``mean_k mean_b |g_kb - mean_b g_kb|^2 B / (B - 1)`` over the first minibatches B of
    the round; 0 where a client has one.
    """
    clients, settings = work.problem.clients, work.settings
    keys = client_keys(settings.seed, number, ORDER, torch.arange(len(clients.names)))
    found = []
    for k, (x, y) in enumerate(zip(clients.x, clients.y, strict=True)):
        order = permutations(keys[k : k + 1], torch.tensor([len(x)]), 1)[0, 0]
        parts = [
            part
            for part in torch.split(order, settings.batch)[:MINIBATCHES]
            if len(part) == min(settings.batch, len(x))
        ]
        gradients = torch.stack(
            [_gradient(work.problem, params, x[part], y[part])[1] for part in parts]
        )
        count = len(parts)
        apart = float((gradients - gradients.mean(0)).square().sum(1).mean())
        found.append(apart * count / (count - 1) if count > 1 else 0.0)
    return sum(found) / len(found)


def _is_valid(scorer: Scorer, options: ScoreOptions, params: Params) -> bool | None:
    """Return whether a model satisfies all rules that the probe evaluates; None if it evaluates
    none.
    """
    verdict = float(_verdicts(scorer, options, _stacked(params))[0])
    return None if math.isnan(verdict) else verdict > 0


def _verdicts(scorer: Scorer, options: ScoreOptions, models: Params) -> Tensor:
    """Float64 [R]: 1 where a model of [R, ...] satisfies every rule that is evaluated on the probe,
    0 where it does not, NaN where no rule is evaluated.
    """
    exact = ScoreOptions(
        hard_tolerance=options.hard_tolerance, soft_tolerance=options.soft_tolerance
    )
    found = within_tolerance(scorer.score(models).violation, scorer.rows.hard, exact)
    satisfied = (found != 0).all(1).to(torch.float64)
    return torch.where(found.isnan().all(1), math.nan, satisfied)


def _stacked(params: Params) -> Params:
    return {name: value.unsqueeze(0) for name, value in params.items()}


def _flat(params: Params) -> Tensor:
    return torch.cat([value.flatten() for _, value in sorted(params.items())]).to(torch.float64)
