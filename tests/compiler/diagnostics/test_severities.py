"""The severities of codes agree with the diagnostics of all golden cases."""

from __future__ import annotations

import re
from pathlib import Path

from fedkg_compiler.diagnostics import CODES
from fedkg_compiler.diagnostics.severities import _SEVERITIES, severities_of

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


def test_every_diagnostic_of_the_golden_cases_has_a_documented_severity() -> None:
    seen = {
        (found[2], found[1])
        for path in GOLDEN.rglob("*.case")
        for found in re.finditer(
            r"(error|warning|info)\[(FKG\d{3})\]", path.read_text(encoding="utf-8")
        )
    }
    assert len(seen) > 100
    assert not {(code, severity) for code, severity in seen if severity not in severities_of(code)}


def test_only_known_codes_have_severities() -> None:
    assert set(_SEVERITIES) <= set(CODES)
