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
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, islice
from typing import Any, assert_never

import numpy as np
import z3

from fedkg.pack import (
    And,
    AtLeast,
    Call,
    CategoryIs,
    Choose,
    ClassIn,
    Coalesce,
    Compare,
    Formula,
    Implies,
    Initially,
    Known,
    Negate,
    Not,
    Or,
    Param,
    Power,
    Product,
    Quotient,
    Reduce,
    Slot,
    Sum,
    Temporal,
    Term,
    Until,
)
from fedkg.pack.formulas import ROWS, Lag, WindowReduce
from fedkg_compiler.analysis.single_column_bounds import Keys, RowTable
from fedkg_compiler.formulas.formula_algebra import looks_for_gaps

Z3 = Any
"""z3 has no types."""
Step = tuple[int, int]
NOW: Step = (0, 0)
LONGEST, LONGER, LARGEST = 8, 400, 4000
"""Windows of more steps are weakened, or (`bounded`) narrowed; formulas with more parts are not
looked at."""


@dataclass(frozen=True, slots=True)
class Value:
    """A number, and the conditions under which it is known (all of them)."""

    number: Z3
    known: Sequence[Z3] = ()


def term_value(term: Term, place: _Place) -> Value:
    """The value of a term at a place."""
    place.to.tick()
    match term:
        case Slot():
            return place.slot(term.index)
        case Param():
            return Value(z3.RealVal(str(Fraction(repr(float(place.params[term.index]))))))
        case Sum():
            parts = [term_value(arg, place) for arg in term.args]
            return Value(_sum([part.number for part in parts]), _known_conditions(parts))
        case Product():
            parts = [term_value(arg, place) for arg in term.args]
            number = parts[0].number
            for part in parts[1:]:
                number = number * part.number
            return Value(number, _known_conditions(parts))
        case Negate():
            part = term_value(term.arg, place)
            return Value(-part.number, part.known)
        case Quotient():
            above, below = term_value(term.numerator, place), term_value(term.denominator, place)
            return Value(
                above.number / below.number, [*_known_conditions([above, below]), below.number != 0]
            )
        case Power():
            return _power(term_value(term.base, place), term.exponent, place)
        case Call():
            return _call(term, [term_value(arg, place) for arg in term.args], place)
        case Reduce():
            return _reduce(
                term,
                [term_value(term.arg, member) for member in place.members(term.members)],
                place,
            )
        case Choose():
            return _choose(term, place)
        case Coalesce():
            *firsts, number_last = [term_value(arg, place) for arg in term.args]
            number = number_last.number
            for part in reversed(firsts):
                number = z3.If(_all(part.known), part.number, number) if part.known else part.number
            return Value(number, [z3.Or(*(_all(part.known) for part in (*firsts, number_last)))])
        case Lag() if (steps := place.whole(term.steps)) <= place.to.longest:
            there = place.moved(-steps)
            part = term_value(term.arg, there)
            return Value(part.number, [*part.known, *place.to.is_inside(there.step)])
        case WindowReduce(count=int(count)) if place.whole(count) <= place.to.longest:
            return _window(term, place.whole(count), place)
        case _:
            # The solver has no form for it: it may be any number, known wherever that helps.
            place.to.weakened = True
            return Value(z3.Real(f"any{next(place.to.fresh)}"))


def _window(term: WindowReduce, count: int, place: _Place) -> Value:
    """The number made of the values at so many steps."""
    parts: list[Value] = []
    for steps in range(count):
        there = place.moved(steps if term.ahead else -steps)
        part = term_value(term.arg, there)
        parts.append(Value(part.number, [*part.known, *place.to.is_inside(there.step)]))
    if term.op in ("min", "max"):
        return _call(Call(function=term.op, args=(Param(index=0),)), parts, place)
    total = _sum([part.number for part in parts])
    return Value(total / count if term.op == "mean" else total, _known_conditions(parts))


def _known_conditions(parts: Sequence[Value]) -> list[Z3]:
    return [condition for part in parts for condition in part.known]


def _all(conditions: Sequence[Z3]) -> Z3:
    return z3.And(*conditions)


def _sum(numbers: Sequence[Z3]) -> Z3:
    return z3.Sum(*numbers) if len(numbers) > 1 else numbers[0] if numbers else z3.RealVal(0)


def _choose(term: Choose, place: _Place) -> Value:
    then, otherwise = term_value(term.then, place), term_value(term.otherwise, place)
    holds, fails = place.formula(term.condition, True), place.formula(term.condition, False)
    return Value(
        z3.If(holds, then.number, otherwise.number),
        [z3.Or(z3.And(holds, *then.known), z3.And(fails, *otherwise.known))],
    )


def _power(base: Value, exponent: float, place: _Place) -> Value:
    if exponent.is_integer() and abs(exponent) <= 6:
        number = z3.RealVal(1)
        for i in range(abs(int(exponent))):
            number = base.number if i == 0 else number * base.number
        return (
            Value(number, base.known)
            if exponent >= 0
            else Value(1 / number, [*base.known, base.number != 0])
        )
    if exponent == 0.5:
        return _root(base, place)
    known = [*base.known] if exponent.is_integer() else [*base.known, base.number >= 0]
    return _opaque(
        f"power {exponent}",
        base.number,
        known,
        place,
        rising=exponent > 0 and not exponent.is_integer(),
    )


