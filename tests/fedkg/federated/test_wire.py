"""Updates rounded on their way to the server."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from federations import classes, identical, largest_difference
from hypothesis import given
from hypothesis import strategies as st

from fedkg.errors import JobError
from fedkg.federated import Algorithm, Settings, fedavg, train
from fedkg.federated.algorithms import fedadam, median, scaffnew, scaffold
from fedkg.federated.client.wire_precision import sent, size
from fedkg.federated.executors.protocol import Updates
from fedkg.federated.server.optimisers import AddUpdate
from fedkg.models import Params

SIZES = (12, 31, 5, 20)
SETTINGS = Settings(
    rounds=3, local_epochs=1, batch=8, learning_rate=0.1, seed=1, executor="stacked"
)


def updates(value: torch.Tensor) -> Updates:
    count = len(value)
    clients = torch.arange(count)
    return Updates(
        clients=clients,
        groups=torch.zeros_like(clients),
        start={"w": value * 0},
        update={"w": value},
        loss=torch.zeros(count),
    )


@given(
    st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=8),
    st.sampled_from(["bfloat16", "float16"]),
)
def test_numbers_are_rounded_to_the_nearest_and_stay_so(values: list[float], wire: str) -> None:
    value = torch.tensor([values])
    once = sent(updates(value), wire)  # type: ignore[arg-type]
    found = once.update["w"]
    assert found.dtype == torch.float32
    bits = 8 if wire == "bfloat16" else 11
    assert bool(((found - value).abs() <= value.abs() * 2.0**-bits + 2.0**-24).all())
    assert torch.equal(sent(once, wire).update["w"], found)  # type: ignore[arg-type]


@pytest.mark.parametrize("wire", ["bfloat16", "float16"])
@pytest.mark.parametrize("make", [fedavg, fedadam, median, scaffold])
def test_executors_agree_and_the_result_is_near(make: object, wire: str) -> None:
    problem = classes(SIZES)

    def last(own: Settings) -> Params:
        *_, (state, _) = train(problem, make(), own)  # type: ignore[operator]
        return state.params

    rounded = replace(SETTINGS, wire=wire)  # type: ignore[arg-type]
    found = last(rounded)
    plain = last(SETTINGS)
    assert not identical(found, plain)
    assert largest_difference(found, plain) < (0.3 if make is fedadam else 0.01)
    reference = last(replace(rounded, executor="sequential"))
    # Updates that differ in their last bit may be rounded to neighbours.
    assert largest_difference(found, reference) < (0.05 if make is fedadam else 1e-3)


def test_half_the_bytes_are_reported() -> None:
    problem = classes(SIZES, dtype=torch.float32)
    (_, plain), (_, half) = (
        next(iter(train(problem, fedavg(), replace(SETTINGS, wire=wire))))
        for wire in (None, "bfloat16")
    )  # type: ignore[arg-type]
    counts = 8 * len(SIZES)
    assert half.bytes_up - counts == (plain.bytes_up - counts) // 2
    assert half.bytes_down == plain.bytes_down
    assert size({"w": torch.zeros(3, 5)}, "float16") == 30
    assert size({"w": torch.zeros(3, 5, dtype=torch.float64)}, None) == 120


def test_what_overflows_is_left_out_by_name() -> None:
    problem = classes(SIZES)
    wild = replace(problem.clients, x=(problem.clients.x[0] * 1e6, *problem.clients.x[1:]))
    own = replace(SETTINGS, wire="float16", learning_rate=1.0, rounds=1)
    [(_, record)] = train(
        replace(problem, clients=wild), Algorithm(name="a", server=AddUpdate()), own
    )
    assert "infinite values" in record.excluded["site_0"]


def test_scaffnew_is_rejected() -> None:
    own = replace(SETTINGS, wire="bfloat16", local_epochs=None, local_steps=3)
    with pytest.raises(JobError, match="rounded updates add up to a drift"):
        next(iter(train(classes(SIZES), scaffnew(), own)))


def test_an_unknown_type_is_rejected() -> None:
    with pytest.raises(JobError, match="`wire` has an unknown value"):
        replace(SETTINGS, wire="int8")  # type: ignore[arg-type]
