"""Ebrahimi, Burbano and Yousefian 2026, "PC-FedAvg": figures 1 to 4 on MNIST and CIFAR-10, and the
rates of theorem 3.4.

The text that we have contains no number of the experiments, so the studies decide its statements:
the objective is comparable with that of penalised baselines, infeasibility is lower, iterates that
start feasible stay feasible, and more local steps improve it. Softmax regression, an L1 ball of
another radius for each agent (`RADII`), all start at 0, inside all sets. Agents hold the samples
sorted by class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from fedkg.data.sets import data_set
from fedkg.federated import (
    Algorithm,
    Clients,
    CrossEntropy,
    Problem,
    ServerState,
    Settings,
    fedavg,
    initial_state,
    train,
)
from fedkg.federated.algorithms import fedprox, scaffold
from fedkg.federated.algorithms.pcfedavg import pcfedavg
from fedkg.federated.pcfedavg.agent_sets import AgentSets, sets_of
from fedkg.federated.pcfedavg.convergence_bounds import (
    certificate,
    gap,
    measured,
    smoothness,
    step_size,
)
from fedkg.federated.pcfedavg.penalty import PenaltySchedule, SetPenalty
from fedkg.federated.pcfedavg.running_average import averaged
from fedkg.models import Params, softmax_regression
from fedkg.papers.study import Bench, Claim, Paper, Row, Study
from fedkg.projection import Box, L1Ball

STRENGTH = 0.1
"""lambda_i, the weight of the distance to the average."""

TASK_STRENGTH = 0.5
"""lambda_i of the task for theorem 3.4."""

AGENTS = 5

COMPARABLE = 0.1
"""Relative difference of objectives up to which they count as comparable."""

RADII = (0.05, 0.5)
"""The least and the largest radius, as a share of the L1 norm of FedAvg's model after all rounds of
one local step. So the sets bind whatever the number of local steps is."""

FEASIBLE = 1e-3
"""Distance to its set, as a share of the radius, up to which an agent counts as feasible."""

PROPOSED, BY_RULE = "PC-FedAvg", "PC-FedAvg, step of the theorem"
BASELINES = ("penalised FedAvg", "penalised FedProx", "penalised SCAFFOLD")


def problem_of(name: str, path: str | None, samples: int, seed: int) -> tuple[Problem, float]:
    """The agents with their samples, sorted by class, and a bound of L_f.

    The Hessian of softmax regression is at most half the largest eigenvalue of the second moments
    of the inputs (with the constant input of the bias).
    """
    data = data_set(name, path, seed=seed, size=None if path else AGENTS * samples)
    stream = np.random.default_rng(seed)
    inside = np.flatnonzero(~data.test) if data.test is not None else np.arange(data.samples)
    rows = stream.permutation(inside)[: AGENTS * samples]
    order = rows[np.argsort(data.y[rows], kind="stable")]
    x = torch.from_numpy(data.x[order].reshape(len(order), -1).astype(np.float32))
    x = x / max(1.0, float(x.max()))
    y = torch.from_numpy(data.y[order].astype(np.int64))
    size = len(order) // AGENTS
    xs, ys = torch.split(x[: AGENTS * size], size), torch.split(y[: AGENTS * size], size)
    largest = [float(torch.linalg.matrix_norm(one, 2)) ** 2 / len(one) for one in xs]
    problem = Problem(
        model=softmax_regression((x.shape[1],), 10),
        loss=CrossEntropy(),
        clients=Clients(names=tuple(f"agent {i + 1}" for i in range(AGENTS)), x=xs, y=ys),
    )
    return problem, 0.5 * (max(largest) + 1)


def objective(problem: Problem, models: Params, strength: float = STRENGTH) -> Tensor:
    """The objective [] at models [m, ...], or [1, ...] if all share one.

    ``mean f_i(mean x) + lambda / 2 |x_i - mean x|^2``.
    """
    mean = {name: value.mean(0, keepdim=True) for name, value in models.items()}
    losses = [
        problem.loss.value(problem.model.apply(mean, x[None]), y[None]).mean()
        for x, y in zip(problem.clients.x, problem.clients.y, strict=True)
    ]
    apart = [(value - mean[name]).square().flatten(1).sum(1) for name, value in models.items()]
    return torch.stack(losses).mean() + strength / 2 * torch.stack(apart).sum(0).mean()


def at_zero(problem: Problem, algorithm: Algorithm, settings: Settings) -> ServerState:
    """The state before the first round, with all parameters at 0."""
    fresh = initial_state(problem, algorithm, settings)
    return replace(
        fresh, models={name: torch.zeros_like(value) for name, value in fresh.models.items()}
    )


def change_without_sets(problem: Problem, settings: Settings) -> float:
    """The L1 norm of FedAvg's last model, which begins at 0."""
    *_, (free, _) = train(problem, fedavg(), settings, at_zero(problem, fedavg(), settings))
    return float(sum(value.abs().sum() for value in free.models.values()))


