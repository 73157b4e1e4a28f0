"""`fedkg graph`: manage graphs in a store on disk, list named graphs and query them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.authoring import require_file
from fedkg.cli.console import AsJson, print_json, print_line, print_note
from fedkg.errors import FedkgError
from fedkg.limits import read_file

if TYPE_CHECKING:
    from fedkg_compiler.diagnostics.record import Diagnostic

Graphs = Annotated[
    list[str],
    typer.Argument(metavar="GRAPHS...", help="Graph files, stores, or addresses of endpoints."),
]
Uses = Annotated[
    list[str] | None,
    typer.Option("--use", metavar="NAME", help="Also load an ontology; can be repeated."),
]
Store = Annotated[Path, typer.Argument(metavar="STORE", help="The folder of the store.")]

app = typer.Typer(no_args_is_help=True)


@app.command("load")
def load(
    store: Store,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES...", help="Graph files (.ttl ...), or addresses of SPARQL endpoints."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Load graphs into a store on disk; rules then compile with the store instead of the files.

    The command creates the store if necessary. Loading a file again replaces its previous content.
    Either all files are loaded or, if one has an error or the process is killed, none. The first
    compilation computes the inferences and keeps them in the store.

    \b
    Examples:
      fedkg graph load plant.store plant.ttl lines.nt
      fedkg compile rules.fkg plant.store -o plant.fkgpack
    """
    from fedkg import authoring, ontologies

    facts, diagnostics = ontologies.load_store(store, files)
    if as_json:
        print_json({"loaded": facts} | authoring.diagnostics_json(diagnostics))
    elif diagnostics:
        print_note(authoring.render(diagnostics))
    if facts is None:
        raise typer.Exit(FedkgError.exit_code)
    if not as_json:
        _print_loaded(facts)


@app.command("show")
def show(store: Store, as_json: AsJson = False) -> None:
    """Show the content of a store: its files, their named graphs, and the checksum."""
    from fedkg import ontologies

    facts = ontologies.store_facts(store)
    if as_json:
        print_json(facts)
        return
    _print_store(facts)


@app.command("list")
def list_graphs(files: Graphs, use: Uses = None, as_json: AsJson = False) -> None:
    """List the named graphs that GRAPH addresses in rules and queries: data, inferences, findings,
    ontologies and vocabularies.

    \b
    Example:
      fedkg graph list plant.ttl --use mason
    """
    from fedkg import ontologies

    found, diagnostics = ontologies.list_graphs(files, use or [])
    if found is None:
        raise _failed(diagnostics, as_json=as_json)
    if as_json:
        print_json({"graphs": [asdict(one) for one in found]})
        return
    _print_diagnostics(diagnostics)
    for one in found:
        source = f"  from {', '.join(one.sources)}" if one.sources else ""
        print_line(f"{one.kind:<10} {one.iri}  {count_noun(one.triples, 'triple')}{source}")


@app.command("query")
def query(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="A SPARQL query, or a file with one (.rq).")
    ],
    files: Graphs,
    use: Uses = None,
    as_json: AsJson = False,
) -> None:
    """Answer a SPARQL query on graphs and what they entail.

    The query sees what rules see: the data and its inferences. GRAPH addresses other statements.
    The prefixes of the files are known. SELECT prints a table, ASK true or false, CONSTRUCT and
    DESCRIBE N-Triples. The answer does not change the exit code.

    \b
    Examples:
      fedkg graph query 'SELECT ?m WHERE { ?m a plant:Mill }' plant.ttl
      fedkg graph query 'SELECT ?g WHERE { GRAPH ?g { plant:M1 ?p ?o } }' plant.ttl
      fedkg graph query 'ASK { plant:M1 a plant:Mill }' plant.ttl
      fedkg graph query 'DESCRIBE plant:M1' plant.ttl
    """
    from fedkg import ontologies

    if Path(query).suffix.lower() in (".rq", ".sparql"):
        query = read_file(require_file(query), name="rules").decode("utf-8-sig")
    found, diagnostics = ontologies.query_graph(query, files, use or [])
    if found is None:
        raise _failed(diagnostics, as_json=as_json)
    if as_json:
        facts: dict[str, Any] = {"variables": found.variables, "rows": found.rows}
        if found.form != "select":
            facts = {"boolean": found.holds} if found.form == "ask" else {"triples": found.rows}
        print_json(facts)
        return
    _print_diagnostics(diagnostics)
    if found.form == "ask":
        print_line("true" if found.holds else "false")
        return
    if found.form == "triples":
        for row in found.rows:
            print_line(" ".join(cell or "" for cell in row) + " .")
        return
    print_line("\t".join(f"?{name}" for name in found.variables))
    for row in found.rows:
        print_line("\t".join(cell or "" for cell in row))


def _failed(diagnostics: Sequence[Diagnostic], *, as_json: bool) -> typer.Exit:
    """Report errors of the graphs; return the exception that ends the command."""
    from fedkg import authoring

    if as_json:
        print_json(authoring.diagnostics_json(diagnostics))
    else:
        _print_diagnostics(diagnostics)
    return typer.Exit(FedkgError.exit_code)


def _print_diagnostics(diagnostics: Sequence[Diagnostic]) -> None:
    """Print diagnostics, if there are any."""
    from fedkg import authoring

    if diagnostics:
        print_note(authoring.render(diagnostics))


def _print_loaded(facts: dict[str, Any]) -> None:
    """`Any`: JSON."""
    if facts["recovered"]:
        print_line("an earlier load was interrupted; fedkg removed its incomplete data")
    for key, words in (
        ("added", "added"),
        ("replaced", "replaced"),
        ("known", "already in the store"),
    ):
        for name in facts[key]:
            print_line(f"{name}: {words}")
    _print_store(facts)


def _print_store(facts: dict[str, Any]) -> None:
    """`Any`: JSON."""
    print_line(
        f"{facts['store']}: {count_noun(facts['triples'], 'triple')} of "
        f"{count_noun(len(facts['files']), 'file')}, checksum {facts['checksum']}"
    )
    for file in facts["files"]:
        print_line(f"  {file['name']}: {count_noun(file['triples'], 'triple')}")
        for graph in file["graphs"] if len(file["graphs"]) > 1 else ():
            print_line(f"    {graph['graph']}: {count_noun(graph['triples'], 'triple')}")
