"""Kill a part of an NVFlare federation on this computer; run by an interpreter that has NVFlare.

    PYTHON benchmarks/peers/nvflare_kills.py site|server PATIENCE_SECONDS FOLDER

Three sites, as `nvflare poc prepare` provisions them (mutual TLS), and a job of NVFlare's own
parts: ScatterAndGather with all sites in each round, and NPTrainer, which adds a number to an
array. In the third round, SIGKILL ends a site or the server with all that it has started, and it is
started again after 5 s. The last line is JSON: `seconds` from the kill to the start of the next
round, or `failure`; with `submitted_again` after the server's kill: seconds until a job that is
submitted again runs its first round.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

SITES = ("site-1", "site-2", "site-3")

START_S = 300.0
"""Most seconds that the parts may take to start and to run two rounds."""

DOWN_S = 5.0
"""Seconds before a killed part is started again."""

SERVER_CONFIG = {
    "format_version": 2,
    "workflows": [
        {
            "id": "rounds",
            "path": "nvflare.app_common.workflows.scatter_and_gather.ScatterAndGather",
            "args": {
                "min_clients": len(SITES),
                "num_rounds": 8,
                "wait_time_after_min_received": 0,
                "aggregator_id": "aggregator",
                "persistor_id": "persistor",
                "shareable_generator_id": "shareable_generator",
                "train_task_name": "train",
            },
        }
    ],
    "components": [
        {
            "id": "persistor",
            "path": "nvflare.app_common.np.np_model_persistor.NPModelPersistor",
            "args": {},
        },
        {
            "id": "shareable_generator",
            "path": "nvflare.app_common.shareablegenerators.full_model_shareable_generator"
            ".FullModelShareableGenerator",
            "args": {},
        },
        {
            "id": "aggregator",
            "path": "nvflare.app_common.aggregators.intime_accumulate_model_aggregator"
            ".InTimeAccumulateWeightedAggregator",
            "args": {},
        },
    ],
}
CLIENT_CONFIG = {
    "format_version": 2,
    "executors": [
        {
            "tasks": ["train"],
            "executor": {
                "path": "nvflare.app_common.np.np_trainer.NPTrainer",
                "args": {"sleep_time": 1},
            },
        }
    ],
}


class Deployment:
    """The processes of a provisioned federation."""

    def __init__(self, folder: Path) -> None:
        from nvflare.tool.poc.poc_commands import prepare_poc_provision

        prepare_poc_provision(
            clients=[],
            number_of_clients=len(SITES),
            workspace=str(folder),
            docker_image=None,
            use_he=False,
            project_conf_path="",
            examples_dir=None,
        )
        [self.place] = folder.glob("*/prod_00")
        for file in self.place.glob("*/local/resources.json*"):
            file.write_text(file.read_text().replace("/tmp/nvflare", str(folder)))
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start the server or a site with the command of its start script."""
        role, file = ("server", "fed_server") if name == "server" else ("client", "fed_client")
        own = () if name == "server" else (f"uid={name}",)
        with (self.place / f"{name}.out").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [
                    *(sys.executable, "-u", "-m", f"nvflare.private.fed.app.{role}.{role}_train"),
                    *("-m", str(self.place / name), "-s", f"{file}.json"),
                    *("--set", "secure_train=true", *own, "org=nvidia", "config_folder=config"),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """Kill a process and all that it has started."""
        process = self._running[name]
        for one in (*list_descendants(process.pid), process.pid):
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """Kill all processes."""
        for name in self._running:
            self.kill(name)

    def submit(self, job: Path) -> str:
        """Submit a job, as soon as the server lets an administrator in."""
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        end = time.monotonic() + START_S
        while True:
            try:
                session = new_secure_session(
                    "admin@nvidia.com", str(self.place / "admin@nvidia.com"), timeout=10.0
                )
                break
            except Exception:
                if time.monotonic() > end:
                    raise
                time.sleep(1)
        try:
            while len(session.get_system_info().client_info) < len(SITES):
                if time.monotonic() > end:
                    raise RuntimeError("not all sites have registered")
                time.sleep(1)
            return str(session.submit_job(str(job)))
        finally:
            session.close()

    def rounds_started(self, job: str) -> int:
        """Rounds that a job has begun, from the server's logs."""
        logs = [*self.place.glob(f"server/{job}/log*.txt"), self.place / "server.out"]
        text = "".join(log.read_text(errors="replace") for log in logs if log.exists())
        return max(
            (number + 1 for number in range(100) if f"Round {number} started" in text), default=0
        )

    def describe_job(self, job: str) -> str:
        """The status of a job at the server."""
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        try:
            session = new_secure_session(
                "admin@nvidia.com", str(self.place / "admin@nvidia.com"), timeout=10.0
            )
            try:
                return str(session.get_job_meta(job).get("status"))
            finally:
                session.close()
        except Exception as error:  # noqa: BLE001  its errors have no common class
            return f"unknown ({type(error).__name__})"


def list_descendants(process: int) -> list[int]:
    """The processes that a process has started, directly or not."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
    found = [process]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def write_job(folder: Path) -> Path:
    """A job of NVFlare's own parts."""
    config = folder / "job" / "app" / "config"
    config.mkdir(parents=True)
    (config / "config_fed_server.json").write_text(json.dumps(SERVER_CONFIG))
    (config / "config_fed_client.json").write_text(json.dumps(CLIENT_CONFIG))
    meta = {"name": "plants", "resource_spec": {}, "deploy_map": {"app": ["@ALL"]}}
    (folder / "job" / "meta.json").write_text(json.dumps({**meta, "min_clients": len(SITES)}))
    return folder / "job"


def wait_for(condition: Callable[[], bool], seconds: float) -> float | None:
    """Seconds until a condition holds; None if it does not in time."""
    begun = time.monotonic()
    while time.monotonic() < begun + seconds:
        if condition():
            return time.monotonic() - begun
        time.sleep(0.1)
    return None


def measure(part: str, patience: float, folder: Path) -> dict[str, object]:
    """Kill a part in the third round; see the module."""
    name, job_folder = ("server" if part == "server" else SITES[0]), write_job(folder)
    deployment = Deployment(folder / "poc")
    try:
        for one in ("server", *SITES):
            deployment.start(one)
        job = deployment.submit(job_folder)
        if wait_for(lambda: deployment.rounds_started(job) >= 3, START_S) is None:
            log = (deployment.place / "server.out").read_text()[-1500:]
            return {"failure": f"failed: the job does not reach its third round: {log}"}
        begun, rounds = time.monotonic(), deployment.rounds_started(job)
        deployment.kill(name)
        time.sleep(DOWN_S)
        deployment.start(name)
        left = patience - (time.monotonic() - begun)
        if wait_for(lambda: deployment.rounds_started(job) > rounds, left) is not None:
            return {"seconds": time.monotonic() - begun}
        found: dict[str, object] = {
            "failure": f"failed: no further round within {patience:g} s; the job's status is "
            f"{deployment.describe_job(job)}"
        }
        if part == "server":
            begun, job = time.monotonic(), deployment.submit(job_folder)
            if wait_for(lambda: "Round 0 started" in read_log(deployment, job), patience):
                found["submitted_again"] = time.monotonic() - begun
        return found
    finally:
        deployment.stop()


def read_log(deployment: Deployment, job: str) -> str:
    """The server's log of one job."""
    logs = deployment.place.glob(f"server/{job}/log*.txt")
    return "".join(log.read_text(errors="replace") for log in logs)


if __name__ == "__main__":
    part, patience, folder = sys.argv[1:]
    # NVFlare reads and writes its settings in the home folder
    os.environ["HOME"] = folder
    found = measure(part, float(patience), Path(folder))
    print(json.dumps({**found, "version": version("nvflare")}))
