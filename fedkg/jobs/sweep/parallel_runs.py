"""Several runs of a sweep at once, each in a process of its own on a share of the processors.

A process that is killed is a run that failed: nothing of it is lost but what came after its last checkpoint, and no other run is touched.
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

from fedkg._internal.child_process import run_in_child, started_by_main_thread
from fedkg.errors import Stopped
from fedkg.federated.executors.crew import deaf
from fedkg.jobs.events import Event

SHUTDOWN_SECONDS = 5
"""Seconds that a process has to end when it is told to; then it is killed."""

CHILD_ENTRY_POINT = "fedkg.jobs.sweep.parallel_runs:run_cell_in_child"
"""What the process of a run does; by its name, because importing it takes seconds, in which the process already watches its parent."""

CellListener = Callable[[int, Event], None]
"""Listens to the events of runs, each with the place of its run in the plan."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _RunningCell:
    cell: int
    share: tuple[int, ...]
    process: BaseProcess
    connection: Connection


def run_in_parallel(
    folder: Path, cells: Sequence[int], jobs: int, tell: CellListener, trust_code: bool = False
) -> Generator[tuple[int, str]]:
    """Run cells of the sweep in a folder, at most `jobs` at a time, in the order given; of each its place and why it failed, or ``""``.

    Args:
        cells: places in the plan. tell: called in this process, an event at a time.
    """
    waiting, free, running = (
        list(cells),
        split_processors(max(1, min(jobs, len(cells)))),
        dict[Connection, _RunningCell](),
    )
    try:
        while waiting or running:
            while waiting and free:
                with deaf():
                    begun = _start(folder, waiting.pop(0), free.pop(0), trust_code)
                    running[begun.connection] = begun  # before anybody is told, and may stop it all
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
    """The processors of this process in as many shares as runs go at once; of more runs than processors some have one in common."""
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
    """How a process ended that did not say so itself."""
    process.join()
    code = process.exitcode or 0
    how = f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
    return f"its process is gone: {how}" + (
        "; SIGKILL is often a machine out of memory: fewer --jobs"
        if code == -signal.SIGKILL
        else ""
    )


def run_cell_in_child(
    connection: Connection, folder: Path, cell: int, share: tuple[int, ...], trust_code: bool
) -> None:
    """What the process of a run does. Ctrl-C goes to all processes of a terminal: the parent decides, and ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, share)  # worker processes and threads of the run are counted by it
    import torch

    from fedkg.jobs.sweep.plan import read_plan
    from fedkg.jobs.sweep.sweep import run_cell

    torch.set_num_threads(len(share))
    try:
        connection.send(run_cell(read_plan(folder)[cell], folder, connection.send, trust_code))
    except (BrokenPipeError, Stopped):  # the parent is gone or ends this run
        os._exit(1)
