"""`fedkg ontology learned`: write the findings of a run as an RDF graph."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.cli.console import AsJson, print_json, print_line
from fedkg.cli.output_files import check_output_path, write_atomically
from fedkg.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from fedkg.learned_knowledge_records import LearnedKnowledge


def write_learned(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="GRAPH", help="The .trig file to write.")
    ],
    graphs: Annotated[
        list[str] | None,
        typer.Option(
            "--graph",
            metavar="PLANT",
            help="A graph of the plant: findings refer to its nodes. May be repeated.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the findings of a run as RDF.

    Findings are mined properties, causes, and violation counts of rules, with their origin
    (PROV-O). Rule files read them with GRAPH; `fedkg suggest` derives candidate rules from them.
    With --graph the findings also name the nodes of the plant that clients and columns stand for.

    \b
    Examples:
      fedkg ontology learned runs/traffic-001 -o learned.trig
      fedkg ontology learned runs/causes --graph plant.ttl -o causes.trig
    """
    from fedkg import ontologies

    check_output_path(output, "learned.trig", inputs=graphs or [])
    if output.suffix.lower() != ".trig":
        raise UsageError(
            f"{output} does not end with .trig",
            help="fedkg writes findings as a named graph, which needs the format TriG: "
            f"-o {output.with_suffix('.trig')}",
        )
    if output.exists() and not force:
        raise UsageError(
            f"{output} already exists", help="choose another name, or add --force to overwrite it"
        )
    found = read_findings(run)
    write_atomically(output, ontologies.format_learned_graph(found, graphs or ()))
    if as_json:
        print_json({"graph": str(output), "learned": found.model_dump(mode="json")})
        return
    parts = (
        count_noun(len(found.properties), "mined formula"),
        count_noun(len(found.edges), "causal edge"),
    )
    window = f"; data from {found.window[0]} to {found.window[1]}" if found.window else ""
    print_line(
        f"{output}: {', '.join(parts)}, evidence about "
        f"{count_noun(len({one.rule for one in found.evidence}), 'rule')}{window}"
    )
    print_line(f"next: fedkg suggest {output}")


def read_findings(folder: Path) -> LearnedKnowledge:
    """The findings of a finished run.

    Raises:
        UsageError: the folder does not contain a finished run.
        MissingExtra: the dependencies for run folders are not installed.
    """
    if find_spec("yaml") is None:
        raise MissingExtra("reading run folders", "run")
    from fedkg.jobs.learned_knowledge_reader import read_learned

    return read_learned(folder)
