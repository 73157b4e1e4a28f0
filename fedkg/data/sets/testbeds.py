"""Runs of industrial test beds with labelled faults and attacks: SKAB, HAI, SWaT, and a generator of such runs.

Letters: N rows (one step of one run each), F features.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkg.data.sets.dataset import DataSet, generator_source, repeat_names, seeded_generator
from fedkg.data.sets.table_files import Columns, find_files, read_columns, seconds_since_1970
from fedkg.errors import TableError

F64 = NDArray[np.float64]

SKAB_UNITS = {
    "Accelerometer1RMS": "", "Accelerometer2RMS": "", "Current": "A", "Pressure": "bar", "Temperature": "degC", "Thermocouple": "degC",
    "Voltage": "V", "Volume Flow RateRMS": "L/min",
}  # fmt: skip
STEPS = 1_200


def load_skab(path: str | Path, seed: int, size: int | None) -> DataSet:
    """SKAB (Katser and Kozitsin, 2020) from its data folder: the run without anomalies, then the labelled ones, which are the test.

    Clients are runs (``valve1/0``), the target says whether a step is anomalous, steps are one second. With `size`, so many runs.
    """
    root = Path(path)
    files = [
        file
        for pattern in ("anomaly-free", "valve1", "valve2", "other")
        if (root / pattern).is_dir()
        for file in find_files(root / pattern, ["*.csv"], "SKAB")
    ]
    if not files:
        raise TableError(
            f"no runs of SKAB in {root}", expected="the folders anomaly-free, valve1, valve2, other"
        )
    runs = []
    for file in files[:size]:
        table = read_columns(file, first="datetime")
        marked = "anomaly" in table.headers
        y = table.numbers("anomaly") if marked else np.zeros(table.rows)
        name = f"{file.parent.name}/{file.name.split('.')[0]}"
        runs.append(
            (
                name,
                seconds_since_1970(table.texts("datetime")),
                table.matrix(tuple(SKAB_UNITS)),
                y,
                marked,
            )
        )
    return _runs("skab", str(path), tuple(SKAB_UNITS), tuple(SKAB_UNITS.values()), runs)


def generate_skab(seed: int, size: int | None) -> DataSet:
    """Runs of SKAB's eight signals, one without and the rest with an anomaly; `size` is the number of runs."""
    return _generated(
        "skab", "SKAB", tuple(SKAB_UNITS), tuple(SKAB_UNITS.values()), seed, size or 12
    )


def load_hai(path: str | Path, seed: int, size: int | None) -> DataSet:
    """HAI (Shin, Lee, Yun and Kim) from a folder of one version's files: ``train*.csv`` without attacks, ``test*.csv`` with them.

    The first column is the time; every column whose name begins with ``attack`` is a label (versions call them differently), an attack
    anywhere counts; version 23.05 has its labels in files beside (``label-test1.csv``). Clients are files; the processes P1 to P4 are the
    beginnings of the tags (`process_of`). With `size`, so many rows of each file.
    """
    return _ics(
        "hai", path, ["train*.csv", "hai-train*.csv"], ["test*.csv", "hai-test*.csv"], "time", size
    )


def generate_hai(seed: int, size: int | None) -> DataSet:
    """Runs of a plant of four processes with tags like HAI's; `size` is the number of runs."""
    tags = tuple(
        f"P{1 + i // 5}_{kind}{i % 5 + 1:02d}"
        for i, kind in enumerate(["FT", "LIT", "PIT", "TIT", "FCV"] * 4)
    )
    return _generated("hai", "HAI", tags, ("",) * len(tags), seed, size or 6)


def load_swat(path: str | Path, seed: int, size: int | None) -> DataSet:
    """SWaT (Mathur and Tippenhauer, 2016) from a folder: ``*Normal*.csv`` without attacks, ``*Attack*.csv`` with them.

    A title line before the header, blanks around headers and the misspelt label ``A ttack`` are those of the published files. Stages are
    the first digits of the tags (`process_of`). Save its xlsx files as CSV first. With `size`, so many rows of each file.
    """
    return _ics("swat", path, ["*Normal*.csv"], ["*Attack*.csv"], "timestamp", size)


def generate_swat(seed: int, size: int | None) -> DataSet:
    """Runs of a plant of six stages with tags like SWaT's; `size` is the number of runs."""
    tags = tuple(
        f"{kind}{stage}01" for stage in range(1, 7) for kind in ("FIT", "LIT", "AIT", "PIT")
    )
    return _generated("swat", "SWaT", tags, ("",) * len(tags), seed, size or 6)


def process_of(tag: str) -> str:
    """The process or stage a tag belongs to: ``P1`` of ``P1_FT01``, ``1`` of ``FIT101``; "" when the tag does not say."""
    if "_" in tag:
        return tag.split("_")[0]
    digits = "".join(letter for letter in tag if letter.isdigit())
    return digits[:1]


def correlated_across(x: F64, groups: Sequence[str], *, least: float = 0.3) -> NDArray[np.int64]:
    """Positions of the features with an absolute Pearson correlation of at least `least` to some feature of another group.

    The filter of federated Granger learning on real plants; features that never change correlate with nothing. Rows with an unknown value
    are left out. x [N, F], one group a feature.
    """
    known = x[~np.isnan(x).any(axis=1)]
    centred = known - known.mean(axis=0)
    length = np.sqrt((centred**2).sum(axis=0))
    unit = np.divide(
        centred,
        length,
        out=np.zeros_like(centred),
        where=length > 1e-12 * np.maximum(1.0, np.abs(known).max(axis=0, initial=0)),
    )
    apart = np.array(groups, dtype=object)
    strength = np.where(apart[:, None] != apart[None, :], np.abs(unit.T @ unit), 0.0)
    return np.flatnonzero(strength.max(axis=1) >= least)


