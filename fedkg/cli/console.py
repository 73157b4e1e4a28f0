"""Console output that all commands share: results on stdout, notes on stderr, JSON."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typing_extensions import override

from fedkg._internal.safe_text import escape_hidden

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console, ConsoleOptions, RenderableType

PIPED_WIDTH = 140
"""Columns if the output goes to a file or another program."""

AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON, for other programs.")
]

TrustCode = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        help="Run the Python code that the job imports (`model.path`); `fedkg inspect` shows it.",
    ),
]


def stdout_console() -> Console:
    """The console for results."""
    return _console(stderr=False)


def stderr_console() -> Console:
    """The console for everything but results: errors, notes, progress."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    """A console that shows hidden characters in names as escapes."""
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        @override
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for part in super().render(renderable, options):
                yield part if part.control else Segment(escape_hidden(part.text), part.style)

    stream = sys.stderr if stderr else sys.stdout
    return SafeConsole(
        stderr=stderr, highlight=False, width=None if stream.isatty() else PIPED_WIDTH
    )


def print_line(text: str) -> None:
    """Print a plain line to stdout; brackets are not markup."""
    typer.echo(escape_hidden(text))


def print_note(text: str) -> None:
    """Print a plain line to stderr."""
    typer.echo(escape_hidden(text), err=True)


def print_json(value: Any) -> None:
    """Print a JSON document to stdout. `Any`: JSON.

    Infinite values and NaN become null, because JSON cannot represent them.
    """
    text = json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False)
    typer.echo(escape_hidden(text))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value
