"""Compiled rules have the right meaning.

Tests check the AI4I table's failures, row for row, and random rules against a direct evaluation.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared import SHARED, needs_shared

from fedkg.constraints.meaning.interpreter import BankValues, evaluate_bank
from fedkg.evaluation import table_values
from fedkg.pack import Pack
from fedkg.tables import Table, read_table
from fedkg_compiler import compile_rules

AI4I = SHARED / "data" / "ai4i2020" / "ai4i2020.csv.gz"
SIGNALS = """
signal air     in K    column "Air temperature [K]"      span 290 .. 310
signal process in K    column "Process temperature [K]"  span 300 .. 320
signal speed   in {speed}  column "Rotational speed [rpm]"
signal torque  in N.m  column "Torque [Nm]"
signal wear    in min  column "Tool wear [min]"
signal variant column "Type"
output failure in probability column "Machine failure"
"""
HEAT = "rule heat require if process - air < 8.6 K and speed < 1380 1/min then failure >= 0.5\n"
POWER = "rule power require if not 3500 W <= torque * speed <= 9 kW then failure >= 0.5\n"
STRAIN = "".join(
    f"rule strain_{letter} require if variant is {letter} and wear * torque > {limit} min.N.m then"
    " failure >= 0.5\n"
    for letter, limit in (("L", 11000), ("M", 12000), ("H", 13000))
)


def compiled(text: str) -> Pack:
    compilation = compile_rules(text=text)
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    return compilation.pack


def evaluate_table(pack: Pack, table: Table) -> list[BankValues]:
    values = table_values(pack.manifest.contract, table).values
    return [evaluate_bank(bank, values) for bank in pack.banks]


@needs_shared
@pytest.mark.parametrize("speed", ["rpm", "1/min", "U/min"])
@pytest.mark.parametrize(
    ("rules", "column", "expected"), [(HEAT, "HDF", 115), (POWER, "PWF", 95), (STRAIN, "OSF", 98)]
)
def test_the_conditions_of_ai4i_are_found_row_for_row(
    speed: str, rules: str, column: str, expected: int
) -> None:
    table = read_table(AI4I)
    banks = evaluate_table(compiled(SIGNALS.format(speed=speed) + rules), table)
    fired = np.any(np.concatenate([bank.fired for bank in banks], axis=1), axis=1)
    assert int(fired.sum()) == expected
    np.testing.assert_array_equal(fired, table.numbers(column) > 0)


UNITS = {"bar": 1.0, "mbar": 0.001, "kPa": 0.01}


@st.composite
def affine_rules(draw: st.DrawFn) -> tuple[str, list[tuple[float, str]], str, float, str]:
    """``c0 * a + c1 * b ... <= limit`` over signals in several units.

    Returns text, terms, comparison, limit and the unit of the limit.
    """
    names = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=4))
    parts = [(draw(st.sampled_from([-2.0, -1.0, 0.5, 1.0, 3.0])), name) for name in names]
    operator, limit, unit = (
        draw(st.sampled_from(["<=", "<", ">=", ">"])),
        draw(st.integers(-50, 50)) / 4,
        draw(st.sampled_from(sorted(UNITS))),
    )
    text = " + ".join(
        f"({'-' if factor < 0 else ''}{abs(factor)}) * {name}" for factor, name in parts
    )
    written = f"{'-' if limit < 0 else ''}{abs(limit)}"
    return f"{text} {operator} {written} {unit}", parts, operator, limit, unit


@given(affine_rules(), st.lists(st.tuples(*[st.integers(-80, 80)] * 3), min_size=1, max_size=5))
def test_random_affine_rules(
    rule: tuple[str, list[tuple[float, str]], str, float, str], rows: list[tuple[int, int, int]]
) -> None:
    text, parts, operator, limit, unit = rule
    pack = compiled(f"signal a in bar\nsignal b in mbar\nsignal c in kPa\nrule r require {text}\n")
    columns = {
        name: np.array([row[i] for row in rows], dtype=np.float64) for i, name in enumerate("abc")
    }
    (bank,) = evaluate_table(pack, Table.of("table", columns))
    in_bar = {"a": 1.0, "b": 0.001, "c": 0.01}
    left = sum(factor * columns[name] * in_bar[name] for factor, name in parts)
    margin = (limit * UNITS[unit] - left) * (1 if operator in ("<=", "<") else -1)
    clear = np.abs(margin) > 1e-9
    np.testing.assert_array_equal(bank.satisfied[clear, 0], margin[clear] > 0)
    compared = pack.manifest.units[int(pack.banks[0].unit[0])]
    np.testing.assert_allclose(bank.robustness[:, 0] * UNITS[compared], margin, atol=1e-9)


@pytest.mark.parametrize(
    ("rule", "row", "holds"),
    [
        ("a <= 60 N.m", 60.0, True),
        ("a < 60 N.m", 60.0, False),
        ("a <= 0.06 kN.m", 60.0, True),
        ("a == 60 N.m", 60.0, True),
        ("a != 60 N.m", 60.0, False),
        ("a == 59 N.m +/- 1 N.m", 60.0, True),
        ("59 N.m < a <= 60 N.m", 60.0, True),
        ("not a <= 60 N.m", 60.0, False),
        ("a <= 50 or a >= 60", 60.0, True),
        ("if a > 60 then a > 100", 60.0, True),
        ("(a - 10)^2 <= 2500", 60.0, True),
        ("max(a, 70) <= 69", 60.0, False),
        ("round(a / 7 N.m) == 9", 60.0, True),
    ],
)
def test_what_holds_on_the_very_threshold(rule: str, row: float, holds: bool) -> None:
    pack = compiled(f"signal a in N.m\nrule r require {rule}\n")
    (bank,) = evaluate_table(pack, Table.of("table", {"a": np.array([row])}))
    assert bool(bank.satisfied[0, 0]) is holds
    assert bool(bank.violated[0, 0]) is not holds


def test_rows_are_selected_by_their_entities(tmp_path: Path) -> None:
    plant = tmp_path / "plant.ttl"
    plant.write_text(
        "@prefix p: <https://example.org/p#> . @prefix fkg: <https://w3id.org/fedkg/ns#> .\np:M1 a"
        ' p:Machine ; fkg:keyColumn "machine" ; p:limit 10 . p:M2 a p:Machine ; fkg:keyColumn'
        ' "machine" ; p:limit 20 .\n',
        encoding="utf-8",
    )
    text = (
        "prefix p: <https://example.org/p#>\nsignal torque(?m) in N.m\nrule r for ?m, ?x where { ?m"
        " p:limit ?x } require torque(?m) <= ?x\n"
    )
    pack = compile_rules([plant], text=text).pack
    assert pack is not None
    table = Table.of(
        "table", {"machine": ["M1", "M2", "M1", "M3"], "torque": np.array([15.0, 15.0, 5.0, 99.0])}
    )
    (bank,) = evaluate_table(pack, table)
    np.testing.assert_array_equal(
        bank.applicable, [[True, False], [False, True], [True, False], [False, False]]
    )
    np.testing.assert_array_equal(
        bank.satisfied, [[False, False], [False, True], [True, False], [False, False]]
    )
