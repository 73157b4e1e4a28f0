"""What is wrong, where, and what to do: diagnostics as data, their codes, and their text."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes import CODES, Code
from fedkg_compiler.diagnostics.record import Diagnostic, Related, Severity, Span
from fedkg_compiler.diagnostics.render import render, to_json
from fedkg_compiler.diagnostics.staged import STAGED_FORMS, staged

__all__ = ["CODES", "STAGED_FORMS", "Code", "Diagnostic", "Related", "Severity", "Span", "render", "staged", "to_json"]
