"""A job over sites that keep their tables has the run folder of a run that reads all tables."""

from __future__ import annotations

import json
import math
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from html import unescape
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file
from warm_processes import CONTEXT

import fedkg.deploy.federation_job_and_pack
import fedkg.deploy.quorum_and_deadline_transport
import fedkg.jobs.experiment.sample_preparation
import fedkg.jobs.source_data_checks
import fedkg.jobs.source_tables
from fedkg.data.ai4i import generate
from fedkg.data.standardise import Moments
from fedkg.deploy.federation_job_and_pack import JobFiles
from fedkg.deploy.message import Message
from fedkg.deploy.preparation_messages import MEANINGS, ROW_OF_SITE, summary_of, summary_parts
from fedkg.deploy.server import run_server
from fedkg.deploy.site import open_site
from fedkg.deploy.site_check import check_site, list_site_disclosures
from fedkg.deploy.transport import LoopbackTransport, Reply, SiteHandler
from fedkg.errors import FederationError, JobError, Stopped, UsageError
from fedkg.exclusion_reasons import OTHER_VERSION, explain_exclusion
from fedkg.jobs import resume, run_job
from fedkg.jobs.events import Event
from fedkg.jobs.experiment.site_sample_statistics import SiteSummary
from fedkg.jobs.folder import NOTE_SEPARATOR, PACK, RunFolder
from fedkg.jobs.sweep.run_status import read_status
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

TABLES = (
    "rounds.csv",
    "clients.csv",
    "rules.csv",
    "checks.csv",
    "sites.csv",
    "sets.csv",
    "forecasts.csv",
    "disclosures.csv",
)

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


def compiled(rules: str | None = None, paths: Sequence[Path] = ()) -> bytes:
    pytest.importorskip("lark")
    from fedkg import authoring

    return pack_bytes(authoring.compile(paths, text=rules))


@pytest.fixture(scope="module")
def milling_pack() -> bytes:
    return compiled(RULES)


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
            lines += [
                f"{m}|{t / 60}|{f:.0f}" for m, t, f in zip(torque, wear, failure, strict=True)
            ]
        name = "wien.txt" if site == "wien" else f"{site}.csv"
        (folder / name).write_text("\n".join([*lines, ""]))
    text = "".join(f"  {name}:\n{section}" for name, section in SITES.items())
    (folder / "sites.yaml").write_text(f"sites:\n{text}")


def write_federation(
    base: Path,
    job: Mapping[str, Any],
    pack: bytes,
    sections: Mapping[str, str] = SITES,
    *,
    share_rows: bool = True,
) -> LoopbackTransport:
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
    for site, section in sections.items():
        [table] = whole.glob(f"{site}.*")
        (base / site / table.name).write_text(table.read_text())
        (base / site / "own.yaml").write_text(f"sites:\n  {site}:\n{section}")
        fields = {"name": site, "sites_file": "own.yaml", "share_rows": share_rows}
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
            notes = row.get("notes", "").split(NOTE_SEPARATOR)
            if "notes" in row:
                row["notes"] = [note for note in notes if not note.startswith("executor:")]
        found[name] = rows
    found["results.json"] = without_times(json.loads((folder / "results.json").read_text()))
    for path in sorted((folder / "checkpoints").glob("*.safetensors")):
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


def check_equal(folder: Path, other: Path, *, rows_shared: bool = True) -> None:
    """All that was measured is equal, and something was; without consent examples stay at sites."""
    one, two = measured(folder), measured(other)
    for name in () if rows_shared else ("rules.csv", "checks.csv"):
        shown = {row.pop("example") for row in one[name]}
        assert shown <= {"", ROW_OF_SITE}
        assert any("row " in row.pop("example") for row in two[name])
        for row in two[name]:
            row.pop("example", None)
    assert one.keys() == two.keys()
    assert one["rules.csv"]
    assert any(float(row["evaluations"]) for row in one["rules.csv"])
    assert [row["client"] for row in one["sites.csv"]][:3] == list(SIZES)
    assert any(":models/" in name for name in one)
    for name in one:
        assert one[name] == two[name], name


@pytest.mark.slow
@pytest.mark.parametrize(
    "job",
    [
        JOB,
        changed(algorithm="scfa", training={"participation": 0.7}),
        changed(
            algorithm="scfa", scoring={"probe": "covering"}, evaluation={"threshold": "server"}
        ),
        changed(algorithm="scaffold", data={"server": 0.0}),
        changed(algorithm="ditto", data={"server": 0.0}),
        changed(algorithm="ifca", training={"penalty": 0.2}),
    ],
    ids=["fedavg", "scfa", "covering", "without-server-rows", "ditto", "ifca"],
)
def test_detection_over_sites_equals_a_run_that_reads_all_tables(tmp_path, milling_pack, job):
    write_tables(tmp_path / "whole")
    transport = write_federation(tmp_path, job, milling_pack)
    together = run_together(tmp_path, job, milling_pack)
    apart = run_server(tmp_path / "federation", transport, report=False).folder
    check_equal(apart, together)


PLANT = """\
@prefix plant: <https://example.org/plant#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
plant:Centre fkg:keyColumn "machine" .
plant:M1 a plant:Centre ; plant:maxTorque 42.0 .
plant:M2 a plant:Centre ; plant:maxTorque 48.0 .
plant:M3 a plant:Centre ; plant:maxTorque 55.0 .
plant:M4 a plant:Centre ; plant:maxTorque 50.0 .
"""

KEYED = """\
prefix plant: <https://example.org/plant#>
signal torque in N.m span 0 .. 100 column "Torque [Nm]"
signal wear in min span 0 .. 260 column "Tool wear [min]"
output failure in probability span 0 .. 1 column "Machine failure"
rule limit
  for ?m, ?limit where { ?m a plant:Centre ; plant:maxTorque ?limit }
  require if torque > ?limit then failure >= 0.5
rule in_range require wear <= 250 min
"""

STEPS = """\
timeline time column "Time" step 1 min ends clip
signal torque in N.m span 0 .. 100 column "Torque [Nm]"
signal wear in min span 0 .. 260 column "Tool wear [min]"
output failure in probability span 0 .. 1 column "Machine failure"
rule overload require if torque > 45 N.m and past torque > 45 N.m then failure >= 0.5
rule wears require wear >= 0
"""


def add_column(folder: Path, header: str, cells: Mapping[str, list[str]]) -> None:
    """Add a column to the tables of these sites."""
    for site, own in cells.items():
        [table] = folder.glob(f"{site}.*")
        mark = {"graz": ";", "linz": ",", "wien": "|"}[site]
        first, *lines = table.read_text().splitlines()
        rows = [f"{line}{mark}{cell}" for line, cell in zip(lines, own, strict=True)]
        table.write_text("\n".join([f"{first}{mark}{header}", *rows, ""]))


