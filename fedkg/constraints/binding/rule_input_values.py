"""From tensors as people have them to the numbers that rules read: unscaled, gathered per view, NaN
where unknown.

Letters: B batch, F features, Q category columns, P views of kind "previous", V runs of the model, H
outputs, N distinct numbers read per sample, D conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.constraints.binding.model_run_inputs import Before
from fedkg.constraints.binding.plan import ALWAYS, COVERED, STEPS, Condition, InputRead, Plan

NOTHING, ONE, FIRST = 0, 1, 2
"""Rows of the source block: NaN, ones, the first feature. After F features: Q categories, Q and P
flags "at hand", P times F features, and whether traces are at hand."""


@dataclass(frozen=True, slots=True)
class InputNumbers:
    """What rules read of the inputs: numbers [N, B] in source units, and which conditions are met,
    bool [D, B].
    """

    numbers: Tensor
    met: Tensor


def computing_dtype(*tensors: Tensor) -> torch.dtype:
    """float64 when one of them is, else float32: thresholds do not survive in half precision."""
    return (
        torch.float64 if any(tensor.dtype == torch.float64 for tensor in tensors) else torch.float32
    )


def wiring(plan: Plan) -> dict[str, NDArray[np.generic]]:
    """The plan as arrays: which row of the source block each input read and condition takes, which
    output row each output read.
    """
    categories = _categories(plan)
    features = len(plan.x.names)
    flags = FIRST + features + len(categories)
    previous = flags + len(categories) + len(plan.groups)

    def read_row(read: InputRead) -> int:
        if read.verdict >= 0:
            return NOTHING
        feature = plan.features[read.column]
        if read.previous >= 0:
            return (
                NOTHING
                if feature < 0
                else previous + list(plan.groups).index(read.previous) * features + feature
            )
        if read.column in categories:
            return FIRST + features + categories.index(read.column)
        return NOTHING if feature < 0 else FIRST + feature

    def condition_row(condition: Condition) -> int:
        if condition == ALWAYS:
            return ONE
        if condition == COVERED:
            return NOTHING
        if condition.view == STEPS:
            return previous + len(plan.groups) * features
        if condition.view >= 0:
            return flags + len(categories) + list(plan.groups).index(condition.view)
        if condition.code < 0 and condition.column in categories:
            return flags + categories.index(condition.column)
        return read_row(InputRead(condition.column))

    entries, whole = plan.y.entries, whole_features(plan)
    return {
        "read_row": np.array([read_row(read) for read in plan.input_reads], dtype=np.int64),
        "read_delta": np.array([read.delta for read in plan.input_reads], dtype=np.float64)[
            :, None
        ],
        "condition_row": np.array(
            [condition_row(condition) for condition in plan.conditions], dtype=np.int64
        ),
        "condition_code": np.array(
            [max(c.code, 0) if c.code >= 0 else 1 for c in plan.conditions], dtype=np.float64
        )[:, None],
        "output_row": np.array(
            [read.run * len(entries) + read.entry for read in plan.output_reads], dtype=np.int64
        ),
        "mean": np.zeros((0, 1)) if plan.x.mean is None else np.array(plan.x.mean)[:, None],
        "std": np.zeros((0, 1)) if plan.x.std is None else np.array(plan.x.std)[:, None],
        "whole": np.isin(np.arange(features), sorted(whole))[:, None]
        if whole
        else np.zeros((0, 1), dtype=np.bool_),
        "logit": np.array([entry.kind == "logit" for entry in entries], dtype=np.bool_)[:, None],
        "gain": np.array(
            [entry.std * percent(plan, i) for i, entry in enumerate(entries)], dtype=np.float64
        )[:, None],
        "offset": np.array([entry.mean for entry in entries], dtype=np.float64)[:, None],
    }


def input_numbers(
    plan: Plan,
    wires: Mapping[str, Tensor],
    x: Tensor,
    codes: Mapping[int, Tensor],
    before: Mapping[int, Before],
    dtype: torch.dtype,
    *,
    steps: bool = False,
) -> InputNumbers:
    """The numbers and conditions of a batch x [B, F].

    `codes` (by contract column) or features hold categories.

    `steps` says whether the assignment of rows to trace steps is known.
    """
    batch = x.shape[0]
    nothing, one = (
        torch.full((1, batch), torch.nan, dtype=dtype, device=x.device),
        torch.ones((1, batch), dtype=dtype, device=x.device),
    )
    base = _source(wires, x, dtype)
    blocks, flags = [nothing, one, base], []
    for column in _categories(plan):
        feature = plan.features[column]
        given = (
            codes[column].to(dtype)[None]
            if column in codes
            else base[feature : feature + 1]
            if feature >= 0
            else nothing
        )
        blocks.append(given)
        flags.append(nothing if given is nothing else one)
    flags += [one if view in before else nothing for view in plan.groups]
    blocks += flags
    for view in plan.groups:
        if view in before:
            blocks.append(
                torch.where(
                    before[view].known, _source(wires, before[view].features, dtype), torch.nan
                )
            )
        else:
            blocks.append(nothing.expand(base.shape[0], batch))
    block = torch.cat([*blocks, one if steps else nothing])
    numbers = block.index_select(0, wires["read_row"])
    if any(read.delta for read in plan.input_reads):
        numbers = numbers + wires["read_delta"].to(dtype)
    met = block.index_select(0, wires["condition_row"]) == wires["condition_code"].to(dtype)
    return InputNumbers(torch.where(torch.isfinite(numbers), numbers, torch.nan), met)


def answers_known(plan: Plan, x: Tensor, before: Mapping[int, Before]) -> dict[int, Tensor]:
    """For contract views that not every row has, which rows do: bool [B].

    A row has a view "previous" where there is a row before it, and a view "raised" where what is
    raised is known: a model may answer for an x [B, F] that lacks it, but not for more of it.
    """
    raised = zip(plan.runs, plan.raised_features, strict=True)
    return {view: rows.known for view, rows in before.items()} | {
        view: torch.isfinite(x[:, feature]) for view, feature in raised if feature >= 0
    }


def output_numbers(
    plan: Plan,
    wires: Mapping[str, Tensor],
    y: Tensor,
    has: Mapping[int, Tensor],
    dtype: torch.dtype,
) -> Tensor:
    """What rules read of the outputs y [V, B, H], in the rules' units: [N, B], NaN where unknown.

    Differentiable.

    `has` says which rows have a view, as `answers_known` does.
    """
    values = in_units(plan, wires, y, dtype).transpose(1, 2)
    numbers = values.reshape(y.shape[0] * y.shape[2], y.shape[1]).index_select(
        0, wires["output_row"]
    )
    known = torch.isfinite(numbers)
    if has and plan.output_reads:
        everything = torch.ones(y.shape[1], dtype=torch.bool, device=y.device)
        known = known & torch.stack([has.get(view, everything) for view in _views_read(plan)])
    return torch.where(known, numbers, torch.nan)


def in_units(plan: Plan, wires: Mapping[str, Tensor], y: Tensor, dtype: torch.dtype) -> Tensor:
    """The outputs y [..., H] in the rules' units, in a dtype; differentiable."""
    entries, values = plan.y.entries, y.to(dtype)
    if same_units(plan):
        return values
    if all(entry.kind == "logit" for entry in entries):
        values = torch.sigmoid(values)
    elif any(entry.kind == "logit" for entry in entries):
        values = torch.where(wires["logit"][:, 0], torch.sigmoid(values), values)
    if any(
        (entry.std * percent(plan, i), entry.mean) != (1.0, 0.0) for i, entry in enumerate(entries)
    ):
        values = values * wires["gain"][:, 0].to(dtype) + wires["offset"][:, 0].to(dtype)
    return values


