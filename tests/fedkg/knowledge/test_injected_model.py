"""A model with injected knowledge, and knowledge that contradicts itself or the labels."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import fedkg
from fedkg.errors import KnowledgeError, LayoutError, UsageError
from fedkg.knowledge.contradiction_resolution import SampleKnowledge, reconcile
from fedkg.knowledge.injected_model import Injected, inject
from fedkg.knowledge.input_selection_and_pooling import max_pool, select

CLASSES = 4


def by_sign(x: Tensor) -> Tensor:
    """A range: classes 0 and 1 for a positive first feature, the others for a negative one."""
    low = (x[:, :1] > 0) & (torch.arange(CLASSES) < 2)
    return low | ((x[:, :1] <= 0) & (torch.arange(CLASSES) >= 2))


def first_of_range(x: Tensor) -> Tensor:
    return by_sign(x).int().argmax(1)


def batch(rows: int = 40) -> tuple[Tensor, Tensor]:
    dice = torch.Generator().manual_seed(5)
    x = torch.randn(rows, 3, generator=dice, dtype=torch.float64)
    return x, first_of_range(x) + torch.randint(2, (rows,), generator=dice)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, CLASSES)).double()


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_an_untrained_model_never_leaves_its_range(scale: float) -> None:
    x, _ = batch()
    model = inject(net(), first_of_range, by_sign, 0.3)
    answer = model(x * scale)
    assert bool((answer[~by_sign(x)] == 0).all())
    assert bool(by_sign(x).gather(1, model.decide(x * scale)[:, None]).all())


@pytest.mark.parametrize("trust", [0.5, 0.6, 1.0])
@pytest.mark.filterwarnings("ignore:with a trust of 1")
def test_enough_trust_decides(trust: float) -> None:
    x, _ = batch()
    assert torch.equal(inject(net(), first_of_range, by_sign, trust).decide(x), first_of_range(x))


def trained(model: Injected | nn.Module, steps: int = 5) -> list[Tensor]:
    """Two clients' federated averaging by hand: full batches, one step each."""
    x, y = batch()
    inner = model.model if isinstance(model, Injected) else model
    for _ in range(steps):
        start = [p.detach().clone() for p in inner.parameters()]
        ends = []
        for rows in (slice(0, 20), slice(20, 40)):
            for parameter, value in zip(inner.parameters(), start, strict=True):
                parameter.data = value.clone()
            plain = nn.functional.cross_entropy
            loss = (
                model.loss(x[rows], y[rows]).mean()
                if isinstance(model, Injected)
                else plain(model(x[rows]), y[rows])
            )
            slopes = torch.autograd.grad(loss, list(inner.parameters()))
            ends.append(
                [
                    p.detach() - 0.1 * slope
                    for p, slope in zip(inner.parameters(), slopes, strict=True)
                ]
            )
        for parameter, *values in zip(inner.parameters(), *ends, strict=True):
            parameter.data = torch.stack(values).mean(0)
    return [p.detach() for p in inner.parameters()]


def test_without_restriction_training_is_that_of_plain_cross_entropy() -> None:
    everything = inject(
        net(), range=lambda x: torch.ones(x.shape[0], CLASSES, dtype=torch.bool), trust=0.0
    )
    for mine, plain in zip(trained(everything), trained(net()), strict=True):
        torch.testing.assert_close(mine, plain, atol=1e-12, rtol=0)


def test_with_full_trust_nothing_is_learnt() -> None:
    with pytest.warns(UserWarning, match="learns nothing"):
        model = inject(net(), first_of_range, by_sign, 1.0)
    for mine, start in zip(trained(model), net().parameters(), strict=True):
        assert torch.equal(mine, start)


def test_what_is_sent_holds_the_parameters_alone() -> None:
    model = inject(net(), first_of_range, by_sign, 0.3)
    assert list(model.state_dict()) == [f"model.{name}" for name in net().state_dict()]
    assert len(list(model.parameters())) == 4


