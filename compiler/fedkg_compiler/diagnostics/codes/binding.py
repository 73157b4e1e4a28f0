"""Codes of names, types and units, FKG200 to FKG299."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.binding_names import NAMES
from fedkg_compiler.diagnostics.codes.binding_units import UNITS
from fedkg_compiler.diagnostics.codes.code import Code

BINDING: dict[str, Code] = NAMES | UNITS
"""Codes FKG200 to FKG299."""
