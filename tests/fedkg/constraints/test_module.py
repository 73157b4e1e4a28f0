"""The module in a user's training loop."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch
from strategies import CONTRACT, X, Y, bank_of, guarded, pack_of
from torch import nn

from fedkg.constraints import (
    ConstraintModule,
    ConstraintWarning,
    columns,
    logit,
    probability,
    scores,
)
from fedkg.constraints.probe_scores import Probe
from fedkg.errors import LayoutError
from fedkg.pack import (
    And,
    Bank,
    CategoryIs,
    ClassIn,
    Column,
    Compare,
    DataContract,
    Formula,
    Implies,
    Not,
    Or,
    Pack,
    Param,
    Product,
    Slot,
    Sum,
    View,
)


def monotone(view: int = 1) -> Pack:
    """Failure never falls as wear rises.

    It compares within view 1, or with the previous row (view 2, or view 3 within a type).
    """
    base, other = Slot(index=0, role="output"), Slot(index=1, role="output")
    return pack_of(
        [bank_of(Compare(op="le", left=base, right=other, scale=0), [1.0], [4, 4], views=[0, view])]
    )


def keyed() -> Pack:
    """Torque <= 50 for machines of type L only."""
    bank = bank_of(
        Compare(op="le", left=Slot(index=0), right=Param(index=0), scale=1), [50.0, 1.0], [0]
    )
    fields = {
        name: getattr(bank, name)
        for name in ("slots", "views", "params", "weight", "rule", "entity", "unit")
    }
    return pack_of(
        [
            Bank(
                skeleton=bank.skeleton,
                keys=np.array([[3]], np.int32),
                codes=np.array([[1]], np.int32),
                **fields,
            )
        ]
    )


def one_output(unit: str = "probability") -> DataContract:
    kept = tuple(c for c in CONTRACT.columns if c.role == "input")
    return DataContract(
        columns=(*kept, Column(name="failure", source="failure", role="output", unit=unit)),
        views=CONTRACT.views,
    )


def test_ten_lines_in_a_training_loop() -> None:
    torch.manual_seed(0)
    x, target = torch.randn(64, 2), torch.zeros(64, 1)
    pack = pack_of(list(guarded(45.0).banks), contract=one_output())
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
    rules = pack.constraints(
        x=columns(["Torque [Nm]", "wear"], mean=[40.0, 110.0], std=[10.0, 60.0]), y=logit("failure")
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    before = rules(x=x, y=model).violation_rate
    for _ in range(60):
        report = rules(x=x, y=model)
        loss = (
            nn.functional.binary_cross_entropy_with_logits(report.outputs, target)
            + 5.0 * report.penalty
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    after = rules(x=x, y=model(x))
    assert before > 0.1
    assert after.violation_rate < before / 2
    frame = rules(x=x, y=torch.full((64,), -9.0)).violations()
    assert list(frame.columns) == ["rule", "entity", "row", "robustness", "unit", "title"]
    assert set(frame["rule"]) == {"rule_0"}


def test_nothing_is_in_the_state_dict_or_the_parameters_and_copies_work() -> None:
    rules = ConstraintModule(guarded(1.0), x=X, y=Y)
    model = nn.ModuleDict({"net": nn.Linear(4, 5), "rules": rules})
    assert set(model.state_dict()) == {"net.weight", "net.bias"}
    assert not list(rules.parameters())
    again = copy.deepcopy(rules)
    x, y = torch.rand(3, 4), torch.rand(3, 5)
    assert torch.equal(again(x, y).penalty, rules(x, y).penalty)


def test_a_change_of_dtype_leaves_thresholds_exact() -> None:
    bank = bank_of(
        Compare(op="le", left=Slot(index=0), right=Param(index=0), scale=1), [8.6, 1.0], [0]
    )
    rules = ConstraintModule(pack_of([bank]), x=X, y=Y).half().to(torch.bfloat16)
    x = torch.tensor([[8.6, 0.0, 0.0, 0.0]], dtype=torch.float64)
    assert rules(x, torch.zeros(1, 5)).robustness.item() == 0.0
    assert rules(x, torch.zeros(1, 5)).satisfied.item()


def test_a_change_of_dtype_leaves_rules_on_their_device() -> None:
    rules = ConstraintModule(monotone(), x=X, y=Y).to("meta").double()
    assert {value.device.type for value in rules.wires.values()} == {"meta"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_floating_dtype_trains(dtype: torch.dtype) -> None:
    rules = ConstraintModule(monotone(), x=X, y=Y)
    model = nn.Linear(4, 5).to(dtype)
    report = rules(torch.rand(7, 4).to(dtype), model)
    report.penalty.backward()
    assert report.robustness.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert model.weight.grad is not None
    assert model.weight.grad.dtype == dtype


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize(
    "pack", [guarded(1.0), monotone(), monotone(2), pack_of([]), pack_of([], rules=0)]
)
def test_batches_of_none_and_one(pack: Pack, batch: int) -> None:
    rules = ConstraintModule(pack, x=X, y=Y)
    model = nn.Linear(4, 5)
    x = torch.zeros(batch, 4)
    report = rules(x, model, previous="above")
    assert report.robustness.shape == (batch, pack.rows)
    assert torch.isfinite(report.penalty)
    assert 0.0 <= report.violation_rate <= 1.0
    assert len(report.violations()) == int(report.violated.sum())
    assert rules.project(x, model(x)).shape == (batch, 5)


def test_a_pack_without_outputs_needs_no_model() -> None:
    contract = DataContract(columns=CONTRACT.columns[:3])
    bank = bank_of(
        Compare(op="lt", left=Slot(index=0), right=Param(index=0), scale=1), [1.0, 1.0], [0]
    )
    rules = pack_of([bank], contract=contract).constraints(x=columns(["torque"]), y=None)
    report = rules(torch.tensor([[0.5], [1.0], [float("nan")], [2.0]]))
    assert report.satisfied[:, 0].tolist() == [True, False, False, False]
    assert report.violated[:, 0].tolist() == [False, True, False, True]
    assert report.unknown[:, 0].tolist() == [False, False, True, False]
    assert report.robustness[1].item() == 0.0
    assert report.penalty == 0.0
    assert report.violation_rate == pytest.approx(2 / 3)
    assert report.violation_rates()["rule_0"] == pytest.approx(2 / 3)


def test_a_guard_that_holds_by_a_hair_sends_the_gradient_to_the_model() -> None:
    rules = ConstraintModule(guarded(1.0), x=X, y=Y)
    x = torch.tensor([[1.0 + 1e-6, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    y = torch.zeros(2, 5, requires_grad=True)
    report = rules(x, y)
    assert report.penalties[:, 0].tolist() == [pytest.approx(0.5 / 0.25), 0.0]
    assert report.fired[:, 0].tolist() == [True, False]
    report.penalty.backward()
    assert y.grad is not None
    assert y.grad[:, 0].tolist() == [pytest.approx(-1 / 0.25 / 2), 0.0]


def test_rows_that_no_output_can_mend_add_nothing() -> None:
    bank = bank_of(
        Compare(op="le", left=Slot(index=0), right=Param(index=0), scale=1), [0.0, 1.0], [0]
    )
    report = ConstraintModule(pack_of([bank]), x=X, y=Y)(
        torch.ones(3, 4), torch.zeros(3, 5, requires_grad=True)
    )
    assert report.violated.all()
    assert report.penalty == 0.0


def test_the_penalty_is_a_mean_over_applicable_rows_with_weights() -> None:
    rules = ConstraintModule(guarded(0.0), x=X, y=Y)
    x, y = torch.ones(4, 4), torch.tensor([0.0, 0.25, 0.5, -9.0])[:, None].repeat(1, 5)
    weights = torch.tensor([1.0, 3.0, 1.0, 0.0])
    assert float(rules(x, y, sample_weight=weights).penalty) == pytest.approx((2.0 + 3 * 1.0) / 5)
    assert float(rules(x[:3], y[:3]).penalty) == pytest.approx((2.0 + 1.0) / 3)


def test_the_penalty_does_not_depend_on_how_rows_are_chunked() -> None:
    bank = bank_of(
        Compare(op="lt", left=Slot(index=0, role="output"), right=Param(index=0), scale=1),
        [0.5, 2.0],
        [4],
        rows=5,
    )
    pack, x = pack_of([*guarded(0.0).banks, bank]), torch.rand(50, 4)
    gradients, values = [], []
    for memory in (200.0, 0.02, 0.0):
        rules = ConstraintModule(pack, x=X, y=Y, memory=memory)
        y = torch.linspace(0, 1, 250).reshape(50, 5).requires_grad_()
        report = rules(x, y)
        report.penalty.backward()
        values += [
            report.penalty.detach(),
            (report.penalties * 1.0).mean(dim=0)[[0]].sum().detach(),
        ]
        gradients.append(y.grad)
    assert torch.allclose(torch.stack(values[::2]), values[0].expand(3))
    assert torch.allclose(torch.stack(gradients), gradients[0].expand(3, 50, 5))


def test_the_penalty_is_what_the_penalties_say_and_so_is_its_gradient() -> None:
    bank = bank_of(
        Compare(op="lt", left=Slot(index=0, role="output"), right=Slot(index=1), scale=0),
        [2.0],
        [4, 0],
        rows=2,
    )
    rules = ConstraintModule(pack_of([bank]), x=X, y=Y)
    x, y = torch.rand(20, 4, requires_grad=True), torch.rand(20, 5, requires_grad=True)
    report = rules(x, y)
    other = 2 * report.penalties.mean()
    assert torch.allclose(report.penalty, other)
    found = torch.autograd.grad(report.penalty * 3, (x, y), retain_graph=True)
    for one, two in zip(found, torch.autograd.grad(other * 3, (x, y)), strict=True):
        assert torch.allclose(one, two)


def test_answers_may_come_in_several_shapes() -> None:
    rules = ConstraintModule(
        pack_of(list(monotone().banks), contract=one_output()), x=X, y=probability("failure")
    )
    x = torch.rand(3, 4)
    weight = 0.1 * torch.rand(4)
    expected = rules(x, lambda z: z @ weight).robustness
    assert torch.allclose(rules(x, lambda z: (z @ weight)[:, None]).robustness, expected)
    assert torch.allclose(rules(x, rules.views(x) @ weight).robustness, expected)
    assert torch.allclose(
        rules(x, torch.stack([v @ weight for v in rules.views(x)])[..., None]).robustness, expected
    )
    assert torch.allclose(expected[:, 0], 2.5 * weight[1].expand(3), atol=1e-5)


def test_raised_views_are_in_source_units() -> None:
    layout = columns(
        ["torque", "wear", "pressure", "kind"], mean=[0, 100, 0, 1], std=[1, 50, 1, 0.5]
    )
    rules = ConstraintModule(monotone(), x=layout, y=Y)
    assert rules.views(torch.zeros(1, 4))[1].tolist() == [[0.0, pytest.approx(0.05), 0.0, 0.0]]


def test_units_of_percent_and_logits() -> None:
    bank = bank_of(
        Compare(op="le", left=Slot(index=0, role="output"), right=Param(index=0), scale=1),
        [30.0, 1.0],
        [4],
    )
    rules = ConstraintModule(pack_of([bank], contract=one_output("%")), x=X, y=logit("failure"))
    assert rules(torch.zeros(1, 4), torch.zeros(1)).robustness.item() == pytest.approx(-20.0)


def test_keys_by_text_code_or_feature() -> None:
    without = ConstraintModule(keyed(), x=columns(["torque"]), y=Y)
    x, y = torch.tensor([[60.0], [60.0], [40.0]]), torch.zeros(3, 5)
    for given in (["L", "M", "L"], torch.tensor([1, 2, 1]), np.array(["L", "?", "L"])):
        for name in ("kind", "Type"):
            report = without(x, y, keys={name: given})
            assert report.applicable[:, 0].tolist() == [True, False, True]
            assert report.violated[:, 0].tolist() == [True, False, False]
    assert without.codes("Type", ["L", "M", "?"]).tolist() == [1, 2, -1]
    scaled = ConstraintModule(
        keyed(), x=columns(["torque", "kind"], mean=[0, 0.7], std=[1, 0.3]), y=Y
    )
    features = torch.tensor([[60.0, (1 - 0.7) / 0.3], [60.0, (2 - 0.7) / 0.3]])
    assert scaled(features, y[:2]).applicable[:, 0].tolist() == [True, False]


def test_a_missing_key_makes_rows_inactive_and_warns_once() -> None:
    rules = ConstraintModule(keyed(), x=columns(["torque"]), y=Y)
    with pytest.warns(ConstraintWarning, match=r'rule_0: needs keys=\{"Type"'):
        report = rules(torch.ones(2, 1), torch.zeros(2, 5))
    assert not report.applicable.any()
    assert set(report.inactive) == {"rule_0"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rules(torch.ones(2, 1), torch.zeros(2, 5))


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (torch.zeros(3, 4), "shape [3, 5]"),
        (torch.zeros(3), "shape [3, 5]"),
        (lambda z: (z, z), "y=lambda z: model(z)[0]"),
        (lambda z: z, "shape [3, 5]"),
        (None, "y=model"),
    ],
)
def test_answers_of_a_wrong_shape_are_rejected(y: object, words: str) -> None:
    with pytest.raises(LayoutError) as caught:
        ConstraintModule(guarded(1.0), x=X, y=Y)(torch.zeros(3, 4), y)
    assert words in str(caught.value)


def test_answers_for_one_view_are_refused_where_rules_compare_several() -> None:
    with pytest.raises(LayoutError, match="y=model"):
        ConstraintModule(monotone(), x=X, y=Y)(torch.zeros(3, 4), torch.zeros(3, 5))


def test_features_of_a_wrong_shape_are_rejected() -> None:
    with pytest.raises(LayoutError, match=r"\[B, 4\]"):
        ConstraintModule(guarded(1.0), x=X, y=Y)(torch.zeros(3, 5), torch.zeros(3, 5))


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (nn.Linear(4, 1), "pass the batch first"),
        (["a", "b"], "not a batch of numbers"),
        (None, "not a batch of numbers"),
        (torch.zeros(3, 4, dtype=torch.complex64), "complex"),
    ],
)
def test_an_argument_other_than_a_batch_is_rejected(x: object, said: str) -> None:
    rules = ConstraintModule(guarded(limit=0.0), x=X, y=Y)
    with pytest.raises(LayoutError, match=said):
        rules(x, torch.zeros(3, 5))  # type: ignore[arg-type]


def test_layouts_that_lack_what_rules_read_are_rejected() -> None:
    with pytest.raises(LayoutError, match=r"`torque` \(header `Torque \[Nm\]`\)"):
        ConstraintModule(guarded(1.0), x=columns(["wear"]), y=Y)
    with pytest.raises(LayoutError, match="did you mean `failure`"):
        ConstraintModule(guarded(1.0), x=X, y=probability("failur"))
    with pytest.raises(LayoutError, match=r"fedkg\.probability"):
        ConstraintModule(guarded(1.0), x=X, y=scores("grade", ["A", "B", "C"]))
    with pytest.raises(LayoutError, match="does not name"):
        ConstraintModule(monotone(), x=columns(["torque"]), y=Y)


def test_a_model_may_have_outputs_that_no_rule_reads() -> None:
    with_more = ConstraintModule(guarded(1.0), x=X, y=columns(["spare"]) + Y)
    x, y = torch.randn(6, 4), torch.randn(6, 5)
    keys = {"Type": torch.zeros(6, dtype=torch.int64)}
    spare = torch.cat([torch.randn(6, 1), y], dim=1)
    assert torch.equal(
        with_more(x, spare, keys=keys).robustness,
        ConstraintModule(guarded(1.0), x=X, y=Y)(x, y, keys=keys).robustness,
    )


def test_rows_before_by_tensor_or_from_above() -> None:
    rules = ConstraintModule(monotone(3), x=X, y=Y)
    x = torch.zeros(4, 4)
    x[:, 0], x[:, 3] = torch.tensor([1.0, 5.0, 2.0, 4.0]), torch.tensor([0.0, 1.0, 0.0, 1.0])
    model = nn.Linear(4, 5)
    nn.init.zeros_(model.bias), nn.init.zeros_(model.weight)
    with torch.no_grad():
        model.weight[0, 0] = 1.0
    above = rules(x, model, previous="above")
    assert above.unknown[:, 0].tolist() == [True, True, False, False]
    assert above.robustness[2:, 0].tolist() == [-1.0, 1.0]
    earlier = torch.stack([torch.full((4,), torch.nan), torch.full((4,), torch.nan), x[0], x[1]])
    given = rules(x, model, previous=earlier)
    assert torch.equal(given.robustness.nan_to_num(9.0), above.robustness.nan_to_num(9.0))
    with pytest.warns(ConstraintWarning, match="previous="):
        silent = rules(x, model)
    assert not silent.applicable.any()


def test_groups_and_traces_together_tell_rows_apart() -> None:
    bank = bank_of(
        Compare(op="le", left=Slot(index=0), right=Slot(index=1), scale=0),
        [1.0],
        [0, 0],
        views=[1, 0],
    )
    contract = DataContract(
        columns=CONTRACT.columns[:4],
        views=(View(), View(kind="previous", groups=("Type",))),
        kind="panel",
        trace="run",
    )
    rules = ConstraintModule(pack_of([bank], contract=contract), x=columns(["torque", "kind"]))
    x = torch.tensor([[1.0, 0], [5.0, 0], [2.0, 0], [4.0, 1], [3.0, 0]])
    report = rules(x, previous="above", keys={"run": ["a", "a", "b", "a", "b"]})
    assert report.unknown[:, 0].tolist() == [True, False, True, True, False]
    assert report.robustness[[1, 4], 0].tolist() == [4.0, 1.0]
    with pytest.warns(ConstraintWarning, match='"run"'):
        assert not rules(x, previous="above").applicable.any()
    assert rules(x[:0], previous="above", keys={"run": []}).robustness.shape == (0, 1)


def between() -> Pack:
    """Two rules over torque, pressure, quality, failure and grade.

    If torque > 0.2 and not (pressure > 0.9 or quality < failure) then 0.1 <= failure <= 0.3; grade
    A or failure * quality < 0.1.
    """
    failure, quality = Slot(index=2, role="output"), Slot(index=3, role="output")
    guard = Compare(op="lt", left=Param(index=0), right=Slot(index=0), scale=4)
    high = Compare(op="lt", left=Param(index=1), right=Slot(index=1), scale=4)
    chain = And(
        args=(
            Compare(op="le", left=Param(index=2), right=failure, scale=4),
            Compare(op="le", left=failure, right=Param(index=3), scale=4),
        )
    )
    antecedent = And(
        args=(
            guard,
            Not(arg=Or(args=(high, Compare(op="lt", left=quality, right=failure, scale=4)))),
        )
    )
    grade = Or(
        args=(
            ClassIn(inside=(4,), outside=(5, 6)),
            Compare(op="lt", left=Product(args=(failure, quality)), right=Param(index=2), scale=4),
        )
    )
    skeletons: list[Formula] = [Implies(antecedent=antecedent, consequent=chain), grade]
    return pack_of(
        [
            bank_of(skeleton, [0.2, 0.9, 0.1, 0.3, 2.0], [0, 2, 4, 5, 6, 7, 8])
            for skeleton in skeletons
        ]
    )


@pytest.mark.parametrize("pack", [monotone(), between()])
@pytest.mark.parametrize("semantics", ["exact", "smooth", "sound"])
def test_many_models_at_once_under_vmap(pack: Pack, semantics: str) -> None:
    rules = ConstraintModule(pack, x=X, y=Y)
    models = [nn.Linear(4, 5) for _ in range(3)]
    stacked, _ = torch.func.stack_module_state(models)
    x = torch.rand(3, 6, 4)

    def penalty(weights: dict[str, torch.Tensor], batch: torch.Tensor) -> torch.Tensor:
        return rules(
            batch,
            lambda z: torch.func.functional_call(models[0], weights, (z,)),
            semantics=semantics,
        ).penalty

    for batches, place in ((x[0], None), (x, 0)):
        own = [x[0]] * 3 if place is None else list(x)
        each = torch.stack(
            [
                rules(batch, model, semantics=semantics).penalty
                for batch, model in zip(own, models, strict=True)
            ]
        )
        assert torch.allclose(
            torch.func.vmap(penalty, in_dims=(0, place))(stacked, batches), each, atol=1e-6
        )
        gradients = torch.func.vmap(torch.func.grad(penalty), in_dims=(0, place))(stacked, batches)
        expected = torch.autograd.grad(each[1], models[1].weight)[0]
        assert torch.allclose(gradients["weight"][1], expected, atol=1e-6)
        alone = torch.func.grad(penalty)(
            {name: value[1] for name, value in stacked.items()}, own[1]
        )
        assert torch.allclose(alone["weight"], expected, atol=1e-6)


def test_a_standardised_batch_under_a_layout_of_source_units_is_rejected() -> None:
    spans = {"torque": (0.0, 100.0), "wear": (0.0, 300.0), "pressure": (290.0, 320.0)}
    contract = DataContract(
        columns=tuple(c.model_copy(update={"span": spans.get(c.name)}) for c in CONTRACT.columns),
        views=(View(),),
    )
    bank = bank_of(
        Compare(
            op="le",
            left=Sum(args=(Slot(index=0), Slot(index=1), Slot(index=2))),
            right=Param(index=0),
            scale=1,
        ),
        [1.0, 1.0],
        [0, 1, 2],
    )
    pack = pack_of([bank], contract=contract)
    generator = torch.Generator().manual_seed(0)
    standard = torch.randn(64, 3, generator=generator)
    raw = standard * torch.tensor([10.0, 50.0, 2.0]) + torch.tensor([40.0, 120.0, 300.0])
    y, names = torch.zeros(64, 5), ["torque", "wear", "pressure"]
    with pytest.raises(LayoutError, match=r"fedkg\.columns\(names, mean=\.\.\., std=\.\.\.\)"):
        ConstraintModule(pack, x=columns(names), y=Y)(standard, y)
    ConstraintModule(pack, x=columns(names), y=Y)(raw, y)
    layout = columns(names, mean=[40, 120, 300], std=[10, 50, 2])
    ConstraintModule(pack, x=layout, y=Y)(standard, y)
    with pytest.raises(LayoutError, match="looks like raw numbers"):
        ConstraintModule(pack, x=layout, y=Y)(raw, y)


def test_categories_inside_formulas_are_unknown_without_a_value() -> None:
    skeleton = CategoryIs(slot=0, param=0)
    rules = ConstraintModule(pack_of([bank_of(skeleton, [1.0], [3])]), x=X, y=Y)
    x = torch.zeros(3, 4)
    x[:, 3] = torch.tensor([1.0, 0.0, float("nan")])
    report = rules(x, torch.zeros(3, 5))
    assert (report.satisfied[0].item(), report.violated[1].item(), report.unknown[2].item()) == (
        True,
        True,
        True,
    )


def test_a_model_is_not_asked_for_more_of_what_is_unknown() -> None:
    grows = Compare(
        op="le", left=Slot(index=0, role="output"), right=Slot(index=1, role="output"), scale=0
    )
    rules = ConstraintModule(pack_of([bank_of(grows, [1.0], [4, 4], views=[0, 1])]), x=X, y=Y)
    x = torch.zeros(3, 4)
    x[1, 1], x[2, 0] = float("nan"), float("nan")  # raised is column 1
    model = lambda batch: torch.nan_to_num(batch[:, :1]).expand(len(batch), 5)  # noqa: E731
    report = rules(x, model)
    assert (report.satisfied[:, 0].tolist(), report.unknown[:, 0].tolist()) == (
        [True, False, True],
        [False, True, False],
    )
    probe = Probe(rules, x)
    assert probe.score(model(probe.inputs)[None]).violation.tolist() == [[0.0]]
    falling = (
        torch.tensor([[1.0], [0.0]]).repeat_interleave(3, 0).expand(6, 5)[None]
    )  # less on the raised rows, one of them unknown
    assert probe.score(falling).violation.tolist() == [[1.0]]


def test_an_unknown_argument_is_an_error_that_lists_the_known_ones() -> None:
    pack = pack_of(list(guarded(45.0).banks), contract=one_output())
    x = columns(["Torque [Nm]", "wear"], mean=[40.0, 110.0], std=[10.0, 60.0])
    rules = pack.constraints(x=x, y=logit("failure"))
    with pytest.raises(
        LayoutError, match=r"(?s)unknown argument `z`.*x \(Torque \[Nm\], wear\) and y \(failure\)"
    ):
        rules(x=torch.zeros(4, 2), z=torch.zeros(4))  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match=r"(?s)y is missing.*y \(failure\)"):
        rules(x=torch.zeros(4, 2))
    with pytest.raises(LayoutError, match="failure"):
        pack.constraints(x=x)
