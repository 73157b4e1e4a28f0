"""Networks in place of the linear augmentation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from plants import clients_of, setting_s

from fedkg.errors import UsageError
from fedkg.granger.learn import Rates, at_rest, learn, losses_of
from fedkg.granger.moments import Series, moments, series_of
from fedkg.granger.neural_augmentation import client_losses, learn_bent
from fedkg.granger.synthetic_systems import two_clients
from fedkg.granger.time_varying_causes import cut


def _folded(steps: int = 1200) -> Series:
    """Setting S with sine dynamics of client 2, which it assumes to be linear."""
    system, stream = two_clients(seed=0, slow=0.9), np.random.default_rng(2)
    states = np.zeros((steps, 4))
    for t in range(1, steps):
        push = np.sqrt(np.diag(system.process)) * stream.standard_normal(4)
        states[t, :2] = 0.9 * states[t - 1, :2] + push[:2]
        states[t, 2:] = (
            1.5 * np.sin(2 * states[t - 1, 2:]) + 0.1 * states[t - 1, :2].sum() + push[2:]
        )
    made = []
    for client, place in zip(
        clients_of(system, steps=3, seed=0, process=10.0), (slice(0, 2), slice(2, 4)), strict=True
    ):
        made.append(
            replace(
                client,
                measurements=states[:, place] @ client.emission.T
                + 0.1 * stream.standard_normal((steps, 8)),
            )
        )
    return series_of(made)


def test_a_network_sees_what_bends() -> None:
    whole = _folded()
    series, held = cut(whole, 0, 900), cut(whole, 899, 1200)
    bent = learn_bent(series, epochs=150, rate=0.02)
    linear = at_rest(series, Rates(client=1.0, server=0.1, causes=1.0))
    plain = losses_of(
        moments(held, 1), linear.augmentations[1], linear.causes[held.places[1], held.drivers(1)]
    )[0]
    assert client_losses(held, bent)[1] < 0.6 * plain


def test_where_nothing_bends_both_find_the_same_edge() -> None:
    _, series = setting_s(0, 800)
    bent, linear = learn_bent(series, epochs=250), learn(series, mode="closed_form")
    assert np.linalg.norm(bent.learnt.block(series, 1, 0)) == pytest.approx(
        np.linalg.norm(linear.block(series, 1, 0)), rel=0.25
    )


def test_the_seed_decides_and_nothing_else_is_drawn() -> None:
    _, series = setting_s(0, 200)
    state = torch.random.get_rng_state()
    first, again, other = (
        learn_bent(series, epochs=5, seed=seed).learnt.causes for seed in (1, 1, 2)
    )
    assert (torch.random.get_rng_state() == state).all()
    assert (first == again).all()
    assert (first != other).any()
    with pytest.raises(UsageError, match="width"):
        learn_bent(series, width=0)
