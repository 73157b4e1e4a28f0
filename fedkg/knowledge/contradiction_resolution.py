"""Knowledge of a batch of samples, and its reconciliation with itself and with labels (assumption
5.1).

Letters: N samples, K classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from fedkg._internal.value_description import describe_value
from fedkg.errors import KnowledgeError, LayoutError, UsageError
from fedkg.knowledge.injection_formulas import NOTHING

Policy = Literal["error", "drop", "repair"]

SHOWN = 10
"""Most samples that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleKnowledge:
    """Knowledge about each sample, independent of any model.

    Attributes:
        allowed: bool [..., K], the classes that contain the true one.
        predicted: int64 [...], the predicted class; -1 without a prediction.
        names: the knowledge models of a pack, or functions, for messages; () if unknown.
        ranges: those of them that allow classes, and so can rule labels out; () if unknown.
    """

    allowed: Tensor
    predicted: Tensor
    names: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()

    def __getitem__(self, rows: Tensor | slice | int) -> SampleKnowledge:
        """The knowledge about some of the samples."""
        return replace(self, allowed=self.allowed[rows], predicted=self.predicted[rows])

    def to(self, device: torch.device | str) -> SampleKnowledge:
        """The same knowledge on another device."""
        return replace(self, allowed=self.allowed.to(device), predicted=self.predicted.to(device))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reconciled:
    """Knowledge without contradictions.

    Attributes:
        knowledge: about all N samples, without an empty range or a prediction outside its range.
        kept: bool [N], the samples to train on.
        empty: number of samples with an empty range.
        outside: number of samples with a prediction outside its range.
        wrong: number of samples with a label that their knowledge rules out.
    """

    knowledge: SampleKnowledge
    kept: Tensor
    empty: int
    outside: int
    wrong: int


def reconcile(
    knowledge: SampleKnowledge,
    labels: Tensor | None = None,
    *,
    policy: Policy = "error",
    trust: float = 0.0,
    client: str = "",
) -> Reconciled:
    """Find and resolve contradictions of knowledge with itself or with the labels, before training.

    There are three kinds (specification K3, K11): a range is empty, a prediction is outside its
    range, or a label is outside the range and is not predicted (with a trust above 0), so its loss
    is infinite.

    Args:
        knowledge: about N samples.
        labels: int64 [N], the true classes if they are known.
        policy: "error" raises. "drop" discards the contradiction: an empty range allows everything,
            a prediction outside its range is removed, a sample with an impossible label is not
            trained on. "repair" widens the range: by the prediction, by the label.
        trust: the trust of the later injection.
        client: owner of the samples, for the message.

    Raises:
        KnowledgeError: under "error", with the first row of each kind and their number.
        LayoutError: labels that are not one of the K classes for each sample.
        UsageError: an unknown policy.
    """
    check_policy(policy)
    if labels is not None:
        check_labels(labels, knowledge)
    allowed, predicted = knowledge.allowed, knowledge.predicted
    empty = ~allowed.any(-1)
    outside = ~empty & (predicted >= 0) & ~_holds(allowed, predicted)
    wrong = (
        torch.zeros_like(empty) if labels is None else ~empty & ruled_out(knowledge, labels, trust)
    )
    if policy == "error":
        _raise_contradictions(knowledge, empty, outside, wrong, labels, client)
    allowed = allowed | empty.unsqueeze(-1)
    kept = torch.ones_like(empty)
    if policy == "drop":
        predicted = torch.where(outside, NOTHING, predicted)
        if labels is not None:  # without its prediction, the label may be ruled out
            kept = _holds(allowed, labels)
    else:
        allowed = with_class(allowed, predicted, outside)
        if labels is not None:
            allowed = with_class(allowed, labels, wrong)
    return Reconciled(
        knowledge=replace(knowledge, allowed=allowed, predicted=predicted),
        kept=kept,
        empty=int(empty.sum()),
        outside=int(outside.sum()),
        wrong=int(wrong.sum()),
    )


def check_policy(policy: str) -> None:
    """Raise UsageError for an unknown policy."""
    if policy not in get_args(Policy):
        raise UsageError(f"unknown policy `{policy}`", expected=", ".join(get_args(Policy)))


def ruled_out(knowledge: SampleKnowledge, labels: Tensor, trust: float) -> Tensor:
    """Whether each label has probability 0, bool [...]: outside its range, and not predicted with a
    trust above 0.
    """
    return ~_holds(knowledge.allowed, labels) & ~((knowledge.predicted == labels) & (trust > 0))


