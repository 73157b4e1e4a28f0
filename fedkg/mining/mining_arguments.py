"""Checks of the arguments of mining: pack, inference, traces and pick."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedkg._internal.value_description import describe_value
from fedkg.constraints.binding.layout import InputLayout
from fedkg.errors import KnowledgeError, LayoutError
from fedkg.mining.level_selection import Pick
from fedkg.pack import Pack
from fedkg.pack.parameter_mining_tasks import Inference


# `Any`: these functions check values of any type.
def check_pack(pack: Any) -> None:
    """Raise KnowledgeError unless the argument is a pack."""
    if not isinstance(pack, Pack):
        raise KnowledgeError(
            "the first argument of mining must be a pack",
            expected="a pack",
            received=describe_value(pack),
            help="fedkg.compile(FILE)",
        )


def check_inference(pack: Any, inference: Any) -> None:
    """Raise KnowledgeError unless the arguments are a pack and one of its inferences."""
    check_pack(pack)
    if not isinstance(inference, Inference):
        names = ", ".join(one.name for one in pack.manifest.inferences) or "no inference"
        raise KnowledgeError(
            "`inference` must be an inference of the pack",
            expected=f"one of pack.manifest.inferences ({names})",
            received=describe_value(inference),
            help="[found] = [one for one in pack.manifest.inferences if one.name == NAME]",
        )


def check_traces(x: Any, layout: Any, inside: Any) -> None:
    """Raise LayoutError unless traces are a tensor with a layout, and `inside` is a bool tensor."""
    if not isinstance(x, Tensor):
        raise LayoutError(
            "traces must be a tensor",
            expected="[C, S, T, F]: clients, samples, time steps, features",
            received=describe_value(x),
            help="torch.tensor(x, dtype=torch.float64)",
        )
    if not isinstance(layout, InputLayout):
        raise LayoutError(
            "`layout` must be a layout that names the features",
            received=describe_value(layout),
            help='layout=fedkg.columns(["volume"])',
        )
    if inside is not None and not (isinstance(inside, Tensor) and inside.dtype == torch.bool):
        right = (
            "inside.bool()"
            if isinstance(inside, Tensor)
            else "torch.tensor(inside, dtype=torch.bool)"
        )
        raise LayoutError(
            "`inside` must mark the existing traces with a bool tensor",
            expected="a bool tensor [C, S]",
            received=describe_value(inside),
            help=right,
        )


def check_pick(pick: Any) -> None:
    """Raise KnowledgeError unless the argument chooses one of many levels."""
    if not isinstance(pick, Pick):
        right = (
            f"pick=quantile({float(pick):g})"
            if isinstance(pick, float | int) and 0 < pick <= 1
            else "pick=quantile(0.95)"
        )
        raise KnowledgeError(
            "`pick` must be a choice of one level of the traces",
            expected="least, quantile(...) or private(...)",
            received=describe_value(pick),
            help=right,
        )


def check_method(method: Any) -> None:
    """Raise KnowledgeError for an unknown method."""
    if method not in ("exact", "bisection"):
        raise KnowledgeError(
            "unknown mining method",
            expected='method="exact" or method="bisection"',
            received=repr(method),
        )
