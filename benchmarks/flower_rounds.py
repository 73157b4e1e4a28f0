"""Seconds per round over Flower: three sites behind SuperNodes on this computer, with a tiny model.

    python benchmarks/flower_rounds.py [--rounds 8] [--size 7000]

A round trains at all sites and evaluates the new model at all sites. Ours: `FlowerTransport` with
the processes of `fedkg server run` and `fedkg site run`, TLS and authentication. The peer: Flower's
own FedAvg strategy with its SuperLink and SuperNodes as documented, without TLS. Both sides move
the same float32 array and compute nothing; the first round, which starts processes, does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from reporting.rows import Row, compare, without_peer

from fedkg.deploy.flower.app_and_environment import flower_environment

SITES = ("graz", "linz", "wien")

TARGET = 5.0
"""The stock strategy needs about 20 s for a round; ours should need 4 s."""

LONGEST_S = 300.0
"""Most seconds that one start or one round may take."""

RULES = """
output failure in probability span 0 .. 1 column "F"
rule r require failure <= 0.99
"""

SERVER = """
import time
import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


class Timed(FedAvg):
    def configure_train(self, *a, **k):
        print("BEGIN", time.time(), flush=True)
        return super().configure_train(*a, **k)


@app.main()
def main(grid, context):
    arrays = ArrayRecord([np.zeros(int(context.run_config["size"]), np.float32)])
    Timed(min_available_nodes=3).start(
        grid=grid, initial_arrays=arrays, num_rounds=int(context.run_config["rounds"])
    )
    print("BEGIN", time.time(), flush=True)
"""

CLIENT = """
from flwr.app import Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(msg, context):
    metrics = MetricRecord({"num-examples": 1})
    return Message(RecordDict({"arrays": msg.content["arrays"], "metrics": metrics}), reply_to=msg)


@app.evaluate()
def evaluate(msg, context):
    return Message(RecordDict({"metrics": MetricRecord({"num-examples": 1})}), reply_to=msg)
