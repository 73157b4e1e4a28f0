"""One query with pre-bound variables, such as ``$this`` (W3C SHACL 2017, section 5.3.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from fedkg.pack import RuleRecord
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.column_assignment_triples import TermTriple
from fedkg_compiler.frontends.fkg.binding.scope import Sources
from fedkg_compiler.frontends.sparql.answer_frames import Answer, Batch
from fedkg_compiler.frontends.sparql.branch_constraint_rows import RowMaker, solutions
from fedkg_compiler.frontends.sparql.graph_table_split import Splitter
from fedkg_compiler.frontends.sparql.observed_columns import Observations
from fedkg_compiler.frontends.sparql.query_tree_builder import read_tree
from fedkg_compiler.frontends.sparql.slot_lowering import plain_text
from fedkg_compiler.frontends.sparql.solution_triples import facts_of_query
from fedkg_compiler.graph.graph import Resource
from fedkg_compiler.graph.rdf_terms import Iri, Literal
from fedkg_compiler.graph.sparql_syntax.query_form_and_constants import Reader
from fedkg_compiler.graph.sparql_syntax.query_text import QueryText
from fedkg_compiler.graph.sparql_syntax.tree import (
    Const,
    Exists,
    Group,
    Node,
    Optional,
    Part,
    Place,
    Query,
    Triple,
    Values,
    Var,
    walk,
)
from fedkg_compiler.graph.sparql_syntax.variable_scope import variables
from fedkg_compiler.graph.standard_vocabularies import RDF
from fedkg_compiler.ir import BoundRows

ROW = "row"
"""Represents the table row among the values of a variable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundQuery:
    """What a query comes to for the values it was given.

    Attributes:
        rows: bound constraints, each entity the name of the value of the first variable ("" for the
            table row).
        violations: values of the first variable (None for the table row) for which the graph alone
            has a solution, each once.
        reads: whether it reads the table at all.
    """

    rows: tuple[BoundRows, ...]
    violations: tuple[Answer, ...]
    reads: bool


def bind_query(
    text: str,
    where: Span,
    sources: Sources,
    *,
    bound: Mapping[str, Sequence[str]],
    record: RuleRecord,
    prefixes: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
) -> BoundQuery:
    """Bind the text of one SELECT or ASK query with pre-bound variables, as in ``sh:sparql``.

    Each solution is a violation, as of a query file; rows, violations and diagnostics are those of
    `bind_queries`.

    Args:
        text: the query, with ``$this`` or ``?this``; its prefixes come first, then `prefixes`
            (without colon: IRI), before those of rule files.
        where: the place for its diagnostics.
        bound: for each variable (without its mark) its values as SPARQL writes them, ``<iri>``, a
            text in quotes or ``5``; ``[ROW]``
            for the table row, which needs ``rows are CLASS``. The first variable is what rows and
            violations are about. A variable that
            has several values takes each of them in turn. Blank nodes have no name in a query, and
            cannot be given.
        record: of the rule that the rows belong to.
        names: of entities, where rows do not have their labels as names.

    Raises:
        SparqlProblem: it is not SPARQL, or cannot be split: with code, message and help.

    Example:
        ``bind_query("SELECT $this WHERE { $this plant:torque ?t FILTER(?t > 60) }", span, sources,
        bound={"this": ["<...#M1>"]}, ...)``
    """
    query, tree, observations = _read(text, where, sources, record, prefixes)
    graph = observations.sources.graph
    assert graph is not None, "queries ask a graph"
    about, *others = bound
    maker = RowMaker(graph, observations, lambda _: record, names)
    batch = Batch(queries=[query], open={}, graph=graph, observations=observations)
    rows: list[BoundRows] = []
    violations: dict[Answer, None] = {}
    reads = False
    for values in _turns(tree, about, bound[about]):
        parts = {name: _values(tree.at, name, bound[name], sources) for name in others} | {
            about: _values(tree.at, about, values, sources)
        }
        given = replace(tree, where=_bind_variables(tree.where, parts))
        (found,) = solutions(
            given,
            Splitter(query, observations).split(given, frozenset(bound)),
            batch,
            maker,
            frozenset({about}),
        )
        reads |= found.reads
        if len(values) > 1:
            rows += found.rows
            violations |= dict.fromkeys(terms[0] for terms in found.violations)
        else:
            (term,) = map(_term, values)
            rows += [
                replace(item, entities=(maker.label((term,)),) * len(item.entities))
                for item in found.rows
            ]
            violations |= {term: None} if found.violations else {}
    return BoundQuery(rows=tuple(rows), violations=tuple(violations), reads=reads)


