"""Compilations that are kept until something that they read changes.

An entry is two files in the user's cache folder: what was read and said (a checksum, and JSON), and
the pack. It is used when the same
files are named in the same way, every file that was read then has the same content now, and the
compiler is the same. Only compilations
that took a while and gave a pack are stored, without the examples of rules. Damaged entries are
compiled again; a folder that
cannot be written keeps nothing. Nothing here needs NumPy or pydantic: to import them takes longer
than to see that nothing has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from fedkg.limits import pause_garbage_collection
from fedkg.pack_bytes import EncodedPack, PackCounts
from fedkg_compiler.cache_entries import cache_folder, compiler_stamp
from fedkg_compiler.compilation_result import Compilation, KeptCompilation, NewCompilation
from fedkg_compiler.diagnostics.record import diagnostic_from
from fedkg_compiler.input_files import Inputs, recording

WORTH = 0.5
"""Seconds that a compilation must take to be kept."""
MOST = 40
"""Entries that are kept; the oldest go first."""


@pause_garbage_collection()
def compile_cached(
    paths: Sequence[Path | str], graphs: Sequence[Path | str], client: str = ""
) -> Compilation:
    """Compile rule files as `pipeline.compile_rules` does, or take what that gave when nothing has
    changed since.

    What came from an endpoint is never kept: it does not say when it changes.
    """
    entry = _entry(paths, graphs, client)
    found = None if entry is None else _read_entry(entry)
    if found is not None:
        return found
    from fedkg_compiler.pipeline import compile_rules

    began = time.perf_counter()
    with recording() as inputs:
        result = compile_rules(paths, graphs=graphs, client=client)
    if (
        entry is not None
        and result.pack is not None
        and not inputs.remote
        and time.perf_counter() - began > WORTH
    ):
        _keep(entry, inputs, result)
    return result


def _entry(paths: Sequence[Path | str], graphs: Sequence[Path | str], client: str) -> Path | None:
    """The entry of a call, without its suffix: named by the compiler, the folder, the names of the
    files and the client.
    """
    try:
        folders = [str(Path.cwd()), str(Path.home()), os.environ.get("FEDKG_HOME", "")]
        asked = json.dumps(
            [
                compiler_stamp(),
                folders,
                [str(path) for path in paths],
                [str(path) for path in graphs],
                client,
            ]
        )
        return (
            cache_folder() / hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        )
    except (OSError, RuntimeError):
        return None


def _read_entry(entry: Path) -> KeptCompilation | None:
    """Return the contents of an entry if it is still valid."""
    try:
        checksum, _, text = entry.with_suffix(".json").read_bytes().partition(b"\n")
        if hashlib.sha256(text).hexdigest().encode() != checksum:
            return None
        said = json.loads(text)
        listings = {(folder, pattern): tuple(names) for folder, pattern, names in said["listings"]}
        body = entry.with_suffix(".fkgpack").read_bytes()
        if (
            hashlib.sha256(body).hexdigest() != said["pack"]
            or not Inputs(files=said["files"], listings=listings).unchanged()
        ):
            return None
    except OSError:
        return None
    return KeptCompilation(
        packed=EncodedPack(body=body, counts=PackCounts(**said["counts"])),
        diagnostics=tuple(diagnostic_from(one) for one in said["diagnostics"]),
    )


def _keep(entry: Path, inputs: Inputs, result: NewCompilation) -> None:
    packed = result.packed
    assert packed is not None
    said = {
        "files": inputs.files,
        "listings": [
            [folder, pattern, list(names)] for (folder, pattern), names in inputs.listings.items()
        ],
        "diagnostics": [asdict(item) for item in result.diagnostics],
        "pack": hashlib.sha256(packed.body).hexdigest(),
        "counts": asdict(packed.counts),
    }
    text = json.dumps(said).encode()
    content = hashlib.sha256(text).hexdigest().encode() + b"\n" + text
    with suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        for suffix, body in ((".fkgpack", packed.body), (".json", content)):
            part = entry.with_name(f".{entry.name}.{os.getpid()}.part")
            part.write_bytes(body)
            part.replace(entry.with_suffix(suffix))
        for old in sorted(entry.parent.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)[
            :-MOST
        ]:
            old.unlink(missing_ok=True)
            old.with_suffix(".fkgpack").unlink(missing_ok=True)
