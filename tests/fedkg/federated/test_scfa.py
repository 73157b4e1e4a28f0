"""The acceptance tests of SCFA's specification, numbered as there (7 to 11 are in test_theory.py, 13 and 14 in test_scfa_simulation.py)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
import torch
from federations import FunctionScorer, LinearRules, classes, identical, largest_difference, rows
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated import Problem, ScoreOptions, Settings, fedavg, scfa, train
from fedkg.federated.server import scoring
from fedkg.federated.server.aggregate import WeightedMean
from fedkg.federated.server.weighting import ByValidity
from fedkg.models import MLP, Params
from fedkg.zones import zone

SETTINGS = Settings(rounds=4, participation=0.6, local_epochs=2, batch=8, learning_rate=0.1, executor="stacked", seed=2)
F64 = torch.float64


def always(*share: float, families: list[str] | None = None) -> FunctionScorer:
    """All models violate the constraints by these shares."""
    return FunctionScorer(
        rows=rows(len(share), families=families),
        violation=lambda params: torch.tensor(share, dtype=F64).expand(len(next(iter(params.values()))), -1),
    )


def scored(problem: Problem, scorer: FunctionScorer | LinearRules) -> Problem:
    return replace(problem, scorer=scorer)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_1_with_all_rules_kept_the_trajectory_is_fedavgs_bit_for_bit(dtype: torch.dtype, executor: str) -> None:
    problem = scored(classes((11, 24, 7, 30, 16), dtype=dtype), always(*[0.0] * 7))
    settings = replace(SETTINGS, executor=executor)
    for variant in (scfa(), scfa(score="product"), scfa(score="min"), scfa(beta=3.0), scfa(graded=True)):
        ours, theirs = list(train(problem, variant, settings)), list(train(problem, fedavg(), settings))
        assert len(ours) == 4
        for (one, record), (other, _) in zip(ours, theirs, strict=True):
            assert identical(one.models, other.models)
            assert record.validity is not None
            assert set(record.validity) == {1.0}
            assert record.rho_worst == 0.0
            assert record.zone == "safe"


@pytest.mark.parametrize("weight", [[0.1] * 7, [1 / 3, 0.7, 1e-3, 2.0, 5.0, 1 / 7, 11.0]])
def test_1_validity_is_exactly_one_or_zero_at_the_ends_whatever_the_weights(weight: list[float]) -> None:
    w = torch.tensor(weight, dtype=F64)
    for count in (1, 2, 9):
        assert scoring.validity(torch.ones(count, 7, dtype=F64), w).tolist() == [1.0] * count
        assert scoring.validity(torch.zeros(count, 7, dtype=F64), w).tolist() == [0.0] * count


def test_2_weights_by_hand() -> None:
    alpha = scoring.alpha(torch.tensor([100.0, 200.0, 300.0]) * torch.tensor([1, 0.5, 1]))
    assert alpha.tolist() == pytest.approx([0.2, 0.2, 0.6], abs=1e-15)
    assert abs(float(alpha.sum()) - 1) < 1e-12


def test_2_the_weights_of_a_run_are_those_of_its_scores() -> None:
    """Three clients of 100, 200 and 300 samples; the second one's model breaks one of two rules."""
    problem = classes((100, 200, 300))
    calls: list[int] = []

    def violation(params: Params) -> Tensor:
        calls.append(len(next(iter(params.values()))))
        share = torch.zeros(3, 2, dtype=F64)
        share[1, 0] = 1.0
        return share

    settings = Settings(rounds=1, local_steps=1, batch=8, executor="stacked")
    (_, record), *_ = train(scored(problem, FunctionScorer(rows=rows(2), violation=violation)), scfa(), settings)
    assert calls == [3]
    assert record.validity == (1.0, 0.5, 1.0)
    assert record.alpha == pytest.approx((0.2, 0.2, 0.6), abs=1e-15)
    assert record.violated is not None
    assert record.violated.tolist() == [[0, 0], [1, 0], [0, 0]]
    assert (record.rho_worst, record.rho_mean, record.zone) == (0.5, pytest.approx(1 / 6), "critical")


