"""The contract of every preset, one entry each.

How it is made here, with which options it is FedAvg, and where it can run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from federations import classes

from fedkg.federated import ALGORITHMS, Algorithm, Clients, Problem, Settings
from fedkg.federated.pcfedavg.agent_sets import sets_of
from fedkg.federated.server.robust import Krum
from fedkg.projection import L1Ball

SIZES = (14, 9, 22, 5, 17)
SETTINGS = Settings(rounds=4, participation=0.8, local_epochs=2, batch=8, learning_rate=0.1, seed=1)


@dataclass(frozen=True, kw_only=True)
class Contract:
    """One preset under the contract.

    Attributes:
        options: with which it is tested.
        neutral: with which it is FedAvg to the bit; None if no options do that.
        neutral_sizes: samples of the clients for that; None: those of all tests.
        neutral_rounds: for how many rounds it then is FedAvg.
        settings: fields of the settings that it needs to be different.
        common: whether its common model differs from FedAvg's.
        sends: whether anything is sent.
    """

    options: Mapping[str, object] = field(default_factory=dict)
    neutral: Mapping[str, object] | None
    neutral_sizes: tuple[int, ...] | None = None
    neutral_rounds: int = 4
    settings: Mapping[str, object] = field(default_factory=dict)
    common: bool = True
    sends: bool = True


STILL = {"rate": 1.0, "beta1": 0.0, "beta2": 1.0, "tau": 0.5}
"""A server step with a denominator that stays at sqrt(1/4) + 1/2."""

HUGE = 2.0**40
EQUAL = (12, 12, 12, 12)
ALL_STEPS = {"participation": 1.0, "local_epochs": None, "local_steps": 6}

CONTRACTS: dict[str, Contract] = {
    "fedavg": Contract(neutral={}, common=False),
    "scfa": Contract(neutral={}, common=False),
    "fedprox": Contract(options={"mu": 0.5}, neutral={"mu": 0.0}),
    "fedadam": Contract(neutral=STILL),
    "fedyogi": Contract(neutral=STILL),
    "fedadagrad": Contract(neutral={"rate": 2 * HUGE, "beta1": 0.0, "tau": HUGE}),
    "scaffold": Contract(neutral={}, neutral_rounds=1),
    "scaffnew": Contract(neutral={}, neutral_rounds=1, settings=ALL_STEPS),
    "fedrep": Contract(options={"private": ("layers.2.",)}, neutral=None),
    "ditto": Contract(options={"strength": 0.5}, neutral={"strength": 0.0}, common=False),
    "ifca": Contract(neutral={"models": 1}),
    "pcfedavg": Contract(
        options={"strength": 0.5, "sets": sets_of([L1Ball(2.0)] * 5)},
        neutral=None,
        settings={"participation": 1.0},
    ),
    "local_only": Contract(neutral={}, neutral_sizes=(14,), sends=False),
    "centralised": Contract(neutral={}, neutral_sizes=(14,)),
    "median": Contract(neutral={}, neutral_sizes=(12, 12)),
    "trimmed_mean": Contract(options={"trim": 0.3}, neutral={"trim": 0.0}, neutral_sizes=EQUAL),
    "krum": Contract(
        neutral={"attackers": 0}, neutral_sizes=(12,), settings={"participation": 1.0}
    ),
    "multi_krum": Contract(
        neutral={"attackers": 0}, neutral_sizes=EQUAL, settings={"participation": 1.0}
    ),
    "fltrust": Contract(neutral=None),
    "robust_scfa": Contract(
        neutral={"aggregate": Krum(attackers=0, keep=None)},
        neutral_sizes=EQUAL,
        settings={"participation": 1.0},
    ),
}
"""Why these presets are not FedAvg.

Without rules, SCFA has no weights to set. FedRep moves its layers one after the other, FLTrust
rescales all updates to one length. PC-FedAvg's average is FedAvg's with another step, which has a
separate test.
"""


def made(name: str, options: Mapping[str, object] | None = None) -> Algorithm:
    """A preset with the options of its contract, or with others."""
    return ALGORITHMS[name](**(CONTRACTS[name].options if options is None else options))


def settings_for(name: str, **changes: object) -> Settings:
    return replace(SETTINGS, **{**CONTRACTS[name].settings, **changes})


def task(sizes: tuple[int, ...] = SIZES, dtype: torch.dtype = torch.float64) -> Problem:
    """A classification task with a server that has a few labelled rows."""
    problem = classes(sizes, dtype=dtype)
    own = classes((10,), dtype=dtype).clients
    return replace(problem, server_data=Clients(names=("server",), x=own.x, y=own.y))
