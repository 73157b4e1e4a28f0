"""`fedkg export` of runs with classes, knowledge and forecasts. The tests compute the answers again
with loops over the weights of the run, and judge them with the rules written out in NumPy.
"""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from command import Command, call
from onnx import TensorProto, helper, save_model
from safetensors.torch import save_file

from fedkg.export.exportable_run_model import KnowledgeColumns, RunKnowledge
from fedkg.jobs.checkpoint import load_state
from fedkg.jobs.experiment.knowledge_feature_columns import ColumnForm
from fedkg.jobs.experiment.site_knowledge import Lookup
from fedkg.jobs.experiment.trial import Trial
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.run_initial_files import reopen_run
from fedkg.jobs.trial_training import deployed_models
from fedkg.models import MLP, Params, predict

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")

COUNT = 10_000
SIGNALS = """
signal heat in degC span 0 .. 100
signal flow span 0 .. 10
signal line column "line"
"""


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Command:
    return partial(call, capsys)


def write_job(folder: Path, rules: str, output: str, **changes: Any) -> None:
    """A job on a table of three sites with heat, flow, line and an output."""
    dice = np.random.default_rng(3)
    heat, flow = dice.uniform(0, 100, 200).round(1), dice.uniform(0, 10, 200).round(1)
    answer: dict[str, Any] = {
        "grade": np.where(heat < 20, "A", np.where((heat > 70) & (flow > 5), "C", "B")),
        "load": (3 * heat + flow).round(1),
    }
    lines = [f"heat,flow,line,site,{output}"]
    lines += [
        f"{h},{f},{'AB'[row % 2]},{('north', 'south')[row % 2]},{a}"
        for row, (h, f, a) in enumerate(zip(heat, flow, answer[output], strict=True))
    ]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    (folder / "rules.fkg").write_text(SIGNALS + rules)
    document: dict[str, Any] = {
        "name": "t",
        "rules": ["rules.fkg"],
        "sites": {"north": {}, "south": {}},
        "data": {"set": "table", "path": "t.csv", "split": "column", "min_samples": 5},
        "model": {"kind": "mlp", "hidden": [4]},
        "algorithm": "fedavg",
        "training": {"rounds": 2, "participation": 1.0, "executor": "sequential"},
        "evaluation": {"local_baseline": False},
    }
    for key, value in changes.items():
        own = document.get(key)
        document[key] = {**own, **value} if isinstance(own, dict) else value
    (folder / "job.yaml").write_text(yaml.safe_dump(document))


def export(cli: Command, folder: Path, *options: str) -> dict[str, Any]:
    """Run the job, export its model, and return the certificate."""
    done = cli("run", folder / "job.yaml", "--out", folder / "run")
    assert done.code == 0, done.err
    done = cli("export", folder / "run", "-o", folder / "out", *options)
    assert done.code == 0, done.err
    certificate: dict[str, Any] = json.loads((folder / "out/certificate.json").read_text())
    return certificate


