"""All that a federation is between two rounds; nothing else influences what comes next, so that a saved state resumes to the bit.

Letters: G models the server holds (1, or one per cluster), N clients in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated.rows import ClientRows, StoredRows, opened, whole
from fedkg.models.model import Params

FORMAT = 1
"""Version of the saved form this code writes and reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which executor trains, and how; part of the state because float sums depend on it in their last bits.

    Attributes:
        executor: ``sequential``, ``stacked`` or ``processes``. chunk: most clients in a stack. threads: intra-operation threads.
        reason: why, in words.
    """

    executor: str
    chunk: int
    threads: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServerState:
    """The server after `round` rounds.

    Attributes:
        round: rounds done.
        models: parameters of the G models the server holds, each [G, ...].
        joints: what joints remember (server momentum, control variates, ...), by joint and name.
        clients: what is remembered of each client, by name, each [N, ...]; a tensor, or rows in files.
        choice: the executor, once chosen.
    """

    round: int
    models: Params
    joints: Mapping[str, Params] = field(default_factory=dict)
    clients: Mapping[str, ClientRows] = field(default_factory=dict)
    choice: Choice | None = None

    @property
    def params(self) -> Params:
        """The first (most often the only) model's parameters, without a leading dimension."""
        return {name: value[0] for name, value in self.models.items()}


def to_tensors(state: ServerState) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The state as flat named tensors and a JSON document; no pickle, nothing left out.

    Of rows in the files of a folder that was given to `train`, the tensors tell which slot is whose; the files are a part of what is saved,
    on the disk when this returns, and `rows.hold` keeps the state's slots from being written again.
    """
    tensors = {f"models/{name}": value.contiguous() for name, value in state.models.items()}
    for joint, memory in state.joints.items():
        tensors |= {f"joints/{joint}/{name}": value.contiguous() for name, value in memory.items()}
    stored = {name: rows for name, rows in state.clients.items() if isinstance(rows, StoredRows) and rows.store.lasting}
    tensors |= {f"clients/{name}": whole(rows).contiguous() for name, rows in state.clients.items() if name not in stored}
    tensors |= {f"stored/{name}": rows.places.contiguous() for name, rows in stored.items()}
    for rows in stored.values():
        rows.store.settle()
    choice = state.choice
    document: dict[str, Any] = {"format": FORMAT, "round": state.round, "joints": sorted(state.joints), "choice": None}
    if stored:
        document["stored"] = {
            name: {"row": list(rows.store.row), "dtype": str(rows.dtype).removeprefix("torch.")} for name, rows in stored.items()
        }
    if choice is not None:
        document["choice"] = {"executor": choice.executor, "chunk": choice.chunk, "threads": choice.threads, "reason": choice.reason}
    return tensors, document


def from_tensors(tensors: Mapping[str, Tensor], document: Mapping[str, Any], folder: Path | None = None) -> ServerState:
    """The state that `to_tensors` took apart.

    Args:
        folder: where `train` kept the rows of clients in files, if it did.

    Raises:
        JobError: when the parts are not one.
    """
    if document.get("format") != FORMAT:
        raise JobError("the saved state has another format", expected=str(FORMAT), received=str(document.get("format")))
    models: Params = {}
    joints: dict[str, Params] = {}
    clients: dict[str, ClientRows] = {}
    try:
        joints |= {joint: {} for joint in document["joints"]}
        for name, value in tensors.items():
            match name.split("/", 2):
                case ["models", *rest]:
                    models["/".join(rest)] = value
                case ["clients", *rest]:
                    clients["/".join(rest)] = value
                case ["stored", *rest]:
                    clients["/".join(rest)] = _opened(folder, "/".join(rest), document["stored"]["/".join(rest)], value)
                case ["joints", joint, key]:
                    joints[joint][key] = value
                case _:
                    raise JobError("the saved state has a tensor of unknown purpose", received=name)
        choice = None if document["choice"] is None else Choice(**document["choice"])
        return ServerState(round=int(document["round"]), models=models, joints=joints, clients=clients, choice=choice)
    except (KeyError, TypeError, ValueError) as error:
        raise JobError("the saved state is not whole", received=f"{type(error).__name__}: {error}") from error


def _opened(folder: Path | None, name: str, of: Mapping[str, Any], places: Tensor) -> StoredRows:
    if folder is None:
        raise JobError("the saved state has rows of clients in files", received=name, help="give their folder")
    return opened(folder, name, tuple(of["row"]), getattr(torch, of["dtype"]), places)
