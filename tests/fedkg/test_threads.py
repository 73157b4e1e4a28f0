"""Work divided into parts for threads."""

from __future__ import annotations

import importlib.util
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
import torch

from fedkg._internal import threads


def test_parts_are_all_done_once_and_errors_raised() -> None:
    before, seen = torch.get_num_threads(), np.zeros(103, dtype=np.int64)
    torch.set_num_threads(4)

    def work(start: int, stop: int) -> None:
        seen[start:stop] += 1

    def failing(start: int, stop: int) -> None:
        if stop == 103:
            raise ValueError("the last part")

    try:
        threads.run_in_parts(103, 10, work)
        with pytest.raises(ValueError, match="the last part"):
            threads.run_in_parts(103, 10, failing)
    finally:
        torch.set_num_threads(before)
    assert (seen == 1).all()


def test_no_part_is_at_work_after_an_error() -> None:
    """The memory that it writes to may be freed then."""
    before, begun, ended = torch.get_num_threads(), Event(), []
    torch.set_num_threads(2)

    def work(start: int, stop: int) -> None:
        if start == 0:
            begun.wait(10)
            raise ValueError("the first part")
        begun.set()
        ended.append(sum(range(2_000_000)))

    try:
        with pytest.raises(ValueError, match="the first part"):
            threads.run_in_parts(2, 1, work)
    finally:
        torch.set_num_threads(before)
    assert ended


def test_threads_that_leave_in_any_order_leave_behind_what_there_was() -> None:
    """The second one begins while the first is inside, and leaves last."""
    before, inside, other, left = torch.get_num_threads(), Event(), Event(), Event()
    torch.set_num_threads(4)

    def enter_first() -> int:
        with threads.library_threads(1), threads.library_threads(2):
            inside.set()
            other.wait(10)
        left.set()
        return torch.get_num_threads()

    def enter_second() -> int:
        inside.wait(10)
        with threads.library_threads(1):
            other.set()
            left.wait(10)
        return torch.get_num_threads()

    try:
        with ThreadPoolExecutor(2) as pool:
            assert [
                found.result() for found in (pool.submit(enter_first), pool.submit(enter_second))
            ] == [4, 4]
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(torch.get_num_threads).result() == 4
    finally:
        torch.set_num_threads(before)


def test_the_number_of_threads_is_restored_after_an_error() -> None:
    before = torch.get_num_threads()
    with pytest.raises(ValueError, match="inside"), threads.library_threads(before + 1):
        raise ValueError("inside")
    with pytest.raises(RuntimeError), threads.library_threads(0):
        pass
    assert torch.get_num_threads() == before
    assert threads._PARTS.get() is None


def test_threads_are_left_alone_where_there_is_no_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where `os.register_at_fork` is missing."""
    monkeypatch.delattr(os, "register_at_fork", raising=False)
    monkeypatch.setattr(sys, "platform", "win32")
    spec = importlib.util.spec_from_file_location("parts_elsewhere", threads.__file__)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
