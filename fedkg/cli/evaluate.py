"""`fedkg eval`: what the rules say about a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedkg.cli.console import AsJson, print_json, print_note, stdout_console
from fedkg.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fedkg.evaluation import Comparison, Evaluation
    from fedkg.evaluation.violations import Violations
    from fedkg.pack import Pack
    from fedkg.tables import Table
    from fedkg_compiler.diagnostics.record import Diagnostic

OMISSION_CODES = ("FKG174", "FKG287", "FKG541", "FKG542")
"""Notes of the compiler that something of the rules is not evaluated."""

MAX_SHOWN = 10
"""So many of them are shown."""


def evaluate(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="PACK|RULES... TABLE",
            help="A pack, or rule files, queries, shapes and graphs; the table last.",
        ),
    ],
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline", metavar="OLD.json", help="An earlier result (--json) to compare with."
        ),
    ] = None,
    allow: Annotated[
        str,
        typer.Option(
            "--allow", metavar="1%", help="How much worse than the baseline a rule may be."
        ),
    ] = "0%",
    skip_missing: Annotated[
        bool,
        typer.Option(
            "--skip-missing", help="Leave out rules whose columns the table lacks, and say so."
        ),
    ] = False,
    dates: Annotated[
        Literal["day-first", "month-first"] | None,
        typer.Option(
            "--dates",
            help="How dates such as 03/04/2024 are meant, where no date of the column tells.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a table (CSV, Parquet or xlsx) under a pack, or straight under rule files.

    For each rule: how often it was satisfied, violated or unknown, and its worst case with place, time and unit.
    Separators, decimal commas and encodings are found out and said; empty cells, `Bad` and `No Data` count as unknown.
    Ends with 0; with --baseline it ends with 1 when a rule is violated more often than before (by more than --allow), unless the shape it
    comes from makes that a mere warning or info.

    \b
    Examples:
      fedkg eval rules.fkg history.csv
      fedkg eval plant.fkgpack history.xlsx --json > today.json
      fedkg eval plant.fkgpack history.csv --baseline today.json --allow 1%
      fedkg eval shapes.ttl data.nt
    """
    from fedkg import authoring
    from fedkg.evaluation import compare, parse_allowance, read_baseline
    from fedkg.evaluation import evaluate as evaluate_table
    from fedkg.tables import read_table

    if len(files) < 2:
        raise UsageError(
            "a table is missing",
            expected="a pack or rule files, and a table last",
            help="fedkg eval rules.fkg table.csv",
        )
    *rules, data = named = authoring.parse_sources(files)
    if authoring.is_rdf_data(rules, data):
        _evaluate_rdf(rules, Path(data), as_json)
        return
    if authoring.is_authored(data) or _is_pack(data):
        tables = [path for path in rules if not authoring.is_authored(path) and not _is_pack(path)]
        right = [path for path in named if path not in tables] + tables
        raise UsageError(
            f"the table comes last, but {data} is no table",
            expected="a pack or rule files, and a table last",
            help=f"fedkg eval {' '.join(map(str, right))}" + ("" if tables else " table.csv"),
        )
    allowance = parse_allowance(allow)
    if allowance and baseline is None:
        raise UsageError(
            "--allow: there is no earlier result to compare with",
            help="name it: --baseline monday.json",
        )
    before = read_baseline(baseline) if baseline else None
    pack, diagnostics = authoring.load_or_compile(rules)
    _print_notes(diagnostics)
    if not Path(data).is_file():
        raise UsageError(
            f"there is no table {data}",
            help="a CSV, TSV, Parquet or xlsx file; a path is looked for in the folder you stand in",
        )
    result = evaluate_table(
        pack, read_table(Path(data), dates=dates), missing="skip" if skip_missing else "error"
    )
    comparison = compare(result, before, allowance) if before is not None else None
    if as_json:
        facts = result.to_json() | authoring.diagnostics_json(diagnostics)
        print_json(facts | ({"baseline": comparison.to_json()} if comparison else {}))
    else:
        _show(result, comparison)
    if comparison is not None and comparison.worse:
        raise typer.Exit(comparison.exit_code)


def _is_pack(path: str | Path) -> bool:
    return Path(path).suffix.lower() == ".fkgpack"


def _print_notes(diagnostics: Sequence[Diagnostic]) -> None:
    """On stderr: the compiler's warnings, and in a line each what it left out of the rules."""
    from fedkg import authoring

    doubts = [d for d in diagnostics if d.severity == "warning"]
    if doubts:
        print_note(authoring.render(doubts) + "\n")
    left_out = list(
        dict.fromkeys(
            d.message for d in diagnostics if d.severity == "info" and d.code in OMISSION_CODES
        )
    )
    for message in left_out[:MAX_SHOWN]:
        print_note(f"note: {message}")
    if len(left_out) > MAX_SHOWN:
        print_note(
            f"note: {len(left_out) - MAX_SHOWN:,} more notes on what is left out: `fedkg check` lists them"
        )


def _evaluate_rdf(rules: Sequence[str | Path], data: Path, as_json: bool) -> None:
    """Shapes over an RDF file: the members of each class that they target are the rows."""
    from fedkg import authoring
    from fedkg.evaluation import evaluate as evaluate_table
    from fedkg.evaluation.violations import violations

    parts, diagnostics = authoring.compile_for_rdf(rules, data)
    _print_notes(diagnostics)
    documents = []
    for kind, pack, table in parts:
        result = _with_subjects(evaluate_table(pack, table), table)
        broken = violations(pack, table)
        if as_json:
            documents.append(
                {
                    "class": kind,
                    "violations": len(broken),
                    **result.to_json(),
                    "results": broken.to_json(pack, table),
                }
            )
        else:
            _show(result, None)
            for line in _violation_lines(broken, pack, table):
                stdout_console().print(line, markup=False, highlight=False)
    if as_json:
        print_json({"evaluations": documents} | authoring.diagnostics_json(diagnostics))
    if not any(pack.manifest.rules for _, pack, _ in parts):
        print_note(
            f"nothing was judged: no shape has a focus node and a constraint that can be checked in {data.name}"
        )


def _with_subjects(result: Evaluation, table: Table) -> Evaluation:
    """The worst cases with the subjects of their rows as entities."""
    subjects = table.texts(table.subject)
    rules = tuple(
        rule
        if rule.worst is None or rule.worst.entity
        else replace(rule, worst=replace(rule.worst, entity=subjects[rule.worst.row - 1]))
        for rule in result.rules
    )
    return replace(result, rules=rules)


def _violation_lines(broken: Violations, pack: Pack, table: Table) -> Iterator[str]:
    """For each rule the subjects that violate it, the first of them by name."""
    subjects = table.texts(table.subject)
    for i, rule in enumerate(pack.manifest.rules):
        rows = list(dict.fromkeys(broken.row[broken.rule == i].tolist()))
        if rows:
            more = f" and {len(rows) - MAX_SHOWN:,} more" if len(rows) > MAX_SHOWN else ""
            yield f"{rule.name} is violated by {', '.join(subjects[row] for row in rows[:MAX_SHOWN])}{more}"


def _show(result: Evaluation, comparison: Comparison | None) -> None:
    from rich.text import Text

    from fedkg.evaluation.present import comparison_lines, outcome, rules_table

    console = stdout_console()
    if result.rules:
        console.print(rules_table(result))
    for line in outcome(result):
        console.print(Text(line))
    for line in comparison_lines(comparison) if comparison else ():
        console.print(Text(line))