RULES = """
signal ash     in %  span 0 .. 40
signal sulphur in %  span 0 .. 5
label  grade   classes A, B, C, D
output quality in %  span 0 .. 100
range knowledge by_ash of grade
  when ash > 12.5 % allow C, D
  when ash <= 8 % and not sulphur > 1 % allow A, B
  otherwise allow any
range knowledge by_sulphur of grade  when sulphur > 4 % allow D  otherwise allow any
predict knowledge said of grade
  when ash <= 8 % and not sulphur > 1 % predict A
  when ash > 30 % or sulphur > 4 % predict D
  otherwise predict C
range knowledge usual of quality
  when ash > 12.5 % allow 0 .. 60 %
  when ash < 5 % allow between 80 % - ash and 100 %
  otherwise allow any
predict knowledge guess of quality  when ash < 5 % predict 95 % - ash  otherwise predict 50 %
"""


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> fedkg.Pack:
    path = tmp_path_factory.mktemp("knowledge") / "grades.fkg"
    path.write_text(RULES, encoding="utf-8")
    return fedkg.compile(path)


def test_a_packs_knowledge_on_standardised_features(pack: fedkg.Pack) -> None:
    from fedkg.knowledge.tensor_knowledge import PredictionKnowledge, RangeKnowledge

    layout = fedkg.columns(["sulphur", "ash"], mean=[1.0, 10.0], std=[0.5, 5.0])
    raw = torch.tensor(
        [[0.5, 13.0], [4.5, 35.0], [0.5, 4.0], [0.5, float("nan")], [4.5, 3.0]], dtype=torch.float64
    )
    x = (raw - torch.tensor([1.0, 10.0])) / torch.tensor([0.5, 5.0])
    allowed = RangeKnowledge(pack, "grade", x=layout)(x)
    assert [
        "".join(c for c, on in zip("ABCD", row, strict=True) if on) for row in allowed.tolist()
    ] == ["CD", "D", "AB", "ABCD", "D"]
    assert PredictionKnowledge(pack, "said", x=layout)(x).tolist() == [2, 3, 0, -1, 3]
    quality = RangeKnowledge(pack, "quality", x=layout, bins=5)
    assert quality(x).int().tolist() == [
        [1, 1, 1, 1, 0],
        [1, 1, 1, 1, 0],
        [0, 0, 0, 1, 1],
        [1] * 5,
        [0, 0, 0, 1, 1],
    ]
    guess = PredictionKnowledge(pack, "quality", x=layout, bins=5)
    model = inject(nn.Linear(2, 5).double(), guess, quality, trust=0.6)
    knowledge = model.knowledge(x)
    settled = reconcile(knowledge)
    assert (settled.empty, settled.outside) == (0, 0)
    assert model.number(x, knowledge=knowledge)[[2, 4]].tolist() == [90.0, 90.0]
    assert bool((model.number(x, knowledge=knowledge, mean=True)[[2, 4]] > 82).all())


def test_windows_have_knowledge_at_every_step(pack: fedkg.Pack) -> None:
    from fedkg.knowledge.tensor_knowledge import PredictionKnowledge, RangeKnowledge

    layout = fedkg.columns(["ash", "sulphur"])
    x = torch.tensor([[[13.0, 0.5], [4.0, 0.5]], [[31.0, 0.5], [9.0, 0.5]]])
    assert RangeKnowledge(pack, "grade", x=layout)(x).int().sum(-1).tolist() == [[2, 2], [2, 4]]
    assert PredictionKnowledge(pack, "grade", x=layout)(x).tolist() == [[2, 0], [3, 2]]


