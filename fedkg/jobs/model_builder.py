"""From the model section of a job to the model value, for samples and answers of these shapes."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from fedkg.errors import JobError
from fedkg.jobs.schema import model_section as said
from fedkg.models import (
    MODELS,
    Model,
    PartitionedModel,
    TorchModule,
    load_torch_module,
    match_parameters,
)
from fedkg.models.graph_convolution import KnowledgeGraph


def build_model(
    section: said.Model,
    *,
    sample: Sequence[int],
    outputs: int,
    horizon: int = 0,
    graph: KnowledgeGraph | None = None,
) -> Model:
    """The model of a job.

    Args:
        sample: shape of one sample: [F], [T, F] or [channels, height, width].
        outputs: H, numbers that it answers; of a forecast those of one step. horizon: P, steps of a forecast; 0 where nothing is forecast.
        graph: what is known of the F features, where the model reads it.

    Raises:
        JobError: when the model does not read such samples, sizes do not fit, or its module cannot be imported.
    """
    kind, flat = section.kind, outputs * max(horizon, 1)
    shape = tuple(sample)
    if kind == "module":
        return _import_module(str(section.path), shape, dict(section.options), flat)
    if kind in said.WINDOW_KINDS:
        return _window_model(section, shape, outputs, max(horizon, 1))
    if kind in said.IMAGE_KINDS:
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


def head_parameters(section: said.Model, model: Model) -> tuple[str, ...]:
    """Names (or their beginnings) of the parameters that a site may keep; nothing where neither the job nor the model says so.

    Raises:
        JobError: when no parameter of the model has a name that the job marks.
    """
    if section.private or section.shared:
        names = tuple(model.init(seed=0))
        marked = match_parameters(section.private or section.shared, names)
        return marked if section.private else tuple(name for name in names if name not in marked)
    return model.parts["head"] if isinstance(model, PartitionedModel) else ()


def _window_model(section: said.Model, shape: tuple[int, ...], outputs: int, horizon: int) -> Model:
    """A model that reads windows."""
    _require_dimensions(section.kind, shape, 2, "windows [steps, features]")
    if section.kind == "transformer":
        given = {
            "width": section.width,
            "encoders": section.layers,
            "decoders": section.layers,
            "heads": section.heads,
        }
        given |= {"feed": section.feed, "dropout": section.dropout}  # type: ignore[dict-item]  # a share among counts
    else:
        assert not isinstance(section.hidden, tuple), "the schema has refused it"
        given = {"hidden": section.hidden, "layers": section.layers, "window": section.reads}
    return MODELS[section.kind](
        history=shape[0], features=shape[1], horizon=horizon, outputs=outputs, **_drop_unset(given)
    )


def _drop_unset(sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes that the job gives; the model knows its own for all others. `Any`: numbers."""
    return {name: value for name, value in sizes.items() if value is not None}


def _require_dimensions(kind: str, sample: tuple[int, ...], dimensions: int, reads: str) -> None:
    if len(sample) != dimensions:
        raise JobError(
            f"model.kind: {kind} reads {reads}",
            received=f"samples of shape {list(sample)}",
            help="choose another `model.kind`, or data of that form",
        )


def _import_module(
    path: str, sample: tuple[int, ...], options: dict[str, Any], outputs: int
) -> Model:
    """The module at ``package.file:Name`` or ``net.py:Name``; `Any`: what the job says of it."""
    place, _, name = path.rpartition(":")
    if place.endswith(".py"):
        made = getattr(_load_file(Path(place)), name, None)
        if not callable(made):
            raise JobError(
                f"model.path: {place} has no `{name}` that could be called",
                help="name a class or function of the file that builds the module, such as net.py:Net",
            )
        model = TorchModule(build=lambda: made(**options), sample=sample)
    else:
        model = load_torch_module(path, sample, **options)
    answered = model.apply(
        {key: value.unsqueeze(0) for key, value in model.init(0).items()}, torch.zeros(1, *sample)
    ).shape[-1]
    if answered != outputs:
        raise JobError(
            f"model.path: {path} answers {answered} numbers for a sample",
            expected=f"{outputs}, as the data asks for",
            help="`options` are what the module is called with",
        )
    return model


def _load_file(path: Path) -> object:
    """A Python file as a module of its own; once loaded it is kept, as imports are."""
    name = f"fedkg_job_{path.stem}_{abs(hash(str(path)))}"
    if name in sys.modules:
        return sys.modules[name]
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None or not path.is_file():
        raise JobError(
            f"model.path: there is no file {path}", help="a path is looked for beside the job file"
        )
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # before it runs: dataclasses look their module up there
    try:
        found.loader.exec_module(module)
    except Exception as error:  # whatever a user's file raises when it is loaded
        del sys.modules[name]
        raise JobError(
            f"model.path: {path} cannot be loaded: {error}",
            help="the file must run by itself: python FILE",
        ) from error
    return module
