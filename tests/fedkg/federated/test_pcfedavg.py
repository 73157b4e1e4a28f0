"""PC-FedAvg: the specification's worked example, its plain loop, and invariants of every run."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from quadratics import (
    Agents,
    Vector,
    objective,
    quadratics,
    random_task,
    slope,
    solution,
    with_sizes,
)

from fedkg.errors import JobError
from fedkg.federated import (
    Algorithm,
    Problem,
    ServerState,
    Settings,
    fedavg,
    from_tensors,
    initial_state,
    to_tensors,
    train,
)
from fedkg.federated.algorithms.pcfedavg import pcfedavg
from fedkg.federated.client.optimisers import SGD
from fedkg.federated.executors import Sequential, Stacked, Work
from fedkg.federated.pcfedavg.agent_sets import AgentSets, sets_of
from fedkg.federated.pcfedavg.block_steps import MEAN, OWN, OwnAndMean
from fedkg.federated.pcfedavg.bound_comparison import promised
from fedkg.federated.pcfedavg.convergence_bounds import (
    certificate,
    gap,
    limit_infeasibility,
    measured,
    smoothness,
    step_size,
)
from fedkg.federated.pcfedavg.penalty import PenaltySchedule, SetPenalty
from fedkg.federated.pcfedavg.round_step_sizes import StepWarning
from fedkg.federated.pcfedavg.running_average import averaged
from fedkg.federated.problem import pool
from fedkg.federated.server.optimisers import AddUpdate
from fedkg.federated.server.weighted_mean import WeightedMean
from fedkg.projection import Box, L1Ball

FORMS: tuple[Literal["two", "all"], ...] = ("two", "all")
EXAMPLE = (np.ones((2, 1, 1)), np.array([[1.0], [-1.0]]))
EXAMPLE_SETS = sets_of([Box(0.5), Box(high=-0.2)])


def state_at(problem: Problem, algorithm: Algorithm, settings: Settings, x: Vector) -> ServerState:
    """The state before the first round with these blocks."""
    return replace(
        initial_state(problem, algorithm, settings), models={"point": torch.from_numpy(x.copy())}
    )


def end(problem: Problem, algorithm: Algorithm, settings: Settings, x: Vector) -> ServerState:
    *_, (state, _) = train(problem, algorithm, settings, state_at(problem, algorithm, settings, x))
    return state


def boxes(low: Vector, high: Vector) -> AgentSets:
    return sets_of(
        [Box(torch.from_numpy(a), torch.from_numpy(b)) for a, b in zip(low, high, strict=True)]
    )


def rounds(
    count: int,
    rate: float,
    *,
    local_steps: int = 1,
    executor: Literal["stacked", "sequential"] = "stacked",
) -> Settings:
    return Settings(
        rounds=count, local_steps=local_steps, batch=1, learning_rate=rate, executor=executor
    )


SIZES = (1, 3, 7, 20, 40)
"""Unequal numbers of samples, which do not affect PC-FedAvg's result."""


def product(
    strengths: Vector, penalty: float | None, begin: Vector, settings: Settings, **options: Any
) -> tuple[Problem, Work, ServerState, ServerState]:
    """A run of `train` on the random task with agents of unequal size.

    Returns problem, work, first and last state.
    """
    q, b, low, high = TASK
    problem = with_sizes(quadratics(q, b), SIZES)
    algorithm = pcfedavg(
        sets=boxes(low, high), strength=strengths.tolist(), penalty=penalty, **options
    )
    settings = replace(settings, batch=max(SIZES))
    first = state_at(problem, algorithm, settings, begin)
    *_, (last, record) = train(problem, algorithm, settings, first)
    assert record.alpha == pytest.approx([1 / len(SIZES)] * len(SIZES), abs=1e-15)
    work = Work(problem=problem, algorithm=algorithm, settings=settings, pool=pool(problem.clients))
    return problem, work, first, last


