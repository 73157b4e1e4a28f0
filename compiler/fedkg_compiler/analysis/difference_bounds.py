"""Places at which every row bounds a column or the difference of two columns: shortest paths decide
what the rows mean together, exactly and without a solver.

``x - y <= c`` is an edge from y to x of length c, ``x <= c`` one from the zero node. Rows have no
common solution exactly where a cycle is shorter than 0, and they imply ``x - y <= c`` exactly where
a path from y to x is at most c long (Dill, "Timing assumptions and verification of finite-state
concurrent systems", 1989; Bellman, "On a routing problem", 1958). Numbers are the decimals that
they print as, as for the solver.

A row may ask for this only where some values are there, and for others to be there too. Which rows
count then follows from what is known (the closure of Horn clauses).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from math import lcm
from typing import NamedTuple

import numpy as np

from fedkg.pack import And, Compare, Formula, Known, Negate, Not, Or, Param, Slot, Sum, Term
from fedkg.pack.formulas import ROWS
from fedkg_compiler.analysis.single_column_bounds import RowTable
from fedkg_compiler.formulas.formula_algebra import comparisons

HAIR = Fraction(1, 10**9)
"""Comparisons that fail by this share of their largest number may be met: units are converted in
floating point."""
MOST_ROWS = 40
"""Rows at a place that paths decide: the work grows with their cube."""
ZERO = -1
"""The node that stands for 0."""
STRICT = 1 << 16
"""Lengths are whole numbers: `STRICT` times a number of common fractions, less 1 for each strict
comparison among the edges. Of two equal bounds the strict one is tighter."""
DIGITS = 10**12
"""How much finer the common fractions are than the numbers need, for what is only just missed."""


Exact = tuple[int, int]
"""Numerator and denominator."""


class Edge(NamedTuple):
    """``target - source <= limit``, or `strict` ``<``."""

    source: int
    target: int
    limit: Exact
    strict: bool = False


Lengths = list[tuple[int, int, int]]
"""Edges as source, target and length."""


class Bound(NamedTuple):
    """What a row means: where all of `needs` have values, those of `wanted` have too, and the edges
    hold.

    Attributes:
        reads: the variables of the edges. size: the largest number of the row.
    """

    edges: tuple[Edge, ...]
    reads: frozenset[int]
    needs: frozenset[int]
    wanted: frozenset[int]
    size: float


@dataclass(frozen=True, slots=True)
class _Comparison:
    """``sum of signs * slots + sign * parameter < 0`` in a bank."""

    slots: tuple[tuple[int, int], ...]
    param: int
    sign: int
    strict: bool


@dataclass(frozen=True, slots=True)
class _Form:
    """The formula of a bank, by slots, as `Bound`."""

    comparisons: tuple[_Comparison, ...]
    needs: tuple[int, ...]
    wanted: tuple[int, ...]


class DifferenceBounds:
    """The rows of a pack as edges, made when they are asked for."""

    def __init__(self, table: RowTable) -> None:
        self.table = table
        self._forms = [_form(bank.skeleton) if not bank.members else None for bank in table.banks]
        self._bounds: dict[int, Bound | None] = {}
        self._read = cache(self._lists)
        self._span_of = cache(self._find_span)

    def at(self, rows: Sequence[int]) -> Paths | None:
        """What rows mean together, inside the declared spans.

        None if paths cannot decide it: a row is something else, or there are very many.
        """
        if len(rows) > MOST_ROWS:
            return None
        found = {}
        for row in rows:
            bound = self._bound(row)
            if bound is None:
                return None
            found[row] = bound
        reads = sorted(frozenset().union(*(bound.reads for bound in found.values())))
        return Paths(found, tuple(edge for node in reads for edge in self._span_of(node)))

    def _bound(self, row: int) -> Bound | None:
        if row not in self._bounds:
            self._bounds[row] = self._find_bound(row)
        return self._bounds[row]

    def _find_bound(self, row: int) -> Bound | None:
        bank = int(self.table.bank[row])
        form = self._forms[bank]
        if form is None or self.table.is_timed(row):
            return None
        fit, all_variables, all_params = self._read(bank)
        index = row - int(self.table.starts[bank])
        if not fit[index]:
            return None
        variables, params = all_variables[index], all_params[index]
        edges = []
        for part in form.comparisons:
            ends = {1: ZERO, -1: ZERO}
            for slot, sign in part.slots:
                ends[sign] = variables[slot]
            if ends[1] == ends[-1]:
                return None
            limit = _exact(-part.sign * params[part.param])
            edges.append(Edge(ends[-1], ends[1], limit, part.strict))
        return Bound(
            tuple(edges),
            frozenset(variables[slot] for part in form.comparisons for slot, _ in part.slots),
            frozenset(variables[slot] for slot in form.needs),
            frozenset(variables[slot] for slot in form.wanted),
            max(map(abs, params)),
        )

    def _lists(self, bank: int) -> tuple[list[bool], list[list[int]], list[list[float]]]:
        """Of each of a bank's rows whether it reads real values as they are, its variables, and
        its numbers.
        """
        form, readers = self._forms[bank], self.table.readers[bank][ROWS]
        assert form is not None
        slots = sorted({slot for part in form.comparisons for slot, _ in part.slots})
        real = np.array([item.type == "real" for item in self.table.variables.items])
        fit = real[readers.variables[:, slots]] & (readers.shifts[:, slots] == 0)
        return fit.all(axis=1).tolist(), readers.variables.tolist(), readers.params.tolist()

    def _find_span(self, node: int) -> list[Edge]:
        """The declared span of a variable."""
        low, high = self.table.variables.items[node].span
        found = [Edge(ZERO, node, _exact(high))] if high < float("inf") else []
        return [*found, Edge(node, ZERO, _exact(-low))] if low > float("-inf") else found


class Paths:
    """Rows at a place as edges, with those of the declared spans."""

    def __init__(self, bounds: Mapping[int, Bound], spans: tuple[Edge, ...]) -> None:
        self.bounds = bounds
        limits = {edge.limit[1] for bound in bounds.values() for edge in bound.edges}
        self._scale = DIGITS * lcm(*limits, *(edge.limit[1] for edge in spans))
        self._own = {
            row: [self._length(edge) for edge in bound.edges] for row, bound in bounds.items()
        }
        self._spans = [self._length(edge) for edge in spans]

    def clash(self, rows: Iterable[int], *, spans: bool = True, lenient: bool = False) -> bool:
        """Whether nothing satisfies all of these rows.

        Args:
            spans: the values lie inside the declared spans. lenient: comparisons that only just
                fail are met.
        """
        active, _ = self._kept(rows, ())
        own = self._lenient if lenient else self._own.__getitem__
        edges = [edge for row in active for edge in own(row)]
        return _distances([*edges, *(self._spans if spans else ())]) is None

    def conflict(self, rows: Sequence[int]) -> list[int] | None:
        """A minimal set of these rows that nothing satisfies, for which rows late in the order are
        left out first; None if something satisfies all.
        """
        return _minimal(rows, self.clash)

    def implying(self, row: int, rows: Sequence[int]) -> list[int] | None:
        """A minimal set of these rows without which a row could be violated, as `conflict`; [] if
        it never is; None if it may be violated where all of them are satisfied.
        """
        return _minimal(rows, lambda some: self.implies(some, row))

    def implies(self, rows: Sequence[int], row: int, *, gaps: bool = False) -> bool:
        """Whether a row is never certainly violated where rows are certainly satisfied, or (`gaps`)
        where none of them is certainly violated, whichever values are missing.
        """
        bound = self.bounds[row]
        active = self._unbroken if gaps else self._kept
        for one in bound.wanted:
            if one not in active(rows, bound.needs)[1]:
                return False
        counted, _ = active(rows, bound.needs | bound.reads)
        edges = [*(edge for one in counted for edge in self._own[one]), *self._spans]
        if not edges:
            return False
        for source, target, length in self._own[row]:
            found = _distances(edges, source)
            if found is not None and (target not in found or found[target] > length):
                return False
        return True

    def _length(self, edge: Edge, gap: Fraction | None = None) -> tuple[int, int, int]:
        numerator, denominator = edge.limit
        length = numerator * (self._scale // denominator)
        if gap is not None:
            length += int(gap * self._scale)
        return edge.source, edge.target, length * STRICT - edge.strict

    def _lenient(self, row: int) -> Lengths:
        """The edges of a row, as if comparisons that only just fail were met."""
        bound = self.bounds[row]
        gap = HAIR * max(Fraction(1, 1000), Fraction(*_exact(bound.size)))
        return [self._length(edge, None if edge.strict else gap) for edge in bound.edges]

    def _kept(
        self, rows: Iterable[int], known: Collection[int]
    ) -> tuple[list[int], Collection[int]]:
        """The rows with edges that hold where these rows are certainly satisfied and these
        variables have values, and which variables have values then.
        """
        active: list[int] = []
        found, waiting, before = set(known), list(rows), -1
        while len(waiting) != before:
            before, rest = len(waiting), []
            for row in waiting:
                bound = self.bounds[row]
                if bound.needs <= found:
                    active.append(row)
                    found |= bound.reads
                    found |= bound.wanted
                else:
                    rest.append(row)
            waiting = rest
        return active, found

    def _unbroken(
        self, rows: Iterable[int], known: Collection[int]
    ) -> tuple[list[int], Collection[int]]:
        """The same where no row is certainly violated: then as many values are missing as
        possible.
        """
        found, bounds, before = set(known), {row: self.bounds[row] for row in rows}, -1
        while len(found) != before:
            before = len(found)
            found.update(*(bound.wanted for bound in bounds.values() if bound.needs <= found))
        return [row for row, one in bounds.items() if one.needs | one.reads <= found], found


def _minimal(rows: Sequence[int], enough: Callable[[Sequence[int]], bool]) -> list[int] | None:
    """A minimal part of the rows that is enough, the late ones left out first; None if all are
    not.
    """
    if not enough(rows):
        return None
    core = list(rows)
    for row in reversed(rows):
        fewer = [other for other in core if other != row]
        if enough(fewer):
            core = fewer
    return core


def _distances(edges: Lengths, source: int | None = None) -> dict[int, int] | None:
    """The lengths of the shortest paths from a node, or (None) from anywhere; None where a cycle is
    shorter than 0.
    """
    found = (
        dict.fromkeys((node for start, end, _ in edges for node in (start, end)), 0)
        if source is None
        else {source: 0}
    )
    for _ in range(len(edges) + 1):  # a shortest path has each edge at most once
        changed = False
        for start, end, step in edges:
            before = found.get(start)
            if before is None:
                continue
            length = before + step
            known = found.get(end)
            if known is None or length < known:
                found[end] = length
                changed = True
        if not changed:
            return found
    return None


@cache
def _exact(value: float) -> Exact:
    return Decimal(repr(value)).as_integer_ratio()


def _form(skeleton: Formula) -> _Form | None:
    """What a formula says of differences; None if it says anything else."""
    parts = list(skeleton.args) if isinstance(skeleton, Or) else [skeleton]
    needs = [
        part.arg.slot for part in parts if isinstance(part, Not) and isinstance(part.arg, Known)
    ]
    rest = [part for part in parts if not (isinstance(part, Not) and isinstance(part.arg, Known))]
    if len(rest) != 1:
        return None
    inner = list(rest[0].args) if isinstance(rest[0], And) else rest
    wanted = [part.slot for part in inner if isinstance(part, Known)]
    if wanted and not needs:
        return None
    found: list[_Comparison | None] = []
    for part in inner:
        if not isinstance(part, Known):
            asked = comparisons(part)
            found += [None] if asked is None else map(_comparison, asked)
    whole = tuple(one for one in found if one is not None)
    return _Form(whole, tuple(needs), tuple(wanted)) if whole and len(whole) == len(found) else None


def _comparison(part: Compare) -> _Comparison | None:
    """The comparison as one or two slots with factors 1 and -1, and one number; else None."""
    if part.op not in ("le", "lt") or part.tolerance is not None:
        return None
    terms = [*_signed(part.left, 1), *_signed(part.right, -1)]
    slots = tuple((term.index, sign) for term, sign in terms if isinstance(term, Slot))
    params = [(term.index, sign) for term, sign in terms if isinstance(term, Param)]
    if len(params) != 1 or len(slots) + 1 != len(terms):
        return None
    if not slots or len({sign for _, sign in slots}) != len(slots):
        return None
    [(param, sign)] = params
    return _Comparison(slots, param, sign, part.op == "lt")


def _signed(term: Term, sign: int) -> Iterable[tuple[Term, int]]:
    match term:
        case Sum():
            for arg in term.args:
                yield from _signed(arg, sign)
        case Negate():
            yield from _signed(term.arg, -sign)
        case _:
            yield term, sign
