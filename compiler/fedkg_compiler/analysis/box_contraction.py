"""What intervals tell of formulas: where they certainly hold or fail inside a box, and how a box
shrinks without losing a value that keeps them.

Upwards, intervals say what the terms of a comparison can be (`formulas.intervals`). That a formula
holds is to say that it fails nowhere in the box; where a term has no value (a logarithm of less
than 0) neither is so. Nobody asks here of boxes what is known: every slot has a value.

Downwards, what the comparison leaves of the whole is taken back through each operation to its
arguments, and at last to the slots (HC4-revise: Benhamou, Goualard, Granvilliers and Puget,
"Revising hull and box consistency", 1999). Of `or` the hull of what its parts leave is kept. Ends
are rounded outwards. A formula that certainly holds, or certainly fails, has all its terms known:
the argument of a root is not below 0, that of a logarithm neither. Nothing is propagated back
through `Choose` and `Coalesce`, because their parts may be unknown.

Letter: m boxes, each with the numbers of one row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedkg.pack import (
    And,
    AtLeast,
    Call,
    CategoryIs,
    Compare,
    Formula,
    Implies,
    Known,
    Negate,
    Not,
    Or,
    Power,
    Product,
    Quotient,
    Reduce,
    Slot,
    Sum,
    Term,
)
from fedkg.pack.numeric.intervals import Interval, Ranges, outwards, product, quotient
from fedkg.pack.numeric.three_valued_logic import Bool
from fedkg_compiler.analysis.formula_evaluation import Truth
from fedkg_compiler.analysis.single_column_bounds import CLOSE, Float, Int
from fedkg_compiler.formulas.formula_algebra import Seen, interval


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sides:
    """Boxes as arrays: low, high float64 [m, s], params [m, p].

    Inside: those of member tables, and the owners' offsets [m + 1].
    """

    low: Float
    high: Float
    params: Float
    inside: Mapping[int, tuple[Sides, Int]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """m."""
        return int(self.params.shape[0])

    def slot(self, index: int) -> Interval:
        """The side of the box."""
        return self.low[:, index], self.high[:, index]

    def param(self, index: int) -> Interval:
        """The number itself, twice."""
        return self.params[:, index], self.params[:, index]

    def members(self, table: int) -> tuple[Sides, Int]:
        """Those of a member table, and the offsets of its owners."""
        return self.inside[table]


def certain(formula: Formula, boxes: Ranges) -> Truth:
    """Where a formula certainly holds, and where it certainly fails: bool [m] each.

    Both where it has no truth value.
    """
    no = np.zeros(boxes.count, dtype=np.bool_)
    match formula:
        case Compare():
            return _compared_surely(formula, boxes)
        case Known():
            return ~no, no
        case CategoryIs():
            (low, high), (code, _) = boxes.slot(formula.slot), boxes.param(formula.param)
            return (low == code) & (high == code), (code < low) | (code > high)
        case Not():
            holds, fails = certain(formula.arg, boxes)
            return fails, holds
        case And() | Or():
            parts = [certain(arg, boxes) for arg in formula.args]
            every, some = (0, 1) if isinstance(formula, And) else (1, 0)
            all_, any_ = (
                np.logical_and.reduce([part[every] for part in parts]),
                np.logical_or.reduce([part[some] for part in parts]),
            )
            return (all_, any_) if isinstance(formula, And) else (any_, all_)
        case Implies():
            (holds, fails), (then, not_then) = (
                certain(formula.antecedent, boxes),
                certain(formula.consequent, boxes),
            )
            return fails | then, holds & not_then
        case AtLeast():
            members, offsets = boxes.members(formula.members)
            held, failed = (_totals(part, offsets) for part in certain(formula.arg, members))
            sizes = np.diff(offsets)
            wanted = sizes if formula.count is None else boxes.param(formula.count)[0]
            return held >= wanted, sizes - failed < wanted
        case _:
            return no, no


def _totals(which: Bool, offsets: Int) -> Int:
    """How many of each owner's members: int64 [owners]."""
    running = np.concatenate([[0], np.cumsum(which)])
    found: Int = running[offsets[1:]] - running[offsets[:-1]]
    return found


