"""`fedkg eval`: evaluate rules on a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fedkg._internal.safe_text import list_first
from fedkg.cli.console import AsJson, print_json, print_line, print_note, stdout_console
from fedkg.cli.output_files import check_output_path, write_atomically
from fedkg.cli.site_options import SiteName, SitesPath, read_sites, require_sites
from fedkg.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fedkg.evaluation import Comparison, Evaluation
    from fedkg.evaluation.evaluate import Violations
    from fedkg.pack import Pack
    from fedkg.report.incident_cause_lookup import CandidateCauses
    from fedkg.tables import Table
    from fedkg_compiler.diagnostics.record import Diagnostic

OMISSION_CODES = ("FKG174", "FKG287", "FKG541", "FKG542")
"""Codes of compiler notes that part of the rules is not evaluated."""

MAX_SHOWN = 10
"""Number of notes shown."""


def evaluate(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="PACK|RULES... [TABLE]",
            help="A pack, or rule files, queries, shapes and graphs; then the table (or --sites).",
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
            "--allow", metavar="1%", help="Accepted increase of violations over the baseline."
        ),
    ] = "0%",
    skip_missing: Annotated[
        bool,
        typer.Option("--skip-missing", help="Skip rules that need missing columns, and list them."),
    ] = False,
    dates: Annotated[
        Literal["day-first", "month-first"] | None,
        typer.Option(
            "--dates",
            help=(
                "Order of day and month in dates such as 03/04/2024, if the column does not "
                "reveal it."
            ),
        ),
    ] = None,
    sites: SitesPath = None,
    site: SiteName = "",
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE.html",
            help="Also write an incident report: trends with limits, events and their causes.",
        ),
    ] = None,
    causes: Annotated[
        Path | None,
        typer.Option(
            "--causes",
            metavar="RUN",
            help="A run of a causal discovery; the report lists the candidate causes it found.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a table (CSV, Parquet or xlsx) under a pack or rule files.

    For each rule the result shows how often it was satisfied, violated or unknown, and its worst
    case with place, time and unit. Separators, decimal commas and encodings are detected and
    reported; empty cells, `Bad` and `No Data` count as unknown. Exit code 0, or with --baseline 1
    if a rule is violated more often than before (by more than --allow), unless the severity of its
    shape is only warning or info.

    With --sites the tables of all sites in a sites file, or of one with --site, are evaluated under
    the same rules; fedkg converts their headers, units, numbers and times.

    With --report fedkg writes an HTML page from the overview of all rules down to single rows. A
    graph, given or named by `use`, adds the neighbours of each machine.

    \b
    Examples:
      fedkg eval rules.fkg history.csv
      fedkg eval plant.fkgpack history.xlsx --json > today.json
      fedkg eval plant.fkgpack history.csv --baseline today.json --allow 1%
      fedkg eval shapes.ttl data.nt
      fedkg eval rules.fkg --sites sites.yaml
      fedkg eval rules.fkg --sites sites.yaml --site north --json
      fedkg eval rules.fkg plant.ttl history.csv --report incidents.html
    """
    from fedkg import authoring
    from fedkg.evaluation import compare, parse_allowance, read_baseline
    from fedkg.evaluation import evaluate as evaluate_table
    from fedkg.tables import read_table

    written = IncidentReport.of(report, causes, [*files, sites, baseline])
    if sites is not None or site:
        _evaluate_sites(
            files,
            written,
            sites,
            site,
            baseline=baseline,
            allow=allow,
            skip_missing=skip_missing,
            dates=dates,
            as_json=as_json,
        )
        return
    if len(files) < 2:
        raise UsageError(
            "a table is missing",
            expected="a pack or rule files, then a table",
            help="fedkg eval rules.fkg table.csv, or fedkg eval rules.fkg --sites sites.yaml",
        )
    *rules, data = named = authoring.parse_sources(files)
    if authoring.is_rdf_data(rules, data):
        _evaluate_rdf(rules, Path(data), written, as_json)
        return
    if authoring.is_authored(data) or _is_pack(data):
        tables = [path for path in rules if not authoring.is_authored(path) and not _is_pack(path)]
        right = [path for path in named if path not in tables] + tables
        raise UsageError(
            f"the last argument must be a table, and {data} is not a table",
            expected="a pack or rule files, then a table",
            help=f"fedkg eval {' '.join(map(str, right))}" + ("" if tables else " table.csv"),
        )
    allowance = parse_allowance(allow)
    if allowance and baseline is None:
        raise UsageError(
            "--allow requires --baseline", help="add the earlier result: --baseline monday.json"
        )
    before = read_baseline(baseline) if baseline else None
    pack, diagnostics = authoring.load_or_compile(rules)
    _print_notes(diagnostics)
    require_table(Path(data), "a CSV, TSV, Parquet or xlsx file")
    table = read_table(Path(data), dates=dates)
    result = evaluate_table(pack, table, missing="skip" if skip_missing else "error")
    comparison = compare(result, before, allowance) if before is not None else None
    written.write(pack, [("", table)], [result], rules, diagnostics)
    if as_json:
        facts = result.to_json() | authoring.diagnostics_json(diagnostics)
        print_json(facts | ({"baseline": comparison.to_json()} if comparison else {}))
    else:
        _show(result, comparison)
    if comparison is not None and comparison.worse:
        raise typer.Exit(comparison.exit_code)


