"""`fedkg reproduce`: repeat a finished run and compare the results."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.cli.console import AsJson, TrustCode, print_json, print_line
from fedkg.errors import MissingExtra


def reproduce(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="The folder of the second run; default: next to the first."
        ),
    ] = None,
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """Repeat all trials of a run folder, and compare every figure and model bit for bit.

    Job, rules and executors come from the folder; data files must be unchanged. Exit code 0:
    identical; 1: different. Changed versions of libraries or another processor may change last
    bits, and are reported.

    \b
    Example:
      fedkg reproduce runs/tuesday
    """
    if any(find_spec(name) is None for name in ("torch", "yaml", "scipy")):
        raise MissingExtra("training", "run")
    from fedkg.cli.progress import ProgressDisplay
    from fedkg.cli.run_job import stop_on_sigterm
    from fedkg.jobs.reproduce import reproduce as run_again

    with stop_on_sigterm(), ProgressDisplay() as watch:
        found = run_again(folder, out=out, on_event=watch, trust_code=trust_code)
    if as_json:
        print_json(
            {
                "run": str(folder),
                "folder": str(found.folder),
                "same": not found.differences,
                "compared": found.compared,
                "differences": list(found.differences),
                "more": found.more,
                "environment_changes": list(found.environment_changes),
            }
        )
    else:
        for text in found.differences:
            print_line(text)
        if found.more:
            print_line(f"and {count_noun(found.more, 'more difference')}")
        for text in found.environment_changes:
            print_line(f"changed environment: {text}")
        verdict = (
            "different"
            if found.differences
            else f"identical: {found.compared:,} figures and models"
        )
        print_line(f"{verdict}; the second run is in {found.folder}")
    if found.differences:
        raise typer.Exit(1)
