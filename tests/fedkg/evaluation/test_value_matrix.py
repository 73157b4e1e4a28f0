"""The value matrix: codes, scores, views."""

from __future__ import annotations

import numpy as np
import pytest
from evaluation_packs import COLUMNS, FAILURE, TORQUE, VARIANT, WEAR

from fedkg.errors import TableError
from fedkg.evaluation import table_values
from fedkg.pack import Column, DataContract, View
from fedkg.tables import Table, read_bytes

nan = np.nan


def test_columns_of_every_type() -> None:
    contract = DataContract(
        columns=(
            Column(name="x", source="x"),
            Column(name="on", source="on", type="boolean"),
            Column(name="variant", source="variant", type="category", vocabulary=("L", "7", "N/A")),
            Column(
                name="g_A", source="grade", type="score", role="output", label="grade", category="A"
            ),
            Column(
                name="g_B", source="grade", type="score", role="output", label="grade", category="B"
            ),
        )
    )
    table = read_bytes(
        b"x;on;variant;grade\n1,5;ja;L;A\nBad;nein;7.0;B\n2;Bad;X;Z\n3;1;N/A;\n4;0;;A\n", "t.csv"
    )
    readings = table_values(contract, table)
    np.testing.assert_array_equal(readings.base[:, 0], [1.5, nan, 2, 3, 4])
    np.testing.assert_array_equal(readings.base[:, 1], [1, 0, nan, 1, 0])
    np.testing.assert_array_equal(readings.base[:, 2], [0, 1, -2, 2, nan])
    np.testing.assert_array_equal(readings.base[:, 3], [1, 0, nan, nan, 1])
    np.testing.assert_array_equal(readings.base[:, 4], [0, 1, nan, nan, 0])
    said = (
        "column `grade` holds `Z`, in row 3 (line 4), which is not a class of its label (`A` and"
        " `B`): taken as unknown in 1 row"
    )
    assert readings.notes == (said,)


def test_views() -> None:
    views = (
        View(),
        View(kind="previous"),
        View(kind="previous", groups=("Type",)),
        View(kind="raised", column=WEAR, delta=2.0),
    )
    table = Table.of(
        "t",
        {
            "Torque [Nm]": np.array([1.0, 2.0, 3.0]),
            "Tool wear [min]": np.array([10.0, 20.0, 30.0]),
            "Type": ["L", "M", "L"],
            "Machine failure": np.array([0.0, 1.0, 0.0]),
        },
    )
    values = table_values(DataContract(columns=COLUMNS, views=views), table).values
    assert values.shape == (4, 3, 4)
    np.testing.assert_array_equal(values[1, :, TORQUE], [nan, 1, 2])
    np.testing.assert_array_equal(values[2, :, TORQUE], [nan, nan, 1])
    np.testing.assert_array_equal(values[2, :, FAILURE], [nan, nan, 0])
    np.testing.assert_array_equal(values[3, :, WEAR], [12, 22, 32])
    np.testing.assert_array_equal(values[3, :, TORQUE], [1, 2, 3])
    assert np.isnan(values[3, :, FAILURE]).all()
    np.testing.assert_array_equal(values[0, :, VARIANT], [0, 1, 0])


def test_traces_and_unknown_groups_have_no_row_before() -> None:
    contract = DataContract(
        kind="panel",
        trace="heat",
        columns=(Column(name="x", source="x"),),
        views=(View(), View(kind="previous", groups=("tool",))),
    )
    table = read_bytes(b"heat,tool,x\n1,a,1\n1,b,2\n1,a,3\n2,a,4\n2,a,5\n2,,6\n", "t.csv")
    np.testing.assert_array_equal(
        table_values(contract, table).values[1, :, 0], [nan, nan, 1, nan, 4, nan]
    )


def test_a_missing_group_column_is_missed() -> None:
    contract = DataContract(
        columns=(Column(name="x", source="x"),),
        views=(View(), View(kind="previous", groups=("Werkzeug",))),
    )
    with pytest.raises(TableError, match="no column `Werkzeug`"):
        table_values(contract, read_bytes(b"x,y\n1,2\n", "t.csv"))


def test_values_outside_the_span_give_a_note_about_the_unit() -> None:
    contract = DataContract(columns=(Column(name="p", source="p", unit="bar", span=(0, 16)),))
    notes = table_values(contract, Table.of("t", {"p": np.array([200.0, 300.0, 5.0])})).notes
    assert notes == ("67% of column `p` lies outside its span 0 .. 16 bar: is the unit right?",)


def test_times_are_kept_as_texts_and_steps_back_are_reported() -> None:
    contract = DataContract(
        columns=(Column(name="x", source="x"),), time="Zeit", views=(View(), View(kind="previous"))
    )
    readings = table_values(
        contract, read_bytes(b"Zeit;x\n09.03.2024 10:01;1\n09.03.2024 10:00;2\n", "t.csv")
    )
    assert readings.times == ["09.03.2024 10:01", "09.03.2024 10:00"]
    assert readings.notes == (
        "the times in `Zeit` step back 1 time: `previous` means the row before",
    )
    missing = table_values(contract, read_bytes(b"Zeiten;x\n1;1\n", "t.csv"))
    assert missing.times is None
    assert missing.notes == ("time column `Zeit` is missing; did you mean `Zeiten`?",)


def test_a_key_column_in_another_tongue_is_detected() -> None:
    contract = DataContract(
        columns=(Column(name="m", source="m", type="category", vocabulary=("M-07", "M-08")),)
    )
    notes = table_values(contract, read_bytes(b"m,x\nM07,1\nM08,2\n", "t.csv")).notes
    assert notes == (
        (
            "no text in column `m` (`M07` and `M08`) is one that the rules know (`M-07` and"
            " `M-08`); did you mean `M-07` by `M07`?"
        ),
    )


def test_a_repeated_header() -> None:
    contract = DataContract(columns=(Column(name="x", source="x"),))
    assert table_values(contract, read_bytes(b"x,x\n1,1\n2,2\n", "t.csv")).base.tolist() == [
        [1.0],
        [2.0],
    ]
    with pytest.raises(TableError, match="`x` occurs more than once, with different contents"):
        table_values(contract, read_bytes(b"x,x\n1,1\n2,3\n", "t.csv"))
