"""Every preset on two clients with one sample each, computed by hand.

Client one has x = 1, y = 8, client two x = 2, y = 0; the answer is w x, the loss its squared error:
derivatives 2 (w - 8) and 8 w. Two steps of rate 1/8 from w = 0 take client one to 2 and 3.5, and
leave client two at 0. The least mean loss is at w = 8/5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from algorithm_contracts import CONTRACTS
from federations import FunctionScorer, rows
from torch import Tensor

from fedkg.federated import (
    ALGORITHMS,
    Algorithm,
    Clients,
    Problem,
    RoundRecord,
    ServerState,
    Settings,
    SquaredError,
    initial_state,
    train,
)
from fedkg.federated.algorithms import (
    centralised,
    ditto,
    fedadagrad,
    fedadam,
    fedavg,
    fedprox,
    fedrep,
    fedyogi,
    fltrust,
    ifca,
    krum,
    local_only,
    median,
    multi_krum,
    robust_scfa,
    scaffnew,
    scaffold,
    scfa,
    trimmed_mean,
)
from fedkg.federated.server.robust import TrustedMean
from fedkg.models import MLP, Params

W = "layers.0.weight"
SETTINGS = Settings(rounds=2, local_steps=2, batch=2, learning_rate=0.125, executor="stacked")


def number(value: float) -> Tensor:
    return torch.tensor([[value]], dtype=torch.float64)


def samples(*pairs: tuple[float, float]) -> Clients:
    return Clients(
        names=tuple(f"site_{i}" for i in range(len(pairs))),
        x=tuple(number(x) for x, _ in pairs),
        y=tuple(number(y) for _, y in pairs),
    )


def task() -> Problem:
    return Problem(
        model=MLP(inputs=1, hidden=(), outputs=1, bias=False),
        loss=SquaredError(),
        clients=samples((1.0, 8.0), (2.0, 0.0)),
        server_data=samples((1.0, 8.0)),
    )


def steps(
    algorithm: Algorithm,
    problem: Problem | None = None,
    start: float = 0.0,
    settings: Settings = SETTINGS,
) -> Iterator[ServerState]:
    return (state for state, _ in rounds(algorithm, problem, start, settings))


def rounds(
    algorithm: Algorithm,
    problem: Problem | None = None,
    start: float = 0.0,
    settings: Settings = SETTINGS,
) -> Iterator[tuple[ServerState, RoundRecord]]:
    problem = problem or task()
    begun = initial_state(problem, algorithm, settings, {W: number(start)})
    yield from train(problem, algorithm, settings, replace(begun, choice=None))


def models(algorithm: Algorithm, problem: Problem | None = None) -> list[float]:
    """The common model after each of two rounds."""
    return [float(state.params[W]) for state in steps(algorithm, problem)]


def test_fedavg() -> None:
    """Round two from 1.75: client one goes to 8 - 6.25 * (3/4)^2 = 4.484375, client two to 0."""
    assert models(fedavg()) == [1.75, 2.2421875]


def test_scfa() -> None:
    """Client two violates one of two rules: weights 1 and 1/2, so 2/3 of 3.5."""

    def violation(params: Params) -> Tensor:
        broken = (params[W].flatten() < 1).double()
        return torch.stack([broken, torch.zeros_like(broken)], 1)

    problem = replace(task(), scorer=FunctionScorer(rows=rows(2), violation=violation))
    assert models(scfa(), problem)[0] == pytest.approx(3.5 * 2 / 3)


def test_fedprox() -> None:
    """Client one: 0 -> 2 -> 2 + 6/4 - 2/4 = 3."""
    assert models(fedprox(mu=2.0))[0] == 1.5


def test_fedadam() -> None:
    """d = 1.75, v = 1/2 + 1.75^2 / 2, m = 1.75 / 2."""
    assert models(fedadam(rate=2.0, beta1=0.5, beta2=0.5, tau=1.0))[0] == pytest.approx(
        1.75 / (2.03125**0.5 + 1)
    )


def test_fedyogi() -> None:
    """v = 1 + 1.75^2 / 2, because v = 1 is less than d^2; with d^2 = 1.75^2 less than v = 4, v = 4
    - 1.75^2 / 2.
    """
    assert models(fedyogi(rate=2.0, beta1=0.5, beta2=0.5, tau=1.0))[0] == pytest.approx(
        1.75 / (2.53125**0.5 + 1)
    )
    assert models(fedyogi(rate=2.0, beta1=0.5, beta2=0.5, tau=2.0))[0] == pytest.approx(
        1.75 / (2.46875**0.5 + 2)
    )


def test_fedadagrad() -> None:
    """v = 1 + 1.75^2; then m = 1.75 without any momentum."""
    assert models(fedadagrad(rate=1.0, tau=1.0))[0] == pytest.approx(1.75 / (4.0625**0.5 + 1))


def test_server_memory_is_kept_between_rounds() -> None:
    """Adam with a constant second moment (tau = 1/2, beta2 = 1): m = 7/8, then m = 7/16 + d/2."""
    first, second = models(fedadam(rate=1.0, beta1=0.5, beta2=1.0, tau=0.5))
    assert first == 0.875
    ends = 8 - (8 - 0.875) * 0.5625
    assert second == pytest.approx(0.875 + 0.4375 + 0.5 * (ends / 2 - 0.875))


def test_scaffold() -> None:
    """c_1 = -3.5 / (2/8) = -14, c_2 = 0, c = -7. Then one: 1.75 -> 2.4375 -> 2.953125, two: 1.75 ->
    0.875 -> 0.875.
    """
    first, second = steps(scaffold())
    assert float(first.params[W]) == 1.75
    assert first.clients[f"local/{W}"].flatten().tolist() == [-14.0, 0.0]
    assert float(first.joints["local"][f"control/{W}"]) == -7.0
    assert float(second.params[W]) == 1.9140625
    changed = [-14 + 7 - (2.953125 - 1.75) * 4, 0 + 7 - (0.875 - 1.75) * 4]
    assert second.clients[f"local/{W}"].flatten().tolist() == changed
    assert float(second.joints["local"][f"control/{W}"]) == sum(changed) / 2


def test_scaffold_ends_at_the_optimum_and_fedavg_does_not() -> None:
    """FedAvg's fixed point is w = (8 - (8 - w) * 9/16) / 2, at w = 3.5 / 1.4375."""
    settings = replace(SETTINGS, rounds=200)
    *_, exact = steps(scaffold(), settings=settings)
    *_, biased = steps(fedavg(), settings=settings)
    assert float(exact.params[W]) == pytest.approx(1.6, abs=1e-12)
    assert float(biased.params[W]) == pytest.approx(3.5 / 1.4375, abs=1e-12)


