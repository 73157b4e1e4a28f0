"""Whether a batch and its answers are what their layouts announce: the commonest mistake with rules is a scaled tensor taken for raw data.

Letters: B batch, F features, V runs of the model, H outputs, n finite numbers of a column. A declared span speaks loudest. Without one, a
unit says what cannot be (no kelvin below zero), and numbers with mean 0 and deviation 1 in column after column are no measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedkg.constraints.plan import Plan
from fedkg.errors import LayoutError
from fedkg.pack.contract import Column

ENOUGH = 8
"""Fewest rows that a batch is judged by."""

NEVER_NEGATIVE = frozenset({"K", "kelvin", "rpm", "1/min", "1/s", "Hz", "kHz", "s", "min", "h", "d", "kg", "g", "t", "mg"})
"""Units of which a measurement is hardly ever below zero, as authors write them."""

NO_UNIT = frozenset({"", "1", "one", "probability", "%", "percent"})
"""Units that say nothing of a number's size."""

SLACK = 1e-3
"""How far outside of 0..1 rounding may carry a probability."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the numbers of one column say.

    Attributes:
        wrong: they are not what the layout announces.
        by: on the word of a declared span, of a unit that excludes negative numbers, or of mean and deviation alone.
        unit: of the column. text: the column, and what it would hold.
    """

    wrong: bool
    by: Literal["span", "unit", "shape"]
    unit: str
    text: str


def check_units(plan: Plan, x: Tensor) -> bool:
    """Judge a batch x [B, F] by the columns that the rules read or raise; False when it cannot be judged (too small, in a transform).

    Columns without a unit, or with a span that standardised numbers fit into as well, tell nothing; so does a feature announced with mean 0
    and std 1, which are the numbers themselves.

    Raises:
        LayoutError: when the layout says source units and the batch looks standardised: at least half of the columns with a span that
            tells (and two of them, if there are two) have numbers about 0 and of size 1 that lie mostly outside the span; or, spans or no
            spans, three quarters of all columns that tell do, two at least, where a unit excludes what is there, else three of more than
            one unit. When it says standardised, and at least half of the columns (and two of them, if there are two) hold numbers
            that fit the spans, or the announced means, as they are and are absurd after unscaling.
    """
    if x.shape[0] < ENOUGH or torch.compiler.is_compiling():
        return False
    judge = _as_source if plan.x.std is None else _as_scaled
    try:
        verdicts = [judge(plan, column, feature, x[:, feature]) for feature, column in _columns(plan).items()]
    except RuntimeError:  # torch.func transforms and tracing refuse to turn a tensor into a number
        return False
    telling = [verdict for verdict in verdicts if verdict is not None]
    spans = [verdict for verdict in telling if verdict.by == "span"]
    if plan.x.std is not None:
        if found := _half(telling):
            raise LayoutError(
                "x looks as if it were in source units already (raw), and its layout says that it is standardised",
                expected="numbers about 0 and of size 1",
                received="; ".join(verdict.text for verdict in found) + " as they are",
                help="x=fedkg.columns(names) without mean and std, or scale the batch",
            )
    elif found := _half(spans) or _most(telling):
        raise LayoutError(
            "x looks standardised, and its layout says that it is in source units",
            expected="; ".join(verdict.text for verdict in found),
            received="numbers about 0 and of size 1",
            help="x=fedkg.columns(names, mean=..., std=...), with the mean and standard deviation that the features were scaled with"
            + ("" if _half(spans) else "; if the numbers are right, declare their span in the rules"),
        )
    return True


def check_probabilities(plan: Plan, answers: Tensor) -> bool:
    """Judge answers [V, B, H] that were announced as probabilities; False when they cannot be judged for good yet.

    Raises:
        LayoutError: when a finite one lies outside of 0..1, as logits do.
    """
    places = [i for i, entry in enumerate(plan.y.entries) if entry.kind == "probability"]
    if not places:
        return True
    if torch.compiler.is_compiling():
        return False
    try:
        given = answers.detach()[..., places]
        outside = given.isfinite() & ((given < -SLACK) | (given > 1.0 + SLACK))
        if not bool(outside.any()):
            return answers.shape[1] >= ENOUGH
        entry = places[int(outside.flatten(0, -2).any(dim=0).nonzero()[0, 0])]
        worst = given[outside]
        received = f"{float(worst.min()):.4g} .. {float(worst.max()):.4g} among the answers"
    except RuntimeError:  # as above
        return False
    name = plan.y.entries[entry].name
    raise LayoutError(
        f"the model's answers for probability `{name}` lie outside of 0..1 and look like logits",
        expected="numbers in 0..1",
        received=received,
        help=f'y=fedkg.logit("{name}"), which applies the sigmoid; or let the model end with torch.nn.Sigmoid()',
    )


