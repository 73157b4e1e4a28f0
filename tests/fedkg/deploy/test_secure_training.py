"""Trainings at sites under secure aggregation: the same models, and no update in the clear."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pytest
import torch

from fedkg import exclusion_reasons
from fedkg.deploy import quorum_and_deadline_transport, secure_aggregation
from fedkg.deploy.disclosures import list_disclosures
from fedkg.deploy.message import Message
from fedkg.deploy.remote_sites import RemoteSites
from fedkg.deploy.secure_aggregation import KEYS, MASKED, REVEAL, SECURE, SHARES, STAGES, UPDATE
from fedkg.deploy.site_training import SiteTraining
from fedkg.deploy.transport import LoopbackTransport, Reply
from fedkg.errors import FederationError, JobError, TooFewClients
from fedkg.federated import BinaryCrossEntropy, Clients, Problem, Settings, fedavg, train
from fedkg.federated.algorithms import ALGORITHMS
from fedkg.federated.executors.protocol import Work
from fedkg.federated.privacy.protected_algorithm import Protection, protected
from fedkg.federated.problem import pool
from fedkg.models import MLP

pytest.importorskip("flwr")

SIZES = {"graz": 50, "linz": 30, "ohio": 12, "wien": 20}
SETTINGS = Settings(
    rounds=3,
    local_epochs=1,
    batch=10,
    learning_rate=0.3,
    executor="sequential",
    secure_aggregation=True,
)


def problem() -> Problem:
    draw = torch.Generator().manual_seed(0)
    x = tuple(torch.randn(count, 3, generator=draw) for count in SIZES.values())
    y = tuple((rows.sum(1) > 0).float() for rows in x)
    clients = Clients(names=tuple(SIZES), x=x, y=y)
    return Problem(model=MLP(inputs=3, hidden=(4,)), loss=BinaryCrossEntropy(), clients=clients)


@dataclass
class Federation:
    """Sites with data of their own; `lost` names a site that is away from a round on."""

    folder: object
    algorithm: object = field(default_factory=fedavg)
    settings: Settings = SETTINGS
    lost: dict[str, int] = field(default_factory=dict)
    answers: list[Message] = field(default_factory=list)

    def work(self, name):
        whole = problem()
        own = replace(whole, clients=whole.clients.only(name))
        return Work(
            problem=own, algorithm=self.algorithm, settings=self.settings, pool=pool(own.clients)
        )

    def site(self, name):
        return SiteTraining(self.work(name), folder=self.folder / name)

    def train(self):
        sites = {name: self.site(name) for name in SIZES}

        def handler(name):
            def handle(data: bytes) -> bytes:
                request = Message.from_bytes(data, sender="server")
                if request.round >= self.lost.get(name, 99):
                    raise FederationError("connection lost")
                self.answers.append(sites[name].train(request))
                return self.answers[-1].to_bytes()

            return handle

        whole = problem()
        here = replace(whole, clients=whole.clients.only(None))
        transport = LoopbackTransport(sites={name: handler(name) for name in SIZES})
        remote = RemoteSites(transport=transport, seconds=60)
        return list(train(here, self.algorithm, self.settings, sites=remote))


def test_models_equal_those_of_plain_averaging(tmp_path):
    """An update is rounded to multiples of 8 * 4 / 2^31, about 1.5e-8; three rounds of training
    leave differences of float32 rounding."""
    federation = Federation(tmp_path)

    rounds = federation.train()

    plain = list(train(problem(), fedavg(), replace(SETTINGS, secure_aggregation=False)))
    for (state, record), (expected, before) in zip(rounds, plain, strict=True):
        assert record.clients == before.clients
        assert record.alpha == pytest.approx(before.alpha)
        for name, value in expected.models.items():
            assert torch.allclose(state.models[name], value, atol=1e-5, rtol=0)
    assert all(SECURE in answer.fields for answer in federation.answers)
    sent = {name for answer in federation.answers for name in answer.tensors}
    assert sent == {MASKED}
    listed = list_disclosures(federation.work("graz"), "graz")
    assert [one.name for one in listed if one.direction == "to the server"] == ["count", MASKED]
    masked = next(answer for answer in federation.answers if answer.tensors)
    assert listed[-1].shape == masked.tensors[MASKED].shape


def test_a_lost_site_is_left_out_with_the_reason(tmp_path):
    """From round 2 on the others train as if it were not there: with shares of their own."""
    rounds = Federation(tmp_path, lost={"linz": 2}).train()

    assert rounds[0][1].excluded == {}
    assert rounds[1][1].excluded == {"linz": "connection lost"}
    assert rounds[1][1].alpha == pytest.approx((50 / 82, 0.0, 12 / 82, 20 / 82))


@dataclass
class Silent:
    """Sites in this process, of which `site` does not answer from a stage on. Time passes only
    while the server waits: for that site, or `delays` seconds for the others at a stage."""

    sites: dict[str, SiteTraining]
    site: str
    stage: str
    delays: dict[str, float] = field(default_factory=dict)
    now: float = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += max(seconds, 1e-9)

    def present(self):
        return tuple(SIZES)

    def exchange(self, requests, *, seconds):
        begun, end, waits = self.now, self.now + seconds, not requests
        for name, request in requests.items():
            stage = request.fields[SECURE]
            is_silent = name == self.site and STAGES.index(stage) >= STAGES.index(self.stage)
            at = begun + self.delays.get(stage, 0.0)
            if is_silent or at > end:
                waits = True
            else:
                self.now = at
                yield Reply(site=name, message=self.sites[name].train(request))
        self.now = end if waits else self.now


def train_a_round(folder, monkeypatch, stage, delays, settings=SETTINGS, **contract):
    """The record of a round with a deadline of 10 s, without linz from a stage on, and its time."""
    federation = Federation(folder, settings=replace(settings, rounds=1))
    transport = Silent({name: federation.site(name) for name in SIZES}, "linz", stage, delays)
    for module in (quorum_and_deadline_transport, secure_aggregation):
        monkeypatch.setattr(module, "time", transport)
    contract = quorum_and_deadline_transport.RoundContract(
        **{"quorum": 3, "deadline": 10, "grace": 60, "retries": 0} | contract
    )
    sites, algorithm, settings = quorum_and_deadline_transport.apply_contract(
        contract, transport, tuple(SIZES), fedavg(), federation.settings
    )
    whole = problem()
    here = replace(whole, clients=whole.clients.only(None))
    [(_, record)] = train(here, algorithm, settings, sites=sites)
    return record, transport.now


@pytest.mark.parametrize("stage", STAGES)
def test_a_round_succeeds_in_time_whenever_a_site_falls_silent(tmp_path, monkeypatch, stage):
    """The quorum answers at once, and the grace would last longer than the round."""
    record, seconds = train_a_round(tmp_path, monkeypatch, stage, {})

    assert 0 < seconds <= 10 + 1e-6
    missing = {} if stage == REVEAL else {"linz"}
    assert set(record.excluded) == set(missing)
    assert all(exclusion_reasons.NO_REPLY in why for why in record.excluded.values())
    weights = [0 if name in missing else size for name, size in SIZES.items()]
    assert record.alpha == pytest.approx([weight / sum(weights) for weight in weights])


@pytest.mark.parametrize("stage", [SHARES, UPDATE])
def test_spares_do_not_raise_the_threshold(tmp_path, monkeypatch, stage):
    """Four sites are asked for the places of three: two thirds of three are enough for a sum, if
    sums of two are allowed.
    """
    monkeypatch.setattr(secure_aggregation, "FEWEST_SITES", 2)
    settings, spares = replace(SETTINGS, participation=0.75), {"oversampling": 1.3, "quorum": 2}
    record, _ = train_a_round(tmp_path, monkeypatch, stage, {}, settings, **spares)

    assert exclusion_reasons.NO_REPLY in record.excluded["linz"]
    assert sum(weight > 0 for weight in record.alpha) == 2


def test_slow_exchanges_do_not_prolong_a_round(tmp_path, monkeypatch):
    delays = {KEYS: 1.5, SHARES: 1.5, UPDATE: 6.0, REVEAL: 4.0}

    record, seconds = train_a_round(tmp_path, monkeypatch, REVEAL, delays)

    assert seconds == pytest.approx(10)
    assert set(record.excluded) == set(SIZES)
    assert any("is skipped" in note for note in record.notes)


def test_too_few_sites_end_the_round_with_the_reason(tmp_path):
    with pytest.raises(TooFewClients) as error:
        Federation(tmp_path, lost={"linz": 1, "ohio": 1}).train()

    assert "2 sites sent keys, and 3 are needed" in str(error.value)


class WithoutFirst(NamedTuple):
    """Excludes the first clients from all rounds."""

    count: int

    def exclude(self, names):
        return dict.fromkeys(range(self.count), "not wanted"), ()


@pytest.mark.parametrize(
    ("excluded", "lost", "reason"),
    [
        (1, {"linz": 1}, "2 sites sent keys, and 3 are needed"),
        (2, {}, "sites in the round: 2, needed: 3"),
        (3, {}, "sites in the round: 1, needed: 3"),
    ],
)
def test_fewer_than_three_sites_have_no_sum(tmp_path, excluded, lost, reason):
    """Of two sites, each could subtract its own update from the sum."""
    algorithm = replace(fedavg(), exclusion=WithoutFirst(excluded))
    settings = replace(SETTINGS, rounds=1, skipped_rounds=1)
    federation = Federation(tmp_path, algorithm, settings, lost=lost)

    [(_, record)] = federation.train()

    assert reason in record.excluded["wien"]
    assert all(MASKED not in answer.tensors for answer in federation.answers)
    assert any("is skipped" in note for note in record.notes)


def test_a_site_sends_no_update_in_the_clear(tmp_path):
    plain = replace(SETTINGS, secure_aggregation=False)
    requests: list[Message] = []

    def note(data: bytes) -> bytes:
        requests.append(Message.from_bytes(data, sender="server"))
        raise FederationError("not now")

    whole = problem()
    here = replace(whole, clients=whole.clients.only(None))
    remote = RemoteSites(transport=LoopbackTransport(sites={"graz": note}), seconds=1)
    with pytest.raises(TooFewClients):
        list(train(here, fedavg(), plain, sites=remote))

    with pytest.raises(FederationError, match="uses secure aggregation"):
        Federation(tmp_path).site("graz").train(requests[0])


def test_all_data_in_one_process_have_nothing_to_hide():
    with pytest.raises(JobError, match="all data are in one process"):
        list(train(problem(), fedavg(), SETTINGS))


@pytest.mark.parametrize(
    "name", ["scfa", "median", "krum", "ifca", "pcfedavg", "scaffold", "ditto"]
)
def test_algorithms_that_need_single_updates_are_refused(name, tmp_path):
    with pytest.raises(JobError, match="contradict each other") as error:
        Federation(tmp_path, algorithm=ALGORITHMS[name]()).train()

    assert (
        "secure aggregation" in str(error.value)
        or "receipt" in str(error.value)
        or ("single updates" in str(error.value))
        or "update alone" in str(error.value)
        or "cluster" in str(error.value)
    )


def test_late_updates_are_refused():
    contract = quorum_and_deadline_transport.RoundContract(late="weight")
    with pytest.raises(JobError, match="the server cannot use a late one") as error:
        quorum_and_deadline_transport.apply_contract(
            contract, LoopbackTransport(sites={}), tuple(SIZES), fedavg(), SETTINGS
        )
    assert "`federation.late: drop`" in str(error.value)


def test_noise_of_sites_and_masks_go_together(tmp_path):
    """Each site adds its noise before the masks; the ledger is that of the plain training."""
    promise = Protection(unit="example", clip=1.0, delta=1e-3, noise=1.0, randomness="system")
    algorithm = protected(fedavg(), promise, tuple(SIZES.values()), SETTINGS)

    *_, (state, _) = Federation(tmp_path, algorithm=algorithm).train()

    assert state.joints["privacy"]["releases"].tolist() == [15, 9, 6, 6]


def test_a_site_releases_one_noisy_update_in_a_round(tmp_path):
    """The same request gets the same answer, also from a new process; another request, and a round
    beyond the budget, get none."""
    plain = replace(SETTINGS, secure_aggregation=False)
    promise = Protection(
        unit="example", clip=1.0, delta=1e-3, noise=1.0, epsilon=20.0, randomness="system"
    )
    algorithm = protected(fedavg(), promise, tuple(SIZES.values()), plain)
    requests: list[Message] = []
    federation = Federation(tmp_path, algorithm=algorithm, settings=plain)
    site = federation.site("graz")

    def note(data: bytes) -> bytes:
        requests.append(Message.from_bytes(data, sender="server"))
        return site.train(requests[-1]).to_bytes()

    whole = problem()
    here = replace(whole, clients=whole.clients.only(None))
    remote = RemoteSites(transport=LoopbackTransport(sites={"graz": note}), seconds=60)
    next(iter(train(here, algorithm, plain, sites=remote)))
    first = site.train(requests[0])

    assert federation.site("graz").train(requests[0]).to_bytes() == first.to_bytes()
    other = replace(
        requests[0], tensors={name: value + 1 for name, value in requests[0].tensors.items()}
    )
    with pytest.raises(FederationError, match="already released an update of round 1"):
        site.train(other)
    with pytest.raises(FederationError, match="its privacy budget allow none"):
        site.train(replace(requests[0], round=4))
