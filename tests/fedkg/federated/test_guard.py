"""Clients that send invalid updates are left out by name and do not affect the global model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import torch
from federations import classes, identical, largest_difference
from torch import Tensor

from fedkg.errors import TooFewClients
from fedkg.federated import (
    Clients,
    Problem,
    ServerState,
    Settings,
    fedavg,
    initial_state,
    scfa,
    train,
)
from fedkg.federated.executors import Sequential, Stacked, Updates, Work
from fedkg.federated.problem import pool
from fedkg.federated.round import run_round
from fedkg.federated.server import guard

SETTINGS = Settings(rounds=3, local_epochs=1, batch=8, learning_rate=0.1, executor="stacked")
SIZES = (11, 24, 7, 16)


def with_bad_data(value: float, client: int = 1) -> Problem:
    problem = classes(SIZES)
    xs = list(problem.clients.x)
    xs[client] = xs[client].clone()
    xs[client][3, 2] = value
    return replace(problem, clients=replace(problem.clients, x=tuple(xs)))


def without(problem: Problem, client: int) -> Problem:
    keep = [i for i in range(len(problem.clients.names)) if i != client]
    data = problem.clients
    return replace(
        problem,
        clients=Clients(
            names=tuple(data.names[i] for i in keep),
            x=tuple(data.x[i] for i in keep),
            y=tuple(data.y[i] for i in keep),
        ),
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_a_client_with_nan_in_its_data_is_named_and_the_others_train_on(
    value: float, executor: str
) -> None:
    settings = replace(SETTINGS, executor=executor)
    for state, record in train(with_bad_data(value), scfa(), settings):
        assert list(record.excluded) == ["site_1"]
        assert "NaN in layers.0.weight" in record.excluded["site_1"]
        assert record.alpha[1] == 0.0
        assert sum(record.alpha) == pytest.approx(1.0)
        assert record.train_loss == record.train_loss
        assert all(bool(torch.isfinite(tensor).all()) for tensor in state.params.values())


def test_the_model_is_the_one_the_others_would_have_made_without_it() -> None:
    """The last client is left out, so the others retain their positions and therefore their
    randomness.
    """
    *_, (state, _) = train(with_bad_data(float("nan"), client=3), fedavg(), SETTINGS)
    *_, (clean, _) = train(without(classes(SIZES), 3), fedavg(), SETTINGS)
    assert largest_difference(state.params, clean.params) < 1e-12


def test_a_diverged_client_is_named() -> None:
    problem = classes(SIZES, dtype=torch.float32)
    xs = list(problem.clients.x)
    xs[1] = xs[1] * 1e30
    _, record = next(
        train(replace(problem, clients=replace(problem.clients, x=tuple(xs))), fedavg(), SETTINGS)
    )
    assert list(record.excluded) == ["site_1"]
    assert not any("unchanged" in note for note in record.notes), "others train the common model"


@dataclass(frozen=True)
class Huge:
    """An executor with clients that all send updates near the largest number there is."""

    def train(
        self, work: Work, state: ServerState, clients: Tensor, *, limit: int | None = None
    ) -> Iterator[Updates]:
        for updates in Stacked(chunk=4).train(work, state, clients, limit=limit):
            yield replace(
                updates,
                update={
                    name: torch.full_like(value, 3e38) for name, value in updates.update.items()
                },
            )


def test_updates_that_overflow_together_leave_the_model_as_it_was() -> None:
    problem = classes(SIZES, dtype=torch.float32)
    work = Work(problem=problem, algorithm=fedavg(), settings=SETTINGS, pool=pool(problem.clients))
    start = initial_state(problem, fedavg(), SETTINGS)
    start = replace(
        start, models={name: torch.full_like(value, 3e38) for name, value in start.models.items()}
    )
    state, record = run_round(work, Huge(), start)
    assert identical(state.models, start.models)
    assert any("overflow" in note for note in record.notes)
    assert sum(record.alpha) == 0.0


def test_when_too_few_are_left_the_run_stops_with_the_reasons() -> None:
    with pytest.raises(TooFewClients) as caught:
        list(train(with_bad_data(float("nan")), fedavg(), replace(SETTINGS, min_clients=4)))
    assert caught.value.exit_code == 5
    assert "round 1" in str(caught.value)
    assert "3 of 4" in str(caught.value)
    assert "site_1: its update has NaN" in str(caught.value)


def test_when_nobody_is_left_the_run_stops() -> None:
    problem = classes(SIZES)
    broken = replace(
        problem,
        clients=replace(problem.clients, x=tuple(x * float("nan") for x in problem.clients.x)),
    )
    with pytest.raises(TooFewClients):
        list(train(broken, fedavg(), SETTINGS))


@dataclass(frozen=True)
class Tampering:
    """An executor with a man in the middle between clients and server."""

    def train(
        self, work: Work, state: ServerState, clients: Tensor, *, limit: int | None = None
    ) -> Iterator[Updates]:
        for updates in Sequential().train(work, state, clients, limit=limit):
            client = int(updates.clients[0])
            sent = {name: value[0] for name, value in updates.update.items()}
            if client == 0:
                sent["layers.0.weight"] = sent["layers.0.weight"].t()
            if client == 1:
                del sent["layers.1.bias"]
            if client == 2:
                sent["layers.0.bias"] = torch.full_like(sent["layers.0.bias"], float("inf"))
            like = {name: value[0] for name, value in updates.update.items()}
            kept, stack, rejected = guard.stack(like, [(client, sent)])
            rows = torch.arange(len(kept))
            yield replace(
                updates,
                clients=updates.clients[rows],
                groups=updates.groups[rows],
                loss=updates.loss[rows],
                start={name: value[rows] for name, value in updates.start.items()},
                update=stack,
                rejected=rejected,
            )


def test_wrong_shapes_missing_and_infinite_parameters_are_distinguished() -> None:
    problem = classes(SIZES)
    work = Work(problem=problem, algorithm=fedavg(), settings=SETTINGS, pool=pool(problem.clients))
    state, record = run_round(work, Tampering(), initial_state(problem, fedavg(), SETTINGS))
    assert record.excluded == {
        "site_0": "its update of layers.0.weight has shape [6, 7] instead of [7, 6]",
        "site_1": "its update lacks layers.1.bias",
        "site_2": "its update has infinite values in layers.0.bias (7 of 7 values)",
    }
    assert record.alpha == (0.0, 0.0, 0.0, 1.0)
    assert all(bool(torch.isfinite(value).all()) for value in state.params.values())


def test_stacking_of_single_updates() -> None:
    like = {"w": torch.zeros(2, 3)}
    good = {"w": torch.ones(2, 3)}
    cases = [
        ({"w": torch.ones(3, 2)}, "shape [3, 2] instead of [2, 3]"),
        ({}, "lacks w"),
        ({**good, "v": torch.ones(1)}, "unknown parameters v"),
        ({"w": torch.ones(2, 3, dtype=torch.int64)}, "torch.int64 instead of torch.float32"),
    ]
    kept, stack, rejected = guard.stack(
        like, [(7, good), *((i, update) for i, (update, _) in enumerate(cases))]
    )
    assert kept == (7,)
    assert stack["w"].shape == (1, 2, 3)
    assert all(said in rejected[i] for i, (_, said) in enumerate(cases))
    none, empty, _ = guard.stack(like, [(0, {})])
    assert none == ()
    assert empty["w"].shape == (0, 2, 3)


def test_a_huge_but_finite_update_is_no_offence() -> None:
    values = torch.full((1, 4), 3e38)
    updates = Updates(
        clients=torch.tensor([0]),
        groups=torch.tensor([0]),
        start={"w": values},
        update={"w": values},
        loss=torch.zeros(1),
    )
    assert guard.usable(updates).rejected == {}


def test_guarded_updates_of_both_executors_agree() -> None:
    problem = with_bad_data(float("nan"))
    work = Work(problem=problem, algorithm=fedavg(), settings=SETTINGS, pool=pool(problem.clients))
    start = initial_state(problem, fedavg(), SETTINGS)
    one, _ = run_round(work, Sequential(), start)
    other, _ = run_round(work, Stacked(chunk=3), start)
    assert largest_difference(one.params, other.params) < 1e-12
    assert not identical(one.params, start.params)
