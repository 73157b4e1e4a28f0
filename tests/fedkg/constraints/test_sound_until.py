"""Until by norms over signed squares, combined step by step, with gradients.

Loops and tensor operations agree.
"""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from torch import Tensor

from fedkg.constraints.engine.generalised_mean_extrema import (
    norm_of,
    signed_roots,
    signed_squares,
    upper_square,
)
from fedkg.constraints.engine.norm_until import norm_until
from fedkg.constraints.engine.penalty import UNREACHABLE
from fedkg.constraints.engine.sliding import growth, until_within
from fedkg.constraints.engine.unknown_value_encoding import between

F32, F64 = torch.float32, torch.float64
SPECIAL = (0.0, UNREACHABLE, -UNREACHABLE, 1e-30, 1e-6, -1e-6)


def sides(dice: random.Random, dtype: torch.dtype, shape: tuple[int, ...]) -> list[Tensor]:
    """Two sides with numbers of all kinds, unknown ones included."""
    generator = torch.Generator().manual_seed(dice.randrange(1 << 30))
    made = []
    for _ in range(2):
        side = torch.randn(shape, generator=generator, dtype=dtype) * 10.0 ** dice.randint(-2, 3)
        for special in (*SPECIAL, between(dtype)):
            side[torch.rand(shape, generator=generator) < 0.05] = special
        made.append(side)
    return made


def joined(
    left: Tensor, right: Tensor, first: int, last: int, beyond: float, lowest: bool
) -> Tensor:
    """The same doubling with `norm_of`, one norm after the other."""
    steps = right.shape[-1]
    base = kept, found = [
        torch.nn.functional.pad(side, (0, last), value=beyond) for side in (left, right)
    ]
    for width, doubles in growth(last - first + 1):
        (here, there), shift = ((kept, found), width) if doubles else (base, 1)
        rest = kept.shape[-1] - shift
        here, there = here[..., :rest], there[..., :rest]
        within = norm_of([here, found[..., shift:]], UNREACHABLE, lowest=not lowest)
        found = norm_of([there, within], UNREACHABLE, lowest=lowest)
        kept = norm_of([here, kept[..., shift:]], UNREACHABLE, lowest=not lowest)
    return found[..., first : first + steps]


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("lowest", [True, False])
def test_it_is_the_norms_joined_and_has_the_sign_of_the_exact_one(
    dtype: torch.dtype, lowest: bool
) -> None:
    dice, unknown = random.Random(3), between(dtype)
    for _ in range(60):
        steps = dice.randint(1, 11)
        left, right = sides(dice, dtype, (2, 3, steps))
        first = dice.randint(0, steps)
        last = dice.randint(first, steps)
        beyond = dice.choice([UNREACHABLE, -UNREACHABLE, unknown])
        found = norm_until(left, right, first, last, beyond, UNREACHABLE, lowest=lowest)
        expected = joined(left, right, first, last, beyond, lowest)
        assert torch.allclose(found, expected, rtol=1e-3, atol=1e-8)
        padded = [torch.nn.functional.pad(side, (0, last), value=beyond) for side in (left, right)]
        exact = until_within(*padded, 0, last - first, beyond, lowest=lowest)[
            ..., first : first + steps
        ]
        for turned in (lambda values: values > unknown, lambda values: values <= 0):
            assert torch.equal(turned(found), turned(exact))


@pytest.mark.slow
@pytest.mark.parametrize(("first", "last"), [(0, 0), (0, 4), (2, 5), (3, 3), (0, 6)])
@pytest.mark.parametrize("lowest", [True, False])
def test_gradients_are_finite_differences(first: int, last: int, lowest: bool) -> None:
    generator = torch.Generator().manual_seed(first + last)
    pair = tuple(
        torch.randn(1, 6, generator=generator, dtype=F64, requires_grad=True) for _ in range(2)
    )

    def until_of(left: Tensor, right: Tensor) -> Tensor:
        found = norm_until(left, right, first, last, -UNREACHABLE, UNREACHABLE, lowest=lowest)
        return found[found.detach().abs() < UNREACHABLE / 2]

    assert torch.autograd.gradcheck(until_of, pair)
    assert torch.autograd.gradgradcheck(until_of, pair)


def test_transforms_see_the_same() -> None:
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.randn(4, 7, generator=generator, dtype=F64) for _ in range(2))

    def until_of(before: Tensor, there: Tensor) -> Tensor:
        return norm_until(
            before[None], there[None], 0, 3, -UNREACHABLE, UNREACHABLE, lowest=False
        ).sum()

    each = torch.func.vmap(torch.func.grad(until_of, argnums=(0, 1)))(left, right)
    leaves = [side.clone().requires_grad_() for side in (left, right)]
    whole = torch.autograd.grad(
        norm_until(*leaves, 0, 3, -UNREACHABLE, UNREACHABLE, lowest=False).sum(), leaves
    )
    assert all(torch.allclose(one, other) for one, other in zip(each, whole, strict=True))


@pytest.mark.parametrize("dtype", [F32, F64])
def test_signed_squares_join_as_norms_do(dtype: torch.dtype) -> None:
    numbers = torch.tensor([*SPECIAL, between(dtype), 3.0, -4.0, 2e11, -2e11], dtype=dtype)
    for left, right in itertools.product(numbers, repeat=2):
        pair = [side[None] for side in (left, right)]
        squares = [signed_squares(side, UNREACHABLE) for side in pair]
        for lowest in (True, False):
            sign = -1.0 if lowest else 1.0
            found = signed_roots(
                sign * upper_square(sign * squares[0], sign * squares[1]), UNREACHABLE
            )
            expected = norm_of(pair, UNREACHABLE, lowest=lowest)
            assert torch.allclose(found, expected, rtol=1e-5, atol=1e-9), (left, right, lowest)
            assert torch.equal(found > between(dtype), expected > between(dtype))
            assert torch.equal(found <= 0, expected <= 0)
