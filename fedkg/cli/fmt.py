"""`fedkg fmt`: rule files in their canonical form."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkg.cli.console import AsJson, count, print_json, print_line, print_note
from fedkg.cli.output_files import format_diff, write_atomically
from fedkg.errors import UsageError

if TYPE_CHECKING:
    from fedkg_compiler.diagnostics.record import Diagnostic

STDIN = "-"


@dataclass(frozen=True, slots=True)
class _FormattedFile:
    """A file, its text, and its canonical form; None where it has syntax errors."""

    name: str
    before: str
    after: str | None
    problems: tuple[Diagnostic, ...]

    @property
    def changed(self) -> bool:
        return self.after is not None and self.after != self.before


def fmt(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILES...", help="Rule files (.fkg), or - for standard input."),
    ],
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Write nothing; end with 1 when a file is not in its canonical form."
        ),
    ] = False,
    diff: Annotated[
        bool,
        typer.Option("--diff", help="Write nothing; show what would change, and end with 1 then."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write rule files in the one form that all of them share: the order of options, spaces, line breaks.

    What a file says never changes, and no comment is lost; a graph pattern is only moved as a whole. A file with syntax errors is
    left alone and its errors are said. Ends with 0 when all files are in their form, and 1 when one has errors (or, with --check or
    --diff, is not in its form). Standard input goes to standard output.

    \b
    Examples:
      fedkg fmt rules.fkg
      fedkg fmt *.fkg --check
      fedkg fmt rules.fkg --diff
      fedkg fmt - < rules.fkg
    """
    from fedkg import authoring

    if STDIN in files and len(files) > 1:
        raise UsageError("standard input stands alone", help="fedkg fmt - < rules.fkg")
    formed = [_format_file(name) for name in files]
    keep = check or diff
    for one in formed:
        if one.changed and not keep and one.name != STDIN and one.after is not None:
            write_atomically(Path(one.name), one.after)
    problems = [problem for one in formed for problem in one.problems]
    if as_json:
        document = {"files": [_json(one) for one in formed]}
        print_json(document | authoring.diagnostics_json(problems))
    else:
        if problems:
            print_note(
                authoring.render(
                    problems,
                    {"<stdin>" if one.name == STDIN else one.name: one.before for one in formed},
                )
            )
        _print_changes(formed, check=check, diff=diff)
    if problems or (keep and any(one.changed for one in formed)):
        raise typer.Exit(1)


def _format_file(name: str) -> _FormattedFile:
    from fedkg import authoring

    if name == STDIN:
        return _FormattedFile(name, *authoring.format_rule_file(sys.stdin.buffer.read(), "<stdin>"))
    return _FormattedFile(
        name, *authoring.format_rule_file(authoring.require_file(name).read_bytes(), name)
    )


def _json(one: _FormattedFile) -> dict[str, str | bool]:
    known: dict[str, str | bool] = {
        "file": one.name,
        "changed": one.changed,
        "errors": one.after is None,
    }
    return known | ({"text": one.after} if one.name == STDIN and one.after is not None else {})


def _print_changes(formed: list[_FormattedFile], *, check: bool, diff: bool) -> None:
    """What became of each file; silent about those that are as they should be."""
    changed = [one for one in formed if one.changed]
    if diff:
        for one in changed:
            print_line(format_diff(one.before, one.after or "", one.name))
        return
    if check:
        for one in changed:
            print_note(f"{one.name} is not in its canonical form")
        if changed:
            print_note(
                f"{count(len(changed), 'file')} to format: fedkg fmt {' '.join(one.name for one in changed)}"
            )
        return
    for one in formed:
        if one.name == STDIN and one.after is not None:
            typer.echo(one.after, nl=False)
    for one in changed:
        if one.name != STDIN:
            print_line(f"formatted {one.name}")
