"""Whether a batch is in the units that its layout announces: the commonest mistake with rules is a scaled tensor taken for raw data."""

from __future__ import annotations

from torch import Tensor

from fedkg.constraints.plan import Plan
from fedkg.errors import LayoutError

ENOUGH = 8
"""Fewest rows that a batch is judged by."""


def check_units(plan: Plan, x: Tensor) -> bool:
    """Judge a batch x [B, F] by the declared spans of its columns; False when it cannot be judged (too small, or inside a transform).

    Raises:
        LayoutError: when the layout says source units and the batch looks standardised: at least half of the columns whose span can tell
            (and two of them, if there are two) have numbers about 0 and of size 1 that lie mostly outside the span; or when it says
            standardised and the batch lies inside the spans as it is, and outside them after unscaling.
    """
    if x.shape[0] < ENOUGH or not plan.features:
        return False
    try:
        verdicts = [_verdict(plan, column, x) for column in sorted(plan.features)]
    except RuntimeError:  # torch.func transforms and tracing refuse to turn a tensor into a number
        return False
    telling = [verdict for verdict in verdicts if verdict is not None]
    wrong = [verdict for verdict in telling if verdict]
    if not wrong or 2 * len(wrong) < len(telling) or len(wrong) < min(2, len(telling)):
        return True
    if plan.x.std is None:
        raise LayoutError(
            "x looks standardised, and its layout says that it is in source units",
            expected="; ".join(wrong),
            received="numbers about 0 and of size 1",
            help="x=fedkg.columns(names, mean=..., std=...), with the mean and standard deviation that the features were scaled with",
        )
    raise LayoutError(
        "x looks as if it were in source units already, and its layout says that it is standardised",
        expected="numbers about 0 and of size 1",
        received="; ".join(wrong) + " as they are",
        help="x=fedkg.columns(names) without mean and std, or scale the batch",
    )


def _verdict(plan: Plan, column: int, x: Tensor) -> str | None:
    """What is wrong with a column, "" when nothing is, None when its span tells nothing."""
    entry, feature = plan.pack.manifest.contract.columns[column], plan.features[column]
    if feature < 0 or entry.span is None or entry.type != "real":
        return None
    low, high = entry.span
    if (low <= -2.0 and high >= 2.0) or max(abs(low), abs(high)) < 10.0:
        return None
    values = x[:, feature].detach().double()
    values = values[values.isfinite()]
    if values.shape[0] < ENOUGH:
        return None
    outside = float(((values < low) | (values > high)).double().mean())
    text = f"`{entry.name}` in {low:g} .. {high:g} {entry.unit}".rstrip()
    if plan.x.std is None or plan.x.mean is None:
        standard = abs(float(values.mean())) < 1.5 and 0.1 < float(values.std()) < 3.0 and float(values.abs().max()) < 10.0
        return text if standard and outside > 0.3 else ""
    unscaled = values * plan.x.std[feature] + plan.x.mean[feature]
    outside_after = float(((unscaled < low) | (unscaled > high)).double().mean())
    return text if outside < 0.1 and outside_after > 0.9 else ""
