"""Real SuperLinks and SuperNodes with TLS and authentication, on free ports of this machine.

Each test ends all processes that it started, and says so if one is left.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread

import numpy as np
import pytest
import test_causes_over_sites as causes
import test_job_over_sites as jobs
import torch
import yaml
from federation_folders import SITES, create_folders
from safetensors.torch import load_file
from stand_in import site_handler
from test_job_over_sites import JOB, RULES, check_equal, compiled, write_tables

from fedkg.deploy.child_process import ChildProcess, supervise
from fedkg.deploy.federation_folders import (
    CA,
    INVITATION,
    KEYS,
    SOCKET,
    admit_site,
    create_federation,
    join_federation,
    load_federation,
)
from fedkg.deploy.flower.superlink import SuperLink
from fedkg.deploy.flower.supernode import RETRY_S, create_node, explain_end, find_free_port
from fedkg.deploy.flower.transport import FlowerTransport
from fedkg.deploy.message import Message
from fedkg.deploy.server import run_server
from fedkg.deploy.site_process import ask, serve
from fedkg.deploy.transport import LoopbackTransport, SiteHandler
from fedkg.errors import FederationError
from fedkg.jobs import run_job

pytestmark = pytest.mark.slow

STAND_IN = Path(__file__).with_name("stand_in.py")

LONGEST_S = 300.0
"""Most seconds that any wait of these tests takes, on a busy computer."""


class Processes:
    """Commands that run in the background."""

    def __init__(self) -> None:
        self.all: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *arguments: str | Path, log: Path, **environment: str) -> None:
        with log.open("ab") as file:
            self.all[name] = subprocess.Popen(
                [sys.executable, STAND_IN, *map(str, arguments)],
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                start_new_session=True,
            )

    def stop(self, name: str) -> int:
        process = self.all.pop(name)
        process.terminate()
        return process.wait(LONGEST_S)


@pytest.fixture
def processes() -> Iterator[Processes]:
    found = Processes()
    yield found
    for name in list(found.all):
        found.stop(name)


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + LONGEST_S
    while not condition():
        assert time.monotonic() < end, "nothing happened in time"
        time.sleep(0.2)


def running(folder: Path) -> list[str]:
    """The processes of this computer that name a folder in their arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if str(folder) in text:
                found.append(f"{entry.name} {text}")
    return found


def find_pid(folder: Path, word: str) -> int:
    """The process with a word and the folder in its arguments."""
    return next(int(text.split()[0]) for text in running(folder) if word in text)


def request(number: int) -> Message:
    """A request with tensors, more than Flower carries in one part at the first round."""
    size = 1_500_000 if number == 1 else 10 * number
    return Message(kind="train", round=number, tensors={"w": torch.arange(float(size))})


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes by /proc")
def test_answers_are_those_of_loopback_and_lost_parts_come_back(tmp_path, processes):
    server = create_folders(tmp_path)
    federation = load_federation(server)
    for name in SITES:
        processes.start(name, "site", "run", tmp_path / name, log=tmp_path / f"{name}.out")
    loopback = LoopbackTransport(sites={name: site_handler(name) for name in SITES})

    with SuperLink(server, federation) as link:
        transport = FlowerTransport(
            grid=link.connect(LONGEST_S), sites=federation.node_keys(), reconnect=link.connect
        )
        wait_until(lambda: transport.present() == SITES)

        def compare(number: int) -> None:
            requests = dict.fromkeys(SITES, request(number))
            found = {r.site: r for r in transport.exchange(requests, seconds=LONGEST_S)}
            for reply in loopback.exchange(requests, seconds=LONGEST_S):
                assert found[reply.site].error == ""
                assert found[reply.site].message.to_bytes() == reply.message.to_bytes()
                assert found[reply.site].bytes_up == reply.bytes_up
            assert sorted(found) == list(SITES)

        compare(1)
        compare(2)

        # errors of a site are answers, in its words
        (reply,) = transport.exchange({"linz": Message(kind="fail")}, seconds=LONGEST_S)
        assert (reply.message, reply.error) == (None, "site linz has no data")

        # a killed SuperNode is an error soon; it is started again, under the name of its site
        before = find_pid(tmp_path / "graz", " supernode ")
        os.kill(before, signal.SIGKILL)
        (reply,) = transport.exchange({"graz": request(3)}, seconds=LONGEST_S)
        assert "site graz gave no answer" in reply.error
        wait_until(lambda: transport.present() == SITES)
        compare(3)
        assert find_pid(tmp_path / "graz", " supernode ") != before

        # so is a killed SuperLink, and the round is repeated
        os.kill(link.child.pid, signal.SIGKILL)
        compare(4)

        # a pause is an answer too
        (tmp_path / "wien" / "paused").touch()
        (reply,) = transport.exchange({"wien": request(5)}, seconds=LONGEST_S)
        assert "paused by its operator" in reply.error

    assert [processes.stop(name) for name in SITES] == [130, 130, 130]
    assert running(tmp_path) == []


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes by /proc")
def test_commands_run_a_federation_and_a_site_leaves(tmp_path, processes):
    server = create_folders(tmp_path)
    for name in SITES:
        processes.start(name, "site", "run", tmp_path / name, log=tmp_path / f"{name}.out")
    log = tmp_path / "server.out"
    processes.start("server", "server", "run", server, log=log, ROUNDS="1000")
    answers = server / "answers.jsonl"
    wait_until(lambda: answers.exists() and answers.read_text().count("\n") > 1)

    left = subprocess.run(
        [sys.executable, STAND_IN, "site", "leave", str(tmp_path / "graz")],
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=True,
    )

    assert "remain part of the model" in left.stdout
    assert "does not know that the site left" not in left.stderr
    assert not (tmp_path / "graz" / "state").exists()
    assert processes.all.pop("graz").wait(LONGEST_S) == 0
    wait_until(lambda: "graz has left" in log.read_text())
    assert load_federation(server).sites["graz"] == ""

    shown = subprocess.run(
        [sys.executable, STAND_IN, "server", "status", str(server), "--json"],
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=True,
    )
    status = json.loads(shown.stdout)["server"]
    assert (status["state"], status["sites"]["graz"]["left"]) == ("running", True)
    assert status["sites"]["linz"]["answers"] >= 1

    assert processes.stop("server") == 130
    # a killed parent takes its children with it
    processes.all["linz"].kill()
    processes.all.pop("linz").wait()
    assert processes.stop("wien") == 130
    wait_until(lambda: running(tmp_path) == [])


