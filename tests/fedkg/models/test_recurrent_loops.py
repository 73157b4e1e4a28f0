"""Compiled recurrent cells and products over samples against the plain pass and PyTorch's
products."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedkg.models.batched_products import affine, outer_sums
from fedkg.models.layers import dense
from fedkg.models.recurrent_cells import CELLS

TYPES = {torch.float32: 2e-6, torch.float64: 1e-14}
SHAPES = [(1, 1, 1, 1), (2, 3, 7, 5), (3, 4, 12, 18), (2, 2, 6, 33)]
"""Clients, steps, batch, width: zero, one and several vectors, with and without a remainder."""


def drawn(*shape: int, dtype: torch.dtype, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(
        *shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64
    ).to(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize("name", CELLS)
def test_the_loops_give_what_the_plain_run_and_its_derivative_give(
    dtype: torch.dtype, shape: tuple[int, int, int, int], every: bool, name: str
) -> None:
    clients, steps, batch, width = shape
    cell = CELLS[name]
    drive = drawn(
        clients, steps, batch, cell.gates * width, dtype=dtype, scale=3.0
    ).requires_grad_()
    weight = drawn(
        clients, cell.gates * width, width, dtype=dtype, scale=width**-0.5
    ).requires_grad_()
    bias = drawn(clients, cell.gates * width, dtype=dtype)
    states = cell.run(drive, weight, bias)
    slope = drawn(clients, steps if every else 1, batch, width, dtype=dtype)
    whole = slope if every else torch.cat([torch.zeros_like(states[:, 1:]), slope], 1)
    expected, of_weight = torch.autograd.grad((states * whole).sum(), (drive, weight))
    with torch.no_grad():
        trail = cell.trace(drive.detach().clone(), weight, bias)
        found, own = cell.backward(trail, slope, weight)
    tolerance = TYPES[dtype] * steps * width**0.5
    torch.testing.assert_close(trail.states[:, 1:], states.detach(), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(found, expected, rtol=4 * tolerance, atol=4 * tolerance)
    by_weight = torch.einsum("cnbo,cnbi->coi", own, trail.before)
    torch.testing.assert_close(by_weight, of_weight, rtol=16 * tolerance, atol=16 * tolerance)


@pytest.mark.parametrize("dtype", TYPES)
def test_gates_far_out_are_shut_or_open_and_what_is_no_number_stays_none(
    dtype: torch.dtype,
) -> None:
    cell, far = CELLS["lstm"], 1e4
    drive = torch.tensor(
        [[far, -far, far, far], [-far, far, -far, -far], [0.0, 0.0, float("nan"), 0.0]], dtype=dtype
    ).view(1, 1, 3, 4)
    trail = cell.trace(drive, torch.zeros(1, 4, 1, dtype=dtype), torch.zeros(1, 4, dtype=dtype))
    after = trail.states[0, 1, :, 0]
    torch.testing.assert_close(
        after[0], torch.tensor(1.0, dtype=dtype).tanh(), rtol=TYPES[dtype], atol=0
    )
    assert abs(float(after[1])) < 1e-30
    assert bool(after[2].isnan())


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("clients", "samples", "outputs", "inputs"),
    [(1, 1, 1, 1), (3, 11, 20, 4), (2, 240, 5, 96), (1, 401, 33, 7), (2, 9, 17, 650)],
)
def test_sums_of_outer_products(
    dtype: torch.dtype, clients: int, samples: int, outputs: int, inputs: int
) -> None:
    left, right = (
        drawn(clients, samples, outputs, dtype=dtype),
        drawn(clients, samples, inputs, dtype=dtype),
    )
    sums, totals = outer_sums(left, right)
    tolerance = TYPES[dtype] * samples
    torch.testing.assert_close(
        sums, torch.bmm(left.transpose(1, 2), right), rtol=tolerance, atol=tolerance
    )
    torch.testing.assert_close(totals, left.sum(1), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("clients", "samples", "outputs", "inputs"),
    [(1, 1, 1, 1), (3, 11, 20, 4), (2, 240, 5, 96), (1, 401, 33, 7), (2, 9, 17, 650)],
)
def test_affine_products(
    dtype: torch.dtype, clients: int, samples: int, outputs: int, inputs: int
) -> None:
    weight, bias = (
        drawn(clients, outputs, inputs, dtype=dtype),
        drawn(clients, outputs, dtype=dtype),
    )
    x = drawn(clients, samples, inputs, dtype=dtype)
    tolerance = TYPES[dtype] * inputs
    torch.testing.assert_close(
        affine(weight, bias, x), dense(weight, bias, x), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("name", CELLS)
def test_a_run_is_the_same_to_the_bit_on_two_threads(name: str) -> None:
    wide = 16 * CELLS[name].gates
    drive, weight, bias = (
        drawn(64, 8, 10, wide, dtype=torch.float32),
        drawn(64, wide, 16, dtype=torch.float32),
        drawn(64, wide, dtype=torch.float32),
    )
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            trail = CELLS[name].trace(drive.clone(), weight, bias)
            found.append(
                (
                    trail.states,
                    CELLS[name].backward(trail, drawn(64, 1, 10, 16, dtype=torch.float32), weight)[
                        0
                    ],
                )
            )
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
