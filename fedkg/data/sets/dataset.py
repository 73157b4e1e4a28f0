"""The common form of data sets in a federation, whatever their source.

Letters: N samples, F features.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import JobError

Task = Literal["classes", "detection", "regression", "forecast", "survival"]
Numbers = NDArray[np.float32] | NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DataSet:
    """Samples with their targets and their origin.

    Attributes:
        name: of the data set in the registry.
        source: the path, or the generator with its seed.
        x: samples in source units, unknown values NaN: rows [N, F], images [N, channels, height,
            width] in 0 .. 1, windows [N, T, F].
        y: int64 [N] for classes; float64 [N] otherwise: 0 or 1 for detection (1 is the rare bad
            case), a quantity for regression; the forecast of rows [N] and of windows [N, H]; for
            survival [N, 2], the time until the event or the end of the observation, and whether
            the event was observed (1) or the sample was censored (0). Unknown targets are NaN.
        features: F names (channels of an image).
        units: of the features as in rule files, "" if a feature has none or it is unknown.
        task: the kind of y.
        classes: their names, for classes.
        targets: names of the O forecast features; the columns of y cycle through them step by step.
        label: for detection, the noun or the column header for y = 1.
        clients: text [N], the site, station, unit or run of a sample; None if the source has none.
        traces: text [N], the series of its client that a row belongs to; None if the rows of each
            client are one series.
        time: float64 [N], order of the samples of a client, in `step_unit`; None if samples have no
            order.
        row: int64 [N], the row of the source that a sample is about, from 0: of windows that of the
            label or of the first forecast step; -1 for none. None: samples are the rows.
        step: distance of two neighbouring samples in time.
        step_unit: ``h``, ``s``, ``cycle``.
        since_1970: whether `time` counts from the beginning of 1970, so that it gives moments.
        utc: whether these moments are in UTC; otherwise they have no zone, as in the source.
        test: bool [N], the test samples of the source; None if it defines none.
        notes: remarks for users: subsets, lost precision, gaps.

    Raises:
        JobError: the parts do not fit each other.
    """

    name: str
    source: str
    x: Numbers
    y: NDArray[np.int64] | NDArray[np.float64]
    features: tuple[str, ...]
    units: tuple[str, ...]
    task: Task
    classes: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    label: str = "failure"
    clients: NDArray[Any] | None = None
    traces: NDArray[Any] | None = None
    time: NDArray[np.float64] | None = None
    row: NDArray[np.int64] | None = None
    step: float = 1.0
    step_unit: str = ""
    since_1970: bool = False
    utc: bool = False
    test: NDArray[np.bool_] | None = None
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        for what in ("y", "clients", "traces", "time", "row", "test"):
            value = getattr(self, what)
            if value is not None and len(value) != self.samples:
                raise JobError(
                    f"data set {self.name}: {what} does not have one entry for each sample",
                    expected=str(self.samples),
                    received=str(len(value)),
                )
        if len(self.units) != len(self.features):
            raise JobError(
                f'data set {self.name}: each feature needs a unit ("" for none)',
                expected=f"{len(self.features)} units",
                received=f"{len(self.units)} units",
            )
        if self.task == "survival":
            self._check_survival()

    def _check_survival(self) -> None:
        """Raise JobError unless y contains times from 0 and events 0 or 1, with times above 0."""
        if self.y.ndim != 2 or self.y.shape[1] != 2:
            raise JobError(
                f"data set {self.name}: survival requires a time and an event of each sample",
                expected="y of shape [samples, 2]",
                received=str(list(self.y.shape)),
            )
        time, event = self.y.T
        wrong = (time < 0) | np.isinf(time) | ((event == 1) & (time <= 0))
        wrong |= ~np.isnan(event) & (event != 0) & (event != 1)
        if wrong.any():
            place = int(np.flatnonzero(wrong)[0])
            raise JobError(
                f"data set {self.name}: the time or the event of sample {place + 1} is wrong",
                expected="a time from 0, above 0 for an event; an event of 1, or 0 if censored",
                received=f"time {time[place]:g}, event {event[place]:g}",
            )

    @property
    def samples(self) -> int:
        """Number of samples, N."""
        return len(self.x)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The rows of the source that the samples are about, [N]."""
        return np.arange(self.samples) if self.row is None else self.row

    def take(self, index: NDArray[Any]) -> DataSet:
        """The samples at `index` (positions or a mask), in that order."""
        return replace(
            self,
            x=self.x[index],
            y=self.y[index],
            clients=None if self.clients is None else self.clients[index],
            traces=None if self.traces is None else self.traces[index],
            time=None if self.time is None else self.time[index],
            row=self.rows[index],
            test=None if self.test is None else self.test[index],
        )

    def of_client(self, name: str) -> DataSet:
        """The samples of one client, in order of time if there is one.

        Raises:
            JobError: the source has no clients, or not this one.
        """
        if self.clients is None or not (rows := np.flatnonzero(self.clients == name)).size:
            if self.clients is None:
                raise JobError(
                    f"data set {self.name} has no clients, so it has no client {name}",
                    help="leave out the name of the client, or choose a data set with clients",
                )
            names, more = self.client_names, len(self.client_names) - 8
            raise JobError(
                f"data set {self.name} has no client {name}",
                expected=", ".join(names[:8]) + (f" or one of {more} more" if more > 0 else ""),
                help="name a client of the data set, or leave out `sites` for all of them",
            )
        return self.take(
            rows if self.time is None else rows[np.argsort(self.time[rows], kind="stable")]
        )

    @property
    def client_names(self) -> tuple[str, ...]:
        """The clients of the source in order of first appearance; empty if it has none."""
        return () if self.clients is None else tuple(dict.fromkeys(self.clients.tolist()))


def draw_samples(data: DataSet, size: int | None, seed: int) -> DataSet:
    """Draw `size` samples at random without replacement, in the order of the file; all if it has no
    more.
    """
    if size is None or size >= data.samples:
        return data
    seeded_generator = np.random.Generator(np.random.PCG64([seed, 0]))
    return replace(
        data.take(np.sort(seeded_generator.choice(data.samples, size, replace=False))),
        notes=(*data.notes, f"{size:,} of {data.samples:,} samples, drawn with seed {seed}"),
    )


def seeded_generator(seed: int, word: int = 0) -> np.random.Generator:
    """Random numbers that are the same on every machine."""
    return np.random.Generator(np.random.PCG64([seed, word]))


def generator_source(name: str, seed: int) -> str:
    """The text of `DataSet.source` for a generator."""
    return f"{name} generator (seed {seed})"


def repeat_names(names: list[str], counts: list[int]) -> NDArray[Any]:
    """Repeat each name by its count, as an object array."""
    array = np.empty(sum(counts), dtype=object)
    array[:] = np.repeat(np.array(names, dtype=object), counts)
    return array
