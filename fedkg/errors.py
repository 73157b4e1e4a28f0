"""The one family of run-time errors: what was expected, what was received, where, and what to do."""

from __future__ import annotations


class FedkgError(Exception):
    """Base of every error a user of fedkg may meet at run time.

    The command line prints ``str(error)`` and exits with ``exit_code``; it never shows a traceback for one of these.

    Args:
        message: one sentence that names what is wrong and where (file, field, column, client, rule).
        expected: what would have been right, when that can be said.
        received: what was there instead (value, shape, unit).
        help: what to do about it; may show the right call.
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


class UsageError(FedkgError):
    """The command or call itself is wrong: unknown option, missing file, arguments that exclude each other."""

    exit_code = 2


class PackError(FedkgError):
    """A constraint pack that cannot be read: damaged, newer than this version, or with an unknown required section."""


class LimitError(FedkgError):
    """A file that is larger than a limit of `fedkg.limits`, or expands to more; the message shows how to raise the limit."""


class TableError(FedkgError):
    """A table that cannot be read or lacks what the rules need: a column, a number, a row."""


class LayoutError(FedkgError):
    """Tensors that do not fit the layout they were announced with: wrong shape, wrong names, standardised values."""


class KnowledgeError(FedkgError):
    """Knowledge that contradicts itself or the data it is used on."""


class SetError(FedkgError):
    """A feasible set that is empty or makes no sense, or points that do not fit it."""


class HorizonError(FedkgError):
    """A trace is too short for a temporal formula whose windows may not end with it (``end="strict"``)."""


class JobError(FedkgError):
    """A job that cannot run: a field of the job file is wrong, or its parts contradict each other."""


class Stopped(FedkgError):
    """A run stopped before its end and can be resumed from its folder; with the exit code of what Ctrl-C has ended."""

    exit_code = 130


class TooFewClients(FedkgError):
    """A round had fewer usable clients than the job demands."""

    exit_code = 5


class MissingExtra(FedkgError):
    """A feature needs an optional part of the distribution that is not installed."""

    exit_code = 2

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs an optional part that is not installed",
            help=f'pip install "fedkg[{extra}]", or in a clone of the repository: pip install -c constraints.txt -e ".[{extra}]"',
        )
