"""Stopping after any round and starting again from the saved state changes nothing, to the last
bit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from federations import LinearRules, classes, identical
from safetensors.torch import load_file, save_file
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated import (
    Algorithm,
    Problem,
    ServerState,
    Settings,
    fedavg,
    from_tensors,
    initial_state,
    scfa,
    to_tensors,
    train,
)
from fedkg.federated.algorithms import fedadam, scaffold
from fedkg.models import MLP, Params

SETTINGS = Settings(
    rounds=6,
    participation=0.6,
    local_epochs=2,
    batch=8,
    learning_rate=0.1,
    schedule="cosine",
    seed=5,
)


def task() -> Problem:
    problem = classes((11, 24, 7, 19, 3), dtype=torch.float32, outputs=2, dropout=0.3)
    probe = torch.randn(30, 6, generator=torch.Generator().manual_seed(0))
    return replace(problem, scorer=LinearRules(model=FirstOutput(problem.model), probe=probe))


@dataclass(frozen=True)
class FirstOutput:
    model: MLP

    def apply(self, params: Params, x: Tensor) -> Tensor:
        return self.model.apply(params, x)[..., :1]


def through_a_file(state: ServerState, folder: Path) -> ServerState:
    tensors, document = to_tensors(state)
    save_file(tensors, folder / "state.safetensors")
    (folder / "state.json").write_text(json.dumps(document))
    return from_tensors(
        load_file(folder / "state.safetensors"), json.loads((folder / "state.json").read_text())
    )


@pytest.mark.parametrize("executor", ["auto", "stacked", "sequential"])
@pytest.mark.parametrize("stop", [1, 3, 5])
def test_a_resumed_run_is_the_uninterrupted_one(executor: str, stop: int, tmp_path: Path) -> None:
    problem, algorithm = task(), scfa(graded=True)
    settings = replace(SETTINGS, executor=executor)
    whole = list(train(problem, algorithm, settings))
    assert [state.round for state, _ in whole] == [1, 2, 3, 4, 5, 6]
    saved = through_a_file(whole[stop - 1][0], tmp_path)
    rest = list(train(problem, algorithm, settings, saved))
    assert [state.round for state, _ in rest] == list(range(stop + 1, 7))
    for (state, record), (expected, was) in zip(rest, whole[stop:], strict=True):
        assert identical(state.models, expected.models)
        assert (record.clients, record.alpha, record.validity) == (
            was.clients,
            was.alpha,
            was.validity,
        )


def test_a_finished_run_has_nothing_left_to_do() -> None:
    *_, (state, _) = train(task(), fedavg(), SETTINGS)
    assert list(train(task(), fedavg(), SETTINGS, state)) == []


def test_all_of_a_state_survives(tmp_path: Path) -> None:
    state = ServerState(
        round=3,
        models={"layers.0.weight": torch.randn(2, 3, 4), "a/b": torch.zeros(2, 1)},
        joints={"server": {"m/layers.0.weight": torch.ones(2, 3, 4)}, "empty": {}},
        clients={"control/layers.0.weight": torch.randn(5, 3, 4)},
    )
    again = through_a_file(state, tmp_path)
    assert again.round == 3
    assert again.choice is None
    assert identical(again.models, state.models)
    assert again.joints.keys() == state.joints.keys()
    assert identical(dict(again.joints["server"]), dict(state.joints["server"]))
    assert identical(again.clients, state.clients)


def test_views_are_saved_as_what_they_show(tmp_path: Path) -> None:
    state = ServerState(round=0, models={"w": torch.arange(6.0).view(2, 3).t().unsqueeze(0)})
    assert identical(through_a_file(state, tmp_path).models, state.models)


@pytest.mark.parametrize(
    ("tensors", "document", "said"),
    [
        ({}, {"format": 99}, "another format"),
        ({}, {"format": 2}, "incomplete"),
        (
            {"elsewhere": torch.zeros(1)},
            {"format": 2, "round": 1, "joints": [], "choice": None, "tensors": ["elsewhere"]},
            "of fedkg does not know",
        ),
        (
            {"joints/server/m": torch.zeros(1)},
            {"format": 2, "round": 1, "joints": [], "choice": None, "tensors": ["joints/server/m"]},
            "incomplete",
        ),
        (
            {},
            {"format": 2, "round": "x", "joints": [], "choice": None, "tensors": []},
            "incomplete",
        ),
        (
            {},
            {"format": 2, "round": 1, "joints": [], "choice": None, "tensors": ["models/w"]},
            "not those that its description lists",
        ),
        (
            {},
            {
                "format": 2,
                "round": 1,
                "joints": [],
                "choice": {"executor": "stacked"},
                "tensors": [],
            },
            "incomplete",
        ),
    ],
)
def test_damaged_states_are_rejected(
    tensors: dict[str, Tensor], document: dict[str, object], said: str
) -> None:
    with pytest.raises(JobError, match=said):
        from_tensors(tensors, document)


def test_a_state_of_another_model_is_rejected_with_the_parameter() -> None:
    problem = classes((5, 6))
    state = initial_state(classes((5, 6), features=7), fedavg(), SETTINGS)
    with pytest.raises(JobError, match=r"layers\.0\.weight"):
        next(train(problem, fedavg(), SETTINGS, state))
    extra = initial_state(classes((5, 6), hidden=(7, 5, 4)), fedavg(), SETTINGS)
    with pytest.raises(JobError, match="does not fit the model"):
        next(train(problem, fedavg(), SETTINGS, extra))


@pytest.mark.parametrize(
    ("algorithm", "said"),
    [(fedadam(), "of the step `server`"), (scaffold(), "does not fit the clients: local/")],
)
def test_a_state_of_another_algorithm_is_rejected(algorithm: Algorithm, said: str) -> None:
    problem = classes((5, 6))
    with pytest.raises(JobError) as caught:
        next(train(problem, algorithm, SETTINGS, initial_state(problem, fedavg(), SETTINGS)))
    assert said in str(caught.value) + str(caught.value.received)


def test_threads_are_set_while_training_and_given_back() -> None:
    before = torch.get_num_threads()
    seen = {
        torch.get_num_threads()
        for _ in train(classes((5, 6)), fedavg(), replace(SETTINGS, threads=2))
    }
    assert seen == {before}
    assert torch.get_num_threads() == before
