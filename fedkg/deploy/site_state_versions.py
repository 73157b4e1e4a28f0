"""What a site remembers between rounds, in files of its own.

Each version of the rows has a receipt: the server returns the receipt of the reply that it used
last, and the site continues from the rows of that reply. So the rows of a reply that the server
never received, or could not use, have no effect.
"""

from __future__ import annotations

import os
import string
import time
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save
from typing_extensions import TypeIs

from fedkg._internal.atomic_file import replace_file
from fedkg.deploy.signing import OWNER_ONLY
from fedkg.errors import FederationError
from fedkg.models.model_protocols import Params

NO_RECEIPT = "0" * 64
"""The receipt before the server has used any reply of a site."""

KEPT = 4
"""Versions that a site keeps: those of the last reply and of the one before it, and as many again
for a server that resumes from an older state.
"""

TICK_NS = 1_000_000
"""Between two uses of versions while the clock shows an earlier time, for coarse file systems."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrivateRows:
    """The versions of the rows of one site.

    Args:
        folder: of the files, one for each version; created if needed.
        first: the rows before the first round, by name.
    """

    folder: Path
    first: Params

    def read(self, receipt: str) -> Params:
        """The rows of a version.

        Raises:
            FederationError: there is no such version, or its file is damaged.
        """
        if receipt == NO_RECEIPT:
            return self.first
        path = self._path(receipt)
        try:
            rows = load(path.read_bytes())
            self._use(path)
        except (OSError, SafetensorError) as error:
            raise FederationError(
                "this site cannot read its private state (such as private layers) with which the "
                "server continues",
                expected=f"the file {path.name} in the folder of the site's state",
                received=getattr(error, "strerror", None) or str(error),
                help="restore the site's folder `state` from a copy, or start a new run; a site "
                f"keeps its last {KEPT} states",
            ) from error
        if rows.keys() != self.first.keys() or any(
            rows[name].shape != value.shape or rows[name].dtype != value.dtype
            for name, value in self.first.items()
        ):
            raise FederationError(
                f"the private state in {path} belongs to another algorithm",
                help="restore the site's folder `state` from a copy, or start a new run",
            )
        return {name: rows[name] for name in self.first}

    def write(self, receipt: str, rows: Params) -> None:
        """Save a version, and delete the versions that were not used for longest."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(receipt)
        body = save({name: value.contiguous() for name, value in rows.items()})
        replace_file(path, body, mode=OWNER_ONLY)
        self._use(path)
        times = self._times()
        for old in sorted(times, key=times.__getitem__)[:-KEPT]:
            old.unlink()

    def _use(self, path: Path) -> None:
        """Make a version the last one used, also if the clock was set back."""
        now = max(time.time_ns(), max(self._times().values()) + TICK_NS)
        os.utime(path, ns=(now, now))

    def _times(self) -> dict[Path, int]:
        """When each version was used last, in nanoseconds since 1970."""
        return {one: one.stat().st_mtime_ns for one in self.folder.glob("*.safetensors")}

    def _path(self, receipt: str) -> Path:
        return self.folder / f"{receipt}.safetensors"


def is_receipt(value: object) -> TypeIs[str]:
    """Whether a value from a message is a receipt: 64 hexadecimal digits."""
    return isinstance(value, str) and len(value) == len(NO_RECEIPT) and set(value) <= _DIGITS


_DIGITS = set(string.digits + "abcdef")