@pytest.mark.slow
def test_rules_about_machines_over_sites(tmp_path):
    """A site names the machine of each row, the others deal theirs to rows."""
    (tmp_path / "plant.ttl").write_text(PLANT)
    (tmp_path / "rules.fkg").write_text(KEYED)
    pack = compiled(paths=[tmp_path / "rules.fkg", tmp_path / "plant.ttl"])
    sections = {
        "graz": SITES["graz"] + "    settings: {machines: [M1, M2]}\n",
        "linz": SITES["linz"],
        "wien": SITES["wien"] + "    settings: {machines: [M4]}\n",
    }
    whole = tmp_path / "whole"
    write_tables(whole)
    add_column(whole, "machine", {"linz": ["M3", "M1"] * (SIZES["linz"] // 2)})
    write_sites_file(whole, sections)
    job = changed(algorithm="scfa", training={"penalty": 0.3})
    transport = write_federation(tmp_path, job, pack, sections)
    together = run_together(tmp_path, job, pack)
    apart = run_server(tmp_path / "federation", transport, report=False).folder
    check_equal(apart, together)


@pytest.mark.slow
def test_rules_over_time_over_sites(tmp_path):
    """The last rows of each site are its test, and the server scores traces of its rows."""
    pack, whole = compiled(STEPS), tmp_path / "whole"
    write_tables(whole)
    start = np.datetime64("2024-03-01T06:00")
    times = {
        site: [str(start + np.timedelta64(minute, "m")) for minute in range(size)]
        for site, size in SIZES.items()
    }
    add_column(whole, "Time", times)
    job = changed(algorithm="scfa", evaluation={"threshold": "server"})
    transport = write_federation(tmp_path, job, pack)
    together = run_together(tmp_path, job, pack)
    apart = run_server(tmp_path / "federation", transport, report=False).folder
    check_equal(apart, together)
    assert all(row["reason"] == "" for row in RunFolder(apart).rows("rules.csv"))


GRADES = """\
signal torque in N.m span 0 .. 100 column "Torque [Nm]"
signal wear in min span 0 .. 260 column "Tool wear [min]"
label grade classes A, B, C column "Grade"
rule worn_is_c require if wear > 200 min then grade is C
range knowledge by_wear of grade
  when wear > 200 min allow B, C
  otherwise allow any
set small keep parameters in l2_ball(radius = job)
predict knowledge usual of grade
  when wear > 200 min predict C
  otherwise predict A
"""

UNREAD = GRADES.partition("rule")[0] + "rule worn require wear <= 250 min\n"

POWER = """\
signal torque in N.m span 0 .. 100 column "Torque [Nm]"
signal wear in min span 0 .. 260 column "Tool wear [min]"
output power in W span 0 .. 20000 column "Power"
rule low require if torque < 20 N.m then power <= 4000 W
range knowledge plausible of power
  when torque <= 30 N.m allow 0 .. 6000
  otherwise allow 100 .. 20000
"""

LEVEL = """\
timeline time column "Time" step 1 h ends clip
signal inflow in m3/h span 0 .. 100 column "Inflow"
output level in m span -100 .. 100 column "Level"
use rules templates.operational_range
rule never_dry require level >= 0
rule calm require level <= past level + 3
rule flowing require inflow >= 1
infer early per client find ?low, ?high in operational_range(level, ?low, ?high, 0, 1)
infer late per client find ?low, ?high in operational_range(level, ?low, ?high, 2, 3)
"""


def sections_of(columns: Mapping[str, Mapping[str, tuple[str, str]]]) -> dict[str, str]:
    """The sites file's section of each site: header and unit of columns that differ."""
    found = {}
    for site, named in columns.items():
        lines = [f"    url: {site}.csv", "    tableSchema:", "      columns:"]
        lines += [
            f"        - {{name: {signal}, titles: {header}{f', unit: {unit}' * bool(unit)}}}"
            for signal, (header, unit) in named.items()
        ]
        found[site] = "\n".join([*lines, ""])
    return found


def write_csv(path: Path, columns: Mapping[str, Any]) -> None:
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join([*lines, ""]))


def write_rows(folder: Path, target: str) -> dict[str, str]:
    """Tables of rows with a grade or a power."""
    folder.mkdir(parents=True)
    dice, scale = np.random.default_rng(4), {"graz": 1000.0, "linz": 1.0, "wien": 1.0}
    for site, size in SIZES.items():
        torque, wear = dice.uniform(5, 80, size).round(2), dice.uniform(0, 250, size).round(1)
        grade = np.array(["A", "B", "C"])[(wear > 120).astype(int) + (wear > 190)]
        power = np.round(150 * torque + 4 * wear + dice.normal(0, 300, size), 1)
        other = {"graz": ("Drehmoment", "Standzeit"), "linz": ("Torque [Nm]", "Tool wear [min]")}
        headers = other.get(site, ("M", "t"))
        write_csv(
            folder / f"{site}.csv",
            {
                headers[0]: torque * scale[site],
                headers[1]: wear,
                "Grade" if target == "grade" else "Power": grade if target == "grade" else power,
            },
        )
    columns = {
        "graz": {"torque": ("Drehmoment", "N.mm"), "wear": ("Standzeit", "min")},
        "linz": {"torque": ('"Torque [Nm]"', "")},
        "wien": {"torque": ("M", "N.m"), "wear": ("t", "min")},
    }
    return write_sites_file(folder, sections_of(columns))


def write_series(folder: Path, scale: Mapping[str, float] | None = None) -> dict[str, str]:
    """Hourly levels of a tank at each site, which a site with a scale states in a wrong unit."""
    folder.mkdir(parents=True)
    dice = np.random.default_rng(5)
    for site, size in SIZES.items():
        hours = np.arange(size)
        level = 5 + len(site) / 4 + np.sin(hours / 4) + dice.normal(0, 0.2, size)
        inflow = 20 + 5 * np.cos(hours / 4) + dice.normal(0, 1, size)
        times = np.datetime64("2024-01-01T00:00") + hours.astype("timedelta64[h]")
        unit = (100.0 if site == "graz" else 1.0) * (scale or {}).get(site, 1.0)
        write_csv(
            folder / f"{site}.csv",
            {
                "Time": times,
                "Inflow": inflow.round(3),
                "Pegel" if site == "graz" else "Level": (level * unit).round(3),
            },
        )
    columns = {
        "graz": {"level": ("Pegel", "cm")},
        "linz": {"level": ("Level", "m")},
        "wien": {"level": ("Level", "m")},
    }
    return write_sites_file(folder, sections_of(columns))


def write_sites_file(folder: Path, sections: dict[str, str]) -> dict[str, str]:
    text = "".join(f"  {name}:\n{section}" for name, section in sections.items())
    (folder / "sites.yaml").write_text(f"sites:\n{text}")
    return sections


def job_of_table(**sections: Any) -> dict[str, Any]:
    """The job with one data set of all sites."""
    job = changed(**sections)
    data = {"set": "table", "min_samples": 5, "test": 0.25, **sections.get("data", {})}
    return {**job, "data": data}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "target", "job"),
    [
        (GRADES, "grade", job_of_table(algorithm="scfa", model={"hidden": [5]})),
        (
            GRADES,
            "grade",
            job_of_table(
                algorithm="own",
                algorithms={
                    "own": {
                        "preset": "pcfedavg",
                        "agents": {"penalty": 2.0, "given": {"radius": 1.5}},
                    }
                },
                data={"server": 0.0},
            ),
        ),
        (
            GRADES,
            "grade",
            job_of_table(
                model={"hidden": [5], "inject": {"range": True, "predict": True, "trust": 0.3}},
                data={"server": 0.0},
            ),
        ),
        (POWER, "power", job_of_table(algorithm="scfa", model={"hidden": [5], "inject": {}})),
    ],
    ids=["classes", "pcfedavg", "injected-classes", "injected-numbers"],
)
def test_classes_and_numbers_over_sites(tmp_path, rules, target, job):
    sections, pack = write_rows(tmp_path / "whole", target), compiled(rules)
    transport = write_federation(tmp_path, job, pack, sections)
    together = run_together(tmp_path, job, pack)
    apart = run_server(tmp_path / "federation", transport, report=False).folder
    check_equal(apart, together)


