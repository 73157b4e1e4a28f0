"""Sites that keep their data train the same models as one process with all data, to the byte.

The reference is the sequential executor of `fedkg.federated.train`, which has its own tests with
loops written from the papers alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import forecasts
import pytest
import test_pack_rules
import test_private_properties
import torch
from algorithm_contracts import CONTRACTS, made, settings_for, task
from federations import FunctionScorer, classes, rows
from sites_in_memory import Sites, fail_in, same, same_record, same_state
from torch import Tensor

from fedkg.deploy.disclosures import describe_disclosures, list_disclosures
from fedkg.deploy.message import Message
from fedkg.deploy.remote_sites import RemoteSites
from fedkg.deploy.site_state_versions import NO_RECEIPT
from fedkg.deploy.site_training import SiteTraining
from fedkg.errors import FederationError, JobError, TooFewClients
from fedkg.federated import (
    Algorithm,
    Clients,
    Own,
    Problem,
    Settings,
    fedavg,
    from_tensors,
    scfa,
    to_tensors,
    train,
)
from fedkg.federated.algorithms import ditto, fedrep, ifca, pcfedavg, scaffold
from fedkg.federated.algorithms.fedstl import fedstl
from fedkg.federated.algorithms.non_federated_baselines import centralised
from fedkg.federated.client.constraint_penalty import ConstraintPenalty
from fedkg.federated.client.optimisers import Adam
from fedkg.federated.client.start_points import BestModel, PrivateLayers
from fedkg.federated.executors import Sequential, Stacked
from fedkg.federated.model.knowledge_bounded_models import informed
from fedkg.federated.pcfedavg.agent_sets import sets_of
from fedkg.federated.privacy.protected_algorithm import Protection, protected
from fedkg.federated.problem import pool
from fedkg.federated.round_steps import Step
from fedkg.federated.temporal.client_property_mining import (
    Inferred,
    inferred,
    inferred_privately,
    of_shared,
)
from fedkg.models import MLP
from fedkg.projection import L1Ball

F32 = torch.float32
SIZES = (14, 9, 22, 5, 17)
SETTINGS = Settings(rounds=4, participation=0.8, local_epochs=2, batch=8, learning_rate=0.1, seed=1)
HEAD = ("layers.2.",)
LEVELS = (0.0, 5.0, 0.0, 5.0, 2.0)
BALLS = [L1Ball(1.0 + place) for place in range(len(SIZES))]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A training to compare.

    Attributes:
        algorithm: what the server (None), or a site, knows of the algorithm; ``"all"``: what one
            process with all data knows.
        apart: fields of records that a server without data reports otherwise.
    """

    problem: Problem
    algorithm: Callable[[str | None], Algorithm]
    settings: Settings = SETTINGS
    apart: tuple[str, ...] = ()


def preset(name: str) -> Case:
    return Case(
        problem=task(dtype=F32), algorithm=lambda site: made(name), settings=settings_for(name)
    )


def plain(algorithm: Algorithm, problem: Problem | None = None, **changes: object) -> Case:
    return Case(
        problem=problem or classes(SIZES, dtype=F32),
        algorithm=lambda site: algorithm,
        settings=replace(SETTINGS, **changes),
    )


def judged() -> Problem:
    """Rules that some updates violate: how large two weights may be."""
    limits = FunctionScorer(
        rows=rows(2),
        violation=lambda params: torch.stack(
            [
                (params["layers.0.weight"].flatten(1).abs() > 0.6).double().mean(1),
                (params["layers.1.weight"].flatten(1) > 0.5).double().mean(1),
            ],
            1,
        ),
    )
    return replace(classes(SIZES, dtype=F32), scorer=limits)


def own_sets() -> Case:
    """PC-FedAvg where each site knows its own set alone, and the server none."""
    names = classes(SIZES).clients.names

    def algorithm(site: str | None) -> Algorithm:
        known = {place: BALLS[place] for place, name in enumerate(names) if name == site}
        every = dict(enumerate(BALLS)) if site == "all" else known
        return pcfedavg(
            sets=sets_of(every) if every else None, strength=0.5, smooth=1.0, by_rule=True
        )

    return Case(
        problem=classes(SIZES, dtype=F32),
        algorithm=algorithm,
        settings=replace(SETTINGS, participation=1.0),
    )


