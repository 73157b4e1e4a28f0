"""A model from a Python file in a federation: signed, run with consent alone, equal results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from federation_folders import RULES, SITES
from test_job_over_sites import write_csv

from fedkg.data.ai4i import generate
from fedkg.deploy.federation_folders import create_federation, join_federation, write_invitation
from fedkg.deploy.federation_job_and_pack import JobFiles
from fedkg.deploy.proposed_rule_confirmation import receive_rules
from fedkg.deploy.server import run_server
from fedkg.deploy.site import open_site
from fedkg.deploy.transport import LoopbackTransport
from fedkg.errors import FederationError, JobError, UsageError
from fedkg.jobs import run_job
from fedkg.jobs.folder import RunFolder

NET = """\
from pathlib import Path

from torch import nn

Path(__file__).with_name("imported").touch()


def Net(width):
    return nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 1))
"""

JOB = {
    "name": "own-model",
    "rules": ["rules.fkg"],
    "data": {
        "server": 0,
        "sites_file": "sites.yaml",
        "features": ["Torque [Nm]", "Tool wear [min]"],
        "min_samples": 5,
    },
    "model": {"kind": "module", "path": "models/net.py:Net", "options": {"width": 3}},
    "training": {
        "rounds": 2,
        "participation": 1.0,
        "local_epochs": 1,
        "executor": "sequential",
        "threads": 1,
        "chunk": 1,
    },
    "evaluation": {"local_baseline": False},
    "algorithm": "fedavg",
}
ROWS = {"graz": 90, "linz": 60, "wien": 40}


@pytest.fixture(autouse=True)
def plain_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sites train without compiled loops; a run in one process must do the same."""
    monkeypatch.setenv("FEDKG_KERNELS", "off")


def write_job(folder: Path, **model: object) -> Path:
    (folder / "models").mkdir()
    (folder / "models" / "net.py").write_text(NET)
    (folder / "rules.fkg").write_text(RULES)
    sites = {name: {"url": f"{name}.csv"} for name in SITES}
    (folder / "sites.yaml").write_text(yaml.safe_dump({"sites": sites}))
    frame, start = generate(sum(ROWS.values()), 5), 0
    headers = ("Torque [Nm]", "Tool wear [min]", "Machine failure")
    for name, size in ROWS.items():
        part = {header: frame.numbers(header)[start : start + size] for header in headers}
        write_csv(folder / f"{name}.csv", part)
        start += size
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump({**JOB, "model": {**JOB["model"], **model}}))
    return path


@pytest.mark.slow
def test_a_model_of_a_file_trains_over_sites_with_consent(tmp_path):
    """Server and sites run the file of their folder, and learn what one process learns."""
    job, server = write_job(tmp_path), tmp_path / "server"
    with pytest.raises(UsageError, match="this job runs Python code"):
        create_federation(job, server, sites=SITES)
    create_federation(job, server, sites=SITES, trust_code=True)
    for name in SITES:
        invitation = server / "invitations" / f"{name}.zip"
        with pytest.raises(UsageError, match=r"contains Python code .*: net\.py"):
            join_federation(invitation, tmp_path / "sites.yaml", tmp_path / name)
        assert not (tmp_path / name).exists()
        join_federation(invitation, tmp_path / "sites.yaml", tmp_path / name, trust_code=True)
    assert not list(tmp_path.rglob("imported")), "no command has run the code"
    transport = LoopbackTransport(sites={name: open_site(tmp_path / name) for name in SITES})
    apart = run_server(server, transport, report=False).folder
    assert (tmp_path / "graz" / "invitation" / "imported").exists()
    together = run_job(job, out=tmp_path / "together", report=False, trust_code=True).folder
    for table in ("rounds.csv", "sites.csv"):
        one, two = RunFolder(apart).rows(table), RunFolder(together).rows(table)
        for row in (*one, *two):
            row.pop("seconds", None)
            row.pop("notes", None)
        assert one == two
        assert one


def test_a_site_without_consent_runs_nothing(tmp_path):
    """Consent is withdrawn in site.json, or code is not what was signed."""
    job, server = write_job(tmp_path), tmp_path / "server"
    create_federation(job, server, sites=SITES, trust_code=True)
    site = tmp_path / "graz"
    join_federation(
        server / "invitations" / "graz.zip", tmp_path / "sites.yaml", site, trust_code=True
    )
    fields = json.loads((site / "site.json").read_text())
    (site / "site.json").write_text(json.dumps({**fields, "trust_code": "yes"}))
    with pytest.raises(UsageError, match="consent of the site's operator"):
        open_site(site)
    (site / "site.json").write_text(json.dumps(fields))
    from fedkg.deploy.federation_folders import verify_invitation

    code = site / "invitation" / "net.py"
    code.write_text(NET + "\n")
    with pytest.raises(FederationError, match=r"net\.py"):
        verify_invitation(site / "invitation")
    assert not list(tmp_path.rglob("imported"))


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("net.py", NET + "\n", "other Python code"),
        ("more.py", "", "other Python code"),
        ("messages.json", '{"fedavg-s0": []}', "other messages of its algorithm"),
    ],
)
def test_new_rules_bring_no_other_code(tmp_path, file, text, said):
    """The consent to run code covers the files with which the site joined."""
    job, server, site = write_job(tmp_path), tmp_path / "server", tmp_path / "graz"
    create_federation(job, server, sites=SITES, trust_code=True)
    invitation = server / "invitations" / "graz.zip"
    join_federation(invitation, tmp_path / "sites.yaml", site, trust_code=True)
    (server / file).write_text(text)
    other = write_invitation(server, "graz", target=tmp_path / "other.zip").read_bytes()
    pack = JobFiles.read(server).identity["pack"]
    with pytest.raises(FederationError, match="rejects the new rules") as caught:
        receive_rules(site, other, pack, server / "rules.fkgpack")
    assert caught.value.received == f"an invitation with {said}"


@pytest.mark.parametrize("path", ["os:system", "../models/net.py:Net", "/tmp/other.py:Net"])
def test_a_job_cannot_name_code_outside_the_invitation(tmp_path, path):
    """A forged job of a server whose code a site trusts."""
    job, server = write_job(tmp_path), tmp_path / "server"
    create_federation(job, server, sites=SITES, trust_code=True)
    document = yaml.safe_load((server / "job.yaml").read_text())
    document["model"]["path"] = path
    (server / "job.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(JobError, match=r"does not contain|installed package"):
        JobFiles.read(server).site_job("graz", tmp_path / "sites.yaml")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"path": "torch.nn:Identity", "options": {}}, "names an installed package"),
        ({"path": "models/none.py:Net"}, r"none\.py does not exist"),
    ],
)
def test_code_that_an_invitation_cannot_contain_is_rejected(tmp_path, model, said):
    job = write_job(tmp_path, **model)
    with pytest.raises(JobError, match=said):
        create_federation(job, tmp_path / "server", sites=SITES, trust_code=True)
    assert not (tmp_path / "server").exists()
