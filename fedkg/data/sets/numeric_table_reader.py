"""Readers for large numeric tables of published data sets; columns become float64.

Separators and decimal marks are detected. `fedkg.tables` reads tables of people (with prose, odd
headers, mixed columns); these readers are for files of a published layout.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import MissingExtra, TableError
from fedkg.limits import gunzip, read_file

SEPARATORS = (";", "\t", "|", ",")


def read_text(path: Path) -> str:
    """Read a text file in UTF-8, decompressed if it is gzipped. Raises as `read_decompressed`, and
    TableError for other bytes.
    """
    body = read_decompressed(path)
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body[: error.start].count(b"\n") + 1
        raise TableError(
            f"{path}: line {line} is not text in UTF-8",
            received=f"the byte 0x{body[error.start]:02X}",
            help="use the file as it was published; download it again if it is incomplete",
        ) from error


def find_files(folder: str | Path, names: list[str], what: str) -> list[Path]:
    """Find the files of a folder with names that match one of the patterns (also with ``.gz``),
    sorted per pattern.

    Raises:
        TableError: the folder is missing, or no file matches.
    """
    root = Path(folder)
    if not root.is_dir():
        raise TableError(
            f"there is no folder with {what} at {root}",
            expected=f"a folder with {', '.join(names)}",
            help="put the files into this folder, or correct the path",
        )
    files = [
        path
        for name in names
        for path in sorted({*root.glob(name), *root.glob(f"{name}.gz")}, key=_natural)
    ]
    if not files:
        raise TableError(
            f"there is no file with {what} in {root}",
            expected=", ".join(names),
            help="put the files into this folder, or correct the path",
        )
    return files


def _natural(path: Path) -> tuple[str, int, str]:
    """Sort key that puts 10.csv after 9.csv."""
    stem = path.name.split(".")[0]
    digits = stem[len(stem.rstrip("0123456789")) :]
    return (str(path.parent), int(digits or 0), path.name)


def read_decompressed(path: Path) -> bytes:
    """Read a file, decompressed if it is gzipped.

    Raises:
        TableError: the file cannot be read.
        LimitError: the file is above a limit of `fedkg.limits`, compressed or expanded.
    """
    try:
        body = read_file(path)
    except (OSError, ValueError) as error:
        raise TableError(
            f"cannot read {path}",
            received=getattr(error, "strerror", None) or str(error),
            help="check the path, and that you may read the file",
        ) from error
    if body[:2] != b"\x1f\x8b":
        return body
    try:
        return gunzip(body, str(path))
    except (OSError, EOFError, zlib.error) as error:
        raise TableError(
            f"{path} is not a complete gzip file", received=str(error), help="download it again"
        ) from error


class Columns:
    """The columns of a table: numbers as float64, text as strings."""

    def __init__(self, path: Path, table: Any) -> None:  # Any: pyarrow has no type stubs
        self._path, self._table = path, table
        self.headers: tuple[str, ...] = tuple(str(name).strip() for name in table.column_names)
        self.rows: int = table.num_rows

    def numbers(self, header: str) -> NDArray[np.float64]:
        """A column as float64; empty cells are NaN. Raises TableError if it is missing or holds
        text.
        """
        import pyarrow as pa

        column = self._column(header)
        try:
            return np.asarray(
                column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64
            )
        except (pa.ArrowException, ValueError) as error:
            raise TableError(
                f"{self._path}: column `{header}` does not contain numbers",
                received=str(error).split("\n")[0],
                help="use the file as it was published; leave unknown cells empty",
            ) from error

    def texts(self, header: str) -> list[str]:
        """A column as stripped strings. Raises TableError if it is missing."""
        import pyarrow as pa

        try:
            cells = self._column(header).cast(pa.string()).to_pylist()
        except (pa.ArrowException, ValueError) as error:
            raise TableError(
                f"{self._path}: column `{header}` is not text in UTF-8",
                received=str(error).split("\n")[0],
                help="use the file as it was published; download it again if it is incomplete",
            ) from error
        return ["" if cell is None else str(cell).strip() for cell in cells]

    def matrix(self, headers: tuple[str, ...]) -> NDArray[np.float64]:
        """Columns side by side, [rows, headers]."""
        return (
            np.stack([self.numbers(header) for header in headers], axis=1)
            if headers
            else np.empty((self.rows, 0))
        )

    def _column(self, header: str) -> Any:
        if header not in self.headers:
            raise TableError(
                f"{self._path} has no column `{header}`",
                received="columns "
                + ", ".join(f"`{name}`" for name in self.headers[:8])
                + (f" and {len(self.headers) - 8} more" if self.headers[8:] else ""),
                help="use the file as it was published, with all its columns",
            )
        return self._table.column(self.headers.index(header)).combine_chunks()


def read_columns(path: Path, *, first: str = "") -> Columns:
    """Read the table in a text file.

    Args:
        path: the file, gzipped or not.
        first: a word of the header line (in any case); lines before the first line with this word
            are skipped.

    Raises:
        TableError: the file cannot be read, or has no such line.
        MissingExtra: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.csv as csv
    except ImportError as error:
        raise MissingExtra(f"reading {path}", "run") from error
    body = read_decompressed(path)
    lines = body[: 1 << 16].decode("utf-8-sig", errors="replace").splitlines()
    skipped = next((i for i, line in enumerate(lines) if first.lower() in line.lower()), None)
    if skipped is None:
        raise TableError(
            f"{path} has no header line" + (f" with `{first}`" if first else ""),
            received=f"a first line `{lines[0][:80]}`" if lines else "an empty file",
            help="use the file as it was published, with its header line",
        )
    header = lines[skipped]
    separator = max(SEPARATORS, key=header.count)
    sample = lines[skipped + 1] if skipped + 1 < len(lines) else ""
    decimal = "," if separator != "," and "," in sample else "."
    try:
        table = csv.read_csv(
            pa.BufferReader(body),
            read_options=csv.ReadOptions(skip_rows=skipped),
            parse_options=csv.ParseOptions(delimiter=separator),
            convert_options=csv.ConvertOptions(
                decimal_point=decimal,
                null_values=["", "NA", "NaN", "nan", "null"],
                strings_can_be_null=True,
            ),
        )
        return Columns(path, table)
    except (pa.ArrowException, ValueError) as error:
        raise TableError(
            f"{path} is not a table",
            received=str(error).split("\n")[0],
            help="use the file as it was published; download it again if it is incomplete",
        ) from error


def seconds_since_1970(
    times: Sequence[str], where: str = "a column of times"
) -> NDArray[np.float64]:
    """Parse times of one form as seconds since 1970; see `parse_time_column`."""
    return parse_time_column(times, where)[0]


def parse_time_column(
    times: Sequence[str], where: str = "a column of times"
) -> tuple[NDArray[np.float64], bool]:
    """Parse times as seconds since 1970 (NaN if unreadable); also return whether they are in UTC.

    Times are in UTC if they name their zone.

    Args:
        where: the place of the times, for the error.

    Raises:
        TableError: some times name a zone and others do not.
    """
    from fedkg.tables import in_utc, parse_times

    moments, zoned = in_utc(parse_times(times), times, where)
    epoch = [
        np.nan if moment is None else moment.replace(tzinfo=UTC).timestamp() for moment in moments
    ]
    return np.array(epoch, dtype=np.float64), zoned
