"""Parquet files."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import MissingExtra, TableError
from fedkg.limits import require_within_limit
from fedkg.tables.table import Cells, Table, TableFormat, one_line


def read_parquet(body: bytes, name: str) -> Table:
    """The table in a Parquet file.

    Numbers and truth values keep their type, times become ISO texts.

    Raises:
        LimitError: when it has more columns, cells or bytes than `fedkg.limits` allows.
        TableError: when it is not a Parquet file, or a column holds lists or records.
        MissingExtra: when pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtra(f"reading {name}", "run") from error
    try:
        with pq.ParquetFile(io.BytesIO(body)) as file:
            shape = file.metadata
            require_within_limit("columns", shape.num_columns, name)
            require_within_limit("cells", shape.num_columns * shape.num_rows, name)
            groups = [shape.row_group(i).total_byte_size for i in range(shape.num_row_groups)]
            require_within_limit("expanded", sum(groups), name)
            arrow = file.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TableError(
            f"{name} is not a complete Parquet file",
            received=str(error),
            help="write or download it again: it is incomplete, or a different file",
        ) from error
    headers = [one_line(header) for header in arrow.column_names]
    twice = tuple(header for header, count in Counter(headers).items() if count > 1)
    if twice:
        raise TableError(
            f"{name}: some headers occur more than once",
            received=", ".join(f"`{header}`" for header in twice),
            help="give every column a unique header",
        )
    cells = []
    for header, column in zip(headers, arrow.columns, strict=True):
        try:
            cells.append(_cells(column, header, name))
        except (pa.ArrowException, ValueError) as error:  # texts that are not UTF-8, unknown zones
            raise TableError(
                f"{name}: column `{header}` contains {column.type} values that cannot be converted",
                expected="numbers, texts in UTF-8 or times",
                received=str(error),
                help="write the column as numbers, texts or times, or leave it out of the file",
            ) from error
    notes = () if arrow.num_rows else ("no data rows",)
    return Table(
        name=name,
        headers=tuple(headers),
        cells=tuple(cells),
        rows=arrow.num_rows,
        found=TableFormat(kind="parquet", notes=notes),
    )


def _cells(column: Any, header: str, name: str) -> Cells:  # Any: pyarrow has no types
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    binary = pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary
    if pa.types.is_nested(kind) or any(of_kind(kind) for of_kind in binary):
        raise TableError(
            f"{name}: column `{header}` contains {kind} values, which rules cannot read",
            expected="numbers, texts or times",
            help="write the column as numbers, texts or times, or leave it out of the file",
        )
    if pa.types.is_boolean(kind):
        return Cells(
            values=_floats(column.cast(pa.int8())),
            texts=tuple("" if v is None else str(v).lower() for v in column.to_pylist()),
        )
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return Cells(values=_floats(column))
    if pa.types.is_null(kind):
        return Cells(values=np.full(len(column), np.nan))
    texts = (
        column
        if pa.types.is_string(kind) or pa.types.is_large_string(kind)
        else column.cast(pa.string())
    )
    return Cells(texts=tuple("" if value is None else value.strip() for value in texts.to_pylist()))


def _floats(column: Any) -> NDArray[np.float64]:  # Any: pyarrow has no types
    import pyarrow as pa

    values: NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy(
        zero_copy_only=False
    )
    return np.array(values, dtype=np.float64)
