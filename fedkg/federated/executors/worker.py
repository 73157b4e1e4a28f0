"""A worker process: trains stacks of clients with one thread and puts what comes of them where the
parent process sees it.

Letters: C clients of a stack.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue

import torch
from torch import Tensor

from fedkg._internal.user_code import load_again, locate_failure
from fedkg.federated.algorithm import Algorithm
from fedkg.federated.client.task_losses import Loss
from fedkg.federated.client_state_store import FewRows
from fedkg.federated.executors.protocol import Updates, Work
from fedkg.federated.executors.shared_tensors import Plan, Room
from fedkg.federated.executors.stacked import Stacked
from fedkg.federated.problem import Clients, Pool, Problem
from fedkg.federated.settings import Settings
from fedkg.federated.state import ServerState
from fedkg.kernels.compiled_loop_policy import loops_in_round
from fedkg.models.model_protocols import Model, Params


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Posted:
    """The parts of a training that local steps of clients need; the data are in a separate room.

    Attributes:
        data: file and plan of the pool: ``x``, ``y``, ``sizes``, ``offsets``, and ``key/`` before
            the names of categories.
    """

    model: Model
    loss: Loss
    algorithm: Algorithm
    settings: Settings
    names: tuple[str, ...]
    data: tuple[Path, Plan]

    def work(self) -> Work:
        """The training, its data views of the room."""
        path, plan = self.data
        found = Room(path).read(plan)
        keys = {
            name.removeprefix("key/"): value
            for name, value in found.items()
            if name.startswith("key/")
        }
        pool = Pool(
            x=found["x"], y=found["y"], keys=keys, sizes=found["sizes"], offsets=found["offsets"]
        )
        ends = [
            (first, first + size)
            for first, size in zip(pool.offsets.tolist(), pool.sizes.tolist(), strict=True)
        ]
        clients = Clients(
            names=self.names,
            x=tuple(pool.x[first:last] for first, last in ends),
            y=tuple(pool.y[first:last] for first, last in ends),
            keys={
                name: tuple(codes[first:last] for first, last in ends)
                for name, codes in keys.items()
            },
        )
        problem = Problem(model=self.model, loss=self.loss, clients=clients)
        return Work(problem=problem, algorithm=self.algorithm, settings=self.settings, pool=pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A round as workers see it: its number, the plan of the server's models (``models/``) and
    joints (``joints/JOINT/``), and whether the round uses compiled loops.
    """

    round: int
    plan: Plan
    loops: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The training of one stack of clients.

    Attributes:
        turn: the number of the parent's call, and the position of the task within it.
        slot: the number of the pair of rooms for the question and the answer.
        asked: the plan of the question: ``clients``, their positions in the population, and
            ``rows/``, the server's memory about them.
        limit: as in `Executor.train`.
    """

    turn: tuple[int, int]
    slot: int
    asked: Plan
    limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of the task of a turn and slot: its plan, or the error that it ended with, itself
    where it can be sent, and its text.
    """

    turn: tuple[int, int]
    slot: int
    plan: Plan
    error: BaseException | None = None
    text: str = ""


def _read_posted(path: Path) -> Posted:
    """The training in a file, after loading the files of users that it refers to."""
    files, body = pickle.loads(path.read_bytes())
    load_again(files)
    posted: Posted = pickle.loads(body)
    return posted


