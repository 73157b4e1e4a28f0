"""Site processes on this machine are asked at the same time, and late replies are not lost."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from fedkg.deploy.message import Message
from fedkg.deploy.quorum_and_deadline_transport import RoundContract
from fedkg.deploy.server import AskedSites
from fedkg.deploy.site_process import ask, is_served, serve
from fedkg.deploy.transport import Reply, SocketTransport
from fedkg.errors import FederationError


@pytest.fixture
def sites(tmp_path):
    """Sites a and b that echo; b waits for `release` in round 1 and fails in round 3."""
    release, ended, threads = threading.Event(), [], []

    def handle(request: bytes) -> bytes:
        message = Message.from_bytes(request, sender="server")
        if message.kind == "end":
            ended.append(True)
        if message.kind == "slow":
            release.wait(30)
        if message.kind == "fail":
            raise FederationError("no samples")
        return request

    sockets = {name: tmp_path / name for name in ("b", "a")}
    for socket in sockets.values():
        threads.append(
            threading.Thread(target=serve, args=(handle, socket), kwargs={"until": lambda: ended})
        )
        threads[-1].start()
    while not all(map(is_served, sockets.values())):
        pass
    transport = SocketTransport(sites=sockets)
    yield transport, release
    release.set()
    list(transport.exchange({site: Message(kind="end") for site in sockets}, seconds=30))
    for socket in sockets.values():
        with suppress(FederationError):  # the second process looks at `ended` after each request
            ask(socket, b"", seconds=1)
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_replies_arrive_as_they_come_and_late_ones_in_later_exchanges(sites):
    transport, release = sites
    first = {"b": Message(kind="slow", round=1), "a": Message(kind="x", round=1)}

    early = list(transport.exchange(first, seconds=0.5))
    nothing = list(transport.exchange({}, seconds=0.01))
    release.set()
    late = list(transport.exchange({}, seconds=30))
    second = list(transport.exchange({"b": Message(kind="x", round=2)}, seconds=30))

    assert transport.present() == ("a", "b")
    assert [(reply.site, reply.message.round) for reply in early] == [("a", 1)]
    assert nothing == []
    assert [(reply.site, reply.message.round) for reply in late] == [("b", 1)]
    assert [(reply.site, reply.message.round) for reply in second] == [("b", 2)]


def test_errors_and_missing_processes_are_replies(sites, tmp_path):
    transport, _ = sites
    transport = SocketTransport(sites={**transport.sites, "gone": tmp_path / "gone"})
    requests = {"a": Message(kind="fail"), "gone": Message(kind="x"), "unknown": Message(kind="x")}

    found = {reply.site: reply for reply in transport.exchange(requests, seconds=30)}

    assert transport.present() == ("a", "b")
    assert found.keys() == {"a", "gone"}
    assert found["a"].error == "no samples"
    assert "no site process answers" in found["gone"].error
    assert found["a"].bytes_down == len(Message(kind="fail").to_bytes())


def test_the_site_that_failed_is_named_before_those_without_a_reply():
    class OnlyLinzFails:
        def present(self):
            return ("graz", "linz")

        def exchange(self, requests, *, seconds):
            if "linz" in requests:
                yield Reply(site="linz", message=None, error="its table lacks a column")

    contract = RoundContract(quorum="all", start_seconds=60, retries=0, grace=0)
    asked = AskedSites(
        transport=OnlyLinzFails(), names=("graz", "linz"), contract=contract, on_note=print
    )
    with pytest.raises(FederationError, match="site linz: its table lacks a column"):
        asked.ask_all(dict.fromkeys(asked.names, Message(kind="describe")))
