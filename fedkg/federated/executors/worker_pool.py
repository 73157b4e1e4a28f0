"""Worker processes of one machine: started once, told by pipes, ended together.

They are started afresh (spawned), never forked: a process that computes with several threads cannot
be forked safely.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Self

from torch import Tensor

from fedkg._internal.parent_bound_process import run_in_child, started_by_main_thread
from fedkg._internal.safe_text import list_first
from fedkg._internal.user_code import loaded_files
from fedkg.errors import JobError
from fedkg.federated.algorithm import Algorithm
from fedkg.federated.executors.protocol import Work
from fedkg.federated.executors.shared_tensors import Room
from fedkg.federated.executors.worker import Answer, Begun, Posted, Task, slot_files
from fedkg.kernels.compiled_loop_policy import uses_loops
from fedkg.models.model_protocols import Params

AHEAD = 2
"""Tasks that a worker has at most: one that it works at and one that waits in its pipe."""

GRACE = 5
"""Seconds until a worker that was asked to end is killed."""


SERVE = "fedkg.federated.executors.worker:serve"
"""What a worker runs; by its name, because importing it takes seconds, in which a worker already
watches its parent.
"""


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def ignore_sigint() -> Iterator[None]:
    """Ctrl-C goes to all processes of a terminal: one that is begun in here does not hear it, from
    its first moment on (`worker.serve`).
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Given:
    slot: int
    clients: Tensor


