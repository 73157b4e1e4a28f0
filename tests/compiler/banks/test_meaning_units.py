"""Units have their usual meaning: every number here is computed by hand."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from lowering_rows import compiled, row_of

from fedkg.evaluation import evaluate
from fedkg.tables import read_bytes
from fedkg_compiler import compile_rules


@pytest.mark.parametrize(
    ("text", "row", "robustness", "unit"),
    [
        (
            "signal a in bar\nsignal b in mbar\nrule r require a / b <= 1.1",
            {"a": 1, "b": 1000},
            0.1,
            "",
        ),
        (
            "signal a in bar\nsignal b in mbar\nrule r require 1 - a / b >= 0",
            {"a": 0.5, "b": 1000},
            0.5,
            "",
        ),
        (
            "signal a in bar\nsignal b in mbar\nrule r require a / b <= 110 %",
            {"a": 1, "b": 1000},
            0.1,
            "",
        ),
        ("signal h in %\nsignal g in %\nrule r require h * g <= 0.5", {"h": 50, "g": 50}, 0.25, ""),
        ("signal h in %\nrule r require h / 2 <= 30", {"h": 50}, 5, "%"),
        (
            "signal h in %\nsignal f in kg/h\nrule r require f * h <= 12 kg/h",
            {"h": 50, "f": 20},
            2,
            "kg/h",
        ),
        ("rule r require `a` == `b` +/- 0.5 kg/h", {"a": 1, "b": 1.4}, 0.1, "kg/h"),
        ("rule r require 2 * `a` <= 5 bar and `a` <= 4000 mbar", {"a": 2}, 1, ""),
        (
            "signal d in mm\nsignal n in 1/min\nrule r require pi * d * n <= 200 m/min",
            {"d": 20, "n": 1000},
            200 - 20 * math.pi,
            "m/min",
        ),
        (
            "signal r in mm\nsignal n in rpm\nrule r require r * n <= 200 m/min",
            {"r": 10, "n": 1000},
            200 - 20 * math.pi,
            "m/min",
        ),
        (
            "signal n in 1/min\nsignal m in N.m\nrule r require 2 * pi * n * m <= 9 kW",
            {"n": 1000, "m": 50},
            9 - math.pi * 5 / 3,
            "kW",
        ),
        (
            "signal n in rpm\nsignal p in kW\nrule r require p / n <= 60 N.m",
            {"n": 1000, "p": 5},
            60 - 150 / math.pi,
            "N.m",
        ),
        ("signal a in mbar\nrule r require 0.5 bar <= a < 1 bar", {"a": 600}, 100, "mbar"),
        ("signal t in degF\nrule r require t <= 20 degC", {"t": 50}, 18, "degR"),
        (
            "signal t in degF\nsignal u in degF\nrule r require t - u <= 5 degR",
            {"t": 50, "u": 47},
            2,
            "degR",
        ),
        ("signal p in barg\nrule r require p <= 8 bara", {"p": 5}, 1.98675, "bar"),
        ("signal p in mmWS\nrule r require p <= 1 kPa", {"p": 100}, 1000 / 9.80665 - 100, "mmWS"),
    ],
)
def test_what_a_row_comes_out_at(
    text: str, row: dict[str, float], robustness: float, unit: str
) -> None:
    result = row_of(text, row)
    assert result.robustness == pytest.approx([robustness], abs=1e-9)
    if unit or " and " not in text:
        assert result.unit == unit


def test_columns_compared_as_they_stand_must_turn_out_to_be_in_one_unit() -> None:
    before = (
        "rule a require `x` <= `y`\nrule b require `x` <= 5 bar\nrule c require `y` <= 700 mbar"
    )
    assert _codes(before) == ["FKG216"]
    assert _codes(before.replace("700 mbar", "7 bar")) == []


def test_a_tag_with_two_units_in_its_sheet_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("limits.csv").write_text("tag;unit;high\nP1;mbar;500\nP1;bar;0.5\n", encoding="utf-8")
    rule = 'rule r for ?tag, ?high in table "limits.csv" require value(?tag) <= ?high'
    assert _codes(rule) == ["FKG216"]
    assert row_of(f"signal P1 in mbar\n{rule}", {"P1": 300}).robustness == pytest.approx([200, 200])


def test_numbers_of_a_sheet_are_in_the_unit_of_their_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("limits.csv").write_text(
        "variant;unit;limit\nA;N.m;50\nB;kN.m;0.06\nC;;70\n", encoding="utf-8"
    )
    text = """signal torque in N.m
