"""Loops compiled by Numba at run time, for work that tensor operations can do only in many passes over memory.

Import modules with kernels where they are first needed: Numba takes half a second to load, and each kernel is compiled once per machine
and kept on disk. Kernels see NumPy arrays; what they compute is the same for any number of threads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import ParamSpec, TypeVar, cast

import numba
import torch

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """The function as a compiled loop: no interpreter lock, divisions as IEEE 754 has them, no reordering of sums."""
    return cast("Callable[P, R]", numba.njit(nogil=True, cache=True, error_model="numpy")(function))


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
    work(ends[0], ends[1])
    for other in others:
        other.result()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="fedkg")


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_threads.cache_clear)  # threads do not survive a fork
