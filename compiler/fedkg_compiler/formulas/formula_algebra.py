"""What the compiler computes from formulas, in three parts.

Three-valued conditions are put together: constants folded, negation pushed inwards, and what it
takes that one is true for certain. Then formulas are taken apart into their top-level parts.
`Connectives` serves every kind of condition; `all_of`, `any_of`, `negate` and `implies` are those
of the pack's formulas. A condition is a formula, or a truth value that nothing of the table
decides.

`affine_in` tells which comparisons are affine; the form in which they are evaluated stays as it is.
The shape of the term answers most questions at once; what it leaves open (``(x + 1)^2 - x^2``) goes
to sympy. `affine_by_shape` gives the coefficients where the shape shows them.

`interval` computes between which values a term can lie over declared spans. Each term defines its
own interval (`TermPart.interval`). This goes from slots to terms. The other way, from what
comparisons ask to single columns, is `analysis.single_column_bounds`.

Letters: R rows, s slots.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedkg.pack import (
    And,
    AtLeast,
    Call,
    CategoryIs,
    Choose,
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
    subterms,
    term_children,
)
from fedkg.pack.formulas import MANY, TermPart, everywhere, is_temporal, reads_output, sides
from fedkg.pack.numeric.intervals import Interval, Ranges
from fedkg_compiler.ir import BookColumn, MemberBuilder, MemberRows, RowBuilder, Rows

Truth = Formula | bool
"""A formula, or a truth value that does not depend on the table; False if never true."""
Part = TypeVar("Part", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Connectives(Generic[Part]):
    """Connectives of one kind of condition. Conditions that occur twice occur once, in order.

    Attributes:
        conjunction: the class of a conjunction, with its parts in `args`.
        disjunction: the class of a disjunction, with its parts in `args`.
        negation: the class of a negation, with its part in `arg`.
    """

    # Any: the classes are conditions of the kind `Part`, which a type variable cannot say
    conjunction: type[Any]
    disjunction: type[Any]
    negation: type[Any]

    def all_of(self, parts: Iterable[Part | bool]) -> Part | bool:
        """The conjunction; True of nothing."""
        return self._joined(parts, self.conjunction, neutral=True)

    def any_of(self, parts: Iterable[Part | bool]) -> Part | bool:
        """The disjunction; False of nothing."""
        return self._joined(parts, self.disjunction, neutral=False)

    def negate(self, part: Part | bool) -> Part | bool:
        """The negation; a second one takes the first away."""
        if isinstance(part, bool):
            return not part
        if isinstance(part, self.negation):
            inner: Part = part.arg
            return inner
        whole: Part = self.negation(arg=part)
        return whole

    def implies(self, condition: Part | bool, consequence: Part | bool) -> Part | bool:
        """The consequence, where the condition is not false."""
        return self.any_of((self.negate(condition), consequence))

    def exactly_one(self, parts: Sequence[Part | bool]) -> Part | bool:
        """One of the conditions is true, the others are false."""
        return self.any_of(
            self.all_of((part, *(self.negate(other) for j, other in enumerate(parts) if j != i)))
            for i, part in enumerate(parts)
        )

    def _joined(
        self, parts: Iterable[Part | bool], kind: type[Any], *, neutral: bool
    ) -> Part | bool:
        """The parts put together; `neutral` changes nothing, its opposite decides all."""
        kept: dict[Part, None] = {}
        for part in parts:
            if isinstance(part, bool):
                if part is not neutral:
                    return part
            else:
                kept.update(dict.fromkeys(part.args if isinstance(part, kind) else (part,)))
        if len(kept) > 1:
            whole: Part = kind(args=tuple(kept))
            return whole
        return next(iter(kept), neutral)


_FORMULAS: Connectives[Formula] = Connectives(And, Or, Not)
all_of, any_of = _FORMULAS.all_of, _FORMULAS.any_of
negate, implies = _FORMULAS.negate, _FORMULAS.implies


def always(rows: RowBuilder) -> Compare:
    """``0 <= 0``: a formula that holds in every row."""
    zero = rows.param(np.array(0.0))
    return Compare(op="le", left=zero, right=zero, scale=rows.param(np.array(1.0)).index)


def with_always(rows: Rows) -> tuple[Compare, Rows]:
    """``0 <= 0``, and the rows with its parameters."""
    first = len(rows.params)
    zero = Param(index=first)
    formula = Compare(op="le", left=zero, right=zero, scale=first + 1)
    added = (np.zeros(rows.count), np.ones(rows.count))
    return formula, replace(rows, params=(*rows.params, *added))


_OPPOSITE: dict[str, Literal["le", "lt", "eq", "ne"]] = {
    "le": "lt",
    "lt": "le",
    "eq": "ne",
    "ne": "eq",
}


def opposite_comparison(compare: Compare) -> Compare:
    """The comparison that holds exactly where this one fails: not (a <= b + t) is b < a - t."""
    swap, tolerance = compare.op in ("le", "lt"), compare.tolerance
    return Compare.model_construct(
        op=_OPPOSITE[compare.op],
        left=compare.right if swap else compare.left,
        right=compare.left if swap else compare.right,
        tolerance=Negate(arg=tolerance) if swap and tolerance is not None else tolerance,
        scale=compare.scale,
    )


def opposite(formula: Formula) -> Formula:
    """The negation, pushed inwards: comparisons turn round, so that a limit stays a limit.

    Unknown stays unknown.
    """
    match formula:
        case Compare():
            return opposite_comparison(formula)
        case And():
            return Or(args=tuple(opposite(arg) for arg in formula.args))
        case Or():
            return And(args=tuple(opposite(arg) for arg in formula.args))
        case Not():
            return formula.arg
        case _:
            return Not(arg=formula)


def strict_slots(formula: Formula) -> frozenset[int]:
    """Return the slots that need a value for the formula to be true."""
    match formula:
        case Compare():
            return needed(formula.left) | needed(formula.right)
        case CategoryIs() | Known():
            return frozenset({formula.slot})
        case And():
            return frozenset().union(*(strict_slots(arg) for arg in formula.args))
        case Or():
            return frozenset.intersection(*(strict_slots(arg) for arg in formula.args))
        case Not(arg=CategoryIs() as atom):
            return frozenset({atom.slot})
        case _:
            return frozenset()


def needed(term: Term) -> frozenset[int]:
    """The slots without which a term has no value."""
    match term:
        case Slot():
            return frozenset({term.index})
        case Sum() | Product() | Call():
            return frozenset().union(*(needed(arg) for arg in term.args))
        case Negate():
            return needed(term.arg)
        case Quotient():
            return needed(term.numerator) | needed(term.denominator)
        case Power():
            return needed(term.base)
        case _:
            return frozenset()


def sufficient_slots(term: Term) -> frozenset[int] | None:
    """Return the slots that give a term a value, except for divisions by zero.

    None if values of slots are not sufficient.
    """
    slots: set[int] = set()
    for _, node in everywhere(term):
        match node:
            case Slot():
                slots.add(node.index)
            case CategoryIs():
                slots.add(node.slot)
            case Quotient() if _is_unknown(node):
                return None
            case (
                Param() | Sum() | Product() | Call() | Negate() | Quotient() | Power() | Choose()
            ) | (Compare() | And() | Or() | Not()):
                pass
            case _:
                return None
    return frozenset(slots)


def _is_unknown(term: Quotient) -> bool:
    """Whether a term never has a value: zero by zero, as `numbers.unknown_term` writes it."""
    return isinstance(term.numerator, Param) and term.numerator == term.denominator


def certainly(formula: Formula) -> Truth:
    """Return a formula that is true where this one is, and false (never unknown) elsewhere.

    It is False for a comparison of a term that never has a value.
    """
    match formula:
        case Compare():
            return all_of([known_formula(formula.left), known_formula(formula.right), formula])
        case CategoryIs():
            return all_of([Known(slot=formula.slot), formula])
        case Not(arg=CategoryIs() as atom):
            return all_of([Known(slot=atom.slot), formula])
        case And():
            return all_of(certainly(arg) for arg in formula.args)
        case Or():
            return any_of(certainly(arg) for arg in formula.args)
        case AtLeast():
            arg = certainly(formula.arg)
            if isinstance(arg, bool):  # a group has at least one member
                return arg
            return AtLeast(count=formula.count, members=formula.members, arg=arg)
        case Not(arg=AtLeast() as atoms):
            certain = certainly(atoms)
            return not certain if isinstance(certain, bool) else Not(arg=certain)
        case _:
            return formula


def known_formula(term: Term) -> Truth:
    """The formula that says whether a term has a value; a division by zero apart, which has
    none.
    """
    match term:
        case Slot():
            return Known(slot=term.index)
        case Param():
            return True
        case Sum() | Product() | Call():
            return all_of(known_formula(arg) for arg in term.args)
        case Negate():
            return known_formula(term.arg)
        case Quotient() if _is_unknown(term):
            return False
        case Quotient():
            return all_of([known_formula(term.numerator), known_formula(term.denominator)])
        case Power():
            return known_formula(term.base)
        case Coalesce():
            return any_of(known_formula(arg) for arg in term.args)
        case Choose():
            yes, no = certainly(term.condition), certainly(opposite(term.condition))
            return any_of(
                [
                    all_of([yes, known_formula(term.then)]),
                    all_of([no, known_formula(term.otherwise)]),
                ]
            )
        case Reduce():
            inner = known_formula(term.arg)
            if term.op in ("sum", "count") and (term.skip or inner is True):
                return True
            return any_of(
                [
                    (
                        inner
                        if isinstance(inner, bool)
                        else AtLeast(count=None, members=term.members, arg=inner)
                    )
                ]
            )
        case _:
            raise AssertionError(f"queries make no {term.kind}")


def none(found: Truth) -> Truth:
    """Negation of something that is never an error."""
    certain = found if isinstance(found, bool) else certainly(found)
    return not certain if isinstance(certain, bool) else opposite(certain)


def at_any_step(
    formula: Formula, starts_now: Callable[[Temporal], bool] = lambda _: True
) -> Formula:
    """What the formula says of a single step: a rule holds at every step anyway, so `always` at its
    top goes.

    `starts_now`: whether a window begins at the step itself. One that begins later says nothing of
    the first steps of a trace.
    """
    while (
        isinstance(formula, Temporal)
        and formula.op in ("always", "historically")
        and starts_now(formula)
    ):
        formula = formula.arg
    return formula


def without_time(formula: Formula) -> Formula | None:
    """What the formula says of a trace on which nothing changes and which has no ends.

    None where that takes more than its shape.
    """
    if not is_temporal(formula):
        return formula
    still = _still(formula)
    return None if is_temporal(still) else still


def _still(formula: Formula) -> Formula:
    match formula:
        case Temporal() | Initially():
            return _still(formula.arg)
        case Not() | AtLeast():
            return formula.model_copy(update={"arg": _still(formula.arg)})
        case And() | Or():
            return formula.model_copy(update={"args": tuple(_still(arg) for arg in formula.args)})
        case Implies():
            return formula.model_copy(
                update={
                    "antecedent": _still(formula.antecedent),
                    "consequent": _still(formula.consequent),
                }
            )
        case _:
            return formula


def conjunction(formula: Formula, positive: bool = True) -> Iterator[tuple[Formula, bool]]:
    """The parts that must all hold, each positive (True) or negated (False)."""
    if isinstance(formula, Not):
        yield from conjunction(formula.arg, not positive)
    elif isinstance(formula, And if positive else Or):
        for arg in formula.args:
            yield from conjunction(arg, positive)
    elif isinstance(formula, Implies) and not positive:
        yield from conjunction(formula.antecedent)
        yield from conjunction(formula.consequent, False)
    elif positive and isinstance(formula, Temporal) and formula.op in ("always", "historically"):
        yield from conjunction(formula.arg)
    else:
        yield formula, positive


def comparisons(formula: Formula) -> tuple[Compare, ...] | None:
    """The comparisons that the formula is a conjunction of, else None.

    That of windows at its top which begin at the step itself: see `at_any_step`.
    """
    parts = []
    for part, holds in conjunction(at_any_step(formula)):
        if not isinstance(part, Compare):
            return None
        compare = part if holds else opposite_comparison(part)
        if compare.op == "ne":
            return None
        parts.append(compare)
    return tuple(parts)


def implications(formula: Formula) -> tuple[Implies, ...]:
    """The top-level `if ... then ...` parts of a rule."""
    top = at_any_step(formula)
    if isinstance(top, Initially):
        top = top.arg
    return tuple(
        part for part, positive in conjunction(top) if positive and isinstance(part, Implies)
    )


def sure(formula: Formula) -> bool:
    """Whether the formula has a truth value wherever all that it reads is known: it divides by
    nothing, takes no root, reads no other step.
    """
    return not any(
        isinstance(part, Quotient | Power | Reduce)
        or (isinstance(part, TermPart) and part.over_time)
        or (isinstance(part, Call) and part.function in ("log", "sqrt", "tan"))
        for _, part in everywhere(formula)
    )


def looks_for_gaps(formula: Formula) -> bool:
    """Whether a missing value can decide the formula: it asks what is known, or passes over what is
    not.
    """
    return any(
        isinstance(part, Known | Coalesce) or (isinstance(part, Reduce) and part.skip)
        for _, part in everywhere(formula)
    )


Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Affine:
    """``sum of coefficients[i] * slot i + constant``; every number is float64 [R]."""

    coefficients: Mapping[int, Array]
    constant: Array


def slots_of(term: Term) -> frozenset[int]:
    """The slots that a term reads."""
    return frozenset(part.index for part in subterms(term) if isinstance(part, Slot))


def affine_in(compare: Compare, slots: frozenset[int]) -> bool:
    """Whether both sides of a comparison are affine in `slots`, everything else being given."""
    return all(
        _degree(side, slots) <= 1 or _sympy_degree(side, slots) <= 1
        for side in (compare.left, compare.right)
    )


def nonlinear_comparisons(formula: Formula) -> list[Compare]:
    """The comparisons of a formula, those of its members included, that are not affine in its
    outputs.
    """
    atoms = (atom for _, atom in everywhere(formula) if isinstance(atom, Compare))
    return [atom for atom in atoms if is_nonlinear(atom)]


def is_nonlinear(atom: Compare) -> bool:
    """Whether a comparison is not affine in the outputs that it reads."""
    if not reads_output(atom):
        return False
    outputs = frozenset(
        term.index
        for side in sides(atom)
        for term in subterms(side)
        if isinstance(term, Slot) and term.role == "output"
    )
    return not affine_in(atom, outputs)


POLYNOMIAL = (Slot, Param, Sum, Negate, Product, Quotient, Power, Call)
"""The kinds of terms that sympy is given; it takes a `Call` for an unknown function."""
LARGEST, STEEPEST = 60, 8
"""Terms with more parts, or higher powers, are not given to sympy: expanding them may take for
ever.
"""


def _degree(term: Term, slots: frozenset[int]) -> int:
    """The degree in `slots` that the term's shape shows: never too low, `MANY` where it shows
    none.
    """
    if isinstance(term, Slot):
        return int(term.index in slots)
    if isinstance(term, Reduce):
        return _reduction_degree(term)
    if not isinstance(term, POLYNOMIAL):
        return MANY if slots & slots_of(term) or reads_output(term) else 0
    return term.degree([_degree(part, slots) for part in term_children(term)])


def _reduction_degree(term: Reduce) -> int:
    """The degree of a reduction in what its members predict; the slots of its owner are not in
    it.
    """
    if not reads_output(term):
        return 0
    outputs = frozenset(
        part.index
        for part in subterms(term.arg)
        if isinstance(part, Slot) and part.role == "output"
    )
    linear = term.op in ("sum", "mean") and not term.skip and _degree(term.arg, outputs) <= 1
    return 1 if linear else MANY


def _sympy_degree(term: Term, slots: frozenset[int]) -> int:
    """Return the degree after simplification; `MANY` if the term is not a polynomial."""
    if _too_large(term):
        return MANY
    import sympy

    symbols = [sympy.Symbol(f"s{i}", real=True) for i in sorted(slots)]
    polynomial = sympy.cancel(_expression(term)).as_poly(*symbols) if symbols else None
    return MANY if polynomial is None else int(polynomial.total_degree())


def _too_large(term: Term) -> bool:
    parts = list(subterms(term))
    return len(parts) > LARGEST or any(
        not isinstance(part, POLYNOMIAL)
        or (isinstance(part, Power) and abs(part.exponent) > STEEPEST)
        for part in parts
    )


def _expression(term: Term) -> Any:  # Any: sympy has no types
    import sympy

    match term:
        case Slot():
            return sympy.Symbol(f"s{term.index}", real=True)
        case Param():
            return sympy.Symbol(f"p{term.index}", real=True)
        case Sum():
            return sympy.Add(*(_expression(arg) for arg in term.args))
        case Negate():
            return -_expression(term.arg)
        case Product():
            return sympy.Mul(*(_expression(arg) for arg in term.args))
        case Quotient():
            return _expression(term.numerator) / _expression(term.denominator)
        case Power():
            return _expression(term.base) ** sympy.Rational(repr(term.exponent))
        case Call():
            return sympy.Function(term.function)(*(_expression(arg) for arg in term.args))
        case _:
            raise AssertionError("never given to sympy: see `POLYNOMIAL`")


def affine_by_shape(term: Term, params: Sequence[Array], rows: int) -> Affine | None:
    """Return the affine form, in all its slots, of a term that is affine by its structure, else
    None; always fast.

    Args:
        params: the rows' numbers, float64 [R] each.
    """
    if (
        not all(isinstance(part, POLYNOMIAL) for part in subterms(term))
        or _degree(term, slots_of(term)) > 1
    ):
        return None
    return _by_shape(term, params, rows)


def _by_shape(term: Term, params: Sequence[Array], rows: int) -> Affine:
    match term:
        case Slot():
            return Affine(coefficients={term.index: np.ones(rows)}, constant=np.zeros(rows))
        case Param():
            return Affine(
                coefficients={}, constant=np.asarray(params[term.index], dtype=np.float64)
            )
        case Sum():
            total = _by_shape(term.args[0], params, rows)
            for arg in term.args[1:]:
                total = _plus(total, _by_shape(arg, params, rows))
            return total
        case Negate():
            return _times(_by_shape(term.arg, params, rows), np.full(rows, -1.0))
        case Product():
            total = _by_shape(term.args[0], params, rows)
            for arg in term.args[1:]:
                other = _by_shape(arg, params, rows)
                total = (
                    _times(total, other.constant)
                    if not other.coefficients
                    else _times(other, total.constant)
                )
            return total
        case Quotient():
            below = _by_shape(term.denominator, params, rows).constant
            with np.errstate(divide="ignore"):
                return _times(_by_shape(term.numerator, params, rows), 1 / below)
        case Power():
            base = _by_shape(term.base, params, rows)
            return (
                base
                if term.exponent == 1
                else Affine(coefficients={}, constant=base.constant**term.exponent)
            )
        case Call():
            return Affine(coefficients={}, constant=_value(term, params, rows))
        case _:
            raise AssertionError("its shape does not show that it is affine: see `POLYNOMIAL`")


def _value(term: Call, params: Sequence[Array], rows: int) -> Array:
    """A function of numbers known at compile time."""
    values = [_by_shape(arg, params, rows).constant for arg in term.args]
    result: Array
    match term.function:
        case "min":
            result = np.minimum.reduce(values)
        case "max":
            result = np.maximum.reduce(values)
        case _:
            result = getattr(np, term.function)(values[0])
    return result


def _plus(a: Affine, b: Affine) -> Affine:
    keys = [*a.coefficients, *(key for key in b.coefficients if key not in a.coefficients)]
    zero = np.zeros_like(a.constant)
    return Affine(
        coefficients={
            key: a.coefficients.get(key, zero) + b.coefficients.get(key, zero) for key in keys
        },
        constant=a.constant + b.constant,
    )


def _times(a: Affine, factor: Array) -> Affine:
    return Affine(
        coefficients={key: value * factor for key, value in a.coefficients.items()},
        constant=a.constant * factor,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    """The spans that columns are declared with, for what a formula reads in some rows.

    Attributes:
        rows: one or several groups of rows of the same formula, one after the other.
        tables: the sets of members of each group.
        columns: the columns of the compilation, by number.
    """

    rows: Sequence[Rows | RowBuilder]
    tables: Sequence[Sequence[MemberRows | MemberBuilder]]
    columns: Sequence[BookColumn]

    @property
    def count(self) -> int:
        """R."""
        return sum(rows.count for rows in self.rows)

    def slot(self, index: int) -> Interval:
        """The spans of a slot's columns."""
        spans = [
            self.columns[column].span or (-np.inf, np.inf)
            for rows in self.rows
            for column in rows.slots[index].columns.tolist()
        ]
        ends = np.array(spans, dtype=np.float64).reshape(-1, 2)
        return ends[:, 0], ends[:, 1]

    def param(self, index: int) -> Interval:
        """The number itself, twice."""
        values = [rows.params[index] for rows in self.rows]
        numbers = [value for value in values if isinstance(value, np.ndarray)]
        if len(numbers) < len(values):
            return np.full(self.count, -np.inf), np.full(self.count, np.inf)
        known = np.concatenate(numbers)
        return known, known

    def members(self, table: int) -> tuple[Ranges, NDArray[np.int64]]:
        """Those of a member table, and the offsets of its owners."""
        found = [tables[table] for tables in self.tables]
        sizes = np.concatenate([np.diff(one.offsets) for one in found])
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return Declared([one.rows for one in found], self.tables, self.columns), offsets


