"""The milling machine table of AI4I 2020 (Matzka, 2020, UCI): columns, failure conditions,
generator, loader.

The published description fixes the marginals: variants L/M/H, temperatures as normalised random
walks, torque, tool wear per part and the five failure modes. One sentence of it does not suffice to
draw a table: a speed "calculated from a power of 2,860 W" alone would be 683 rpm at 40 Nm, and
every row would fail for too little power. The public file shows how the power enters: as a part
that 2,860 W turn at the cutting torque plus the friction of the spindle, on top of a base speed.
The base speed, the friction and the spread of the noise (908 rpm, 5.7 Nm, 50 rpm) are fitted to the
public file; the residual then has the same spread at every torque.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkg.data.frame import Frame, from_table, text_array

F64 = NDArray[np.float64]
Mask = NDArray[np.bool_]

UDI, PRODUCT, TYPE = "UDI", "Product ID", "Type"
AIR, PROCESS = "Air temperature [K]", "Process temperature [K]"
SPEED, TORQUE, WEAR = "Rotational speed [rpm]", "Torque [Nm]", "Tool wear [min]"
FAILURE = "Machine failure"
MODES = ("TWF", "HDF", "PWF", "OSF", "RNF")
FEATURES = (AIR, PROCESS, SPEED, TORQUE, WEAR)

VARIANTS = ("L", "M", "H")
SHARES = (0.6, 0.3, 0.1)
WEAR_PER_PART = {"L": 2.0, "M": 3.0, "H": 5.0}
STRAIN_LIMITS = {"L": 11_000.0, "M": 12_000.0, "H": 13_000.0}
SERIALS = {"L": 47_179, "M": 14_859, "H": 29_413}

POWER = 2_860.0
BASE_SPEED, FRICTION, SPEED_NOISE, TOP_SPEED = 908.0, 5.7, 50.0, 2_900.0
RAD_PER_S = 2.0 * math.pi / 60.0
TOOL_LIFE = (200.0, 240.0)
TOOL_FAILS = 51 / 120
RANDOM_FAILURE = 0.001

DEFAULT_ROWS = 10_000
DEFAULT_SEED = 6


def generate(rows: int = DEFAULT_ROWS, seed: int = DEFAULT_SEED) -> Frame:
    """Generate a table with the form and the distributions of the public file; equal arguments give
    equal tables.

    Values are rounded to the decimals of the file before any condition is tested, so a rule that
    states a condition finds exactly the rows of its failure column. The number of heat failures
    varies most between seeds, because it depends on two random walks.
    """
    streams = [
        np.random.Generator(np.random.PCG64(child))
        for child in np.random.SeedSequence(seed).spawn(7)
    ]
    variant = np.array(VARIANTS, dtype=object)[streams[0].choice(3, size=rows, p=SHARES)]
    air = round_to_file(300.0 + 2.0 * _walk(streams[1], rows), 1)
    process = round_to_file(air + 10.0 + _walk(streams[2], rows), 1)
    torque = round_to_file(_positive_normal(streams[3], rows, 40.0, 10.0), 1)
    load_speed = POWER / ((torque + FRICTION) * RAD_PER_S)
    speed = round_to_file(
        np.minimum(BASE_SPEED + load_speed + streams[4].normal(0.0, SPEED_NOISE, rows), TOP_SPEED),
        0,
    )
    wear, worn_out = _tool_wear(streams[5], variant)
    modes = {
        "TWF": worn_out,
        "HDF": heat_failure(air, process, speed),
        "PWF": power_failure(speed, torque),
        "OSF": strain_failure(torque, wear, variant),
        "RNF": streams[6].random(rows) < RANDOM_FAILURE,
    }
    number = np.arange(1, rows + 1)
    columns: dict[str, NDArray[Any]] = {
        UDI: number.astype(np.float64),
        PRODUCT: text_array(
            [
                f"{letter}{SERIALS[letter] + n}"
                for letter, n in zip(variant.tolist(), number.tolist(), strict=True)
            ]
        ),
        TYPE: variant,
        AIR: air,
        PROCESS: process,
        SPEED: speed,
        TORQUE: torque,
        WEAR: wear,
        FAILURE: np.logical_or.reduce(list(modes.values())).astype(np.float64),
    }
    columns.update({mode: mask.astype(np.float64) for mode, mask in modes.items()})
    return Frame(name=f"AI4I generator (seed {seed})", columns=columns)


def load(path: str | Path) -> Frame:
    """Load the public file (comma or tab separated, gzip or not) or any table with its columns.

    Raises:
        TableError: the file cannot be read, lacks a column, or has text in a column of numbers.
    """
    from fedkg.tables import read_table

    return from_table(read_table(path), numeric=(*FEATURES, FAILURE), text=(TYPE,))


def round_to_file(values: F64, digits: int) -> F64:
    """Round values to the decimals of the public file."""
    return np.asarray(np.round(values, digits), dtype=np.float64)


def heat_failure(air: F64, process: F64, speed: F64) -> Mask:
    """Heat dissipation failure: process and air differ by less than 8.6 K below 1,380 rpm."""
    return (process - air < 8.6) & (speed < 1380.0)


def power_failure(speed: F64, torque: F64) -> Mask:
    """Power failure: torque times angular speed is outside 3,500 .. 9,000 W."""
    power = torque * (speed * RAD_PER_S)
    return (power < 3500.0) | (power > 9000.0)


def strain_failure(torque: F64, wear: F64, variant: NDArray[Any]) -> Mask:
    """Overstrain failure: torque times tool wear exceeds the limit of the variant.

    The limits are 11,000, 12,000 and 13,000 min Nm for L, M and H.
    """
    limits = np.array([STRAIN_LIMITS[letter] for letter in variant.tolist()])
    return torque * wear > limits


def _walk(stream: np.random.Generator, rows: int) -> F64:
    """A random walk [N] with mean 0 and standard deviation 1."""
    steps: F64 = np.cumsum(stream.normal(size=rows))
    spread = float(steps.std())
    return np.asarray((steps - steps.mean()) / (spread if spread > 0.0 else 1.0), dtype=np.float64)


def _positive_normal(stream: np.random.Generator, rows: int, mean: float, deviation: float) -> F64:
    values = stream.normal(mean, deviation, rows)
    while (wrong := values < 0.05).any():
        values[wrong] = stream.normal(mean, deviation, int(wrong.sum()))
    return values


def _tool_wear(stream: np.random.Generator, variant: NDArray[Any]) -> tuple[F64, Mask]:
    """Tool wear [N] before each part, and the rows [N] with a tool failure.

    The life of each tool is drawn from 200 .. 240 min. At the first part with that much wear (never
    above 240 min) the tool fails (51 times in 120) or is replaced, and the next part gets a new
    tool.
    """
    rows = len(variant)
    worn = np.concatenate(
        [[0.0], np.cumsum([WEAR_PER_PART[letter] for letter in variant.tolist()])]
    )[:rows]
    wear, failed = np.empty(rows), np.zeros(rows, dtype=bool)
    start = 0
    while start < rows:
        life = stream.uniform(*TOOL_LIFE)
        fails = stream.random() < TOOL_FAILS
        last = int(np.searchsorted(worn, worn[start] + life))
        if last < rows and worn[last] - worn[start] > TOOL_LIFE[1]:
            last -= 1
        wear[start : last + 1] = worn[start : last + 1] - worn[start]
        if last < rows:
            failed[last] = fails
        start = last + 1
    return wear, failed
