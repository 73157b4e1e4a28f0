"""The server's state between two rounds as one file: tensors, and the rest as JSON in the file's own header. No pickle."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from fedkg.errors import JobError
from fedkg.federated import ServerState, from_tensors, to_tensors
from fedkg.federated.rows import hold
from fedkg.jobs.folder import CHECKPOINTS, RESTORE_HELP, RunFolder


def checkpoint_name(trial: str) -> str:
    """Where an arm's checkpoint stands in a run folder."""
    return f"{CHECKPOINTS}/{trial}.safetensors"


def rows_folder(folder: RunFolder, trial: str) -> Path:
    """Where an arm keeps what is remembered of sites and has no room in memory; a part of its checkpoint."""
    return folder.path / CHECKPOINTS / f"{trial}.rows"


def save_state(folder: RunFolder, trial: str, state: ServerState) -> None:
    """Write an arm's state whole or not at all."""
    tensors, document = to_tensors(state)
    folder.write_bytes(
        checkpoint_name(trial), save(tensors, {"state": json.dumps(document, sort_keys=True)})
    )
    hold(
        state.clients
    )  # until the next checkpoint is whole, the files of this one stay as they are


def load_state(folder: RunFolder, trial: str) -> ServerState | None:
    """An arm's last state, None when it has none yet. Raises JobError when the file is damaged."""
    if checkpoint_name(trial) not in folder.log.states():
        return None
    place = folder.verify(checkpoint_name(trial))
    try:
        with safe_open(place, framework="pt") as file:
            document = json.loads((file.metadata() or {})["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  the file is no mapping
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise JobError(
            f"checkpoint {place} is damaged", received=str(error), help=RESTORE_HELP
        ) from error
    return from_tensors(tensors, document, rows_folder(folder, trial))
