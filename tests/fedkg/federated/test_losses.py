from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from fedkg.errors import JobError
from fedkg.federated import (
    LOSSES,
    BinaryCrossEntropy,
    CoxLoss,
    CrossEntropy,
    KnownSquaredError,
    SquaredError,
)
from fedkg.federated.client.task_losses import Loss

GENERATOR = torch.Generator().manual_seed(0)
ONE = torch.randn(3, 5, 1, dtype=torch.float64, generator=GENERATOR)
FOUR = torch.randn(3, 5, 4, dtype=torch.float64, generator=GENERATOR)
BITS = (torch.rand(3, 5, generator=GENERATOR) > 0.5).double()
LABELS = torch.randint(0, 4, (3, 5), generator=GENERATOR)
HALF = torch.tensor([1.0, 1.0, float("nan"), float("nan")], dtype=torch.float64).expand(3, 5, 4)
CASES = [
    (
        BinaryCrossEntropy(),
        ONE,
        BITS,
        F.binary_cross_entropy_with_logits(ONE[..., 0], BITS, reduction="none"),
    ),
    (
        BinaryCrossEntropy(pos_weight=7.0),
        ONE,
        BITS,
        F.binary_cross_entropy_with_logits(
            ONE[..., 0], BITS, reduction="none", pos_weight=torch.tensor(7.0)
        ),
    ),
    (
        CrossEntropy(),
        FOUR,
        LABELS,
        F.cross_entropy(FOUR.flatten(0, 1), LABELS.flatten(), reduction="none").view(3, 5),
    ),
    (SquaredError(), ONE, BITS, (ONE[..., 0] - BITS) ** 2),
    (SquaredError(), FOUR, FOUR.flip(0), ((FOUR - FOUR.flip(0)) ** 2).mean(-1)),
    (KnownSquaredError(), FOUR, FOUR.flip(0), ((FOUR - FOUR.flip(0)) ** 2).mean(-1)),
    (KnownSquaredError(), ONE, BITS.where(BITS > 0, float("nan")), (ONE[..., 0] - 1) ** 2 * BITS),
    (KnownSquaredError(), FOUR, HALF, (FOUR[..., :2] - 1).square().mean(-1)),
    # times 1 .. 5, all events: the sample is at risk with all later ones
    (
        CoxLoss(),
        ONE,
        torch.stack([torch.arange(1.0, 6.0).expand(3, 5), torch.ones(3, 5)], -1).double(),
        torch.stack([ONE[:, i:, 0].exp().sum(1).log() - ONE[:, i, 0] for i in range(5)], 1),
    ),
]


@pytest.mark.parametrize(("loss", "output", "target", "expected"), CASES)
def test_values_are_pytorchs_and_slopes_are_automatic_ones(
    loss: Loss, output: torch.Tensor, target: torch.Tensor, expected: torch.Tensor
) -> None:
    leaf = output.clone().requires_grad_()
    value = loss.value(leaf, target)
    torch.testing.assert_close(value.detach(), expected, rtol=1e-12, atol=1e-12)
    (slope,) = torch.autograd.grad(value.sum(), leaf)
    again, closed = loss.value_and_slope(output.clone(), target)
    torch.testing.assert_close(again, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(closed, slope, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("logit", [-800.0, 800.0])
def test_extreme_logits_stay_finite(logit: float) -> None:
    output, target = torch.full((1, 2, 1), logit), torch.tensor([[0.0, 1.0]])
    value, slope = BinaryCrossEntropy(pos_weight=3.0).value_and_slope(output, target)
    assert bool(torch.isfinite(value).all())
    assert bool(torch.isfinite(slope).all())


def test_a_weight_of_nothing_is_rejected() -> None:
    with pytest.raises(JobError, match="above 0"):
        BinaryCrossEntropy(pos_weight=0.0)


def test_every_named_loss_is_tested() -> None:
    assert set(LOSSES.values()) == {type(loss) for loss, *_ in CASES}
