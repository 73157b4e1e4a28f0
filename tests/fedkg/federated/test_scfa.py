"""The acceptance tests of SCFA's specification, with its numbers.

7 to 11 are in test_theory.py, 13 and 14 in test_scfa_simulation.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from federations import FunctionScorer, LinearRules, classes, identical, largest_difference, rows
from torch import Tensor

import fedkg
from fedkg.constraints import ConstraintModule, columns
from fedkg.errors import JobError
from fedkg.federated import (
    Algorithm,
    Clients,
    Problem,
    ScoreOptions,
    Settings,
    SquaredError,
    fedavg,
    initial_state,
    scfa,
    train,
)
from fedkg.federated.server import scoring
from fedkg.federated.server.pack_scorer import PackScorer
from fedkg.federated.temporal.property_loss_clustering import ClusterStart, with_clusters
from fedkg.models import MLP, Params
from fedkg.violation_rate_zones import classify_rate

SETTINGS = Settings(
    rounds=4,
    participation=0.6,
    local_epochs=2,
    batch=8,
    learning_rate=0.1,
    executor="stacked",
    seed=2,
)
F64 = torch.float64


def always(*share: float, families: list[str] | None = None) -> FunctionScorer:
    """All models violate the constraints by these shares."""
    return FunctionScorer(
        rows=rows(len(share), families=families),
        violation=lambda params: torch.tensor(share, dtype=F64).expand(
            len(next(iter(params.values()))), -1
        ),
    )


def scored(problem: Problem, scorer: FunctionScorer | LinearRules) -> Problem:
    return replace(problem, scorer=scorer)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("executor", ["sequential", "stacked"])
def test_1_with_all_rules_kept_the_trajectory_is_fedavgs_bit_for_bit(
    dtype: torch.dtype, executor: str
) -> None:
    problem = scored(classes((11, 24, 7, 30, 16), dtype=dtype), always(*[0.0] * 7))
    settings = replace(SETTINGS, executor=executor)
    for variant in (
        scfa(),
        scfa(score="product"),
        scfa(score="min"),
        scfa(beta=3.0),
        scfa(graded=True),
    ):
        ours, theirs = (
            list(train(problem, variant, settings)),
            list(train(problem, fedavg(), settings)),
        )
        assert len(ours) == 4
        for (one, record), (other, _) in zip(ours, theirs, strict=True):
            assert identical(one.models, other.models)
            assert record.validity is not None
            assert set(record.validity) == {1.0}
            assert record.rho_worst == 0.0
            assert record.zone == "safe"


@pytest.mark.parametrize("weight", [[0.1] * 7, [1 / 3, 0.7, 1e-3, 2.0, 5.0, 1 / 7, 11.0]])
def test_1_validity_is_exactly_one_or_zero_at_the_ends_whatever_the_weights(
    weight: list[float],
) -> None:
    w = torch.tensor(weight, dtype=F64)
    for count in (1, 2, 9):
        assert scoring.validity(torch.ones(count, 7, dtype=F64), w).tolist() == [1.0] * count
        assert scoring.validity(torch.zeros(count, 7, dtype=F64), w).tolist() == [0.0] * count


def test_2_weights_by_hand() -> None:
    alpha = scoring.alpha(torch.tensor([100.0, 200.0, 300.0]) * torch.tensor([1, 0.5, 1]))
    assert alpha.tolist() == pytest.approx([0.2, 0.2, 0.6], abs=1e-15)
    assert abs(float(alpha.sum()) - 1) < 1e-12


def test_2_the_weights_of_a_run_are_those_of_its_scores() -> None:
    """Clients of 100, 200 and 300 samples; the second one's model violates one of two rules."""
    problem = classes((100, 200, 300))
    calls: list[int] = []

    def violation(params: Params) -> Tensor:
        calls.append(len(next(iter(params.values()))))
        share = torch.zeros(3, 2, dtype=F64)
        share[1, 0] = 1.0
        return share

    settings = Settings(rounds=1, local_steps=1, batch=8, executor="stacked")
    (_, record), *_ = train(
        scored(problem, FunctionScorer(rows=rows(2), violation=violation)), scfa(), settings
    )
    assert calls == [3]
    assert record.validity == (1.0, 0.5, 1.0)
    assert record.alpha == pytest.approx((0.2, 0.2, 0.6), abs=1e-15)
    assert record.violated is not None
    assert record.violated.tolist() == [[0, 0], [1, 0], [0, 0]]
    assert (record.rho_worst, record.rho_mean, record.zone) == (
        0.5,
        pytest.approx(1 / 6),
        "critical",
    )


