"""The penalty of a model: the violation of a formula, as far as the model's answers can change it.

Three things differ from robustness (`evaluation`): margins are divided by the scale of their
comparison; what reads inputs alone is true or false and nothing between, so that the gradient
reaches the model even where a guard over sensor data holds by a hair; and the sign is turned, so
that *missing* is positive where violated. `PenaltyForm` says what is made of that number.

Letters: R rows, B batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

import torch
from torch import Tensor
from torch.nn.functional import softplus, threshold

from fedkg.constraints.engine.evaluation import (
    HAIR,
    class_margin,
    compare_margin,
    evaluate,
    extreme_of,
    finite,
    holds,
    holds_or_not,
    mirrored,
    smooth_extreme,
)
from fedkg.constraints.engine.evaluation_inputs import Reading
from fedkg.constraints.engine.generalised_mean_extrema import norm_of
from fedkg.constraints.engine.nan_gradient_guard import shield
from fedkg.constraints.engine.skeleton_properties import (
    reads_inputs_alone_somewhere,
    reads_output,
    split_guards,
)
from fedkg.constraints.engine.temporal_and_member_formulas import compound
from fedkg.constraints.engine.unknown_value_encoding import between, marked, strict_step
from fedkg.constraints.engine.window_operators import Truth
from fedkg.errors import UsageError
from fedkg.pack.formulas import And, CategoryIs, ClassIn, Compare, Formula, Implies, Known, Not, Or

UNREACHABLE = 1e30
"""Missing where inputs alone decide (negative: where they already satisfy): far beyond any margin,
finite in float32."""

FARTHEST = UNREACHABLE / 4
"""The margin, in units, that smooth robustness takes any wider one for: that a number decides stays
to be seen."""

Semantics = Literal["exact", "smooth", "sound"]
Kind = Literal["hinge", "squared", "log_barrier"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PenaltyForm:
    """How a violation m becomes a penalty.

    m is in units of the scale of a constraint; a negative m says how far a satisfied constraint is
    from its limit.

    | kind | penalty |
    |---|---|
    | hinge | ``max(0, m)``; with a temperature t ``t * softplus(m / t)`` |
    | squared | the square of the hinge |
    | log_barrier | ``max(0, -log(-m) / s)`` for ``m <= -1 / s**2``, and its tangent above that |

    The barrier is that of Kervadec et al. 2022 ("Constrained deep networks: Lagrangian optimization
    via log-barrier extensions", equation 4), without the reward for answers that are more than one
    scale inside. It moves answers away from their limits before they violate them. A larger
    sharpness s makes it weaker there; raise s during training.

    Attributes:
        kind: hinge, squared or log_barrier.
        temperature: of log-sum-exp, which replaces minima and maxima; in units of the scale. None
            for exact minima and maxima.
        sound: replace minima and maxima by smooth `norms`, which are positive exactly where the
            exact ones are.
        sharpness: s of the barrier.
    """

    kind: Kind = "hinge"
    temperature: float | None = None
    sound: bool = False
    sharpness: float = 5.0

    @property
    def exact(self) -> bool:
        """Whether minima and maxima are themselves."""
        return self.temperature is None and not self.sound

    @property
    def truth(self) -> Truth:
        """The encoding of verdicts by violation numbers."""
        return Truth(
            edge=UNREACHABLE, zero_is_low=True, temperature=self.temperature, sound=self.sound
        )

    def of(self, missing: Tensor, decided: bool) -> Tensor:
        """The penalty of each number, >= 0; 0 where it is unknown or, with `decided`, where inputs
        alone decide.
        """
        if self.kind == "log_barrier":
            return _barrier(missing, decided, self.sharpness)
        hinge = (
            _hinge(missing, decided)
            if self.temperature is None
            else _soft_hinge(missing, decided, self.temperature)
        )
        return hinge * hinge if self.kind == "squared" else hinge


HINGE = PenaltyForm()


def penalty_form(semantics: str, temperature: float, form: str, sharpness: float) -> PenaltyForm:
    """The form that a call asks for.

    Raises UsageError for a name that there is not, and for numbers that are not above 0.
    """
    if (semantics, temperature, form, sharpness) == ("exact", 0.05, "hinge", HINGE.sharpness):
        return HINGE
    choices = {"semantics": (semantics, get_args(Semantics)), "form": (form, get_args(Kind))}
    for name, (chosen, known) in choices.items():
        if chosen not in known:
            raise UsageError(
                f"unknown {name} `{chosen}`", expected=" or ".join(f'"{one}"' for one in known)
            )
    for name, number in (("temperature", temperature), ("sharpness", sharpness)):
        if not number > 0:
            raise UsageError(f"{name} must be above 0", received=str(number))
    soft = temperature if semantics == "smooth" else None
    return PenaltyForm(
        kind=cast(Kind, form), temperature=soft, sound=semantics == "sound", sharpness=sharpness
    )


def penalties(
    skeleton: Formula,
    reading: Reading,
    gate: Tensor | None = None,
    form: PenaltyForm = HINGE,
    *,
    divided: bool = True,
) -> Tensor:
    """What is missing in its form, >= 0; 0 where satisfied or unknown, and where inputs alone
    decide so that no output can help.

    Guards and gates are factors 0 and 1: selecting by an irregular mask costs ten times as much as
    a product, forward and backward.

    Args:
        skeleton: a formula that reads an output.
        reading: its numbers; must be `offset`.
        gate: 1 where the row applies, 0 where it does not; [R, B] or None.
        divided: False to leave out the division by the scale, where `late_scale` says that it can
            be made up for.

    Returns:
        [R, B], or broadcast to it.
    """
    guards, rest = split_guards(skeleton)
    missing = missing_of(rest, True, reading, form.truth, divided)
    decided = reading.careful or reading.steps is not None or reads_inputs_alone_somewhere(rest)
    with torch.no_grad():
        for guard in guards:
            opened = holds(guard, reading)
            gate = opened if gate is None else gate * opened
    penalty = form.of(missing, decided)
    return penalty if gate is None else penalty * gate


def penalties_and_known(
    skeleton: Formula, reading: Reading, form: PenaltyForm, *, divided: bool
) -> tuple[Tensor, Tensor]:
    """`penalties` of an exact form, and bool where the formula's verdict is known, as `evaluate`
    has it, of one evaluation.

    They are not its verdicts where a margin in units leaves the range of its type, or a strict
    comparison holds by less than `HAIR`.
    """
    guards, rest = split_guards(skeleton)
    missing = missing_of(rest, True, reading, form.truth, divided)
    penalty, unknown = form.of(missing, True), between(missing.dtype)
    with torch.no_grad():
        settled = [holds_or_not(guard, reading) for guard in guards]
        known = missing > unknown
        for held, _ in settled:
            known = known & (held > 0.0)
        for refuted in (missing <= 0.0, *(refuted for _, refuted in settled)):
            known = known | refuted
    for held, _ in settled:
        penalty = penalty * held
    return penalty, known


def _hinge(missing: Tensor, decided: bool) -> Tensor:
    """What is missing where it is positive, known and in reach, else 0."""
    if decided:
        missing = -threshold(-missing, -UNREACHABLE / 2, 0.0)
    return threshold(missing, between(missing.dtype), 0.0)


def _soft_hinge(missing: Tensor, decided: bool, temperature: float) -> Tensor:
    if decided:
        missing = torch.where(missing < UNREACHABLE / 2, missing, -UNREACHABLE)
    return softplus(missing, beta=1.0 / temperature)


def _barrier(missing: Tensor, decided: bool, sharpness: float) -> Tensor:
    """See `PenaltyForm`; what is unknown, or beyond reach, is put one scale inside, where the
    barrier begins.
    """
    edge = 1.0 / sharpness**2
    known = (missing != between(missing.dtype)) & ~torch.isnan(missing)
    inner = torch.where(
        known & (missing < UNREACHABLE / 2) if decided else known, missing, -1.0
    ).clamp(min=-1.0)
    inside = -torch.log(-inner.clamp(max=-edge)) / sharpness
    return inside + sharpness * (inner + edge).clamp(min=0.0)


def late_scale(skeleton: Formula, form: PenaltyForm = HINGE) -> int | None:
    """The parameter by which sums of undivided penalties over the batch may be divided instead of
    each; None when they may not.
    """
    rest = split_guards(skeleton)[1]
    return rest.scale if isinstance(rest, Compare) and form == HINGE else None


def missing_of(
    formula: Formula, positive: bool, reading: Reading, truth: Truth, divided: bool = True
) -> Tensor:
    """How much is missing of the formula or of its negation: positive where violated.

    Where unknown, what `truth` has for it.
    """
    if reading.unit is None and not reads_output(formula):
        return _decided(formula, positive, reading, truth)
    match formula:
        case Compare():
            unit = (
                None
                if reading.unit is None and not divided
                else reading.params[formula.scale]
                if reading.unit is None
                else reading.unit
            )
            missing, mirror = (
                compare_margin(formula, not positive, reading),
                mirrored(formula, not positive, reading),
            )
            if unit is not None:
                missing, mirror = (
                    _within_reach(missing / unit, reading),
                    None if mirror is None else mirror / unit,
                )
            return _marked(
                missing + _hair(reading) if (formula.op in ("lt", "ne")) == positive else missing,
                reading,
                truth,
                mirror,
            )
        case ClassIn():
            return _class_missing(formula, positive, reading, truth)
        case Not():
            return missing_of(formula.arg, not positive, reading, truth)
        case And():
            return _joined([(arg, positive) for arg in formula.args], positive, reading, truth)
        case Or():
            return _joined([(arg, positive) for arg in formula.args], not positive, reading, truth)
        case Implies():
            parts = [(formula.antecedent, not positive), (formula.consequent, positive)]
            return _joined(parts, not positive, reading, truth)
        case CategoryIs() | Known():
            return _decided(formula, positive, reading, truth)
        case _:
            return compound(
                formula,
                positive,
                reading,
                truth,
                lambda arg, sign, own: missing_of(arg, sign, own, truth),
            )


def _joined(
    parts: Sequence[tuple[Formula, bool]], conjunction: bool, reading: Reading, truth: Truth
) -> Tensor:
    values = [missing_of(part, positive, reading, truth) for part, positive in parts]
    if truth.sound:
        return norm_of(values, truth.edge, lowest=not conjunction)
    if truth.temperature is None:
        return extreme_of(values, lowest=not conjunction)
    return smooth_extreme(
        values, truth, lowest=not conjunction, careful=reading.careful or reading.steps is not None
    )


def _hair(reading: Reading) -> float:
    """What strictness asks for: of penalties so much that float32 tells it from nothing, of
    robustness the least that there is.
    """
    return HAIR if reading.unit is None else strict_step(reading.params[0].dtype)


def _within_reach(missing: Tensor, reading: Reading) -> Tensor:
    """Of robustness, numbers no farther than `FARTHEST`; of penalties as they are."""
    return (
        missing
        if reading.unit is None
        else torch.where(torch.isinf(missing), missing, missing.clamp(-FARTHEST, FARTHEST))
    )


def _class_missing(atom: ClassIn, positive: bool, reading: Reading, truth: Truth) -> Tensor:
    """How far the best score on one side is below the best on the other.

    As a norm, any inside to all outside.
    """
    hair = _hair(reading) if atom.strict == positive else 0.0
    unit = 1.0 if reading.unit is None else reading.unit
    temperature = None if truth.temperature is None else truth.temperature * unit
    missing = (
        _within_reach(class_margin(atom, not positive, reading, temperature) / unit, reading).clamp(
            -UNREACHABLE, UNREACHABLE
        )
        + hair
    )
    if truth.sound and atom.inside and atom.outside:
        scores = {i: shield(reading.slots[i]) for i in (*atom.inside, *atom.outside)}
        sign = 1.0 if positive else -1.0
        lacks = [
            [
                _within_reach(sign * (scores[o] - scores[i]) / unit, reading) + hair
                for i in atom.inside
            ]
            for o in atom.outside
        ]
        spread = norm_of(
            [norm_of(row, truth.edge, lowest=positive) for row in lacks],
            truth.edge,
            lowest=not positive,
        )
        missing = torch.where(torch.isnan(missing), missing, spread)
    return _marked(missing, reading, truth)


def _decided(formula: Formula, positive: bool, reading: Reading, truth: Truth) -> Tensor:
    robustness = evaluate(formula, reading, positive=positive)
    decided = torch.where(robustness >= 0, -UNREACHABLE, UNREACHABLE).to(robustness.dtype)
    unknown = truth.unknown(robustness.dtype)
    return (
        torch.where(torch.isnan(robustness), unknown, decided)
        if reading.careful or reading.steps is not None
        else decided
    )


def _marked(
    missing: Tensor, reading: Reading, truth: Truth, mirror: Tensor | None = None
) -> Tensor:
    if not reading.careful:
        return missing
    return (
        marked(missing, truth.unknown(missing.dtype), mirror=mirror)
        if truth.temperature is None
        else finite(missing)
    )
