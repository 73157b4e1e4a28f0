"""Turbofan engines run to failure: NASA's C-MAPSS (Saxena and others, 2008), and a generator.

Source: Saxena, Goebel, Simon and Eklund, 2008. Letters: N rows (one cycle of one engine each).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkg.data.sets.dataset import DataSet, generator_source, repeat_names, seeded_generator
from fedkg.data.sets.numeric_table_reader import find_files, read_decompressed
from fedkg.errors import TableError

F64 = NDArray[np.float64]

SENSORS = {
    "T2": "degR", "T24": "degR", "T30": "degR", "T50": "degR", "P2": "psi", "P15": "psi",
    "P30": "psi", "Nf": "rpm", "Nc": "rpm",
    "epr": "", "Ps30": "psi", "phi": "", "NRf": "rpm", "NRc": "rpm", "BPR": "", "farB": "",
    "htBleed": "", "Nf_dmd": "rpm",
    "PCNfR_dmd": "rpm", "W31": "lb/s", "W32": "lb/s",
}  # fmt: skip
"""The 21 sensors in the order of the files, with units."""
SETTINGS = ("setting_1", "setting_2", "setting_3")
FEATURES = (*SETTINGS, *SENSORS)
ENGINES = 100
_LEVEL = np.array(
    [
        518.67,
        642.2,
        1586,
        1400,
        14.62,
        21.61,
        554,
        2388.06,
        9050,
        1.3,
        47.3,
        522,
        2388.06,
        8133,
        8.42,
        0.03,
        392,
        2388,
        100,
        39,
        23.4,
    ]
)
_DRIFT = np.array(
    [0, 1.8, 20, 30, 0, 0, -3.5, 0.2, 40, 0, 1.2, -3, 0.2, 30, 0.13, 0, 5, 0, 0, -0.7, -0.45]
)
_NOISE = np.array(
    [0, 0.35, 4.5, 4, 0, 0.001, 0.5, 0.04, 8, 0, 0.16, 0.5, 0.04, 7, 0.025, 0, 1, 0, 0, 0.12, 0.07]
)


def load_cmapss(path: str | Path, seed: int, size: int | None) -> DataSet:
    """Load C-MAPSS from the folder of its text files.

    Reads every ``train_FD00*.txt``, and every ``test_FD00*.txt`` that has its ``RUL_FD00*.txt``.
    The target is the remaining useful life in cycles: counted from the last cycle of a training
    engine, and from the published value for a test engine. Clients are engines (``FD001 train 1``).
    `size` limits the number of engines, in the order of the files.

    Raises:
        TableError: a file is not 26 columns of numbers, or there is not one remaining life for each
            test engine.
    """
    runs: list[tuple[str, F64, float, bool]] = []
    for file in find_files(path, ["train_FD*.txt", "test_FD*.txt"], "C-MAPSS"):
        part, _, subset = file.name.split(".")[0].partition("_")
        rests = [
            rest
            for rest in (file.parent / f"RUL_{subset}.txt", file.parent / f"RUL_{subset}.txt.gz")
            if rest.is_file()
        ]
        if part == "test" and not rests:
            continue
        rows = _numbers(file, 26)
        engines = [rows[rows[:, 0] == unit] for unit in np.unique(rows[:, 0])]
        left = _numbers(rests[0], 1)[:, 0] if part == "test" else np.zeros(len(engines))
        if len(left) != len(engines):
            raise TableError(
                f"{rests[0]} must have one remaining life for each engine of {file.name}",
                expected=f"{len(engines)} lines",
                received=f"{len(left)} lines",
                help="use the RUL and test files of the same subset, as published",
            )
        runs += [
            (f"{subset} {part} {int(own[0, 0])}", own[:, 1:], float(rest), part == "test")
            for own, rest in zip(engines, left, strict=True)
        ]
    if not runs:
        raise TableError(
            f"{path} has test files of C-MAPSS without their remaining lives",
            expected="train_FD*.txt, or RUL_FD*.txt beside test_FD*.txt",
            help="put the missing files of the subset into this folder",
        )
    return _engines(runs[:size], str(path))


def generate_cmapss(seed: int, size: int | None) -> DataSet:
    """Generate `size` engines of C-MAPSS's form.

    Each engine wears from a random start at a random pace, and sensors follow the exponential of
    the wear, with noise. Every second engine is a test engine, cut off before its end.
    """
    runs = []
    for number in range(size or ENGINES):
        draw = seeded_generator(seed, number)
        life = int(np.clip(draw.gamma(14, 15), 128, 362))
        wear = np.exp(np.linspace(draw.uniform(-6, -4), 0, life))
        sensors = _LEVEL + wear[:, None] * _DRIFT + draw.normal(size=(life, 21)) * _NOISE
        settings = np.stack(
            [draw.normal(0, 0.0022, life), draw.normal(0, 0.0003, life), np.full(life, 100.0)], 1
        )
        rows = np.concatenate([np.arange(1.0, life + 1)[:, None], settings, sensors], 1)
        test = number % 2 == 1
        seen = int(draw.integers(31, life)) if test else life
        runs.append(
            (
                f"{'test' if test else 'train'} {number // 2 + 1}",
                rows[:seen],
                float(life - seen),
                test,
            )
        )
    return _engines(runs, generator_source("C-MAPSS", seed))


def _engines(runs: list[tuple[str, F64, float, bool]], source: str) -> DataSet:
    """Combine rows (cycle, settings, sensors) of engines, each with its cycles left at the last
    row, into a data set.
    """
    lengths = [len(rows) for _, rows, _, _ in runs]
    every: NDArray[Any] = np.concatenate([rows for _, rows, _, _ in runs])
    return DataSet(
        name="cmapss",
        source=source,
        x=every[:, 1:],
        y=np.concatenate([rest + rows[-1, 0] - rows[:, 0] for _, rows, rest, _ in runs]),
        features=FEATURES,
        units=("", "", "", *SENSORS.values()),
        task="regression",
        clients=repeat_names([name for name, _, _, _ in runs], lengths),
        time=every[:, 0],
        step_unit="cycle",
        test=np.repeat([test for _, _, _, test in runs], lengths),
    )


def _numbers(path: Path, columns: int) -> F64:
    try:
        rows = np.loadtxt(read_decompressed(path).decode().splitlines(), ndmin=2)
    except (ValueError, UnicodeDecodeError) as error:
        raise TableError(
            f"{path} is not a table of numbers",
            received=str(error),
            help="use train_FD001.txt and the other files as published: numbers separated by "
            "blanks",
        ) from error
    if rows.shape[1] != columns:
        raise TableError(
            f"{path} does not have the columns of the data set",
            expected=f"{columns} numbers in each line",
            received=f"{rows.shape[1]} numbers",
            help="use train_FD001.txt and the other files as published",
        )
    return np.asarray(rows, dtype=np.float64)
