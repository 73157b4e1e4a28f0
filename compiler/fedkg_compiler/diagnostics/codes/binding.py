"""Codes of names, types and units, FKG200 to FKG299."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.binding_members import MEMBERS
from fedkg_compiler.diagnostics.codes.binding_names import NAMES
from fedkg_compiler.diagnostics.codes.binding_time import TIME
from fedkg_compiler.diagnostics.codes.binding_units import UNITS
from fedkg_compiler.diagnostics.codes.code import Code

BINDING: dict[str, Code] = NAMES | UNITS | TIME | MEMBERS
"""Codes FKG200 to FKG299."""
