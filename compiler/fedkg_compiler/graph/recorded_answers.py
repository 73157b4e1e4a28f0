"""What compilations have asked of a closed store, kept in a file beside its closure.

Rule files are edited more often than plants. After an edit, a compilation asks for the same
solutions, labels and columns as before, and finds them here without reading any triple. The file is
as old as the closure: a store with other triples has another closure, and so does another version
of the compiler. Answers with blank nodes are not kept, because their names belong to one reading.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedkg_compiler.graph.rdf_terms import ColumnFact, Iri, Literal, Quantity, RdfTerm

Row = tuple[RdfTerm | None, ...]
MOST = 1_000_000
"""Answers in a file, with each row of solutions counted: about 50 MB. More are not written."""
MOST_EARLIER = 20
"""Solutions of earlier compilations that stay: a pattern that is edited leaves one behind each
time."""


@dataclass(slots=True, kw_only=True)
class RecordedAnswers:
    """The answers of one graph.

    Attributes:
        path: the file; None where answers are in memory only.
        labels: the names of nodes for people, by IRI.
        keys: header and text of the table rows about an entity, by its IRI; where `keyed`.
        columns: the columns with the values of a sensor or a property, by its IRI.
        observations: the columns of a property, of one entity or of all, by both IRIs.
        members: the members of classes, by IRI.
        pairs: the subjects and values of properties, by IRI.
        solutions: distinct sorted rows, by `query_key`.
        asked: the keys of the solutions that this compilation asked for.
        keyed: whether the graph names any key column; None before somebody asked.
        owners: whether the user's data gives an entity to a client; None before somebody asked.
        shared: the columns that sensors of several entities have; None before somebody asked.
        alternatives: the further headers of columns; None before somebody asked.
    """

    path: Path | None = None
    labels: dict[str, str] = field(default_factory=dict)
    keys: dict[str, tuple[str, str] | None] = field(default_factory=dict)
    columns: dict[str, list[ColumnFact]] = field(default_factory=dict)
    observations: dict[str, list[ColumnFact]] = field(default_factory=dict)
    members: dict[str, list[str]] = field(default_factory=dict)
    pairs: dict[str, list[Row]] = field(default_factory=dict)
    solutions: dict[str, list[Row]] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    keyed: bool | None = None
    owners: bool | None = None
    shared: frozenset[str] | None = None
    alternatives: dict[str, tuple[str, ...]] | None = None
    _in_file: int = 0

    @classmethod
    def from_file(cls, path: Path) -> RecordedAnswers:
        """Return the answers in a file; none where it is missing or damaged."""
        try:
            found = cls._from_json(path, json.loads(path.read_bytes()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
            return cls(path=path)
        found._in_file = found._count()
        return found

    @classmethod
    def _from_json(cls, path: Path, said: Mapping[str, Any]) -> RecordedAnswers:
        shared, alternatives = said["shared"], said["alternatives"]
        names: list[str] = said["names"]
        entities = [*names, None]  # the number -1 is None
        terms = [*(Iri(names[i]) for i in said["nodes"]), *map(_term_from, said["literals"])]

        def rows_from(columns: Sequence[Sequence[int]]) -> list[Row]:
            return list(zip(*([terms[i] for i in column] for column in columns), strict=True))

        columns: dict[str, list[ColumnFact]] = {names[i]: [] for i in said["without_column"]}
        for i, column, unit, entity, of_sensor in zip(*said["columns"], strict=True):
            iri = names[i]
            fact = ColumnFact(column, unit, entities[entity], iri if of_sensor else None)
            if iri in columns:
                columns[iri].append(fact)
            else:
                columns[iri] = [fact]
        return cls(
            path=path,
            labels={names[i]: label for i, label in zip(*said["labels"], strict=True)},
            keys={
                names[i]: None if key is None else (key[0], key[1])
                for i, key in zip(*said["keys"], strict=True)
            },
            columns=columns,
            observations={
                asked: [ColumnFact(*fact) for fact in facts]
                for asked, facts in said["observations"].items()
            },
            members={
                kind: [names[i] for i in members] for kind, members in said["members"].items()
            },
            pairs={iri: rows_from(rows) for iri, rows in said["pairs"].items()},
            solutions={key: rows_from(rows) for key, rows in said["solutions"].items()},
            keyed=said["keyed"],
            owners=said["owners"],
            shared=None if shared is None else frozenset(shared),
            alternatives=None
            if alternatives is None
            else {column: tuple(others) for column, others in alternatives.items()},
        )

    def keep(self) -> None:
        """Write the answers, if there are more than in the file; nothing where the folder cannot be
        written.
        """
        if self.path is None or self._count() == self._in_file:
            return
        earlier = [key for key in self.solutions if key not in self.asked]
        for key in earlier[:-MOST_EARLIER]:
            del self.solutions[key]
        count = self._count()
        if count > MOST:
            return
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            part = self.path.with_name(f".{self.path.name}.{os.getpid()}")
            part.write_text(json.dumps(self._as_json()), encoding="utf-8")
            part.replace(self.path)
            self._in_file = count

    def _as_json(self) -> dict[str, Any]:
        """The tables as columns of numbers and texts; each IRI is written once, and has a
        number.
        """
        names: dict[str, int] = {}

        def number(iri: str) -> int:
            return names.setdefault(iri, len(names))

        solutions, pairs = _named_rows(self.solutions), _named_rows(self.pairs)
        terms = {
            term: None
            for rows in (*solutions.values(), *pairs.values())
            for row in rows
            for term in row
        }
        literals = [term for term in terms if not isinstance(term, Iri)]
        members = {kind: list(map(number, iris)) for kind, iris in self.members.items()}
        labels = [(number(iri), label) for iri, label in _named(self.labels)]
        keys = [(number(iri), key) for iri, key in _named(self.keys)]
        columns = [
            (
                number(iri),
                fact.column,
                fact.unit,
                -1 if fact.entity is None else number(fact.entity),
                int(fact.sensor is not None),
            )
            for iri, facts in _named(self.columns)
            for fact in facts
        ]
        without = [number(iri) for iri, facts in _named(self.columns) if not facts]
        nodes = [term for term in terms if isinstance(term, Iri)]
        places = {term: i for i, term in enumerate((*nodes, *literals))}

        def numbered(table: Mapping[str, Sequence[Row]]) -> dict[str, list[list[int]]]:
            return {
                key: [[places[term] for term in column] for column in zip(*rows, strict=True)]
                for key, rows in table.items()
            }

        return {
            "nodes": [number(node.value) for node in nodes],
            "names": list(names),
            "literals": list(map(_plain, literals)),
            "labels": _transposed(labels, 2),
            "keys": _transposed(keys, 2),
            "columns": _transposed(columns, 5),
            "without_column": without,
            "observations": {
                asked: facts
                for asked, facts in self.observations.items()
                if " _:" not in asked and all(_has_names(fact) for fact in facts)
            },
            "members": members,
            "pairs": numbered(pairs),
            "solutions": numbered(solutions),
            "keyed": self.keyed,
            "owners": self.owners,
            "shared": None if self.shared is None else sorted(self.shared),
            "alternatives": self.alternatives,
        }

    def _count(self) -> int:
        """The number of entries, with each member and each row of solutions."""
        grouped = (self.members, self.pairs, self.solutions)
        tables: list[Sized] = [self.labels, self.keys, self.columns, self.observations, *grouped]
        tables += [rows for table in grouped for rows in table.values()]
        facts = (self.keyed, self.owners, self.shared, self.alternatives)
        return sum(one is not None for one in facts) + sum(map(len, tables))


def query_key(query: str, prefixes: Mapping[str, str]) -> str:
    """What tells the solutions of a query from those of others."""
    asked = json.dumps([query, sorted(prefixes.items())])
    return hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _named(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The entries of nodes that are not blank."""
    return ((iri, answer) for iri, answer in table.items() if not _is_blank(iri))


def _named_rows(table: Mapping[str, list[Row]]) -> dict[str, list[Row]]:
    """The answers without a blank node."""
    return {
        key: rows
        for key, rows in table.items()
        if not any(isinstance(term, Iri) and _is_blank(term.value) for row in rows for term in row)
    }


def _has_names(fact: ColumnFact) -> bool:
    """Whether entity and sensor are not blank nodes: their facts have the bare names of those."""
    return all(iri is None or ":" in iri.removeprefix("_:") for iri in (fact.entity, fact.sensor))


def _is_blank(iri: str) -> bool:
    return iri.startswith("_:")


def _transposed(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    return [[row[i] for row in rows] for i in range(width)]


def _plain(term: RdfTerm | None) -> list[Any]:
    """A term that is not an IRI as a JSON value."""
    match term:
        case Literal(value, lexical, datatype):
            return [value, lexical, datatype]
        case Quantity(value, unit):
            return [value, unit]
        case _:
            return []


def _term_from(plain: Sequence[Any]) -> RdfTerm | None:
    match plain:
        case [value, lexical, datatype]:
            return Literal(value, lexical, datatype)
        case [value, unit]:
            return Quantity(value, unit)
        case _:
            return None
