"""Findings of a run: from its folder to the graph and to candidate rules."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command import call

from fedkg import authoring
from fedkg.errors import JobError, UsageError
from fedkg.jobs import run_job
from fedkg.jobs.folder import ENVIRONMENT, RESULTS, RunFolder
from fedkg.jobs.learned_results import read_learned

RULES = """
timeline step 1 h ends clip
output volume span 0 .. 20000
use rules templates.operational_range
rule no_negative kind physical require volume >= 0
infer early per client find ?low, ?high in operational_range(volume, ?low, ?high, 0, 2)
infer late per run find ?low, ?high in operational_range(volume, ?low, ?high, 3, 5)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learned")
    (folder / "rules.fkg").write_text(RULES)
    window = {"history": 6, "horizon": 6, "stride": 6, "targets": ["volume"], "gaps": "interpolate"}
    job = {
        "name": "day",
        "rules": [str(folder / "rules.fkg")],
        "data": {"set": "traffic", "size": 120, "clients": 3, "min_samples": 3, "window": window},
        "model": {"kind": "rnn", "hidden": 2, "layers": 1},
        "training": {
            "rounds": 1,
            "participation": 1.0,
            "learning_rate": 0.05,
            "batch": 8,
            "executor": "stacked",
        },
        "evaluation": {"local_baseline": False},
        "algorithm": "fedavg",
    }
    return run_job(job, out=folder / "run", report=False).folder


def test_what_was_mined_at_each_site_and_in_all(run: Path) -> None:
    learned = read_learned(run)
    own = [found for found in learned.properties if found.inference == "early"]
    assert len({found.client for found in own}) == 3
    (together,) = [found for found in learned.properties if found.inference == "late"]
    assert together.client == ""
    assert together.traces == sum(found.traces for found in own)
    assert all(
        [number.name for number in found.numbers] == ["low", "high"] for found in learned.properties
    )
    assert all(found.numbers[0].value <= found.numbers[1].value for found in learned.properties)
    assert learned.step == 3600
    assert learned.window == ("2024-01-01T00:00:00", "2024-01-05T23:00:00")
    assert together.window == max((found.window for found in own), key=str)
    assert all(found.window is not None and found.window[0] == learned.window[0] for found in own)
    assert all(
        found.window is not None and "2024-01-04" < found.window[1] < learned.window[1]
        for found in own
    )
    assert [one.rule for one in learned.evidence if one.about == "model"] == ["no_negative"]


def test_from_a_run_to_rules_that_compile(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(capsys, "ontology", "learned", str(run), "-o", "learned.trig").code == 0
    made = call(capsys, "suggest", "learned.trig", "-o", "candidates.fkg")
    assert "2 rules" in made.out
    text = Path("candidates.fkg").read_text()
    assert call(capsys, "suggest", str(run)).out.strip() == text.strip()
    assert "data from 2024-01-01T00:00:00 to 2024-01-05T23:00:00)" in text.replace("\n# ", " ")
    assert "each, from 2024-01-01T00:00:00 to" in text.replace("\n# ", " ")
    pack = authoring.compile([run.parent / "rules.fkg", "candidates.fkg"])
    assert {"early_everywhere", "late_everywhere"} <= {rule.name for rule in pack.manifest.rules}


def test_one_site_and_what_is_not_known(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "rule early_station_2 " in call(capsys, "suggest", str(run), "--client", "station 2").out
    refused = call(capsys, "suggest", str(run), "--client", "station 9")
    assert (refused.code, "station 1" in refused.err) == (2, True)


def test_an_unfinished_run_is_rejected(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run folder"):
        read_learned(tmp_path)
    begun = RunFolder(tmp_path)
    begun.write_json(ENVIRONMENT, {})
    with pytest.raises(UsageError, match="is not finished"):
        read_learned(tmp_path)


def test_a_damaged_run_is_rejected(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / RESULTS).unlink()
    with pytest.raises(JobError, match=r"results\.json is missing"):
        read_learned(copy)


def test_a_graph_without_findings_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plant.ttl").write_text("<urn:a> <urn:b> <urn:c> .\n")
    refused = call(capsys, "suggest", str(tmp_path / "plant.ttl"))
    assert (refused.code, "contains no findings" in refused.err) == (2, True)


def test_half_a_graph_of_findings_is_rejected(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = tmp_path / "learned.trig"
    assert call(capsys, "ontology", "learned", str(run), "-o", str(graph)).code == 0
    text = graph.read_text()
    graph.write_text(text[: 2 * len(text) // 3])
    refused = call(capsys, "suggest", str(graph))
    assert (refused.code, "FKG103" in refused.err) == (1, True)
