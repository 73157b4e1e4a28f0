"""Updates whose models answer differently from the others, against plain loops."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace

import pytest
import torch
from federations import largest_difference
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fedkg.errors import JobError, TooFewClients
from fedkg.federated import (
    BinaryCrossEntropy,
    Clients,
    Problem,
    Settings,
    SquaredError,
    fedavg,
    train,
)
from fedkg.federated.algorithms import fedrep, ifca, krum, multi_krum, pcfedavg
from fedkg.federated.attacks import Attack
from fedkg.federated.privacy.protected_algorithm import Protection, protected
from fedkg.federated.server.prediction_outlier_exclusion import AnswerExclusion
from fedkg.federated.server.scoring import Weighed
from fedkg.models import MLP, Params

SIZES = (14, 9, 22, 5, 17, 11, 8)
SETTINGS = Settings(
    rounds=3, participation=1.0, local_epochs=2, batch=8, learning_rate=0.1, executor="stacked"
)
Answers = list[list[float]]


def plain_outliers(answers: Answers, threshold: float = 3.5) -> set[int]:
    """The definition, in loops over pairs of updates and answers."""

    def apart(one: list[float], other: list[float]) -> float:
        return statistics.fmean(abs(a - b) for a, b in zip(one, other, strict=True))

    away = [
        statistics.median(apart(one, other) for i, other in enumerate(answers) if i != place)
        for place, one in enumerate(answers)
    ]
    middle = statistics.median(away)
    deviation = statistics.median(abs(distance - middle) for distance in away)
    spread = max(1.482602 * deviation, 0.05)
    return {
        place for place, distance in enumerate(away) if (distance - middle) / spread > threshold
    }


@dataclass(frozen=True)
class Constants:
    """A model that answers its parameters, whatever the input."""

    def apply(self, params: Params, x: Tensor) -> Tensor:
        return params["w"].unsqueeze(1).expand(-1, len(x), -1)


@given(
    st.lists(st.lists(st.floats(-2, 2), min_size=3, max_size=3), min_size=5, max_size=40),
    st.sampled_from([1.0, 3.5]),
)
def test_outliers_are_those_of_plain_loops(values: Answers, threshold: float) -> None:
    """Of more models than answer at the same time, too."""
    rows = torch.zeros(4, 1, dtype=torch.float64)
    data = Clients(names=("server",), x=(rows,), y=(torch.zeros(4, 3, dtype=torch.float64),))
    problem = Problem(model=Constants(), loss=SquaredError(), clients=data, server_data=data)
    params = {"w": torch.tensor(values, dtype=torch.float64)}
    found = AnswerExclusion(threshold=threshold).outliers(problem, params)
    assert set(found) == plain_outliers(values, threshold)


def detection(attack: Attack | None = None) -> Problem:
    """Seven sites of unequal size and 500 rows of the server, of which it uses every third."""
    generator = torch.Generator().manual_seed(3)
    xs = tuple(
        torch.randn(size, 3, generator=generator, dtype=torch.float64) for size in (*SIZES, 500)
    )
    ys = tuple((x[:, 0] > 0).double() for x in xs)
    return Problem(
        model=MLP(inputs=3, hidden=(6,), outputs=1),
        loss=BinaryCrossEntropy(),
        clients=Clients(names=tuple(f"site_{i}" for i in range(len(SIZES))), x=xs[:-1], y=ys[:-1]),
        server_data=Clients(names=("server",), x=xs[-1:], y=ys[-1:]),
        attack=attack,
    )


ATTACK = Attack(kind="constant_model", clients=("site_1", "site_4"))


def without(problem: Problem, places: set[int]) -> Problem:
    data = problem.clients
    kept = [place for place in range(len(data.names)) if place not in places]
    clients = Clients(
        names=tuple(data.names[k] for k in kept),
        x=tuple(data.x[k] for k in kept),
        y=tuple(data.y[k] for k in kept),
    )
    return replace(problem, clients=clients)


def test_constant_models_are_left_out_and_the_training_is_that_of_the_others() -> None:
    """In one round, because the minibatches of a client depend on its position."""
    algorithm = replace(fedavg(), exclusion=AnswerExclusion())
    settings = replace(SETTINGS, batch=100, local_epochs=1)
    found = list(train(detection(ATTACK), algorithm, settings))
    for _, record in found:
        assert set(record.excluded) == {"site_1", "site_4"} == set(record.attackers)
        assert all("its answers are outliers" in one for one in record.excluded.values())
        assert record.alpha[1] == record.alpha[4] == 0
    expected = list(train(without(detection(), {1, 4}), fedavg(), settings))
    for (state, record), (same, was) in zip(found, expected, strict=True):
        assert [one for one in record.alpha if one] == pytest.approx(list(was.alpha))
        for name, value in same.models.items():
            torch.testing.assert_close(state.models[name], value)


@dataclass(frozen=True)
class OnlyOne:
    """Gives all weight to the client with this share of the samples, to see its update."""

    share: float
    on_all_invalid = "skip"
    needs_scores = False

    def weigh(self, samples: Tensor, scores: object, rows: object) -> Weighed:
        return Weighed(((samples - self.share).abs() < 1e-9).double(), None)


def test_who_is_left_out_follows_from_the_answers_of_each_update() -> None:
    """The answers of each update are those of the global model if only this client counts."""
    problem, settings = detection(ATTACK), replace(SETTINGS, rounds=1)
    assert problem.server_data is not None
    answers = []
    for size in SIZES:
        algorithm = replace(fedavg(), weighting=OnlyOne(size / sum(SIZES)))
        [(state, _)] = train(problem, algorithm, settings)
        raw = problem.model.apply(state.models, problem.server_data.x[0][::3])[0, :, 0]
        answers.append([1 / (1 + math.exp(-one)) for one in raw.tolist()])
    expected = plain_outliers(answers)
    assert expected >= {1, 4}
    [(_, record)] = train(problem, replace(fedavg(), exclusion=AnswerExclusion()), settings)
    assert set(record.excluded) == {f"site_{place}" for place in expected}


@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_all_executors_leave_out_the_same(executor: str) -> None:
    algorithm = replace(multi_krum(attackers=1), exclusion=AnswerExclusion())
    settings = replace(SETTINGS, executor=executor, chunk=2)
    same = list(train(detection(ATTACK), algorithm, SETTINGS))
    for (_, record), (_, expected) in zip(
        train(detection(ATTACK), algorithm, settings), same, strict=True
    ):
        assert record.excluded.keys() == expected.excluded.keys()
        assert record.alpha == pytest.approx(expected.alpha)


def test_nobody_is_left_out_of_equal_updates_or_of_few() -> None:
    loose = replace(fedavg(), exclusion=AnswerExclusion(threshold=1e9))
    few = replace(fedavg(), exclusion=AnswerExclusion(least=8))
    for algorithm in (loose, few):
        for (state, record), (expected, _) in zip(
            train(detection(ATTACK), algorithm, SETTINGS),
            train(detection(ATTACK), fedavg(), SETTINGS),
            strict=True,
        ):
            assert not record.excluded
            assert largest_difference(state.models, expected.models) < 1e-12
    equal = {
        name: value.repeat(9, *[1] * (value.dim() - 1)) for name, value in state.models.items()
    }
    assert not AnswerExclusion().outliers(detection(), equal)


@pytest.mark.parametrize(("attackers", "kept"), [(1, False), (2, True)])
def test_krum_counts_again_after_outliers(attackers: int, kept: bool) -> None:
    """Five updates are left of seven, enough for one attacker.

    Those that were left out may be honest, so that the attackers may all be among the rest.
    """
    for make in (krum, multi_krum):
        algorithm = replace(make(attackers=attackers), exclusion=AnswerExclusion())
        [(_, record)] = train(detection(ATTACK), algorithm, replace(SETTINGS, rounds=1))
        assert set(record.excluded) == {"site_1", "site_4"}
        assert any("the model is unchanged" in note for note in record.notes) == kept
        assert (sum(record.alpha) == 0) == kept


def test_too_few_clients_are_an_error_with_the_reason() -> None:
    algorithm = replace(fedavg(), exclusion=AnswerExclusion())
    with pytest.raises(TooFewClients, match="site_1: its answers are outliers"):
        list(train(detection(ATTACK), algorithm, replace(SETTINGS, min_clients=6)))


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [
        (pcfedavg(), "need all clients"),
        (ifca(models=2), "different clusters"),
        (fedrep(private=("layers.1.",)), "whole models"),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_algorithms_without_comparable_updates_are_rejected(algorithm, said: str) -> None:
    with pytest.raises(JobError, match=said):
        next(train(detection(), replace(algorithm, exclusion=AnswerExclusion()), SETTINGS))


def test_it_needs_rows_of_the_server_and_no_privacy_of_clients() -> None:
    algorithm = replace(fedavg(), exclusion=AnswerExclusion())
    with pytest.raises(JobError, match="has no rows on which it can compare"):
        next(train(replace(detection(), server_data=None), algorithm, SETTINGS))
    promise = Protection(unit="client", clip=1.0, delta=1e-3, noise=1.0)
    private = protected(algorithm, promise, detection().clients.samples, SETTINGS)
    with pytest.raises(JobError, match="no bound"):
        next(train(detection(), private, SETTINGS))


@pytest.mark.parametrize("options", [{"threshold": 0.0}, {"least": 2}])
def test_wrong_options_are_named(options: dict[str, float]) -> None:
    with pytest.raises(JobError, match=next(iter(options))):
        AnswerExclusion(**options)
