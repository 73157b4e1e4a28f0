"""What something is that was given in place of something else, in the words of messages."""

from __future__ import annotations

from numbers import Real

from torch import Tensor


def describe_value(given: object) -> str:
    """The type and shape of a tensor, a text or number itself, of all else the type."""
    if isinstance(given, Tensor):
        return f"{str(given.dtype).removeprefix('torch.')} {list(given.shape)}"
    if isinstance(given, str):
        return repr(given)
    return f"the number {given}" if isinstance(given, Real) else type(given).__name__
