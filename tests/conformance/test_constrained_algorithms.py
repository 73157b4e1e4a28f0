"""Algorithms with rules, sets and knowledge: `fedkg.federated.train` against a naive NumPy loop of
each.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import plain_loops
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from plain_rules import Rule, Rules, rule_sets
from tries import tries

import fedkg
from fedkg.constraints import ConstraintModule
from fedkg.errors import JobError
from fedkg.federated import WorkerPool, train
from fedkg.federated import algorithms as product
from fedkg.federated.conformance import (
    Array,
    Federation,
    Knowledge,
    begin,
    close,
    federations,
    run,
    same_rounds,
)
from fedkg.federated.conformance import start_of as start_from
from fedkg.federated.pcfedavg.agent_sets import AgentSets, sets_of
from fedkg.federated.pcfedavg.penalty import PenaltySchedule, SetPenalty
from fedkg.federated.pcfedavg.running_average import averaged
from fedkg.federated.server.pack_scorer import PackScorer
from fedkg.federated.server.robust import Krum, TrustedMean
from fedkg.projection import Box, L1Ball, L2Ball, LInfBall, ProjectionSet

FEW = settings(
    tries(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def worker_pool() -> Iterator[WorkerPool]:
    """Two worker processes for all examples, because starting a pair takes seconds."""
    with WorkerPool(2) as workers:
        yield workers


# Rules that determine the weights of updates (SCFA).

NUMBER_LIMITS = tuple(round(0.2 * i, 1) for i in range(-6, 7))
CHANCE_LIMITS = tuple(round(0.05 * i, 2) for i in range(4, 17))
"""Limits so close to each other that models of one round differ in what they satisfy."""
GUARDS = {"a": (0.0, 0.7, 9.0), "b": (-0.5, 9.0)}
"""No probe row reaches 9, so such a rule is not evaluated. Rows are often equal to the others."""


def judged_federations(**options: int) -> st.SearchStrategy[Federation]:
    """Federations whose models change enough in a round to satisfy different rules.

    Squared errors would diverge at the rate that chances need: growth multiplies rounding.
    """
    return st.one_of(
        federations(losses=("squared",), most_outputs=1, rate=0.2, **options),
        federations(losses=("logistic",), rate=1.0, **options),
    )


def rules_of(federation: Federation, rules: Sequence[Rule], dice: np.random.Generator) -> Rules:
    """Random rules on the probe rows."""
    probe = np.round(dice.normal(size=(16, 2)), 1)  # often at a limit
    chance = federation.loss == "logistic"

    def answers(w: Array) -> Array:
        z = federation.outputs_at(w, probe)[:, 0]
        return 1 / (1 + np.exp(-z)) if chance else z

    columns = {"a": probe[:, 0], "b": probe[:, 1]}
    return Rules(rules=tuple(rules), columns=columns, answer=("y", answers))


def scorer(federation: Federation, rules: Rules) -> PackScorer:
    """The product's scorer for the same rules."""
    chance = federation.loss == "logistic"
    text = "signal a span -10 .. 10\nsignal b span -10 .. 10\n"
    text += "output y in probability span 0 .. 1\n" if chance else "output y span -90 .. 90\n"
    with tempfile.TemporaryDirectory() as place:
        for number, rule in enumerate(rules.rules):
            text += rule.text(f"rule_{number}", Path(place))
        pack = fedkg.compile(text=text)
    layout = fedkg.logit("y") if chance else fedkg.columns(["y"])
    module = ConstraintModule(pack, x=fedkg.columns(["a", "b"]), y=layout)
    probe = torch.from_numpy(np.stack([rules.columns["a"], rules.columns["b"]], 1))
    return PackScorer(federation.model, module, probe)


