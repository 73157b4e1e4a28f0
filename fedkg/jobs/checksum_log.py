"""The log of a run folder: a checksum of every file, in a chain of entries that only grows.

Each line of `log.jsonl` is one entry as JSON: `file`, `sha256` and `size` of its content, and
`previous`, the SHA-256 of the line before. The last entry of a file is the one that counts. The
chain shows accidents: a changed, missing or reordered line no longer fits the next one. It does not
stop a person who can write to the folder: such a person can compute a new chain. Only a copy of the
last line's checksum that is kept elsewhere shows this.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from typing_extensions import override

from fedkg.errors import JobError

LOG = "log.jsonl"
FIRST_PREVIOUS = "0" * 64
"""The `previous` checksum of the first entry."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class FileState:
    """The content of a file: its SHA-256 as hexadecimal digits and its size in bytes."""

    sha256: str
    size: int

    @override
    def __str__(self) -> str:
        return f"sha256 {self.sha256} of {self.size:,} bytes"


def state_of(body: bytes) -> FileState:
    """The state of a file with this content."""
    return FileState(hashlib.sha256(body).hexdigest(), len(body))


EMPTY_FILE = state_of(b"")
"""The state of a file without content."""


class RunLog:
    """The log of one folder. Reading needs no lock; another process may append meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG
        self._forget()

    def _forget(self) -> None:
        self._states: dict[str, FileState] = {}
        self._last, self._end, self._entries = FIRST_PREVIOUS, 0, 0

    @property
    def last(self) -> str:
        """The checksum of the last line; `FIRST_PREVIOUS` for an empty log."""
        self._read()
        return self._last

    @property
    def entries(self) -> int:
        """Number of entries."""
        self._read()
        return self._entries

    def checksums(self) -> set[str]:
        """The checksums of all lines. Raises JobError when the log is damaged."""
        self._read()
        lines = self.path.read_bytes()[: self._end].split(b"\n")[:-1] if self._end else []
        return {hashlib.sha256(line).hexdigest() for line in lines}

    def states(self) -> Mapping[str, FileState]:
        """The last state of every file, by its path within the folder.

        Raises:
            JobError: when the log is damaged. A log that does not exist has no entries.
        """
        self._read()
        return self._states

    def add(self, states: Sequence[tuple[str, FileState]]) -> None:
        """Append entries and flush them to disk. Raises JobError if the log is damaged."""
        with self.path.open("ab+") as file, _exclusive_lock(file):
            self._read()
            file.truncate(self._end)  # drop an incomplete line of a killed process
            lines, last = [], self._last
            for name, state in states:
                entry = {"file": name, "sha256": state.sha256, "size": state.size, "previous": last}
                lines.append(json.dumps(entry).encode())
                last = hashlib.sha256(lines[-1]).hexdigest()
            file.write(b"".join(line + b"\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
            self._read()

    def _read(self) -> None:
        """Read lines that were added since the last call.

        An incomplete last line does not count.
        """
        try:
            with self.path.open("rb") as file:
                if file.seek(0, os.SEEK_END) < self._end:
                    self._forget()
                file.seek(self._end)
                lines = file.read()
        except (FileNotFoundError, NotADirectoryError):
            self._forget()
            return
        for line in lines.split(b"\n")[:-1]:
            name, state, previous = self._entry(line)
            if previous != self._last:
                raise self._damaged(
                    "it does not continue the line before",
                    expected=f"previous {self._last}",
                    received=f"previous {previous}",
                )
            self._states[name] = state
            self._last = hashlib.sha256(line).hexdigest()
            self._end += len(line) + 1
            self._entries += 1

    def _entry(self, line: bytes) -> tuple[str, FileState, str]:
        try:
            match json.loads(line):
                case {
                    "file": str(name),
                    "sha256": str(sha256),
                    "size": int(size),
                    "previous": str(previous),
                } if _SHA256.fullmatch(sha256):
                    return name, FileState(sha256, size), previous
        except ValueError:
            pass
        raise self._damaged(
            "it is not an entry",
            expected='{"file": ..., "sha256": ..., "size": ..., "previous": ...}',
            received=ascii(line[:80].decode("utf-8", errors="replace")),
        )

    def _damaged(self, what: str, *, expected: str, received: str) -> JobError:
        return JobError(
            f"{self.path}, line {self._entries + 1} is damaged: {what}",
            expected=expected,
            received=received,
            help="restore the log from a copy, or start a new run with another --out",
        )


@contextmanager
def _exclusive_lock(file: IO[bytes]) -> Iterator[None]:
    """Block other processes from appending inside the block."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows has no such locks
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
