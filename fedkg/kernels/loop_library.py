"""Libraries of compiled functions: compiled on first use, cached on disk, called by address."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from types import FunctionType
from typing import Any, cast

import llvmlite
import llvmlite.binding as llvm

from fedkg.kernels.checked_memory_access import checked_entry
from fedkg.kernels.compile_lock import only_one
from fedkg.kernels.compiled_loop_policy import checks_bounds
from fedkg.kernels.loop_language import kinds

UNUSED = 30 * 24 * 60 * 60
"""Seconds after the last use when a cached library is deleted."""

ARGUMENTS: dict[str, Any] = {"int": ctypes.c_int64, "Double": ctypes.c_double}
"""ctypes of numeric arguments; arrays are passed by address."""

_LOG = logging.getLogger("fedkg")
_SETTING = Lock()


class Library:
    """Functions in one precision.

    Args:
        entries: functions to call from Python, in modules of one package; any change of the
            package's sources recompiles them.
        single: in float32 rather than float64.
        without: functions that no call is going to need: they return None and do nothing, which
            saves their compilation.

    Raises:
        NotCompiled: a function is not in the language.
    """

    def __init__(
        self,
        entries: Sequence[Callable[..., Any]],
        *,
        single: bool,
        without: Sequence[Callable[..., Any]] = (),
    ) -> None:
        name = entries[0].__module__.rpartition(".")[0]
        with _SETTING:
            machine = _machine()
            code = _load_or_compile(entries, single, without, name, machine)
            self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            self._engine.finalize_object()
        for entry in entries:
            setattr(self, entry.__name__, self._called(entry))

    def _called(self, entry: Callable[..., Any]) -> Callable[..., None]:
        given, _ = kinds(entry)
        prototype = ctypes.CFUNCTYPE(
            None, *(ARGUMENTS.get(kind, ctypes.c_void_p) for kind in given)
        )
        address = self._engine.get_function_address(entry.__name__)
        assert address, entry.__name__
        function: Any = prototype(address)
        function.engine = self._engine  # keeps the engine alive
        if checks_bounds():
            return checked_entry(entry.__name__, function)
        return cast("Callable[..., None]", function)

    def __getattr__(self, name: str) -> Callable[..., None]:
        raise AttributeError(name)


@cache
def _triple() -> str:
    """The target triple; on Windows with the object format that the JIT can load."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple: str = llvm.get_process_triple()
    return f"{triple}-elf" if sys.platform == "win32" else triple


def cpu() -> tuple[str, str]:
    """The name and the features of the processor."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _machine() -> Any:
    target = llvm.Target.from_triple(_triple())
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=3, codemodel="jitdefault", jit=True
    )


def _load_or_compile(
    entries: Sequence[Callable[..., Any]],
    single: bool,
    without: Sequence[Callable[..., Any]],
    name: str,
    machine: Any,
) -> bytes:
    """Load the machine code from disk, or compile it; bounds checks contain addresses of this
    process, so that they are not cached.
    """
    is_checked = checks_bounds()
    place = None if is_checked else cache_path(entries, single, without)
    code = _stored(place)
    if code is not None:
        return code

    def on_wait() -> None:
        _LOG.info("waiting for another process that compiles the loops of %s", name)

    with only_one(place, on_wait):
        code = _stored(place)
        if code is not None:
            return code
        _LOG.info(
            "compiling the loops of %s for this machine, which takes a few seconds once", name
        )
        from fedkg.kernels.loop_translation import translate  # Numba takes half a second to load

        module = translate(entries, single, without, is_checked=is_checked)
        code = _compiled(module, machine)
        if place is not None:
            _store(place, hashlib.sha256(code).digest() + code)
        return code


def _stored(place: Path | None) -> bytes | None:
    """The machine code in a file; None if there is none, or if it is damaged."""
    with suppress(OSError):
        if place is not None:
            found = place.read_bytes()
            if hashlib.sha256(found[32:]).digest() == found[:32]:
                with suppress(OSError):  # the file may belong to another user
                    os.utime(place)
                return found[32:]
    return None


def _compiled(module: llvm.ModuleRef, machine: Any) -> bytes:
    module.triple, module.data_layout = _triple(), str(machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization, options.loop_unrolling = (
        True,
        False,
    )  # vectors are already interleaved: unrolling gains nothing
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    code: bytes = machine.emit_object(module)
    return code


def cache_path(
    entries: Sequence[Callable[..., Any]], single: bool, without: Sequence[Callable[..., Any]] = ()
) -> Path | None:
    """Path of the machine code in `$XDG_CACHE_HOME/fedkg/loops` (default `~/.cache`); its name
    depends on all inputs.
    """
    names = [entry.__qualname__ for entry in entries]
    absent = [function.__qualname__ for function in without]
    state = hashlib.sha256(
        repr(
            (
                llvmlite.__version__,
                version("numba"),
                sys.version,
                _triple(),
                llvm.get_host_cpu_name(),
                single,
                names,
                absent,
            )
        ).encode()
    )
    state.update(
        llvm.get_host_cpu_features().flatten().encode() + repr(_constants(entries)).encode()
    )
    folders = {Path(entry.__code__.co_filename).resolve().parent for entry in entries}
    try:
        own = Path(__file__).parent.glob("loop_*.py")
        for source in sorted({*own, *(path for folder in folders for path in folder.glob("*.py"))}):
            text = source.read_bytes()
            state.update(f"{source} {len(text)} ".encode("utf-8", "surrogatepass") + text)
        base = os.environ.get("XDG_CACHE_HOME")
        folder = (Path(base) if base else Path.home() / ".cache") / "fedkg" / "loops"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder / f"{state.hexdigest()[:32]}.o"


def _constants(entries: Sequence[Callable[..., Any]]) -> list[tuple[str, str, float]]:
    """The numeric constants of these functions and their callees, by name, as imported."""
    queue: list[Any] = list(entries)
    found = []
    for function in queue:  # the loop appends to the list
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            if isinstance(value, (int, float)):
                found.append((function.__qualname__, name, value))
            elif isinstance(value, FunctionType) and value not in queue:
                queue.append(value)
    return found


def _store(place: Path, code: bytes) -> None:
    """Write the file atomically and delete stale ones; without write access, each process compiles
    its code.
    """
    with suppress(OSError):
        with tempfile.NamedTemporaryFile(dir=place.parent, delete=False) as file:
            file.write(code)
        Path(file.name).replace(place)
        for other in place.parent.iterdir():
            if time.time() - other.stat().st_mtime > UNUSED:
                other.unlink(missing_ok=True)
