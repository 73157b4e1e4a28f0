"""Parquet and Excel files: types are preserved, texts and times appear as people write them."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkg.errors import MissingExtra, TableError
from fedkg.tables import read_table


def test_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    columns = {
        "Zeit": pa.array([datetime(2024, 3, 9, 10, 14), None, datetime(2024, 3, 9, 10, 15)]),
        "Torque [Nm]": pa.array([1.234, None, float("inf")]),
        "count": pa.array([7, 8, None], type=pa.int32()),
        "machine": pa.array(["M1", "M2", None]).dictionary_encode(),
        "ok": pa.array([True, False, None]),
        "mixed": pa.array(["1,5", "Bad", " 2,25 "]),
        "nothing": pa.nulls(3),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert table.rows == 3
    np.testing.assert_array_equal(table.numbers("Torque [Nm]"), [1.234, np.nan, np.nan])
    np.testing.assert_array_equal(table.numbers("count"), [7, 8, np.nan])
    assert table.texts("count") == ["7", "8", ""]
    assert table.texts("machine") == ["M1", "M2", ""]
    np.testing.assert_array_equal(table.numbers("ok"), [1, 0, np.nan])
    assert table.texts("ok") == ["true", "false", ""]
    np.testing.assert_array_equal(table.numbers("mixed"), [1.5, np.nan, 2.25])
    assert np.isnan(table.numbers("nothing")).all()
    assert table.texts("Zeit")[0].startswith("2024-03-09 10:14:00")
    assert table.found.describe() == "parquet"


def test_parquet_with_lists_in_a_column_is_rejected(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"a": [[1, 2], [3]]}), tmp_path / "t.parquet")
    with pytest.raises(TableError, match="column `a` contains list"):
        read_table(tmp_path / "t.parquet")


def test_workbook(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "leer"
    sheet = book.create_sheet("Daten")
    for row in [
        ["Bericht Werk Graz"],
        [],
        ["Zeit", "Druck\n[bar]", None, "machine", "Text", "ok"],
        [datetime(2024, 3, 9, 10, 14), 1.234, None, 7, "1,5", True],
        [datetime(2024, 3, 9, 10, 15), "Bad", None, 8.0, "2,25", False],
        [],
        [datetime(2024, 3, 9, 10, 16), 5, None, None, None, None],
    ]:
        sheet.append(row)
    book.save(tmp_path / "t.xlsx")
    table = read_table(tmp_path / "t.xlsx")
    assert table.headers == ("Zeit", "Druck [bar]", "machine", "Text", "ok")
    np.testing.assert_array_equal(table.numbers("Druck [bar]"), [1.234, np.nan, 5])
    assert table.texts("machine") == ["7", "8", ""]
    np.testing.assert_array_equal(table.numbers("Text"), [1.5, 2.25, np.nan])
    np.testing.assert_array_equal(table.numbers("ok"), [1, 0, np.nan])
    assert table.texts("Zeit")[0] == "2024-03-09 10:14:00"
    assert table.where(2) == "row 3 (line 7)"
    assert (
        "xlsx, sheet `Daten` of 2; 1 line before the header skipped; 1 blank line skipped"
        in table.found.describe()
    )
    with pytest.raises(TableError, match="sheet `none` does not exist"):
        read_table(tmp_path / "t.xlsx", sheet="none")
    with pytest.raises(TableError, match="empty"):
        read_table(tmp_path / "t.xlsx", sheet="leer")


@pytest.mark.parametrize(
    ("module", "make"), [("pyarrow", lambda: b"PAR1xxxxPAR1"), ("openpyxl", None)]
)
def test_what_is_not_installed_is_asked_for(
    module: str, make: Callable[[], bytes] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.file"
    if make is None:
        openpyxl = pytest.importorskip("openpyxl")
        openpyxl.Workbook().save(path)
    else:
        path.write_bytes(make())
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == module:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtra, match=r'-e "\.\[run\]"'):
        read_table(path)


def test_parquet_texts_that_are_not_utf8(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    buffers = pa.array([b"\xff"]).buffers()
    texts = pa.StringArray.from_buffers(1, buffers[1], buffers[2])
    pq.write_table(pa.table({"tag": texts}), tmp_path / "t.parquet")
    with pytest.raises(TableError, match="column `tag` contains string values that cannot be"):
        read_table(tmp_path / "t.parquet")
