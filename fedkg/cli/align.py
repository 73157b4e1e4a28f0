"""`fedkg ontology align`: propose mappings between two ontologies for review."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.cli.console import AsJson, print_json, print_line, print_note, stdout_console
from fedkg.cli.output_files import check_output_path, write_atomically
from fedkg.errors import FedkgError, UsageError

if TYPE_CHECKING:
    from fedkg_compiler.graph.alignment.ontology_alignment import Proposed

Ontology = Annotated[
    str, typer.Argument(metavar="ONTOLOGY", help="A name of `fedkg ontology list`, or an RDF file.")
]


def align(
    first: Ontology,
    second: Ontology,
    least: Annotated[
        float, typer.Option("--min", min=0, max=1, help="Omit proposals with lower confidence.")
    ] = 0.5,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file to write: Turtle with proposals for review, or FILE.sssom.tsv with the "
            "mappings that follow from a rule.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Propose mappings between two ontologies, with a confidence and reasons for each.

    fedkg derives them from names, definitions and structure. Proposals are not asserted. In the
    file that `-o` writes, change "proposed" to "accepted" or "rejected"; loaded as a graph of
    rules, it asserts the accepted mappings only. Mappings that ship with fedkg are left out.

    The names of B2MML schemas are mapped to isa95 by rule. These mappings hold wherever both are
    loaded; `-o FILE.sssom.tsv` writes them.

    \b
    Examples:
      fedkg ontology align isa95 schema
      fedkg ontology align b2mml isa95 -o b2mml-isa95.sssom.tsv
      fedkg ontology align mason plant-terms.ttl --min 0.3 -o proposals.ttl
    """
    from fedkg import authoring, ontologies

    if output is not None:
        check_output_path(output, "proposals.ttl", inputs=[first, second])
        if output.exists() and not force:
            raise UsageError(
                f"{output} already exists",
                help="choose another name, or add --force to overwrite it",
            )
    proposed = ontologies.align_ontologies(first, second, least)
    errors = [problem for problem in proposed.problems if problem.severity == "error"]
    if proposed.problems and not as_json:
        print_note(authoring.render(proposed.problems))
    ruled = output is not None and output.name.endswith(".sssom.tsv")
    if ruled and not errors and not proposed.by_rule:
        raise UsageError(
            f"fedkg has no mapping rules between {first} and {second}, so the "
            ".sssom.tsv file would be empty",
            expected="a B2MML schema and isa95",
            help="to write proposals for review instead, choose a name that ends with .ttl",
        )
    if output is not None and not errors:
        text = proposed.by_rule if ruled else ontologies.format_mappings(proposed, (first, second))
        write_atomically(output, text)
    if as_json:
        shown = [
            {
                "source": item.source,
                "predicate": item.predicate,
                "target": item.target,
                "confidence": item.confidence,
                "reasons": list(item.reasons),
            }
            for item in proposed.proposals
        ]
        print_json(
            {"proposals": shown, "reviewed": proposed.reviewed}
            | authoring.diagnostics_json(proposed.problems)
        )
    elif not errors:
        _show(proposed, output)
    if errors:
        raise typer.Exit(FedkgError.exit_code)


def _show(proposed: Proposed, output: Path | None) -> None:
    from rich.table import Table
    from rich.text import Text

    if proposed.proposals:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for header in ("sure", "from", "predicate", "to", "because"):
            table.add_column(header, overflow="fold", no_wrap=header == "sure")
        for item in proposed.proposals:
            names = (
                _short(iri, proposed.prefixes) for iri in (item.source, item.predicate, item.target)
            )
            table.add_row(
                Text(f"{item.confidence:.2f}"),
                *(Text(name) for name in names),
                Text("; ".join(item.reasons)),
            )
        stdout_console().print(table)
    left_out = (
        f"; {count_noun(proposed.reviewed, 'mapping')} left out: reviewed, or by rule"
        if proposed.reviewed
        else ""
    )
    print_line(f"{count_noun(len(proposed.proposals), 'proposal')}{left_out}")
    if output is not None and output.name.endswith(".sssom.tsv"):
        print_line(f"{output}: the mappings that follow from a rule")
    elif output is not None:
        print_line(
            f'{output}: set "proposed" to "accepted" or "rejected", then load it as a '
            "graph of your rules"
        )


def _short(iri: str, prefixes: dict[str, str]) -> str:
    known = {**prefixes, "skos": "http://www.w3.org/2004/02/skos/core#"}
    fitting = [
        (len(space), f"{prefix}:{iri[len(space) :]}")
        for prefix, space in known.items()
        if iri.startswith(space)
    ]
    return max(fitting)[1] if fitting else f"<{iri}>"