def declared_spans(rows: RowBuilder, columns: Sequence[BookColumn]) -> Declared:
    """The spans for a formula that is being bound."""
    return Declared([rows], [rows.root.members], columns)


Seen = dict[tuple[int, int], Interval]
"""What terms were found to take, by `id` of term and of ranges."""


def interval(term: Term, ranges: Ranges, seen: Seen | None = None) -> Interval:
    """The values that a term can take inside the declared spans; never too narrow, sometimes too
    wide.

    That is so of the numbers that the interpreter computes: sums, products and quotients of ends
    are rounded as those of values are, and so
    bound them; the ends of what is rounded less strictly move outwards by `ROUND`.

    `seen`: what is taken from there, or put there, of the term and its parts.
    """
    key = id(term), id(ranges)
    if seen is not None and key in seen:
        return seen[key]
    with np.errstate(all="ignore"):
        low, high = term.interval(lambda part, inside: interval(part, inside, seen), ranges)
    found = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    if seen is not None:
        seen[key] = found
    return found


def comparison_scale(left: Term, right: Term, spans: Declared) -> NDArray[np.float64]:
    """By what a comparison's margin is divided in penalties: float64 [R], positive.

    It is the width of what its moving sides can range over (their declared spans), else the size of
    its fixed side, else 1.
    """
    width, threshold = np.zeros(spans.count), np.zeros(spans.count)
    for side in (left, right):
        low, high = interval(side, spans)
        if isinstance(side, Param):
            threshold = np.maximum(threshold, np.abs(low))
        else:
            width = width + (high - low)
    usable = np.isfinite(width) & (width > 0)
    known = np.isfinite(threshold) & (threshold > 0)
    return np.where(usable, width, np.where(known, threshold, 1.0))