def clustered(**changes: object) -> Case:
    """FedSTL: a site knows its own property, the server those of the shared samples."""
    problem, _ = forecasts.task(LEVELS, samples=20, dtype=F32)
    whole = forecasts.properties(problem, share=0.2)

    def algorithm(site: str | None) -> Algorithm:
        if site == "all":
            found = whole
        elif site is None:
            found = of_shared(
                forecasts.ranges(), whole.shared, forecasts.LAYOUT, steps=forecasts.STEPS
            )
        else:
            found = forecasts.properties(
                replace(problem, clients=problem.clients.only(site)), share=0.2
            )
        options = {
            "clusters": 2,
            "private": ("head.",),
            "weight": 0.5,
            "cluster_epochs": 2,
            "momentum": 0.5,
        }
        return fedstl(inferred=found, **{**options, **changes})

    settings = replace(SETTINGS, participation=0.6, learning_rate=0.02, batch=16)
    return Case(problem=problem, algorithm=algorithm, settings=settings)


def with_knowledge() -> Case:
    """Samples with columns that say which classes are allowed, and which one is predicted."""
    problem = classes(SIZES, dtype=F32)
    dice = torch.Generator().manual_seed(5)
    xs = []
    for x, y in zip(problem.clients.x, problem.clients.y, strict=True):
        allowed = (torch.rand(len(y), 4, generator=dice) > 0.3).to(x.dtype)
        allowed[torch.arange(len(y)), y] = 1.0
        xs.append(torch.cat([x, allowed, (y + 1.0).unsqueeze(1).to(x.dtype)], 1))
    model = informed(MLP(inputs=6, hidden=(7,), outputs=4), width=6, classes=4, trust=0.3)
    clients = replace(problem.clients, x=tuple(xs))
    return plain(fedavg(), replace(problem, model=model, clients=clients))


def with_rules() -> Case:
    """A penalty for violated rules that read the category of a machine, and scores by the rules."""
    penalty = ConstraintPenalty(rules=test_pack_rules.module(), weight=2.0)
    return plain(scfa().with_terms(penalty), test_pack_rules.problem(0.2), participation=1.0)


def private(algorithm: Algorithm, unit: str) -> Case:
    protection = Protection(unit=unit, clip=0.3, delta=1e-3, noise=1.0)  # type: ignore[arg-type]
    return plain(protected(algorithm, protection, SIZES, SETTINGS))


CASES: dict[str, Callable[[], Case]] = {
    name: lambda name=name: preset(name) for name in CONTRACTS if name != "centralised"
} | {
    "adam": lambda: plain(replace(fedavg(), local=Adam())),
    "scores": lambda: plain(fedavg(), judged()),
    "weights by scores": lambda: plain(scfa(graded=True, hard_tolerance=0.2), judged()),
    "dropout": lambda: plain(fedavg(), classes(SIZES, dtype=F32, dropout=0.3)),
    "own settings": lambda: plain(
        fedavg(), own={"site_2": Own(learning_rate=0.03, local_epochs=3, batch=4)}
    ),
    "steps": lambda: plain(scaffold(), local_epochs=None, local_steps=5, schedule="cosine"),
    "bfloat16": lambda: plain(scaffold(), wire="bfloat16"),
    "float16": lambda: plain(fedrep(private=HEAD), wire="float16"),
    "double": lambda: plain(ditto(), classes(SIZES)),
    "ditto of several": lambda: plain(ditto(strength=0.5, common=BestModel(models=2))),
    "ditto of layers": lambda: plain(ditto(strength=0.5, common=PrivateLayers(private=HEAD))),
    "all blocks": lambda: plain(
        pcfedavg(sets=sets_of(BALLS), strength=0.5, form="all"), participation=1.0
    ),
    "own sets": own_sets,
    "fedstl": clustered,
    "fedstl every second round": lambda: clustered(every=2, assignment="argmin", private=()),
    "fedstl of one cluster": lambda: clustered(clusters=1, cluster_epochs=0),
    "knowledge": with_knowledge,
    "rules": with_rules,
    "private examples": lambda: private(ditto(), "example"),
    "private clients": lambda: private(fedavg(), "client"),
    "private clients, 16 bits": lambda: replace(
        private(fedavg(), "client"), settings=replace(SETTINGS, wire="bfloat16")
    ),
}


