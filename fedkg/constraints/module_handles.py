"""Modules by number: operators of torch take numbers and tensors alone."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from fedkg.constraints.module import ConstraintModule

_NUMBERS = count()
_MODULES: WeakValueDictionary[int, ConstraintModule] = WeakValueDictionary()


def number_of(module: ConstraintModule) -> int:
    """A number for a module, by which it is found as long as it lives."""
    number = next(_NUMBERS)
    _MODULES[number] = module
    return number


def registered_module(number: int) -> ConstraintModule:
    """The module of a number."""
    return _MODULES[number]
