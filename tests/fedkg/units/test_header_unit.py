"""Units in brackets after a table's header."""

from __future__ import annotations

import pytest

from fedkg.units.header import header_unit, split_header


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("Torque [Nm]", "Nm"),
        ("P (bar)", "bar"),
        ("T [ °C ]", "°C"),
        ("x [%]", "%"),
        ("Tool wear [min]", "min"),
        ("n [1/min] ", "1/min"),
    ],
)
def test_units_in_brackets(header: str, text: str) -> None:
    unit = header_unit(header)
    assert unit is not None
    assert unit.text == text


@pytest.mark.parametrize(
    "header",
    ["T", "sensor[1]", "T (min)", "x [-]", "Lage [innen]", "[bar] x", "x []", "x [a.u.]", ""],
)
def test_headers_without_a_unit(header: str) -> None:
    assert header_unit(header) is None


def test_name_and_text() -> None:
    assert split_header("Torque [Nm]") == ("Torque", "Nm")
    assert split_header("Torque") == ("Torque", "")