def federation(case: Case, folder: Path) -> Sites:
    return Sites(
        problem=case.problem, algorithm=case.algorithm, settings=case.settings, folder=folder
    )


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


@pytest.mark.slow
def test_sites_train_what_one_process_trains(case: Case, tmp_path: Path) -> None:
    """Models, memory of the server, records, and the rows that each site alone has; and in messages
    nothing but what the list of disclosures states.
    """
    sites = federation(case, tmp_path)
    here, there = sites.train_here(), list(sites.train())
    assert len(here) == len(there) == case.settings.rounds
    for (state, record), (other, remote) in zip(here, there, strict=True):
        same_state(state, other)
        same_record(record, remote, apart=case.apart)
    end, last = here[-1][0], there[-1][0]
    same(dict(end.clients), sites.rows(last))
    holds_no_rows(sites)
    states_what_was_sent(sites)
    uses_the_same_models(sites, here, there)


def holds_no_rows(sites: Sites) -> None:
    """No message has the bytes of a sample, nor a file at the server's side of a site's rows."""
    data = b"".join([*sites.sent, *(request.to_bytes() for _, request, _ in sites.messages)])
    for x, y in zip(sites.problem.clients.x, sites.problem.clients.y, strict=True):
        for row in x:
            assert row.contiguous().numpy().tobytes() not in data
        for row in y if y.dim() > 1 else (y,):
            assert row.contiguous().numpy().tobytes() not in data


def states_what_was_sent(sites: Sites) -> None:
    """Both the server and the site list each tensor that was sent, and no other."""
    for name, request, answer in sites.messages:
        for place in (None, name):
            stated = list_disclosures(sites.work(place), name)
            for direction, message in (("to the site", request), ("to the server", answer)):
                each = [
                    one
                    for one in stated
                    if one.direction == direction and one.when == "in each of its rounds"
                ]
                assert [one.name for one in each] == list(message.tensors)
                for one, value in zip(each, message.tensors.values(), strict=True):
                    assert (one.shape, one.dtype) == (
                        tuple(value.shape),
                        str(value.dtype).removeprefix("torch."),
                    )
                    assert one.bytes == len(value.contiguous().view(-1).view(torch.uint8))
        assert set(request.fields) <= {"group", "receipt"}
        assert set(answer.fields) <= {"receipt", "unusable"}


def uses_the_same_models(sites: Sites, here: list, there: list) -> None:
    """A site finds the model that it uses after the last round, also if it was never sampled."""
    problem, algorithm = sites.problem, sites.algorithm("all")
    whole = replace(
        sites.work(None), problem=problem, pool=pool(problem.clients), algorithm=algorithm
    )
    remote = RemoteSites(transport=sites, seconds=60)
    for place, name in enumerate(sites.names):
        request = remote.evaluation(sites.work(None), there[-1][0], place)
        got = Message.from_bytes(request.to_bytes(), sender="the server")
        expected = algorithm.site_models(whole, here[-1][0], torch.tensor([place]))
        same(expected, sites.sites[name].deployed_model(got))


@dataclass(frozen=True)
class Sick:
    """A term that is not a number for one client in one round."""

    client: int
    round: int

    @property
    def reads(self) -> str:
        return "parameters"

    def value(self, step: Step) -> Tensor:
        total = torch.stack([value.flatten(1).sum(1) for value in step.params.values()]).sum(0)
        ill = (step.clients == self.client) & (step.round == self.round)
        return total * torch.where(ill, torch.nan, 0.0).to(total.dtype)


REMEMBERING = {
    "scaffold": scaffold,
    "fedrep": lambda: fedrep(private=HEAD),
    "ditto": lambda: ditto(strength=0.5),
}


@pytest.mark.parametrize("name", list(REMEMBERING))
def test_rows_of_an_update_that_the_server_rejects_are_not_used(name: str, tmp_path: Path) -> None:
    """Site 2 sends NaN in round 2: its later rounds continue from its rows of round 1."""
    algorithm = REMEMBERING[name]().with_terms(Sick(2, 2))
    sites = federation(plain(algorithm, participation=1.0), tmp_path)
    here, there = sites.train_here(), list(sites.train())
    assert "NaN" in here[1][1].excluded["site_2"]
    for (state, record), (other, remote) in zip(here, there, strict=True):
        same_state(state, other)
        same_record(record, remote)
    same(dict(here[-1][0].clients), sites.rows(there[-1][0]))


