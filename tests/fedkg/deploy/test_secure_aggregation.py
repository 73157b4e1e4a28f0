"""Secure aggregation gives the weighted sum of the updates, and nothing else, whoever drops out.

The oracle is a plain sum in float64. Sites are stand-ins with an update of their own.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch

from fedkg.deploy.message import Message
from fedkg.deploy.secure_aggregation import (
    KEYS,
    MASKED,
    REVEAL,
    SECURE,
    SHARES,
    STAGES,
    UPDATE,
    SecureSite,
    aggregate_securely,
    quantisation_bound,
)
from fedkg.deploy.transport import LoopbackTransport
from fedkg.errors import FederationError, JobError

pytest.importorskip("flwr")

NAMES = ("graz", "linz", "ohio", "steyr", "wien")
WEIGHTS = dict(zip(NAMES, (1.0, 0.25, 0.5, 0.8, 0.05), strict=True))
LIKE = {"w": torch.zeros(30, 4), "b": torch.zeros(7)}
LIMIT, THRESHOLD = 0.5, 3


def update_of(name: str) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(NAMES.index(name))
    return {key: 0.1 * torch.randn(value.shape, generator=draw) for key, value in LIKE.items()}


@dataclass
class Federation:
    """Five sites; `lost` says for each site after which stage it answers no more."""

    lost: dict[str, str] = field(default_factory=dict)
    change: Callable[[str, dict], dict] = lambda name, update: update
    seen: list[tuple[str, Message, Message]] = field(default_factory=list)
    asked: dict[str, Message] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sites = {name: SecureSite(name, self.compute(name)) for name in NAMES}

    def compute(self, name):
        def compute_update(request: Message):
            self.asked[name] = request
            return self.change(name, update_of(name))

        return compute_update

    def handler(self, name):
        def handle(data: bytes) -> bytes:
            request = Message.from_bytes(data, sender="server")
            last = self.lost.get(name)
            if last is not None and STAGES.index(request.fields[SECURE]) > STAGES.index(last):
                raise FederationError("connection lost")
            answer = self.sites[name].answer(request)
            self.seen.append((name, request, answer))
            return answer.to_bytes()

        return handle

    def run(self, threshold=THRESHOLD, number=1):
        requests = {
            name: Message(
                kind="train", round=number, fields={"group": 0}, tensors={"x": torch.ones(2)}
            )
            for name in NAMES
        }
        transport = LoopbackTransport(sites={name: self.handler(name) for name in NAMES})
        return aggregate_securely(
            transport, requests, WEIGHTS, LIKE, limit=LIMIT, threshold=threshold, seconds=60
        )


def exact_sum(sites, change=lambda name, update: update):
    found = {key: torch.zeros(value.shape, dtype=torch.float64) for key, value in LIKE.items()}
    for name in sites:
        for key, value in change(name, update_of(name)).items():
            found[key] += WEIGHTS[name] * value.double()
    return found


def largest_difference(one, other):
    return max(float((one[key] - other[key]).abs().max()) for key in other)


DROPOUTS = [
    {},
    {"linz": KEYS},
    {"graz": SHARES},
    {"wien": UPDATE},
    {"linz": KEYS, "wien": SHARES},
    {"linz": SHARES, "graz": SHARES},
    {"linz": UPDATE, "graz": UPDATE},
    {"ohio": SHARES, "graz": UPDATE},
]


@pytest.mark.parametrize("lost", DROPOUTS, ids=str)
def test_sum_of_those_that_sent_an_update_is_within_the_bound(lost):
    """A site that is lost after its masked update still counts."""
    federation = Federation(lost=dict(lost))

    found = federation.run()

    counted = [name for name in NAMES if lost.get(name) in (None, UPDATE)]
    assert list(found.sites) == counted
    assert set(found.failed) == set(NAMES) - set(counted)
    assert all("connection lost" in reason for reason in found.failed.values())
    bound = quantisation_bound(LIMIT, len(NAMES), len(counted))
    assert bound < 1e-8
    assert found.total is not None
    assert largest_difference(found.total, exact_sum(counted)) <= bound
    assert found.total["w"].shape == (30, 4)
    assert found.clipped == 0


@pytest.mark.parametrize("stage", [KEYS, SHARES, UPDATE])
def test_below_the_threshold_there_is_no_sum_and_the_reason(stage):
    lost = {"linz": stage, "wien": stage, "ohio": stage}

    found = Federation(lost=lost).run()

    assert found.total is None
    assert found.sites == ()
    assert set(found.failed) == set(NAMES)
    after = STAGES[STAGES.index(stage) + 1]
    assert all(f"2 sites sent {after}, and 3 are needed" in why for why in found.failed.values())
    assert "connection lost" in found.failed["linz"]


def test_masked_updates_look_uniform_and_messages_contain_no_update():
    federation = Federation()
    federation.run()

    masked = {
        name: answer.tensors[MASKED] for name, request, answer in federation.seen if answer.tensors
    }
    assert set(masked) == set(NAMES)
    whole = torch.cat(list(masked.values())).double() / 2**31
    # uniform in -1 .. 1: mean 0 and variance 1/3, within five standard errors of 640 numbers
    assert abs(float(whole.mean())) < 5 * (1 / 3 / len(whole)) ** 0.5
    assert abs(float(whole.square().mean()) - 1 / 3) < 5 * (4 / 45 / len(whole)) ** 0.5
    assert all(
        not answer.tensors or list(answer.tensors) == [MASKED] for _, _, answer in federation.seen
    )
    # the site trains with what the server sent
    assert federation.asked["graz"].fields == {"group": 0}
    assert torch.equal(federation.asked["graz"].tensors["x"], torch.ones(2))


def test_clipped_numbers_are_counted_over_all_sites():
    def change(name, update):
        if name == "graz":  # weight 1: two numbers beyond the limit
            update["b"][0], update["b"][1] = 0.75, -3.0
        return update

    def clipped(name, update):
        return {key: value.clamp(-0.5, 0.5) for key, value in change(name, update).items()}

    found = Federation(change=change).run()

    assert found.clipped == 2
    assert found.total is not None
    bound = quantisation_bound(LIMIT, 5, 5)
    assert largest_difference(found.total, exact_sum(NAMES, clipped)) <= bound


def test_an_update_that_is_not_finite_leaves_its_site_out():
    def change(name, update):
        return {**update, "b": update["b"] * float("nan")} if name == "ohio" else update

    found = Federation(change=change).run()

    assert found.failed.keys() == {"ohio"}
    assert "not finite" in found.failed["ohio"]
    assert found.total is not None
    others = [name for name in NAMES if name != "ohio"]
    assert largest_difference(found.total, exact_sum(others)) <= quantisation_bound(LIMIT, 5, 4)


def test_every_round_has_new_masks():
    federation = Federation()
    federation.run(number=1)
    federation.run(number=2)

    masked = [
        answer.tensors[MASKED]
        for name, _, answer in federation.seen
        if name == "graz" and answer.tensors
    ]

    assert len(masked) == 2
    assert not torch.equal(*masked)


def test_a_site_answers_the_same_request_alike_and_no_second_one():
    """Both seeds of a site would reveal its update: no site gives both away, in any order."""
    federation = Federation()
    federation.run()
    name, request, answer = next(one for one in federation.seen if one[1].fields[SECURE] == REVEAL)
    site = federation.sites[name]

    assert site.answer(request).to_bytes() == answer.to_bytes()
    fewer = {**request.fields, "sites": request.fields["sites"][:3]}
    with pytest.raises(FederationError, match="a second, different request"):
        site.answer(Message(kind="train", round=1, fields=fewer))
    for _, _, reply in federation.seen:
        if reply.fields[SECURE] == REVEAL:
            assert not reply.fields["own"].keys() & reply.fields["pair"].keys()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"session": "x"},
        {"session": 1, "sites": ["graz"]},
        {"session": "x", "keys": {"graz": ["00", "00"]}, "threshold": 2},
    ],
)
@pytest.mark.parametrize("stage", STAGES)
def test_requests_that_do_not_follow_the_protocol_are_refused(stage, fields):
    site = SecureSite("graz", lambda request: update_of("graz"))
    if stage == KEYS and "session" in fields:
        assert (
            len(site.answer(Message(kind="train", fields={**fields, SECURE: stage})).fields["keys"])
            == 2
        )
        return

    with pytest.raises(FederationError, match="rejects a request of the server"):
        site.answer(Message(kind="train", fields={**fields, SECURE: stage}))


@pytest.mark.parametrize("threshold", [1, 2, 6])
def test_thresholds_that_protect_nothing_are_rejected(threshold):
    with pytest.raises(JobError, match="threshold of secure aggregation"):
        Federation().run(threshold=threshold)


def test_shares_are_encrypted_for_the_site_that_gets_them():
    federation = Federation()
    federation.run()
    texts = [
        text
        for _, _, answer in federation.seen
        if answer.fields[SECURE] == SHARES
        for text in answer.fields["shares"].values()
    ]

    assert len(texts) == 25
    for text in texts:
        with pytest.raises(ValueError, match="Expecting value"):
            json.loads(text)
