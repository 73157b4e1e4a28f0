"""Threads for compiled loops that do not hold the interpreter lock."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from threading import Lock, get_ident

import torch

PARTS_PER_THREAD = 4
"""Parts for each thread, if there is enough work."""

_PARTS: ContextVar[int | None] = ContextVar("_PARTS", default=None)

_SETTING = Lock()
_OUTSIDE: dict[int, int] = {}
"""By thread inside `library_threads`: the number of PyTorch's threads before it entered."""


@contextmanager
def library_threads(count: int) -> Iterator[None]:
    """Set the number of threads of PyTorch's operations in a block.

    Compiled loops keep the previous number of threads in the block, if that is larger.

    The threads of a PyTorch operation spin while they wait for each other, which is slow on a busy
    processor; those of compiled loops sleep. A new thread takes the number that was set last, by
    any thread. A thread that enters while another one is inside therefore restores the number from
    before both.
    """
    own = get_ident()
    with _SETTING:
        first = own not in _OUTSIDE
        before = next(iter(_OUTSIDE.values())) if first and _OUTSIDE else torch.get_num_threads()
        _take(count)
        if first:
            _OUTSIDE[own] = before
    token = _PARTS.set(max(count, _PARTS.get() or before))
    try:
        yield
    finally:
        _PARTS.reset(token)
        with _SETTING:
            if first:
                _OUTSIDE.pop(own, None)
            _take(before)


def _take(count: int) -> None:
    """Set the number of PyTorch's threads, for this thread and for threads that start later."""
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)


def run_in_parts(count: int, least: int, work: Callable[[int, int], object]) -> None:
    """Call ``work(start, stop)`` on consecutive parts of ``range(count)`` in several threads.

    The number of threads is PyTorch's, or that of compiled loops inside `library_threads`. A thread
    takes the next part when it has finished one, so a busy processor delays at most one part. The
    parts must write to different places. Errors of any part are raised.

    Args:
        count: size of the range.
        least: smallest size of a part.
        work: the function to call.
    """
    if count < 2 * least:
        work(0, count)
        return
    threads = _PARTS.get() or torch.get_num_threads()
    parts = max(1, min(1 if threads == 1 else PARTS_PER_THREAD * threads, count // max(1, least)))
    if parts == 1:
        work(0, count)
        return
    places = iter(range(parts))

    def take_parts() -> None:
        for place in places:  # safe without a lock: `next` is one step of the interpreter
            work(count * place // parts, count * (place + 1) // parts)

    others = [_threads().submit(take_parts) for _ in range(min(threads, parts) - 1)]
    try:
        take_parts()
    finally:
        others = [other for other in others if not other.cancel()]
        wait(others)  # the caller may free their output after this function returns
    for other in others:
        other.result()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="fedkg")


def _reset_after_fork() -> None:
    """Drop the thread pool in a forked process, where its threads do not exist."""
    global _SETTING  # a thread of the parent may have held it
    _SETTING = Lock()
    _OUTSIDE.clear()
    _threads.cache_clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_reset_after_fork)
