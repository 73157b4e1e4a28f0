"""Boolean expressions over literals at steps, each kept once: what is left of a formula while a trace is gone through.

An expression is a number. Conjunctions and disjunctions are flat, without repetition, and a part that another one implies is left out
(absorption), so that expressions which ask the same are mostly the same number.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Literal

TRUE, FALSE = 0, 1
Kind = Literal["and", "or", "literal", "constant"]


class Expressions:
    """A table of expressions.

    Attributes:
        first: the earliest step that each expression speaks of.
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
        return self._kept(("literal", (step, number)), step)

    def all_of(self, parts: Iterable[int]) -> int:
        """The conjunction."""
        return self._joined("and", parts)

    def any_of(self, parts: Iterable[int]) -> int:
        """The disjunction."""
        return self._joined("or", parts)

    def parts(self, expression: int) -> frozenset[int]:
        """What an expression is the conjunction of: itself, where it is none."""
        kind, inner = self._nodes[expression]
        return inner if kind == "and" and isinstance(inner, frozenset) else frozenset([expression])

    def literals(self, expression: int, at: int | None = None) -> frozenset[int]:
        """The literals that an expression speaks of, at one step or at any."""
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
        """What an expression is: a conjunction or disjunction with its parts, or a literal with its step and number."""
        return self._nodes[expression]

    def below(self, expression: int) -> list[int]:
        """The expression and all it is made of, each once."""
        found, left = {expression: None}, [expression]
        while left:
            kind, inner = self._nodes[left.pop()]
            if kind in ("and", "or"):
                left += [part for part in inner if part not in found]
                found |= dict.fromkeys(inner)
        return list(found)

    def after(
        self, expression: int, step: int, true: Collection[int], known: dict[int, int]
    ) -> int:
        """What is left once a step is over at which these literals are true, all others false; `known` remembers, for one step and letter.

        Nothing in the expression may speak of earlier steps.
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
                (self.after(part, step, true, known) for part in inner),
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
        return self._kept((kind, frozenset(flat)), min(self.first[part] for part in flat))

    def _absorbed(self, inner: Kind, parts: set[int]) -> set[int]:
        """Without the parts that another part implies: of clauses those that contain another one."""
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

    def _kept(self, node: tuple[Kind, frozenset[int] | tuple[int, int]], first: int) -> int:
        if node not in self._numbers:
            self._numbers[node] = len(self._nodes)
            self._nodes.append(node)
            self.first.append(first)
        return self._numbers[node]
