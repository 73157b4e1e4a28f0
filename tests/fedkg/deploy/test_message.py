"""Messages survive the way through bytes; anything else is rejected with the sender's name."""

import math

import pytest
import torch
from safetensors.torch import save

from fedkg.deploy.message import Message
from fedkg.deploy.transport import LoopbackTransport
from fedkg.errors import FederationError, JobError
from fedkg.exclusion_reasons import explain_exclusion


def test_message_keeps_fields_tensors_and_their_order():
    sent = Message(
        kind="train",
        round=3,
        fields={"groups": [0], "site": "Werk Süd"},
        tensors={"w": torch.arange(6.0).reshape(2, 3).T, "a": torch.tensor([True, False])},
    )

    got = Message.from_bytes(sent.to_bytes(), sender="site a")

    assert (got.kind, got.round, got.fields) == ("train", 3, {"groups": [0], "site": "Werk Süd"})
    assert list(got.tensors) == ["w", "a"]
    assert all(torch.equal(got.tensors[name], value) for name, value in sent.tensors.items())
    assert got.to_bytes() == sent.to_bytes()


def test_numbers_that_json_cannot_express_are_not_sent():
    with pytest.raises(ValueError, match="Out of range"):
        Message(kind="train", fields={"loss": math.nan}).to_bytes()


@pytest.mark.parametrize("data", [b"", b"\x00" * 8, b"\xff" * 40, b"hello, this is not a message"])
def test_bytes_of_another_kind_name_the_sender(data):
    with pytest.raises(FederationError, match="site a sent something that is not a message"):
        Message.from_bytes(data, sender="site a")


def test_loopback_reports_a_failed_site_and_goes_on():
    def fails(request: bytes) -> bytes:
        raise JobError("no samples")

    transport = LoopbackTransport(sites={"b": lambda request: request, "a": fails})

    replies = list(transport.exchange({"a": Message(kind="x"), "b": Message(kind="x")}, seconds=60))

    assert transport.present() == ("a", "b")
    assert [(reply.site, reply.error) for reply in replies] == [("a", "no samples"), ("b", "")]
    assert replies[1].bytes_down == replies[1].bytes_up == len(Message(kind="x").to_bytes())


@pytest.mark.parametrize("number", ["Infinity", "NaN", "-1", "1.5", "9" * 5000, "[" * 100_000])
def test_impossible_rounds_name_the_sender(number):
    header = f'{{"version": 1, "kind": "train", "round": {number}, "fields": {{}}, "names": []}}'
    data = save({}, {"message": header})
    with pytest.raises(FederationError, match="site a sent something that is not a message"):
        Message.from_bytes(data, sender="site a")


def test_a_message_of_another_version_explains_the_exclusion():
    header = '{"version": 2, "kind": "train", "round": 1, "fields": {}, "names": []}'
    with pytest.raises(FederationError, match="site a sent a message of another version") as caught:
        Message.from_bytes(save({}, {"message": header}), sender="site a")
    assert "install the server's version of fedkg" in explain_exclusion(str(caught.value)).help
