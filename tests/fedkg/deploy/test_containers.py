"""The image and the compose example: what can be checked where no container runs.

`.github/workflows/containers.yml` builds the image and runs the example.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from fedkg.deploy.flower.supernode import find_free_port

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())

LONGEST_S = 300.0


def read_instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile with their arguments."""
    lines = (ROOT / "docker" / "Dockerfile").read_text().splitlines()
    parts = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(name, rest) for name, _, rest in parts]


def test_the_image_contains_all_that_the_wheel_is_built_from():
    copied = {
        source
        for name, rest in read_instructions()
        if name == "COPY"
        for source in rest.split()[:-1]
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {"pyproject.toml", "constraints.txt", project["project"]["readme"], "LICENSE"}
    needed |= {Path(name).parts[0] for name in (*wheel["packages"], *wheel["force-include"])}

    assert needed == copied
    assert all((ROOT / name).exists() for name in copied)
    assert ("ENTRYPOINT", '["fedkg"]') in read_instructions()
    assert "fedkg" in project["project"]["scripts"]


def test_compose_names_the_image_that_it_builds_and_existing_files():
    services = COMPOSE["services"]
    built = services["prepare"]["build"]

    assert {service["image"] for service in services.values()} == {"fedkg"}
    assert (ROOT / "docker" / built["context"] / built["dockerfile"]).is_file()
    for volume in services["prepare"]["volumes"]:
        source = volume.split(":")[0]
        assert source in COMPOSE["volumes"] or (ROOT / "docker" / source).exists()


@pytest.mark.slow
def test_the_compose_example_trains(tmp_path):
    """Without containers: all services share this computer, and a folder instead of a volume."""
    shutil.copytree(ROOT / "examples" / "plants", tmp_path / "example" / "plants")
    shutil.copy(ROOT / "docker" / "job.yaml", tmp_path / "example")
    work, programs = tmp_path / "w", tmp_path / "bin"
    work.mkdir()
    programs.mkdir()
    for name, options in (("fedkg", "-m fedkg"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {options} "$@"\n')
        (programs / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    [script] = COMPOSE["services"]["prepare"]["command"]
    for old, new in (
        ("/example/", f"{tmp_path}/example/"),
        ("server:9092", f"127.0.0.1:{find_free_port()}"),
        ("make_tables.py", "make_tables.py --rows 600"),
        ("$$", "$"),
    ):
        assert old in script
        script = script.replace(old, new)

    subprocess.run(["sh", "-ec", script], cwd=work, env=environment, check=True)

    started = {}
    try:
        for name in ("graz", "lyon", "server"):
            with (tmp_path / f"{name}.out").open("wb") as log:
                started[name] = subprocess.Popen(
                    ["fedkg", *COMPOSE["services"][name]["command"]],
                    cwd=work,
                    env=environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
        code = started["server"].wait(LONGEST_S)
    finally:
        for process in started.values():
            process.terminate()
        for process in started.values():
            process.wait(LONGEST_S)
    assert code == 0, (tmp_path / "server.out").read_text()
    assert (work / "federation" / "run" / "report.html").stat().st_size > 0
