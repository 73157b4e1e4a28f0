"""What is known of a batch of samples, and how it is brought to agree with itself and with the labels (assumption 5.1).

Letters: N samples, K classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from fedkg._internal.messages import describe_value
from fedkg.errors import KnowledgeError, LayoutError, UsageError
from fedkg.knowledge.injection_formulas import NOTHING

Policy = Literal["error", "drop", "repair"]

SHOWN = 10
"""How many samples a message names."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleKnowledge:
    """What knowledge says of each sample, before any model answers.

    Attributes:
        allowed: bool [..., K], the classes in which the true one lies.
        predicted: int64 [...], the class that is predicted; -1 where none is.
        names: what allows and predicts, for messages: the knowledge models of a pack, or functions; () where that is not told.
        ranges: those of them that allow, and alone rule anything out; () where that is not told.
    """

    allowed: Tensor
    predicted: Tensor
    names: tuple[str, ...] = ()
    ranges: tuple[str, ...] = ()

    def __getitem__(self, rows: Tensor | slice | int) -> SampleKnowledge:
        """What is known of some of the samples."""
        return replace(self, allowed=self.allowed[rows], predicted=self.predicted[rows])

    def to(self, device: torch.device | str) -> SampleKnowledge:
        """The same on another device."""
        return replace(self, allowed=self.allowed.to(device), predicted=self.predicted.to(device))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reconciled:
    """Knowledge that holds together.

    Attributes:
        known: of all N samples, none with an empty range, no prediction outside of its range.
        kept: bool [N], the samples to train on.
        empty, outside, wrong: how many samples had an empty range, a prediction outside of their range, a label that was ruled out.
    """

    known: SampleKnowledge
    kept: Tensor
    empty: int
    outside: int
    wrong: int


def reconcile(
    known: SampleKnowledge,
    labels: Tensor | None = None,
    *,
    policy: Policy = "error",
    trust: float = 0.0,
    client: str = "",
) -> Reconciled:
    """Knowledge that contradicts itself or the labels, found and settled before training.

    Three things can be wrong (specification K3, K11): a range is empty, a prediction lies outside of its range, or a label lies outside
    of the range and is not predicted either (with a trust above 0), so that its loss is infinite.

    Args:
        known: of N samples. labels: int64 [N], the true classes where they are known.
        policy: "error" raises. "drop" gives up what is wrong: an empty range allows everything, a prediction outside of its range is none,
            a sample with an impossible label is not trained on. "repair" widens the range: by the prediction, by the label.
        trust: the trust the knowledge will be injected with. client: whose samples they are, for the message.

    Raises:
        KnowledgeError: under "error", with the first row of each kind and their number.
        LayoutError: labels that are not one of the K classes for each sample. UsageError: a policy that there is not.
    """
    check_policy(policy)
    if labels is not None:
        check_labels(labels, known)
    allowed, predicted = known.allowed, known.predicted
    empty = ~allowed.any(-1)
    outside = ~empty & (predicted >= 0) & ~_holds(allowed, predicted)
    wrong = torch.zeros_like(empty) if labels is None else ~empty & ruled_out(known, labels, trust)
    if policy == "error":
        _refuse(known, empty, outside, wrong, labels, client)
    allowed = allowed | empty.unsqueeze(-1)
    kept = torch.ones_like(empty)
    if policy == "drop":
        predicted = torch.where(outside, NOTHING, predicted)
        if labels is not None:  # a dropped prediction saves its label no longer
            kept = _holds(allowed, labels)
    else:
        allowed = with_class(allowed, predicted, outside)
        if labels is not None:
            allowed = with_class(allowed, labels, wrong)
    return Reconciled(
        known=replace(known, allowed=allowed, predicted=predicted),
        kept=kept,
        empty=int(empty.sum()),
        outside=int(outside.sum()),
        wrong=int(wrong.sum()),
    )


def check_policy(policy: str) -> None:
    """Raise UsageError for a policy that there is not."""
    if policy not in get_args(Policy):
        raise UsageError(f"there is no policy `{policy}`", expected=", ".join(get_args(Policy)))


def ruled_out(known: SampleKnowledge, labels: Tensor, trust: float) -> Tensor:
    """Whether each label has probability 0: outside of its range, and not predicted with a trust above 0; bool [...]."""
    return ~_holds(known.allowed, labels) & ~((known.predicted == labels) & (trust > 0))


