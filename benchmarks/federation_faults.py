"""What faults cost: kills of nodes and of the SuperLink, the contract itself, and 10,000 rounds.

    python benchmarks/federation_faults.py [--rounds 10000] [--only kills overhead endurance]
        [--nvflare PYTHON]

Three sites on this computer. **Kills**: one process is killed with SIGKILL while rounds run, and
started again after 5 s; the figure is the time from the kill until the next round is complete.
Where a run does not continue within `PATIENCE_S`, the row says so. Of Flower's parts: ours is the
contract above `FlowerTransport`, with the processes of `fedkg server run` and `fedkg site run`,
TLS and authentication; the peer is Flower's own FedAvg strategy without TLS, with a database for
its SuperLink; both sides move an array and compute nothing. Of whole sites and servers: ours are
the commands, with all that they start; the peer is NVFlare as `nvflare poc prepare` provisions it,
with mutual TLS, in an environment of its own (`python -m venv ENV; ENV/bin/pip install nvflare`),
whose interpreter `--nvflare` or `NVFLARE_PYTHON` names. **Overhead**: the FedAvg training of the
milling example (five sites, 30 rounds), with contract, checkpoint, checksums and tables in each
round, beside the same training with none of these; processor time. **Endurance**: rounds of
three site processes on sockets under a contract; memory and open files of the server's process.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import torch
from flower_rounds import (
    CLIENT,
    LONGEST_S,
    PROJECT,
    SERVER,
    SITES,
    find_program,
    wait_until,
    waiting_for,
)
from reporting.rows import Row, compare, limit, without_peer

from fedkg.deploy.message import Message
from fedkg.deploy.quorum_and_deadline_transport import (
    ContractTransport,
    RoundContract,
    apply_contract,
)
from fedkg.deploy.site_process import is_served, serve
from fedkg.deploy.site_training import SiteTraining
from fedkg.deploy.transport import LoopbackTransport, SocketTransport, Transport
from fedkg.errors import TooFewClients

RULES = (
    'output failure in probability span 0 .. 1 column "F"\n'
    "rule r kind causal require failure <= 1\n"
)

PATIENCE_S = 180.0
"""Seconds after a kill after which a run counts as one that does not continue."""

DOWN_S = 5.0
"""Seconds before a killed program is started again, unless fedkg does it by itself."""

OVERHEAD = 1.05
"""Most time that contract, checkpoint, checksums and tables may take, per time of a training."""

MILLING = Path(__file__).resolve().parents[1] / "examples" / "milling" / "job.yaml"

CONTRACT = RoundContract(deadline=PATIENCE_S, backoff=0.5, retries=100)


def contract_above(transport: Transport) -> ContractTransport:
    return ContractTransport(
        transport=transport,
        contract=CONTRACT,
        participants=len(SITES),
        preference=lambda number: SITES,
    )


# --- kills ---


@contextmanager
def open_federation(folder: Path) -> Iterator[tuple[Transport, Callable[[str], int]]]:
    """Our transport over Flower, and a function that finds a process by a word."""
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

    (folder / "rules.fkg").write_text(RULES)
    (folder / "sites.yaml").write_text(json.dumps({"sites": {n: {"url": "t.csv"} for n in SITES}}))
    (folder / "job.yaml").write_text("rules: [rules.fkg]\n")
    server = folder / "server"
    address = f"127.0.0.1:{find_free_port()}"
    create_federation(folder / "job.yaml", server, address=address, sites=SITES)
    for name in SITES:
        join_federation(
            server / "invitations" / f"{name}.zip", folder / "sites.yaml", folder / name
        )
        federation = admit_site(server, name, folder / name / KEYS / f"{name}.pub")
        socket = folder / name / SOCKET
        threading.Thread(target=serve, args=(lambda data: data, socket), daemon=True).start()
    with ExitStack() as stack:
        link = stack.enter_context(SuperLink(server, federation))
        grid = link.connect(LONGEST_S)
        for name in SITES:
            stack.enter_context(supervise(create_node(folder / name), lambda log: None))
        transport = FlowerTransport(grid=grid, sites=federation.node_keys(), reconnect=link.connect)
        wait_until(lambda: transport.present() == tuple(sorted(SITES)))
        yield contract_above(transport), lambda word: find_process(folder, word)


def find_process(folder: Path, word: str) -> int:
    """The process id of a command that names a folder and a word."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if str(folder) in text and word in text:
                return int(entry.name)
    raise RuntimeError(f"no process of {folder} has {word} in its arguments")


