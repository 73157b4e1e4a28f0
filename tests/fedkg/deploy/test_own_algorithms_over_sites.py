"""Own algorithms and aggregation rules in a federation: stated before consent, run with consent
alone, equal to a run in one process, and never more than stated.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from federation_folders import SITES
from test_code_over_sites import write_job
from warm_processes import CONTEXT

from fedkg.deploy.federation_folders import create_federation, join_federation
from fedkg.deploy.flower.simulation_folder import create_simulation
from fedkg.deploy.server import run_server
from fedkg.deploy.site import open_site
from fedkg.deploy.site_process import is_served, serve
from fedkg.deploy.transport import LoopbackTransport, SocketTransport
from fedkg.errors import JobError, UsageError
from fedkg.jobs import run_job
from fedkg.jobs.checkpoint import load_state
from fedkg.jobs.folder import RunFolder

TUTORIAL = Path(__file__).parents[3] / "docs" / "tutorial" / "own-algorithms.md"

RULE = """
from fedkg.federated.server.weighted_mean import WeightedMean


class Half(WeightedMean):
    def finish(self, fold):
        return {name: one / 2 for name, one in super().finish(fold).items()}
"""

SNEAKY = """
from dataclasses import dataclass, replace

from fedkg.federated import Algorithm
from fedkg.federated.client.optimisers import SGD


@dataclass(frozen=True)
class Talkative(SGD):
    def finish(self, setting, variables, carry):
        outcome = super().finish(setting, variables, carry)
        if not any(one.any() for one in outcome.update.values()):
            return outcome  # the step that states its messages
        return replace(outcome, shared={"local/rows": setting.context.samples.double()})


def sneaky():
    return Algorithm(name="sneaky", local=Talkative())


def pooling():
    return Algorithm(name="pooling", pooled=True)
"""


@pytest.fixture(autouse=True)
def plain_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sites train without compiled loops; a run in one process must do the same."""
    monkeypatch.setenv("FEDKG_KERNELS", "off")


def write_own_job(folder: Path, **fields: object) -> Path:
    """The job of three sites with FedDyn from the tutorial and an own aggregation rule."""
    path = write_job(folder)
    feddyn = re.search(r'title="feddyn.py"\n(.*?)```', TUTORIAL.read_text(), re.S)
    assert feddyn is not None
    (folder / "own").mkdir()
    (folder / "own" / "feddyn.py").write_text(feddyn[1])
    (folder / "own" / "half.py").write_text(RULE)
    (folder / "own" / "sneaky.py").write_text(SNEAKY)
    document = yaml.safe_load(path.read_text())
    del document["algorithm"]
    document["model"] = {"kind": "mlp", "hidden": [3]}
    document["algorithms"] = {"half": {"aggregate": "own/half.py:Half"}}
    document["compare"] = {"algorithm": ["own/feddyn.py:feddyn", "half"]}
    path.write_text(yaml.safe_dump({**document, **fields}))
    return path


def join_all(job: Path, server: Path) -> None:
    create_federation(job, server, sites=SITES, trust_code=True)
    for name in SITES:
        invitation, place = server / "invitations" / f"{name}.zip", job.parent / name
        join_federation(invitation, job.parent / "sites.yaml", place, trust_code=True)


def require_equal_runs(apart: Path, together: Path) -> None:
    """Tables and models of two runs are equal to the last bit."""
    for table in ("rounds.csv", "sites.csv"):
        one, two = RunFolder(apart).rows(table), RunFolder(together).rows(table)
        for row in (*one, *two):
            row.pop("seconds", None)
            row.pop("notes", None)
        assert one == two
        assert one
    for entry in RunFolder(together).read_json("trials.json"):
        first, second = (load_state(RunFolder(run), entry["id"]) for run in (apart, together))
        assert first is not None
        assert second is not None
        for name, value in second.models.items():
            assert torch.equal(first.models[name], value), (entry["id"], name)


def serve_site(folder: Path, socket: Path) -> None:
    torch.set_num_threads(1)
    serve(open_site(folder), socket)