def test_scaffold_under_partial_participation() -> None:
    """Absent clients retain their variates, and c stays the mean of all; the optimum is still
    reached.
    """
    settings = replace(SETTINGS, rounds=400, participation=0.5)
    states = list(steps(scaffold(), settings=settings))
    for before, after in pairwise(states):
        own = after.clients[f"local/{W}"].flatten()
        assert int((own != before.clients[f"local/{W}"].flatten()).sum()) <= 1
        torch.testing.assert_close(
            after.joints["local"][f"control/{W}"].flatten(),
            own.mean(0, keepdim=True),
            rtol=1e-9,
            atol=1e-9,
        )
    assert float(states[-1].params[W]) == pytest.approx(1.6, abs=1e-6)


def test_scaffnew() -> None:
    """h_1 = (1.75 - 3.5) / (2/8) = -7 and h_2 = 7 in the second round.

    With all clients in it, these are SCAFFOLD's corrections.
    """
    first, second = steps(scaffnew())
    assert float(first.params[W]) == 1.75
    assert float(second.params[W]) == 1.9140625
    assert second.clients[f"local/h/{W}"].flatten().tolist() == [-7.0, 7.0]


def test_fedrep() -> None:
    """The answer is h b x, all 1 at first; x = 1 at both, y = 2 and 0.

    Heads first: 1 + 2/4 = 1.5 and 1 - 2/4 = 0.5. Then bodies: 1 + 2 * 0.5 * 1.5 / 4 = 1.375 and 1 -
    2 * 0.5 * 0.5 / 4 = 0.875.
    """
    problem = Problem(
        model=MLP(inputs=1, hidden=(1,), outputs=1, bias=False),
        loss=SquaredError(),
        clients=samples((1, 2), (1, 0)),
    )
    algorithm, settings = (
        fedrep(private=("layers.1.",)),
        replace(SETTINGS, rounds=1, learning_rate=0.25),
    )
    begun = initial_state(
        problem, algorithm, settings, {W: number(1.0), "layers.1.weight": number(1.0)}
    )
    [(state, record)] = train(problem, algorithm, settings, begun)
    assert float(state.params[W]) == (1.375 + 0.875) / 2
    assert state.clients["start/layers.1.weight"].flatten().tolist() == [1.5, 0.5]
    assert float(state.params["layers.1.weight"]) == 1.0
    assert record.bytes_up == 2 * (8 + 8)