@pytest.mark.slow
@given(
    federation=judged_federations(least=3),
    of_numbers=rule_sets(answer="y", limits=NUMBER_LIMITS, inputs=GUARDS),
    of_chances=rule_sets(answer="y", limits=CHANCE_LIMITS, inputs=GUARDS),
    combine=st.sampled_from(["mean", "product", "min"]),
    beta=st.sampled_from([1.0, 2.0, 3.5]),
    graded=st.booleans(),
    hard_tolerance=st.sampled_from([0.0, 0.25, 0.5]),
    soft_tolerance=st.sampled_from([0.0, 0.05, 0.25, 0.5]),
    on_all_invalid=st.sampled_from(["skip", "fedavg", "error"]),
)
@settings(FEW, max_examples=tries(40).max_examples)
@pytest.mark.filterwarnings(
    "ignore::fedkg.authoring.RuleWarning"
)  # random rules may contradict each other
def test_scfa(
    federation: Federation,
    of_numbers: tuple[Rule, ...],
    of_chances: tuple[Rule, ...],
    combine: str,
    beta: float,
    graded: bool,
    hard_tolerance: float,
    soft_tolerance: float,
    on_all_invalid: str,
    worker_pool: WorkerPool,
) -> None:
    rules = rules_of(
        federation,
        of_chances if federation.loss == "logistic" else of_numbers,
        np.random.default_rng(federation.seed),
    )
    options: dict[str, Any] = {
        "beta": beta,
        "graded": graded,
        "hard_tolerance": hard_tolerance,
        "soft_tolerance": soft_tolerance,
        "on_all_invalid": on_all_invalid,
    }
    algorithm = product.scfa(score=combine, **options)
    scoring = plain_loops.Scoring(combine=combine, **options)
    start = start_of(federation)
    judge = scorer(federation, rules)
    cohorts = cohorts_of(federation)
    try:
        expected = plain_loops.scfa(federation, start, cohorts, rules, scoring)
    except plain_loops.AllInvalid:
        with pytest.raises(JobError):
            run(federation, algorithm, start, worker_pool, scorer=judge)
        return
    states, seen, weights = run(federation, algorithm, start, worker_pool, scorer=judge)
    assert seen == cohorts
    same_rounds(federation, states, weights, expected)


@pytest.mark.slow
@given(
    federation=judged_federations(least=5, most=7),
    of_numbers=rule_sets(answer="y", limits=NUMBER_LIMITS, inputs=GUARDS),
    of_chances=rule_sets(answer="y", limits=CHANCE_LIMITS, inputs=GUARDS),
    robust=st.sampled_from(["krum", "fltrust"]),
    attackers=st.integers(0, 1),
    keep=st.sampled_from([None, 1, 3]),
    combine=st.sampled_from(["mean", "product", "min"]),
    beta=st.sampled_from([1.0, 2.0]),
    graded=st.booleans(),
    relative=st.booleans(),
    on_all_invalid=st.sampled_from(["skip", "fedavg", "error"]),
)
@settings(FEW, max_examples=tries(40).max_examples)
@pytest.mark.filterwarnings(
    "ignore::fedkg.authoring.RuleWarning"
)  # random rules may contradict each other
def test_robust_scfa(
    federation: Federation,
    of_numbers: tuple[Rule, ...],
    of_chances: tuple[Rule, ...],
    robust: str,
    attackers: int,
    keep: int | None,
    combine: Any,
    beta: float,
    graded: bool,
    relative: bool,
    on_all_invalid: Any,
    worker_pool: WorkerPool,
) -> None:
    """Besides the loop: no share exceeds the share under the robust rule alone, and both trainings
    are equal to the bit if every model satisfies the rules.
    """
    sampled = federation.settings().sampled(len(federation.x))
    assume(attackers == 0 or sampled >= 2 * attackers + 3)
    rules = rules_of(
        federation,
        of_chances if federation.loss == "logistic" else of_numbers,
        np.random.default_rng(federation.seed),
    )
    options: dict[str, Any] = {
        "beta": beta,
        "graded": graded,
        "relative": relative,
        "on_all_invalid": on_all_invalid,
    }
    aggregate = Krum(attackers=attackers, keep=keep) if robust == "krum" else TrustedMean()
    algorithm = product.robust_scfa(aggregate=aggregate, score=combine, **options)
    start = start_of(federation)
    judge, cohorts = scorer(federation, rules), cohorts_of(federation)
    try:
        expected = plain_loops.robust_scfa(
            federation,
            start,
            cohorts,
            rules,
            plain_loops.Scoring(combine=combine, **options),
            robust,
            attackers,
            keep,
        )
    except plain_loops.AllInvalid:
        with pytest.raises(JobError):
            run(federation, algorithm, start, worker_pool, scorer=judge)
        return
    states, _, weights = run(federation, algorithm, start, worker_pool, scorer=judge)
    same_rounds(federation, states, weights, expected)
    plain = replace(product.fedavg(), aggregate=aggregate)
    [first, *_] = run(federation, plain, start, worker_pool, scorer=judge)[2]
    assert all(weights[0][k] <= share + 1e-12 for k, share in first.items())
    assert sum(weights[0].values()) <= 1 + 1e-12