OWN = """\
signal wear in min span 0 .. 260 column "Tool wear [min]"
label grade classes A, B, C column "Grade"
range knowledge geheim of grade
  when wear > 210 min allow C
  otherwise allow any
predict knowledge fresh of grade
  when wear < 100 min predict A
"""


@pytest.mark.slow
@pytest.mark.parametrize("rules", [GRADES, UNREAD], ids=["read", "unread"])
def test_knowledge_of_sites_stays_at_the_sites(tmp_path, rules):
    """The same bytes as a run that reads all tables, and no word of the knowledge at the server."""
    sections = dict(write_rows(tmp_path / "whole", "grade"))
    private = {
        "graz": "{knowledge: private.fkg, trust: 0.6}",
        "linz": "{knowledge: {train: logistic_regression}, trust: cross_validate}",
        "wien": "{trust: 0.0}",
    }
    for site, settings in private.items():
        sections[site] += f"    settings: {settings}\n"
    whole = tmp_path / "whole" / "sites.yaml"
    whole.write_text("sites:\n" + "".join(f"  {k}:\n{v}" for k, v in sections.items()))
    job = job_of_table(
        model={"hidden": [5], "inject": {"trust": 0.3, "trusts": [0, 0.5], "rounds": 1}},
        data={"server": 0.0},
        evaluation={"local_baseline": False},
    )
    (tmp_path / "whole" / "private.fkg").write_text(OWN)
    together = run_together(tmp_path, job, compiled(rules))
    transport = write_federation(tmp_path, job, (together / PACK).read_bytes(), sections)
    (tmp_path / "graz" / "private.fkg").write_text(OWN)
    apart = run_server(tmp_path / "federation", transport, report=False).folder
    for one, two in zip(measured(apart).items(), measured(together).items(), strict=True):
        assert without_notes(one) == without_notes(two)
    rows = RunFolder(apart).rows("knowledge.csv")
    assert rows == RunFolder(together).rows("knowledge.csv")
    assert {row["client"] for row in rows} == {"", *SIZES}
    for file in (tmp_path / "federation").rglob("*"):
        body = file.read_bytes() if file.is_file() else b""
        assert b"geheim" not in body
        assert b"cross-validation chose" not in body


def without_notes(measured_item: tuple[str, Any]) -> tuple[str, Any]:
    """A measured table without notes, which say at the site how it chose its trust."""
    name, value = measured_item
    if isinstance(value, list):
        value = [{k: v for k, v in row.items() if k != "notes"} for row in value]
    return name, value


WINDOW = {"history": 8, "horizon": 4, "stride": 2}
FEDSTL = job_of_table(
    algorithm="own",
    algorithms={
        "own": {
            "weighting": "scfa",
            "grouping": {"fedstl": {"clusters": 2, "share": 0.2, "weight": 0.5}},
            "private": {},
        }
    },
    model={"kind": "gru", "hidden": 4, "layers": 1},
    data={"window": WINDOW},
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "job",
    [
        FEDSTL,
        job_of_table(
            algorithm="fedavg",
            model={"kind": "gru", "hidden": 4, "layers": 1},
            data={"window": WINDOW, "server": 0.0},
            training={"penalty": 0.1},
        ),
    ],
    ids=["fedstl", "fedavg"],
)
def test_forecasts_over_sites(tmp_path, job):
    sections, pack = write_series(tmp_path / "whole"), compiled(LEVEL)
    transport = write_federation(tmp_path, job, pack, sections)
    together = run_together(tmp_path, job, pack)
    apart = run_server(tmp_path / "federation", transport, report=False).folder
    check_equal(apart, together)


@pytest.mark.parametrize("fedstl", [False, True])
def test_the_server_excludes_a_site_by_what_it_mined(tmp_path, fedstl):
    """A site with a level in other units is excluded. The server receives the numbers of `infer`
    statements, as the list of disclosures says, and samples for FedSTL alone.
    """
    grouping = {"grouping": {"fedstl": {"clusters": 2, "share": 0.2, "weight": 0.5}}}
    own = {
        "exclude": {"properties": {"threshold": 3.5, "least": 3}},
        **(grouping if fedstl else {}),
    }
    job = job_of_table(
        algorithm="own",
        algorithms={"own": own},
        model={"kind": "gru", "hidden": 4, "layers": 1},
        data={"window": WINDOW, "server": 0.0},
    )
    sections, pack = write_series(tmp_path / "whole", scale={"linz": 8.0}), compiled(LEVEL)
    transport = Capture(write_federation(tmp_path, job, pack, sections, share_rows=fedstl))
    together = run_together(tmp_path, job, pack)
    apart = run_server(tmp_path / "federation", transport, report=False).folder
    assert measured(apart)["clients.csv"] == measured(together)["clients.csv"]
    sent = {name for _, one in transport.answers for name in one.tensors}
    prepared = {"properties", *(["samples/x", "samples/y"] * fedstl)}
    assert {name for name in sent if name.startswith(("properties", "samples/"))} == prepared
    for site in SIZES:
        assert prepared <= {one.name for one in list_site_disclosures(tmp_path / site)}
    rows = RunFolder(apart).rows("exclusions.csv")
    assert {row["client"] for row in rows} == {"linz"}
    assert all("properties are outliers" in row["reason"] for row in rows)


