"""`fedkg verify`: compare every file of a run folder with its logged checksum."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fedkg.cli.console import AsJson, count, print_json, print_line
from fedkg.errors import MissingExtra


def verify(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a run, or of a sweep.")
    ],
    checksum: Annotated[
        str | None,
        typer.Option(
            "--checksum",
            metavar="SHA256",
            help="A checksum that `fedkg run` printed at its end; the log must contain it.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare every file of a run folder with its checksum in the log, without changing anything.

    Exit code 0: all files are as the run wrote them; 1: a file or the log is damaged or missing.

    \b
    Example:
      fedkg verify runs/tuesday
    """
    if any(find_spec(name) is None for name in ("torch", "yaml")):
        raise MissingExtra("reading run folders", "run")
    from fedkg.jobs.checksum_verification import verify as compare

    found = compare(folder, checksum=checksum)
    if as_json:
        print_json(
            {
                "folder": str(found.folder),
                "intact": not found.problems,
                "files": found.files,
                "entries": found.entries,
                "checksum": found.checksum,
                "problems": list(found.problems),
            }
        )
    else:
        for problem in found.problems:
            print_line(problem)
        print_line(
            f"damaged: {count(len(found.problems), 'problem')}"
            if found.problems
            else f"intact: {count(found.files, 'file')}; checksum of the log: {found.checksum}"
        )
    if found.problems:
        raise typer.Exit(1)