@pytest.mark.slow
def test_own_algorithms_over_three_site_processes_equal_one_process(tmp_path):
    job, server = write_own_job(tmp_path), tmp_path / "server"
    join_all(job, server)
    for name in ("own", "models"):
        shutil.move(tmp_path / name, tmp_path / f"away-{name}")  # only the signed files are used
    sockets = {name: tmp_path / f"{name}.sock" for name in SITES}
    processes = [
        CONTEXT.Process(target=serve_site, args=(tmp_path / name, socket), daemon=True)
        for name, socket in sockets.items()
    ]
    try:
        for process in processes:
            process.start()
        for socket, process in zip(sockets.values(), processes, strict=True):
            while not is_served(socket):
                assert process.is_alive()
                process.join(0.2)
        apart = run_server(server, SocketTransport(sites=sockets), report=False).folder
    finally:
        for process in processes:
            process.kill()
    for name in ("own", "models"):
        shutil.move(tmp_path / f"away-{name}", tmp_path / name)
    together = run_job(job, out=tmp_path / "together", report=False, trust_code=True).folder
    require_equal_runs(apart, together)


def test_the_messages_of_an_own_algorithm_are_shown_before_consent(tmp_path):
    """Names, types and sizes: those of the model's parameters, and the loss."""
    job, server = write_own_job(tmp_path), tmp_path / "server"
    create_federation(job, server, sites=SITES, trust_code=True)
    with pytest.raises(UsageError) as refused:
        join_federation(
            server / "invitations" / "graz.zip", tmp_path / "sites.yaml", tmp_path / "graz"
        )
    text = str(refused.value)
    assert "feddyn.py, half.py" in text
    stated = json.loads((server / "messages.json").read_text())
    [messages] = stated.values()  # FedDyn's; an aggregation rule runs at the server alone
    shapes = {one["name"]: (one["shape"], one["dtype"]) for one in messages}
    parameters = [[3, 2], [3], [1, 3], [1]]
    assert sorted(shape for shape, _ in shapes.values()) == sorted([*parameters, []])
    assert {kind for _, kind in shapes.values()} == {"float32"}
    for one in messages:
        line = f"{one['name']}, float32 {one['shape']}, {one['bytes']} bytes"
        assert line in text


@pytest.mark.parametrize("stated", ["all but one", "nothing"])
def test_a_site_sends_no_more_than_stated(tmp_path, stated):
    job = write_own_job(tmp_path, compare={}, algorithm="own/sneaky.py:sneaky")
    server = tmp_path / "server"
    join_all(job, server)
    sites = {}
    for name in SITES:
        if stated == "nothing":
            (tmp_path / name / "invitation" / "messages.json").unlink()
        sites[name] = open_site(tmp_path / name)
    run = run_server(server, LoopbackTransport(sites=sites), report=False).folder
    told = "".join(path.read_text() for path in run.glob("*.csv"))
    for name in SITES:
        assert f"site {name} sends nothing" in told
    [entry] = RunFolder(run).read_json("trials.json")
    state = load_state(RunFolder(run), entry["id"])
    assert state is not None
    assert not any("rows" in name for name in (*state.clients, *state.joints))


def test_an_own_algorithm_that_pools_rows_is_rejected(tmp_path):
    job = write_own_job(tmp_path, compare={}, algorithm="own/sneaky.py:pooling")
    with pytest.raises(JobError, match="pools the rows"):
        create_federation(job, tmp_path / "server", sites=SITES, trust_code=True)
    assert not (tmp_path / "server").exists()


def test_a_simulation_of_own_code_is_rejected(tmp_path):
    with pytest.raises(JobError, match="a simulation cannot run the Python code"):
        create_simulation(write_own_job(tmp_path), tmp_path / "server")
    assert not (tmp_path / "server").exists()


def test_two_files_of_one_name_are_rejected(tmp_path):
    job = write_own_job(
        tmp_path, compare={"algorithm": ["own/feddyn.py:feddyn", "models/feddyn.py:other"]}
    )
    (tmp_path / "models" / "feddyn.py").write_text("def other():\n    pass\n")
    with pytest.raises(JobError, match=r"two files with the name feddyn\.py"):
        create_federation(job, tmp_path / "server", sites=SITES, trust_code=True)
