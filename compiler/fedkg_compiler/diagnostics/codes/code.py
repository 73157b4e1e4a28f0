"""What a code stands for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """The title of a diagnostic code, and its page: what it means, an example that fails, how to mend it."""

    title: str
    page: str
