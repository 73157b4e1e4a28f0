"""`fedkg new`: write a first rule file from a sheet of limits, or from the ranges of the data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from fedkg.cli.console import AsJson, count, print_json, print_line
from fedkg.cli.output_files import check_output_path, write_atomically
from fedkg.errors import UsageError

MAX_LISTED = 8
"""Number of missing tags that are printed."""


def new(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="[LIMITS] TABLE",
            help="A sheet of limits (tag, unit, low, high) and a table of data; or only a table.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="RULES", help="The rule file to write.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite an existing rule file.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a first rule file from a sheet of limits or, without one, from the ranges of the data.

    The result is plain text for you to read and edit. It needs no ontology and no programming.

    \b
    Examples:
      fedkg new limits.csv history.csv -o rules.fkg
      fedkg new history.csv -o rules.fkg
    """
    from fedkg import authoring
    from fedkg.tables import read_table

    if len(sources) > 2:
        raise UsageError(
            "too many files",
            expected="a sheet of limits and a table, or only a table",
            help="fedkg new limits.csv table.csv -o rules.fkg",
        )
    check_output_path(output, "rules.fkg")
    if output.exists() and not force:
        raise UsageError(
            f"{output} already exists", help="choose another name, or add --force to overwrite it"
        )
    if output.exists() and any(source.exists() and source.samefile(output) for source in sources):
        raise UsageError(
            f"{output} is an input of this command", help="choose another name: -o rules.fkg"
        )
    *sheet, data = sources
    limits = read_table(sheet[0]) if sheet else None
    table = read_table(data)
    text = authoring.draft_rules(
        limits,
        table,
        limits_name=_relative_path(sheet[0], output) if sheet else "",
        table_name=data.name,
    )
    write_atomically(output, text)
    result = authoring.check([output])
    rules = len(result.pack.manifest.rules) if result.pack else 0
    tags, missing = authoring.find_missing_tags(limits, table) if limits is not None else (0, {})
    if as_json:
        found = {"tags": tags, "missing_tags": missing} if limits is not None else {}
        print_json(
            {"rules_file": str(output), "rules": rules}
            | found
            | authoring.diagnostics_json(result.diagnostics)
        )
    else:
        print_line(f"{output}: {count(rules, 'rule')} for {data}")
        if missing:
            print_line(_describe_tags(tags, missing))
        print_line(f"next: fedkg check {output}, then fedkg eval {output} {data}")


def _describe_tags(tags: int, missing: Mapping[str, str | None]) -> str:
    """``1 of 2 tags found; `Volume Flow`: did you mean `Volume Flow RateRMS`?``"""
    named = [
        f"`{tag}`: did you mean `{near}`?" if near else f"`{tag}` is not a column"
        for tag, near in list(missing.items())[:MAX_LISTED]
    ]
    more = (
        [f"{len(missing) - MAX_LISTED} more are listed in the file"]
        if len(missing) > MAX_LISTED
        else []
    )
    return "; ".join([f"{tags - len(missing)} of {count(tags, 'tag')} found", *named, *more])


def _relative_path(sheet: Path, output: Path) -> str:
    """The path of the sheet relative to the rule file, if possible."""
    try:
        return Path(os.path.relpath(sheet, output.parent)).as_posix()
    except ValueError:  # another drive
        return sheet.resolve().as_posix()