@pytest.mark.slow
def test_a_server_with_a_table_needs_no_rows_of_sites(tmp_path, milling_pack):
    """SCFA scores updates on the server's table; no site agrees to share rows."""
    job = changed(algorithm="scfa", data=own_table(tmp_path), evaluation={"threshold": "server"})
    write_tables(tmp_path / "whole")
    transport = write_federation(tmp_path, job, milling_pack, share_rows=False)
    together = run_together(tmp_path, job, milling_pack)
    apart = run_server(tmp_path / "federation", transport, report=False).folder
    check_equal(apart, together, rows_shared=False)
    assert all(row["validity"] for row in RunFolder(apart).rows("clients.csv"))


def own_table(folder: Path) -> dict[str, object]:
    """Fields of `data` by which the server has a table, and sites share no rows."""
    frame = generate(120, 3)
    headers = ("Torque [Nm]", "Tool wear [min]", "Machine failure")
    write_csv(folder / "own.csv", {header: frame.numbers(header) for header in headers})
    return {"server": 0.0, "server_table": str(folder / "own.csv")}


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["example", "client"])
def test_sites_draw_their_own_noise(tmp_path, milling_pack, unit):
    """The ledger is that of a run in one process; the noise is never that of another run."""
    privacy = {"unit": unit, "noise": 1.5, "clip": 1.0, "delta": 1e-4, "randomness": "system"}
    training = {"rounds": 2, "participation": 0.9 if unit == "client" else 1.0}
    job = changed(privacy=privacy, training=training, data=own_table(tmp_path))
    write_tables(tmp_path / "whole")
    transport = write_federation(tmp_path, job, milling_pack, share_rows=False)
    together = run_together(tmp_path, job, milling_pack)
    apart = run_server(tmp_path / "federation", transport, report=False).folder
    spent = [RunFolder(folder).rows("privacy.csv") for folder in (together, apart)]
    assert spent[0]
    assert spent[0] == spent[1]
    assert {row["round"] for row in RunFolder(apart).rows("rounds.csv")} == {"1", "2"}
    models = [one for one in measured(apart) if ":models/" in one]
    assert any(measured(apart)[one] != measured(together)[one] for one in models)


@pytest.mark.slow
def test_a_server_sees_sums_alone_and_learns_the_same(tmp_path, milling_pack):
    """Secure aggregation of a job: the models of plain averaging up to quantisation."""
    plain = changed(data=own_table(tmp_path))
    secure = {**plain, "training": {**plain["training"], "secure_aggregation": True}}
    write_tables(tmp_path / "whole")
    transport = write_federation(tmp_path, secure, milling_pack, share_rows=False)
    together = run_together(tmp_path, plain, milling_pack)
    apart = run_server(tmp_path / "federation", transport, report=False).folder
    [one, two] = [
        next((folder / "checkpoints").glob("*.safetensors")) for folder in (together, apart)
    ]
    expected, found = load_file(one), load_file(two)
    names = [name for name in expected if name.startswith("models/")]
    assert names
    for name in names:
        assert np.allclose(expected[name], found[name], atol=1e-5)
        assert not np.array_equal(expected[name], found[name])


@pytest.mark.slow
def test_a_server_does_not_score_models_that_stay_at_their_sites(tmp_path, milling_pack):
    """In one process, models that sites train alone are scored; their sites do not send them."""
    job = changed(evaluation={"local_baseline": True})
    write_tables(tmp_path / "whole")
    transport = write_federation(tmp_path, job, milling_pack)
    together = run_together(tmp_path, job, milling_pack)
    apart = run_server(tmp_path / "federation", transport, report=False).folder
    one, two = measured(apart), measured(together)
    for name in ("rules.csv", "sites.csv"):
        assert one[name] == two[name]
    own = [row for row in one["clients.csv"] if row["trial"].startswith("local_only")]
    assert len(own) == 9
    assert all(row["validity"] == "" for row in own)


@pytest.mark.slow
def test_a_run_goes_on_where_its_server_died(tmp_path, milling_pack, monkeypatch):
    """The server dies after a round, and a site process starts again."""
    # after round 9 the sites no longer have the private rows of round 5
    job = changed(algorithm="scaffold", training={"rounds": 10, "checkpoint_every": 5})
    write_tables(tmp_path / "whole")
    transport = write_federation(tmp_path, job, milling_pack)
    together = run_together(tmp_path, job, milling_pack)

    def die(event: Event) -> None:
        if event.kind == "round" and event.round == 9:
            raise KeyboardInterrupt

    with pytest.raises(Stopped, match="finished rounds are in"):
        run_server(tmp_path / "federation", transport, report=False, on_event=die)
    table = tmp_path / "wien" / "wien.txt"
    text = table.read_text()
    table.write_text(f"{text}40|1|0\n")
    changed_table = LoopbackTransport(
        sites={**transport.sites, "wien": open_site(tmp_path / "wien")}
    )
    with pytest.raises(FederationError, match=r": wien\.txt has changed since the run") as found:
        run_server(tmp_path / "federation", changed_table, report=False)
    assert str(tmp_path) not in str(found.value)  # its folders are private
    table.write_text(text)
    again = LoopbackTransport(sites={**transport.sites, "linz": open_site(tmp_path / "linz")})
    apart = run_server(tmp_path / "federation", again, report=False).folder
    check_equal(apart, together)


@dataclass(frozen=True, kw_only=True)
class Absence:
    """Sites in this process; one of them has no process in some rounds.

    Attributes:
        inner: reaches the sites.
        site: the absent one.
        rounds: of its absence.
        seen: the number of the last round that trained.
    """

    inner: LoopbackTransport
    site: str
    rounds: Sequence[int]
    seen: list[int] = field(default_factory=lambda: [0])

    def present(self) -> tuple[str, ...]:
        away = self.seen[0] in self.rounds
        return tuple(site for site in self.inner.present() if not (away and site == self.site))

    def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
        for one in requests.values():
            self.seen[0] = one.round if one.kind == "train" else self.seen[0]
        reached = {site: one for site, one in requests.items() if site in self.present()}
        for site in requests.keys() - reached.keys():
            yield Reply(site=site, message=None, error=f"no site process answers on {site}")
        yield from self.inner.exchange(reached, seconds=seconds)


def test_rounds_go_on_without_a_site_and_say_so(tmp_path, milling_pack):
    """Two of three sites are enough; figures of all sites are not evaluated without one."""
    contract = {"quorum": 2, "retries": 0, "grace": 60, "lost_after": 2}
    job = {**changed(training={"rounds": 5}), "federation": contract}
    write_tables(tmp_path / "whole")
    inner = write_federation(tmp_path, job, milling_pack)
    transport = Absence(inner=inner, site="wien", rounds=(2, 3))

    def die(event: Event) -> None:
        if event.kind == "round" and event.round == 3:
            raise KeyboardInterrupt

    with pytest.raises(Stopped):
        run_server(tmp_path / "federation", transport, report=False, on_event=die)
    folder = tmp_path / "federation" / "run"
    [row] = read_status(folder).runs[0].exclusions
    assert (row["client"], row["state"], row["since"], row["rounds"]) == ("wien", "lost", "2", "2")
    assert row["decided_by"] == "contract"
    assert "fedkg site run" in row["help"]
    transport.seen[0] = 0
    run_server(tmp_path / "federation", transport, report=False)

    rounds = RunFolder(folder).rows("rounds.csv")
    assert [int(one["round"]) for one in rounds] == [1, 2, 3, 4, 5]
    assert [bool(one["loss"]) for one in rounds] == [True, False, False, True, True]
    rows = RunFolder(folder).rows("exclusions.csv")
    assert [(one["round"], one["client"], one["state"]) for one in rows] == [
        ("2", "wien", "missing"),
        ("3", "wien", "lost"),
    ]
    weights = [one for one in RunFolder(folder).rows("clients.csv") if one["client"] == "wien"]
    assert [float(one["alpha"]) > 0 for one in weights] == [True, False, False, True, True]


