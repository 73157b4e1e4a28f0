"""Edges for the graph, and the reach of a disturbance."""

from __future__ import annotations

import numpy as np
import pytest
from plants import clients_of, setting_s

from fedkg import ontologies
from fedkg.granger.edge_significance import p_values
from fedkg.granger.effects import edges, effect_horizons
from fedkg.granger.learn import Learnt, learn
from fedkg.granger.moments import series_of
from fedkg.granger.synthetic_systems import System
from fedkg.learned_knowledge_records import LearnedKnowledge


def _chain(count: int) -> tuple[System, Learnt]:
    """A chain of clients with one state.

    Each retains 0.45 of its state and adds 0.4 of the previous client's.
    """
    transition = 0.45 * np.eye(count) + 0.4 * np.eye(count, k=-1)
    system = System(
        transition=transition,
        emissions=(np.ones((2, 1)),) * count,
        process=np.eye(count),
        noise=0.1,
    )
    causes = 0.4 * np.eye(count, k=-1)
    return system, Learnt(
        causes=causes, augmentations=(), client_loss=np.zeros(1), server_loss=np.zeros(1)
    )


def test_a_disturbance_goes_down_the_row() -> None:
    """k-th power of the row, entry d steps down: binomial(k, d) 0.45^(k - d) 0.4^d."""
    system, found = _chain(4)
    series = series_of(clients_of(system, steps=10, seed=0))
    reached = effect_horizons(series, found, 1)
    assert [one.client for one in reached] == ["client 3", "client 4"]
    first, second = reached
    assert (first.first, first.peak, first.size) == (1, 1, pytest.approx(0.4))
    assert (second.first, second.peak, second.size) == (2, 3, pytest.approx(3 * 0.45 * 0.16))
    assert effect_horizons(series, found, 3) == ()
    assert len(effect_horizons(series, found, 0, least=0.05)) == 3


def test_edges_are_the_strongest_first_and_keep_to_the_prior() -> None:
    _, series = setting_s(0, 800)
    found = learn(series, epochs=4)
    made = edges(series, found, p_values(series, shifts=19))
    assert [(edge.driver, edge.driven) for edge in made] == [
        ("client 1", "client 2"),
        ("client 2", "client 1"),
    ]
    assert made[0].strength > made[1].strength
    assert made[0].p_value == pytest.approx(0.05)
    held = series_of(series.clients, np.array([[True, False], [True, True]]))
    assert len(edges(held, learn(held, epochs=1))) == 1


def test_what_is_learnt_is_proposed_as_a_cause() -> None:
    _, series = setting_s(0, 800)
    found = edges(series, learn(series, epochs=4), p_values(series, shifts=39))
    learned = LearnedKnowledge(
        run="1",
        title="two",
        software="fedkg",
        began="2026-01-31T12:00:00Z",
        step=600.0,
        edges=found,
    )
    assert "fkg:lagSeconds" in ontologies.format_learned_graph(learned)
    text = ontologies.propose_rules([learned]).text
    assert "client 1 drives client 2" in text
    assert "allow ?a drives ?b" in text
