"""The compiler: rule files and ontologies in, constraint packs and diagnostics out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedkg_compiler.compilation_result import Compilation
    from fedkg_compiler.pipeline import compile_rules

__all__ = ["Compilation", "compile_rules"]


def __getattr__(name: str) -> Any:
    """The names of modules, imported when they are first touched (`Any`: a class or a function)."""
    if name in __all__:
        from fedkg_compiler import compilation_result, pipeline

        return getattr(pipeline if name == "compile_rules" else compilation_result, name)
    raise AttributeError(f"module 'fedkg_compiler' has no attribute '{name}'")