def run_file(folder: Path, inputs: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(folder / "out/model.onnx")
    answers: np.ndarray = session.run(None, {"inputs": inputs})[0]
    return answers


def reopen(folder: Path) -> tuple[Trial, Params]:
    """The trial of a run, and the parameters of its first site."""
    opened = RunFolder(folder / "run")
    _, experiment, configs = reopen_run(opened, False)
    trial = experiment.build_trial(configs[0])
    return trial, deployed_models(trial).models(load_state(opened, configs[0].id))[0]


def network(trial: Trial, params: Params, inputs: np.ndarray) -> np.ndarray:
    """The outputs of the run's perceptron for rows in source units, with two NumPy products."""
    scaling = trial.samples.scaled.inputs
    weights = {name: value.double().numpy() for name, value in params.items()}
    x = (inputs - scaling.mean) / scaling.std
    hidden = np.maximum(x @ weights["layers.0.weight"].T + weights["layers.0.bias"], 0)
    found: np.ndarray = hidden @ weights["layers.1.weight"].T + weights["layers.1.bias"]
    return found


def random_rows() -> np.ndarray:
    """Rows of flow, heat, and whether the line is B; every second one meets thresholds."""
    rows = np.random.default_rng(5).uniform(0, [10, 100, 1], (COUNT, 3))
    rows[::2] = rows[::2].round()
    rows[:, 2] = np.arange(COUNT) % 3 == 0
    return rows


GRADES = """
label  grade classes A, B, C
rule cold {hard} require if heat < 20 degC then grade is A
rule lined {hard} require if line is "B" and heat > 60 degC then grade is not C
rule flowing require flow >= 0
"""
GUESS = """
range knowledge hot of grade
  when heat > 70 degC allow B, C
  otherwise allow any
predict knowledge guess of grade
  when flow > 5 and heat > 70 degC predict C
  otherwise predict B
"""


@pytest.mark.slow
def test_classes_satisfy_hard_rules_about_rows_and_categories(tmp_path, cli):
    write_job(tmp_path, GRADES.format(hard="hard"), "grade")
    certificate = export(cli, tmp_path)
    assert [one["name"] for one in certificate["inputs"]] == ["flow", "heat", "line=B"]
    assert [one["name"] for one in certificate["outputs"]] == ["A", "B", "C"]
    rows = random_rows()
    heat = rows[:, 1]
    lined = (heat > 60) & (rows[:, 2] == 1)
    answers = run_file(tmp_path, rows)
    assert (answers[heat < 20][:, 1:] == 0).all()
    assert (answers[lined][:, 2] == 0).all()
    trial, params = reopen(tmp_path)
    weights = np.exp(network(trial, params, rows))
    weights[heat < 20, 1:] = 0
    weights[lined, 2] = 0
    wanted = weights / weights.sum(1, keepdims=True)
    np.testing.assert_allclose(answers, wanted, atol=1e-5)
    status = {rule["name"]: (rule["status"], rule["violated"]) for rule in certificate["rules"]}
    assert status == {"cold": ("enforced", 0), "lined": ("enforced", 0)}


@pytest.mark.slow
def test_private_knowledge_about_classes_is_part_of_the_file_of_its_site(tmp_path, cli):
    declared = GRADES.partition("rule")[0]
    (tmp_path / "own.fkg").write_text(
        SIGNALS.replace('signal line column "line"', "") + declared + GUESS
    )
    write_job(
        tmp_path,
        GRADES.format(hard=""),
        "grade",
        model={"inject": {"trust": 0.6}},
        sites={"north": {"knowledge": {"rules": ["own.fkg"]}}, "south": {"trust": 0.2}},
    )
    certificate = export(cli, tmp_path, "--site", "north")
    rows = random_rows()
    answers = run_file(tmp_path, rows)
    trial, params = reopen(tmp_path)
    chances = np.exp(network(trial, params, rows))
    wanted = np.empty_like(chances)
    for row, (flow, heat, _) in enumerate(rows):
        allowed = np.array([heat <= 70, True, True])
        own = np.where(allowed, chances[row], 0)
        own /= own.sum()
        said = 2 if flow > 5 and heat > 70 else 1
        wanted[row] = 0.4 * own + 0.6 * (np.arange(3) == said)
    np.testing.assert_allclose(answers, wanted, atol=1e-5)
    assert (answers[rows[:, 1] > 70][:, 0] == 0).all()
    entries = {rule["name"]: rule["status"] for rule in certificate["rules"]}
    assert entries["hot"] == "enforced"
    assert entries["guess"] == "not evaluated"

    refused = cli("export", tmp_path / "run", "-o", tmp_path / "no")
    assert refused.code == 2, refused.err
    assert "--site" in refused.err
    assert not (tmp_path / "no").exists()


LOADS = """
output load in kg span 0 .. 400
rule light require if heat < 10 degC then load <= 40 kg
range knowledge usual of load
  when heat > 50 degC allow between 15 kg * flow and 320 kg
  otherwise allow any
"""


@pytest.mark.slow
def test_numbers_stay_in_the_range_of_knowledge(tmp_path, cli):
    write_job(
        tmp_path,
        LOADS,
        "load",
        model={"inject": {"trust": 0.3}},
        sites={"north": {"knowledge": {"train": "linear_regression"}}, "south": {}},
    )
    certificate = export(cli, tmp_path, "--site", "north")
    rows = random_rows()[:, :2]
    answers = run_file(tmp_path, rows)[:, 0]
    hot = rows[:, 1] > 50
    assert (answers >= 15 * rows[:, 0] - 1e-9)[hot].all()
    assert (answers <= 320 + 1e-9)[hot].all()
    trial, params = reopen(tmp_path)
    scaling = trial.samples.scaled.outputs
    plain = network(trial, params, rows)[:, 0] * scaling.std[0] + scaling.mean[0]
    # The site's predictor, fitted again by the normal equations.
    own = trial.problem.clients.x[0].double().numpy()[:, :2]
    own = own * trial.samples.scaled.inputs.std + trial.samples.scaled.inputs.mean
    y = trial.problem.clients.y[0].double().numpy().ravel() * scaling.std[0] + scaling.mean[0]
    centred = (own - own.mean(0)) / own.std(0)
    design = np.column_stack([np.ones(len(own)), centred])
    penalty = np.diag([0.0, 1.0, 1.0])
    weights = np.linalg.solve(design.T @ design + penalty, design.T @ y)
    said = np.column_stack([np.ones(COUNT), (rows - own.mean(0)) / own.std(0)]) @ weights
    for row in range(0, COUNT, 7):
        flow, heat = rows[row]
        low, high = (15 * flow, 320.0) if heat > 50 else (0.0, 400.0)
        kept = min(max(plain[row], low), high)
        wanted = 0.7 * kept + 0.3 * said[row] if low <= said[row] <= high else kept
        assert math.isclose(answers[row], wanted, abs_tol=0.02), (row, heat)
    entries = {rule["name"]: rule["status"] for rule in certificate["rules"]}
    assert entries["usual"] == "enforced"


LIMIT = """
predict knowledge limit of load
  when heat > 50 degC predict 320 kg
"""


@pytest.mark.slow
def test_a_prediction_at_the_end_of_a_range_does_not_leave_it(tmp_path, cli):
    """Shares of a trust that were rounded to float32 would add up to more than 1."""
    write_job(tmp_path, LOADS + LIMIT, "load", model={"inject": {"trust": 0.7}})
    export(cli, tmp_path)
    rows = random_rows()[:, :2]
    answers = run_file(tmp_path, rows)[:, 0]
    hot = rows[:, 1] > 50
    assert answers[hot].max() <= 320 + 1e-9
    trial, params = reopen(tmp_path)
    scaling = trial.samples.scaled.outputs
    plain = network(trial, params, rows)[:, 0] * scaling.std[0] + scaling.mean[0]
    kept = np.where(hot, np.clip(plain, 15 * rows[:, 0], 320), np.clip(plain, 0, 400))
    wanted = np.where(hot, 0.3 * kept + 0.7 * 320, kept)
    np.testing.assert_allclose(answers, wanted, rtol=1e-5, atol=1e-3)


def with_sources(folder: Path, rules: str, output: str, answers: int, cells: tuple[str, ...]):
    """Knowledge of north and south: a lookup table and a network of two layers, with its params."""
    keys = np.random.default_rng(8).integers(0, [100, 10], (200, 2))
    lines = [f'{h},{f},"{cells[h % 2]}",{cells[2 + h % 2]}' for h, f in np.unique(keys, axis=0)]
    (folder / "own.csv").write_text("\n".join(["heat,flow,allow,predict", *lines]))
    net = MLP(inputs=2, hidden=(5,), outputs=answers)
    metadata = {"features": '["heat", "flow"]', "mean": "[50, 5]", "std": "[30, 3]"}
    save_file(net.init(4), folder / "net.safetensors", metadata=metadata)
    known = {"model": "net.safetensors", "architecture": {"kind": "mlp", "hidden": [5]}}
    sites = {"north": {"knowledge": {"lookup": "own.csv"}}, "south": {"knowledge": known}}
    inject = {"trust": 0.6, "control": False, "policy": "repair"}
    write_job(folder, rules, output, model={"inject": inject}, sites=sites)
    rows = random_rows()
    rows[:2000, :2] = keys[np.arange(2000) % len(keys), ::-1]
    x = (torch.from_numpy(rows[:, 1::-1].copy()) - torch.tensor([50.0, 5.0])) / torch.tensor(
        [30.0, 3.0]
    )
    return rows, {(h, f) for h, f in keys.tolist()}, predict(net, net.init(4), x.float()).numpy()


@pytest.mark.slow
def test_lookup_tables_and_networks_about_classes_are_part_of_the_file(tmp_path, cli):
    cells = ("A, B", "B, C", "A", "C")
    rows, keys, answers = with_sources(tmp_path, GRADES.format(hard=""), "grade", 3, cells)
    certificate = export(cli, tmp_path, "--site", "north")
    entries = {one["name"]: one["status"] for one in certificate["rules"]}
    assert entries["the lookup table"] == "enforced"
    trial, params = reopen(tmp_path)
    chances = np.exp(network(trial, params, rows))
    chances /= chances.sum(1, keepdims=True)
    wanted = chances.copy()
    for row, (flow, heat, _) in enumerate(rows):
        if (heat, flow) in keys:
            own = chances[row] * (np.arange(3) != (0 if heat % 2 else 2))
            wanted[row] = 0.4 * own / own.sum() + 0.6 * (np.arange(3) == (2 if heat % 2 else 0))
    assert (wanted == 0).any(1).sum() > 2000
    np.testing.assert_allclose(run_file(tmp_path, rows), wanted, atol=1e-5)
    assert ((run_file(tmp_path, rows) == 0) == (wanted == 0)).all()
    rows[0, 1] = np.nan  # the features of no row; the model takes the mean
    own = network(
        trial, params, np.where(np.isnan(rows[:1]), trial.samples.scaled.inputs.mean, rows[:1])
    )
    np.testing.assert_allclose(
        run_file(tmp_path, rows[:1]), np.exp(own) / np.exp(own).sum(), atol=1e-5
    )

    done = cli("export", tmp_path / "run", "-o", tmp_path / "out", "--site", "south")
    assert done.code == 0, done.err
    found = 0.4 * chances + 0.6 * np.eye(3)[answers.argmax(1)]
    np.testing.assert_allclose(run_file(tmp_path, rows)[1:], found[1:], atol=1e-5)


def test_large_lookup_tables_need_memory_for_the_inputs_alone():
    keys = np.random.default_rng(9).permutation(1 << 12)[:, None] // [64, 1] % [64, 64] - 1.0
    keys[keys == 7] = np.nan
    keys[keys == 9] = np.inf
    lookup = Lookup(
        positions=(2, 0),
        keys=keys[:-5],
        rows={key.tobytes(): row for row, key in enumerate(keys[:-5])},
        allowed=None,
        predicted=np.arange(len(keys) - 5.0),
    )
    form = ColumnForm(classes=("a",), outputs=None, channels={}, kinds=("predict",))
    model = KnowledgeColumns(RunKnowledge(form=form, sources=(lookup,)), ("x", "y", "z"))
    rows = np.concatenate([keys[::-1, [1, 0, 0]], np.full((1, 3), 7.5), np.full((1, 3), 99.0)])
    expected = np.nan_to_num(lookup(rows).predicted + 1)
    np.testing.assert_array_equal(model(torch.from_numpy(rows))[:, 1], expected)
    graph = torch.export.export(model, (torch.from_numpy(rows),)).graph
    found = [one.meta["val"] for one in graph.nodes if one.op == "call_function"]
    assert max(one.numel() for one in found if one is not None) < 10 * rows.size


@pytest.mark.slow
def test_lookup_tables_and_networks_about_numbers_are_part_of_the_file(tmp_path, cli):
    cells = ("0 .. 90", "100 .. 110", "45", "105.5")
    rows, keys, answers = with_sources(
        tmp_path, LOADS.partition("range")[0] + "rule flowing require flow >= 0\n", "load", 1, cells
    )
    rows = rows[:, :2]
    export(cli, tmp_path, "--site", "north")
    trial, params = reopen(tmp_path)
    scaling = trial.samples.scaled.outputs
    plain = network(trial, params, rows)[:, 0] * scaling.std[0] + scaling.mean[0]
    even, odd = (
        0.4 * plain.clip(low, high) + 0.6 * said
        for low, high, said in ((0, 90, 45), (100, 110, 105.5))
    )
    listed = np.array([(heat, flow) in keys for flow, heat in rows])
    wanted = np.where(listed, np.where(rows[:, 1] % 2, odd, even), plain)
    np.testing.assert_allclose(run_file(tmp_path, rows)[:, 0], wanted, rtol=1e-4, atol=1e-2)

    done = cli("export", tmp_path / "run", "-o", tmp_path / "out", "--site", "south")
    assert done.code == 0, done.err
    wanted = 0.4 * plain + 0.6 * answers[:, 0]
    np.testing.assert_allclose(run_file(tmp_path, rows)[:, 0], wanted, rtol=1e-4, atol=1e-2)


@pytest.mark.slow
def test_an_onnx_model_of_a_site_is_refused_by_name(tmp_path, cli):
    node = helper.make_node("Gather", ["x", "places"], ["y"], axis=1)
    sizes = {"x": ["n", 1], "y": ["n", 3]}
    x, y = (helper.make_tensor_value_info(k, TensorProto.FLOAT, v) for k, v in sizes.items())
    places = helper.make_tensor("places", TensorProto.INT64, [3], [0, 0, 0])
    model = helper.make_model(helper.make_graph([node], "net", [x], [y], [places]))
    helper.set_model_props(model, {"features": '["heat"]'})
    save_model(model, str(tmp_path / "net.onnx"))
    sites = {"north": {"knowledge": {"model": "net.onnx"}}, "south": {}}
    write_job(
        tmp_path, GRADES.format(hard=""), "grade", model={"inject": {"trust": 0.6}}, sites=sites
    )
    assert cli("run", tmp_path / "job.yaml", "--out", tmp_path / "run").code == 0
    done = cli("export", tmp_path / "run", "-o", tmp_path / "out", "--site", "north")
    assert done.code == 1, done.err
    assert "sites.north.knowledge" in done.err
    assert not (tmp_path / "out").exists()


TANKS = """
timeline step 1 h  time column "time"  trace column "plant"  ends clip
signal inflow in t span 0 .. 50
output level in t span 0 .. 50
rule filled hard require level >= 5 t
{calm}
"""
CALM = "rule calm hard require if level >= 5.4 t then eventually within 2 h level <= 5.2 t"


def write_tanks(folder: Path, calm: str, model: dict[str, Any]) -> None:
    dice = np.random.default_rng(3)
    lines = ["time,plant,inflow,level"]
    for place, plant in enumerate("ab"):
        swing = 5 + 6 * np.sin(np.arange(70) / 3 + place) + dice.normal(0, 1, 70)
        lines += [
            f"2024-01-{1 + hour // 24:02d} {hour % 24:02d}:00,{plant},1,{max(value, 0):.3f}"
            for hour, value in enumerate(swing)
        ]
    (folder / "levels.csv").write_text("\n".join(lines) + "\n")
    (folder / "rules.fkg").write_text(TANKS.format(calm=calm))
    document = {
        "name": "tanks",
        "rules": ["rules.fkg"],
        "data": {
            "set": "table",
            "path": "levels.csv",
            "split": "sites",
            "min_samples": 2,
            "server": 0.2,
            "window": {"history": 8, "horizon": 5, "stride": 2, "targets": ["level"]},
        },
        "model": model,
        "training": {"rounds": 2, "participation": 1.0, "learning_rate": 0.5, "batch": 8},
        "evaluation": {"local_baseline": False},
        "algorithm": "fedavg",
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(document))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("calm", "model"),
    [
        ("", {"kind": "mlp", "hidden": [4]}),
        (CALM, {"kind": "gru", "hidden": 4, "layers": 1}),
        (CALM, {"kind": "transformer", "width": 4, "layers": 1, "heads": 2}),
    ],
)
def test_forecasts_satisfy_hard_rules_over_time(tmp_path, cli, calm, model):
    write_tanks(tmp_path, calm, model)
    certificate = export(cli, tmp_path)
    assert certificate["steps"] == 8
    assert certificate["outputs"] == [{"name": "level", "meaning": "value", "steps": 5}]
    names = [one["name"] for one in certificate["inputs"]]
    windows = np.random.default_rng(6).uniform(0, 12, (COUNT, 8, len(names)))
    level = run_file(tmp_path, windows)[:, :, 0]
    assert level.shape == (COUNT, 5)
    assert level.min() >= 5 - 1e-9
    if calm:
        for step in range(5):
            later = level[:, step : step + 3].min(1) <= 5.2 + 1e-9
            assert ((level[:, step] < 5.4) | later).all()

    # The model of the run, in float32: ties between two nearest traces may be decided otherwise.
    trial, params = reopen(tmp_path)
    scaled = trial.samples.scaled
    some = torch.from_numpy((windows[:500] - scaled.inputs.mean) / scaled.inputs.std)
    own = predict(trial.problem.model, params, some.float()).double().numpy()
    wanted = own * scaled.outputs.std[0] + scaled.outputs.mean[0]
    same = np.isclose(level[:500], wanted, atol=1e-4).all(1)
    assert same.mean() > 0.98, np.abs(level[:500] - wanted).max(1)[~same]
    status = {rule["name"]: (rule["status"], rule["violated"]) for rule in certificate["rules"]}
    assert set(status.values()) == {("enforced", 0)}