@pytest.mark.parametrize(
    "robust", [Krum(attackers=1, keep=3), TrustedMean()], ids=["krum", "trust"]
)
def test_robust_scfa_is_the_robust_rule_if_all_validities_are_one(robust: Any) -> None:
    dice = np.random.default_rng(0)
    rows = [dice.normal(size=(size, 2)) for size in (7, 3, 5, 9, 4, 6)]
    federation = Federation(
        x=tuple(rows[:5]), y=tuple(one[:, :1] for one in rows[:5]), server=(rows[5], rows[5][:, :1])
    )
    pack = fedkg.compile(
        text="signal a span -9 .. 9\nsignal b span -9 .. 9\noutput y span -99 .. 99\n"
        "rule bound require y <= 99\n"
    )
    module = ConstraintModule(pack, x=fedkg.columns(["a", "b"]), y=fedkg.columns(["y"]))
    judge = PackScorer(federation.model, module, torch.from_numpy(rows[5]))
    problem = federation.problem(scorer=judge)
    plain = replace(product.fedavg(), aggregate=robust)
    for (state, record), (expected, was) in zip(
        train(problem, product.robust_scfa(aggregate=robust), federation.settings()),
        train(problem, plain, federation.settings()),
        strict=True,
    ):
        assert record.validity == (1.0,) * 5
        assert record.alpha == pytest.approx(was.alpha, abs=1e-15)
        for name, value in expected.models.items():
            assert torch.equal(state.models[name], value)


@pytest.mark.parametrize(
    ("bound", "violation"),
    [("<= 3", 0.0), (">= 1", 0.0), ("< 3", 0.25), ("> 1", 0.25), (">= 2", 0.25), ("> 2", 0.75)],
)
@pytest.mark.parametrize("guard", ["", "if sensor >= 1 then "])
@pytest.mark.parametrize("executor", ["stacked", "sequential"])
def test_answers_at_a_limit(executor: Any, guard: str, bound: str, violation: float) -> None:
    """The model answers 1, 2, 2 and 3 to these rows and has nothing to learn."""
    pack = fedkg.compile(
        text="signal sensor span 0 .. 9\noutput wear span 0 .. 9\n"
        f"rule bound hard require {guard}wear {bound}\n"
    )
    module = ConstraintModule(pack, x=fedkg.columns(["sensor"]), y=fedkg.columns(["wear"]))
    rows = np.array([[1.0], [2.0], [2.0], [3.0]])
    federation = Federation(
        x=(rows, rows[:2], rows[1:]),
        y=(rows, rows[:2], rows[1:]),
        server=(rows, rows),
        hidden=0,
        rounds=1,
        executor=executor,
    )
    start = np.array([[1.0, 0.0]])
    judge = PackScorer(federation.model, module, torch.from_numpy(rows))
    begun = begin(federation, federation.problem(), product.scfa(), start)
    problem = federation.problem(scorer=judge)
    [(_, record)] = train(problem, product.scfa(), federation.settings(), begun)
    assert record.violated is not None
    assert record.violated.tolist() == [[violation]] * 3
    assert record.validity == (float(violation == 0),) * 3


