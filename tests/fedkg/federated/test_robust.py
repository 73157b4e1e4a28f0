"""Robust aggregates on hand-computed numbers and under attack; empty groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from algorithm_contracts import task
from federations import FunctionScorer, classes, identical, largest_difference, rows
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated import Algorithm, Problem, Settings, fedavg, initial_state, train
from fedkg.federated.algorithms import (
    fltrust,
    ifca,
    krum,
    median,
    multi_krum,
    robust_scfa,
    trimmed_mean,
)
from fedkg.federated.round_steps import AggregationRule
from fedkg.federated.server.optimisers import AdaptiveStep
from fedkg.federated.server.robust import Krum, TrimmedMean, TrustedMean
from fedkg.federated.server.weighted_mean import WeightedMean

F64 = torch.float64


def aggregated(
    aggregate: AggregationRule,
    updates: list[list[float]],
    server_update: list[float] | None = None,
    stacks: int = 1,
) -> list[float]:
    """The aggregate of the updates, which arrive in several stacks."""
    rows = torch.tensor(updates, dtype=F64)
    fold = aggregate.begin(
        {"w": torch.zeros(1, rows.shape[1], dtype=F64)},
        None if server_update is None else {"w": torch.tensor([server_update], dtype=F64)},
    )
    for part in rows.tensor_split(stacks):
        fold = aggregate.add(
            fold,
            {"w": part},
            torch.ones(len(part), dtype=F64),
            torch.zeros(len(part), dtype=torch.int64),
        )
    result: list[float] = aggregate.finish(fold)["w"][0].tolist()
    return result


@pytest.mark.parametrize("stacks", [1, 2])
@pytest.mark.parametrize(
    ("aggregate", "updates", "expected"),
    [
        (TrimmedMean(trim=0.5), [[1, 5], [9, -3], [2, 4]], [2, 4]),
        (TrimmedMean(trim=0.5), [[1, 5], [9, -3], [2, 4], [4, 0]], [3, 2]),
        (TrimmedMean(trim=0.25), [[1], [9], [2], [4]], [3]),
        (TrimmedMean(trim=0.2), [[1], [9], [2], [4], [5]], [11 / 3]),
        (TrimmedMean(trim=0.24), [[1], [9], [2], [4]], [4]),
        (Krum(attackers=1), [[0], [1], [1.5], [10]], [1]),
        (Krum(attackers=1, keep=2), [[0], [1], [1.5], [10]], [1.25]),
        (Krum(attackers=1, keep=None), [[0], [1], [1.5], [10]], [2.5 / 3]),
        (Krum(attackers=0), [[0, 0], [3, 4], [3, 5]], [3, 4]),
    ],
)
def test_by_hand(
    aggregate: AggregationRule, updates: list[list[float]], expected: list[float], stacks: int
) -> None:
    assert aggregated(aggregate, updates, stacks=stacks) == pytest.approx(expected)


def test_trust_by_hand() -> None:
    """Along the server's (1, 0).

    (2, 0) has trust 1 and is shortened; (3, 4) has trust 3/5 and length 1; updates orthogonal or
    opposed to it count nothing.
    """
    updates = [[2.0, 0.0], [3.0, 4.0], [0.0, 5.0], [-1.0, 0.0], [0.0, 0.0]]
    assert aggregated(TrustedMean(), updates, server_update=[1.0, 0.0], stacks=2) == pytest.approx(
        [1.36 / 1.6, 0.48 / 1.6]
    )
    assert aggregated(TrustedMean(), [[-1.0, 0.0]], server_update=[1.0, 0.0]) == [0.0, 0.0]
    assert aggregated(TrustedMean(), [[1.0, 0.0]], server_update=[0.0, 0.0]) == [0.0, 0.0]


VALUES = st.lists(st.lists(st.floats(-100, 100), min_size=2, max_size=2), min_size=1, max_size=9)


@given(VALUES)
def test_the_median_is_that_of_each_coordinate(values: list[list[float]]) -> None:
    columns = [sorted(column) for column in zip(*values, strict=True)]
    count = len(values)
    expected = [(column[(count - 1) // 2] + column[count // 2]) / 2 for column in columns]
    assert aggregated(TrimmedMean(trim=0.5), values) == pytest.approx(expected, abs=1e-12)


@given(VALUES, st.randoms(use_true_random=False), st.floats(0, 0.5))
def test_the_order_of_clients_does_not_matter_to_a_trimmed_mean(
    values: list[list[float]], random, trim: float
) -> None:
    shuffled = random.sample(values, len(values))
    assert aggregated(TrimmedMean(trim=trim), values) == pytest.approx(
        aggregated(TrimmedMean(trim=trim), shuffled), abs=1e-12
    )


@given(VALUES)
def test_robust_means_lie_within_the_values(values: list[list[float]]) -> None:
    for aggregate in (
        TrimmedMean(trim=0.5),
        TrimmedMean(trim=0.2),
        Krum(attackers=1),
        Krum(attackers=1, keep=None),
    ):
        for found, column in zip(
            aggregated(aggregate, values), zip(*values, strict=True), strict=True
        ):
            assert min(column) - 1e-9 <= found <= max(column) + 1e-9


@given(VALUES)
def test_distances_are_those_of_a_plain_loop(values: list[list[float]]) -> None:
    from fedkg.federated.server.robust import _squared_distances

    rows = torch.tensor(values, dtype=F64)
    expected = (rows.unsqueeze(0) - rows.unsqueeze(1)).square().sum(2)
    torch.testing.assert_close(
        _squared_distances({"a": rows[:, :1], "b": rows[:, 1:]}), expected, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("loud", [1e3, 1e8, 1e12, 1e30])
def test_a_huge_update_does_not_hide_another_corrupt_one(loud: float) -> None:
    """Two of seven are corrupt.

    One is huge; the other is slightly off and comes first, where ties would choose it.
    """
    honest = [[1.01, 1.0], [0.99, 1.0], [1.0, 1.0], [1.0, 1.01], [1.0, 0.99]]
    rows = torch.tensor([[3.0, 3.0], *honest, [loud, loud]], dtype=torch.float32)
    aggregate = Krum(attackers=2)
    fold = aggregate.begin({"w": torch.zeros(1, 2)})
    fold = aggregate.add(
        fold, {"w": rows}, torch.ones(7, dtype=F64), torch.zeros(7, dtype=torch.int64)
    )
    counted = aggregate.counted(fold)
    assert counted is not None
    assert counted.tolist() == [0, 0, 0, 1, 0, 0, 0]


@dataclass(frozen=True)
class Shouting:
    """A corrupt client: it reverses its update and makes it a hundred times as large."""

    corrupt: tuple[int, ...]
    population: int

    noisy = False

    def client(self, update: dict[str, Tensor], keys: Tensor) -> dict[str, Tensor]:
        scale = torch.tensor(
            [-100.0 if place in self.corrupt else 1.0 for place in range(self.population)],
            dtype=F64,
        )
        return {
            name: value * scale.view(-1, *[1] * (value.dim() - 1)) for name, value in update.items()
        }

    def server(self, update: dict[str, Tensor], key: Tensor) -> dict[str, Tensor]:
        return update


def attacked(algorithm: Algorithm, problem: Problem, corrupt: tuple[int, ...]) -> float:
    """The distance between the final model and FedAvg's without an attack."""
    settings = Settings(rounds=3, local_epochs=1, batch=6, learning_rate=0.1, executor="stacked")
    shouting = replace(algorithm, privacy=Shouting(corrupt, len(problem.clients.names)))
    *_, (state, _) = train(problem, shouting, settings)
    *_, (calm, _) = train(problem, fedavg(), settings)
    return largest_difference(state.models, calm.models)


