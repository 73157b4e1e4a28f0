"""Knowledge models over a table: whether they hold together, and with the answers that the table
has.

Letters: V views, B table rows, C columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.interpreter import Timing
from fedkg.evaluation.category_codes import class_places, foreign_classes
from fedkg.evaluation.table_readings import Readings
from fedkg.evaluation.table_time_steps import whole_traces
from fedkg.knowledge import Agreement, agreement
from fedkg.pack import Compare, Pack, is_temporal
from fedkg.pack.bank import reads
from fedkg.pack.knowledge_models import Clause, KnowledgeModel
from fedkg.tables import Table

CELLS = 4_000_000
"""Views x table rows x columns held at once."""


def knowledge_columns(pack: Pack) -> dict[int, tuple[str, ...]]:
    """The columns that knowledge models read, with the models' names."""
    found: dict[int, dict[str, None]] = {}
    for model in pack.manifest.knowledge:
        for place in _banks(model):
            bank = pack.conditions[place]
            for columns in (bank.keys, *(slots for slots, _, _ in reads(bank))):
                for column in np.unique(columns).tolist():
                    if column >= 0 and pack.manifest.contract.columns[column].role == "input":
                        found.setdefault(column, {})[model.name] = None
    return {column: tuple(names) for column, names in found.items()}


def _banks(model: KnowledgeModel) -> list[int]:
    return [clause.bank for clause in _clauses(model)] + (
        [] if model.network is None else [model.network.bank]
    )


def _clauses(model: KnowledgeModel) -> tuple[Clause, ...]:
    return (*model.clauses, *(() if model.otherwise is None else (model.otherwise,)))


def over_time(pack: Pack) -> bool:
    """Whether a condition of knowledge, or a number that it gives, looks at other steps than its
    own.
    """
    for model in pack.manifest.knowledge:
        terms = [
            term
            for clause in _clauses(model)
            for term in (clause.low, clause.high, clause.value)
            if term is not None
        ]
        sides = (Compare(op="le", left=term, right=term, scale=0) for term in terms)
        if any(
            map(
                is_temporal, (*(pack.conditions[place].skeleton for place in _banks(model)), *sides)
            )
        ):
            return True
    return False


def table_agreement(
    pack: Pack, readings: Readings, table: Table, timing: Timing
) -> tuple[Agreement, ...]:
    """Evaluate each knowledge model over the rows of a table, with times from `timing`."""
    if not pack.manifest.knowledge:
        return ()
    truth = {
        model.output: _truth(model, table)
        for model in pack.manifest.knowledge
        if model.column in table
    }
    parts = []
    for at in _parts(pack, readings, timing):
        answers = {name: answer[at] for name, answer in truth.items()}
        parts.append((at, agreement(pack, readings.part(at), answers, timing.take(at))))
    return tuple(
        _joined([(at, part[i]) for at, part in parts]) for i in range(len(pack.manifest.knowledge))
    )


def _parts(pack: Pack, readings: Readings, timing: Timing) -> Iterator[NDArray[np.int64]]:
    """The table rows that are looked at together; whole traces where a condition is over time."""
    rows = np.arange(readings.base.shape[0])
    step = max(1, CELLS // (len(readings.contract.views) * max(1, len(readings.contract.columns))))
    if rows.size and over_time(pack):
        yield from whole_traces(rows, timing, step)
        return
    for start in range(0, max(1, rows.size), step):
        yield rows[start : start + step]


def _truth(model: KnowledgeModel, table: Table) -> NDArray[np.float64]:
    """The answers in the table: positions of classes, or numbers; NaN where unknown."""
    if not model.classes:
        return table.numbers(model.column)
    return class_places(table.texts(model.column), model.classes)


def label_notes(pack: Pack, table: Table) -> tuple[str, ...]:
    """Notes about answers in the table that the knowledge models do not know as a class."""
    labels = dict.fromkeys(
        (model.column, model.classes)
        for model in pack.manifest.knowledge
        if model.classes and model.column in table
    )
    return tuple(
        note for header, classes in labels for note in foreign_classes(table, header, classes)
    )


def _joined(parts: Sequence[tuple[NDArray[np.int64], Agreement]]) -> Agreement:
    """One model's counts over parts of a table, each with its table rows."""
    return replace(
        parts[0][1],
        **{
            name: sum(getattr(part, name) for _, part in parts)
            for name in (
                "samples",
                "restricted",
                "empty",
                "disjoint",
                "outside",
                "labelled",
                "right",
            )
        },
        first_empty=_first_row([(at, part.first_empty) for at, part in parts]),
        first_disjoint=_first_row([(at, part.first_disjoint) for at, part in parts]),
        first_outside=_first_row([(at, part.first_outside) for at, part in parts]),
    )


def _first_row(found: Sequence[tuple[NDArray[np.int64], int | None]]) -> int | None:
    """The first table row among those found, each at its place in a part."""
    return min((int(at[place]) for at, place in found if place is not None), default=None)