def test_a_run_ends_without_a_site_that_stays_away(tmp_path, milling_pack):
    """With a quorum, the last figures are those of the sites that are left; all names are there."""
    contract = {"quorum": 2, "retries": 0, "grace": 60}
    job = {**changed(training={"rounds": 3}), "federation": contract}
    write_tables(tmp_path / "whole")
    inner = write_federation(tmp_path, job, milling_pack)
    transport = Absence(inner=inner, site="wien", rounds=(2, 3))
    folder = run_server(tmp_path / "federation", transport, report=False).folder
    assert [row["client"] for row in RunFolder(folder).rows("sites.csv")] == ["graz", "linz"]
    last = RunFolder(folder).rows("rounds.csv")[-1]
    assert last["round"] == "3"
    assert last["f1"]
    with pytest.raises(UsageError, match="belongs to a federation"):
        resume(folder)


@dataclass(frozen=True)
class Unplugged(Absence):
    """The absent site is gone without an error: nobody answers."""

    def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
        replies = super().exchange(requests, seconds=seconds)
        return (reply for reply in replies if reply.message is not None)


def test_the_end_of_a_run_does_not_wait_for_a_lost_site(tmp_path, milling_pack, monkeypatch):
    """With a quorum, the last figures and the end of the run wait for the grace alone."""
    contract = {"quorum": 2, "retries": 0, "grace": 0.1, "deadline": 60}
    job = {**changed(training={"rounds": 2}), "federation": contract}
    write_tables(tmp_path / "whole")
    inner = write_federation(tmp_path, job, milling_pack)
    transport, began = Unplugged(inner=inner, site="wien", rounds=(2,)), time.monotonic()
    kept = tmp_path / "federation" / "descriptions" / "run"

    def stop_at_finish(site: str, request: Message) -> Message:
        if request.kind == "finish":
            raise KeyboardInterrupt
        return request

    stopped = Forgery(transport, change_request=stop_at_finish)
    with pytest.raises(KeyboardInterrupt):
        run_server(tmp_path / "federation", stopped, report=False)
    assert kept.exists()  # the next start needs them, as wien is gone
    run_server(tmp_path / "federation", transport, report=False, wait=0)
    assert not kept.exists()
    assert time.monotonic() - began < 50


@pytest.mark.parametrize(
    "damage",
    [
        lambda tensors: {**tensors, "figures": torch.zeros(1, 2)},
        lambda tensors: {**tensors, "rules/counts": tensors["rules/counts"][:, :3]},
        lambda tensors: {**tensors, "rules/counts": tensors["rules/counts"] + 1},
        lambda tensors: {},
    ],
    ids=["shape", "columns", "counts", "nothing"],
)
def test_an_unreadable_evaluation_leaves_its_site_out(tmp_path, milling_pack, damage):
    """With a quorum the figures are those of the others, and a note names the site."""

    def change(reply: Reply) -> Message:
        message = reply.message
        assert message is not None
        is_last = reply.site == "wien" and "examples" in message.fields
        return replace(message, tensors=damage(message.tensors)) if is_last else message

    job = changed(training={"rounds": 1})
    write_tables(tmp_path / "whole")
    inner = write_federation(tmp_path, job | {"federation": QUORUM}, milling_pack)
    notes: list[Event] = []
    folder = run_server(
        tmp_path / "federation",
        Forgery(inner, change_answer=change),
        report=False,
        on_event=notes.append,
    ).folder
    assert [row["client"] for row in RunFolder(folder).rows("sites.csv")] == ["graz", "linz"]
    assert any("figures are without wien: site wien sent" in one.message for one in notes)


QUORUM = {"quorum": 2, "retries": 0, "grace": 60}


def test_a_server_that_starts_again_needs_a_quorum(tmp_path, milling_pack):
    """A site stays away after a round in which the server dies; the run is that of a server that
    lives on, also in the next training.
    """
    job = {**changed(training={"rounds": 3}), "federation": QUORUM, "seeds": [0, 1]}
    folders = []
    for dies in (False, True):
        place = tmp_path / ("dies" if dies else "lives")
        write_tables(place / "whole")
        inner = write_federation(place, job, milling_pack)
        transport, notes = Absence(inner=inner, site="wien", rounds=(1, 2, 3)), []
        server = place / "federation"
        kept = server / "descriptions" / "run"
        if dies:
            with pytest.raises(Stopped):
                run_server(server, transport, report=False, on_event=dies_after(2))
            assert {one.name for one in kept.iterdir()} == set(SIZES)
            sites = {**inner.sites, "linz": open_site(place / "linz")}
            transport = Absence(inner=LoopbackTransport(sites=sites), site="wien", rounds=range(9))
        run = run_server(server, transport, report=False, on_event=notes.append, wait=0)
        folders.append(run.folder)
        assert not kept.exists()
        said = [one.message for one in notes if "continues" in one.message]
        away = "the run continues without wien until it is back: no site process answers on wien"
        assert said == [away] * dies
    one, two = map(measured, folders)
    assert len(one["rounds.csv"]) == 6
    used = [row["client"] for row in one["clients.csv"] if float(row["alpha"])]
    assert used == ["graz", "linz"] * 6
    assert one == two


@pytest.mark.parametrize("kept", ["none", "damaged", "of an earlier version"])
def test_without_what_a_site_told_a_server_that_starts_again_needs_it(tmp_path, milling_pack, kept):
    inner, server = begun(tmp_path, milling_pack), tmp_path / "federation"
    for path in (server / "descriptions" / "run" / "wien").iterdir():
        if kept == "damaged":
            path.write_bytes(b"")
        elif kept == "of an earlier version":
            path.rename(path.with_stem("0" * 64))
        else:
            path.unlink()
    away = Absence(inner=inner, site="wien", rounds=range(9))
    with pytest.raises(FederationError, match="2 of 3; missing: wien"):
        run_server(server, away, report=False, wait=0)
    run_server(server, inner, report=False)