def same_units(plan: Plan) -> bool:
    """Whether the model's outputs are in the rules' units as they are."""
    return all(
        entry.kind != "logit" and (entry.std * percent(plan, i), entry.mean) == (1.0, 0.0)
        for i, entry in enumerate(plan.y.entries)
    )


def percent(plan: Plan, entry: int) -> float:
    """100 if the rules state this probability in percent, otherwise 1."""
    layout = plan.y.entries[entry]
    if layout.kind not in ("probability", "logit"):
        return 1.0
    units = {
        c.unit
        for c in plan.pack.manifest.contract.columns
        if c.role == "output" and layout.name in (c.name, c.source)
    }
    return 100.0 if units & {"%", "percent"} else 1.0


def _views_read(plan: Plan) -> list[int]:
    return [plan.runs[read.run] for read in plan.output_reads]


def _categories(plan: Plan) -> list[int]:
    """The category columns that are read or asked for."""
    return [
        column
        for column in sorted(plan.features)
        if plan.pack.manifest.contract.columns[column].type == "category"
    ]


def whole_features(plan: Plan) -> frozenset[int]:
    """The features that hold codes: categories where they were scaled, and truth values, which
    others may have averaged or disturbed.
    """
    columns = plan.pack.manifest.contract.columns
    kinds = {"boolean"} if plan.x.std is None else {"boolean", "category"}
    return frozenset(
        feature
        for column, feature in plan.features.items()
        if feature >= 0 and columns[column].type in kinds
    )


def _source(wires: Mapping[str, Tensor], x: Tensor, dtype: torch.dtype) -> Tensor:
    """The features in source units, one contiguous run of the batch each: [F, B].

    Those that hold codes are whole numbers.
    """
    features = x.to(dtype).T
    if wires["std"].shape[0]:
        features = features * wires["std"].to(dtype) + wires["mean"].to(dtype)
    return (
        torch.where(wires["whole"], torch.round(features), features)
        if wires["whole"].shape[0]
        else features
    )
