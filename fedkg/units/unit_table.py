"""What plants write, and what we take it for: the atoms of unit texts, in base units (kg, m, s, A,
K, mol, revolution, norm m3).
"""

from __future__ import annotations

from fractions import Fraction

Atom = tuple[Fraction, int, dict[str, int]]
"""Factor, power of pi, dimension."""

_MASS, _LENGTH, _TIME, _CURRENT, _HEAT = (
    {"mass": 1},
    {"length": 1},
    {"time": 1},
    {"current": 1},
    {"temperature": 1},
)
_FORCE = {"mass": 1, "length": 1, "time": -2}
_PRESSURE = {"mass": 1, "length": -1, "time": -2}
_ENERGY = {"mass": 1, "length": 2, "time": -2}
_POWER = {"mass": 1, "length": 2, "time": -3}
_VOLTAGE = {"mass": 1, "length": 2, "time": -3, "current": -1}
_RESISTANCE = {"mass": 1, "length": 2, "time": -3, "current": -2}
_CONDUCTANCE = {"mass": -1, "length": -2, "time": 3, "current": 2}
_VOLUME = {"length": 3}
_NORM = {"norm volume": 1}
_TURN = {"angle": 1}
_TURN_RATE = {"angle": 1, "time": -1}
_WATER, _MERCURY = Fraction("9806.65"), Fraction("133.322387415")

