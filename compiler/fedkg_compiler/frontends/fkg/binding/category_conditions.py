"""``grade is D``, ``variant is ?p``: classes that the model predicts, and categories in the data.

``past grade is A`` reads the class that was observed one step earlier, of a label too.

Letter: R rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedkg._internal.name_matching import did_you_mean
from fedkg.pack import CategoryIs, ClassIn, Formula, Not, Or, Sum
from fedkg.tables import truth
from fedkg.units.text import parse_unit
from fedkg.units.unit import Unit
from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.frontends.fkg.binding.previous_step_value import one_step_back
from fedkg_compiler.frontends.fkg.binding.scope import (
    DeclaredLabel,
    Moving,
    Place,
    Reading,
    Readings,
    Scope,
    Value,
    is_truth,
)
from fedkg_compiler.frontends.fkg.binding.signal_columns import variables_of
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Apply,
    Expression,
    IsClass,
    Membership,
    Past,
    Reference,
    Word,
)
from fedkg_compiler.ir import BookColumn


def is_class(node: IsClass, scope: Scope) -> Formula | None:
    """The atom for ``subject is [not] value``."""
    if isinstance(node.subject, Reference) and node.subject.name in scope.names.labels:
        label = scope.names.labels[node.subject.name]
        texts = _texts(node, scope)
        word = (
            replace(node.value, text=f"?{node.value.text}")
            if node.form == "variable"
            else node.value
        )
        return None if texts is None else _predicted([texts], node.negated, label, (word,), scope)
    key = _key_of(node.subject, scope)
    reading = None if key is None else scope.readings.get(*key)
    if key is None or reading is None:
        return None
    texts = _texts(node, scope)
    if not _holds_categories(reading, node.subject, scope) or texts is None:
        return None
    atom = _category_atom(key, reading, texts, node.subject, node.value.span, scope)
    return None if atom is None else Not(arg=atom) if node.negated else atom


def membership(node: Membership, scope: Scope) -> Formula | None:
    """The formula of ``subject in A, B`` and of ``subject not in A, B``."""
    values = tuple({word.text: word for word in reversed(node.values)}.values())[::-1]
    columns = [(word.text,) * scope.rows.count for word in values]
    if isinstance(node.subject, Reference) and node.subject.name in scope.names.labels:
        return _predicted(
            columns, node.negated, scope.names.labels[node.subject.name], values, scope
        )
    key = _key_of(node.subject, scope)
    reading = None if key is None else scope.readings.get(*key)
    if key is None or reading is None or not _holds_categories(reading, node.subject, scope):
        return None
    atoms = [
        _category_atom(key, reading, texts, node.subject, word.span, scope)
        for texts, word in zip(columns, values, strict=True)
    ]
    known = tuple(atom for atom in atoms if atom is not None)
    if len(known) < len(atoms):
        return None
    formula = known[0] if len(known) == 1 else Or(args=known)
    return Not(arg=formula) if node.negated else formula


def probability(node: Apply, scope: Scope) -> Value | None:
    """``probability(grade, A, B)``: the sum of the classes' scores, which are probabilities
    then.
    """
    subject, *classes = node.args
    assert isinstance(subject, Reference)
    label = scope.names.labels.get(subject.name)
    if label is None:
        if subject.name not in scope.names.broken:
            otherwise = (
                "name a label, which is declared with its classes: label grade classes A, B, C"
                if subject.name in scope.names.signals
                else f"declare it: label {subject.name} classes A, B, C"
            )
            near = did_you_mean(subject.name, scope.names.labels, otherwise)
            scope.problems.error(
                "FKG230",
                subject.span,
                f"`{subject.name}` is not a label: only classes of labels have probabilities",
                near,
            )
        return None
    words = [Word(span=arg.span, text=arg.name) for arg in classes if isinstance(arg, Reference)]
    if len(words) < len(node.args) - 1 or not words or node.named:
        scope.problems.error(
            "FKG205",
            node.span,
            "`probability` takes a label and some of its classes",
            f"write probability({label.name}, {label.classes[0]})",
        )
        return None
    if not all(_is_class_of(word.text, word, label, scope) for word in words):
        return None
    unit = parse_unit("probability")
    assert isinstance(unit, Unit)
    for name in label.classes:  # all classes, so that logits can be normalised to probabilities
        scope.book.measure(scope.book.column(score_column(label, name)), unit)
    slots = []
    for word in {word.text: word for word in words}.values():
        column = scope.book.column(score_column(label, word.text))
        ids = np.full(scope.rows.count, column, dtype=np.int64)
        slots.append(
            scope.rows.slot(
                (label.name, word.text, scope.view.key, "probability"),
                ids,
                scope.view.ids,
                "output",
            )
        )
    return Moving(
        term=slots[0] if len(slots) == 1 else Sum(args=tuple(slots)),
        unit=unit,
        span=node.span,
        plain=True,
    )


def _key_of(subject: Expression, scope: Scope) -> tuple[str, str] | None:
    """What a subject reads."""
    if isinstance(subject, Reference):
        return subject.name, ""
    if isinstance(subject, Apply) and (variables := variables_of(subject)) is not None:
        return subject.name.text, variables
    scope.problems.error(
        "FKG230",
        subject.span,
        "only a label or a column has classes",
        "write its name before `is`, as in: grade is D",
    )
    return None


def _holds_categories(reading: Reading, subject: Expression, scope: Scope) -> bool:
    """Return whether the columns contain texts; columns of outputs never do."""
    if reading.role != "output":
        return True
    message = f"`{reading.name}` is an output with numbers; a class is predicted by a label"
    scope.problems.error(
        "FKG209",
        subject.span,
        message,
        "compare the output with a number, or declare it as a label in place of the output: label"
        f" {reading.name} classes A, B, C",
    )
    return False


def _category_atom(
    key: tuple[str, str],
    reading: Reading,
    texts: tuple[str, ...],
    subject: Expression,
    at: Span,
    scope: Scope,
) -> Formula | None:
    """The atom for one text in each row; of a column of truth values, for the one of its two texts
    that is meant.
    """
    entries = [scope.book.columns[place.column] for place in reading.places]
    if any(entry.type == "boolean" for entry in entries):
        return _truth(key, reading, texts, at, scope)
    columns = []
    for entry, text in zip(entries, texts, strict=True):
        if entry.unit is not None or entry.span is not None:
            message = (
                f"`{reading.name}` is a number{' in ' + entry.unit.text if entry.unit else ''}, not"
                " a category"
            )
            scope.problems.error(
                "FKG209",
                subject.span,
                message,
                "compare it with a number; if the column contains texts, state neither a unit nor a"
                " span for it",
            )
            return None
        column = category(entry.source, entry.name, scope)
        scope.book.say(column, text)
        columns.append(column)
    ids = np.array(columns, dtype=np.int64)
    slot = scope.rows.slot((*key, scope.view.key, "category"), ids, scope.view.ids, "input")
    return CategoryIs(slot=slot.index, param=scope.rows.codes(ids, texts))


def _truth(
    key: tuple[str, str], reading: Reading, texts: tuple[str, ...], at: Span, scope: Scope
) -> Formula | None:
    """Read ``running is on`` as ``running is true``: the codes are the numbers in the column."""
    words = {text: truth(text) for text in texts}
    wrong = next((text for text, value in words.items() if value is None), None)
    if wrong is not None:
        message = f"`{reading.name}` is true or false, and `{wrong}` is neither"
        scope.problems.error(
            "FKG281", at, message, f"write {reading.name} is true, or {reading.name} is false"
        )
        return None
    slot = scope.rows.slot((*key, scope.view.key), reading.columns, scope.view.ids, reading.role)
    return is_truth(slot, np.array([words[text] for text in texts], dtype=np.bool_), scope.rows)


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


def _is_class_of(text: str, word: Word, label: DeclaredLabel, scope: Scope) -> bool:
    if text in label.classes:
        return True
    advice = did_you_mean(text, label.classes, f"its classes are {', '.join(label.classes)}")
    scope.problems.error(
        "FKG210", word.span, f"the label `{label.name}` has no class `{text}`", advice
    )
    return False


def _predicted(
    columns: Sequence[tuple[str, ...]],
    negated: bool,
    label: DeclaredLabel,
    words: Sequence[Word],
    scope: Scope,
) -> Formula | None:
    """The arg-max of a label's scores is one of the classes; ties count for them, and against their
    negation.

    Args:
        columns: for each class in the condition, its text in every row, [R].
        negated: whether the condition is ``is not`` or ``not in``.
        label: the label that is predicted.
        words: the place of each class in the source, in the order of `columns`.
    """
    for texts, word in zip(columns, words, strict=True):
        if not all(_is_class_of(text, word, label, scope) for text in dict.fromkeys(texts)):
            return None
    if len(label.classes) < 2:
        return None
    if len(columns) >= len(label.classes):
        holds = "never" if negated else "always"
        message = f"these are all classes of `{label.name}`: this {holds} holds"
        scope.problems.error(
            "FKG282", words[-1].span, message, "remove a class, or remove the condition"
        )
        return None
    ids = {name: scope.book.column(score_column(label, name)) for name in label.classes}
    others = [
        [name for name in label.classes if name not in row] for row in zip(*columns, strict=True)
    ]
    key = (label.name, *(word.text for word in words), scope.view.key)

    def slots(part: str, names: Sequence[Sequence[str]]) -> tuple[int, ...]:
        arrays = [np.array([ids[name] for name in column], dtype=np.int64) for column in names]
        return tuple(
            scope.rows.slot((*key, part, i), array, scope.view.ids, "output").index
            for i, array in enumerate(arrays)
        )

    width = len(label.classes) - len(columns)
    inside = slots("inside", columns)
    outside = slots("outside", [[row[j] for row in others] for j in range(width)])
    if negated:
        return ClassIn(inside=outside, outside=inside, strict=True)
    return ClassIn(inside=inside, outside=outside)


def score_column(label: DeclaredLabel, name: str) -> BookColumn:
    """The column of one class of a label."""
    return BookColumn(
        name=f"{label.name}[{name}]",
        source=label.column,
        type="score",
        role="output",
        label=label.name,
        category=name,
    )


def past_class(node: IsClass | Membership, subject: Past, scope: Scope) -> Formula | None:
    """The atom for ``past subject is value`` and ``past subject in values``."""
    earlier = one_step_back(subject.span, scope)
    if earlier is None:
        return None
    if isinstance(subject.arg, Reference) and subject.arg.name in scope.names.labels:
        earlier = _as_data(subject.arg.name, earlier)
    if isinstance(node, IsClass):
        return is_class(replace(node, subject=subject.arg), earlier)
    return membership(replace(node, subject=subject.arg), earlier)


def _as_data(name: str, scope: Scope) -> Scope:
    """The scope in which a label is a column of categories: what was observed, not what is
    predicted.
    """
    label = scope.names.labels[name]
    column = scope.book.column(BookColumn(name=f"{name} (history)", source=label.column))
    reading = Reading(name=name, places=(Place(column=column),) * scope.rows.count)
    labels = {other: entry for other, entry in scope.names.labels.items() if other != name}
    return replace(
        scope,
        names=replace(scope.names, labels=labels),
        readings=Readings(
            found={**scope.readings.found, (name, ""): reading}, headers=scope.readings.headers
        ),
    )