@pytest.mark.parametrize(
    "algorithm",
    [median(), trimmed_mean(trim=0.2), krum(attackers=1), multi_krum(attackers=1), fltrust()],
    ids=lambda each: each.name,
)
def test_one_client_that_shouts_is_not_heard(algorithm: Algorithm) -> None:
    problem = task((12, 12, 12, 12, 12))
    assert attacked(algorithm, problem, corrupt=(2,)) < 0.3
    assert attacked(fedavg(), problem, corrupt=(2,)) > 1.0


@pytest.mark.parametrize("make", [fltrust, lambda: robust_scfa(aggregate=TrustedMean(scored=True))])
def test_updates_without_trust_leave_model_and_momentum_unchanged(
    make: Callable[[], Algorithm],
) -> None:
    """In the second round, the update is the server's, reversed."""
    satisfied = FunctionScorer(
        rows=rows(2), violation=lambda params: torch.zeros(len(next(iter(params.values()))), 2)
    )
    clients = classes((12,)).clients
    problem = replace(classes((12,)), scorer=satisfied, server_data=clients)
    algorithm = replace(make(), server=AdaptiveStep(memory="adam"))
    settings = Settings(rounds=1, local_steps=1, batch=12, learning_rate=0.1, executor="stacked")
    [(before, _)] = train(problem, algorithm, settings)
    opposed = replace(algorithm, privacy=Shouting((0,), 1))
    [(after, record)] = train(problem, opposed, replace(settings, rounds=2), before)
    assert record.notes == ("FLTrust trusts no update: the model is unchanged",)
    assert record.alpha == (0.0,)
    assert record.validity == (1.0,)
    assert identical(after.models, before.models)
    assert identical(after.joints["server"], before.joints["server"])


