"""fedkg notes a declared unit that differs from the one in its column's header.

The declaration wins.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkg_compiler.pipeline import compile_rules


@pytest.mark.parametrize(
    ("signal", "said"),
    [
        (
            'p in bar column "p [kPa]"',
            (
                "`p` is declared in bar, but the header of its column says kPa; fedkg reads its "
                "cells in bar"
            ),
        ),
        (
            'p in degC column "Heat [K]"',
            (
                "`p` is declared in degC, but the header of its column says K; fedkg reads its "
                "cells in degC"
            ),
        ),
        ('p in N.m column "Torque [Nm]"', None),
        ('p in rpm column "Speed [1/min]"', None),
        ('p in barg column "Gauge [bar]"', None),
        ('p in bar column "Run time [min]"', None),
    ],
)
def test_a_declared_unit_beside_its_header(signal: str, said: str | None, tmp_path: Path) -> None:
    (tmp_path / "one.fkg").write_text(f"signal {signal}\nrule a require p <= 3\n", encoding="utf-8")
    compilation = compile_rules([tmp_path / "one.fkg"])
    assert [
        (one.severity, one.message) for one in compilation.diagnostics if one.code == "FKG242"
    ] == ([("warning", said)] if said else [])
    assert compilation.pack is not None
    assert compilation.pack.manifest.contract.columns[0].unit == signal.split()[2]


def test_a_truth_value_has_no_unit_that_could_differ(tmp_path: Path) -> None:
    text = 'signal p in boolean column "Valve [%]"\nrule a require p is true\n'
    (tmp_path / "one.fkg").write_text(text, encoding="utf-8")
    assert compile_rules([tmp_path / "one.fkg"]).diagnostics == ()