def test_a_site_that_refuses_is_not_replaced_by_what_it_told_before(tmp_path, milling_pack):
    """Its operator has withdrawn the consent to share rows."""
    inner = begun(tmp_path, milling_pack)
    fields = {"name": "wien", "sites_file": "own.yaml", "share_rows": False}
    (tmp_path / "wien" / "site.json").write_text(json.dumps(fields))
    for again in (inner.sites["wien"], open_site(tmp_path / "wien")):  # without and with a restart
        sites = LoopbackTransport(sites={**inner.sites, "wien": again})
        with pytest.raises(FederationError, match="site wien does not share rows"):
            run_server(tmp_path / "federation", sites, report=False)


def test_a_training_without_a_site_leaves_the_descriptions_of_the_other_run(tmp_path, milling_pack):
    inner, server = begun(tmp_path, milling_pack), tmp_path / "federation"
    files = {path: path.read_bytes() for path in server.glob("descriptions/run/*/*")}
    run_server(server, inner, report=False, without=["wien"])
    assert len(files) >= 9
    assert files == {path: path.read_bytes() for path in server.glob("descriptions/*/*/*")}


def begun(folder: Path, pack: bytes) -> LoopbackTransport:
    """The sites of a run with a quorum whose server has died after the first of three rounds."""
    job = {**changed(training={"rounds": 3}), "federation": QUORUM}
    write_tables(folder / "whole")
    sites = write_federation(folder, job, pack)
    with pytest.raises(Stopped):
        run_server(folder / "federation", sites, report=False, on_event=dies_after(1))
    return sites


def dies_after(number: int) -> Callable[[Event], None]:
    def die(event: Event) -> None:
        if event.kind == "round" and event.round == number:
            raise KeyboardInterrupt

    return die


@pytest.mark.slow
def test_the_server_opens_no_table(tmp_path, milling_pack, monkeypatch):
    """Sites answer in other processes, and reading a table fails in the server's."""
    write_tables(tmp_path / "whole")
    transport = write_federation(tmp_path, JOB, milling_pack)
    shutil.rmtree(tmp_path / "whole")
    with ProcessPoolExecutor(1, mp_context=CONTEXT) as sites:
        readers = [
            (fedkg.jobs.source_tables, "read_tables"),
            (fedkg.jobs.source_tables, "read_table"),
            (fedkg.jobs.source_tables, "read_site"),
            (fedkg.jobs.experiment.sample_preparation, "read_all_sites"),
            (fedkg.jobs.experiment.sample_preparation, "load_sites"),
            (fedkg.jobs.source_data_checks, "read_site"),
        ]

        def reject(*_: object, **__: object) -> None:
            raise AssertionError("the server reads a table")

        for module, name in readers:
            monkeypatch.setattr(module, name, reject)
        handlers = {
            site: partial(answer_elsewhere, sites, tmp_path / site) for site in transport.sites
        }
        run = run_server(tmp_path / "federation", LoopbackTransport(sites=handlers), report=False)
    assert [row["client"] for row in RunFolder(run.folder).rows("sites.csv")] == list(SIZES)


def answer_elsewhere(sites: ProcessPoolExecutor, folder: Path, request: bytes) -> bytes:
    return sites.submit(answer_in_process, folder, request).result()


def answer_in_process(folder: Path, request: bytes) -> bytes:
    if folder not in OPENED:
        OPENED[folder] = open_site(folder)
    return OPENED[folder](request)


OPENED: dict[Path, SiteHandler] = {}


def test_wrong_columns_name_the_site_the_file_and_the_column(tmp_path, milling_pack):
    write_tables(tmp_path / "whole")
    transport = write_federation(tmp_path, JOB, milling_pack)
    table = tmp_path / "linz" / "linz.csv"
    table.write_text(table.read_text().replace("Tool wear [min]", "Tool wear"))
    with pytest.raises(FederationError) as caught:
        run_server(tmp_path / "federation", transport, report=False)
    assert str(caught.value).startswith("site linz: ")
    assert "linz.csv" in str(caught.value)
    assert "Tool wear [min]" in str(caught.value)
    assert not (tmp_path / "federation" / "run").exists()


@pytest.mark.slow
def test_a_site_process_that_stays_up_reads_changed_tables_again(tmp_path, milling_pack):
    """After an error about its table, and after a finished run."""
    write_tables(tmp_path / "whole")
    transport = write_federation(tmp_path, JOB, milling_pack)
    table, server = tmp_path / "linz" / "linz.csv", tmp_path / "federation"
    text = table.read_text()
    table.write_text(text.replace(",0\n", ",7\n"))
    with pytest.raises(FederationError, match="linz"):
        run_server(server, transport, report=False)
    table.write_text(text)
    run = run_server(server, transport, report=False).folder
    table.write_text("".join(text.splitlines(keepends=True)[:-5]))
    other = run_server(server, transport, report=False, without=["wien"]).folder
    samples = [
        {row["client"]: int(row["samples"]) + int(row["test_rows"]) for row in
         RunFolder(folder).rows("sites.csv")}
        for folder in (run, other)
    ]  # fmt: skip
    assert samples[1]["linz"] < samples[0]["linz"]
    assert samples[1]["graz"] == samples[0]["graz"]


@dataclass(frozen=True, kw_only=True)
class SlowDescriptions:
    """Sites that need some seconds of a simulated clock for each answer about their data."""

    inner: LoopbackTransport
    seconds: float
    clock: list[float] = field(default_factory=lambda: [0.0])
    open: dict[str, tuple[float, Message]] = field(default_factory=dict)

    def monotonic(self) -> float:
        return self.clock[0]

    def sleep(self, seconds: float) -> None:
        self.clock[0] += max(seconds, 1e-3)

    def present(self) -> tuple[str, ...]:
        return self.inner.present()

    def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
        end = self.clock[0] + seconds
        for site, one in requests.items():
            due = self.clock[0] + (self.seconds if one.kind == "describe" else 0)
            self.open.setdefault(site, (due, one))
        for site, (due, one) in sorted(self.open.items()):
            self.clock[0] = max(self.clock[0], min(due, end))
            if due <= end:
                del self.open[site]
                yield from self.inner.exchange({site: one}, seconds=60)


@pytest.mark.parametrize("limit", [pytest.param(60.0, marks=pytest.mark.slow), 1.5])
def test_start_seconds_limits_the_descriptions_and_the_deadline_does_not(
    tmp_path, milling_pack, monkeypatch, limit
):
    contract = {"deadline": 1.0, "start_seconds": limit}
    job = {**changed(training={"rounds": 1}), "federation": contract}
    write_tables(tmp_path / "whole")
    inner = write_federation(tmp_path, job, milling_pack)
    transport = SlowDescriptions(inner=inner, seconds=2.0)
    monkeypatch.setattr(fedkg.deploy.quorum_and_deadline_transport, "time", transport)
    if limit > transport.seconds:
        run_server(tmp_path / "federation", transport, report=False)
        assert len(RunFolder(tmp_path / "federation" / "run").rows("rounds.csv")) == 1
        return
    with pytest.raises(FederationError, match=r"no reply within `federation\.start_seconds`"):
        run_server(tmp_path / "federation", transport, report=False)
    assert limit <= transport.clock[0] < transport.seconds


