"""Knowledge that is stored with the samples.

Classes that are ruled out stay out, predicted ones are followed, and gradients stay finite.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg.errors import KnowledgeError
from fedkg.federated.model.knowledge_bounded_models import (
    UNKNOWN,
    Bounded,
    BoundedChance,
    Narrow,
    informed,
)
from fedkg.models import MLP, Recurrent

numbers = st.floats(-3, 3, width=32)


def stacked(model: MLP | Recurrent, clients: int) -> dict[str, torch.Tensor]:
    return {name: 5 * torch.randn(clients, *value.shape) for name, value in model.init(0).items()}


@given(
    low=numbers,
    width=st.floats(0, 3, width=32),
    predicted=st.one_of(numbers, st.just(UNKNOWN)),
    trust=st.floats(0, 1),
    seed=st.integers(0, 9),
)
@tries(60)
def test_numbers_lie_in_their_interval_and_follow_what_is_predicted_there(
    low, width, predicted, trust, seed
):
    torch.manual_seed(seed)
    inner = MLP(inputs=2, hidden=(3,), outputs=1)
    model, params = Bounded(model=inner, width=2, trust=trust), stacked(inner, 2)
    own = torch.randn(2, 4, 2)
    said = torch.tensor([low, low + width, predicted]).expand(2, 4, 3)
    answer = model.apply(params, torch.cat([own, said], -1))
    kept = inner.apply(params, own).clamp(said[..., :1], said[..., 1:2])
    inside = low <= predicted <= low + width
    expected = (1 - trust) * kept + trust * predicted if inside else kept
    assert torch.allclose(answer, expected, atol=1e-5)
    assert bool(((answer >= low - 1e-5) & (answer <= low + width + 1e-5)).all())


def test_nothing_known_changes_nothing_and_what_contradicts_itself_is_not_used():
    inner = MLP(inputs=2, hidden=(3,), outputs=1)
    model, params, own = (
        Bounded(model=inner, width=2, trust=0.5),
        stacked(inner, 3),
        torch.randn(3, 5, 2),
    )
    for said in ([-UNKNOWN, UNKNOWN, UNKNOWN], [2.0, 1.0, UNKNOWN]):
        x = torch.cat([own, torch.tensor(said).expand(3, 5, 3)], -1)
        assert torch.equal(model.apply(params, x), inner.apply(params, own))


def test_of_a_window_the_last_step_tells_for_all_steps_of_the_forecast():
    inner = Recurrent(cell="gru", features=2, history=4, horizon=3, outputs=2, hidden=3, layers=1)
    model, params = (
        Bounded(model=inner, width=2, numbers=2, windows=True, trust=0.0),
        stacked(inner, 2),
    )
    x = torch.zeros(2, 5, 4, 8)
    x[..., :2] = torch.randn(2, 5, 4, 2)
    x[..., -1, 2:] = torch.tensor([-0.1, 0.1, UNKNOWN, 0.5, 0.7, UNKNOWN])
    answer = model.apply(params, x).view(2, 5, 3, 2)
    assert bool((answer[..., 0].abs() <= 0.1 + 1e-6).all())
    assert bool(((answer[..., 1] >= 0.5 - 1e-6) & (answer[..., 1] <= 0.7 + 1e-6)).all())
    shared = model.apply(params, x[0])
    assert torch.allclose(shared[0], model.apply(params, x[:1].expand(2, 5, 4, 8))[0])


def test_gradients_are_finite_also_for_rows_of_padding():
    inner = MLP(inputs=2, hidden=(3,), outputs=1)
    model = Bounded(model=inner, width=2, trust=0.3)
    params = {name: value.requires_grad_() for name, value in stacked(inner, 1).items()}
    x = torch.cat(
        [torch.randn(1, 2, 2), torch.tensor([[[-UNKNOWN, UNKNOWN, UNKNOWN], [0.0, 0.0, 0.0]]])], -1
    )
    model.apply(params, x).sum().backward()
    assert all(
        bool(torch.isfinite(value.grad).all())
        for value in params.values()
        if value.grad is not None
    )


chances = st.one_of(st.floats(0, 1, width=32), st.sampled_from([0.0, 1.0]))


@given(
    low=chances,
    high=chances,
    predicted=st.one_of(chances, st.just(UNKNOWN)),
    trust=chances,
    seed=st.integers(0, 9),
)
@tries(60)
def test_a_probability_lies_in_its_interval_and_follows_what_is_predicted_there(
    low, high, predicted, trust, seed
):
    torch.manual_seed(seed)
    inner = MLP(inputs=2, hidden=(3,), outputs=1)
    model = BoundedChance(model=inner, width=2, trust=trust)
    params = {name: value.double().requires_grad_() for name, value in stacked(inner, 2).items()}
    own = torch.randn(2, 4, 2, dtype=torch.float64)
    answer = model.apply(
        params, torch.cat([own, own.new_tensor([low, high, predicted]).expand(2, 4, 3)], -1)
    )
    kept = torch.sigmoid(inner.apply(params, own))
    kept = kept.clamp(low, high) if low <= high else kept
    inside = predicted <= 1 and (low > high or low <= predicted <= high)
    assert torch.allclose(
        torch.sigmoid(answer), (1 - trust) * kept + trust * predicted if inside else kept, atol=1e-6
    )
    slopes = torch.autograd.grad(answer.sum(), list(params.values()), allow_unused=True)
    assert all(bool(torch.isfinite(slope).all()) for slope in slopes if slope is not None)


def test_classes_that_samples_rule_out_have_no_probability():
    inner = MLP(inputs=2, hidden=(3,), outputs=3)
    model, params = informed(inner, 2, 3, trust=0.4), stacked(inner, 2)
    said = torch.tensor([[0.0, 1.0, 1.0, 3.0], [1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]]).expand(
        2, 3, 4
    )
    own = torch.randn(2, 3, 2)
    probability = model.apply(params, torch.cat([own, said], -1)).exp()
    assert torch.allclose(probability.sum(-1), torch.ones(2, 3), atol=1e-5)
    assert bool((probability[:, 0, 0] == 0).all())
    assert bool((probability[:, 0, 2] >= 0.4 - 1e-6).all())
    plain = torch.softmax(inner.apply(params, own)[:, 2], -1)
    assert torch.allclose(
        probability[:, 2], plain, atol=1e-6
    )  # if everything is ruled out, nothing is known


def test_parts_are_those_of_the_model_inside_and_a_trust_is_a_share():
    inner = MLP(inputs=2, hidden=(3,), outputs=1)
    assert Bounded(model=inner, width=2).parts == Narrow(model=inner, width=2).parts == inner.parts
    with pytest.raises(KnowledgeError):
        Bounded(model=inner, width=2, trust=1.5)
