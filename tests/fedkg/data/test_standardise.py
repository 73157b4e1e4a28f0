"""Scaling from sites' sums equals scaling of all rows; unknown cells are skipped, empty columns
named.
"""

from __future__ import annotations

import numpy as np
import pytest

from fedkg.data import pooled_scaling
from fedkg.errors import JobError


def test_pooled_sums_equal_the_whole():
    values = np.random.default_rng(0).normal([10.0, -3.0], [2.0, 0.5], (500, 2)) + 1e6
    scaling = pooled_scaling([values[:10], values[10:300], values[300:]], ("a", "b"))
    np.testing.assert_allclose(scaling.mean, values.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scaling.std, values.std(axis=0), rtol=1e-6)
    np.testing.assert_allclose(scaling.apply(values).std(axis=0), 1.0, rtol=1e-6)


def test_unknown_cells_are_left_out_and_stand_at_the_mean():
    values = np.array([[1.0], [np.nan], [3.0]])
    scaling = pooled_scaling([values, np.array([[np.nan]])], ("a",))
    assert scaling.mean[0] == 2.0
    assert scaling.std[0] == 1.0
    np.testing.assert_array_equal(scaling.apply(values)[:, 0], [-1.0, 0.0, 1.0])


def test_a_constant_column_is_not_divided_by_zero():
    assert pooled_scaling([np.full((4, 1), 0.1)], ("a",)).std[0] == 1.0


def test_a_column_without_any_value_is_named():
    with pytest.raises(JobError, match=r"column `b` has no value in table\.csv"):
        pooled_scaling([np.array([[1.0, np.nan]])], ("a", "b"), where="table.csv")
