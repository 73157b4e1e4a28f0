"""Properties mined privately together with a private training: one ledger for both."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from forecasts import LAYOUT, ranges, task
from torch import Tensor

from fedkg.errors import JobError, KnowledgeError
from fedkg.federated import Settings, fedavg, train
from fedkg.federated.algorithms.fedstl import fedstl
from fedkg.federated.privacy.budget import ledgers
from fedkg.federated.privacy.protected_algorithm import Protection, protected
from fedkg.federated.temporal.client_property_mining import Inferred, inferred, inferred_privately
from fedkg.federated.temporal.properties import Properties, as_traces, mined
from fedkg.federated.temporal.teacher_loss import TeacherLoss
from fedkg.mining import Pick, least, private
from fedkg.pack import Pack
from fedkg.privacy import Spent

EXAMPLE = Protection(unit="example", clip=1.0, delta=1e-3, noise=1.0)
SETTINGS = Settings(rounds=2, local_epochs=1, batch=8, learning_rate=0.05, executor="stacked")
PROBLEM, _ = task((0.0, 20.0))


def mine_ranges(pick: Pick) -> Properties:
    return mined(ranges(), [as_traces(y, 6, 1) for y in PROBLEM.clients.y], LAYOUT, pick=pick)


def test_what_was_mined_and_what_was_trained_stand_in_one_ledger() -> None:
    own = mine_ranges(private(0.9, 20.0, (-100.0, 100.0), torch.Generator().manual_seed(1)))
    assert own.epsilon == 20.0 * 6  # three windows, two ends each
    algorithm = protected(
        fedavg().with_terms(TeacherLoss(properties=own)), EXAMPLE, PROBLEM.clients.samples, SETTINGS
    )
    *_, (state, record) = train(PROBLEM, algorithm, SETTINGS)
    assert not record.excluded
    assert algorithm.budget is not None
    for ledger in ledgers(algorithm.budget, state, PROBLEM.clients.names):
        assert ledger.entries[0] == Spent(what="mined properties", epsilon=20.0, releases=6)
        assert 120.0 < ledger.epsilon(1e-3) < 140.0


def test_what_was_mined_without_privacy_is_rejected() -> None:
    own = mine_ranges(least)
    assert own.epsilon is None
    algorithm = fedavg().with_terms(TeacherLoss(properties=own))
    with pytest.raises(JobError, match="numbers from all samples of a client"):
        protected(algorithm, EXAMPLE, PROBLEM.clients.samples, SETTINGS)
    client = protected(
        algorithm,
        Protection(unit="client", clip=1.0, delta=1e-3, noise=1.0),
        PROBLEM.clients.samples,
        SETTINGS,
    )
    assert (
        len(list(train(PROBLEM, client, SETTINGS))) == 2
    )  # all contributions of a client are within its clip


def privately(epsilon: float, seed: int = 3) -> Inferred:
    x, y = PROBLEM.clients.x[0][:5], PROBLEM.clients.y[0][:5]
    return inferred_privately(
        spanned(), PROBLEM.clients, LAYOUT, steps=6, x=x, y=y, epsilon=epsilon, seed=seed
    )


def spanned() -> Pack:
    """The rules with a declared span for the mined numbers."""
    pack = ranges()
    own = [
        one.model_copy(
            update={
                "parameters": tuple(
                    each.model_copy(update={"span": (-100.0, 100.0)}) for each in one.parameters
                )
            }
        )
        for one in pack.manifest.inferences
    ]
    return replace(pack, manifest=pack.manifest.model_copy(update={"inferences": tuple(own)}))


def test_clusters_by_private_properties_and_rows_of_the_server_cost_the_mining_alone() -> None:
    own = privately(30.0)
    assert own.own is own.sample
    assert own.own.epsilon == pytest.approx(30.0)
    algorithm = protected(
        fedstl(inferred=own, clusters=2, cluster_epochs=0),
        EXAMPLE,
        PROBLEM.clients.samples,
        SETTINGS,
    )
    *_, (state, _) = train(PROBLEM, algorithm, SETTINGS)
    assert algorithm.budget is not None
    assert state.joints["start"]["cluster"].tolist() in ([0, 1], [1, 0])
    for ledger in ledgers(algorithm.budget, state, PROBLEM.clients.names):
        assert ledger.entries[0] == Spent(what="mined properties", epsilon=5.0, releases=6)
        alone = replace(ledger, entries=ledger.entries[1:]).epsilon(1e-3)
        assert max(alone, 15.0) < ledger.epsilon(1e-3) <= alone + 30.0


def test_without_a_teacher_clusters_are_paid_for_all_the_same() -> None:
    algorithm = protected(
        fedstl(inferred=privately(6.0), clusters=2, weight=0.0, cluster_epochs=0),
        EXAMPLE,
        PROBLEM.clients.samples,
        SETTINGS,
    )
    assert algorithm.budget is not None
    assert algorithm.budget.spent == (Spent(what="mined properties", epsilon=1.0, releases=6),)


def test_clusters_by_the_clients_own_rows_are_rejected() -> None:
    plain = inferred(spanned(), PROBLEM.clients, LAYOUT, steps=6)
    algorithm = protected(
        fedstl(inferred=plain, clusters=2, weight=0.0, cluster_epochs=0),
        EXAMPLE,
        PROBLEM.clients.samples,
        SETTINGS,
    )
    with pytest.raises(JobError, match="by which the server assigns clusters"):
        next(iter(train(PROBLEM, algorithm, SETTINGS)))


def test_what_one_client_changes_in_clustered_sums_is_within_its_clip() -> None:
    """Absent clients change no other client's cluster.

    All models together move by at most clip / expected without noise.
    """
    own = inferred(spanned(), PROBLEM.clients, LAYOUT, steps=6)
    promise = Protection(unit="client", clip=0.05, delta=1e-3, noise=1e-9)
    one = replace(SETTINGS, rounds=1)
    algorithm = protected(
        fedstl(inferred=own, clusters=2, assignment="argmin", cluster_epochs=0),
        promise,
        PROBLEM.clients.samples,
        one,
    )
    [(both, _)] = train(PROBLEM, algorithm, one)
    for away in range(2):
        [(alone, _)] = train(PROBLEM, replace(algorithm, sampling=Without(away)), one)
        moved = (
            sum(
                float((both.models[name] - alone.models[name]).double().square().sum())
                for name in both.models
            )
            ** 0.5
        )
        assert moved <= 0.05 / 2 * (1 + 1e-6)


@dataclass(frozen=True)
class Without:
    """All clients but one."""

    away: int

    def sample(self, *, seed: int, round: int, population: int, size: int) -> Tensor:
        return torch.tensor([place for place in range(population) if place != self.away])


def test_a_private_value_needs_a_declared_span() -> None:
    x, y = PROBLEM.clients.x[0][:5], PROBLEM.clients.y[0][:5]
    unspanned = spanned()
    bare = [
        one.model_copy(
            update={
                "parameters": tuple(
                    each.model_copy(update={"span": None}) for each in one.parameters
                )
            }
        )
        for one in unspanned.manifest.inferences
    ]
    pack = replace(
        unspanned, manifest=unspanned.manifest.model_copy(update={"inferences": tuple(bare)})
    )
    with pytest.raises(KnowledgeError, match="needs the span of the signal"):
        inferred_privately(pack, PROBLEM.clients, LAYOUT, steps=6, x=x, y=y, epsilon=1.0)


def test_values_that_no_trace_satisfies_are_left_out() -> None:
    """With almost no privacy budget, the two ends of a range may be swapped; such values are left
    out.
    """
    found = [privately(1e-6, seed) for seed in range(4)]
    determined = torch.cat([one.own.determined for one in found])
    assert not bool(determined.all())
    for one in found:
        for values in one.own.values:
            known = values[~values.isnan().any(1)]
            assert bool((known[:, 0] <= known[:, 1]).all())
