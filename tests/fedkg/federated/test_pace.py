"""Clients with individual rates, epochs or minibatches.

Executors agree, a client trains as if all were like it, and wrong settings are rejected.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from algorithm_contracts import CONTRACTS, made, settings_for, task
from federations import classes, identical, largest_difference

from fedkg.errors import JobError
from fedkg.federated import (
    Algorithm,
    Own,
    Problem,
    ServerState,
    Settings,
    fedavg,
    initial_state,
    to_tensors,
    train,
)
from fedkg.federated.client.optimisers import SGD, Adam
from fedkg.federated.client.per_client_settings import rate_for, steps_for
from fedkg.federated.executors import Stacked, Work
from fedkg.federated.problem import pool

OWN = {
    "site_0": Own(learning_rate=0.02),
    "site_1": Own(local_epochs=5),
    "site_2": Own(batch=3, local_epochs=1),
    "site_4": Own(learning_rate=0.3, batch=50),
}
REFUSED = {"pcfedavg", "centralised", "scaffnew"}


def end(problem: Problem, algorithm: Algorithm, settings: Settings) -> ServerState:
    *_, (state, _) = train(problem, algorithm, settings)
    return state


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CONTRACTS.keys() - REFUSED))
def test_executors_agree_on_clients_of_different_pace(name: str) -> None:
    settings = settings_for(name, own=OWN, schedule="cosine")
    if settings.local_epochs is None:
        settings = replace(
            settings, own={name: replace(one, local_epochs=None) for name, one in OWN.items()}
        )
    one = end(task(), made(name), replace(settings, executor="sequential"))
    for chunk in (None, 2):
        other = end(task(), made(name), replace(settings, executor="stacked", chunk=chunk))
        assert largest_difference(to_tensors(one)[0], to_tensors(other)[0]) < 1e-11
    if CONTRACTS[name].sends:
        common = end(task(), made(name), replace(settings, own={}, executor="stacked"))
        assert largest_difference(one.models, common.models) > 1e-4


@pytest.mark.parametrize("local", [SGD(momentum=0.9, weight_decay=0.1), Adam()])
def test_a_client_trains_as_it_would_if_all_were_like_it(local: SGD | Adam) -> None:
    problem = classes((14, 9, 22, 5, 17))
    algorithm = replace(fedavg(), local=local)
    settings = Settings(rounds=1, local_epochs=2, batch=8, learning_rate=0.1, own=OWN)
    everybody = torch.arange(5)

    def updates(how: Settings) -> dict[int, torch.Tensor]:
        work = Work(problem=problem, algorithm=algorithm, settings=how, pool=pool(problem.clients))
        [found] = Stacked(chunk=5).train(work, initial_state(problem, algorithm, how), everybody)
        return {
            client: found.update["layers.1.weight"][place]
            for place, client in enumerate(found.clients.tolist())
        }

    mixed = updates(settings)
    for client in range(5):
        own = OWN.get(f"site_{client}", Own())
        alike = replace(
            settings,
            own={},
            learning_rate=own.learning_rate or 0.1,
            local_epochs=own.local_epochs or 2,
            batch=own.batch or 8,
        )
        torch.testing.assert_close(mixed[client], updates(alike)[client], rtol=1e-11, atol=1e-13)


def test_numbers_of_clients_and_the_schedule_of_all() -> None:
    problem = classes((14, 9, 22, 5, 17))
    settings = Settings(
        rounds=4, local_epochs=2, batch=8, learning_rate=0.1, schedule="cosine", own=OWN
    )
    work = Work(problem=problem, algorithm=fedavg(), settings=settings, pool=pool(problem.clients))
    assert steps_for(work, torch.arange(5)).tolist() == [4, 10, 8, 2, 2]
    assert steps_for(work, torch.tensor([2, 1]), limit=9).tolist() == [8, 9]
    rate = rate_for(work, 3, torch.tensor([4, 3]))
    assert isinstance(rate, torch.Tensor)
    assert rate.tolist() == pytest.approx([0.15, 0.05])
    assert rate_for(
        replace(work, settings=replace(settings, own={})), 3, torch.arange(5)
    ) == pytest.approx(0.05)


def test_what_says_nothing_changes_no_bit() -> None:
    settings = settings_for("fedavg", executor="stacked")
    assert identical(
        end(task(), fedavg(), settings).models,
        end(task(), fedavg(), replace(settings, own={})).models,
    )


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("fedavg", {"own": {"site_9": Own(batch=3)}}, "a client that does not exist: site_9"),
        ("pcfedavg", {"own": OWN}, "PC-FedAvg sets the steps of all agents together"),
        (
            "scaffnew",
            {"own": {"site_0": Own(learning_rate=0.02)}},
            "Scaffnew's variates cancel only if all clients have the same",
        ),
        ("centralised", {"own": OWN}, "trains on all samples in one place"),
        (
            "fedavg",
            {"own": OWN, "local_epochs": None, "local_steps": 5},
            "remove `local_epochs` of single clients",
        ),
    ],
)
def test_what_counts_on_equal_clients_refuses(
    name: str, changes: dict[str, object], said: str
) -> None:
    with pytest.raises(JobError, match=said):
        next(train(task(), made(name), settings_for(name, **changes)))


@pytest.mark.parametrize("fields", [{"batch": 0}, {"local_epochs": -1}, {"learning_rate": 0.0}])
def test_wrong_numbers_are_rejected(fields: dict[str, float]) -> None:
    with pytest.raises(JobError, match=next(iter(fields))):
        Own(**fields)  # type: ignore[arg-type]
