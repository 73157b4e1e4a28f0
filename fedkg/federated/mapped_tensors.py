"""Tensors in memory-mapped files: the operating system keeps as much of them in memory as it
can.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor

from fedkg.errors import JobError


def mapped(path: Path, size: int) -> Tensor:
    """The bytes of a file, uint8 [size], as a tensor that is the file: what is written to it is
    written there.
    """
    return torch.from_file(str(path), shared=True, size=size, dtype=torch.uint8)


def reserve(path: Path, size: int) -> None:
    """Make the file so long, with room on the disk for all of it: a write to a map must not find
    the disk full.
    """
    try:
        with path.open("ab") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
    except OSError as error:
        raise JobError(
            f"cannot reserve {-(-size >> 20)} MiB on the disk of {path.parent}",
            received=error.strerror or str(error),
            help="free space there, or use a folder on a larger disk: another run folder, or for "
            "temporary files another TMPDIR",
        ) from error
