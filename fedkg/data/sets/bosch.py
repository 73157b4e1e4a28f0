"""Parts on Bosch's production lines (Kaggle, 2016): a chunked reader, and a streaming generator.

Letters: N rows (one part each), F = 968 features.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkg.data.sets.dataset import DataSet, generator_source, seeded_generator
from fedkg.errors import JobError, MissingExtra, TableError

FEATURES, MISSING, FAILS, ROWS = 968, 0.45, 0.0058, 1_183_747
"""Size of the data set according to the SCFA paper (section 8 of its specification)."""
CHUNK = 10_000
GENERATED = 20_000
_LINES = (24, 2, 3, 23)
"""Stations of lines 0 to 3, 52 in all."""
_WEAR, _LOAD = 0, 1
"""Features that rise with the risk: a tool's wear, with a monotone effect, and a load that must
stay below a capacity of 1.
"""


def chunks(
    path: str | Path | None = None, *, seed: int = 0, size: int | None = None, rows: int = CHUNK
) -> Iterator[DataSet]:
    """Iterate over the data set in chunks of about `rows` rows, one in memory at a time.

    Args:
        path: ``train_numeric.csv`` (also gzipped or as Parquet), or None for the generator.
        seed: of the generator.
        size: rows in all; None: all of the file, or 1,183,747.
        rows: rows of a chunk.

    Raises:
        TableError: the file has no columns ``Id`` and ``Response``.
    """
    if rows < 1:
        raise JobError("a chunk must have at least one row", received=str(rows))
    whole = ROWS if size is None else size
    pieces = _generated_chunks(seed, whole) if path is None else _file_chunks(Path(path), rows)
    source = generator_source("Bosch", seed) if path is None else str(path)
    left = whole if path is None or size is not None else None
    for feature_names, x, y in pieces:
        for start in range(0, len(x), rows):
            stop = (
                min(start + rows, len(x))
                if left is None
                else min(start + rows, len(x), start + left)
            )
            yield _data(source, feature_names, x[start:stop], y[start:stop])
            if left is not None:
                left -= stop - start
                if left <= 0:
                    return


def load_bosch(path: str | Path, seed: int, size: int | None) -> DataSet:
    """Load the first `size` rows of ``train_numeric.csv``, or all (4.6 GB); see `chunks`."""
    return _concatenate(list(chunks(path, size=size)))


def generate_bosch(seed: int, size: int | None) -> DataSet:
    """Generate `size` rows with Bosch's form: 968 features of 52 stations on 4 lines.

    45 % of the cells are unknown, because parts pass only some stations; 0.58 % of the parts fail.
    The first feature is wear (more is never safer), the second a load with a capacity of 1. The
    first rows of a longer table equal those of a shorter one.
    """
    rows = size or GENERATED
    x, y = np.empty((rows, FEATURES), dtype=np.float32), np.empty(rows)
    at = 0
    for part in chunks(None, seed=seed, size=rows):
        x[at : at + part.samples], y[at : at + part.samples] = part.x, part.y
        at += part.samples
    return _data(generator_source("Bosch", seed), feature_names(), x, y)


def _concatenate(parts: list[DataSet]) -> DataSet:
    """Concatenate all parts, and free each one after it is copied, to limit the peak memory."""
    source, features = parts[0].source, parts[0].features
    rows = sum(part.samples for part in parts)
    x, y = np.empty((rows, len(features)), dtype=parts[0].x.dtype), np.empty(rows)
    parts.reverse()
    at = 0
    while parts:
        part = parts.pop()
        x[at : at + part.samples], y[at : at + part.samples] = part.x, part.y
        at += part.samples
        del part
    return _data(source, features, x, y)


def _data(
    source: str,
    features: tuple[str, ...],
    x: NDArray[np.float32] | NDArray[np.float64],
    y: NDArray[np.float64],
) -> DataSet:
    return DataSet(
        name="bosch",
        source=source,
        x=x,
        y=y,
        features=features,
        units=("",) * len(features),
        task="detection",
    )


@cache
def feature_names() -> tuple[str, ...]:
    """``L0_S0_F0`` and so on: line, station, number; the features are spread evenly over the
    stations.
    """
    stations = [(line, station) for line, count in enumerate(_LINES) for station in range(count)]
    numbered = ((line, sum(_LINES[:line]) + station) for line, station in stations)
    counts = np.diff(np.linspace(0, FEATURES, len(stations) + 1).astype(np.int64)).tolist()
    places = [place for place, count in zip(numbered, counts, strict=True) for _ in range(count)]
    return tuple(f"L{line}_S{station}_F{number}" for number, (line, station) in enumerate(places))


def _generated_chunks(
    seed: int, size: int
) -> Iterator[tuple[tuple[str, ...], NDArray[np.float32], NDArray[np.float64]]]:
    """Generate chunks that depend only on the seed and their number, so a longer table begins like
    a shorter one.
    """
    plant = seeded_generator(seed)
    station = np.array([int(name.split("_")[1][1:]) for name in feature_names()])
    # Nearly all parts pass half of the stations, few pass the others: on average 45 % unknown.
    passed = np.where(np.arange(sum(_LINES)) % 2 == 0, 0.95, 2 * (1 - MISSING) - 0.95)
    passed[station[_WEAR]] = 1.0
    share = float((passed[station]).mean())
    passed[1::2] -= (share - (1 - MISSING)) / float(
        np.isin(station, np.arange(1, sum(_LINES), 2)).mean()
    )
    weight = plant.normal(size=(6, FEATURES)).astype(np.float32) * 0.08
    risky = plant.normal(size=6) * 0.6
    for number in range(-(-size // CHUNK)):
        draw = seeded_generator(seed, number + 1)
        causes = draw.normal(size=(CHUNK, 6)).astype(np.float32)
        x = causes @ weight + 0.15 * draw.standard_normal((CHUNK, FEATURES), dtype=np.float32)
        x[:, _WEAR], x[:, _LOAD] = draw.random(CHUNK), draw.gamma(6, 0.09, CHUNK)
        risk = (
            4 * x[:, _WEAR] ** 3
            + 5 * np.maximum(x[:, _LOAD] - 1, 0)
            + causes @ risky
            + draw.gumbel(size=CHUNK)
        )
        y = np.zeros(CHUNK)
        y[np.argsort(-risk, kind="stable")[: round(FAILS * CHUNK)]] = 1.0
        gone = draw.random((CHUNK, len(passed)), dtype=np.float32) >= passed
        x[gone[:, station]] = np.nan
        yield feature_names(), x, y


def _file_chunks(
    path: Path, rows: int
) -> Iterator[tuple[tuple[str, ...], NDArray[np.float32], NDArray[np.float64]]]:
    try:
        import pyarrow as pa
        import pyarrow.csv as csv
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtra(f"reading {path}", "run") from error
    try:
        if path.suffix == ".parquet":
            batches = parquet.ParquetFile(path).iter_batches(rows)
        else:
            block = csv.ReadOptions(block_size=max(1 << 20, 6_000 * rows))
            numbers = csv.ConvertOptions(column_types=_types(path), null_values=["", "NA", "nan"])
            batches = iter(
                csv.open_csv(
                    pa.input_stream(str(path)), read_options=block, convert_options=numbers
                )
            )
        for batch in batches:
            headers = batch.schema.names
            if "Id" not in headers or "Response" not in headers:
                raise TableError(
                    f"{path} is not the table of measurements of the Bosch data set",
                    expected="columns Id, L0_S0_F0 ... and Response",
                    help="use train_numeric.csv of the competition",
                )
            features = tuple(name for name in headers if name not in ("Id", "Response"))
            columns = [
                batch.column(headers.index(name)).cast(pa.float32()).to_numpy(zero_copy_only=False)
                for name in features
            ]
            yield (
                features,
                np.stack(columns, 1),
                batch.column(headers.index("Response"))
                .to_numpy(zero_copy_only=False)
                .astype(np.float64),
            )
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TableError(
            f"{path} cannot be read",
            received=str(error).split("\n")[0],
            help="use the unchanged file of the competition; download it again if it is incomplete",
        ) from error


def _types(path: Path) -> dict[str, object]:
    """Read every measurement as float32, even if a column is empty in the first block."""
    import pyarrow as pa

    with pa.input_stream(str(path)) as file:
        head = file.read(1 << 16).decode("utf-8", errors="replace").split("\n")[0]
    return {
        name.strip(): pa.float32()
        for name in head.split(",")
        if name.strip() not in ("Id", "Response")
    }
