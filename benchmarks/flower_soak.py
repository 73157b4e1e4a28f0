"""Random kills of every part of a federation over Flower: no round is lost, the bytes are the same.

    python benchmarks/flower_soak.py [--kills 60] [--seed 1]

Three sites with tables of unequal size train with private state at the sites (SCAFFOLD), with the
commands `fedkg server run` and `fedkg site run`, TLS and authentication, on this computer. At
random moments, SIGKILL ends a SuperNode, a site process, the SuperLink or the server process;
killed commands are started again. In the end, every figure and the model are compared with those of
`fedkg run` on the same tables; a difference is a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from federation_faults import end_program, find_process
from flower_rounds import SITES, wait_until
from reporting.plant_federation import KERNELS, require_equal, run_here, write_job
from reporting.rows import Row, limit

PARTS = ("supernode", "site", "superlink", "server")

RECOVERY_S = 60.0
"""Most seconds from a kill until the next round is complete, in the median."""

CONTRACT = {"quorum": "all", "retries": 100, "backoff": 0.2, "deadline": 120, "skipped_rounds": 0}


class Commands:
    """The commands of a server and its sites, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start `fedkg server run` or `fedkg site run` in the folder of this name."""
        role = "server" if name == "server" else "site"
        with (self.folder / f"{name}.out").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", "fedkg", role, "run", str(self.folder / name)],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **KERNELS},
                start_new_session=True,
            )

    def kill(self, part: str, site: str, *, down: float = 0.0) -> None:
        """Kill a part; the commands start the programs of Flower again, and a killed command is
        started again after `down` seconds.
        """
        if part in ("supernode", "superlink"):
            place = self.folder / (site if part == "supernode" else "server")
            os.kill(find_process(place, f" {part} "), signal.SIGKILL)
            return
        name = site if part == "site" else "server"
        self._running[name].kill()
        self._running[name].wait()
        time.sleep(down)
        self.start(name)

    def finish(self) -> None:
        """Wait for the end of the server. Raises RuntimeError with its output if it fails."""
        code = self._running.pop("server").wait()
        if code:
            raise RuntimeError((self.folder / "server.out").read_text()[-2000:])

    def stop(self) -> None:
        """End all commands, and by that the programs of Flower."""
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            end_program(process)

    def rounds_done(self) -> int:
        """Rounds in the table, while the server may write there."""
        path = self.folder / "server" / "run" / "rounds.csv"
        return max(0, path.read_bytes().count(b"\n") - 1) if path.exists() else 0

    def wait_for_rounds(self, rounds: int) -> None:
        """Wait until more than these rounds are done. Raises RuntimeError if the server ends."""
        wait_until(lambda: self.rounds_done() > rounds or not self.is_training())
        if self.rounds_done() <= rounds:
            raise RuntimeError((self.folder / "server.out").read_text()[-2000:])

    def is_training(self) -> bool:
        """Whether the server runs."""
        return self._running["server"].poll() is None


@contextmanager
def open_federation(folder: Path, rounds: int) -> Iterator[Commands]:
    """The running commands of a federation in a folder."""
    from fedkg.deploy.federation_folders import KEYS, admit_site, create_federation, join_federation
    from fedkg.deploy.flower.supernode import find_free_port

    job = write_job(folder, SITES, rounds, federation=CONTRACT)
    server, address = folder / "server", f"127.0.0.1:{find_free_port()}"
    create_federation(job, server, address=address, sites=SITES)
    commands = Commands(folder)
    with ExitStack() as stack:
        stack.callback(commands.stop)
        for name in SITES:
            invitation, site = server / "invitations" / f"{name}.zip", folder / name
            join_federation(invitation, folder / "sites.yaml", site, share_rows=True)
            admit_site(server, name, site / KEYS / f"{name}.pub")
            commands.start(name)
        commands.start("server")
        yield commands


def measure(kills: int, seed: int) -> Row:
    """Kill parts at random, and compare the run with one that nothing disturbs."""
    draw, rounds = random.Random(seed), 3 * kills + 3
    times: dict[str, list[float]] = {part: [] for part in PARTS}
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with open_federation(folder, rounds) as commands:
            commands.wait_for_rounds(0)
            order: list[str] = []
            for _ in range(kills):
                order = order or draw.sample(PARTS, len(PARTS))
                part, site = order.pop(), draw.choice(SITES)
                time.sleep(2 * draw.random())  # somewhere within a round
                if not commands.is_training():
                    raise RuntimeError("the run ended before the last kill: more rounds are needed")
                done, killed = commands.rounds_done(), time.monotonic()
                commands.kill(part, site)
                commands.wait_for_rounds(done)
                times[part].append(time.monotonic() - killed)
                print(f"  round {done}: {part} {site}, {times[part][-1]:.1f} s", flush=True)
            commands.finish()
        run_here(folder / "job.yaml", folder / "here")
        compared = require_equal(folder / "server" / "run", folder / "here")
    for part, found in times.items():
        if found:
            print(f"  {part}: {len(found)} kills, median {statistics.median(found):.1f} s")
    count = sum(map(len, times.values()))
    print(f"  {count} kills in {rounds} rounds; {compared:,} figures and models are equal")
    claim = (
        f"{count} random kills of four kinds of processes over Flower, none of {rounds} rounds "
        "lost and equal bytes: from a kill to the end of the round, s"
    )
    return limit(claim, [one for found in times.values() for one in found], RECOVERY_S)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # end all children then, too
    print(f"{platform.platform()}, Python {platform.python_version()}")
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    print(json.dumps([measure(options.kills, options.seed)]))


if __name__ == "__main__":
    main()
