"""Validates the closed graph of a compilation: the components that depend on static facts alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rdflib.term import Node

from fedkg._internal.forked_worker import Crashed, run_apart
from fedkg_compiler.frontends.shacl.constraint_queries import Undecidable
from fedkg_compiler.frontends.shacl.shapes_graph_reader import (
    SH,
    Constraint,
    Data,
    Shape,
    ShapesFile,
    Step,
    StoredTerms,
    memory_graph,
)
from fedkg_compiler.frontends.shacl.validation_report import Result, sorted_results
from fedkg_compiler.frontends.shacl.validator import Validator
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.standard_vocabularies import FKG


def find_violations(
    shapes: ShapesFile,
    left_out: Iterable[tuple[Shape, Constraint]],
    focus_nodes: Mapping[Node, Sequence[Node]],
    store: ox.Store,
    prefixes: Mapping[str, str],
) -> Sequence[Result]:
    """The results of validation in the graph.

    Args:
        shapes: the shapes of one file. left_out: the components that are decided elsewhere.
        focus_nodes: the focus nodes of each targeted shape. store: the graph that is validated.
        prefixes: prefixes for queries that do not declare them, with their namespaces.

    Raises:
        Undecidable: the shapes cannot be evaluated.
        LimitError: the validation takes too long.
    """

    def validate() -> list[Result] | Undecidable:
        memory = ox.Store()  # the graph of the compilation may be in a store that is read-only
        memory.bulk_extend(iter(store))
        data = Data(memory_graph(memory, StoredTerms()))  # equal to those of `shapes`
        validator = Validator(shapes, data, memory, prefixes, left_out)
        try:
            return [
                result
                for shape, nodes in focus_nodes.items()
                for result in validator.results(shape, nodes)
            ]
        except Undecidable as error:
            return error

    try:
        found = run_apart(validate, "the validation of the shapes", name="seconds")
    except Crashed as error:
        raise Undecidable(str(error)) from error
    if isinstance(found, Undecidable):
        raise found
    return sorted_results([result for result in found if not _is_column(result)])


def _is_column(result: Result) -> bool:
    """Whether a closed shape rejects the column of a node, which is not a statement about it."""
    return (
        result.component == SH.ClosedConstraintComponent
        and isinstance(result.path, Step)
        and result.path.property.startswith(FKG)
    )
