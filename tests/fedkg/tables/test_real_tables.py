"""Real files are read correctly."""

from __future__ import annotations

import numpy as np
import pytest
from shared import SHARED, needs_shared

from fedkg.tables import parse_times, read_bytes, read_table


@needs_shared
def test_ai4i() -> None:
    table = read_table(SHARED / "data/ai4i2020/ai4i2020.csv.gz")
    assert table.rows == 10_000
    assert table.found.describe() == "comma-separated, decimal point, utf-8"
    torque, speed = table.numbers("Torque [Nm]"), table.numbers("Rotational speed [rpm]")
    assert (float(torque[0]), float(speed[0])) == (42.8, 1551.0)
    power = torque * speed * 2 * np.pi / 60
    np.testing.assert_array_equal((power < 3500) | (power > 9000), table.numbers("PWF") == 1)
    assert set(table.texts("Type")) == {"L", "M", "H"}


@needs_shared
def test_skab_with_semicolons() -> None:
    table = read_table(SHARED / "data/skab/valve1/0.csv.gz")
    assert table.found.separator == ";"
    assert table.headers[0] == "datetime"
    assert not table.is_numeric("datetime")
    assert all(moment is not None for moment in parse_times(table.texts("datetime")))
    assert all(table.is_numeric(header) for header in table.headers[1:])


@pytest.mark.slow
@needs_shared
def test_traffic_with_holes() -> None:
    table = read_table(SHARED / "data/traffic-norway-hourly/volume_hourly_95stations.csv.gz")
    assert (table.rows, len(table.headers)) == (21_037, 96)
    values = np.stack([table.numbers(header) for header in table.headers[1:]])
    assert np.isnan(values).any()
    assert np.nanmax(values) > 1000


@pytest.mark.slow
def test_a_hundred_thousand_rows_are_read_exactly() -> None:
    values = np.random.default_rng(0).normal(50, 20, (100_000, 20))
    lines = [";".join(f"{value:.3f}" for value in row).replace(".", ",") for row in values]
    body = (";".join(f"c{i}" for i in range(20)) + "\n" + "\n".join(lines)).encode()
    table = read_bytes(body, "big.csv")
    numbers = np.stack([table.numbers(header) for header in table.headers], axis=1)
    np.testing.assert_allclose(numbers, values, atol=5.1e-4)