def curve(
    problem: Problem, algorithm: Algorithm, settings: Settings, sets: AgentSets
) -> dict[str, Any]:
    """Objective and dist^2 of every agent after each tenth of the rounds, from 0. `Any`: lists."""
    found: dict[str, Any] = {"objective": [], "distance2": []}
    begun = at_zero(problem, algorithm, settings)
    for state, record in train(problem, algorithm, settings, begun):
        if record.round % max(1, settings.rounds // 10) == 0:
            whole = {
                name: value.expand(AGENTS, *value.shape[1:]) for name, value in state.models.items()
            }
            distances = measured(whole, sets, [STRENGTH] * AGENTS).distance2
            found["distance2"].append(distances.tolist())
            found["objective"].append(float(objective(problem, state.models)))
    return found


def compare(
    name: str, path: str | None, samples: int, rounds: int, steps: int, seed: int
) -> dict[str, Any]:
    """All methods with `steps` local steps: their curves, steps and effective steps. `Any`: JSON.

    The baselines and PC-FedAvg use a quarter of 1 / L of what they minimise, with the penalty of
    the last round. The theorem's own step shrinks with the number of local steps, too.
    """
    problem, smooth = problem_of(name, path, samples, seed)
    how = Settings(
        rounds=rounds,
        local_steps=steps,
        batch=max(1, samples // 10),
        learning_rate=0.5 / smooth,
        seed=seed,
        executor="stacked",
    )
    last = math.sqrt(rounds)
    plain = replace(how, learning_rate=1 / (4 * (smooth + last)))
    norm = change_without_sets(problem, replace(plain, local_steps=1))
    radii = (np.linspace(*RADII, AGENTS) * norm).tolist()
    sets = sets_of([L1Ball(radius) for radius in radii])
    penalty = SetPenalty(sets=sets, schedule=PenaltySchedule(first=1.0, growing=True))
    curvature = smoothness(smooth, last, [STRENGTH], AGENTS)
    blocks = replace(how, learning_rate=1 / (4 * curvature))
    own = partial(pcfedavg, sets=sets, strength=STRENGTH, penalty=1.0, growing=True)
    methods: dict[str, tuple[Algorithm, Settings, float]] = {
        PROPOSED: (own(), blocks, blocks.learning_rate),
        BY_RULE: (own(smooth=smooth, by_rule=True), blocks, step_size(curvature, steps)),
        BASELINES[0]: (fedavg().with_terms(penalty), plain, plain.learning_rate),
        BASELINES[1]: (fedprox(mu=0.1).with_terms(penalty), plain, plain.learning_rate),
        BASELINES[2]: (scaffold().with_terms(penalty), plain, plain.learning_rate),
    }
    found: dict[str, Any] = {"radii": radii}
    for method, (algorithm, settings, step) in methods.items():
        effective = step / AGENTS if method.startswith(PROPOSED) else step
        found[method] = curve(problem, algorithm, settings, sets)
        found[method] |= {"step": step, "effective": effective}
    return found


def computed(bench: Bench, name: str) -> dict[int, list[dict[str, Any]]]:
    """The comparison for each number of local steps and seed. `Any`: JSON."""
    samples, rounds = bench.pick(20, 400, 1000), bench.pick(5, 60, 200)
    local = bench.pick([1], [1, 10], [1, 5, 10, 20])
    path = bench.path_of(name)
    source = name if path is not None else f"generated {name} data"
    bench.settings.append(
        f"{source}: {AGENTS} agents of {samples} images, {rounds} rounds, batches of a tenth,"
        f" lambda {STRENGTH}, penalty sqrt(r)"
    )
    real = None if path is None else str(path)
    work = {
        f"{name}, {steps} local steps, seed {seed}": partial(
            compare, name, real, samples, rounds, steps, seed
        )
        for steps in local
        for seed in range(bench.seeds)
    }
    found = bench.compute("methods", work, parallel=True)
    return {
        steps: [found[f"{name}, {steps} local steps, seed {s}"] for s in range(bench.seeds)]
        for steps in local
    }


def infeasibility(bench: Bench, name: str) -> Iterator[Row]:
    """Distances to the sets, agent by agent, and where each method is feasible."""
    for steps, results in computed(bench, name).items():
        for method in (PROPOSED, BY_RULE, *BASELINES):
            ends = tuple(max(one[method]["distance2"][-1]) for one in results)
            shares = [
                np.sqrt(np.array(one[method]["distance2"])) / np.array(one["radii"])
                for one in results
            ]
            inside = np.mean([(share <= FEASIBLE).mean(0) for share in shares], axis=0)
            agents = ", ".join(f"{share:.0%}" for share in inside)
            yield Row(
                label=f"H = {steps}, {method}: largest dist^2 at the end",
                ours=ends,
                note=f"agents 1 to {AGENTS} are feasible (distance at most {FEASIBLE:.1%} of the"
                f" radius) in {agents} of the recorded rounds",
            )
        for method in (PROPOSED, BY_RULE):
            support = tuple(
                math.log10(
                    max(min(max(one[other]["distance2"][-1]) for other in BASELINES), 1e-12)
                    / max(max(one[method]["distance2"][-1]), 1e-12)
                )
                for one in results
            )
            yield Row(
                label=f"H = {steps}: {method} is closer to the sets than the best baseline",
                published="consistently",
                ours=support,
                claim=Claim(support=support),
                note="log10 of the ratio of the largest dist^2",
            )
        for method in (PROPOSED, *BASELINES):
            worst = tuple(
                float((np.sqrt(np.array(one[method]["distance2"])) / np.array(one["radii"])).max())
                for one in results
            )
            stays = tuple(FEASIBLE - one for one in worst)
            leaves = tuple(-one for one in stays)
            yield Row(
                label=f"H = {steps}, {method}: largest distance over the training, of the radius",
                published="stays feasible" if method == PROPOSED else "leaves its sets",
                ours=worst,
                claim=Claim(
                    support=stays if method == PROPOSED else leaves, each_seed=method == PROPOSED
                ),
            )


def objectives(bench: Bench, name: str) -> Iterator[Row]:
    """Objectives, the effect of local steps, and effective steps."""
    found = computed(bench, name)
    for steps, results in found.items():
        for method in (PROPOSED, BY_RULE, *BASELINES):
            step, effective = results[0][method]["step"], results[0][method]["effective"]
            yield Row(
                label=f"H = {steps}, {method}: objective at the end",
                ours=tuple(one[method]["objective"][-1] for one in results),
                note=f"step {step:.3g}; the average moves with {effective:.3g}",
            )
        best = [min(one[other]["objective"][-1] for other in BASELINES) for one in results]
        support = tuple(
            COMPARABLE - (one[PROPOSED]["objective"][-1] / value - 1)
            for one, value in zip(results, best, strict=True)
        )
        yield Row(
            label=f"H = {steps}: the objective is comparable (at most 10 % above the best)",
            published="comparable",
            ours=tuple(COMPARABLE - one for one in support),
            claim=Claim(support=support),
            note="relative excess over the best baseline",
        )
    first, last = min(found), max(found)
    for method in (PROPOSED, BY_RULE):
        gain = tuple(
            one[method]["objective"][-1] - other[method]["objective"][-1]
            for one, other in zip(found[first], found[last], strict=True)
        )
        yield Row(
            label=f"{method}: H = {last} lowers the objective against H = {first}",
            published="more local steps help",
            ours=gain,
            claim=Claim(support=gain),
        )


def convex_task(seed: int) -> tuple[Problem, AgentSets, NDArray[np.float64], float]:
    """A small task for the rates: softmax regression with a box for each agent, without a common
    point, and exact gradients.

    Returns the problem, the sets, the boxes' bounds [2, m, 15], and a bound of L_f.
    """
    stream = np.random.default_rng(seed)
    x = stream.normal(size=(AGENTS, 40, 4))
    scores = x @ stream.normal(size=(AGENTS, 4, 3)) + stream.gumbel(size=(AGENTS, 40, 3))
    centre = stream.normal(size=(AGENTS, 15))
    bounds = np.stack((centre - 0.3, centre + 0.3))
    problem = Problem(
        model=softmax_regression((4,), 3),
        loss=CrossEntropy(),
        clients=Clients(
            names=tuple(f"agent {i + 1}" for i in range(AGENTS)),
            x=tuple(torch.from_numpy(x)),
            y=tuple(torch.from_numpy(scores.argmax(-1))),
        ),
    )
    with_bias = np.concatenate((x, np.ones((AGENTS, 40, 1))), -1)
    largest = float(np.linalg.norm(with_bias, 2, axis=(1, 2)).max()) ** 2 / 40
    low, high = torch.from_numpy(bounds)
    return problem, sets_of(list(map(Box, low, high))), bounds, largest / 2


def solution(
    problem: Problem, like: Params, bounds: NDArray[np.float64]
) -> tuple[Params, float, float]:
    """The minimiser of the objective over boxes, by SciPy's L-BFGS-B, which shares no code with
    PC-FedAvg.

    Args:
        like: parameters with the shapes of the agents' models, each [m, ...].

    Returns the minimiser, its objective f*, and G, the length of the gradient there.
    """
    sizes = [value[0].numel() for value in like.values()]

    def models_at(flat: NDArray[np.float64]) -> Params:
        parts = torch.split(torch.from_numpy(flat.reshape(AGENTS, -1).copy()), sizes, dim=1)
        return {
            name: part.reshape(value.shape).requires_grad_()
            for (name, value), part in zip(like.items(), parts, strict=True)
        }

    def value_and_slope(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        models = models_at(flat)
        value = objective(problem, models, TASK_STRENGTH)
        slopes = torch.autograd.grad(value, list(models.values()))
        return float(value.detach()), torch.cat(
            [one.flatten(1) for one in slopes], 1
        ).flatten().numpy()

    found = minimize(
        value_and_slope,
        bounds.mean(0).ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(*bounds.reshape(2, -1), strict=True)),
        options={"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-10},
    )
    best = {name: value.detach() for name, value in models_at(found.x).items()}
    return best, float(found.fun), float(np.linalg.norm(found.jac))


def rates(lengths: Sequence[int], seed: int) -> dict[str, Any]:
    """Distances of PC-FedAvg's average from the solution, and what the theorem promises, for
    trainings of several lengths. `Any`: lists.

    One local step, penalty sqrt(R) and the theorem's own step.
    """
    problem, sets, bounds, smooth = convex_task(seed)
    algorithm = pcfedavg(sets=sets, strength=TASK_STRENGTH, smooth=smooth, by_rule=True)
    found: dict[str, Any] = {
        name: [] for name in ("gap", "distance2", "total", "upper", "infeasibility", "lower")
    }
    for length in lengths:
        settings = Settings(
            rounds=length,
            local_steps=1,
            batch=40,
            learning_rate=1.0,  # the rule replaces it
            seed=seed,
            executor="stacked",
        )
        begun = at_zero(problem, algorithm, settings)
        best, lowest, slope = solution(problem, begun.models, bounds)
        *_, (last, _) = train(problem, algorithm, settings, begun)
        mean = averaged(dict(last.joints["server"]))
        seen = measured(mean, sets, [TASK_STRENGTH] * AGENTS)
        start = sum(float(value.square().sum()) for value in best.values())  # it begins at 0
        step = float(last.joints["before"]["step"])
        proven = certificate(gap(start, step, length), slope, math.sqrt(length), AGENTS)
        found["gap"].append(float(objective(problem, mean, TASK_STRENGTH)) - lowest)
        found["distance2"].append(float(seen.distance2.max()))
        found["total"].append(math.sqrt(seen.total))
        found["upper"].append(proven.upper)
        found["infeasibility"].append(proven.infeasibility)
        found["lower"].append(proven.lower)
    return found


def theorem_34(bench: Bench) -> Iterator[Row]:
    """Bounds for trainings of several lengths, and how fast the distances fall with the length."""
    lengths = bench.pick((25, 100), (400, 1600, 6400), (400, 1600, 6400, 25_600))
    bench.settings.append(
        f"generated task: softmax regression of 15 parameters, {AGENTS} agents of 40 samples, boxes"
        f" without a common point, lambda {TASK_STRENGTH}, exact gradients, H = 1, penalty sqrt(R),"
        f" step of the theorem, R = {', '.join(map(str, lengths))}"
    )
    work = {f"seed {seed}": partial(rates, lengths, seed) for seed in range(bench.seeds)}
    found = list(bench.compute("rates", work, parallel=True).values())

    def of(name: str) -> NDArray[np.float64]:  # [seeds, lengths]
        return np.array([one[name] for one in found])

    for at, length in enumerate(lengths):
        above, below = (of("upper") - of("gap"))[:, at], (of("gap") - of("lower"))[:, at]
        inside = (of("infeasibility") - of("total"))[:, at]
        yield Row(
            label=f"R = {length}: the objective's distance from the optimum is inside its bounds",
            published="proved",
            ours=tuple(of("gap")[:, at].tolist()),
            claim=Claim(support=tuple(np.minimum(above, below).tolist()), each_seed=True),
            note=f"means of the bounds: {of('lower')[:, at].mean():.3g} and"
            f" {of('upper')[:, at].mean():.3g}",
        )
        yield Row(
            label=f"R = {length}: the distance of all agents from their sets is below its bound",
            published="proved",
            ours=tuple(of("total")[:, at].tolist()),
            claim=Claim(support=tuple(inside.tolist()), each_seed=True),
            note=f"mean of the bound: {of('infeasibility')[:, at].mean():.3g}",
        )
    logs = np.log(np.array(lengths, dtype=np.float64))
    slopes = {
        name: np.array([np.polyfit(logs, np.log(np.abs(row)), 1)[0] for row in of(name)])
        for name in ("gap", "distance2")
    }
    for name, title, rate in (
        ("gap", "distance of the objective from the optimum", 0.5),
        ("distance2", "largest dist^2", 1.0),
    ):
        yield Row(
            label=f"{title}: exponent of R",
            published=f"at most -{rate:g}",
            ours=tuple(slopes[name].tolist()),
            claim=Claim(support=tuple((-rate - slopes[name]).tolist()), each_seed=True),
            note="fitted to these lengths; the theorem is about the limit",
        )
    faster = tuple((slopes["gap"] - slopes["distance2"]).tolist())
    yield Row(
        label="infeasibility falls faster than suboptimality",
        published="claimed",
        ours=faster,
        claim=Claim(support=faster),
        note="difference of the exponents",
    )


def on(name: str, study: Any) -> Any:
    """A study on one data set."""
    return lambda bench: study(bench, name)


PAPER = Paper(
    name="pcfedavg",
    title="PC-FedAvg (Ebrahimi, Burbano, Yousefian 2026)",
    studies=(
        Study(
            name="figure 1",
            title="infeasibility on CIFAR-10",
            minutes=2,
            run=on("cifar-10", infeasibility),
        ),
        Study(
            name="figure 2",
            title="infeasibility on MNIST",
            minutes=1,
            run=on("mnist", infeasibility),
        ),
        Study(
            name="figure 3", title="objective on MNIST", minutes=0.1, run=on("mnist", objectives)
        ),
        Study(
            name="figure 4",
            title="objective on CIFAR-10",
            minutes=0.1,
            run=on("cifar-10", objectives),
        ),
        Study(name="theorem 3.4", title="bounds and rates", minutes=2, run=theorem_34),
    ),
)
