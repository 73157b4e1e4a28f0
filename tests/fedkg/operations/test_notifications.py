"""Notifications: what they say, once each, and targets that fail or are slow."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from fedkg.errors import UsageError
from fedkg.jobs import Event
from fedkg.operations import notifications
from fedkg.operations.run_event_listeners import Observation, observe

OF = {"trial": "scfa", "rounds": 9}


def round_event(number: int, **more: Any) -> Event:
    return Event(kind="round", round=number, **OF, **more)


def told_by(target: str, *events: Event) -> list[str]:
    """What the user sees while events are sent to a target."""
    told: list[str] = []
    with observe(Observation(notify=(target,)), lambda e: told.append(e.message)) as listen:
        for event in events:
            listen(event)
    return [text for text in told if text.startswith("a notification failed")]


@contextmanager
def webhook(status: int = 204, **headers: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server on loopback, and the objects that it received."""
    received: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/json"
            received.append({"path": self.path, **json.loads(body)})
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook?key=1", received
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.slow
def test_a_command_gets_each_change_of_a_run_once(recorded: Any) -> None:
    sent = recorded.notifications
    assert all(one["run"] == str(recorded.folder) for one in sent)
    assert [one["reason"] for one in sent].count("finished") == 1
    assert sent[-1]["reason"] == "finished"
    rows = recorded.rows("rounds.csv")
    expected = []
    for trial in ("fedavg-s0", "scfa-s0"):
        zone = "safe"
        for row in rows:
            if row["trial"] == trial and row["zone"] != zone:
                expected.append((trial, int(row["round"]), zone, row["zone"]))
                zone = row["zone"]
    changes = [one for one in sent if one["reason"] == "zone"]
    assert [(one["trial"], one["round"], one["before"], one["zone"]) for one in changes] == expected
    hard = [one for one in sent if one["reason"] == "hard_rules_violated"]
    assert [(one["trial"], one["rules"]) for one in hard] == [
        ("fedavg-s0", ["strain"]),
        ("scfa-s0", ["strain"]),
    ]


def test_changes_are_notified_once() -> None:
    hard = {
        "strain": {"violated": 2, "evaluated": 9, "hard": 1},
        "soft": {"violated": 2, "evaluated": 9, "hard": 0},
        "kept": {"violated": 0, "evaluated": 9, "hard": 1},
    }
    lost = Event(kind="site", site="linz", message="no number", round=2, **OF)
    with webhook() as (address, received):
        assert not told_by(
            address,
            round_event(1, values={"zone": "safe"}),
            lost,
            round_event(2, values={"zone": "danger"}, rules=hard),
            lost,
            round_event(3, values={"zone": "danger"}, rules=hard),
            round_event(4, values={}),
            round_event(5, values={"zone": "safe"}),
            round_event(6, values={"zone": "danger"}),
            Event(kind="failed", message="the disk is full"),
            Event(kind="finished"),
        )
    assert [(one["reason"], one["round"]) for one in received] == [
        ("zone", 2),
        ("sites_lost", 2),
        ("hard_rules_violated", 2),
        ("zone", 5),
        ("failed", None),
        ("finished", None),
    ]
    assert {one["path"] for one in received} == {"/hook?key=1"}
    assert received[1]["sites"] == ["linz"]
    assert received[2]["rules"] == ["strain"]
    assert received[4]["message"] == "the disk is full"


def test_many_lost_sites_are_one_notification() -> None:
    lost = [Event(kind="site", site=f"s{n}", round=1, **OF) for n in range(500)]
    with webhook() as (address, received):
        told_by(address, *lost, round_event(1))
    [one] = received
    assert len(one["sites"]) == notifications.MOST_NAMES
    assert one["message"].endswith("s19 and 480 more")


def test_an_error_before_the_run_is_notified_too() -> None:
    with (
        webhook() as (address, received),
        pytest.raises(ValueError, match="no such column"),
        observe(Observation(notify=(address,)), lambda _: None),
    ):
        raise ValueError("no such column")
    assert [(one["reason"], one["message"]) for one in received] == [("failed", "no such column")]


def test_a_target_that_fails_is_reported_once_and_tried_once_per_notification() -> None:
    zones = [
        round_event(n, values={"zone": z}) for n, z in enumerate(("danger", "safe", "warning"))
    ]
    with webhook(503) as (address, received):
        [failure] = told_by(address, *zones)
    assert failure.endswith("answered with status 503")
    assert len(received) == 3


def test_redirections_are_not_followed() -> None:
    with webhook() as (other, never), webhook(302, Location=other) as (address, received):
        [failure] = told_by(address, round_event(1, values={"zone": "danger"}))
    assert failure.endswith("answered with status 302")
    assert (len(received), len(never)) == (1, 0)


def test_a_slow_command_never_blocks_a_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command ends only after a file appears, which is made when all rounds are over."""
    monkeypatch.setattr(notifications, "SEND_SECONDS", 20.0)
    wait = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(.1)"
    (tmp_path / "wait.py").write_text(wait)
    target = f"{sys.executable} {tmp_path / 'wait.py'} {tmp_path / 'go'}"
    told: list[str] = []
    with observe(Observation(notify=(target,)), lambda e: told.append(e.message)) as listen:
        for number, zone in enumerate(("danger", "safe") * 20):
            listen(round_event(number, values={"zone": zone}))
        (tmp_path / "go").touch()
    assert not any(told)


def test_a_server_that_sends_byte_after_byte_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "SEND_SECONDS", 1.0)
    ended = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1 << 16)
            while not ended.wait(0.1):
                try:
                    connection.sendall(b"H")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,))
        thread.start()
        target = f"http://127.0.0.1:{server.getsockname()[1]}"
        [failure] = told_by(target, round_event(1, values={"zone": "danger"}))
        ended.set()
        thread.join()
    assert failure.startswith("a notification failed, the training continues: ")


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("no-such-command --now", "there is no such command"),
        ("'unclosed", "No closing quotation"),
        ("https://", "the address has no host"),
        ("", "the command is empty"),
        ("http://host:abc/", "the address is not valid"),
        ("http://[::1/", "the address is not valid"),
        ("http://a..b/", "the address is not valid"),
    ],
)
def test_a_wrong_target_is_rejected_before_the_run(target: str, why: str) -> None:
    with (
        pytest.raises(UsageError, match=why),
        observe(Observation(notify=(target,)), lambda _: None),
    ):
        pass


def test_a_command_that_fails_is_reported(tmp_path: Path) -> None:
    (tmp_path / "fail.py").write_text("raise SystemExit(3)")
    target = f"{sys.executable} {tmp_path / 'fail.py'}"
    [failure] = told_by(target, round_event(1, values={"zone": "danger"}))
    assert failure.endswith("exited with 3")
