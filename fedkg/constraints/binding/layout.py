"""The layout of tensors: position and scaling of each feature, and meaning of each model output.

Rules speak physical units and models standardised tensors; a layout is the bridge. Nothing here
needs torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedkg.errors import LayoutError

NO_UNIT = frozenset({"", "1", "one", "probability", "%", "percent"})
"""Units that say nothing of a number's size: those that a probability may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputLayout:
    """The F features of a tensor [..., F] and how to undo their scaling: value = x * std + mean.

    Attributes:
        names: for each feature, the name of a signal of the rules or the header of the table column
            from which the feature was made.
        mean: F numbers, each in the unit of its column; None if the tensor is in source units.
        std: F numbers, each in the unit of its column; None if the tensor is in source units.
        sure: whether fedkg skips the check that detects normalised or raw numbers in the wrong
            place.
    """

    names: tuple[str, ...]
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    sure: bool = False

    def __add__(self, other: InputLayout | OutputLayout) -> OutputLayout:
        """This layout read as outputs, followed by those of `other`."""
        return outputs_of(self) + other


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One entry of the model's output vector.

    Attributes:
        name: the output that the rules name; for scores, the label.
        kind: ``value`` is the output, scaled; ``probability`` the probability itself; ``logit`` its
            logit; ``score`` of one class.
        category: the class of a score.
    """

    name: str
    kind: Literal["value", "probability", "logit", "score"]
    category: str = ""
    mean: float = 0.0
    std: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLayout:
    """The H entries of a model's output [..., H], in order. Layouts are joined with ``+``."""

    entries: tuple[Output, ...] = ()

    def __add__(self, other: InputLayout | OutputLayout) -> OutputLayout:
        return OutputLayout(entries=self.entries + outputs_of(other).entries)

    def __radd__(self, other: InputLayout) -> OutputLayout:
        return outputs_of(other) + self

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def output_names(self) -> str:
        """The outputs' names, each once, as messages tell them."""
        return ", ".join(dict.fromkeys(entry.name for entry in self.entries))


AnyLayout = InputLayout | OutputLayout | Sequence[InputLayout | OutputLayout] | None
"""The accepted values of ``y=``: one layout, several in the order of the output vector, or none."""


def columns(
    names: Iterable[str], mean: Any = None, std: Any = None, *, sure: bool = False
) -> InputLayout:
    """The layout of a feature tensor [..., F], standardised as ``(value - mean) / std``.

    It also describes the outputs of a regression model: ``y=columns(["density"], mean=[2.1],
    std=[0.4])``.

    Args:
        names: F names of signals, or headers of the table's columns.
        mean: F numbers (a list, an array, a tensor) or one number for all, in the units of the
            columns. Without `mean` and `std`, the tensor is in source units.
        std: F numbers or one number for all, positive.
        sure: do not check whether batches look standardised although they should not be, or vice
            versa.

    Raises:
        LayoutError: only one of `mean` and `std` is given, the lengths differ, a name occurs twice,
            a number is not finite, or a `std` is not positive.

    Example:
        >>> columns(["torque", "wear"], mean=[40.0, 110.0], std=[10.0, 60.0]).names
        ('torque', 'wear')
    """
    if isinstance(names, str):
        raise LayoutError(
            "columns(...) takes a list of names", received=repr(names), help=f"columns([{names!r}])"
        )
    names = tuple(str(name) for name in names)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise LayoutError(
            "columns(...) names a feature twice",
            received=", ".join(twice),
            help="give each feature a name that occurs once",
        )
    means, stds = _numbers("mean", mean, names), _numbers("std", std, names)
    for name, value in zip(names, stds or (), strict=False):
        if value <= 0:
            raise LayoutError(
                f"columns(...): std of `{name}` must be positive",
                received=f"{value:g}",
                help="use 1 for a constant column",
            )
    if (means is None) != (stds is None):
        there, lacking, neutral = ("mean", "std", "1.0") if stds is None else ("std", "mean", "0.0")
        raise LayoutError(
            f"columns(...) has a {there} and no {lacking}",
            expected="both for standardised numbers, or neither for raw numbers in the "
            "units of the columns",
            received=f"{there} alone",
            help=f"give the {lacking} that the numbers were scaled with, or {lacking}={neutral} "
            "if they were not",
        )
    return InputLayout(names=names, mean=means, std=stds, sure=sure)


