"""Evaluate the rules' knowledge for the samples of a data set, as additional input columns.

Letters: N samples, T steps of a window, F features, C columns of the contract, K classes, O
predicted numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.constraints.binding.layout import pixel_names
from fedkg.data import Scaling
from fedkg.data.sets import DataSet
from fedkg.errors import JobError
from fedkg.federated import Clients
from fedkg.federated.model.knowledge_bounded_models import UNKNOWN
from fedkg.jobs.experiment.site_knowledge import (
    GENERATED,
    Said,
    SiteKnowledge,
    TrainedPredictor,
    last_step,
    sources_of,
)
from fedkg.knowledge import allowed_classes, allowed_interval, predictions
from fedkg.pack import Column, DataContract, Pack
from fedkg.pack.knowledge_models import KnowledgeModel

F64 = NDArray[np.float64]


def with_pixel_names(data: DataSet) -> DataSet:
    """Images as rows of pixels with the names that rules, tables and models read, such as
    ``grey (pixel 12)``; other data unchanged.
    """
    if data.x.ndim != 4:
        return data
    pixels = data.x.shape[2] * data.x.shape[3]
    names = pixel_names(data.features, pixels)
    units = tuple(unit for unit in data.units for _ in range(pixels))
    return replace(data, x=data.x.reshape(len(data.x), -1), features=names, units=units)


def contract_values(contract: DataContract, data: DataSet) -> F64:
    """Samples as the contract's columns, [V, N, C] in source units; of windows the last step.

    NaN if the data has no such column.
    """
    x = (
        data.x[:, -1]
        if data.x.ndim == 3
        else data.x.reshape(len(data.x), math.prod(data.x.shape[1:]))
    )
    values = np.full((len(contract.views), len(x), len(contract.columns)), np.nan)
    places = {name: place for place, name in enumerate(data.features)}
    for position, column in enumerate(contract.columns):
        if column.role == "output":
            continue
        if column.type == "category":
            values[:, :, position] = category_codes(column, data)
        elif (place := places.get(column.source, places.get(column.name, -1))) >= 0:
            values[0, :, position] = x[:, place]
    return values


def category_codes(column: Column, data: DataSet) -> NDArray[np.int64]:
    """The codes [N] of a one-hot encoded category (``Type=L``); -1 for none or another text."""
    x = (
        data.x[:, -1]
        if data.x.ndim == 3
        else data.x.reshape(len(data.x), math.prod(data.x.shape[1:]))
    )
    codes = np.full(len(x), -1, dtype=np.int64)
    for code, text in enumerate(column.vocabulary):
        for name in (f"{column.source}={text}", f"{column.name}={text}"):
            if name in data.features:
                codes[x[:, data.features.index(name)] > 0.5] = code
    return codes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnForm:
    """The form of knowledge columns: what they say for which task.

    For classes [N, K + 1]: whether each class is allowed, then the predicted class plus 1, 0 for
    none. For numbers [N, 3 O]: for each number the lower bound, the upper bound and the prediction
    in the scale of the outputs, `UNKNOWN` for none. With `sites`, one more column has the position
    of the site of each sample, counted from 1; 0 for none.

    Attributes:
        classes: names of the K classes; empty for numbers.
        outputs: the scaling of the O numbers; None for classes.
        channels: the name in the rules of each number, or of the label.
        kinds: the kinds of knowledge to inject.
        sites: whether sites have knowledge or a trust of their own.
        chance: whether the number is the probability of a label that is 0 or 1.
    """

    classes: tuple[str, ...]
    outputs: Scaling | None
    channels: Mapping[str, str]
    kinds: tuple[str, ...]
    sites: bool = False
    chance: bool = False

    @property
    def width(self) -> int:
        """Number of columns without that of the site."""
        return 3 * len(self.outputs.names) if self.outputs is not None else len(self.classes) + 1

    def blank(self, samples: int) -> F64:
        """Columns that say nothing, [samples, width]."""
        if self.outputs is None:
            return np.tile(np.array([1.0] * len(self.classes) + [0.0]), (samples, 1))
        each = [-UNKNOWN, UNKNOWN, UNKNOWN]
        return np.tile(np.array(each * len(self.outputs.names)), (samples, 1))

    def merge(self, first: F64, second: F64) -> F64:
        """The columns of two sources: ranges intersect, the first prediction counts."""
        if self.outputs is None:
            predicted = np.where(first[:, -1:] > 0, first[:, -1:], second[:, -1:])
            return np.concatenate([first[:, :-1] * second[:, :-1], predicted], axis=1)
        known = np.abs(first[:, 2::3]) < UNKNOWN
        merged = np.empty_like(first)
        merged[:, 0::3] = np.maximum(first[:, 0::3], second[:, 0::3])
        merged[:, 1::3] = np.minimum(first[:, 1::3], second[:, 1::3])
        merged[:, 2::3] = np.where(known, first[:, 2::3], second[:, 2::3])
        return merged

    def contradicts_itself(self, columns: F64) -> NDArray[np.bool_]:
        """Whether the range of each sample is empty, [N]."""
        if self.outputs is None:
            return np.asarray(~(columns[:, : len(self.classes)] > 0.5).any(axis=1))
        end = self.width
        return np.asarray((columns[:, 0:end:3] > columns[:, 1:end:3]).any(axis=1))

    def predicts_outside(self, columns: F64) -> NDArray[np.bool_]:
        """Whether the range of each sample excludes its prediction, [N]; False for an empty
        range.
        """
        sound = ~self.contradicts_itself(columns)
        if self.outputs is None:
            place = columns[:, len(self.classes)].astype(np.int64) - 1
            allowed = columns[np.arange(len(place)), np.maximum(place, 0)] > 0.5
            return np.asarray(sound & (place >= 0) & ~allowed)
        low, high, number = (columns[:, part : self.width : 3] for part in range(3))
        away = ROUNDING * np.maximum(1.0, np.abs(number))
        outside = (np.abs(number) < UNKNOWN) & ((number < low - away) | (number > high + away))
        return np.asarray(sound & outside.any(axis=1))

    def excludes(self, columns: F64, y: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether the range of each sample excludes its label, [N]; False for an empty range.

        Args:
            y: classes [N], or numbers [N] or [N, P O] in the scale of the outputs.
        """
        sound = ~self.contradicts_itself(columns)
        if self.outputs is None:
            return np.asarray(sound & (columns[np.arange(len(y)), y.astype(np.int64)] < 0.5))
        end, numbers = self.width, len(self.outputs.names)
        low, high = columns[:, None, 0:end:3], columns[:, None, 1:end:3]
        steps = y.reshape(len(y), -1, numbers)
        if self.chance:  # a label is excluded only if its probability is 0
            outside = ((steps > 0.5) & (high <= 0)) | ((steps < 0.5) & (low >= 1))
            return np.asarray(sound & outside.any(axis=(1, 2)))
        away = ROUNDING * np.maximum(1.0, np.abs(steps))
        outside = (steps < low - away) | (steps > high + away)  # False if y is unknown
        return np.asarray(sound & outside.any(axis=(1, 2)))

    def describe_label(self, label: NDArray[Any], units: Sequence[str]) -> str:
        """The class, or the numbers with their source units, of one label in the scale of the
        outputs.
        """
        if self.outputs is None:
            return self.classes[int(label)]
        names = self.outputs.names if len(self.outputs.names) > 1 else ("",)
        steps = label.reshape(-1, len(names)) * self.outputs.std + self.outputs.mean
        return "; ".join(
            f"{name} {', '.join(f'{number:.6g}' for number in own)} {unit}".strip()
            for name, own, unit in zip(names, steps.T, units, strict=True)
        )

    def admit(self, columns: F64, y: NDArray[Any], where: NDArray[np.bool_]) -> F64:
        """The columns with the labels of some samples added to their ranges."""
        widened = columns.copy()
        if self.outputs is None:
            widened[where, y[where].astype(np.int64)] = 1.0
            return widened
        steps = y[where].reshape(int(where.sum()), -1, len(self.outputs.names))
        end = self.width
        lowest, highest = np.nanmin(steps, axis=1), np.nanmax(steps, axis=1)
        widened[where, 0:end:3] = np.fmin(widened[where, 0:end:3], lowest)
        widened[where, 1:end:3] = np.fmax(widened[where, 1:end:3], highest)
        return widened

    def encode(self, said: Said) -> F64:
        """The columns of what one source says about samples of one answer."""
        first = said.allowed if said.allowed is not None else said.predicted
        assert first is not None, "a source says something"
        columns = self.blank(len(first))
        allowed = said.allowed if "range" in self.kinds else None
        predicted = said.predicted if "predict" in self.kinds else None
        if self.outputs is None:
            if allowed is not None:
                columns[:, :-1] = allowed
            if predicted is not None:
                columns[:, -1] = np.nan_to_num(predicted + 1.0)
            return columns
        if allowed is not None:
            columns[:, :2] = self._scaled(allowed, 0)
        if predicted is not None:
            columns[:, 2] = self._scaled(predicted, 0)
        return columns

    def encode_pack(self, pack: Pack, data: DataSet, *, place: str = "model.inject") -> F64 | None:
        """The columns of a pack's knowledge about the outputs; None if it has none.

        Args:
            place: the field of the job, for messages.

        Raises:
            JobError: the classes of the knowledge are not those of the data.
        """
        known = self.select(pack)
        if not known:
            return None
        values = contract_values(pack.manifest.contract, data)
        if self.outputs is None:
            return _class_knowledge(pack, known, values, data, place)
        columns = []
        for number, name in enumerate(self.outputs.names):
            own = self.about(known, name)
            columns.append(self._scaled(_number_knowledge(pack, own, values), number))
        return np.concatenate(columns, axis=1)

    def about(self, known: Sequence[KnowledgeModel], number: str) -> list[KnowledgeModel]:
        """The knowledge models about one of the O numbers."""
        return [one for one in known if one.output in (self.channels[number], GENERATED)]

    def select(self, pack: Pack) -> list[KnowledgeModel]:
        """The knowledge models of a pack that apply to the outputs."""
        names = {*self.channels.values(), GENERATED}
        return [
            model
            for model in pack.manifest.knowledge
            if model.kind in self.kinds and (model.output in names or names == {"", GENERATED})
        ]

    def _scaled(self, values: F64, number: int) -> F64:
        """Bounds and predictions of one number in its scale, `UNKNOWN` where there is none."""
        assert self.outputs is not None, "numbers are scaled"
        mean, std = float(self.outputs.mean[number]), float(self.outputs.std[number])
        scaled = (values - mean) / std
        return np.nan_to_num(np.clip(scaled, -UNKNOWN, UNKNOWN), nan=UNKNOWN)


