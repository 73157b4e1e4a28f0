"""What is wrong, where, and what to do: diagnostics as data, their codes, and their text."""

from __future__ import annotations

from fedkg_compiler.diagnostics.code_registry import CODES, Code
from fedkg_compiler.diagnostics.record import Diagnostic, Edit, Fix, Related, Severity, Span
from fedkg_compiler.diagnostics.render import render, to_json

__all__ = [
    "CODES",
    "Code",
    "Diagnostic",
    "Edit",
    "Fix",
    "Related",
    "Severity",
    "Span",
    "render",
    "to_json",
]