def test_3_weights_of_the_papers_sites() -> None:
    alpha = scoring.alpha(torch.tensor([470.0, 330, 165, 120, 95]) * 1000)
    assert alpha.tolist() == pytest.approx([0.39831, 0.27966, 0.13983, 0.10169, 0.08051], abs=5e-6)


def fold(update: Tensor, weights: Tensor, *, chunk: int = 100) -> Tensor:
    aggregate = WeightedMean()
    sums = aggregate.begin({"w": torch.zeros(1, *update.shape[1:], dtype=update.dtype)})
    groups = torch.zeros(len(update), dtype=torch.int64)
    for part in range(0, len(update), chunk):
        here = slice(part, part + chunk)
        sums = aggregate.add(sums, {"w": update[here]}, weights[here], groups[here])
    return aggregate.finish(sums)["w"][0]


def test_4_a_client_without_validity_has_no_influence() -> None:
    update = torch.randn(3, 5, 2, dtype=F64, generator=torch.Generator().manual_seed(0))
    weights = (
        ByValidity().weigh(torch.tensor([0.2, 0.3, 0.5], dtype=F64), scorer_output([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]), rows(2)).weights
    )
    moved = update.clone()
    moved[1] += 1e6
    assert torch.equal(fold(update, weights), fold(moved, weights))


def scorer_output(violation: list[list[float]]) -> scoring.ProbeScores:
    tensor = torch.tensor(violation, dtype=F64)
    return scoring.ProbeScores(violation=tensor, applies=torch.ones(tensor.shape[1], dtype=torch.bool))


def test_5_when_nobody_keeps_any_rule() -> None:
    problem = scored(classes((11, 24, 7)), always(1.0, 1.0))
    start = problem.model.init(SETTINGS.seed, F64)
    *_, (kept, record) = train(problem, scfa(), SETTINGS)
    assert identical(kept.params, start)
    assert record.alpha == (0.0,) * len(record.clients)
    assert any("kept as it was" in note for note in record.notes)
    assert any("every rule of a family: capacity; put a penalty" in note for note in record.notes)
    partly = scored(classes((11, 24, 7)), always(1.0, 0.0, families=["temporal", "capacity"]))
    *_, (_, record) = train(partly, scfa(score="min"), SETTINGS)
    assert any("every rule of a family: temporal; put" in note for note in record.notes)

    *_, (state, record) = train(problem, scfa(on_all_invalid="fedavg"), SETTINGS)
    *_, (average, expected) = train(problem, fedavg(), SETTINGS)
    assert identical(state.params, average.params)
    assert record.alpha == expected.alpha

    with pytest.raises(JobError) as caught:
        list(train(problem, scfa(on_all_invalid="error"), SETTINGS))
    assert "round 1" in str(caught.value)
    assert "rule_0, rule_1" in str(caught.value)


def test_6_one_of_four_rules_broken() -> None:
    problem = scored(classes((11, 24, 7)), always(0.0, 0.3, 0.0, 0.0))
    (_, record), *_ = train(problem, scfa(), SETTINGS)
    assert record.validity == (0.75,) * len(record.clients)
    assert (record.rho_worst, record.zone) == (0.25, "critical")


@pytest.mark.parametrize(
    ("rho", "name"),
    [(0.0, "safe"), (0.049, "safe"), (0.05, "warning"), (0.10, "danger"), (0.18, "danger"), (0.181, "critical"), (1.0, "critical")],
)
def test_6_zones(rho: float, name: str) -> None:
    assert zone(rho) == name


def test_12_a_monotone_rule_counts_pairs() -> None:
    assert falling_pairs([1, 2, 2, 3]) == 0
    assert falling_pairs([1, 3, 2]) == 0.5


