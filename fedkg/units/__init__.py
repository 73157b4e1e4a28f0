"""Units of measurement as plants write them, exact, for rule files and jobs alike.

Light: pint is asked for long names only, and only where it is installed.
"""

from fedkg.units.text import UnitProblem, known_units, parse_unit
from fedkg.units.unit import Conversion, Unit, conversion, same_dimension

__all__ = [
    "Conversion",
    "Unit",
    "UnitProblem",
    "conversion",
    "known_units",
    "parse_unit",
    "same_dimension",
]
