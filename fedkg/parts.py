"""Work in parts on as many threads as torch uses, for compiled loops that hold no interpreter lock."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise

import torch


def in_parts(count: int, least: int, work: Callable[[int, int], object]) -> None:
    """``work(start, stop)`` on consecutive parts of ``range(count)`` of at least `least` each, on as many threads as torch uses.

    The parts must write to different places. Errors of any part are raised.
    """
    parts = max(1, min(torch.get_num_threads(), count // max(1, least)))
    ends = [count * i // parts for i in range(parts + 1)]
    if parts == 1:
        work(0, count)
        return
    others = [_threads().submit(work, start, stop) for start, stop in pairwise(ends[1:])]
    try:
        work(ends[0], ends[1])
    finally:
        wait(others)  # before what they write to may go
    for other in others:
        other.result()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="fedkg")


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_threads.cache_clear)  # threads do not survive a fork