@pytest.mark.parametrize("executor", [Stacked(chunk=2), Sequential()])
@pytest.mark.parametrize("form", FORMS)
def test_one_step_of_the_worked_example(
    form: Literal["two", "all"], executor: Stacked | Sequential
) -> None:
    problem, settings = quadratics(*EXAMPLE), rounds(1, 0.1)
    algorithm = pcfedavg(sets=EXAMPLE_SETS, strength=0.4, penalty=3.0, form=form)
    state = state_at(problem, algorithm, settings, np.array([[0.6], [0.2]]))
    work = Work(problem=problem, algorithm=algorithm, settings=settings, pool=pool(problem.clients))
    both = torch.arange(2)
    sent: dict[int, list[float]] = {}
    for updates in executor.train(work, algorithm.before.apply(work, state, both), both):
        for place, agent in enumerate(updates.clients.tolist()):
            start, update = updates.start, updates.update
            if form == "all":
                sent[agent] = (start["point"] + update["point"])[place].flatten().tolist()
            else:
                own, mean = (
                    float((start[kind + "point"] + update[kind + "point"])[place])
                    for kind in (OWN, MEAN)
                )
                sent[agent] = [own, 2 * mean - own] if agent == 0 else [2 * mean - own, own]
    assert sent[0] == pytest.approx([0.626, 0.234], abs=1e-15)
    assert sent[1] == pytest.approx([0.526, 0.014], abs=1e-15)
    assert end(problem, algorithm, settings, np.array([[0.6], [0.2]])).models[
        "point"
    ].flatten().tolist() == pytest.approx([0.576, 0.124])


@pytest.mark.slow
def test_2_the_optimum_of_the_worked_example() -> None:
    """Acceptance test 2: `train` under a large penalty, then the projection onto the sets.

    The agents have unequal sizes.
    """
    problem, penalty = with_sizes(quadratics(*EXAMPLE), (1, 4)), 4000.0
    first = 0.25 * penalty / (penalty / 2 + 2 / 7)
    algorithm = pcfedavg(sets=EXAMPLE_SETS, strength=0.4, penalty=penalty)
    settings = replace(rounds(300, 1 / smoothness(1.0, penalty, [0.4], 2)), batch=4)
    begin = state_at(problem, algorithm, settings, np.array([[first], [-3 / 7 * first]]))
    *_, (state, _) = train(problem, algorithm, settings, begin)
    best = algorithm.local.sets.projected(state.models, torch.arange(2))["point"].numpy()
    assert best.flatten().tolist() == pytest.approx([0.5, -3 / 14], abs=1e-4)
    assert objective(*EXAMPLE, np.full(2, 0.4), best) + 0.5 == pytest.approx(
        15 / 28, abs=1e-4
    )  # our losses omit the constant 1 / 2
    work = Work(problem=problem, algorithm=algorithm, settings=settings, pool=pool(problem.clients))
    printed = promised(work, begin, state)
    assert printed is not None
    assert printed.slope == pytest.approx(1 / 7, abs=1e-4)


@pytest.mark.parametrize(
    ("penalty", "count", "away"),
    [(10.0, 400, 0.02), pytest.param(100.0, 700, 1e-5, marks=pytest.mark.slow)],
)
def test_where_the_worked_example_converges(penalty: float, count: int, away: float) -> None:
    """The start is far away; the distance shrinks by about 0.35 / L in each round."""
    first = 0.25 * penalty / (penalty / 2 + 2 / 7)
    algorithm, rate = (
        pcfedavg(sets=EXAMPLE_SETS, strength=0.4, penalty=penalty),
        1 / smoothness(1.0, penalty, [0.4], 2),
    )
    begin = np.array([[first + away], [-3 / 7 * first + away]])
    state = end(quadratics(*EXAMPLE), algorithm, rounds(count, rate), begin)
    assert state.models["point"].flatten().tolist() == pytest.approx(
        [first, -3 / 7 * first], abs=1e-6
    )
    distance2 = {10.0: 7.305e-4, 100.0: 8.071e-6}[penalty]
    assert float(EXAMPLE_SETS.distance2(state.models, torch.arange(2))[0]) == pytest.approx(
        distance2, rel=1e-3
    )


TASK = random_task()
UNEQUAL = np.array([0.0, 0.2, 0.5, 1.0, 2.0])


def agents(strengths: Vector, *, cross: bool = True) -> Agents:
    q, b, low, high = TASK
    return Agents(q=q, b=b, strengths=strengths, low=low, high=high, cross=cross)


