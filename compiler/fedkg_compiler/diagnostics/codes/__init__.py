"""Every diagnostic code, with its page; one literal dict per area."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.binding import BINDING
from fedkg_compiler.diagnostics.codes.code import Code
from fedkg_compiler.diagnostics.codes.graph import GRAPH
from fedkg_compiler.diagnostics.codes.ontology import ONTOLOGY
from fedkg_compiler.diagnostics.codes.sheets import SHEETS
from fedkg_compiler.diagnostics.codes.staged import STAGED
from fedkg_compiler.diagnostics.codes.syntax import SYNTAX

CODES: dict[str, Code] = SYNTAX | ONTOLOGY | GRAPH | SHEETS | BINDING | STAGED

__all__ = ["CODES", "Code"]
