"""Headers, names and units from users are never markup, and keep their units."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from fedkg.cli.progress import ProgressDisplay
from fedkg.jobs.events import Event

Command = Callable[..., Any]

RULES = """\
signal speed in rpm column "Drehzahl [/min]"
signal heat in degC column "Temperatur [min] [red]"
signal pressure in barg column "Druck [bar]"
rule quick "At most 5 [/min] :smile:" require speed <= 5
rule hot require heat <= 60 degC
rule tight require pressure <= 2 barg
rule limits for ?tag, ?high in table "limits [bar].csv" require value(?tag) <= ?high
"""


def written(folder: Path) -> None:
    (folder / "marked.fkg").write_text(RULES, encoding="utf-8")
    (folder / "limits [bar].csv").write_text(
        "tag,high\nDrehzahl [/min],3\nZug [/bar],3\n", encoding="utf-8"
    )
    (folder / "marked [min].csv").write_text(
        "Drehzahl [/min],Zug [/bar],Temperatur [min] [red],Druck [bar]\n4,4,70,2.5\n6,6,50,1\n",
        encoding="utf-8",
    )


def test_a_header_with_brackets_is_shown_whole(fedkg: Command, tmp_path: Path) -> None:
    written(tmp_path)
    done = fedkg("eval", "marked.fkg", "marked [min].csv")
    assert done.code == 0, done.err
    for text in (
        "  Drehzahl [/min]",
        "  Zug [/bar]",
        "marked [min].csv: 2 rows",
        "-10 K: row 1",
        "-0.5 bar: row 1",
    ):
        assert text in done.out
    done = fedkg("inspect", "marked.fkg", "--rows", "9")
    assert done.code == 0, done.err
    for text in (
        "Drehzahl [/min]",
        "Temperatur [min] [red]",
        "At most 5 [/min] :smile:",
        "heat <= 60  (margin in K)",
        "limits [bar].csv",
    ):
        assert text in done.out


def test_a_message_with_brackets_is_shown_whole(fedkg: Command, tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "short.csv").write_text("Drehzahl [1/min],[/min]\n1,2\n", encoding="utf-8")
    done = fedkg("eval", "marked.fkg", "short.csv")
    assert done.code == 1
    assert "Temperatur [min] [red]" in done.err
    assert "`[/min]`" in done.err
    assert "[/min].fkg" in fedkg("check", "[/min].fkg").err
    assert "[/min]" in fedkg("ontology", "show", "[/min]").err
    assert fedkg("check", "marked.fkg", "--[/min]").code == 2


def test_the_bar_of_a_run_takes_names_as_they_are(
    monkeypatch: Any,
) -> None:  # Any: pytest's monkeypatch
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120, color_system=None)
    monkeypatch.setattr("fedkg.cli.progress.stderr_console", lambda: console)
    with ProgressDisplay() as watch:
        watch(
            Event(kind="trial", trial="fedavg [/min]", trial_number=1, trials=1, round=0, rounds=2)
        )
        watch(
            Event(kind="round", trial="fedavg [/min]", trial_number=1, trials=1, round=1, rounds=2)
        )
    assert "fedavg [/min]" in screen.getvalue()
    assert "1 trial" in screen.getvalue()
    assert "all 1 trainings" not in screen.getvalue()


def test_the_bars_of_runs_side_by_side_are_their_own(
    monkeypatch: Any,
) -> None:  # Any: pytest's monkeypatch
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120, color_system=None)
    monkeypatch.setattr("fedkg.cli.progress.stderr_console", lambda: console)
    with ProgressDisplay() as watch:
        for number, trial in ((2, "b"), (3, "c")):  # the first was done before
            watch(Event(kind="trial", trial=trial, trial_number=number, trials=3, rounds=4))
        for number, done in ((3, 1), (2, 3), (3, 2)):
            watch(Event(kind="round", trial_number=number, trials=3, round=done, rounds=4))
        bar = watch._bar
        assert bar is not None
        assert [(task.description, task.completed) for task in bar.tasks] == [
            ("all 3 trials", 9),
            ("b", 3),
            ("c", 2),
        ]
        watch(
            Event(
                kind="trial_done",
                trial="b",
                message="b: done",
                trial_number=2,
                trials=3,
                round=3,
                rounds=4,
            )
        )
        assert [(task.description, task.completed) for task in bar.tasks] == [
            ("all 3 trials", 10),
            ("c", 2),
        ]
    assert "[2/3] b: done" in screen.getvalue()


def test_rules_with_errors_say_so_once(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "wrong.fkg").write_text("rule a require nothing_known(\n", encoding="utf-8")
    done = fedkg("eval", "wrong.fkg", "table.csv")
    assert done.code == 1
    assert done.err.startswith("wrong.fkg:1:")


def test_the_table_comes_last(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "plant.ttl").write_text("", encoding="utf-8")
    done = fedkg("eval", "table.csv", "rules.fkg")
    assert done.code == 2
    assert "the last argument must be a table" in done.err
    assert "fedkg eval rules.fkg table.csv" in done.err
    assert "fedkg eval rules.fkg plant.ttl table.csv" in fedkg("eval", "rules.fkg", "plant.ttl").err
