"""Compiles rules, shapes and graphs for the validation of a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedkg_compiler.frontends.shacl.table_results import CompiledShapes, ShapeResults
from fedkg_compiler.pipeline import compile_rules


def compile_shapes(paths: Sequence[Path | str]) -> CompiledShapes:
    """Compile rule files, shapes and graphs for the validation of a table."""
    noted = ShapeResults()
    compilation = compile_rules(paths, reason=False, shape_results=noted)
    return CompiledShapes(pack=compilation.pack, noted=noted, diagnostics=compilation.diagnostics)
