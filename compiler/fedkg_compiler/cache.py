"""Compilations that are kept until something that they read changes.

An entry is two files in the user's cache folder: what was read and said (JSON), and the pack. It is used when the same files are named in
the same way, every file that was read then has the same content now, and the compiler is the same. Only compilations that took a while,
and that gave a pack, are kept, without the examples of the rules. What cannot be read is compiled again; a folder that cannot be written
keeps nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from fedkg.errors import PackError
from fedkg.pack import read_pack
from fedkg_compiler.compilation import Compilation
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.inputs import Inputs, recording

WORTH = 0.5
"""Seconds that a compilation must take to be kept."""
MOST = 40
"""Entries that are kept; the oldest go first."""


def compile_cached(paths: Sequence[Path], graphs: Sequence[Path], client: str = "") -> Compilation:
    """Compile rule files as `driver.compile_rules` does, or take what that gave when nothing has changed since."""
    entry = _entry(paths, graphs, client)
    found = None if entry is None else _kept(entry)
    if found is not None:
        return found
    from fedkg_compiler.driver import compile_rules

    began = time.perf_counter()
    with recording() as inputs:
        result = compile_rules(paths, graphs=graphs, client=client)
    if entry is not None and result.pack is not None and time.perf_counter() - began > WORTH:
        _keep(entry, inputs, result)
    return result


def cache_folder() -> Path:
    """Where compilations are kept: `$XDG_CACHE_HOME/fedkg/packs`, by default `~/.cache/fedkg/packs`. Raises RuntimeError without a home."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fedkg" / "packs"


def _entry(paths: Sequence[Path], graphs: Sequence[Path], client: str) -> Path | None:
    """The entry of a call, without its suffix: named by the compiler, the folder, the names of the files and the client."""
    try:
        folders = [str(Path.cwd()), str(Path.home()), os.environ.get("FEDKG_HOME", "")]
        asked = json.dumps([_compiler(), folders, [str(path) for path in paths], [str(path) for path in graphs], client])
        return cache_folder() / hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    except (OSError, RuntimeError):
        return None


def _compiler() -> str:
    """What tells this compiler from any other: size and time of every one of its source files, and when a library was last installed."""
    import pydantic

    import fedkg

    roots = (Path(__file__).resolve().parent, Path(fedkg.__file__).resolve().parent)
    files = sorted(path for root in roots for suffix in ("*.py", "*.lark") for path in root.rglob(suffix))
    states = [(path.name, state.st_size, state.st_mtime_ns) for path in files for state in (path.stat(),)]
    libraries = Path(pydantic.__file__).resolve().parents[1].stat().st_mtime_ns
    return hashlib.sha256(json.dumps([libraries, sys.version, states]).encode()).hexdigest()


def _kept(entry: Path) -> Compilation | None:
    """What stands in an entry, if it still holds."""
    try:
        said = json.loads(entry.with_suffix(".json").read_bytes())
        listings = {(folder, pattern): tuple(names) for folder, pattern, names in said["listings"]}
        if not Inputs(files=dict(said["files"]), listings=listings).unchanged():
            return None
        body = entry.with_suffix(".fkgpack").read_bytes()
        if hashlib.sha256(body).hexdigest() != said["pack"]:
            return None
        diagnostics = _form().validate_python(said["diagnostics"], strict=False)
        return Compilation(pack=read_pack(body), diagnostics=diagnostics)
    except (OSError, ValueError, KeyError, TypeError, ValidationError, PackError):
        return None


@cache
def _form() -> TypeAdapter[tuple[Diagnostic, ...]]:
    """What reads diagnostics from JSON."""
    return TypeAdapter(tuple[Diagnostic, ...])


def _keep(entry: Path, inputs: Inputs, result: Compilation) -> None:
    assert result.pack is not None
    body = result.pack.to_bytes()
    said = {
        "files": inputs.files,
        "listings": [[folder, pattern, list(names)] for (folder, pattern), names in inputs.listings.items()],
        "diagnostics": [asdict(item) for item in result.diagnostics],
        "pack": hashlib.sha256(body).hexdigest(),
    }
    with suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        for suffix, content in ((".fkgpack", body), (".json", json.dumps(said).encode())):
            part = entry.with_name(f".{entry.name}.{os.getpid()}.part")
            part.write_bytes(content)
            part.replace(entry.with_suffix(suffix))
        for old in sorted(entry.parent.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)[:-MOST]:
            old.unlink(missing_ok=True)
            old.with_suffix(".fkgpack").unlink(missing_ok=True)
