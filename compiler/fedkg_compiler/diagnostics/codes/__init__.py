"""Every diagnostic code, with its page; one literal dict per area."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.binding import BINDING
from fedkg_compiler.diagnostics.codes.code import Code
from fedkg_compiler.diagnostics.codes.graph import GRAPH
from fedkg_compiler.diagnostics.codes.inference import INFERENCE
from fedkg_compiler.diagnostics.codes.knowledge import KNOWLEDGE
from fedkg_compiler.diagnostics.codes.library import LIBRARY
from fedkg_compiler.diagnostics.codes.ontology import ONTOLOGY
from fedkg_compiler.diagnostics.codes.reasoning import REASONING
from fedkg_compiler.diagnostics.codes.shapes import SHAPES
from fedkg_compiler.diagnostics.codes.sheets import SHEETS
from fedkg_compiler.diagnostics.codes.sparql import SPARQL
from fedkg_compiler.diagnostics.codes.stores import STORES
from fedkg_compiler.diagnostics.codes.syntax import SYNTAX

CODES: dict[str, Code] = (
    SYNTAX | ONTOLOGY | INFERENCE | STORES | GRAPH | SHEETS | BINDING | SHAPES | SPARQL | KNOWLEDGE | LIBRARY | REASONING
)

__all__ = ["CODES", "Code"]
