"""The sets that agents keep their models in: one for each agent, over all parameters or some of
them.

Letters: N agents in all, C of them in a stack, n the numbers of the parameters that a set speaks
of, end to end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

import torch
from torch import Tensor
from typing_extensions import override

from fedkg.errors import JobError, SetError
from fedkg.models.model_protocols import Params
from fedkg.pack import Pack
from fedkg.pack.feasible_sets import KeptSet
from fedkg.projection import (
    Box,
    Intersection,
    L1Ball,
    L2Ball,
    LInfBall,
    ProjectionSet,
    feasible_set,
)
from fedkg.projection.pack_sets import JobNumbers

Chosen = Callable[[tuple[int, ...]], ProjectionSet]
"""From positions of C agents to one set for points [C, n], theirs in this order."""

KNOWN_STACKS = 256
"""Number of stacks with cached sets: every local step uses the same stacks."""


@dataclass(frozen=True, slots=True, eq=False)
class SetPart:
    """The sets of all agents over some parameters.

    Args:
        chosen: returns the sets of given agents.
        names: the parameters that the sets restrict, concatenated in this order; empty for all
            parameters of the model.
    """

    chosen: Chosen
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "chosen", lru_cache(maxsize=KNOWN_STACKS)(self.chosen))

    @override
    def __reduce__(self) -> tuple[object, ...]:
        """In another process stacks are made anew."""
        return SetPart, (getattr(self.chosen, "__wrapped__", self.chosen), self.names)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgentSets:
    """The feasible set X_i of each agent: a product over disjoint parts of the model; unrestricted
    without parts.

    Raises:
        JobError: two parts restrict the same parameter.
    """

    parts: tuple[SetPart, ...] = field(default=())

    def __post_init__(self) -> None:
        named = [name for part in self.parts for name in part.names]
        if len(self.parts) > 1 and (
            len(set(named)) < len(named) or not all(part.names for part in self.parts)
        ):
            raise JobError(
                "two sets constrain the same parameters",
                received=f"sets for {', '.join(named)}"
                + ("" if all(part.names for part in self.parts) else " and for all parameters"),
                help="in rules, name the same parameters in all sets, or none in any; in Python, "
                "join the sets into one `Intersection`",
            )

    def projected(self, params: Params, agents: Tensor) -> Params:
        """The nearest parameters inside the agents' sets, each [C, ...]; those that no set speaks
        of stay as they are.
        """
        return params | {
            name: params[name] - value for name, value in self.residual(params, agents).items()
        }

    def residual(self, params: Params, agents: Tensor) -> Params:
        """``x_i - P_i(x_i)``, the gradient of half the squared distance, each [C, ...]; no
        entry for a parameter without a set.

        Args:
            params: each [C, ...].
            agents: int64 [C], positions of the agents.
        """
        found: Params = {}
        places = tuple(agents.tolist())
        for part in self.parts:
            names = _names(part, params)
            point = _flat(params, names)
            away = point - part.chosen(places).project(point)
            found |= _shaped(away, params, names)
        return found

    def distance2(self, params: Mapping[str, Tensor], agents: Tensor) -> Tensor:
        """``dist^2(x_i, X_i)``, [C]: twice `ProjectionSet.distance2`.

        Differentiable; its gradient is twice the residual.
        """
        places = tuple(agents.tolist())
        total = next(iter(params.values())).new_zeros(len(places))
        for part in self.parts:
            total = total + 2 * part.chosen(places).distance2(_flat(params, _names(part, params)))
        return total


def sets_of(
    each: Sequence[ProjectionSet] | Mapping[int, ProjectionSet], names: tuple[str, ...] = ()
) -> AgentSets:
    """Sets for all agents: one set for each agent, in their order, over the parameters with these
    names (without names: over all parameters). A site needs its own set only, by its position.

    Examples:
        >>> ball = sets_of([L1Ball(1.0), L1Ball(2.0)])
        >>> ball.distance2({"w": torch.tensor([[3.0], [3.0]])}, torch.tensor([0, 1])).tolist()
        [4.0, 1.0]
    """
    known = dict(each) if isinstance(each, Mapping) else dict(enumerate(each))
    return AgentSets(parts=(SetPart(partial(_of_these, known), names),))


def kept_sets(
    pack: Pack, agents: Sequence[str], given: JobNumbers | None = None
) -> AgentSets | None:
    """The parameter sets of a pack (``set ... keep parameters in ...``) for these agents; None if
    it has none.

    Args:
        agents: names or nodes, in their order.
        given: values of the numbers that the rules leave open.

    Raises:
        SetError: a set has no numbers for an agent, an open number has no value, or `given` has a
            value for a number that no set leaves open.
        JobError: if one set restricts a parameter and another one restricts all parameters.
    """
    together: dict[str, list[Chosen]] = {}
    ours = [kept for kept in pack.manifest.sets if kept.on == "parameters"]
    asked = sorted(
        {
            name
            for kept in ours
            for one in kept.clients
            for name, number in zip(kept.arguments, one.numbers, strict=True)
            if number is None
        }
    )
    unasked = next((name for name in given or () if name not in asked), None)
    if unasked is not None:
        raise SetError(
            f"`given` has a value for `{unasked}`, but no parameter set leaves `{unasked}` open",
            expected=f"values for {', '.join(asked)}" if asked else "no values",
            help=f"remove it from `given`, or write `{unasked} = job` in a set of the rules",
        )
    for kept in ours:
        feasible_set(kept, agents, given)  # raises an error for a missing value
        together.setdefault(kept.target, []).append(partial(_kept_by, kept, tuple(agents), given))
    if not together:
        return None
    return AgentSets(
        parts=tuple(
            SetPart(_all_of(several), (target,) if target else ())
            for target, several in together.items()
        )
    )


def _all_of(several: Sequence[Chosen]) -> Chosen:
    if len(several) == 1:
        return several[0]
    return partial(_in_all, tuple(several))


def _of_these(sets: Mapping[int, ProjectionSet], places: tuple[int, ...]) -> ProjectionSet:
    unknown = next((place for place in places if place not in sets), None)
    if unknown is not None:
        raise JobError(
            f"there is no parameter set for agent {unknown} (agents count from 0)",
            help="give one set for each agent, in their order",
        )
    return _stacked([sets[place] for place in places])


def _in_all(several: tuple[Chosen, ...], places: tuple[int, ...]) -> ProjectionSet:
    return Intersection([one(places) for one in several])


def _kept_by(
    kept: KeptSet, agents: tuple[str, ...], given: JobNumbers | None, places: tuple[int, ...]
) -> ProjectionSet:
    return feasible_set(kept, [agents[place] for place in places], given, dtype=torch.float64)


@dataclass(frozen=True, slots=True, eq=False)
class _Each(ProjectionSet):
    """The first point lies in the first set, the second in the second, and so on: points [C, n]."""

    sets: tuple[ProjectionSet, ...]

    @override
    def project(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.project`."""
        return torch.stack([one.project(row) for one, row in zip(self.sets, point, strict=True)])

    @override
    def excess(self, point: Tensor) -> Tensor:
        """See `ProjectionSet.excess`."""
        return torch.stack([one.excess(row) for one, row in zip(self.sets, point, strict=True)])


