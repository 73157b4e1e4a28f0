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

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import lcm

from fedkg.pack import And, Compare, Formula, Known, Negate, Not, Or, Param, Slot, Sum, Term
from fedkg.pack.walk import ROWS
from fedkg_compiler.analysis.bound_row_table import RowTable
from fedkg_compiler.analysis.negation_normal_form import comparisons

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


@dataclass(frozen=True, slots=True)
class Edge:
    """``target - source <= limit``, or `strict` ``<``."""

    source: int
    target: int
    limit: Fraction
    strict: bool = False


Lengths = list[tuple[int, int, int]]
"""Edges as source, target and length."""


@dataclass(frozen=True, slots=True)
class Bound:
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
        return Paths(
            found, tuple(self._spans(frozenset().union(*(b.reads for b in found.values()))))
        )

    def _bound(self, row: int) -> Bound | None:
        if row not in self._bounds:
            self._bounds[row] = self._find_bound(row)
        return self._bounds[row]

    def _find_bound(self, row: int) -> Bound | None:
        bank = int(self.table.bank[row])
        form = self._forms[bank]
        if form is None or self.table.is_timed(row):
            return None
        items, index = self.table.variables.items, int(row - self.table.starts[bank])
        all_variables, all_shifts, all_params = self._read(bank)
        variables, shifts = all_variables[index], all_shifts[index]
        params = all_params[index]
        edges = []
        for part in form.comparisons:
            ends = {1: ZERO, -1: ZERO}
            for slot, sign in part.slots:
                if shifts[slot] or items[variables[slot]].type != "real":
                    return None
                ends[sign] = variables[slot]
            if ends[1] == ends[-1]:
                return None
            limit = -part.sign * _exact(params[part.param])
            edges.append(Edge(ends[-1], ends[1], limit, part.strict))
        return Bound(
            tuple(edges),
            frozenset(node for edge in edges for node in (edge.source, edge.target)) - {ZERO},
            frozenset(variables[slot] for slot in form.needs),
            frozenset(variables[slot] for slot in form.wanted),
            max(map(abs, params)),
        )

    def _lists(self, bank: int) -> tuple[list[list[int]], list[list[float]], list[list[float]]]:
        """Variables, shifts and numbers of a bank's rows."""
        readers = self.table.readers[bank][ROWS]
        return readers.variables.tolist(), readers.shifts.tolist(), readers.params.tolist()

    def _spans(self, variables: Iterable[int]) -> Iterator[Edge]:
        for node in sorted(variables):
            low, high = self.table.variables.items[node].span
            if high < float("inf"):
                yield Edge(ZERO, node, _exact(high))
            if low > float("-inf"):
                yield Edge(node, ZERO, -_exact(low))


class Paths:
    """Rows at a place as edges, with those of the declared spans."""

    def __init__(self, bounds: Mapping[int, Bound], spans: tuple[Edge, ...]) -> None:
        self.bounds = bounds
        limits = [edge.limit for bound in bounds.values() for edge in bound.edges]
        limits += [edge.limit for edge in spans]
        self._scale = DIGITS * lcm(*(limit.denominator for limit in limits))
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
        for source, target, length in self._own[row]:
            found = _distances(edges, source)
            if found is not None and (target not in found or found[target] > length):
                return False
        return True

    def _length(self, edge: Edge, gap: Fraction = Fraction(0)) -> tuple[int, int, int]:
        length = int((edge.limit + gap) * self._scale) * STRICT - edge.strict
        return edge.source, edge.target, length

    def _lenient(self, row: int) -> Lengths:
        """The edges of a row, as if comparisons that only just fail were met."""
        bound = self.bounds[row]
        gap = HAIR * max(Fraction(1, 1000), _exact(bound.size))
        return [self._length(edge, Fraction(0) if edge.strict else gap) for edge in bound.edges]

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
    nodes = {node for start, end, _ in edges for node in (start, end)}
    found = dict.fromkeys(nodes if source is None else {source}, 0)
    for _ in range(len(nodes) + 1):
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
def _exact(value: float) -> Fraction:
    return Fraction(repr(value))


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
