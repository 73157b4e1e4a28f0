"""Gradients clipped sample by sample, against a loop over samples.

For models with and without a closed form.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated import BinaryCrossEntropy, CrossEntropy, SquaredError
from fedkg.federated.client.gradient import MeanGradient
from fedkg.federated.client.proximal import Proximal
from fedkg.federated.privacy.dp_sgd import ClippedGradient
from fedkg.federated.round_steps import Step
from fedkg.models import MLP
from fedkg.models.model_protocols import Gradient, OuterProduct, SampleDifferentiatedModel
from fedkg.models.random_streams import Noise, fold, root
from fedkg.models.recurrent import Recurrent
from fedkg.models.sample_gradients import AffineSampleGradients, StepwiseSampleGradients

CLIENTS, BATCH, EXPECTED = 3, 6, 4.0


def dense(gradient: Mapping[str, Gradient]) -> dict[str, Tensor]:
    return {
        name: value.dense() if isinstance(value, OuterProduct) else value
        for name, value in gradient.items()
    }


def step_of(model: Any, loss: Any, x: Tensor, y: Tensor, *, closed: bool = True) -> Step:
    params = {
        name: torch.stack([value * (1 + 0.2 * c) for c in range(CLIENTS)])
        for name, value in model.init(1, torch.float64).items()
    }
    share = torch.full((CLIENTS, BATCH), 1 / EXPECTED, dtype=torch.float64)
    share[1, -1] = share[2, 3:] = 0  # client 1 has one sample less, client 2 three
    return Step(
        model=model,
        loss=loss,
        params=params,
        x=x,
        y=y,
        share=share,
        noise=Noise(fold(root(5), torch.arange(CLIENTS)), 2),
        clients=torch.arange(CLIENTS),
        start={name: value * 0.9 for name, value in params.items()},
        closed=model if closed else None,
        expected=torch.full((CLIENTS,), EXPECTED, dtype=torch.float64),
    )


def cases() -> dict[str, Step]:
    g = torch.Generator().manual_seed(3)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    found = {
        "mlp": step_of(
            MLP(inputs=5, hidden=(7, 4)),
            BinaryCrossEntropy(pos_weight=2.0),
            numbers(3, 6, 5),
            numbers(3, 6).gt(0).double(),
        ),
        "tanh": step_of(
            MLP(inputs=5, hidden=(7,), activation="tanh"),
            BinaryCrossEntropy(),
            numbers(3, 6, 5),
            numbers(3, 6).gt(0).double(),
        ),
        "softmax": step_of(
            MLP(inputs=5, hidden=(), outputs=4),
            CrossEntropy(),
            numbers(3, 6, 5),
            numbers(3, 6, 4).argmax(2),
        ),
        "no bias": step_of(
            MLP(inputs=5, hidden=(6,), bias=False),
            BinaryCrossEntropy(),
            numbers(3, 6, 5),
            numbers(3, 6).gt(0).double(),
        ),
    }
    for cell in ("rnn", "gru", "lstm"):
        for window in (None, 6):
            kind = {"cell": cell, "window": window, "hidden": 4}
            model = Recurrent(features=2, history=9, horizon=3, **kind)  # type: ignore[arg-type]
            found[f"{cell} {window}"] = step_of(
                model, SquaredError(), numbers(3, 6, 9, 2), numbers(3, 6, 3)
            )
    return found


CASES = cases()


def by_hand(step: Step, clip: float) -> dict[str, Tensor]:
    """One sample of one client after the other, by autograd."""
    total = {name: torch.zeros_like(value) for name, value in step.params.items()}
    assert step.share is not None
    for client in range(CLIENTS):
        for sample in range(BATCH):
            if not float(step.share[client, sample]):
                continue
            leaves = {
                name: value[client : client + 1].clone().requires_grad_()
                for name, value in step.params.items()
            }
            output = step.model.apply(leaves, step.x[client : client + 1, sample : sample + 1])
            loss = step.loss.value(output, step.y[client : client + 1, sample : sample + 1]).sum()
            slopes = dict(
                zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True)
            )
            squared = sum(slope.square().sum() for slope in slopes.values())
            norm = torch.sqrt(squared)  # type: ignore[arg-type]
            for name, slope in slopes.items():
                total[name][client] += slope[0] * min(1.0, clip / float(norm)) / EXPECTED
    return total


@pytest.mark.parametrize("clip", [0.05, 0.4, 100.0])
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("name", list(CASES))
def test_it_is_the_sum_of_clipped_gradients(name: str, closed: bool, clip: float) -> None:
    step = CASES[name] if closed else replace(CASES[name], closed=None)
    assert isinstance(step.model, SampleDifferentiatedModel)
    value, gradient = ClippedGradient(clip=clip, noise=0.0)(step, ())
    expected = by_hand(step, clip)
    assert bool(value.isnan().all())
    for parameter, own in dense(gradient).items():
        torch.testing.assert_close(own, expected[parameter], rtol=1e-9, atol=1e-12)


def test_parts_of_a_minibatch_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    step = replace(CASES["gru None"], closed=None)
    whole = dense(ClippedGradient(clip=0.3, noise=0.0)(step, ())[1])
    monkeypatch.setattr("fedkg.federated.privacy.dp_sgd.WRITTEN_OUT", 1)
    for name, own in dense(ClippedGradient(clip=0.3, noise=0.0)(step, ())[1]).items():
        torch.testing.assert_close(own, whole[name])


def test_dropout_is_the_same_sample_by_sample() -> None:
    model = MLP(inputs=5, hidden=(9, 8), dropout=0.4)
    step = step_of(model, BinaryCrossEntropy(), CASES["mlp"].x, CASES["mlp"].y)
    closed = dense(ClippedGradient(clip=0.2, noise=1.0)(step, ())[1])
    apart = dense(ClippedGradient(clip=0.2, noise=1.0)(replace(step, closed=None), ())[1])
    assert all(torch.allclose(closed[name], apart[name], atol=1e-12) for name in closed)


def test_a_clip_that_cuts_nothing_is_the_plain_gradient() -> None:
    step = replace(CASES["mlp"], share=torch.full((CLIENTS, BATCH), 1 / BATCH, dtype=torch.float64))
    step = replace(step, expected=torch.full((CLIENTS,), float(BATCH), dtype=torch.float64))
    plain = dense(MeanGradient()(replace(step, share=None), ())[1])
    for name, own in dense(ClippedGradient(clip=1e6, noise=0.0)(step, ())[1]).items():
        torch.testing.assert_close(own, plain[name])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("name", ["mlp", "tanh", "gru None"])
def test_a_sample_without_a_gradient_counts_nothing(name: str, closed: bool, bad: float) -> None:
    """If it spoilt the sum and the update were left out, the sample would be detectable."""
    step = CASES[name] if closed else replace(CASES[name], closed=None)
    x, share = step.x.clone(), step.share.clone()  # type: ignore[union-attr]
    x[0, 2], share[0, 2] = bad, 0.0
    without = dense(ClippedGradient(clip=0.2, noise=1.0)(replace(step, share=share), ())[1])
    with_it = dense(ClippedGradient(clip=0.2, noise=1.0)(replace(step, x=x), ())[1])
    for parameter, own in with_it.items():
        torch.testing.assert_close(own, without[parameter], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1.0, 1e2, 1e4, 1e6, 1e8])
@pytest.mark.parametrize(("repeated", "loop"), [(1, True), (1, False), (8, True), (8, False)])
def test_steps_that_cancel_are_not_taken_for_shorter_than_they_are(
    size: float, repeated: int, loop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float32 the products of such steps cancel.

    A gradient three times as long as the clip would remain unclipped.
    """
    if not loop:
        monkeypatch.setattr("fedkg.models.sample_gradients.has_compiled_loops", lambda value: False)
    g = torch.Generator().manual_seed(1)
    left, right, apart = (
        torch.randn(50, width, generator=g, dtype=torch.float64) for width in (8, 6, 6)
    )
    left, right, apart = (value / value.norm(dim=1, keepdim=True) for value in (left, right, apart))
    left, right, apart = left * size**0.5, right * size**0.5, apart * 3.0 / size**0.5
    lefts, rights = (
        torch.stack(pair * repeated).float()[None]
        for pair in ([left, -left], [right, right + apart])
    )
    whole = (
        torch.einsum("nbo,nbi->boi", lefts[0].double(), rights[0].double()).flatten(1).norm(dim=1)
    )
    found = (
        StepwiseSampleGradients("weight", None, lefts, rights).squared_norms()[0].double().sqrt()
    )
    assert bool((found >= whole * (1 - 1e-6)).all())
    if size == 1.0:
        torch.testing.assert_close(found, whole, rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("bias", [None, "bias"])
def test_a_square_too_small_for_a_number_does_not_hide_a_gradient(
    bias: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float32 the square of one factor is 0; the other one makes a gradient of 1e-4 of it."""
    small, large = torch.full((1, 1, 1), 1e-23), torch.full((1, 1, 1), 1e19)
    assert (
        float(AffineSampleGradients("weight", bias, small, large).squared_norms().sqrt()) > 0.99e-4
    )
    if bias is None:
        assert (
            float(AffineSampleGradients("weight", bias, large, small).squared_norms().sqrt())
            > 0.99e-4
        )
    assert (
        float(
            StepwiseSampleGradients("weight", bias, small[None], large[None]).squared_norms().sqrt()
        )
        > 0.99e-4
    )
    monkeypatch.setattr("fedkg.models.sample_gradients.has_compiled_loops", lambda value: False)
    assert (
        float(
            StepwiseSampleGradients("weight", bias, small[None], large[None]).squared_norms().sqrt()
        )
        > 0.99e-4
    )


@pytest.mark.parametrize("bias", [None, "bias"])
@pytest.mark.parametrize(("steps", "outputs", "inputs"), [(1, 3, 2), (3, 20, 17), (9, 4, 5)])
def test_the_loop_over_samples_measures_what_operations_do(
    steps: int, outputs: int, inputs: int, bias: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    g = torch.Generator().manual_seed(steps)
    left, right = (
        torch.randn(CLIENTS, steps, BATCH, width, generator=g, dtype=torch.float64)
        for width in (outputs, inputs)
    )
    whole = torch.einsum("cnbo,cnbi->cboi", left, right).flatten(2).square().sum(2)
    whole = whole if bias is None else whole + left.sum(1).square().sum(2)
    torch.testing.assert_close(
        StepwiseSampleGradients("weight", bias, left, right).squared_norms(), whole
    )
    monkeypatch.setattr("fedkg.models.sample_gradients.has_compiled_loops", lambda value: False)
    torch.testing.assert_close(
        StepwiseSampleGradients("weight", bias, left, right).squared_norms(), whole
    )


def test_one_sample_changes_the_sum_by_at_most_the_clip() -> None:
    step, clip = CASES["mlp"], 0.1
    assert step.share is not None
    with_it = dense(ClippedGradient(clip=clip, noise=0.0)(step, ())[1])
    share = step.share.clone()
    share[:, 0] = 0
    without = dense(ClippedGradient(clip=clip, noise=0.0)(replace(step, share=share), ())[1])
    squared_norms = sum(
        (with_it[name] - without[name]).flatten(1).square().sum(1) for name in with_it
    )
    norms = torch.sqrt(squared_norms)  # type: ignore[arg-type]
    assert bool((norms * EXPECTED <= clip * (1 + 1e-9)).all())


def test_noise_has_the_promised_size_and_comes_even_without_samples() -> None:
    model = MLP(inputs=40, hidden=(50, 40))
    x, y = torch.randn(3, 6, 40, dtype=torch.float64), torch.zeros(3, 6, dtype=torch.float64)
    step = step_of(model, BinaryCrossEntropy(), x, y)
    step = replace(step, share=torch.zeros_like(x[..., 0]))
    gradient = dense(ClippedGradient(clip=0.5, noise=3.0)(step, ())[1])
    values = torch.cat([value.flatten(1) for value in gradient.values()], 1) * EXPECTED
    assert float(values.std()) == pytest.approx(1.5, rel=0.03)
    assert abs(float(values.mean())) < 0.05
    assert float((values[0] * values[1]).mean()) == pytest.approx(0, abs=0.15)


def test_noise_differs_between_steps_and_not_between_calls() -> None:
    rule, step = ClippedGradient(clip=0.5, noise=1.0), CASES["mlp"]
    first, again = dense(rule(step, ())[1]), dense(rule(step, ())[1])
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert step.noise is not None
    later = dense(rule(replace(step, noise=Noise(step.noise.keys, 3)), ())[1])
    assert not torch.allclose(first["layers.0.weight"], later["layers.0.weight"])


def test_a_term_of_the_parameters_is_added_as_it_is() -> None:
    step, pull = CASES["mlp"], Proximal(strength=0.7)
    plain, pulled = (
        dense(ClippedGradient(clip=0.2, noise=1.0)(step, terms)[1]) for terms in ((), (pull,))
    )
    for name, slope in pull.slope(step).items():
        torch.testing.assert_close(pulled[name] - plain[name], slope)


@dataclass(frozen=True)
class SizeOfAnswers:
    """A term that reads each sample separately."""

    reads = "samples"

    def value(self, step: Step) -> Tensor:
        return step.mean(step.model.apply(step.params, step.x, step.noise).square().sum(2))


def test_a_term_of_the_samples_is_clipped_with_them() -> None:
    step, clip = CASES["mlp"], 0.05
    gradient = dense(ClippedGradient(clip=clip, noise=0.0)(step, (SizeOfAnswers(),))[1])
    squared_norms = sum(value.flatten(1).square().sum(1) for value in gradient.values())
    counted = (step.share > 0).sum(1)  # type: ignore[operator]
    norms = torch.sqrt(squared_norms)  # type: ignore[arg-type]
    assert bool((norms <= clip * counted / EXPECTED * (1 + 1e-9)).all())


def test_what_may_couple_samples_is_rejected() -> None:
    class Unknown:
        def value(self, step: Step) -> Tensor:
            return step.x.var()

    with pytest.raises(JobError, match="does not state that it reads samples one by one"):
        ClippedGradient(clip=1.0, noise=1.0)(CASES["mlp"], (Unknown(),))


def test_minibatches_of_a_plan_are_rejected() -> None:
    with pytest.raises(JobError, match="randomly drawn minibatches"):
        ClippedGradient(clip=1.0, noise=1.0)(replace(CASES["mlp"], expected=None), ())
    with pytest.raises(JobError, match="randomly drawn minibatches"):
        ClippedGradient(clip=1.0, noise=1.0)(replace(CASES["mlp"], share=None), ())


@pytest.mark.parametrize(("clip", "noise"), [(0.0, 1.0), (1.0, -1.0)])
def test_numbers_out_of_range_are_rejected(clip: float, noise: float) -> None:
    with pytest.raises(JobError, match="must be above 0, and"):
        ClippedGradient(clip=clip, noise=noise)
