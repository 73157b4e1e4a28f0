"""Limits on the files that fedkg reads and on the time that it computes, against small hostile
files that fill the memory or block a command.

Every reader of a file gets its bytes from here. A file above a limit raises `LimitError`, which
names the limit and shows how to raise it: `fedkg --limit expanded=2GB COMMAND`, or the environment
variable `FEDKG_LIMITS` (``expanded=2GB,columns=50000``). Long computations limit their time and the
comparisons of names, and pause the search for cyclic garbage.
"""

from __future__ import annotations

import gc
import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fedkg.errors import LimitError, UsageError

if TYPE_CHECKING:
    import zipfile

VARIABLE = "FEDKG_LIMITS"
"""The environment variable that changes limits; child processes inherit it."""

MB = 10**6
BYTES = {"": 1, "kb": 10**3, "mb": MB, "gb": 10**9}
LEAST_AT_ONCE = 1 << 16
"""Bytes of the first read of a file; the second read takes the rest."""
CHUNK = 1 << 20
"""Bytes that are decompressed to at once."""
PIECE = 1 << 14
"""Bytes of a gzip file that are decompressed at once."""
SMALL = 8 * MB
"""Expanded bytes below which the ratio is not checked: a table of zeros compresses well."""
AGAIN = 0.5
"""Seconds after which what goes on beyond its time is ended once more."""
MOST_COMPARISONS = 50_000
"""Comparisons for the suggestions of one compilation, which take about a second."""

DEFAULTS = {
    "file": 256 * MB,
    "expanded": 256 * MB,
    "ratio": 100,
    "members": 10_000,
    "columns": 20_000,
    "cells": 20_000_000,
    "document": 32 * MB,
    "values": 1_000_000,
    "job": 1 * MB,
    "fields": 20_000,
    "depth": 100,
    "workbook": 64 * MB,
    "rules": 1 * MB,
    "statements": 5_000,
    "graph": 64 * MB,
    "triples": 1_000_000,
    "inferred": 10,
    "seconds": 120,
    "query": 1,
    "memory": 400 * MB,
}
"""Every limit by name.

`workbook`: openpyxl makes an object of every cell. Larger tables are better kept as CSV or Parquet.
`rules`, `statements`: checking five thousand rules takes about five seconds. Put longer lists in a
sheet.
`graph`, `triples`: the largest ontologies have 45 MB. Larger graphs take several GB of memory.
`seconds`: a graph of 64 MB takes up to a minute on a slow core.
`query`: a query of the rule library takes less than a second on a million triples.
"""

MEANINGS = {
    "file": "bytes of one file",
    "expanded": "bytes that a compressed file may expand to",
    "ratio": "expanded bytes for each compressed byte, if a file expands to more than 8 MB",
    "members": "files in a zip file",
    "columns": "columns of a table",
    "cells": "cells of a table, empty ones included",
    "document": "bytes of a JSON document: a pack's manifest, a file of a run folder",
    "values": "values in a JSON document",
    "job": "bytes of a job file",
    "fields": "fields and values of a job file, with aliases written out",
    "depth": "levels of a job file or a graph file",
    "workbook": "bytes of the XML in a workbook",
    "rules": "bytes of a rule file or a query",
    "statements": "statements of a rule file",
    "graph": "bytes of a graph file",
    "triples": "triples of a graph file",
    "inferred": "inferred triples for each triple of the graphs, if more than 300,000 are inferred",
    "seconds": "seconds of processor time for reading and compiling rules and graphs",
    "query": "seconds of processor time for one query on a graph",
    "memory": "bytes of memory that one query on a graph may add",
}
"""The quantity that each limit counts."""

IN_BYTES = frozenset(
    {"file", "expanded", "document", "job", "workbook", "rules", "graph", "memory"}
)


def limit(name: str) -> int:
    """Return a limit: its default, or the value from `FEDKG_LIMITS`.

    Raises:
        UsageError: `FEDKG_LIMITS` has an unknown name or a value that is not a positive number.
    """
    return _changed(os.environ.get(VARIABLE, "")).get(name, DEFAULTS[name])


def raise_limits(settings: list[str]) -> None:
    """Change limits for this process and its children; later settings win.

    Args:
        settings: ``name=value`` each, such as ``expanded=2GB``.

    Raises:
        UsageError: an unknown name, or a value that is not a positive number.
    """
    text = ",".join(filter(None, (os.environ.get(VARIABLE, ""), *settings)))
    _changed(text)
    os.environ[VARIABLE] = text


