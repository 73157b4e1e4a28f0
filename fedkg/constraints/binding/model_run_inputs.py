"""The inputs on which a model must run so that rules can compare its answers, and what is known of
each row.

Letters: B rows of the batch (for windows: all their steps, one after the other), F features, V runs
of the model.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from fedkg.constraints.binding.plan import STEPS, Plan, trace_groups
from fedkg.constraints.engine.batch_rows_as_traces import Traces, labelled, windows
from fedkg.errors import LayoutError

Keys = Mapping[str, Any]
"""Per key column (by table header or name): one text per row, or an integer tensor [B] of codes as
`ConstraintModule.codes` gives them."""

Previous = Tensor | Literal["above"] | None
"""The rows before: their features [B, F] (a row of NaN where there is none), or "above" when the
batch is in table order."""


@dataclass(frozen=True, slots=True)
class Before:
    """The row before each row of a batch, in one view: features [B, F] and bool [B], whether there
    is one.
    """

    features: Tensor
    known: Tensor


def flat_keys(keys: Keys, shape: tuple[int, ...]) -> Keys:
    """Keys of windows, one entry for each window or for each of its steps, as one entry for each
    step; those of rows as they are.
    """
    if len(shape) == 1:
        return keys
    return {name: _each_step(name, given, *shape) for name, given in keys.items()}


def _each_step(name: str, given: Any, count: int, steps: int) -> Any:
    if isinstance(given, Tensor):
        if given.shape == (count, steps):
            return given.flatten()
        if given.shape == (count,):
            return given.repeat_interleave(steps)
        received = f"shape {list(given.shape)}"
    elif isinstance(given, str):
        received = repr(given)
    else:
        rows = [
            (
                [entry] * steps
                if isinstance(entry, str) or not hasattr(entry, "__len__")
                else list(entry)
            )
            for entry in given
        ]
        if len(rows) == count and all(len(row) == steps for row in rows):
            return [text for row in rows for text in row]
        if len(rows) == count:
            wrong = next(i for i, row in enumerate(rows) if len(row) != steps)
            received = f"a list of {len(rows[wrong])} for the {steps} steps of window {wrong}"
        else:
            received = f"a list of {len(rows)} for {count} windows"
    raise LayoutError(
        f"key `{name}` must have one text or code for each window, or for each step of each window",
        expected=f"shape [{count}] or [{count}, {steps}]",
        received=received,
    )


def traces_of(
    plan: Plan,
    shape: tuple[int, ...],
    x: Tensor,
    keys: Keys,
    previous: Previous,
    weight: Tensor | None,
) -> Traces | None:
    """The rows of the batch that are the steps of each trace; None when the call does not state it.

    Args:
        shape: (B,) for rows, (B, T) for windows; each window is a trace.
        weight: [B, T] for windows with padding.
    """
    clip = plan.pack.manifest.contract.end == "clip"
    if len(shape) == 2:
        return windows(shape[0], shape[1], weight, clip=clip)
    if not isinstance(previous, str):
        return None
    labels = _labels_of(
        plan,
        trace_groups(plan.pack.manifest.contract),
        x,
        keys,
        x.new_zeros(x.shape[0], dtype=torch.int64),
    )
    return None if labels is None else labelled(labels, clip=clip)


def codes_of(vocabulary: Sequence[str], texts: Any) -> Tensor:
    """Codes int64 [B] of texts (anything else is compared as its text); -1 for a text that is not
    in the vocabulary.
    """
    position = {text: code for code, text in enumerate(vocabulary)}
    return torch.tensor([position.get(str(text), -1) for text in texts], dtype=torch.int64)


def key_codes(plan: Plan, keys: Keys, batch: int, device: torch.device) -> dict[int, Tensor]:
    """Codes [B] of each contract column for which there is a key.

    Raises LayoutError for a key of the wrong length.
    """
    found: dict[int, Tensor] = {}
    for column in plan.features:
        entry = plan.pack.manifest.contract.columns[column]
        given = keys.get(entry.name, keys.get(entry.source))
        if given is not None:
            found[column] = _as_codes(entry.name, given, entry.vocabulary, batch).to(device)
    return found


def _as_codes(name: str, given: Any, vocabulary: Sequence[str], batch: int) -> Tensor:
    if isinstance(given, str):
        raise LayoutError(
            f"key `{name}` must have one text or code per row",
            received=repr(given),
            help=f'keys={{"{name}": [...]}}',
        )
    codes = given if isinstance(given, Tensor) else codes_of(vocabulary, given)
    if codes.shape != (batch,):
        raise LayoutError(
            f"key `{name}` must have one text or code per row",
            expected=f"shape [{batch}]",
            received=f"shape {list(codes.shape)}",
            help=f'pass a list with one entry for each row of x: keys={{"{name}": [...]}}',
        )
    return codes


def rows_before(
    plan: Plan, view: int, x: Tensor, keys: Keys, previous: Previous, traces: Traces | None = None
) -> Before | None:
    """The row before each row, in the sense of a view; None when the call does not tell.

    In windows it is the step before.

    Args:
        traces: of a batch of windows; None for rows.
    """
    if isinstance(previous, Tensor):
        if previous.shape != x.shape:
            raise LayoutError(
                "previous= must have the shape of x: the row before each row, NaN "
                "where there is none",
                expected=f"shape {list(x.shape)}",
                received=f"shape {list(previous.shape)}",
            )
        known = ~torch.isnan(previous).all(dim=-1)
        return Before(torch.where(known[:, None], previous, x), known)
    groups = plan.groups[view]
    labels = torch.zeros(x.shape[0], dtype=torch.int64, device=x.device)
    if traces is not None:
        groups = tuple(
            group for group in groups if group not in trace_groups(plan.pack.manifest.contract)
        )
        labels = torch.arange(traces.count, device=x.device).repeat_interleave(traces.steps)
        if traces.inside is not None:
            labels = torch.where(traces.inside, labels, -1)
    elif previous is None:
        return None
    found = _labels_of(plan, groups, x, keys, labels)
    if found is None:
        return None
    index = _index_above(found)
    known = index >= 0
    return Before(torch.where(known[:, None], x[index.clamp(min=0)], x) if x.shape[0] else x, known)


def _labels_of(
    plan: Plan, groups: Sequence[str], x: Tensor, keys: Keys, labels: Tensor
) -> Tensor | None:
    """Numbers [B] that tell rows apart which differ in `labels` or in one of the groups.

    None when the call lacks a group's column.
    """
    for group in groups:
        more = _group_labels(plan, group, x, keys)
        if more is None:
            return None
        labels = torch.unique(torch.stack([labels, more]), dim=1, return_inverse=True)[1]
    return labels


def _group_labels(plan: Plan, group: str, x: Tensor, keys: Keys) -> Tensor | None:
    """Numbers [B] that tell the values of a group's column apart.

    None when the call does not have the column.
    """
    names = [
        group,
        *(column.name for column in plan.pack.manifest.contract.columns if column.source == group),
    ]
    key, feature = (
        next((n for n in names if n in keys), None),
        next((n for n in names if n in plan.x.names), None),
    )
    if feature is not None:
        labels: Tensor = torch.unique(x[:, plan.x.names.index(feature)], return_inverse=True)[1]
        return labels
    return None if key is None else _labels(group, keys[key], x.shape[0]).to(x.device)


def _labels(name: str, given: Any, batch: int) -> Tensor:
    if isinstance(given, Tensor):
        return _as_codes(name, given, (), batch)
    return _as_codes(
        name,
        torch.from_numpy(
            np.unique(np.array([str(text) for text in given]), return_inverse=True)[1]
        ),
        (),
        batch,
    )


def _index_above(labels: Tensor) -> Tensor:
    """For each row the nearest row above it with the same label, or -1; int64 [B]."""
    order = torch.argsort(labels, stable=True)
    ordered = labels[order]
    above = torch.full_like(order, -1)
    same = ordered[1:] == ordered[:-1]
    above[order[1:]] = torch.where(same, order[:-1], -1)
    return above


def model_inputs(plan: Plan, x: Tensor, before: Mapping[int, Before]) -> Tensor:
    """The V batches on which the model must run, stacked: [V, B, F], the batch itself first.

    A row without an earlier row reads itself, so that no NaN enters the model; the model's answer
    for it is not used.
    """
    runs = []
    for view, feature in zip(plan.runs, plan.raised_features, strict=True):
        if feature >= 0:
            step = plan.pack.manifest.contract.views[view].delta / (
                1.0 if plan.x.std is None else plan.x.std[feature]
            )
            raised = torch.zeros(x.shape[-1], dtype=x.dtype, device=x.device)
            raised[feature] = step
            runs.append(x + raised)
        else:
            runs.append(before[view].features if view in before else x)
    return torch.stack(runs) if len(runs) > 1 else runs[0][None]


def why_inactive(
    plan: Plan, column: int, view: int, codes: Collection[int], views: Collection[int]
) -> str:
    """Return why a call cannot evaluate rules that need a column or a view; "" if it can.

    Args:
        plan: the pack bound to its layouts.
        column: the position of a contract column, or -1. Together with `view` it is a key of the
            plan's `needs`.
        view: the position of a contract view, `STEPS`, or -1.
        codes: the positions of the category columns that the call gives as keys.
        views: the positions of the views that look back and that the call provides, and `STEPS` if
            the call has traces.
    """
    if column >= 0:
        entry = plan.pack.manifest.contract.columns[column]
        if plan.features[column] >= 0 or column in codes:
            return ""
        if entry.type == "category":
            return f'needs keys={{"{entry.source}": ...}} (one text or code per row)'
        return (
            f"reads the past of output `{entry.name}`, and x= names no feature "
            f"`{entry.name}` that holds it"
        )
    if view == STEPS and STEPS not in views:
        reason = (
            'looks at several steps: needs x of shape [B, T, F], or previous="above" when the batch'
            " is in table order"
        )
        return reason + _with_keys(trace_groups(plan.pack.manifest.contract))
    if view >= 0 and view not in views:
        reason = (
            'needs previous= (the rows before) or previous="above" when the batch is in table order'
        )
        return reason + _with_keys(plan.groups[view])
    return ""


def _with_keys(groups: Sequence[str]) -> str:
    return (
        ", with keys={" + ", ".join(f'"{group}": ...' for group in groups) + "}" if groups else ""
    )
