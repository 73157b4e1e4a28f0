"""Bound rows as formulas of the solver z3.

A row becomes the condition under which it is *certainly* satisfied (or, denied, certainly
violated): comparisons are asked together with what makes their terms known (a divisor that is not
zero, a slot that has a value if a rule asks for it). Numbers are taken as the decimals that
they print as. Where an exact form does not exist (a transcendental function, a window of many
steps) the formula is weakened, never strengthened: what has no solution here has none at all.

Steps of a trace are copies of the variables: ``(anchor, offset)``. The anchor 0 is now; others are
steps that lie somewhere. The next step of a row with keys is the next table row that has them: rows
of several keys that look at other steps have separate anchors. An anchor lies inside its trace, a
step beside it may lie beyond: a window that meets the end of the trace asks nothing there
(`DataContract.end` "clip", and every window without an end), or cannot be certain of it ("strict").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import count, islice
from typing import Any

import z3

from fedkg.pack import (
    And,
    AtLeast,
    CategoryIs,
    ClassIn,
    Compare,
    Formula,
    Implies,
    Initially,
    Known,
    Not,
    Or,
    Temporal,
    Term,
    Until,
)
from fedkg.pack.walk import ROWS
from fedkg_compiler.reason.bound_row_table import Keys, RowTable
from fedkg_compiler.reason.negation_normal_form import looks_for_gaps
from fedkg_compiler.reason.z3_terms import Value, term_value

Step = tuple[int, int]
NOW: Step = (0, 0)
LONGEST, LONGER, LARGEST = 8, 400, 4000
"""Windows of more steps are weakened, or (`bounded`) narrowed; formulas with more parts are not
looked at."""
Z3 = Any
"""z3 has no types."""


class TooLarge(Exception):
    """A formula has too many parts to be looked at."""


class Translator:
    """Turns rows into formulas, and keeps the variables that they read.

    Attributes:
        copies: the solver's variable for each variable and step.
        weakened: whether any formula was weakened, so that only the answer "no" can be relied on.
        parts: the number of parts of formulas that were written so far.
        lenient: what is added to the tolerance of each comparison, in parts per billion of the
            largest number in its row; negative to make comparisons stricter.
        bounded: windows of many steps are narrowed to their first steps, and the trace ends there.
        narrowed: whether any window was narrowed.
        timelines: the keysets of rows with windows.
        somewhere: the keyset of each anchor above 0, by anchor.
        clip: whether windows end with the trace.
        inside: for each step that may lie outside its trace, the condition that it lies inside.
    """

    def __init__(
        self, table: RowTable, rows: Sequence[int], *, lenient: float = 0.0, bounded: bool = False
    ) -> None:
        self.table, self.lenient, self.bounded = table, lenient, bounded
        self.longest = LONGER if bounded else LONGEST
        self.narrowed = False
        self.copies: dict[tuple[int, Step], Z3] = {}
        self.known: dict[tuple[int, Step], Z3] = {}
        self.weakened = False
        self.fresh = count(1)
        self.applied: dict[str, list[Z3]] = {}
        self.parts = 0
        self.clip = table.pack.manifest.contract.end == "clip"
        self.inside: dict[Step, Z3] = {}
        self.timelines = sorted({int(table.keyset[row]) for row in rows if table.is_timed(row)})
        self.somewhere: dict[int, int] = {}
        self.knowable: set[int] = set()
        banks = {
            bank
            for bank in set(table.bank[[*rows]].tolist())
            if looks_for_gaps(table.banks[bank].skeleton)
        }
        for row in rows:
            if int(table.bank[row]) in banks:
                self.knowable |= table.reads(row)

    def row(
        self, row: int, step: Step = NOW, *, positive: bool = True, part: Formula | None = None
    ) -> Z3:
        """When a row (or this part of its formula) is certainly satisfied, or, not `positive`,
        certainly violated.
        """
        bank = int(self.table.bank[row])
        place = _Place(
            self, bank, ROWS, int(row - self.table.starts[bank]), step, int(self.table.keyset[row])
        )
        return place.formula(self.table.banks[bank].skeleton if part is None else part, positive)

    def term(self, row: int, term: Term) -> Value:
        """The value now of a term over a row's slots and parameters. Raises TooLarge."""
        bank = int(self.table.bank[row])
        return term_value(
            term,
            _Place(
                self,
                bank,
                ROWS,
                int(row - self.table.starts[bank]),
                NOW,
                int(self.table.keyset[row]),
            ),
        )

    def variable(self, number: int, step: Step) -> Z3:
        """The solver's variable."""
        if (number, step) not in self.copies:
            kind = z3.Int if self.table.variables.items[number].type == "category" else z3.Real
            self.copies[number, step] = kind(f"x{number}@{step[0]}:{step[1]}")
        return self.copies[number, step]

    def has_value(self, number: int, step: Step) -> list[Z3]:
        """When a variable has a value: [] where it always has."""
        if number not in self.knowable:
            return []
        if (number, step) not in self.known:
            self.known[number, step] = z3.Bool(f"k{number}@{step[0]}:{step[1]}")
        return [self.known[number, step]]

    def anchor(self, keyset: int) -> int:
        """The anchor of the steps around now that rows with these keys look at.

        The first step of the trace has the one before it.
        """
        return 0 if len(self.timelines) < 2 else -2 * self.timelines.index(keyset) - 2

    def keys_at(self, anchor: int) -> Keys:
        """What all table rows have that an anchor's steps can be."""
        if anchor > 0:
            return self.table.keysets[self.somewhere[anchor]]
        return self.table.keysets[
            self.timelines[0 if len(self.timelines) < 2 else -anchor // 2 - 1]
        ]

    def is_inside(self, step: Step) -> list[Z3]:
        """When a step lies inside its trace, which has no holes: [] where it always does."""
        anchor, offset = step
        if offset and step not in self.inside:
            nearer = self.is_inside((anchor, offset - 1 if offset > 0 else offset + 1))
            self.inside[step] = all_of([z3.Bool(f"t@{anchor}:{offset}"), *nearer])
        return [self.inside[step]] if offset else []

    def background(self, first: int = 0, *, spans: bool = True, width: float = 0.0) -> list[Z3]:
        """What holds of all variables met so far: their types and, where asked, their spans,
        widened by a share of their width.

        `first`: how many of them, in the order in which they were met, are left out.
        """
        found: list[Z3] = []
        for (number, _), variable in islice(self.copies.items(), first, None):
            entry = self.table.variables.items[number]
            if entry.type == "category":
                found += [variable >= -1, variable < max(1, entry.codes)]
            elif entry.type == "boolean":
                found.append(z3.Or(variable == 0, variable == 1))
            elif spans:
                low, high = entry.span
                more = (
                    width * (high - low)
                    if high - low < float("inf")
                    else width * max(1.0, abs(low) if low > -1e308 else abs(high))
                )
                found += [variable >= number_of(low - more)] if low > float("-inf") else []
                found += [variable <= number_of(high + more)] if high < float("inf") else []
        return found

    def tick(self) -> None:
        """Count a part. Raises TooLarge."""
        self.parts += 1
        if self.parts > LARGEST:
            raise TooLarge


class _Place:
    """A row of a bank, or of a member table, at a step."""

    __slots__ = ("bank", "index", "keyset", "params", "step", "table", "to")

    def __init__(
        self, to: Translator, bank: int, table: int, index: int, step: Step, keyset: int
    ) -> None:
        self.to, self.bank, self.table, self.index, self.step, self.keyset = (
            to,
            bank,
            table,
            index,
            step,
            keyset,
        )
        self.params = (
            to.table.readers[bank][table].params[index] if table in to.table.readers[bank] else ()
        )

    def at(self, step: Step) -> _Place:
        return _Place(self.to, self.bank, self.table, self.index, step, self.keyset)

    def members(self, table: int) -> list[_Place]:
        offsets = self.to.table.banks[self.bank].members[table].offsets
        members = range(int(offsets[self.index]), int(offsets[self.index + 1]))
        return [
            _Place(self.to, self.bank, table, member, self.step, self.keyset) for member in members
        ]

    def slot(self, index: int) -> Value:
        readers = self.to.table.readers[self.bank][self.table]
        number, shift = (
            int(readers.variables[self.index, index]),
            float(readers.shifts[self.index, index]),
        )
        variable = self.to.variable(number, self.step)
        return Value(
            variable + number_of(shift) if shift else variable, self.to.has_value(number, self.step)
        )

    def whole(self, param: int) -> int:
        return round(float(self.params[param]))

    def formula(self, formula: Formula, positive: bool) -> Z3:
        self.to.tick()
        match formula:
            case Compare():
                return self._compare(formula, positive)
            case ClassIn():
                return self._class_in(formula, positive)
            case CategoryIs():
                value = self.slot(formula.slot)
                same = value.number == self.whole(formula.param)
                return all_of([same if positive else z3.Not(same), *value.known])
            case Known():
                known = all_of(self.slot(formula.slot).known)
                return known if positive else z3.Not(known)
            case Not():
                return self.formula(formula.arg, not positive)
            case And() | Or():
                parts = [self.formula(arg, positive) for arg in formula.args]
                return all_of(parts) if isinstance(formula, And) == positive else any_of(parts)
            case Implies():
                parts = [
                    self.formula(formula.antecedent, not positive),
                    self.formula(formula.consequent, positive),
                ]
                return any_of(parts) if positive else all_of(parts)
            case AtLeast():
                return self._at_least(formula, positive)
            case Temporal():
                return self._temporal(formula, positive)
            case Until():
                return self._until(formula, positive)
            case Initially():
                return self.at((self.to.anchor(self.keyset) - 1, 0)).formula(formula.arg, positive)
            case _:  # the solver has no form for it: it may hold, and may fail
                self.to.weakened = True
                return z3.BoolVal(True)

    def _compare(self, atom: Compare, positive: bool) -> Z3:
        left, right = term_value(atom.left, self), term_value(atom.right, self)
        known = [*left.known, *right.known]
        gap: Z3 = z3.RealVal(0)
        if atom.tolerance is not None:
            tolerance = term_value(atom.tolerance, self)
            gap, known = tolerance.number, [*known, *tolerance.known]
        if self.to.lenient:
            gap = gap + self._hair(atom, positive)
        if atom.op in ("le", "lt"):
            holds = (
                left.number <= right.number + gap
                if atom.op == "le"
                else left.number < right.number + gap
            )
        else:
            apart = left.number - right.number
            near = z3.And(apart <= gap, -apart <= gap)
            holds = near if atom.op == "eq" else z3.Not(near)
        return all_of([holds if positive else z3.Not(holds), *known])

    def _hair(self, atom: Compare, positive: bool) -> Z3:
        """What is added to the tolerance so that the comparison is met (`lenient` above 0) or
        missed (below) a little sooner.
        """
        ways = (
            {"le": (1, 0), "lt": (0, -1), "eq": (1, 0), "ne": (0, 1)}
            if self.to.lenient > 0
            else {"le": (1, -1), "lt": (1, -1)}
        )
        way = ways.get(atom.op, (0, 0))[0 if positive else 1]
        return number_of(
            way
            * self.to.lenient
            * 1e-9
            * max([1e-3, *(abs(float(value)) for value in self.params)])
        )

    def _class_in(self, atom: ClassIn, positive: bool) -> Z3:
        """One class has the best score, alone: that two share it is left out of account, as a tie
        would be in every class.
        """
        inside, outside = [self.slot(i) for i in atom.inside], [self.slot(i) for i in atom.outside]
        known = [part for value in (*inside, *outside) for part in value.known]
        ahead, behind = (inside, outside) if positive else (outside, inside)
        wins = [all_of([one.number > other.number for other in behind]) for one in ahead]
        if not inside or not outside:
            return all_of([z3.BoolVal(bool(inside) == positive), *known])
        return all_of([any_of(wins), *known])

    def _at_least(self, formula: AtLeast, positive: bool) -> Z3:
        parts = [member.formula(formula.arg, positive) for member in self.members(formula.members)]
        if formula.count is None:
            return all_of(parts) if positive else any_of(parts)
        wanted = self.whole(formula.count)
        wanted = wanted if positive else len(parts) - wanted + 1
        if wanted <= 0:
            return z3.BoolVal(True)
        return (
            z3.PbGe([(part, 1) for part in parts], wanted)
            if wanted <= len(parts)
            else z3.BoolVal(False)
        )

    def _window(self, formula: Temporal | Until) -> tuple[int, int, int]:
        """First and last step of a window (-1: no end), and its direction."""
        back = formula.op in ("historically", "once", "since")
        return self.whole(formula.low), self.whole(formula.high), -1 if back else 1

    def moved(self, steps: int) -> _Place:
        """The place at an offset of steps (negative: earlier)."""
        anchor, offset = self.step[0], self.step[1] + steps
        around_now = anchor in (0, self.to.anchor(self.keyset))
        return self.at(
            (anchor, offset)
            if not around_now
            else (self.to.anchor(self.keyset), offset)
            if offset
            else NOW
        )

    def _elsewhere(self) -> _Place:
        self.to.weakened = True
        anchor = next(self.to.fresh)
        self.to.somewhere[anchor] = self.keyset
        return self.at((anchor, 0))

    def _there(self, steps: int, formula: Formula, positive: bool, *, cut: bool = False) -> Z3:
        """The formula at another step, which lies inside the trace.

        Or, `cut`, the step does not.
        """
        moved = self.moved(steps)
        inside = self.to.is_inside(moved.step)
        said = moved.formula(formula, positive)
        return any_of([said, *map(z3.Not, inside)]) if cut else all_of([said, *inside])

    def _temporal(self, formula: Temporal, positive: bool) -> Z3:
        low, high, way = self._window(formula)
        everywhere_ = (formula.op in ("always", "historically")) == positive
        cut = everywhere_ and (self.to.clip or high < 0)
        if 0 <= high < low + self.to.longest:
            parts = [
                self._there(way * k, formula.arg, positive, cut=cut) for k in range(low, high + 1)
            ]
            return all_of(parts) if everywhere_ else any_of(parts)
        if self.to.bounded:
            return self._encode_first(
                low,
                way,
                cut,
                everywhere_,
                lambda k: self._there(way * k, formula.arg, positive, cut=cut),
            )
        if everywhere_:
            self.to.weakened = True
            return all_of(
                [self._there(way * k, formula.arg, positive, cut=cut) for k in (low, low + 1)]
            )
        return self._elsewhere().formula(formula.arg, positive)

    def _encode_first(
        self, low: int, way: int, cut: bool, everywhere_: bool, at: Callable[[int], Z3]
    ) -> Z3:
        """What holds at some of a window's first steps, or at all of them, and the trace ends
        there. Raises TooLarge where it must not.
        """
        if everywhere_ and not cut:
            raise TooLarge
        self.to.narrowed = True
        parts = [at(k) for k in range(low, low + LONGEST)]
        if not everywhere_:
            return any_of(parts)
        return all_of(
            [*parts, *map(denied, self.to.is_inside(self.moved(way * (low + LONGEST)).step))]
        )

    def _until(self, formula: Until, positive: bool) -> Z3:
        low, high, way = self._window(formula)
        cut = not positive and (self.to.clip or high < 0)

        def left_until(last: int) -> list[Z3]:
            """The left side at the steps before (`closed`: up to) the last."""
            return [
                self._there(way * k, formula.left, positive)
                for k in range(last + (1 if formula.closed else 0))
            ]

        def at(k: int) -> Z3:
            right = self._there(way * k, formula.right, positive, cut=cut)
            return all_of([right, *left_until(k)]) if positive else any_of([right, *left_until(k)])

        if 0 <= high < self.to.longest:
            parts = [at(k) for k in range(low, high + 1)]
            return any_of(parts) if positive else all_of(parts)
        if self.to.bounded:
            return self._encode_first(low, way, cut, not positive, at)
        self.to.weakened = True
        if not positive:
            right = self._there(way * low, formula.right, False, cut=cut)
            return any_of([right, *left_until(low)]) if low < self.to.longest else z3.BoolVal(True)
        somewhere = self._elsewhere().formula(formula.right, True)
        now = self.formula(formula.left, True)
        if low > 0 or formula.closed:
            return all_of([somewhere, now])
        return all_of([somewhere, any_of([now, self.formula(formula.right, True)])])


def number_of(value: float) -> Z3:
    """A number as the decimal that it prints as."""
    return z3.RealVal(str(Fraction(repr(float(value)))))


def all_of(parts: Sequence[Z3]) -> Z3:
    """Conjunction; true of nothing."""
    return _joined(z3.Z3_mk_and, parts) if parts else z3.BoolVal(True)


def any_of(parts: Sequence[Z3]) -> Z3:
    """Disjunction; false of nothing."""
    return _joined(z3.Z3_mk_or, parts) if parts else z3.BoolVal(False)


def _joined(make: Callable[..., Z3], parts: Sequence[Z3]) -> Z3:
    """What `z3.And` and `z3.Or` do, without looking at the sort of every part: there are very many
    of them.
    """
    if len(parts) == 1:
        return parts[0]
    context = parts[0].ctx
    return z3.BoolRef(
        make(context.ref(), len(parts), (z3.Ast * len(parts))(*(part.as_ast() for part in parts))),
        context,
    )


def denied(condition: Z3) -> Z3:
    """The condition does not hold."""
    return z3.Not(condition)