def test_3_weights_of_the_papers_sites() -> None:
    alpha = scoring.alpha(torch.tensor([470.0, 330, 165, 120, 95]) * 1000)
    assert alpha.tolist() == pytest.approx([0.39831, 0.27966, 0.13983, 0.10169, 0.08051], abs=5e-6)


@pytest.mark.parametrize("executor", ["stacked", "sequential"])
def test_4_a_client_without_validity_has_no_influence(executor: str) -> None:
    """The second of three clients violates all rules.

    Making its update a million times larger changes nothing.
    """
    problem = classes((11, 24, 7))
    settings = Settings(rounds=1, local_steps=1, batch=32, executor=executor, seed=2)
    ends, losses = [], []
    for factor in (1.0, 1e6):
        x = [one * (factor if k == 1 else 1.0) for k, one in enumerate(problem.clients.x)]
        moved = replace(problem, clients=replace(problem.clients, x=tuple(x)))
        judged: list[int] = []

        def violation(params: Params, judged: list[int] = judged) -> Tensor:
            count = len(next(iter(params.values())))
            judged += range(len(judged), len(judged) + count)
            return torch.tensor([[k == 1] * 2 for k in judged[-count:]], dtype=F64)

        scorer = FunctionScorer(rows=rows(2), violation=violation)
        (state, record), *_ = train(scored(moved, scorer), scfa(), settings)
        assert record.validity == (1.0, 0.0, 1.0)
        assert record.alpha == pytest.approx((11 / 18, 0.0, 7 / 18), abs=1e-15)
        ends.append(state.models)
        losses.append(record.train_loss)
    assert identical(*ends)
    assert losses[1] > 100 * losses[0]


def test_a_cluster_without_weight_is_unchanged_and_noted() -> None:
    """The last client violates all rules; it is alone in the second cluster."""
    violation = torch.tensor([[0.0], [0.0], [1.0]], dtype=F64)
    scorer = FunctionScorer(rows=rows(1), violation=lambda params: violation)
    problem = scored(classes((8, 8, 8)), scorer)
    algorithm = replace(scfa(), start=ClusterStart(clusters=2))
    settings = Settings(rounds=1, local_steps=1, batch=8, executor="stacked")
    begun = initial_state(problem, algorithm, settings)
    begun = with_clusters(begun, torch.arange(3), torch.tensor([0, 0, 1]), 3)
    [(state, record)] = train(problem, algorithm, settings, begun)
    assert record.alpha == (0.5, 0.5, 0.0)
    assert any(note.startswith("no update of cluster 1 has any weight") for note in record.notes)
    for name, value in state.models.items():
        assert torch.equal(value[1], begun.models[name][1])
        assert not torch.equal(value[0], begun.models[name][0])


def scorer_output(violation: list[list[float]]) -> scoring.ProbeScores:
    tensor = torch.tensor(violation, dtype=F64)
    return scoring.ProbeScores(violation=tensor)


