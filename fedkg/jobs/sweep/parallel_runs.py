"""Run several runs of a sweep in parallel, each in a process on a share of the processors.

A killed process counts as a failed run: it loses only what followed its last checkpoint, and the
other runs continue.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from fedkg._internal.parent_bound_process import run_in_child, started_by_main_thread
from fedkg.errors import Stopped
from fedkg.federated.executors.worker_pool import ignore_sigint
from fedkg.jobs.events import Event

SHUTDOWN_SECONDS = 5
"""Time for a process to end after a request; then it is killed."""

CHILD_ENTRY_POINT = "fedkg.jobs.sweep.parallel_runs:run_cell_in_child"
"""The function of a run's process.

It is given by name, because importing it takes seconds, during which the process already watches
its parent.
"""

CellListener = Callable[[int, Event], None]
"""Receives events of runs with the index of their cell."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _RunningCell:
    cell: int
    share: tuple[int, ...]
    process: BaseProcess
    connection: Connection


def run_in_parallel(
    folder: Path, cells: Sequence[int], jobs: int, tell: CellListener, trust_code: bool = False
) -> Generator[tuple[int, str]]:
    """Run cells of a sweep, at most `jobs` at a time; yield each index and the reason of failure or
    ``""``.

    Args:
        cells: indices in the plan, in the order of starting.
        tell: receives the events, in this process.
    """
    waiting, free, running = (
        list(cells),
        split_processors(max(1, min(jobs, len(cells)))),
        dict[Connection, _RunningCell](),
    )
    try:
        while waiting or running:
            while waiting and free:
                with ignore_sigint():
                    begun = _start(folder, waiting.pop(0), free.pop(0), trust_code)
                    running[begun.connection] = (
                        begun  # register it before a listener can stop the sweep
                    )
                tell(begun.cell, Event(kind="prepared"))
            for ready in wait(list(running)):
                one = next(each for connection, each in running.items() if connection is ready)
                try:
                    found = one.connection.recv()
                except (EOFError, OSError):
                    found = _describe_exit(one.process)
                if isinstance(found, Event):
                    tell(one.cell, found)
                    continue
                del running[one.connection]
                one.connection.close()
                one.process.join()
                free.append(one.share)
                yield one.cell, found
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
    """Split the processors of this process into one share per parallel run.

    With more runs than processors some runs share one.
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


def _start(folder: Path, cell: int, share: tuple[int, ...], trust_code: bool) -> _RunningCell:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(
        target=run_in_child,
        args=(
            CHILD_ENTRY_POINT,
            (theirs, folder, cell, share, trust_code),
            None,
            started_by_main_thread(),
        ),
        name=f"run {cell + 1}",
    )
    process.start()
    theirs.close()
    return _RunningCell(cell=cell, share=share, process=process, connection=ours)


def _describe_exit(process: BaseProcess) -> str:
    """How a process ended without a result."""
    process.join()
    code = process.exitcode or 0
    how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    return f"its process died: {how}" + (
        "; SIGKILL often means out of memory: use fewer --jobs" if code == -signal.SIGKILL else ""
    )


def run_cell_in_child(
    connection: Connection, folder: Path, cell: int, share: tuple[int, ...], trust_code: bool
) -> None:
    """The main function of a run's process.

    It ignores Ctrl-C, which reaches all processes of a terminal; the parent decides and ends this
    one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, share)  # the run derives its workers and threads from this
    import torch

    from fedkg.jobs.sweep.stored_plan import read_plan
    from fedkg.jobs.sweep.sweep import run_cell

    torch.set_num_threads(len(share))
    try:
        connection.send(run_cell(read_plan(folder)[cell], folder, connection.send, trust_code))
    except (BrokenPipeError, Stopped):  # the parent died or ends this run
        os._exit(1)
