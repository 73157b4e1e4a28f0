"""The AI4I generator follows the published description, and conditions reproduce the failure
columns.
"""

from __future__ import annotations

import numpy as np
import pytest
from shared import SHARED, needs_shared

from fedkg.data import ai4i
from fedkg.errors import TableError

FILE = SHARED / "data" / "ai4i2020" / "ai4i2020.csv.gz"
COUNTS = {"TWF": 46, "HDF": 115, "PWF": 95, "OSF": 98}


def conditions(frame):
    c = frame.columns
    return {
        "HDF": ai4i.heat_failure(c[ai4i.AIR], c[ai4i.PROCESS], c[ai4i.SPEED]),
        "PWF": ai4i.power_failure(c[ai4i.SPEED], c[ai4i.TORQUE]),
        "OSF": ai4i.strain_failure(c[ai4i.TORQUE], c[ai4i.WEAR], c[ai4i.TYPE]),
    }


def test_equal_seeds_give_equal_tables_and_others_do_not():
    one, two, other = ai4i.generate(500, 1), ai4i.generate(500, 1), ai4i.generate(500, 2)
    for header in one.headers:
        assert one.texts(header) == two.texts(header)
    assert one.texts(ai4i.TORQUE) != other.texts(ai4i.TORQUE)
    assert one.headers == (
        *(ai4i.UDI, ai4i.PRODUCT, ai4i.TYPE),
        *ai4i.FEATURES,
        ai4i.FAILURE,
        *ai4i.MODES,
    )


@pytest.mark.parametrize("seed", [0, 6, 11])
def test_failure_columns_follow_from_the_rounded_values(seed):
    frame = ai4i.generate(4000, seed)
    for mode, mask in conditions(frame).items():
        np.testing.assert_array_equal(frame.columns[mode], mask.astype(float))
    modes = np.stack([frame.columns[mode] for mode in ai4i.MODES]).any(axis=0)
    np.testing.assert_array_equal(frame.columns[ai4i.FAILURE], modes.astype(float))


def test_values_have_the_decimals_of_the_public_file():
    columns = ai4i.generate(2000, 3).columns
    for header, digits in (
        (ai4i.AIR, 1),
        (ai4i.PROCESS, 1),
        (ai4i.TORQUE, 1),
        (ai4i.SPEED, 0),
        (ai4i.WEAR, 0),
    ):
        np.testing.assert_array_equal(columns[header], np.round(columns[header], digits))
    assert columns[ai4i.TORQUE].min() > 0


def test_marginals_are_those_of_the_description():
    columns = ai4i.generate().columns
    shares = {letter: float((columns[ai4i.TYPE] == letter).mean()) for letter in "LMH"}
    assert shares == pytest.approx({"L": 0.6, "M": 0.3, "H": 0.1}, abs=0.02)
    assert columns[ai4i.AIR].mean() == pytest.approx(300.0, abs=0.05)
    assert columns[ai4i.AIR].std() == pytest.approx(2.0, abs=0.05)
    gap = columns[ai4i.PROCESS] - columns[ai4i.AIR]
    assert gap.mean() == pytest.approx(10.0, abs=0.05)
    assert gap.std() == pytest.approx(1.0, abs=0.05)
    assert columns[ai4i.TORQUE].mean() == pytest.approx(40.0, abs=0.5)
    assert columns[ai4i.TORQUE].std() == pytest.approx(10.0, abs=0.3)
    assert columns[ai4i.SPEED].mean() == pytest.approx(1539, abs=15)
    assert np.corrcoef(columns[ai4i.SPEED], columns[ai4i.TORQUE])[0, 1] == pytest.approx(
        -0.875, abs=0.03
    )


def test_counts_are_in_the_neighbourhood_of_the_public_file():
    columns = ai4i.generate().columns
    for mode, count in COUNTS.items():
        assert columns[mode].sum() == pytest.approx(count, rel=0.25), mode
    assert columns[ai4i.FAILURE].sum() == pytest.approx(339, rel=0.1)


def test_counts_scatter_around_the_public_file_over_seeds():
    found = {
        mode: np.mean([ai4i.generate(seed=seed).columns[mode].sum() for seed in range(12)])
        for mode in COUNTS
    }
    for mode, count in COUNTS.items():
        assert found[mode] == pytest.approx(count, rel=0.45), mode


def test_wear_grows_by_variant_and_tools_last_from_200_to_240_minutes():
    columns = ai4i.generate(5000, 4).columns
    wear, variant = columns[ai4i.WEAR], columns[ai4i.TYPE]
    step = np.diff(wear)
    grown = step > 0
    expected = np.array([ai4i.WEAR_PER_PART[letter] for letter in variant[:-1]])
    np.testing.assert_array_equal(step[grown], expected[grown])
    ends = wear[:-1][~grown]
    assert ends.min() >= 195.0
    assert ends.max() <= 240.0
    failed = columns["TWF"] == 1
    assert wear[failed].min() >= 195.0
    assert 0 < failed.sum() < len(ends)


def test_one_row():
    assert ai4i.generate(1, 0).rows == 1


def test_a_table_without_a_column_is_rejected_by_name(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("Type,Torque [Nm]\nL,40\n")
    with pytest.raises(TableError, match=r"Air temperature \[K\]"):
        ai4i.load(path)


@needs_shared
def test_conditions_reproduce_the_public_file_row_for_row():
    frame = ai4i.load(FILE)
    assert frame.rows == 10_000
    for mode, mask in conditions(frame).items():
        assert int(mask.sum()) == COUNTS[mode]
        np.testing.assert_array_equal(frame.columns[mode], mask.astype(float))


@needs_shared
def test_the_same_conditions_in_single_precision_would_miss_rows():
    columns = ai4i.load(FILE).columns
    air, process, speed = (
        columns[h].astype(np.float32) for h in (ai4i.AIR, ai4i.PROCESS, ai4i.SPEED)
    )
    single = (process - air < np.float32(8.6)) & (speed < 1380)
    assert int((single != (columns["HDF"] == 1)).sum()) > 0
