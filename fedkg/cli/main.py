"""The command `fedkg`: its commands, and what becomes of errors."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Annotated

import typer
from typer.main import get_command

from fedkg._internal.safe_text import escape_hidden
from fedkg._internal.warning_notes import show_warnings_as_notes
from fedkg.authoring import CompileError
from fedkg.cli import (
    check,
    compile_rules,
    data,
    diff,
    evaluate,
    examples,
    explain,
    fmt,
    graph,
    inspect_pack,
    new,
    ontology,
    reproduce,
    run_job,
    status,
    suggest,
    verify,
)
from fedkg.errors import FedkgError, Stopped
from fedkg.limits import raise_limits

COMMANDS: dict[str, Callable[..., None]] = {
    "new": new.new,
    "check": check.check,
    "fmt": fmt.fmt,
    "test": examples.run_examples,
    "eval": evaluate.evaluate,
    "compile": compile_rules.compile_rules,
    "inspect": inspect_pack.inspect,
    "run": run_job.run,
    "status": status.status,
    "reproduce": reproduce.reproduce,
    "verify": verify.verify,
    "suggest": suggest.suggest,
    "explain": explain.explain,
    "diff": diff.diff,
}
"""Every command by name, in the order of `fedkg --help`."""

COMMAND_GROUPS: dict[str, tuple[typer.Typer, str]] = {
    "ontology": (ontology.app, "Which ontologies rules may use: list, show, add, remove."),
    "graph": (
        graph.app,
        "Graphs on disk, for those that are too large to be read each time: load, show.",
    ),
    "data": (data.app, "Write the example table that the examples train on."),
}
"""Families of commands by name, with the line `fedkg --help` shows."""


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"fedkg {version('fedkg')}")
        raise typer.Exit


def _fedkg(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and end."
    ),
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="NAME=VALUE",
            help="Raise or lower a limit on files, such as expanded=2GB; may be given several times.",
        ),
    ] = None,
) -> None:
    """Options of the command itself."""
    raise_limits(limit or [])


def _app(
    commands: Mapping[str, Callable[..., None]], families: Mapping[str, tuple[typer.Typer, str]]
) -> typer.Typer:
    """The command `fedkg` with these commands and families."""
    made = typer.Typer(
        name="fedkg",
        help="Write what a domain knows once; every federated training run is held to it.\n\n"
        "Start with `fedkg new LIMITS.csv TABLE.csv -o rules.fkg`, then `fedkg check rules.fkg` and `fedkg eval rules.fkg TABLE.csv`.",
        epilog="Exit codes: 0 done, 1 problems found, 2 wrong call, 5 too few clients, 130 stopped and resumable.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(_fedkg)
    for name, command in commands.items():
        made.command(name)(command)
    for name, (family, line) in families.items():
        made.add_typer(family, name=name, help=line)
    return made


app = _app(COMMANDS, COMMAND_GROUPS)


GC_THRESHOLD = 200_000
"""New objects between two searches for garbage, of which a command that ends soon makes none; Python would search every 700."""


def _speed_up_startup() -> None:
    """Leave out what only matters to a program that goes on: each of these takes from a twentieth to a tenth of a short command."""
    gc.set_threshold(GC_THRESHOLD)
    atexit.register(gc.freeze)  # at the end the memory goes back as it is, without a last search
    os.environ.setdefault(
        "PYDANTIC_DISABLE_PLUGINS", "__all__"
    )  # to look for some is to read the metadata of all that is installed


def _select_commands(arguments: Sequence[str]) -> typer.Typer:
    """What these arguments need of the command line: one command where they begin with its name, so that no other's options are made."""
    name = arguments[0] if arguments else ""
    return _app({name: COMMANDS[name]}, {}) if name in COMMANDS else app


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with its exit code; an expected error is text on stderr, never a traceback."""
    sys.excepthook = _report_internal_error
    with warnings.catch_warnings():
        show_warnings_as_notes()
        _run(sys.argv[1:] if arguments is None else list(arguments))


def _run(given: list[str]) -> None:
    _speed_up_startup()
    try:
        get_command(_select_commands(given))(args=given, prog_name="fedkg")
    except CompileError as error:
        _leave(str(error), error.exit_code)  # every diagnostic says itself that it is an error
    except FedkgError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("stopped", Stopped.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        _fail(f"{error.strerror or error}{where}", 1)


def _fail(text: str, code: int) -> None:
    sys.stdout.flush()
    typer.secho("error: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
    _leave(text, code)


def _leave(text: str, code: int) -> None:
    sys.stdout.flush()
    typer.echo(escape_hidden(text), err=True)
    sys.exit(code)


def _report_internal_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """What the user sees when fedkg itself is at fault: one line, and how to see the rest."""
    if issubclass(kind, KeyboardInterrupt) or os.environ.get("FEDKG_TRACEBACK"):
        sys.__excepthook__(kind, error, trace)
        return
    last = trace
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    place = f" at {last.tb_frame.f_code.co_filename}:{last.tb_lineno}" if last is not None else ""
    typer.echo(
        f"error: a fault in fedkg itself: {kind.__name__}: {escape_hidden(str(error))}{place}\n"
        "  help: set FEDKG_TRACEBACK=1 and run the command again to see the whole traceback; please report it",
        err=True,
    )
