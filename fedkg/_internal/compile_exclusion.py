"""Exclusion of functions from `torch.compile`.

fedkg looks up rules, cuts them into chunks and reassembles them for every batch, and it finds
nearest points of polytopes with loops that read their numbers. Tracing such code takes minutes or
fails, and gains nothing over its few large operations. Inside a compiled function this code runs as
usual, and the surrounding model is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def exclude_from_compile(work: Callable[P, R]) -> Callable[P, R]:
    """Return a function that `torch.compile` does not trace.

    Unlike `torch.compiler.disable`, it does not import the compiler (seconds) outside of compiled
    functions.
    """

    @wraps(work)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_compiling():
            disable = torch.compiler.disable
            untraced: Callable[P, R] = disable(work)  # type: ignore[no-untyped-call]
            return untraced(*args, **kwargs)
        return work(*args, **kwargs)

    return call
