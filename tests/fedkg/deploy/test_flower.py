"""Flower as a transport: what is sent, what a lost part means, and that no wait is unbounded."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Timer
from unittest.mock import Mock

import httpx
import pytest
import torch
from flwr.app import Context, RecordDict
from flwr.app import Message as Parcel
from flwr.app.error import Error
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.task_identity import TaskIdentity
from stand_in import site_handler

from fedkg.deploy.federation_folders import CA, Federation
from fedkg.deploy.flower import client_app, internals, superlink
from fedkg.deploy.flower.app_and_environment import flower_environment
from fedkg.deploy.flower.records import (
    LARGE,
    read_site,
    unwrap_bytes,
    unwrap_error,
    wrap_bytes,
    wrap_error,
)
from fedkg.deploy.flower.transport import FlowerTransport
from fedkg.deploy.message import Message
from fedkg.errors import FederationError

KEYS = {"graz": b"key of graz", "linz": b"key of linz", "wien": b"key of wien"}


@dataclass
class FakeGrid:
    """Nodes in this process: a reply is there at the second question for it.

    `silent` nodes never reply; after `calls_left` calls the SuperLink is gone.
    """

    silent: frozenset[str] = frozenset()
    errors: dict[str, str] = field(default_factory=dict)
    calls_left: int = 10**9
    nodes: dict[int, str] = field(default_factory=lambda: dict(enumerate(KEYS, 1)))
    sent: list[str] = field(default_factory=list)
    waiting: dict[str, list[Parcel]] = field(default_factory=dict)

    def _call(self) -> None:
        self.calls_left -= 1
        if self.calls_left < 0:
            raise httpx.ConnectError("refused")

    def get_nodes(self) -> list[NodeInfo]:
        self._call()
        strangers = [NodeInfo(node_id=99, public_key=b"key of a stranger")]
        return strangers + [
            NodeInfo(node_id=node, public_key=KEYS[name]) for node, name in self.nodes.items()
        ]

    def push_messages(self, parcels: Iterable[Parcel]) -> list[str]:
        self._call()
        names = []
        for parcel in parcels:
            site = self.nodes[parcel.metadata.dst_node_id]
            parcel.metadata.__dict__["_message_id"] = f"{site} {len(self.sent)}"
            names.append(parcel.metadata.message_id)
            self.sent.append(site)
            if site not in self.silent:
                context = Context(
                    run_id=1, node_id=parcel.metadata.dst_node_id, node_config={"site": site},
                    state=RecordDict(), run_config={},
                )  # fmt: skip
                answer = (
                    Parcel(Error(code=1, reason=self.errors[site]), reply_to=parcel)
                    if site in self.errors
                    else client_app.app(parcel, context)
                )
                self.waiting[names[-1]] = [answer]
        return names

    def pull_messages(self, names: Iterable[str]) -> list[Parcel]:
        self._call()
        return [parcel for name in names for parcel in self.waiting.pop(name, [])]


@pytest.fixture(autouse=True)
def sites(monkeypatch):
    """Sites answer in this process, and this process is a task of a run."""
    monkeypatch.setattr(
        client_app, "_find_site", lambda request, context: site_handler(context.node_config["site"])
    )
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1


def request(number: int = 1) -> Message:
    return Message(kind="train", round=number, tensors={"w": torch.arange(4.0)})


@pytest.mark.parametrize("size", [0, 10, LARGE])
def test_bytes_of_every_size_survive(size):
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)

    assert unwrap_bytes(wrap_bytes(data)) == unwrap_bytes(wrap_bytes(data, site="graz")) == data
    assert read_site(wrap_bytes(data, site="graz")) == "graz"
    assert unwrap_error(wrap_bytes(data)) == ""
    assert unwrap_error(wrap_error("no data")) == "no data"


def test_replies_come_from_admitted_sites_only():
    transport = FlowerTransport(grid=FakeGrid(), sites=KEYS)

    replies = list(transport.exchange(dict.fromkeys(KEYS, request()), seconds=30))

    assert transport.present() == ("graz", "linz", "wien")
    assert [reply.site for reply in replies] == ["graz", "linz", "wien"]
    for reply in replies:
        assert reply.message.to_bytes() == site_handler(reply.site)(request().to_bytes())
        assert reply.bytes_down == len(request().to_bytes())


def test_errors_of_a_node_and_of_a_site_are_replies():
    grid = FakeGrid(errors={"linz": "Node Unavailable"})
    transport = FlowerTransport(grid=grid, sites=KEYS)
    requests = {"linz": request(), "wien": Message(kind="fail")}

    found = {reply.site: reply.error for reply in transport.exchange(requests, seconds=30)}

    assert found == {
        "linz": "site linz gave no answer: Node Unavailable",
        "wien": "site wien has no data",
    }


def test_silent_sites_are_missing_after_the_deadline_and_late_replies_follow():
    grid = FakeGrid(silent=frozenset({"wien"}))
    transport = FlowerTransport(grid=grid, sites=KEYS)

    first = list(transport.exchange(dict.fromkeys(KEYS, request(1)), seconds=0.3))
    late = Parcel(wrap_bytes(request(1).to_bytes()), dst_node_id=3, message_type="train")
    late.metadata.__dict__["_reply_to_message_id"] = "wien 2"
    grid.waiting["wien 2"] = [late]
    second = list(transport.exchange({"graz": request(2)}, seconds=30))

    assert [reply.site for reply in first] == ["graz", "linz"]
    assert sorted((reply.site, reply.message.round) for reply in second) == [
        ("graz", 2),
        ("wien", 1),
    ]


def test_lost_superlink_is_started_again_and_requests_are_sent_again():
    lost, fresh = FakeGrid(calls_left=3), FakeGrid()
    asked: list[float] = []

    def reconnect(seconds: float) -> FakeGrid | None:
        asked.append(seconds)
        return fresh if len(asked) > 1 else None

    lost.silent = frozenset(KEYS)
    transport = FlowerTransport(grid=lost, sites=KEYS, reconnect=reconnect)

    replies = list(transport.exchange(dict.fromkeys(KEYS, request()), seconds=30))

    assert lost.sent == fresh.sent == list(KEYS)
    assert [reply.error for reply in replies] == ["", "", ""]
    assert all(0 < seconds <= 30 for seconds in asked)


def test_superlink_waits_for_the_end_of_that_of_a_killed_server(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as orphan:
        address = f"127.0.0.1:{orphan.getsockname()[1]}"
        (tmp_path / "keys").mkdir()
        (tmp_path / "keys" / CA).touch()
        link = superlink.SuperLink(tmp_path, Federation(name="f", address=address, sites={}))
        started = Mock()
        monkeypatch.setattr(link.child, "start", started)
        Timer(0.5, orphan.close).start()
        link._start()
    started.assert_called_once()


def test_lost_superlink_without_a_way_back_is_an_error():
    transport = FlowerTransport(grid=FakeGrid(calls_left=0), sites=KEYS)

    assert transport.present() == ()
    with pytest.raises(FederationError, match="does not answer any more"):
        list(transport.exchange({"graz": request()}, seconds=30))


def test_absent_sites_do_not_hold_an_exchange_beyond_its_deadline():
    transport = FlowerTransport(grid=FakeGrid(nodes={}), sites=KEYS)
    begun = time.monotonic()

    assert list(transport.exchange({"graz": request()}, seconds=0.2)) == []
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
def test_any_number_of_nodes_simulates_all_sites(monkeypatch, nodes):
    monkeypatch.setattr(
        client_app, "_find_site", lambda request, context: site_handler(read_site(request.content))
    )
    grid = FakeGrid(nodes={place: f"node {place}" for place in range(nodes)})
    monkeypatch.setattr(
        grid, "get_nodes", lambda: [NodeInfo(node_id=place) for place in range(nodes)]
    )
    transport = FlowerTransport(grid=grid, sites=dict.fromkeys(KEYS, b""), simulated=True)

    replies = list(transport.exchange(dict.fromkeys(KEYS, request()), seconds=30))

    assert transport.present() == ("graz", "linz", "wien")
    assert sorted(reply.site for reply in replies) == ["graz", "linz", "wien"]
    for reply in replies:
        assert reply.message.to_bytes() == site_handler(reply.site)(request().to_bytes())


def test_a_request_without_a_site_is_answered_with_an_error(tmp_path, monkeypatch):
    """A stock SuperNode without the socket of a site opens nothing but sites of a simulation."""
    monkeypatch.undo()
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    context = Context(
        run_id=1, node_id=1, node_config={}, state=RecordDict(),
        run_config={"federation": str(tmp_path)},
    )  # fmt: skip

    def ask(site: str) -> str:
        content = wrap_bytes(request().to_bytes(), site=site)
        parcel = Parcel(content, dst_node_id=1, message_type="train")
        parcel.metadata.__dict__["_message_id"] = "1"
        return unwrap_error(client_app.app(parcel, context).content)

    assert ask("") == "the server sent a record of another form"
    assert "not usable for a file" in ask("../graz")
    assert "is not a site of a simulation" in ask("graz")


def test_administration_of_the_superlink_is_for_this_machine():
    assert internals.is_allowed("/v1/fleet/pull-messages", "10.1.2.3")
    assert internals.is_allowed("/v1/control/start-run", "127.0.0.1")
    assert not internals.is_allowed("/v1/control/start-run", "10.1.2.3")
    assert not internals.is_allowed("/v1/runtime/acquire-task", "10.1.2.3")


@pytest.mark.slow
def test_what_fedkg_uses_beyond_flowers_interface_exists():
    """If this fails, Flower has changed: see the list in `fedkg.deploy.flower.internals`."""
    from flwr.supercore import heartbeat
    from flwr.supercore.control import ControlHttpClient
    from flwr.superlink import extensions, main
    from flwr.superlink.grid.http_grid import HttpGrid
    from flwr.supernode import fleet_http_connection, start_client_internal
    from flwr.supernode.runtime import run_clientapp

    assert hasattr(start_client_internal, "time")
    assert main.extensions is extensions
    assert callable(extensions.get_middleware)
    assert {"StartRun", "RegisterNode"} <= set(dir(ControlHttpClient))
    assert {"_runtime_client", "set_run"} <= set(dir(HttpGrid))
    for module in (fleet_http_connection, heartbeat):
        assert hasattr(module, "HEARTBEAT_DEFAULT_INTERVAL")
    for name in ("pull_task_input", "push_message", "push_task_output"):
        assert callable(getattr(run_clientapp, name))


def test_flower_stays_silent_and_in_its_folder(tmp_path):
    found = flower_environment(tmp_path)

    assert (found["FLWR_TELEMETRY_ENABLED"], found["FLWR_DISABLE_UPDATE_CHECK"]) == ("0", "1")
    assert found["FLWR_HOME"].startswith(str(tmp_path))
    assert "127.0.0.1" in found["NO_PROXY"]
