"""A number that is compared with a difference of temperatures is a difference: no offset."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import call

HEAD = """
signal inside  in degF column "in"
signal outside in degF column "out"
signal water   in degC column "w"
signal steam   in barg column "s"
signal feed    in barg column "f"
"""
TABLE = "in,out,w,s,f\n70,59,20,3,2.4\n70,60,20,3,2.5\n70,61,20,3,2.6\n"
"""Differences: 11, 10 and 9 degF; 0.6, 0.5 and 0.4 bar. 20 degC are 68 degF."""

CONDITIONS = {
    "inside - outside <= 10 degF": (2, 1),
    "10 degF >= inside - outside": (2, 1),
    "9.5 degF <= inside - outside <= 10.5 degF": (1, 2),
    "inside - outside <= 10 degR": (2, 1),
    "abs(outside - inside) < 10 degF": (1, 2),
    "outside - inside >= -10 degF": (2, 1),
    "inside - outside == 10 degF +/- 0.5 degF": (1, 2),
    # 10 degF are 5.56 K.
    "inside - outside <= 5.6 degC": (2, 1),
    "inside - outside <= 5.5 K": (1, 2),
    # 2 degF, whatever the rows.
    "inside - water <= 2 degF": (3, 0),
    "inside - water <= 1.1 degC": (0, 3),
    "steam - feed <= 0.55 barg": (2, 1),
    "max of inside over last 1 - outside <= 10 degF": (2, 1),
    # A point stays a point.
    "inside <= 21.2 degC": (3, 0),
    "outside + 10 degR <= 70 degF": (2, 1),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_limit_on_a_difference_has_no_offset(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, condition: str
) -> None:
    (tmp_path / "r.fkg").write_text(HEAD + f"rule r require {condition}\n")
    (tmp_path / "t.csv").write_text(TABLE)
    [rule] = call(capsys, "eval", tmp_path / "r.fkg", tmp_path / "t.csv", "--json").json["rules"]
    assert (rule["satisfied"], rule["violated"]) == CONDITIONS[condition]


def test_a_signal_is_no_difference(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "r.fkg").write_text(HEAD + "rule r require inside - outside <= water\n")
    done = call(capsys, "check", tmp_path / "r.fkg")
    assert done.code == 1
    assert "FKG215" in done.err
