"""Queries of small graphs are answered in this process."""

from __future__ import annotations

from typing import Any

import pytest

from fedkg._internal.forked_worker import ForkedWorker

FOLDERS = frozenset(("binding", "library", "sparql"))
"""Folders without tests of limits on time and memory."""


@pytest.fixture(autouse=True)
def _no_copies(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer in this process, as fedkg does outside Linux.

    A copy of a process with PyTorch and all tests in memory takes a tenth of a second, and these
    tests need thousands.
    """

    def ask(worker: Any, question: Any, what: str, *, name: str = "query") -> Any:
        return worker._answer(question)

    if request.path.parent.name in FOLDERS:
        monkeypatch.setattr(ForkedWorker, "ask", ask)