def test_5_when_nobody_keeps_any_rule() -> None:
    problem = scored(classes((11, 24, 7)), always(1.0, 1.0))
    start = problem.model.init(SETTINGS.seed, F64)
    *_, (kept, record) = train(problem, scfa(), SETTINGS)
    assert identical(kept.params, start)
    assert record.alpha == (0.0,) * len(record.clients)
    assert any("is unchanged" in note for note in record.notes)
    assert any("every rule of a kind: capacity; put a penalty" in note for note in record.notes)
    partly = scored(classes((11, 24, 7)), always(1.0, 0.0, families=["temporal", "capacity"]))
    *_, (_, record) = train(partly, scfa(score="min"), SETTINGS)
    assert any("violates every rule of a kind: temporal; put" in note for note in record.notes)

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
    [
        (0.0, "safe"),
        (0.049, "safe"),
        (0.05, "warning"),
        (0.10, "danger"),
        (0.18, "danger"),
        (0.181, "critical"),
        (1.0, "critical"),
    ],
)
def test_6_zones(rho: float, name: str) -> None:
    assert classify_rate(rho) == name


@pytest.mark.parametrize("algorithm", [scfa(), fedavg()])
@pytest.mark.parametrize(
    ("predictions", "violation", "validity"),
    [((1.0, 2.0, 2.0, 3.0), 0.0, 1.0), ((1.0, 3.0, 2.0), 0.5, 0.0)],
)
def test_12_a_monotone_rule_counts_pairs(
    tmp_path: Path,
    algorithm: Algorithm,
    predictions: tuple[float, ...],
    violation: float,
    validity: float,
) -> None:
    """The first row has no previous row and counts on neither side; `fedkg.evaluate` agrees."""
    (tmp_path / "wear.fkg").write_text(
        "signal sensor span 0 .. 9\noutput wear span 0 .. 9\n"
        "rule rising hard require wear never falls\n"
    )
    pack = fedkg.compile(tmp_path / "wear.fkg")
    probe = torch.tensor(predictions, dtype=F64)[:, None]
    model = MLP(inputs=1, hidden=(), outputs=1)
    rules = ConstraintModule(pack, x=columns(["sensor"]), y=columns(["wear"]))
    problem = Problem(
        model=model,
        loss=SquaredError(),
        clients=Clients(names=("a", "b"), x=(probe, probe[:2]), y=(probe, probe[:2])),
        scorer=PackScorer(model, rules, probe, previous="above"),
    )
    settings = Settings(rounds=1, local_steps=1, batch=4, executor="stacked")
    identity = {
        "layers.0.weight": torch.ones(1, 1, dtype=F64),
        "layers.0.bias": torch.zeros(1, dtype=F64),
    }
    state = initial_state(problem, algorithm, settings, identity)
    (_, record), *_ = train(problem, algorithm, settings, state)
    assert record.violated is not None
    assert record.violated.tolist() == [[violation]] * 2
    assert record.validity == (validity,) * 2

    cells = "".join(f"{value},{value}\n" for value in predictions)
    (tmp_path / "wear.csv").write_text(f"sensor,wear\n{cells}")
    found = fedkg.evaluate(pack, fedkg.read_table(tmp_path / "wear.csv")).rules[0]
    assert found.violated / (found.satisfied + found.violated) == violation


THRESHOLDS = torch.linspace(-0.3, 0.3, 11, dtype=F64)


def judged_by_weights(order: Tensor, weight: Tensor) -> FunctionScorer:
    """Eleven rules in an order: models with parameter j above threshold j violate rule j."""

    def violation(params: Params) -> Tensor:
        return (params["layers.0.weight"].flatten(1)[:, :11] > THRESHOLDS).double()[:, order]

    return FunctionScorer(rows=rows(11, weight=weight[order]), violation=violation)


FULL = Settings(rounds=3, local_steps=1, batch=64, learning_rate=5.0, executor="stacked", seed=2)


def test_15_unit_weights_are_the_plain_mean() -> None:
    plain = torch.arange(11)
    problem = scored(
        classes((11, 24, 7, 30, 16)), judged_by_weights(plain, torch.ones(11, dtype=F64))
    )
    seen: set[float] = set()
    for _, record in train(problem, scfa(), FULL):
        assert record.violated is not None
        shares = (1 - record.violated.double()).sum(1) / 11
        assert record.validity == tuple(shares.tolist())
        seen |= set(record.validity)
    assert len(seen) > 1