ROUNDING = 1e-5
"""Relative distance between a label and a bound that float32 cannot tell apart."""


def knowledge_columns(pack: Pack, data: DataSet, form: ColumnForm) -> F64:
    """The knowledge columns of the rules of a job, [N, width].

    Raises:
        JobError: the rules have no knowledge of the outputs, or their classes differ.
    """
    columns = form.encode_pack(pack, data)
    if columns is None:
        there = ", ".join(
            f"{model.kind} knowledge `{model.name}` of `{model.output}`"
            for model in pack.manifest.knowledge
        )
        names = form.channels.values()
        of = " or ".join(f"`{name}`" for name in names if name) or "what is predicted"
        raise JobError(
            f"model.inject: the rules contain no {' or '.join(form.kinds)} knowledge about {of}",
            received=there or "no knowledge",
            help="add the knowledge to the rule file, or remove `model.inject`",
        )
    return columns


def site_columns(
    known: SiteKnowledge, predictor: TrainedPredictor | None, data: DataSet, form: ColumnForm
) -> F64:
    """The knowledge columns of a site's own knowledge about samples, [N, width].

    Args:
        predictor: the predictor that the site trained, if it trains one.
        data: samples in source units.

    Raises:
        JobError: the knowledge does not fit the data; the message names the site.
    """
    columns = form.blank(data.samples)
    for pack in known.packs:
        _require_columns(known, pack, data)
        own = form.encode_pack(pack, data, place=known.place)
        if own is None and not pack.manifest.knowledge:
            raise JobError(
                f"{known.place}: the rules contain no knowledge",
                help="write the knowledge into the file, or remove it from `knowledge`",
            )
        if own is None and not {one.kind for one in pack.manifest.knowledge}.isdisjoint(form.kinds):
            raise JobError(
                f"{known.place}: the knowledge is about another output",
                expected=", ".join(filter(None, form.channels.values())),
                received=", ".join(sorted({one.output for one in pack.manifest.knowledge})),
                help="name the output of the job in the knowledge",
            )
        columns = columns if own is None else form.merge(columns, own)
    for source in sources_of(known, predictor):
        columns = form.merge(columns, form.encode(source(last_step(data))))
    return columns


