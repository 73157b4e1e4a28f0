"""The command `fedkg`, called in this process to save the time of importing it in a new one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fedkg.cli.main import run


@dataclass(frozen=True)
class Done:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON on stdout."""
        return json.loads(self.out)


Command = Callable[..., Done]


def call(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Done:
    """The exit code and the output of the command.

    An exception other than an exit with a code is raised and fails the test.
    """
    capsys.readouterr()
    hook, code = sys.excepthook, 0
    try:
        run([str(argument) for argument in arguments])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.excepthook = hook
    captured = capsys.readouterr()
    return Done(code, captured.out, captured.err)
