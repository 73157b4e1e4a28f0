"""Trackers of experiments: they receive the figures of every round, as in `rounds.csv`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from fedkg.errors import MissingExtra, UsageError
from fedkg.jobs.events import Event

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from torch.utils.tensorboard import SummaryWriter

    from fedkg.operations.run_event_listeners import Receiver

FLUSH_SECONDS = 5
"""Seconds until a figure is on disk for TensorBoard."""

MOST_RUNS = 50_000
"""Runs of an experiment that MLflow returns at most at once."""

EXACT = "exact/"
"""Prefix of TensorBoard's tags in float64."""

RUN_TAG, TRIAL_TAG = "fedkg.run", "fedkg.trial"
"""Tags by which a resumed run finds its runs in MLflow."""


def create_tracker(name: str) -> Receiver:
    """The tracker with this name.

    Raises:
        UsageError: an unknown name.
        MissingExtra: its package is not installed.
    """
    if name not in TRACKERS:
        raise UsageError(
            f"--track: there is no tracker {name!r}", expected=" or ".join(sorted(TRACKERS))
        )
    if find_spec(name) is None:
        raise MissingExtra(f"--track {name}", "trackers")
    return TRACKERS[name]()


def _figures(event: Event) -> Iterator[tuple[str, float]]:
    """The measured numbers of a round."""
    for name, value in event.values.items():
        if not isinstance(value, str) and value == value:
            yield name, value


class TensorBoard:
    """Writes the figures of each trial to ``tensorboard/TRIAL`` in its run folder.

    Each figure has two tags: its name, in float32, and ``exact/NAME``, in float64. TensorBoard's
    fast loader, which is its default, does not show float64.
    """

    def __init__(self) -> None:
        # both trackers load their library before the run: two threads that import at once may
        # see modules that are not complete
        from torch.utils.tensorboard import SummaryWriter

        self._create = SummaryWriter
        self._writers: dict[tuple[Path, str], SummaryWriter] = {}

    def __call__(self, event: Event) -> None:
        """Write the figures of a round."""
        if event.folder is None or not event.trial:
            return
        key = event.folder, event.trial
        if event.kind == "trial":
            # rounds after the last checkpoint are trained again: TensorBoard forgets the first ones
            self._writers[key] = self._create(
                str(event.folder / "tensorboard" / event.trial),
                purge_step=event.round + 1,
                flush_secs=FLUSH_SECONDS,
            )
        elif event.kind == "round":
            for name, value in _figures(event):
                writer = self._writers[key]
                writer.add_scalar(name, value, event.round)
                writer.add_scalar(
                    EXACT + name, value, event.round, new_style=True, double_precision=True
                )
        elif event.kind == "trial_done":
            self._writers.pop(key).close()

    def close(self) -> None:
        """Write what is left."""
        for writer in self._writers.values():
            writer.close()


class Mlflow:
    """Writes the figures of each trial to a run of MLflow, in an experiment per run folder.

    The store is `MLFLOW_TRACKING_URI`, by default the folder ``mlflow`` of the run folder.
    """

    def __init__(self) -> None:
        # MLflow reports its use to its makers, and retries for minutes, unless told otherwise
        for name, value in (
            ("MLFLOW_DISABLE_TELEMETRY", "true"),
            ("MLFLOW_ALLOW_FILE_STORE", "true"),
            ("MLFLOW_HTTP_REQUEST_TIMEOUT", "10"),
            ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1"),
        ):
            os.environ.setdefault(name, value)
        from mlflow import MlflowClient
        from mlflow.entities import Metric

        self._connect, self._metric = MlflowClient, Metric
        self._runs: dict[tuple[Path, str], tuple[MlflowClient, str, int]] = {}

    def __call__(self, event: Event) -> None:
        """Write the figures of a round."""
        if event.folder is None or not event.trial:
            return
        key = event.folder, event.trial
        if event.kind == "trial":
            self._runs[key] = self._open(event.folder, event.trial)
        elif event.kind == "round":
            client, run, last = self._runs[key]
            if event.round > last:  # a resumed run repeats rounds with the same figures
                now, step = int(1000 * time.time()), event.round
                client.log_batch(
                    run, [self._metric(name, value, now, step) for name, value in _figures(event)]
                )
        elif event.kind == "trial_done":
            client, run, _ = self._runs.pop(key)
            client.set_terminated(run)

    def close(self) -> None:
        """Mark the runs that did not end as killed."""
        for client, run, _ in self._runs.values():
            client.set_terminated(run, "KILLED")

    def _open(self, folder: Path, trial: str) -> tuple[MlflowClient, str, int]:
        """The client, the run of a trial, and its last round in MLflow (0 for a new run)."""
        path = str(folder.resolve())
        store = os.environ.get("MLFLOW_TRACKING_URI") or (folder.resolve() / "mlflow").as_uri()
        client = self._connect(tracking_uri=store)
        found = client.get_experiment_by_name(path)
        experiment = client.create_experiment(path) if found is None else found.experiment_id
        for run in client.search_runs([experiment], max_results=MOST_RUNS):
            if run.data.tags.get(TRIAL_TAG) == trial:
                client.update_run(run.info.run_id, status="RUNNING")
                steps = client.get_metric_history(run.info.run_id, "round")
                return client, run.info.run_id, max((one.step for one in steps), default=0)
        tags = {RUN_TAG: path, TRIAL_TAG: trial}
        return client, client.create_run(experiment, run_name=trial, tags=tags).info.run_id, 0


TRACKERS: dict[str, Callable[[], Receiver]] = {"tensorboard": TensorBoard, "mlflow": Mlflow}
"""Trackers by the name of their package."""