@lru_cache(maxsize=8)
def _changed(text: str) -> dict[str, int]:
    """Parse limits from text such as ``expanded=2GB,columns=50000``."""
    found = {}
    for setting in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (part.strip() for part in setting.partition("="))
        match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmg]?b)?", value.lower())
        if name not in DEFAULTS:
            raise UsageError(
                f"there is no limit `{name}`",
                expected=", ".join(f"{key} ({MEANINGS[key]})" for key in DEFAULTS),
                received=text,
                help="write numbers without commas, such as columns=50000"
                if name.isdigit()
                else f"for example --limit expanded=2GB, or {VARIABLE}=expanded=2GB",
            )
        number = 0 if match is None else int(float(match[1]) * BYTES[match[2] or ""])
        if number < 1 or (match is not None and match[2] and name not in IN_BYTES):
            raise UsageError(
                f"the limit `{name}` has a wrong value",
                expected="a number above 0 with kB, MB or GB"
                if name in IN_BYTES
                else "a whole number above 0",
                received=value or "no value",
                help=f"for example --limit {name}={_round(name, DEFAULTS[name])}",
            )
        found[name] = number
    return found


def format_limit(name: str, value: int) -> str:
    """Format a value of a limit: ``256 MB``, ``20,000``."""
    if name in IN_BYTES:
        factor, unit = next(
            ((f, u) for f, u in ((10**9, "GB"), (MB, "MB"), (10**3, "kB")) if value >= f),
            (1, "bytes"),
        )
        return f"{value / factor:.10g} {unit}"
    return f"{value:,}"


def require_within_limit(name: str, value: int, what: str, *, at_least: bool = False) -> None:
    """Reject a value above the limit of this name.

    Args:
        what: names the file in the message.
        at_least: `value` is where counting stopped, so there may be more.

    Raises:
        LimitError: `value` is above the limit.
    """
    most = limit(name)
    if value > most:
        raise LimitError(
            f"{what} is above the limit `{name}`: {MEANINGS[name]}",
            expected=f"at most {format_limit(name, most)}",
            received=f"{'at least ' if at_least else ''}{format_limit(name, value)}",
            help=explain_raise(name, max(value, 4 * most if at_least else 0)),
        )


def explain_raise(name: str, value: int) -> str:
    """How to raise a limit to a value, as the help of a message."""
    raised = f"{name}={_round(name, value)}"
    return (
        f"if you trust the file, raise the limit: fedkg --limit {raised} ..., or "
        f"{VARIABLE}={raised}"
    )


def _round(name: str, value: int) -> str:
    """Round a value up to one digit, as a setting: ``300MB``."""
    step = 10 ** (len(str(value)) - 1)
    rounded = -(-value // step) * step
    factor, unit = next(
        ((f, u.upper()) for u, f in reversed(BYTES.items()) if name in IN_BYTES and rounded >= f),
        (1, ""),
    )
    return f"{rounded // factor}{unit}"


def read_file(path: str | Path, *, name: str = "file") -> bytes:
    """Read an ordinary file within the limit `name`.

    Raises:
        OSError: the file cannot be read, or is not an ordinary file (a pipe, a device).
        ValueError: the path has a null character.
        LimitError: the file is larger than the limit; nothing has been read.
    """
    # without O_NONBLOCK, opening a pipe without a writer would block
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    try:
        found = os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(21, "Is a directory", str(path))
        if not stat.S_ISREG(found.st_mode):
            raise OSError(22, "not an ordinary file but a pipe, a socket or a device", str(path))
        require_within_limit(name, found.st_size, str(path))
        # Python's file objects take longer than reading a small file
        parts, size = [os.read(handle, max(LEAST_AT_ONCE, found.st_size))], 0
        while parts[-1]:
            size += len(parts[-1])
            require_within_limit(
                name, size, str(path), at_least=True
            )  # the file may grow during the read
            parts.append(os.read(handle, LEAST_AT_ONCE))
        return b"".join(parts[:-1])  # a single chunk needs no copy
    finally:
        os.close(handle)


def read_stream(stream: IO[bytes], what: str, *, name: str = "file") -> bytes:
    """What a stream such as standard input gives, within the limit `name`.

    Raises:
        LimitError: there is more; no more than that is read.
    """
    body = stream.read(limit(name) + 1)
    require_within_limit(name, len(body), what, at_least=True)
    return body


@contextmanager
def time_limit(what: str) -> Iterator[None]:
    """End the block with a `LimitError` once it has taken the `seconds` of the limit.

    As Ctrl-C, this works in the main thread only, between two steps of Python code. It does
    nothing inside another time limit, and on systems without interval timers (Windows).

    Args:
        what: names the work in the message.
    """
    import signal

    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
        or signal.getitimer(signal.ITIMER_PROF)[0] > 0
    ):
        yield
        return

    def end(number: int, frame: object) -> None:
        raise out_of_limit("seconds", what)

    before = signal.signal(signal.SIGPROF, end)
    # again and again, as code may catch the first one
    signal.setitimer(signal.ITIMER_PROF, limit("seconds"), AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before or signal.SIG_DFL)


@dataclass(slots=True)
class _Comparisons:
    left: int


_comparisons: ContextVar[_Comparisons | None] = ContextVar("comparisons", default=None)