def probability(name: str) -> OutputLayout:
    """One output entry that is the probability called `name` in the rules."""
    return OutputLayout(entries=(Output(name=name, kind="probability"),))


def logit(name: str) -> OutputLayout:
    """One output entry with a sigmoid that is the probability called `name` in the rules."""
    return OutputLayout(entries=(Output(name=name, kind="logit"),))


def scores(label: str, classes: Iterable[str]) -> OutputLayout:
    """One output entry per class: the scores (logits or probabilities) of the classes of `label`,
    in this order.
    """
    if isinstance(classes, str):
        raise LayoutError(
            "scores(...) takes a list of classes",
            received=repr(classes),
            help=f"scores({label!r}, [{classes!r}, ...])",
        )
    return OutputLayout(
        entries=tuple(
            Output(name=label, kind="score", category=str(category)) for category in classes
        )
    )


def window_names(names: Sequence[str], steps: int) -> tuple[str, ...]:
    """Names of the columns of flattened windows, by step; the last step has plain names."""
    return tuple(
        f"{name} ({back} steps before)" if back else name
        for back in range(steps - 1, -1, -1)
        for name in names
    )


def pixel_names(channels: Sequence[str], pixels: int) -> tuple[str, ...]:
    """Names of the columns of flattened images: all pixels of one channel after the other."""
    return tuple(f"{name} (pixel {place + 1})" for name in channels for place in range(pixels))


def outputs_of(layout: AnyLayout) -> OutputLayout:
    """Any accepted form of ``y=`` as one `OutputLayout`. Raises LayoutError for anything else."""
    match layout:
        case None:
            return OutputLayout()
        case OutputLayout():
            return layout
        case InputLayout():
            mean, std = (
                layout.mean or (0.0,) * len(layout.names),
                layout.std or (1.0,) * len(layout.names),
            )
            return OutputLayout(
                entries=tuple(
                    Output(name=n, kind="value", mean=m, std=s)
                    for n, m, s in zip(layout.names, mean, std, strict=True)
                )
            )
        case tuple() | list():
            return OutputLayout(
                entries=tuple(entry for part in layout for entry in outputs_of(part).entries)
            )
    raise LayoutError(
        "y= must say what the model's outputs are",
        received=type(layout).__name__,
        help='y=fedkg.probability("failure"), fedkg.logit(...), fedkg.scores(label, classes) or'
        " fedkg.columns(names, mean=..., std=...)",
    )


def _numbers(what: str, given: Any, names: tuple[str, ...]) -> tuple[float, ...] | None:
    if given is None:
        return None
    try:
        array = np.asarray(
            given.detach().cpu() if hasattr(given, "detach") else given, dtype=np.float64
        )
    except (TypeError, ValueError) as error:
        raise LayoutError(
            f"columns(...): {what} must be numbers",
            expected="a list, an array or a tensor of numbers, or one number for all names",
            received=type(given).__name__,
        ) from error
    if array.ndim == 0:
        array = np.full(len(names), float(array))
    if array.shape != (len(names),):
        raise LayoutError(
            f"columns(...): {what} must have one number per name",
            expected=f"{len(names)} numbers, or one number for all names",
            received=f"shape {list(array.shape)}",
        )
    for name, value in zip(names, array.tolist(), strict=True):
        if not np.isfinite(value):
            raise LayoutError(
                f"columns(...): {what} of `{name}` must be a finite number",
                received=str(value),
                help=f"compute the {what} of the known values alone",
            )
    return tuple(array.tolist())
