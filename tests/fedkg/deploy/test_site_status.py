"""What the operator of a site reads: connection, rounds, what was sent, and what to do next."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import threading
import time
from email.utils import formatdate
from pathlib import Path
from unittest.mock import Mock

import pytest
from command import call
from federation_folders import create_folders

from fedkg.deploy.federation_folders import INVITATION, KEYS, SOCKET, load_federation, split_address
from fedkg.deploy.flower.supernode import explain_end
from fedkg.deploy.message import Message
from fedkg.deploy.proposed_rule_confirmation import confirm_rules
from fedkg.deploy.site_doctor import examine_site
from fedkg.deploy.site_lifecycle import leave_federation, run_site
from fedkg.deploy.site_process import listen
from fedkg.deploy.site_status import ActivityLog, read_report
from fedkg.errors import FederationError, TableError


@pytest.fixture
def site(tmp_path):
    create_folders(tmp_path)
    return tmp_path / "graz"


def request(kind: str, number: int = 0, **fields: object) -> bytes:
    return Message(kind=kind, round=number, fields=fields).to_bytes()


def test_each_request_is_told_once_and_adds_to_the_status(site, capsys):
    notes: list[str] = []
    log = ActivityLog(site, notes.append)
    answer = log.watch(lambda data: b"x" * 100)

    def fail(data: bytes) -> bytes:
        raise TableError("column `torque` is missing")

    with listen(site / SOCKET):
        log.disconnect("nothing answers at fed:1")
        log.disconnect("nothing answers at fed:1")
        log.connect("fed:1")
        log.connect("fed:1")
        answer(request("describe", step="summary"))
        answer(request("train", 1))
        answer(request("train", 2))
        answer(request("note", 2, excluded="its update\x1b[31m is not finite"))
        for _ in range(2):
            with pytest.raises(TableError):
                log.watch(fail)(request("train", 3))
        report = read_report(site)
        shown = call(capsys, "site", "status", site)

    assert [note.partition(":")[0] for note in notes] == [
        "not connected",
        "connected to the server at fed",
        "round 1",
        "round 2",
        "round 2",
        "the request of the server for round 3 was not answered",
    ]
    assert (report.state, report.next) == ("connected", "")
    assert report.activity.sent == {"summary of the table": 1, "model update": 2}
    assert (report.activity.round, report.activity.bytes_up) == (2, 400)
    assert report.activity.excluded == "round 2: its update\\u001b[31m is not finite"
    assert "column `torque` is missing" in report.activity.error
    assert shown.out.startswith("graz: connected for ")
    assert "last round 2; last request " in shown.out
    assert "not used: round 2: its update\\u001b[31m is not finite\nlast error: " in shown.out


def test_next_step_follows_from_the_state(site, capsys):
    assert read_report(site).next == f"fedkg site run {site}"
    with listen(site / SOCKET):
        log = ActivityLog(site, lambda note: None)
        log.disconnect("the server does not know the key")
        assert read_report(site).next == f"fedkg site doctor {site}"
        call(capsys, "site", "pause", site)
        assert read_report(site).next == f"fedkg site resume {site}"
    call(capsys, "site", "resume", site)
    assert read_report(site).state == "stopped"
    left = call(capsys, "site", "leave", site, "--wait", "0", "--delete")
    assert read_report(site).state == "left"
    assert "dismiss FEDERATION graz --delete" in left.out
    assert sorted(path.name for path in site.iterdir()) == ["left", "site.json"]


def test_a_departure_that_cannot_delete_a_file_says_so_and_can_be_completed(site, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", Mock(side_effect=OSError("read-only file system")))
        with pytest.raises(FederationError, match="state could not be deleted"):
            leave_federation(site, seconds=0)
    assert leave_federation(site, seconds=0)[1:] == (False, ("state", "invitation", "keys"))
    assert sorted(path.name for path in site.iterdir()) == ["left", "site.json"]


def test_a_process_that_is_stopped_has_not_told_the_server_of_the_departure(site):
    listening = threading.Event()

    def stop_without_an_answer():
        with listen(site / SOCKET):
            listening.set()
            time.sleep(0.5)

    process = threading.Thread(target=stop_without_an_answer)
    process.start()
    listening.wait()
    assert leave_federation(site, seconds=10)[1] is False
    process.join()


def test_a_relative_path_counts_with_its_folder(tmp_path, monkeypatch):
    """Flower gets the whole path of the socket."""
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    create_folders(folder)
    monkeypatch.chdir(folder)
    with pytest.raises(FederationError, match=r"the path of the socket /.* is too long"):
        run_site(Path("graz"), print)


@pytest.mark.parametrize(
    ("ahead", "said"),
    [(-290, "the server answers at"), (60, r"6[01] s ahead of"), (-400, r"(399|400) s behind")],
)
def test_the_doctor_compares_the_clocks(site, ahead, said):
    keys, context = site.parent / "plants" / KEYS, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / "server.pem", keys / "server.key")
    address = split_address(load_federation(site / INVITATION).address)

    def answer():
        connection, _ = listener.accept()
        with context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(4096)
            date = formatdate(time.time() - ahead, usegmt=True)
            secured.sendall(f"HTTP/1.1 200 OK\r\nDate: {date}\r\n\r\n".encode())

    with socket.create_server(address) as listener:
        server = threading.Thread(target=answer)
        server.start()
        [found] = [one for one in examine_site(site) if one.what == "connection"]
        server.join()
    assert re.search(said, found.text)
    assert found.ok is (ahead == -290)


def test_a_refused_time_names_the_clock(site):
    log = "Client error '401 Unauthorized' for url 'https://127.0.0.1:9/v1/fleet/activate-node'"
    assert f"`fedkg site doctor {site}` shows the difference" in explain_end(log, site)


def test_rules_are_shown_before_they_are_confirmed_and_the_newest_come_last(site):
    (site / "rules").mkdir()
    for age, pack in ((9, "b"), (0, "a")):  # both came within a second
        path = site / "rules" / f"{pack}.json"
        document = {"pack": pack, "received": "2026-01-01T12:00:00+00:00", "difference": []}
        path.write_text(json.dumps(document))
        os.utime(path, (time.time() - age,) * 2)

    with pytest.raises(OSError, match="closed"):
        confirm_rules(site, Mock(side_effect=OSError("the terminal is closed")))
    assert [one.pack for one in read_report(site).rules] == ["b", "a"]
    assert confirm_rules(site).pack == "a"


def test_one_process_owns_the_socket_of_a_site(site):
    with (
        listen(site / SOCKET),
        pytest.raises(FederationError, match="another `fedkg site run` already serves"),
        listen(site / SOCKET),
    ):
        pass
    with listen(site / SOCKET):  # the lock ends with its owner
        pass
