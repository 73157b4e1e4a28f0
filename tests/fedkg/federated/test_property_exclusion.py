"""Exclusion of clients with outlying mined properties, against a plain loop."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from federations import identical
from forecasts import properties, task
from hypothesis import given
from hypothesis import strategies as st

from fedkg.errors import JobError
from fedkg.federated import (
    Algorithm,
    Clients,
    Problem,
    Settings,
    fedavg,
    initial_state,
    scfa,
    train,
)
from fedkg.federated.algorithms import fltrust, krum, median, pcfedavg
from fedkg.federated.privacy.protected_algorithm import Protection, protected
from fedkg.federated.temporal.outlying_property_exclusion import PropertyExclusion, robust_scores

SETTINGS = Settings(rounds=2, local_epochs=1, batch=8, learning_rate=1e-4, executor="stacked")
LEVELS = (0.0, 0.3, -0.2, 40.0, 0.1, -0.4)
"""The fourth site has its signal in another unit."""


def plain_scores(values: list[float]) -> list[float]:
    """Robust z-scores from the definition alone."""
    middle = statistics.median(values)
    away = [abs(value - middle) for value in values]
    spread = 1.482602 * statistics.median(away) or 1.253314 * statistics.mean(away)
    return [one / spread if spread else 0.0 for one in away]


@given(st.lists(st.integers(-20, 20).map(float), min_size=3, max_size=12), st.integers(0, 3))
def test_scores_are_those_of_a_plain_loop(values: list[float], unknown: int) -> None:
    """Values that are not known have no score and change no other one."""
    own = torch.tensor([*values, *[math.nan] * unknown], dtype=torch.float64)
    found = robust_scores(own)
    assert found[: len(values)].tolist() == pytest.approx(plain_scores(values))
    assert bool(found[len(values) :].isnan().all())


def exclusion(problem: Problem, **options: object) -> PropertyExclusion:
    return PropertyExclusion(properties=properties(problem).own, **options)


def test_a_site_in_another_unit_takes_part_in_no_round() -> None:
    """The training is that of the other sites alone."""
    problem, _ = task(LEVELS)
    rule = exclusion(problem)
    values = torch.cat(list(rule.properties.values), 1)
    expected = {
        client
        for column in values.T.tolist()
        for client, score in enumerate(plain_scores(column))
        if score > 3.5
    }
    assert expected == {3}
    rounds = list(train(problem, replace(fedavg(), exclusion=rule), SETTINGS))
    for _, record in rounds:
        assert record.clients == problem.clients.names
        assert record.alpha[3] == 0
        assert set(record.excluded) == {"road_3"}
        assert "robust z-score" in record.excluded["road_3"]
        assert "check the client's units" in record.excluded["road_3"]
    assert not any("excludes nobody" in note for note in rounds[0][1].notes)
    others = [place for place in range(len(LEVELS)) if place != 3]
    total = sum(problem.clients.samples[place] for place in others)
    for place in others:
        assert rounds[0][1].alpha[place] == pytest.approx(problem.clients.samples[place] / total)


def test_a_higher_threshold_excludes_nobody() -> None:
    problem, _ = task(LEVELS)
    loose = replace(fedavg(), exclusion=exclusion(problem, threshold=1e9))
    for (state, record), (expected, _) in zip(
        train(problem, loose, SETTINGS), train(problem, fedavg(), SETTINGS), strict=True
    ):
        assert not record.excluded
        assert identical(state.models, expected.models)


def test_few_sites_exclude_nobody_and_say_so() -> None:
    problem, _ = task((0.0, 0.3, 40.0, 0.1))
    algorithm = replace(fedavg(), exclusion=exclusion(problem))
    (_, first), (_, second) = train(problem, algorithm, SETTINGS)
    assert not first.excluded
    assert any("4 clients have a value, and the comparison needs 5" in one for one in first.notes)
    assert second.notes == ()


@pytest.mark.parametrize("make", [fedavg, median, fltrust, lambda: scfa(on_all_invalid="error")])
def test_a_round_of_excluded_clients_alone_changes_nothing(make: Callable[[], Algorithm]) -> None:
    problem, _ = task(LEVELS)
    problem = replace(problem, server_data=problem.clients.only("road_0"))
    algorithm = replace(make(), exclusion=exclusion(problem))
    few = replace(SETTINGS, rounds=12, participation=0.1)
    before = initial_state(problem, algorithm, few).models
    empty = []
    for state, record in train(problem, algorithm, few):
        empty.append(record.clients == ("road_3",))
        assert any("every sampled client is excluded" in note for note in record.notes) == empty[-1]
        assert identical(state.models, before) == empty[-1]
        before = state.models
    assert any(empty)
    assert not all(empty)


def test_privacy_of_samples_needs_private_mining_and_of_clients_has_none() -> None:
    problem, _ = task(LEVELS)
    algorithm = replace(fedavg(), exclusion=exclusion(problem))
    for unit, said in (("example", "mined without noise"), ("client", "no bound")):
        promise = Protection(unit=unit, clip=1.0, delta=1e-3, noise=1.0)
        private = protected(algorithm, promise, problem.clients.samples, SETTINGS)
        with pytest.raises(JobError, match=said):
            next(train(problem, private, SETTINGS))


def test_agents_are_all_needed() -> None:
    problem, _ = task(LEVELS)
    with pytest.raises(JobError, match="need all clients in every round"):
        next(train(problem, replace(pcfedavg(), exclusion=exclusion(problem)), SETTINGS))


@pytest.mark.parametrize("options", [{"threshold": 0.0}, {"least": 2}])
def test_wrong_options_are_named(options: dict[str, object]) -> None:
    problem, _ = task(LEVELS)
    with pytest.raises(JobError, match=next(iter(options))):
        exclusion(problem, **options)


def test_properties_of_other_clients_are_rejected() -> None:
    problem, _ = task(LEVELS)
    fewer = replace(
        problem,
        clients=Clients(
            names=problem.clients.names[:5], x=problem.clients.x[:5], y=problem.clients.y[:5]
        ),
    )
    with pytest.raises(JobError, match="other clients than the data"):
        next(train(fewer, replace(fedavg(), exclusion=exclusion(problem)), SETTINGS))


@pytest.mark.parametrize(("attackers", "kept"), [(1, False), (2, True)])
def test_krum_counts_again_after_an_exclusion(attackers: int, kept: bool) -> None:
    """Seven sites are enough for two attackers.

    Six, without the outlier, which may be honest, are enough for one only.
    """
    problem, _ = task((*LEVELS, 0.2))
    algorithm = replace(krum(attackers=attackers), exclusion=exclusion(problem))
    before = None
    for state, record in train(problem, algorithm, SETTINGS):
        assert any("the model is unchanged" in note for note in record.notes) == kept
        assert (sum(record.alpha) == 0) == kept
        assert before is None or identical(state.models, before) == kept
        before = state.models
