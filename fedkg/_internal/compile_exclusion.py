"""What `torch.compile` leaves as it is.

Rules are looked up, cut into chunks and put together anew for every batch, and nearest points of polytopes are found by loops that look at
their numbers: traced, this takes minutes or fails, and gains nothing that their few large operations do not have already. Inside a compiled
function they run as they do outside of it, and the model around them is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def exclude_from_compile(work: Callable[P, R]) -> Callable[P, R]:
    """A function that is not traced; unlike `torch.compiler.disable`, which imports the compiler for seconds, at no cost elsewhere."""

    @wraps(work)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.compiler.is_compiling():
            untraced: Callable[P, R] = torch.compiler.disable(work)  # type: ignore[no-untyped-call]  # torch declares it without types
            return untraced(*args, **kwargs)
        return work(*args, **kwargs)

    return call
