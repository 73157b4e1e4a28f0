"""Semantic-constrained federated aggregation (J. Arafat, "SCFA", algorithm 1)."""

from __future__ import annotations

from dataclasses import replace

from fedkg.federated.algorithm import Algorithm
from fedkg.federated.round_steps import OnAllInvalid
from fedkg.federated.server.robust import Krum, TrustedMean
from fedkg.federated.server.scoring import ScoreMode, ScoreOptions
from fedkg.federated.server.weighting import ByScore, ByValidity


def scfa(
    *,
    on_all_invalid: OnAllInvalid = "skip",
    score: ScoreMode = "mean",
    beta: float = 1.0,
    graded: bool = False,
    relative: bool = False,
    hard_tolerance: float = 0.0,
    soft_tolerance: float = 0.05,
) -> Algorithm:
    """FedAvg with weights ``n_k s_k / sum_i n_i s_i``. s_k is the share of constraints that client
    k's model satisfies on the server's probe rows.

    The defaults are the paper's. If all s_k are 1, the trajectory is FedAvg's, bit for bit. You
    cannot combine this algorithm with secure aggregation, which hides single updates from the
    server.

    Args:
        on_all_invalid: what to do when no update has any weight: ``skip`` keeps the model,
            ``fedavg`` weights updates by samples, ``error`` stops the run.
        score: how constraints become one score, see `ScoreOptions.combine`.
        beta: the power to which the score is raised, see `ScoreOptions.beta`.
        graded: whether the weight counts each constraint by its satisfied share, see
            `ScoreOptions.graded`.
        relative: whether the factor is the score divided by that of the current model, at most 1,
            see `ScoreOptions.relative`.
        hard_tolerance: the violation rate up to which a hard rule counts as satisfied.
        soft_tolerance: the violation rate up to which a soft rule counts as satisfied.
    """
    options = ScoreOptions(
        combine=score,
        beta=beta,
        graded=graded,
        relative=relative,
        hard_tolerance=hard_tolerance,
        soft_tolerance=soft_tolerance,
    )
    return Algorithm(
        name="scfa", weighting=ByValidity(on_all_invalid=on_all_invalid, options=options)
    )


def robust_scfa(
    *,
    aggregate: Krum | TrustedMean | None = None,
    on_all_invalid: OnAllInvalid = "skip",
    score: ScoreMode = "mean",
    beta: float = 1.0,
    graded: bool = False,
    relative: bool = False,
    hard_tolerance: float = 0.0,
    soft_tolerance: float = 0.05,
) -> Algorithm:
    """A robust aggregate that scales each client's share a_k by its score: the update is ``sum_k
    a_k s_k u_k``, without normalisation.

    No share exceeds the client's share under the robust aggregate. The removed weight stays with
    the current model. If all s_k are 1, the trajectory is that of the robust aggregate, bit for
    bit. This algorithm is fedkg's own.

    Args:
        aggregate: Krum, multi-Krum or FLTrust; None: multi-Krum that withstands one attacker.
        on_all_invalid: what to do when all scores are 0: ``skip`` keeps the model, ``fedavg`` is
            the robust aggregate without scores, ``error`` stops the run.

    The other arguments are those of `scfa`.
    """
    plain = scfa(
        on_all_invalid=on_all_invalid,
        score=score,
        beta=beta,
        graded=graded,
        relative=relative,
        hard_tolerance=hard_tolerance,
        soft_tolerance=soft_tolerance,
    )
    assert isinstance(plain.weighting, ByValidity)
    return Algorithm(
        name="robust_scfa",
        weighting=ByScore(on_all_invalid=on_all_invalid, options=plain.weighting.options),
        aggregate=replace(aggregate or Krum(attackers=1, keep=None), scored=True),
    )
