"""Load objects of users from Python files and packages."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedkg.errors import FedkgError, JobError

_FILES: dict[str, str] = {}
"""Path of each loaded file by the name of its module."""


def load_object(path: str, field: str) -> Any:
    """The object at ``file.py:Name`` or ``package.file:Name``. `Any`: whatever the user wrote.

    Args:
        path: a file by its path, or a module that Python can import, and a name in it.
        field: the field of the job, for messages.

    Raises:
        JobError: the file or module cannot be loaded, or has no such name.
    """
    place, _, name = path.rpartition(":")
    if place.endswith(".py"):
        module: object = load_file(Path(place), field)
    else:
        try:
            module = importlib.import_module(place)
        except (Exception, SystemExit) as error:  # whatever the module raises when it is loaded
            missing = isinstance(error, ImportError | ValueError | TypeError)
            raise JobError(
                f"{field}: {place or path} cannot be imported: {type(error).__name__}: {error}",
                expected="package.file:Name or file.py:Name" if missing else "",
                received=path,
                help="install the package, or name a file: FILE.py:Name"
                if missing
                else f"correct the module until `python -c 'import {place}'` runs without an error",
            ) from error
    found = getattr(module, name, None)
    if not callable(found):
        raise JobError(
            f"{field}: {place} has no function or class `{name}`",
            received=path,
            help="after the last colon, name a function or class that the file or module defines",
        )
    return found


def load_file(path: Path, field: str) -> object:
    """Load a Python file as a module; later calls return the same module, as imports do.

    Raises:
        JobError: the file does not exist, or raises an error.
    """
    name = f"fedkg_own_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None or not path.is_file():
        raise JobError(
            f"{field}: file {path} does not exist", help="paths are relative to the job file"
        )
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses look up their module here while it runs
    try:
        found.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever a user's file raises when it is loaded
        del sys.modules[name]
        raise JobError(
            f"{field}: {path} cannot be loaded: {type(error).__name__}: {error}",
            help=f"correct the file until `python {path}` runs without an error",
        ) from error
    _FILES[name] = str(path)
    return module


def describe_class(instance: object) -> str:
    """The class of an object for messages: its file, if fedkg loaded it, or module, and name."""
    kind = type(instance)
    return f"{_FILES.get(kind.__module__, kind.__module__)}: `{kind.__qualname__}`"


def locate_failure(error: Exception) -> JobError | None:
    """The error with its place in a file that fedkg loaded, or a lack of memory; else None."""
    if isinstance(error, FedkgError):
        return None
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        path = _FILES.get(frame.f_globals.get("__name__", ""))
        if path is not None:
            place = f"{path}:{line}: `{frame.f_code.co_qualname}`"
            return describe_lack_of_memory(error, place) or JobError(
                f"{place} raises an error",
                received=f"{type(error).__name__}: {error}",
                help="correct the function",
            )
    return describe_lack_of_memory(error)


class LackOfMemory(JobError):
    """The computer or its GPU lacks memory."""


def describe_lack_of_memory(error: Exception, place: str = "the training") -> LackOfMemory | None:
    """The error if the computer or its GPU lacks memory; None if it is another error."""
    text = str(error).strip().split("\n")[0]
    if not (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"  # of torch: CUDA and other devices
        or "can't allocate memory" in text  # torch on a CPU
    ):
        return None
    return LackOfMemory(
        f"{place} needs more memory than there is",
        received=f"{type(error).__name__}: {text}".removesuffix(": "),
        help="use a smaller model, or a smaller `training.batch` or `training.chunk` (sites that "
        "are trained at once), or end other programs that use this memory",
    )


def loaded_files() -> dict[str, str]:
    """Path of each loaded file by module name: another process loads them before it unpickles
    objects of theirs.
    """
    return dict(_FILES)


def load_again(files: Mapping[str, str]) -> None:
    """Load the files that `loaded_files` listed in another process."""
    for path in files.values():
        load_file(Path(path), "the job")
