"""Units: every entry of our table against pint or a figure given here, and the conversions."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pint
import pytest

from fedkg.units.text import UnitProblem, known_units, parse_unit
from fedkg.units.unit import Unit, conversion, same_dimension, same_scale, times
from fedkg.units.unit_table import AFFINE, ALIASES, ATOMS, DOUBTFUL, PREFIXED, PREFIXES


@cache
def registry() -> pint.UnitRegistry:
    return pint.UnitRegistry()


def unit(text: str) -> Unit:
    found = parse_unit(text)
    assert isinstance(found, Unit), found
    return found


def convert(value: float, source: str, target: str) -> float:
    return conversion(unit(source), unit(target)).one(value)


FIGURES = {
    "1": (1, "1"),
    "probability": (100, "%"),
    "%": (0.01, "probability"),
    "percent": (1, "%"),
    "Vol%": (1, "%"),
    "vol%": (1, "%"),
    "wt%": (1, "%"),
    "‰": (0.1, "%"),
    "ppm": (0.0001, "%"),
    "ppb": (0.001, "ppm"),
    "pcs": (1, "Stk"),
    "pc": (1, "pcs"),
    "Stk": (1, "pc"),
    "EUR": (1, "€"),
    "€": (0.001, "kEUR"),
    "USD": (1, "USD"),
    "pH": (1, "pH"),
    "dB": (1, "dB"),
    "dBA": (1, "dB(A)"),
    "HRC": (1, "HRC"),
    "HV": (1, "HV"),
    "HB": (1, "HB"),
    "g": (0.001, "kg"),
    "t": (1000, "kg"),
    "to": (1, "t"),
    "lb": (0.45359237, "kg"),
    "lbs": (453.59237, "g"),
    "m": (100, "cm"),
    "in": (25.4, "mm"),
    "inch": (2.54, "cm"),
    "ft": (12, "in"),
    "ha": (10000, "m2"),
    "l": (0.001, "m3"),
    "L": (1, "l"),
    "cbm": (1000, "l"),
    "ccm": (1, "ml"),
    "qm": (1, "m^2"),
    "Nm3": (1000, "Nl"),
    "Nm^3": (1, "Nm3"),
    "Nl": (0.001, "Nm3"),
    "NL": (1, "Nl"),
    "s": (1000, "ms"),
    "sec": (1, "s"),
    "Sek": (1, "s"),
    "min": (60, "s"),
    "Min": (1, "min"),
    "h": (60, "min"),
    "hr": (1, "h"),
    "Std": (1, "h"),
    "d": (24, "h"),
    "day": (1, "d"),
    "days": (1, "d"),
    "week": (7, "d"),
    "Hz": (60, "1/min"),
    "rev": (360, "deg"),
    "rpm": (1, "1/min"),
    "RPM": (6, "deg/s"),
    "Upm": (1, "rpm"),
    "UpM": (1, "rpm"),
    "rps": (60, "rpm"),
    "rad": (180 / math.pi, "deg"),
    "deg": (math.pi / 180, "rad"),
    "A": (1000, "mA"),
    "Ah": (3600, "A.s"),
    "V": (1, "W/A"),
    "VA": (1, "W"),
    "var": (0.001, "kvar"),
    "Ω": (1, "V/A"),
    "ohm": (0.001, "kΩ"),
    "Ohm": (1, "ohm"),
    "S": (1, "1/Ω"),
    "degR": (5 / 9, "K"),
    "K": (1000, "mK"),
    "mol": (0.001, "kmol"),
    "cd": (1000, "mcd"),
    "lx": (0.001, "klx"),
    "N": (1, "kg.m/s2"),
    "kp": (9.80665, "N"),
    "kgf": (1, "kp"),
    "lbf": (4.4482216152605, "N"),
    "Nm": (1, "N.m"),
    "Pa": (0.01, "mbar"),
    "bar": (100, "kPa"),
    "bara": (1, "bar"),
    "atm": (1.01325, "bar"),
    "psi": (6.894757293168361, "kPa"),
    "psia": (1, "psi"),
    "Torr": (101325 / 760, "Pa"),
    "mmHg": (133.322387415, "Pa"),
    "mmH2O": (9.80665, "Pa"),
    "mmWS": (1, "mmH2O"),
    "mmWC": (0.0980665, "mbar"),
    "cmH2O": (10, "mmWS"),
    "mWS": (0.0980665, "bar"),
    "mWC": (1000, "mmWC"),
    "inH2O": (25.4, "mmH2O"),
    "J": (1, "W.s"),
    "Wh": (3.6, "kJ"),
    "eV": (1.602176634e-19, "J"),
    "W": (1, "J/s"),
    "PS": (75, "kp.m/s"),
    "P": (0.1, "Pa.s"),
    "Pas": (1, "Pa.s"),
    "St": (100, "mm2/s"),
    "bit": (0.125, "Byte"),
    "Byte": (8, "bit"),
}
"""One of each atom in another unit, from textbooks."""


@pytest.mark.parametrize("text", sorted(ATOMS))
def test_every_atom_has_its_figure(text: str) -> None:
    value, other = FIGURES[text]
    assert convert(1, text, other) == pytest.approx(value, rel=1e-15)


ZEROS: list[tuple[str, float, str, float]] = [
    ("degC", 25, "K", 298.15),
    ("°C", 25, "degC", 25),
    ("Celsius", -273.15, "K", 0),
    ("degF", 212, "degC", 100),
    ("°F", 32, "degC", 0),
    ("barg", 0, "bar", 1.01325),
    ("bar(g)", 1, "barg", 1),
    ("barü", 2, "barg", 2),
    ("mbarg", 0, "mbar", 1013.25),
    ("kPag", 100, "barg", 1),
    ("MPag", 0.1, "barg", 1),
    ("psig", 0, "bar", 1.01325),
]


@pytest.mark.parametrize(("text", "value", "other", "expected"), ZEROS)
def test_every_unit_with_a_zero_of_its_own(
    text: str, value: float, other: str, expected: float
) -> None:
    assert text in AFFINE
    assert convert(value, text, other) == expected


def test_the_zeros_tested_are_all() -> None:
    assert {row[0] for row in ZEROS} == set(AFFINE)


@pytest.mark.parametrize(("text", "means"), sorted(ALIASES.items()))
def test_every_alias(text: str, means: str) -> None:
    assert conversion(unit(text), unit(means)).identity
    assert unit(text).text == text


@pytest.mark.parametrize("text", sorted(DOUBTFUL))
def test_everything_doubtful_is_rejected(text: str) -> None:
    found = parse_unit(text)
    assert isinstance(found, UnitProblem)
    assert found.doubtful
    for other in found.instead:
        unit(other)


@pytest.mark.parametrize(
    "text", sorted(prefix + atom for atom, prefixes in PREFIXED.items() for prefix in prefixes)
)
def test_every_prefix(text: str) -> None:
    if text in ATOMS or text in AFFINE:  # min is a minute
        return
    assert unit(text).factor == PREFIXES[text[0]] * unit(text[1:]).factor


PINT = {
    "N.m": "newton*meter",
    "m3/h": "meter**3/hour",
    "kg/h": "kilogram/hour",
    "t/h": "metric_ton/hour",
    "l/min": "liter/minute",
    "kWh": "kilowatt_hour",
    "kWh/t": "kilowatt_hour/metric_ton",
    "J/kg/K": "joule/kilogram/kelvin",
    "W/m2/K": "watt/meter**2/kelvin",
    "g/cm3": "gram/centimeter**3",
    "N/mm2": "newton/millimeter**2",
    "mPa.s": "millipascal*second",
    "µm": "micrometer",
    "µS/cm": "microsiemens/centimeter",
    "mmHg": "mmHg",
    "psi": "psi",
    "km/h": "kilometer/hour",
    "m/s2": "meter/second**2",
    "kg/m^3": "kilogram/meter**3",
    "min.N.m": "minute*newton*meter",
    "kp/cm2": "kgf/centimeter**2",
    "mol/l": "mole/liter",
    "lb": "pound",
    "ft": "foot",
    "PS": "metric_horsepower",
    "cSt": "centistokes",
    "kV": "kilovolt",
    "Ah": "ampere*hour",
}


@pytest.mark.parametrize(("ours", "theirs"), sorted(PINT.items()))
def test_pint_agrees(ours: str, theirs: str) -> None:
    base = registry().Quantity(1, theirs).to_base_units()
    assert float(unit(ours).factor) == pytest.approx(float(base.magnitude), rel=1e-12)


@pytest.mark.parametrize(
    ("text", "trap"),
    [("Nm", "number_meter"), ("U/min", "enzyme_unit"), ("PS", "petasiemens"), ("pH", "picohenry")],
)
def test_what_pint_would_read_otherwise(text: str, trap: str) -> None:
    assert trap in str(registry().Unit(text))
    assert isinstance(parse_unit(text), Unit)


@pytest.mark.parametrize(
    "text",
    [
        "Nm",
        "Nm3/h",
        "Nm³/h",
        "barg",
        "1/min",
        "U/min",
        "m3/h",
        "m^3/h",
        "m³/h",
        "mmWS",
        "°C",
        "N·m",
        "N*m",
        "s^-1",
        "min-1",
    ],
)
def test_what_plants_write(text: str) -> None:
    assert unit(text).text == text


@pytest.mark.parametrize("text", ["m^3/h", "m³/h", "m**3/h", "m³ / h", "m³·h⁻¹", "m3.h-1"])
def test_a_unit_is_the_same_however_its_powers_are_written(text: str) -> None:
    assert same_scale(unit(text), unit("m3/h"))


def test_long_names_come_from_pint() -> None:
    assert convert(1, "fathom", "m") == pytest.approx(1.8288, rel=1e-5)
    assert convert(1, "newton", "N") == 1
    assert convert(1, "turn", "deg") == pytest.approx(360, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("Bar", "bar"),
        ("BAR", "bar"),
        ("newtn", None),
        ("xyz", None),
        ("m^999999999", None),
        ("", None),
        ("N.", None),
        ("/h", None),
        ("\u0e33", None),
    ],
)
def test_unknown_units_suggest_a_known_one(text: str, instead: str | None) -> None:
    found = parse_unit(text)
    assert isinstance(found, UnitProblem)
    assert not found.doubtful
    if instead:
        assert found.instead == (instead,)


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("KPA", ("kPa",)),
        ("mBar", ("mbar",)),
        ("mpa", ("MPa", "mPa")),
        ("mw", ("MW", "mW")),
        ("mM", ("mmol/l", "mm")),
        ("M3/h", ("m3",)),
    ],
)
def test_units_in_the_wrong_case(text: str, instead: tuple[str, ...]) -> None:
    found = parse_unit(text)
    assert isinstance(found, UnitProblem)
    assert found.instead == instead


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("mT", "Mt"),
        ("T", "t"),
        ("m2K", "mK"),
        ("gpm", "GPa"),
        ("TPH", "pH"),
        ("sccm", "ccm"),
        ("Nml", "NL"),
        ("cfm", "cbm"),
        ("Nmm", "Nm"),
        ("Mbar", "mbar"),
        ("PA", "Pa"),
    ],
)
def test_a_unit_of_another_size_is_no_correction(text: str, near: str) -> None:
    found = parse_unit(text)
    assert isinstance(found, UnitProblem)
    assert "did you mean" not in found.advice
    assert (near not in found.instead) or found.doubtful


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("kJ/(kg.K)", "write `kJ/kg/K`"),
        ("W/(m2.K)", "write `W/m2/K`"),
        ("(N.m)/s", "write `N.m/s`"),
        ("kJ/(kg/K)", "divide again for each further unit: kJ/kg/K, W/m2/K"),
        ("Sm3", "convert the values to `Nm3`, and write `Nm3`"),
        ("lpm", "write `l/min`"),
        ("mio", "a million is a number, not a unit: multiply the column by 1,000,000"),
    ],
)
def test_advice(text: str, advice: str) -> None:
    found = parse_unit(text)
    assert isinstance(found, UnitProblem)
    assert found.advice == advice


@pytest.mark.parametrize("text", ["J/kg.K", "TR", "J/degC", "degC.m"])
def test_ambiguous_units_are_rejected(text: str) -> None:
    found = parse_unit(text)
    assert isinstance(found, UnitProblem)
    assert found.doubtful


def test_all_suggestions_are_units() -> None:
    for text in known_units():
        assert isinstance(parse_unit(text), Unit), text


def test_conversions_are_the_floats_nearest_to_the_decimals() -> None:
    assert convert(600, "mbar", "bar") == 0.6
    assert convert(0.1, "kPa", "bar") == 0.001
    assert convert(25, "degC", "K") == 298.15
    assert convert(8.6, "K", "K") == 8.6
    values = np.array([[0.1, 0.3], [0.7, np.nan]])
    converted = conversion(unit("kPa"), unit("mbar")).apply(values)
    np.testing.assert_array_equal(converted, np.array([[1.0, 3.0], [7.0, np.nan]]))


def test_revolutions_and_rates() -> None:
    assert convert(60, "1/min", "Hz") == 1
    assert convert(1380, "rpm", "1/min") == 1380
    assert convert(60, "rpm", "rad/s") == 2 * math.pi
    power = times(unit("N.m"), unit("rpm"))
    assert same_dimension(power, unit("W"))
    assert conversion(power, unit("W")).scale == 2 * math.pi / 60
    assert conversion(times(unit("N.m"), unit("rad/s")), unit("W")).identity
    assert conversion(times(unit("mm/U"), unit("rpm")), unit("mm/min")).identity


def test_a_difference_has_another_unit() -> None:
    assert unit("degC").step().text == "K"
    assert unit("barg").step().text == "bar"
    assert conversion(unit("degF").step(), unit("K")).factor == Fraction(5, 9)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("bar", "degC"),
        ("m3/h", "Nm3/h"),
        ("kg", "pcs"),
        ("EUR", "USD"),
        ("dB", "dBA"),
        ("deg", "1"),
        ("HV", "HB"),
        ("N", "kg"),
    ],
)
def test_what_does_not_convert(a: str, b: str) -> None:
    assert not same_dimension(unit(a), unit(b))
    with pytest.raises(ValueError, match="different things"):
        conversion(unit(a), unit(b))


@pytest.mark.slow
def test_every_name_that_pint_knows_is_a_unit_or_has_a_problem() -> None:
    """Also those with names that are pint's own, such as `are`."""
    pint = pytest.importorskip("pint")
    names = [str(name) for name in pint.UnitRegistry()]
    assert len(names) > 500
    for name in names:
        found = parse_unit(name)
        assert isinstance(found, Unit) or found.reason
