"""The inputs on which a model must run so that rules can compare its answers, and what is known of each row.

Letters: B batch, F features, V runs of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from fedkg.constraints.plan import Plan
from fedkg.errors import LayoutError

Keys = Mapping[str, Any]
"""Per key column (by table header or name): one text per row, or an integer tensor [B] of codes as `ConstraintModule.codes` gives them."""

Previous = Tensor | Literal["above"] | None
"""The rows before: their features [B, F] (a row of NaN where there is none), or "above" when the batch is in table order."""


@dataclass(frozen=True, slots=True)
class Before:
    """The row before each row of a batch, in one view: features [B, F] and bool [B], whether there is one."""

    features: Tensor
    known: Tensor


def codes_of(vocabulary: Sequence[str], texts: Any) -> Tensor:
    """Codes int64 [B] of texts (anything else is compared as its text); -1 for a text that is not in the vocabulary."""
    position = {text: code for code, text in enumerate(vocabulary)}
    return torch.tensor([position.get(str(text), -1) for text in texts], dtype=torch.int64)


def key_codes(plan: Plan, keys: Keys, batch: int, device: torch.device) -> dict[int, Tensor]:
    """Codes [B] of each contract column for which there is a key. Raises LayoutError for a key of the wrong length."""
    found: dict[int, Tensor] = {}
    for column in plan.features:
        entry = plan.pack.manifest.contract.columns[column]
        given = keys.get(entry.name, keys.get(entry.source))
        if given is not None:
            found[column] = _as_codes(entry.name, given, entry.vocabulary, batch).to(device)
    return found


def _as_codes(name: str, given: Any, vocabulary: Sequence[str], batch: int) -> Tensor:
    if isinstance(given, str):
        raise LayoutError(f"key `{name}` must have one text or code per row", received=repr(given), help=f'keys={{"{name}": [...]}}')
    codes = given if isinstance(given, Tensor) else codes_of(vocabulary, given)
    if codes.shape != (batch,):
        raise LayoutError(f"key `{name}` must have one text or code per row", expected=f"[{batch}]", received=f"shape {list(codes.shape)}")
    return codes


def rows_before(plan: Plan, view: int, x: Tensor, keys: Keys, previous: Previous) -> Before | None:
    """The row before each row, in the sense of a view; None when the call does not tell."""
    if isinstance(previous, Tensor):
        if previous.shape != x.shape:
            raise LayoutError(
                "previous= must be laid out like x", expected=f"shape {list(x.shape)}", received=f"shape {list(previous.shape)}"
            )
        known = ~torch.isnan(previous).all(dim=-1)
        return Before(torch.where(known[:, None], previous, x), known)
    if previous is None:
        return None
    labels = torch.zeros(x.shape[0], dtype=torch.int64, device=x.device)
    for group in plan.groups[view]:
        more = _group_labels(plan, group, x, keys)
        if more is None:
            return None
        labels = torch.unique(torch.stack([labels, more]), dim=1, return_inverse=True)[1]
    index = _index_above(labels)
    known = index >= 0
    return Before(torch.where(known[:, None], x[index.clamp(min=0)], x) if x.shape[0] else x, known)


def _group_labels(plan: Plan, group: str, x: Tensor, keys: Keys) -> Tensor | None:
    """Numbers [B] that tell the values of a group's column apart; None when the call does not have the column."""
    names = [group, *(column.name for column in plan.pack.manifest.contract.columns if column.source == group)]
    key, feature = next((n for n in names if n in keys), None), next((n for n in names if n in plan.x.names), None)
    if feature is not None:
        labels: Tensor = torch.unique(x[:, plan.x.names.index(feature)], return_inverse=True)[1]
        return labels
    return None if key is None else _labels(group, keys[key], x.shape[0]).to(x.device)


def _labels(name: str, given: Any, batch: int) -> Tensor:
    if isinstance(given, Tensor):
        return _as_codes(name, given, (), batch)
    return _as_codes(name, torch.from_numpy(np.unique(np.array([str(text) for text in given]), return_inverse=True)[1]), (), batch)


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

    A row without a row before it stands for that row itself, so that no NaN enters the model; what the model says of it is not used.
    """
    runs = []
    for view, feature in zip(plan.runs, plan.raised_features, strict=True):
        if feature >= 0:
            step = plan.pack.manifest.contract.views[view].delta / (1.0 if plan.x.std is None else plan.x.std[feature])
            raised = torch.zeros(x.shape[-1], dtype=x.dtype, device=x.device)
            raised[feature] = step
            runs.append(x + raised)
        else:
            runs.append(before[view].features if view in before else x)
    return torch.stack(runs) if len(runs) > 1 else runs[0][None]
