"""The command `fedkg`: its commands, and what becomes of errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from types import TracebackType

import typer
from typer.main import get_command

from fedkg.authoring import CompileError
from fedkg.cli import check, compile_rules, data, diff, evaluate, examples, explain, fmt, inspect_pack, new, ontology, run_job
from fedkg.errors import FedkgError

COMMANDS: dict[str, Callable[..., None]] = {
    "new": new.new,
    "check": check.check,
    "fmt": fmt.fmt,
    "test": examples.run_examples,
    "eval": evaluate.evaluate,
    "compile": compile_rules.compile_rules,
    "inspect": inspect_pack.inspect,
    "run": run_job.run,
    "explain": explain.explain,
    "diff": diff.diff,
}
"""Every command by name, in the order of `fedkg --help`."""

FAMILIES: dict[str, tuple[typer.Typer, str]] = {
    "ontology": (ontology.app, "Which ontologies rules may use: list, show, add, remove."),
    "data": (data.app, "Write the example table that the examples train on."),
}
"""Families of commands by name, with the line `fedkg --help` shows."""

app = typer.Typer(
    name="fedkg",
    help="Write what a domain knows once; every federated training run obeys it.\n\n"
    "Start with `fedkg new LIMITS.csv TABLE.csv -o rules.fkg`, then `fedkg check rules.fkg` and `fedkg eval rules.fkg TABLE.csv`.",
    epilog="Exit codes: 0 done, 1 problems found, 2 wrong call, 3 stopped and resumable, 4 budget spent, 5 too few clients.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"fedkg {version('fedkg')}")
        raise typer.Exit


@app.callback()
def _fedkg(version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version and end.")) -> None:
    """Options of the command itself."""


for _name, _command in COMMANDS.items():
    app.command(_name)(_command)
for _name, (_family, _help) in FAMILIES.items():
    app.add_typer(_family, name=_name, help=_help)


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave the process with its exit code; an expected error is text on stderr, never a traceback."""
    sys.excepthook = _own_fault
    try:
        get_command(app)(args=None if arguments is None else list(arguments), prog_name="fedkg")
    except CompileError as error:
        _leave(str(error), error.exit_code)  # every diagnostic says itself that it is an error
    except FedkgError as error:
        _fail(str(error), error.exit_code)
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
    typer.echo(text, err=True)
    sys.exit(code)


def _own_fault(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What the user sees when fedkg itself is at fault: one line, and how to see the rest."""
    if issubclass(kind, KeyboardInterrupt) or os.environ.get("FEDKG_TRACEBACK"):
        sys.__excepthook__(kind, error, trace)
        return
    last = trace
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    place = f" at {last.tb_frame.f_code.co_filename}:{last.tb_lineno}" if last is not None else ""
    typer.echo(
        f"error: a fault in fedkg itself: {kind.__name__}: {error}{place}\n"
        "  help: set FEDKG_TRACEBACK=1 and run the command again to see the whole traceback; please report it",
        err=True,
    )
