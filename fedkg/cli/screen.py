"""What all commands share of the screen: two consoles, JSON on stdout, and the marks of a command's end."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

WIDE = 140
"""Columns where the output goes to a file or another program."""

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for other programs.")]


def out() -> Console:
    """The console for results."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)


def err() -> Console:
    """The console for everything that is not the result: errors, notes, progress."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, width=None if sys.stderr.isatty() else WIDE)


def say(text: str) -> None:
    """Print a plain line to stdout; brackets in it are text, not markup."""
    typer.echo(text)


def note(text: str) -> None:
    """Print a plain line to stderr."""
    typer.echo(text, err=True)


def count(number: int, noun: str) -> str:
    """``1 rule``, ``2,000 rules``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_json(value: Any) -> None:
    """Print a JSON document to stdout. `Any`: JSON. Values that are not finite become null, as JSON has no word for them."""
    typer.echo(json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value
