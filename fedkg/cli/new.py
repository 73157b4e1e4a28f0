"""`fedkg new`: a first rule file from a sheet of limits, or from the data's own ranges."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from fedkg.cli.screen import AsJson, count, print_json, say
from fedkg.errors import UsageError


def new(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="[LIMITS] TABLE", help="A sheet of limits (tag, unit, low, high) and a table of data; or a table alone."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="RULES", help="The rule file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite the rule file if it is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a first rule file: from a sheet of limits, or, without one, from the ranges the data itself shows.

    The file is plain text, made to be read and changed. Nothing else is needed: no ontology, no programming.

    \b
    Examples:
      fedkg new limits.csv history.csv -o rules.fkg
      fedkg new history.csv -o rules.fkg
    """
    from fedkg import authoring
    from fedkg.tables import read_table

    if len(sources) > 2:
        raise UsageError("too many files", expected="a sheet of limits and a table, or a table alone")
    if output.exists() and not force:
        raise UsageError(f"{output} is already there", help="choose another name, or add --force to overwrite it")
    if output.exists() and any(source.exists() and source.samefile(output) for source in sources):
        raise UsageError(f"{output} is what the rules are made from", help="name a rule file: -o rules.fkg")
    *sheet, data = sources
    limits = read_table(sheet[0]) if sheet else None
    table = read_table(data)
    text = authoring.draft(limits, table, limits_name=_beside(sheet[0], output) if sheet else "", table_name=data.name)
    output.write_text(text, encoding="utf-8")
    result = authoring.check([output])
    rules = len(result.pack.manifest.rules) if result.pack else 0
    if as_json:
        print_json({"rules_file": str(output), "rules": rules} | authoring.diagnostics_json(result.diagnostics))
    else:
        say(f"{output}: {count(rules, 'rule')} for {data}\nnext: fedkg check {output}, then fedkg eval {output} {data}")


def _beside(sheet: Path, output: Path) -> str:
    """How the rule file names the sheet: relative to its own folder where that is possible."""
    try:
        return Path(os.path.relpath(sheet, output.parent)).as_posix()
    except ValueError:  # another drive
        return sheet.resolve().as_posix()
