"""Compiled outputs of stacked perceptrons equal the model's, with the same bits in every stack."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg.models import MLP
from fedkg.models.loops.shared_row_outputs import BLOCK, evaluate_shared_rows


@given(
    st.integers(0, 999), st.integers(1, 4), st.sampled_from([1, 5, BLOCK, BLOCK + 3, 2 * BLOCK]),
    st.lists(st.integers(1, 40), max_size=3),
    st.integers(1, 20), st.integers(1, 7), st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip
@tries(40)
def test_a_loop_answers_what_the_model_says(
    seed: int,
    clients: int,
    rows: int,
    hidden: list[int],
    inputs: int,
    outputs: int,
    bias: bool,
    tanh: bool,
    single: bool,
) -> None:
    dtype = torch.float32 if single else torch.float64
    model = MLP(
        inputs=inputs,
        hidden=tuple(hidden),
        outputs=outputs,
        bias=bias,
        activation="tanh" if tanh else "relu",
    )
    several = [model.init(seed + client, dtype) for client in range(clients)]
    stack = {name: torch.stack([one[name] for one in several]) for name in several[0]}
    x = torch.randn(rows, inputs, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    found = evaluate_shared_rows(model, stack, x)
    torch.testing.assert_close(
        found, model.apply(stack, x), rtol=1e-5 if single else 1e-12, atol=1e-5 if single else 1e-12
    )
    alone = [
        evaluate_shared_rows(
            model, {name: value[client : client + 1] for name, value in stack.items()}, x
        )
        for client in range(clients)
    ]
    assert torch.equal(found, torch.cat(alone))


def test_one_model_for_all_and_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MLP(inputs=3, hidden=(8,), outputs=2)
    stack = {name: value.expand(5, *value.shape) for name, value in model.init(0).items()}
    x = torch.randn(9, 3, generator=torch.Generator().manual_seed(0))
    whole = evaluate_shared_rows(model, stack, x)
    monkeypatch.setattr("fedkg.models.loops.shared_row_outputs.LEAST", 1)
    monkeypatch.setattr("fedkg._internal.threads.torch.get_num_threads", lambda: 2)
    assert torch.equal(evaluate_shared_rows(model, stack, x), whole)
    assert torch.equal(whole, whole[:1].expand_as(whole))
