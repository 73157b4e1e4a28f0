"""Do several tasks in parallel, such as the runs of a sweep, each in a process on a share of the
processors.

A killed process counts as a failed task, and the other tasks continue. A run loses only what
followed its last checkpoint.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from fedkg._internal.parent_bound_process import run_in_child, started_by_main_thread
from fedkg.errors import Stopped
from fedkg.federated.executors.worker_pool import ignore_sigint
from fedkg.jobs.events import Event, Listener

SHUTDOWN_SECONDS = 5
"""Time for a process to end after a request; then it is killed."""

CHILD_ENTRY_POINT = "fedkg.jobs.sweep.parallel_runs:run_task_in_child"
"""The function of a task's process.

It is given by name, because importing it takes seconds, during which the process already watches
its parent.
"""

TaskListener = Callable[[int, Event], None]
"""Receives events of tasks with their number."""


class TaskFunction(Protocol):
    """A function of a module, which does a task in its process."""

    def __call__(self, tell: Listener, /, *arguments: Any) -> str:
        """Do the task and tell its events; return the reason of failure or ``""``.

        `Any`: each function has its own arguments.
        """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """A function with its arguments after the listener."""

    function: TaskFunction
    arguments: tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _RunningTask:
    number: int
    share: tuple[int, ...]
    process: BaseProcess
    connection: Connection


def run_in_parallel(
    tasks: Mapping[int, Task], jobs: int, tell: TaskListener
) -> Generator[tuple[int, str]]:
    """Do tasks, at most `jobs` at a time; yield the number of each and the reason of failure or
    ``""``.

    Args:
        tasks: tasks by number, in the order of starting.
        tell: receives the events, in this process; the first of each task is `prepared`.
    """
    waiting, free, running = (
        list(tasks),
        split_processors(max(1, min(jobs, len(tasks)))),
        dict[Connection, _RunningTask](),
    )
    try:
        while waiting or running:
            while waiting and free:
                number = waiting.pop(0)
                with ignore_sigint():
                    begun = _start(number, tasks[number], free.pop(0))
                    running[begun.connection] = (
                        begun  # register it before a listener can stop the tasks
                    )
                tell(number, Event(kind="prepared"))
            for ready in wait(list(running)):
                one = next(each for connection, each in running.items() if connection is ready)
                try:
                    found = one.connection.recv()
                except (EOFError, OSError):
                    found = _describe_exit(one.process)
                if isinstance(found, Event):
                    tell(one.number, found)
                    continue
                del running[one.connection]
                one.connection.close()
                one.process.join()
                free.append(one.share)
                yield one.number, found
    finally:
        for left in running.values():
            left.process.terminate()
        for left in running.values():
            left.process.join(SHUTDOWN_SECONDS)
            if left.process.is_alive():
                left.process.kill()
                left.process.join()
            left.connection.close()


def split_processors(jobs: int) -> list[tuple[int, ...]]:
    """Split the processors of this process into one share per parallel task.

    With more tasks than processors some tasks share one.
    """
    every = (
        sorted(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else list(range(os.cpu_count() or 1))
    )
    if jobs >= len(every):
        return [(every[place % len(every)],) for place in range(jobs)]
    ends = [place * len(every) // jobs for place in range(jobs + 1)]
    return [tuple(every[first:last]) for first, last in pairwise(ends)]


def _start(number: int, task: Task, share: tuple[int, ...]) -> _RunningTask:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(
        target=run_in_child,
        args=(
            CHILD_ENTRY_POINT,
            (theirs, share, pickle.dumps(task)),
            None,
            started_by_main_thread(),
        ),
        name=f"task {number + 1}",
    )
    process.start()
    theirs.close()
    return _RunningTask(number=number, share=share, process=process, connection=ours)


def _describe_exit(process: BaseProcess) -> str:
    """How a process ended without a result."""
    process.join()
    code = process.exitcode or 0
    how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    return f"its process died: {how}" + (
        "; SIGKILL often means out of memory: use fewer --jobs" if code == -signal.SIGKILL else ""
    )


def run_task_in_child(connection: Connection, share: tuple[int, ...], pickled: bytes) -> None:
    """The main function of a task's process.

    It ignores Ctrl-C, which reaches all processes of a terminal; the parent decides and ends this
    one.

    Args:
        pickled: the task, which this process unpickles once it watches its parent, because the
            imports take seconds.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, share)  # the task derives its workers and threads from this
    import torch

    torch.set_num_threads(len(share))
    task: Task = pickle.loads(pickled)
    try:
        connection.send(task.function(connection.send, *task.arguments))
    except (BrokenPipeError, Stopped):  # the parent died or ends this task
        os._exit(1)
