"""Errors of a store or an endpoint before they become diagnostics."""

from __future__ import annotations

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.diagnostic_spans import point, report


class StoreProblem(Exception):
    """A store or an endpoint does not give its graph.

    Attributes:
        code: FKG140 (cannot be reached or queried), FKG141 (an answer that cannot be used), FKG142
            (credentials), FKG143 (a store folder that cannot be used).
        help: how to correct it, or "".
        passing: whether another attempt may succeed.
        wait_s: the seconds that the server asks to wait before another attempt, or None.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        help: str = "",
        passing: bool = False,
        wait_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.help = help
        self.passing = passing
        self.wait_s = wait_s

    def diagnostic(self, name: str) -> Diagnostic:
        """The diagnostic for the store or endpoint that users call `name`."""
        return report(self.code, point(name), str(self), help=self.help)
