"""`fedkg check --fix` and `--watch`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedkg.cli import check, file_watcher
from fedkg.cli.file_watcher import watch_files

Command = Callable[..., Any]
SLIPS = """\
signal torque in Nm
signal pressure in BAR span 0 .. 10
output failure in probability span 0 .. 1
rule a requre torqe = 70,5 N.m
rule b require pressure ≥ 1 bar && torque <= 2 Nm
rule c kind capasity require x <= 1
rul d require pressure <= 2 bar -> failure >= 0.5
"""
MENDED = """\
signal torque in Nm
signal pressure in bar span 0 .. 10
output failure in probability span 0 .. 1
rule a require torque == 70.5 N.m
rule b require pressure ≥ 1 bar and torque <= 2 Nm
rule c kind capacity require x <= 1
rule d require if pressure <= 2 bar then failure >= 0.5
"""


def test_fix_repairs_certain_mistakes_and_reports_the_others(
    fedkg: Command, tmp_path: Path
) -> None:
    (tmp_path / "a.fkg").write_text(SLIPS, encoding="utf-8")
    done = fedkg("check", "a.fkg", "--fix")
    assert (tmp_path / "a.fkg").read_text(encoding="utf-8") == MENDED
    assert done.code == 1
    assert "fixed a.fkg:4:8: [FKG006] `requre` -> `require`" in done.out
    assert "[FKG011] `if` inserted, `->` -> `then`" in done.out
    assert "error[FKG200]: `x` is not declared" in done.err
    assert done.err.endswith("1 error\n") or "1 error," in done.err
    again = fedkg("check", "a.fkg", "--fix")
    assert "fixed" not in again.out
    (tmp_path / "a.fkg").write_text(SLIPS.replace("x <= 1", "torque <= 1 N.m"), encoding="utf-8")
    found = fedkg("check", "a.fkg", "--fix", "--json").json
    assert {item["code"] for item in found["fixed"]} >= {
        "FKG001",
        "FKG006",
        "FKG008",
        "FKG010",
        "FKG011",
        "FKG012",
        "FKG031",
        "FKG200",
        "FKG211",
    }
    assert not [item for item in found["diagnostics"] if item["severity"] == "error"]


NOT_CERTAIN = {
    "a digit": "signal flow_1\nrule a require flow_2 <= 1",
    "a short piece": "signal inlet_in\nrule a require inlet_on <= 1",
    "two near ones": "signal presure\nsignal pressures\nrule a require pressure <= 1",
    "a thousand or one": "signal x\nrule a require x <= 1,000",
    "a prefix word before an arrow": "signal x\nrule a require always x >= 1 -> x >= 2",
    "a doubtful unit": "signal x in C\nrule a require x <= 1",
    "and with or": "signal x\nrule a require x <= 1 and x >= 2 or x >= 3",
}


@pytest.mark.parametrize("title", NOT_CERTAIN)
def test_fix_leaves_uncertain_mistakes_unchanged(
    title: str, fedkg: Command, tmp_path: Path
) -> None:
    (tmp_path / "a.fkg").write_text(NOT_CERTAIN[title] + "\n")
    done = fedkg("check", "a.fkg", "--fix")
    assert done.code == 1
    assert "fixed" not in done.out
    assert (tmp_path / "a.fkg").read_text() == NOT_CERTAIN[title] + "\n"


def test_a_fix_that_makes_more_errors_is_taken_back(fedkg: Command, tmp_path: Path) -> None:
    text = (
        "signal p in bar\nrule a requre p <= 1 degC and q >= 1 and r >= 1\nrule b require p "
        "= 2 bar\n"
    )
    (tmp_path / "a.fkg").write_text(text)
    done = fedkg("check", "a.fkg", "--fix")
    assert done.code == 1
    assert (tmp_path / "a.fkg").read_text() == text.replace("p = 2", "p == 2")
    assert done.out == "fixed a.fkg:3:18: [FKG010] `=` -> `==`\n"


def test_units_with_one_near_neighbour_are_mended_also_inside_others(
    fedkg: Command, tmp_path: Path
) -> None:
    rules = (
        "rule a require p <= 5 {}\nrule b require p >= 1 {}\nrule c require f <= 5 {}\nrule "
        "d require c <= 4 {}\n"
    )
    text = "signal p in bar\nsignal f in kg/h\nsignal c in kJ/kg/K\n" + rules
    (tmp_path / "a.fkg").write_text(text.format("barr", "baar", "kgg/h", "kJ/kgg/K"))
    assert fedkg("check", "a.fkg").code == 1
    assert fedkg("check", "a.fkg", "--fix").code == 0
    assert (tmp_path / "a.fkg").read_text() == text.format("bar", "bar", "kg/h", "kJ/kg/K")


def test_a_unit_of_three_letters_has_no_suggestion(fedkg: Command, tmp_path: Path) -> None:
    text = "signal p in bar\nrule a require p <= 5 kba\n"
    (tmp_path / "a.fkg").write_text(text)
    done = fedkg("check", "a.fkg", "--fix")
    assert (done.code, "fixed" in done.out) == (1, False)
    assert "did you mean" not in done.err
    assert (tmp_path / "a.fkg").read_text() == text


def test_one_run_mends_what_fixes_bring_to_light(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "a.fkg").write_text(
        "signal p in bar\nrule d requires p >= 1 barr and p <= 2 baar and p <= 7 bar\n"
    )
    assert fedkg("check", "a.fkg", "--fix").code == 0
    assert (
        tmp_path / "a.fkg"
    ).read_text() == "signal p in bar\nrule d require p >= 1 bar and p <= 2 bar and p <= 7 bar\n"
    assert "fixed" not in fedkg("check", "a.fkg", "--fix").out


def test_files_that_are_no_utf_8_and_graphs_are_not_touched(fedkg: Command, tmp_path: Path) -> None:
    body = "rule grö requre x <= 1\n".encode("latin-1")
    (tmp_path / "a.fkg").write_bytes(body)
    assert fedkg("check", "a.fkg", "--fix").code == 1
    assert (tmp_path / "a.fkg").read_bytes() == body


def test_watch_looks_again_on_every_change_and_ends_with_ctrl_c(
    fedkg: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.fkg"
    sheet = tmp_path / "limits.csv"
    sheet.write_text("tag,high\nx,1\n")
    good = 'signal x\nrule a for ?tag, ?high in table "limits.csv" require value(?tag) <= ?high\n'
    path.write_text(good)
    steps: list[Callable[[], object]] = [
        lambda: None,
        lambda: path.write_text("rule a require x = 1\n"),
        lambda: os.utime(path, ns=(5, 5)),
        lambda: path.write_text(good),
        lambda: sheet.write_text("tag,high\nx,2\ny,3\n"),
        path.unlink,
        lambda: None,
        lambda: path.write_text(good),
    ]
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if not steps:
            raise KeyboardInterrupt
        steps.pop(0)()

    def watch_here(look: Callable[[], file_watcher.ReadFiles]) -> None:
        watch_files(look, wait=wait)

    monkeypatch.setattr(file_watcher, "watch_files", watch_here)
    done = fedkg("check", "a.fkg", "--watch")
    assert done.code == 0
    assert set(waited) == {file_watcher.INTERVAL}
    assert done.err.count("FKG010") == 1
    assert done.out.count("clean") >= 2
    assert "\x1b" not in done.out
    assert "there is no file a.fkg" in done.err


def test_watch_can_be_stopped() -> None:
    class Inputs:
        files: dict[str, str] = {}  # noqa: RUF012

        def unchanged(self) -> bool:
            return True

    looks: list[int] = []

    def look() -> Inputs:
        looks.append(1)
        return Inputs()

    watch_files(look, wait=lambda _: None, stopped=lambda: len(looks) == 1)
    assert looks == [1]


def test_watch_stands_alone(fedkg: Command) -> None:
    assert fedkg("check", "rules.fkg", "--watch", "--fix").code == 2
    assert fedkg("check", "rules.fkg", "--watch", "--json").code == 2
    assert check.count_problems(["error", "error", "warning"]) == "2 errors, 1 warning"


def test_misspelt_ontologies_and_libraries_are_mended(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "plant.ttl").write_text(
        "@prefix plant: <https://example.org/plant#> . plant:P1 a plant:Pump .", encoding="utf-8"
    )
    (tmp_path / "a.fkg").write_text(
        "use plnat, mason\nuse rules isa95.capcity\nsignal t in degC\nrule a require t < 3 degC\n",
        encoding="utf-8",
    )
    done = fedkg("check", "a.fkg", "--fix")
    assert "fixed a.fkg:1:5: [FKG100] `plnat` -> `plant`" in done.out
    assert (
        (tmp_path / "a.fkg")
        .read_text(encoding="utf-8")
        .startswith("use plant, mason\nuse rules isa95.capacity\n")
    )
    (tmp_path / "a.fkg").write_text(
        "use plants_of_ours\nsignal t in degC\nrule a require t < 3 degC\n", encoding="utf-8"
    )
    assert "fixed" not in fedkg("check", "a.fkg", "--fix").out
