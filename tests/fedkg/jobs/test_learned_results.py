"""Findings of a run: from its folder to the graph and to candidate rules."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from command import call

from fedkg import authoring
from fedkg.errors import JobError, UsageError
from fedkg.jobs import run_job
from fedkg.jobs.folder import ENVIRONMENT, RESULTS, RunFolder
from fedkg.jobs.learned_knowledge_reader import read_learned

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


def test_accepted_suggestions_compile_and_carry_their_evidence(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(run, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    rules = shutil.copy(run.parent / "rules.fkg", tmp_path)
    before = call(capsys, "verify", folder).out
    who = ("--reviewer", "Ana Silva", "--reason", "as operators see it")
    done = call(capsys, "suggest", folder, "--accept", "early_everywhere", *who)
    assert (done.code, done.out.splitlines()[0]) == (0, "accepted early_everywhere")
    Path("late.fkg").write_text(
        "rule late_mine require initially follows operational_range(volume, 9, 2000, 3, 5)\n"
    )
    made = call(
        capsys,
        *("suggest", folder, "--edit", "late_everywhere=late.fkg", *who),
        *("--accepted", "-o", "accepted.fkg"),
    )
    assert (made.code, made.out.splitlines()[0]) == (0, "edited late_everywhere")
    assert call(capsys, "fmt", "accepted.fkg").code == 0
    assert call(capsys, "check", rules, "accepted.fkg").code == 0
    learned = read_learned(folder)
    own = [one for one in learned.properties if one.inference == "early"]
    shown = call(capsys, "explain", "early_everywhere", rules, "accepted.fkg", "--json").json
    assert list(shown["evidence"]) == ["evidence", "data", "run", "reviewed"]
    assert f"early: found in the series of {len(own)} clients, " in shown["evidence"]["evidence"]
    assert f"{min(one.confidence for one in own):.0%} or more" in shown["evidence"]["evidence"]
    assert shown["evidence"]["data"].startswith("from 2024-01-01T00:00:00 to 2024-01-05T23:00:00")
    assert learned.run in shown["evidence"]["run"]
    assert re.fullmatch(
        r"accepted by Ana Silva on \d{4}-\d{2}-\d{2}: as operators see it",
        shown["evidence"]["reviewed"],
    )
    edited = call(capsys, "explain", "late_mine", rules, "accepted.fkg").out
    assert '  proposed  rule late_everywhere "Found in the series of all clients' in edited
    reject = ("suggest", folder, "--reject", "early_everywhere", *who, "--accepted")
    assert "rule early_everywhere" not in call(capsys, *reject).out
    log = before.split()[-1]
    assert call(capsys, "verify", folder, "--checksum", log).code == 0
    lines = (folder / "reviews.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) == 3
    (folder / "reviews.jsonl").write_text("".join(lines[:2]))
    assert "reviews.jsonl is damaged" in call(capsys, "verify", folder).out
    refused = call(capsys, "suggest", folder, "--accept", "early_everywhere", *who)
    assert (refused.code, "reviews.jsonl is damaged" in refused.err) == (1, True)


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
