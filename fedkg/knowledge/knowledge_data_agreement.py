"""Agreement of knowledge models with each other and with the truth, on data (assumption 5.1 of Fan
et al. 2022).

Letters: V views, B samples, C columns of the contract.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.meaning.interpreter import Timing
from fedkg.knowledge.allowed_answers import allowed_classes, allowed_interval
from fedkg.knowledge.clause_conditions import Float
from fedkg.knowledge.predictions import predictions
from fedkg.pack import Pack
from fedkg.pack.knowledge_models import KnowledgeModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Statistics of one knowledge model on data.

    Attributes:
        output: the output that the model is about.
        samples: B.
        restricted: samples for which a range model excludes something, or a prediction model
            predicts.
        empty: samples for which a range model allows nothing.
        first_empty: the first of them, or None.
        disjoint: samples for which a range model allows something, but all range models of its
            output together allow nothing.
        first_disjoint: the first of them, or None.
        outside: samples with a prediction outside the ranges of its output.
        first_outside: the first of them, or None.
        labelled: samples in `restricted` with a known truth.
        right: those of them that the model is right about (the range contains the truth, the
            prediction equals it; numbers: within half a bin of 20 over the span).
    """

    model: str
    kind: str
    output: str
    samples: int
    restricted: int
    empty: int
    first_empty: int | None
    disjoint: int
    first_disjoint: int | None
    outside: int
    first_outside: int | None
    labelled: int
    right: int


def agreement(
    pack: Pack, values: Float, truth: dict[str, Float], timing: Timing | None = None
) -> tuple[Agreement, ...]:
    """Measure every knowledge model of a pack on samples [V, B, C].

    Args:
        truth: for each output the true class position or number, float64 [B], NaN if unknown;
            outputs may be missing.
        timing: position of each sample in time, for conditions over time; None: the samples are the
            consecutive steps of one trace.
    """
    allowed = {
        model.name: _allowed_set(pack, model, values, timing)
        for model in pack.manifest.knowledge
        if model.kind == "range"
    }
    return tuple(
        _measure(
            pack, model, _of_output(pack, model, allowed), values, truth.get(model.output), timing
        )
        for model in pack.manifest.knowledge
    )


def _of_output(
    pack: Pack, model: KnowledgeModel, allowed: Mapping[str, _AllowedSet]
) -> dict[str, _AllowedSet]:
    """The allowed set of each range model of the same output."""
    return {
        other.name: allowed[other.name]
        for other in pack.manifest.knowledge
        if other.name in allowed and other.output == model.output
    }


def _measure(
    pack: Pack,
    model: KnowledgeModel,
    ranges: Mapping[str, _AllowedSet],
    values: Float,
    truth: Float | None,
    timing: Timing | None,
) -> Agreement:
    none = np.zeros(values.shape[1], dtype=np.bool_)
    if model.kind == "range":
        inside = ranges[model.name]
        disjoint = _intersect(tuple(ranges.values())).empty & ~inside.empty
        right = None if truth is None else inside.contains(truth)
        return _counted(model, inside.restricted, inside.empty, disjoint, none, truth, right)
    predicted = predictions(pack, model, values, timing)
    speaks = ~np.isnan(predicted)
    outside = none.copy()
    for allowed in ranges.values():
        outside |= speaks & ~allowed.contains(predicted) & ~allowed.empty
    return _counted(
        model,
        speaks,
        none,
        none,
        outside,
        truth,
        None if truth is None else _is_right(model, predicted, truth),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _AllowedSet:
    """What a range model allows: a mask [B, K], or ends [B, 2]."""

    mask: NDArray[np.bool_] | None
    ends: Float | None
    span: tuple[float, float] | None

    @property
    def empty(self) -> NDArray[np.bool_]:
        return np.asarray(
            ~self.mask.any(axis=1)
            if self.mask is not None
            else self.interval[:, 0] > self.interval[:, 1]
        )

    @property
    def restricted(self) -> NDArray[np.bool_]:
        if self.mask is not None:
            return np.asarray(~self.mask.all(axis=1))
        low, high = self.span or (-np.inf, np.inf)
        return np.asarray((self.interval[:, 0] > low) | (self.interval[:, 1] < high))

    @property
    def interval(self) -> Float:
        assert self.ends is not None
        return self.ends

    def contains(self, answer: Float) -> NDArray[np.bool_]:
        """Whether answers [B] lie inside; an unknown one does not."""
        known = ~np.isnan(answer)
        if self.mask is None:
            return np.asarray(
                known & (answer >= self.interval[:, 0]) & (answer <= self.interval[:, 1])
            )
        place = np.where(known, answer, 0).astype(np.int64)
        return np.asarray(known & self.mask[np.arange(len(answer)), place])


def _allowed_set(
    pack: Pack, model: KnowledgeModel, values: Float, timing: Timing | None
) -> _AllowedSet:
    if model.classes:
        return _AllowedSet(mask=allowed_classes(pack, model, values, timing), ends=None, span=None)
    return _AllowedSet(
        mask=None, ends=allowed_interval(pack, model, values, timing), span=model.span
    )


def _intersect(ranges: Sequence[_AllowedSet]) -> _AllowedSet:
    """What all range models of one output allow."""
    first = ranges[0]
    if first.mask is not None:
        return replace(
            first, mask=np.logical_and.reduce([one.mask for one in ranges if one.mask is not None])
        )
    low, high = (
        np.max([one.interval[:, 0] for one in ranges], axis=0),
        np.min([one.interval[:, 1] for one in ranges], axis=0),
    )
    return replace(first, ends=np.stack([low, high], axis=1))


def _is_right(model: KnowledgeModel, predicted: Float, truth: Float) -> NDArray[np.bool_]:
    if model.classes:
        return np.asarray(predicted == truth)
    low, high = model.span if model.span is not None else (0.0, 0.0)
    return np.asarray(np.abs(predicted - truth) <= (high - low) / 40)


def _counted(
    model: KnowledgeModel,
    restricted: NDArray[np.bool_],
    empty: NDArray[np.bool_],
    disjoint: NDArray[np.bool_],
    outside: NDArray[np.bool_],
    truth: Float | None,
    right: NDArray[np.bool_] | None,
) -> Agreement:
    labelled = restricted & ~np.isnan(truth) if truth is not None else np.zeros_like(restricted)
    return Agreement(
        model=model.name,
        kind=model.kind,
        output=model.output,
        samples=int(restricted.shape[0]),
        restricted=int(restricted.sum()),
        empty=int(empty.sum()),
        first_empty=_first_position(empty),
        disjoint=int(disjoint.sum()),
        first_disjoint=_first_position(disjoint),
        outside=int(outside.sum()),
        first_outside=_first_position(outside),
        labelled=int(labelled.sum()),
        right=0 if right is None else int((labelled & right).sum()),
    )


def _first_position(found: NDArray[np.bool_]) -> int | None:
    return int(np.argmax(found)) if found.any() else None
