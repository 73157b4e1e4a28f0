"""Ownership of data and state.

The server's rows belong to no client, private layers only to their client, models and seeds have
one owner each.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
import torch
from algorithm_contracts import task
from federations import classes, identical
from hypothesis import given
from hypothesis import strategies as st

from fedkg.errors import JobError
from fedkg.federated import Algorithm, Problem, Settings, fedavg, initial_state, train
from fedkg.federated.algorithms import ditto, fedrep, fltrust, ifca
from fedkg.federated.client.proximal import Proximal
from fedkg.federated.client.start_points import PrivateLayers
from fedkg.federated.client_axis_broadcasting import per_client
from fedkg.federated.pcfedavg.agent_sets import sets_of
from fedkg.federated.pcfedavg.penalty import PenaltySchedule, SetPenalty
from fedkg.federated.randomness import model_seed, server_seed
from fedkg.federated.round_steps import OfClients
from fedkg.federated.server.robust import Trusted, TrustedMean
from fedkg.federated.temporal.teacher_loss import TeacherLoss
from fedkg.models import Params, TorchModule, match_parameters
from fedkg.projection import Box

SETTINGS = Settings(rounds=2, local_epochs=1, batch=4, learning_rate=0.1, executor="stacked")


@dataclass(frozen=True)
class Noting(TrustedMean):
    """Records the updates that the server made."""

    updates: list[Params] = field(default_factory=list)

    def begin(self, models: Params, server_update: Params | None) -> Trusted:
        assert server_update is not None
        self.updates.append(server_update)
        return TrustedMean.begin(self, models, server_update)


def first_server_update(algorithm: Algorithm, problem: Problem, executor: str) -> Params:
    """The server's own update of the first round."""
    noting = Noting()
    next(train(problem, replace(algorithm, aggregate=noting), replace(SETTINGS, executor=executor)))
    return noting.updates[0]


@pytest.mark.parametrize("executor", ["stacked", "sequential"])
def test_no_clients_set_holds_the_servers_own_update(executor: str) -> None:
    problem = task((12, 12, 12))
    plain = first_server_update(fltrust(), problem, executor)
    sets = sets_of([Box(5.0, 6.0), Box(-1.0, 1.0), Box(-1.0, 1.0)])
    held = fltrust().with_terms(SetPenalty(sets=sets, schedule=PenaltySchedule(first=10.0)))
    assert identical(first_server_update(held, problem, executor), plain)


def test_terms_that_ask_for_something_of_the_clients_own_say_so() -> None:
    assert issubclass(SetPenalty, OfClients)
    assert issubclass(TeacherLoss, OfClients)
    assert not issubclass(Proximal, OfClients)


def test_the_servers_minibatches_are_not_those_of_the_first_client() -> None:
    """Both have the same rows in a different order, so the updates differ."""
    problem = task((12, 12))
    same = replace(
        problem,
        server_data=replace(
            problem.clients, names=("server",), x=problem.clients.x[:1], y=problem.clients.y[:1]
        ),
    )
    own = first_server_update(fltrust(), same, "sequential")
    alone = replace(
        problem,
        clients=replace(
            problem.clients, names=("a",), x=problem.clients.x[:1], y=problem.clients.y[:1]
        ),
    )
    begun = initial_state(alone, fedavg(), SETTINGS)
    state, _ = next(train(alone, fedavg(), replace(SETTINGS, executor="sequential")))
    first = {name: state.models[name] - begun.models[name] for name in own}
    assert not identical(own, first)


@given(st.integers(0, 1000), st.integers(0, 5))
def test_models_of_neighbouring_seeds_have_no_seed_in_common(seed: int, distance: int) -> None:
    """The server's random draws differ as well."""
    mine = {model_seed(seed, place) for place in range(6)} | {server_seed(seed)}
    theirs = {model_seed(seed + distance, place) for place in range(6)} | {
        server_seed(seed + distance)
    }
    assert len(mine) == 7
    assert len(mine & theirs) == (7 if distance == 0 else 0)


def test_the_clusters_of_one_seed_are_not_those_of_the_next() -> None:
    problem = classes((5, 6))
    models = [
        initial_state(problem, ifca(models=3), replace(SETTINGS, seed=seed)).models[
            "layers.0.weight"
        ]
        for seed in (0, 1)
    ]
    every = torch.cat(models)
    apart = (every.unsqueeze(0) - every.unsqueeze(1)).abs().flatten(2).amax(2)
    assert float((apart + torch.eye(6, dtype=apart.dtype)).min()) > 0.01


HEAD = ("layers.2.",)


@pytest.mark.parametrize("executor", ["stacked", "sequential"])
@pytest.mark.parametrize(("first", "pulled"), [(1.0, False), (0.0, True)])
def test_proximal_terms_leave_private_layers_alone(
    executor: str, first: float, pulled: bool
) -> None:
    """Steps on private layers alone are the same with them, to the bit; other steps are not."""
    problem, settings = classes((14, 9, 22)), replace(SETTINGS, executor=executor)
    plain = fedrep(private=HEAD, first=first)
    *_, (before, _) = train(problem, plain, settings)
    *_, (after, _) = train(problem, plain.with_terms(Proximal(strength=2.0)), settings)
    assert identical(before.clients, after.clients)
    assert identical(before.models, after.models) is not pulled


def test_a_model_beside_is_pulled_to_what_was_received_alone() -> None:
    problem = classes((14, 9))
    algorithm = ditto(strength=2.0, common=PrivateLayers(private=HEAD))
    free = ditto(strength=0.0, common=PrivateLayers(private=HEAD))
    heads = {}
    for name, one in (("pulled", algorithm), ("free", free)):
        state, _ = next(train(problem, one, replace(SETTINGS, local_epochs=None, local_steps=2)))
        heads[name] = {key: value for key, value in state.clients.items() if key.startswith("own/")}
    assert not identical(heads["pulled"], heads["free"])
    assert algorithm.beside is not None
    from fedkg.federated.executors import Work
    from fedkg.federated.problem import pool

    work = Work(
        problem=problem, algorithm=algorithm.beside, settings=SETTINGS, pool=pool(problem.clients)
    )
    point = algorithm.beside.start.place_clients(
        work, initial_state(problem, algorithm, SETTINGS), torch.arange(2)
    )
    assert set(point.variables) - set(point.pull) == {"layers.2.weight", "layers.2.bias"}


class Alike(torch.nn.Module):
    """Layers with names that are prefixes of each other."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.a_b = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.a_b(self.a(x))
        return answer


@pytest.mark.parametrize("head", ["a", "a."])
def test_a_name_is_not_taken_for_the_beginning_of_another(head: str) -> None:
    model = TorchModule(build=Alike, sample=(3,), head=(head,))
    assert model.parts == {"body": ("a_b.weight", "a_b.bias"), "head": (head,)}
    assert match_parameters(("a",), model.init(0)) == ("a.weight", "a.bias")
    assert match_parameters(("layers.2",), ("layers.2.bias", "layers.20.bias")) == (
        "layers.2.bias",
    )
    with pytest.raises(JobError, match="a name that begins with"):
        TorchModule(build=Alike, sample=(3,), head=("a_",))


def test_numbers_of_clients_take_the_type_of_what_they_are_laid_against() -> None:
    like = torch.ones(3, 2, 4, dtype=torch.float32)
    factor = per_client(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), like)
    assert (factor.dtype, tuple(factor.shape)) == (torch.float32, (3, 1, 1))
    assert per_client(torch.tensor([True, False, True]), like).dtype == torch.bool
