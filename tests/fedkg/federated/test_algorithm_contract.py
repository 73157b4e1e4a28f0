"""One contract for all algorithms that a job may name.

Executors agree, neutral settings, restarts, clients that send NaN.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from algorithm_contracts import CONTRACTS, made, settings_for, task
from federations import identical, largest_difference
from safetensors.torch import load_file, save_file
from torch import Tensor

from fedkg.federated import (
    ALGORITHMS,
    Algorithm,
    Problem,
    ServerState,
    Settings,
    fedavg,
    from_tensors,
    to_tensors,
    train,
)
from fedkg.federated.executors import Work
from fedkg.federated.problem import gathered, pool
from fedkg.federated.round_steps import Step
from fedkg.models import Params

GUIDE = Path(__file__).parents[3] / "docs" / "reference" / "algorithms.md"


def test_every_preset_has_its_contract_and_its_row_in_the_guide() -> None:
    assert CONTRACTS.keys() == ALGORITHMS.keys()
    table = [
        line.split("|")[1].strip()
        for line in GUIDE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    assert [f"`{name}`" for name in ALGORITHMS if f"`{name}`" not in table] == []


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_preset_is_called_as_it_is_named(name: str) -> None:
    assert made(name).name == name


def end(problem: Problem, algorithm: Algorithm, settings: Settings) -> ServerState:
    *_, (state, _) = train(problem, algorithm, settings)
    return state


@dataclass(frozen=True)
class Curved:
    """A term without a closed-form derivative, like the penalty of rules."""

    def value(self, step: Step) -> Tensor:
        return 0.1 * torch.stack(
            [value.sin().flatten(1).sum(1) for value in step.params.values()]
        ).sum(0)


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["plain", "with a term"])
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_executors_agree(name: str, extra: str) -> None:
    algorithm = made(name) if extra == "plain" else made(name).with_terms(Curved())
    one = end(task(), algorithm, settings_for(name, executor="sequential"))
    for chunk in (None, 3):
        other = end(task(), algorithm, settings_for(name, executor="stacked", chunk=chunk))
        assert largest_difference(one.models, other.models) < 1e-12
        assert everything(one).keys() == everything(other).keys()
        assert largest_difference(everything(one), everything(other)) < 1e-11


def everything(state: ServerState) -> Params:
    """All tensors of a state, each with a unique name."""
    return to_tensors(state)[0]


@pytest.mark.parametrize(
    "name", sorted(name for name in ALGORITHMS if CONTRACTS[name].neutral is not None)
)
def test_under_its_neutral_setting_a_preset_is_fedavg_to_the_bit(name: str) -> None:
    contract = CONTRACTS[name]
    problem = task(contract.neutral_sizes) if contract.neutral_sizes else task()
    settings = settings_for(name, executor="stacked", rounds=contract.neutral_rounds)
    plain, neutral = (
        end(problem, fedavg(), settings),
        end(problem, made(name, contract.neutral), settings),
    )
    if contract.sends:
        assert identical(neutral.models, plain.models)
    else:  # a single client is its own federation
        assert identical(
            used(problem, made(name, contract.neutral), settings, neutral), plain.models
        )


def used(problem: Problem, algorithm: Algorithm, settings: Settings, state: ServerState) -> Params:
    """The models that the clients use, [N, ...]."""
    problem = gathered(problem) if algorithm.pooled else problem
    work = Work(problem=problem, algorithm=algorithm, settings=settings, pool=pool(problem.clients))
    return algorithm.site_models(work, state, torch.arange(len(problem.clients.names)))


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - {"fedavg", "scfa"}))
def test_otherwise_it_is_not(name: str) -> None:
    problem, settings = task(), settings_for(name, executor="stacked")
    state, plain = end(problem, made(name), settings), end(problem, fedavg(), settings)
    mine = used(problem, made(name), settings, state)
    others = used(problem, fedavg(), settings, plain)
    assert max(float((mine[key][0] - others[key][0]).abs().max()) for key in others) > 1e-4
    if not CONTRACTS[name].common:
        assert identical(state.models, plain.models)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_restart_from_a_file_changes_nothing(name: str, tmp_path: Path) -> None:
    problem, settings = task(dtype=torch.float32), settings_for(name, executor="stacked")
    whole = list(train(problem, made(name), settings))
    tensors, document = to_tensors(whole[1][0])
    save_file(tensors, tmp_path / "state.safetensors")
    saved = from_tensors(
        load_file(tmp_path / "state.safetensors"), json.loads(json.dumps(document))
    )
    rest = list(train(problem, made(name), settings, saved))
    for (state, record), (expected, was) in zip(rest, whole[2:], strict=True):
        assert identical(everything(state), everything(expected))
        assert (record.clients, record.alpha, record.bytes_up) == (
            was.clients,
            was.alpha,
            was.bytes_up,
        )


@pytest.mark.parametrize(
    "name", sorted(set(ALGORITHMS) - {"centralised"})
)  # gathered samples have no owner that could be left out
def test_a_client_that_sends_nan_is_left_out(name: str) -> None:
    problem = task()
    xs = list(problem.clients.x)
    xs[1] = torch.full_like(xs[1], float("nan"))
    broken = replace(problem, clients=replace(problem.clients, x=tuple(xs)))
    for state, record in train(
        broken, made(name), settings_for(name, executor="stacked", participation=1.0)
    ):
        assert list(record.excluded) == ["site_1"]
        assert record.alpha[1] == 0.0
        assert all(bool(torch.isfinite(value).all()) for value in everything(state).values())
