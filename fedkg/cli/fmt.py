"""`fedkg fmt`: format rule files."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.cli.console import AsJson, print_json, print_line, print_note
from fedkg.cli.output_files import format_diff, write_atomically
from fedkg.errors import UsageError
from fedkg.limits import read_file, read_stream

if TYPE_CHECKING:
    from fedkg_compiler.diagnostics.record import Diagnostic

STDIN = "-"


@dataclass(frozen=True, slots=True)
class _FormattedFile:
    """A file, its text, and its canonical form; None if it has syntax errors."""

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
        bool, typer.Option("--check", help="Do not write; exit with 1 if a file is not formatted.")
    ] = False,
    diff: Annotated[
        bool,
        typer.Option(
            "--diff", help="Do not write; show the changes, and exit with 1 if there are any."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Format rule files: the order of options, spaces, line breaks.

    Formatting never changes the meaning of a file and keeps all comments; graph patterns move only
    as a whole. Files with syntax errors stay unchanged, and the errors are reported. Exit code 0:
    all files are formatted; 1: a file has errors (or, with --check or --diff, is not formatted).
    Standard input goes to standard output.

    \b
    Examples:
      fedkg fmt rules.fkg
      fedkg fmt *.fkg --check
      fedkg fmt rules.fkg --diff
      fedkg fmt - < rules.fkg
    """
    from fedkg import authoring

    if STDIN in files and len(files) > 1:
        raise UsageError(
            "`-` (standard input) cannot be combined with files", help="fedkg fmt - < rules.fkg"
        )
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
        body = read_stream(sys.stdin.buffer, "<stdin>", name="rules")
        return _FormattedFile(name, *authoring.format_rule_file(body, "<stdin>"))
    body = read_file(authoring.require_file(name), name="rules")
    return _FormattedFile(name, *authoring.format_rule_file(body, name))


def _json(one: _FormattedFile) -> dict[str, str | bool]:
    known: dict[str, str | bool] = {
        "file": one.name,
        "changed": one.changed,
        "errors": one.after is None,
    }
    return known | ({"text": one.after} if one.name == STDIN and one.after is not None else {})


def _print_changes(formed: list[_FormattedFile], *, check: bool, diff: bool) -> None:
    """Print what happened to each changed file."""
    changed = [one for one in formed if one.changed]
    if diff:
        for one in changed:
            print_line(format_diff(one.before, one.after or "", one.name))
        return
    if check:
        for one in changed:
            print_note(f"{one.name} is not formatted")
        if changed:
            print_note(
                f"{count_noun(len(changed), 'file')} to format: fedkg fmt "
                f"{' '.join(one.name for one in changed)}"
            )
        return
    for one in formed:
        if one.name == STDIN and one.after is not None:
            typer.echo(one.after, nl=False)
    for one in changed:
        if one.name != STDIN:
            print_line(f"formatted {one.name}")