def test_knowledge_that_is_not_there_is_an_error(pack: fedkg.Pack) -> None:
    from fedkg.knowledge.tensor_knowledge import PredictionKnowledge, RangeKnowledge

    layout = fedkg.columns(["ash", "sulphur"])
    with pytest.raises(KnowledgeError, match="no knowledge model for the range of `colour`"):
        RangeKnowledge(pack, "colour", x=layout)
    with pytest.raises(KnowledgeError, match="number of bins"):
        RangeKnowledge(pack, "quality", x=layout)
    with pytest.raises(KnowledgeError, match="bins=0"):
        RangeKnowledge(pack, "quality", x=layout, bins=0)
    with pytest.raises(KnowledgeError, match="received: int"):
        inject(3, range=by_sign)
    model = inject(net(), range=by_sign)
    with pytest.raises(LayoutError, match="belongs to another batch"):
        model(batch()[0], knowledge=model.knowledge(batch()[0][:2]))
    with pytest.raises(LayoutError, match="sulphur"):
        RangeKnowledge(pack, "grade", x=fedkg.columns(["ash"]))
    with pytest.raises(KnowledgeError, match="different classes"):
        inject(
            net(),
            PredictionKnowledge(pack, "quality", x=layout, bins=4),
            RangeKnowledge(pack, "grade", x=layout),
        )
    with pytest.raises(KnowledgeError, match="from 0 to 1"):
        inject(net(), range=by_sign, trust=1.5)
    with pytest.raises(KnowledgeError, match="nothing to inject"):
        inject(net())
    with pytest.raises(LayoutError, match="one logit for each class"):
        inject(nn.Linear(3, 7).double(), range=by_sign)(batch()[0])
    with pytest.raises(LayoutError, match="a number that is not the position of a class"):
        inject(net(), prediction=lambda x: torch.full((len(x),), 9))(batch()[0])


def test_a_range_without_a_class_is_rejected_before_any_answer() -> None:
    def nothing_below_zero(x: Tensor) -> Tensor:
        return by_sign(x) & (x[:, :1] > 0)

    model = inject(net(), range=nothing_below_zero)
    x, _ = batch()
    with pytest.raises(KnowledgeError, match="no class is allowed"):
        model(x)
    assert bool(model.knowledge(x, policy="drop").allowed.any(-1).all())


WRONG = SampleKnowledge(
    allowed=torch.tensor([[1, 1, 0], [0, 0, 0], [0, 1, 1], [1, 0, 0], [0, 0, 1]], dtype=torch.bool),
    predicted=torch.tensor([0, 1, 0, -1, 0]),
)
LABELS = torch.tensor([1, 2, 2, 2, 0])


def test_contradictions_are_refused_by_row_and_client() -> None:
    with pytest.raises(KnowledgeError) as caught:
        reconcile(WRONG, LABELS, trust=0.3, client="mill_3")
    said = str(caught.value)
    assert "client mill_3" in said
    assert "for 1 sample, no class is allowed (the first is row 1)" in said
    assert "for 2 samples, the predicted class is not allowed (the first is row 2)" in said
    assert "for 1 sample, the label is ruled out (the first is row 3, class 2)" in said


def test_contradictions_are_dropped() -> None:
    settled = reconcile(WRONG, LABELS, policy="drop", trust=0.3)
    assert settled.knowledge.allowed.int().tolist() == [
        [1, 1, 0],
        [1, 1, 1],
        [0, 1, 1],
        [1, 0, 0],
        [0, 0, 1],
    ]
    assert settled.knowledge.predicted.tolist() == [0, 1, -1, -1, -1]
    assert settled.kept.tolist() == [True, True, True, False, False]
    assert (settled.empty, settled.outside, settled.wrong) == (1, 2, 1)


def test_contradictions_are_repaired() -> None:
    settled = reconcile(WRONG, LABELS, policy="repair", trust=0.3)
    assert settled.knowledge.allowed.int().tolist() == [
        [1, 1, 0],
        [1, 1, 1],
        [1, 1, 1],
        [1, 0, 1],
        [1, 0, 1],
    ]
    assert settled.knowledge.predicted.tolist() == [0, 1, 0, -1, 0]
    assert bool(settled.kept.all())
    again = reconcile(settled.knowledge, LABELS, trust=0.3)
    assert (again.empty, again.outside, again.wrong) == (0, 0, 0)


@pytest.mark.parametrize("policy", ["drop", "repair"])
def test_what_is_kept_has_finite_losses(policy: str) -> None:
    settled = reconcile(WRONG, LABELS, policy=policy, trust=0.3)  # type: ignore[arg-type]
    rows = settled.kept.nonzero().squeeze(1)
    model = inject(nn.Identity(), range=by_sign)
    logits = torch.zeros(5, 3)
    assert bool(
        torch.isfinite(
            model.loss(logits[rows], LABELS[rows], knowledge=settled.knowledge[rows])
        ).all()
    )


