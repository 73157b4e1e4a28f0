"""Tables in memory."""

from __future__ import annotations

import numpy as np
import pytest

from fedkg.data import Frame, concatenate, from_table
from fedkg.errors import TableError
from fedkg.tables import Table


def frame() -> Frame:
    return from_table(Table.of("t.csv", {"a": np.array([1.0, 2.5, np.nan]), "b": ["x", "y", "z"]}))


def test_columns_cuts_and_texts():
    assert frame().rows == 3
    assert frame().texts("a") == ["1", "2.5", ""]
    assert frame().take(np.array([2, 0])).texts("b") == ["z", "x"]
    assert frame().with_texts("c", ["1", "2", "3"]).headers == ("a", "b", "c")


def test_text_where_numbers_belong_names_table_column_and_row():
    with pytest.raises(TableError, match=r"t\.csv: column `b`"):
        frame().numbers("b")
    with pytest.raises(TableError, match=r"t\.csv: column `b` has text where numbers are needed"):
        from_table(frame().table(), numeric=("b",))


def test_a_missing_column_is_named_with_the_nearest():
    with pytest.raises(TableError, match="no column `aa`"):
        frame().numbers("aa")


def test_concatenated_columns_keep_what_all_have():
    other = Frame(name="u", columns={"a": np.array([4.0]), "c": np.array([1.0])})
    joined = concatenate([frame(), other], "both")
    assert joined.headers == ("a",)
    assert joined.rows == 4