@pytest.mark.parametrize("executor", ["stacked", "sequential"])
@pytest.mark.parametrize("form", FORMS)
def test_both_forms_and_executors_are_the_plain_loop(
    form: Literal["two", "all"], executor: Literal["stacked", "sequential"]
) -> None:
    q, b, low, high = TASK
    begin = np.random.default_rng(1).normal(size=low.shape)
    settings = rounds(20, 0.01, local_steps=4, executor=executor)
    algorithm = pcfedavg(
        sets=boxes(low, high), strength=UNEQUAL.tolist(), penalty=3.0, growing=True, form=form
    )
    state = end(quadratics(q, b), algorithm, settings, begin)
    last, mean = agents(UNEQUAL).loop(
        begin, penalties=[3 * np.sqrt(r + 1) for r in range(20)], steps=[0.01] * 20, local_steps=4
    )
    np.testing.assert_allclose(state.models["point"].numpy(), last, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        averaged(dict(state.joints["server"]))["point"].numpy(), mean, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("executor", ["stacked", "sequential"])
@pytest.mark.parametrize("form", FORMS)
def test_agents_count_the_same_whatever_their_number_of_samples(
    form: Literal["two", "all"], executor: Literal["stacked", "sequential"]
) -> None:
    """Specification, section 2: the server's mean has the weights 1 / m."""
    q, b, low, high = TASK
    problem = with_sizes(quadratics(q, b), (1, 3, 7, 20, 40))
    settings = replace(rounds(20, 0.01, local_steps=4, executor=executor), batch=40)
    algorithm = pcfedavg(sets=boxes(low, high), strength=UNEQUAL.tolist(), penalty=3.0, form=form)
    begin = np.random.default_rng(1).normal(size=low.shape)
    *_, (state, record) = train(
        problem, algorithm, settings, state_at(problem, algorithm, settings, begin)
    )
    assert record.alpha == pytest.approx([0.2] * 5, abs=1e-15)
    last, _ = agents(UNEQUAL).loop(begin, penalties=[3.0] * 20, steps=[0.01] * 20, local_steps=4)
    np.testing.assert_allclose(state.models["point"].numpy(), last, rtol=0, atol=1e-12)


def test_the_slope_of_the_certificate_has_every_term() -> None:
    """G with unequal regularisation, where the mean of lambda_i (x_i - mean x) is not zero."""
    q, b, low, _ = TASK
    _, work, first, last = product(UNEQUAL, 30.0, np.zeros_like(low), rounds(50, 0.005))
    printed = promised(work, first, last)
    assert printed is not None
    feasible = work.algorithm.local.sets.projected(last.models, torch.arange(5))["point"].numpy()
    wanted = slope(q, b, UNEQUAL, feasible)
    assert printed.slope == pytest.approx(np.linalg.norm(wanted), rel=1e-12)
    pull = UNEQUAL[:, None] * (feasible - feasible.mean(0))
    assert np.linalg.norm(wanted + pull.mean(0) / 5) != pytest.approx(printed.slope, rel=1e-3)


@pytest.mark.slow
def test_the_certificate_holds_for_sites_of_unequal_size() -> None:
    """Specification, section 3: f - f* <= D, a <= its bound and f - f* >= -G a.

    They hold for the average of the iterates.
    """
    q, b, low, high = TASK
    sets, strengths = boxes(low, high), np.full(5, 0.5)
    problem = with_sizes(quadratics(q, b), (1, 3, 7, 20, 40))
    best = solution(q, b, strengths, low, high)
    rho, count = 30.0, 900
    settings = replace(rounds(count, step_size(smoothness(1.0, rho, [0.5], 5), 1)), batch=40)
    algorithm = pcfedavg(sets=sets, strength=0.5, penalty=rho)
    begin = state_at(problem, algorithm, settings, np.zeros_like(low))
    *_, (state, _) = train(problem, algorithm, settings, begin)
    work = Work(problem=problem, algorithm=algorithm, settings=settings, pool=pool(problem.clients))
    printed = promised(work, begin, state)
    elsewhere = replace(work, algorithm=replace(work.algorithm, server=AddUpdate(rate=0.5)))
    assert promised(elsewhere, begin, replace(state, joints={})) is None
    assert printed is not None
    mean = averaged(dict(state.joints["server"]))["point"].numpy()
    above = objective(q, b, strengths, mean) - objective(q, b, strengths, best)
    assert printed.lower <= above <= printed.upper
    assert np.sqrt(agents(strengths).distance2(mean).sum()) == pytest.approx(printed.infeasibility)
    assert printed.infeasibility <= printed.bound


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("form", FORMS)
def test_a_step_is_the_gradient_of_the_penalised_objective(
    form: Literal["two", "all"], seed: int
) -> None:
    """Specification, acceptance test 6.

    The points are outside the sets and, for even seeds, inside.
    """
    q, b, low, high = TASK
    here = (low + high) / 2 + np.random.default_rng(seed).uniform(-1, 1, low.shape) * (
        0.25 if seed % 2 == 0 else 2.0
    )
    problem, settings = quadratics(q, b), rounds(1, 1.0)
    algorithm = pcfedavg(sets=boxes(low, high), strength=UNEQUAL.tolist(), penalty=3.0, form=form)
    state = state_at(problem, algorithm, settings, here)
    work = Work(problem=problem, algorithm=algorithm, settings=settings, pool=pool(problem.clients))
    every = torch.arange(5)
    [updates] = Stacked(chunk=5).train(work, algorithm.before.apply(work, state, every), every)
    for i in updates.clients.tolist():
        wanted = np.zeros_like(here)
        for place in np.ndindex(*here.shape):
            ahead, behind = here.copy(), here.copy()
            ahead[place] += 1e-5
            behind[place] -= 1e-5
            wanted[place] = (
                agents(UNEQUAL).value(i, 3.0, ahead) - agents(UNEQUAL).value(i, 3.0, behind)
            ) / 2e-5
        if form == "all":
            np.testing.assert_allclose(
                -updates.update["point"][i].numpy(), wanted, rtol=0, atol=1e-6
            )
        else:
            np.testing.assert_allclose(
                -updates.update["own/point"][i].numpy(), wanted[i], rtol=0, atol=1e-6
            )
            np.testing.assert_allclose(
                -updates.update["mean/point"][i].numpy(), wanted.mean(0), rtol=0, atol=1e-6
            )


@pytest.mark.slow
def test_without_sets_all_blocks_meet_at_the_common_minimum() -> None:
    q, b, low, _ = TASK
    best = np.linalg.solve(q.sum(0), b.sum(0))
    begin = np.random.default_rng(3).normal(size=low.shape)
    rate = 1 / smoothness(1.0, 0.0, [0.5], 5)
    state = end(quadratics(q, b), pcfedavg(strength=0.5, penalty=0.0), rounds(400, rate), begin)
    np.testing.assert_allclose(
        state.models["point"].numpy(), np.repeat(best[None], 5, 0), rtol=0, atol=1e-8
    )
    few = [
        end(quadratics(q, b), pcfedavg(strength=0.5, penalty=rho), rounds(20, rate), begin).models[
            "point"
        ]
        for rho in (0.0, 7.0)
    ]
    assert torch.equal(*few)


@pytest.mark.parametrize("form", FORMS)
def test_5_without_sets_and_regularisation_the_average_is_fedavg_with_a_smaller_step(
    form: Literal["two", "all"],
) -> None:
    """Acceptance test 5, with equal blocks.

    FedAvg's agents have one sample each, those of PC-FedAvg unequal numbers.
    """
    q, b, _, _ = TASK
    unequal = with_sizes(quadratics(q, b), SIZES)
    settings = replace(rounds(20, 0.5, local_steps=3), batch=max(SIZES))
    *_, (state, _) = train(unequal, pcfedavg(form=form), settings)
    *_, (plain, _) = train(quadratics(q, b), fedavg(), rounds(20, 0.1, local_steps=3))
    np.testing.assert_allclose(
        state.models["point"].mean(0).numpy(), plain.params["point"].numpy(), rtol=0, atol=1e-12
    )
    assert float((state.models["point"] - state.models["point"][:1]).abs().max()) < 1e-12


@pytest.mark.parametrize("form", FORMS)
def test_one_agent_alone_does_penalised_gradient_descent(form: Literal["two", "all"]) -> None:
    q, b, low, high = TASK
    problem = quadratics(q[:1], b[:1])
    state = end(
        problem,
        pcfedavg(sets=boxes(low[:1], high[:1]), strength=9.0, penalty=2.0, form=form),
        rounds(30, 0.2),
        np.ones((1, 6)),
    )
    x = np.ones(6)
    for _ in range(30):
        x = x - 0.2 * (q[0] @ x - b[0] + 2.0 * (x - np.clip(x, low[0], high[0])))
    np.testing.assert_allclose(state.models["point"][0].numpy(), x, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_9_and_10_rates_and_certificates() -> None:
    """Acceptance tests 9 and 10: rho = sqrt(R), the step rule, one local step.

    They use 400 and 6400 rounds of `train`.
    """
    q, b, low, high = TASK
    strengths = np.full(5, 0.5)
    best = solution(q, b, strengths, low, high)
    lowest, steepness = (
        objective(q, b, strengths, best),
        float(np.linalg.norm(slope(q, b, strengths, best))),
    )
    begin, seen = np.zeros_like(low), {}
    for count in (400, 6400):
        settings = rounds(count, 123.0)
        _, work, first, last = product(strengths, None, begin, settings, smooth=1.0, by_rule=True)
        mean = averaged(dict(last.joints["server"]))["point"].numpy()
        above, away = objective(q, b, strengths, mean) - lowest, agents(strengths).distance2(mean)
        rho, step = np.sqrt(count), float(last.joints["before"]["step"])
        assert float(last.joints["before"]["penalty"]) == rho
        assert step == pytest.approx(step_size(1 / 5 + rho + 0.5 * 0.8, 1))
        proven = certificate(
            gap(float(((begin - best) ** 2).sum()), step, count), steepness, rho, 5
        )
        printed = promised(work, first, last)
        assert printed is not None
        for one, bound in ((proven, proven.infeasibility), (printed, printed.bound)):
            assert one.lower <= above <= one.upper
            assert np.sqrt(away.sum()) <= bound
        seen[count] = (above, away.max())
    assert seen[400][1] >= 16 * seen[6400][1]
    assert seen[400][0] >= 2 * seen[6400][0]


def test_infeasibility_for_large_penalties() -> None:
    q, b, low, high = TASK
    strengths = np.full(5, 0.5)
    best = solution(q, b, strengths, low, high)
    rho = 100.0
    step = 1 / smoothness(1.0, rho, [0.5], 5)
    last, _ = agents(strengths).loop(best, penalties=[rho] * 4000, steps=[step] * 4000)
    limit = limit_infeasibility(float(np.linalg.norm(slope(q, b, strengths, best))), rho, 5)
    assert np.sqrt(agents(strengths).distance2(last).sum()) == pytest.approx(limit, rel=0.05)


@pytest.mark.slow
def test_11_unequal_strengths_need_the_cross_term() -> None:
    """Acceptance test 11: `train` ends near the solution.

    The specification's loop without the cross term does not.
    """
    q, b, low, high = TASK
    best = solution(q, b, UNEQUAL, low, high)
    step = 1 / smoothness(1.0, 100.0, UNEQUAL.tolist(), 5)
    _, _, _, last = product(UNEQUAL, 100.0, best, rounds(1500, step))
    assert np.linalg.norm(last.models["point"].numpy() - best) <= 0.05
    without, _ = agents(UNEQUAL, cross=False).loop(
        best, penalties=[100.0] * 3000, steps=[step] * 3000
    )
    assert np.linalg.norm(without - best) > 0.2


@pytest.mark.slow
def test_sets_without_a_common_point() -> None:
    """Acceptance test 13: blocks stay in their sets although no shared model could."""
    q, b, low, high = TASK
    sets, problem, every = boxes(low, high), quadratics(q, b), torch.arange(5)
    rate = 1 / smoothness(1.0, 100.0, [0.5], 5)
    state = end(
        problem,
        pcfedavg(sets=sets, strength=0.5, penalty=100.0),
        rounds(200, rate),
        (low + high) / 2,
    )
    assert float(sets.distance2(state.models, every).max()) <= 1e-3
    penalised = fedavg().with_terms(SetPenalty(sets=sets, schedule=PenaltySchedule(first=100.0)))
    *_, (shared, _) = train(problem, penalised, rounds(200, 1 / 101))
    assert (
        float(sets.distance2({"point": shared.models["point"].expand(5, -1)}, every).max()) >= 0.05
    )


@pytest.mark.slow
def test_14_steps_that_are_too_long() -> None:
    """Acceptance test 14: the warnings, and the step rule, with which five local steps end near
    one.
    """
    q, b, low, high = TASK
    problem, rho = quadratics(q, b), 100.0
    whole = 1 / smoothness(1.0, rho, [0.5], 5)
    algorithm = pcfedavg(sets=boxes(low, high), strength=0.5, penalty=rho, smooth=1.0)
    with pytest.warns(StepWarning, match="agents drift apart within 5 local steps"):
        next(train(problem, algorithm, rounds(1, whole, local_steps=5)))
    with pytest.warns(StepWarning, match="diverges"):
        next(train(problem, algorithm, rounds(1, 2.1 * whole)))
    growing = pcfedavg(sets=boxes(low, high), strength=0.5, penalty=rho, growing=True, smooth=1.0)
    with pytest.warns(StepWarning, match=r"from round 4 on: .* diverges"):
        next(train(problem, growing, rounds(5, 1.1 * whole)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        next(train(problem, growing, rounds(3, 1.1 * whole)))
        next(train(problem, algorithm, rounds(1, whole)))
        by_rule = pcfedavg(
            sets=boxes(low, high), strength=0.5, penalty=rho, smooth=1.0, by_rule=True
        )
        state, _ = next(train(problem, by_rule, rounds(1, 123.0, local_steps=5)))
    assert float(state.joints["before"]["step"]) == pytest.approx(whole / 32)
    best, away = solution(q, b, np.full(5, 0.5), low, high), []
    for local_steps in (1, 5):
        settings = rounds(300, 123.0, local_steps=local_steps)
        _, _, _, last = product(np.full(5, 0.5), rho, best, settings, smooth=1.0, by_rule=True)
        away.append(agents(np.full(5, 0.5)).distance2(last.models["point"].numpy()).max())
    assert 0.5 <= away[1] / away[0] <= 2


@pytest.mark.parametrize(("form", "numbers"), [("all", 5 * 6), ("two", 2 * 6)])
def test_what_leaves_an_agent(form: Literal["two", "all"], numbers: int) -> None:
    """Acceptance test 15: blocks (or two vectors) and counts leave an agent, nothing of the sets.

    The number of bytes is the reported one.
    """
    q, b, low, high = TASK
    problem, settings = quadratics(q, b), rounds(1, 0.01)
    algorithm = pcfedavg(sets=boxes(low, high), penalty=1.0, form=form)
    work = Work(problem=problem, algorithm=algorithm, settings=settings, pool=pool(problem.clients))
    every = torch.arange(5)
    state = algorithm.before.apply(work, initial_state(problem, algorithm, settings), every)
    [updates] = Stacked(chunk=5).train(work, state, every)
    assert set(updates.update) == ({"point"} if form == "all" else {"own/point", "mean/point"})
    assert not updates.client_memory
    assert not updates.shared
    assert sum(value[0].numel() for value in updates.update.values()) == numbers
    [(_, record)] = train(problem, algorithm, settings)
    assert record.bytes_up == 5 * (numbers * 8 + 8)
    assert record.bytes_down == 5 * numbers * 8


@pytest.mark.parametrize("form", FORMS)
def test_a_run_is_gone_on_with_to_the_bit(form: Literal["two", "all"]) -> None:
    q, b, low, high = TASK
    problem, algorithm = (
        quadratics(q, b),
        pcfedavg(sets=boxes(low, high), penalty=1.0, growing=True, form=form),
    )
    whole = [state for state, _ in train(problem, algorithm, rounds(5, 0.01))]
    rest = [
        state
        for state, _ in train(
            problem, algorithm, rounds(5, 0.01), from_tensors(*to_tensors(whole[1]))
        )
    ]
    assert torch.equal(rest[-1].models["point"], whole[-1].models["point"])
    assert torch.equal(
        rest[-1].joints["server"]["average/point"], whole[-1].joints["server"]["average/point"]
    )


def test_agents_in_single_precision() -> None:
    """Both forms agree to the precision of float32."""
    generator = np.random.default_rng(0)
    problem = quadratics(np.stack([np.eye(30)] * 5), generator.normal(size=(5, 30)))
    single = Problem(
        model=problem.model,
        loss=problem.loss,
        clients=replace(
            problem.clients,
            x=tuple(x.float() for x in problem.clients.x),
            y=tuple(y.float() for y in problem.clients.y),
        ),
    )
    sets = sets_of([L1Ball(radius) for radius in np.linspace(0.5, 4.0, 5).tolist()])
    ends = []
    for form in FORMS:
        *_, (state, _) = train(
            single,
            pcfedavg(sets=sets, strength=0.1, penalty=5.0, form=form),
            rounds(20, 0.02, local_steps=5),
        )
        assert state.models["point"].dtype == torch.float32
        ends.append(state.models["point"])
    torch.testing.assert_close(*ends, rtol=0, atol=1e-5)


def test_what_is_measured() -> None:
    seen = measured(
        {"w": torch.tensor([[3.0, 0.0], [1.0, 1e-5]])},
        sets_of([L1Ball(1.0), L1Ball(2.0)]),
        [2.0, 0.0],
    )
    assert seen.distance2.tolist() == [4.0, 0.0]
    assert seen.total == 4.0
    assert seen.spread == pytest.approx(1.0)
    assert seen.sparsity == 0.5
    assert seen.regularised == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"strength": -1.0}, "at least 0"),
        ({"by_rule": True}, "Lipschitz constant"),
        ({"smooth": 0.0}, "above 0"),
        ({"form": "three"}, "`form` has an unknown value"),
        ({"growing": True}, "its value in the first round"),
    ],
)
def test_refused_options(options: dict[str, object], said: str) -> None:
    with pytest.raises(JobError, match=said):
        pcfedavg(**options)  # type: ignore[arg-type]


