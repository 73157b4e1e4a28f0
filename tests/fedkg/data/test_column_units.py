"""Units of sites' columns."""

from __future__ import annotations

import numpy as np
import pytest

from fedkg.data import unit_conversion
from fedkg.errors import JobError


@pytest.mark.parametrize(
    ("given", "wanted", "value", "expected"),
    [
        ("kN.m", "N.m", 0.04, 40.0),
        ("Nm", "N.m", 7.0, 7.0),
        ("degC", "K", 25.0, 298.15),
        ("degF", "degC", 212.0, 100.0),
        ("1/s", "1/min", 25.0, 1500.0),
        ("rpm", "1/min", 1500.0, 1500.0),
        ("rad/s", "rpm", 157.07963267948966, 1500.0),
        ("h", "min", 2.0, 120.0),
        ("bar", "kPa", 1.5, 150.0),
        ("%", "", 12.5, 0.125),
    ],
)
def test_conversions(given, wanted, value, expected):
    assert unit_conversion(given, wanted, where="here").apply(np.array([value])) == pytest.approx(
        expected, rel=1e-12
    )


def test_equal_units_change_no_bit():
    assert unit_conversion("rpm", "1/min", where="here").identity


def test_an_unknown_unit_is_rejected_with_the_nearest():
    with pytest.raises(
        JobError, match=r"sites\.graz\.columns\.torque\.unit: unit `fugg` is not a unit"
    ):
        unit_conversion("fugg", "N.m", where="sites.graz.columns.torque.unit")


def test_another_quantity_is_rejected():
    with pytest.raises(JobError, match=r"bar and N\.m measure different things"):
        unit_conversion("bar", "N.m", where="here")