ATOMS: dict[str, Atom] = {
    "1": (Fraction(1), 0, {}),
    # plain numbers
    "probability": (Fraction(1), 0, {}),
    "%": (Fraction(1, 100), 0, {}),
    "percent": (Fraction(1, 100), 0, {}),
    "Vol%": (Fraction(1, 100), 0, {}),
    "vol%": (Fraction(1, 100), 0, {}),
    "wt%": (Fraction(1, 100), 0, {}),
    "‰": (Fraction(1, 1000), 0, {}),
    "ppm": (Fraction(1, 10**6), 0, {}),
    "ppb": (Fraction(1, 10**9), 0, {}),
    # things that are counted
    "pcs": (Fraction(1), 0, {"pieces": 1}),
    "pc": (Fraction(1), 0, {"pieces": 1}),
    "Stk": (Fraction(1), 0, {"pieces": 1}),
    "EUR": (Fraction(1), 0, {"money in EUR": 1}),
    "€": (Fraction(1), 0, {"money in EUR": 1}),
    "USD": (Fraction(1), 0, {"money in USD": 1}),
    # scales that convert to nothing else
    "pH": (Fraction(1), 0, {"pH": 1}),
    "dB": (Fraction(1), 0, {"level in dB": 1}),
    "dBA": (Fraction(1), 0, {"level in dB(A)": 1}),
    "HRC": (Fraction(1), 0, {"Rockwell C hardness": 1}),
    "HV": (Fraction(1), 0, {"Vickers hardness": 1}),
    "HB": (Fraction(1), 0, {"Brinell hardness": 1}),
    # mass
    "g": (Fraction(1, 1000), 0, _MASS),
    "t": (Fraction(1000), 0, _MASS),
    "to": (Fraction(1000), 0, _MASS),
    "lb": (Fraction("0.45359237"), 0, _MASS),
    "lbs": (Fraction("0.45359237"), 0, _MASS),
    # length, area, volume
    "m": (Fraction(1), 0, _LENGTH),
    "in": (Fraction("0.0254"), 0, _LENGTH),
    "inch": (Fraction("0.0254"), 0, _LENGTH),
    "ft": (Fraction("0.3048"), 0, _LENGTH),
    "ha": (Fraction(10000), 0, {"length": 2}),
    "l": (Fraction(1, 1000), 0, _VOLUME),
    "L": (Fraction(1, 1000), 0, _VOLUME),
    "cbm": (Fraction(1), 0, _VOLUME),
    "ccm": (Fraction(1, 10**6), 0, _VOLUME),
    "qm": (Fraction(1), 0, {"length": 2}),
    # norm volume: an amount of gas, stated as the volume it would fill at 0 degC and 1.01325 bar
    "Nm3": (Fraction(1), 0, _NORM),
    "Nm^3": (Fraction(1), 0, _NORM),
    "Nl": (Fraction(1, 1000), 0, _NORM),
    "NL": (Fraction(1, 1000), 0, _NORM),
    # time
    "s": (Fraction(1), 0, _TIME),
    "sec": (Fraction(1), 0, _TIME),
    "Sek": (Fraction(1), 0, _TIME),
    "min": (Fraction(60), 0, _TIME),
    "Min": (Fraction(60), 0, _TIME),
    "h": (Fraction(3600), 0, _TIME),
    "hr": (Fraction(3600), 0, _TIME),
    "Std": (Fraction(3600), 0, _TIME),
    "d": (Fraction(86400), 0, _TIME),
    "day": (Fraction(86400), 0, _TIME),
    "days": (Fraction(86400), 0, _TIME),
    "week": (Fraction(604800), 0, _TIME),
    "Hz": (Fraction(1), 0, {"time": -1}),
    # angle and speed of rotation
    "rev": (Fraction(1), 0, _TURN),
    "rpm": (Fraction(1, 60), 0, _TURN_RATE),
    "RPM": (Fraction(1, 60), 0, _TURN_RATE),
    "Upm": (Fraction(1, 60), 0, _TURN_RATE),
    "UpM": (Fraction(1, 60), 0, _TURN_RATE),
    "rps": (Fraction(1), 0, _TURN_RATE),
    "rad": (Fraction(1, 2), -1, _TURN),
    "deg": (Fraction(1, 360), 0, _TURN),
    # electricity
    "A": (Fraction(1), 0, _CURRENT),
    "Ah": (Fraction(3600), 0, {"current": 1, "time": 1}),
    "V": (Fraction(1), 0, _VOLTAGE),
    "VA": (Fraction(1), 0, _POWER),
    "var": (Fraction(1), 0, _POWER),
    "Ω": (Fraction(1), 0, _RESISTANCE),
    "ohm": (Fraction(1), 0, _RESISTANCE),
    "Ohm": (Fraction(1), 0, _RESISTANCE),
    "S": (Fraction(1), 0, _CONDUCTANCE),
    # temperature
    "K": (Fraction(1), 0, _HEAT),
    "degR": (Fraction(5, 9), 0, _HEAT),
    # amount, light
    "mol": (Fraction(1), 0, {"amount": 1}),
    "cd": (Fraction(1), 0, {"light": 1}),
    "lx": (Fraction(1), 0, {"light": 1, "length": -2}),
    # force, torque, pressure
    "N": (Fraction(1), 0, _FORCE),
    "kp": (Fraction("9.80665"), 0, _FORCE),
    "kgf": (Fraction("9.80665"), 0, _FORCE),
    "lbf": (Fraction("4.4482216152605"), 0, _FORCE),
    "Nm": (Fraction(1), 0, _ENERGY),
    "Pa": (Fraction(1), 0, _PRESSURE),
    "bar": (Fraction(100000), 0, _PRESSURE),
    "bara": (Fraction(100000), 0, _PRESSURE),
    "atm": (Fraction(101325), 0, _PRESSURE),
    "psi": (Fraction("6894.757293168361"), 0, _PRESSURE),
    "psia": (Fraction("6894.757293168361"), 0, _PRESSURE),
    "Torr": (Fraction(101325, 760), 0, _PRESSURE),
    "mmHg": (_MERCURY, 0, _PRESSURE),
    "mmH2O": (_WATER / 1000, 0, _PRESSURE),
    "mmWS": (_WATER / 1000, 0, _PRESSURE),
    "mmWC": (_WATER / 1000, 0, _PRESSURE),
    "cmH2O": (_WATER / 100, 0, _PRESSURE),
    "mWS": (_WATER, 0, _PRESSURE),
    "mWC": (_WATER, 0, _PRESSURE),
    "inH2O": (_WATER * Fraction("0.0254"), 0, _PRESSURE),
    # energy, power
    "J": (Fraction(1), 0, _ENERGY),
    "Wh": (Fraction(3600), 0, _ENERGY),
    "eV": (Fraction("1.602176634e-19"), 0, _ENERGY),
    "W": (Fraction(1), 0, _POWER),
    "PS": (Fraction("735.49875"), 0, _POWER),
    # viscosity, acceleration, data
    "P": (Fraction(1, 10), 0, {"mass": 1, "length": -1, "time": -1}),
    "Pas": (Fraction(1), 0, {"mass": 1, "length": -1, "time": -1}),
    "St": (Fraction(1, 10000), 0, {"length": 2, "time": -1}),
    "bit": (Fraction(1), 0, {"data": 1}),
    "Byte": (Fraction(8), 0, {"data": 1}),
}