def test_the_papers_operators() -> None:
    assert select(torch.tensor([7, 8, 9]), [2, 0]).tolist() == [9, 7]
    square = torch.arange(1.0, 17.0).reshape(1, 4, 4)
    assert max_pool(square, 2).tolist() == [[[6.0, 8.0], [14.0, 16.0]]]
    with pytest.raises(LayoutError, match="divisible by 3"):
        max_pool(square, 3)
    with pytest.raises(LayoutError, match="reads feature 3"):
        select(torch.tensor([7, 8, 9]), [3])


def test_every_batch_that_is_not_what_the_layout_says_is_rejected(pack: fedkg.Pack) -> None:
    from fedkg.knowledge.tensor_knowledge import PredictionKnowledge, RangeKnowledge

    mean, std = torch.tensor([20.0, 2.0]), torch.tensor([5.0, 0.5])
    z = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
    raw = z * std + mean
    for kind in (RangeKnowledge, PredictionKnowledge):
        scaled = kind(pack, "grade", x=fedkg.columns(["ash", "sulphur"], mean=mean, std=std))
        source = kind(pack, "grade", x=fedkg.columns(["ash", "sulphur"]))
        scaled(z), source(raw)
        with pytest.raises(LayoutError, match="raw"):
            inject(
                nn.Linear(2, 4), **{"range" if kind is RangeKnowledge else "prediction": scaled}
            )(raw)
        with pytest.raises(LayoutError, match="looks standardised"):
            source(z)
        with pytest.raises(LayoutError, match="shape"):
            source(z[0])


def test_each_condition_has_the_name_of_its_own_model(pack: fedkg.Pack) -> None:
    from fedkg.knowledge.tensor_knowledge import RangeKnowledge

    names = RangeKnowledge(
        pack, "grade", x=fedkg.columns(["ash", "sulphur"])
    )._conditions.rules.rule_names
    assert names == ("by_ash, part 0", "by_ash, part 1", "by_sulphur, part 0")


def test_labels_that_are_no_classes_are_named() -> None:
    x, y = batch()
    model = inject(net(), range=by_sign)
    for wrong in (CLASSES, -1, 99):
        y[3] = wrong
        with pytest.raises(
            LayoutError,
            match=r"row 3 is not one of the 4 classes\n  expected: 0 \.\. 3\n"
            rf"  received: {wrong}\n",
        ):
            model.loss(x, y)
        with pytest.raises(LayoutError, match="row 3"):
            reconcile(SampleKnowledge(allowed=by_sign(x), predicted=first_of_range(x)), y)
    with pytest.raises(
        LayoutError,
        match=r"expected: int64 \[40\], .*\n  received: int64 \[40, 1\]\n"
        r"  help: labels.squeeze\(-1\)$",
    ):
        model.loss(x, y[:, None])
    with pytest.raises(LayoutError, match=r"received: float32 \[40\]\n  help: labels.long\(\)$"):
        model.loss(x, y.float())


def test_a_policy_that_there_is_not_is_rejected() -> None:
    knowledge = SampleKnowledge(allowed=torch.tensor([[True, False]]), predicted=torch.tensor([1]))
    with pytest.raises(UsageError, match="unknown policy `fix`\\n  expected: error, drop, repair"):
        reconcile(knowledge, policy="fix")  # type: ignore[arg-type]  # that is what is tested


def test_under_autocast_probabilities_and_losses_are_float32_as_torchs_own() -> None:
    x, labels = batch()
    net32 = net().float()
    free = inject(net32, lambda x: first_of_range(x) * 0 - 1, lambda x: by_sign(x) | True)
    exact = free.loss(x.float(), labels)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = net32(x.float())
        own = nn.functional.cross_entropy(logits, labels, reduction="none")
        loss, answer = free.loss(x.float(), labels), free(x.float())
    assert logits.dtype == torch.bfloat16
    assert answer.dtype == loss.dtype == torch.float32
    assert torch.allclose(loss, own, rtol=1e-6, atol=0)
    assert torch.allclose(answer.sum(-1), torch.ones(len(x)), atol=1e-6, rtol=0)
    assert torch.allclose(loss.mean(), exact.mean(), rtol=5e-3)
    loss.mean().backward()
    assert all(part.grad is not None for part in net32.parameters())
