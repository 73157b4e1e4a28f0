"""Formats candidate rules: numbers, names and comments."""

from __future__ import annotations

import math
import re
import textwrap
from decimal import Decimal

from fedkg_compiler.authoring.string_and_name_quoting import remark
from fedkg_compiler.frontends.fkg.syntax.parser import parse

DIGITS = 4
"""Significant digits of proposed limits; they are rounded to the side on which the property is
easier to keep."""
WIDE = 130
"""Characters of a comment line."""


def rounded(value: float, direction: str) -> str:
    """A number with few digits, rounded to the looser side; as it is where there is none."""
    if direction == "none" or value == 0:
        return plain(value)
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - DIGITS + 1)
    scaled = value / unit
    near = round(scaled)
    if math.isclose(scaled, near, rel_tol=1e-6):  # a limit of the data that came out a hair off
        return plain(near * unit)
    return plain((math.ceil(scaled) if direction == "up" else math.floor(scaled)) * unit)


def plain(value: float) -> str:
    """A number without an exponent, to 15 digits: ``0.00012``, ``1200``."""
    return f"{Decimal(f'{value:.15g}'):f}"


def shown(text: str) -> str:
    """A text in one line that a rule file may hold: blanks for line breaks, escapes (``\\x07``) for
    what is not printed.
    """
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in remark(text))


def comment(text: str) -> str:
    """A text as lines of comment."""
    return "\n".join(
        textwrap.wrap(
            shown(text), WIDE, initial_indent="# ", subsequent_indent="# ", break_long_words=False
        )
    )


def unwritable(text: str) -> str:
    """Why the parser does not take a text for statements of a rule file; "" if it does."""
    stray = next((sign for sign in text if "\ud800" <= sign <= "\udfff"), "")
    if stray:
        return f"it contains half a character, U+{ord(stray):04X}"
    return next(
        (
            problem.message
            for problem in parse(text, "candidates.fkg")[1]
            if problem.severity == "error"
        ),
        "",
    )


def name_of(text: str) -> str:
    """A name for a rule or signal: letters, digits and underscores."""
    made = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return made if made[:1].isalpha() else f"found_{made}"
