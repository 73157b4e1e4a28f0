"""Work in parts on threads."""

from __future__ import annotations

import importlib.util
import os
import sys
from threading import Event

import numpy as np
import pytest
import torch

from fedkg import parts


def test_parts_are_all_done_once_and_errors_raised() -> None:
    before, seen = torch.get_num_threads(), np.zeros(103, dtype=np.int64)
    torch.set_num_threads(4)

    def work(start: int, stop: int) -> None:
        seen[start:stop] += 1

    def failing(start: int, stop: int) -> None:
        if stop == 103:
            raise ValueError("the last part")

    try:
        parts.in_parts(103, 10, work)
        with pytest.raises(ValueError, match="the last part"):
            parts.in_parts(103, 10, failing)
    finally:
        torch.set_num_threads(before)
    assert (seen == 1).all()


def test_no_part_is_at_work_after_an_error() -> None:
    """For what it writes to may go then."""
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
            parts.in_parts(2, 1, work)
    finally:
        torch.set_num_threads(before)
    assert ended


def test_threads_are_left_alone_where_there_is_no_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, where `os.register_at_fork` is missing."""
    monkeypatch.delattr(os, "register_at_fork", raising=False)
    monkeypatch.setattr(sys, "platform", "win32")
    spec = importlib.util.spec_from_file_location("parts_elsewhere", parts.__file__)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
