"""``x never falls per group``, ``x never falls as y rises``: one value compared with itself in
another view.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedkg.pack import Formula, Slot, atoms, subterms
from fedkg_compiler.frontends.fkg.binding.scope import Fixed, Scope, View, as_held, compare
from fedkg_compiler.frontends.fkg.syntax.tree import Head, Monotone
from fedkg_compiler.ir import BookView, quoted

STEP = 1 / 20
"""By how much of its declared span a feature is raised."""


def monotone(node: Monotone, scope: Scope) -> Formula | None:
    """The comparison of the value with the one before it, or with the one where the feature is
    higher.
    """
    view = _previous(node, scope) if node.feature is None else _raised(node, node.feature, scope)
    here = scope.bind_value(node.subject, scope)
    if here is None or view is None:
        return None
    there = scope.bind_value(node.subject, replace(scope, view=view))
    if there is None:
        return None
    if isinstance(here, Fixed) or isinstance(there, Fixed):
        scope.problems.error(
            "FKG226",
            node.subject.span,
            "this is a fixed number, which neither rises nor falls",
            "name a signal",
        )
        return None
    before, after = (there, here) if node.feature is None else (here, there)
    low, high = (before, after) if node.direction == "falls" else (after, before)
    unit = as_held(here).unit
    scope.compared.append(unit.step().text if unit else "")
    formula = compare("<=", low.term, high.term, None, scope.rows)
    if node.feature is not None and not _predicts(formula):
        scope.problems.error(
            "FKG226",
            node.subject.span,
            f"this reads no output: measured data does not change when {node.feature.name.text} is"
            " raised",
            f"name an output of the model: OUTPUT never {node.direction} as"
            f" {node.feature.name.text} rises",
        )
        return None
    return formula


def _predicts(formula: Formula) -> bool:
    sides = [
        side
        for atom in atoms(formula)
        if atom.kind == "compare"
        for side in (atom.left, atom.right)
    ]
    return any(
        isinstance(term, Slot) and term.role == "output"
        for side in sides
        for term in subterms(side)
    )


def _previous(node: Monotone, scope: Scope) -> View | None:
    """The view of the row before: among those of the group, and of the entities that select the
    table rows.
    """
    group = () if node.group is None else (scope.readings.headers.get(node.group.text),)
    if None in group:
        return None
    views = [
        BookView(
            kind="previous",
            groups=tuple(
                dict.fromkeys(
                    [*(header for header in group if header), *(header for header, _ in keys)]
                )
            ),
        )
        for keys in scope.keys
    ]
    key = f"previous {node.group.text if node.group else ''}"
    return View(key=key, ids=np.array([scope.book.view(view) for view in views], dtype=np.int64))


def _raised(node: Monotone, feature: Head, scope: Scope) -> View | None:
    """The view in which the feature is higher by a twentieth of its span, for each row."""
    name, variable = feature.name.text, feature.variable.text if feature.variable else ""
    if node.group is not None:
        scope.problems.error(
            "FKG224",
            node.group.span,
            "`per` cannot be combined with `as ... rises`, which compares a row with itself",
            "remove one of them",
        )
        return None
    reading = scope.readings.get(name, variable)
    if reading is None:
        if name in scope.names.labels:
            message = (
                f"`{name}` is a label, which is predicted: only a signal of the data can be raised"
            )
            scope.problems.error("FKG225", feature.span, message, "name a signal")
        return None
    if reading.role == "output":
        scope.problems.error(
            "FKG225",
            feature.span,
            f"`{name}` is predicted: only a signal of the data can be raised",
            "name a signal",
        )
        return None
    ids = []
    for column in reading.columns.tolist():
        entry = scope.book.columns[column]
        if entry.span is None:
            scope.problems.error(
                "FKG223",
                feature.span,
                f"`{name}` has no span, so fedkg does not know by how much to raise it",
                f"declare its span: signal {quoted(name)} ... span 0 .. 100",
            )
            return None
        delta = (entry.span[1] - entry.span[0]) * STEP
        ids.append(scope.book.view(BookView(kind="raised", column=column, delta=delta)))
    return View(key=f"raised {name}({variable})", ids=np.array(ids, dtype=np.int64))