def _columns(plan: Plan) -> dict[int, Column]:
    """The real columns the rules read or raise, by feature; signals of several entities in one feature have the hull of their spans."""
    contract = plan.pack.manifest.contract
    places = [(feature, contract.columns[column]) for column, feature in sorted(plan.features.items())]
    for view, feature in zip(plan.runs, plan.raised_features, strict=True):
        column = contract.views[view].column
        if column is not None:
            places.append((feature, contract.columns[column]))
    found: dict[int, Column] = {}
    for feature, entry in places:
        if feature < 0 or entry.type != "real":
            continue
        known = found.setdefault(feature, entry)
        if known.span and entry.span:
            hull = (min(known.span[0], entry.span[0]), max(known.span[1], entry.span[1]))
            found[feature] = known.model_copy(update={"span": hull})
    return found


def _half(telling: list[Verdict]) -> list[Verdict]:
    """The wrong ones, if they are at least half, and two of them where two tell."""
    wrong = [verdict for verdict in telling if verdict.wrong]
    return wrong if wrong and 2 * len(wrong) >= len(telling) and len(wrong) >= min(2, len(telling)) else []


def _most(telling: list[Verdict]) -> list[Verdict]:
    """The wrong ones, if they are three quarters and no chance: one axis of a sensor, or three, may well have mean 0 and deviation 1."""
    wrong = [verdict for verdict in telling if verdict.wrong]
    sure = any(verdict.by != "shape" for verdict in wrong)
    enough = len(wrong) >= 2 if sure else len(wrong) >= 3 and len({verdict.unit for verdict in wrong}) > 1
    return wrong if enough and 4 * len(wrong) >= 3 * len(telling) else []


def _finite(values: Tensor) -> Tensor | None:
    """The finite numbers of a column in float64; None when they are too few, or all the same."""
    values = values.detach().double()
    values = values[values.isfinite()]
    return None if values.shape[0] < ENOUGH or bool((values == values[0]).all()) else values


def _share(mask: Tensor) -> float:
    return float(mask.double().mean())


def _as_source(plan: Plan, entry: Column, feature: int, column: Tensor) -> Verdict | None:
    """Whether a column announced in source units looks standardised; None when its span or unit tells nothing."""
    values = _finite(column)
    if values is None:
        return None
    mean, std, largest = float(values.mean()), float(values.std()), float(values.abs().max())
    if entry.span is not None:
        low, high = entry.span
        if (low <= -2.0 and high >= 2.0) or max(abs(low), abs(high)) < 10.0:
            return None
        standard = abs(mean) < 1.5 and 0.1 < std < 3.0 and largest < 10.0
        outside = _share((values < low) | (values > high))
        return Verdict(standard and outside > 0.3, "span", entry.unit, f"`{entry.name}` in {low:g} .. {high:g} {entry.unit}".rstrip())
    unit = entry.unit.removeprefix("unit:")
    if unit in NO_UNIT:
        return None
    standard = abs(mean) < 0.3 + 2.0 / values.shape[0] ** 0.5 and 0.5 < std < 1.6 and largest < 10.0
    if unit in NEVER_NEGATIVE and standard and _share(values < 0.0) > 0.1:
        return Verdict(True, "unit", unit, f"`{entry.name}` in {unit}, never negative")
    return Verdict(standard, "shape", unit, f"`{entry.name}` in {unit}")


def _as_scaled(plan: Plan, entry: Column, feature: int, column: Tensor) -> Verdict | None:
    """Whether a column announced as standardised is raw; None when its span and its scaling cannot tell."""
    std, mean = (1.0 if plan.x.std is None else plan.x.std[feature]), (0.0 if plan.x.mean is None else plan.x.mean[feature])
    values = None if (mean, std) == (0.0, 1.0) else _finite(column)
    if values is None:
        return None
    if abs(mean) > 10.0:
        fits = float(((values - mean) / std).abs().median()) < 6.0 and float(values.abs().median()) > 8.0
        if fits:
            return Verdict(True, "shape", entry.unit, f"`{entry.name}` about {float(values.mean()):.3g} {entry.unit}".rstrip())
    if entry.span is None or (entry.span[0] <= -2.0 and entry.span[1] >= 2.0) or max(map(abs, entry.span)) < 10.0:
        return Verdict(False, "shape", entry.unit, "") if abs(mean) > 10.0 else None
    low, high = entry.span
    unscaled = values * std + mean
    outside, after = _share((values < low) | (values > high)), _share((unscaled < low) | (unscaled > high))
    return Verdict(outside < 0.1 and after > 0.9, "span", entry.unit, f"`{entry.name}` in {low:g} .. {high:g} {entry.unit}".rstrip())
