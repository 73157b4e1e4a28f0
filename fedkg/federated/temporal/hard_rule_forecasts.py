"""Models with forecasts that satisfy every hard rule, in training and in use, under any algorithm.

Letters: C clients of a stack, B batch, T steps of a forecast, V channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.constraints.binding.layout import InputLayout
from fedkg.errors import JobError, SetError
from fedkg.federated.temporal.expert_rules import (
    ExpertRule,
    expert_rules,
    in_model_units,
    teacher_of,
)
from fedkg.federated.temporal.properties import as_traces
from fedkg.mining.trace_channels import layout_positions
from fedkg.models.model_protocols import Model, ModelWrapper
from fedkg.models.random_streams import Noise
from fedkg.pack import Pack
from fedkg.teacher import Teacher


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForecastTeacher:
    """Moves forecasts to the nearest trace that satisfies some rules, in L1 and in the model's
    units.

    Args:
        teacher: the teacher of the rules, over traces in the model's units.
        channels: the position among the V channels of each channel of the teacher.
        count: V.
        names: the names of the rules.
    """

    teacher: Teacher
    channels: tuple[int, ...]
    count: int
    names: tuple[str, ...]

    def nearest(self, traces: Tensor) -> Tensor:
        """The nearest traces to [B, T, V], without gradient; a trace with a number that is not
        finite stays as it is.
        """
        held = traces.detach()
        known = held.isfinite().flatten(1).all(1)[:, None, None]
        before = held.nan_to_num(0.0, 0.0, 0.0)
        if self.channels == tuple(range(self.count)):
            after = self.teacher.nearest(before)
        else:
            place = torch.tensor(self.channels, device=held.device)
            near = self.teacher.nearest(before.index_select(2, place))
            after = before.index_copy(2, place, near)
        return torch.where(known, after, held)


def forecast_teacher(
    pack: Pack, layout: InputLayout, steps: int, rules: Sequence[ExpertRule]
) -> ForecastTeacher:
    """The teacher of some rules together.

    Args:
        pack: the pack of the rules.
        layout: the layout of the V channels of a forecast.
        steps: T.
        rules: at least one of the rules that `expert_rules` finds.

    Raises:
        SetError: no forecast satisfies all of them.
    """
    mean = layout.mean or (0.0,) * len(layout.names)
    std = layout.std or (1.0,) * len(layout.names)
    banks = [
        in_model_units(
            one.bank,
            [mean[place] for place in one.channels],
            [std[place] for place in one.channels],
        )
        for one in rules
    ]
    teacher, bank = teacher_of(pack, banks, steps)
    return ForecastTeacher(
        teacher=teacher,
        channels=tuple(layout_positions(pack, bank, layout)),
        count=len(layout.names),
        names=tuple(dict.fromkeys(one.name for one in rules)),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HardForecasts(ModelWrapper):
    """A model that moves its forecasts to the nearest trace that satisfies all hard rules.

    The move is part of the model, so losses, rules and teachers read its result. A number that it
    moves has no gradient.

    Args:
        model: the model, with outputs [C, B, T * V].
        rules: the teacher of the hard rules.
    """

    rules: ForecastTeacher

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """See `Model.apply`."""
        output = self.model.apply(params, x, noise)
        traces = as_traces(output, self.rules.teacher.steps, self.rules.count)
        after = self.rules.nearest(traces)
        moved = traces.detach().isfinite() & (after != traces.detach())
        return torch.where(moved, after, traces).reshape(output.shape)


def with_hard_rules(model: Model, pack: Pack, layout: InputLayout, steps: int) -> Model:
    """The model with the pack's hard rules built into its forecasts; the model itself if the pack
    has none.

    Args:
        model: the model, with outputs [C, B, T * V].
        pack: the pack of the rules.
        layout: the layout of the V channels of a forecast.
        steps: T.

    Raises:
        JobError: naming a hard rule that no forecast can be moved onto, or hard rules that
            contradict each other.
    """
    readable, others = expert_rules(pack, layout, steps)
    for one in others:
        if one.hard:
            raise JobError(
                f"rule `{one.name}` is hard, but fedkg cannot make forecasts satisfy it:"
                f" {one.reason}",
                expected="linear comparisons of forecast channels, at one step or over time",
                help="remove `hard` (the rule then only adds a penalty and counts violations), "
                "or limit the forecast values themselves, step by step",
            )
    hard = [one for one in readable if one.hard]
    if not hard:
        return model
    names = ", ".join(dict.fromkeys(one.name for one in hard))
    try:
        rules = forecast_teacher(pack, layout, steps, hard)
    except SetError as error:
        raise JobError(
            "no forecast satisfies all hard rules together",
            received=names,
            help="`fedkg check` finds rules that contradict each other; remove `hard` from one",
        ) from error
    if rules.teacher.by_program:
        raise JobError(
            "the hard rules together are too complex to be built into forecasts: one channel is "
            "part of several sums, or their time windows are too long",
            received=names,
            help="remove `hard` from one of them (it then only adds a penalty and counts "
            "violations)",
        )
    return HardForecasts(model=model, rules=rules)