def test_fltrust_needs_rows_of_the_servers_own() -> None:
    with pytest.raises(JobError, match="no labelled rows to compare"):
        next(train(classes((5, 6)), fltrust(), Settings(rounds=1, local_epochs=1)))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TrimmedMean(trim=0.6), "0 .. 0.5"),
        (lambda: Krum(attackers=-1), "attackers"),
        (lambda: Krum(attackers=0, keep=0), "at least 1"),
        (lambda: AdaptiveStep(memory="adam", rate=0.0), "`rate` of the server's optimiser"),
        (lambda: AdaptiveStep(memory="adam", beta1=1.0), "beta1"),
        (lambda: AdaptiveStep(memory="adam", beta2=1.1), "beta2"),
        (lambda: AdaptiveStep(memory="adam", tau=0.0), "tau"),
        (lambda: AdaptiveStep(memory="adamw"), "adam, yogi, adagrad"),
        (lambda: ifca(models=0), "number of models at the server"),
    ],
)
def test_wrong_options_are_named(make, said: str) -> None:
    with pytest.raises(JobError, match=said):
        make()


def test_a_cluster_that_nobody_is_in_stands_still() -> None:
    """The server's momentum does not move it either."""
    problem, settings = (
        classes((9, 9, 9)),
        Settings(rounds=4, local_epochs=1, learning_rate=0.1, executor="stacked"),
    )
    algorithm = replace(ifca(models=2), server=AdaptiveStep(memory="adam"))
    start = initial_state(problem, algorithm, settings)
    far = {name: torch.stack([value[0], value[1] + 100]) for name, value in start.models.items()}
    *_, (state, _) = train(problem, algorithm, settings, replace(start, models=far))
    for name, value in state.models.items():
        assert torch.equal(value[1], far[name][1])
        assert not torch.equal(value[0], far[name][0])
        assert not bool(state.joints["server"][f"m/{name}"][1].any())


def test_the_weighted_mean_says_that_its_weights_count() -> None:
    assert WeightedMean().counted(WeightedMean().begin({"w": torch.zeros(1, 1)})) is None