def check_labels(labels: Tensor, knowledge: SampleKnowledge, *, shown: bool = True) -> None:
    """Raise unless labels are one class, int64 [...], for each sample.

    Inside `torch.func` transforms, which hide numbers, only the shape and the type are checked.

    Args:
        shown: whether to check the numbers, which synchronises with a device.

    Raises:
        LayoutError: not a tensor, another shape or type; a label outside 0 .. K - 1.
    """
    shape, count = knowledge.predicted.shape, knowledge.allowed.shape[-1]
    if not isinstance(labels, Tensor) or labels.dtype != torch.int64 or labels.shape != shape:
        raise LayoutError(
            "the labels do not fit the batch",
            expected=f"int64 {list(shape)}, the position of each class",
            received=describe_value(labels),
            help=_conversion_advice(labels, shape),
        )
    if not shown:
        return
    outside = (labels < 0) | (labels >= count)
    if _any(outside):
        row = int(outside.flatten().int().argmax())
        raise LayoutError(
            f"the label of row {row} is not one of the {count} classes",
            expected=f"0 .. {count - 1}",
            received=str(int(labels.flatten()[row])),
            help="pass the position of each class, counted from 0",
        )


def _conversion_advice(labels: object, shape: torch.Size) -> str:
    """Advice on how to convert a wrong value to labels."""
    if not isinstance(labels, Tensor):
        return "torch.as_tensor(labels)"
    if labels.shape == (*shape, 1):
        return "labels.squeeze(-1)" if labels.dtype == torch.int64 else "labels.squeeze(-1).long()"
    if labels.dim() == len(shape) + 1 and labels.shape[:-1] == shape:
        return "if there is one column for each class, pass the largest: labels.argmax(-1)"
    return (
        "labels.long()" if labels.shape == shape else "pass one label for each sample of the batch"
    )


def check_ruled_out(ruled: Tensor, labels: Tensor, knowledge: SampleKnowledge) -> None:
    """Raise if labels are ruled out, [...]; does nothing inside `torch.func` transforms, which hide
    numbers.

    Raises:
        KnowledgeError: some labels are ruled out, with the samples and the knowledge.
    """
    if not _any(ruled):
        return
    rows = ruled.nonzero()
    places = [str(row[0] if len(row) == 1 else tuple(row)) for row in rows[:SHOWN].tolist()]
    more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    raise KnowledgeError(
        (
            f"the knowledge{_by(knowledge.ranges or knowledge.names)} rules out {len(rows)} of "
            f"{ruled.numel()} labels; their loss is infinite"
        ),
        expected="labels that the range allows, or that are predicted with a trust above 0",
        received=f"sample{'s' * (len(rows) > 1)} {', '.join(places)}{more} (the first has class "
        f"{int(labels[ruled][0])})",
        help='correct the knowledge or the labels; or use loss(..., policy="drop"), which ignores '
        'them, or policy="repair", which allows them; '
        "fedkg.knowledge.contradiction_resolution.reconcile finds and counts them before training",
    )


def _any(found: Tensor) -> bool:
    """Whether any is True; False inside `torch.func` transforms, which hide numbers."""
    try:
        return bool(found.any())
    except RuntimeError:
        return False


def _by(names: tuple[str, ...]) -> str:
    return f" by {', '.join(f'`{name}`' for name in names)}" if names else ""


def _holds(allowed: Tensor, classes: Tensor) -> Tensor:
    return allowed.gather(-1, classes.clamp(min=0).unsqueeze(-1)).squeeze(-1)


def with_class(allowed: Tensor, classes: Tensor, where: Tensor) -> Tensor:
    """The allowed classes, plus one class where `where` is true."""
    added = classes.unsqueeze(-1) == torch.arange(allowed.shape[-1], device=allowed.device)
    return allowed | (added & where.unsqueeze(-1))


def _raise_contradictions(
    knowledge: SampleKnowledge,
    empty: Tensor,
    outside: Tensor,
    wrong: Tensor,
    labels: Tensor | None,
    client: str,
) -> None:
    """Raise an error that lists the contradictions."""
    found = []
    for rows, text in (
        (empty, "no class is allowed"),
        (outside, "the predicted class is not allowed"),
        (wrong, "the label is ruled out"),
    ):
        if count := int(rows.sum()):
            first = int(rows.int().argmax())
            label = "" if rows is not wrong or labels is None else f", class {int(labels[first])}"
            found.append(
                f"for {count} sample{'s' * (count > 1)}, {text} (the first is row {first}{label})"
            )
    if found:
        owner = f" of client {client}" if client else ""
        raise KnowledgeError(
            f"the knowledge{_by(knowledge.names)}{owner} contradicts itself or the labels",
            received="; ".join(found),
            help='correct the knowledge; or use policy="drop" or "repair" in reconcile, '
            "model.loss or model.knowledge: "
            "model(x, knowledge=model.knowledge(x, policy=...))",
        )