@contextmanager
def limit_comparisons() -> Iterator[None]:
    """Inside, suggestions end after `MOST_COMPARISONS` comparisons of names."""
    token = _comparisons.set(_Comparisons(MOST_COMPARISONS))
    try:
        yield
    finally:
        _comparisons.reset(token)


def spend_comparisons(count: int) -> bool:
    """Whether so many names may be compared; if so, they count towards the limit of
    `limit_comparisons`.
    """
    budget = _comparisons.get()
    if budget is None:
        return True
    if budget.left < count:
        return False
    budget.left -= count
    return True


_paused_before = False
"""Whether this process has paused the garbage collection before."""


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Search for no cyclic garbage inside the block.

    A compilation or validation makes millions of objects that stay until its end. A search would
    visit all of them again and again. The garbage that it leaves, such as graphs with open stores,
    is found when the next one begins, by a search among the objects made since.
    """
    global _paused_before
    enabled = gc.isenabled()
    if enabled and _paused_before:
        gc.collect(1)
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not _paused_before and not gc.get_freeze_count():
                # Most objects of the first time stay (modules, ontologies, caches), and a command
                # ends after it: they go to the oldest generation without a search.
                gc.freeze()
                gc.unfreeze()
            _paused_before = True
            gc.enable()


def out_of_limit(name: str, what: str) -> LimitError:
    """The error for something that takes more time or memory than the limit of this name."""
    most = limit(name)
    return LimitError(
        f"{what} takes more {'memory' if name in IN_BYTES else 'time'} than the limit `{name}` "
        f"allows ({MEANINGS[name]})",
        expected=f"at most {format_limit(name, most)}",
        help=explain_raise(name, 4 * most),
    )


def gunzip(body: bytes, what: str) -> bytes:
    """Expand the bytes of a gzip file.

    Raises:
        OSError, EOFError, zlib.error: the bytes are not a complete gzip file.
        LimitError: the file expands above the limit `expanded` or `ratio`; `what` names it.
    """
    import zlib

    # not `gzip.GzipFile`: it reads the file name in a header byte by byte, which may be 50 MB
    out, at = bytearray(), 0
    while at < len(body) and (at == 0 or body[at]):  # zeros may pad the end
        member = zlib.decompressobj(zlib.MAX_WBITS | 16)
        while not member.eof:
            if at == len(body):
                raise EOFError("the file ends before its end marker")
            piece = body[at : at + PIECE]
            at += len(piece)
            while piece:
                out += member.decompress(piece, CHUNK)
                require_expansion(len(out), len(body), what)
                piece = member.unconsumed_tail
            at -= len(member.unused_data)
    return bytes(out)


def open_zip(body: bytes, what: str) -> zipfile.ZipFile:
    """Open the zip file in these bytes.

    Raises:
        zipfile.BadZipFile: the bytes are not a zip file.
        LimitError: the archive has more files than the limit `members`.
    """
    import io
    import zipfile

    require_within_limit(
        "members", body.count(b"PK\x01\x02"), what
    )  # signature of a file's entry in the central directory
    return zipfile.ZipFile(io.BytesIO(body))


def unzip(
    archive: zipfile.ZipFile, names: list[str], what: str, *, keep: bool = True
) -> dict[str, bytes]:
    """Expand members of a zip file; the limits apply to all of them together.

    Args:
        keep: false: expand and count them, but return no bytes.

    Raises:
        KeyError: an unknown member.
        zipfile.BadZipFile, zlib.error, EOFError: the archive is damaged.
        LimitError: the members expand above the limit `expanded` or `ratio`.
    """
    entries = [archive.getinfo(name) for name in names]
    packed = sum(entry.compress_size for entry in entries)
    found, total = {}, 0
    for entry in entries:
        out = bytearray()
        for part in _parts(
            archive, entry
        ):  # count the bytes, because the declared sizes may be wrong
            total += len(part)
            require_expansion(total, packed, what)
            if keep:
                out += part
        found[entry.filename] = bytes(out)
    return found


def _parts(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(entry) as file:
        while part := file.read(CHUNK):
            yield part


def require_expansion(expanded: int, compressed: int, what: str) -> None:
    """Reject bytes that expand beyond the limit `expanded` or `ratio`. Raises LimitError."""
    require_within_limit("expanded", expanded, what, at_least=True)
    if expanded > SMALL:
        require_within_limit("ratio", expanded // max(compressed, 1), what, at_least=True)


def parse_json(body: bytes, what: str) -> Any:
    """Parse a JSON document within the limits `document` and `values`. `Any`: JSON.

    Raises:
        ValueError: the document is not JSON in UTF-8, or is nested too deeply.
        LimitError: the document is too large.
    """
    import json

    require_within_limit("document", len(body), what)
    require_within_limit("values", 1 + sum(map(body.count, (b",", b"[", b"{"))), what)
    try:
        return json.loads(body.decode("utf-8-sig"))
    except RecursionError as error:
        raise ValueError("the document is nested too deeply") from error
