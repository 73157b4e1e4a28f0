"""Trainings in which sites are late, missing or spare; oracles are loops over clients.

A late update counts as FedAsync's polynomial staleness says: a site answers round 1 only after
round 2 has begun, and the transport hands its answer over in round 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
import torch
from federations import FunctionScorer, rows

from fedkg.deploy.message import Message
from fedkg.deploy.quorum_and_deadline_transport import RoundContract, apply_contract
from fedkg.deploy.site_training import SiteTraining
from fedkg.deploy.transport import Reply
from fedkg.errors import JobError, TooFewClients
from fedkg.exclusion_reasons import NO_REPLY, NOT_NEEDED
from fedkg.federated import initial_state, to_tensors, train
from fedkg.federated.algorithms import fedavg, scaffold
from fedkg.federated.executors.protocol import Work
from fedkg.federated.problem import pool
from fedkg.federated.randomness import cohort
from tests.fedkg.deploy.federation_processes import NAMES, SAMPLES, make_problem, make_settings

SLOW = "linz"


@dataclass
class Late:
    """Three sites in this process; one answers each odd round in the next one."""

    trainings: Mapping[str, SiteTraining]
    kept: list[Reply] = field(default_factory=list)
    updates: dict[tuple[int, str], dict[str, torch.Tensor]] = field(default_factory=dict)

    def present(self) -> tuple[str, ...]:
        return tuple(sorted(self.trainings))

    def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
        now = max((request.round for request in requests.values()), default=0)
        before = [one for one in self.kept if one.message and one.message.round < now]
        self.kept = [one for one in self.kept if one not in before]
        yield from before
        for site, request in requests.items():
            answer = self.trainings[site].train(request)
            self.updates[request.round, site] = dict(answer.tensors)
            reply = Reply(site=site, message=answer)
            if site == SLOW and request.round % 2:
                self.kept.append(reply)
            elif not (site == SLOW and before):  # the site is busy with the earlier round
                yield reply


def run(tmp_path, rounds=2, **contract):
    """The states and records of a training, the messages of its sites."""
    full, settings = make_problem(), make_settings(rounds)
    trainings = {}
    for name in NAMES:
        problem = replace(full, clients=full.clients.only(name))
        work = Work(
            problem=problem, algorithm=fedavg(), settings=settings, pool=pool(problem.clients)
        )
        trainings[name] = SiteTraining(work, folder=tmp_path / name)
    transport = Late(trainings)
    sites, algorithm, settings = apply_contract(
        RoundContract(quorum=2, grace=0.2, deadline=1, retries=0, **contract),
        transport,
        NAMES,
        fedavg(),
        settings,
    )
    server = replace(full, clients=full.clients.only(None))
    return list(train(server, algorithm, settings, sites=sites)), transport


@pytest.mark.parametrize("exponent", [0.0, 0.5, 2.0])
def test_late_update_counts_with_its_discount(tmp_path, exponent):
    found, transport = run(tmp_path, late="weight", staleness=exponent)
    (first, one), (second, two) = found

    model = initial_state(make_problem(), fedavg(), make_settings(2)).models
    weights = dict(zip(NAMES, SAMPLES, strict=True))
    discount = 1 / (1 + 1) ** exponent
    for name, value in model.items():
        key = next(k for k in transport.updates[1, NAMES[0]] if k.endswith(name))
        mean = torch.zeros_like(value[0], dtype=torch.float64)
        for site in ("graz", "wien"):
            mean += weights[site] * transport.updates[1, site][key].double()
        after_one = value[0].double() + mean / (weights["graz"] + weights["wien"])
        assert torch.allclose(first.models[name][0].double(), after_one, atol=1e-6)
        mean = weights[SLOW] * discount * transport.updates[1, SLOW][key].double()
        for site in ("graz", "wien"):
            mean = mean + weights[site] * transport.updates[2, site][key].double()
        after_two = after_one + mean / (
            weights["graz"] + weights["wien"] + discount * weights[SLOW]
        )
        assert torch.allclose(second.models[name][0].double(), after_two, atol=1e-6)

    assert list(one.excluded) == [SLOW]
    assert two.excluded == {}
    total = weights["graz"] + weights["wien"] + discount * weights[SLOW]
    assert two.alpha == pytest.approx(
        [weights["graz"] / total, discount * weights[SLOW] / total, weights["wien"] / total]
    )
    assert any("late updates: linz (1 round, weight times" in note for note in two.notes)


def test_late_updates_are_dropped_by_default(tmp_path):
    [(_, one), (_, two)], _ = run(tmp_path)

    assert list(one.excluded) == list(two.excluded) == [SLOW]
    assert two.alpha[1] == 0
    assert not any("late" in note for note in two.notes)


def test_contract_that_contradicts_the_algorithm_is_rejected():
    with pytest.raises(JobError, match="control variates correct the steps of one round"):
        apply_contract(RoundContract(late="weight"), Late({}), NAMES, scaffold(), make_settings(2))


@dataclass
class AnyOrder:
    """Three sites in this process; replies arrive in an order of their own, `absent` ones never."""

    trainings: Mapping[str, SiteTraining]
    order: Sequence[str]
    absent: Sequence[str] = ()
    asked: list[tuple[str, ...]] = field(default_factory=list)
    open: list[tuple[str, Message]] = field(default_factory=list)

    def present(self) -> tuple[str, ...]:
        return tuple(sorted(self.trainings))

    def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
        if requests:
            self.asked.append(tuple(requests))
        self.open += [
            (site, requests[site])
            for site in self.order
            if site in requests and site not in self.absent
        ]
        while self.open:
            site, request = self.open.pop(0)
            yield Reply(site=site, message=self.trainings[site].train(request))


def run_with_spares(tmp_path, order, absent=(), scorer=None):
    """Two of three sites take part, the third is a spare in each round."""
    full, settings = make_problem(), replace(make_settings(6), participation=0.5)
    trainings = {}
    for name in NAMES:
        problem = replace(full, clients=full.clients.only(name))
        work = Work(
            problem=problem, algorithm=fedavg(), settings=settings, pool=pool(problem.clients)
        )
        trainings[name] = SiteTraining(work, folder=tmp_path / name)
    transport = AnyOrder(trainings, order, absent)
    seconds = 0.5 if absent else 60.0  # nobody is missing: no round lasts until its deadline
    contract = RoundContract(oversampling=1.5, quorum=2, deadline=seconds, retries=0)
    sites, algorithm, settings = apply_contract(contract, transport, NAMES, fedavg(), settings)
    server = replace(full, clients=full.clients.only(None), scorer=scorer)
    return list(train(server, algorithm, settings, sites=sites)), transport


def test_order_of_arrival_does_not_change_a_bit_and_spares_are_not_used(tmp_path):
    runs = [
        run_with_spares(tmp_path, order)
        for order in (NAMES, tuple(reversed(NAMES)), ("linz", "wien", "graz"))
    ]

    states = [to_tensors(found[-1][0]) for found, _ in runs]
    for tensors, document in states[1:]:
        assert document == states[0][1]
        assert all(torch.equal(value, states[0][0][name]) for name, value in tensors.items())
    population, seed = len(NAMES), make_settings(1).seed
    for state, record in runs[0][0]:
        drawn = {NAMES[place] for place in cohort(seed, state.round, population, 2).tolist()}
        used = {site for site, alpha in zip(record.clients, record.alpha, strict=True) if alpha}
        assert used == drawn
        assert set(record.excluded.values()) == {NOT_NEEDED}
    assert all(len(asked) == 3 for asked in runs[0][1].asked)


def test_a_site_without_an_update_violates_no_rule(tmp_path):
    """All models satisfy the rules; a spare was not evaluated."""
    scorer = FunctionScorer(
        rows=rows(2), violation=lambda params: torch.zeros(len(next(iter(params.values()))), 2)
    )
    found, _ = run_with_spares(tmp_path, NAMES, scorer=scorer)

    for _, record in found:
        scores = dict(zip(record.clients, record.validity, strict=True))
        [spare] = record.excluded
        assert math.isnan(scores.pop(spare))
        assert set(scores.values()) == {1.0}
        assert (record.rho_worst, record.rho_mean, record.zone) == (0.0, 0.0, "safe")


@pytest.mark.slow
def test_spare_takes_the_place_of_a_missing_site(tmp_path):
    found, _ = run_with_spares(tmp_path, NAMES, absent=("graz",))

    for _, record in found:
        used = [site for site, alpha in zip(record.clients, record.alpha, strict=True) if alpha]
        assert used == ["linz", "wien"]
        assert NO_REPLY in record.excluded["graz"]


def test_skipped_round_changes_nothing_but_its_number(tmp_path):
    """Only one of two needed sites answers: the models stay, and then the run stops."""
    full, settings = make_problem(), make_settings(6)
    transport = AnyOrder({}, ())
    contract = RoundContract(quorum=2, deadline=0.05, retries=0, skipped_rounds=2)
    sites, algorithm, settings = apply_contract(contract, transport, NAMES, fedavg(), settings)
    server = replace(full, clients=full.clients.only(None))
    first = initial_state(full, fedavg(), settings)
    rounds = train(server, algorithm, settings, sites=sites)

    for number in (1, 2):
        state, record = next(rounds)
        assert (state.round, record.round) == (number, number)
        assert all(torch.equal(first.models[name], v) for name, v in state.models.items())
        assert set(record.excluded) == set(NAMES)
        assert record.alpha == (0.0, 0.0, 0.0)
        assert any("is skipped, the model is unchanged" in note for note in record.notes)
    with pytest.raises(TooFewClients, match=r"round 3 has too few answers"):
        next(rounds)
