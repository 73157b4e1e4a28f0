"""`fedkg export` writes the model of a finished run; onnxruntime then satisfies its hard rules."""

from __future__ import annotations

import json
import re

import numpy as np
import onnxruntime
import pytest
from command import call

RULES = """
signal feed in kg/h span 0 .. 120
signal temp in degC span 0 .. 100
output fault in probability span 0 .. 1
rule quiet hard require if temp < 40 degC then fault <= 0.3
rule alarm hard require if feed > 90 kg/h and temp > 70 degC then fault >= 0.6
rule mono {} require fault never falls as feed rises
"""


TABLE = "sites: [north, south]\ndata: {path: t.csv, label: fault}\n"


def finished_run(folder, capsys, hard="", data=TABLE, rules=RULES):
    random = np.random.default_rng(1)
    rows = np.round(random.uniform([10, 20], [110, 90], (300, 2)), 1)
    lines = [f"{feed},{temp},{int(feed + temp > 120)}" for feed, temp in rows]
    (folder / "t.csv").write_text("\n".join(["feed,temp,fault", *lines]))
    (folder / "rules.fkg").write_text(rules.replace("{}", hard))
    (folder / "job.yaml").write_text(
        f"name: t\nrules: [rules.fkg]\n{data}model: {{hidden: [4]}}\nalgorithm: fedavg\n"
        "training: {rounds: 1, participation: 1.0, executor: stacked}\n"
        "evaluation: {local_baseline: false}\n"
    )
    done = call(capsys, "run", folder / "job.yaml", "--out", folder / "run")
    assert done.code == 0, done.err


@pytest.mark.slow
def test_the_model_of_a_run_satisfies_its_hard_rules(tmp_path, capsys):
    finished_run(tmp_path, capsys)
    done = call(capsys, "export", tmp_path / "run", "-o", tmp_path / "out", "--site", "south")
    assert done.code == 0, done.err
    certificate = json.loads((tmp_path / "out/certificate.json").read_text())
    status = {rule["name"]: rule["status"] for rule in certificate["rules"]}
    assert status == {"quiet": "enforced", "alarm": "enforced", "mono": "not evaluated"}
    assert certificate["run"] == {
        "folder": "run",
        "trial": certificate["run"]["trial"],
        "site": "south",
        "round": 1,
    }
    session = onnxruntime.InferenceSession(tmp_path / "out/model.onnx")
    x = np.round(np.random.default_rng(2).uniform(0, [120, 100], (10_000, 2)))
    fault = session.run(None, {"inputs": x})[0][:, 0]
    feed, temp = x.T
    assert fault[temp < 40].max() <= 0.3
    assert fault[(feed > 90) & (temp > 70)].min() >= 0.6

    wrong = call(capsys, "export", tmp_path / "run", "-o", tmp_path / "no", "--site", "west")
    assert (wrong.code, "west" in wrong.err, (tmp_path / "no").exists()) == (2, True, False)


def test_a_hard_rule_that_compares_answers_is_named(tmp_path, capsys):
    finished_run(tmp_path, capsys, "hard")
    done = call(capsys, "export", tmp_path / "run", "-o", tmp_path / "out")
    assert done.code == 1, done.err
    assert "`mono` cannot be enforced" in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_trial_with_projection_is_preferred_and_named(tmp_path, capsys):
    (tmp_path / "sites.yaml").write_text("sites: {north: {url: t.csv}, south: {url: t.csv}}\n")
    data = "data: {set: table, sites_file: sites.yaml, test: 0.2, server: 0.1}\n"
    compare = "compare: {training.projection: [false, true]}\n"
    finished_run(tmp_path, capsys, data=data + compare)
    first, projected = (one["id"] for one in json.loads((tmp_path / "run/trials.json").read_text()))
    done = call(capsys, "export", tmp_path / "run", "-o", tmp_path / "out")
    assert f"trial: {projected} (choose another one with --trial)" in done.out
    assert re.search(r"verified on 10,000 random inputs, in \d+\.\d s", done.out)
    assert json.loads((tmp_path / "out/certificate.json").read_text())["run"]["trial"] == projected
    done = call(
        capsys, "export", tmp_path / "run", "-o", tmp_path / "other", "--trial", first, "--json"
    )
    assert json.loads(done.out)["run"]["trial"] == first

    done = call(capsys, "predict", tmp_path / "run", "-o", tmp_path / "answers.csv")
    assert f"by trial {projected}," in done.out, done.err
    paths = (tmp_path / "rules.fkg", tmp_path / "t.csv", "--baseline", tmp_path / "run")
    asked = call(capsys, "monitor", *paths)
    assert f"baseline: trial {projected} of {tmp_path / 'run'}" in asked.err

    def drift_states(done):
        rules = json.loads(done.out.splitlines()[-1])["rules"]
        return {name: one["drift"]["state"] for name, one in rules.items()}

    assert drift_states(asked)["quiet"] == "higher"
    # A count under another limit says nothing about drift; the same limit in other words does.
    rules = (tmp_path / "rules.fkg").read_text()
    (tmp_path / "rules.fkg").write_text(
        rules.replace("fault <= 0.3", "fault <= 0.2").replace("feed > 90 kg/h", "feed > 0.09 t/h")
    )
    changed = call(capsys, "monitor", *paths)
    assert (
        f"no drift of a rule that differs from {tmp_path / 'run'}: quiet: stricter" in changed.err
    )
    assert "fault <= 0.3 -> if temp < 40 degC then fault <= 0.2\n" in changed.err
    expected = drift_states(asked) | {"quiet": "unknown"}
    assert drift_states(changed) == expected, changed.err


def test_drift_from_a_run_follows_new_names_and_needs_no_compiler(tmp_path, capsys, monkeypatch):
    rules = RULES.partition("rule")[0] + "rule cold require temp < 70 degC\n"
    finished_run(tmp_path, capsys, rules=rules)

    def monitor(text):
        (tmp_path / "rules.fkg").write_text(text)
        arguments = ("--baseline", tmp_path / "run", "--verdicts", "none")
        done = call(capsys, "monitor", tmp_path / "rules.fkg", tmp_path / "t.csv", *arguments)
        [(name, rule)] = json.loads(done.out.splitlines()[-1])["rules"].items()
        return name, rule["drift"]["state"], done.err

    assert monitor(rules.replace("cold", "cool")) == ("cool", "none", "")
    *state, note = monitor(rules.replace("cold", "cool").replace("70", "60"))
    assert state == ["cool", "unknown"]
    assert "cool: added: temp < 60 degC" in note
    # The run's contract also has the output that the job trains and no rule reads.
    monkeypatch.setattr("fedkg.authoring.compare_packs", None)
    assert monitor(rules) == ("cold", "none", "")
