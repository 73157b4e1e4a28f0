"""Interfaces of Numba that are not public exist, and translation leaves no trace in Numba."""

from __future__ import annotations

import gc
import importlib

import numba
import numpy as np
import pytest
import sample_functions as loops

from fedkg.kernels.loop_translation import translate

INTERNALS = {
    "numba.core.cgutils": ("get_or_insert_function", "unpack_tuple"),
    "numba.core.compiler": ("CompilerBase", "Flags"),
    "numba.core.compiler_lock": ("global_compiler_lock",),
    "numba.core.compiler_machinery": ("LoweringPass", "PassManager", "register_pass"),
    "numba.core.funcdesc": ("PythonFunctionDescriptor",),
    "numba.core.lowering": ("Lower",),
    "numba.core.registry": ("cpu_target",),
    "numba.core.typed_passes": ("NopythonTypeInference",),
    "numba.core.untyped_passes": ("FixupArgs", "IRProcessing", "TranslateByteCode"),
}


@pytest.mark.parametrize("module", INTERNALS)
def test_numba_has_what_the_translation_uses(module: str) -> None:
    found = importlib.import_module(module)
    lost = [name for name in INTERNALS[module] if not hasattr(found, name)]
    assert not lost, f"Numba {numba.__version__} has no {lost} in {module}: adapt loop_translation"


def test_calls_of_declared_functions_can_be_lowered() -> None:
    lower = importlib.import_module("numba.core.lowering").Lower
    assert hasattr(lower, "_lower_call_ExternalFunction"), "adapt loop_translation._Lower"


def test_only_entries_are_visible() -> None:
    module = translate([loops.searched], single=True)
    visible = [
        function.name
        for function in module.functions
        if not function.is_declaration and function.linkage.name == "external"
    ]
    assert visible == ["searched"]


def test_no_call_needs_numba_or_python() -> None:
    """The machine code must be usable in a process that has not loaded Numba."""
    module = translate([loops.branches, loops.searched, loops.computed], single=True)
    needed = {function.name for function in module.functions if function.is_declaration}
    assert {name for name in needed if not name.startswith("llvm.")} == set()


def test_translation_keeps_garbage_collection_as_it_is() -> None:
    gc.disable()
    try:
        translate([loops.repeat_loop], single=True)
        assert not gc.isenabled()
    finally:
        gc.enable()
    translate([loops.repeat_loop], single=True)
    assert gc.isenabled()


def test_numba_still_compiles_arrays() -> None:
    translate([loops.searched], single=False)

    @numba.njit  # type: ignore[untyped-decorator]
    def second(x: np.ndarray) -> float:
        return x[1:][0] + (1 in (1, 2))

    assert second(np.array([1.0, 2.0])) == 3.0
