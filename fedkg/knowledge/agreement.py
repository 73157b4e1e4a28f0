"""Whether knowledge models hold together, and with the truth, on data: assumption 5.1 of Fan et al. 2022 where it is not proven.

Letters: V views, B samples, C columns of the contract.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints.timing import Timing
from fedkg.knowledge.conditions import Float
from fedkg.knowledge.predictions import predictions
from fedkg.knowledge.ranges import allowed_classes, allowed_interval
from fedkg.pack import Pack
from fedkg.pack.knowledge import KnowledgeModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """One knowledge model on data.

    Attributes:
        samples: B. restricted: samples for which a range model leaves something out, or a prediction model predicts.
        empty: samples for which a range model allows nothing. first_empty: the first of them, or None.
        outside: samples for which a prediction lies outside of the ranges of its output. first_outside: the first of them, or None.
        labelled: samples of which the truth is known as well, among `restricted`; right: those of them that the model is right about
            (the truth lies in the range, the prediction is the truth; numbers: within half a bin of 20 over the span).
    """

    model: str
    kind: str
    samples: int
    restricted: int
    empty: int
    first_empty: int | None
    outside: int
    first_outside: int | None
    labelled: int
    right: int


def agreement(pack: Pack, values: Float, truth: dict[str, Float], timing: Timing | None = None) -> tuple[Agreement, ...]:
    """Every knowledge model of a pack on samples [V, B, C].

    Args:
        truth: for each output the true class position or number, float64 [B], NaN where unknown; outputs may be left out.
        timing: where each sample stands in time, for conditions over time; None: the samples are the steps of one trace, in their order.
    """
    ranges = [model for model in pack.manifest.knowledge if model.kind == "range"]
    return tuple(_one(pack, model, ranges, values, truth.get(model.output), timing) for model in pack.manifest.knowledge)


def _one(
    pack: Pack, model: KnowledgeModel, ranges: list[KnowledgeModel], values: Float, truth: Float | None, timing: Timing | None
) -> Agreement:
    batch = values.shape[1]
    none = np.zeros(batch, dtype=np.bool_)
    if model.kind == "range":
        inside = _inside(pack, model, values, timing)
        empty = inside.empty
        return _counted(model, inside.restricted, empty, none, truth, None if truth is None else inside.contains(truth))
    said = predictions(pack, model, values, timing)
    speaks = ~np.isnan(said)
    outside = none.copy()
    for other in ranges:
        if other.output == model.output:
            allowed = _inside(pack, other, values, timing)
            outside |= speaks & ~allowed.contains(said) & ~allowed.empty
    return _counted(model, speaks, none, outside, truth, None if truth is None else _is_right(model, said, truth))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Inside:
    """What a range model allows: a mask [B, K], or ends [B, 2]."""

    mask: NDArray[np.bool_] | None
    ends: Float | None
    span: tuple[float, float] | None

    @property
    def empty(self) -> NDArray[np.bool_]:
        return np.asarray(~self.mask.any(axis=1) if self.mask is not None else self._ends[:, 0] > self._ends[:, 1])

    @property
    def restricted(self) -> NDArray[np.bool_]:
        if self.mask is not None:
            return np.asarray(~self.mask.all(axis=1))
        low, high = self.span or (-np.inf, np.inf)
        return np.asarray((self._ends[:, 0] > low) | (self._ends[:, 1] < high))

    @property
    def _ends(self) -> Float:
        assert self.ends is not None
        return self.ends

    def contains(self, answer: Float) -> NDArray[np.bool_]:
        """Whether answers [B] lie inside; an unknown one does not."""
        known = ~np.isnan(answer)
        if self.mask is None:
            return np.asarray(known & (answer >= self._ends[:, 0]) & (answer <= self._ends[:, 1]))
        place = np.where(known, answer, 0).astype(np.int64)
        return np.asarray(known & self.mask[np.arange(len(answer)), place])


def _inside(pack: Pack, model: KnowledgeModel, values: Float, timing: Timing | None) -> _Inside:
    if model.classes:
        return _Inside(mask=allowed_classes(pack, model, values, timing), ends=None, span=None)
    return _Inside(mask=None, ends=allowed_interval(pack, model, values, timing), span=model.span)


def _is_right(model: KnowledgeModel, said: Float, truth: Float) -> NDArray[np.bool_]:
    if model.classes:
        return np.asarray(said == truth)
    low, high = model.span if model.span is not None else (0.0, 0.0)
    return np.asarray(np.abs(said - truth) <= (high - low) / 40)


def _counted(
    model: KnowledgeModel,
    restricted: NDArray[np.bool_],
    empty: NDArray[np.bool_],
    outside: NDArray[np.bool_],
    truth: Float | None,
    right: NDArray[np.bool_] | None,
) -> Agreement:
    labelled = restricted & ~np.isnan(truth) if truth is not None else np.zeros_like(restricted)
    return Agreement(
        model=model.name,
        kind=model.kind,
        samples=int(restricted.shape[0]),
        restricted=int(restricted.sum()),
        empty=int(empty.sum()),
        first_empty=int(np.argmax(empty)) if empty.any() else None,
        outside=int(outside.sum()),
        first_outside=int(np.argmax(outside)) if outside.any() else None,
        labelled=int(labelled.sum()),
        right=0 if right is None else int((labelled & right).sum()),
    )