def _root(base: Value, place: _Place) -> Value:
    root = z3.Real(f"root{next(place.to.fresh)}")
    return Value(root, [*base.known, base.number >= 0, root >= 0, root * root == base.number])


def _call(term: Call, args: list[Value], place: _Place) -> Value:
    known, number = _known_conditions(args), args[0].number
    match term.function:
        case "min" | "max":
            for arg in args[1:]:
                less = number <= arg.number if term.function == "min" else number >= arg.number
                number = z3.If(less, number, arg.number)
            return Value(number, known)
        case "abs":
            return Value(z3.If(number >= 0, number, -number), known)
        case "floor":
            return Value(z3.ToReal(z3.ToInt(number)), known)
        case "ceil":
            return Value(-z3.ToReal(z3.ToInt(-number)), known)
        case "round":
            whole = z3.Int(f"round{next(place.to.fresh)}")
            near = z3.ToReal(whole)
            half = z3.RealVal("1/2")
            even = z3.Implies(z3.Or(near - number == half, number - near == half), whole % 2 == 0)
            return Value(near, [*known, near - number <= half, number - near <= half, even])
        case "sqrt":
            return _root(args[0], place)
        case "exp" | "tanh" | "log":
            positive = [number > 0] if term.function == "log" else []
            return _opaque(term.function, number, [*known, *positive], place, rising=True)
        case "sin" | "cos" | "tan":
            return _opaque(term.function, number, known, place, rising=False)
        case _:
            assert_never(term.function)


_RANGES: dict[str, tuple[str | None, str | None]] = {
    "exp": ("0", None),
    "tanh": ("-1", "1"),
    "sin": ("-1", "1"),
    "cos": ("-1", "1"),
}


def _opaque(name: str, arg: Z3, known: Sequence[Z3], place: _Place, *, rising: bool) -> Value:
    """A function known to the solver only by its range, its monotonicity, and as a function of its
    argument.

    A value that can be computed is, to within a part in a million.
    """
    place.to.weakened = True
    function = z3.Function(name, z3.RealSort(), z3.RealSort())
    number = function(arg)
    low, high = _RANGES.get(name, (None, None))
    facts = [number >= z3.RealVal(low)] if low is not None else []
    facts += [number <= z3.RealVal(high)] if high is not None else []
    applied = place.to.applied.setdefault(name, [])
    if rising:
        facts += [
            z3.And(
                z3.Implies(arg < other, number < function(other)),
                z3.Implies(other < arg, function(other) < number),
            )
            for other in applied
        ]
        facts += [
            fact for point in _POINTS.get(name, ()) for fact in _around(number, arg, name, point)
        ]
    applied.append(arg)
    return Value(number, [*known, *facts])


_POINTS: dict[str, tuple[float, ...]] = {
    "exp": (-20.0, -5.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0),
    "log": (1e-6, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0, 1e3, 1e6),
    "tanh": (-5.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 5.0),
}
"""Where the values of rising functions are stated."""


def _around(number: Z3, arg: Z3, name: str, point: float) -> list[Z3]:
    value = float(getattr(np, name)(point))
    gap = 1e-6 * max(1e-9, abs(value))
    at = z3.RealVal(str(Fraction(repr(point))))
    above, below = (z3.RealVal(str(Fraction(repr(value + way * gap)))) for way in (1, -1))
    return [z3.Implies(arg <= at, number <= above), z3.Implies(arg >= at, number >= below)]


def _reduce(term: Reduce, members: list[Value], place: _Place) -> Value:
    numbers, size = [member.number for member in members], len(members)
    weights = [
        z3.If(_all(member.known), z3.RealVal(1), z3.RealVal(0)) if member.known else z3.RealVal(1)
        for member in members
    ]
    if term.op == "count":
        return Value(_sum(weights))
    if not term.skip or not any(member.known for member in members):
        known = _known_conditions(members)
        if term.op == "sum":
            return Value(_sum(numbers), known)
        if not members:
            return Value(z3.RealVal(0), [z3.BoolVal(False)])
        if term.op == "mean":
            return Value(_sum(numbers) / size, known)
        return _call(Call(function=term.op, args=(Param(index=0),)), members, place)
    kept = [weight * number for weight, number in zip(weights, numbers, strict=True)]
    if term.op == "sum":
        return Value(_sum(kept))
    some = z3.Or(*(_all(member.known) for member in members))
    if term.op == "mean":
        return Value(_sum(kept) / _sum(weights), [some])
    best = z3.Real(f"best{next(place.to.fresh)}")
    beats = [best <= number if term.op == "min" else best >= number for number in numbers]
    facts = [
        z3.Implies(_all(member.known), beat) for member, beat in zip(members, beats, strict=True)
    ]
    return Value(
        best, [*facts, z3.Or(*(z3.And(best == member.number, *member.known) for member in members))]
    )


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