"""

PROJECT = """
[project]
name = "stock"
version = "1.0.0"
dependencies = []
[tool.flwr.app]
publisher = "fedkg"
[tool.flwr.app.components]
serverapp = "server:app"
clientapp = "client:app"
[tool.flwr.app.config]
rounds = 1
size = 1
"""


def measure_ours(folder: Path, rounds: int, size: int) -> list[float]:
    """Seconds of each round but the first."""
    import torch

    from fedkg.deploy.child_process import supervise
    from fedkg.deploy.federation_folders import (
        KEYS,
        SOCKET,
        admit_site,
        create_federation,
        join_federation,
    )
    from fedkg.deploy.flower.superlink import SuperLink
    from fedkg.deploy.flower.supernode import create_node, find_free_port
    from fedkg.deploy.flower.transport import FlowerTransport
    from fedkg.deploy.message import Message
    from fedkg.deploy.site_process import ask, serve

    (folder / "rules.fkg").write_text(RULES)
    (folder / "sites.yaml").write_text(json.dumps({"sites": {n: {"url": "t.csv"} for n in SITES}}))
    (folder / "job.yaml").write_text("rules: [rules.fkg]\n")
    server, ended = folder / "server", threading.Event()
    address = f"127.0.0.1:{find_free_port()}"
    create_federation(folder / "job.yaml", server, address=address, sites=SITES)
    for name in SITES:
        invitation, site = server / "invitations" / f"{name}.zip", folder / name
        join_federation(invitation, folder / "sites.yaml", site)
        federation = admit_site(server, name, site / KEYS / f"{name}.pub")
        threading.Thread(
            target=serve, args=(lambda data: data, site / SOCKET), kwargs={"until": ended.is_set}
        ).start()
    found = []
    with ExitStack() as stack:
        link = stack.enter_context(SuperLink(server, federation))
        grid = link.connect(LONGEST_S)
        for name in SITES:
            stack.enter_context(supervise(create_node(folder / name), lambda log: None))
        transport = FlowerTransport(grid=grid, sites=federation.node_keys())
        wait_until(lambda: len(transport.present()) == len(SITES))
        for number in range(rounds + 1):
            begun = time.monotonic()
            for kind in ("train", "evaluate"):
                request = Message(kind=kind, round=number, tensors={"w": torch.zeros(size)})
                requests = dict.fromkeys(transport.present(), request)
                replies = list(transport.exchange(requests, seconds=LONGEST_S))
                assert sorted(reply.site for reply in replies) == sorted(SITES)
            found.append(time.monotonic() - begun)
    ended.set()
    for name in SITES:
        ask(folder / name / SOCKET, b"", seconds=5)
    return found[1:]


def measure_stock(folder: Path, rounds: int, size: int) -> list[float]:
    """Seconds of each round but the first of Flower's FedAvg."""
    from fedkg.deploy.flower.supernode import find_free_port

    app = folder / "app"
    app.mkdir()
    for name, text in (("server.py", SERVER), ("client.py", CLIENT), ("pyproject.toml", PROJECT)):
        (app / name).write_text(text)
    port = find_free_port()
    home = Path(flower_environment(folder)["FLWR_HOME"])
    home.mkdir(parents=True)
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\n'
        "insecure = true\n"
    )
    with ExitStack() as stack:
        link = ["flower-superlink", "--insecure", "--port", port]
        stack.enter_context(program(folder, *link, "--disable-runtime-dependency-installation"))
        stack.enter_context(waiting_for(port))
        for _ in SITES:
            stack.enter_context(
                program(
                    folder,
                    *("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}"),
                    *("--port", find_free_port()),
                )
            )
        config = f"rounds={rounds + 1} size={size}"
        done = subprocess.run(
            [find_program("flwr"), "run", str(app), "here", "--stream", "--run-config", config],
            env={**os.environ, **flower_environment(folder)},
            capture_output=True,
            text=True,
            timeout=LONGEST_S + rounds * 60,
            check=False,
        )
    times = [float(text) for text in re.findall(r"BEGIN ([\d.]+)", done.stdout)]
    if len(times) != rounds + 2:
        raise RuntimeError(done.stdout[-500:] + done.stderr[-500:])
    return [after - before for before, after in pairwise(times)][1:]


def find_program(name: str) -> str:
    """A program of this Python environment."""
    return str(Path(sys.executable).with_name(name))


@contextmanager
def program(folder: Path, name: str, *arguments: object) -> Iterator[None]:
    """A program of Flower that runs during the block, with all that it starts."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.Popen(
        [find_program(name), *map(str, arguments)],
        env={**os.environ, **flower_environment(folder), "PATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 15)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        process.wait()


@contextmanager
def waiting_for(port: int) -> Iterator[None]:
    """Wait until a program answers on a port."""
    import socket

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(answers)
    yield


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, for a limited time."""
    end = time.monotonic() + LONGEST_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.2)


def measure(rounds: int, size: int) -> Row:
    """Both sides, one after the other."""
    claim = f"a round of three sites over Flower, {size:,} float32, s"
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        ours = measure_ours(Path(name), rounds, size)
    print("  ours ", " ".join(f"{seconds:.2f}" for seconds in ours))
    try:
        with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as name:
            stock = measure_stock(Path(name), rounds, size)
    except (RuntimeError, subprocess.TimeoutExpired, TimeoutError) as error:
        return without_peer(claim, f"failed: {error}", "Flower's FedAvg", ours=ours, target=TARGET)
    print("  stock", " ".join(f"{seconds:.2f}" for seconds in stock))
    return compare(claim, ours, stock, "Flower's FedAvg", target=TARGET)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--size", type=int, default=7000)
    options = parser.parse_args()
    print(f"{platform.platform()}, Python {platform.python_version()}")
    print(f"load {os.getloadavg()[0]:.1f}")
    print(json.dumps([measure(options.rounds, options.size)]))


if __name__ == "__main__":
    main()
