"""Conversion of the units of a site's columns to the units of the rules."""

from __future__ import annotations

from fedkg.errors import JobError
from fedkg.units import Conversion, Unit, UnitProblem, parse_unit
from fedkg.units import conversion as between


def unit_conversion(given: str, wanted: str, *, where: str) -> Conversion:
    """Return the conversion of a column from one unit to another.

    Raises:
        JobError: a unit is unknown or ambiguous, or the two measure different quantities; `where`
            names the field of the job.
    """
    source, target = _unit(given, where), _unit(wanted, where)
    try:
        return between(source, target)
    except ValueError as error:
        raise JobError(
            f"{where}: {error}",
            expected=f"a unit that converts to {wanted or 'a plain number'}",
            received=given or "a plain number",
            help="state the unit of the values in the table",
        ) from error


def _unit(text: str, where: str) -> Unit:
    found = Unit(text="") if text in ("", "1") else parse_unit(text)
    if isinstance(found, UnitProblem):
        raise JobError(
            f"{where}: unit `{text}` {found.reason}",
            received=text,
            help=found.advice
            or "write it as in a rule file, or convert the column before the job reads it",
        )
    return found
