"""How much each client's update counts.

Letters: C clients of a stack, M constraints.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from typing_extensions import override

from fedkg.errors import JobError
from fedkg.federated.round_steps import OnAllInvalid
from fedkg.federated.server import scoring
from fedkg.federated.server.scoring import ProbeScores, ScoredRows, ScoreOptions, Weighed


@dataclass(frozen=True, slots=True, kw_only=True)
class BySamples:
    """n_k, as in FedAvg; the rules are measured and not obeyed."""

    on_all_invalid: OnAllInvalid = "skip"
    options: ScoreOptions = field(default_factory=ScoreOptions)

    @property
    def needs_scores(self) -> bool:
        """See `WeightingRule.needs_scores`."""
        return False

    def weigh(
        self, samples: Tensor, scores: ProbeScores | None, rows: ScoredRows | None
    ) -> Weighed:
        """See `WeightingRule.weigh`."""
        return Weighed(
            samples,
            None
            if scores is None or rows is None
            else scoring.kept_share(scores.violation, rows, self.options),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ByValidity:
    """Weights n_k s_k of SCFA: the number of samples times the share of satisfied constraints.

    A client for which no constraint was evaluated has no score; its weight is n_k. Weights are
    relative: a client can gain weight if the others violate more rules. If all clients have the
    same score, this is FedAvg.

    Raises:
        JobError: an option is out of its range.
    """

    on_all_invalid: OnAllInvalid = "skip"
    options: ScoreOptions = field(default_factory=ScoreOptions)

    def __post_init__(self) -> None:
        if self.on_all_invalid not in ("skip", "fedavg", "error"):
            raise JobError(
                "`on_all_invalid` has an unknown value",
                expected="skip, fedavg or error",
                received=repr(self.on_all_invalid),
            )
        if self.options.combine not in ("mean", "product", "min"):
            raise JobError(
                "`combine` has an unknown value",
                expected="mean, product or min",
                received=repr(self.options.combine),
            )
        if not self.options.beta >= 1:
            raise JobError("`beta` must be at least 1", received=str(self.options.beta))
        for name in ("hard_tolerance", "soft_tolerance"):
            if not 0 <= getattr(self.options, name) <= 1:
                raise JobError(
                    f"`{name}`, the share of violations that is accepted, is out of range",
                    expected="0 .. 1",
                    received=str(getattr(self.options, name)),
                )

    @property
    def needs_scores(self) -> bool:
        """See `WeightingRule.needs_scores`."""
        return True

    def weigh(
        self, samples: Tensor, scores: ProbeScores | None, rows: ScoredRows | None
    ) -> Weighed:
        """See `WeightingRule.weigh`."""
        if scores is None or rows is None:
            return Weighed(samples, None)
        plain = scoring.kept_share(scores.violation, rows, self.options)
        factor = scoring.factor(scores, rows, self.options, plain)
        return Weighed(samples * factor.to(samples.device), plain)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByScore(ByValidity):
    """The scores s_k of SCFA alone, in 0 .. 1: factors of the shares that a robust rule with
    `scored` gives.

    Under plain SCFA weights are relative, so that a client gains weight if others violate more
    rules. These factors only remove weight; what they remove stays with the current model. A client
    without a score has the factor 1.
    """

    @override
    def weigh(
        self, samples: Tensor, scores: ProbeScores | None, rows: ScoredRows | None
    ) -> Weighed:
        return ByValidity.weigh(self, torch.ones_like(samples), scores, rows)
