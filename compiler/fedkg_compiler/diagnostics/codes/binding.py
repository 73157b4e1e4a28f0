"""Codes of this area."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

BINDING: dict[str, Code] = {}
