"""Arguments of the teacher: unknown numbers, values that are not tensors, `torch.func`
transforms."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fedkg
from fedkg.errors import SetError
from fedkg.teacher import Teacher

RULES = """
timeline step 1 h ends clip
output volume in % span 0 .. 100
rule rush_clears require always if volume >= 80 % then eventually within 3 h volume <= 60 %
"""
FORECAST = torch.tensor([50.0, 70.0, 85.0, 84.0, 72.0, 61.0])[None, :, None]


@pytest.fixture(scope="module")
def pack() -> fedkg.Pack:
    return fedkg.compile(text=RULES)


@pytest.fixture(scope="module")
def teacher(pack: fedkg.Pack) -> Teacher:
    return Teacher(pack.banks[0], steps=6, clip=True)


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_what_is_unknown_has_no_nearest_number(teacher: Teacher, number: float) -> None:
    traces = FORECAST.repeat(3, 1, 1)
    traces[1, 2] = number
    for ask in (teacher.nearest, teacher.distance):
        with pytest.raises(
            SetError,
            match=rf"trace 1 has no number at step 2, channel 0(.*\n)*  received: {number}\n"
            rf"  help: fill the gap",
        ):
            ask(traces)


def test_an_argument_other_than_a_tensor_is_an_error(pack: fedkg.Pack, teacher: Teacher) -> None:
    for ask in (teacher.nearest, teacher.distance):
        for given in (FORECAST.tolist(), FORECAST.numpy()):
            with pytest.raises(
                SetError,
                match=r"traces must be a tensor\n  expected: \[B, 6, 1\].*\n"
                r"  received: (list|ndarray)\n"
                r"  help: torch",
            ):
                ask(given)
    with pytest.raises(
        SetError,
        match=r"client= must give .* each trace\n  expected: int64 \[1\]\n  received: list",
    ):
        teacher.nearest(FORECAST, [0])  # type: ignore[arg-type]
    with pytest.raises(
        SetError,
        match=r"the first argument of a teacher must be the bank of one formula(.*\n)*"
        r"  received: Pack\n"
        r"  help: Teacher\(pack.banks",
    ):
        Teacher(pack, 6)  # type: ignore[arg-type]
    bank = pack.banks[0]
    assert Teacher(bank, 6, clip=True, params=np.array(bank.params)).nearest(FORECAST).shape == (
        1,
        6,
        1,
    )  # type: ignore[arg-type]


def test_vmap_says_what_a_batch_says(pack: fedkg.Pack, teacher: Teacher) -> None:
    traces = 100 * torch.rand(4, 5, 6, 1, generator=torch.Generator().manual_seed(0))
    flat = traces.flatten(0, 1)
    assert torch.equal(torch.func.vmap(teacher.distance)(traces).flatten(), teacher.distance(flat))
    assert torch.equal(
        torch.func.vmap(teacher.nearest, in_dims=1)(traces),
        teacher.nearest(flat).view_as(traces).transpose(0, 1),
    )
    slopes = torch.func.vmap(torch.func.grad(lambda x: teacher.distance(x).sum()))(traces)
    own = flat.clone().requires_grad_()
    assert torch.equal(
        slopes.flatten(0, 1), torch.autograd.grad(teacher.distance(own).sum(), own)[0]
    )
    bank = pack.banks[0]
    two = Teacher(bank, 6, clip=True, params=torch.from_numpy(bank.params).repeat(2, 1))
    client = torch.arange(5) % 2
    assert torch.equal(
        torch.func.vmap(two.distance, in_dims=(0, None))(traces, client),
        two.distance(flat, client.repeat(4)).view(4, 5),
    )
