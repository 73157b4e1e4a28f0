"""Units as exact numbers: what one of a unit is in base units, and how values travel between two
units.

Factors are fractions (and a power of pi), so that a converted threshold is the float nearest to the
true decimal: 600 mbar are 0.6 bar. Angles are counted in revolutions and kept apart from plain
numbers: 60 rpm is one revolution a second, and a torque times a speed is a power only after the
factor 2 pi that turns revolutions into radians. A norm cubic metre (``Nm3``) is not a cubic metre.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Dimension = tuple[tuple[str, Fraction], ...]
"""Base dimensions with their exponents, sorted by name, none of them zero."""

ENERGY: Dimension = (("length", Fraction(2)), ("mass", Fraction(1)), ("time", Fraction(-2)))
PRESSURE: Dimension = (("length", Fraction(-1)), ("mass", Fraction(1)), ("time", Fraction(-2)))
POWER: Dimension = (("length", Fraction(2)), ("mass", Fraction(1)), ("time", Fraction(-3)))
TEMPERATURE: Dimension = (("temperature", Fraction(1)),)
RATE: Dimension = (("time", Fraction(-1)),)
ANGLE = "angle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A unit of measurement.

    Attributes:
        text: the unit as the author wrote it.
        factor: rational part of the size of the unit, which is ``factor * pi**turns`` base units.
        turns: exponent of pi in the size of the unit.
        dimension: the exponents of base dimensions.
        zero: position of its zero in base units: 273.15 for degC, 101325 for barg.
        step_text: the unit of a difference where `zero` is not 0: ``K`` for degC, ``degR`` for
            degF, ``bar`` for barg.
        difference: it is known to measure a difference of temperatures or of pressures, not a point
            on the scale.
        moment: a force times a length written as such (``N.m``), which is a torque rather than an
            energy (``J``).
        count: a rate that may count revolutions: written ``1/min`` and the like.
        derived: it came out of a product, a quotient or a power: nobody wrote it.
    """

    text: str
    factor: Fraction = Fraction(1)
    turns: int = 0
    dimension: Dimension = ()
    zero: Fraction = Fraction(0)
    step_text: str = ""
    difference: bool = False
    moment: bool = False
    count: bool = False
    derived: bool = False

    @property
    def affine(self) -> bool:
        """Whether its zero is not the zero of what it measures."""
        return self.zero != 0

    def exponent(self, name: str) -> Fraction:
        """The exponent of one base dimension."""
        return dict(self.dimension).get(name, Fraction(0))

    def step(self) -> Unit:
        """The unit of a difference of two values in this unit."""
        if self.affine:
            return replace(
                self, text=self.step_text, zero=Fraction(0), step_text="", difference=True
            )
        return replace(self, difference=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """``target = source * factor * pi**turns + shift``."""

    factor: Fraction
    turns: int
    shift: Fraction

    @property
    def identity(self) -> bool:
        """Whether values stay as they are."""
        return self.factor == 1 and self.turns == 0 and self.shift == 0

    @property
    def scale(self) -> float:
        """The factor as a number."""
        return (
            math.pi**self.turns * self.factor.numerator / self.factor.denominator
            if self.turns
            else float(self.factor)
        )

    def apply(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert values, each to the float nearest to the exact decimal result."""
        if self.identity:
            return values
        distinct, where = np.unique(values, return_inverse=True)
        return np.array([self.one(float(value)) for value in distinct], dtype=np.float64)[
            where
        ].reshape(values.shape)

    def one(self, value: float) -> float:
        """Convert one value; what no float holds becomes an infinity."""
        if self.identity:
            return float(value)
        if not math.isfinite(value) or self.turns:
            return value * self.scale + float(self.shift)
        exact = Fraction(repr(value)) * self.factor + self.shift
        try:
            return float(exact)
        except OverflowError:
            return math.inf if exact > 0 else -math.inf


SAME = Conversion(factor=Fraction(1), turns=0, shift=Fraction(0))


def same_dimension(a: Unit, b: Unit) -> bool:
    """Whether values in `a` can be expressed in `b`, ignoring angles that were multiplied into
    mechanical units.
    """
    return _without_angle(a) == _without_angle(b) and (
        bool(_without_angle(a)) or a.exponent(ANGLE) == b.exponent(ANGLE)
    )


def conversion(source: Unit, target: Unit) -> Conversion:
    """How values in `source` become values in `target`.

    Revolutions per time and a plain rate are the same count (1380 rpm is 1380 1/min); in any other
    quantity an angle is read in radians (a torque times a speed is a power).

    Raises:
        ValueError: when they measure different things.
    """
    if source is target:
        return SAME
    if not same_dimension(source, target):
        texts = [unit.text or "a plain number" for unit in (source, target)]
        raise ValueError(f"{texts[0]} and {texts[1]} measure different things")
    factor, turns = source.factor / target.factor, source.turns - target.turns
    surplus = source.exponent(ANGLE) - target.exponent(ANGLE)
    if surplus.denominator == 1 and surplus and _without_angle(source) != RATE:
        factor, turns = factor * Fraction(2) ** int(surplus), turns + int(surplus)
    shift = Fraction(0) if turns else (source.zero - target.zero) / target.factor
    return Conversion(factor=factor, turns=turns, shift=shift)


def same_scale(a: Unit, b: Unit) -> bool:
    """Whether a number means the same in both units."""
    return a == b or (same_dimension(a, b) and conversion(a, b).identity)


def times(a: Unit, b: Unit) -> Unit:
    """The unit of a product (neither unit affine)."""
    return _product(
        f"{_factor_text(a)}.{_factor_text(b)}" if a.text and b.text else a.text or b.text, a, b, 1
    )


def over(a: Unit, b: Unit) -> Unit:
    """The unit of a quotient (neither unit affine)."""
    below = f"({b.text})" if any(mark in b.text for mark in "./") else b.text
    return _product(f"{a.text or '1'}/{below}" if below else a.text, a, b, -1)


def power(a: Unit, exponent: Fraction) -> Unit:
    """The unit of a power; a factor that has no exact root is rounded."""
    if exponent.denominator == 1:
        factor = a.factor ** int(exponent)
        turns = a.turns * int(exponent)
    else:
        factor, turns = Fraction(repr((float(a.factor) * math.pi**a.turns) ** float(exponent))), 0
    dimension = tuple((name, value * exponent) for name, value in a.dimension if value * exponent)
    base = f"({a.text})" if any(mark in a.text for mark in "./") else a.text
    return Unit(
        text=f"{base}^{exponent}" if a.text else "",
        factor=factor,
        turns=turns,
        dimension=dimension,
        derived=bool(dimension),
    )


def as_revolutions(a: Unit) -> Unit:
    """A rate (``1/min``) read as revolutions per time."""
    return replace(a, dimension=combine(a.dimension, ((ANGLE, Fraction(1)),), 1), count=False)


def combine(a: Dimension, b: Dimension, sign: int | Fraction) -> Dimension:
    """Exponents of `a` plus `sign` times those of `b`."""
    total = dict(a)
    for name, exponent in b:
        total[name] = total.get(name, Fraction(0)) + sign * exponent
    return tuple(sorted((name, exponent) for name, exponent in total.items() if exponent))


def _product(text: str, a: Unit, b: Unit, sign: int) -> Unit:
    dimension = combine(a.dimension, b.dimension, sign)
    factor = a.factor * b.factor if sign > 0 else a.factor / b.factor
    turns = a.turns + sign * b.turns
    if not dimension and factor == 1 and turns == 0:
        text = ""
    return Unit(text=text, factor=factor, turns=turns, dimension=dimension, derived=bool(dimension))


def _factor_text(a: Unit) -> str:
    return f"({a.text})" if "/" in a.text else a.text


def _without_angle(a: Unit) -> Dimension:
    return tuple(pair for pair in a.dimension if pair[0] != ANGLE)


NUMBER = Unit(text="")
"""A plain number that is known to have no unit (unlike a bare number, which takes the unit of what
it is compared with)."""
