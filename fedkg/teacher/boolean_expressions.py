"""Boolean expressions over literals at steps, stored once each, for the remaining formula along a
trace.

An expression is a number. Conjunctions and disjunctions are flat, without repetition, and without
parts that another part implies (absorption), so equivalent expressions mostly have the same number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Literal

TRUE, FALSE = 0, 1
Kind = Literal["and", "or", "literal", "constant"]


class Expressions:
    """A table of expressions.

    Attributes:
        first: the earliest step in each expression.
    """

    def __init__(self) -> None:
        self._nodes: list[tuple[Kind, frozenset[int] | tuple[int, int]]] = [
            ("constant", (0, 0)),
            ("constant", (1, 0)),
        ]
        self._numbers: dict[tuple[Kind, frozenset[int] | tuple[int, int]], int] = {}
        self.first: list[int] = [10**9, 10**9]

    def literal(self, step: int, number: int) -> int:
        """A literal at a step."""
        return self._store(("literal", (step, number)), step)

    def all_of(self, parts: Iterable[int]) -> int:
        """The conjunction."""
        return self._joined("and", parts)

    def any_of(self, parts: Iterable[int]) -> int:
        """The disjunction."""
        return self._joined("or", parts)

    def parts(self, expression: int) -> frozenset[int]:
        """The conjuncts of an expression; the expression itself if it is not a conjunction."""
        kind, inner = self._nodes[expression]
        return inner if kind == "and" and isinstance(inner, frozenset) else frozenset([expression])

    def literals(self, expression: int, at: int | None = None) -> frozenset[int]:
        """The literals in an expression, at one step or at any."""
        found: set[int] = set()
        seen, left = {expression}, [expression]
        while left:
            kind, inner = self._nodes[one := left.pop()]
            if at is not None and self.first[one] > at:
                continue
            if kind == "literal" and isinstance(inner, tuple):
                if at is None or inner[0] == at:
                    found.add(inner[1])
            elif isinstance(inner, frozenset):
                left += inner - seen
                seen |= inner
        return frozenset(found)

    def node(self, expression: int) -> tuple[Kind, Any]:
        """The kind of an expression with its parts, or with the step and number of a literal."""
        return self._nodes[expression]

    def descendants(self, expression: int) -> list[int]:
        """The expression and all its subexpressions, once each."""
        found, left = {expression: None}, [expression]
        while left:
            kind, inner = self._nodes[left.pop()]
            if kind in ("and", "or"):
                left += [part for part in inner if part not in found]
                found |= dict.fromkeys(inner)
        return list(found)

    def advance(
        self, expression: int, step: int, true: Collection[int], known: dict[int, int]
    ) -> int:
        """The remaining expression after a step at which these literals are true and all others
        false.

        The expression must not contain earlier steps. `known` caches results for one step and
        letter.
        """
        if self.first[expression] > step:
            return expression
        if expression in known:
            return known[expression]
        kind, inner = self._nodes[expression]
        if kind == "literal" and isinstance(inner, tuple):
            result = TRUE if inner[1] in true else FALSE
        else:
            assert isinstance(inner, frozenset)
            result = self._joined(
                "and" if kind == "and" else "or",
                (self.advance(part, step, true, known) for part in inner),
            )
        known[expression] = result
        return result

    def _joined(self, kind: Literal["and", "or"], parts: Iterable[int]) -> int:
        neutral, absorbing = (TRUE, FALSE) if kind == "and" else (FALSE, TRUE)
        flat: set[int] = set()
        for part in parts:
            if part == absorbing:
                return absorbing
            own, inner = self._nodes[part]
            if own == kind and isinstance(inner, frozenset):
                flat |= inner
            elif part != neutral:
                flat.add(part)
        if len(flat) > 1:
            flat = self._absorbed("or" if kind == "and" else "and", flat)
        if len(flat) < 2:
            return next(iter(flat), neutral)
        return self._store((kind, frozenset(flat)), min(self.first[part] for part in flat))

    def _absorbed(self, inner: Kind, parts: set[int]) -> set[int]:
        """Remove the parts that another part implies: clauses that contain another clause."""
        sets = {
            part: kept
            if (node := self._nodes[part])[0] == inner and isinstance(kept := node[1], frozenset)
            else frozenset([part])
            for part in parts
        }
        ordered = sorted(parts, key=lambda part: len(sets[part]))
        if len(sets[ordered[-1]]) == 1:
            return parts
        kept_parts: list[int] = []
        for part in ordered:
            if len(sets[part]) == 1 or not any(
                sets[smaller] <= sets[part] for smaller in kept_parts
            ):
                kept_parts.append(part)
        return set(kept_parts)

    def _store(self, node: tuple[Kind, frozenset[int] | tuple[int, int]], first: int) -> int:
        if node not in self._numbers:
            self._numbers[node] = len(self._nodes)
            self._nodes.append(node)
            self.first.append(first)
        return self._numbers[node]
