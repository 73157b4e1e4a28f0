"""`fedkg serve`: the live page, its stream, its limits, and the review of suggestions."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from command import call

from fedkg.jobs import run_job
from fedkg.jobs.suggestion_reviews import read_reviews
from fedkg.learned_knowledge_records import LearnedKnowledge, MinedNumber, MinedProperty
from fedkg.operations import live_server
from fedkg.operations.live_server import LiveServer, serve_folder

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def folder(recorded: Any, tmp_path: Path) -> Path:
    return shutil.copytree(recorded.folder, tmp_path / "run")


@pytest.fixture
def server(folder: Path) -> Iterator[LiveServer]:
    with serve_folder(folder, "127.0.0.1", 0) as found:
        yield found


def fetch(
    server: LiveServer, path: str, form: dict[str, str] | None = None, **headers: str
) -> tuple[int, str, dict[str, str]]:
    """Status, body and headers of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    try:
        body = None if form is None else urlencode(form)
        method = "GET" if form is None else "POST"
        connection.request(method, path, body, {**(FORM if form is not None else {}), **headers})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.headers)
    finally:
        connection.close()


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


@pytest.mark.slow
def test_the_page_shows_the_facts_of_the_watch(
    recorded: Any, server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    status, page, headers = fetch(server, "/")
    assert status == 200
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    shown = text_of(page)
    watched = call(capsys, "watch", server.watcher.folder, "--once").out
    last = [event for event in recorded.events if event.kind == "round"][-1]
    for rule, counts in last.rules.items():
        rate = counts["violated"] / counts["evaluated"]
        row = f"{rule} {counts['violated']:,} {counts['evaluated']:,} {rate:.1%}"
        assert row in shown
        assert row in re.sub(r" +", " ", watched)
    for row in recorded.rows("clients.csv")[-3:]:
        assert f"{row['client']} {row['samples']} round 3," in shown
    assert "scfa-s0 3/3" in shown
    assert "1 of 1 run done" in shown


def test_the_stream_follows_a_training_and_its_remaining_time(
    recorded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_server, "INTERVAL", 0.02)
    fields = {**recorded.fields, "compare": {}, "algorithm": "fedavg"}
    fields["training"] = {**fields["training"], "rounds": 20}
    fields["evaluation"] = {**fields["evaluation"], "every": 1}
    with serve_folder(tmp_path / "later", "127.0.0.1", 0) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
        connection.request("GET", "/events")
        answer = connection.getresponse()
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        training = threading.Thread(
            target=run_job, args=(fields,), kwargs={"out": tmp_path / "later", "report": False}
        )
        views: list[str] = []
        current: list[str] = []
        while not (views and "1 of 1 run done" in views[-1]):
            line = answer.readline().decode()
            assert line, "the stream ended before the run"
            if line == "\n" and current:
                views.append(text_of(" ".join(current)))
                current = []
                if not training.is_alive() and len(views) == 1:
                    training.start()
            elif line.startswith("data: "):
                current.append(line.removeprefix("data: "))
        connection.close()
        training.join()
    assert "There is no run in" in views[0]
    rounds = [int(found[1]) for one in views if (found := re.search(r"fedavg-s0 (\d+)/20", one))]
    assert rounds == sorted(rounds)
    assert len({*rounds}) > 2, "the page changed while the training ran"
    assert any(re.search(r"in progress, about \d+ s left", one) for one in views)
    assert "left" not in views[-1].split("Rounds")[0]


def test_texts_of_a_folder_are_escaped(folder: Path) -> None:
    name = '<img src=x onerror="alert(1)">'
    with (folder / "clients.csv").open("a") as file:
        file.write(f'scfa-s0,4,"{name.replace(chr(34), chr(34) * 2)}",9,,0.0,0.1,\n')
    with serve_folder(folder, "127.0.0.1", 0) as server:
        page = fetch(server, "/")[1]
    assert "<img" not in page
    assert "&lt;img src=x" in page
    assert "clients.csv is damaged" in text_of(page), "the problem is shown, too"


def test_other_hosts_paths_and_forms_are_rejected(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fetch(server, "/", Host="evil.example")[0] == 403
    assert fetch(server, "/../../etc/passwd")[0] == 404
    assert fetch(server, "/suggestions", {"name": "a", "decision": "accept"})[0] == 403
    good = {"token": server.token, "name": "a", "decision": "accept"}
    assert fetch(server, "/suggestions", good, Origin="http://evil.example")[0] == 403
    assert fetch(server, "/suggestions", {"token": "x" * (live_server.MOST_FORM + 1)})[0] == 413
    assert "The run suggests no rules" in fetch(server, "/suggestions")[1]
    assert fetch(server, "/suggestions", good)[0] == 400


def test_connections_are_limited(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_server, "MOST_CONNECTIONS", 3)
    monkeypatch.setattr(live_server, "MOST_STREAMS", 1)
    with serve_folder(folder, "127.0.0.1", 0) as server:
        stream = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
        stream.request("GET", "/events")
        assert stream.getresponse().status == 200
        assert fetch(server, "/events")[0] == 503
        silent = [
            http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
            for _ in range(2)
        ]
        for one in silent:
            one.connect()
        statuses = set()
        while 503 not in statuses:  # until the server has accepted the two silent connections
            statuses.add(fetch(server, "/style.css")[0])
        for one in (stream, *silent):
            one.close()


def test_an_address_for_the_network_shows_no_forms(folder: Path) -> None:
    with serve_folder(folder, "0.0.0.0", 0) as server:
        assert "/suggestions" not in fetch(server, "/")[1]
        assert fetch(server, "/suggestions")[0] == 404
        assert fetch(server, "/suggestions", {"token": server.token})[0] == 404


def _suggesting(folder: Path, name: str) -> LearnedKnowledge:
    return LearnedKnowledge(
        run="a" * 64,
        title="small",
        software="fedkg",
        began="2024-01-01T00:00:00",
        properties=(
            MinedProperty(
                inference=name,
                template="range",
                text="operational_range(volume, ?low)",
                client="north <b>",
                numbers=(MinedNumber(name="low", value=2.5, direction="down"),),
                traces=9,
            ),
        ),
    )


def test_suggestions_are_reviewed_on_the_page(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "fedkg.jobs.learned_knowledge_reader.read_learned",
        lambda folder: _suggesting(folder, "night"),
    )
    page = fetch(server, "/suggestions")[1]
    assert "north &lt;b&gt;" in page
    form = {
        "token": server.token,
        "name": "night_everywhere",
        "decision": "accept",
        "reviewer": "Ana <script>",
        "statement": "rule night_everywhere require volume >= 2",
    }
    status, page, _ = fetch(server, "/suggestions", form)
    assert (status, "the reason of the decision is missing" in page) == (400, True)
    assert 'value="Ana &lt;script&gt;"' in page
    status, _, headers = fetch(server, "/suggestions", form | {"reason": "round number"})
    assert (status, headers["Location"]) == (303, "/suggestions")
    [made] = read_reviews(server.watcher.folder)
    assert (made.decision, made.reviewer, made.reason) == ("edited", "Ana <script>", "round number")
    assert "edited by Ana &lt;script&gt; on 20" in fetch(server, "/suggestions")[1]
    file = fetch(server, "/accepted.fkg")[1]
    assert "rule night_everywhere\n  # evidence: night: found in the series of north <b>" in file
    assert call(capsys, "verify", server.watcher.folder).code == 0
    bad = form | {"reason": "no", "statement": "rule a require"}
    status, page, _ = fetch(server, "/suggestions", bad)
    assert (status, "cannot replace it" in page) == (400, True)
    assert len(read_reviews(server.watcher.folder)) == 1


def test_ctrl_c_ends_the_command_and_frees_the_port(folder: Path) -> None:
    command = [sys.executable, "-m", "fedkg", "serve", str(folder), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.search(r"http://\S+", said)
        assert found, said
        address = urlsplit(found[0])
        stream = http.client.HTTPConnection(address.hostname or "", address.port, timeout=20)
        stream.request("GET", "/events")
        assert stream.getresponse().status == 200
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        stream.close()
    assert (process.returncode, err) == (0, "")


def test_a_port_in_use_is_a_usage_error(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    done = call(capsys, "serve", server.watcher.folder, "--port", str(server.server_port))
    assert (done.code, "cannot listen on 127.0.0.1 port" in done.err) == (2, True)
    done = call(capsys, "serve", server.watcher.folder, "--address", "a..b")
    assert (done.code, "cannot listen on a..b port" in done.err) == (2, True)


def test_the_event_log_keeps_the_most_violated_rules(recorded: Any) -> None:
    text = (recorded.folder / "events.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    logged = [line for line in lines if line["kind"] == "round"]
    told = [event for event in recorded.events if event.kind == "round"]
    for line, event in zip(logged, told, strict=True):
        expected = {
            name: {which: int(counts[which]) for which in ("violated", "evaluated")}
            for name, counts in event.rules.items()
        }
        assert line["rules"] == expected
        rates = [one["violated"] / one["evaluated"] for one in line["rules"].values()]
        assert rates == sorted(rates, reverse=True)
        assert line["omitted_rules"] == 0
