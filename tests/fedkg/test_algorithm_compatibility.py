"""Contradictory choices are rejected with the reason, wherever an algorithm is composed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from fedkg.algorithm_compatibility import (
    AlgorithmChoices,
    find_contradictions,
    format_contradictions,
)
from fedkg.errors import JobError
from fedkg.federated import Algorithm, Clients, Problem, Settings, SquaredError, fedavg, scfa, train
from fedkg.federated.algorithms import (
    centralised,
    fedrep,
    fltrust,
    ifca,
    krum,
    local_only,
    median,
    multi_krum,
    pcfedavg,
    scaffnew,
    scaffold,
)
from fedkg.federated.client.optimisers import PrivateFirst
from fedkg.federated.client.proximal import Proximal
from fedkg.federated.client.start_points import BestModel, OwnModel, PrivateLayers
from fedkg.federated.server.optimisers import AdaptiveStep
from fedkg.federated.server.robust import Krum, TrimmedMean, TrustedMean
from fedkg.federated.server.weighting import ByValidity
from fedkg.models import MLP, Params

HEAD = PrivateLayers(private=("layers.0.bias",))
STEPS = Settings(rounds=1, local_steps=2, executor="stacked")
EPOCHS = Settings(rounds=1, local_epochs=1, executor="stacked")


@dataclass(frozen=True)
class Clipped:
    noisy = False

    def client(self, update: Params, keys: torch.Tensor) -> Params:
        return update

    def server(self, update: Params, key: torch.Tensor) -> Params:
        return update


def problem(sites: int = 2) -> Problem:
    x = torch.arange(12.0).view(6, 2)
    every = range(sites)
    clients = Clients(
        names=tuple(f"site {i}" for i in every),
        x=tuple(x + i for i in every),
        y=tuple(x[:, i % 2] for i in every),
    )
    return Problem(model=MLP(inputs=2, hidden=()), loss=SquaredError(), clients=clients)


@pytest.mark.parametrize(
    ("algorithm", "settings", "said"),
    [
        (replace(scfa(), aggregate=TrimmedMean(trim=0.1)), STEPS, "count every client alike"),
        (replace(scfa(), aggregate=Krum(attackers=0)), STEPS, "count every client alike"),
        (replace(scfa(), aggregate=TrustedMean()), STEPS, "FLTrust weighs by its own trust"),
        (replace(scfa(), start=HEAD), STEPS, "a head that nobody trains"),
        (replace(krum(), start=HEAD), STEPS, "a corrupt site would hide there"),
        (replace(fltrust(), start=HEAD), STEPS, "a corrupt site would hide there"),
        (replace(scaffold(), start=HEAD), STEPS, "private layers have none"),
        (replace(scaffold(), start=BestModel(models=2)), STEPS, "one common model"),
        (
            replace(scaffold(), privacy=Clipped()),
            STEPS,
            "clipping and noise protect the update alone",
        ),
        (replace(scaffold(), aggregate=TrimmedMean(trim=0.5)), STEPS, "pull all others by them"),
        (replace(scaffold(), aggregate=TrustedMean()), STEPS, "pull all others by them"),
        (
            replace(scaffold(), weighting=ByValidity()),
            STEPS,
            "a site with a weight of 0 by the rules",
        ),
        (
            replace(scaffnew(), weighting=ByValidity()),
            STEPS,
            "Scaffnew's variates cancel only if the server",
        ),
        (
            replace(scaffnew(), server=AdaptiveStep(memory="adam")),
            STEPS,
            "Scaffnew's variates cancel only if the server",
        ),
        (scaffnew(), EPOCHS, "equally many steps"),
        (scaffnew(), replace(STEPS, participation=0.5), "all clients take part"),
        (
            replace(fedrep(private=("layers.0.bias",)), start=BestModel(models=2)),
            STEPS,
            "there are no private layers",
        ),
        (
            replace(fedavg(), local=PrivateFirst(private=("layers.0.bias",))),
            STEPS,
            "there are no private layers",
        ),
        (replace(ifca(), aggregate=Krum(attackers=0)), STEPS, "smaller than Krum needs"),
        (replace(ifca(), aggregate=TrustedMean()), STEPS, "FLTrust compares with one update"),
        (
            replace(fedavg(), start=replace(HEAD, common=BestModel(models=2))),
            STEPS,
            "clusters or private layers",
        ),
        (replace(median(), start=OwnModel()), STEPS, "nothing is exchanged"),
        (local_only().with_terms(Proximal(strength=1.0)), STEPS, "nothing is exchanged"),
        (replace(centralised(), weighting=ByValidity()), STEPS, "all data is in one place"),
    ],
)
def test_contradictions_are_rejected_before_anything_is_trained(
    algorithm: Algorithm, settings: Settings, said: str
) -> None:
    with pytest.raises(JobError) as caught:
        next(train(problem(), algorithm, settings))
    assert said in str(caught.value)
    assert "contradict each other" in str(caught.value)


@pytest.mark.parametrize(
    ("prefixes", "said"),
    [(("layers.9.",), "a name that begins with"), (("layers.",), "so clients would share nothing")],
)
def test_private_layers_that_are_not_there(prefixes: tuple[str, ...], said: str) -> None:
    with pytest.raises(JobError) as caught:
        next(train(problem(), replace(fedavg(), start=PrivateLayers(private=prefixes)), STEPS))
    assert said in str(caught.value)


def test_fedavg_contradicts_nothing() -> None:
    assert find_contradictions(AlgorithmChoices()) == ()


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"partial_rounds": True, "agent_blocks": True}, "need all sites in every round"),
        ({"partial_rounds": True, "local": "scaffnew"}, "need all sites in every round"),
        ({"late_updates": True, "agent_blocks": True}, "old models of the others"),
        ({"late_updates": True, "local": "scaffold"}, "correct the steps of one round"),
        ({"late_updates": True, "private_layers": True}, "drops the private layers"),
        ({"late_updates": True, "personal_models": True}, "drops the private layers"),
        ({"late_updates": True, "model_count": 2}, "the cluster that its site was in"),
        ({"late_updates": True, "privacy_unit": "example"}, "privacy accountant counts"),
        ({"late_updates": True, "protected_updates": True}, "privacy accountant counts"),
        ({"late_updates": True, "aggregate": "krum"}, "only the weighted mean"),
        ({"late_updates": True, "secure_aggregation": True}, "the updates of one round"),
        (
            {"spare_clients": True, "full_participation": False, "privacy_unit": "client"},
            "chance alone",
        ),
        ({"spare_clients": True}, "no spares to ask"),
    ],
)
def test_contract_of_a_round_contradicts_algorithms(choices: dict[str, Any], said: str) -> None:
    found = find_contradictions(AlgorithmChoices(**choices))
    assert any(said in one.reason for one in found)


@pytest.mark.parametrize(("sampled", "refused"), [(4, True), (5, False), (None, False)])
def test_krum_needs_enough_clients(sampled: int | None, refused: bool) -> None:
    assert (
        bool(
            find_contradictions(
                AlgorithmChoices(aggregate="krum", attackers=1, clients_per_round=sampled)
            )
        )
        is refused
    )


@pytest.mark.parametrize(
    ("trim", "sampled", "refused"),
    [(0.1, 9, True), (0.1, 10, False), (0.5, 2, True), (0.5, 3, False), (0.0, 3, False)],
)
def test_a_trimmed_mean_trims(trim: float, sampled: int, refused: bool) -> None:
    assert (
        bool(
            find_contradictions(
                AlgorithmChoices(aggregate="trimmed_mean", trim=trim, clients_per_round=sampled)
            )
        )
        is refused
    )


@pytest.mark.parametrize("attackers", [1, 2])
@pytest.mark.parametrize("make", [krum, multi_krum])
def test_krum_in_python_needs_as_many_clients_as_in_a_job(
    make: Callable[..., Algorithm], attackers: int
) -> None:
    """Two sites are fewer than 2 attackers + 3; that number runs, also as half of the sites."""
    with pytest.raises(JobError, match=rf"at least {2 * attackers + 3} sites in a round"):
        next(train(problem(), make(attackers=attackers), STEPS))
    enough = 2 * attackers + 3
    next(train(problem(enough), make(attackers=attackers), STEPS))
    next(train(problem(2 * enough), make(attackers=attackers), replace(STEPS, participation=0.5)))
    with pytest.raises(JobError, match="contradict each other"):
        next(train(problem(enough), make(attackers=attackers), replace(STEPS, participation=0.5)))


def test_krum_that_expects_nobody_to_be_corrupt_takes_any_number() -> None:
    next(train(problem(), krum(attackers=0), STEPS))


def test_all_contradictions_are_reported_with_what_to_do_about_each() -> None:
    found = find_contradictions(
        AlgorithmChoices(
            local="scaffold", rule_weighting=True, aggregate="krum", protected_updates=True
        )
    )
    reason, instead = format_contradictions(found)
    for word in (
        "count every client alike",
        "protect the update alone",
        "without the robust aggregate",
        "a weight of 0 by the rules",
    ):
        assert word in reason
    assert all(
        f"({place}) " in text for place in range(1, len(found) + 1) for text in (reason, instead)
    )
    with pytest.raises(JobError) as caught:
        next(
            train(
                problem(),
                replace(scaffnew(), server=AdaptiveStep(memory="adam")),
                replace(EPOCHS, participation=0.5),
            )
        )
    for word in ("server takes the mean", "all clients take part", "equally many steps"):
        assert word in str(caught.value)


def test_where_nothing_is_exchanged_nothing_else_is_reported() -> None:
    [one] = find_contradictions(
        AlgorithmChoices(
            exchange="none", rule_weighting=True, private_layers=True, local="scaffold"
        )
    )
    assert "nothing is exchanged" in one.reason


def test_weights_by_the_rules_do_not_go_with_agents() -> None:
    with pytest.raises(JobError, match="could not move its block into its own set"):
        next(train(problem(), replace(pcfedavg(), weighting=ByValidity()), STEPS))


def test_who_asks_scaffnew_for_epochs_is_told_what_to_write() -> None:
    with pytest.raises(
        JobError,
        match=r"`local_steps` instead of `local_epochs` \(steps = epochs \* rows of a "
        r"site / rows in a batch\)",
    ):
        next(train(problem(), scaffnew(), EPOCHS))