def start_of(federation: Federation, models: int = 1) -> Array:
    return start_from(federation, models)


def cohorts_of(federation: Federation) -> list[list[int]]:
    """The cohort of each round, from a training by FedAvg.

    Sampling does not depend on the algorithm.
    """
    plain = replace(federation, executor="stacked")
    return run(plain, product.fedavg(), start_of(plain))[1]


# Sets of the agents' models (PC-FedAvg), and the same sets as a penalty under other algorithms.


def projected(kind: str, size: float, x: Array) -> Array:
    """The nearest point of a set around 0."""
    if kind in ("box", "linf"):
        return np.clip(x, -size, size)
    if kind == "l2":
        return x * min(1.0, size / np.linalg.norm(x))
    if np.abs(x).sum() <= size:
        return x
    ordered = -np.sort(-np.abs(x))
    for count in range(len(x), 0, -1):
        threshold = (ordered[:count].sum() - size) / count
        if ordered[count - 1] > threshold:
            break
    return np.sign(x) * np.maximum(np.abs(x) - threshold, 0)


KINDS: dict[str, Any] = {
    "box": lambda size: Box(-size, size),
    "l1": L1Ball,
    "l2": L2Ball,
    "linf": LInfBall,
}


@st.composite
def sets(draw: st.DrawFn, most: int) -> list[tuple[str, float]]:
    """Kind and size of each agent's set."""
    kinds = [draw(st.sampled_from([*KINDS]))] * most
    if draw(st.booleans()):
        kinds = draw(st.lists(st.sampled_from([*KINDS]), min_size=most, max_size=most))
    return [(kind, draw(st.sampled_from([0.1, 0.5, 2.0]))) for kind in kinds]


def both_sets(
    federation: Federation, each: list[tuple[str, float]], one_layer: bool
) -> tuple[AgentSets, plain_loops.Project]:
    """The sets of the clients, over all parameters or over the weights of the first layer."""
    each = each[: len(federation.x)]
    made: list[ProjectionSet] = [KINDS[kind](size) for kind, size in each]
    spoken = slice(0, int(np.prod(next(iter(federation.shapes.values())))) if one_layer else None)

    def project(k: int, x: Array) -> Array:
        result = x.copy()
        result[spoken] = projected(*each[k], x[spoken])
        return result

    return sets_of(made, ("layers.0.weight",) if one_layer else ()), project


@pytest.mark.slow
@given(
    federation=federations(whole=True, own=False),
    each=sets(5),
    one_layer=st.booleans(),
    strengths=st.lists(st.sampled_from([0.0, 0.5, 2.0]), min_size=5, max_size=5),
    alike=st.booleans(),
    penalty=st.sampled_from([None, 0.7, 3.0]),
    growing=st.booleans(),
    form=st.sampled_from(["two", "all"]),
    smooth=st.sampled_from([None, 4.0]),
    constrained=st.booleans(),
)
@FEW
@pytest.mark.filterwarnings("ignore::fedkg.federated.pcfedavg.round_step_sizes.StepWarning")
def test_pcfedavg(
    federation: Federation,
    each: list[tuple[str, float]],
    one_layer: bool,
    strengths: list[float],
    alike: bool,
    penalty: float | None,
    growing: bool,
    form: Any,
    smooth: float | None,
    constrained: bool,
    worker_pool: WorkerPool,
) -> None:
    m, growing = len(federation.x), growing and penalty is not None
    strength = [strengths[0]] * m if alike else strengths[:m]
    agent_sets, project = both_sets(federation, each, one_layer)
    algorithm = product.pcfedavg(
        sets=agent_sets if constrained else None,
        strength=strengths[0] if alike else strength,
        penalty=penalty,
        growing=growing,
        form=form,
        smooth=smooth,
        by_rule=smooth is not None,
    )

    def rho(number: int) -> float:
        first = np.sqrt(federation.rounds) if penalty is None else penalty
        return float(first * (np.sqrt(number) if growing else 1))

    def step(number: int) -> float:
        if smooth is None:
            return federation.rate_of(number, -1)
        total = smooth / m + rho(number) + max(strength) * (1 - 1 / m)
        local = max(len(federation.minibatches(number, i)) for i in range(m))
        return min(1 / (4 * total), 1 / (8 * total * (local - 1)) if local > 1 else np.inf)

    start = start_of(federation, m)
    states, cohorts, weights = run(federation, algorithm, start, worker_pool)
    expected, means = plain_loops.pcfedavg(
        federation, start, cohorts, project if constrained else lambda k, x: x, strength, rho, step
    )
    same_rounds(federation, states, weights, expected)
    for state, mean in zip(states, means, strict=True):
        close(federation.flat(averaged(dict(state.joints["server"]))), mean, federation)


