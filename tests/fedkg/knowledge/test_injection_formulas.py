"""Definition and proposition 5.1 of Fan et al. 2022: acceptance tests of injected knowledge."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fedkg.knowledge.injection_formulas import (
    NOTHING,
    injected_log_probability,
    injected_probabilities,
    most_probable_class,
    range_log_softmax,
    range_softmax,
)

Z = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
ALLOWED = torch.tensor([True, False, True])
FIRST = torch.tensor(0)


def loss(logits: Tensor, trust: float, label: int) -> Tensor:
    return -injected_log_probability(logits, ALLOWED, FIRST, trust, torch.tensor(label))


def close(found: Tensor, expected: list[float]) -> None:
    torch.testing.assert_close(
        found.detach(), torch.tensor(expected, dtype=torch.float64), atol=5e-7, rtol=0
    )


def test_the_papers_case() -> None:
    close(range_softmax(Z, ALLOWED), [0.119203, 0, 0.880797])
    close(injected_probabilities(Z, ALLOWED, FIRST, 0.3), [0.383442, 0, 0.616558])
    close(
        torch.stack([loss(Z, 0.3, 2), loss(Z, 0.3, 0), loss(Z, 0.0, 2)]),
        [0.483603, 0.958567, 0.126928],
    )
    close(injected_probabilities(Z, ALLOWED, FIRST, 0.5), [0.559601, 0, 0.440399])
    close(injected_probabilities(Z, ALLOWED, FIRST, 0.51), [0.568409, 0, 0.431591])
    assert [
        int(most_probable_class(injected_probabilities(Z, ALLOWED, FIRST, trust), FIRST))
        for trust in (0.3, 0.5, 0.51)
    ] == [2, 0, 0]


def test_the_papers_gradients() -> None:
    logits = Z.clone().requires_grad_()
    close(torch.autograd.grad(loss(logits, 0.3, 2), logits)[0], [0.119203, 0, -0.119203])
    close(torch.autograd.grad(loss(logits, 0.3, 0), logits)[0], [-0.191673, 0, 0.191673])
    jacobian = torch.func.jacrev(lambda z: injected_probabilities(z, ALLOWED, FIRST, 0.3))(Z)
    close(jacobian[0, 0], 0.073496)  # type: ignore[arg-type]
    close(jacobian.sum(dim=1), [0, 0, 0])


@st.composite
def cases(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Logits, ranges, predictions inside them or missing, trusts, labels in the ranges; 64 rows."""
    seed, k = draw(st.integers(0, 2**31)), draw(st.integers(1, 9))
    dice = torch.Generator().manual_seed(seed)
    logits = torch.randn(64, k, generator=dice, dtype=torch.float64) * 10.0 ** draw(
        st.integers(-2, 4)
    )
    allowed = torch.rand(64, k, generator=dice) < draw(st.floats(0.1, 1))
    label = torch.randint(k, (64,), generator=dice)
    allowed[torch.arange(64), label] = True
    predicted = torch.multinomial(allowed.double(), 1, generator=dice).squeeze(1)
    predicted = torch.where(torch.rand(64, generator=dice) < 0.2, NOTHING, predicted)
    trust = torch.rand(64, generator=dice, dtype=torch.float64)
    trust[:4] = torch.tensor([0.0, 1.0, 0.5, 0.0])
    return logits, allowed, predicted, trust, label


@given(cases(), st.sampled_from([torch.float64, torch.float32, torch.float16, torch.bfloat16]))
def test_what_holds_for_any_logits(case: tuple[Tensor, ...], dtype: torch.dtype) -> None:
    logits, allowed, predicted, trust, _ = case
    logits, trust = logits.to(dtype), trust.to(dtype)
    answer = injected_probabilities(logits, allowed, predicted, trust)
    assert bool((answer >= 0).all())
    torch.testing.assert_close(
        answer.double().sum(-1),
        torch.ones(64, dtype=torch.float64),
        atol=8 * torch.finfo(dtype).eps,
        rtol=0,
    )
    assert bool((answer[~allowed] == 0).all())
    said = predicted >= 0
    of_predicted = answer.gather(1, predicted.clamp(min=0)[:, None])[:, 0]
    assert bool((of_predicted >= trust)[said].all())
    sure = said & (trust > 0.5)
    assert bool((most_probable_class(answer, predicted) == predicted)[sure].all())