@pytest.mark.parametrize("score", ["mean", "product", "min"])
def test_15_the_order_of_rules_does_not_matter(score: scoring.ScoreMode) -> None:
    generator = torch.Generator().manual_seed(2)
    weight, order = torch.rand(11, generator=generator, dtype=F64), torch.randperm(11)
    ends = []
    for places in (torch.arange(11), order):
        problem = scored(classes((11, 24, 7, 30, 16)), judged_by_weights(places, weight))
        *_, (state, _) = train(problem, scfa(score=score), FULL)
        ends.append(state.params)
    assert largest_difference(*ends) < 1e-12


@pytest.mark.parametrize("chunk", [1, 3, None])
def test_15_the_order_of_clients_does_not_matter(chunk: int | None) -> None:
    problem = scored(
        classes((11, 24, 7, 30, 16)), judged_by_weights(torch.arange(11), torch.ones(11, dtype=F64))
    )
    clients, order = problem.clients, (3, 0, 4, 2, 1)
    turned = Clients(
        names=tuple(clients.names[k] for k in order),
        x=tuple(clients.x[k] for k in order),
        y=tuple(clients.y[k] for k in order),
    )
    *_, (one, _) = train(problem, scfa(), FULL)
    *_, (other, _) = train(replace(problem, clients=turned), scfa(), replace(FULL, chunk=chunk))
    assert largest_difference(one.params, other.params) < 1e-12


@pytest.mark.parametrize(
    ("score", "expected"), [("product", (1.0, 0.75, 0.2)), ("min", (1.0, 0.75, 0.2))]
)
def test_family_scores_use_the_weights_of_rules(
    score: scoring.ScoreMode, expected: tuple[float, ...]
) -> None:
    """Two families with the weights (3, 1) and (1, 4).

    The second client violates the light rule of the first family.
    """
    share = torch.tensor([[0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1]], dtype=F64)
    table = rows(
        4,
        families=["temporal", "temporal", "capacity", "capacity"],
        weight=torch.tensor([3.0, 1.0, 1.0, 4.0], dtype=F64),
    )
    problem = scored(
        classes((11, 24, 7)), FunctionScorer(rows=table, violation=lambda params: share)
    )
    (_, record), *_ = train(problem, scfa(score=score), replace(FULL, rounds=1))
    weights = [n * s for n, s in zip((11, 24, 7), expected, strict=True)]
    assert record.alpha == pytest.approx([one / sum(weights) for one in weights], abs=1e-12)


@pytest.mark.parametrize(("tolerance", "kept"), [(0.25, 1.0), (0.249, 0.0)])
@pytest.mark.parametrize("hard", [True, False])
def test_a_share_at_the_tolerance_is_within_it(hard: bool, tolerance: float, kept: float) -> None:
    share = torch.tensor([[0.25]] * 3, dtype=F64)
    problem = scored(
        classes((11, 24, 7)),
        FunctionScorer(rows=rows(1, hard=hard), violation=lambda params: share),
    )
    name = "hard_tolerance" if hard else "soft_tolerance"
    for algorithm in (scfa(**{name: tolerance}), fedavg(**{name: tolerance})):
        (_, record), *_ = train(problem, algorithm, replace(FULL, rounds=1))
        assert record.validity == (kept,) * 3
    for score in ("mean", "product", "min"):
        (_, record), *_ = train(
            problem, scfa(score=score, **{name: tolerance}), replace(FULL, rounds=1)
        )
        expected = [kept * n / 42 for n in (11, 24, 7)]
        assert record.alpha == pytest.approx(expected, abs=1e-15)


# Beyond the numbered tests: options, tolerances, vacuous rules, measuring.