def test_rows_that_are_no_numbers_exclude_a_site_and_stay_there(tmp_path: Path) -> None:
    """Only what site 1 keeps for itself is NaN; the reason is the one of a local run."""
    beside = ditto().beside
    assert beside is not None
    algorithm = replace(ditto(), beside=beside.with_terms(Sick(1, 2)))
    sites = federation(plain(algorithm, participation=1.0), tmp_path)
    here, there = sites.train_here(), list(sites.train())
    for (state, record), (other, remote) in zip(here, there, strict=True):
        same_state(state, other)
        same_record(record, remote, apart=("bytes_up", "bytes_down"))
    assert "own/" in there[1][1].excluded["site_1"]
    same(dict(here[-1][0].clients), sites.rows(there[-1][0]))


@pytest.mark.parametrize("name", list(REMEMBERING))
def test_sites_and_server_that_start_again_continue_to_the_byte(name: str, tmp_path: Path) -> None:
    """All sites start again after round 2. The server starts again from the state after round 2
    when the sites have already answered rounds 3 and 4.
    """
    sites = federation(plain(REMEMBERING[name](), rounds=5, participation=0.6), tmp_path)
    whole = sites.train_here()
    saved = []
    for state, _ in sites.train():
        saved.append(to_tensors(state))
        if state.round == 2:
            sites.start()
        if state.round == 4:
            break
    again = list(sites.train(from_tensors(*saved[1])))
    assert [state.round for state, _ in again] == [3, 4, 5]
    for (state, record), (other, remote) in zip(whole[2:], again, strict=True):
        same_state(state, other)
        same_record(record, remote)
    same(dict(whole[-1][0].clients), sites.rows(again[-1][0]))


def test_the_same_request_has_the_same_answer(tmp_path: Path) -> None:
    """A retry, before and after the site starts again."""
    sites = federation(plain(scaffold(), rounds=2), tmp_path)
    list(sites.train())
    name, request, answer = sites.messages[-1]
    assert sites.sites[name].train(request).to_bytes() == answer.to_bytes()
    sites.start()
    assert sites.sites[name].train(request).to_bytes() == answer.to_bytes()


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("silent", "no answer within 60 s"),
        ("failing", "the disk of the site is full"),
        ("lost", "the connection was lost"),
    ],
)
def test_a_site_that_fails_is_left_out_with_its_reason(
    how: str, reason: str, tmp_path: Path
) -> None:
    """The round then is the round in which its update is rejected for another reason. If only the
    answer is lost, the site has trained, and must not continue from there.
    """
    other = federation(
        plain(scaffold().with_terms(Sick(3, 2)), participation=1.0), tmp_path / "here"
    ).train_here()
    sites = federation(plain(scaffold(), participation=1.0), tmp_path)
    training = sites.train()
    there = [next(training)]
    sites.silent = {"site_3"} if how == "silent" else set()
    sites.lost = {"site_3"} if how == "lost" else set()
    if how == "failing":
        sites.before_answer = fail_in({2: "site_3"})
    there.append(next(training))
    sites.silent, sites.lost = set(), set()
    there += training
    for (state, _), (remote, _) in zip(other, there, strict=True):
        same_state(state, remote)
    assert there[1][1].excluded == {"site_3": reason}
    assert there[1][1].alpha[3] == 0.0
    same(dict(other[-1][0].clients), sites.rows(there[-1][0]))


def test_without_enough_sites_the_round_fails(tmp_path: Path) -> None:
    sites = federation(plain(fedavg(), min_clients=2, participation=1.0), tmp_path)
    sites.silent = set(sites.names[:4])
    with pytest.raises(TooFewClients, match="round 1 has too few usable updates"):
        next(sites.train())


def test_answers_of_earlier_rounds_and_of_others_do_not_count(tmp_path: Path) -> None:
    sites = federation(plain(fedavg(), participation=1.0), tmp_path)
    here = sites.train_here()
    exchange = sites.exchange

    def with_late_answers(requests, *, seconds):
        replies = list(exchange(requests, seconds=seconds))
        late = [
            replace(reply, message=replace(reply.message, round=reply.message.round - 1))
            for reply in replies
        ]
        strange = [replace(reply, site="nobody") for reply in replies]
        failed = [replace(reply, message=None, error="of an earlier request") for reply in replies]
        yield from (*late, *strange, *failed[:3], *reversed(replies), *replies, *failed)

    sites.exchange = with_late_answers  # type: ignore[method-assign]
    for (state, record), (other, remote) in zip(here, sites.train(), strict=True):
        same_state(state, other)
        same_record(record, remote)


