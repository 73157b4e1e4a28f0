"""What people give to mining, looked at before anything is computed: a pack and one of its inferences, traces, a pick."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedkg._internal.messages import describe_value
from fedkg.constraints.binding.layout import InputLayout
from fedkg.errors import KnowledgeError, LayoutError
from fedkg.mining.pick import Pick
from fedkg.pack import Pack
from fedkg.pack.inference import Inference


# `Any` here: what people give may be anything.
def check_pack(pack: Any) -> None:
    """Raise KnowledgeError unless it is a pack."""
    if not isinstance(pack, Pack):
        raise KnowledgeError(
            "what is mined for stands in a pack",
            expected="a pack",
            received=describe_value(pack),
            help="fedkg.compile(FILE)",
        )


def check_inference(pack: Any, inference: Any) -> None:
    """Raise KnowledgeError unless it is a pack, and an inference as packs hold them."""
    check_pack(pack)
    if not isinstance(inference, Inference):
        names = ", ".join(one.name for one in pack.manifest.inferences) or "no inference"
        raise KnowledgeError(
            "an inference is one of the pack's",
            expected=f"one of pack.manifest.inferences ({names})",
            received=describe_value(inference),
            help="[found] = [one for one in pack.manifest.inferences if one.name == NAME]",
        )


def check_traces(x: Any, layout: Any, inside: Any) -> None:
    """Raise LayoutError unless traces are a tensor with a layout, and those that are there are told as truth values."""
    if not isinstance(x, Tensor):
        raise LayoutError(
            "traces are a tensor",
            expected="[C, S, T, F]",
            received=describe_value(x),
            help="torch.tensor(x, dtype=torch.float64)",
        )
    if not isinstance(layout, InputLayout):
        raise LayoutError(
            "the layout says what the features are",
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
            "`inside` says which traces are there",
            expected="a bool tensor [C, S]",
            received=describe_value(inside),
            help=right,
        )


def check_pick(pick: Any) -> None:
    """Raise KnowledgeError unless it chooses one level of many."""
    if not isinstance(pick, Pick):
        right = (
            f"pick=quantile({float(pick):g})"
            if isinstance(pick, float | int) and 0 < pick <= 1
            else "pick=quantile(0.95)"
        )
        raise KnowledgeError(
            "`pick` says how many of the traces count",
            expected="least, quantile(...) or private(...)",
            received=describe_value(pick),
            help=right,
        )


def check_method(method: Any) -> None:
    """Raise KnowledgeError unless there is such a method."""
    if method not in ("exact", "bisection"):
        raise KnowledgeError(
            "there is no such way to mine",
            expected='method="exact" or method="bisection"',
            received=repr(method),
        )
