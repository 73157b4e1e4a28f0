"""All that a federation is between two rounds; nothing else influences what comes next, so that a
saved state resumes to the bit.

Letters: G models the server holds (1, or one per cluster), N clients in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated.client_state_store import ClientRows, StoredRows, opened, whole
from fedkg.models.model_protocols import Params

FORMAT = 2
"""Version of the saved form this code writes and reads."""

ALIGNMENT = 64
"""Bytes. PyTorch allocates CPU tensors at multiples of 64, one cache line and one AVX-512 register.

Matrix kernels treat the first elements of an operand that starts elsewhere separately, which
changes the last bits of a product.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The executor of a training and its settings. It is part of the state because the last bits of
    floating-point sums depend on it.

    Attributes:
        executor: ``sequential``, ``stacked`` or ``processes``.
        chunk: the largest number of clients in a stack.
        threads: the threads of the tensor library within an operation.
        reason: why fedkg chose this executor, in words.
        loops: whether rounds after the first use compiled loops.
    """

    executor: str
    chunk: int
    threads: int
    reason: str = ""
    loops: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServerState:
    """The server after `round` rounds.

    Attributes:
        round: rounds done.
        models: parameters of the G models the server holds, each [G, ...].
        joints: memory of the steps of a round (server momentum, control variates, ...), by step and
            name.
        clients: memory about each of the N clients, by name, each [N, ...]; a tensor, or rows in
            files.
        choice: the chosen executor; None before the first round.
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


def with_aligned_memory(state: ServerState) -> ServerState:
    """The same state with every tensor of `models` and `joints` contiguous and at an aligned
    address.

    The numbers that a tensor leads to depend on its address in their last bits. A round may return
    views into larger tensors, and a file
    is read into memory at any address. With this, a round sees equal memory whether its state was
    loaded or never left the process.
    Rows of clients need no such care: they are only read by index, which copies them.
    """
    return replace(
        state,
        models=align(state.models),
        joints={joint: align(memory) for joint, memory in state.joints.items()},
    )


def align(tensors: Params) -> Params:
    """The same tensors, contiguous and at aligned addresses, see `ALIGNMENT`."""
    return {
        name: value if _is_aligned(value) else value.clone(memory_format=torch.contiguous_format)
        for name, value in tensors.items()
    }


def _is_aligned(value: Tensor) -> bool:
    """Accelerators have no readable addresses; memory that they allocate is aligned, a view into it
    may not be.
    """
    if not value.is_contiguous():
        return False
    if value.device.type == "cpu":
        return value.data_ptr() % ALIGNMENT == 0
    return value.storage_offset() == 0


def to_tensors(state: ServerState) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The state as flat named tensors and a JSON document; no pickle, nothing left out.

    For rows of clients in the folder given to `train`, the tensors contain only the slot of each
    client. The files are then part of the saved state, and are on the disk when this returns.
    `client_state_store.hold` prevents the store from writing to the state's slots again.
    """
    tensors = {f"models/{name}": value.contiguous() for name, value in state.models.items()}
    for joint, memory in state.joints.items():
        tensors |= {f"joints/{joint}/{name}": value.contiguous() for name, value in memory.items()}
    stored = {
        name: rows
        for name, rows in state.clients.items()
        if isinstance(rows, StoredRows) and rows.store.lasting
    }
    tensors |= {
        f"clients/{name}": whole(rows).contiguous()
        for name, rows in state.clients.items()
        if name not in stored
    }
    tensors |= {f"stored/{name}": rows.places.contiguous() for name, rows in stored.items()}
    for rows in stored.values():
        rows.store.settle()
    choice = state.choice
    document: dict[str, Any] = {
        "format": FORMAT,
        "round": state.round,
        "joints": list(state.joints),
        "tensors": list(tensors),
        "choice": None,
    }
    if stored:
        document["stored"] = {
            name: {
                "row": list(rows.store.row),
                "dtype": str(rows.dtype).removeprefix("torch."),
                "sha256": rows.store.checksum(rows.places),
            }
            for name, rows in stored.items()
        }
    if choice is not None:
        document["choice"] = {
            "executor": choice.executor,
            "chunk": choice.chunk,
            "threads": choice.threads,
            "reason": choice.reason,
            "loops": choice.loops,
        }
    return tensors, document


def from_tensors(
    tensors: Mapping[str, Tensor], document: Mapping[str, Any], folder: Path | None = None
) -> ServerState:
    """The state that `to_tensors` took apart, in aligned memory and with all names in their first
    order.

    Sums over all parameters follow the order of the names, and a file may return them in another
    one.

    Args:
        folder: where `train` kept the rows of clients in files, if it did.

    Raises:
        JobError: when the parts are not one.
    """
    if document.get("format") != FORMAT:
        raise JobError(
            "the saved state has another format than this version of fedkg reads",
            expected=f"format {FORMAT}",
            received=f"format {document['format']}" if "format" in document else "no format",
            help="continue with the version of fedkg that saved it, or start a new run",
        )
    models: Params = {}
    joints: dict[str, Params] = {}
    clients: dict[str, ClientRows] = {}
    try:
        joints |= {joint: {} for joint in document["joints"]}
        listed = set(document["tensors"])
        if tensors.keys() != listed:
            name = min(tensors.keys() ^ listed)
            raise JobError(
                "the tensors of the checkpoint are not those that its description lists",
                received=f"{name}, which is only in "
                + ("the description" if name in listed else "the file"),
                help="restore the checkpoint from a copy, or start a new run",
            )
        for name in document["tensors"]:
            value = tensors[name]
            match name.split("/", 2):
                case ["models", *rest]:
                    models["/".join(rest)] = value
                case ["clients", *rest]:
                    clients["/".join(rest)] = value
                case ["stored", *rest]:
                    clients["/".join(rest)] = _opened(
                        folder, "/".join(rest), document["stored"]["/".join(rest)], value
                    )
                case ["joints", joint, key]:
                    joints[joint][key] = value
                case _:
                    raise JobError(
                        "the checkpoint contains a tensor that this version of fedkg does not know",
                        received=name,
                        help="continue with the version of fedkg that wrote the run, or start a "
                        "new run",
                    )
        choice = None if document["choice"] is None else Choice(**document["choice"])
        return with_aligned_memory(
            ServerState(
                round=int(document["round"]),
                models=models,
                joints=joints,
                clients=clients,
                choice=choice,
            )
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise JobError(
            "the saved state is incomplete or damaged",
            received=f"no field {error}" if isinstance(error, KeyError) else str(error),
            help="restore the checkpoint from a copy, or start a new run",
        ) from error


def _opened(folder: Path | None, name: str, of: Mapping[str, Any], places: Tensor) -> StoredRows:
    if folder is None:
        raise JobError(
            "the saved state of the clients is in files, so their folder is needed",
            received=name,
            help="give the folder of these files as `folder`",
        )
    row, dtype = tuple(of["row"]), getattr(torch, of["dtype"])
    return opened(folder, name, row, dtype, places, of["sha256"])
