"""Minibatches that contain each sample with a given probability."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkg.federated.client.batches import Batches, by_chance
from fedkg.federated.randomness import client_keys


def drawn(sizes: list[int], batch: int, steps: int, *, seed: int = 0) -> Batches:
    counts = torch.tensor(sizes)
    keys = client_keys(seed, 1, 1, torch.arange(len(sizes)))
    made = torch.full((len(sizes),), steps)
    return by_chance(keys, counts, torch.cumsum(counts, 0) - counts, made, batch, padding=-1)


def samples(batches: Batches, step: int, client: int) -> list[int]:
    return batches.index[step, client][batches.valid[step, client]].tolist()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=4),
    st.integers(1, 20),
    st.integers(1, 6),
    st.integers(0, 99),
)
def test_every_minibatch_holds_samples_of_its_client_once(
    sizes: list[int], batch: int, steps: int, seed: int
) -> None:
    batches = drawn(sizes, batch, steps, seed=seed)
    first = 0
    for client, size in enumerate(sizes):
        for step in range(steps):
            found = samples(batches, step, client)
            assert found == sorted(set(found))
            assert all(first <= row < first + size for row in found)
        first += size
    assert batches.expected is not None
    assert batches.expected.tolist() == [min(batch, size) for size in sizes]
    assert bool((batches.index[~batches.valid] == -1).all())


def test_fewer_samples_than_a_batch_are_all_in_it() -> None:
    batches = drawn([5, 8], 8, 3)
    assert [samples(batches, step, 0) for step in range(3)] == [[0, 1, 2, 3, 4]] * 3
    assert [samples(batches, step, 1) for step in range(3)] == [list(range(5, 13))] * 3


def test_what_a_client_sees_depends_on_itself_alone() -> None:
    together, alone = drawn([40, 25, 60], 6, 5), drawn([40], 6, 5)
    assert [samples(together, step, 0) for step in range(5)] == [
        samples(alone, step, 0) for step in range(5)
    ]


def test_chances_are_those_that_are_promised_and_independent() -> None:
    """20,000 draws from 10 samples with probability 0.3.

    Tests each sample alone, each pair, and the number in a minibatch.
    """
    steps, rate = 20_000, 0.3
    batches = drawn([10], 3, steps)
    member = torch.zeros(steps, 10, dtype=torch.float64)
    for column in range(batches.index.shape[2]):
        here = batches.valid[:, 0, column]
        member[here, batches.index[here, 0, column]] = 1
    assert float((member.mean(0) - rate).abs().max()) < 4 * (rate * (1 - rate) / steps) ** 0.5
    pairs = (member.T @ member / steps).fill_diagonal_(rate**2)
    assert float((pairs - rate**2).abs().max()) < 5 * (rate**2 / steps) ** 0.5
    counts = member.sum(1)
    assert float(counts.var()) == pytest.approx(10 * rate * (1 - rate), rel=0.05)
    assert float((counts == 0).double().mean()) == pytest.approx((1 - rate) ** 10, abs=0.005)


def test_clients_stop_at_their_own_number_of_steps() -> None:
    sizes, steps = torch.tensor([30, 30]), torch.tensor([4, 2])
    keys = client_keys(0, 1, 1, torch.arange(2))
    batches = by_chance(keys, sizes, torch.tensor([0, 30]), steps, 5, padding=-1)
    assert batches.active == [2, 2, 1, 1]
    assert not bool(batches.valid[2:, 1].any())