AFFINE: dict[str, tuple[Fraction, Fraction, dict[str, int], str]] = {
    "degC": (Fraction(1), Fraction("273.15"), _HEAT, "K"),
    "°C": (Fraction(1), Fraction("273.15"), _HEAT, "K"),
    "Celsius": (Fraction(1), Fraction("273.15"), _HEAT, "K"),
    "degF": (Fraction(5, 9), Fraction("459.67") * Fraction(5, 9), _HEAT, "degR"),
    "°F": (Fraction(5, 9), Fraction("459.67") * Fraction(5, 9), _HEAT, "degR"),
    "barg": (Fraction(100000), Fraction(101325), _PRESSURE, "bar"),
    "bar(g)": (Fraction(100000), Fraction(101325), _PRESSURE, "bar"),
    "barü": (Fraction(100000), Fraction(101325), _PRESSURE, "bar"),
    "mbarg": (Fraction(100), Fraction(101325), _PRESSURE, "mbar"),
    "kPag": (Fraction(1000), Fraction(101325), _PRESSURE, "kPa"),
    "MPag": (Fraction(10**6), Fraction(101325), _PRESSURE, "MPa"),
    "psig": (Fraction("6894.757293168361"), Fraction(101325), _PRESSURE, "psi"),
}
"""Units with an offset zero: factor, their zero in base units, dimension, unit of a difference."""

PREFIXES: dict[str, Fraction] = {
    "G": Fraction(10**9),
    "M": Fraction(10**6),
    "k": Fraction(1000),
    "h": Fraction(100),
    "d": Fraction(1, 10),
    "c": Fraction(1, 100),
    "m": Fraction(1, 1000),
    "µ": Fraction(1, 10**6),
    "u": Fraction(1, 10**6),
    "n": Fraction(1, 10**9),
}

PREFIXED: dict[str, str] = {
    "g": "kmµun",
    "m": "kdcmµun",
    "s": "mµun",
    "l": "hdcmµu",
    "L": "hdcmµu",
    "A": "kmµun",
    "Ah": "km",
    "V": "kmµu",
    "VA": "kM",
    "var": "kM",
    "Ω": "kMm",
    "ohm": "kMm",
    "Ohm": "kMm",
    "S": "mµu",
    "K": "m",
    "mol": "kmµun",
    "N": "kMm",
    "Nm": "kMm",
    "Pa": "kMGhm",
    "Pas": "m",
    "bar": "mkµu",
    "J": "kMGm",
    "Wh": "kMG",
    "W": "kMGmµu",
    "eV": "kM",
    "Hz": "kMGm",
    "P": "c",
    "St": "c",
    "t": "kM",
    "rad": "m",
    "bit": "kMG",
    "Byte": "kMG",
    "EUR": "kM",
    "cd": "m",
    "lx": "k",
}
"""The prefixes that an atom is written with."""

