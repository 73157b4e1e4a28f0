"""What every part of a pack is, and what every formula and term can be asked.

A formula is a tree of nodes. Each kind of node is one class in `terms.py` or `formulas.py`. The
class holds what defines the node: its fields, its text, its meaning in NumPy, its interval, how it
depends on its parts, and how far it looks in time. Tree walkers ask the node instead of listing the
kinds. Only its tensor form is elsewhere, in `fedkg/constraints/engine/evaluation.py`, because a
pack loads without torch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict

from fedkg.pack.numeric.intervals import Interval, Ranges
from fedkg.pack.numeric.scope import Scope
from fedkg.pack.numeric.three_valued_logic import Float, Verdict

if TYPE_CHECKING:
    from fedkg.pack.contract import Column
    from fedkg.pack.formula_writer_protocol import Writer
    from fedkg.pack.terms import Term

Sign = int | None
"""How one thing depends on another: 1 never falls, -1 never rises, 0 does not depend on it, None
unknown."""

MANY = 99
"""The degree of a term that is not known to be a polynomial of a lower degree."""


class FieldRole(Enum):
    """What a field of a node is."""

    PART = "part"
    SLOT = "slot"
    PARAM = "param"
    MEMBERS = "members"


SlotIndex = Annotated[int, FieldRole.SLOT]
ParamIndex = Annotated[int, FieldRole.PARAM]
MembersIndex = Annotated[int, FieldRole.MEMBERS]
"""The position of a member table in `Bank.members`. The parts of a node with such a field read that
table."""


class Node(BaseModel):
    """A frozen pydantic model that rejects unknown fields, and numbers that are NaN or infinite."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How many steps before and after its own a verdict may depend on.

    Infinite where a window without an end holds one that reaches on.
    """

    back: float = 0.0
    ahead: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The requirement on the column in a slot: `fits` decides, messages contain `name`."""

    slot: int
    fits: Callable[[Column], bool]
    name: str


class Part(Node):
    """A node of a formula.

    The type of a field says what the field is. `Term` and `Formula` (also optional, or a tuple of
    them) are parts. `SlotIndex`, `ParamIndex` and `MembersIndex` point into the bank. Anything else
    is a setting. `fedkg.pack.walk` derives every traversal from this, in the order of the fields.
    """

    over_time: ClassVar[bool] = False
    """Whether the node reads other steps than the one at which it is evaluated."""

    def step_params(self) -> tuple[int, ...]:
        """The parameters that count steps: the ends of a window."""
        return ()

    def reach(self, inner: Reach, params: Sequence[float]) -> Reach:
        """How far the node looks in time if its parts look as far as `inner`."""
        return inner

    def wrong_shape(self) -> str:
        """What is wrong with the number of parts or with a setting; "" if nothing is."""
        return ""

    def wrong_numbers(self, params: Float) -> str:
        """What is wrong with the numbers of the bank's rows, float64 [R, p]; "" if nothing is."""
        return ""

    def wanted_columns(self) -> Iterator[Wanted]:
        """What the columns in the node's slots must be."""
        return iter(())


class TermPart(Part):
    """A number at each row or step."""

    @abstractmethod
    def text(self, write: Writer) -> tuple[str, int]:
        """The term on one line, and how tightly its operator binds (`writing.OPEN` ..
        `writing.ATOM`).
        """

    @abstractmethod
    def value(self, scope: Scope) -> Float:
        """The value, float64 [B, M] or broadcast to it.

        NaN where it or any part of it is not a finite number.
        """

    @abstractmethod
    def interval(self, of: Callable[[Term, Ranges], Interval], ranges: Ranges) -> Interval:
        """Between which numbers the value lies, never too narrow.

        `of` gives the interval of a part.
        """

    def slopes(self, sign: Callable[[Term], Sign]) -> tuple[Sign, ...]:
        """How the value depends on each part; `sign` gives the sign that a part always has.

        By default unknown.
        """
        return (None,) * len(parts_of(self))

    def degree(self, degrees: Sequence[int]) -> int:
        """The degree in some variables, given the degrees of the parts.

        `MANY` if it is not a polynomial.
        """
        return MANY if any(degrees) else 0


class FormulaPart(Part):
    """Satisfied, violated or unknown at each row or step."""

    @abstractmethod
    def text(self, write: Writer, *, outer: bool) -> str:
        """The formula on one line; in parentheses if its operator needs them, unless `outer`."""

    @abstractmethod
    def verdict(self, scope: Scope) -> Verdict:
        """The truth value and the robustness, [B, M]."""

    def polarity(self) -> tuple[int, ...]:
        """For each sub-formula 1 if the formula holds more often when that one does, -1 if less
        often.
        """
        return (1,) * sum(isinstance(part, FormulaPart) for part in parts_of(self))

    def param_signs(self) -> dict[int, Sign]:
        """For each parameter that decides satisfaction: 1 if a larger value makes it easier, -1 if
        harder.
        """
        return {}

    def is_strict(self, positive: bool) -> bool:
        """Whether the formula, or (not `positive`) its negation, is an atom that is violated at a
        margin of 0.
        """
        return False


@cache
def layout(kind: type[Part]) -> tuple[tuple[str, FieldRole], ...]:
    """The fields of a kind of node that are parts or indices, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    roles = ((name, _role(hints[name])) for name in kind.model_fields)
    return tuple((name, role) for name, role in roles if role is not None)


def _role(hint: Any) -> FieldRole | None:
    """What a field of this type is; None for a setting."""
    if isinstance(hint, type) and issubclass(hint, Part):
        return FieldRole.PART
    if isinstance(hint, FieldRole):
        return hint
    return next((role for arg in get_args(hint) if (role := _role(arg)) is not None), None)


def parts_of(node: Part) -> tuple[Part, ...]:
    """The direct parts of a node, in the order of its fields."""
    found: list[Part] = []
    for name, role in layout(type(node)):
        if role is FieldRole.PART:
            value = getattr(node, name)
            found += value if isinstance(value, tuple) else () if value is None else (value,)
    return tuple(found)
