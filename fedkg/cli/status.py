"""`fedkg status`: the progress of a run or a sweep, also while a process works on it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkg.cli.console import AsJson, count, print_json, print_line, stdout_console
from fedkg.errors import MissingExtra

if TYPE_CHECKING:
    from rich.table import Table


def status(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a run, or of a sweep.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show the progress of a run: for every trial the finished rounds and the last figures.

    \b
    Example:
      fedkg status runs/tuesday
    """
    if find_spec("yaml") is None:
        raise MissingExtra("reading run folders", "run")
    from fedkg.jobs.sweep.run_status import read_status

    found = read_status(folder)
    if as_json:
        print_json({"folder": str(folder), **found.document()})
    else:
        _show(found.document())
    if any(run.state == "damaged" for run in found.runs):
        raise typer.Exit(1)


def trial_table(found: dict[str, Any]) -> Table:
    """The trials of a status, one per row. `Any`: JSON."""
    from rich.table import Table
    from rich.text import Text

    from fedkg.jobs.comparison_metric import MEASURE_BY_COLUMN

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    several = len(found["runs"]) > 1
    title = next(
        (
            MEASURE_BY_COLUMN[trial["measure"]].title
            for run in found["runs"]
            for trial in run["trials"]
        ),
        "F1",
    )
    for header in (*(["run"] if several else []), "training", "rounds", title, "violated rules"):
        table.add_column(
            header,
            no_wrap=header != "training",
            overflow="fold",
            justify="left" if header in ("run", "training") else "right",
        )
    for run in found["runs"]:
        for trial in run["trials"]:
            cells = [
                *([run["id"]] if several else []),
                trial["id"],
                f"{trial['round']}/{trial['rounds']}",
            ]
            cells += [
                "-" if trial["figure"] is None else f"{trial['figure']:.3f}",
                "-" if trial["violated_share"] is None else f"{trial['violated_share']:.0%}",
            ]
            table.add_row(*(Text(cell) for cell in cells))
        if not run["trials"]:
            table.add_row(
                *(
                    Text(cell)
                    for cell in (*([run["id"]] if several else []), run["state"], "", "", "")
                )
            )
    return table


def _show(found: dict[str, Any]) -> None:
    """Print a status. `Any`: JSON."""
    stdout_console().print(trial_table(found))
    for run in found["runs"]:
        for row in run["exclusions"]:
            print_line(
                f"{row['client']} is {row['state']} since round {row['since']}: {row['reason']}"
                f" (decided by: {row['decided_by']}); {row['help']}"
            )
        if run["error"]:
            print_line(
                f"{run['id']} {'is damaged' if run['state'] == 'damaged' else 'failed'}: "
                f"{run['error']}"
            )
    print_line(summarise(found))
    states = {run["state"] for run in found["runs"]}
    if "damaged" not in states and states != {"done"} and not found["running"]:
        folder = Path(found["folder"])
        is_federation = (folder.parent / "federation.json").exists()
        command = f"server run {folder.parent}" if is_federation else f"run --resume {folder}"
        print_line(f"continue: fedkg {command}")


def summarise(found: dict[str, Any]) -> str:
    """``1 of 2 runs done, 1 begun, in progress``. `Any`: JSON."""
    states = [run["state"] for run in found["runs"]]
    said = [f"{states.count('done')} of {count(len(states), 'run')} done"]
    said += [
        f"{states.count(state)} {state}"
        for state in ("begun", "failed", "open", "damaged")
        if state in states
    ]
    return ", ".join(said) + (", in progress" if found["running"] else "")