DOUBTFUL: dict[str, tuple[str, tuple[str, ...]]] = {
    "C": ("is a coulomb to a physicist and degrees Celsius on many screens", ("degC",)),
    "F": ("is a farad to a physicist and degrees Fahrenheit on many screens", ("degF",)),
    "°": ("is an angle or a temperature", ("deg", "degC")),
    "Grad": ("is an angle or a temperature", ("deg", "degC")),
    "grad": ("is an angle, a hundredth of a right angle, or a temperature", ("deg", "degC")),
    "U": ("alone is a revolution or an enzyme unit", ("rev", "U/min")),
    "ton": ("is a metric, a long or a short ton", ("t",)),
    "tons": ("is a metric, a long or a short ton", ("t",)),
    "gal": ("is a US or an imperial gallon", ("l",)),
    "hp": ("is a metric or an imperial horsepower", ("PS", "kW")),
    "HP": ("is a metric or an imperial horsepower", ("PS", "kW")),
    "at": ("is a technical atmosphere or an attotonne", ("bar",)),
    "atü": ("is a technical atmosphere, gauge", ("barg",)),
    "Sm3": ("is taken at 15 degC by some and at 20 degC by others", ("Nm3",)),
    "Sm^3": ("is taken at 15 degC by some and at 20 degC by others", ("Nm3",)),
    "scf": ("is taken at various temperatures", ("Nm3",)),
    "scfm": ("is taken at various temperatures", ("Nm3/h",)),
    "a": ("is a year or an are", ("d",)),
    "M": ("is a month, a molarity, a million, or a metre with a capital M", ("mol/l", "m")),
    "M2": ("has a capital M, which is not a metre", ("m2",)),
    "M^2": ("has a capital M, which is not a metre", ("m2",)),
    "M3": ("has a capital M, which is not a metre", ("m3",)),
    "M^3": ("has a capital M, which is not a metre", ("m3",)),
    "mM": ("is a millimole per litre, or a millimetre with a capital M", ("mmol/l", "mm")),
    "B": ("is a byte or a bel", ("Byte",)),
    "cal": ("has several sizes", ("J",)),
    "kcal": ("has several sizes", ("kJ",)),
    "lpm": ("is litres or lines per minute", ("l/min",)),
    "mil": ("is a thousandth of an inch, a mile or a million", ("mm",)),
    "oz": ("is a mass or a volume", ("g", "ml")),
    "mio": ("is a number, not a unit", ()),
    "Mio": ("is a number, not a unit", ()),
    "gpm": ("counts US or imperial gallons", ("l/min",)),
    "cfm": (
        "is read as cubic feet per minute by some, and as a tiny length by others",
        ("ft3/min",),
    ),
    "TPH": ("counts metric, long or short tons", ("t/h",)),
    "tph": ("counts metric, long or short tons", ("t/h",)),
    "sccm": ("is taken at various temperatures", ("Nl/min",)),
    "T": ("is a tesla to a physicist and a tonne on some screens", ("tesla", "t")),
    "mT": ("is a millitesla, but some write T for a tonne", ("millitesla",)),
    "MT": ("is a metric tonne, a megatonne or a megatesla", ("t", "Mt")),
    "PSI": ("is absolute for some and gauge for others", ("psia", "psig")),
}
"""What has several readings: why, and what to write instead."""

CONVERTED = frozenset(
    (
        "gal",
        "at",
        "atü",
        "Sm3",
        "Sm^3",
        "scf",
        "scfm",
        "a",
        "cal",
        "kcal",
        "mil",
        "oz",
        "gpm",
        "sccm",
    )
)
"""The ambiguous units that have a different size than what to write instead, in every reading."""

_TON = "write `t` for metric tons; convert long or short tons to `t`"
_TON_RATE = "write `t/h` for metric tons; convert long or short tons"
_HORSEPOWER = "write `PS` for the metric one; convert the imperial one to `kW`"
_MILLION = "a million is a number, not a unit: multiply the column by 1,000,000"

HINTS = {
    "ton": _TON,
    "tons": _TON,
    "TPH": _TON_RATE,
    "tph": _TON_RATE,
    "hp": _HORSEPOWER,
    "HP": _HORSEPOWER,
    "mio": _MILLION,
    "Mio": _MILLION,
}
"""The help for ambiguous units where a list of others is not enough."""

ALIASES: dict[str, str] = {
    "U/min": "rpm",
    "U/s": "rps",
    "U/Min": "rpm",
    "Umdr/min": "rpm",
    "r/min": "rpm",
    "mm/U": "mm/rev",
    "min-1": "1/min",
    "s-1": "1/s",
    "h-1": "1/h",
    "degK": "K",
    "°K": "K",
    "dB(A)": "dBA",
    "bar(a)": "bara",
    "bar_g": "barg",
    "bar(ü)": "barg",
    "bar(Ü)": "barg",
    "bar ü": "barg",
    "bar Ü": "barg",
    "mbar(ü)": "mbarg",
    "mbar(g)": "mbarg",
    "kPa(g)": "kPag",
    "psi(g)": "psig",
    "psi(a)": "psia",
    "bar_a": "bara",
    "mm WS": "mmWS",
    "mm H2O": "mmH2O",
}
"""Whole texts that mean another text."""