def _stacked(sets: Sequence[ProjectionSet]) -> ProjectionSet:
    """One set for points [C, n]: in one step where all are boxes, or balls of one norm."""
    if all(isinstance(one, Box) for one in sets):
        boxes = [one for one in sets if isinstance(one, Box)]
        return Box(_column([box.low for box in boxes]), _column([box.high for box in boxes]))
    for kind in (L1Ball, L2Ball, LInfBall):
        if all(isinstance(one, kind) for one in sets):
            balls = [one for one in sets if isinstance(one, kind)]
            radius = torch.stack(
                [torch.as_tensor(ball.radius, dtype=torch.float64).reshape(()) for ball in balls]
            )
            return kind(radius, _column([ball.center for ball in balls]))
    return _Each(tuple(sets))


def _column(numbers: Sequence[Tensor | float]) -> Tensor:
    """Numbers or vectors [n] of the agents, one below the other: [C, 1] or [C, n]."""
    rows = [torch.as_tensor(number, dtype=torch.float64).reshape(-1) for number in numbers]
    width = max(row.shape[0] for row in rows)
    return torch.stack([row.expand(width) for row in rows])


def _names(part: SetPart, params: Mapping[str, Tensor]) -> tuple[str, ...]:
    missing = next((name for name in part.names if name not in params), None)
    if missing is not None:
        raise JobError(
            f"a set constrains the parameter `{missing}`, but the model has no such parameter",
            expected=f"one of {', '.join(params)}",
            help="correct the name in the set",
        )
    return part.names or tuple(params)


def _flat(params: Mapping[str, Tensor], names: Sequence[str]) -> Tensor:
    """[C, n], the parameters end to end."""
    return torch.cat([params[name].flatten(1) for name in names], 1)


def _shaped(flat: Tensor, like: Params, names: Sequence[str]) -> Params:
    pieces = torch.split(flat, [like[name][0].numel() for name in names], 1)
    return {
        name: piece.reshape(like[name].shape) for name, piece in zip(names, pieces, strict=True)
    }
