"""Channels of traces that a formula reads, of every client, side by side.

Letters: C clients, S traces of each, T steps, F features.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.constraints.binding.layout import InputLayout
from fedkg.constraints.meaning.stl import Reach
from fedkg.errors import HorizonError, LayoutError
from fedkg.pack import Bank, Pack


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Channels:
    """The input of a formula with one row.

    Attributes:
        slots: float64 [1, C * S * T] for each slot, in source units.
        shape: C, S, T.
        usable: bool [C, S], traces without an unknown value in the channels.
    """

    slots: dict[int, Tensor]
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
    """
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
        slots[slot] = channel.reshape(1, -1)
    if inside is not None and inside.numel() != shape[0] * shape[1]:
        raise LayoutError(
            "`inside` does not fit the traces",
            expected=f"bool {list(shape[:2])}",
            received=str(list(inside.shape)),
        )
    usable = (
        torch.ones(shape[:2], dtype=torch.bool, device=values.device)
        if inside is None
        else inside.reshape(shape[:2])
    )
    for channel in slots.values():
        usable = usable & torch.isfinite(channel.reshape(shape)).all(-1)
    return Channels(
        slots={slot: channel.nan_to_num() for slot, channel in slots.items()},
        shape=shape,
        usable=usable,
    )


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
                expected=", ".join(layout.names),
            )
        if view != 0:
            raise LayoutError(
                f"the formula reads `{known.name}` at another step or with a changed value; "
                "mining supports only the values of the step itself"
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
