"""Validity of updates under the rules, as pure functions: from violation shares to scores, weights.

After J. Arafat, "Semantic-Constrained Federated Aggregation" (SCFA), algorithm 1. A parameter
vector alone violates no rule, so each update
is judged by the predictions of the model it leads to, on probe rows that the server holds.

Letters: C clients, M constraints (bound rows of rules that touch an output), R rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from fedkg.models.model_protocols import Params

ScoreMode = Literal["mean", "product", "min"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoredRows:
    """What is known of the M constraints.

    Attributes:
        names: what to call each, [M].
        families: the SCFA family of each, [M]: temporal, causal, capacity, physical, other.
        weight: float64 [M]; a rule's weight, shared by its rows. The paper has 1 everywhere.
        hard: bool [M]; hard rules have another tolerance than soft ones.
        reasons: why no probe row can decide each, [M]; empty where some may. May be left out.
    """

    names: tuple[str, ...]
    families: tuple[str, ...]
    weight: Tensor
    hard: Tensor
    reasons: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """M."""
        return len(self.names)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProbeScores:
    """How the stacked models fare on the probe rows.

    Attributes:
        violation: [C, M], violated probe rows as a share of those to which the constraint applies;
            NaN where it applies to none: the
            constraint is then not evaluated, neither satisfied nor violated.
        current: the same [C, M] of the current model to which each update is added; None unless
            `ScoreOptions.relative` asks for it.
    """

    violation: Tensor
    current: Tensor | None = None


class Weighed(NamedTuple):
    """The weights of updates, and how far their models satisfy the rules.

    Attributes:
        weights: raw weights, float64 [C], at least 0; they are divided by their sum over the round
            afterwards.
        validity: s, float64 [C] in 0 .. 1, the weighted share of the evaluated constraints that
            each client's model satisfies; NaN where
            none was evaluated for a client; None where nothing was scored.
    """

    weights: Tensor
    validity: Tensor | None


class Scorer(Protocol):
    """Judges stacked models by rules on rows that the server holds; never sees a client's data."""

    @property
    def rows(self) -> ScoredRows:
        """The constraints, in the order of the scores."""
        ...

    def score(self, params: Params) -> ProbeScores:
        """Scores of the models with parameters [C, ...]."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """How violation shares become a score.

    Attributes:
        combine: ``mean`` over all constraints (the paper's), or per family first and then
            ``product`` or ``min`` over the families: a client that violates one rule of thousands
            retains nearly all its weight under the mean.
        beta: the score is raised to this power, at least 1; 1 is the paper's.
        graded: the weight of an update counts each constraint by its satisfied share, instead of
            only as satisfied or violated; off in the paper. The reported validity, violation rates
            and zone do not depend on it.
        relative: whether the factor of an update is its score divided by that of the current
            model, at most 1, instead of the score; off in the paper.
        hard_tolerance: the violation rate up to which a hard rule counts as satisfied.
        soft_tolerance: the violation rate up to which a soft rule counts as satisfied.
    """

    combine: ScoreMode = "mean"
    beta: float = 1.0
    graded: bool = False
    relative: bool = False
    hard_tolerance: float = 0.0
    soft_tolerance: float = 0.05


def tolerances(hard: Tensor, options: ScoreOptions) -> Tensor:
    """The tolerance of each constraint, float64 [M], for `hard` [M]."""
    hardest, softest = (
        torch.tensor(value, dtype=torch.float64, device=hard.device)
        for value in (options.hard_tolerance, options.soft_tolerance)
    )
    return torch.where(hard, hardest, softest)


def within_tolerance(violation: Tensor, hard: Tensor, options: ScoreOptions) -> Tensor:
    """v [C, M], float64: 1 where the violation share is within the rule's tolerance, else 0; NaN as
    given.
    """
    violation = violation.to(torch.float64)
    tolerance = tolerances(hard, options)
    return torch.where(violation.isnan(), violation, (violation <= tolerance).to(torch.float64))


def satisfied(violation: Tensor, hard: Tensor, options: ScoreOptions) -> Tensor:
    """Return the basis of weights [C, M], float64: `within_tolerance`, or 1 minus the violation
    rate if graded.
    """
    return (
        1.0 - violation.double() if options.graded else within_tolerance(violation, hard, options)
    )


def validity(v: Tensor, weight: Tensor) -> Tensor:
    """s [C] = sum_j w_j v_j / sum_j w_j in 0 .. 1, over the constraints j that are evaluated (v_j
    is not NaN).

    It is exactly 1 where all v are 1, exactly 0 where all are 0, 1 where M or all w are 0, and NaN
    where no constraint is evaluated.
    """
    if v.shape[1] == 0:
        return torch.ones(v.shape[0], dtype=torch.float64, device=v.device)
    evaluated = ~v.isnan()
    # Both sums run over the same shape, so that equal summands give equal sums to the last bit.
    total = (evaluated * weight).sum(1)
    share = torch.where(total > 0, (v.nan_to_num(0.0) * weight).sum(1) / total, 1.0)
    return torch.where(evaluated.any(1), share, torch.nan)


def kept_share(violation: Tensor, rows: ScoredRows, options: ScoreOptions) -> Tensor:
    """s [C], the `validity` of what is `within_tolerance` by violation shares [C, M]."""
    return validity(within_tolerance(violation, rows.hard, options), rows.weight)


def by_family(v: Tensor, rows: ScoredRows) -> dict[str, Tensor]:
    """Validity [C] over the constraints of each family alone, families in order of first
    appearance.
    """
    scores: dict[str, Tensor] = {}
    for family in dict.fromkeys(rows.families):
        members = torch.tensor(
            [i for i, name in enumerate(rows.families) if name == family], device=v.device
        )
        scores[family] = validity(v[:, members], rows.weight[members])
    return scores


def score(violation: Tensor, rows: ScoredRows, options: ScoreOptions, plain: Tensor) -> Tensor:
    """The number [C] in 0 .. 1 by which SCFA scales a client's weight; the `plain` validity s [C]
    under the paper's options.

    A family without an evaluated constraint does not count. NaN where `plain` is NaN: a client
    without any evaluated constraint.
    """
    if rows.count == 0 or (options.combine == "mean" and not options.graded):
        result = plain
    else:
        v = satisfied(violation, rows.hard, options)
        if options.combine == "mean":
            result = validity(v, rows.weight)
        else:
            families = torch.stack(list(by_family(v, rows).values())).nan_to_num(1.0)
            result = families.prod(0) if options.combine == "product" else families.amin(0)
            result = torch.where(plain.isnan(), plain, result)
    return result if options.beta == 1.0 else result.pow(options.beta)


def factor(scores: ProbeScores, rows: ScoredRows, options: ScoreOptions, plain: Tensor) -> Tensor:
    """The factor [C] in 0 .. 1 of each client's weight: its score, 1 for a client without one.

    If `options.relative`, ``min(1, score / score of the current model)``: an update whose model
    satisfies the rules as well as the current model loses nothing, because weight that it lost
    would stay with the current model. A current model with the score 0 takes no weight away.
    """
    own = score(scores.violation, rows, options, plain).nan_to_num(1.0)
    if scores.current is None:
        return own
    current = kept_share(scores.current, rows, options)
    current = score(scores.current, rows, options, current).nan_to_num(1.0)
    return torch.where(current > 0, own / current, 1.0).clamp(max=1.0)


def alpha(weights: Tensor) -> Tensor:
    """Aggregation weights [K] that sum to 1, from raw ones such as n_k s_k; all 0 when the raw ones
    are.
    """
    weights = weights.to(torch.float64)
    total = weights.sum()
    return weights / total if total > 0 else torch.zeros_like(weights)