def measure_our_kill(word: str) -> tuple[float, int]:
    """Seconds from a kill in the middle of a round to the end of that round, and lost rounds."""
    lost = 0
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with open_federation(folder) as (transport, find):
            killed: list[float] = []

            def kill() -> None:
                os.kill(find(word), signal.SIGKILL)
                killed.append(time.monotonic())

            for number in range(1, 5):
                request = Message(kind="train", round=number, tensors={"w": torch.zeros(7000)})
                if number == 3:
                    threading.Timer(0.3, kill).start()
                try:
                    list(transport.exchange(dict.fromkeys(SITES, request), seconds=PATIENCE_S))
                except TooFewClients:
                    lost += 1
                if killed:
                    return time.monotonic() - killed[0], lost
                while number == 3 and not killed:  # the round was over before the kill
                    time.sleep(0.01)
    raise RuntimeError("no round after the kill")


def measure_stock_kill(word: str) -> float | str:
    """Seconds from a kill to the next complete round of Flower's FedAvg, or why there is none."""
    from fedkg.deploy.flower.app_and_environment import flower_environment
    from fedkg.deploy.flower.supernode import find_free_port

    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True))
        )
        app, port = folder / "app", find_free_port()
        app.mkdir()
        for name, text in (
            ("server.py", SERVER),
            ("client.py", CLIENT),
            ("pyproject.toml", PROJECT),
        ):
            (app / name).write_text(text)
        home = Path(flower_environment(folder)["FLWR_HOME"])
        home.mkdir(parents=True)
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\n'
            "insecure = true\n"
        )
        link = ("flower-superlink", "--insecure", "--port", port, "--database", folder / "link.db")
        link = (*link, "--disable-runtime-dependency-installation")
        programs: dict[str, subprocess.Popen[str]] = {}

        def start(key: str, *command: object) -> None:
            programs[key] = start_program(folder, *command)

        stack.callback(end_processes, f"127.0.0.1:{port}")  # what a SuperLink started survives it
        stack.callback(lambda: [end_program(one) for one in programs.values()])
        start("superlink", *link)
        stack.enter_context(waiting_for(port))
        nodes = {}
        for place, _ in enumerate(SITES):
            nodes[f"node{place}"] = (
                *("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}"),
                *("--port", find_free_port()),
            )
            start(f"node{place}", *nodes[f"node{place}"])
        config = "rounds=6 size=7000"
        start("run", "flwr", "run", app, "here", "--stream", "--run-config", config)
        rounds, killed, end = 0, 0.0, time.monotonic() + LONGEST_S
        stream = programs["run"].stdout
        assert stream is not None
        output = stream.fileno()
        os.set_blocking(output, False)
        text = ""
        while time.monotonic() < end:
            with suppress(BlockingIOError):
                text += os.read(output, 1 << 16).decode(errors="replace")
            now = len(re.findall(r"BEGIN", text))
            if now == 2 and not killed:  # the second round has begun
                time.sleep(1)
                key = "superlink" if word == "superlink" else "node1"
                end_program(programs[key])
                killed = time.monotonic()
                end = killed + PATIENCE_S
                time.sleep(DOWN_S)
                start(key, *(link if key == "superlink" else nodes[key]))
                rounds = now
            if killed and now > rounds:
                return time.monotonic() - killed
            if programs["run"].poll() is not None:
                return f"failed: its run ended with exit code {programs['run'].returncode}"
            time.sleep(0.1)
    return f"failed: no further round within {PATIENCE_S:g} s"


def start_program(folder: Path, name: object, *arguments: object) -> subprocess.Popen[str]:
    """A program of Flower in a session of its own."""
    from fedkg.deploy.flower.app_and_environment import flower_environment

    program = find_program(str(name))
    path = f"{Path(program).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(
        [program, *map(str, arguments)],
        env={**os.environ, **flower_environment(folder), "PATH": path},
        stdout=subprocess.PIPE if name == "flwr" else subprocess.DEVNULL,
        stderr=subprocess.STDOUT if name == "flwr" else subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def end_program(process: subprocess.Popen[str]) -> None:
    """Kill a program and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def end_processes(address: str) -> None:
    """Kill the processes that name the address of a SuperLink of this benchmark."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if address in (entry / "cmdline").read_bytes().decode():
                    os.kill(int(entry.name), signal.SIGKILL)


