"""Tables of independent rows: AI4I 2020 (milling), SECOM (a semiconductor line), Covertype (forest
cover by map data).

Letters: N rows, F features.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkg.data import ai4i
from fedkg.data.frame import Frame
from fedkg.data.sets.dataset import (
    DataSet,
    draw_samples,
    generator_source,
    repeat_names,
    seeded_generator,
)
from fedkg.data.sets.numeric_table_reader import Columns, find_files, read_columns, read_text
from fedkg.errors import TableError

F64 = NDArray[np.float64]

_AI4I_UNITS = ("K", "K", "rpm", "N.m", "min")

SECOM_ROWS, SECOM_FEATURES, SECOM_FAILS, SECOM_MISSING = 1_567, 590, 104 / 1_567, 0.045

AREAS = ("Rawah", "Neota", "Comanche Peak", "Cache la Poudre")
COVERS = (
    "Spruce/Fir",
    "Lodgepole Pine",
    "Ponderosa Pine",
    "Cottonwood/Willow",
    "Aspen",
    "Douglas-fir",
    "Krummholz",
)
_MEASURED = {
    "Elevation": "m",
    "Aspect": "deg",
    "Slope": "deg",
    "Horizontal_Distance_To_Hydrology": "m",
    "Vertical_Distance_To_Hydrology": "m",
    "Horizontal_Distance_To_Roadways": "m",
    "Hillshade_9am": "",
    "Hillshade_Noon": "",
    "Hillshade_3pm": "",
    "Horizontal_Distance_To_Fire_Points": "m",
}
_AREAS = tuple(f"Wilderness_Area_{i}" for i in range(1, 5))
_SOILS = tuple(f"Soil_Type_{i}" for i in range(1, 41))
COVTYPE_FEATURES = (*_MEASURED, *_AREAS, *_SOILS)
COVTYPE_ROWS = 20_000
_COVER_HEIGHTS = np.array([3128.0, 2920.0, 2394.0, 2224.0, 2787.0, 2419.0, 3361.0])
_COVER_SHARES = np.array([0.365, 0.488, 0.062, 0.005, 0.016, 0.030, 0.034])


def load_ai4i(path: str | Path, seed: int, size: int | None) -> DataSet:
    """Load AI4I 2020 (Matzka, 2020, UCI): five process values, the variant of each part, and
    machine failures.
    """
    return draw_samples(_milling(ai4i.load(path), str(path)), size, seed)


def generate_ai4i(seed: int, size: int | None) -> DataSet:
    """Generate rows with the published distributions of AI4I 2020; see `fedkg.data.ai4i`."""
    frame = ai4i.generate(size or ai4i.DEFAULT_ROWS, seed)
    return _milling(frame, frame.name)


def _milling(frame: Frame, source: str) -> DataSet:
    variant = np.array(frame.texts(ai4i.TYPE), dtype=object)
    columns = [frame.numbers(header) for header in ai4i.FEATURES] + [
        (variant == letter).astype(np.float64) for letter in ai4i.VARIANTS
    ]
    return DataSet(
        name="ai4i",
        source=source,
        x=np.stack(columns, axis=1),
        y=frame.numbers(ai4i.FAILURE),
        features=(*ai4i.FEATURES, *(f"{ai4i.TYPE}={letter}" for letter in ai4i.VARIANTS)),
        units=(*_AI4I_UNITS, "", "", ""),
        task="detection",
    )


def load_secom(path: str | Path, seed: int, size: int | None) -> DataSet:
    """Load SECOM (McCann and Johnston, 2008, UCI): sensors of a semiconductor line; a part failed
    (1) or passed (0).

    Reads one table with a column ``Status`` (-1 passed, 1 failed), or a folder with UCI's
    ``secom.data`` and ``secom_labels.data``. Many cells are unknown; sensors have no published
    units.
    """
    root = Path(path)
    if root.is_dir() and list(root.glob("secom.data*")):
        x, status = _uci_secom(root)
        features = tuple(f"Feature_{i}" for i in range(1, x.shape[1] + 1))
    else:
        table = _one_table(root, "SECOM", "Status")
        features = tuple(header for header in table.headers if header != "Status")
        x, status = table.matrix(features), table.numbers("Status")
    if (wrong := np.flatnonzero(np.abs(status) != 1)).size:
        raise TableError(
            f"{path}: the status of SECOM must be -1 or 1",
            received=f"{status[wrong[0]]:g} in row {wrong[0] + 1}",
            help="use secom_labels.data as it was published",
        )
    return draw_samples(_secom(x, (status > 0).astype(np.float64), features, str(path)), size, seed)


def generate_secom(seed: int, size: int | None) -> DataSet:
    """Generate rows of SECOM's form: 590 sensors that follow eight hidden states of the line.

    4.5 % of the cells are unknown (whole sensors fail more often). 6.6 % of the parts fail: those
    with states far out in one direction.
    """
    draw, rows = seeded_generator(seed), size or SECOM_ROWS
    states = draw.normal(size=(rows, 8))
    x = states @ draw.normal(size=(8, SECOM_FEATURES)) + draw.normal(size=(rows, SECOM_FEATURES))
    x = x * draw.lognormal(0, 1.5, SECOM_FEATURES) + draw.normal(0, 100, SECOM_FEATURES)
    risk = states @ draw.normal(size=8) + draw.normal(0, 0.7, rows)
    failed = np.zeros(rows)
    failed[np.argsort(-risk, kind="stable")[: max(1, round(SECOM_FAILS * rows))]] = 1.0
    shares = np.minimum(draw.exponential(SECOM_MISSING, SECOM_FEATURES), 0.9)
    x[draw.random(x.shape) < shares] = np.nan
    return _secom(
        x,
        failed,
        tuple(f"Feature_{i}" for i in range(1, SECOM_FEATURES + 1)),
        generator_source("SECOM", seed),
    )


def _secom(x: F64, y: F64, features: tuple[str, ...], source: str) -> DataSet:
    return DataSet(
        name="secom",
        source=source,
        x=x,
        y=y,
        features=features,
        units=("",) * len(features),
        task="detection",
    )


def _uci_secom(root: Path) -> tuple[F64, F64]:
    values, marks = (
        [
            line.split()
            for line in read_text(find_files(root, [name], "SECOM")[0]).splitlines()
            if line.strip()
        ]
        for name in ("secom.data", "secom_labels.data")
    )
    if len(values) != len(marks) or not values:
        raise TableError(
            f"{root}: secom.data and secom_labels.data must have the same number of rows",
            received=f"{len(values)} rows and {len(marks)} labels",
            help="download both files again: one of them is incomplete, or a different file",
        )
    try:
        return np.array(values, dtype=np.float64), np.array([row[0] for row in marks], np.float64)
    except ValueError as error:
        width = len(values[0])
        other = next((i for i, row in enumerate(values) if len(row) != width), None)
        raise TableError(
            f"{root}: secom.data or secom_labels.data is not a table of numbers",
            expected="numbers in both files, and equally many in each row of secom.data",
            received=str(error)
            if other is None
            else f"{width} in row 1 and {len(values[other])} in row {other + 1}",
            help="download both files again: one of them is incomplete, or a different file",
        ) from error


def load_covtype(path: str | Path, seed: int, size: int | None) -> DataSet:
    """Load Covertype (Blackard and Dean, 1999, UCI): map data of 30 m cells and their forest cover
    (7 classes).

    The wilderness area is the client. Reads a table with the 54 columns and ``Cover_Type``, or
    UCI's ``covtype.data`` without a header.
    """
    root = Path(path)
    plain = next(iter(sorted(root.glob("covtype.data*"))), None) if root.is_dir() else root
    if plain is not None and plain.name.startswith("covtype.data"):
        try:
            rows = np.loadtxt(read_text(plain).splitlines(), delimiter=",", ndmin=2)
        except ValueError as error:
            raise TableError(
                f"{plain} is not a table of numbers with commas between them",
                received=str(error),
                help="use covtype.data as UCI published it",
            ) from error
        x, cover = rows[:, :-1], rows[:, -1]
    else:
        table = _one_table(root, "Covertype", "Cover_Type")
        x, cover = table.matrix(COVTYPE_FEATURES), table.numbers("Cover_Type")
    wrong = np.flatnonzero(~np.isin(cover, range(1, 8)))
    if x.shape[1] != len(COVTYPE_FEATURES) or wrong.size:
        raise TableError(
            f"{path} is not the Covertype data set",
            expected="54 features, and a cover type from 1 to 7",
            received=f"{x.shape[1]} features"
            + (f", and cover type {cover[wrong[0]]:g} in row {wrong[0] + 1}" if wrong.size else ""),
            help="use covtype.data as UCI published it",
        )
    return draw_samples(_covtype(x, cover.astype(np.int64) - 1, str(path)), size, seed)


def generate_covtype(seed: int, size: int | None) -> DataSet:
    """Generate cells of Covertype's form: height determines cover, area and soil; other columns are
    terrain.
    """
    draw, rows = seeded_generator(seed), size or COVTYPE_ROWS
    cover = draw.choice(7, size=rows, p=_COVER_SHARES / _COVER_SHARES.sum())
    height = _COVER_HEIGHTS[cover] + draw.normal(0, 110, rows)
    aspect, slope = draw.uniform(0, 360, rows), np.minimum(draw.gamma(3.5, 4, rows), 60)
    light = [
        254
        * np.cos(np.radians(slope))
        * (1 + 0.3 * np.cos(np.radians(aspect - sun)) * np.sin(np.radians(slope)))
        for sun in (90, 180, 270)
    ]
    water, road, fire = (
        draw.gamma(1.5, 180, rows),
        draw.gamma(2, 1_100, rows),
        draw.gamma(2, 950, rows),
    )
    measured = [
        height,
        aspect,
        slope,
        water,
        water * draw.normal(0.15, 0.1, rows),
        road,
        *(np.clip(shade, 0, 254) for shade in light),
        fire,
    ]
    area = np.clip(np.searchsorted([2_500, 2_800, 3_100], height + draw.normal(0, 150, rows)), 0, 3)
    soil = np.clip((height - 2_000) / 45 + draw.normal(0, 3, rows), 0, 39).astype(np.int64)
    x = np.concatenate(
        [
            np.round(np.stack(measured, 1)),
            np.eye(4)[np.array([3, 2, 0, 1])[area]],
            np.eye(40)[soil],
        ],
        axis=1,
    )
    return _covtype(x, cover.astype(np.int64), generator_source("Covertype", seed))


def _covtype(x: F64, cover: NDArray[np.int64], source: str) -> DataSet:
    area = x[:, len(_MEASURED) : len(_MEASURED) + 4].argmax(1)
    clients = repeat_names(list(AREAS), [1] * 4)[area]
    units = (*_MEASURED.values(), *("",) * 44)
    return DataSet(
        name="covtype",
        source=source,
        x=x,
        y=cover,
        features=COVTYPE_FEATURES,
        units=units,
        task="classes",
        classes=COVERS,
        clients=clients,
    )


def _one_table(path: Path, what: str, header: str) -> Columns:
    """The table at a path, or the one CSV file of a folder."""
    return read_columns(
        find_files(path, ["*.csv"], what)[0] if path.is_dir() else path, first=header
    )