def _require_columns(known: SiteKnowledge, pack: Pack, data: DataSet) -> None:
    """Raise JobError if the rules of a site read columns that the data lacks, or in other units."""
    for column in pack.manifest.contract.columns:
        if column.role == "output":
            continue
        names: tuple[str, ...] = (column.source, column.name)
        if column.type == "category":
            names = tuple(f"{name}={text}" for name in names for text in column.vocabulary)
        place = next((data.features.index(name) for name in names if name in data.features), None)
        if place is None:
            raise JobError(
                f"{known.place}: the rules read `{column.name}`, which is not a feature "
                "of the data",
                expected=", ".join(data.features[:20]),
                received=column.source,
                help='name the column, `signal NAME column "HEADER"`; with `data.set: table` the '
                "features are the columns that the rules of the job read",
            )
        unit = data.units[place]
        if column.type == "real" and unit and column.unit and unit != column.unit:
            raise JobError(
                f"{known.place}: `{column.name}` has another unit than the data",
                expected=unit,
                received=column.unit,
                help="declare the signal in the unit of the data",
            )


def _class_knowledge(
    pack: Pack, known: list[KnowledgeModel], values: F64, data: DataSet, place: str
) -> F64:
    wrong = next((model for model in known if model.classes != data.classes), None)
    if wrong is not None:
        raise JobError(
            f"{place}: `{wrong.name}` has other classes than the data",
            expected=", ".join(data.classes[:10]),
            received=", ".join(wrong.classes[:10]) or "a number",
            help="use the same classes in the rules as in the data",
        )
    allowed = np.ones((data.samples, len(data.classes)), dtype=np.bool_)
    predicted = np.full(data.samples, np.nan)
    for model in known:
        if model.kind == "range":
            allowed &= allowed_classes(pack, model, values)
        else:
            predicted = np.where(np.isnan(predicted), predictions(pack, model, values), predicted)
    return np.concatenate(
        [allowed.astype(np.float64), np.nan_to_num(predicted + 1.0)[:, None]], axis=1
    )