@given(cases())
def test_losses_and_gradients_are_finite_where_the_label_is_allowed(
    case: tuple[Tensor, ...],
) -> None:
    logits, allowed, predicted, trust, label = case
    trust = trust.clamp(max=0.999)
    logits.requires_grad_()
    losses = -injected_log_probability(logits, allowed, predicted, trust, label)
    [slope] = torch.autograd.grad(losses.sum(), logits)
    assert bool(torch.isfinite(losses).all())
    assert bool(torch.isfinite(slope).all())
    own = range_softmax(logits.detach(), allowed)
    hot = torch.nn.functional.one_hot(label, logits.shape[1])
    of_label = own.gather(1, label[:, None])
    agreed = (predicted == label) & (trust > 0)
    factor = torch.where(
        agreed[:, None],
        (1 - trust)[:, None] * of_label / ((1 - trust)[:, None] * of_label + trust[:, None]),
        1.0,
    )
    torch.testing.assert_close(slope, factor * (own - hot), atol=1e-9, rtol=1e-9)


def test_gradients_equal_central_differences() -> None:
    dice = torch.Generator().manual_seed(3)
    logits = torch.randn(20, 5, generator=dice, dtype=torch.float64, requires_grad=True)
    allowed = torch.rand(20, 5, generator=dice) < 0.6
    label = torch.randint(5, (20,), generator=dice)
    allowed[torch.arange(20), label] = True
    predicted = torch.randint(-1, 5, (20,), generator=dice)
    assert torch.autograd.gradcheck(
        lambda z: injected_log_probability(z, allowed, predicted, 0.3, label),
        logits,
        eps=1e-6,
        atol=1e-6,
    )
    assert torch.autograd.gradcheck(
        lambda z: injected_probabilities(z, allowed, predicted, 0.3), logits, eps=1e-6, atol=1e-6
    )


def test_adding_a_constant_to_all_logits_changes_nothing() -> None:
    torch.testing.assert_close(
        injected_probabilities(Z + 7, ALLOWED, FIRST, 0.3),
        injected_probabilities(Z, ALLOWED, FIRST, 0.3),
    )


@pytest.mark.parametrize("trust", [0.0, 0.3, 1.0])
def test_one_allowed_class_teaches_nothing(trust: float) -> None:
    logits = Z.clone().requires_grad_()
    only = torch.tensor([False, True, False])
    answer = injected_probabilities(logits, only, torch.tensor(1), trust)
    assert answer.tolist() == [0.0, 1.0, 0.0]
    value = -injected_log_probability(logits, only, torch.tensor(1), trust, torch.tensor(1))
    assert value.item() == 0
    assert torch.autograd.grad(value, logits)[0].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("trust", "label"), [(0.3, 1), (0.0, 1), (1.0, 2)])
def test_a_label_that_is_ruled_out_has_infinite_loss_and_no_gradient(
    trust: float, label: int
) -> None:
    logits = Z.clone().requires_grad_()
    value = loss(logits, trust, label)
    assert value.item() == float("inf")
    assert torch.autograd.grad(value, logits)[0].tolist() == [0.0, 0.0, 0.0]


def test_logits_that_have_overflown_still_give_an_answer() -> None:
    logits = torch.tensor([torch.inf, 3.0, -torch.inf, torch.inf], dtype=torch.float16)
    assert range_softmax(logits, torch.tensor([False, True, True, True])).tolist() == [
        0.0,
        0.0,
        0.0,
        1.0,
    ]
    assert range_log_softmax(logits, torch.tensor([False, True, True, False])).tolist()[:2] == [
        -float("inf"),
        0.0,
    ]


def test_stacked_models_answer_under_vmap_as_one_by_one() -> None:
    dice = torch.Generator().manual_seed(1)
    weights = torch.randn(5, 4, 3, generator=dice, dtype=torch.float64)
    x = torch.randn(6, 4, generator=dice, dtype=torch.float64)
    allowed, predicted, label = (
        ALLOWED.expand(6, 3),
        torch.tensor([0, 2, NOTHING, 0, 2, 0]),
        torch.tensor([0, 2, 0, 2, 0, 2]),
    )

    def value(weight: Tensor) -> Tensor:
        return -injected_log_probability(x @ weight, allowed, predicted, 0.3, label).mean()

    together = torch.func.vmap(torch.func.grad(value))(weights)
    torch.testing.assert_close(
        together, torch.stack([torch.func.grad(value)(weight) for weight in weights])
    )