def test_score_options() -> None:
    scores = scorer_output([[0.0, 0.02, 1.0, 0.0]])
    table = replace(
        rows(4, families=["temporal", "temporal", "causal", "causal"]),
        hard=torch.tensor([True, False, True, True]),
    )

    def score(options: ScoreOptions) -> float:
        plain = scoring.kept_share(scores.violation, table, options)
        return float(scoring.score(scores.violation, table, options, plain))

    assert score(ScoreOptions()) == 0.75  # a soft rule allows violations on 5 % of the rows
    assert score(ScoreOptions(soft_tolerance=0.01)) == 0.5
    assert score(ScoreOptions(beta=2.0)) == 0.5625
    assert score(ScoreOptions(combine="product")) == 0.5
    assert score(ScoreOptions(combine="product", soft_tolerance=0.0)) == 0.25
    assert score(ScoreOptions(combine="min")) == 0.5
    assert score(ScoreOptions(graded=True)) == pytest.approx((1 + 0.98 + 0 + 1) / 4)
    assert score(ScoreOptions(hard_tolerance=1.0)) == 1.0


@pytest.mark.parametrize(
    ("combine", "plain", "graded"),
    [
        ("mean", (1.0, 0.5, 1.0), (0.984, 0.9165, 1.0)),
        ("product", (1.0, 0.0, 1.0), (0.968, 0.833, 1.0)),
        ("min", (1.0, 0.0, 1.0), (0.968, 0.833, 1.0)),
    ],
)
def test_graded_scores_change_the_weights_and_no_reported_number(
    combine: scoring.ScoreMode, plain: tuple[float, ...], graded: tuple[float, ...]
) -> None:
    """Sites that violate a soft rule on 3.2 % and on 16.7 % of the rows, and one that satisfies
    all.
    """
    share = torch.tensor([[0.032, 0.0], [0.167, 0.0], [0.0, 0.0]], dtype=F64)
    table = rows(2, families=["temporal", "capacity"], hard=False)
    problem = scored(
        classes((11, 24, 7)), FunctionScorer(rows=table, violation=lambda params: share)
    )
    once = Settings(rounds=1, local_steps=1, batch=8, executor="stacked")
    for is_graded, score in ((False, plain), (True, graded)):
        (_, record), *_ = train(problem, scfa(score=combine, graded=is_graded), once)
        weights = [n * s for n, s in zip((11, 24, 7), score, strict=True)]
        assert record.alpha == pytest.approx([one / sum(weights) for one in weights], abs=1e-12)
        assert record.validity == (1.0, 0.5, 1.0)
        assert (record.rho_worst, record.rho_mean) == (0.5, pytest.approx(1 / 6))
        assert record.zone == "critical"


@pytest.mark.parametrize("clients", [1, 4])
def test_validity_in_a_loop_is_that_of_tensors(clients: int) -> None:
    """To the bit where sums are exact, and within rounding elsewhere; also with a share of NaN."""
    generator = torch.Generator().manual_seed(4)
    shares = torch.randint(0, 9, (clients, 50), generator=generator).double() / 8
    shares[0, 3] = torch.nan
    table = replace(rows(50), hard=torch.rand(50, generator=generator) > 0.5)
    options = ScoreOptions(hard_tolerance=0.25, soft_tolerance=0.5)
    expected = scoring.validity(scoring.satisfied(shares, table.hard, options), table.weight)
    assert torch.equal(scoring.kept_share(shares, table, options), expected)

    table = replace(table, weight=torch.rand(50, generator=generator, dtype=F64))
    expected = scoring.validity(scoring.satisfied(shares, table.hard, options), table.weight)
    torch.testing.assert_close(
        scoring.kept_share(shares, table, options), expected, rtol=1e-14, atol=0
    )
    everything = scoring.kept_share(torch.zeros_like(shares), table, options)
    nothing = scoring.kept_share(torch.ones_like(shares), table, options)
    assert everything.tolist() == [1.0] * clients
    assert nothing.tolist() == [0.0] * clients
    assert (
        scoring.kept_share(
            shares, replace(table, weight=torch.zeros(50, dtype=F64)), options
        ).tolist()
        == [1.0] * clients
    )


