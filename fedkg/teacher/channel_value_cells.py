"""Cells of a channel group at one step: bounds of its value, and the literals that are true between
them.

Letters: C clients, B traces, V channels, K cells of a group.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.teacher.literals import Form, Literal
from fedkg.teacher.trace_decision_diagram import BeyondDiagram


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChannelGroup:
    """Channels that occur in literals together: one, or several in one linear combination.

    Attributes:
        form: the combination.
        literals: the literals about the combination, by number.
        clients: positions of the C clients among all clients, int64 [C].
        low: lower ends of the cells for each client, float64 [C, K].
        high: upper ends of the cells for each client, float64 [C, K].
        true: numbers of the literals that are true in each cell.
        size: magnitude of the numbers in its comparisons, [C]; None if they are computed without
            rounding.
    """

    form: Form
    literals: dict[int, Literal]
    clients: Tensor
    low: Tensor
    high: Tensor
    true: tuple[frozenset[int], ...]
    size: Tensor | None

    def cost(self, values: Tensor, client: Tensor) -> Tensor:
        """The L1 distance of traces' values [B, V] at one step to each cell, [B, K]: the channel
        with the largest coefficient moves.
        """
        here = self.value(values).unsqueeze(-1)
        return (
            torch.relu(torch.maximum(self.low[client] - here, here - self.high[client])) / self.unit
        )

    @property
    def unit(self) -> float:
        """The change of the value per unit of change in the moving channels: the largest
        coefficient.
        """
        return max(abs(weight) for _, weight in self.form)

    def rounding(self, values: Tensor, client: Tensor, step: Tensor, eps: float) -> Tensor:
        """Bound on the rounding error, [B], of comparisons of values [B, V] that move by a step
        [B]: a share of all summands.
        """
        assert self.size is not None
        added = self.size[client] + torch.relu(step)
        for channel, weight in self.form:
            added = added + values[:, channel].abs() * abs(weight)
        return (8 + len(self.form)) * eps * added

    def satisfied(self, values: Tensor, client: Tensor, cell: Tensor, dtype: torch.dtype) -> Tensor:
        """Whether values [B, V], compared in a dtype, satisfy all literals that are true in a cell
        each, bool [B].
        """
        result = torch.ones_like(cell, dtype=torch.bool)
        for number, literal in self.literals.items():
            asked = torch.tensor([number in true for true in self.true], device=cell.device)[cell]
            result &= ~asked | literal.holds(values, self.clients[client], dtype)
        return result

    def value(self, values: Tensor) -> Tensor:
        """The combination of values [..., V]: [...]."""
        found = values[..., self.form[0][0]] * self.form[0][1]
        for channel, weight in self.form[1:]:
            found = found + values[..., channel] * weight
        return found


def distinct_forms(
    literals: Sequence[Literal], used: Collection[int]
) -> list[tuple[Form, frozenset[int]]]:
    """The distinct linear combinations among some literals, with the literals on each.

    Raises:
        BeyondDiagram: a channel occurs in two different combinations.
    """
    by_form: dict[Form, set[int]] = {}
    for number in used:
        by_form.setdefault(literals[number].form, set()).add(number)
    owner: dict[int, Form] = {}
    for form in by_form:
        for channel, _ in form:
            if owner.setdefault(channel, form) != form:
                raise BeyondDiagram
    return [(form, frozenset(numbers)) for form, numbers in sorted(by_form.items())]


def bound_order(
    literals: Sequence[Literal], numbers: Collection[int], client: int
) -> tuple[tuple[int, ...], ...]:
    """The order of the literals' bounds for a client, from the lowest; equal bounds are
    together."""
    bounds: dict[float, list[int]] = {}
    for number in sorted(numbers):
        bound = literals[number].bound
        bounds.setdefault(float(bound[min(client, len(bound) - 1)]), []).append(number)
    return tuple(tuple(bounds[value]) for value in sorted(bounds))


def build_group(
    literals: Sequence[Literal], form: Form, numbers: frozenset[int], clients: Sequence[int]
) -> ChannelGroup:
    """The cells of a combination, for clients with the same order of bounds.

    Between two consecutive bounds the same literals are true. If a lower bound equals an upper one,
    both are true at that value only. Neighbours with the same true literals are one cell.
    """
    order = bound_order(literals, numbers, clients[0])
    values = [
        torch.stack(
            [literals[same[0]].bound[min(c, len(literals[same[0]].bound) - 1)] for c in clients]
        )
        for same in order
    ]
    infinite = torch.full_like(values[0], torch.inf)
    ends: list[tuple[Tensor, Tensor, frozenset[int]]] = []
    lower = {number for number in numbers if literals[number].lower}
    place = {number: i for i, same in enumerate(order) for number in same}
    for i in range(len(order) + 1):
        true = frozenset(n for n in numbers if (place[n] < i if n in lower else place[n] >= i))
        ends.append(
            (values[i - 1] if i else -infinite, values[i] if i < len(order) else infinite, true)
        )
        if i < len(order) and set(order[i]) & lower and set(order[i]) - lower:
            both = frozenset(n for n in numbers if (place[n] <= i if n in lower else place[n] >= i))
            ends.append((values[i], values[i], both))
    cells: list[tuple[Tensor, Tensor, frozenset[int]]] = []
    for low, high, true in ends:
        if cells and cells[-1][2] == true:
            cells[-1] = (cells[-1][0], high, true)
        else:
            cells.append((low, high, true))
    sizes = [
        torch.stack([size[min(c, len(size) - 1)] for c in clients])
        for n in sorted(numbers)
        if (size := literals[n].size) is not None
    ]
    return ChannelGroup(
        form=form,
        literals={number: literals[number] for number in sorted(numbers)},
        clients=torch.tensor(clients),
        low=torch.stack([cell[0] for cell in cells], -1),
        high=torch.stack([cell[1] for cell in cells], -1),
        true=tuple(cell[2] for cell in cells),
        size=torch.stack(sizes).amax(0) if sizes else None,
    )