def _number_knowledge(pack: Pack, known: list[KnowledgeModel], values: F64) -> F64:
    """Lower bound, upper bound and prediction [N, 3] in source units.

    Infinite or NaN if unknown.
    """
    low, high = np.full(values.shape[1], -np.inf), np.full(values.shape[1], np.inf)
    predicted = np.full(values.shape[1], np.nan)
    for model in known:
        if model.kind == "range":
            interval = allowed_interval(pack, model, values)
            low, high = np.maximum(low, interval[:, 0]), np.minimum(high, interval[:, 1])
        else:
            predicted = np.where(np.isnan(predicted), predictions(pack, model, values), predicted)
    return np.stack([low, high, predicted], axis=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reconciled:
    """The sites after the policy for excluded labels.

    Attributes:
        clients: their samples.
        excluded: the number of excluded training labels of each site.
    """

    clients: Clients
    excluded: tuple[int, ...]


def reconcile_labels(
    clients: Clients,
    form: ColumnForm,
    shape: Sequence[int],
    policy: str,
    *,
    rows: Sequence[NDArray[np.int64]] | None = None,
    units: Sequence[str] = ("",),
) -> Reconciled:
    """Apply the policy for training labels that injected ranges exclude (Fan et al. 2022,
    assumption 5.1).

    Args:
        clients: the sites; of those that keep their samples elsewhere nothing is known.
        form: the form of the knowledge columns, which are the last ones of each sample.
        shape: shape of a sample before it is flattened.
        policy: ``error``, ``drop`` or ``repair``, see `Inject.policy`.
        rows: of each site, the source rows of its samples, counted from 0; -1 for none. None: the
            message must not contain a sample or label.
        units: of the O numbers.

    Raises:
        JobError: labels are excluded and the policy is ``error``, or ``drop`` leaves no sample of
            a site; the message names the site and the first sample.
    """
    excluded, xs, ys = [], list(clients.x), list(clients.y)
    keys = {name: list(codes) for name, codes in clients.keys.items()}
    counts = list(clients.samples)
    for place, (name, x, y) in enumerate(zip(clients.names, clients.x, clients.y, strict=True)):
        columns = read_columns(x, shape, form).double().numpy()
        wrong = form.excludes(columns, y.numpy()) if len(x) else np.zeros(0, dtype=bool)
        excluded.append(int(wrong.sum()))
        if not excluded[-1]:
            continue
        if policy == "repair":
            xs[place] = with_columns(x, shape, form, form.admit(columns, y.numpy(), wrong))
            continue
        if policy == "drop" and not wrong.all():
            kept = torch.from_numpy(~wrong)
            xs[place], ys[place], counts[place] = x[kept], y[kept], int(kept.sum())
            for codes in keys.values():
                codes[place] = codes[place][kept]
            continue
        first, shown = int(wrong.argmax()), ""
        if rows is not None:
            row = int(rows[place][first])
            shown = f"training sample {first + 1}{f' (row {row + 1})' if row >= 0 else ''} "
            shown += f"with label {form.describe_label(y[first].numpy(), units)} is the first"
        raise JobError(
            f"site {name}: its ranges exclude {excluded[-1]:,} of {len(x):,} training labels",
            received=shown,
            help="correct the knowledge or the labels; or set `model.inject.policy` to `repair`, "
            "which adds the label to the range of the sample"
            + (
                "; `drop` would leave the site without samples"
                if wrong.all()
                else ", or to `drop`, which leaves the sample out"
            ),
        )
    return Reconciled(
        clients=replace(
            clients,
            x=tuple(xs),
            y=tuple(ys),
            keys={name: tuple(codes) for name, codes in keys.items()},
            counts=None if clients.counts is None else tuple(counts),
        ),
        excluded=tuple(excluded),
    )


def note_excluded_labels(
    names: Sequence[str], excluded: Sequence[int], policy: str
) -> tuple[str, ...]:
    """A note about training labels that injected ranges exclude, at each site of `names`."""
    if not any(excluded):
        return ()
    where = ", ".join(
        f"{count:,} at {name}" for name, count in zip(names, excluded, strict=True) if count
    )
    done = (
        "these samples are left out" if policy == "drop" else "their ranges now contain the label"
    )
    return (f"ranges exclude training labels ({where}): {done}",)


def note_contradictions(form: ColumnForm, columns: Mapping[str, F64]) -> tuple[str, ...]:
    """Notes about knowledge that contradicts itself, which models ignore, by the columns of each
    site.
    """
    notes = []
    for contradicted, text in (
        (form.contradicts_itself, "ranges contradict each other ({}): they do not restrict these"),
        (form.predicts_outside, "predictions are outside their ranges ({}): fedkg ignores these"),
    ):
        counts = {site: int(contradicted(own).sum()) for site, own in columns.items()}
        where = ", ".join(
            f"{count:,} of {len(columns[site]):,} samples at {site}"
            for site, count in counts.items()
            if count
        )
        if where:
            notes.append(text.format(where))
    return tuple(notes)


def read_columns(x: Tensor, shape: Sequence[int], form: ColumnForm) -> Tensor:
    """The knowledge columns of model inputs, [N, width]."""
    last = _unflattened(x, shape)
    last = last[:, -1] if len(shape) == 2 else last
    end = last.shape[-1] - form.sites
    return last[:, end - form.width : end]


def with_columns(x: Tensor, shape: Sequence[int], form: ColumnForm, columns: F64) -> Tensor:
    """A copy of model inputs with other knowledge columns [N, width]."""
    copied = x.clone()
    values = torch.from_numpy(columns).to(x.dtype)
    whole = _unflattened(copied, shape)
    end = whole.shape[-1] - form.sites
    whole[..., end - form.width : end] = values.unsqueeze(1) if len(shape) == 2 else values
    return copied


def _unflattened(x: Tensor, shape: Sequence[int]) -> Tensor:
    """A view of model inputs [N, ...] in their shape, without codes."""
    if x.ndim == len(shape) + 1 and x.shape[1:] == tuple(shape):
        return x
    flat = x[:, : math.prod(shape)]
    return torch.unflatten(flat, 1, tuple(shape))


def append_columns(x: F64, columns: F64) -> F64:
    """Samples [N, F] or windows [N, T, F] with columns appended to the features at every step;
    images are flattened.
    """
    x = x.reshape(len(x), -1) if x.ndim == 4 else x
    spread = columns[:, None].repeat(x.shape[1], axis=1) if x.ndim == 3 else columns
    return np.concatenate([x, spread], axis=-1)
