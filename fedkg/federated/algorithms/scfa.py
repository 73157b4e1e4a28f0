"""Semantic-constrained federated aggregation (J. Arafat, "SCFA", algorithm 1)."""

from __future__ import annotations

from fedkg.federated.algorithm import Algorithm
from fedkg.federated.round_steps import OnAllInvalid
from fedkg.federated.server.scoring import ScoreMode, ScoreOptions
from fedkg.federated.server.weighting import ByValidity


def scfa(
    *,
    on_all_invalid: OnAllInvalid = "skip",
    score: ScoreMode = "mean",
    beta: float = 1.0,
    graded: bool = False,
    hard_tolerance: float = 0.0,
    soft_tolerance: float = 0.05,
) -> Algorithm:
    """FedAvg with weights ``n_k s_k / sum_i n_i s_i``, s_k the share of constraints that client k's
    model keeps on the server's probe rows.

    The defaults are the paper's. With all s_k = 1 the trajectory is FedAvg's, bit for bit. Secure
    aggregation hides single updates from
    the server, so the two cannot be used together.

    Args:
        on_all_invalid: when no update has any weight: ``skip`` keeps the model, ``fedavg`` weighs
            by samples, ``error`` stops the run.
        score, beta, graded, hard_tolerance, soft_tolerance: see `ScoreOptions`.
    """
    options = ScoreOptions(
        combine=score,
        beta=beta,
        graded=graded,
        hard_tolerance=hard_tolerance,
        soft_tolerance=soft_tolerance,
    )
    return Algorithm(
        name="scfa", weighting=ByValidity(on_all_invalid=on_all_invalid, options=options)
    )
