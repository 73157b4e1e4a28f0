"""Sites that score their own models on a public probe: equal results, and what a lie does."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import yaml
from test_job_over_sites import (
    RULES,
    SIZES,
    Capture,
    Forgery,
    changed,
    check_equal,
    compiled,
    own_table,
    run_together,
    write_federation,
    write_tables,
)

from fedkg.deploy.federation_job_and_pack import JobFiles
from fedkg.deploy.message import Message
from fedkg.deploy.server import run_server
from fedkg.deploy.site_check import list_site_disclosures
from fedkg.errors import JobError
from fedkg.jobs import run_job
from fedkg.jobs.folder import RunFolder


@pytest.fixture(autouse=True)
def plain_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sites train without compiled loops; a run in one process must do the same."""
    monkeypatch.setenv("FEDKG_KERNELS", "off")


@pytest.fixture(scope="module")
def pack() -> bytes:
    return compiled(RULES)


def shares(folder):
    return [
        (row["round"], row["client"], row["validity"], row["alpha"])
        for row in RunFolder(folder).rows("clients.csv")
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm",
    ["scfa", {"preset": "scfa", "aggregate": {"multi_krum": {"attackers": 0, "keep": 2}}}],
)
def test_honest_scores_give_the_run_of_one_process(tmp_path, pack, algorithm):
    """The server makes of them what it would make of its own; nothing else differs."""
    name = algorithm if isinstance(algorithm, str) else "own"
    job = changed(algorithm=name, data=own_table(tmp_path), scoring={"at": "sites"})
    if name == "own":
        job["algorithms"] = {"own": algorithm}
    write_tables(tmp_path / "whole")
    capture = Capture(write_federation(tmp_path, job, pack, share_rows=False))
    together = run_together(tmp_path, job, pack)
    apart = run_server(tmp_path / "federation", capture, report=False).folder
    check_equal(apart, together, rows_shared=False)
    assert shares(apart) == shares(together)
    at_server = {**job, "scoring": {"at": "server"}}
    (tmp_path / "server").mkdir()
    data = {**job["data"], "sites_file": str(tmp_path / "whole" / "sites.yaml")}
    fields = {**at_server, "data": data, "pack": str(tmp_path / "rules.fkgpack")}
    usual = run_job(fields, out=tmp_path / "server" / "run", report=False).folder
    assert shares(usual) == shares(together)
    told = [one.tensors["violation"] for _, one in capture.answers if "violation" in one.tensors]
    assert len(told) == 3 * len(SIZES)
    assert all(one.shape == (2,) for one in told)
    for site in SIZES:
        listed = {one.name for one in list_site_disclosures(tmp_path / site)}
        assert "violation" in listed


@pytest.mark.slow
def test_layers_that_stay_at_a_site_enter_its_score(tmp_path, pack):
    """The server has no such layers: alone, it measures nothing."""
    job = changed(
        algorithm="fedrep",
        data=own_table(tmp_path),
        model={"hidden": [5, 4]},
        scoring={"at": "sites"},
    )
    write_tables(tmp_path / "whole")
    transport = write_federation(tmp_path, job, pack, share_rows=False)
    together = run_together(tmp_path, job, pack)
    apart = run_server(tmp_path / "federation", transport, report=False).folder
    assert shares(apart) == shares(together)
    assert all(validity for _, _, validity, _ in shares(apart))


def test_a_site_can_lie_about_its_score_and_only_about_shares(tmp_path, pack):
    job = changed(algorithm="scfa", data=own_table(tmp_path), scoring={"at": "sites"})
    write_tables(tmp_path / "whole")
    inner = write_federation(tmp_path, job, pack, share_rows=False)

    def claim(value: float):
        def change(reply) -> Message:
            answer = reply.message
            if reply.site != "wien" or "violation" not in answer.tensors:
                return answer
            lie = torch.full_like(answer.tensors["violation"], value)
            return replace(answer, tensors={**answer.tensors, "violation": lie})

        return change

    forgery = Forgery(inner=inner, change_answer=claim(2.0))
    folder = run_server(tmp_path / "federation", forgery, report=False).folder
    rows = [row for row in RunFolder(folder).rows("clients.csv") if row["client"] == "wien"]
    assert rows
    assert not any(float(row["alpha"] or 0) for row in rows)
    assert "its score is not a share" in (folder / "exclusions.csv").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("robust", [False, True])
def test_an_inflated_score_adds_weight_except_with_robust_scfa(tmp_path, pack, robust):
    """Simulated: the liar gains weight under SCFA. A robust aggregate bounds its share, and the
    scores only remove weight from shares.
    """
    base = changed(
        algorithm="own",
        data=own_table(tmp_path),
        scoring={"at": "sites", "soft_tolerance": 0.0},
        evaluation={"threshold": 0.5},
    )
    section = {"preset": "scfa"}
    if robust:
        section["aggregate"] = {"multi_krum": {"attackers": 0, "keep": 3}}
    base["algorithms"] = {"own": section}
    write_tables(tmp_path / "whole")
    (tmp_path / "rules.fkgpack").write_bytes(pack)
    data = {**base["data"], "sites_file": str(tmp_path / "whole" / "sites.yaml")}
    fields = {**base, "data": data, "pack": str(tmp_path / "rules.fkgpack")}
    found = {}
    for kind in ("none", "inflated_score"):
        attacks = {"kind": kind, "sites": ["graz"]} if kind != "none" else {"kind": kind}
        job = {**fields, "simulation": {"attacks": attacks}}
        folder = run_job(job, out=tmp_path / kind, report=False).folder
        [row] = [
            one
            for one in RunFolder(folder).rows("clients.csv")
            if one["client"] == "graz" and one["round"] == "1"
        ]
        found[kind] = float(row["validity"]), float(row["alpha"])
    assert found["none"][0] < found["inflated_score"][0] == 1
    if robust:
        assert found["inflated_score"][1] <= 1 / 3 + 1e-12
    else:
        assert found["inflated_score"][1] > found["none"][1]


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (changed(algorithm="scfa", scoring={"at": "sites"}), "rows of sites are not public"),
        (
            changed(simulation={"attacks": {"kind": "inflated_score"}}),
            "`inflated_score` changes scores that sites tell",
        ),
        (
            changed(scoring={"at": "sites"}, data={"server": 0.0}),
            "`scoring.at: sites` requires probe rows",
        ),
        (
            changed(
                scoring={"at": "sites"},
                privacy={"unit": "example", "epsilon": 5.0, "delta": 1e-5, "randomness": "system"},
            ),
            "scores that `privacy` does not cover",
        ),
    ],
)
def test_jobs_whose_scores_mean_nothing_are_rejected(tmp_path, pack, job, said):
    files = tmp_path / "federation"
    files.mkdir()
    (files / "job.yaml").write_text(yaml.safe_dump(job))
    (files / "rules.fkgpack").write_bytes(pack)
    with pytest.raises(JobError, match=said):
        JobFiles.read(files).joint_job({name: {} for name in SIZES})