WRONG = {
    "lacks": lambda answer: replace(answer, tensors={}),
    "unknown": lambda answer: replace(answer, tensors={**answer.tensors, "more": torch.zeros(1)}),
    "shape": lambda answer: replace(
        answer, tensors={**answer.tensors, "update/layers.0.bias": torch.zeros(1)}
    ),
    "no receipt": lambda answer: replace(answer, fields={"receipt": "../../state"}),
    "NaN": lambda answer: replace(
        answer,
        tensors={name: torch.full_like(value, torch.nan) for name, value in answer.tensors.items()},
    ),
}


@pytest.mark.parametrize("wrong", list(WRONG))
def test_answers_that_do_not_fit_are_left_out(wrong: str, tmp_path: Path) -> None:
    sites = federation(plain(scaffold(), rounds=1, participation=1.0), tmp_path)
    train_one = sites.sites["site_1"].train
    sites.sites["site_1"].train = lambda request: WRONG[wrong](train_one(request))  # type: ignore[method-assign]
    [(_, record)] = sites.train()
    assert set(record.excluded) == {"site_1"}
    assert wrong in record.excluded["site_1"]


@pytest.mark.parametrize("group", [torch.tensor(3), torch.tensor(-1), torch.tensor(0.0)])
def test_a_site_can_only_choose_one_of_the_models(group: Tensor, tmp_path: Path) -> None:
    sites = federation(plain(ifca(models=3), rounds=1, participation=1.0), tmp_path)
    train_one = sites.sites["site_1"].train

    def choose(request: Message) -> Message:
        answer = train_one(request)
        return replace(answer, tensors={**answer.tensors, "group": group})

    sites.sites["site_1"].train = choose  # type: ignore[method-assign]
    [(_, record)] = sites.train()
    assert record.excluded == {"site_1": "it chose none of the 3 models"}


def test_clients_that_keep_their_samples_elsewhere_are_not_trained_here(tmp_path: Path) -> None:
    case = plain(ifca(models=2), participation=1.0)
    work = federation(case, tmp_path).work("site_1")
    state, _ = next(train(case.problem, case.algorithm(None), case.settings))
    for executor in (Sequential(), Stacked(chunk=5)):
        with pytest.raises(JobError, match="the samples of site_0 are not here"):
            list(executor.train(work, state, torch.arange(2)))
    with pytest.raises(JobError, match="the samples of site_4 are not here"):
        work.algorithm.site_models(work, state, torch.tensor([4]))
    with pytest.raises(JobError, match="no parameter set for agent 2"):
        sets_of({0: BALLS[0]}).residual({"w": torch.zeros(1, 3)}, torch.tensor([2]))
    with pytest.raises(JobError, match="the data of exactly one client"):
        SiteTraining(federation(case, tmp_path).work(None), folder=tmp_path)
    with pytest.raises(JobError, match="gathers the samples of all clients"):
        next(
            train(
                case.problem,
                centralised(),
                case.settings,
                sites=RemoteSites(transport=federation(case, tmp_path), seconds=1),
            )
        )


def test_an_update_is_clipped_before_it_leaves_its_site(tmp_path: Path) -> None:
    case = CASES["private clients"]()
    sites = federation(case, tmp_path)
    list(sites.train())
    norms = [
        torch.cat([value.double().flatten() for value in _updates(answer).values()]).norm()
        for _, _, answer in sites.messages
    ]
    assert all(float(norm) <= 0.3 * (1 + 1e-6) for norm in norms)
    assert any(float(norm) > 0.3 * (1 - 1e-6) for norm in norms)
    assert all(bool(answer.tensors["loss"].isnan()) for _, _, answer in sites.messages)


def _updates(answer: Message) -> dict[str, Tensor]:
    return {name: value for name, value in answer.tensors.items() if name.startswith("update/")}


