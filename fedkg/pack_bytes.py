"""A compiled pack as the bytes of its file, so that a caller can write it without NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedkg._internal.atomic_file import replace_file
from fedkg.errors import PackError

if TYPE_CHECKING:
    from fedkg.pack import Pack


@dataclass(frozen=True, slots=True, kw_only=True)
class PackCounts:
    """Numbers of the parts of a pack; `rows` are bound constraints, in all banks."""

    rules: int
    rows: int
    banks: int
    knowledge: int
    inferences: int
    sets: int
    causes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedPack:
    """The bytes of a pack file, with its counts."""

    body: bytes
    counts: PackCounts

    def read(self) -> Pack:
        """Decode the pack. Raises PackError if the bytes are not a complete pack."""
        from fedkg.pack import read_pack

        return read_pack(self.body)


def write_pack(body: bytes, path: str | Path) -> Path:
    """Write the bytes of a pack file atomically (temporary file, then rename). Raises PackError on
    failure.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise PackError(
            f"cannot write {path}",
            received="a folder" if path.is_dir() else "not an ordinary file",
            help=f"choose another name, such as {path / 'rules.fkgpack'}"
            if path.is_dir()
            else "choose another name",
        )
    try:
        replace_file(path, body)
    except OSError as error:
        raise PackError(
            f"cannot write {path}",
            received=error.strerror or str(error),
            help="choose another name, in a folder that you may write to",
        ) from error
    return path