def check_labels(labels: Tensor, known: SampleKnowledge, *, shown: bool = True) -> None:
    """Raise where labels are not one class, int64 [...], for each sample that something is known of.

    Inside of `torch.func` transforms, which show no numbers, the shape and the type alone are looked at.

    Args:
        shown: whether numbers may be looked at: a device has to be waited for.

    Raises:
        LayoutError: no tensor, another shape or type; a label outside of 0 .. K - 1.
    """
    shape, count = known.predicted.shape, known.allowed.shape[-1]
    if not isinstance(labels, Tensor) or labels.dtype != torch.int64 or labels.shape != shape:
        raise LayoutError(
            "the labels do not fit the batch",
            expected=f"int64 {list(shape)}, the position of each class",
            received=describe_value(labels),
            help=_mended(labels, shape),
        )
    if not shown:
        return
    outside = (labels < 0) | (labels >= count)
    if _any(outside):
        row = int(outside.flatten().int().argmax())
        raise LayoutError(
            f"the label of row {row} is none of the {count} classes",
            expected=f"0 .. {count - 1}",
            received=str(int(labels.flatten()[row])),
        )


def _mended(labels: object, shape: torch.Size) -> str:
    """What makes labels of something that is none."""
    if not isinstance(labels, Tensor):
        return "torch.as_tensor(labels)"
    if labels.shape == (*shape, 1):
        return "labels.squeeze(-1)" if labels.dtype == torch.int64 else "labels.squeeze(-1).long()"
    if labels.dim() == len(shape) + 1 and labels.shape[:-1] == shape:
        return "of one column for each class, the largest: labels.argmax(-1)"
    return (
        "labels.long()"
        if labels.shape == shape
        else "one label for each sample that the model is asked about"
    )


def check_ruled_out(ruled: Tensor, labels: Tensor, known: SampleKnowledge) -> None:
    """Raise where labels are ruled out, [...]; inside of `torch.func` transforms, which show no numbers, nothing is looked at.

    Raises:
        KnowledgeError: some are, with the samples and the knowledge.
    """
    if not _any(ruled):
        return
    rows = ruled.nonzero()
    places = [str(row[0] if len(row) == 1 else tuple(row)) for row in rows[:SHOWN].tolist()]
    more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    raise KnowledgeError(
        f"what is known{_by(known.ranges or known.names)} rules out {len(rows)} of {ruled.numel()} labels, whose loss is infinite",
        expected="labels that the range allows, or that are predicted with a trust above 0",
        received=f"sample {', '.join(places)}{more} (the first has class {int(labels[ruled][0])})",
        help='correct the knowledge or the labels; or give loss(..., policy="drop"), where they cost nothing, or policy="repair", '
        "where they are allowed; fedkg.knowledge.reconciliation.reconcile finds and counts them before training",
    )


def _any(found: Tensor) -> bool:
    """Whether any is True; False where no number may be seen: torch.func transforms refuse to turn a tensor into a truth value."""
    try:
        return bool(found.any())
    except RuntimeError:
        return False


def _by(names: tuple[str, ...]) -> str:
    return f" by {', '.join(f'`{name}`' for name in names)}" if names else ""


def _holds(allowed: Tensor, classes: Tensor) -> Tensor:
    return allowed.gather(-1, classes.clamp(min=0).unsqueeze(-1)).squeeze(-1)


def with_class(allowed: Tensor, classes: Tensor, where: Tensor) -> Tensor:
    """The allowed classes and, where told, one more."""
    added = classes.unsqueeze(-1) == torch.arange(allowed.shape[-1], device=allowed.device)
    return allowed | (added & where.unsqueeze(-1))


def _refuse(
    known: SampleKnowledge,
    empty: Tensor,
    outside: Tensor,
    wrong: Tensor,
    labels: Tensor | None,
    client: str,
) -> None:
    """Raise for what is wrong."""
    found = []
    for rows, text in (
        (empty, "allow no class"),
        (outside, "have a prediction outside of their range"),
    ):
        if bool(rows.any()):
            found.append(
                f"{int(rows.sum())} samples {text} (the first is row {int(rows.int().argmax())})"
            )
    if bool(wrong.any()):
        first = int(wrong.int().argmax())
        label = "" if labels is None else f" with class {int(labels[first])}"
        found.append(f"{int(wrong.sum())} labels are ruled out (the first is row {first}{label})")
    if found:
        whose = f" of client {client}" if client else ""
        raise KnowledgeError(
            f"the knowledge{_by(known.names)}{whose} contradicts itself or the labels",
            received="; ".join(found),
            help='correct the knowledge; or settle it by policy="drop" or "repair", which reconcile, model.loss and model.known take: '
            "model(x, known=model.known(x, policy=...)) answers",
        )
