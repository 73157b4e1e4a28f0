"""Channels of traces that a formula reads, of every client, side by side.

A number over time (``mean of x over last 1 h``) is one number at each step, so it becomes a channel
like a signal, and mining never looks into it.

Letters: C clients, S traces of each, T steps, F features, B = C * S * T positions, p parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fedkg.constraints.binding.layout import InputLayout
from fedkg.constraints.engine.evaluation import evaluate_term
from fedkg.constraints.engine.evaluation_inputs import Reading
from fedkg.constraints.engine.evaluation_inputs import Steps as PlacedSteps
from fedkg.constraints.meaning.trace_robustness import Reach
from fedkg.errors import HorizonError, KnowledgeError, LayoutError
from fedkg.mining.first_step_robustness import Atom, Steps, evaluate_first_step
from fedkg.pack import Bank, Pack
from fedkg.pack.formulas import (
    Formula,
    Lag,
    Slot,
    Term,
    WindowReduce,
    everywhere,
    member_table,
    used_slots,
    with_parts,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Channels:
    """The input of a formula with one row.

    Attributes:
        formula: the condition with a slot in place of each earlier value and number over time.
        slots: float64 [1, B] for each slot, in source units; 0 where unknown.
        known: bool [C, S, T] for each slot: where it has a value.
        numbers: the slots that replace an earlier value or a number over time.
        shape: C, S, T.
        usable: bool [C, S], the existing traces. Those with an unknown value among them cannot be
            judged if `formula` reads it, see `known_traces`.
    """

    formula: Formula
    slots: dict[int, Tensor]
    known: Mapping[int, Tensor]
    numbers: frozenset[int]
    shape: tuple[int, int, int]
    usable: Tensor


def read_channels(
    pack: Pack, bank: Bank, x: Tensor, layout: InputLayout, inside: Tensor | None
) -> Channels:
    """Read the channels of a condition's one row.

    Args:
        x: [C, S, T, F] or, for one client, [S, T, F].
        layout: names of the features (signals, outputs, or headers) and their scaling.
        inside: bool [C, S], the existing traces if clients have different numbers of them; None:
            all.

    Raises:
        LayoutError: a column that the formula reads is not in the layout, a view other than the
            plain one, shapes that do not fit, or no traces.
        KnowledgeError: the condition reads members.
    """
    if bank.members:
        raise KnowledgeError(
            "mining supports comparisons of signals, and this condition ranges "
            "over members (a sum or count)",
            help="add a column with the sum or count to the table",
        )
    values = x.unsqueeze(0) if x.ndim == 3 else x
    if values.ndim != 4 or values.shape[-1] != len(layout.names):
        raise LayoutError(
            "the traces do not fit their layout",
            expected=f"[C, S, T, {len(layout.names)}]",
            received=str(list(x.shape)),
        )
    shape = (int(values.shape[0]), int(values.shape[1]), int(values.shape[2]))
    if not all(shape):
        raise LayoutError(
            "`x` has no traces",
            expected="at least one client, one trace and one step",
            received=str(list(x.shape)),
        )
    slots: dict[int, Tensor] = {}
    for slot, place in enumerate(layout_positions(pack, bank, layout)):
        channel = values[..., place].double()
        if layout.mean is not None and layout.std is not None:
            channel = channel * layout.std[place] + layout.mean[place]
        slots[slot] = torch.where(channel.isfinite(), channel, torch.nan).reshape(1, -1)
    if inside is not None and inside.numel() != shape[0] * shape[1]:
        raise LayoutError(
            "`inside` does not fit the traces",
            expected=f"a bool tensor of shape {list(shape[:2])}",
            received=str(list(inside.shape)),
        )
    usable = (
        torch.ones(shape[:2], dtype=torch.bool, device=values.device)
        if inside is None
        else inside.reshape(shape[:2])
    )
    formula, terms = separate_numbers(bank.skeleton, len(slots))
    clip = pack.manifest.contract.end == "clip"
    numbers = {slot: _number(term, bank, slots, shape, clip=clip) for slot, term in terms.items()}
    read = {slot: values for slot, values in slots.items() if slot in used_slots(formula)} | numbers
    return Channels(
        formula=formula,
        slots={slot: channel.nan_to_num() for slot, channel in (slots | numbers).items()},
        known={slot: ~channel.isnan().reshape(shape) for slot, channel in read.items()},
        numbers=frozenset(numbers),
        shape=shape,
        usable=usable,
    )


def reads_other_steps(formula: Formula) -> bool:
    """Whether a formula has an earlier value or a number over time."""
    return any(isinstance(part, Lag | WindowReduce) for _, part in everywhere(formula))


def separate_numbers(formula: Formula, first: int) -> tuple[Formula, dict[int, Term]]:
    """Replace the earlier values and numbers over time of a formula by slots.

    Args:
        first: the index of the first new slot.

    Returns:
        The formula, and the term behind each new slot.
    """
    if not reads_other_steps(formula):
        return formula, {}
    slot_of: dict[Term, int] = {}

    def separated(part: Any) -> Any:  # a node of the same kind, or a slot for a term
        if isinstance(part, Lag | WindowReduce):
            return Slot(index=slot_of.setdefault(part, first + len(slot_of)))
        return part if member_table(part) is not None else with_parts(part, separated)

    new: Formula = separated(formula)
    return new, {slot: term for term, slot in slot_of.items()}


def _number(
    term: Term, bank: Bank, slots: Mapping[int, Tensor], shape: tuple[int, int, int], *, clip: bool
) -> Tensor:
    """The value of a term at every step of every trace, [1, B]; NaN where unknown."""
    clients, samples, steps = shape
    places = clients * samples * steps
    device = next(iter(slots.values())).device
    reading = Reading(
        slots=slots,
        params=torch.tensor(bank.params[:1].T, dtype=torch.float64, device=device).unsqueeze(-1),
        numbers=bank.params[:1].T,
        steps=PlacedSteps(places=places, count=steps, length=None, clip=clip),
    )
    return evaluate_term(term, reading).expand(1, places)


def known_traces(given: Channels, windows: Steps) -> tuple[Tensor, Tensor]:
    """Which traces have a value at each step at which the formula reads it, with these windows:
    bool [C, S], of the signals, and of the earlier values and numbers over time.
    """
    signals, numbers = torch.ones_like(given.usable), torch.ones_like(given.usable)

    def leaf(atom: Atom, positive: bool, first: int, last: int) -> Tensor:
        for slot in used_slots(atom):
            found = numbers if slot in given.numbers else signals
            found.logical_and_(given.known[slot][..., first : last + 1].all(-1))
        return torch.zeros((1, last - first + 1), dtype=torch.float64, device=given.usable.device)

    evaluate_first_step(given.formula, leaf, windows)
    return signals, numbers


def layout_positions(pack: Pack, bank: Bank, layout: InputLayout) -> list[int]:
    """Position in the layout of each slot of a condition's one row.

    Raises:
        LayoutError: a column that the formula reads is not in the layout, or is read in another
            view than the plain one.
    """
    found = []
    for column, view in zip(bank.slots[0].tolist(), bank.views[0].tolist(), strict=True):
        known = pack.manifest.contract.columns[column]
        place = next(
            (i for i, name in enumerate(layout.names) if name in (known.name, known.source)), None
        )
        if place is None:
            raise LayoutError(
                f"mining reads `{known.name}`, which is not in the layout",
                received=f"a layout of {', '.join(layout.names) or 'no names'}",
                help=f"add `{known.name}` to the traces and to layout=fedkg.columns([...])",
            )
        if view != 0:
            raise LayoutError(
                f"the formula reads `{known.name}` at another step or with a changed "
                "value, and mining supports only the values of the step itself",
                help="add a column with this value to the table",
            )
        found.append(place)
    return found


def check_horizon(reach: Reach, steps: int, name: str) -> None:
    """Raise HorizonError if a formula evaluated at the first step looks beyond the traces."""
    if reach.back > 0 or reach.ahead >= steps:
        raise HorizonError(
            (
                f"`{name}` looks {reach.back:g} steps back and {reach.ahead:g} ahead, beyond the "
                "traces"
            ),
            expected=f"traces of at least {reach.ahead + 1:g} steps"
            if not reach.back
            else "windows that lie ahead",
            received=f"{steps} steps",
            help="mine in longer traces, or write `timeline ... ends clip`",
        )


def check_known(usable: Tensor, known: Tensor, name: str) -> None:
    """Raise HorizonError if no usable trace has the numbers over time that a formula reads."""
    if bool(usable.any()) and not bool((usable & known).any()):
        raise HorizonError(
            f"`{name}` reads an earlier value or a number over time where every trace leaves it"
            " unknown",
            expected="windows at steps with a known value: the mean over the last 6 steps is "
            "unknown at the first 5 steps of a trace",
            help="let the window begin later, `always [5, end] mean of x over last 6 <= ?high`;"
            " `ends clip` does not change this",
        )
