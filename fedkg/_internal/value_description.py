"""Text about rejected values, for error messages."""

from __future__ import annotations

from numbers import Real

from torch import Tensor


def describe_value(given: object) -> str:
    """Describe a value briefly: a tensor by dtype and shape, a string or number literally, else by
    type.
    """
    if isinstance(given, Tensor):
        return f"{str(given.dtype).removeprefix('torch.')} {list(given.shape)}"
    if isinstance(given, str):
        return repr(given)
    return f"the number {given}" if isinstance(given, Real) else type(given).__name__