def _compared_surely(atom: Compare, boxes: Ranges) -> Truth:
    left, right = interval(atom.left, boxes), interval(atom.right, boxes)
    tolerance = (
        (np.zeros(boxes.count), np.zeros(boxes.count))
        if atom.tolerance is None
        else interval(atom.tolerance, boxes)
    )
    with np.errstate(all="ignore"):
        least, most = right[0] - left[1], right[1] - left[0]
        hair = CLOSE * np.nan_to_num(np.maximum(np.abs(most), np.abs(least)), posinf=0.0)
        hair = hair + CLOSE * np.nan_to_num(
            np.maximum(np.abs(right[0]), np.abs(right[1])), posinf=0.0
        )
        if atom.op in ("le", "lt"):
            return least + tolerance[0] > hair, most + tolerance[1] < -hair
        apart = (least > tolerance[1] + hair) | (most < -tolerance[1] - hair)
    never = np.zeros(boxes.count, dtype=np.bool_)
    return (never, apart) if atom.op == "eq" else (apart, never)


ROUND, TINY = 1e-13, 1e-300
"""By this share, and this much, ends are moved outwards before and after each operation: it is more
than rounding takes of any (the root of degree n of x has an error of up to log(x) / n in the last
place, which is 745), and than is lost where numbers get too small."""
LARGEST = float(np.finfo(np.float64).max)
"""What is larger is written as infinite, and may yet be only a little larger."""


@dataclass(slots=True, kw_only=True, eq=False)
class Narrowed:
    """Boxes while they are made smaller.

    Attributes:
        sides: the lower and upper ends of the boxes, which change in place.
        dead: bool [m], whether no value is left in a box.
        inside: for each member table, by number, the boxes of its members and the offsets of their
            owners, int64 [m + 1].
    """

    sides: Sides
    dead: Bool
    inside: Mapping[int, tuple[Narrowed, Int]]

    @classmethod
    def of(cls, sides: Sides) -> Narrowed:
        """Copy boxes into separate arrays."""
        inside = {table: (cls.of(part), offsets) for table, (part, offsets) in sides.inside.items()}
        mine = {table: (part.sides, offsets) for table, (part, offsets) in inside.items()}
        own = Sides(low=sides.low.copy(), high=sides.high.copy(), params=sides.params, inside=mine)
        return cls(sides=own, dead=np.zeros(sides.count, dtype=np.bool_), inside=inside)

    def join(self, others: Sequence[Narrowed]) -> None:
        """Become the hull of others; of those that are dead nothing."""
        for ends, pick, none in (("low", np.minimum, np.inf), ("high", np.maximum, -np.inf)):
            parts = [
                np.where(other.dead[:, None], none, getattr(other.sides, ends)) for other in others
            ]
            getattr(self.sides, ends)[:] = pick.reduce(parts)
        self.dead |= np.logical_and.reduce([other.dead for other in others])
        for table, (mine, offsets) in self.inside.items():
            owners = np.repeat(np.arange(self.dead.size), np.diff(offsets))
            theirs = [other.inside[table][0] for other in others]
            for one, other in zip(theirs, others, strict=True):
                one.dead |= other.dead[owners]
            mine.join(theirs)


def contract(formula: Formula, holds: bool, boxes: Narrowed) -> None:
    """Make boxes smaller by what lies outside of where the formula certainly holds, or (not
    `holds`) certainly fails.
    """
    match formula:
        case Not():
            contract(formula.arg, not holds, boxes)
        case And() | Or():
            _several(
                [(arg, holds) for arg in formula.args], isinstance(formula, And) == holds, boxes
            )
        case Implies():
            _several(
                [(formula.antecedent, not holds), (formula.consequent, holds)], not holds, boxes
            )
        case Compare():
            with np.errstate(all="ignore"):
                _compared(formula, holds, boxes)
        case CategoryIs():
            _category(formula, holds, boxes)
        case AtLeast() if formula.count is None and holds:
            members, offsets = boxes.inside[formula.members]
            contract(formula.arg, True, members)
            boxes.dead |= np.diff(np.concatenate([[0], np.cumsum(members.dead)])[offsets]) > 0
        case _:
            pass


