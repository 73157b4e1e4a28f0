"""A small federation as processes that tests kill: sites, a relay before each of them, a server.

A restart takes milliseconds (`warm_processes`). A relay plays what carries messages (a SuperNode,
for example).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from warm_processes import CONTEXT

from fedkg.deploy.message import Message
from fedkg.deploy.quorum_and_deadline_transport import RoundContract, apply_contract
from fedkg.deploy.site_process import ask, is_served, serve
from fedkg.deploy.site_training import SiteTraining
from fedkg.deploy.transport import SocketTransport
from fedkg.errors import TooFewClients
from fedkg.federated import Clients, Problem, ServerState, Settings, SquaredError, train
from fedkg.federated.algorithm import Algorithm
from fedkg.federated.algorithms import fedavg, scaffold
from fedkg.federated.executors.protocol import Work
from fedkg.federated.problem import pool
from fedkg.jobs.checkpoint import load_state, save_state
from fedkg.jobs.folder import RunFolder
from fedkg.models import MLP

NAMES = ("graz", "linz", "wien")
SAMPLES = (5, 9, 14)
TRIAL = "t"
ALGORITHMS: dict[str, Callable[[], Algorithm]] = {"scaffold": scaffold, "fedavg": fedavg}


def make_problem() -> Problem:
    """Three sites of unequal size with different slopes."""
    draw = torch.Generator().manual_seed(7)
    x = tuple(torch.randn(count, 3, generator=draw) for count in SAMPLES)
    y = tuple((one[:, 0] * (place + 1)).clone() for place, one in enumerate(x))
    clients = Clients(names=NAMES, x=x, y=y)
    return Problem(model=MLP(inputs=3, hidden=(4,)), loss=SquaredError(), clients=clients)


def make_settings(rounds: int) -> Settings:
    return Settings(
        rounds=rounds, local_steps=2, batch=4, learning_rate=0.05, executor="sequential"
    )


def run_site(place: int, folder: Path, algorithm: str, rounds: int, seconds: float) -> None:
    """Serve one site; each training takes `seconds` more than it needs."""
    torch.set_num_threads(1)
    full = make_problem()
    problem = replace(full, clients=full.clients.only(NAMES[place]))
    work = Work(
        problem=problem,
        algorithm=ALGORITHMS[algorithm](),
        settings=make_settings(rounds),
        pool=pool(problem.clients),
    )
    training = SiteTraining(work, folder=folder / NAMES[place] / "state")

    def handle(request: bytes) -> bytes:
        time.sleep(seconds)
        return training.train(Message.from_bytes(request, sender="server")).to_bytes()

    serve(handle, folder / NAMES[place] / "site.sock")


def run_relay(place: int, folder: Path) -> None:
    """Carry the messages of one site."""
    site = folder / NAMES[place]
    serve(lambda request: ask(site / "site.sock", request, seconds=60), site / "relay.sock")


def run_server(folder: Path, algorithm: str, rounds: int, contract: RoundContract) -> None:
    """Train from the last complete round of the run folder on; exit code 5 without sites."""
    torch.set_num_threads(1)
    full = make_problem()
    problem = replace(full, clients=full.clients.only(None))
    sites, built, settings = apply_contract(
        contract,
        SocketTransport(sites={name: folder / name / "relay.sock" for name in NAMES}),
        NAMES,
        ALGORITHMS[algorithm](),
        make_settings(rounds),
    )
    run = RunFolder(folder / "run")
    run.create()
    with run.locked():
        run.recover()
        first = load_state(run, TRIAL)
        done = 0 if first is None else first.round
        kept = [row for row in run.rows("rounds.csv") if int(row["round"]) <= done]
        run.rewrite("rounds.csv", kept)
        try:
            for state, record in train(problem, built, settings, first, sites=sites):
                row = {"trial": TRIAL, "round": record.round, "notes": json.dumps(record.excluded)}
                run.append("rounds.csv", [row])
                save_state(run, TRIAL, state)
        except TooFewClients as error:
            raise SystemExit(error.exit_code) from error


class Federation:
    """The processes of a federation; every one can be killed and started again."""

    def __init__(self, folder: Path, algorithm: str, rounds: int, **contract: Any) -> None:
        self.folder, self.algorithm, self.rounds = folder, algorithm, rounds
        self.contract, self.pause = RoundContract(**contract), 0.02
        self.processes: dict[str, BaseProcess] = {}
        for name in NAMES:
            (folder / name).mkdir()

    def start(self, *parts: str) -> None:
        """Start parts: ``site 0``, ``relay 0``, ``server``."""
        for part in parts:
            kind, _, number = part.partition(" ")
            if kind == "server":
                self.wait_for_sockets()
            common = (self.folder, self.algorithm, self.rounds)
            process = {
                "site": lambda n=number, c=common: CONTEXT.Process(
                    target=run_site, args=(int(n), *c, self.pause), daemon=True
                ),
                "relay": lambda n=number: CONTEXT.Process(
                    target=run_relay, args=(int(n), self.folder), daemon=True
                ),
                "server": lambda c=common: CONTEXT.Process(
                    target=run_server, args=(*c, self.contract), daemon=True
                ),
            }[kind]()
            process.start()
            self.processes[part] = process

    def wait_for_sockets(self) -> None:
        """Return when all sites and relays that live can be asked: a slow start is no absence."""
        end = time.monotonic() + 60
        for part, process in self.processes.items():
            kind, _, number = part.partition(" ")
            while kind in ("site", "relay") and process.is_alive():
                if is_served(self.folder / NAMES[int(number)] / f"{kind}.sock"):
                    break
                assert time.monotonic() < end, f"{part} does not start"
                time.sleep(0.01)

    def start_all(self) -> None:
        self.start(*(f"{kind} {place}" for kind in ("site", "relay") for place in range(3)))
        self.start("server")

    def kill(self, *parts: str) -> None:
        """End parts as ``kill -9`` does."""
        for part in parts:
            self.processes[part].kill()
            self.processes[part].join()

    def stop(self) -> None:
        self.kill(*self.processes)

    def is_training(self) -> bool:
        return self.processes["server"].is_alive()

    def finish(self, seconds: float) -> int | None:
        """The exit code of the server."""
        self.processes["server"].join(seconds)
        return self.processes["server"].exitcode

    def state(self) -> ServerState:
        found = load_state(RunFolder(self.folder / "run"), TRIAL)
        assert found is not None
        return found

    def rounds_done(self) -> int:
        """Rounds in the table, while the server may write there."""
        path = self.folder / "run" / "rounds.csv"
        return max(0, path.read_bytes().count(b"\n") - 1) if path.exists() else 0

    def rows(self) -> list[tuple[int, dict[str, str]]]:
        """Each round with the sites that are missing in it, and why."""
        rows = RunFolder(self.folder / "run").rows("rounds.csv")
        return [(int(row["round"]), json.loads(row["notes"])) for row in rows]