@dataclass(frozen=True, slots=True)
class IncidentReport:
    """The file of `--report`, or None, and the run of `--causes`."""

    path: Path | None
    causes: CandidateCauses | None

    @classmethod
    def of(
        cls, path: Path | None, causes: Path | None, inputs: Sequence[str | Path | None]
    ) -> IncidentReport:
        """Check the options before anything is evaluated. Raises UsageError, JobError."""
        if path is None and causes is not None:
            raise UsageError("--causes requires --report", help="add --report incidents.html")
        if path is not None:
            check_output_path(path, "incidents.html", option="--report", inputs=[*inputs, causes])
        if causes is None:
            return cls(path, None)
        from fedkg.report.incident_cause_lookup import read_causes

        return cls(path, read_causes(causes))

    def write(
        self,
        pack: Pack,
        tables: Sequence[tuple[str, Table]],
        results: Sequence[Evaluation],
        rules: Sequence[str | Path],
        diagnostics: Sequence[Diagnostic],
    ) -> None:
        """Write the page, if it was asked for. Raises MissingExtra, UsageError."""
        if self.path is None:
            return
        from fedkg.evaluation.incidents import find_incidents

        self.write_found(find_incidents(pack, tables, results), rules, diagnostics)

    def write_found(
        self, found: dict[str, Any], rules: Sequence[str | Path], diagnostics: Sequence[Diagnostic]
    ) -> None:
        """Write the page of incidents. `Any`: JSON. Raises MissingExtra, UsageError."""
        from fedkg.evaluation.incidents import named_in_events
        from fedkg.graphs import find_neighbours
        from fedkg.report.incident_page import incident_page

        assert self.path is not None
        names = named_in_events(found)
        text = incident_page(
            found,
            neighbours=find_neighbours(rules, names),
            causes=self.causes,
            notes=_omissions(diagnostics),
        )
        write_atomically(self.path, text)
        print_note(f"report: {self.path}")


def _evaluate_sites(
    files: Sequence[str],
    written: IncidentReport,
    sites: Path | None,
    site: str,
    *,
    baseline: Path | None,
    allow: str,
    skip_missing: bool,
    dates: str | None,
    as_json: bool,
) -> None:
    """Evaluate the tables of sites. Nothing is printed before all of them are evaluated."""
    from fedkg import authoring
    from fedkg.evaluation import compare, parse_allowance, read_baseline
    from fedkg.evaluation import evaluate as evaluate_table

    require_sites(sites, site)
    rules = authoring.parse_sources(files)
    tables = [path for path in rules if not authoring.is_authored(path) and not _is_pack(path)]
    if tables:
        raise UsageError(
            f"--sites names the tables; the table {tables[0]} cannot be given as well",
            help="leave out the table, or --sites",
        )
    if dates is not None:
        raise UsageError(
            "--dates cannot be combined with --sites",
            help="leave out --dates, and state the format of the time column in the "
            "sites file: datatype: {base: datetime, format: dd/MM/yyyy HH:mm}",
        )
    allowance = parse_allowance(allow)
    if allowance and baseline is None:
        raise UsageError(
            "--allow requires --baseline", help="add the earlier result: --baseline monday.json"
        )
    if baseline is not None and not site:
        raise UsageError(
            "--baseline compares one table, and --sites evaluates the tables of several sites",
            help="choose one site: --site NAME",
        )
    before = read_baseline(baseline) if baseline else None
    pack, diagnostics = authoring.load_or_compile(rules)
    _print_notes(diagnostics)
    missing: Literal["skip", "error"] = "skip" if skip_missing else "error"
    site_tables = [
        (read.site, read.table) for read in read_sites(sites, site, pack.manifest.contract)
    ]
    results = {
        name: with_file_rows(evaluate_table(pack, table, missing=missing), table)
        for name, table in site_tables
    }
    written.write(pack, site_tables, list(results.values()), rules, diagnostics)
    if site:
        result = results[site]
        comparison = compare(result, before, allowance) if before is not None else None
        if as_json:
            facts = {"site": site} | result.to_json() | authoring.diagnostics_json(diagnostics)
            print_json(facts | ({"baseline": comparison.to_json()} if comparison else {}))
        else:
            _show(result, comparison)
        if comparison is not None and comparison.worse:
            raise typer.Exit(comparison.exit_code)
        return
    if as_json:
        shown = {name: result.to_json() for name, result in results.items()}
        print_json({"sites": shown} | authoring.diagnostics_json(diagnostics))
        return
    for name, result in results.items():
        print_line(f"site {name}")
        _show(result, None)
        print_line("")


