"""A job over sites that keep their tables has the run folder of a run that reads all tables."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import fedkg.jobs.samples.job_tables
from fedkg.data.ai4i import generate
from fedkg.deploy.message import Message
from fedkg.deploy.server import run_server
from fedkg.deploy.site import open_site
from fedkg.deploy.transport import LoopbackTransport
from fedkg.errors import FederationError
from fedkg.jobs import run_job
from fedkg.jobs.folder import RunFolder
from fedkg.pack import pack_bytes

RULES = """\
signal torque in N.m span 0 .. 100 column "Torque [Nm]"
signal wear in min span 0 .. 260 column "Tool wear [min]"
output failure in probability span 0 .. 1 column "Machine failure"
rule careful require torque <= 65 N.m
rule worn require if wear > 200 min and torque > 50 N.m then failure >= 0.5
rule fresh hard require if wear < 100 min and torque < 45 N.m then failure <= 0.6
"""

SITES = {
    "graz": """\
    url: graz.csv
    dialect: {delimiter: ";"}
    datatype: {decimalChar: ","}
    tableSchema:
      columns:
        - {name: torque, titles: Drehmoment, unit: N.mm}
        - {name: wear, titles: Standzeit, unit: s}
        - {name: failure, titles: Ausfall, datatype: {base: boolean, format: "JA|NEIN"}}
""",
    "linz": """\
    url: linz.csv
    settings: {learning_rate: 0.05}
""",
    "wien": """\
    url: wien.txt
    tableSchema:
      columns:
        - {name: torque, titles: M}
        - {name: wear, titles: t, unit: h}
        - {name: failure, titles: F}
""",
}
SIZES = {"graz": 320, "linz": 170, "wien": 90}

TABLES = ("rounds.csv", "clients.csv", "rules.csv", "checks.csv", "sites.csv", "sets.csv")

JOB = {
    "name": "three-sites",
    "pack": "rules.fkgpack",
    "data": {"features": ["Torque [Nm]", "Tool wear [min]"], "min_samples": 20, "test": 0.25},
    "model": {"hidden": [5]},
    "training": {
        "rounds": 3,
        "participation": 1.0,
        "local_epochs": 1,
        "batch": 16,
        "learning_rate": 0.1,
        "executor": "sequential",
        "threads": 1,
        "chunk": 1,
    },
    "evaluation": {"local_baseline": False},
    "algorithm": "fedavg",
}


@pytest.fixture(autouse=True)
def plain_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sites train without compiled loops; a run in one process must do the same."""
    monkeypatch.setenv("FEDKG_KERNELS", "off")


