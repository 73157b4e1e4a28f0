"""Rows of each class at each site of a split, shown and saved; and the split in a file. K sites, C
classes.
"""

from __future__ import annotations

import csv
import io
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.safe_text import escape_csv_cell
from fedkg.data.partition import Index, Split
from fedkg.errors import JobError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SplitTable:
    """Rows of each class at each site.

    Attributes:
        sites: K names.
        classes: C names.
        counts: int64 [K, C].
    """

    sites: tuple[str, ...]
    classes: tuple[str, ...]
    counts: Index

    def rows(self) -> list[list[str]]:
        """A header, a line for each site with its total, and a line of totals."""
        whole = np.concatenate([self.counts, self.counts.sum(0, keepdims=True)])
        lines = [
            [name, *map(str, row), str(sum(row))]
            for name, row in zip((*self.sites, "all"), whole.tolist(), strict=True)
        ]
        return [["site", *self.classes, "rows"], *lines]

    def text(self) -> str:
        """The table as text with aligned columns."""
        rows = self.rows()
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        aligned = [
            [
                f"{row[0]:<{widths[0]}}",
                *(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
            for row in rows
        ]
        return "\n".join("  ".join(row) for row in aligned)

    def save(self, path: str | Path) -> None:
        """Write the table as CSV."""
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(
            [escape_csv_cell(cell) for cell in row] for row in self.rows()
        )
        Path(path).write_text(text.getvalue(), encoding="utf-8")


def split_table(
    split: Split, labels: NDArray[np.generic], names: tuple[str, ...] = ()
) -> SplitTable:
    """Count the rows of each class at each site.

    Args:
        split: of N rows.
        labels: [N], the class of each row; unknown numbers (NaN) count as a separate class,
            ``unknown``.
        names: of classes 0, 1, ...; by default, the sorted labels are the names.

    Raises:
        JobError: there is not one label for each row of the split.
    """
    if len(labels) != len(split.owner):
        raise JobError(
            "`labels` must have one entry for each row of the split",
            expected=str(len(split.owner)),
            received=str(len(labels)),
        )
    if names:
        codes, classes = labels.astype(np.int64), names
    else:
        values, codes = np.unique(labels, return_inverse=True)
        classes = tuple(_word(value) for value in values.tolist())
    counts = np.zeros((len(split.sites), len(classes)), dtype=np.int64)
    np.add.at(counts, (split.owner, codes), 1)
    return SplitTable(sites=split.sites, classes=classes, counts=counts)


def save_split(split: Split, path: str | Path) -> None:
    """Write a split to an ``.npz`` file: the names of the sites and the site of each row."""
    names, owner = np.array(split.sites, dtype=np.str_), split.owner.astype(np.int32)
    with Path(path).open("wb") as file:
        np.savez_compressed(file, sites=names, owner=owner, draws=np.array(split.draws))


def load_split(path: str | Path) -> Split:
    """Load a split from a file of `save_split`.

    Raises:
        JobError: the file is missing, or does not contain a split.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            sites, owner, draws = (
                tuple(file["sites"].tolist()),
                file["owner"].astype(np.int64),
                int(file["draws"]),
            )
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise JobError(
            f"cannot read split {path}",
            received=error.strerror or str(error),
            help="correct the path; `save_split` writes such files",
        ) from error
    except (
        *(OSError, EOFError, LookupError, ValueError, TypeError, RuntimeError),
        *(zipfile.BadZipFile, zlib.error),
    ) as error:  # TypeError: an array file (.npy)
        raise JobError(
            f"{path} does not contain a split",
            received=str(error),
            help="use a file that `save_split` has written",
        ) from error
    wrong = np.flatnonzero((owner < 0) | (owner >= len(sites)))
    if wrong.size:
        raise JobError(
            f"{path} is damaged: a row belongs to a site that the file does not list",
            expected=f"0 .. {len(sites) - 1}",
            received=f"{owner[wrong[0]]} at row {wrong[0] + 1}",
            help="save the split again",
        )
    return Split(sites=sites, owner=owner, draws=draws)


def _word(value: object) -> str:
    if isinstance(value, float):
        return "unknown" if value != value else f"{value:g}"
    return str(value)
