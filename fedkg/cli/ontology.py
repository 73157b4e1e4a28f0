"""`fedkg ontology`: manage the ontologies that rules use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkg.cli.align import align
from fedkg.cli.console import AsJson, print_json, print_line, print_note, stdout_console
from fedkg.cli.learned_graph import write_learned
from fedkg.cli.ontology_reasoning import reason
from fedkg.cli.ontology_show_and_report import report, show_term
from fedkg.cli.publish_ontologies import publish
from fedkg.errors import FedkgError

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name after `use` in a rule file.")]

_SHOWN = (
    "name",
    "title",
    "version",
    "iri",
    "prefix",
    "namespace",
    "official_source",
    "official_sha256",
    "licence",
    "loaded_from",
)
"""Fields that `show` prints before the terms."""

app = typer.Typer(no_args_is_help=True)
app.command("align")(align)
app.command("learned")(write_learned)
app.command("report")(report)
app.command("reason")(reason)
app.command("publish")(publish)


@app.command("list")
def list_entries(as_json: AsJson = False) -> None:
    """List the ontologies that rule files can `use`."""
    from fedkg import ontologies

    entries = ontologies.list_entries()
    if as_json:
        print_json({"ontologies": [entry.model_dump(exclude={"terms"}) for entry in entries]})
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in ("name", "title", "prefix", "in use"):
        table.add_column(header, overflow="fold")
    for entry in entries:
        table.add_row(
            *(Text(text) for text in (entry.name, entry.title, entry.prefix, entry.loaded_from))
        )
    stdout_console().print(table)


@app.command("show")
def show_entry(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|TERM",
            help="An ontology, or a term: its prefixed name, local name, IRI or label.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Show an ontology with its terms, or a term with its kind, parents, children and mappings.

    \b
    Examples:
      fedkg ontology show mason
      fedkg ontology show mason:Lathe
      fedkg ontology show "work unit"
    """
    from fedkg import authoring, ontologies

    if name not in ontologies.load_catalog().names():
        show_term(name, as_json=as_json)
        return
    entry, diagnostics = ontologies.entry_with_terms(name)
    if as_json:
        print_json(entry.model_dump() | authoring.diagnostics_json(diagnostics))
        return
    if diagnostics:
        print_note(authoring.render(diagnostics))
    kinds: dict[str, list[str]] = {}
    for term in entry.terms:
        kinds.setdefault(term.kind, []).append(term.name)
    facts = {key: getattr(entry, key) for key in _SHOWN}
    facts |= {
        kind: f"{len(names):,}: {', '.join(sorted(names))}" for kind, names in sorted(kinds.items())
    }
    width = max(len(key) for key in facts)
    print_line(
        "\n".join(
            f"{key.replace('_', ' '):<{width}}  {value}" for key, value in facts.items() if value
        )
    )


@app.command("add")
def add_entry(
    name: Name,
    source: Annotated[
        str,
        typer.Argument(
            metavar="PATH-OR-URL",
            help=(
                "The ontology: a file, a folder of XML schemas, or an http(s) address, "
                "which is then fetched."
            ),
        ),
    ],
    sha256: Annotated[
        str | None, typer.Option("--sha256", help="The checksum the file must have.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Load an official file or your own ontology, which replaces or extends the bundled modules.

    \b
    Examples:
      fedkg ontology add mason ~/Downloads/mason.owl
      fedkg ontology add ourplant plant-terms.ttl
      fedkg ontology add b2mml ~/Downloads/B2MML/Schema
    """
    from fedkg import authoring, ontologies

    added, diagnostics = ontologies.add_ontology(name, source, sha256)
    if as_json:
        print_json({"added": added} | authoring.diagnostics_json(diagnostics))
    elif diagnostics:
        print_note(authoring.render(diagnostics))
    if added is None:
        if not as_json:
            print_note(f"{name}: not added")
        raise typer.Exit(FedkgError.exit_code)
    if not as_json:
        print_line(
            f"{name}: added, sha256 {added['sha256']}\nuse it in rule files with `use "
            f"{name}` and the prefix `{added['prefix']}:`"
        )


@app.command("remove")
def remove_entry(name: Name, as_json: AsJson = False) -> None:
    """Remove an added file; the bundled module, if there is one, takes effect again."""
    from fedkg import ontologies

    removed = ontologies.remove_ontology(name)
    if as_json:
        print_json({"removed": removed})
    else:
        print_line(f"{name}: removed ({Path(removed['source']).name})")
