"""The expert's rules about forecasts as formulas over traces, which a teacher moves forecasts onto.

Letters: B traces, T steps, V channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedkg.constraints.binding.layout import InputLayout
from fedkg.constraints.engine.skeleton_properties import reads_output
from fedkg.errors import HorizonError, LayoutError, SetError
from fedkg.federated.temporal.conjunction import conjunction
from fedkg.mining.trace_channels import layout_positions
from fedkg.pack import Bank, Pack
from fedkg.pack.bank import FORMULA
from fedkg.pack.formulas import Initially, Temporal
from fedkg.teacher import Teacher

ROUNDING = 8 * torch.finfo(torch.float32).eps
"""Share of its size by which a number misses itself after it was scaled in float32 and scaled back.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpertRule:
    """One bound rule about the channels of a forecast.

    Attributes:
        name: the name of the rule.
        hard: whether every forecast has to satisfy it.
        bank: a bank of one row, which demands at the first step that the rule holds at every step
            of the trace.
        channels: the position among the V channels of each slot of the bank.
        teacher: moves traces [B, T, slots], in the units of the rules, to the nearest ones that
            satisfy the rule.
    """

    name: str
    hard: bool
    bank: Bank
    channels: tuple[int, ...]
    teacher: Teacher

    def satisfied(self, traces: Tensor, layout: InputLayout) -> Tensor:
        """Which traces [B, T, V], finite and in the units of the rules, satisfy the rule up to the
        rounding of the scaling: bool [B].
        """
        held = traces[..., list(self.channels)]
        size = held.abs()
        if layout.mean is not None:
            size = size + held.new_tensor([layout.mean[place] for place in self.channels]).abs()
        moved = (self.teacher.nearest(held) - held).abs()
        return (moved <= ROUNDING * size).flatten(1).all(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A rule about forecasts that no teacher can keep: its name, whether it is hard, and why."""

    name: str
    hard: bool
    reason: str


@lru_cache(maxsize=16)
def expert_rules(
    pack: Pack, layout: InputLayout, steps: int
) -> tuple[tuple[ExpertRule, ...], tuple[Unreadable, ...]]:
    """The rules of a pack that touch an output, as formulas over forecasts of T steps and the
    channels of a layout.
    """
    found: list[ExpertRule] = []
    left: dict[str, Unreadable] = {}
    for bank in pack.banks:
        if not reads_output(bank.skeleton):
            continue
        for row in range(bank.rows):
            record = pack.manifest.rules[int(bank.rule[row])]
            try:
                found.append(_rule(pack, bank.take(np.array([row])), layout, steps))
            except (SetError, HorizonError, LayoutError) as error:
                reason = error.message.rstrip(".") + (
                    f" ({error.received})" if error.received else ""
                )
                left[record.name] = Unreadable(name=record.name, hard=record.hard, reason=reason)
    return tuple(found), tuple(left.values())


def teacher_of(
    pack: Pack, banks: Sequence[Bank], steps: int, params: Tensor | None = None
) -> tuple[Teacher, Bank]:
    """The teacher of several formulas together, judged at the first step, and the bank that joins
    them.

    Args:
        params: of the joined bank for each client, float64 [C, P]; None: the bank's own.

    Raises:
        SetError: no trace satisfies all of them; see `Teacher`.
    """
    bank = conjunction(banks)
    clip = pack.manifest.contract.end == "clip"
    teacher = Teacher(bank, steps, params=params, clip=clip, everywhere=False, open_end=not clip)
    return teacher, bank


def in_model_units(bank: Bank, mean: Sequence[float], std: Sequence[float]) -> Bank:
    """Convert a bank of one row from the units of the rules to channels in a model's scaling: each
    slot becomes ``slot * std + mean``.

    Args:
        bank: the bank.
        mean: the mean of each slot's channel.
        std: the standard deviation of each slot's channel.
    """
    before = bank.params.shape[1]
    skeleton = FORMULA.validate_python(
        _unscaled(FORMULA.dump_python(bank.skeleton), before, len(mean))
    )
    numbers = np.array([[*std, *mean]], dtype=np.float64)
    return replace(bank, skeleton=skeleton, params=np.concatenate([bank.params, numbers], 1))


def _rule(pack: Pack, bank: Bank, layout: InputLayout, steps: int) -> ExpertRule:
    """Raises SetError, HorizonError, LayoutError: if the teacher cannot enforce the rule."""
    contract = pack.manifest.contract
    columns, views = contract.columns, contract.views
    if bank.members:
        raise SetError("it aggregates over members of a class, and a forecast has no such members")
    keys = [columns[place].name for place in bank.keys[0].tolist() if place >= 0]
    if keys:
        raise SetError(
            f"it is about table rows that the column {keys[0]} selects, and a forecast has no such "
            "column"
        )
    for column, view in zip(bank.slots[0].tolist(), bank.views[0].tolist(), strict=True):
        if views[view].kind == "previous":
            raise SetError(
                "it reads the time before the forecast, "
                f"`past {columns[column].name.removesuffix(' (history)')}`"
            )
    channels = tuple(layout_positions(pack, bank, layout))
    record = pack.manifest.rules[int(bank.rule[0])]
    every = _throughout(bank)
    teacher, _ = teacher_of(pack, [every], steps)
    if teacher.by_program:
        raise SetError("it needs integer programming for each forecast, which takes too long")
    return ExpertRule(
        name=record.name, hard=record.hard, bank=every, channels=channels, teacher=teacher
    )


def _throughout(bank: Bank) -> Bank:
    """Return a one-row bank with the formula `always` of another one-row bank at the first step."""
    if isinstance(bank.skeleton, Initially):
        return bank
    place = bank.params.shape[1]
    window = np.array([[0.0, -1.0]])
    return replace(
        bank,
        skeleton=Temporal(op="always", low=place, high=place + 1, arg=bank.skeleton),
        params=np.concatenate([bank.params, window], 1),
    )


def _unscaled(node: Any, before: int, slots: int) -> Any:
    """A dumped formula with each slot unscaled by the parameters after the first `before`.

    `Any`: what a formula is dumped as.
    """
    if isinstance(node, dict):
        if node.get("kind") == "slot":
            gain = {"kind": "param", "index": before + node["index"]}
            offset = {"kind": "param", "index": before + slots + node["index"]}
            return {"kind": "sum", "args": [{"kind": "product", "args": [node, gain]}, offset]}
        return {name: _unscaled(part, before, slots) for name, part in node.items()}
    if isinstance(node, list | tuple):
        return [_unscaled(part, before, slots) for part in node]
    return node
