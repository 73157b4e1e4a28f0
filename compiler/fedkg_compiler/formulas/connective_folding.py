"""Conjunctions and disjunctions with constant parts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, TypeVar

Part = TypeVar("Part", bound=Hashable)


def joined(parts: Iterable[Part | bool], kind: type[Any], *, neutral: bool) -> Part | bool:
    """The parts put together: nested ones of the same kind laid flat, each said once, in order.

    Args:
        kind: the class of a conjunction or of a disjunction, which is a kind of part itself:
            ``kind(args=...)``, with the parts in `args`.
        neutral: what changes nothing: True in a conjunction, False in a disjunction. The opposite
            decides all.
    """
    kept: dict[Part, None] = {}
    for part in parts:
        if isinstance(part, bool):
            if part is not neutral:
                return part
        else:
            kept.update(dict.fromkeys(part.args if isinstance(part, kind) else (part,)))
    if len(kept) > 1:
        whole: Part = kind(args=tuple(kept))
        return whole
    return next(iter(kept), neutral)
