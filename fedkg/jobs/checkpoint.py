"""The server state between two rounds as one safetensors file, with the rest as JSON in its header.

The format contains no pickled objects.
"""

from __future__ import annotations

import json
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from fedkg.errors import JobError
from fedkg.federated import ServerState, from_tensors, to_tensors
from fedkg.federated.client_state_store import hold
from fedkg.jobs.folder import CHECKPOINTS, RESTORE_HELP, RunFolder


def checkpoint_name(trial: str) -> str:
    """The path of a trial's checkpoint within the run folder."""
    return f"{CHECKPOINTS}/{trial}.safetensors"


def rows_folder(folder: RunFolder, trial: str) -> Path:
    """The folder for client state that does not fit in memory; it is part of the checkpoint."""
    return folder.path / CHECKPOINTS / f"{trial}.rows"


def save_state(folder: RunFolder, trial: str, state: ServerState) -> None:
    """Write the state of a trial atomically."""
    tensors, document = to_tensors(state)
    folder.write_bytes(
        checkpoint_name(trial), save(tensors, {"state": json.dumps(document, sort_keys=True)})
    )
    hold(state.clients)  # keep the files of this checkpoint until the next one is complete


def load_state(folder: RunFolder, trial: str) -> ServerState | None:
    """The last state of a trial; None before the first checkpoint.

    Raises:
        JobError: the file is damaged.
    """
    if checkpoint_name(trial) not in folder.log.states():
        return None
    place = folder.verify(checkpoint_name(trial))
    try:
        with safe_open(place, framework="pt") as file:
            document = json.loads((file.metadata() or {})["state"])
            names = file.keys()  # the file is not a mapping
            tensors = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise JobError(
            f"checkpoint {place} is damaged", received=str(error), help=RESTORE_HELP
        ) from error
    return from_tensors(tensors, document, rows_folder(folder, trial))
