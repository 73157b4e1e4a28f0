"""`fedkg validate`: validate a graph or a table against SHACL shapes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.cli.console import AsJson, print_line, print_note
from fedkg.cli.output_files import check_output_path, write_atomically
from fedkg.errors import FedkgError, UsageError

if TYPE_CHECKING:
    from fedkg_compiler.frontends.shacl.validation_report import Report

BAD_INPUT = 2
"""Exit code for data or shapes that cannot be read or evaluated."""

Form = Literal["text", "turtle", "json-ld", "n-triples", "json"]

SUFFIXES: dict[str, Form] = {
    ".ttl": "turtle",
    ".jsonld": "json-ld",
    ".nt": "n-triples",
    ".json": "json",
    ".txt": "text",
    "": "text",
}
"""Formats of a report by the suffix of its file."""


def validate(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="A graph (.ttl ..., a store, a URL), or a table (CSV ...)."
        ),
    ],
    shapes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SHAPES...",
            help="Files with shapes, and for a table the graphs or rule files that name its"
            " columns; default: the shapes in DATA.",
        ),
    ] = None,
    ontologies: Annotated[
        list[str] | None,
        typer.Option(
            "--ontology",
            metavar="FILE",
            help="A further graph that DATA and SHAPES refer to; can be repeated.",
        ),
    ] = None,
    form: Annotated[
        Form | None,
        typer.Option(
            "--format", help="Format of the report; default: by the suffix of -o, else text."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write the report to this file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Validate a graph or a table against SHACL shapes, and report every result.

    The report is a `sh:ValidationReport` in RDF, JSON, or text: for each result the focus node,
    path, value, severity, constraint component, shape and messages. Rules of the shapes
    (`sh:rule`) run before the validation. Focus nodes are nodes of DATA; SHAPES and --ontology add
    classes and facts.

    Exit code 0: DATA conforms; 1: there is a result, of whatever severity; 2: DATA or SHAPES cannot
    be read or evaluated, or there is no result but a constraint that fedkg cannot check.

    \b
    Examples:
      fedkg validate building.ttl shapes.ttl
      fedkg validate building.ttl shapes.ttl --ontology classes.ttl
      fedkg validate building.ttl shapes.ttl -o report.ttl
      fedkg validate building.ttl shapes.ttl --format json-ld
      fedkg validate history.csv shapes.ttl columns.ttl --json
    """
    from fedkg import authoring

    if as_json and form not in (None, "json"):
        raise UsageError("--json cannot be combined with --format", help="leave out one of them")
    if output is not None:
        check_output_path(output, "report.ttl", inputs=[data, *(shapes or []), *(ontologies or [])])
    suffix = "" if output is None else output.suffix.lower()
    chosen = "json" if as_json else form or SUFFIXES.get(suffix)
    if chosen is None:
        raise UsageError(
            f"no format of a report has the ending `{suffix}` of {output}",
            expected=f"{', '.join(filter(None, SUFFIXES))}, or no ending",
            help="rename the file, or choose the format: --format turtle",
        )
    try:
        report, diagnostics = authoring.validate(data, shapes or [], ontologies or [])
    except FedkgError as error:
        error.exit_code = BAD_INPUT
        raise
    if diagnostics and chosen != "json":
        print_note(authoring.render(diagnostics) + "\n")
    for note in report.notes if chosen != "json" else ():
        print_note(f"note: {note}")
    if chosen == "json":
        facts = report.to_json() | authoring.diagnostics_json(diagnostics)
        text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    elif chosen == "text":
        text = _text(report, data)
    else:
        text = report.serialized(chosen)
    if output is None:
        print_line(text.rstrip("\n"))
    else:
        write_atomically(output, text)
        print_line(_summary(report, data))
    if not report.conforms:
        raise typer.Exit(1 if report.results else BAD_INPUT)


def _text(report: Report, data: str) -> str:
    lines = [line for result in report.results for line in report.lines(result)]
    return "\n".join([*lines, *([""] if lines else []), _summary(report, data)]) + "\n"


def _summary(report: Report, data: str) -> str:
    """``plant.ttl does not conform: 2 violations, 1 warning; 4 focus nodes; 10 triples ...``."""
    severities = Counter(result.level for result in report.results)
    found = ", ".join(count_noun(number, name) for name, number in sorted(severities.items()))
    inferred = f"; rules added {count_noun(report.inferred, 'triple')}" if report.inferred else ""
    checked = count_noun(report.focus_nodes, "focus node")
    if report.unchecked:
        inferred += f"; {count_noun(report.unchecked, 'constraint')} not checked"
    if not report.results:
        none = " (no shape has a focus node)" if not report.focus_nodes else ""
        how = "conforms" if report.conforms else "was not fully checked"
        return f"{data} {how}: {checked}{none}{inferred}"
    return f"{data} does not conform: {found}; {checked}{inferred}"