def _several(parts: Sequence[tuple[Formula, bool]], every: bool, boxes: Narrowed) -> None:
    if every:
        for part, holds in parts:
            contract(part, holds, boxes)
        return
    copies = []
    for part, holds in parts:
        copies.append(Narrowed.of(boxes.sides))
        contract(part, holds, copies[-1])
    boxes.join(copies)


def _category(atom: CategoryIs, holds: bool, boxes: Narrowed) -> None:
    code = boxes.sides.params[:, atom.param]
    low, high = boxes.sides.low[:, atom.slot], boxes.sides.high[:, atom.slot]
    if holds:
        boxes.dead |= (code < low) | (code > high)
        low[:], high[:] = np.where(boxes.dead, low, code), np.where(boxes.dead, high, code)
        return
    low[:] = np.where(low == code, low + 1, low)
    high[:] = np.where(high == code, high - 1, high)
    boxes.dead |= low > high


def _compared(atom: Compare, holds: bool, boxes: Narrowed) -> None:
    """What a comparison leaves of left - right.

    A hair beyond, as units are converted in floating point.
    """
    order = atom.op in ("le", "lt")
    if not order and (atom.op == "eq") != holds:
        return
    sides, seen = boxes.sides, Seen()
    left, right = interval(atom.left, sides, seen), interval(atom.right, sides, seen)
    least, most = (
        (np.zeros(sides.count),) * 2
        if atom.tolerance is None
        else interval(atom.tolerance, sides, seen)
    )
    hair = 2 * CLOSE * np.maximum.reduce([_size(one) for one in (left, right, (least, most))])
    top = most + hair if holds or not order else np.full(sides.count, np.inf)
    bottom = (
        -most - hair if not order else least - hair if not holds else np.full(sides.count, -np.inf)
    )
    _back(atom.left, (bottom + right[0], top + right[1]), boxes, seen)
    _back(atom.right, (left[0] - top, left[1] - bottom), boxes, seen)


def _back(term: Term, left: Interval, boxes: Narrowed, seen: Seen) -> None:
    """Take to a term's slots what is left of its values."""
    now = interval(term, boxes.sides, seen)
    left = _fit(now, left, boxes)
    low, high = _wide(left)
    match term:
        case Slot():
            np.maximum(boxes.sides.low[:, term.index], left[0], out=boxes.sides.low[:, term.index])
            np.minimum(
                boxes.sides.high[:, term.index], left[1], out=boxes.sides.high[:, term.index]
            )
        case Sum():
            parts = [interval(arg, boxes.sides, seen) for arg in term.args]
            slack = ROUND * np.add.reduce([_size(part) for part in parts])
            for arg, others in zip(term.args, _without_each(parts, _plus), strict=True):
                _back(arg, _wide((low - others[1] - slack, high - others[0] + slack)), boxes, seen)
        case Negate():
            _back(term.arg, (-high, -low), boxes, seen)
        case Product():
            parts = [interval(arg, boxes.sides, seen) for arg in term.args]
            for arg, own, others in zip(
                term.args, parts, _without_each(parts, product), strict=True
            ):
                _back(arg, _wide(_divided((low, high), others, own)), boxes, seen)
        case Quotient():
            above, below = (
                interval(term.numerator, boxes.sides, seen),
                interval(term.denominator, boxes.sides, seen),
            )
            _back(term.numerator, _wide(product((low, high), below)), boxes, seen)
            _back(term.denominator, _wide(_divided(above, (low, high), below)), boxes, seen)
        case Power():
            _back(
                term.base,
                _wide(_root((low, high), term.exponent, interval(term.base, boxes.sides, seen))),
                boxes,
                seen,
            )
        case Call():
            _call(term, (low, high), boxes, seen)
        case Reduce() if not term.skip and term.op != "count":
            _members(term, (low, high), boxes, seen)
        case _:
            pass