def test_noise_of_a_site_with_its_own_seed_is_unknown_to_the_server(tmp_path: Path) -> None:
    """The server knows the seed of the job, hence the noise of sites that have no seed."""
    sites = federation(CASES["private examples"](), tmp_path)
    list(sites.train())
    name, request, answer = sites.messages[0]
    work = sites.work(name)
    with_seed = [
        SiteTraining(work, folder=tmp_path / name, seed=seed).train(request).to_bytes()
        for seed in (None, 2**62 + 1, 2**62 + 1, 2**62 + 2)
    ]
    assert with_seed[0] == answer.to_bytes()
    assert with_seed[1] == with_seed[2]
    assert len(set(with_seed)) == 3


def test_rules_are_not_measured_on_models_of_which_layers_stay_at_sites(tmp_path: Path) -> None:
    """One process may judge the whole model of each site; a server without these layers cannot."""
    sites = federation(plain(fedrep(private=HEAD), judged()), tmp_path)
    for (state, record), (other, remote) in zip(sites.train_here(), sites.train(), strict=True):
        same_state(state, other)
        assert record.validity is not None
        assert remote.validity is None
        assert remote.violated is None
        assert remote.rho_worst is None


def test_what_a_site_shares_once_is_listed(tmp_path: Path) -> None:
    case = clustered()
    sites = federation(case, tmp_path)
    shared = forecasts.properties(case.problem, share=0.2).shared
    for place, name in enumerate(sites.names):
        for work in (sites.work(None), sites.work(name)):
            once = {
                one.name: one
                for one in list_disclosures(work, name)
                if one.when == "before the first round"
            }
            assert set(once) == {"count", "samples/x", "samples/y"}
            assert once["samples/x"].shape == tuple(shared.x[place].shape)
            assert once["samples/y"].bytes == shared.y[place].numel() * 4
    lines = describe_disclosures(list_disclosures(sites.work(None), "road_0"))
    assert lines[0] == (
        "before the first round, to the server: count, int64 [], 8 bytes: how many training samples"
        " the site has"
    )


def test_of_a_property_mined_privately_its_noisy_numbers_are_listed(tmp_path: Path) -> None:
    """The site mines them alone, with the noise that it has in a local run."""
    problem = test_private_properties.PROBLEM
    x, y = problem.clients.x[0][:5], problem.clients.y[0][:5]

    def mine(clients: Clients) -> Inferred:
        return inferred_privately(
            test_private_properties.spanned(),
            clients,
            forecasts.LAYOUT,
            steps=forecasts.STEPS,
            x=x,
            y=y,
            epsilon=30.0,
        )

    whole = mine(problem.clients)
    for place, name in enumerate(problem.clients.names):
        alone = mine(problem.clients.only(name))
        for here, there in zip(whole.own.values, alone.own.values, strict=True):
            assert torch.equal(here[place].nan_to_num(-1), there[place].nan_to_num(-1))
    algorithm = fedstl(inferred=whole, clusters=2, cluster_epochs=0)
    work = federation(plain(algorithm, problem), tmp_path).work(None)
    once = [
        (one.name, one.shape)
        for one in list_disclosures(work, problem.clients.names[0])
        if one.when == "before the first round"
    ]
    assert once == [("count", ()), *((f"property/range_{i}", (2,)) for i in range(3))]


def test_a_property_of_all_samples_needs_them_in_one_place() -> None:
    problem, _ = forecasts.task(LEVELS, samples=20, dtype=F32)
    with pytest.raises(JobError, match="needs the samples of all clients in one place"):
        inferred(
            forecasts.ranges("run"),
            problem.clients.only("road_1"),
            forecasts.LAYOUT,
            steps=forecasts.STEPS,
        )


def test_requests_that_do_not_fit_are_rejected(tmp_path: Path) -> None:
    sites = federation(plain(scaffold(), rounds=1), tmp_path)
    list(sites.train())
    name, request, _ = sites.messages[0]
    site = sites.sites[name]
    for wrong, reason in (
        (replace(request, tensors={}), "does not fit the algorithm"),
        (replace(request, fields={**request.fields, "receipt": "../x"}), "the state from which"),
        (
            replace(request, fields={**request.fields, "receipt": "a" * 64}),
            "cannot read its private state",
        ),
        (replace(request, fields={**request.fields, "group": "0"}), "group '0'"),
        (replace(request, fields={**request.fields, "group": None}), "group None"),
    ):
        with pytest.raises(FederationError, match=reason):
            site.train(wrong)
    assert request.fields["receipt"] == NO_RECEIPT
