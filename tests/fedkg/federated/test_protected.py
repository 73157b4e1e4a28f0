"""Private trainings: the same in all executors, resumed to the bit, noised for any input.

They end before the budget is exceeded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from federations import FunctionScorer, classes, identical, largest_difference, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated import Algorithm, Settings, fedavg, from_tensors, scfa, to_tensors, train
from fedkg.federated.algorithms import (
    ditto,
    fedprox,
    fedrep,
    ifca,
    krum,
    local_only,
    median,
    pcfedavg,
    scaffold,
)
from fedkg.federated.privacy.budget import Budget, affordable, ledgers, planned
from fedkg.federated.privacy.protected_algorithm import AtMostOne, FixedMean, Protection, protected
from fedkg.federated.privacy.update_noise import ClippedClients
from fedkg.federated.round_steps import Step
from fedkg.federated.server.sampling import PoissonSampling, UniformSampling
from fedkg.models import MLP, Params
from fedkg.privacy import Gaussian, Spent, epsilon_of

SIZES = (12, 31, 5, 20, 1, 31, 8)
EXAMPLE = Protection(unit="example", clip=0.5, delta=1e-3, noise=1.0)
CLIENT = Protection(unit="client", clip=0.5, delta=1e-2, noise=1.0)
SETTINGS = Settings(
    rounds=3,
    participation=0.8,
    local_epochs=2,
    batch=8,
    learning_rate=0.1,
    seed=1,
    executor="stacked",
)


def trained(
    algorithm: Algorithm,
    protection: Protection | None,
    own: Settings = SETTINGS,
    dtype: torch.dtype = torch.float64,
) -> Params:
    problem = classes(SIZES, dtype=dtype)
    if protection is not None:
        algorithm = protected(algorithm, protection, SIZES, own)
    *_, (state, _) = train(problem, algorithm, own)
    return state.params


@pytest.mark.slow
@pytest.mark.parametrize("protection", [EXAMPLE, CLIENT], ids=["example", "client"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("other", [None, 1, 2])
def test_executors_agree(
    protection: Protection, dtype: torch.dtype, tolerance: float, other: int | None
) -> None:
    reference = trained(fedavg(), protection, replace(SETTINGS, executor="sequential"), dtype)
    assert (
        largest_difference(
            trained(fedavg(), protection, replace(SETTINGS, chunk=other), dtype), reference
        )
        < tolerance
    )


@pytest.mark.parametrize(
    "make", [fedprox, lambda: fedrep(private=("layers.2.",)), ditto, median, scaffold, scfa]
)
def test_whatever_the_server_does_with_noised_updates_stays(make: object) -> None:
    algorithm = make()  # type: ignore[operator]
    reference = trained(algorithm, EXAMPLE, replace(SETTINGS, executor="sequential"))
    assert largest_difference(trained(algorithm, EXAMPLE), reference) < 1e-12


@pytest.mark.parametrize("protection", [EXAMPLE, CLIENT], ids=["example", "client"])
def test_a_resumed_training_goes_on_to_the_bit(protection: Protection) -> None:
    problem, algorithm = (
        classes(SIZES),
        protected(scaffold() if protection is EXAMPLE else fedavg(), protection, SIZES, SETTINGS),
    )
    states = [state for state, _ in train(problem, algorithm, SETTINGS)]
    [*_, (again, _)] = train(problem, algorithm, SETTINGS, from_tensors(*to_tensors(states[0])))
    assert identical(again.params, states[-1].params)
    assert identical(dict(again.joints["privacy"]), dict(states[-1].joints["privacy"]))


@pytest.mark.parametrize("protection", [EXAMPLE, CLIENT], ids=["example", "client"])
def test_it_goes_on_to_the_bit_whatever_the_order_of_a_files_tensors(
    protection: Protection,
) -> None:
    problem, algorithm = (
        classes(SIZES),
        protected(scaffold() if protection is EXAMPLE else fedavg(), protection, SIZES, SETTINGS),
    )
    states = [state for state, _ in train(problem, algorithm, SETTINGS)]
    tensors, document = to_tensors(states[0])
    assert list(states[0].models) != sorted(states[0].models)
    [*_, (again, _)] = train(
        problem, algorithm, SETTINGS, from_tensors(dict(sorted(tensors.items())), document)
    )
    assert identical(again.params, states[-1].params)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"batch": 4}, "another share of samples"),
        ({"local_epochs": 1}, "another number of noisy sums"),
        ({"local_epochs": None, "local_steps": 3}, "another number of noisy sums"),
        ({"seed": 5}, "another number of noisy sums"),
    ],
)
def test_a_state_that_has_spent_otherwise_is_rejected(
    fields: dict[str, object], words: str
) -> None:
    """The ledger would price its sums at a wrong sampling rate, and the plan would miss them."""
    problem = classes(SIZES)
    state, _ = next(iter(train(problem, protected(fedavg(), EXAMPLE, SIZES, SETTINGS), SETTINGS)))
    other = replace(SETTINGS, **fields)  # type: ignore[arg-type]
    with pytest.raises(JobError, match=words):
        next(iter(train(problem, protected(fedavg(), EXAMPLE, SIZES, other), other, state)))


def test_a_state_of_another_participation_is_rejected() -> None:
    problem, other = classes(SIZES), replace(SETTINGS, participation=0.5)
    state, _ = next(iter(train(problem, protected(fedavg(), CLIENT, SIZES, SETTINGS), SETTINGS)))
    with pytest.raises(JobError, match="share of samples or clients"):
        next(iter(train(problem, protected(fedavg(), CLIENT, SIZES, other), other, state)))


def test_a_training_may_go_on_for_more_rounds() -> None:
    problem, longer = classes(SIZES), replace(SETTINGS, rounds=5)
    [*_, (state, _)] = train(problem, protected(fedavg(), EXAMPLE, SIZES, SETTINGS), SETTINGS)
    algorithm = protected(fedavg(), EXAMPLE, SIZES, longer)
    assert algorithm.budget is not None
    [*_, (after, _)] = train(problem, algorithm, longer, state)
    assert after.joints["privacy"]["releases"].tolist() == list(
        planned(algorithm.budget, algorithm.sampling, longer, len(SIZES))[-1]
    )


@pytest.mark.parametrize(
    ("make", "protection"), [(fedavg, EXAMPLE), (ditto, EXAMPLE), (fedavg, CLIENT)]
)
def test_data_that_is_no_number_neither_ends_the_training_nor_shows(
    make: Callable[[], Algorithm], protection: Protection
) -> None:
    problem, own = classes(SIZES), replace(SETTINGS, participation=1.0)
    x = [own_rows.clone() for own_rows in problem.clients.x]
    for spoilt in x if protection is CLIENT else x[:1]:
        spoilt[0] = torch.nan
    broken = replace(problem, clients=replace(problem.clients, x=tuple(x)))
    records = [
        record for _, record in train(broken, protected(make(), protection, SIZES, own), own)
    ]
    assert len(records) == own.rounds
    assert protection is CLIENT or not any(record.excluded for record in records)


def test_a_state_of_other_noise_is_rejected() -> None:
    problem = classes(SIZES)
    state, _ = next(iter(train(problem, protected(fedavg(), EXAMPLE, SIZES, SETTINGS), SETTINGS)))
    with pytest.raises(JobError, match="another privacy noise"):
        next(
            iter(
                train(
                    problem,
                    protected(fedavg(), replace(EXAMPLE, noise=2.0), SIZES, SETTINGS),
                    SETTINGS,
                    state,
                )
            )
        )
    plain, _ = next(iter(train(problem, fedavg(), SETTINGS)))
    with pytest.raises(JobError, match="of the step `privacy`"):
        next(iter(train(problem, protected(fedavg(), EXAMPLE, SIZES, SETTINGS), SETTINGS, plain)))


@pytest.mark.parametrize("protection", [EXAMPLE, CLIENT], ids=["example", "client"])
def test_how_the_objective_stands_is_not_told(protection: Protection) -> None:
    records = [
        record
        for _, record in train(
            classes(SIZES), protected(fedavg(), protection, SIZES, SETTINGS), SETTINGS
        )
    ]
    assert all(record.train_loss != record.train_loss for record in records)


def test_the_ledger_counts_the_sums_that_were_released() -> None:
    problem, algorithm = classes(SIZES), protected(fedavg(), EXAMPLE, SIZES, SETTINGS)
    seen = dict.fromkeys(problem.clients.names, 0)
    done = list(train(problem, algorithm, SETTINGS))
    for _, record in done:
        for name in record.clients:
            seen[name] += 2 * -(-SIZES[problem.clients.names.index(name)] // 8)
    assert algorithm.budget is not None
    for own, size in zip(
        ledgers(algorithm.budget, done[-1][0], problem.clients.names), SIZES, strict=True
    ):
        [entry] = own.entries
        site = own.unit.removeprefix("a row of ")
        assert entry.releases == seen[site]  # type: ignore[union-attr]
        assert entry.rate == min(1.0, 8 / size)  # type: ignore[union-attr]


@pytest.mark.parametrize("accountant", ["rdp", pytest.param("prv", marks=pytest.mark.slow)])
@pytest.mark.parametrize("unit", ["example", "client"])
def test_a_spent_budget_ends_the_training_before_it_is_exceeded(unit: str, accountant: str) -> None:
    own = replace(SETTINGS, rounds=6)
    kind = {"unit": unit, "accountant": accountant}
    base = Protection(clip=1.0, delta=1e-2, noise=2.0, **kind)  # type: ignore[arg-type]
    free = protected(fedavg(), base, SIZES, own)
    assert free.budget is not None
    plan = planned(free.budget, free.sampling, own, len(SIZES))
    costs = [free.budget.epsilon_after(releases) for releases in plan]
    algorithm = protected(fedavg(), replace(base, epsilon=(costs[3] + costs[4]) / 2), SIZES, own)
    done = list(train(classes(SIZES), algorithm, own))
    assert [record.ends for _, record in done] == [False, False, True]
    assert "one more would exceed the budget" in done[-1][1].notes[-1]
    assert (
        list(train(classes(SIZES), algorithm, own, done[-1][0])) == []
    )  # and resuming does not continue either


def test_a_budget_for_no_round_is_rejected() -> None:
    with pytest.raises(JobError, match="does not allow a single round"):
        next(
            iter(
                train(
                    classes(SIZES),
                    protected(fedavg(), replace(EXAMPLE, epsilon=0.01), SIZES, SETTINGS),
                    SETTINGS,
                )
            )
        )


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["example", "client"])
def test_noise_is_found_for_all_rounds(unit: str) -> None:
    promise = Protection(unit=unit, clip=1.0, delta=1e-3, epsilon=5.0)  # type: ignore[arg-type]
    algorithm = protected(fedavg(), promise, SIZES, SETTINGS)
    assert algorithm.budget is not None
    last = planned(algorithm.budget, algorithm.sampling, SETTINGS, len(SIZES))[-1]
    assert 4.9 < algorithm.budget.epsilon_after(last) <= 5.0
    assert affordable(algorithm.budget, algorithm.sampling, SETTINGS, len(SIZES)) == SETTINGS.rounds


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 1.0), st.integers(0, 400)), min_size=1, max_size=60))
def test_the_worst_unit_is_never_less_than_any(units: list[tuple[float, int]]) -> None:
    budget = Budget(
        unit="example", clip=1.0, noise=3.0, delta=1e-3, accountant="paper", epsilon=None,
        rates=tuple(rate for rate, _ in units), releases=tuple(1 for _ in units),
    )  # fmt: skip
    worst = budget.epsilon_after([count for _, count in units])
    assert all(
        epsilon_of(budget.ledger("x", *one).entries, 1e-3, "paper") <= worst for one in units
    )


def test_what_was_spent_before_counts() -> None:
    mined = Spent(what="mined parameters", epsilon=0.5)
    without, spent = (
        protected(fedavg(), replace(EXAMPLE, spent=before), SIZES, SETTINGS)
        for before in ((), (mined,))
    )
    assert without.budget is not None
    assert spent.budget is not None
    releases = [4] * len(SIZES)
    alone = without.budget.epsilon_after(releases)
    assert alone < spent.budget.epsilon_after(releases) < alone + 0.5
    assert spent.budget.epsilon_after(releases) == pytest.approx(
        max(
            epsilon_of(
                (mined, Gaussian(what="", noise=EXAMPLE.noise or 0.0, rate=rate, releases=4)),
                EXAMPLE.delta,
            )
            for rate in spent.budget.rates
        )
    )


@settings(max_examples=30, deadline=None)
@given(st.floats(0.01, 3.0), st.integers(0, 50))
def test_updates_of_clients_are_clipped_as_one_vector(clip: float, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    update = {
        "a": torch.randn(4, 3, 2, generator=g, dtype=torch.float64),
        "b": torch.randn(4, 2, generator=g, dtype=torch.float64),
    }
    cut = ClippedClients(clip=clip, noise=1.0, expected=2.0).client(update, torch.arange(4))

    def norms(stack: Params) -> Tensor:
        return (
            torch.stack([value.flatten(1).square().sum(1) for value in stack.values()])
            .sum(0)
            .sqrt()
        )

    torch.testing.assert_close(norms(cut), norms(update).clamp(max=clip))


def test_the_servers_noise_has_the_promised_size() -> None:
    privacy = ClippedClients(clip=0.5, noise=3.0, expected=4.0)
    noised = privacy.server(
        {"a": torch.zeros(1, 200, 100), "b": torch.zeros(1, 50)}, torch.tensor(7)
    )
    assert float(noised["a"].std()) == pytest.approx(3.0 * 0.5 / 4.0, rel=0.03)


def test_the_mean_of_clients_has_a_fixed_denominator() -> None:
    models = {"w": torch.zeros(1, 2, dtype=torch.float64)}
    mean = FixedMean(expected=4.0)
    fold = mean.add(
        mean.begin(models),
        {"w": torch.ones(3, 2, dtype=torch.float64)},
        torch.tensor([1.0, 0.5, 0.0]).double(),
        torch.zeros(3).long(),
    )
    torch.testing.assert_close(
        mean.finish(fold)["w"], torch.full((1, 2), 1.5 / 4.0, dtype=torch.float64)
    )


def test_scfa_weights_count_a_client_once_at_most() -> None:
    own = rows(4)
    scorer = FunctionScorer(
        rows=own,
        violation=lambda params: torch.tensor(
            [[0.0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]]
        ).double(),
    )
    weights = (
        AtMostOne(inner=scfa().weighting)
        .weigh(torch.tensor([5.0, 900.0, 3.0]), scorer.score({}), own)
        .weights
    )
    assert weights.tolist() == [1.0, 0.5, 0.0]


def test_noise_comes_even_where_no_update_has_any_weight() -> None:
    """The updates must not reveal whether rules excluded all clients."""
    problem = classes(SIZES)
    nothing = FunctionScorer(
        rows=rows(2), violation=lambda params: torch.ones(len(params["layers.0.bias"]), 2)
    )
    algorithm = protected(scfa(), CLIENT, SIZES, SETTINGS)
    [(state, _), *_] = train(replace(problem, scorer=nothing), algorithm, SETTINGS)
    fresh = problem.model.init(1, torch.float64)
    moved = torch.cat([(state.params[name] - fresh[name]).flatten() for name in fresh])
    assert float(moved.std()) == pytest.approx(0.5 / (0.8 * len(SIZES)), rel=0.3)


def test_a_round_without_clients_is_noised_like_any_other() -> None:
    own = replace(SETTINGS, participation=0.02, rounds=4)
    algorithm = protected(fedavg(), CLIENT, SIZES, own)
    done = list(train(classes(SIZES), algorithm, own))
    assert any(not record.clients for _, record in done)
    assert not any(identical(one.params, other.params) for (one, _), (other, _) in pairwise(done))


def test_poisson_sampling_takes_each_client_by_chance() -> None:
    sampling = PoissonSampling(rate=0.3)
    member = torch.zeros(2_000, 9, dtype=torch.float64)
    for number in range(2_000):
        member[number, sampling.sample(seed=4, round=number, population=9, size=3)] = 1
    assert float((member.mean(0) - 0.3).abs().max()) < 0.045
    assert float(member.sum(1).var()) == pytest.approx(9 * 0.3 * 0.7, rel=0.12)


def test_all_clients_are_no_sample() -> None:
    algorithm = protected(fedavg(), CLIENT, SIZES, replace(SETTINGS, participation=1.0))
    assert isinstance(algorithm.sampling, UniformSampling)
    assert algorithm.budget is not None
    assert algorithm.budget.rates == (1.0,)


REFUSED = [
    (lambda: local_only(), CLIENT, "nothing is sent"),
    (lambda: ifca(models=2), EXAMPLE, "which model fits their samples best"),
    (lambda: scaffold(), CLIENT, "control variates are gradients"),
]


@pytest.mark.parametrize(("make", "protection", "words"), REFUSED)
def test_contradictions_are_rejected_with_the_reason(
    make: object, protection: Protection, words: str
) -> None:
    own = replace(SETTINGS, participation=1.0)
    algorithm = protected(make(), protection, SIZES, own)  # type: ignore[operator]
    with pytest.raises(JobError, match=words):
        next(iter(train(classes(SIZES), algorithm, own)))


@pytest.mark.parametrize("make", [median, lambda: krum(attackers=1), pcfedavg])
def test_sums_without_a_bound_for_one_client_are_rejected(make: object) -> None:
    with pytest.raises(JobError, match="a bound for the effect of one client"):
        protected(make(), CLIENT, SIZES, SETTINGS)  # type: ignore[operator]


def test_terms_that_do_not_say_what_they_read_are_rejected() -> None:
    class Coupled:
        def value(self, step: Step) -> Tensor:
            return step.params["layers.0.bias"].sum(1)

    with pytest.raises(JobError, match="does not state"):
        protected(fedavg().with_terms(Coupled()), EXAMPLE, SIZES, SETTINGS)
    # all contributions of a client are within its clip
    trained(fedavg().with_terms(Coupled()), CLIENT)


def test_mixed_precision_is_rejected_under_examples() -> None:
    own = replace(SETTINGS, precision="bfloat16")
    with pytest.raises(JobError, match="each sample is clipped separately"):
        next(iter(train(classes(SIZES), protected(fedavg(), EXAMPLE, SIZES, own), own)))


@pytest.mark.parametrize(
    "fields",
    [
        {"unit": "row"},
        {"clip": 0.0},
        {"delta": 0.0},
        {"noise": None},
        {"noise": -1.0},
        {"epsilon": 0.0},
    ],
)
def test_promises_out_of_range_are_rejected(fields: dict[str, object]) -> None:
    with pytest.raises(JobError):
        replace(EXAMPLE, **fields)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_protected_training_learns() -> None:
    """With much data and little noise, as good as without noise, on classes that are easy to
    separate.
    """
    sizes = (300, 400, 350)
    problem = classes(sizes, outputs=3, seed=2)
    own = Settings(
        rounds=8, local_epochs=1, batch=50, learning_rate=0.5, seed=1, executor="stacked"
    )
    algorithm = protected(
        fedavg(), Protection(unit="example", clip=1.0, delta=1e-4, epsilon=8.0), sizes, own
    )
    *_, (state, _) = train(problem, algorithm, own)
    x, y = torch.cat(problem.clients.x), torch.cat(problem.clients.y)
    assert isinstance(problem.model, MLP)
    right = (
        problem.model.apply({name: value[None] for name, value in state.params.items()}, x[None])[
            0
        ].argmax(1)
        == y
    )
    assert float(right.double().mean()) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("protection", [EXAMPLE, CLIENT], ids=["example", "client"])
def test_worker_processes_agree(protection: Protection) -> None:
    reference = trained(fedavg(), protection, replace(SETTINGS, rounds=1))
    own = replace(SETTINGS, rounds=1, executor="processes", workers=2, chunk=2)
    assert largest_difference(trained(fedavg(), protection, own), reference) < 1e-12
