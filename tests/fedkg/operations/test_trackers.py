"""TensorBoard and MLflow hold the figures of `rounds.csv` to the last bit of a double."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkg.errors import UsageError
from fedkg.jobs import Event
from fedkg.operations.run_event_listeners import Observation, observe

Figures = dict[tuple[str, str, int], float]
"""Values by trial, column and round."""


def written(recorded: Any) -> Figures:
    """Every number of `rounds.csv`."""
    return {
        (row["trial"], name, int(row["round"])): float(text)
        for row in recorded.rows("rounds.csv")
        for name, text in row.items()
        if text and name not in ("trial", "zone", "notes")
    }


def with_columns_of_rounds(found: Figures) -> Figures:
    """Without the two counts that are no columns of `rounds.csv`."""
    return {key: value for key, value in found.items() if key[1] not in ("violated", "evaluated")}


def tensorboard(folder: Path) -> Figures:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util

    found: Figures = {}
    for place in sorted((folder / "tensorboard").iterdir()):
        events = EventAccumulator(str(place), size_guidance={"tensors": 0, "scalars": 0})
        events.Reload()
        for tag in events.Tags()["tensors"]:
            for one in events.Tensors(tag):
                value = tensor_util.make_ndarray(one.tensor_proto)
                assert value.dtype == "float64"
                found[place.name, tag.removeprefix("exact/"), one.step] = float(value)
        shown = {
            (place.name, tag, one.step): one.value
            for tag in events.Tags()["scalars"]
            for one in events.Scalars(tag)
        }
        mine = {key: value for key, value in found.items() if key[0] == place.name}
        assert shown == {key: float(np.float32(value)) for key, value in mine.items()}
    return found


def mlflow(folder: Path) -> Figures:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=(folder / "mlflow").as_uri())
    experiment = client.get_experiment_by_name(str(folder.resolve()))
    return {
        (run.data.tags["fedkg.trial"], name, one.step): one.value
        for run in client.search_runs([experiment.experiment_id])
        for name in run.data.metrics
        for one in client.get_metric_history(run.info.run_id, name)
    }


@pytest.mark.parametrize("read", [tensorboard, mlflow])
def test_a_tracker_has_every_figure_of_every_round(recorded: Any, read: Any) -> None:
    expected = written(recorded)
    assert {step for _, name, step in expected if name == "f1"} == {2, 3}  # when it was measured
    assert with_columns_of_rounds(read(recorded.folder)) == expected


@pytest.mark.parametrize("read", [tensorboard, mlflow])
def test_rounds_that_a_resumed_run_repeats_count_once(tmp_path: Path, read: Any) -> None:
    """Killed after round 3 with a checkpoint of round 1: rounds 2 and 3 come again."""
    for done, rounds in ((0, (1, 2, 3)), (1, (2, 3, 4))):
        with observe(Observation(track=(read.__name__,)), lambda _: None) as listen:
            of = {"folder": tmp_path, "trial": "scfa", "rounds": 4}
            listen(Event(kind="trial", round=done, **of))
            for number in rounds:
                listen(Event(kind="round", round=number, values={"round": number}, **of))
    assert read(tmp_path) == {("scfa", "round", number): number for number in (1, 2, 3, 4)}


def test_a_tracker_that_fails_is_reported_once_and_the_training_continues(tmp_path: Path) -> None:
    (tmp_path / "tensorboard").write_text("a file where the folder should be")
    told: list[str] = []
    with observe(Observation(track=("tensorboard",)), lambda e: told.append(e.message)) as listen:
        for number in range(3):
            of = {"folder": tmp_path, "trial": "scfa", "round": number, "rounds": 3}
            listen(Event(kind="trial" if number == 0 else "round", values={"f1": 0.5}, **of))
    [failure] = [text for text in told if text]
    assert failure.startswith("tensorboard failed, the training continues without it: ")


def test_an_unknown_tracker_is_rejected() -> None:
    wanted = Observation(track=("wandb",))
    with (
        pytest.raises(UsageError, match="expected: mlflow or tensorboard"),
        observe(wanted, lambda _: None),
    ):
        pass