def open_with_version(folder: Path, version: str) -> SiteHandler:
    """A site process with another version of fedkg than the server."""
    site = open_site(folder)

    def handle(request: bytes) -> bytes:
        with pytest.MonkeyPatch.context() as patched:
            other = SimpleNamespace(version=lambda name: version)
            patched.setattr(fedkg.deploy.federation_job_and_pack, "metadata", other)
            return site(request)

    return handle


def test_a_server_does_not_start_with_a_site_of_another_version(tmp_path, milling_pack):
    write_tables(tmp_path / "whole")
    sites = dict(write_federation(tmp_path, JOB, milling_pack).sites)
    sites["linz"] = open_with_version(tmp_path / "linz", "9.9")
    text = "site linz and the server differ in their version of fedkg"
    with pytest.raises(FederationError, match=text) as caught:
        run_server(tmp_path / "federation", LoopbackTransport(sites=sites), report=False)
    assert "received: 9.9" in str(caught.value)
    assert "install the same version of fedkg" in str(caught.value)
    assert explain_exclusion(str(caught.value)) == explain_exclusion(OTHER_VERSION)


@pytest.mark.slow
def test_a_site_that_returns_with_another_version_is_excluded(tmp_path, milling_pack):
    contract = {"quorum": 2, "retries": 0, "grace": 60}
    job = {**changed(training={"rounds": 4}), "federation": contract}
    write_tables(tmp_path / "whole")
    sites = dict(write_federation(tmp_path, job, milling_pack).sites)

    def replace_process(event: Event) -> None:
        version = {1: "9.9", 3: metadata.version("fedkg")}.get(event.round or 0)
        if event.kind == "round" and version is not None:
            sites["linz"] = open_with_version(tmp_path / "linz", version)

    folder = run_server(
        tmp_path / "federation",
        LoopbackTransport(sites=sites),
        report=False,
        on_event=replace_process,
    ).folder
    rows = RunFolder(folder).rows("exclusions.csv")
    assert [(one["round"], one["client"], one["since"]) for one in rows] == [
        ("2", "linz", "2"),
        ("3", "linz", "2"),
    ]
    for row in rows:
        assert row["decided_by"] == "site process"
        assert "differ in their version of fedkg" in row["reason"]
        assert "install the server's version of fedkg at the site" in row["help"]


def test_an_unexpected_error_of_a_site_leaves_it_as_its_kind(tmp_path, milling_pack, capfd):
    """The text may quote a row; the output of the site process has it."""
    write_tables(tmp_path / "whole")
    site = write_federation(tmp_path, JOB, milling_pack).sites["graz"]
    with pytest.raises(FederationError, match="KeyError") as found:
        site(Message(kind="describe", fields={"step": "summary"}).to_bytes())
    assert "identity" not in str(found.value)
    assert "KeyError: 'identity'" in capfd.readouterr().err


def test_a_site_that_shares_no_rows_says_so(tmp_path, milling_pack):
    write_tables(tmp_path / "whole")
    transport = write_federation(tmp_path, JOB, milling_pack, share_rows=False)
    with pytest.raises(FederationError, match=r"^site graz does not share rows"):
        run_server(tmp_path / "federation", transport, report=False)


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (changed(algorithm="centralised"), "pools the rows of all sites"),
        (changed(data={"set": "skab"}), "`data.set: skab` is one data set"),
        (changed(theory={}), "`theory` compares gradients"),
        (
            changed(simulation={"attacks": {"kind": "nan_update"}}),
            "`simulation.attacks` changes labels or updates of sites",
        ),
        (
            changed(algorithm="ditto", evaluation={"threshold": "server"}),
            "`evaluation.threshold: server` needs the models of single sites",
        ),
        (
            changed(privacy={"unit": "example", "epsilon": 5.0, "delta": 1e-5}),
            "the noise of `privacy` follows from the seed",
        ),
    ],
    ids=["pooled", "data-set", "theory", "attacks", "own-models", "privacy"],
)
def test_jobs_that_need_all_rows_are_rejected(tmp_path, milling_pack, job, said):
    job = {**job, "data": {**job["data"]}}
    files = tmp_path / "federation"
    files.mkdir()
    if "set" in job["data"]:
        job["data"] = {"set": job["data"]["set"]}
    (files / "job.yaml").write_text(yaml.safe_dump(job))
    (files / "rules.fkgpack").write_bytes(milling_pack)
    with pytest.raises(JobError, match=said):
        JobFiles.read(files).joint_job({name: {} for name in SIZES})


def test_a_check_of_a_site_finds_what_it_violates(tmp_path, milling_pack):
    write_tables(tmp_path / "whole")
    write_federation(tmp_path, JOB, milling_pack)
    found = {one.what: one for one in check_site(tmp_path / "graz")}
    frame = generate(sum(SIZES.values()), 11)
    torque = frame.numbers("Torque [Nm]")[: SIZES["graz"]]
    assert (
        f"violated in {(torque > 65).sum()} of {SIZES['graz']} cases" in found["rule careful"].text
    )
    assert found["table"].ok
    assert found["disk"].ok
    assert found["round"].ok
    assert "the deadline is 600 s" in found["round"].text
    trained = round(SIZES["graz"] * (1 - 0.25 - 0.15))
    assert f"for {-(-trained // 16)} local steps" in found["round"].text
    assert not (tmp_path / "graz" / "state").exists()
    (tmp_path / "graz" / "graz.csv").unlink()
    [*_, last] = check_site(tmp_path / "graz")
    assert not last.ok
    assert "graz.csv" in last.text


@dataclass
class Capture:
    """A transport that keeps what sites answer."""

    transport: LoopbackTransport
    answers: list[tuple[str, Message]] = field(default_factory=list)

    def present(self) -> tuple[str, ...]:
        return self.transport.present()

    def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
        for reply in self.transport.exchange(requests, seconds=seconds):
            assert reply.message is not None, reply.error
            self.answers.append((reply.site, reply.message))
            yield reply


def test_a_site_sends_exactly_what_its_list_of_disclosures_says(tmp_path, milling_pack):
    job = changed(data={"server": 0.0})
    write_tables(tmp_path / "whole")
    capture = Capture(write_federation(tmp_path, job, milling_pack))
    listed = {
        site: {
            (one.name, one.shape, one.dtype)
            for one in list_site_disclosures(tmp_path / site)
            if one.direction == "to the server" and one.name != "count"
        }
        for site in SIZES
    }
    run_server(tmp_path / "federation", capture, report=False)
    for site in SIZES:
        sent = {
            (name, tuple(value.shape), str(value.dtype).removeprefix("torch."))
            for name_of_site, message in capture.answers
            if name_of_site == site
            for name, value in message.tensors.items()
        }
        assert sent == {one for one in listed[site] if one[2] != "JSON"}
    fields = {
        name for _, message in capture.answers if message.kind != "train" for name in message.fields
    }
    assert fields <= MEANINGS.keys()
    frame = generate(sum(SIZES.values()), 11)
    torque = set(frame.numbers("Torque [Nm]").tolist())
    for _, message in capture.answers:  # no torque of a row leaves its site as a number
        for value in message.tensors.values():
            if value.is_floating_point() and value.numel() > 1:
                assert len(torque & set(value.double().flatten().tolist())) < 3


