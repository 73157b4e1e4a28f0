"""`fedkg check`: are the rules well written?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkg.cli.screen import AsJson, count, note, print_json, say


def check(
    rules: Annotated[list[Path], typer.Argument(metavar="RULES...", help="Rule files (.fkg), and graphs (.ttl ...) they speak about.")],
    as_json: AsJson = False,
) -> None:
    """Read rule files and name every problem in them, with its place and what to do.

    Silent about nothing: names, units, types and the knowledge graph are all looked at, and all problems of all files come in one go.
    Ends with 0 when the rules are clean and 1 when there is an error or a warning.

    \b
    Examples:
      fedkg check rules.fkg
      fedkg check rules.fkg plant.ttl
      fedkg check rules.fkg --json
    """
    from fedkg import authoring

    result = authoring.check(rules)
    if as_json:
        print_json(authoring.diagnostics_json(result.diagnostics))
    elif result.diagnostics:
        note(authoring.render(result.diagnostics))
    troubles = [d for d in result.diagnostics if d.severity != "info"]
    if troubles:
        if not as_json:
            note("\n" + count_problems([d.severity for d in troubles]))
        raise typer.Exit(1)
    if not as_json and result.pack is not None:
        pack = result.pack
        say(f"{', '.join(str(path) for path in rules)}: clean, {count(len(pack.manifest.rules), 'rule')}, {count(pack.rows, 'bound row')}")


def count_problems(severities: list[str]) -> str:
    """``2 errors, 1 warning``."""
    return ", ".join(count(severities.count(kind), kind) for kind in ("error", "warning") if kind in severities)
