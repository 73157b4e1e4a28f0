"""Work in parts on as many threads as torch uses, for compiled loops that hold no interpreter lock."""

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
"""Parts for each thread, where there is enough to do."""

_PARTS: ContextVar[int | None] = ContextVar("_PARTS", default=None)

_SETTING = Lock()
_OUTSIDE: dict[int, int] = {}
"""Of each thread that is inside of `library_threads` now, how many the library's operations took before it came in."""


@contextmanager
def library_threads(count: int) -> Iterator[None]:
    """Inside, the library's operations take so many threads, and compiled loops as many as these took before, if that is more.

    Threads of one of the library's operations wait for each other spinning, which is slow where a processor is busy elsewhere; those of
    compiled loops sleep. A thread that begins takes the number that was set last, whoever set it: one that comes in while another is
    inside leaves behind what was there before both.
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
    """The library's operations take so many threads: those of this thread and of threads that begin later."""
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)


def run_in_parts(count: int, least: int, work: Callable[[int, int], object]) -> None:
    """``work(start, stop)`` on consecutive parts of ``range(count)`` of at least `least` each, on as many threads as torch uses, or as
    `library_threads` says.

    Threads take one part after the other, so that one whose processor is busy elsewhere holds up no more than a part. The parts must
    write to different places. Errors of any part are raised.
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

    def some() -> None:
        for place in places:  # taking the next one is a single step of the interpreter
            work(count * place // parts, count * (place + 1) // parts)

    others = [_threads().submit(some) for _ in range(min(threads, parts) - 1)]
    try:
        some()
    finally:
        others = [other for other in others if not other.cancel()]
        wait(others)  # before what they write to may go
    for other in others:
        other.result()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="fedkg")


def _alone() -> None:
    """Forget the threads that there were, which do not survive a fork."""
    global _SETTING  # one of them may have held it
    _SETTING = Lock()
    _OUTSIDE.clear()
    _threads.cache_clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_alone)