def _fit(now: Interval, left: Interval, boxes: Narrowed) -> Interval:
    """The part of `now` in `left`; boxes where there is none, by more than rounding, are dead."""
    low = np.maximum(now[0], np.where(np.isnan(left[0]), -np.inf, left[0]))
    high = np.minimum(now[1], np.where(np.isnan(left[1]), np.inf, left[1]))
    slack = 10 * ROUND * np.minimum(np.abs(low), np.abs(high))
    boxes.dead |= low > high + slack
    crossed = low > high
    return np.where(crossed, np.where(boxes.dead, now[0], high), low), np.where(
        crossed, np.where(boxes.dead, now[1], low), high
    )


def _wide(ends: Interval) -> Interval:
    low, high = outwards(*ends, ROUND)
    return low - TINY, high + TINY


def _size(ends: Interval) -> Float:
    """The larger of the sizes of both ends, of those that there are."""
    found: Float = np.maximum(*(np.nan_to_num(np.abs(end), posinf=0.0) for end in ends))
    return found


def _plus(one: Interval, other: Interval) -> Interval:
    return one[0] + other[0], one[1] + other[1]


def _without_each(
    parts: Sequence[Interval], join: Callable[[Interval, Interval], Interval]
) -> list[Interval]:
    """All parts but one, joined; for each of them."""
    if len(parts) == 1:
        none = np.full(parts[0][0].shape, 0.0 if join is _plus else 1.0)
        return [(none, none)]
    before, after = [parts[0]], [parts[-1]]
    for part in parts[1:-1]:
        before.append(join(before[-1], part))
    for part in reversed(parts[1:-1]):
        after.append(join(part, after[-1]))
    after.reverse()
    inner = [join(one, other) for one, other in zip(before[:-1], after[1:], strict=True)]
    return [after[0], *inner, before[-1]]


def _divided(whole: Interval, by: Interval, own: Interval) -> Interval:
    """What x is where x times something in `by` lies in `whole`, x lying in `own`."""
    low, high = whole
    least, most = np.minimum(by[0], LARGEST), np.maximum(by[1], -LARGEST)
    clear = (least > 0) | (most < 0)
    ends = quotient(whole, (least, most))
    found = np.where(clear, ends[0], -np.inf), np.where(clear, ends[1], np.inf)
    # 0 lies in `by`, and the product is away from 0: so is x, on the side that it is known to lie
    # on
    away = np.maximum(low, -high)
    far = np.minimum(_over(away, most), _over(away, -least))
    near = ~clear & (away > 0)
    upward, downward = near & (own[0] >= 0), near & (own[1] <= 0)
    return np.where(upward, far, found[0]), np.where(downward, -far, found[1])


def _over(one: Float, other: Float) -> Float:
    """one / other, infinite where `other` is not above 0: nothing comes from there."""
    return np.where(other > 0, one / np.where(other > 0, other, 1.0), np.inf)


def _root(whole: Interval, exponent: float, own: Interval) -> Interval:
    """What x is where x ** exponent lies in `whole`, x lying in `own`."""
    low, high = whole
    if exponent == 0:
        return own
    if exponent < 0:
        up = _root(
            _wide((np.where(high > 0, 1 / high, 0.0), np.where(low > 0, 1 / low, np.inf))),
            -exponent,
            own,
        )
        positive = own[0] >= 0
        return np.where(positive, up[0], own[0]), np.where(positive, up[1], own[1])
    if not exponent.is_integer():
        return np.maximum(low, 0.0) ** (1 / exponent), np.maximum(high, 0.0) ** (1 / exponent)
    if exponent % 2:
        return np.sign(low) * np.abs(low) ** (1 / exponent), np.sign(high) * np.abs(high) ** (
            1 / exponent
        )
    return _sized(
        _wide((np.maximum(low, 0.0) ** (1 / exponent), np.maximum(high, 0.0) ** (1 / exponent))),
        own,
    )


def _sized(size: Interval, own: Interval) -> Interval:
    """What x is where its size lies between these, x lying in `own`."""
    low, high = size
    return np.where(own[0] > -low, np.maximum(low, -high), -high), np.where(
        own[1] < low, -low, high
    )


