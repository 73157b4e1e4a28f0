"""`fedkg eval` straight under rules says what the compiler left out of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedkg.cli import evaluate as command
from fedkg_compiler.diagnostics.record import Diagnostic, Span

Command = Callable[..., Any]


def test_what_is_left_out_is_told(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "shared.fkg").write_text(
        'signal torque in N.m column "Torque [Nm]"\nrule a require torque <= 70 N.m\nrule b scope client require torque <= 60 N.m\n'
    )
    done = fedkg("eval", "shared.fkg", "table.csv")
    assert done.code == 0
    assert done.err == "note: one statement is for clients and not in this pack\n"


def test_of_many_notes_the_first_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    span = Span(file="r.fkg", line=1, column=1, end_line=1, end_column=2)
    notes = [Diagnostic(code="FKG542", severity="info", span=span, message=f"no column for p{i}: left out there") for i in range(12)]
    other = Diagnostic(code="FKG233", severity="info", span=span, message="something else")
    command._tell([*notes, notes[0], other])
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "note: no column for p0: left out there"
    assert lines[10:] == ["note: 2 more notes on what is left out: `fedkg check` lists them"]
