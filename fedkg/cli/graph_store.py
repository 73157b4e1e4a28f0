"""`fedkg graph`: manage graphs in a store on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedkg.cli.console import AsJson, count, print_json, print_line, print_note
from fedkg.errors import FedkgError

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
    """Show the content of a store: its files, their numbers of triples, and the checksum."""
    from fedkg import ontologies

    facts = ontologies.store_facts(store)
    if as_json:
        print_json(facts)
        return
    _print_store(facts)


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
        f"{facts['store']}: {count(facts['triples'], 'triple')} of "
        f"{count(len(facts['files']), 'file')}, checksum {facts['checksum']}"
    )
    for file in facts["files"]:
        print_line(f"  {file['name']}: {count(file['triples'], 'triple')}")