def serve(connection: Connection, folder: Path) -> None:
    """Do as the parent process says until it hangs up; what a worker process runs.

    What comes: the name of a file with `Posted` in it, `Begun`, `Task`. What goes: True when the
    process has begun, and an `Answer` to
    each task.
    """
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C goes to all processes of a terminal: the parent decides
    inbox: SimpleQueue[object] = SimpleQueue()
    threading.Thread(target=_listen, args=(connection, inbox, folder), daemon=True).start()
    torch.set_num_threads(1)
    path: Path | None = None
    posted: tuple[Path, Work] | None = None
    begun: ServerState | None = None
    loops = False
    state_room, rooms = Room(folder / "state"), dict[Path, Room]()
    with suppress(
        OSError
    ):  # the parent is gone already: the listener removes the files and ends this process
        connection.send(True)
    while True:
        request = inbox.get()
        match request:
            case Path():
                path = request
            case Begun():
                begun, loops = _state(request, state_room.read(request.plan)), request.loops
            case Task():
                assert path is not None
                assert begun is not None
                asked, answered = (
                    rooms.setdefault(file, Room(file)) for file in slot_files(folder, request.slot)
                )
                try:
                    if posted is None or posted[0] != path:
                        posted = path, _read_posted(path).work()
                    with loops_in_round(loops):
                        trained = _trained(
                            posted[1], begun, asked.read(request.asked), request.limit
                        )
                    plan = answered.write(trained)
                    answer = Answer(turn=request.turn, slot=request.slot, plan=plan)
                except Exception as error:  # noqa: BLE001
                    # whatever it is, the parent process raises it
                    answer = Answer(
                        turn=request.turn,
                        slot=request.slot,
                        plan={},
                        error=_sendable(locate_failure(error) or error),
                        text=traceback.format_exc(),
                    )
                with suppress(OSError):  # the parent hung up: the listener ends this process
                    connection.send(answer)


def slot_files(folder: Path, slot: int) -> tuple[Path, Path]:
    """The files of a slot: what is remembered of the clients asked for, and what came of them."""
    return folder / f"asked-{slot}", folder / f"answered-{slot}"


def flat(updates: Updates) -> Params:
    """All tensors of a stack's updates by one name each; see `unflat`."""
    found = {"clients": updates.clients, "groups": updates.groups, "loss": updates.loss}
    for field in ("start", "update", "client_memory", "shared"):
        found |= {f"{field}/{name}": value for name, value in getattr(updates, field).items()}
    return found


def unflat(tensors: Mapping[str, Tensor]) -> Updates:
    """The updates that `flat` took apart."""
    parts: dict[str, Params] = {"start": {}, "update": {}, "client_memory": {}, "shared": {}}
    for name, value in tensors.items():
        field, _, key = name.partition("/")
        if key:
            parts[field][key] = value
    return Updates(
        clients=tensors["clients"],
        groups=tensors["groups"],
        loss=tensors["loss"],
        start=parts["start"],
        update=parts["update"],
        client_memory=parts["client_memory"],
        shared=parts["shared"],
    )


def _trained(work: Work, state: ServerState, asked: Params, limit: int | None) -> Params:
    clients = asked.pop("clients")
    state = replace(
        state,
        clients={
            name.removeprefix("rows/"): FewRows(clients, value) for name, value in asked.items()
        },
    )
    [updates] = Stacked(chunk=len(clients)).train(work, state, clients, limit=limit)
    return flat(updates)


def _state(begun: Begun, tensors: Params) -> ServerState:
    models: Params = {}
    joints: dict[str, Params] = {}
    for name, value in tensors.items():
        match name.split("/", 2):
            case ["joints", joint, key]:
                joints.setdefault(joint, {})[key] = value
            case _:
                models[name.removeprefix("models/")] = value
    return ServerState(round=begun.round, models=models, joints=joints)


def _sendable(error: Exception) -> Exception | None:
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001  errors of users' modules may be anything
        return None
    return error if type(again) is type(error) else None


def _listen(connection: Connection, inbox: SimpleQueue[object], folder: Path) -> None:
    """Take what the parent process sends as soon as it does, so that it never waits.

    When the parent hangs up or dies, this process ends, and the files with it: nobody else may be
    there to remove them.
    """
    while True:
        try:
            inbox.put(connection.recv())
        except (EOFError, OSError):
            shutil.rmtree(folder, ignore_errors=True)
            os._exit(1)