@pytest.fixture(scope="module")
def milling_pack(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compiled(RULES, tmp_path_factory.mktemp("rules"))


def compiled(rules: str, folder: Path) -> bytes:
    pytest.importorskip("lark")
    from fedkg import authoring

    (folder / "rules.fkg").write_text(rules)
    return pack_bytes(authoring.compile([folder / "rules.fkg"]))


def write_tables(folder: Path) -> None:
    """A table of each site in its own format, and one sites file of all."""
    folder.mkdir(parents=True)
    frame, start = generate(sum(SIZES.values()), 11), 0
    for site, size in SIZES.items():
        rows = range(start, start + size)
        start += size
        torque, wear, failure = (
            frame.numbers(header)[list(rows)]
            for header in ("Torque [Nm]", "Tool wear [min]", "Machine failure")
        )
        if site == "wien":  # no failures at all: its test has no positives
            failure = np.zeros(size)
        lines: list[str] = []
        if site == "graz":
            lines += ["Drehmoment;Standzeit;Ausfall"]
            lines += [
                f"{m * 1000:.0f};{t * 60:.0f};{('NEIN', 'JA')[int(f)]}".replace(".", ",")
                for m, t, f in zip(torque, wear, failure, strict=True)
            ]
        elif site == "linz":
            lines += ["Torque [Nm],Tool wear [min],Machine failure"]
            lines += [f"{m},{t},{f:.0f}" for m, t, f in zip(torque, wear, failure, strict=True)]
        else:
            lines += ["M|t|F"]
            lines += [f"{m}|{t / 60}|{f:.0f}" for m, t, f in zip(torque, wear, failure, strict=True)]
        name = "wien.txt" if site == "wien" else f"{site}.csv"
        (folder / name).write_text("\n".join([*lines, ""]))
    text = "".join(f"  {name}:\n{section}" for name, section in SITES.items())
    (folder / "sites.yaml").write_text(f"sites:\n{text}")


def write_federation(base: Path, job: Mapping[str, Any], pack: bytes) -> LoopbackTransport:
    """The folder of the server and of each site; each site has its table alone."""
    whole, server = base / "whole", base / "federation"
    server.mkdir(parents=True)
    document = {**job, "sites": list(SIZES)}
    sites = dict.fromkeys(SIZES, "key")
    for folder in (server, *(base / site / "invitation" for site in SIZES)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "job.yaml").write_text(yaml.safe_dump(document))
        (folder / "rules.fkgpack").write_bytes(pack)
        (folder / "federation.json").write_text(json.dumps({"name": "f", "sites": sites}))
    for site, section in SITES.items():
        [table] = whole.glob(f"{site}.*")
        (base / site / table.name).write_text(table.read_text())
        (base / site / "own.yaml").write_text(f"sites:\n  {site}:\n{section}")
        fields = {"name": site, "sites_file": "own.yaml", "share_rows": True}
        (base / site / "site.json").write_text(json.dumps(fields))
    return LoopbackTransport(sites={site: open_site(base / site) for site in SIZES})


def run_together(base: Path, job: Mapping[str, Any], pack: bytes) -> Path:
    """The same job in one process that reads all tables."""
    (base / "rules.fkgpack").write_bytes(pack)
    data = {**job["data"], "sites_file": str(base / "whole" / "sites.yaml")}
    fields = {**job, "data": data, "pack": str(base / "rules.fkgpack")}
    return run_job(fields, out=base / "together", report=False).folder


def measured(folder: Path) -> dict[str, Any]:
    """What a run measured: tables without times and descriptions of executors, and the models."""
    found: dict[str, Any] = {}
    for name in TABLES:
        rows = RunFolder(folder).rows(name)
        for row in rows:
            row.pop("seconds", None)
            notes = row.get("notes", "").split("; ")
            if "notes" in row:
                row["notes"] = [note for note in notes if not note.startswith("executor:")]
        found[name] = rows
    found["results.json"] = without_times(json.loads((folder / "results.json").read_text()))
    for path in sorted((folder / "checkpoints").glob("*.safetensors")):
        from safetensors.torch import load_file

        for name, value in load_file(path).items():
            if name.startswith(("models/", "joints/")):
                found[f"{path.stem}:{name}"] = value.numpy().tobytes()
    return found


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(one) for key, one in value.items() if "second" not in key}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def changed(**sections: Any) -> dict[str, Any]:
    """The job with other fields in some sections."""
    return {
        **JOB,
        **{
            name: {**JOB.get(name, {}), **value} if isinstance(value, dict) else value
            for name, value in sections.items()
        },
    }


def check_equal(folder: Path, other: Path) -> None:
    one, two = measured(folder), measured(other)
    assert one.keys() == two.keys()
    for name in one:
        assert one[name] == two[name], name


@pytest.mark.parametrize(
    "job",
    [
        JOB,
        changed(algorithm="scfa", training={"participation": 0.7}),
        changed(algorithm="scaffold", data={"server": 0.0}),
    ],
    ids=["fedavg", "scfa", "scaffold-without-server-rows"],
)
def test_detection_over_sites_equals_a_run_that_reads_all_tables(tmp_path, milling_pack, job):
    write_tables(tmp_path / "whole")
    transport = write_federation(tmp_path, job, milling_pack)
    together = run_together(tmp_path, job, milling_pack)
    apart = run_server(tmp_path / "federation", transport, report=False).folder
    check_equal(apart, together)
