"""Run-time errors: what is wrong, what fedkg expected, what it received, and what to do."""

from __future__ import annotations

from collections.abc import Mapping


class FedkgError(Exception):
    """Base of every error that a user of fedkg may meet at run time.

    The command line prints ``str(error)`` and exits with ``exit_code``, without a traceback.

    Args:
        message: one sentence that names the problem and its place (file, field, column, client,
            rule).
        expected: what would have been right, if that can be stated.
        received: the value that fedkg found instead (value, shape, unit).
        help: what to do; may show the right call.
    """

    exit_code = 1

    def __init__(
        self, message: str, *, expected: str = "", received: str = "", help: str = ""
    ) -> None:
        self.message = message
        self.expected = expected
        self.received = received
        self.help = help
        lines = [message]
        if expected:
            lines.append(f"  expected: {expected}")
        if received:
            lines.append(f"  received: {received}")
        if help:
            lines.append(f"  help: {help}")
        super().__init__("\n".join(lines))


def join_lines(text: str) -> str:
    """An error with `expected`, `received` and `help` on one line, for tables and logs."""
    return "; ".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


class UsageError(FedkgError):
    """A wrong command or call: an unknown option, a missing file, arguments that exclude each
    other.
    """

    exit_code = 2


class PackError(FedkgError):
    """A constraint pack that cannot be read: damaged, too new, or with an unknown required
    section."""


class LimitError(FedkgError):
    """A file above a limit of `fedkg.limits`, compressed or expanded; the message shows how to
    raise the limit.
    """


class TableError(FedkgError):
    """A table that cannot be read, or that lacks a column, a number or a row that the rules
    need."""


class RequirementsError(FedkgError):
    """A file of requirements that cannot be read, or from which no rules can be made."""


class LayoutError(FedkgError):
    """Tensors that do not fit their layout: wrong shape, wrong names, unexpectedly standardised
    values.
    """


class KnowledgeError(FedkgError):
    """Knowledge that contradicts itself or the data."""


class SetError(FedkgError):
    """An empty or meaningless feasible set, or points that do not fit it."""


class HorizonError(FedkgError):
    """A trace that is too short for a temporal formula with ``end="strict"``."""


class JobError(FedkgError):
    """A job that cannot run: a field of the job file is wrong, or its parts contradict each
    other."""


class FederationError(FedkgError):
    """A federation that cannot continue: a message that cannot be read, a signature that does not
    fit, or too few sites."""


class Stopped(FedkgError):
    """A run stopped early and can be resumed from its folder; the exit code is that of Ctrl-C."""

    exit_code = 130


class TooFewClients(FedkgError):
    """A round had fewer usable clients than the job requires.

    Args:
        excluded: by client name, why its update is missing.
    """

    exit_code = 5

    def __init__(
        self, message: str, *, excluded: Mapping[str, str], expected: str = "", received: str = ""
    ) -> None:
        self.excluded = dict(excluded)
        reasons = "; ".join(f"{client}: {reason}" for client, reason in excluded.items())
        super().__init__(message, expected=expected, received=received, help=reasons)


class MissingExtra(FedkgError):
    """A feature needs an optional dependency that is not installed."""

    exit_code = 2

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs an optional dependency that is not installed",
            help=describe_install(extra),
        )


def describe_install(extra: str) -> str:
    """How to install fedkg with optional dependencies; it is not on the package index."""
    return f'in a clone of fedkg, pip install -c constraints.txt -e ".[{extra}]"'
