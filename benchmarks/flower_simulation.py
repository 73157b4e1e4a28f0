"""Many sites in Flower's simulation: time of a round, memory, and the bytes of `fedkg run`.

    python benchmarks/flower_simulation.py [--sites 1000] [--rounds 2] [--quick] [--limit 2400]

Each site has a table of 40 to 99 rows; all train in each round. Ours: `flwr run` of the app that
`fedkg federation init --simulation` writes; every figure and the model are compared with `fedkg
run`. The peer: Flower's FedAvg in the same simulation with the same number of nodes, which move an
array of 7000 float32 and compute nothing. Both have a SuperLink on this computer, and one Ray actor
for each processor. The first round does not count. Memory is the largest sum over all processes
that the SuperLink and Flower's command started (proportional set size), and over the process of
`fedkg run`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median

from flower_rounds import CLIENT, PROJECT, SERVER, find_program, program, waiting_for
from reporting.plant_federation import KERNELS, require_equal, run_here, write_job
from reporting.rows import Row, compare, without_peer

from fedkg.deploy.flower.app_and_environment import flower_environment

GIB = 1 << 30


class Memory:
    """The largest memory of all processes that this one has started, while the block runs."""

    def __init__(self) -> None:
        self.most = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._end.wait(1.0):
            self.most = max(self.most, sum(map(read_memory, list_processes())))

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


def list_processes() -> list[int]:
    """The processes that this process has started, directly or not."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(text[1])
    found = [os.getpid()]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found[1:]


def read_memory(process: int) -> int:
    """The proportional set size of a process in bytes; 0 if it is gone."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    return 1024 * int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1])


@contextmanager
def open_superlink(folder: Path) -> Iterator[dict[str, str]]:
    """A SuperLink for simulations; the environment in which `flwr run APP local-simulation` uses
    it.
    """
    from fedkg.deploy.flower.supernode import find_free_port

    port, environment = find_free_port(), {**os.environ, **flower_environment(folder), **KERNELS}
    home = Path(environment["FLWR_HOME"])
    home.mkdir(parents=True)
    (home / "config.toml").write_text(
        f'[superlink.local-simulation]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    link = ("flower-superlink", "--simulation", "--insecure", "--port", port)
    with program(folder, *link), waiting_for(port):
        yield environment


def simulate(
    folder: Path, app: Path, nodes: int, limit: float, config: str = ""
) -> tuple[str, int]:
    """Run an app with virtual nodes, for at most `limit` seconds.

    Returns:
        Its output, and the largest memory in bytes.
    """
    with Memory() as memory, open_superlink(folder) as environment:
        done = subprocess.run(
            [
                *(find_program("flwr"), "run", str(app), "local-simulation", "--stream"),
                *("--federation-config", f"num-supernodes={nodes} client-resources-num-cpus=1"),
                *(("--run-config", config) if config else ()),
            ],
            env={**environment, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    return done.stdout + done.stderr, memory.most


def measure_ours(
    sites: int, rounds: int, limit: float
) -> tuple[list[float], int, list[float], int, int]:
    """Seconds of rounds and memory of the simulation, the same of `fedkg run`, and the number of
    equal figures.
    """
    from fedkg.deploy.flower.simulation_folder import create_simulation
    from fedkg.jobs.folder import RunFolder

    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        job = write_job(folder, [f"site{place:05}" for place in range(sites)], rounds + 1)
        with Memory() as memory:
            run_here(job, folder / "here")
        begun = time.monotonic()
        create_simulation(job, folder / "simulated")
        print(f"  folders of {sites} sites: {time.monotonic() - begun:.1f} s", flush=True)
        text, most = simulate(folder, folder / "simulated" / "app", sites, limit)
        run = folder / "simulated" / "run"
        if not (run / "results.json").exists():
            raise RuntimeError(text[-3000:])
        compared = require_equal(run, folder / "here")
        times = [
            [float(row["seconds"]) for row in RunFolder(place).rows("rounds.csv")][1:]
            for place in (run, folder / "here")
        ]
    return times[0], most, times[1], memory.most, compared


def measure_stock(sites: int, rounds: int, limit: float) -> tuple[list[float], int]:
    """Seconds of rounds and memory of Flower's own strategy."""
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        app = folder / "app"
        app.mkdir()
        for file, text in (
            ("server.py", SERVER),
            ("client.py", CLIENT),
            ("pyproject.toml", PROJECT),
        ):
            (app / file).write_text(text)
        text, most = simulate(folder, app, sites, limit, f"rounds={rounds + 1} size=7000")
    times = [float(found) for found in re.findall(r"BEGIN ([\d.]+)", text)]
    if len(times) != rounds + 2:
        raise RuntimeError(text[-3000:])
    return [after - before for before, after in pairwise(times)][1:], most


def measure(sites: int, rounds: int, limit: float) -> list[Row]:
    """Both sides, one after the other."""
    ours, memory, here, memory_here, compared = measure_ours(sites, rounds, limit)
    print(
        f"  ours: {median(ours):.1f} s, {memory / GIB:.2f} GiB; in one process {median(here):.2f} "
        f"s, {memory_here / GIB:.2f} GiB; {compared:,} figures and models are equal",
        flush=True,
    )
    claims = (f"a round of {sites:,} simulated sites, s", f"its memory, {sites:,} sites, GiB")
    try:
        stock, memory_stock = measure_stock(sites, rounds, limit)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        reason = f"failed: {error}"
        return [
            without_peer(claims[0], reason, "Flower's FedAvg", ours=ours),
            without_peer(claims[1], reason, "Flower's FedAvg", ours=[memory / GIB]),
        ]
    print(f"  stock: {median(stock):.1f} s, {memory_stock / GIB:.2f} GiB")
    return [
        compare(claims[0], ours, stock, "Flower's FedAvg, without training"),
        compare(
            claims[1], [memory / GIB], [memory_stock / GIB], "Flower's FedAvg, without training"
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sites", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="50 sites")
    parser.add_argument("--limit", type=float, default=2400.0, help="seconds of one simulation")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # end all children then, too
    print(f"{platform.platform()}, Python {platform.python_version()}")
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    sites = 50 if options.quick else options.sites
    print(json.dumps(measure(sites, options.rounds, options.limit)))


if __name__ == "__main__":
    main()