def test_ditto() -> None:
    """The common model is as in FedAvg.

    Client one's own: 3 as in FedProx, then from 3, pulled to 1.75: 3.9375 and 4.40625.
    """
    first, second = steps(ditto(strength=2.0))
    assert (float(first.params[W]), float(second.params[W])) == (1.75, 2.2421875)
    assert first.clients[f"own/{W}"].flatten().tolist() == [3.0, 0.0]
    assert float(second.clients[f"own/{W}"][0]) == 4.40625


def test_ifca() -> None:
    """Models 0 and 6: client one loses 64 or 4, client two 0 or 144.

    Client one moves the second model to 6.5 and 6.875; client two leaves the first where it is.
    """
    problem, algorithm = task(), ifca(models=2)
    begun = initial_state(problem, algorithm, SETTINGS)
    begun = replace(begun, models={W: torch.tensor([[[0.0]], [[6.0]]], dtype=torch.float64)})
    state, _ = next(train(problem, algorithm, SETTINGS, begun))
    assert state.models[W].flatten().tolist() == [0.0, 6.875]


def test_local_only() -> None:
    """Client one: 3.5, then 8 - 4.5 * 9/16."""
    (first, record), (second, _) = rounds(local_only())
    assert first.clients[f"start/{W}"].flatten().tolist() == [3.5, 0.0]
    assert second.clients[f"start/{W}"].flatten().tolist() == [8 - 4.5 * 0.5625, 0.0]
    assert float(second.params[W]) == 0.0
    assert (record.bytes_up, record.bytes_down) == (0, 0)


def test_centralised() -> None:
    """The mean derivative is 5 w - 8: 0 -> 1 -> 1.375."""
    (state, record), _ = rounds(centralised())
    assert float(state.params[W]) == 1.375
    assert (record.clients, record.samples, record.bytes_up, record.bytes_down) == (
        ("all",),
        (2,),
        0,
        0,
    )


def test_median() -> None:
    assert models(median())[0] == 1.75


def test_trimmed_mean() -> None:
    """A trim of 0.4 of two clients removes none."""
    assert models(trimmed_mean(trim=0.4))[0] == 1.75


def test_krum() -> None:
    """The two updates are equally close to each other, so the first one wins."""
    (_, record), _ = rounds(krum(attackers=0))
    assert record.alpha == (1.0, 0.0)
    assert models(krum(attackers=0))[0] == 3.5


def test_multi_krum() -> None:
    assert models(multi_krum(attackers=0))[0] == 1.75
    assert models(multi_krum(attackers=0, keep=1))[0] == 3.5


def test_fltrust() -> None:
    """The server's rows are client one's, so its update has full trust.

    Client two's update is 0 and has no direction.
    """
    (_, record), _ = rounds(fltrust())
    assert record.alpha == (1.0, 0.0)
    assert models(fltrust())[0] == 3.5


def test_robust_scfa() -> None:
    """FLTrust gives client one all the weight; it violates one of two rules, so half is left."""

    def violation(params: Params) -> Tensor:
        broken = (params[W].flatten() > 1).double()
        return torch.stack([broken, torch.zeros_like(broken)], 1)

    problem = replace(task(), scorer=FunctionScorer(rows=rows(2), violation=violation))
    algorithm = robust_scfa(aggregate=TrustedMean(scored=True))
    assert models(algorithm, problem)[0] == pytest.approx(3.5 / 2)


def test_every_preset_is_worked_out_here() -> None:
    assert {name for name in CONTRACTS if f"test_{name}" in globals()} >= set(
        ALGORITHMS
    ) - WORKED_OUT_ELSEWHERE


WORKED_OUT_ELSEWHERE = {"pcfedavg", "fedstl"}
"""Algorithms with separate specifications and test files."""
