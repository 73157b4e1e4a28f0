"""Local steps in mixed precision: only on request, near full precision, same in all executors."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from federations import classes, largest_difference

from fedkg.errors import JobError
from fedkg.federated import Problem, Settings, fedavg, train
from fedkg.models import MLP, Params, lenet5

SIZES = (40, 31, 25)
SETTINGS = Settings(
    rounds=6, local_epochs=2, batch=8, learning_rate=0.3, seed=1, executor="stacked"
)
HALF = replace(SETTINGS, precision="bfloat16")


def last(problem: Problem, settings: Settings) -> Params:
    *_, (state, _) = train(problem, fedavg(), settings)
    return state.params


def right(problem: Problem, params: Params) -> float:
    x, y = torch.cat(problem.clients.x), torch.cat(problem.clients.y)
    answers = problem.model.apply({name: value[None] for name, value in params.items()}, x[None])[0]
    return float((answers.argmax(1) == y).double().mean())


def test_full_precision_is_the_default() -> None:
    assert Settings(rounds=1, local_epochs=1).precision == "float32"


def test_it_trains_within_tolerance_of_full_precision() -> None:
    problem = classes(SIZES, dtype=torch.float32)
    full, half = last(problem, SETTINGS), last(problem, HALF)
    assert all(value.dtype == torch.float32 for value in half.values())
    assert 1e-6 < largest_difference(full, half) < 0.15
    assert right(problem, half) > right(problem, full) - 0.05


def test_executors_agree() -> None:
    problem = classes(SIZES, dtype=torch.float32)
    own = replace(HALF, rounds=1, local_epochs=1)
    reference = last(problem, replace(own, executor="sequential"))
    for chunk in (None, 1):
        assert (
            largest_difference(last(problem, replace(own, chunk=chunk)), reference) < 0.02
        )  # a few bfloat16 roundings


def test_models_without_a_closed_form_too() -> None:
    problem = classes((12, 9), dtype=torch.float32)
    images = replace(
        problem.clients, x=tuple(torch.rand(len(x), 1, 28, 28) for x in problem.clients.x)
    )
    own = replace(HALF, rounds=1, local_epochs=1, learning_rate=0.05)
    problem = replace(problem, model=lenet5(outputs=4), clients=images)
    assert (
        largest_difference(last(problem, own), last(problem, replace(own, precision="float32")))
        < 0.02
    )


def test_the_model_is_asked_in_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.dtype] = []
    ask = MLP.apply

    def recorded_apply(
        model: MLP, params: Params, x: torch.Tensor, noise: object = None
    ) -> torch.Tensor:
        answer = ask(model, params, x, noise)  # type: ignore[arg-type]
        seen.append(answer.dtype)
        return answer

    monkeypatch.setattr(MLP, "apply", recorded_apply)
    last(classes(SIZES, dtype=torch.float32), replace(HALF, rounds=1, local_epochs=1))
    assert torch.bfloat16 in seen


def test_an_unknown_precision_is_rejected() -> None:
    with pytest.raises(JobError, match="`precision` has an unknown value"):
        replace(SETTINGS, precision="float8")  # type: ignore[arg-type]