def test_job_over_flower_has_the_run_folder_of_a_run_that_reads_all_tables(
    tmp_path, processes, monkeypatch
):
    write_tables(tmp_path / "data")
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(dict(JOB)))
    (tmp_path / "rules.fkgpack").write_bytes(compiled(RULES))
    server, address = tmp_path / "plants", f"127.0.0.1:{find_free_port()}"
    create_federation(tmp_path / "job.yaml", server, address=address, sites=SITES)
    for name in SITES:
        invitation, site = server / "invitations" / f"{name}.zip", tmp_path / name
        join_federation(invitation, tmp_path / "data" / "sites.yaml", site, share_rows=True)
        admit_site(server, name, site / KEYS / f"{name}.pub")
        processes.start(
            name, "site", "run", site, log=tmp_path / f"{name}.out", FEDKG_KERNELS="off", REAL="1"
        )

    log = tmp_path / "server.out"
    processes.start("server", "server", "run", server, log=log, FEDKG_KERNELS="off", REAL="1")
    assert processes.all.pop("server").wait(LONGEST_S) == 0, log.read_text()

    monkeypatch.setenv("FEDKG_KERNELS", "off")
    data = {**JOB["data"], "sites_file": str(tmp_path / "data" / "sites.yaml")}
    (tmp_path / "local.yaml").write_text(yaml.safe_dump({**JOB, "data": data}))
    check_equal(server / "run", run_job(tmp_path / "local.yaml", out=tmp_path / "local").folder)


@contextmanager
def three_nodes(folder: Path) -> Iterator[Callable[[Mapping[str, SiteHandler]], FlowerTransport]]:
    """A SuperLink and three SuperNodes; calls give them the sites of a job, one after the other.

    The sites answer in threads of this process, so that they change while the SuperNodes stay.
    """
    federation = load_federation(create_folders(folder))
    keys = federation.node_keys().values()
    handlers: dict[str, SiteHandler] = {}
    ends, one_at_a_time = Event(), Lock()

    def serve_node(node: str) -> None:
        def answer(request: bytes) -> bytes:
            with one_at_a_time:  # PyTorch's number of threads is that of the process
                return handlers[node](request)

        serve(answer, folder / node / SOCKET, until=ends.is_set)

    threads = [Thread(target=serve_node, args=(node,), daemon=True) for node in SITES]
    for thread in threads:
        thread.start()
    with ExitStack() as stack:
        link = stack.enter_context(SuperLink(folder / "plants", federation))
        grid = link.connect(LONGEST_S)
        assert grid is not None
        for node in SITES:
            stack.enter_context(supervise(create_node(folder / node), print))

        def connect(sites: Mapping[str, SiteHandler]) -> FlowerTransport:
            handlers.update(zip(SITES, sites.values(), strict=True))
            transport = FlowerTransport(
                grid=grid, sites=dict(zip(sites, keys, strict=True)), reconnect=link.connect
            )
            wait_until(lambda: len(transport.present()) == len(sites))
            return transport

        yield connect
    ends.set()
    for node, thread in zip(SITES, threads, strict=True):
        with suppress(FederationError):
            ask(folder / node / SOCKET, b"", seconds=LONGEST_S)
        thread.join(LONGEST_S)


