"""What every contender of `benchmarks/federated_peers.py` receives, and the protocol of a round.

It needs only NumPy. The folder holds the clients' samples, the initial model, the cohorts of all
rounds, and two pipes. A contender reads one request per line: on `round` it runs the next round and
replies with its seconds; on `loss` it replies with the loss over the first clients.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

PROBED = 20
"""Number of clients over which the loss is computed."""


class Given:
    """A workload in its folder.

    Samples x [clients, samples, ...], targets y, the initial parameters by PyTorch's names,
    cohorts.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        told = json.loads((self.folder / "workload.json").read_text())
        self.kind, self.rate, self.batch, self.rounds = (
            told["kind"],
            told["rate"],
            told["batch"],
            told["rounds"],
        )
        self.shape: dict[str, int] = told["shape"]
        self.x, self.y = (np.load(self.folder / f"{name}.npy", mmap_mode="c") for name in "xy")
        self.cohorts = np.load(self.folder / "cohorts.npy")

    def start(self) -> dict[str, NDArray[Any]]:
        """The first parameters."""
        with np.load(self.folder / "start.npz") as start:
            return dict(start)

    def probed(self) -> list[NDArray[Any]]:
        """The samples of the first clients and their targets, as one batch."""
        return [
            np.ascontiguousarray(value[:PROBED]).reshape(-1, *value.shape[2:])
            for value in (self.x, self.y)
        ]


class Asked:
    """The contender's end of the pipes. Between `wait` and `done` lies one round."""

    def __init__(self, folder: Path, loss: Callable[[], float]) -> None:
        self._told, self._loss, self._begun = (folder / "told").open("w"), loss, 0.0
        self._asked = (folder / "asked").open()

    def wait(self) -> None:
        """Come back when a round is asked for."""
        while (line := self._asked.readline().strip()) == "loss":
            self._tell(self._loss())
        if line != "round":
            raise SystemExit(0)
        self._begun = time.perf_counter()

    def done(self) -> None:
        """Tell how long the round took."""
        self._tell(time.perf_counter() - self._begun)

    def _tell(self, number: float) -> None:
        self._told.write(f"{number!r}\n")
        self._told.flush()
