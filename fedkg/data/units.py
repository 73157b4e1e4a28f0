"""Units that sites write for their columns, converted to the unit the rules use: ``value * factor + offset`` in the base unit.

A job knows its units at run time, without the rule compiler; this is the short list of linear units that plants write for the quantities
rules speak of. What is not in it is refused by name, with the units of the same quantity.
"""

from __future__ import annotations

import difflib
import math

from fedkg.errors import JobError

_PER_MIN = 2.0 * math.pi / 60.0

UNITS: dict[str, tuple[str, float, float]] = {
    "K": ("temperature", 1.0, 0.0),
    "degC": ("temperature", 1.0, 273.15),
    "degF": ("temperature", 5.0 / 9.0, 459.67 * 5.0 / 9.0),
    "N.m": ("torque", 1.0, 0.0),
    "kN.m": ("torque", 1e3, 0.0),
    "N.cm": ("torque", 1e-2, 0.0),
    "lbf.ft": ("torque", 1.3558179483314004, 0.0),
    "rad/s": ("angular speed", 1.0, 0.0),
    "1/min": ("angular speed", _PER_MIN, 0.0),
    "1/s": ("angular speed", 2.0 * math.pi, 0.0),
    "s": ("time", 1.0, 0.0),
    "ms": ("time", 1e-3, 0.0),
    "min": ("time", 60.0, 0.0),
    "h": ("time", 3600.0, 0.0),
    "d": ("time", 86400.0, 0.0),
    "W": ("power", 1.0, 0.0),
    "kW": ("power", 1e3, 0.0),
    "MW": ("power", 1e6, 0.0),
    "hp": ("power", 745.6998715822702, 0.0),
    "Pa": ("pressure", 1.0, 0.0),
    "kPa": ("pressure", 1e3, 0.0),
    "MPa": ("pressure", 1e6, 0.0),
    "mbar": ("pressure", 1e2, 0.0),
    "bar": ("pressure", 1e5, 0.0),
    "psi": ("pressure", 6894.757293168361, 0.0),
    "m": ("length", 1.0, 0.0),
    "mm": ("length", 1e-3, 0.0),
    "um": ("length", 1e-6, 0.0),
    "in": ("length", 0.0254, 0.0),
    "m/s": ("speed", 1.0, 0.0),
    "m/min": ("speed", 1.0 / 60.0, 0.0),
    "mm/min": ("speed", 1e-3 / 60.0, 0.0),
    "kg": ("mass", 1.0, 0.0),
    "g": ("mass", 1e-3, 0.0),
    "t": ("mass", 1e3, 0.0),
    "kg/s": ("mass flow", 1.0, 0.0),
    "kg/h": ("mass flow", 1.0 / 3600.0, 0.0),
    "t/h": ("mass flow", 1e3 / 3600.0, 0.0),
    "m3/s": ("volume flow", 1.0, 0.0),
    "m3/h": ("volume flow", 1.0 / 3600.0, 0.0),
    "l/min": ("volume flow", 1e-3 / 60.0, 0.0),
    "V": ("voltage", 1.0, 0.0),
    "mV": ("voltage", 1e-3, 0.0),
    "kV": ("voltage", 1e3, 0.0),
    "A": ("current", 1.0, 0.0),
    "mA": ("current", 1e-3, 0.0),
    "N": ("force", 1.0, 0.0),
    "kN": ("force", 1e3, 0.0),
    "1": ("number", 1.0, 0.0),
    "%": ("number", 1e-2, 0.0),
}
"""Unit to (quantity, factor, offset) of the quantity's base unit."""

ALIASES = {
    "": "1",
    "°C": "degC",
    "C": "degC",
    "°F": "degF",
    "Nm": "N.m",
    "N·m": "N.m",
    "N*m": "N.m",
    "kNm": "kN.m",
    "Ncm": "N.cm",
    "ft.lbf": "lbf.ft",
    "rpm": "1/min",
    "U/min": "1/min",
    "Hz": "1/s",
    "sec": "s",
    "minutes": "min",
    "hours": "h",
    "µm": "um",
    "m^3/h": "m3/h",
    "m³/h": "m3/h",
    "L/min": "l/min",
    "probability": "1",
}


def conversion(given: str, wanted: str, *, where: str) -> tuple[float, float]:
    """`(factor, offset)` with ``value in wanted = value in given * factor + offset``; (1, 0) for equal units.

    Raises:
        JobError: when a unit is not known or the two measure different quantities; `where` names the field of the job.
    """
    if given == wanted or ALIASES.get(given, given) == ALIASES.get(wanted, wanted):
        return 1.0, 0.0
    (quantity, factor, offset), (target, per, zero) = _unit(given, where), _unit(wanted, where)
    if quantity != target:
        raise JobError(f"{where}: {given} measures {quantity}, the rules read {target}", expected=f"a unit like {wanted}", received=given)
    return factor / per, (offset - zero) / per


def _unit(text: str, where: str) -> tuple[str, float, float]:
    name = ALIASES.get(text, text)
    if name in UNITS:
        return UNITS[name]
    near = difflib.get_close_matches(text, [*UNITS, *ALIASES], 3, 0.6)
    raise JobError(
        f"{where}: unit `{text}` is not known to jobs",
        expected="one of " + ", ".join(unit for unit in UNITS),
        help=f"did you mean {' or '.join(f'`{unit}`' for unit in near)}?" if near else "convert the column before the job reads it",
    )
