"""Federated learning with personalised constraints.

Source: M. Ebrahimi, D. Burbano and F. Yousefian, "PC-FedAvg", 2026, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from fedkg.errors import JobError
from fedkg.federated.algorithm import Algorithm
from fedkg.federated.pcfedavg.agent_sets import AgentSets
from fedkg.federated.pcfedavg.block_steps import (
    AllBlocks,
    AllBlockSteps,
    BlockMean,
    OwnAndMean,
    TwoVectorMean,
    TwoVectorSteps,
)
from fedkg.federated.pcfedavg.penalty import PenaltySchedule
from fedkg.federated.pcfedavg.round_step_sizes import Equally, RoundNumbers
from fedkg.federated.pcfedavg.running_average import AddAndAverage


def pcfedavg(
    *,
    sets: AgentSets | None = None,
    strength: float | Sequence[float] = 0.0,
    penalty: float | None = None,
    growing: bool = False,
    form: Literal["two", "all"] = "two",
    smooth: float | None = None,
    by_rule: bool = False,
) -> Algorithm:
    """``min mean_i f_i(mean x) + lambda_i / 2 |x_i - mean x|^2`` with ``x_i in X_i``, the sets as a
    penalty in each agent's own block.

    The server holds one model for each agent, its block; the model of agent i is block i.
    Infeasibility falls as 1 / rounds and is never
    quite 0: project what you deploy, `AgentSets.projected`. All agents take part in every round.
    Sets are not sent, but an agent's own
    block moves apart from the others by its penalty, from which the server can tell where its set
    lies.

    Args:
        sets: X_i, the set of each agent; None for training without constraints.
        strength: lambda_i, the strength of the local regularisation: one number for all agents or
            one for each.
        penalty: rho, the weight of the penalty; None: the square root of the number of rounds
            (theorem 3.4).
        growing: whether the weight of the penalty is ``penalty * sqrt(round)`` instead of
            `penalty`; needs `penalty`.
        form: each agent keeps and sends ``two`` vectors, or ``all`` blocks as in the paper. The
            result is the same, but ``all`` sends m / 2 times the bytes for m agents.
        smooth: L_f, the smoothness of the losses; None if it is not known.
        by_rule: whether to use the longest step for which the theorem holds instead of the learning
            rate; needs `smooth`.

    Raises:
        JobError: a strength below 0, a smoothness that is not above 0, a rule for steps without
            one.
    """
    strengths = (
        (float(strength),)
        if isinstance(strength, (int, float))
        else tuple(float(one) for one in strength)
    )
    if not strengths or not all(one >= 0 for one in strengths):
        raise JobError(
            "`strength`, the weight of the local regularisation, must be a number of at least 0, "
            "or one for each agent",
            received=str(strength),
        )
    if smooth is not None and not smooth > 0:
        raise JobError(
            "`smooth`, the Lipschitz constant of the gradients, must be above 0",
            received=str(smooth),
        )
    if by_rule and smooth is None:
        raise JobError(
            "`by_rule`, the largest step for which the theorem holds, needs `smooth`, the "
            "Lipschitz constant of the gradients",
            expected="smooth=...",
        )
    if form not in ("two", "all"):
        raise JobError("`form` has an unknown value", expected="two or all", received=repr(form))
    whole = form == "all"
    schedule = PenaltySchedule(first=penalty, growing=growing)
    return Algorithm(
        name="pcfedavg",
        alike=True,
        before=RoundNumbers(schedule=schedule, strengths=strengths, smooth=smooth, by_rule=by_rule),
        start=AllBlocks() if whole else OwnAndMean(),
        local=AllBlockSteps(sets=sets, strengths=strengths)
        if whole
        else TwoVectorSteps(sets=sets, strengths=strengths),
        weighting=Equally(),
        aggregate=BlockMean() if whole else TwoVectorMean(),
        server=AddAndAverage(),
    )