def measure_our_command_kill(part: str) -> float:
    """Seconds from the kill of `fedkg site run` or `fedkg server run`, with Flower's programs, to
    the end of the round.
    """
    import flower_soak

    with (
        tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as name,
        flower_soak.open_federation(Path(name), rounds=8) as commands,
    ):
        commands.wait_for_rounds(1)
        time.sleep(0.3)
        done, killed = commands.rounds_done(), time.monotonic()
        commands.kill(part, SITES[0], down=DOWN_S)
        commands.wait_for_rounds(done)
        return time.monotonic() - killed


def measure_nvflare_kill(part: str, python: str) -> dict[str, object]:
    """What `peers/nvflare_kills.py` reports."""
    script = Path(__file__).with_name("peers") / "nvflare_kills.py"
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        done = subprocess.run(
            [python, str(script), part, str(PATIENCE_S), folder],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    lines = done.stdout.splitlines() or ["no output"]
    try:
        found: dict[str, object] = json.loads(lines[-1])
    except json.JSONDecodeError:
        return {"failure": f"failed: {lines[-1]}"}
    return found


def measure_command_kills(python: str | None) -> list[Row]:
    """Kills of a whole site and of the whole server."""
    rows = []
    for part in ("site", "server"):
        claim = f"a {part} of three sites is killed, and started after 5 s: to the next round, s"
        seconds = measure_our_command_kill(part)
        print(f"  ours: a {part}: {seconds:.1f} s", flush=True)
        if python is None:
            reason = "not run: needs NVFLARE_PYTHON, an interpreter with nvflare"
            rows.append(without_peer(claim, reason, "NVFlare", ours=[seconds]))
            continue
        peer = measure_nvflare_kill(part, python)
        print(f"  NVFlare: a {part}: {peer}", flush=True)
        name = f"NVFlare {peer.get('version', '')}".rstrip()
        if "seconds" in peer:
            rows.append(compare(claim, [seconds], [float(str(peer["seconds"]))], name))
        else:
            rows.append(without_peer(claim, str(peer["failure"]), name, ours=[seconds]))
    return rows


def measure_kills(python: str | None) -> list[Row]:
    rows, name = [], f"FedAvg of Flower {version('flwr')}"
    for word, what in (("supernode", "a SuperNode"), ("superlink", "the SuperLink")):
        claim = f"{what} is killed in a round of three sites: until the round is complete, s"
        seconds, lost = measure_our_kill(word)
        print(f"  ours: {what}: {seconds:.1f} s, {lost} rounds lost", flush=True)
        stock = measure_stock_kill(word)
        print(f"  stock: {what}: {stock}", flush=True)
        if isinstance(stock, str):
            rows.append(without_peer(claim, stock, name, ours=[seconds]))
        else:
            rows.append(compare(claim, [seconds], [stock], name))
    return [*rows, *measure_command_kills(python)]


# --- overhead ---


def measure_overhead(turns: int) -> list[Row]:
    """Processor time of trainings with and without contract and run folder."""
    from fedkg.deploy.remote_sites import RemoteSites
    from fedkg.federated import train
    from fedkg.federated.executors.protocol import Work
    from fedkg.federated.problem import pool
    from fedkg.jobs.checkpoint import save_state
    from fedkg.jobs.experiment.experiment import create_experiment
    from fedkg.jobs.folder import RunFolder
    from fedkg.jobs.rule_pack import load_rules
    from fedkg.jobs.schema.job_reader import read_job
    from fedkg.jobs.trial_expansion import expand_trials

    job = read_job(MILLING)
    config = expand_trials(job)[0]
    experiment = create_experiment(job, load_rules(job)[0])
    experiment.prepare([config])
    trial = experiment.build_trial(config)
    full, algorithm = trial.problem, trial.algorithm
    settings = replace(trial.settings, executor="sequential")
    names, server = full.clients.names, replace(full, clients=full.clients.only(None))

    def handlers(folder: Path) -> dict[str, Callable[[bytes], bytes]]:
        found = {}
        for name in names:
            problem = replace(full, clients=full.clients.only(name))
            work = Work(
                problem=problem, algorithm=algorithm, settings=settings, pool=pool(problem.clients)
            )
            site = SiteTraining(work, folder=folder / name)
            found[name] = lambda request, site=site: site.train(
                Message.from_bytes(request, sender="server")
            ).to_bytes()
        return found

    def plain(folder: Path) -> None:
        sites = RemoteSites(transport=LoopbackTransport(sites=handlers(folder)), seconds=PATIENCE_S)
        for _ in train(server, algorithm, settings, sites=sites):
            pass

    def durable(folder: Path) -> None:
        loopback = LoopbackTransport(sites=handlers(folder))
        sites, built, changed = apply_contract(CONTRACT, loopback, names, algorithm, settings)
        run = RunFolder(folder / "run")
        run.create()
        for state, record in train(server, built, changed, sites=sites):
            row = {"trial": "t", "round": record.round, "train_loss": record.train_loss}
            run.append("rounds.csv", [row])
            run.append("clients.csv", [{**row, "client": name} for name in record.clients])
            save_state(run, "t", state)

    times: dict[str, list[float]] = {"plain": [], "durable": []}
    for turn in range(turns + 1):  # the first turn warms up
        for name, training in (("plain", plain), ("durable", durable)):
            with tempfile.TemporaryDirectory() as folder:
                begun = time.process_time()
                training(Path(folder))
                if turn:
                    times[name].append(time.process_time() - begun)
    ratios = [one / other for one, other in zip(times["durable"], times["plain"], strict=True)]
    print("  overhead", " ".join(f"{ratio:.4f}" for ratio in ratios), flush=True)
    claim = "the milling job with contract, checkpoint, checksums, tables, per its training alone"
    return [limit(claim, ratios, OVERHEAD)]


# --- endurance ---


def echo(socket: Path) -> None:
    serve(lambda request: request, socket)


def memory() -> int:
    """Resident memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def measure_endurance(rounds: int) -> list[Row]:
    """Memory and open files after a tenth of the rounds, and after all."""
    context = multiprocessing.get_context("fork")
    early, seen = rounds // 10, {}
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        sockets = {site: Path(name) / site for site in SITES}
        processes = [
            context.Process(target=echo, args=(socket,), daemon=True) for socket in sockets.values()
        ]
        for process in processes:
            process.start()
        wait_until(lambda: all(map(is_served, sockets.values())))
        transport = contract_above(SocketTransport(sites=sockets))
        begun = time.monotonic()
        for number in range(1, rounds + 1):
            request = Message(kind="train", round=number, tensors={"w": torch.zeros(100)})
            replies = list(transport.exchange(dict.fromkeys(SITES, request), seconds=60))
            assert all(reply.message is not None for reply in replies)
            if number in (early, rounds):
                seen[number] = (memory(), open_files(), threading.active_count())
        seconds = time.monotonic() - begun
        for process in processes:
            process.kill()
            process.join()
    (before, files, threads), (after, more_files, more_threads) = seen[early], seen[rounds]
    print(
        f"  {rounds:,} rounds in {seconds:.0f} s: {before / 2**20:.1f} MiB, {files} files,"
        f" {threads} threads after {early:,}; {after / 2**20:.1f} MiB, {more_files} files,"
        f" {more_threads} threads at the end",
        flush=True,
    )
    count = f"{rounds:,} rounds of three sites"
    return [
        limit(
            f"{count}: memory at the end per memory after a tenth of them", [after / before], 1.1
        ),
        limit(f"{count}: open files at the end", [float(more_files)], float(files)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=7)
    parts = ("kills", "overhead", "endurance")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument(
        "--nvflare", metavar="PYTHON", default=os.environ.get("NVFLARE_PYTHON"),
        help="an interpreter with nvflare",
    )  # fmt: skip
    options = parser.parse_args()
    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # end all children then, too
    print(f"{platform.platform()}, Python {platform.python_version()}")
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    rows: list[Row] = []
    if "endurance" in options.only:
        rows += measure_endurance(options.rounds)
    if "overhead" in options.only:
        rows += measure_overhead(options.turns)
    if "kills" in options.only:
        rows += measure_kills(options.nvflare)
    print(json.dumps(rows), flush=True)
    os._exit(0)  # sockets of removed folders would print errors below the rows


if __name__ == "__main__":
    main()