ROW = re.compile(
    r'<th scope="row">(.*?)</th><td class="said">(.*?)</td><td data-label="direction">(.*?)</td>'
    r'<td data-label="when">(.*?)</td><td class="n" data-label="bytes">(.*?)</td>'
    r'<td data-label="who can read it">(.*?)</td>'
)


@pytest.mark.slow
def test_the_report_shows_what_leaves_a_site_with_its_size(tmp_path, milling_pack):
    pytest.importorskip("plotly")
    job = changed(data={"server": 0.0}, training={"rounds": 1})
    write_tables(tmp_path / "whole")
    capture = Capture(write_federation(tmp_path, job, milling_pack))
    folder = run_server(tmp_path / "federation", capture).folder
    page = (folder / "report.html").read_text()
    section = page[page.index('<section id="disclosures">') :].partition("</section>")[0]
    shown = [tuple(unescape(cell) for cell in row) for row in ROW.findall(section)]
    listed = [
        (one.name, one.meaning, one.direction, one.when, f"{one.bytes:,}", one.readers)
        for one in list_site_disclosures(tmp_path / "graz")  # the largest site
        if one.when == "in each of its rounds" or one.name == "count"
    ]
    assert shown == listed
    [sent] = [
        message.tensors
        for site, message in capture.answers
        if (site, message.kind) == ("graz", "train")
    ]
    sizes = {name: f"{value.numel() * value.element_size():,}" for name, value in sent.items()}
    assert sizes == {
        row[0]: row[4] for row in shown if row[2:4] == ("to the server", "in each of its rounds")
    }
    total = sum(value.numel() * value.element_size() for value in sent.values())
    assert f"the site sends {total:,} bytes and receives" in section


def test_the_doctor_lists_what_leaves_the_site(tmp_path, milling_pack):
    write_tables(tmp_path / "whole")
    write_federation(tmp_path, changed(data={"server": 0.0}), milling_pack)
    found = [one.text for one in check_site(tmp_path / "graz") if one.what == "messages"]
    listed = list_site_disclosures(tmp_path / "graz")
    for direction in ("to the server", "to the site"):
        sizes = {
            one.name: one.bytes
            for one in listed
            if (one.direction, one.when) == (direction, "in each of its rounds")
        }
        line = f"{sum(sizes.values()):,} bytes {direction} in each of its rounds: "
        [shown] = [text for text in found if text.startswith(line)]
        assert {name.partition("/")[0] for name in sizes} <= set(re.findall(r"\w+", shown))
        assert shown.endswith("who can read it: the " + direction.rpartition(" ")[2])


@dataclass(frozen=True)
class Forgery:
    """Changes what the server sends, or what a site answers."""

    inner: LoopbackTransport
    change_request: Any = None
    change_answer: Any = None

    def present(self) -> tuple[str, ...]:
        return self.inner.present()

    def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
        if self.change_request is not None:
            requests = {site: self.change_request(site, one) for site, one in requests.items()}
        for reply in self.inner.exchange(requests, seconds=seconds):
            changes = self.change_answer is not None and reply.message is not None
            yield replace(reply, message=self.change_answer(reply)) if changes else reply


def test_a_site_refuses_training_settings_that_are_not_its_own(tmp_path, milling_pack):
    """With a batch of one row, an update would reveal the row."""

    def change(site: str, request: Message) -> Message:
        # an answer to a changed request counts for nothing: the server would wait for the others
        if site != "graz" or request.fields.get("step") != "join":
            return request
        sites = {**request.fields["sites"], "graz": {"batch": 1}}
        return replace(request, fields={**request.fields, "sites": sites})

    write_tables(tmp_path / "whole")
    inner = write_federation(tmp_path, JOB | {"federation": {"grace": 0.2}}, milling_pack)
    with pytest.raises(FederationError, match="the training settings of site graz differ"):
        run_server(tmp_path / "federation", Forgery(inner, change_request=change), report=False)


@pytest.mark.parametrize(
    "damage",
    [
        lambda tensors: {**tensors, "moments/inputs": tensors["moments/inputs"] * math.nan},
        lambda tensors: {**tensors, "labels": -tensors["labels"] - 1},
        lambda tensors: {**tensors, "unknown": tensors["unknown"][:1]},
        lambda tensors: {},
    ],
    ids=["nan", "negative", "shape", "nothing"],
)
def test_impossible_summaries_name_their_site(tmp_path, milling_pack, damage):
    def change(reply: Reply) -> Message:
        message = reply.message
        assert message is not None
        is_summary = reply.site == "wien" and "summary" in message.fields
        return replace(message, tensors=damage(message.tensors)) if is_summary else message

    write_tables(tmp_path / "whole")
    inner = write_federation(tmp_path, JOB, milling_pack)
    with pytest.raises(FederationError, match=r"^site wien sent an answer"):
        run_server(tmp_path / "federation", Forgery(inner, change_answer=change), report=False)


@pytest.mark.parametrize("rows", [(800, 200, -5, 0), (800, 200, 0.5, 0), (800, 200, 0)])
def test_impossible_numbers_of_rows_are_reported_with_their_range(rows):
    moments = Moments(count=np.ones(1), mean=np.zeros(1), squares=np.zeros(1))
    labels, unknown = np.zeros((4, 2), np.int64), np.zeros(1, np.int64)
    found = SiteSummary(task="detection", rows=rows, labels=labels, inputs=moments, unknown=unknown)
    with pytest.raises(ValueError, match=r"\] instead of 4 whole numbers of rows, 0 \.\. "):
        summary_of(*summary_parts(found))


def test_a_job_for_an_invitation_contains_no_knowledge(tmp_path):
    from fedkg.deploy.federation_folders import create_federation

    (tmp_path / "rules.fkg").write_text(GRADES)
    job = job_of_table(model={"hidden": [5], "inject": {}}, data={"server": 0.0})
    job |= {"rules": ["rules.fkg"], "sites": {"graz": {"trust": 0.5}, "linz": None}}
    job.pop("pack", None)
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    with pytest.raises(
        JobError, match=r"sites\.graz: `knowledge` and `trust` cannot be in a job that sites"
    ):
        create_federation(tmp_path / "job.yaml", tmp_path / "federation", sites=["graz", "linz"])
    assert not (tmp_path / "federation").exists()
