"""Plans of batches and their randomness do not depend on a client's neighbours in the stack."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedkg.federated import Settings
from fedkg.federated.client.batches import Batches, plan, steps_of
from fedkg.federated.randomness import ORDER, client_keys, cohort, permutations


def planned(
    sizes: list[int], batch: int, epochs: int, clients: list[int] | None = None, passes: bool = True
) -> Batches:
    n = torch.tensor(sizes)
    offsets = 1000 * torch.tensor(clients or list(range(len(sizes))))
    settings = Settings(
        rounds=1, batch=batch, **({"local_epochs": epochs} if passes else {"local_steps": epochs})
    )
    steps = steps_of(n, settings)
    keys = client_keys(0, 1, ORDER, torch.tensor(clients or list(range(len(sizes)))))
    return plan(keys, n, offsets, steps, batch, passes=passes, padding=-1)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 12), st.integers(1, 3))
def test_each_epoch_is_every_sample_once(sizes: list[int], batch: int, epochs: int) -> None:
    sizes = sorted(sizes, reverse=True)
    batches = planned(sizes, batch, epochs)
    for client, size in enumerate(sizes):
        seen = batches.index[:, client][batches.valid[:, client]].tolist()
        assert len(seen) == epochs * size
        for epoch in range(epochs):
            assert sorted(seen[epoch * size : (epoch + 1) * size]) == list(
                range(1000 * client, 1000 * client + size)
            )
        assert int(batches.valid[:, client].any(1).sum()) == epochs * -(-size // batch)
    assert bool((batches.index[~batches.valid] == -1).all())
    for count, active in enumerate(batches.active):
        working = batches.valid[count].any(1)
        assert working.tolist() == [True] * active + [False] * (len(sizes) - active)
        assert batches.full[count] == bool(batches.valid[count, :active].all())


@pytest.mark.parametrize("passes", [True, False])
def test_a_clients_plan_does_not_depend_on_the_stack(passes: bool) -> None:
    together = planned([30, 17, 9], 8, 2, passes=passes)
    alone = planned([17], 8, 2, clients=[1], passes=passes)
    mine = together.index[:, 1][together.valid[:, 1]]
    assert torch.equal(mine, alone.index[:, 0][alone.valid[:, 0]])


def test_fresh_draws_are_without_replacement_in_a_batch_and_differ_from_step_to_step() -> None:
    batches = planned([50, 5], 10, 40, passes=False)
    first = batches.index[:, 0]
    assert all(len(set(step.tolist())) == 10 for step in first)
    assert len({tuple(step.tolist()) for step in first}) == 40
    counts = torch.bincount(first.flatten(), minlength=50)
    assert int(counts.min()) >= 1
    assert bool((batches.valid[:, 1].sum(1) == 5).all())


def test_orders_are_uniform() -> None:
    keys = client_keys(3, 1, ORDER, torch.arange(24_000))
    order = permutations(keys, torch.full((24_000,), 4), 1)[:, 0]
    code = (order * torch.tensor([64, 16, 4, 1])).sum(1)
    counts = torch.unique(code, return_counts=True)[1]
    assert len(counts) == 24
    assert (
        float(((counts - 1000) ** 2 / 1000).sum()) < 60
    )  # chi-square, 23 degrees of freedom, far tail


def test_epochs_rounds_and_seeds_have_orders_of_their_own() -> None:
    def order(seed: int, number: int) -> tuple[tuple[int, ...], ...]:
        found = permutations(
            client_keys(seed, number, ORDER, torch.tensor([0])), torch.tensor([20]), 2
        )[0]
        return tuple(tuple(epoch.tolist()) for epoch in found)

    assert len({*order(0, 1), *order(0, 2), *order(1, 1)}) == 6


def test_cohorts_are_uniform_without_replacement_and_reproducible() -> None:
    draws = torch.stack([cohort(0, number, 10, 3) for number in range(2000)])
    assert all(len(set(draw.tolist())) == 3 for draw in draws)
    counts = torch.bincount(draws.flatten(), minlength=10)
    assert float(((counts - 600) ** 2 / 600).sum()) < 35
    assert torch.equal(cohort(0, 7, 10, 3), cohort(0, 7, 10, 3))
    assert cohort(0, 1, 4, 4).tolist() == [0, 1, 2, 3]
