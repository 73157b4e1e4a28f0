"""Whether a batch and its answers are what their layouts announce: the commonest mistake with rules
is a scaled tensor taken for raw data.

Letters: B batch, F features, V runs of the model, H outputs, n finite numbers of a column. A
declared span speaks loudest. Without one, a unit states what is impossible (no kelvin below zero),
and mean 0 with deviation 1 in column after column indicates normalised data. Where the layout says
standardised, its means and deviations tell what raw numbers would be. Only columns that can tell
the two apart have a say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedkg.constraints.binding.layout import NO_UNIT
from fedkg.constraints.binding.plan import Plan
from fedkg.errors import LayoutError
from fedkg.pack.contract import Column

ENOUGH = 8
"""Fewest rows that a batch is judged by; one that is far enough from what its layout says needs two
numbers."""

FAR = 30.0
"""Standard deviations from the mean within which every number of some standardised column lies,
whatever its distribution: beyond it are at most 1 in 900 (Chebyshev)."""

NEVER_NEGATIVE = frozenset(
    {"K", "kelvin", "rpm", "1/min", "1/s", "Hz", "kHz", "s", "min", "h", "d", "kg", "g", "t", "mg"}
)
"""Units of quantities that are rarely negative, as authors write them."""

SLACK = 1e-3
"""How far outside of 0..1 rounding may carry a probability."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the numbers of one column fit its layout.

    Attributes:
        wrong: whether they do not fit.
        by: the evidence: a declared span; a unit that excludes negative numbers ("unit"); mean and
            standard deviation alone ("shape"); or "far" if every number exceeds `FAR` although the
            layout says standardised.
        unit: the unit of the column.
        text: the column with its expected or actual numbers, for messages.
        numbers: n.
    """

    wrong: bool
    by: Literal["span", "unit", "shape", "far"]
    unit: str
    text: str
    numbers: int


SURE = "if the numbers are right as they are, x=fedkg.columns(..., sure=True)"


def check_units(plan: Plan, x: Tensor) -> bool:
    """Judge a batch x [B, F] by the columns that the rules read or raise.

    False when it is to be judged again (too small, in a transform).

    Columns without a unit, or with a span that standardised numbers fit into as well, tell nothing;
    so does a feature announced with mean 0 and std 1, which are the numbers themselves.

    Raises:
        LayoutError: when the layout says source units and the batch looks standardised: at least
            half of the columns with a span that tells (and two of them, if there are two) have
            numbers about 0 and of size 1 that lie mostly outside the span; or, spans or no spans,
            three quarters of all columns that tell do, two at least, where a unit excludes what is
            there, else three of more than one unit. When it says standardised, and at least half of
            the columns that tell (and two of them, if there are two) hold numbers that fit the
            spans, or the announced means, as they are and are absurd after unscaling; or one alone,
            if each of its numbers is beyond `FAR`: two numbers, in batches of any size.
    """
    source = plan.x.std is None
    if plan.x.sure:
        return True
    if torch.compiler.is_compiling() or (source and x.shape[0] < ENOUGH):
        return False
    try:
        verdicts = [
            _verdict(plan, entry, feature, x[:, feature])
            for feature, entry in _columns(plan).items()
        ]
    except RuntimeError:  # torch.func transforms and tracing refuse to turn a tensor into a number
        return False
    telling = [verdict for verdict in verdicts if verdict is not None]
    if source:
        _check_source(telling)
    elif found := _proven(telling) or _half(
        [verdict for verdict in telling if verdict.numbers >= ENOUGH]
    ):
        raise LayoutError(
            "x looks like raw numbers (in the units of its columns), and its "
            "layout says that it is standardised",
            expected="numbers about 0 and of size 1",
            received="; ".join(verdict.text for verdict in found) + " as they are",
            help="pass x=fedkg.columns(names) without mean and std, or standardise the "
            f"batch; {SURE}",
        )
    return x.shape[0] >= ENOUGH


def _check_source(telling: list[Verdict]) -> None:
    """Raise where a batch announced in source units looks standardised."""
    spans = _half([verdict for verdict in telling if verdict.by == "span"])
    if found := spans or _most(telling):
        raise LayoutError(
            "x looks standardised, and its layout says that it has raw numbers (in "
            "the units of its columns)",
            expected="; ".join(verdict.text for verdict in found),
            received="numbers about 0 and of size 1",
            help=(
                "pass x=fedkg.columns(names, mean=..., std=...), with the mean and standard "
                "deviation that the features were scaled with"
            )
            + (
                f"; {SURE}"
                if spans
                else "; if the numbers are right, declare their span in the rules"
            ),
        )


def check_probabilities(plan: Plan, answers: Tensor, places: Sequence[int]) -> bool:
    """Judge answers [..., B, H] that were announced as probabilities.

    False when they cannot be judged for good yet.

    Args:
        places: the positions of the probabilities among the outputs.

    Raises:
        LayoutError: when a finite one lies outside of 0..1, as logits do.
    """
    if not places:
        return True
    if torch.compiler.is_compiling():
        return False
    try:
        given = answers.detach()
        given = given if len(places) == given.shape[-1] else given[..., places]
        enough = answers.shape[-2] >= ENOUGH
        if not given.numel():
            return False
        least, most = torch.aminmax(given)
        if float(least) >= -SLACK and float(most) <= 1.0 + SLACK:  # one pass; NaN fails it
            return enough
        outside = given.isfinite() & ((given < -SLACK) | (given > 1.0 + SLACK))
        if not bool(outside.any()):
            return enough
        entry = places[int(outside.flatten(0, -2).any(dim=0).nonzero()[0, 0])]
        worst = given[outside]
        received = f"{float(worst.min()):.4g} .. {float(worst.max()):.4g} among the answers"
    except RuntimeError:  # as above
        return False
    name = plan.y.entries[entry].name
    raise LayoutError(
        f"the model's answers for probability `{name}` lie outside of 0..1, as logits do",
        expected="numbers in 0..1",
        received=received,
        help=f'pass y=fedkg.logit("{name}"), which applies the sigmoid; or let the model end '
        "with torch.nn.Sigmoid()",
    )


def not_finite(x: Tensor, answers: Tensor, weight: Tensor | None) -> int:
    """Count answers [V, N, H] that are not finite although their row's features [N, F] are.

    Rows of weight [N] 0 do not count.

    0 where a tensor cannot be looked at, as inside of transforms.
    """
    try:
        if bool(answers.isfinite().all()):
            return 0
        rows = (
            x.isfinite().all(dim=-1) if weight is None else x.isfinite().all(dim=-1) & (weight > 0)
        )
        return int((~answers.isfinite() & rows[:, None]).sum())
    except RuntimeError:  # as above
        return 0


def _columns(plan: Plan) -> dict[int, Column]:
    """The real columns the rules read or raise, by feature.

    Signals of several entities in one feature have the hull of their spans.
    """
    contract = plan.pack.manifest.contract
    places = [
        (feature, contract.columns[column]) for column, feature in sorted(plan.features.items())
    ]
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


def _proven(telling: list[Verdict]) -> list[Verdict]:
    """The columns that no distribution explains; one number alone may be the one in 900."""
    far = [verdict for verdict in telling if verdict.by == "far"]
    return far if sum(verdict.numbers for verdict in far) > 1 else []


def _half(telling: list[Verdict]) -> list[Verdict]:
    """The wrong ones, if they are at least half, and two of them where two tell."""
    wrong = [verdict for verdict in telling if verdict.wrong]
    return (
        wrong
        if wrong and 2 * len(wrong) >= len(telling) and len(wrong) >= min(2, len(telling))
        else []
    )


def _most(telling: list[Verdict]) -> list[Verdict]:
    """The wrong ones, if they are three quarters and no chance: one axis of a sensor, or three, may
    well have mean 0 and deviation 1.
    """
    wrong = [verdict for verdict in telling if verdict.wrong]
    sure = any(verdict.by != "shape" for verdict in wrong)
    enough = (
        len(wrong) >= 2
        if sure
        else len(wrong) >= 3 and len({verdict.unit for verdict in wrong}) > 1
    )
    return wrong if enough and 4 * len(wrong) >= 3 * len(telling) else []


def _share(mask: Tensor) -> float:
    return float(mask.double().mean())


def _verdict(plan: Plan, entry: Column, feature: int, column: Tensor) -> Verdict | None:
    """What the finite numbers of a column say; None when they tell nothing."""
    values = column.detach().double()
    values = values[values.isfinite()]
    if not values.shape[0]:
        return None
    if plan.x.std is None:
        return _as_source(entry, values)
    return _as_scaled(
        entry, values, 0.0 if plan.x.mean is None else plan.x.mean[feature], plan.x.std[feature]
    )


def _few(values: Tensor) -> bool:
    """Whether numbers are too few to be judged by how they lie, or all the same."""
    return values.shape[0] < ENOUGH or bool((values == values[0]).all())


def _as_source(entry: Column, values: Tensor) -> Verdict | None:
    """Whether numbers [n] announced in source units look standardised.

    None when span or unit tells nothing, or they look like neither.
    """
    if _few(values):
        return None
    count = values.shape[0]
    mean, std, largest = float(values.mean()), float(values.std()), float(values.abs().max())
    if entry.span is not None:
        low, high = entry.span
        if (low <= -2.0 and high >= 2.0) or max(abs(low), abs(high)) < 10.0:
            return None
        standard = abs(mean) < 1.5 and 0.1 < std < 3.0 and largest < 10.0
        outside = _share((values < low) | (values > high)) > 0.3
        text = f"`{entry.name}` in {low:g} .. {high:g} {entry.unit}".rstrip()
        return (
            None if outside and not standard else Verdict(outside, "span", entry.unit, text, count)
        )
    unit = entry.unit.removeprefix("unit:")
    if unit in NO_UNIT:
        return None
    standard = abs(mean) < 0.3 + 2.0 / count**0.5 and 0.5 < std < 1.6 and largest < 10.0
    if unit in NEVER_NEGATIVE and standard and _share(values < 0.0) > 0.1:
        return Verdict(True, "unit", unit, f"`{entry.name}` in {unit}, never negative", count)
    return Verdict(standard, "shape", unit, f"`{entry.name}` in {unit}", count)


def _as_scaled(entry: Column, values: Tensor, mean: float, std: float) -> Verdict | None:
    """Whether numbers [n] announced as standardised are raw.

    None when span and scaling cannot tell, or they look like neither.

    Raw numbers lie about the announced mean, or inside of the span and unscaled outside of it: a
    machine that runs far from where the scaling was taken is inside of it both ways. Layouts of
    mean 0 or std 1 may convert units, in which numbers of any size are right: there the span must
    contradict.
    """
    if (mean, std) == (0.0, 1.0):
        return None
    near = float(((values - mean) / std).abs().median()) < 6.0
    inside = absurd = False
    if entry.span is not None:
        low, high = entry.span
        unscaled = values * std + mean
        inside, absurd = (
            _share((values < low) | (values > high)) < 0.1,
            _share((unscaled < low) | (unscaled > high)) > 0.9,
        )
    kept, about = inside and absurd, near and (absurd or (mean != 0.0 and std != 1.0))
    kind = f"`{entry.name}` about {float(values.mean()):.3g} {entry.unit}".rstrip()
    if (kept or about) and float(values.abs().min()) > FAR:
        return Verdict(True, "far", entry.unit, kind, values.shape[0])
    if _few(values):
        return None
    typical = float(values.abs().median())
    if (kept and typical > 6.0) or (about and abs(mean) > 10.0 and typical > 8.0):
        return Verdict(True, "span" if absurd else "shape", entry.unit, kind, values.shape[0])
    is_off = abs(mean) > 10.0 or (
        entry.span is not None
        and abs(mean) > 6.0
        and not entry.span[0] <= mean * std + mean <= entry.span[1]
    )
    return (
        Verdict(False, "shape", entry.unit, "", values.shape[0])
        if is_off and typical <= 6.0
        else None
    )
