"""Runs of industrial test beds with labelled faults and attacks: SKAB, HAI, SWaT, and a generator.

Letters: N rows (one step of one run each), F features.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkg.data.sets.dataset import DataSet, generator_source, repeat_names, seeded_generator
from fedkg.data.sets.numeric_table_reader import (
    Columns,
    find_files,
    read_columns,
    seconds_since_1970,
)
from fedkg.errors import TableError

F64 = NDArray[np.float64]

SKAB_UNITS = {
    "Accelerometer1RMS": "", "Accelerometer2RMS": "", "Current": "A", "Pressure": "bar",
    "Temperature": "degC", "Thermocouple": "degC",
    "Voltage": "V", "Volume Flow RateRMS": "L/min",
}  # fmt: skip
STEPS = 1_200
BOILER_LOGIC = re.compile(r"x10\d\d_")
"""How the tags of HAI's control logic begin, with the number of its page."""


def load_skab(path: str | Path, seed: int, size: int | None) -> DataSet:
    """Load SKAB (Katser and Kozitsin, 2020) from its data folder.

    The run without anomalies comes first, then the labelled runs, which are the test set. Clients
    are runs (``valve1/0``), the target marks anomalous steps, and a step is one second. `size`
    limits the number of runs.
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
            f"there are no runs of SKAB in {root}",
            expected="the folders anomaly-free, valve1, valve2, other",
            help=f"put these folders into {root}, or correct the path",
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
    """Generate `size` runs with SKAB's eight signals, the first one without an anomaly."""
    return _generated(
        "skab", "SKAB", tuple(SKAB_UNITS), tuple(SKAB_UNITS.values()), seed, size or 12
    )


def load_hai(path: str | Path, seed: int, size: int | None) -> DataSet:
    """Load HAI (Shin, Lee, Yun and Kim) from a folder of one version's files.

    ``train*.csv`` has no attacks, ``test*.csv`` has some. The first column is the time. Every
    column with a name that begins with ``attack`` is a label (versions name them differently), and
    an attack in any of them counts. Version 23.05 has its labels in separate files
    (``label-test1.csv``). Clients are files; tags begin with their process, P1 to P4
    (`process_of`). `size` limits the rows of each file.
    """
    return _ics(
        "hai", path, ["train*.csv", "hai-train*.csv"], ["test*.csv", "hai-test*.csv"], "time", size
    )


def generate_hai(seed: int, size: int | None) -> DataSet:
    """Generate `size` runs of a plant with four processes and tags like HAI's."""
    tags = tuple(
        f"P{1 + i // 5}_{kind}{i % 5 + 1:02d}"
        for i, kind in enumerate(["FT", "LIT", "PIT", "TIT", "FCV"] * 4)
    )
    return _generated("hai", "HAI", tags, ("",) * len(tags), seed, size or 6)


def load_swat(path: str | Path, seed: int, size: int | None) -> DataSet:
    """Load SWaT (Mathur and Tippenhauer, 2016) from a folder.

    ``*Normal*.csv`` has no attacks, ``*Attack*.csv`` has some. The reader accepts a title line
    before the header, blanks around headers and the misspelt label ``A ttack`` of the published
    files. Stages are the first digits of the tags (`process_of`). Save its xlsx files as CSV first.
    `size` limits the rows of each file.
    """
    return _ics("swat", path, ["*Normal*.csv"], ["*Attack*.csv"], "timestamp", size)


def generate_swat(seed: int, size: int | None) -> DataSet:
    """Generate `size` runs of a plant with six stages and tags like SWaT's."""
    tags = tuple(
        f"{kind}{stage}01" for stage in range(1, 7) for kind in ("FIT", "LIT", "AIT", "PIT")
    )
    return _generated("swat", "SWaT", tags, ("",) * len(tags), seed, size or 6)


def process_of(tag: str) -> str:
    """The process or stage of a tag: ``P1`` of ``P1_FT01``, ``1`` of ``FIT101``; "" if the tag has
    none. Tags such as ``x1001_05_SETPOINT_OUT`` are of the control logic of HAI's boiler, P1.
    """
    if BOILER_LOGIC.match(tag):
        return "P1"
    if "_" in tag:
        return tag.split("_")[0]
    digits = "".join(letter for letter in tag if letter.isdigit())
    return digits[:1]


def correlated_across(x: F64, groups: Sequence[str], *, least: float = 0.3) -> NDArray[np.int64]:
    """Positions of features with an absolute Pearson correlation of at least `least` to a feature
    of another group.

    Federated Granger learning filters features of real plants this way. Constant features correlate
    with nothing. Rows with an unknown value are skipped. x [N, F], one group per feature.
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
            lacks, adds = sorted({*features} - {*own}), sorted({*own} - {*features})
            found = [f"without {', '.join(lacks[:4])}"] if lacks else []
            found += [f"with {', '.join(adds[:4])}"] if adds else []
            raise TableError(
                f"{file} does not have the columns of the first file of the folder",
                received=" and ".join(found) or "the same columns in another order",
                help="all files of one folder must have the same columns in the same order",
            )
        y = (
            np.max([_marked(table, mark) for mark in marks], axis=0)
            if marks
            else _separate_labels(file, table.rows, attacked)
        )
        moments = seconds_since_1970(
            table.texts(next((one for one in table.headers if one.lower().startswith(time)), time)),
            f"{file}: the column of times",
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


def _separate_labels(file: Path, rows: int, attacked: bool) -> F64:
    """Labels of a file without a label column: 0 for normal files, else those of
    ``label-test1.csv`` (HAI 23.05).

    Raises:
        TableError: a file with attacks has no labels.
    """
    if not attacked:
        return np.zeros(rows)
    name = f"label-{file.name.removeprefix('hai-')}"
    if not (file.parent / name).is_file():
        raise TableError(
            f"{file} has no labels",
            expected=f"a column that begins with attack, or a file {name} in the same folder",
            help="put the file with the labels into this folder",
        )
    table = read_columns(file.parent / name, first="label")
    if table.rows != rows:
        raise TableError(
            f"{file.parent / name} must have one label for each row of {file.name}",
            expected=f"{rows} rows",
            received=f"{table.rows} rows",
            help="use both files of the same publication",
        )
    return _marked(table, next((one for one in table.headers if "label" in one.lower()), "label"))


def _marked(table: Columns, header: str) -> F64:
    """A column of labels as 0 and 1: numbers, or the words Normal and Attack."""
    cells = [cell.lower().replace(" ", "") for cell in table.texts(header)]
    return np.array([float(cell not in ("0", "0.0", "normal", "")) for cell in cells])


def _generated(
    name: str, title: str, features: tuple[str, ...], units: tuple[str, ...], seed: int, runs: int
) -> DataSet:
    """Generate runs with slow common causes; in an anomalous run, a third of the signals leave
    their level at some step.
    """
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
    """Concatenate runs (name, seconds, values, labels, is a test); with `dated`, seconds count from
    1970.
    """
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
