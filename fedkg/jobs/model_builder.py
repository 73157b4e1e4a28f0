"""Build the model of a trial from the model section of its job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from fedkg._internal.user_code import LackOfMemory, load_object
from fedkg.errors import JobError
from fedkg.jobs.schema import model_section as schema
from fedkg.models import MODELS, Model, PartitionedModel, TorchModule, match_parameters
from fedkg.models.graph_convolution import KnowledgeGraph


def build_model(
    section: schema.Model,
    *,
    sample: Sequence[int],
    outputs: int,
    horizon: int = 0,
    graph: KnowledgeGraph | None = None,
) -> Model:
    """The model of a job.

    Args:
        sample: shape of one sample: [F], [T, F] or [channels, height, width].
        outputs: H, number of outputs; for a forecast, per step.
        horizon: P, steps of a forecast; 0 without a forecast.
        graph: the knowledge graph of the F features, if the model reads one.

    Raises:
        JobError: the model does not accept this sample shape, sizes do not fit, or the module
            cannot be imported.
    """
    kind, flat = section.kind, outputs * max(horizon, 1)
    shape = tuple(sample)
    if kind == "module":
        return _import_module(str(section.path), shape, dict(section.options), flat)
    if kind in schema.WINDOW_KINDS:
        return _window_model(section, shape, outputs, max(horizon, 1))
    if kind in schema.IMAGE_KINDS:
        _require_dimensions(kind, shape, 3, "images [channels, height, width]")
        return MODELS[kind](image=shape, outputs=flat)
    inputs = shape[0] if len(shape) == 1 else shape
    if kind == "tabnet":
        _require_dimensions(kind, shape, 1, "rows [features]")
        given = {"steps": section.steps, "width": section.width, "graph": graph}
        given |= {"convolutions": section.graph.convolutions} if section.graph is not None else {}
        return MODELS[kind](inputs=inputs, outputs=flat, **_drop_unset(given))
    if kind == "softmax":
        return MODELS[kind](inputs=inputs, outputs=flat)
    hidden = (
        (32, 32)
        if section.hidden is None
        else (section.hidden,)
        if isinstance(section.hidden, int)
        else section.hidden
    )
    return MODELS[kind](
        inputs=inputs, hidden=hidden, outputs=flat, **_drop_unset({"dropout": section.dropout})
    )


def head_parameters(section: schema.Model, model: Model) -> tuple[str, ...]:
    """Names (or prefixes) of the parameters that a site may keep.

    Empty if neither the job nor the model marks any.

    Raises:
        JobError: no parameter of the model has a name that the job marks.
    """
    if section.private or section.shared:
        names = tuple(model.init(seed=0))
        marked = match_parameters(section.private or section.shared, names)
        return marked if section.private else tuple(name for name in names if name not in marked)
    return model.parts["head"] if isinstance(model, PartitionedModel) else ()


def _window_model(
    section: schema.Model, shape: tuple[int, ...], outputs: int, horizon: int
) -> Model:
    """A model that reads windows of a series."""
    _require_dimensions(section.kind, shape, 2, "windows [steps, features]")
    if section.kind == "transformer":
        given = {
            "width": section.width,
            "encoders": section.layers,
            "decoders": section.layers,
            "heads": section.heads,
        }
        given |= {"feed": section.feed, "dropout": section.dropout}  # type: ignore[dict-item]
    else:
        assert not isinstance(section.hidden, tuple), "rejected by the schema"
        given = {"hidden": section.hidden, "layers": section.layers, "window": section.reads}
    return MODELS[section.kind](
        history=shape[0], features=shape[1], horizon=horizon, outputs=outputs, **_drop_unset(given)
    )


def _drop_unset(sizes: Mapping[str, Any]) -> dict[str, Any]:
    """The sizes that the job sets; the model has defaults for the others. `Any`: numbers."""
    return {name: value for name, value in sizes.items() if value is not None}


def _require_dimensions(kind: str, sample: tuple[int, ...], dimensions: int, reads: str) -> None:
    if len(sample) != dimensions:
        raise JobError(
            f"model.kind: {kind} reads {reads}",
            received=f"samples of shape {list(sample)}",
            help="choose another `model.kind`, or data of this shape",
        )


def _import_module(
    path: str, sample: tuple[int, ...], options: dict[str, Any], outputs: int
) -> Model:
    """The module at ``package.file:Name`` or ``net.py:Name``. `Any`: options from the job."""
    made = load_object(path, "model.path")
    try:
        model = TorchModule(build=partial(made, **options), sample=sample)
    except JobError as error:
        raise JobError(
            f"model.path: {path} cannot be created with `model.options` "
            f"({', '.join(options) or 'none'}): {error.message}",
            expected=error.expected,
            received=error.received,
            help=error.help
            if isinstance(error, LackOfMemory)
            else "correct `model.options`, or the module in the file",
        ) from error
    answered = model.apply(
        {key: value.unsqueeze(0) for key, value in model.init(0).items()}, torch.zeros(1, *sample)
    ).shape[-1]
    if answered != outputs:
        raise JobError(
            f"model.path: {path} returns {answered} numbers per sample",
            expected=f"{outputs}, one per output of the data",
            help="correct the module, or pass it the number of outputs in `model.options`",
        )
    return model
