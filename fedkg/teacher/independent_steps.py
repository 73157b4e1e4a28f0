"""Formulas that constrain each step independently: conjunctions of comparisons, such as those of
`always`.

Operational ranges and differences are examples. Every step then has one cell for each client, and
the nearest trace is computed for all steps at once, for any number of distinct bounds.

Letters: C clients, T steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedkg.teacher.boolean_expressions import Expressions
from fedkg.teacher.channel_value_cells import ChannelGroup, distinct_forms
from fedkg.teacher.literals import Form, Literal


def stepwise_groups(
    expressions: Expressions, formula: int, literals: Sequence[Literal], steps: int, clients: int
) -> tuple[ChannelGroup, ...] | None:
    """The groups of a stepwise formula, with the steps as cells; None for other formulas, or if
    bounds contradict each other.

    Raises:
        BeyondDiagram: a channel occurs in two different combinations.
    """
    asked: dict[Form, list[set[int]]] = {}
    for part in expressions.parts(formula):
        kind, inner = expressions.node(part)
        if kind != "literal":
            return None
        step, number = inner
        asked.setdefault(literals[number].form, [set() for _ in range(steps)])[step].add(number)
    distinct_forms(
        literals, {number for each in asked.values() for numbers in each for number in numbers}
    )
    groups = [_group(literals, form, each, clients) for form, each in sorted(asked.items())]
    return None if any(bool((one.low > one.high).any()) for one in groups) else tuple(groups)


def _group(
    literals: Sequence[Literal], form: Form, asked: Sequence[set[int]], clients: int
) -> ChannelGroup:
    low = torch.full((clients, len(asked)), -torch.inf, dtype=torch.float64)
    high = -low
    for step, numbers in enumerate(asked):
        for number in numbers:
            bound = literals[number].bound
            if literals[number].lower:
                low[:, step] = torch.maximum(low[:, step], bound)
            else:
                high[:, step] = torch.minimum(high[:, step], bound)
    used = sorted(set().union(*asked))
    sizes: list[Tensor] = [
        size.expand(clients) for number in used if (size := literals[number].size) is not None
    ]
    return ChannelGroup(
        form=form,
        literals={number: literals[number] for number in used},
        clients=torch.arange(clients),
        low=low,
        high=high,
        true=tuple(frozenset(numbers) for numbers in asked),
        size=torch.stack(sizes).amax(0) if sizes else None,
    )