def test_a_share_that_is_the_tolerance_is_kept() -> None:
    """7 of 10 at a tolerance of 0.7, which is more than the nearest float32."""
    shares, table, options = (
        torch.tensor([[0.7, 0.35]], dtype=F64),
        rows(2),
        ScoreOptions(hard_tolerance=0.7, soft_tolerance=0.35),
    )
    table = replace(table, hard=torch.tensor([True, False]))
    assert scoring.satisfied(shares, table.hard, options).tolist() == [[1.0, 1.0]]
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
def test_impossible_options_are_rejected(options: dict[str, object], said: str) -> None:
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
class Given:
    """The violation shares [C, M] of the clients, in their order."""

    violation: Tensor

    @property
    def rows(self) -> scoring.ScoredRows:
        found = rows(self.violation.shape[1])
        return replace(found, reasons=("", "it compares rows", ""))

    def score(self, params: Params) -> scoring.ProbeScores:
        return scoring.ProbeScores(violation=self.violation)


NAN = math.nan


def test_rules_that_apply_to_no_probe_row_are_not_evaluated() -> None:
    """They do not enter the score.

    A client satisfies one of two evaluated rules, one its only one, one has no score.
    """
    shares = torch.tensor([[1.0, NAN, 0.0], [NAN, NAN, 0.0], [NAN, NAN, NAN]], dtype=F64)
    problem = replace(classes((5, 9, 4)), scorer=Given(shares))
    (_, record), *_ = train(problem, scfa(), replace(SETTINGS, rounds=1, participation=1.0))
    assert record.not_evaluated == {"rule_1": "it compares rows"}
    assert record.validity is not None
    assert sorted(record.validity, key=lambda s: (math.isnan(s), s))[:2] == [0.5, 1.0]
    [name] = [
        client for client, s in zip(record.clients, record.validity, strict=True) if math.isnan(s)
    ]
    assert record.rho_worst == 0.5
    assert record.rho_mean == 0.25
    weights = [
        n * (1.0 if math.isnan(s) else s)
        for n, s in zip(record.samples, record.validity, strict=True)
    ]
    assert record.alpha == pytest.approx([w / sum(weights) for w in weights], abs=1e-12)
    assert (
        f"no rule was evaluated for {name}: weighted by the number of samples alone" in record.notes
    )


@pytest.mark.parametrize("combine", ["mean", "product", "min"])
def test_without_an_evaluated_rule_scfa_weighs_as_fedavg_and_has_no_zone(combine: str) -> None:
    problem = replace(classes((5, 9, 4)), scorer=Given(torch.full((3, 3), NAN, dtype=F64)))
    algorithm = scfa(score=combine)
    settings = replace(SETTINGS, participation=1.0)
    *_, (state, record) = train(problem, algorithm, settings)
    *_, (average, _) = train(problem, fedavg(), settings)
    assert identical(state.models, average.models)
    assert set(record.not_evaluated) == {"rule_0", "rule_1", "rule_2"}
    assert (record.rho_worst, record.rho_mean, record.zone) == (None, None, None)


def test_a_family_without_an_evaluated_rule_does_not_count() -> None:
    """Under `product` and `min` as under `mean`: only the other family counts."""
    of = replace(rows(3), families=("temporal", "temporal", "capacity"))
    for combine, expected in (("mean", 0.5), ("product", 0.5), ("min", 0.5)):
        options = scoring.ScoreOptions(combine=combine)
        shares = torch.tensor([[1.0, 0.0, NAN]], dtype=F64)
        plain = scoring.kept_share(shares, of, options)
        assert scoring.score(shares, of, options, plain).tolist() == [expected]


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
    problem = replace(
        classes((11, 24, 7, 19, 3)),
        model=replace(model, outputs=4),
        scorer=LinearRules(model=model, probe=probe),
    )
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
