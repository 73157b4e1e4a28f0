"""The command `fedkg`: its subcommands, and how it reports errors."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from types import TracebackType
from typing import Annotated, Any

import typer
from typer.main import get_command

from fedkg._internal.safe_text import escape_hidden, show_warnings_as_notes
from fedkg.authoring import CompileError
from fedkg.errors import FedkgError, Stopped, describe_install
from fedkg.limits import raise_limits

COMMANDS: dict[str, str] = {
    "new": "new.new",
    "check": "check.check",
    "fmt": "fmt.fmt",
    "test": "run_rule_examples.run_examples",
    "lsp": "lsp.lsp",
    "eval": "evaluate.evaluate",
    "monitor": "monitor.monitor",
    "validate": "validate.validate",
    "compile": "compile_rules.compile_rules",
    "inspect": "inspect_pack.inspect",
    "run": "run_job.run",
    "status": "status.status",
    "watch": "watch.watch",
    "serve": "serve.serve",
    "predict": "predict.predict",
    "reproduce": "reproduce.reproduce",
    "paper": "paper.paper",
    "export": "export.export",
    "bom": "bom.bom",
    "sign": "sign.sign",
    "attest": "attest.attest",
    "verify": "verify_checksums.verify",
    "suggest": "suggest.suggest",
    "explain": "explain.explain",
    "diff": "diff.diff",
}
"""The module and function of every command in `fedkg.cli`, in the order of `fedkg --help`.

Only the module of the command that runs is imported.
"""

COMMAND_GROUPS: dict[str, tuple[str, str]] = {
    "ontology": ("ontology.app", "Manage the ontologies that rules use: list, show, add, remove."),
    "graph": ("graph_store.app", "Keep large graphs on disk, list named graphs, and query them."),
    "data": ("data.app", "Write the example table that the examples train on."),
    "federation": ("federation.federation_app", "Create a federation, and admit its sites."),
    "server": ("federation.server_app", "Run the server of a federation, and show its state."),
    "site": ("federation.site_app", "Join a federation, take part, pause, and leave."),
}
"""Groups of commands with the line that `fedkg --help` shows."""


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"fedkg {version('fedkg')}")
        raise typer.Exit


def _fedkg(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="NAME=VALUE",
            help="Raise or lower a limit on files, such as expanded=2GB; can be repeated.",
        ),
    ] = None,
) -> None:
    """The options of `fedkg` itself."""
    raise_limits(limit or [])


def make_app(
    commands: Iterable[str] = COMMANDS, groups: Iterable[str] = COMMAND_GROUPS
) -> typer.Typer:
    """The command `fedkg` with these commands and groups, by default all."""
    made = typer.Typer(
        name="fedkg",
        help=(
            "Write domain knowledge once and enforce it in every federated training run.\n\n"
            "Start with `fedkg new LIMITS.csv TABLE.csv -o rules.fkg`, then `fedkg check "
            "rules.fkg` and `fedkg eval rules.fkg TABLE.csv`."
        ),
        epilog=(
            "Exit codes: 0 success, 1 problems found, 2 usage error, 5 no usable updates, 130 "
            "stopped."
        ),
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(_fedkg)
    for name in commands:
        made.command(name)(_imported(COMMANDS[name]))
    for name in groups:
        place, line = COMMAND_GROUPS[name]
        made.add_typer(_imported(place), name=name, help=line)
    return made


def _imported(place: str) -> Any:
    """The function or group ``module.name`` of `fedkg.cli` (`Any`: either)."""
    module, name = place.split(".")
    return getattr(import_module(f"fedkg.cli.{module}"), name)


GC_THRESHOLD = 200_000
"""New objects between garbage collections; short commands never reach it (Python's default is 700).
"""


def _speed_up_startup() -> None:
    """Skip work that matters to long-running programs only.

    Each saves 5 to 10 % of a short command.
    """
    gc.set_threshold(GC_THRESHOLD)
    atexit.register(gc.freeze)  # skip the final garbage collection
    os.environ.setdefault(
        "PYDANTIC_DISABLE_PLUGINS", "__all__"
    )  # searching for plugins reads the metadata of all installed packages


def _select_commands(arguments: Sequence[str]) -> typer.Typer:
    """The single command or group at the start of the arguments, so that no other is imported."""
    name = arguments[0] if arguments else ""
    if name in COMMANDS or name in COMMAND_GROUPS:
        return make_app(COMMANDS.keys() & {name}, COMMAND_GROUPS.keys() & {name})
    return make_app()


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; expected errors are text on stderr, never a traceback."""
    sys.excepthook = _report_internal_error
    with warnings.catch_warnings():
        show_warnings_as_notes()
        _run(sys.argv[1:] if arguments is None else list(arguments))


def _run(given: list[str]) -> None:
    _speed_up_startup()
    try:
        get_command(_select_commands(given))(args=given, prog_name="fedkg")
    except CompileError as error:
        _leave(str(error), error.exit_code)  # diagnostics already start with "error"
    except FedkgError as error:
        _fail(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "fedkg", "fedkg_compiler"):
            raise
        _fail(
            f"this command needs the package `{package}`, which is not installed\n"
            f"  help: {describe_install('all')}",
            1,
        )
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
    """Report an internal error in one line, with a hint how to see the traceback."""
    if issubclass(kind, KeyboardInterrupt) or os.environ.get("FEDKG_TRACEBACK"):
        sys.__excepthook__(kind, error, trace)
        return
    last = trace
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    place = f" at {last.tb_frame.f_code.co_filename}:{last.tb_lineno}" if last is not None else ""
    typer.echo(
        f"error: internal error in fedkg: {kind.__name__}: "
        f"{escape_hidden(str(error))}{place}\n"
        "  help: please report it in the project's issue tracker; set FEDKG_TRACEBACK=1 and run "
        "the command again to see the traceback",
        err=True,
    )