def falling_pairs(predictions: list[float]) -> float:
    y = torch.tensor(predictions, dtype=F64)
    return float((y[1:] < y[:-1]).double().mean())


def test_15_unit_weights_are_the_plain_mean() -> None:
    v = (torch.rand(6, 11, generator=torch.Generator().manual_seed(1)) > 0.4).double()
    assert torch.equal(scoring.validity(v, torch.ones(11, dtype=F64)), v.sum(1) / 11)


def test_15_the_order_of_rules_does_not_matter() -> None:
    generator = torch.Generator().manual_seed(2)
    v, weight = (torch.rand(6, 11, generator=generator) > 0.4).double(), torch.rand(11, generator=generator, dtype=F64)
    order = torch.randperm(11, generator=generator)
    assert torch.allclose(scoring.validity(v, weight), scoring.validity(v[:, order], weight[order]), rtol=0, atol=1e-12)


def test_15_the_order_of_clients_does_not_matter() -> None:
    generator = torch.Generator().manual_seed(3)
    update, weights = torch.randn(7, 30, dtype=F64, generator=generator), torch.rand(7, dtype=F64, generator=generator)
    order = torch.randperm(7, generator=generator)
    for chunk in (1, 3, 7):
        assert torch.allclose(fold(update, weights), fold(update[order], weights[order], chunk=chunk), rtol=0, atol=1e-12)


# Beyond the numbered tests: options, tolerances, vacuous rules, measuring.


def test_score_options() -> None:
    scores = scorer_output([[0.0, 0.02, 1.0, 0.0]])
    table = replace(rows(4, families=["temporal", "temporal", "causal", "causal"]), hard=torch.tensor([True, False, True, True]))

    def score(options: ScoreOptions) -> float:
        plain = scoring.kept_share(scores.violation, table, options)
        return float(scoring.score(scores.violation, table, options, plain))

    assert score(ScoreOptions()) == 0.75  # a soft rule may be broken on 5 % of the rows
    assert score(ScoreOptions(soft_tolerance=0.01)) == 0.5
    assert score(ScoreOptions(beta=2.0)) == 0.5625
    assert score(ScoreOptions(combine="product")) == 0.5
    assert score(ScoreOptions(combine="product", soft_tolerance=0.0)) == 0.25
    assert score(ScoreOptions(combine="min")) == 0.5
    assert score(ScoreOptions(graded=True)) == pytest.approx((1 + 0.98 + 0 + 1) / 4)
    assert score(ScoreOptions(hard_tolerance=1.0)) == 1.0


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("clients", [1, 4])
def test_validity_in_a_loop_is_that_of_tensors(graded: bool, clients: int) -> None:
    """To the bit where sums are exact, and within rounding elsewhere; with a share that is no number."""
    generator = torch.Generator().manual_seed(4)
    shares = torch.randint(0, 9, (clients, 50), generator=generator).double() / 8
    shares[0, 3] = torch.nan
    table = replace(rows(50), hard=torch.rand(50, generator=generator) > 0.5)
    options = ScoreOptions(graded=graded, hard_tolerance=0.25, soft_tolerance=0.5)
    expected = scoring.validity(scoring.kept(shares, table.hard, options), table.weight)
    assert torch.equal(scoring.kept_share(shares, table, options).nan_to_num(-1), expected.nan_to_num(-1))
    assert bool(expected.isnan()[0]) == graded

    table = replace(table, weight=torch.rand(50, generator=generator, dtype=F64))
    expected = scoring.validity(scoring.kept(shares, table.hard, options), table.weight)
    torch.testing.assert_close(scoring.kept_share(shares, table, options), expected, rtol=1e-14, atol=0, equal_nan=True)
    everything = scoring.kept_share(torch.zeros_like(shares), table, options)
    nothing = scoring.kept_share(torch.ones_like(shares), table, options)
    assert everything.tolist() == [1.0] * clients
    assert nothing.tolist() == [0.0] * clients
    assert (
        scoring.kept_share(shares, replace(table, weight=torch.zeros(50, dtype=F64)), replace(options, graded=False)).tolist()
        == [1.0] * clients
    )


