"""`flwr run` of the app of a federation: in Flower's simulation, and on a SuperLink with sites.

Every SuperLink is on a free port of this machine and ends with its test.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from shutil import which

import pytest
import yaml
from command import call
from test_flower_processes import LONGEST_S, Processes, processes, wait_until  # noqa: F401
from test_job_over_sites import JOB, RULES, measured, write_tables

from fedkg.deploy.federation_folders import KEYS, admit_site, create_federation, join_federation
from fedkg.deploy.flower.app_and_environment import flower_environment
from fedkg.deploy.flower.simulation_folder import create_simulation
from fedkg.deploy.flower.supernode import find_free_port
from fedkg.errors import JobError, UsageError
from fedkg.jobs import run_job

PROGRAMS = Path(sys.executable).parent


def write_job(folder: Path, **sections: object) -> Path:
    """A job with rules and a sites file whose sites are not in the order of their names."""
    write_tables(folder / "data")
    sites_file = folder / "data" / "sites.yaml"
    described = yaml.safe_load(sites_file.read_text())
    described["sites"] = dict(sorted(described["sites"].items(), key=lambda one: one[0][::-1]))
    sites_file.write_text(yaml.safe_dump(described, sort_keys=False))
    (folder / "rules.fkg").write_text(RULES)
    job = {**JOB, "data": {**JOB["data"], "sites_file": "data/sites.yaml"}, **sections}
    del job["pack"]
    (folder / "job.yaml").write_text(yaml.safe_dump({**job, "rules": ["rules.fkg"]}))
    return folder / "job.yaml"


def test_a_simulation_has_all_sites_of_the_job_and_no_keys(tmp_path, capsys):
    job = write_job(tmp_path)

    done = call(capsys, "federation", "init", job, "-o", tmp_path / "plants", "--simulation")

    assert done.out == f"3 sites; simulate: flwr run {tmp_path / 'plants' / 'app'}\n"
    assert not list((tmp_path / "plants").rglob("*.key"))
    names = json.loads((tmp_path / "plants" / "federation.json").read_text())["sites"]
    assert list(names) == ["wien", "graz", "linz"]  # the order of the sites file
    assert (
        f'federation = "{tmp_path / "plants"}"'
        in (tmp_path / "plants" / "app" / "pyproject.toml").read_text()
    )


@pytest.mark.parametrize(
    ("sections", "error"),
    [
        ({"training": {"rounds": 1, "secure_aggregation": True}}, "cannot be simulated"),
        ({"data": {"path": "data/linz.csv"}}, "needs a sites file with the tables"),
        ({"sites": {"linz": None}}, "list at least two of its sites in the job"),
    ],
)
def test_jobs_that_cannot_be_simulated(tmp_path, sections, error):
    with pytest.raises(JobError, match=error) as caught:
        create_simulation(write_job(tmp_path, **sections), tmp_path / "plants")
    assert "fedkg run" not in str(caught.value)  # it cannot run these jobs either
    assert not (tmp_path / "plants").exists()


def test_a_simulation_does_not_replace_a_folder(tmp_path):
    with pytest.raises(UsageError, match="exists already"):
        create_simulation(write_job(tmp_path), tmp_path)


@contextmanager
def superlink(folder: Path, port: int, *options: str | Path) -> Iterator[dict[str, str]]:
    """A SuperLink; the environment of `flwr`, in which it has the name ``local-simulation``."""
    environment = {**os.environ, **flower_environment(folder)}
    environment["PATH"] = f"{PROGRAMS}{os.pathsep}{environment['PATH']}"
    environment["FEDKG_KERNELS"] = "off"
    Path(environment["FLWR_HOME"]).mkdir(parents=True)
    with (folder / "link.out").open("wb") as log:
        process = subprocess.Popen(
            [
                *(PROGRAMS / "flower-superlink", "--port", str(port)),
                *("--disable-runtime-dependency-installation", *options),
            ],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_until(lambda: is_open(port))
        yield environment
    finally:
        process.terminate()
        process.wait(LONGEST_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def is_open(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def flwr(environment: dict[str, str], *arguments: str | Path) -> str:
    """The output of a command of Flower."""
    done = subprocess.run(
        [PROGRAMS / "flwr", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def name_connection(environment: dict[str, str], *lines: str) -> None:
    """Write Flower's configuration with one SuperLink."""
    text = "\n".join(["[superlink.local-simulation]", *lines, ""])
    (Path(environment["FLWR_HOME"]) / "config.toml").write_text(text)


def check_equal(run: Path, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run has the figures, models and memories of `fedkg run` for the same job."""
    monkeypatch.setenv("FEDKG_KERNELS", "off")
    found, expected = measured(run), measured(run_job(job, out=job.parent / "here").folder)
    assert len(found["rounds.csv"]) == JOB["training"]["rounds"]
    assert [row["client"] for row in found["sites.csv"]][:3] == ["wien", "graz", "linz"]
    assert any(":models/" in name for name in found)
    for name in expected | found:
        assert found[name] == expected[name], name


@pytest.mark.slow
def test_flwr_run_simulates_the_job_with_its_defaults(tmp_path, monkeypatch):
    """Two nodes, Flower's default, simulate three sites, which keep rows between rounds."""
    job = write_job(tmp_path, algorithm="scaffold")
    create_simulation(job, tmp_path / "plants")
    port = find_free_port()

    with superlink(tmp_path, port, "--simulation", "--insecure") as environment:
        name_connection(environment, f'address = "127.0.0.1:{port}"', "insecure = true")
        text = flwr(environment, "run", tmp_path / "plants" / "app", "local-simulation", "--stream")

    assert "round 3 of 3" in text
    check_equal(tmp_path / "plants" / "run", job, monkeypatch)


@pytest.mark.slow
@pytest.mark.skipif(which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_flwr_run_trains_over_the_sites_of_a_superlink(tmp_path, processes, monkeypatch):  # noqa: F811
    """A SuperLink as Flower documents it; its sites run `fedkg site run`."""
    names = ["wien", "graz", "linz"]
    job, server, port = write_job(tmp_path, sites=names), tmp_path / "plants", find_free_port()
    create_federation(job, server, address=f"127.0.0.1:{port}")
    keys = server / KEYS
    tls = ("--ssl-ca-certfile", keys / "ca.pem", "--ssl-certfile", keys / "server.pem")
    tls = (*tls, "--ssl-keyfile", keys / "server.key", "--enable-supernode-auth")

    with superlink(tmp_path, port, *tls) as environment:
        name_connection(
            environment, f'address = "127.0.0.1:{port}"', f'root-certificates = "{keys / "ca.pem"}"'
        )
        for name in names:
            invitation, site = server / "invitations" / f"{name}.zip", tmp_path / name
            join_federation(invitation, tmp_path / "data" / "sites.yaml", site, share_rows=True)
            key = site / KEYS / f"{name}.pub"
            admit_site(server, name, key)
            other = subprocess.run(
                ["ssh-keygen", "-i", "-m", "PKCS8", "-f", key], capture_output=True, check=True
            )
            (tmp_path / f"{name}.ssh").write_bytes(other.stdout)
            flwr(environment, "supernode", "register", tmp_path / f"{name}.ssh", "local-simulation")
            log = tmp_path / f"{name}.out"
            processes.start(name, "site", "run", site, log=log, FEDKG_KERNELS="off", REAL="1")
        text = flwr(environment, "run", server / "app", "local-simulation", "--stream")

    assert "round 3 of 3" in text
    check_equal(server / "run", job, monkeypatch)
