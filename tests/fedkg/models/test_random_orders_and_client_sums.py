"""Compiled orders and sums over clients equal their definitions in tensor operations."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkg.federated.client.batches import by_tensors, plan
from fedkg.federated.randomness import COHORT, ORDER, client_keys, cohort
from fedkg.models.loops.client_sums import add_to, sums
from fedkg.models.random_streams import fold, root


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**31),
    sizes=st.lists(st.integers(1, 70), min_size=1, max_size=6),
    batches=st.lists(st.integers(1, 12), min_size=6, max_size=6),
    epochs=st.integers(1, 3),
    passes=st.booleans(),
)
def test_a_plan_is_that_of_tensor_operations(
    seed: int, sizes: list[int], batches: list[int], epochs: int, passes: bool
) -> None:
    n, batch = torch.tensor(sizes), torch.tensor(batches[: len(sizes)])
    steps = (n + batch - 1) // batch * epochs if passes else torch.full_like(n, epochs)
    steps, order = steps.sort(descending=True)
    n, batch = n[order], batch[order]
    given_to = (
        client_keys(seed, 1, ORDER, 3 * torch.arange(len(n))),
        n,
        n.cumsum(0) - n,
        steps,
        batch,
    )
    found, wanted = (
        plan(*given_to, passes=passes, padding=-1),
        by_tensors(*given_to, passes=passes, padding=-1),
    )
    assert torch.equal(found.index, wanted.index)
    assert torch.equal(found.counts, wanted.counts)
    assert torch.equal(found.valid, wanted.index >= 0)
    assert found.active == wanted.active


@given(seed=st.integers(0, 2**31), population=st.integers(1, 300), share=st.floats(0.01, 1.0))
def test_a_cohort_has_the_least_numbers_of_its_stream(
    seed: int, population: int, share: float
) -> None:
    size = max(1, int(share * population))
    draws = fold(root(seed, COHORT, 3), torch.arange(population))
    assert torch.equal(
        cohort(seed, 3, population, size), torch.argsort(draws, stable=True)[:size].sort().values
    )
    assert torch.equal(
        client_keys(seed, 3, ORDER, torch.arange(population)),
        fold(root(seed, ORDER, 3), torch.arange(population)),
    )


def stack(dtype: torch.dtype, clients: int) -> list[torch.Tensor]:
    """Tensors of several shapes, including views and one shared by all clients."""
    generator = torch.Generator().manual_seed(clients)
    flat = torch.randn(clients, 1700, generator=generator, dtype=dtype)
    return [
        flat[:, :1500].view(clients, 30, 50),
        flat[:, 1500:],
        torch.randn(clients, generator=generator, dtype=dtype),
        flat[:1, :7].expand(clients, 7),
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("clients", [0, 1, 9])
def test_sums_are_those_of_the_numbers(dtype: torch.dtype, clients: int) -> None:
    values = stack(dtype, clients) if clients else [torch.zeros(0, 3, 4, dtype=dtype)]
    wanted = sum(
        (value.double().reshape(clients, -1 if clients else 12).sum(1) for value in values),
        torch.zeros(clients, dtype=torch.float64),
    )
    assert torch.allclose(
        sums(values).double(), wanted, atol=1e-3 if dtype == torch.float32 else 1e-11
    )


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_a_sum_tells_whose_numbers_are_none(wrong: float) -> None:
    values = [value.clone() for value in stack(torch.float32, 5)]
    values[0][3, 29, 49] = wrong
    assert torch.isfinite(sums(values)).tolist() == [True, True, True, False, True]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weighted_sums_by_group_do_not_depend_on_the_stacks_to_the_bit(dtype: torch.dtype) -> None:
    values, groups = stack(dtype, 9), torch.tensor([0, 1, 1, 0, 2, 0, 1, 0, 0])
    weights = torch.rand(9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    whole, parts = (
        [torch.zeros(4, *value.shape[1:], dtype=dtype) for value in values] for _ in range(2)
    )
    add_to(whole, values, weights, groups)
    for part in (slice(0, 1), slice(1, 6), slice(6, 9)):
        add_to(parts, [value[part] for value in values], weights[part], groups[part])
    for total, same, value in zip(whole, parts, values, strict=True):
        assert torch.equal(total, same)
        flat = value.double().reshape(9, -1)
        wanted = torch.zeros(4, flat.shape[1], dtype=torch.float64).index_add_(
            0, groups, weights.unsqueeze(1) * flat
        )
        assert torch.allclose(
            total.double().reshape(4, -1), wanted, atol=1e-5 if dtype == torch.float32 else 1e-13
        )