def test_refused_runs() -> None:
    q, b, _, _ = TASK
    for wrong in (
        replace(pcfedavg(), aggregate=WeightedMean()),
        replace(pcfedavg(), local=SGD()),
        replace(fedavg(), start=OwnAndMean()),
    ):
        with pytest.raises(
            JobError,
            match="requires its start, its local optimiser and its mean of blocks together",
        ):
            next(train(quadratics(q, b), wrong, rounds(1, 0.1)))
    with pytest.raises(JobError, match="needs all agents in every round"):
        next(train(quadratics(q, b), pcfedavg(), replace(rounds(1, 0.1), participation=0.5)))
    with pytest.raises(JobError, match="one number for all agents, or one for each"):
        next(train(quadratics(q, b), pcfedavg(strength=[1.0, 2.0]), rounds(1, 0.1)))


@pytest.mark.parametrize("form", FORMS)
def test_an_agent_that_sends_nan_is_left_out(form: Literal["two", "all"]) -> None:
    q, b, low, high = TASK
    problem = quadratics(q, b)
    ys = list(problem.clients.y)
    ys[1] = torch.full_like(ys[1], float("nan"))
    broken = replace(problem, clients=replace(problem.clients, y=tuple(ys)))
    algorithm = pcfedavg(sets=boxes(low, high), penalty=1.0, form=form)
    for state, record in train(broken, algorithm, rounds(3, 0.01)):
        assert list(record.excluded) == ["agent_1"]
        assert (
            "left out: agent_1; no other update was for their model, which is unchanged"
            in record.notes
        )
        assert bool(torch.isfinite(state.models["point"]).all())
    assert torch.equal(
        state.models["point"][1],
        initial_state(problem, algorithm, rounds(3, 0.01)).models["point"][1],
    )


def test_the_executor_may_be_measured() -> None:
    q, b, low, high = TASK
    state, record = next(
        train(
            quadratics(q, b),
            pcfedavg(sets=boxes(low, high)),
            replace(rounds(4, 0.01), executor="auto"),
        )
    )
    assert record.notes[0].startswith("executor: ")
    assert float(state.joints["before"]["penalty"]) == 2.0  # the square root of four rounds
