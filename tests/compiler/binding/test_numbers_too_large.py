"""Numbers too large for a float, window or count, and unknown words, give an error.

They never give a traceback.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedkg.errors import PackError
from fedkg.pack import pack_bytes, read_pack
from fedkg_compiler.pipeline import compile_rules

HEAD = "timeline step 1 s\nsignal x in bar span 0 .. 9\nlabel g classes A, B\n"


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("rule r require always [0 s, 1e308 min] x <= 3 bar", "FKG228"),
        ("rule r require x <= 1e308 MPa", "FKG228"),
        ("rule r require at least 1e308 of (x <= 3 bar) over ?p in class plant:Pipe", "FKG047"),
        ("rule r require at least 1e400 of (x <= 3 bar) over ?p in class plant:Pipe", "FKG037"),
        ("rule r scope nobody require x <= 3 bar", "FKG046"),
        ("set s scope nobody keep parameters in l1_ball(radius = 1)", "FKG046"),
        (
            "range knowledge k of g scope nobody when x > 3 bar allow A otherwise allow any",
            "FKG046",
        ),
        (
            "template t(x, h) = x <= h\ninfer i scope nobody per client find ?h in t(x, ?h)",
            "FKG046",
        ),
    ],
)
def test_an_error_with_its_code(rule: str, code: str) -> None:
    found = compile_rules(text=f"{HEAD}{rule}\n").diagnostics
    assert code in [problem.code for problem in found if problem.severity == "error"], [
        problem.message for problem in found
    ]


def test_a_step_longer_than_any_number() -> None:
    found = compile_rules(
        text="timeline step 1e308 d\nsignal x in bar\nrule r require next (x <= 3 bar)\n"
    ).diagnostics
    assert [problem.code for problem in found if problem.severity == "error"] == ["FKG228"]


def test_a_span_that_the_table_s_unit_cannot_hold_is_left_out() -> None:
    graph = 'signal x in MPa span 0 .. 1e308  column "x [Pa]"\nrule r require x <= 3 MPa\n'
    pack = compile_rules(text=graph).pack
    assert pack is not None


@pytest.mark.parametrize(
    ("values", "fine"),
    [
        ("1 2 bar and y = 3 4 bar", True),
        ("1 2 bar and y = 3 bar", False),
        ("1 bar and y = 2 bar", True),
    ],
)
def test_series_of_an_example_are_equally_long(values: str, fine: bool) -> None:
    text = f"{HEAD}signal y in bar\nrule r require x <= y\nexample of r holds for x = {values}\n"
    assert (
        "FKG294" in [problem.code for problem in compile_rules(text=text).diagnostics]
    ) is not fine


@pytest.mark.parametrize("code", [-1, 7])
def test_a_pack_whose_keys_stand_for_no_text_is_rejected(code: int, tmp_path: Path) -> None:
    graph = (
        "@prefix p: <https://e.org/> . @prefix fkg: <https://w3id.org/fedkg/ns#> . p:Mill"
        ' fkg:keyColumn "machine" . p:M1 a p:Mill .'
    )
    place = tmp_path / "mills.ttl"
    text = (
        "prefix p: <https://e.org/>\nsignal x(?m) is p:x in bar\nrule r for ?m in class p:Mill"
        " require x(?m) <= 3 bar\n"
    )
    place.write_text(graph + ' p:x fkg:column "x" .', encoding="utf-8")
    pack = compile_rules(text=text, graphs=[place], reason=False).pack
    assert pack is not None
    [bank] = pack.banks
    assert (bank.keys >= 0).all()
    with pytest.raises(PackError, match="key column"):
        read_pack(
            pack_bytes(replace(pack, banks=(replace(bank, codes=np.full_like(bank.codes, code)),)))
        )