@dataclass(slots=True, kw_only=True, eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    tasks: dict[tuple[int, int], _Given] = field(default_factory=dict)

    def end(self) -> str:
        """How the process ended, in words."""
        self.process.join(GRACE)
        code = self.process.exitcode
        return (
            f"ended by {signal.Signals(-code).name}"
            if code is not None and code < 0
            else f"exit status {code}"
        )


class WorkerPool:
    """A number of worker processes, started with the first work.

    They end with the ``with`` block, and their files are removed.

    Args:
        size: how many; None: as many as there are processors.

    Examples:
        >>> with WorkerPool(2) as crew:
        ...     crew.size
        2
    """

    def __init__(self, size: int | None = None) -> None:
        self.size = size or cores()
        self._workers: list[_Worker] = []
        self._folder: Path | None = None
        self._work: Work | None = None
        self._posts = 0
        self._state: Room | None = None
        self._slots: list[tuple[Room, Room]] = []
        self._calls = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pids(self) -> list[int]:
        """Of the processes that have been started."""
        return [worker.process.pid for worker in self._workers if worker.process.pid is not None]

    def begin(self, work: Work, round: int, shown: Mapping[str, Tensor]) -> tuple[int, list[int]]:
        """Send new work and the state of the server to all workers; return a number for this call,
        and the free slots.

        Slots of unfinished tasks of an earlier call become free when these tasks are answered.

        Args:
            work: the training. Only if it differs from that of the last call does fedkg send it
                again.
            round: the number of completed rounds.
            shown: the server's tensors, see `Begun`.

        Raises:
            JobError: when a part of the work cannot be sent to another process, or no process can
                be started.
        """
        if self._work is not work:
            posted = _posted(work)
            if not self._workers:
                self._start()
            self._post(work, posted)
        assert self._state is not None
        begun = Begun(round=round, plan=self._state.write(shown), loops=uses_loops())
        for worker in self._workers:
            self._tell(worker, begun)
        self._calls += 1
        taken = {task.slot for worker in self._workers for task in worker.tasks.values()}
        return self._calls, [slot for slot in range(len(self._slots)) if slot not in taken]

    def ready(self) -> bool:
        """Whether some worker has less to do than it may have."""
        return any(len(worker.tasks) < AHEAD for worker in self._workers)

    def give(self, task: Task, clients: Tensor, rows: Params) -> None:
        """Send a task to the worker with the fewest tasks.

        Args:
            task: the task, without a plan of the question.
            clients: int64 [C], the clients to train.
            rows: the server's memory about these clients, each [C, ...].
        """
        asked = {"clients": clients} | {f"rows/{name}": value for name, value in rows.items()}
        worker = min(self._workers, key=lambda each: len(each.tasks))
        worker.tasks[task.turn] = _Given(slot=task.slot, clients=clients)
        self._tell(worker, replace(task, asked=self._slots[task.slot][0].write(asked)))

    def answers(self) -> list[Answer]:
        """Answers that have come; waits until there is one.

        Raises:
            JobError: when a worker has ended. Exceptions of a task are in its answer.
        """
        pipes = {worker.connection: worker for worker in self._workers}
        ends = {worker.process.sentinel: worker for worker in self._workers}
        found: list[Answer] = []
        ready = wait([*pipes, *ends])
        for pipe, worker in pipes.items():
            if pipe in ready:
                try:
                    answer = pipe.recv()
                except (EOFError, OSError) as error:
                    raise self._worker_error(worker) from error
                del worker.tasks[answer.turn]
                found.append(answer)
        if not found:
            raise self._worker_error(next(worker for end, worker in ends.items() if end in ready))
        return found

    def looked_at(self, answer: Answer) -> Params:
        """The tensors of an answer, which hold until another task is given with its slot.

        Raises:
            JobError: when the task ended with an error that cannot be sent; any other that it ended
                with.
        """
        if answer.error is not None:
            answer.error.add_note(f"in a worker process:\n{answer.text}")
            raise answer.error
        if answer.text:
            raise JobError(f"a worker process failed\n{answer.text}")
        return self._slots[answer.slot][1].read(answer.plan)

    def close(self) -> None:
        """End all workers and remove the files.

        A crew that was closed begins anew when work comes.
        """
        workers, self._workers, self._work = self._workers, [], None
        for worker in workers:
            worker.connection.close()
            worker.process.terminate()
        for worker in workers:
            worker.process.join(GRACE)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.process.close()
        self._slots, self._state = [], None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _start(self) -> None:
        if multiprocessing.current_process().daemon:
            raise JobError(
                "this process is a worker of another program, and cannot start worker processes",
                help="set `executor: stacked`",
            )
        context = multiprocessing.get_context("spawn")
        folder = self._folder = Path(tempfile.mkdtemp(prefix="fedkg-workers-"))
        self._state = Room(folder / "state")
        self._slots = [
            (Room(asked), Room(answered))
            for asked, answered in (
                slot_files(folder, slot) for slot in range(AHEAD * self.size + 1)
            )
        ]
        try:
            for number in range(1, self.size + 1):
                mine, its = context.Pipe()
                process = context.Process(
                    target=run_in_child,
                    args=(SERVE, (its, folder), folder, started_by_main_thread()),
                    name=f"worker {number} of {self.size}",
                    daemon=True,
                )
                self._workers.append(_Worker(process=process, connection=mine))
                with ignore_sigint():
                    process.start()
                its.close()
            for worker in self._workers:
                try:
                    worker.connection.recv()
                except (EOFError, OSError) as error:
                    raise JobError(
                        f"the process {worker.process.name} ended before it was ready",
                        received=worker.end(),
                        help=(
                            'in a script, train inside `if __name__ == "__main__":`, since each '
                            "worker process reads the script again; otherwise see the output of "
                            "the process, or set `executor: stacked`"
                        ),
                    ) from error
        except BaseException:
            self._workers = [worker for worker in self._workers if worker.process.pid is not None]
            self.close()
            raise

    def _post(self, work: Work, posted: Posted) -> None:
        """Put data and work where workers find them, in place of what was there."""
        assert self._folder is not None
        old, self._posts = self._posts, self._posts + 1
        path, data = (self._folder / f"{what}-{self._posts}" for what in ("work", "data"))
        pool = work.pool
        tensors = {"x": pool.x, "y": pool.y, "sizes": pool.sizes, "offsets": pool.offsets}
        plan = Room(data).write(
            tensors | {f"key/{name}": codes for name, codes in pool.keys.items()}
        )
        body = pickle.dumps(replace(posted, data=(data, plan)))
        path.write_bytes(pickle.dumps((loaded_files(), body)))
        self._work = work
        for worker in self._workers:
            self._tell(worker, path)
        for what in ("work", "data"):
            (self._folder / f"{what}-{old}").unlink(missing_ok=True)

    def _tell(self, worker: _Worker, what: object) -> None:
        try:
            worker.connection.send(what)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise self._worker_error(worker) from error

    def _worker_error(self, worker: _Worker) -> JobError:
        assert self._work is not None
        names = self._work.problem.clients.names
        clients = [
            names[client]
            for task in list(worker.tasks.values())[:1]
            for client in task.clients.tolist()
        ]
        return JobError(
            f"the process {worker.process.name} ended unexpectedly"
            + (f"; it trained {list_first(clients, 5)}" if clients else ""),
            received=worker.end(),
            help="after SIGKILL the memory was probably full: use fewer workers or a smaller "
            "chunk; after another end see the output of the process",
        )


def _posted(work: Work) -> Posted:
    """The part of a work that clients' local steps need, without its data.

    Raises:
        JobError: naming the part that cannot be sent.
    """
    algorithm = _local(work.algorithm)
    posted = Posted(
        model=work.problem.model,
        loss=work.problem.loss,
        algorithm=algorithm,
        settings=work.settings,
        names=work.problem.clients.names,
        data=(Path(), {}),
    )
    parts = {
        "model": posted.model,
        "loss": posted.loss,
        "start of clients": algorithm.start,
        "local optimiser": algorithm.local,
    }
    parts |= {f"term {type(term).__name__}": term for term in algorithm.terms} | {
        "algorithm": algorithm
    }
    if _unsendable(posted) is not None:
        for what, part in parts.items():
            error = _unsendable(part)
            if error is not None:
                raise JobError(
                    f"the {what} cannot be sent to other processes",
                    received=f"{type(error).__name__}: {error}",
                    help=(
                        "use functions and classes that can be imported (no lambda, nothing "
                        "defined inside a function), or another executor"
                    ),
                ) from error
    return posted


def _unsendable(part: object) -> Exception | None:
    """Why something cannot be sent to another process; None where it can."""
    try:
        pickle.dumps(part)
    except Exception as error:  # noqa: BLE001  whatever a user's part answers when it is asked
        return error
    return None


def _local(algorithm: Algorithm) -> Algorithm:
    """The joints of an algorithm that clients fill themselves; the others stay with the server."""
    return Algorithm(
        name=algorithm.name,
        alike=algorithm.alike,
        start=algorithm.start,
        terms=algorithm.terms,
        differentiation=algorithm.differentiation,
        local=algorithm.local,
        beside=None if algorithm.beside is None else _local(algorithm.beside),
        pooled=algorithm.pooled,
    )