@given(
    federation=federations(),
    each=sets(5),
    one_layer=st.booleans(),
    penalty=st.sampled_from([0.3, 1.0]),
    growing=st.booleans(),
    kind=st.sampled_from(["fedavg", "fedprox", "scaffold"]),
)
@FEW
def test_sets_as_a_penalty(
    federation: Federation,
    each: list[tuple[str, float]],
    one_layer: bool,
    penalty: float,
    growing: bool,
    kind: str,
    worker_pool: WorkerPool,
) -> None:
    """Penalised FedAvg, FedProx and SCAFFOLD (section 5 of the specification of PC-FedAvg)."""
    agent_sets, project = both_sets(federation, each, one_layer)
    schedule = PenaltySchedule(first=penalty, growing=growing)
    mu = 0.4 if kind == "fedprox" else 0.0
    algorithm = product.ALGORITHMS[kind](**({"mu": mu} if mu else {}))
    algorithm = algorithm.with_terms(SetPenalty(sets=agent_sets, schedule=schedule))

    def pull(number: int, k: int, v: Array) -> Array:
        rho = penalty * (np.sqrt(number) if growing else 1)
        return rho * (v - project(k, v))

    start = start_of(federation)
    states, cohorts, weights = run(federation, algorithm, start, worker_pool)
    if kind == "scaffold":
        expected = plain_loops.scaffold(federation, start, cohorts, 1.0, pull)
    else:
        expected = plain_loops.fedavg(federation, start, cohorts, mu, pull)
    same_rounds(federation, states, weights, expected)


# Knowledge in the answers (Fan et al. 2022).


def allowed(x: Array) -> Array:
    """Classes 0 and 1 if the first feature is below 0, all near 0, only class 2 far above it."""
    first = x[..., :1]
    numbers = np.arange(3)
    return np.where(first < -0.3, numbers < 2, np.where(first > 1.2, numbers == 2, numbers >= 0))


def predicted(x: Array) -> Array:
    """The greatest allowed class if the second feature is above 0, else no prediction."""
    best = 2 - allowed(x)[..., ::-1].argmax(-1)
    return np.where(x[..., 1] > 0, best, -1)


@given(
    federation=federations(losses=("cross_entropy",), executors=("stacked", "sequential")),
    trust=st.sampled_from([0.0, 0.3, 0.5, 0.9]),
    mu=st.sampled_from([0.0, 0.3]),
)
@FEW
def test_injected_knowledge(federation: Federation, trust: float, mu: float) -> None:
    """Labels are allowed classes: in the paper, an excluded label has no finite loss."""
    labels = tuple(
        np.where(np.take_along_axis(allowed(x), y[:, None], 1)[:, 0], y, allowed(x).argmax(1))
        for x, y in zip(federation.x, federation.y, strict=True)
    )
    known = Knowledge(allowed=allowed, predicted=predicted, trust=trust)
    federation = replace(federation, y=labels, known=known)
    start = start_of(federation)
    algorithm = product.fedprox(mu=mu) if mu else product.fedavg()
    states, cohorts, weights = run(federation, algorithm, start)
    same_rounds(federation, states, weights, plain_loops.fedavg(federation, start, cohorts, mu))