def test_every_kind_of_training_over_flower_equals_fedkg_run(tmp_path, monkeypatch):
    """The same SuperNodes carry tables with and without knowledge, forecasts, causes and masks."""
    monkeypatch.setenv("FEDKG_KERNELS", "off")
    two_rounds = {"training": {"rounds": 2}, "evaluation": {"every": 2}}

    with three_nodes(tmp_path) as connect:

        def run_over_sites(folder: Path, transport: LoopbackTransport) -> Path:
            return run_server(folder, connect(transport.sites), report=False).folder

        base = tmp_path / "tables"
        sections = jobs.write_rows(base / "whole", "grade")
        agents = {"preset": "pcfedavg", "agents": {"penalty": 2.0, "given": {"radius": 1.5}}}
        job = jobs.job_of_table(
            algorithms={"agents": agents},
            model={"hidden": [5]},
            compare={"algorithm": ["fedavg", "scfa", "agents"], "model.inject": [False, True]},
            **two_rounds,
        )
        pack = compiled(jobs.GRADES)
        sites = jobs.write_federation(base, job, pack, sections)
        apart = run_over_sites(base / "federation", sites)
        check_equal(apart, jobs.run_together(base, job, pack))

        base = tmp_path / "forecasts"
        sections = jobs.write_series(base / "whole")
        job = {
            name: {**value, **two_rounds.get(name, {})} if name in two_rounds else value
            for name, value in jobs.FEDSTL.items()
        }
        pack = compiled(jobs.LEVEL)
        sites = jobs.write_federation(base, job, pack, sections)
        apart = run_over_sites(base / "federation", sites)
        check_equal(apart, jobs.run_together(base, job, pack))

        base = tmp_path / "causes"
        learning = {"mode": "batch", "epochs": 2}
        sites = causes.write_federation(base, learning=learning)
        apart = run_over_sites(base / "server", sites)
        together = causes.run_together(tmp_path / "causes-together", learning=learning)
        causes.check_equal(apart, together)

        base = tmp_path / "masked"
        base.mkdir()
        write_tables(base / "whole")
        plain = jobs.changed(data=jobs.own_table(base), **two_rounds)
        masked = {**plain, "training": {**plain["training"], "secure_aggregation": True}}
        sites = jobs.write_federation(base, masked, compiled(RULES), share_rows=False)
        apart = run_over_sites(base / "federation", sites)
        together = jobs.run_together(base, plain, compiled(RULES))
        [found, expected] = [
            {
                name: value
                for path in (folder / "checkpoints").glob("*.safetensors")
                for name, value in load_file(path).items()
                if name.startswith("models/")
            }
            for folder in (apart, together)
        ]
        assert found.keys() == expected.keys() != set()
        for name, value in expected.items():
            assert np.allclose(found[name], value, atol=1e-5)


def test_nodes_without_a_registered_key_and_servers_without_the_certificate(tmp_path):
    server = create_folders(tmp_path, admitted=("graz", "linz"))
    other = tmp_path / "other"
    other.mkdir()
    foreign = create_folders(other)
    (tmp_path / "linz" / INVITATION / CA).write_bytes((foreign / KEYS / CA).read_bytes())

    with SuperLink(server, load_federation(server)) as link:
        assert link.connect(LONGEST_S) is not None
        stranger, doubter = create_node(tmp_path / "wien"), create_node(tmp_path / "linz")
        assert "does not know the key of this site" in explain_end(
            read_end(stranger), tmp_path / "wien"
        )
        assert "not signed by the authority" in explain_end(read_end(doubter), tmp_path / "linz")

        with (
            pytest.raises(FederationError, match=r"cannot use the port"),
            SuperLink(server, load_federation(server)) as second,
        ):
            second.connect(LONGEST_S)


def read_end(node: ChildProcess) -> str:
    """The log of a node that ends by itself."""
    node.start()
    try:
        wait_until(lambda: node.pid is None)
        return node.read_log()
    finally:
        node.stop()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes by /proc")
def test_sites_come_back_after_a_long_absence_of_the_server(tmp_path, processes):
    """A SuperNode gives up after `RETRY_S`; it must end then, so that it is started again."""
    server = create_folders(tmp_path)
    federation = load_federation(server)
    for name in SITES:
        processes.start(name, "site", "run", tmp_path / name, log=tmp_path / f"{name}.out")

    def is_answered() -> bool:
        with SuperLink(server, federation) as link:
            transport = FlowerTransport(grid=link.connect(LONGEST_S), sites=federation.node_keys())
            wait_until(lambda: transport.present() == SITES)
            requests = dict.fromkeys(SITES, request(2))
            return all(one.message for one in transport.exchange(requests, seconds=LONGEST_S))

    assert is_answered()
    time.sleep(RETRY_S + 20)
    assert is_answered()
    assert [processes.stop(name) for name in SITES] == [130, 130, 130]
    assert running(tmp_path) == []
