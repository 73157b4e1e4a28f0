"""Python's warnings as one-line notes for the command line, without file and line of the code."""

from __future__ import annotations

import sys
import warnings
from typing import TextIO

FOR_DEVELOPERS = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ResourceWarning)
"""Categories about code; they tell the user nothing about rules or data."""


def show_warnings_as_notes() -> None:
    """Print each warning of this process once, as ``note: ...`` on stderr; options of Python
    (``-W``) still apply.
    """
    if sys.warnoptions:
        return
    shown: set[str] = set()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        text = " ".join(str(message).split())
        if issubclass(category, RuntimeWarning):
            text = (
                f"some numbers are too large or undefined ({text}); "
                "results that need them are unknown"
            )
        if text not in shown and not issubclass(category, FOR_DEVELOPERS):
            shown.add(text)
            sys.stderr.write(f"note: {text}\n")

    warnings.showwarning = show