def require_table(path: Path, kinds: str) -> None:
    """Raise UsageError if a table does not exist or is a folder.

    Args:
        kinds: the kinds of files that the command reads, for the message.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder, not a table", expected=kinds)
    if not path.is_file():
        raise UsageError(
            f"table {path} does not exist",
            expected=kinds,
            help="paths are relative to the current folder",
        )


def with_file_rows(result: Evaluation, table: Table) -> Evaluation:
    """The result with rows of the file in its worst cases; of several files unchanged."""
    if not table.lines.size or table.parts[1:]:
        return result

    def row(number: int) -> int:
        return int(table.lines[number - 1])

    rules = tuple(
        rule
        if rule.worst is None
        else replace(
            rule,
            worst=replace(
                rule.worst,
                row=row(rule.worst.row),
                fault=None if rule.worst.fault is None else row(rule.worst.fault),
            ),
        )
        for rule in result.rules
    )
    return replace(result, rules=rules)


def _is_pack(path: str | Path) -> bool:
    return Path(path).suffix.lower() == ".fkgpack"


def _print_notes(diagnostics: Sequence[Diagnostic]) -> None:
    """Print the compiler's warnings, and one line per omission, to stderr."""
    from fedkg import authoring

    doubts = [d for d in diagnostics if d.severity == "warning"]
    if doubts:
        print_note(authoring.render(doubts) + "\n")
    left_out = _omissions(diagnostics)
    for message in left_out[:MAX_SHOWN]:
        print_note(f"note: {message}")
    if len(left_out) > MAX_SHOWN:
        print_note(
            f"note: {len(left_out) - MAX_SHOWN:,} more notes about omissions: `fedkg "
            "check` lists them"
        )


def _omissions(diagnostics: Sequence[Diagnostic]) -> list[str]:
    """The notes that part of the rules is not evaluated."""
    return list(
        dict.fromkeys(
            d.message for d in diagnostics if d.severity == "info" and d.code in OMISSION_CODES
        )
    )


def _evaluate_rdf(
    rules: Sequence[str | Path], data: Path, written: IncidentReport, as_json: bool
) -> None:
    """Evaluate shapes on an RDF file: the members of each target class are the rows."""
    from fedkg import authoring
    from fedkg.evaluation import evaluate as evaluate_table
    from fedkg.evaluation.evaluate import violations
    from fedkg.evaluation.incidents import find_incidents, join_incidents

    parts, diagnostics = authoring.compile_for_rdf(rules, data)
    _print_notes(diagnostics)
    documents, found = [], []
    for kind, pack, table in parts:
        result = _with_subjects(evaluate_table(pack, table), table)
        if written.path is not None:
            found.append(find_incidents(pack, [("", table)], [result]))
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
    if written.path is not None:
        written.write_found(join_incidents(found), [*rules, data], diagnostics)
    if as_json:
        print_json({"evaluations": documents} | authoring.diagnostics_json(diagnostics))
    if not any(pack.manifest.rules for _, pack, _ in parts):
        print_note(
            f"nothing was evaluated: {data.name} has no focus node with a supported constraint"
        )


def _with_subjects(result: Evaluation, table: Table) -> Evaluation:
    """Use the subjects of rows as entities of the worst cases."""
    subjects = table.texts(table.subject)
    rules = tuple(
        rule
        if rule.worst is None or rule.worst.entity
        else replace(rule, worst=replace(rule.worst, entity=subjects[rule.worst.row - 1]))
        for rule in result.rules
    )
    return replace(result, rules=rules)


def _violation_lines(broken: Violations, pack: Pack, table: Table) -> Iterator[str]:
    """For each rule the subjects that violate it, at most `MAX_SHOWN` by name."""
    subjects = table.texts(table.subject)
    for i, rule in enumerate(pack.manifest.rules):
        rows = list(dict.fromkeys(broken.row[broken.rule == i].tolist()))
        if rows:
            named = list_first([subjects[row] for row in rows], MAX_SHOWN)
            yield f"{rule.name} is violated by {named}"


def _show(result: Evaluation, comparison: Comparison | None) -> None:
    from rich.text import Text

    from fedkg.evaluation.result import comparison_lines, outcome, rules_table

    console = stdout_console()
    if result.rules:
        console.print(rules_table(result))
    for line in outcome(result):
        console.print(Text(line))
    for line in comparison_lines(comparison) if comparison else ():
        console.print(Text(line))
