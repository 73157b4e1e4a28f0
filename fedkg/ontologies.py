"""Ontologies, graphs and learned knowledge for the command line; one of the modules that import the
compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkg._internal.name_matching import nearest_name
from fedkg.authoring import CompileError, needs_compiler, render, require_file, resolve_source
from fedkg.errors import FedkgError, UsageError

if TYPE_CHECKING:
    from fedkg.learned_knowledge_records import Candidate, LearnedKnowledge
    from fedkg_compiler.diagnostics.record import Diagnostic
    from fedkg_compiler.graph.alignment.ontology_alignment import Proposed
    from fedkg_compiler.graph.catalog_listing import EntryInfo
    from fedkg_compiler.graph.ontologies import Catalog
    from fedkg_compiler.graph.ontology_consequences import Reasoned
    from fedkg_compiler.graph.ontology_statistics import Report
    from fedkg_compiler.graph.term_description import About
    from fedkg_compiler.graph_listing_and_query import Answers, GraphInfo
    from fedkg_compiler.learned.candidates import Proposal


def reason(asked: Sequence[str], *, dl: bool, limit: float) -> tuple[Reasoned, list[Diagnostic]]:
    """Derive the consequences of files and ontologies of the catalogue, and collect their problems.

    With `dl`, the reasoner HermiT runs as well.
    """
    with needs_compiler("reasoning"):
        from fedkg_compiler.graph.ontology_consequences import reason as found

        return found(asked, dl=dl, limit=limit)


def load_catalog() -> Catalog:
    """Load the catalogue of ontologies, with the user's additions. Raises FedkgError if it cannot
    be read.
    """
    with needs_compiler("listing ontologies"):
        from fedkg_compiler.graph.ontologies import load_catalog

        return load_catalog()


def list_entries() -> list[EntryInfo]:
    """List every ontology of the catalogue by name. Raises FedkgError if the catalogue cannot be
    read.
    """
    with needs_compiler("listing ontologies"):
        from fedkg_compiler.graph.catalog_listing import list_entries

        return list_entries()


def entry_with_terms(name: str) -> tuple[EntryInfo, tuple[Diagnostic, ...]]:
    """Return an ontology of the catalogue with its terms, and the problems of its files.

    Raises UsageError for an unknown name.
    """
    with needs_compiler("listing terms"):
        from fedkg_compiler.graph.catalog_listing import show_entry

        return show_entry(name)


def add_ontology(
    name: str, source: str, sha256: str | None
) -> tuple[dict[str, str] | None, tuple[Diagnostic, ...]]:
    """Add an ontology to the user's local catalogue; return its record, or None with the reasons.

    Raises UsageError for a wrong name or checksum.
    """
    with needs_compiler("adding ontologies"):
        from fedkg_compiler.graph.user_ontology_catalog import add_entry

        added, diagnostics = add_entry(name, source, sha256)
        return (None if added is None else asdict(added)), diagnostics


def remove_ontology(name: str) -> dict[str, str]:
    """Remove an ontology from the user's local catalogue and return its record. Raises UsageError
    if the user never added it.
    """
    with needs_compiler("removing ontologies"):
        from fedkg_compiler.graph.user_ontology_catalog import remove_entry

        return asdict(remove_entry(name))


def load_store(
    folder: str | Path, files: Sequence[str | Path]
) -> tuple[dict[str, Any] | None, tuple[Diagnostic, ...]]:
    """Load graph files, or the content of endpoints, into a store on disk. `Any`: JSON.

    Return a summary, or None with the reasons.

    Raises:
        UsageError: a file does not exist, or the folder holds something else.
        FedkgError: the store is damaged.
    """
    with needs_compiler("loading graphs"):
        from fedkg_compiler.graph.stores.store_writing import load_files
        from fedkg_compiler.input_files import is_endpoint

        loaded, diagnostics = load_files(
            Path(folder), [file if is_endpoint(file) else require_file(file) for file in files]
        )
        if loaded is None:
            return None, diagnostics
        said = {
            "added": loaded.added,
            "replaced": loaded.replaced,
            "known": loaded.known,
            "recovered": loaded.recovered,
        }
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in said.items()
        } | store_facts(folder), diagnostics


def store_facts(folder: str | Path) -> dict[str, Any]:
    """Describe a store on disk. `Any`: JSON. Raises UsageError without a store, FedkgError if it is
    damaged.
    """
    with needs_compiler("reading a store"):
        from fedkg_compiler.graph.rdf_reader import file_graph
        from fedkg_compiler.graph.stores.folder import read_state
        from fedkg_compiler.graph.stores.problem import StoreProblem
        from fedkg_compiler.input_files import is_endpoint, is_store

        if not is_store(Path(folder)):
            raise UsageError(
                f"{folder} is not a store of graphs",
                help=f"create one: fedkg graph load {folder} FILES...",
            )
        try:
            state = read_state(Path(folder))
        except StoreProblem as problem:
            raise FedkgError(str(problem), help=problem.help) from problem
        files: dict[str, dict[str, Any]] = {
            part.path: {"name": part.name, "triples": 0, "sha256": part.read, "graphs": []}
            for part in state.parts
        }
        for part in state.parts:
            iri = part.graph or file_graph(part.path if is_endpoint(part.path) else part.name)
            files[part.path]["triples"] += part.triples
            files[part.path]["graphs"].append({"graph": iri, "triples": part.triples})
        return {
            "store": str(folder),
            "triples": state.triples,
            "checksum": state.content,
            "files": [*files.values()],
        }


def list_graphs(
    files: Sequence[str | Path], uses: Sequence[str]
) -> tuple[list[GraphInfo] | None, tuple[Diagnostic, ...]]:
    """List the named graphs of files, stores and endpoints, with what they entail.

    Return None with the reasons after an error. Raises UsageError if a file does not exist.
    """
    with needs_compiler("listing graphs"):
        from fedkg_compiler.graph_listing_and_query import list_graphs

        return list_graphs(_require_graphs(files), uses)


def query_graph(
    query: str, files: Sequence[str | Path], uses: Sequence[str]
) -> tuple[Answers | None, tuple[Diagnostic, ...]]:
    """Answer a SPARQL query on files, stores and endpoints, with what they entail.

    Return None with the reasons after an error.

    Raises:
        UsageError: a file does not exist, or the text is not a query.
        LimitError: the answer takes too much time or memory.
    """
    with needs_compiler("querying graphs"):
        from fedkg_compiler.graph_listing_and_query import query_graph

        return query_graph(query, _require_graphs(files), uses)


def _require_graphs(files: Sequence[str | Path]) -> list[str | Path]:
    """Return existing files and stores, and addresses. Raises UsageError."""
    from fedkg_compiler.input_files import is_endpoint, is_store

    return [
        file if is_endpoint(file) or is_store(Path(file)) else require_file(file) for file in files
    ]


def describe_term(text: str) -> tuple[tuple[About, ...], tuple[Diagnostic, ...]]:
    """Describe the terms that match a text, and return the problems of the ontologies' files.

    Raises UsageError if no ontology has a matching term.
    """
    with needs_compiler("looking up terms"):
        from fedkg_compiler.graph.term_description import describe_term

        return describe_term(text)


def count_statements(names: Sequence[str] = ()) -> tuple[Report, tuple[Diagnostic, ...]]:
    """Count the statements of these ontologies (default: all). Raises UsageError for an unknown
    name.
    """
    with needs_compiler("counting the statements of ontologies"):
        from fedkg_compiler.graph.ontology_statistics import report_figures

        known = load_catalog().names()
        for name in names:
            if name not in known:
                near = nearest_name(name, known)
                hint = f"did you mean `{near}`?" if near else "`fedkg ontology list` lists them"
                raise UsageError(f"there is no ontology `{name}`", help=hint)
        return report_figures(names)


def publication_files() -> dict[str, str]:
    """Return the documentation site of the modules: the content of each file by its path."""
    with needs_compiler("publishing ontologies"):
        from fedkg_compiler.graph.publication.pages import site_files

        return site_files()


def format_learned_graph(learned: LearnedKnowledge, graphs: Sequence[str | Path] = ()) -> str:
    """Format learned knowledge as a named graph in TriG, with its origin (PROV-O).

    Args:
        learned: the findings of a run.
        graphs: plant graphs; findings refer to the nodes of their clients and columns.

    Raises:
        CompileError: a graph cannot be read.
    """
    with needs_compiler("writing to the graph"):
        from fedkg_compiler.graph import load_graph
        from fedkg_compiler.learned.plant_nodes import plant_nodes
        from fedkg_compiler.learned.to_rdf import trig

        if not graphs:
            return trig(learned)
        graph, diagnostics, _ = load_graph([], {}, [resolve_source(str(one)) for one in graphs])
        if any(problem.severity == "error" for problem in diagnostics):
            raise CompileError(diagnostics, render(diagnostics))
        clients = [
            *(name for edge in learned.edges for name in (edge.driver, edge.driven)),
            *(found.client for found in learned.properties),
        ]
        return trig(learned, plant_nodes(graph, clients))


def load_findings(path: str | Path) -> tuple[LearnedKnowledge, ...]:
    """Read the learned knowledge of runs from a graph.

    Raises:
        CompileError: the file is not a graph, or has errors that could hide findings.
        FedkgError: a finding cannot be read.
    """
    with needs_compiler("reading findings"):
        from fedkg_compiler.graph.rdf_reader import read_file
        from fedkg_compiler.learned.from_rdf import read

        document, diagnostics = read_file(Path(path))
        if document is None or any(problem.severity == "error" for problem in diagnostics):
            raise CompileError(diagnostics, render(diagnostics))
        return read(document.triples, str(path))


def propose_rules(
    learned: Sequence[LearnedKnowledge],
    *,
    client: str = "",
    least: float = 0.0,
    level: float = 0.05,
) -> Proposal:
    """Propose rules from learned knowledge, for one client or, with "", for all.

    Args:
        least: smallest confidence of a property.
        level: largest p-value of an edge, corrected for the number of pairs.
    """
    with needs_compiler("proposing rules"):
        from fedkg_compiler.learned.candidates import proposed

        return proposed(learned, client=client, least=least, alpha=level)


def require_statement(text: str, kind: str, name: str) -> None:
    """Check that a text can replace the candidate `name`: one statement, a ``rule`` or a ``cause``.

    Raises UsageError otherwise.
    """
    with needs_compiler("reviewing suggestions"):
        from fedkg_compiler.learned.accepted_rule_file import require_statement

        require_statement(text, kind, name)


def format_accepted_rules(
    accepted: Sequence[tuple[Candidate, str, Sequence[tuple[str, str]]]],
) -> str:
    """A rule file with accepted candidates: each with its statement and its labelled evidence."""
    with needs_compiler("writing accepted suggestions"):
        from fedkg_compiler.learned.accepted_rule_file import format_accepted

        return format_accepted(accepted)


def align_ontologies(first: str, second: str, least: float) -> Proposed:
    """Propose mappings between two ontologies, given by name or file, for review. Raises UsageError
    for an unknown name.
    """
    with needs_compiler("comparing ontologies"):
        from fedkg_compiler.graph.alignment.ontology_alignment import align

        return align(first, second, least=least)


def format_mappings(proposed: Proposed, names: tuple[str, str]) -> str:
    """Format proposed mappings as RDF, in a vocabulary that asserts nothing."""
    with needs_compiler("writing proposals"):
        from fedkg_compiler.graph.alignment.proposals_turtle import turtle

        return turtle(proposed.proposals, names, proposed.prefixes)
