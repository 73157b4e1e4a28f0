"""The one handle on the knowledge graph: the user's graphs, ontologies and alignments in one store,
closed; the kinds of statements lie in named graphs (`named_graphs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING
from typing import Literal as OneOf

import pyoxigraph as ox

from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.graph import query, query_file, select_results
from fedkg_compiler.graph.client_ownership import Ownership
from fedkg_compiler.graph.graph_terms import (
    ColumnFact,
    Iri,
    KnownTerm,
    Literal,
    RdfTerm,
    is_iri,
    local_name,
    order_key,
)
from fedkg_compiler.graph.named_graphs import DEFAULT, names_graph, with_named_graphs
from fedkg_compiler.graph.node_values import Values, node_of
from fedkg_compiler.graph.owl_rl_closure import TYPE
from fedkg_compiler.graph.property_columns import Columns
from fedkg_compiler.graph.query_process import QueryProcess, Solutions, query_at
from fedkg_compiler.graph.recorded_answers import RecordedAnswers, query_key
from fedkg_compiler.graph.span_construction import report
from fedkg_compiler.graph.standard_vocabularies import RDFS, SKOS
from fedkg_compiler.graph.vocabulary_index import Definition, Vocabulary, closest_name, known_terms

if TYPE_CHECKING:
    from fedkg_compiler.graph.triple_locations import Told

Node = ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple
Resource = ox.NamedNode | ox.BlankNode | ox.Literal
"""Terms that a variable can be bound to."""
_LABELS = (ox.NamedNode(RDFS + "label"), ox.NamedNode(SKOS + "prefLabel"))
_FEW_LABELS = 200
"""Nodes that are looked up one by one before the names of all are read."""


class Graph:
    """Everything that is known, with its closure; nothing changes it after it was loaded.

    Args:
        store: the triples of the closure: the user's data and what it entails in the default graph,
            the others in their named graphs; or a function that reads them, called when an answer
            needs triples.
        vocabulary: the names that rule files may use.
        defined: the definitions of names in ontologies and graphs, by IRI.
        ownership: the owners of nodes, for a private pack; the triples of other clients have been
            removed. None for a public pack.
        told: the asserted triples before the closure, to explain why something holds; None if
            explanations are not needed.
        named: gives the quads of the named graphs that are not in the store: copies of what is in
            the default graph, by source.
        whole: all triples of the closure, where `store` holds only those that rules touch; they
            answer what may be asked of any name. Default: `store`, which is not a function then.
        answers: earlier answers of the same triples; default: none.
    """

    def __init__(
        self,
        store: ox.Store | Callable[[], ox.Store],
        vocabulary: Vocabulary,
        defined: Mapping[str, Definition],
        ownership: Ownership | None = None,
        told: Told | None = None,
        named: Callable[[ox.Store], Iterable[ox.Quad]] | None = None,
        whole: ox.Store | None = None,
        answers: RecordedAnswers | None = None,
    ) -> None:
        self._named = named
        if whole is None:
            assert isinstance(store, ox.Store), "`whole` is missing"
            whole = store
        self._whole = whole
        self._given = store
        self._answers = RecordedAnswers() if answers is None else answers
        self._columns = self._new_columns()
        self._defined = defined
        self._plain: dict[Node | None, select_results.Plain] = {}
        self.vocabulary = vocabulary
        self.ownership = ownership
        self.told = told

    @cached_property
    def _store(self) -> ox.Store:
        """The triples that rules touch; read when they are first needed."""
        return self._given if isinstance(self._given, ox.Store) else self._given()

    @cached_property
    def _values(self) -> Values:
        return Values(self._store)

    def _new_columns(self) -> Columns:
        return Columns(
            self._answers,
            store=lambda: self._store,
            unit_of=lambda node: self._values.unit_of(node),
        )

    @property
    def store(self) -> ox.Store:
        """The store with all triples, those of the closure included; only to read."""
        return self._whole

    def with_named_graphs(self) -> ox.Store:
        """Return a copy of the store in memory, with the graphs that it lacks."""
        return with_named_graphs(self._store, self._named)

    def solutions(self, query: str, prefixes: Mapping[str, str]) -> Solutions:
        """Return the solutions of a whole SELECT query as the store gives them.

        Raises LimitError, and what the store raises for a query that it cannot answer.
        """
        return self._process.select(query, prefixes=prefixes)

    def extend(self, triples: Sequence[ox.Quad]) -> None:
        """Add triples, such as those of rules; nothing is concluded from them.

        A store on disk is not changed: its content is copied into memory first.
        """
        self.close()
        try:
            self._whole.extend(triples)
        except RuntimeError:  # it is read-only
            store = ox.Store()
            store.bulk_extend(iter(self._whole))
            store.extend(triples)
            self._whole = store
        self._store = self._whole
        for name in ("_process", "_whole_process", "_values", "_all_labels"):
            self.__dict__.pop(name, None)
        self._answers = RecordedAnswers()
        self._columns = self._new_columns()

    def keep_answers(self) -> None:
        """Write the answers so far beside the closure that they are from, for the next compilation;
        nothing for a graph in memory.
        """
        self._answers.keep()

    def close(self) -> None:
        """End the processes that queries run in; another query starts them anew."""
        for name in ("_process", "_whole_process"):
            if (process := self.__dict__.get(name)) is not None:
                process.close()

    @cached_property
    def _whole_process(self) -> QueryProcess:
        """Answers queries over all triples; made for the first query."""
        return QueryProcess(self._whole, self._named)

    @cached_property
    def _process(self) -> QueryProcess:
        """Answers queries over the triples that rules touch."""
        if self._whole is self._store:
            return self._whole_process
        return QueryProcess(self._store, self._named)

    def __len__(self) -> int:
        """Return the number of triples, those of the closure included."""
        return len(self._whole)

    def select(
        self, where: str, variables: Sequence[str], *, span: Span
    ) -> tuple[list[tuple[RdfTerm | None, ...]], tuple[Diagnostic, ...]]:
        """Return the distinct solutions of a SPARQL group graph pattern.

        Args:
            where: the text between the braces.
            variables: the names without ``?``, in the order of the columns of the rows.
            span: the span of `where`.

        Returns:
            Rows, sorted; None for an unbound variable. Diagnostics with positions inside `span`;
                after an error the rows are empty.
        """

        def answer(text: str) -> list[tuple[RdfTerm | None, ...]]:
            key = query_key(text, self.vocabulary.prefixes)
            self._answers.asked.add(key)
            if key not in self._answers.solutions:
                found = self._process.select(text, prefixes=self.vocabulary.prefixes)
                rows = query.sorted_rows(found, variables, self._values)
                if names_graph(text):  # the other graphs are not all in the closure
                    return rows
                self._answers.solutions[key] = rows
            return self._answers.solutions[key]

        with query_at(span.file, span.line):
            return query.select(answer, self.vocabulary, where, variables, span)

    def select_file(
        self, text: str, file: str, variables: Sequence[tuple[str, Span]]
    ) -> tuple[list[tuple[RdfTerm | None, ...]], tuple[Diagnostic, ...]]:
        """Return what a SELECT in a query file gives for some of its variables, as `select` does.

        Problems at their places in the file.

        Args:
            text: the query.
            file: the name of the file in diagnostics.
            variables: the names without ``?``, each with the place where it is asked for.
        """
        with query_at(file):
            return query_file.select_file(
                self._process, self._values, self.vocabulary, text, file, variables
            )

    def answers(
        self, query: str, *, everywhere: bool = False
    ) -> list[tuple[Iri | Literal | None, ...]]:
        """Return the solutions of a whole SELECT query, as the store gives them.

        Raises ValueError if it cannot.

        Args:
            everywhere: look in all graphs at once, not in the default graph alone.
        """
        terms, rows = self.numbered_answers(query, everywhere=everywhere)
        return [tuple([terms[i] for i in row]) for row in rows]

    def numbered_answers(
        self, query: str, *, everywhere: bool = False
    ) -> tuple[list[Iri | Literal | None], list[tuple[int, ...]]]:
        """Return what `answers` does as the terms, each once, and rows of positions of terms."""
        process = self._whole_process if everywhere else self._process
        return select_results.numbered_answers(process, query, self._plain, everywhere=everywhere)

    def nodes(
        self, query: str, given: Mapping[str, Resource] | None = None, *, everywhere: bool = False
    ) -> list[dict[str, Resource]]:
        """Return the solutions of a SELECT query as nodes, by their variables without ``?``.

        The prefixes of the rule files are known.

        Args:
            given: terms that some variables are bound to.
            everywhere: look in all graphs at once, not in the default graph alone.
        """
        found = self._whole_process.select(
            query, prefixes=self.vocabulary.prefixes, given=given, everywhere=everywhere
        )
        return [
            {
                name: node
                for name, node in zip(found.names, row, strict=True)
                if isinstance(node, Resource)
            }
            for row in found.rows
        ]

    def is_true(self, query: str) -> bool:
        """Return the answer to an ASK query over all graphs at once.

        The prefixes of the rule files are known.
        """
        return bool(
            self._whole.query(
                query, prefixes=dict(self.vocabulary.prefixes), use_default_graph_as_union=True
            )
        )

    def node(self, iri: str) -> Resource:
        """Return the node of an IRI, or of a blank node (``_:b0``).

        Raises ValueError for what is neither.
        """
        return node_of(iri)

    def sparql_problem(self, query: str) -> tuple[str, int, int] | None:
        """Return what is wrong with the text of a query, with line and column, or None if it is
        SPARQL.
        """
        return select_results.sparql_problem(query, self.vocabulary.prefixes)

    def instances(self, iri: str, *, vocabularies: bool = False) -> list[str]:
        """Return the named members of a class and of its subclasses in the user's data, sorted.

        With `vocabularies` those that only a vocabulary describes too.
        """
        members = self._answers.members
        key = f"{iri} {vocabularies}"
        if key not in members:
            graph = None if vocabularies else DEFAULT
            found = {
                quad.subject.value
                for quad in self._store.quads_for_pattern(None, TYPE, ox.NamedNode(iri), graph)
                if isinstance(quad.subject, ox.NamedNode)
            }
            members[key] = sorted(found)
        return members[key]

    def resolve(
        self, text: str, form: OneOf["pname", "iri", "name"], span: Span
    ) -> tuple[str | None, tuple[Diagnostic, ...]]:
        """Return the IRI of a name as the rule file writes it; None with an error."""
        match form:
            case "name":
                return self._by_name(text, span)
            case "pname":
                iri, problems = self.vocabulary.expand(text, span)
            case "iri":
                if not is_iri(text):
                    return None, (
                        report(
                            "FKG108",
                            span,
                            f"<{text}> is not an IRI",
                            help="an IRI begins with a scheme: `<https://...>`",
                        ),
                    )
                iri, problems = text, ()
        if iri is None:
            return None, problems
        problems = self.vocabulary.check(iri, f"<{text}>" if form == "iri" else text, span)
        return (None if any(problem.severity == "error" for problem in problems) else iri), problems

    def _by_name(self, name: str, span: Span) -> tuple[str | None, tuple[Diagnostic, ...]]:
        found = self.vocabulary.by_local_name(name)
        match found:
            case [iri]:
                return iri, ()
            case []:
                meant = closest_name(name, self.vocabulary.all_local_names())
                advice = (
                    f"did you mean `{meant}`?"
                    if meant
                    else "write it with its prefix, or load the ontology that has it with `use`"
                )
                return None, (
                    report(
                        "FKG113",
                        span,
                        f"no loaded ontology or graph has a term `{name}`",
                        help=advice,
                    ),
                )
            case _:
                names = [self.vocabulary.shorten(iri) for iri in found]
                problem = report(
                    "FKG114",
                    span,
                    f"`{name}` may be {' or '.join(names)}",
                    help=f"write which one, `{names[0]}` for example",
                )
                return None, (problem,)

    def columns_of(self, property_iri: str, entity_iri: str | None) -> list[ColumnFact]:
        """Return the table columns with the observations of a property, sorted; [] if the graph
        does not name them.

        With an entity: the columns of its sensors, else those that the property has for all
        entities (`ColumnFact.entity` is None).
        """
        if not is_iri(property_iri):
            return []
        found = self._answers.observations
        asked = f"{property_iri} {entity_iri or ''}"
        if asked not in found:
            found[asked] = self._columns.property_columns(property_iri, entity_iri)
        return found[asked]

    def column_at(self, iri: str) -> list[ColumnFact]:
        """Return the table columns with the values of a sensor, or of an observed property for all
        entities; [] if there are none.
        """
        return self._columns.at(iri)

    def alternative_columns(self) -> Mapping[str, tuple[str, ...]]:
        """Return the further headers that the graph knows for columns, sorted, by their header."""
        return self._columns.alternatives()

    def is_shared(self, column: str) -> bool:
        """Tell whether the sensors of several entities have their values in a column."""
        return self._columns.is_shared(column)

    def key_of(self, entity_iri: str) -> tuple[str, str] | None:
        """Return key column and key value of the table rows that are about an entity.

        None if the graph names no key column.
        """
        return self._columns.key_of(entity_iri)

    def label_of(self, iri: str) -> str:
        """Return the entity's name for people: its label in English, else without a language, else
        in any, else the local name.
        """
        labels = self._answers.labels
        if iri not in labels:
            labels[iri] = self._label(iri)
        return labels[iri]

    def _label(self, iri: str) -> str:
        if len(self._answers.labels) < _FEW_LABELS:
            found = self._label_quads(node_of(iri))
            texts = [quad.object for quad in found if isinstance(quad.object, ox.Literal)]
        else:
            texts = self._all_labels.get(iri, [])
        if not texts:
            return local_name(iri)
        if len(texts) == 1:
            return texts[0].value
        return min(
            texts, key=lambda item: (_language_rank(item.language), item.language or "", item.value)
        ).value

    def _label_quads(self, node: ox.NamedNode | ox.BlankNode | None) -> Iterator[ox.Quad]:
        """The triples with the names of a node, or of all."""
        for predicate in _LABELS:
            yield from self._store.quads_for_pattern(node, predicate, None)

    @cached_property
    def _all_labels(self) -> dict[str, list[ox.Literal]]:
        """The names of all nodes: read at once, they take a tenth of the time."""
        found: dict[str, list[ox.Literal]] = {}
        for quad in self._label_quads(None):
            node = quad.subject
            if isinstance(quad.object, ox.Literal) and not isinstance(node, ox.Triple):
                iri = f"_:{node.value}" if isinstance(node, ox.BlankNode) else node.value
                found.setdefault(iri, []).append(quad.object)
        return found

    def unit_text(self, iri: str) -> str:
        """Return a unit's IRI as rule files write the unit (``unit:N-M`` is ``N.m``), or the IRI
        where no text is known.
        """
        return self._values.unit_text(iri)

    def nearest_unit(self, iri: str) -> str | None:
        """Return the unit that an IRI without a known text was probably meant to be, as ``unit:K``,
        or None.
        """
        return self._values.nearest_unit(iri)

    def values_of(self, subject_iri: str, property_iri: str) -> list[RdfTerm]:
        """Return what a property says of a subject, as plain values, sorted as rows are."""
        rows = self._whole.quads_for_pattern(node_of(subject_iri), ox.NamedNode(property_iri), None)
        found = {term for quad in rows if (term := self._values.term(quad.object)) is not None}
        return sorted(found, key=order_key)

    def pairs_of(self, property_iri: str) -> list[tuple[RdfTerm | None, ...]]:
        """Return the subjects and values of a property in the user's data, as plain values."""
        pairs = self._answers.pairs
        if property_iri not in pairs:
            values, name = self._values, ox.NamedNode(property_iri)
            quads = self._store.quads_for_pattern(None, name, None, DEFAULT)
            pairs[property_iri] = [
                (values.term(quad.subject), values.term(quad.object)) for quad in quads
            ]
        return pairs[property_iri]

    def properties_between(self, subject_iri: str, text: str) -> list[str]:
        """Return the properties of a subject with a literal of this text, sorted by IRI."""
        rows = self._whole.quads_for_pattern(node_of(subject_iri), None, None)
        return sorted(
            {
                quad.predicate.value
                for quad in rows
                if isinstance(quad.object, ox.Literal) and quad.object.value == text
            }
        )

    def term_of(self, iri: str) -> RdfTerm | None:
        """Return a node as a plain value: a quantity where it has a number, else itself."""
        return self._values.term(node_of(iri))

    def terms(self) -> tuple[KnownTerm, ...]:
        """Return the classes, properties and individuals that ontologies and graphs define, sorted
        by IRI.
        """
        return known_terms(self._defined, self.vocabulary)

    def has(self, iri: str) -> bool:
        """Whether any triple contains the IRI."""
        return self.vocabulary.mentioned(iri)


def _language_rank(language: str | None) -> int:
    if language is None:
        return 1
    return 0 if language.lower().split("-")[0] == "en" else 2
