"""`fedkg check`: are the rules well written? It says what is wrong, mends what is certain, and looks again on every change."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkg.cli.console import AsJson, count, print_json, print_line, print_note
from fedkg.cli.inspect_knowledge import describe_other_contents
from fedkg.errors import FedkgError, UsageError

if TYPE_CHECKING:
    from fedkg_compiler.authoring.fixes import Mended
    from fedkg_compiler.compilation import Compilation
    from fedkg_compiler.diagnostics.record import Diagnostic

_CLEAR = "\x1b[2J\x1b[3J\x1b[H"


def check(
    rules: Annotated[
        list[str],
        typer.Argument(
            metavar="RULES...",
            help="Rule files (.fkg), and graphs they speak about: .ttl ..., stores, URLs.",
        ),
    ],
    fix: Annotated[
        bool,
        typer.Option(
            "--fix",
            help="Put the suggestions that are certain into the files, and say what is left.",
        ),
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again whenever a file changes, until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read rule files and name every problem in them, with its place and what to do.

    Silent about nothing: names, units, types and the knowledge graph are all looked at, and all problems of all files come in one go.
    Ends with 0 when the rules are clean and 1 when there is an error or a warning.

    With --fix, slips that can be meant in one way alone are mended in the files: typographic signs, decimal commas, `=` for `==`,
    misspelt words of the language, names and units with a single near neighbour. No file ever gets more errors than it had.

    \b
    Examples:
      fedkg check rules.fkg
      fedkg check rules.fkg plant.ttl
      fedkg check rules.fkg https://graphs.example.org/query
      fedkg check rules.fkg --fix
      fedkg check rules.fkg plant.ttl --watch
      fedkg check rules.fkg --json
    """
    from fedkg import authoring

    if watch:
        if fix or as_json:
            raise UsageError(
                "--watch stands without --fix and --json", help="fedkg check rules.fkg --watch"
            )
        _watch([Path(rule) for rule in rules])
        return
    mended = _apply_fixes([Path(rule) for rule in rules]) if fix else None
    result = authoring.check(rules)
    if as_json:
        fixed = {"fixed": authoring.diagnostics_json(mended.fixed)["diagnostics"]} if mended else {}
        print_json(fixed | authoring.diagnostics_json(result.diagnostics))
    elif mended is not None:
        _print_fixes(mended)
    if not _report(result, rules, quiet=as_json):
        raise typer.Exit(1)


def count_problems(severities: list[str]) -> str:
    """``2 errors, 1 warning``."""
    return ", ".join(
        count(severities.count(kind), kind) for kind in ("error", "warning") if kind in severities
    )


def _report(result: Compilation, rules: Sequence[str | Path], *, quiet: bool = False) -> bool:
    """Say what was found; whether the rules are clean."""
    from fedkg import authoring

    troubles = [d for d in result.diagnostics if d.severity != "info"]
    if quiet:
        return not troubles
    if result.diagnostics:
        print_note(authoring.render(result.diagnostics))
    if troubles:
        print_note("\n" + count_problems([d.severity for d in troubles]))
    elif result.counts is not None:
        counts = result.counts
        named = ", ".join(str(path) for path in rules)
        print_line(
            f"{named}: clean, {count(counts.rules, 'rule')}, {count(counts.rows, 'bound row')}{describe_other_contents(counts)}"
        )
    return not troubles


def _apply_fixes(rules: Sequence[Path]) -> Mended:
    """Put the certain fixes into the files."""
    from fedkg import authoring
    from fedkg.cli.output_files import write_atomically

    mended = authoring.apply_fixes(rules)
    for path, text in mended.texts.items():
        if path.read_bytes() != mended.before[path]:
            raise FedkgError(
                f"{path} was changed by somebody else while it was mended",
                help="run the command again",
            )
        write_atomically(path, text)
    return mended


def _print_fixes(mended: Mended) -> None:
    for problem in mended.fixed:
        print_line(
            f"fixed {problem.span.file}:{problem.span.line}:{problem.span.column}: {_fix_text(problem)}"
        )


def _fix_text(problem: Diagnostic) -> str:
    """``[FKG006] `requre` -> `require```."""
    edits = problem.fix.edits if problem.fix else ()
    return f"[{problem.code}] {', '.join(_edit_text(edit.was, edit.text) for edit in edits)}"


def _edit_text(was: str, text: str) -> str:
    if was and text:
        return f"`{was}` -> `{text}`"
    what = (was or text).strip()
    return f"{f'`{what}`' if what else 'indentation'} {'taken out' if was else 'put in'}"


def _watch(rules: Sequence[Path]) -> None:
    """Check on every change, until Ctrl-C."""
    from fedkg import authoring
    from fedkg.cli.file_watcher import ReadFiles, watch_files

    class _Nothing:
        """What was read when a file that was named is not there: that file."""

        def __init__(self, paths: Sequence[Path]) -> None:
            self.files = {str(path.absolute()): "" for path in paths}
            self.missing = {path for path in paths if not path.is_file()}

        def unchanged(self) -> bool:
            return {path for path in map(Path, self.files) if not path.is_file()} == {
                path.absolute() for path in self.missing
            }

    def look() -> ReadFiles:
        if sys.stdout.isatty():
            typer.echo(_CLEAR, nl=False)
        try:
            result, inputs = authoring.check_with_inputs(rules)
        except UsageError as error:
            print_note(f"error: {error}")
            return _Nothing(rules)
        _report(result, rules)
        return inputs

    watch_files(look)