signal variant
rule r for ?variant, ?limit in table "limits.csv"
  require if variant is ?variant then torque <= ?limit"""
    for variant, margin in (("A", 10.0), ("B", 20.0), ("C", 30.0)):
        result = row_of(text, {"torque": 40, "variant": variant})
        assert result.robustness[result.fired] == pytest.approx([margin])


def test_a_number_that_may_be_celsius_is_not_taken_in_kelvin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("limits.csv").write_text("limit\n16\n", encoding="utf-8")
    rule = 'rule r for ?limit in table "limits.csv" require t <= ?limit + 5 K'
    assert _codes(f"signal t in degC\n{rule}") == ["FKG215"]
    Path("limits.csv").write_text("limit [degC]\n16\n", encoding="utf-8")
    assert row_of(f"signal t in degC\n{rule}", {"t": 20}).robustness == pytest.approx([1])


def _codes(text: str) -> list[str]:
    return [
        problem.code
        for problem in compile_rules(text=text).diagnostics
        if problem.severity != "info"
    ]


def test_what_is_calculated_without_a_unit_names_its_columns_and_the_unit_to_write() -> None:
    [found] = compile_rules(
        text="signal x\nsignal y\nrule r require x^2 + sin(y) <= 9\n"
    ).diagnostics
    assert (found.code, found.help) == ("FKG238", "write: signal x in dimensionless")
    assert "`x`, which has no declared unit" in found.message
    assert "``" not in found.message
    assert _codes("signal x in dimensionless\nsignal y\nrule r require x^2 + sin(y) <= 9\n") == []


def test_a_product_of_columns_without_units_is_not_set_beside_a_power() -> None:
    assert _codes("rule r require `n` * `m` <= 9 kW") == ["FKG238"]
    assert np.isclose(
        row_of("rule r require `n` * `m` <= 9000", {"n": 100, "m": 50}).robustness, 4000
    ).all()


PAIRS = {  # the exact size of one limit's unit in the column's unit, and the shift
    ("bar", "mbar"): (Fraction(1, 1000), Fraction(0)),
    ("mbar", "bar"): (Fraction(1000), Fraction(0)),
    ("kW", "W"): (Fraction(1, 1000), Fraction(0)),
    ("m", "mm"): (Fraction(1, 1000), Fraction(0)),
    ("mm", "m"): (Fraction(1000), Fraction(0)),
    ("km/h", "m/s"): (Fraction(18, 5), Fraction(0)),
    ("m/s", "km/h"): (Fraction(5, 18), Fraction(0)),
    ("dimensionless", "%"): (Fraction(1, 100), Fraction(0)),
    ("degC", "K"): (Fraction(1), Fraction(-27315, 100)),
    ("K", "degC"): (Fraction(1), Fraction(27315, 100)),
    ("degF", "degC"): (Fraction(9, 5), Fraction(32)),
    ("degC", "degF"): (Fraction(5, 9), Fraction(-160, 9)),
}
TERMS = (
    "{x}",
    "{x} 1 ago",
    "({x} 1 ago initially {x})",
    "max({x}, {x})",
    "max of {x} over last 1",
    "abs({x})",
    "sum of {x} over last 1",
    "1 * {x}",
    "{x} - zero",
)
MET = {"<=": True, ">=": True, "==": True, "<": False, ">": False}
"""Whether a value that is the limit satisfies the comparison."""


@settings(max_examples=25)
@given(
    pair=st.sampled_from(sorted(PAIRS)),
    term=st.sampled_from(TERMS),
    limits=st.lists(st.decimals("0.001", 4000, places=3), min_size=2, max_size=2),
    sheet=st.booleans(),
)
@example(pair=("bar", "mbar"), term="abs({x})", limits=[Decimal(2007), Decimal(1001)], sheet=False)
@example(pair=("kW", "W"), term="{x}", limits=[Decimal(2007), Decimal(1001)], sheet=True)
def test_a_limit_in_another_unit_is_reached_exactly(
    tmp_path_factory: pytest.TempPathFactory,
    pair: tuple[str, str],
    term: str,
    limits: list[Decimal],
    *,
    sheet: bool,
) -> None:
    (stored, written), (factor, shift) = pair, PAIRS[pair]
    shifted, differs = stored.startswith("deg"), term.endswith("zero")
    assume(not (shifted and term in TERMS[5:-1]))  # not multiplied on such a scale
    assume(not (differs and {"K", "degC"} == set(pair)))  # a difference is not a point
    numbers = [Fraction(str(limit)) * factor + shift * (not differs) for limit in limits]
    assume(min(numbers) > 0 or term in TERMS[:5])
    met: list[bool] = []
    text = [f"timeline step 5 min\nsignal zero in {stored}\n"]
    folder = tmp_path_factory.mktemp("sheet")
    for i, limit in enumerate(limits):
        text.append(f"signal p{i} in {stored}\n")
        unit = "" if written == "dimensionless" else written
        (folder / f"{i}.csv").write_text(f"tag,high\np{i},{limit} {unit}\n", encoding="utf-8")
        for operator in MET:
            each = f' for ?tag, ?high in table "{folder}/{i}.csv"' if sheet else ""
            left = term.format(x="value(?tag)" if sheet else f"p{i}")
            right = "?high" if sheet else f"{limit} {unit}"
            text.append(f"rule r{len(met)}{each} require {left} {operator} {right}\n")
            met.append(MET[operator])
    row = ",".join(str(float(number)) for number in [Fraction(0), *numbers])
    table = read_bytes(f"zero,p0,p1\n{row}\n{row}\n".encode(), "table.csv")
    for found in evaluate(compiled("".join(text)), table).to_json()["rules"]:
        expected, other = ("satisfied", "violated")[:: 1 if met[int(found["rule"][1:])] else -1]
        assert found[expected] > 0, (text, row)
        assert found[other] == 0, (text, row)
