"""Sets of agents over parameters: from a list, from a pack, for some of the agents at once.

Also the penalty that is added to a loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from federations import classes, largest_difference
from hypothesis import given, settings
from hypothesis import strategies as st

import fedkg
from fedkg.errors import JobError, SetError
from fedkg.federated import Settings, fedavg, train
from fedkg.federated.pcfedavg.agent_sets import AgentSets, SetPart, kept_sets, sets_of
from fedkg.federated.pcfedavg.penalty import PenaltySchedule, SetPenalty
from fedkg.federated.round_steps import Step
from fedkg.models import Params
from fedkg.projection import (
    Box,
    HalfSpace,
    L1Ball,
    L2Ball,
    LInfBall,
    Polytope,
    ProjectionSet,
    Simplex,
)

RULES = """
prefix ex: <https://example.org/>
set sparse for ?c, ?r where { ?c ex:budget ?r }  keep parameters.w in l1_ball(radius = ?r)
set near keep parameters.w in linf_ball(radius = job)
set bias keep parameters.b in box(low = -1, high = 1)
"""
GRAPH = """
@prefix ex: <https://example.org/> .
ex:a ex:budget 1.0 .
ex:b ex:budget 2.0 .
"""
AGENTS = ("https://example.org/a", "https://example.org/b")


def point(agents: int, seed: int = 0) -> Params:
    generator = torch.Generator().manual_seed(seed)
    return {
        "w": 3 * torch.randn(agents, 2, 2, generator=generator, dtype=torch.float64),
        "b": 3 * torch.randn(agents, 3, generator=generator, dtype=torch.float64),
    }


KINDS: dict[str, Sequence[ProjectionSet]] = {
    "boxes": [Box(-1.0, 1.0), Box(0.0), Box(torch.linspace(-2, 0, 7, dtype=torch.float64), 1.0)],
    "L1 balls": [L1Ball(1.0), L1Ball(2.0, torch.ones(7, dtype=torch.float64)), L1Ball(0.0)],
    "L2 balls": [L2Ball(1.0), L2Ball(2.0), L2Ball(0.5, 1.0)],
    "balls by the largest entry": [LInfBall(1.0), LInfBall(2.0), LInfBall(0.5)],
    "a different kind each": [
        HalfSpace(torch.ones(7, dtype=torch.float64), 1.0),
        Simplex(2.0),
        Polytope(torch.eye(7, dtype=torch.float64) + 0.1, torch.ones(7, dtype=torch.float64)),
    ],
}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10)
@given(seed=st.integers(0, 2**31), order=st.permutations([0, 1, 2]))
def test_many_agents_at_once_are_each_by_itself(kind: str, seed: int, order: list[int]) -> None:
    sets, x, agents = sets_of(KINDS[kind]), point(3, seed), torch.tensor(order[:2])
    here = {name: value[agents] for name, value in x.items()}
    residual, distance2, inside = (
        sets.residual(here, agents),
        sets.distance2(here, agents),
        sets.projected(here, agents),
    )
    for row, agent in enumerate(agents.tolist()):
        flat = torch.cat([value[agent].flatten() for value in x.values()])
        nearest = KINDS[kind][agent].project(flat)
        found = torch.cat([value[row].flatten() for value in inside.values()])
        torch.testing.assert_close(found, nearest, rtol=0, atol=1e-9)
        torch.testing.assert_close(
            torch.cat([value[row].flatten() for value in residual.values()]),
            flat - nearest,
            rtol=0,
            atol=1e-9,
        )
        assert float(distance2[row]) == pytest.approx(
            float((flat - nearest).square().sum()), abs=1e-9
        )
    assert float(sets.distance2(inside, agents).max()) < 1e-12


def test_numbers_of_the_specification() -> None:
    """Acceptance test 8: projections onto the L1 ball."""
    sets = sets_of([L1Ball(2.0), L1Ball(1.5)])
    x = {"w": torch.tensor([[3.0, -1.0, 0.5], [1.0, 1.0, 1.0]])}
    both = torch.tensor([0, 1])
    assert sets.projected(x, both)["w"].tolist() == [[2.0, 0.0, 0.0], [0.5, 0.5, 0.5]]
    assert sets.distance2(x, both).tolist() == [2.25, 0.75]


def test_sets_of_a_pack(tmp_path: Path) -> None:
    (tmp_path / "sets.fkg").write_text(RULES, encoding="utf-8")
    (tmp_path / "plant.ttl").write_text(GRAPH, encoding="utf-8")
    pack = fedkg.compile([tmp_path / "sets.fkg", tmp_path / "plant.ttl"])
    sets = kept_sets(pack, AGENTS, {"radius": 0.75})
    assert sets is not None
    x = {
        "w": torch.tensor([[[3.0, 0.0]], [[3.0, 0.5]]]),
        "b": torch.tensor([[2.0], [0.5]]),
        "free": torch.tensor([[9.0], [9.0]]),
    }
    inside = sets.projected(x, torch.tensor([1, 0]))  # the first point is agent b's
    torch.testing.assert_close(
        inside["w"], torch.tensor([[[0.75, 0.0]], [[0.75, 0.25]]])
    )  # the intersection of two sets
    assert inside["b"].tolist() == [[1.0], [0.5]]
    assert inside["free"].tolist() == [[9.0], [9.0]]
    with pytest.raises(SetError, match="to the job, which does not give it"):
        kept_sets(pack, AGENTS)
    with pytest.raises(SetError, match="no numbers for the client"):
        kept_sets(pack, ("elsewhere",), {"radius": 1.0})
    with pytest.raises(JobError, match="the parameter `b`, but the model has no such parameter"):
        sets.distance2({"w": x["w"]}, torch.tensor([0, 1]))


def test_a_pack_without_sets_of_parameters() -> None:
    pack = fedkg.compile(
        text="output y in %\nset bounded keep predictions in box(low = 0 %, high = 1 %)\n"
    )
    assert kept_sets(pack, AGENTS) is None


def test_sets_over_the_same_parameters_are_rejected() -> None:
    part = SetPart(lambda places: Box(), ("w",))
    with pytest.raises(JobError, match="the same parameters"):
        AgentSets(parts=(part, SetPart(lambda places: Box(), ("w", "b"))))
    with pytest.raises(JobError, match="the same parameters"):
        AgentSets(parts=(part, SetPart(lambda places: Box())))


def test_the_penalty_beside_a_loss() -> None:
    """``rho_r / 2 dist^2`` with growing rho_r; its closed-form derivative equals autograd's."""
    problem = classes((14, 9, 22))
    sets = sets_of([L1Ball(0.5), L1Ball(1.0), L1Ball(2.0)], ("layers.0.weight",))
    term = SetPenalty(sets=sets, schedule=PenaltySchedule(first=2.0, growing=True))
    clients = torch.tensor([2, 0])
    params = {
        name: value.expand(2, *value.shape).clone().requires_grad_()
        for name, value in problem.model.init(0, torch.float64).items()
    }
    row = torch.zeros(2, 1, 6, dtype=torch.float64)
    step = Step(
        model=problem.model,
        loss=problem.loss,
        params=params,
        x=row,
        y=torch.zeros(2, 1, dtype=torch.int64),
        share=None,
        noise=None,
        clients=clients,
        start=params,
        round=4,
    )
    value = term.value(step)
    assert value.tolist() == pytest.approx((2.0 * sets.distance2(params, clients)).tolist())
    value.sum().backward()
    slope = term.slope(step)
    assert set(slope) == {"layers.0.weight"}
    torch.testing.assert_close(
        params["layers.0.weight"].grad, slope["layers.0.weight"], rtol=0, atol=1e-12
    )
    ends = []
    how = Settings(rounds=3, local_epochs=1, batch=8, learning_rate=0.05)
    for executor in ("stacked", "sequential"):
        own = replace(how, executor=executor)  # type: ignore[arg-type]
        *_, (state, _) = train(problem, fedavg().with_terms(term), own)
        ends.append(state.models)
    assert largest_difference(*ends) < 1e-12
    *_, (plain, _) = train(problem, fedavg(), replace(how, executor="stacked"))
    assert largest_difference(ends[0], plain.models) > 1e-3


def test_refused_penalties() -> None:
    with pytest.raises(JobError, match="its weight in the first round"):
        SetPenalty(sets=sets_of([Box()]), schedule=PenaltySchedule())
    with pytest.raises(JobError, match="at least 0"):
        PenaltySchedule(first=-1.0)
