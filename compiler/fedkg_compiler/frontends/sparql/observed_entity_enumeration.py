"""Entities that a branch reads, as values of their variable: where nothing else names them for
certain, those that have a column.
"""

from __future__ import annotations

from collections.abc import Callable

from fedkg_compiler.frontends.sparql.branch_tree import Branch
from fedkg_compiler.frontends.sparql.observed_columns import Observations
from fedkg_compiler.graph.sparql_syntax.tree import Const, Part, Var
from fedkg_compiler.graph.sparql_syntax.variable_scope import Names, certain, in_scope


class NotTogether(Exception):
    """Queries that differ in some constants cannot be bound together: what the graph is asked
    depends on them. Raised and caught in this folder.
    """


def enumerated(
    branch: Branch,
    observations: Observations,
    iri: Callable[[Const], str],
    fixed: Names = frozenset(),
    among: Names | None = None,
) -> tuple[Part, ...]:
    """The static parts of a branch, with values for the entities that it reads.

    Joined with them, each of these entities has a value in every solution, so that what follows
    (OPTIONAL, MINUS, BIND, FILTER) finds it.

    Args:
        branch: the branch.
        observations: the observed properties and the entities that have them.
        iri: returns the IRI of a constant property.
        fixed: the variables that already have values.
        among: the only variables that get values; None for all.
    """
    static = branch.static
    for item in branch.observed:
        subject, name = item.subject, item.subject.name if isinstance(item.subject, Var) else ""
        if (
            not item.required
            or not isinstance(subject, Var)
            or name in certain(static) | branch.focus | fixed
        ):
            continue
        iris = observations.every() if isinstance(item.property, Var) else (iri(item.property),)
        if (among is not None and name not in among) or (
            len(iris) == 1 and observations.of_rows(iris[0])
        ):
            continue
        values = observations.among(subject, iris)
        static = (*static, values) if name in in_scope(static) else (values, *static)
    return static