def facts_of_bound(
    text: str,
    where: Span,
    sources: Sources,
    *,
    bound: Mapping[str, Sequence[str]],
    node: Resource,
    prefixes: Mapping[str, str] | None = None,
) -> list[TermTriple]:
    """Return the triples behind the rows of a query that `bind_query` binds, for one value of its
    first variable.

    Args:
        text: as for `bind_query`.
        where: as for `bind_query`.
        sources: as for `bind_query`.
        bound: as for `bind_query`, but with only one value for the first variable.
        node: that value as a node of the graph.
        prefixes: as for `bind_query`.

    Raises:
        SparqlProblem: as there.
    """
    query, tree, observations = _read(
        text, where, sources, RuleRecord(name="asked", file="", line=1), prefixes
    )
    about = next(iter(bound))
    parts = {name: _values(tree.at, name, values, sources) for name, values in bound.items()}
    given = replace(tree, where=_bind_variables(tree.where, parts))
    return facts_of_query(
        query,
        given,
        observations,
        {about: node},
        frozenset(bound),
        lambda iri: iri == getattr(node, "value", None),
    )


def _read(
    text: str, where: Span, sources: Sources, record: RuleRecord, prefixes: Mapping[str, str] | None
) -> tuple[QueryText, Query, Observations]:
    """Return the query of a text, its tree, and the columns that it may read.

    Raises:
        SparqlProblem: if the text is not supported.
    """
    assert sources.graph is not None, "queries ask a graph"
    known = {**sources.graph.vocabulary.prefixes, **(prefixes or {})}
    query = replace(
        Reader(known).read(text), file=where.file, name=record.name, hard=record.hard, place=where
    )
    observations = Observations(sources=sources, span=where)
    tree = read_tree([query], observations)
    for token in query.form.holes:
        query.constant(token)
    return query, tree, observations


def _turns(tree: Query, about: str, values: Sequence[str]) -> list[Sequence[str]]:
    """The values that can be asked for together: each alone where solutions of several would fall
    into one group, and for the table row.
    """
    groups = [node for node in walk(tree) if isinstance(node, Query) and node.aggregates]
    apart = any(
        about not in {item.variable.name for item in query.group_by or ()} for query in groups
    )
    return [[value] for value in values] if apart or ROW in values else [values] if values else []


def _values(at: Place, name: str, values: Sequence[str], sources: Sources) -> Part:
    """What gives a variable its values."""
    variable = Var(at=at, name=name)
    if list(values) == [ROW]:
        rows = sources.names.rows_class
        assert rows is not None, "the table row is a value where `rows are CLASS` says of what"
        class_, is_a = (
            Const(at=at, token=-1, kind="iri", text=f"<{iri}>") for iri in (rows, f"{RDF}type")
        )
        return Triple(at=at, subject=variable, predicate=is_a, object=class_)
    return Values(
        at=at, variables=(variable,), rows=tuple((_constant(at, value),) for value in values)
    )


def _constant(at: Place, value: str) -> Const:
    return Const(
        at=at,
        token=-1,
        kind="iri" if value[:1] == "<" else "string" if value[:1] in "\"'" else "number",
        text=value,
    )


def _term(value: str) -> Answer:
    if value == ROW:
        return None
    if value.startswith("<"):
        return Iri(value[1:-1])
    lexical = (plain_text(value) or "") if value[:1] in "\"'" else value
    return Literal(lexical, lexical, "")


def _bind_variables(group: Group, parts: Mapping[str, Part]) -> Group:
    """Bind variables in a group and in the inner groups that do not see outer variables."""
    inside = tuple(_inside(part, parts) for part in group.parts)
    return replace(
        group, parts=(*(part for name, part in parts.items() if name in variables(group)), *inside)
    )


def _inside(
    node: Any, parts: Mapping[str, Part]
) -> Any:  # Any: a node, a tuple of them, or a plain value
    match node:
        case Group():
            return _bind_variables(node, parts)
        case Optional() | Exists():
            return replace(node, group=replace(node.group, parts=_inside(node.group.parts, parts)))
        case Node():
            return replace(
                node,
                **{
                    f.name: _inside(getattr(node, f.name), parts)
                    for f in fields(node)
                    if f.name != "at"
                },
            )
        case tuple():
            return tuple(_inside(item, parts) for item in node)
        case _:
            return node
