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
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedkg_compiler.graph.graph_terms import ColumnFact, Iri, Literal, Quantity, RdfTerm

Row = tuple[RdfTerm | None, ...]
MOST = 1_000_000
"""Answers in a file, with each row of solutions counted: about 100 MB. More are not written."""


@dataclass(slots=True, kw_only=True)
class RecordedAnswers:
    """The answers of one graph.

    Attributes:
        path: the file; None where answers are in memory only.
        labels: the names of nodes for people, by IRI.
        keys: header and text of the table rows about an entity, by its IRI.
        columns: the columns with the values of a sensor or a property, by its IRI.
        members: the members of classes, by IRI.
        pairs: the subjects and values of properties, by IRI.
        solutions: distinct sorted rows, by `query_key`.
        shared: the columns that sensors of several entities have; None before somebody asked.
        alternatives: the further headers of columns; None before somebody asked.
    """

    path: Path | None = None
    labels: dict[str, str] = field(default_factory=dict)
    keys: dict[str, tuple[str, str] | None] = field(default_factory=dict)
    columns: dict[str, list[ColumnFact]] = field(default_factory=dict)
    members: dict[str, list[str]] = field(default_factory=dict)
    pairs: dict[str, list[Row]] = field(default_factory=dict)
    solutions: dict[str, list[Row]] = field(default_factory=dict)
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
        return cls(
            path=path,
            labels=said["labels"],
            keys={iri: None if key is None else (key[0], key[1]) for iri, key in said["keys"]},
            columns={
                iri: [
                    ColumnFact(column, unit, entity, iri if of_sensor else None)
                    for column, unit, entity, of_sensor in facts
                ]
                for iri, facts in said["columns"].items()
            },
            members=said["members"],
            pairs={iri: _rows_from(rows) for iri, rows in said["pairs"].items()},
            solutions={key: _rows_from(rows) for key, rows in said["solutions"].items()},
            shared=None if shared is None else frozenset(shared),
            alternatives=None
            if alternatives is None
            else {column: tuple(others) for column, others in alternatives.items()},
        )

    def keep(self) -> None:
        """Write the answers, if there are more than in the file; nothing where the folder cannot be
        written.
        """
        count = self._count()
        if self.path is None or count == self._in_file or count > MOST:
            return
        said = {
            "labels": _with_names(self.labels),
            "keys": list(_with_names(self.keys).items()),
            "columns": {
                iri: [(one.column, one.unit, one.entity, one.sensor is not None) for one in facts]
                for iri, facts in _with_names(self.columns).items()
            },
            "members": self.members,
            "pairs": _plain_rows(self.pairs),
            "solutions": _plain_rows(self.solutions),
            "shared": None if self.shared is None else sorted(self.shared),
            "alternatives": self.alternatives,
        }
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            part = self.path.with_name(f".{self.path.name}.{os.getpid()}")
            part.write_text(json.dumps(said), encoding="utf-8")
            part.replace(self.path)
            self._in_file = count

    def _count(self) -> int:
        tables: tuple[Iterable[Any], ...] = (self.labels, self.keys, self.columns)
        lists = (*self.members.values(), *self.pairs.values(), *self.solutions.values())
        complete = (self.shared is not None) + (self.alternatives is not None)
        return complete + sum(map(len, (*tables, *lists)))  # type: ignore[arg-type]


def query_key(query: str, prefixes: Mapping[str, str]) -> str:
    """What tells the solutions of a query from those of others."""
    asked = json.dumps([query, sorted(prefixes.items())])
    return hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _with_names(table: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of nodes that are not blank."""
    return {iri: answer for iri, answer in table.items() if not iri.startswith("_:")}


def _plain_rows(table: Mapping[str, Sequence[Row]]) -> dict[str, Any]:
    """Rows as JSON values: the terms, each once, and for each column the positions of its terms."""
    found: dict[str, Any] = {}
    for key, rows in table.items():
        numbers: dict[RdfTerm | None, int] = {}
        columns = [
            [numbers.setdefault(term, len(numbers)) for term in column]
            for column in zip(*rows, strict=True)
        ]
        if not any(isinstance(term, Iri) and term.value.startswith("_:") for term in numbers):
            found[key] = [[_plain(term) for term in numbers], columns]
    return found


def _plain(term: RdfTerm | None) -> Any:
    match term:
        case None:
            return None
        case Iri(value):
            return value
        case Literal(value, lexical, datatype):
            return [value, lexical, datatype]
        case Quantity(value, unit):
            return [value, unit]


def _rows_from(said: Sequence[Any]) -> list[Row]:
    plain, columns = said
    terms = [
        Iri(term)
        if isinstance(term, str)
        else None
        if term is None
        else Literal(*term)
        if len(term) == 3
        else Quantity(*term)
        for term in plain
    ]
    return list(zip(*([terms[i] for i in column] for column in columns), strict=True))
