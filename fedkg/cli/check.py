"""`fedkg check`: find problems in rule files, fix certain ones, and repeat on every change."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.cli.console import AsJson, print_json, print_line, print_note
from fedkg.cli.inspect_knowledge import describe_other_contents
from fedkg.cli.site_options import SiteName, SitesPath, check_sites, require_sites
from fedkg.errors import FedkgError, UsageError

if TYPE_CHECKING:
    from fedkg_compiler.authoring.fixes import FixedFiles
    from fedkg_compiler.compilation_result import Compilation
    from fedkg_compiler.diagnostics.record import Diagnostic

_CLEAR = "\x1b[2J\x1b[3J\x1b[H"


def check(
    rules: Annotated[
        list[str],
        typer.Argument(
            metavar="RULES...",
            help="Rule files (.fkg), and the graphs they refer to: .ttl ..., stores, URLs.",
        ),
    ],
    fix: Annotated[
        bool,
        typer.Option(
            "--fix", help="Apply certain suggestions to the files, and report what remains."
        ),
    ] = False,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Repeat the check whenever a file changes, until Ctrl-C."),
    ] = False,
    sites: SitesPath = None,
    site: SiteName = "",
    as_json: AsJson = False,
) -> None:
    """Read rule files and report every problem, with its position and a suggestion.

    The check covers names, units, types and the knowledge graph, and reports all problems of all
    files at once. Exit code 0: no errors or warnings; 1: at least one.

    With --fix, mistakes with a single possible correction are fixed in the files: typographic
    signs, decimal commas, `=` for `==`, misspelt keywords, names and units with one near match. A
    fix never increases the number of errors in a file.

    With --sites fedkg also checks the tables of all sites in a sites file, or of one with --site:
    every file, column, format and unit that the rules need. It lists one problem per site.

    \b
    Examples:
      fedkg check rules.fkg
      fedkg check rules.fkg plant.ttl
      fedkg check rules.fkg https://graphs.example.org/query
      fedkg check rules.fkg --fix
      fedkg check rules.fkg plant.ttl --watch
      fedkg check rules.fkg --sites sites.yaml
      fedkg check rules.fkg --json
    """
    from fedkg import authoring

    require_sites(sites, site)
    if watch:
        if sites is not None:
            raise UsageError(
                "--watch cannot be combined with --sites", help="leave out one of them"
            )
        if fix or as_json:
            raise UsageError(
                "--watch cannot be combined with --fix or --json",
                help="leave out --fix and --json: fedkg check rules.fkg --watch",
            )
        _watch([Path(rule) for rule in rules])
        return
    fixed_files = _apply_fixes([Path(rule) for rule in rules]) if fix else None
    result = authoring.check(rules)
    pack = result.pack
    checked = (
        check_sites(sites, site, pack.manifest.contract)
        if sites is not None and pack is not None
        else None
    )
    if as_json:
        fixed = (
            {"fixed": authoring.diagnostics_json(fixed_files.fixed)["diagnostics"]}
            if fixed_files
            else {}
        )
        found = {"sites": checked.to_json()} if checked is not None else {}
        print_json(fixed | authoring.diagnostics_json(result.diagnostics) | found)
    elif fixed_files is not None:
        _print_fixes(fixed_files)
    clean = _report(result, rules, quiet=as_json)
    if checked is not None and not as_json:
        checked.show()
    if sites is not None and checked is None and not as_json:
        print_note("the sites were not checked, because the rules have errors")
    if not clean or (checked is not None and checked.problems):
        raise typer.Exit(1)


def count_problems(severities: list[str]) -> str:
    """``2 errors, 1 warning``."""
    return ", ".join(
        count_noun(severities.count(kind), kind)
        for kind in ("error", "warning")
        if kind in severities
    )


def _report(result: Compilation, rules: Sequence[str | Path], *, quiet: bool = False) -> bool:
    """Print the problems; return whether the rules are clean."""
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
            f"{named}: clean, {count_noun(counts.rules, 'rule')}, "
            f"{count_noun(counts.rows, 'bound row')}{describe_other_contents(counts)}"
        )
    return not troubles


def _apply_fixes(rules: Sequence[Path]) -> FixedFiles:
    """Write the certain fixes to the files."""
    from fedkg import authoring
    from fedkg.cli.output_files import write_atomically

    fixed_files = authoring.apply_fixes(rules)
    for path, text in fixed_files.texts.items():
        if path.read_bytes() != fixed_files.before[path]:
            raise FedkgError(
                f"fedkg did not fix {path}, because the file changed during the command",
                help="run the command again",
            )
        write_atomically(path, text)
    return fixed_files


def _print_fixes(fixed_files: FixedFiles) -> None:
    for problem in fixed_files.fixed:
        print_line(
            f"fixed {problem.span.file}:{problem.span.line}:{problem.span.column}: "
            f"{_fix_text(problem)}"
        )


def _fix_text(problem: Diagnostic) -> str:
    """``[FKG006] `requre` -> `require```."""
    edits = problem.fix.edits if problem.fix else ()
    return f"[{problem.code}] {', '.join(_edit_text(edit.was, edit.text) for edit in edits)}"


def _edit_text(was: str, text: str) -> str:
    if was and text:
        return f"`{was}` -> `{text}`"
    what = (was or text).strip()
    return f"{f'`{what}`' if what else 'indentation'} {'removed' if was else 'inserted'}"


def _watch(rules: Sequence[Path]) -> None:
    """Check on every change until Ctrl-C."""
    from fedkg import authoring
    from fedkg.cli.file_watcher import ReadFiles, watch_files

    class _Nothing:
        """The inputs if a named file does not exist: only its path."""

        """Stands in for the inputs if a named file does not exist."""

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
