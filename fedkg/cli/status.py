"""`fedkg status`: the progress of a run or a sweep, also while a process works on it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkg.cli.console import AsJson, print_json, print_line, stdout_console
from fedkg.errors import MissingExtra

if TYPE_CHECKING:
    from rich.table import Table

    from fedkg.operations.run_progress_texts import TextTable


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


def rich_table(found: TextTable) -> Table:
    """A table for the terminal; texts of users are escaped."""
    from rich.table import Table
    from rich.text import Text

    from fedkg.operations.run_progress_texts import LEFT_ALIGNED

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in found.headers:
        is_text = header in LEFT_ALIGNED
        table.add_column(
            "" if header == "reason" else header,
            no_wrap=header not in ("training", "reason"),
            overflow="fold",
            justify="left" if is_text else "right",
        )
    for row in found.rows:
        table.add_row(*map(Text, row))
    if found.more:
        table.add_row(Text(found.more))
    return table


def _show(found: dict[str, Any]) -> None:
    """Print a status. `Any`: JSON."""
    from fedkg.operations.run_progress_texts import exclusion_lines, summarise, trial_table

    stdout_console().print(rich_table(trial_table(found)))
    for run in found["runs"]:
        for line in exclusion_lines([run]):
            print_line(line)
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
