"""Evaluate the rules' knowledge for the samples of a data set, as additional input columns.

Letters: N samples, T steps of a window, F features, C columns of the contract, K classes, O
predicted numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedkg.data import Scaling
from fedkg.data.sets import DataSet
from fedkg.errors import JobError
from fedkg.federated import Clients
from fedkg.federated.model.constrained_outputs import EXCLUDED, Informed
from fedkg.federated.model.knowledge_columns import UNKNOWN
from fedkg.jobs.schema.job import Job
from fedkg.jobs.schema.model_section import Inject
from fedkg.knowledge import allowed_classes, allowed_interval, predictions
from fedkg.models import Model
from fedkg.pack import Column, DataContract, Pack
from fedkg.pack.knowledge_models import KnowledgeModel

F64 = NDArray[np.float64]


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


def knowledge_columns(
    pack: Pack, data: DataSet, inject: Inject, outputs: Scaling | None, channels: Mapping[str, str]
) -> F64:
    """The knowledge columns.

    For classes [N, K + 1], for numbers [N, 3 O] in the scale of the outputs.

    Args:
        outputs: the scaling of the O numbers.
        channels: the name in the rules of each number, or of the label.

    Raises:
        JobError: the rules have no knowledge of the outputs, or their classes differ.
    """
    kinds = (*(("range",) if inject.range else ()), *(("predict",) if inject.predict else ()))
    known = [
        model
        for model in pack.manifest.knowledge
        if model.output in channels.values() and model.kind in kinds
    ]
    if not known:
        there = ", ".join(
            f"{model.kind} knowledge `{model.name}` of `{model.output}`"
            for model in pack.manifest.knowledge
        )
        of = " or ".join(f"`{name}`" for name in channels.values() if name) or "what is predicted"
        raise JobError(
            f"model.inject: the rules contain no {' or '.join(kinds)} knowledge about {of}",
            received=there or "no knowledge",
            help="add the knowledge to the rule file, or remove `model.inject`",
        )
    values = contract_values(pack.manifest.contract, data)
    if outputs is None:
        return _class_knowledge(pack, known, values, data)
    columns = []
    for place, name in enumerate(outputs.names):
        mean, std = float(outputs.mean[place]), float(outputs.std[place])
        own = [model for model in known if model.output == channels[name]]
        columns.append((_number_knowledge(pack, own, values) - mean) / std)
    return np.nan_to_num(np.clip(np.concatenate(columns, axis=1), -UNKNOWN, UNKNOWN), nan=UNKNOWN)


def _class_knowledge(pack: Pack, known: list[KnowledgeModel], values: F64, data: DataSet) -> F64:
    wrong = next((model for model in known if model.classes != data.classes), None)
    if wrong is not None:
        raise JobError(
            f"model.inject: `{wrong.name}` has other classes than the data",
            expected=", ".join(data.classes[:10]),
            received=", ".join(wrong.classes[:10]) or "a number",
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


def count_excluded_labels(job: Job, model: Model, clients: Clients) -> list[int]:
    """The number of training labels of each site that injected ranges exclude.

    No numbers for a protected job, because they are not noised, and without such ranges.
    """
    if not isinstance(model, Informed) or model.range is None or job.privacy is not None:
        return []
    allowed = [model.range(x if x.ndim == 2 else x[:, -1]) for x in clients.x]
    return [
        int((some & ~some.gather(1, y[:, None])).any(1).sum())
        for some, y in zip(allowed, clients.y, strict=True)
    ]  # an empty range has no effect


def note_excluded_labels(pack: Pack, clients: Clients, counts: Sequence[int]) -> tuple[str, ...]:
    """A note about training labels that injected ranges exclude; their loss does not depend on the
    model.

    Args:
        counts: of each site, see `count_excluded_labels`.
    """
    if not any(counts):
        return ()
    names = ", ".join(
        f"`{known.name}`"
        for known in pack.manifest.knowledge
        if known.kind == "range" and known.classes
    )
    where = ", ".join(name for name, count in zip(clients.names, counts, strict=True) if count)
    of = f"{sum(counts):,} of {sum(clients.samples):,} training labels (at {where})"
    return (
        (
            f"{names} excludes {of}: each adds a constant loss of {-EXCLUDED:,.0f}, and has "
            "no gradient"
        ),
    )


def append_columns(x: F64, columns: F64) -> F64:
    """Samples [N, F] or windows [N, T, F] with columns appended to the features at every step."""
    spread = columns[:, None].repeat(x.shape[1], axis=1) if x.ndim == 3 else columns
    return np.concatenate([x, spread], axis=-1)
