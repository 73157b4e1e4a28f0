"""Declared shapes and ranges of a set's numbers, and their checks.

Letters: [...] any leading shape of points, n their length; m, q counts of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from fedkg.errors import SetError

KEY = "numbers"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldShape:
    """Shape and range of one field.

    Attributes:
        ends: the letters of its last dimensions, after any leading shape; "n|1" is n, or 1 for all
            entries.
        finite: whether infinity is forbidden; NaN always is.
        each: whether its leading shape must expand to that of the points; otherwise they broadcast
            to each other.
    """

    ends: tuple[str, ...] = ()
    finite: bool = True
    each: bool = False


def number_field(
    ends: str = "", *, finite: bool = True, each: bool = False
) -> Mapping[str, FieldShape]:
    """The metadata of a field: ``field(metadata=number_field("m n"))``; see `FieldShape`."""
    return {KEY: FieldShape(ends=tuple(ends.split()), finite=finite, each=each)}


def check_fields(made: Any) -> None:  # `made` is a dataclass
    """Raise SetError if a set's numbers are NaN or forbidden infinities (checked on a CPU only), or
    do not fit each other.
    """
    if torch.compiler.is_compiling():
        return
    given = _declared(made)
    check_shapes(type(made).__name__, given)
    for name, value, declared in given:
        if _is_invalid(value, declared.finite):
            raise SetError(
                f"`{type(made).__name__}.{name}` has an invalid entry",
                expected="finite numbers"
                if declared.finite
                else "numbers, or infinite for no bound",
                received="NaN"
                if not declared.finite
                else f"the number {value}"
                if isinstance(value, Real)
                else "NaN, or an infinite number",
            )


def check_fit(made: Any, point: Tensor) -> None:  # `made` is a dataclass
    """Raise SetError if a set's numbers do not fit points like these; under graph recording, torch
    checks instead.
    """
    if not torch.compiler.is_compiling():
        check_shapes(type(made).__name__, _declared(made), point)


def check_shapes(
    name: str, given: Sequence[tuple[str, Any, FieldShape]], point: Tensor | None = None
) -> None:
    """Raise SetError if tensors do not have the declared shapes.

    Args:
        name: of the set.
        given: for each of its fields the name, the value and the declaration; numbers and None fit
            everything.
        point: [..., n] to compare with; None: compare the fields only with each other.
    """
    tensors = [
        (field, value, declared)
        for field, value, declared in given
        if isinstance(value, Tensor) and value.ndim
    ]
    if not tensors:
        return
    sizes = {} if point is None else {"n": point.shape[-1]}
    lead = () if point is None else tuple(point.shape[:-1])
    for field, value, declared in tensors:
        before = value.ndim - len(declared.ends)
        own = tuple(value.shape[: max(before, 0)])
        fits = before >= 0 and all(
            _is_size(size, letter, sizes)
            for size, letter in zip(value.shape[max(before, 0) :], declared.ends, strict=False)
        )
        joined = _broadcast(own, lead)
        if (
            not fits
            or joined is None
            or (declared.each and point is not None and joined != tuple(point.shape[:-1]))
        ):
            held = "the points" if point is not None else "the rest of the set"
            points = () if point is None else (f"points {list(point.shape)}",)
            raise SetError(
                f"`{name}.{field}` does not fit {held}",
                expected=f"[{', '.join(('...', *declared.ends))}], points being [..., n]",
                received=", ".join(
                    [*(f"{other} {list(one.shape)}" for other, one, _ in tensors), *points]
                ),
            )
        lead = lead if point is not None and not declared.each else joined


def _declared(made: Any) -> list[tuple[str, Any, FieldShape]]:
    kinds = _of_class(type(made))  # type: ignore[arg-type]  # classes are hashable
    return [(name, getattr(made, name), declared) for name, declared in kinds]


@cache
def _of_class(made: Any) -> tuple[tuple[str, FieldShape], ...]:  # `made` is a dataclass
    return tuple(
        (field.name, field.metadata[KEY]) for field in fields(made) if KEY in field.metadata
    )


def _is_size(size: int, letter: str, sizes: dict[str, int]) -> bool:
    """Whether a size is that of a letter; an unset letter takes this size."""
    name, _, one = letter.partition("|")
    return (bool(one) and size == 1) or sizes.setdefault(name, size) == size


def _broadcast(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...] | None:
    """The broadcast shape of both; None if they do not fit."""
    if not left or left == right:
        return right
    width = max(len(left), len(right))
    pairs = list(
        zip((1,) * (width - len(left)) + left, (1,) * (width - len(right)) + right, strict=True)
    )
    return (
        tuple(b if a == 1 else a for a, b in pairs)
        if all(a == b or 1 in (a, b) for a, b in pairs)
        else None
    )


def _is_invalid(value: Any, finite: bool) -> bool:
    """Whether a number is NaN, or a forbidden infinity; False on a device, where reading it would
    synchronise.
    """
    if isinstance(value, Real):
        return math.isnan(value) or (finite and math.isinf(value))
    if not isinstance(value, Tensor) or value.device.type != "cpu":
        return False
    try:
        return not bool(value.isfinite().all()) if finite else bool(value.isnan().any())
    except RuntimeError:  # inside a transform that hides numbers
        return False
