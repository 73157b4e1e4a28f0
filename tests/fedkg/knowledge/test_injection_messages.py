"""Messages of injected models about wrong features, labels and knowledge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedkg
from fedkg.errors import KnowledgeError, LayoutError
from fedkg.knowledge import bin_of
from fedkg.knowledge.injected_model import inject
from fedkg.knowledge.tensor_knowledge import PredictionKnowledge, RangeKnowledge

RULES = """
signal ash in % span 0 .. 40
label  grade   classes A, B, C
output quality in % span 0 .. 100
range knowledge by_ash of grade
  when ash > 12 % allow C
  otherwise allow any
predict knowledge said of grade  when ash > 12 % predict C  otherwise predict A
range knowledge usual of quality
  when ash > 12 % allow 0 .. 60 %
  otherwise allow any
"""
X = torch.tensor([[25.0], [10.0], [18.0], [11.0]])
LABELS = torch.tensor([2, 0, 2, 1])


def above_zero(x: Tensor) -> Tensor:
    return (x > 12) <= (torch.arange(3) == 2)


def listed(x: Tensor) -> Any:
    return above_zero(x).tolist()


def nothing(x: Tensor) -> Tensor:
    return torch.full((len(x),), -1)


@pytest.mark.parametrize("call", ["__call__", "knowledge", "decide"])
def test_features_that_are_no_tensor(call: str) -> None:
    model = inject(nn.Linear(1, 3), range=above_zero)
    for wrong in (X.tolist(), X.numpy()):
        with pytest.raises(
            LayoutError,
            match=r"x must be a tensor\n  expected: .*\n  received: (list|ndarray)\n"
            r"  help: .*as_tensor",
        ):
            getattr(model, call)(wrong)
    with pytest.raises(LayoutError, match="x must be a tensor"):
        model(X.tolist(), knowledge=model.knowledge(X))


@pytest.mark.parametrize(
    ("labels", "help"),
    [
        (LABELS.tolist(), "torch.as_tensor(labels)"),
        (LABELS.numpy(), "torch.as_tensor(labels)"),
        (LABELS.int(), "labels.long()"),
        (LABELS.float(), "labels.long()"),
        (LABELS.float()[:, None], "labels.squeeze(-1).long()"),
        (
            nn.functional.one_hot(LABELS),
            "if there is one column for each class, pass the largest: labels.argmax(-1)",
        ),
        (LABELS[:2], "pass one label for each sample of the batch"),
    ],
)
def test_labels_that_do_not_fit_are_told_what_makes_them_fit(labels: Any, help: str) -> None:
    with pytest.raises(
        LayoutError, match=r"the labels do not fit the batch\n  expected: int64 \[4\]"
    ) as caught:
        inject(nn.Linear(1, 3), range=above_zero).loss(X, labels)
    assert caught.value.help == help


def test_numbers_as_labels_of_bins() -> None:
    knowledge = RangeKnowledge(
        fedkg.compile(text=RULES), "quality", x=fedkg.columns(["ash"]), bins=20
    )
    model, numbers = (
        inject(nn.Linear(1, 20), range=knowledge),
        torch.tensor([55.0, 90.0, 12.5, 100.0]),
    )
    with pytest.raises(
        LayoutError,
        match=r"bins of the numbers, counted from 0 to 19\n.*\n  received: float32 \[4\]\n"
        r"  help: .*bin_of\(",
    ):
        model.loss(X, numbers)
    assert knowledge.ends is not None
    bins = torch.from_numpy(bin_of(numbers.double().numpy(), knowledge.ends)).long()
    assert bins.tolist() == [11, 18, 2, 19]
    assert bool(model.loss(X, bins).isfinite().all())


def test_prediction_and_range_exchanged() -> None:
    pack, layout = fedkg.compile(text=RULES), fedkg.columns(["ash"])
    allows, says = (
        RangeKnowledge(pack, "grade", x=layout),
        PredictionKnowledge(pack, "grade", x=layout),
    )
    for given in ({"prediction": allows, "range": says}, {"prediction": allows}, {"range": says}):
        with pytest.raises(KnowledgeError, match="are exchanged") as caught:
            inject(nn.Linear(1, 3), **given)
        assert caught.value.received == ", ".join(
            f"{name}={type(part).__name__}" for name, part in given.items()
        )
    with pytest.raises(
        LayoutError,
        match=r"expected: bool \[4, K\], whether.*\n  received: int64 \[4\]\n  help: .*exchanged\?",
    ):
        inject(nn.Linear(1, 3), range=nothing)(X)
    with pytest.raises(
        LayoutError,
        match=r"expected: int64 \[4\], the position.*\n  received: bool \[4, 3\]\n"
        r"  help: .*exchanged\?",
    ):
        inject(nn.Linear(1, 3), prediction=above_zero, range=above_zero)(X)
    with pytest.raises(LayoutError, match=r"received: list\n  help: pass a bool tensor"):
        inject(nn.Linear(1, 3), range=listed)(X)


def test_what_counts_for_nothing_is_reported() -> None:
    with pytest.warns(UserWarning, match=r"a trust of 0\.5 has no effect without prediction="):
        inject(nn.Linear(1, 3), range=above_zero, trust=0.5)
    inject(nn.Linear(1, 3), range=above_zero, trust=0.0)
    assert inject(nn.Linear(1, 3), nothing, above_zero).trust == 0.3
    for kind in (RangeKnowledge, PredictionKnowledge):
        with pytest.raises(
            KnowledgeError,
            match=r"`grade` is a label.*\n  expected: .*A, B, C\n  received: bins=5\n  help: leave",
        ):
            kind(fedkg.compile(text=RULES), "grade", x=fedkg.columns(["ash"]), bins=5)


def test_an_empty_range_says_what_an_answer_can_be_had_by() -> None:
    model = inject(nn.Linear(1, 3), range=lambda x: above_zero(x) & (x < 20))
    with pytest.raises(KnowledgeError, match="for 1 sample, no class is allowed") as caught:
        model(X)
    assert "model(x, knowledge=model.knowledge(x, policy=...))" in caught.value.help
    assert bool((model(X, knowledge=model.knowledge(X, policy="repair")).sum(-1) > 0.99).all())


def test_arrays_are_told_of_by_bins_too() -> None:
    model = inject(
        nn.Linear(1, 20),
        range=RangeKnowledge(
            fedkg.compile(text=RULES), "quality", x=fedkg.columns(["ash"]), bins=20
        ),
    )
    numbers: Any = np.zeros(4)
    with pytest.raises(LayoutError, match="received: ndarray"):
        model.loss(X, numbers)