def _ics(
    name: str, path: str | Path, train: list[str], test: list[str], time: str, size: int | None
) -> DataSet:
    runs = []
    features: tuple[str, ...] = ()
    for file, attacked in [
        *((file, False) for file in find_files(path, train, name)),
        *((file, True) for file in find_files(path, test, name)),
    ]:
        table = read_columns(file, first=time)
        marks = tuple(
            header
            for header in table.headers
            if header.lower().replace(" ", "").startswith(("attack", "normal/attack"))
        )
        own = tuple(
            header
            for header in table.headers
            if header not in marks and not header.lower().startswith(time)
        )
        features = features or own
        if own != features:
            other = sorted(set(own) ^ set(features))
            raise TableError(
                f"{file} has other columns than the files before it",
                received=", ".join(other[:8]) or "another order",
                help="all files of one folder have the same columns in the same order",
            )
        y = (
            np.max([_marked(table, mark) for mark in marks], axis=0)
            if marks
            else _beside(file, table.rows, attacked)
        )
        moments = seconds_since_1970(
            table.texts(next(header for header in table.headers if header.lower().startswith(time)))
        )
        runs.append(
            (
                file.name.split(".")[0],
                moments[:size],
                table.matrix(features)[:size],
                y[:size],
                attacked,
            )
        )
    return _runs(name, str(path), features, ("",) * len(features), runs)


def _beside(file: Path, rows: int, attacked: bool) -> F64:
    """Labels of a file without a label column: 0 where nothing was attacked, else those of ``label-test1.csv`` beside it (HAI 23.05).

    Raises:
        TableError: when a file of attacks has labels nowhere.
    """
    if not attacked:
        return np.zeros(rows)
    name = f"label-{file.name.removeprefix('hai-')}"
    if not (file.parent / name).is_file():
        raise TableError(
            f"{file} has no labels",
            expected=f"a column that begins with attack, or {name} beside it",
        )
    table = read_columns(file.parent / name, first="label")
    if table.rows != rows:
        raise TableError(
            f"{file.parent / name} does not fit {file.name}",
            expected=f"{rows} rows",
            received=str(table.rows),
        )
    return _marked(table, next(header for header in table.headers if "label" in header.lower()))


def _marked(table: Columns, header: str) -> F64:
    """A column of labels as 0 and 1: numbers, or the words Normal and Attack."""
    cells = [cell.lower().replace(" ", "") for cell in table.texts(header)]
    return np.array([float(cell not in ("0", "0.0", "normal", "")) for cell in cells])


def _generated(
    name: str, title: str, features: tuple[str, ...], units: tuple[str, ...], seed: int, runs: int
) -> DataSet:
    """Signals of a stable process with slow common causes; from some step of an anomalous run on, a third of them leave their level."""
    plant = seeded_generator(seed)
    level, weight = plant.uniform(1, 100, len(features)), plant.normal(size=(3, len(features)))
    made = []
    for run in range(runs):
        draw = seeded_generator(seed, run + 1)
        causes = np.zeros((STEPS, 3))
        for step in range(1, STEPS):
            causes[step] = 0.97 * causes[step - 1] + draw.normal(0, 0.2, 3)
        x = causes @ weight + draw.normal(0, 0.15, (STEPS, len(features)))
        y = np.zeros(STEPS)
        if run:
            start, length = (
                int(draw.integers(STEPS // 3, STEPS // 2)),
                int(draw.integers(STEPS // 6, STEPS // 3)),
            )
            hit = draw.choice(len(features), max(1, len(features) // 3), replace=False)
            x[start : start + length, hit] += draw.choice([-1, 1], len(hit)) * draw.uniform(
                2, 4, len(hit)
            )
            y[start : start + length] = 1.0
        made.append(
            (f"run {run}", np.arange(STEPS, dtype=np.float64), level * (1 + 0.02 * x), y, run > 0)
        )
    return _runs(name, generator_source(title, seed), features, units, made, dated=False)


def _runs(
    name: str,
    source: str,
    features: tuple[str, ...],
    units: tuple[str, ...],
    runs: Sequence[tuple[str, F64, F64, F64, bool]],
    *,
    dated: bool = True,
) -> DataSet:
    """Runs (name, seconds, values, labels, whether it is a test) one after the other; `dated`: the seconds are those since 1970."""
    lengths = [len(values) for _, _, values, _, _ in runs]
    return DataSet(
        name=name,
        source=source,
        x=np.concatenate([values for _, _, values, _, _ in runs]),
        y=np.concatenate([y for _, _, _, y, _ in runs]),
        features=features,
        units=units,
        task="detection",
        label="fault" if name == "skab" else "attack",
        clients=repeat_names([run for run, _, _, _, _ in runs], lengths),
        time=np.concatenate([moments for _, moments, _, _, _ in runs]),
        step_unit="s",
        since_1970=dated,
        test=np.repeat([test for _, _, _, _, test in runs], lengths),
    )
