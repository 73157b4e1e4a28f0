"""From the text of a unit to the unit: our own table first, pint behind it, and a question back
where a text has several readings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

from fedkg._internal.name_matching import certain_match
from fedkg.units.unit import RATE, Dimension, Unit, combine, power
from fedkg.units.unit_table import (
    AFFINE,
    ALIASES,
    ATOMS,
    CONVERTED,
    DOUBTFUL,
    HINTS,
    PREFIXED,
    PREFIXES,
)

_EXPONENT = re.compile(r"^(.*?[^\d^-])\^?(-?\d+)$")
_SPELLING = str.maketrans(
    {
        "·": ".",
        "*": ".",
        "⋅": ".",
        "⁻": "-",
        "¹": "1",
        "²": "2",
        "³": "3",
        "μ": "µ",
        "℃": "°C",
        "Ω": "Ω",
    }
)
MAX_LETTERS = 100
"""No unit is longer."""
MAX_EXPONENT = 20
"""Higher powers of a unit are a slip."""
_LONG = re.compile(r"[a-z][a-z_]{3,}")
_LOOKALIKES = str.maketrans("аесорхАВЕКМНОРСТХ", "aecopxABEKMHOPCTX")
"""Cyrillic letters that look like Latin ones."""
_SHORTEST_GUESS = 2
"""Letters of texts that get no suggestion unless pint tells that they are no other unit: T, mT."""
_FORCES = frozenset({"N", "kp", "kgf", "lbf"})


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitProblem:
    """A unit text that is not a unit (`doubtful` is False) or is ambiguous (`doubtful` is True).

    `instead` lists the units to write, without backquotes. `converted` tells that the values have
    to be converted to them; `hint` is the advice where a list of units is not enough.
    """

    text: str
    doubtful: bool
    reason: str
    instead: tuple[str, ...] = ()
    converted: bool = False
    hint: str = ""

    @property
    def advice(self) -> str:
        """A help line, "" if there is none: what to write instead."""
        units = " or ".join(f"`{unit}`" for unit in self.instead)
        if self.hint or not units:
            return self.hint
        if self.converted:
            return f"convert the values to {units}, and write {units}"
        return f"write {units}" if self.doubtful else f"did you mean {units}?"


@cache
def parse_unit(text: str) -> Unit | UnitProblem:
    """The unit that a text means.

    ``.``, ``*`` and ``·`` multiply, ``/`` divides, a number after a unit is its power: ``N.m``,
    ``m^3/h``, ``m3/h``, ``m³·h⁻¹``, ``m**3 / h``, ``1/min``, ``J/kg/K``.
    """
    plain = text.strip()
    if len(plain) > MAX_LETTERS:
        return UnitProblem(text=text, doubtful=False, reason="is not a unit")
    written = re.sub(r"\s*/\s*", "/", ALIASES.get(plain, plain).replace("**", "^")).translate(
        _SPELLING
    )
    written = ALIASES.get(written, written)
    if written in DOUBTFUL:
        return _doubtful(text, written)
    if written in AFFINE:
        factor, zero, dimension, step = AFFINE[written]
        return Unit(
            text=plain, factor=factor, zero=zero, dimension=_dimension(dimension), step_text=step
        )
    return _compound(plain, written)


def _doubtful(text: str, written: str) -> UnitProblem:
    why, instead = DOUBTFUL[written]
    return UnitProblem(
        text=text,
        doubtful=True,
        reason=why,
        instead=instead,
        converted=written in CONVERTED,
        hint=HINTS.get(written, ""),
    )


def _bracketed(text: str, written: str) -> UnitProblem:
    """A unit with brackets, and the same unit without them: ``kJ/kg/K`` for ``kJ/(kg.K)``."""
    plain = re.sub(r"(?<=/)\(([^()]*)\)", lambda found: _divided(found[1]), written)
    plain = re.sub(r"(?<!/)\(([^()/]*)\)", r"\1", plain)
    good = "(" not in plain and isinstance(parse_unit(plain), Unit)
    hint = f"write `{plain}`" if good else "divide again for each further unit: kJ/kg/K, W/m2/K"
    return UnitProblem(
        text=text,
        doubtful=True,
        reason="has brackets, and units take none",
        instead=(plain,) if good else (),
        hint=hint,
    )


def _divided(inside: str) -> str:
    """The units in brackets after ``/``, as they follow that ``/`` without the brackets."""
    return inside.translate(str.maketrans("./", "/."))


def _compound(text: str, written: str) -> Unit | UnitProblem:
    if re.search(r"\(.*[./].*\)|/\(", written):
        return _bracketed(text, written)
    above, *below = written.split("/")
    for part in below:
        if "." in part:
            instead = written.replace(".", "/") if written.count("/") == 1 else ""
            reason = f"divides by `{part.split('.')[0]}` alone, or by all of `{part}`"
            return UnitProblem(
                text=text, doubtful=True, reason=reason, instead=(instead,) if instead else ()
            )
    total = Unit(text=text)
    factors = [(atom, 1) for atom in above.split(".")] + [(atom, -1) for atom in below]
    for atom, sign in factors:
        found = _power_of_atom(atom)
        if isinstance(found, UnitProblem):
            return found if found.text == text else replace(found, text=atom)
        if found.affine:
            return _scaled_point(text, atom, found)
        total = replace(
            total,
            factor=total.factor * (found.factor if sign > 0 else 1 / found.factor),
            turns=total.turns + sign * found.turns,
            dimension=combine(total.dimension, found.dimension, sign),
        )
    return replace(
        total,
        moment=_is_moment([atom for atom, _ in factors], written),
        count=total.dimension == RATE and "Hz" not in written,
    )


def _scaled_point(text: str, atom: str, point: Unit) -> UnitProblem:
    reason = (
        f"multiplies or divides by `{atom}`, which has an offset zero: only a "
        f"difference makes sense, and its unit is {point.step_text}"
    )
    return UnitProblem(
        text=text, doubtful=True, reason=reason, instead=(text.replace(atom, point.step_text),)
    )


def _is_moment(atoms: list[str], written: str) -> bool:
    if written in ("Nm", "kNm", "MNm", "mNm"):
        return True
    ends = [atom for atom in atoms if atom not in ("1", "")]
    force = any(atom in _FORCES or (atom[:1] in PREFIXES and atom[1:] in _FORCES) for atom in ends)
    length = any(atom in ("m", "mm", "cm") for atom in ends)
    return "/" not in written and len(ends) == 2 and force and length


def _power_of_atom(atom: str) -> Unit | UnitProblem:
    whole = _atom(atom)
    if whole is not None:
        return whole
    parts = _EXPONENT.match(atom)
    if parts and abs(int(parts[2])) > MAX_EXPONENT:
        return UnitProblem(text=atom, doubtful=False, reason="is not a unit")
    if parts:
        base = _atom(parts[1])
        if isinstance(base, UnitProblem):
            return base
        if base is not None:
            return base if base.affine else power(base, Fraction(int(parts[2])))
    return _by_pint(
        parts[1] if parts else atom, Fraction(int(parts[2])) if parts else Fraction(1), atom
    )


def _atom(atom: str) -> Unit | UnitProblem | None:
    if atom in DOUBTFUL:
        return _doubtful(atom, atom)
    if atom in AFFINE:
        factor, zero, dimension, step = AFFINE[atom]
        return Unit(
            text=atom, factor=factor, zero=zero, dimension=_dimension(dimension), step_text=step
        )
    if atom in ATOMS:
        factor, turns, dimension = ATOMS[atom]
        return Unit(text=atom, factor=factor, turns=turns, dimension=_dimension(dimension))
    prefix, rest = atom[:1], atom[1:]
    if prefix and prefix in PREFIXED.get(rest, ""):
        factor, turns, dimension = ATOMS[rest]
        return Unit(
            text=atom,
            factor=PREFIXES[prefix] * factor,
            turns=turns,
            dimension=_dimension(dimension),
        )
    return None


def _dimension(exponents: dict[str, int]) -> Dimension:
    return tuple(sorted((name, Fraction(value)) for name, value in exponents.items()))


def known_units() -> list[str]:
    """Texts of units, for suggestions."""
    prefixed = [prefix + atom for atom, prefixes in PREFIXED.items() for prefix in prefixes]
    return sorted(
        {
            *ATOMS,
            *AFFINE,
            *prefixed,
            "N.m",
            "kg/h",
            "t/h",
            "m3/h",
            "Nm3/h",
            "l/min",
            "1/min",
            "m/s",
            "mm/s",
        }
        - {"1"}
    )


def _meant(atom: str) -> tuple[str, ...]:
    """The units that the user probably meant.

    These are the units that differ from a text in case alone (``MPa`` and ``mPa`` for ``mpa``),
    else the one from which a long text differs in one letter. Short texts that differ in a letter
    are other units (``gpm`` is not ``GPa``).
    """
    known = known_units()
    same = tuple(unit for unit in known if unit.casefold() == atom.casefold())
    latin = atom.translate(_LOOKALIKES)
    if not same and latin != atom and latin in known:
        return (latin,)
    near = None if same else certain_match(atom, known) or _without_doubled_letter(atom, known)
    return same or ((near,) if near else ())


def _without_doubled_letter(atom: str, known: list[str]) -> str | None:
    """The one unit that a text is with a letter written once: ``kg`` for ``kgg``, not ``Nm`` for
    ``Nmm``.
    """
    dropped = {
        atom[:i] + atom[i + 1 :]
        for i in range(1, len(atom))
        if atom[i] == atom[i - 1] and atom[i] != "m"
    }
    found = sorted(dropped.intersection(known))
    return found[0] if len(found) == 1 else None


# --------------------------------------------------------------------------------------------------
# pint

_PINT_BASES = {
    "[mass]": "mass",
    "[length]": "length",
    "[time]": "time",
    "[current]": "current",
    "[temperature]": "temperature",
    "[substance]": "amount",
    "[luminosity]": "light",
}


def _by_pint(atom: str, exponent: Fraction, text: str) -> Unit | UnitProblem:
    """Units that pint knows by a long name (``fathom``).

    Short texts are rejected (pint reads ``Nm`` as a yarn count).
    """
    meant = _meant(atom)
    unknown = UnitProblem(text=text, doubtful=False, reason="is not a unit", instead=meant)
    if not re.fullmatch(r"[^\W\d_]\w*", atom):
        return unknown
    try:
        import pint
    except ImportError:  # without the compiler extra the table is all there is
        return unknown if len(atom) > _SHORTEST_GUESS else replace(unknown, instead=())
    registry = _registry()
    try:
        unit = registry.Unit(atom)
        one = registry.Quantity(1, unit).to_base_units()
        zero = registry.Quantity(0, unit).to_base_units()
    except (
        pint.PintError,
        ValueError,
        TypeError,
        AttributeError,
        AssertionError,
    ):  # NFKC turns some letters into combining marks
        return (
            replace(unknown, instead=(atom.lower(),))
            if not meant and _LONG.fullmatch(atom.lower()) and atom.lower() in registry
            else unknown
        )
    name = str(unit)
    if (
        not _LONG.fullmatch(atom)
        or float(zero.magnitude) != 0.0
        or not set(unit.dimensionality) <= set(_PINT_BASES)
    ):
        if name == atom:  # such as `are`, which fedkg does not have
            return unknown
        good = isinstance(parse_unit(name), Unit)
        return UnitProblem(
            text=text,
            doubtful=True,
            reason=f"may be meant as {name.replace('_', ' ')}",
            instead=(name,) if good else (),
            hint="" if good else "docs/reference/units.md lists units",
        )
    exponents = {
        _PINT_BASES[base]: Fraction(repr(float(power)))
        for base, power in unit.dimensionality.items()
    }
    angle = _angle_exponent(str(one.units))
    dimension = tuple(
        sorted([*exponents.items(), *([("angle", Fraction(angle))] if angle else [])])
    )
    base_unit = Unit(
        text=atom,
        factor=Fraction(repr(float(one.magnitude))) / Fraction(2) ** angle,
        turns=-angle,
        dimension=dimension,
    )
    return power(base_unit, exponent)


def _angle_exponent(units: str) -> int:
    """The power of radian in the text of pint's base units."""
    if "radian" not in units:
        return 0
    found = re.search(r"(/ )?radian(?: \*\* (\d+))?", units)
    return 0 if found is None else int(found[2] or 1) * (-1 if found[1] else 1)


@cache
def _registry() -> Any:  # Any: pint builds the classes of a registry at run time
    import pint

    return pint.UnitRegistry()
