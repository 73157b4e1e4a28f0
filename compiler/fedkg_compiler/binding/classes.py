"""``grade is D``, ``variant is ?p``: classes that the model predicts, and categories in the data.

Letter: R rows.
"""

from __future__ import annotations

import numpy as np

from fedkg.nearest import did_you_mean
from fedkg.pack import CategoryIs, ClassIn, Formula, Not
from fedkg_compiler.binding.book import BookColumn
from fedkg_compiler.binding.names import DeclaredLabel
from fedkg_compiler.binding.scope import Scope
from fedkg_compiler.syntax.tree import Apply, IsClass, Reference, Variable


def is_class(node: IsClass, scope: Scope) -> Formula | None:
    """The atom for ``subject is [not] value``."""
    subject = node.subject
    if isinstance(subject, Reference) and subject.name in scope.names.labels:
        return _predicted(node, scope.names.labels[subject.name], scope)
    if isinstance(subject, Reference):
        key = subject.name, ""
    elif isinstance(subject, Apply) and len(subject.args) == 1 and isinstance(subject.args[0], Variable):
        key = subject.name.text, subject.args[0].name
    else:
        scope.problems.error("FKG230", subject.span, "only a label or a column can be a class", "write: grade is D")
        return None
    reading = scope.readings.get(*key)
    if reading is None:
        return None
    texts = _texts(node, scope)
    if reading.role == "output":
        message = f"`{reading.name}` is an output with numbers; a class is predicted by a label"
        scope.problems.error("FKG209", subject.span, message, f"declare: label {reading.name} classes A, B, C")
        return None
    if texts is None:
        return None
    columns = []
    for place, text in zip(reading.places, texts, strict=True):
        entry = scope.book.columns[place.column]
        if entry.unit is not None or entry.span is not None:
            message = f"`{reading.name}` is a number{' in ' + entry.unit.text if entry.unit else ''}, not a category"
            scope.problems.error("FKG209", subject.span, message, "compare it with a number, or take unit and span out of its declaration")
            return None
        column = category(entry.source, entry.name, scope)
        scope.book.say(column, text)
        columns.append(column)
    ids = np.array(columns, dtype=np.int64)
    slot = scope.rows.slot((*key, scope.view.key, "category"), ids, scope.view.ids, "input")
    atom = CategoryIs(slot=slot.index, param=scope.rows.codes(ids, texts))
    return Not(arg=atom) if node.negated else atom


def category(source: str, name: str, scope: Scope) -> int:
    """The id of the category column under a header."""
    return scope.book.column(BookColumn(name=name, source=source, type="category"))


def _texts(node: IsClass, scope: Scope) -> tuple[str, ...] | None:
    """The class or category on the right, for each row."""
    if node.form != "variable":
        return (node.value.text,) * scope.rows.count
    environment = scope.environment
    name = node.value.text
    if name not in environment.cells:
        scope.problems.error(
            "FKG201",
            node.value.span,
            f"no quantifier of this rule binds ?{name}",
            did_you_mean(name, environment.cells, f"bind it: for ?{name} where {{ ... }}"),
        )
        return None
    if not environment.known:
        return None
    return tuple("" if cell is None else cell.category for cell in environment.cells[name])


def _predicted(node: IsClass, label: DeclaredLabel, scope: Scope) -> Formula | None:
    """The arg-max of a label's scores is the class; ties count for it, and against ``is not``."""
    texts = _texts(node, scope)
    if texts is None:
        return None
    for text in dict.fromkeys(texts):
        if text not in label.classes:
            advice = did_you_mean(text, label.classes, f"its classes are {', '.join(label.classes)}")
            scope.problems.error("FKG210", node.value.span, f"the label `{label.name}` has no class `{text}`", advice)
            return None
    if len(label.classes) < 2:
        return None
    ids = {name: scope.book.column(_score(label, name)) for name in label.classes}
    mine = np.array([ids[text] for text in texts], dtype=np.int64)
    others = [[ids[name] for name in label.classes if name != text] for text in texts]
    key = (label.name, node.value.text, node.form, scope.view.key)
    inside = scope.rows.slot((*key, "inside"), mine, scope.view.ids, "output")
    outside = tuple(
        scope.rows.slot((*key, i), np.array([row[i] for row in others], dtype=np.int64), scope.view.ids, "output").index
        for i in range(len(label.classes) - 1)
    )
    if node.negated:
        return ClassIn(inside=outside, outside=(inside.index,), strict=True)
    return ClassIn(inside=(inside.index,), outside=outside)


def _score(label: DeclaredLabel, name: str) -> BookColumn:
    return BookColumn(name=f"{label.name}[{name}]", source=label.column, type="score", role="output", label=label.name, category=name)
