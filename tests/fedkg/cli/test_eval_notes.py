"""`fedkg eval` on rule files reports what the compiler omits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedkg.cli import evaluate as command
from fedkg_compiler.diagnostics.record import Diagnostic, Span

Command = Callable[..., Any]


def test_what_is_left_out_is_reported(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "shared.fkg").write_text(
        'signal torque in N.m column "Torque [Nm]"\nrule a require torque <= 70 '
        "N.m\nrule b scope client require torque <= 60 N.m\n"
    )
    done = fedkg("eval", "shared.fkg", "table.csv")
    assert done.code == 0
    assert done.err == "note: one statement is for clients and not in this pack\n"
    told = fedkg("eval", "shared.fkg", "table.csv", "--json").json["diagnostics"]
    assert ("FKG287", "info", "one statement is for clients and not in this pack") in [
        (one["code"], one["severity"], one["message"]) for one in told
    ]


def test_a_pack_has_nothing_left_to_say(fedkg: Command) -> None:
    assert fedkg("compile", "rules.fkg", "-o", "rules.fkgpack").code == 0
    assert fedkg("eval", "rules.fkgpack", "table.csv", "--json").json["diagnostics"] == []


def test_notes_are_fields_of_the_json_too(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text("machine,most\nM1,50\nM2,60\nK01,60\n")
    (tmp_path / "g.ttl").write_text(
        "@prefix fkg: <https://w3id.org/fedkg/ns#> . @prefix p: <http://example.org/> . "
        'p:M fkg:keyColumn "machine" .\n'
        "p:M1 a p:M ; p:most 50 . p:M2 a p:M ; p:most 60 . p:Kessel1 a p:M ; p:most 60 "
        ".\n"
    )
    (tmp_path / "m.fkg").write_text(
        'prefix p: <http://example.org/>\nsignal x column "x"\nrule r for ?m, ?most '
        "where { ?m p:most ?most } require x <= ?most\n"
    )
    (tmp_path / "m.csv").write_text("machine,x\nM1,40\nM2,70\nM9,1\nKessel 1,1\n")
    shown = fedkg("eval", "m.fkg", "g.ttl", "m.csv")
    facts = fedkg("eval", "m.fkg", "g.ttl", "m.csv", "--json").json
    notes = [
        line.removeprefix("note: ") for line in shown.out.splitlines() if line.startswith("note: ")
    ]
    assert any("that no rule is bound to (M9" in line for line in notes)
    assert notes == facts["notes"]
    assert any("did you mean `Kessel 1`?" in line for line in facts["rules"][0]["notes"])


def test_of_many_notes_the_first_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    span = Span(file="r.fkg", line=1, column=1, end_line=1, end_column=2)
    notes = [
        Diagnostic(
            code="FKG542", severity="info", span=span, message=f"no column for p{i}: left out there"
        )
        for i in range(12)
    ]
    other = Diagnostic(code="FKG233", severity="info", span=span, message="something else")
    command._print_notes([*notes, notes[0], other])
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "note: no column for p0: left out there"
    assert lines[10:] == ["note: 2 more notes about omissions: `fedkg check` lists them"]


def test_the_order_of_dates_is_asked_for_and_taken(fedkg: Command, tmp_path: Path) -> None:
    timeline = 'timeline time column "Zeit" step 1 d\nsignal x in bar\n'
    (tmp_path / "time.fkg").write_text(timeline + "rule calm require always [0, 1] x <= 3 bar\n")
    (tmp_path / "dates.csv").write_text("Zeit,x\n03/04/2024,1\n04/04/2024,5\n05/04/2024,2\n")
    refused = fedkg("eval", "time.fkg", "dates.csv")
    assert refused.code == 1
    assert "the dates in `Zeit` can be read in two ways" in refused.err
    assert "--dates day-first" in refused.err
    days = fedkg("eval", "time.fkg", "dates.csv", "--dates", "day-first", "--json").json["rules"][0]
    months = fedkg("eval", "time.fkg", "dates.csv", "--dates", "month-first", "--json").json[
        "rules"
    ][0]
    assert (days["violated"], days["unknown"]) == (2, 1)
    assert (months["violated"], months["unknown"]) == (1, 2)