def test_a_share_that_is_the_tolerance_is_kept() -> None:
    """7 of 10 at a tolerance of 0.7, which is more than the float32 next to it."""
    shares, table, options = torch.tensor([[0.7, 0.35]], dtype=F64), rows(2), ScoreOptions(hard_tolerance=0.7, soft_tolerance=0.35)
    table = replace(table, hard=torch.tensor([True, False]))
    assert scoring.kept(shares, table.hard, options).tolist() == [[1.0, 1.0]]
    assert scoring.kept_share(shares, table, options).tolist() == [1.0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"on_all_invalid": "stop"}, "skip, fedavg or error"),
        ({"score": "sum"}, "mean, product or min"),
        ({"beta": 0.5}, "beta"),
        ({"beta": float("nan")}, "beta"),
        ({"hard_tolerance": -0.1}, "hard_tolerance"),
        ({"soft_tolerance": 1.5}, "soft_tolerance"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(JobError, match=said):
        scfa(**options)


def test_without_rules_scfa_is_fedavg() -> None:
    problem = classes((11, 24, 7))
    for scorer in (None, always()):
        *_, (state, record) = train(replace(problem, scorer=scorer), scfa(), SETTINGS)
        *_, (average, _) = train(problem, fedavg(), SETTINGS)
        assert identical(state.models, average.models)
        assert record.validity is None
        assert record.zone is None


@dataclass(frozen=True, eq=False)
class Vacuous:
    rows: scoring.ScoredRows = field(default_factory=lambda: rows(2))

    def score(self, params: Params) -> scoring.ProbeScores:
        count = len(next(iter(params.values())))
        return scoring.ProbeScores(violation=torch.zeros(count, 2), applies=torch.tensor([True, False]))


def test_rules_that_apply_to_no_probe_row_are_named() -> None:
    (_, record), *_ = train(replace(classes((5, 9)), scorer=Vacuous()), scfa(), SETTINGS)
    assert record.vacuous == ("rule_1",)


def test_fedavg_measures_rules_and_does_not_obey_them() -> None:
    problem = scored(classes((11, 24, 7)), always(1.0, 0.0))
    (_, record), *_ = train(problem, fedavg(), SETTINGS)
    assert record.rho_worst == 0.5
    (_, silent), *_ = train(problem, fedavg(), replace(SETTINGS, measure=False))
    assert silent.rho_worst is None
    (_, scored_anyway), *_ = train(problem, scfa(), replace(SETTINGS, measure=False))
    assert scored_anyway.rho_worst == 0.5


def test_chunks_of_the_stack_do_not_change_scfa() -> None:
    model = MLP(inputs=6, hidden=(5,), outputs=1)
    probe = torch.randn(40, 6, dtype=F64, generator=torch.Generator().manual_seed(0))
    problem = replace(classes((11, 24, 7, 19, 3)), model=replace(model, outputs=4), scorer=LinearRules(model=model, probe=probe))
    linear = replace(problem, scorer=LinearRules(model=_FirstOutput(problem.model), probe=probe))
    settings = replace(SETTINGS, participation=1.0)
    *_, (whole, record) = train(linear, scfa(), settings)
    *_, (parts, other) = train(linear, scfa(), replace(settings, chunk=2))
    *_, (one_by_one, _) = train(linear, scfa(), replace(settings, executor="sequential"))
    assert record.validity == other.validity
    assert record.alpha == other.alpha
    assert largest_difference(whole.params, parts.params) < 1e-12
    assert largest_difference(whole.params, one_by_one.params) < 1e-12


@dataclass(frozen=True)
class _FirstOutput:
    model: MLP

    def apply(self, params: Params, x: Tensor) -> Tensor:
        return self.model.apply(params, x)[..., :1]