def _call(term: Call, left: Interval, boxes: Narrowed, seen: Seen) -> None:
    low, high = left
    own = interval(term.args[0], boxes.sides, seen)
    infinite = np.full(low.shape, np.inf)
    match term.function:
        case "min" | "max":
            least = (low, infinite) if term.function == "min" else (-infinite, high)
            for arg in term.args:
                _back(arg, least, boxes, seen)
            return
        case "abs":
            found = _sized((np.maximum(low, 0.0), high), own)
        case "sqrt":
            found = np.maximum(low, 0.0) ** 2, high**2
        case "exp":
            found = np.log(np.maximum(low, 0.0)), np.log(np.maximum(high, 0.0))
        case "log":
            found = np.exp(low), np.exp(high)
        case "tanh":
            found = _steep(low, -1.0), _steep(high, 1.0)
        case "floor":
            found = np.ceil(low), np.floor(high) + 1
        case "ceil":
            found = np.ceil(low) - 1, np.floor(high)
        case "round":
            found = np.ceil(low) - 0.5, np.floor(high) + 0.5
        case "sin":
            found = _angles(_arc(low, high), own, 0.0)
        case "cos":
            found = _angles(_arc(low, high), own, -np.pi / 2)
        case "tan":
            return
    _back(term.args[0], _wide(found), boxes, seen)


def _steep(values: Float, way: float) -> Float:
    """The inverse of tanh at an end of an interval, moved outwards (`way`): without an end where it
    comes near 1 or -1.
    """
    moved = values + way * 4 * ROUND
    return np.where(np.abs(moved) >= 1, way * np.inf, np.arctanh(moved))


def _arc(low: Float, high: Float) -> Interval:
    """The angles in [-pi/2, pi/2] with a sine in this range, widened for rounding in pi."""
    return np.arcsin(np.clip(low - 4 * ROUND, -1, 1)) - 1e-9, np.arcsin(
        np.clip(high + 4 * ROUND, -1, 1)
    ) + 1e-9


def _angles(arc: Interval, own: Interval, turned: float) -> Interval:
    """The first and the last angle in `own` that is `turned` from one with the sine of one in
    `arc`; `own` itself where it has no end.
    """
    turn, firsts, lasts = 2 * np.pi, [], []
    for start, end in (
        (arc[0] + turned, arc[1] + turned),
        (np.pi + turned - arc[1], np.pi + turned - arc[0]),
    ):
        firsts.append(np.maximum(own[0], start + turn * np.ceil((own[0] - end) / turn)))
        lasts.append(np.minimum(own[1], end + turn * np.floor((own[1] - start) / turn)))
    first, last = np.minimum(*firsts), np.maximum(*lasts)
    large = ~(np.maximum(np.abs(own[0]), np.abs(own[1])) < 1e6)
    return np.where(large, own[0], first), np.where(large, own[1], last)


def _members(term: Reduce, left: Interval, boxes: Narrowed, seen: Seen) -> None:
    """Take what is left of a sum, a mean, a minimum or a maximum to the members."""
    members, offsets = boxes.inside[term.members]
    owners = np.repeat(np.arange(boxes.dead.size), np.diff(offsets))
    if not owners.size:
        return
    low, high = left[0][owners], left[1][owners]
    infinite = np.full(low.shape, np.inf)
    if term.op in ("min", "max"):
        _back(term.arg, (low, infinite) if term.op == "min" else (-infinite, high), members, seen)
    else:
        sizes = np.diff(offsets)[owners] if term.op == "mean" else np.ones(owners.size)
        own = interval(term.arg, members.sides, seen)
        least, most = (
            np.bincount(owners, weights=ends, minlength=boxes.dead.size)[owners] for ends in own
        )
        slack = ROUND * np.bincount(owners, weights=_size(own), minlength=boxes.dead.size)[owners]
        _back(
            term.arg,
            (low * sizes - (most - own[1]) - slack, high * sizes - (least - own[0]) + slack),
            members,
            seen,
        )
    np.logical_or.at(boxes.dead, owners[members.dead], True)
