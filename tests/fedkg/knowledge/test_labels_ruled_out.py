"""Labels that injected knowledge rules out: their loss would be infinite, without a message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fedkg
from fedkg.authoring import RuleWarning
from fedkg.errors import KnowledgeError, UsageError
from fedkg.knowledge.contradiction_resolution import reconcile
from fedkg.knowledge.injected_model import Injected, inject
from fedkg.knowledge.tensor_knowledge import PredictionKnowledge, RangeKnowledge

pytestmark = pytest.mark.filterwarnings(
    "ignore:a trust of"
)  # predictions are part of the knowledge here
X = torch.tensor([[1.0, 0.0], [-1.0, 0.5], [2.0, 1.0], [-2.0, -1.0]], dtype=torch.float64)
LABELS = torch.tensor([0, 2, 2, 0])  # those of samples 2 and 3 are ruled out


def positive_is_low(x: Tensor) -> Tensor:
    """Classes 0 and 1 for a positive first feature, class 2 for a negative one."""
    return (x[:, :1] > 0) == (torch.arange(3, device=x.device) < 2)


def says_zero(x: Tensor) -> Tensor:
    return torch.zeros(len(x), dtype=torch.int64, device=x.device)


def model_of(trust: float = 0.3, **parts: object) -> Injected:
    torch.manual_seed(0)
    knowledge: Any = parts or {"range": positive_is_low}
    return inject(nn.Linear(2, 3).double(), trust=trust, **knowledge)


def test_the_samples_and_what_rules_them_out_are_named() -> None:
    with pytest.raises(KnowledgeError) as caught:
        model_of().loss(X, LABELS)
    said = str(caught.value)
    assert said.startswith(
        "the knowledge by `positive_is_low` rules out 2 of 4 labels; their loss is infinite"
    )
    assert "received: samples 2, 3 (the first has class 2)" in said
    assert 'loss(..., policy="drop")' in said
    many = torch.ones(25, 2, dtype=torch.float64)
    with pytest.raises(KnowledgeError, match=r"samples 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 15 more"):
        model_of().loss(many, torch.full((25,), 2))


def test_the_knowledge_of_a_pack_is_named_by_its_models(tmp_path: Path) -> None:
    path = tmp_path / "grades.fkg"
    path.write_text(
        "signal ash in % span 0 .. 40\nlabel grade classes A, B, C\n"
        "range knowledge by_ash of grade\n  when ash > 12 % allow C\n  otherwise allow any\n"
        "predict knowledge said of grade  when ash > 20 % predict C  otherwise predict B\n",
        encoding="utf-8",
    )
    with pytest.warns(RuleWarning, match="what `said` predicts is not allowed"):
        pack = fedkg.compile(path)
    layout = fedkg.columns(["ash"])
    parts = {
        "range": RangeKnowledge(pack, "grade", x=layout),
        "prediction": PredictionKnowledge(pack, "grade", x=layout),
    }
    model = inject(nn.Linear(1, 3), **parts)
    x = torch.tensor([[25.0], [10.0], [18.0]])
    wrong = model.knowledge(x, policy="repair")
    for knowledge in (wrong, wrong[torch.tensor([0, 1, 2])], wrong.to("cpu")):
        with pytest.raises(
            KnowledgeError,
            match=r"the knowledge by `by_ash` rules out 1 of 3 labels[^\n]*\n.*\n"
            r"  received: sample 0 ",
        ):
            model.loss(x, torch.tensor([0, 1, 2]), knowledge=knowledge)
    with pytest.raises(
        KnowledgeError, match="the knowledge by `by_ash`, `said` contradicts itself or the labels"
    ):
        reconcile(wrong, torch.tensor([0, 1, 2]))


def test_a_predicted_label_is_not_ruled_out_while_it_is_trusted() -> None:
    knowledge = model_of(range=positive_is_low, prediction=says_zero).knowledge(X, policy="repair")
    outside = torch.where(torch.arange(4) == 3, 0, knowledge.predicted)
    narrow = knowledge.__class__(allowed=positive_is_low(X), predicted=outside)
    model = model_of(trust=0.3)
    torch.testing.assert_close(
        model.loss(X[3:], LABELS[3:], knowledge=narrow[3:]),
        -torch.tensor([0.3], dtype=torch.float64).log(),
    )
    with pytest.raises(KnowledgeError, match="rules out 1 of 1 labels"):
        model_of(trust=0.0).loss(X[3:], LABELS[3:], knowledge=narrow[3:])


@pytest.mark.parametrize(
    "trust",
    [0.0, 0.3, pytest.param(1.0, marks=pytest.mark.filterwarnings("ignore:with a trust of 1"))],
)
def test_dropped_samples_cost_nothing_and_teach_nothing(trust: float) -> None:
    model = model_of(trust)
    losses = model.loss(X, LABELS, policy="drop")
    assert losses[2:].tolist() == [0.0, 0.0]
    torch.testing.assert_close(losses[:2], model.loss(X[:2], LABELS[:2]))
    of_dropped = torch.autograd.grad(losses[2:].sum(), model.model.weight, retain_graph=True)[0]
    assert torch.equal(of_dropped, torch.zeros_like(of_dropped))
    assert bool(torch.isfinite(torch.autograd.grad(losses.sum(), model.model.weight)[0]).all())


def test_repaired_ranges_are_wider_by_the_label() -> None:
    model = model_of()
    losses = model.loss(X, LABELS, policy="repair")
    settled = reconcile(model.knowledge(X), LABELS, policy="repair", trust=0.3)
    torch.testing.assert_close(losses, model.loss(X, LABELS, knowledge=settled.knowledge))
    assert bool(torch.isfinite(losses).all())
    assert bool((torch.autograd.grad(losses[2], model.model.weight)[0] != 0).any())


@pytest.mark.filterwarnings("ignore:with a trust of 1")
def test_with_full_trust_no_policy_but_error_leaves_an_infinite_loss() -> None:
    model = model_of(
        1.0, prediction=says_zero, range=lambda x: torch.ones(len(x), 3, dtype=torch.bool)
    )
    label = torch.tensor([0, 1, 2, 0])
    assert torch.isinf(model.loss(X, label)).tolist() == [False, True, True, False]
    assert model.loss(X, label, policy="drop").tolist() == [0.0] * 4
    repaired = model.loss(X, label, policy="repair")
    torch.testing.assert_close(
        repaired[1:3], nn.functional.cross_entropy(model.model(X), label, reduction="none")[1:3]
    )


def test_a_policy_that_there_is_not_is_rejected() -> None:
    model = model_of()
    with pytest.raises(UsageError, match="unknown policy `skip`"):
        model.loss(X, LABELS, knowledge=model.knowledge(X), policy="skip")  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", ["error", "drop", "repair"])
def test_transforms_over_labels_are_asked_for_nothing(policy: str) -> None:
    model = model_of()
    knowledge = model.knowledge(X)
    both = torch.stack([LABELS, torch.tensor([1, 2, 0, 2])])
    found = torch.func.vmap(lambda label: model.loss(X, label, knowledge=knowledge, policy=policy))(
        both
    )  # type: ignore[arg-type]
    assert bool(torch.isinf(found[0]).any()) == (policy == "error")
    torch.testing.assert_close(found[1], model.loss(X, both[1], knowledge=knowledge))


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["error", "drop", "repair"])
def test_compiled_functions_hold_the_loss_in_one_graph(policy: str) -> None:
    model = model_of()
    knowledge = model.knowledge(X)
    loss = torch.compile(
        lambda label: model.loss(X, label, knowledge=knowledge, policy=policy),
        backend="eager",
        fullgraph=True,
    )  # type: ignore[arg-type]
    found = loss(LABELS)
    expected = (
        torch.inf
        if policy == "error"
        else model.loss(X, LABELS, knowledge=knowledge, policy=policy)[2:]
    )  # type: ignore[arg-type]
    assert bool((found[2:] == expected).all())


@pytest.mark.parametrize("policy", ["error", "drop", "repair"])
def test_a_device_is_not_waited_for(
    policy: str, elsewhere: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of()
    knowledge = model.knowledge(X)
    expected = torch.func.vmap(
        lambda label: model.loss(X, label, knowledge=knowledge, policy=policy)
    )(LABELS[None])[0]  # type: ignore[arg-type]
    model, x, label, there = (
        model.to(elsewhere),
        X.to(elsewhere),
        LABELS.to(elsewhere),
        knowledge.to(elsewhere),
    )

    def asked(_: Tensor) -> bool:
        raise AssertionError("the device was asked for a number")

    with monkeypatch.context() as watched:
        watched.setattr(torch.Tensor, "__bool__", asked)
        watched.setattr(torch.Tensor, "item", asked)
        found = model.loss(x, label, knowledge=there, policy=policy)  # type: ignore[arg-type]
    torch.testing.assert_close(found.cpu(), expected)


def test_on_a_device_labels_are_looked_at_where_knowledge_is_worked_out(
    elsewhere: torch.device,
) -> None:
    with pytest.raises(KnowledgeError, match="rules out 2 of 4 labels"):
        model_of().to(elsewhere).loss(X.to(elsewhere), LABELS.to(elsewhere))
