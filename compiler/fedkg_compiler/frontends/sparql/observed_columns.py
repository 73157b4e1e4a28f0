"""What a query reads from the table: which of its properties are observed, for which entities, and
where.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.scope import NOWHERE, Cell, DeclaredSignal, Place, Sources
from fedkg_compiler.frontends.fkg.binding.signal_columns import (
    Key,
    columns_of,
    observed_place,
    plain_place,
    signal_of,
)
from fedkg_compiler.graph.rdf_terms import Iri, Literal, Quantity, local_name
from fedkg_compiler.graph.sparql_syntax.tree import Const, Values, Var
from fedkg_compiler.graph.standard_vocabularies import FKG, NUMBERS, OWL, RDF, RDFS, SOSA

_NO_KIND = " ".join(f'FILTER(!STRSTARTS(STR(?p), "{space}"))' for space in (SOSA, RDF, RDFS, OWL))
"""Leaves out classes such as `sosa:ObservableProperty`, which say that something is a property and
not which one.
"""
_CANDIDATES = f"""SELECT DISTINCT ?p WHERE {{
  {{ ?s <{SOSA}observes> ?p .
     FILTER(EXISTS {{ ?s <{FKG}column> ?c }} || EXISTS {{ ?p <{FKG}column> ?c }}) }}
  UNION {{ ?s <{SOSA}observes> ?o ; <{FKG}column> ?c . ?o a ?p {_NO_KIND} }}
  UNION {{ ?p <{FKG}column> ?c }}
}}"""

_KEYED = f"""SELECT DISTINCT ?e WHERE {{
  {{ ?e <{FKG}keyColumn> ?k }} UNION {{ ?e a ?c . ?c <{FKG}keyColumn> ?k }}
}}"""

Where = tuple[Place, Key | None]
"""A place, and what selects the table rows there: for entities that share a column, the place is
the same.
"""


@dataclass(slots=True, kw_only=True)
class Observations:
    """The observed side of a compilation, asked of graph and declarations once.

    Attributes:
        sources: the graph and the columns that the rules refer to.
        span: the place for diagnostics.
        kinds: the kinds of static values (`shared_formula_rows.Kind`), as far as they are known.
    """

    sources: Sources
    span: Span
    _signals: dict[str, DeclaredSignal | None] = field(default_factory=dict)
    _entities: dict[str, list[str]] = field(default_factory=dict)
    _places: dict[tuple[str, str], Where | None] = field(default_factory=dict)
    _own: dict[str, frozenset[str]] = field(default_factory=dict)
    _all: dict[str, frozenset[str]] = field(default_factory=dict)
    _shared: dict[str, Place | None] = field(default_factory=dict)
    _keys: dict[str, Key | None] = field(default_factory=dict)
    kinds: dict[Iri | Literal, tuple[str, str]] = field(default_factory=dict)
    _numbers: dict[Iri | Literal, Quantity | float | None] = field(default_factory=dict)
    _kinds: dict[str, str] = field(default_factory=dict)
    _categories: dict[str, tuple[Iri | Literal, ...]] = field(default_factory=dict)
    _likeness: dict[str, Hashable] = field(default_factory=dict)
    _with_key: frozenset[str] | None = None
    _every: tuple[str, ...] | None = None

    def signal(self, iri: str) -> DeclaredSignal | None:
        """The signal behind a property; None for a static one."""
        if iri not in self._signals:
            self._signals[iri] = signal_of(iri, self.sources, self.span)
        return self._signals[iri]

    def every(self) -> tuple[str, ...]:
        """All observed properties, sorted."""
        if self._every is None:
            declared = {
                signal.property
                for signal in self.sources.names.signals.values()
                if signal.property is not None
            }
            graph = self.sources.graph
            rows = [] if graph is None else graph.answers(_CANDIDATES, everywhere=True)
            found = declared | {
                term.value
                for (term,) in rows
                if isinstance(term, Iri) and not term.value.startswith("_:")
            }
            self._every = tuple(sorted(iri for iri in found if self.signal(iri) is not None))
        return self._every

    def likeness(self, iri: str) -> Hashable:
        """Equal for observed properties that the same formulas serve: one table column has the
        values of all entities, of the same kind, role, unit and span.

        For any other property its IRI in brackets.
        """
        if iri not in self._likeness:
            self._likeness[iri] = self._find_likeness(iri) or f"<{iri}>"
        return self._likeness[iri]

    def _find_likeness(self, iri: str) -> Hashable:
        if self.signal(iri) is None:
            return None
        entities = self.entities(iri)
        found = None if self._own[iri] or not entities else self.find_column(iri, entities[0])
        if found is None:
            return None
        place, entry = found[0], self.sources.book.columns[found[0].column]
        return (
            self.kind(iri, place),
            self.categories(iri),
            place._replace(column=0, key=None),
            entry._replace(name="", source=""),
        )

    def is_rows(self, class_iri: str) -> bool:
        """Whether the table rows are members of a class."""
        rows = self.sources.names.rows_class
        if rows is None or self.sources.graph is None:
            return False
        return rows == class_iri or Iri(class_iri) in self.sources.graph.values_of(
            rows, RDFS + "subClassOf"
        )

    def of_rows(self, iri: str) -> bool:
        """Whether a property is one of the table rows themselves: no entity of the graph has a
        column for it.
        """
        signal = self.signal(iri)
        return (
            signal is not None
            and (not signal.family or not self.entities(iri))
            and (bool(signal.column) or self._plain(signal))
        )

    def _plain(self, signal: DeclaredSignal) -> bool:
        facts = columns_of(self.sources, signal.property or "", None)
        return not facts or any(fact.entity is None for fact in facts)

    def entities(self, iri: str) -> list[str]:
        """Return the entities with a column for a property, sorted."""
        if iri not in self._entities:
            self._entities[iri] = self._find_entities(iri)
        return self._entities[iri]

    def _find_entities(self, iri: str) -> list[str]:
        signal, graph = self.signal(iri), self.sources.graph
        if signal is None or graph is None:
            return []
        facts = columns_of(self.sources, iri, None)
        own = {fact.entity for fact in facts if fact.entity is not None}
        attached = graph.answers(
            f"SELECT DISTINCT ?e WHERE {{ ?e <{iri}> ?n . ?n <{FKG}column> ?c }}", everywhere=True
        )
        own |= {term.value for (term,) in attached if isinstance(term, Iri)}
        found = set(own)
        if (
            signal.column
            or any(fact.entity is None for fact in facts)
            or (not facts and signal.family)
        ):
            found |= self._keyed()
        self._own[iri] = frozenset(own)
        self._all[iri] = frozenset(found)
        return sorted(entity for entity in found if not entity.startswith("_:"))

    def _keyed(self) -> frozenset[str]:
        """The entities that a key column tells apart."""
        if self._with_key is None:
            graph = self.sources.graph
            rows = [] if graph is None else graph.answers(_KEYED, everywhere=True)
            self._with_key = frozenset(term.value for (term,) in rows if isinstance(term, Iri))
        return self._with_key

    def among(self, variable: Var, properties: Sequence[str]) -> Values:
        """The entities that have a column for any of some properties, as values of a variable."""
        entities = sorted({entity for iri in properties for entity in self.entities(iri)})
        rows = tuple(
            (Const(at=variable.at, token=-1, kind="iri", text=f"<{entity}>"),)
            for entity in entities
        )
        return Values(at=variable.at, variables=(variable,), rows=rows)

    def find_column(self, iri: str, entity: str) -> Where | None:
        """Return the column of a property of an entity (`entity` "": of the table rows), or
        None.
        """
        key = iri, entity
        if key in self._places:
            return self._places[key]
        found = self._places[key] = self._find(iri, entity)
        return found

    def _find(self, iri: str, entity: str) -> Where | None:
        signal, graph = self.signal(iri), self.sources.graph
        if signal is None or graph is None:
            return None
        if not entity:
            place = plain_place(replace(signal, family=""), self.sources, self.span)
            return None if place == NOWHERE else (place, place.key)
        self.entities(iri)
        if entity not in self._all[iri]:
            return None
        if entity in self._own[iri]:
            own = self._read(iri, entity)
            return None if own is None else (own, own.key)
        if iri not in self._shared:  # one column for all entities; a key column identifies the rows
            self._shared[iri] = self._read(iri, entity)
        shared = self._shared[iri]
        if entity not in self._keys:
            self._keys[entity] = graph.key_of(entity)
        return None if shared is None else (shared, self._keys[entity])

    def _read(self, iri: str, entity: str) -> Place | None:
        place = observed_place(
            iri, Cell(text=local_name(entity), iri=entity), self.sources, self.span
        )
        return None if place == NOWHERE else place

    def kind(self, iri: str, place: Place) -> str:
        """What the column of a property holds: ``number`` or ``text`` where a declaration or the
        graph says it, else "".
        """
        entry = self.sources.book.columns[place.column]
        if place.stored is not None or entry.unit is not None or entry.span is not None:
            return "number"
        if entry.type == "category":
            return "text"
        if iri not in self._kinds:
            self._kinds[iri] = self._kind(iri)
        return self._kinds[iri]

    def _kind(self, iri: str) -> str:
        graph = self.sources.graph
        if graph is None:
            return ""
        datatypes = {
            term.value for term in graph.values_of(iri, FKG + "datatype") if isinstance(term, Iri)
        }
        if datatypes & NUMBERS:
            return "number"
        return "text" if datatypes or self.categories(iri) else ""

    def categories(self, iri: str) -> tuple[Iri | Literal, ...]:
        """The texts and entities that a property may have, sorted: those of `fkg:category`, else
        the members of its `rdfs:range`, unless some are quantities.
        """
        if iri not in self._categories:
            graph = self.sources.graph
            terms = [] if graph is None else graph.values_of(iri, FKG + "category")
            found = [term for term in terms if isinstance(term, Iri | Literal)]
            if not found and graph is not None:
                for kind in graph.values_of(iri, RDFS + "range"):
                    if isinstance(kind, Iri) and kind.value not in (
                        RDFS + "Resource",
                        OWL + "Thing",
                    ):
                        names = graph.instances(kind.value)
                        members = [Iri(one) for one in names if not one.startswith("_:")]
                        if all(self.number(one) is None for one in members):
                            found += members
            self._categories[iri] = tuple(sorted(dict.fromkeys(found), key=str))
        return self._categories[iri]

    def number(self, term: Iri | Literal | None) -> Quantity | float | None:
        """The number that a static value is, with its unit where it is a quantity."""
        if term is None:
            return None
        if term not in self._numbers:
            self._numbers[term] = self._number(term)
        return self._numbers[term]

    def _number(self, term: Iri | Literal) -> Quantity | float | None:
        if isinstance(term, Literal):
            return (
                float(term.value)
                if isinstance(term.value, int | float) and not isinstance(term.value, bool)
                else None
            )
        found = None if self.sources.graph is None else self.sources.graph.term_of(term.value)
        return (
            self.number(found)
            if isinstance(found, Literal)
            else found
            if isinstance(found, Quantity)
            else None
        )
