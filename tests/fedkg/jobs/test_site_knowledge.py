"""Private knowledge of sites in jobs: each source, trust, policies, figures and messages.

The oracle evaluates definition 5.1 of Fan et al. 2022 with one loop over the rows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command import Done, call
from onnx import TensorProto, helper, save_model
from safetensors.torch import save_file

from fedkg.data import Scaling
from fedkg.errors import JobError
from fedkg.federated.model.constrained_outputs import Trust
from fedkg.federated.model.knowledge_bounded_models import (
    Bounded,
    BoundedChance,
    SiteTrust,
    informed,
)
from fedkg.jobs import run_job
from fedkg.jobs.checkpoint import load_state
from fedkg.jobs.experiment.experiment import Experiment, create_experiment
from fedkg.jobs.experiment.knowledge_feature_columns import ColumnForm
from fedkg.jobs.experiment.trial import Trial
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.rule_pack import load_rules
from fedkg.jobs.schema.job import Job
from fedkg.jobs.trial_expansion import plan_trials
from fedkg.models import MLP

RULES = """
signal heat in degC span 0 .. 100
signal flow span 0 .. 10
label  grade classes A, B, C
rule cold_is_a require if heat < 20 degC then grade is A
rule flow_is_real require flow >= 0
"""

OWN = """
signal heat in degC span 0 .. 100
signal flow span 0 .. 10
label  grade classes A, B, C
range knowledge hot of grade
  when heat > 70 degC allow B, C
  otherwise allow any
predict knowledge guess of grade
  when flow > 5 and heat > 70 degC predict C
  otherwise predict B
"""

SIZES = {"north": 60, "south": 90, "west": 45}
CLASSES = ["A", "B", "C"]


def measurements() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Heat, flow, the position of the grade, and the site of every row."""
    dice = np.random.default_rng(3)
    rows = sum(SIZES.values())
    heat, flow = dice.uniform(0, 100, rows).round(1), dice.uniform(0, 10, rows).round(1)
    grade = np.where(heat < 20, 0, np.where((heat > 70) & (flow > 5), 2, 1))
    site = np.repeat(list(SIZES), list(SIZES.values()))
    return heat, flow, grade, site


def document(folder: Path, **sites: Any) -> dict[str, Any]:
    """A job over three sites of unequal size."""
    heat, flow, grade, site = measurements()
    lines = [
        f"{h},{f},{CLASSES[g]},{s}" for h, f, g, s in zip(heat, flow, grade, site, strict=True)
    ]
    (folder / "table.csv").write_text("heat,flow,grade,site\n" + "\n".join(lines) + "\n")
    (folder / "rules.fkg").write_text(RULES)
    return {
        "name": "grades",
        "rules": [str(folder / "rules.fkg")],
        "sites": {name: sites.get(name, {}) for name in SIZES},
        "data": {
            "set": "table",
            "path": str(folder / "table.csv"),
            "split": "column",
            "min_samples": 5,
            "server": 0.1,
        },
        "model": {"kind": "mlp", "hidden": [4]},
        "algorithm": "fedavg",
        "training": {"rounds": 2, "participation": 1.0, "batch": 16, "executor": "sequential"},
        "evaluation": {"local_baseline": False},
    }


def prepare(fields: dict[str, Any]) -> tuple[Experiment, Trial]:
    """The experiment of a job, and its first trial."""
    job = Job.model_validate(fields)
    experiment = create_experiment(job, load_rules(job)[0])
    configs = plan_trials(job)
    experiment.prepare(configs)
    return experiment, experiment.build_trial(configs[0])


def chances(trial: Trial, place: int, rows: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The plain model's softmax and the trial's probabilities on a site's training samples."""
    params = {name: value[None] for name, value in trial.problem.model.init(7).items()}
    x = trial.problem.clients.x[place][:rows]
    plain = trial.problem.model.model.apply(params, x)[0].softmax(1)  # type: ignore[attr-defined]
    answers = trial.problem.model.apply(params, x)[0].exp()
    return plain.double().numpy(), answers.double().numpy()


def raw(trial: Trial, place: int) -> np.ndarray:
    """Heat and flow of a site's training samples, in their units."""
    scaling = trial.samples.scaled.inputs
    values = trial.problem.clients.x[place][:, :2].double().numpy() * scaling.std + scaling.mean
    return values[:, [scaling.names.index(name) for name in ("heat", "flow")]].round(3)


def mixed(s: np.ndarray, allowed: list[int], predicted: int | None, trust: float) -> np.ndarray:
    """Equations 2 and 3 for one row."""
    inside = np.array([s[k] if k in allowed else 0.0 for k in range(3)])
    inside = inside / inside.sum()
    if predicted is None:
        return inside
    return (1 - trust) * inside + trust * np.eye(3)[predicted]


def of_rules(heat: float, flow: float) -> tuple[list[int], int | None]:
    allowed = [1, 2] if heat > 70 else [0, 1, 2]
    return allowed, 2 if flow > 5 and heat > 70 else 1


def test_each_number_of_an_excluded_label_has_its_unit() -> None:
    scaling = Scaling(names=("level", "flow"), mean=np.array([1.0, 10.0]), std=np.array([2.0, 5.0]))
    form = ColumnForm(classes=(), outputs=scaling, channels={}, kinds=("range",))
    two_steps = np.array([1.0, 2.0, 0.0, -1.0])
    assert form.describe_label(two_steps, ("m", "m3/h")) == "level 3, 1 m; flow 20, 5 m3/h"


def test_a_label_that_no_rule_reads_can_be_trained(tmp_path: Path) -> None:
    (tmp_path / "own.fkg").write_text(OWN)
    fields = document(tmp_path, north={"knowledge": str(tmp_path / "own.fkg"), "trust": 0.5})
    declared = RULES.replace("if heat < 20 degC then grade is A", "heat >= 0 degC")
    (tmp_path / "rules.fkg").write_text(declared)
    _, trial = prepare(fields)
    assert (trial.output, trial.samples.source.classes) == ("grade", ("A", "B", "C"))
    plain, answers = chances(trial, 0)
    for (heat, flow), s, answer in zip(raw(trial, 0), plain, answers, strict=True):
        np.testing.assert_allclose(answer, mixed(s, *of_rules(heat, flow), 0.5), atol=1e-5)

    (tmp_path / "rules.fkg").write_text(declared + "output loss in kW\n")
    with pytest.raises(JobError, match=r"several outputs(.|\n)*grade, loss"):
        prepare(fields)
    _, trial = prepare(fields | {"output": "grade"})
    assert trial.output == "grade"


def test_each_site_uses_its_own_rules_and_trust(tmp_path: Path) -> None:
    (tmp_path / "own.fkg").write_text(OWN)
    own = {"knowledge": str(tmp_path / "own.fkg")}
    fields = document(tmp_path, north={**own, "trust": 0.6}, south=own)
    _, trial = prepare(fields)
    for place, trust in ((0, 0.6), (1, 0.3), (2, None)):
        plain, answers = chances(trial, place)
        for (heat, flow), s, answer in zip(raw(trial, place), plain, answers, strict=True):
            allowed, predicted = of_rules(heat, flow) if trust else ([0, 1, 2], None)
            expected = mixed(s, allowed, predicted, trust or 0.0)
            np.testing.assert_allclose(answer, expected, atol=1e-5)
            assert all(answer[k] == 0 for k in range(3) if k not in allowed)


@pytest.mark.slow
def test_predictions_for_a_table_use_the_knowledge_in_its_sites_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.fkg").write_text(OWN)
    own = {"knowledge": str(tmp_path / "own.fkg")}
    trained = {"knowledge": {"rules": str(tmp_path / "own.fkg"), "train": "logistic_regression"}}
    fields = document(tmp_path, north={**own, "trust": 0.6}, south=own, west=trained)
    fields |= {"model": {"hidden": [4], "inject": {"control": False, "trust": 0.05}}}
    run_job(fields, out=tmp_path / "run", report=False)
    _, trial = prepare(fields)
    state = load_state(RunFolder(tmp_path / "run"), "fedavg-s0")
    assert state is not None
    rows = [(h, f) for h in (5.0, 40.0, 75.0, 95.0) for f in (1.0, 4.0, 6.0, 9.0)]
    lines = "".join(f"{h},{f}\n" for h, f in rows)
    (tmp_path / "new.csv").write_text(f"heat,flow\n{lines}")
    (tmp_path / "torn.csv").write_text("heat [degC],grade\n> 70,B\n> 90,A\n")
    stated = {
        "north": {},
        "west": {},
        "new": {"knowledge": "own.fkg"},
        "torn": {"knowledge": {"table": "torn.csv"}},
        "without": {},
        "training": {"knowledge": {"train": "logistic_regression"}},
        "wrong": {"knowledge": {"table": 3}},
    }
    described = {name: {"url": "new.csv", "settings": one} for name, one in stated.items()}
    (tmp_path / "new.yaml").write_text(json.dumps({"sites": described}))

    def predicted(site: str) -> Done:
        options = ("--sites", tmp_path / "new.yaml", "--site", site, "--json")
        return call(capsys, "predict", tmp_path / "run", *options)

    inputs = trial.samples.scaled.inputs
    values = np.array(rows)[:, [("heat", "flow").index(name) for name in inputs.names]]
    x = torch.from_numpy((values - inputs.mean) / inputs.std).float()
    params = {name: value[None] for name, value in state.params.items()}
    model = trial.problem.model.model  # type: ignore[attr-defined]
    width = trial.problem.clients.x[0].shape[1]
    padded = torch.nn.functional.pad(x, (0, width - x.shape[1]))
    plain = model.apply(params, padded)[0].softmax(1).double().numpy()
    answers = {}
    for site, trust in (("north", 0.6), ("new", 0.05)):
        found = predicted(site)
        assert found.code == 0, found.err
        answers[site] = [line["grade"] for line in found.json["predictions"]]
        for (heat, flow), s, answer in zip(rows, plain, answers[site], strict=True):
            assert answer == CLASSES[int(mixed(s, *of_rules(heat, flow), trust).argmax())]
    assert answers["north"] != answers["new"], "the trust matters"
    assert predicted("west").code == 0, "the run's rows train its predictor"
    (note,) = predicted("torn").json["sites"]["torn"]["notes"]
    assert "contradict each other (4 of 16 samples at torn)" in note
    for site, said in (
        ("without", "`settings: {knowledge: own.fkg}`"),
        ("training", "a new site has no training rows for `train`"),
        ("wrong", "sites.wrong.settings.knowledge"),
    ):
        rejected = predicted(site)
        assert rejected.code == 1
        assert said in rejected.err


def test_predictions_of_a_run_use_the_knowledge_that_it_was_trained_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The job's knowledge replaces that of the sites file."""
    heat, flow, grade, site = measurements()
    described = {}
    for name in SIZES:
        rows = zip(heat, flow, grade, site, strict=True)
        lines = [f"{h},{f},{CLASSES[g]}\n" for h, f, g, owner in rows if owner == name]
        (tmp_path / f"{name}.csv").write_text("heat,flow,grade\n" + "".join(lines))
        described[name] = {"url": f"{name}.csv", "settings": {"knowledge": "a.fkg"}}
    (tmp_path / "sites.yaml").write_text(json.dumps({"sites": described}))
    for letter in "AB":
        said = f"predict knowledge guess of grade\n  when heat >= 0 degC predict {letter}\n"
        (tmp_path / f"{letter.lower()}.fkg").write_text(OWN[: OWN.index("range")] + said)
    own = {"knowledge": str(tmp_path / "b.fkg"), "trust": 1.0}
    fields = document(tmp_path, north=own, south=own, west=own)
    fields["data"] = {"set": "table", "sites_file": str(tmp_path / "sites.yaml"), "min_samples": 5}
    fields |= {"model": {"hidden": [4], "inject": {"control": False}}}
    run_job(fields, out=tmp_path / "run", report=False)
    answers = call(capsys, "predict", tmp_path / "run", "--site", "north", "--json")
    assert {line["grade"] for line in answers.json["predictions"]} == {"B"}
    stated = ("--sites", tmp_path / "sites.yaml")
    answers = call(capsys, "predict", tmp_path / "run", "--site", "north", "--json", *stated)
    assert {line["grade"] for line in answers.json["predictions"]} == {"A"}


def test_predictions_with_knowledge_that_a_run_cannot_read_are_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_job(document(tmp_path), out=tmp_path / "run", report=False)
    (tmp_path / "new.csv").write_text("heat,flow\n80,6\n")
    stated = {"url": "new.csv", "settings": {"knowledge": "own.fkg"}}
    (tmp_path / "new.yaml").write_text(json.dumps({"sites": {"new": stated}}))
    done = call(capsys, "predict", tmp_path / "run", "--sites", tmp_path / "new.yaml")
    assert done.code == 1
    assert "sites.new.settings.knowledge" in done.err
    assert "read no knowledge of single sites" in done.err


def save_onnx(path: Path) -> None:
    """A network with a layer that no dense reader knows: B where the clipped heat is above 50."""
    nodes = [
        helper.make_node("Clip", ["x", "low", "high"], ["clipped"]),
        helper.make_node("MatMul", ["clipped", "w"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["y"]),
    ]
    tensors = [
        helper.make_tensor("low", TensorProto.FLOAT, [], [0.0]),
        helper.make_tensor("high", TensorProto.FLOAT, [], [90.0]),
        helper.make_tensor("w", TensorProto.FLOAT, [1, 3], [0.0, 1.0, 0.0]),
        helper.make_tensor("b", TensorProto.FLOAT, [3], [50.0, 0.0, -100.0]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    helper.set_model_props(model, {"features": '["heat"]'})
    save_model(model, str(path))


def test_tables_lookups_and_models_of_any_layers(tmp_path: Path) -> None:
    heat, flow, grade, site = measurements()
    (tmp_path / "limits.csv").write_text('heat [degC],flow,grade\n> 70,,"B, C"\n<= 10,,A\n')
    mine = np.flatnonzero(site == "south")[::2]
    lines = [f'{heat[i]},{flow[i]},"{CLASSES[grade[i]]}, A",{CLASSES[grade[i]]}' for i in mine]
    (tmp_path / "known.csv").write_text("heat,flow,allow,predict\n" + "\n".join(lines) + "\n")
    save_onnx(tmp_path / "net.onnx")
    fields = document(
        tmp_path,
        north={"knowledge": {"table": str(tmp_path / "limits.csv")}},
        south={"knowledge": {"lookup": str(tmp_path / "known.csv")}},
        west={"knowledge": {"model": str(tmp_path / "net.onnx")}},
    )
    _, trial = prepare(fields)
    known = {(heat[i], flow[i]): int(grade[i]) for i in mine}

    def of_table(h: float, f: float) -> tuple[list[int], int | None]:
        return ([1, 2] if h > 70 else [0] if h <= 10 else [0, 1, 2]), None

    def of_lookup(h: float, f: float) -> tuple[list[int], int | None]:
        found = known.get((round(h, 1), round(f, 1)))
        return ([0, 1, 2], None) if found is None else (sorted({found, 0}), found)

    def of_model(h: float, f: float) -> tuple[list[int], int | None]:
        return [0, 1, 2], 1 if h > 50 else 0

    hits = 0
    for place, knowledge in enumerate((of_table, of_lookup, of_model)):
        plain, answers = chances(trial, place)
        for (h, f), s, answer in zip(raw(trial, place), plain, answers, strict=True):
            allowed, predicted = knowledge(h, f)
            hits += predicted is not None
            np.testing.assert_allclose(answer, mixed(s, allowed, predicted, 0.3), atol=1e-5)
    assert hits > 40


def test_safetensors_of_a_named_architecture(tmp_path: Path) -> None:
    net = MLP(inputs=2, hidden=(5,), outputs=3)
    metadata = {"features": '["heat", "flow"]', "mean": "[50, 5]", "std": "[30, 3]"}
    params = net.init(4)
    save_file(params, tmp_path / "net.safetensors", metadata=metadata)
    knowledge = {
        "model": str(tmp_path / "net.safetensors"),
        "architecture": {"kind": "mlp", "hidden": [5]},
    }
    _, trial = prepare(document(tmp_path, west={"knowledge": knowledge}))
    plain, answers = chances(trial, 2)
    x = (torch.tensor(raw(trial, 2)) - torch.tensor([50.0, 5.0])) / torch.tensor([30.0, 3.0])
    predicted = net.apply({k: v[None] for k, v in params.items()}, x.float())[0].argmax(1).tolist()
    for s, answer, guess in zip(plain, answers, predicted, strict=True):
        np.testing.assert_allclose(answer, mixed(s, [0, 1, 2], guess, 0.3), atol=1e-5)


def test_the_trained_predictor_is_the_regression_of_its_site(tmp_path: Path) -> None:
    """The oracle descends the same objective (C = 1) by plain gradient steps."""
    knowledge = {"train": "logistic_regression"}
    _, trial = prepare(document(tmp_path, north={"knowledge": knowledge}))
    x, y = raw(trial, 0), trial.problem.clients.y[0].numpy()
    design = np.column_stack([np.ones(len(x)), (x - x.mean(0)) / x.std(0)])
    weights = np.zeros((3, 3))
    for _ in range(4000):
        logits = design @ weights
        p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        ridge = weights * np.array([[0.0], [1.0], [1.0]])
        weights -= 0.02 * (design.T @ (p - np.eye(3)[y]) + ridge)
    guesses = (design @ weights).argmax(1)
    plain, answers = chances(trial, 0)
    for s, answer, guess in zip(plain, answers, guesses, strict=True):
        np.testing.assert_allclose(answer, mixed(s, [0, 1, 2], int(guess), 0.3), atol=1e-5)


def test_a_site_chooses_its_trust_alone(tmp_path: Path) -> None:
    """Predictions that are always right earn the highest trust, useless ones the lowest."""
    right, wrong = OWN, OWN.replace("predict B", "predict A").replace("predict C", "predict A")
    right = right.replace(
        "otherwise predict B", "when heat < 20 degC predict A otherwise predict B"
    )
    (tmp_path / "right.fkg").write_text(right)
    (tmp_path / "wrong.fkg").write_text(wrong.replace("range knowledge hot", "range knowledge hot"))
    fields = document(
        tmp_path,
        north={"knowledge": str(tmp_path / "right.fkg"), "trust": "cross_validate"},
        south={"knowledge": {"train": "logistic_regression"}, "trust": "cross_validate"},
    )
    fields["model"] = {
        **fields["model"],
        "inject": {"trusts": [0, 0.6], "folds": 2, "rounds": 1, "control": False},
    }
    _, trial = prepare(fields)
    notes = [note for note in trial.notes if "cross-validation" in note]
    assert len(notes) == 2
    assert notes[0].startswith("north: cross-validation chose trust 0.6")


@pytest.mark.parametrize("executor", ["stacked", "processes"])
def test_executors_agree(tmp_path: Path, executor: str) -> None:
    (tmp_path / "own.fkg").write_text(OWN)
    fields = document(tmp_path, north={"knowledge": str(tmp_path / "own.fkg"), "trust": 0.5})
    fields["model"]["inject"] = {"control": False}
    one = run_job(fields, out=tmp_path / "one", report=False)
    fields["training"] = {**fields["training"], "executor": executor, "workers": 1}
    two = run_job(fields, out=tmp_path / "two", report=False)
    figures = [RunFolder(run.folder).rows("knowledge.csv") for run in (one, two)]
    for first, second in zip(*figures, strict=True):
        assert first["client"] == second["client"]
        assert float(first["model"]) == pytest.approx(float(second["model"]), abs=1e-4)


def wrong_labels(folder: Path, policy: str | None) -> dict[str, Any]:
    """A job whose site south has a range that excludes some of its labels."""
    (folder / "own.fkg").write_text(
        OWN.replace("heat > 70 degC allow B, C", "heat < 60 degC allow B")
    )
    fields = document(folder, south={"knowledge": str(folder / "own.fkg")})
    fields["model"]["inject"] = {"control": False, **({"policy": policy} if policy else {})}
    return fields


def test_excluded_labels_stop_the_run_with_the_name_of_the_site(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"site south: its ranges exclude \d+ of \d+ training"):
        prepare(wrong_labels(tmp_path, None))


def test_dropped_and_repaired_labels(tmp_path: Path) -> None:
    _, dropped = prepare(wrong_labels(tmp_path, "drop"))
    _, repaired = prepare(wrong_labels(tmp_path, "repair"))
    x, y = raw(repaired, 1), repaired.problem.clients.y[1].numpy()
    excluded = [heat < 60 and label != 1 for (heat, _), label in zip(x, y, strict=True)]
    assert 0 < sum(excluded) < len(y)
    kept = dropped.problem.clients
    assert kept.samples == (*repaired.problem.clients.samples[:1], len(y) - sum(excluded),
                            *repaired.problem.clients.samples[2:])  # fmt: skip
    assert kept.y[1].tolist() == [int(v) for v, out in zip(y, excluded, strict=True) if not out]
    _, answers = chances(repaired, 1)
    for label, out, answer in zip(y, excluded, answers, strict=True):
        if out:  # the label joins B in the range of this row
            assert answer[label] > 0
            assert {k for k in range(3) if answer[k] > 0} == {1, int(label)}
    for trial, word in ((dropped, "left out"), (repaired, "now contain")):
        assert any(f"{sum(excluded)} at south" in n and word in n for n in trial.notes)


def test_ignored_knowledge_is_noted(tmp_path: Path) -> None:
    (tmp_path / "own.fkg").write_text(
        OWN.replace("otherwise", "when heat > 90 degC allow A otherwise", 1).replace(
            "otherwise predict B", "otherwise predict A"
        )
    )
    (tmp_path / "other.csv").write_text("heat,allow\n300,A\n")
    fields = document(
        tmp_path,
        south={"knowledge": str(tmp_path / "own.fkg")},
        west={"knowledge": {"lookup": str(tmp_path / "other.csv")}},
    )
    _, trial = prepare(fields | {"model": {"hidden": [4], "inject": {"policy": "repair"}}})
    assert "sites.west.knowledge: the lookup table lists none of 38 samples" in trial.notes
    hot = raw(trial, 1)
    torn = hot[:, 0] > 90
    outside = (hot[:, 0] > 70) & (hot[:, 1] <= 5) & ~torn
    for found, reason in ((torn, "contradict each other"), (outside, "are outside their ranges")):
        where = f"{reason} ({found.sum()} of {len(hot)} samples at south)"
        assert any(where in note for note in trial.notes), trial.notes


def test_figures_of_knowledge_and_the_masked_control(tmp_path: Path) -> None:
    (tmp_path / "own.fkg").write_text(OWN)
    fields = document(tmp_path, north={"knowledge": str(tmp_path / "own.fkg"), "trust": 0.2})
    fields["compare"] = {"model.inject": [False, True]}
    run = run_job(fields, out=tmp_path / "run", report=False)
    rows = RunFolder(run.folder).rows("knowledge.csv")
    trials = list(dict.fromkeys(row["trial"] for row in rows))
    assert trials == ["injectFalse-fedavg-s0", "injectTrue-fedavg-s0"]
    experiment, _ = prepare(fields)
    configs = {config.id: config for config in plan_trials(Job.model_validate(fields))}
    for name in trials:
        trial = experiment.build_trial(configs[name])
        state = load_state(RunFolder(run.folder), name)
        assert state is not None
        test = experiment.samples.rows(1)
        found = {row["client"]: row for row in rows if row["trial"] == name}
        source = experiment.samples.source
        for place, site in enumerate(SIZES):
            own = test[trial.owner == place]
            params = {key: value[None] for key, value in state.params.items()}
            answers = trial.problem.model.apply(params, trial.inputs.rows_at(own))[0].numpy()
            right = violated = masked = predicted = alone = 0
            for answer, row in zip(answers, own, strict=True):
                heat, flow = (source.x[row, source.features.index(n)] for n in ("heat", "flow"))
                allowed, guess = of_rules(heat, flow) if site == "north" else ([0, 1, 2], None)
                decided = int(answer.argmax())
                right += decided == source.y[row]
                violated += decided not in allowed
                masked += max(allowed, key=lambda k: answer[k]) == source.y[row]
                predicted += guess is not None
                alone += guess is not None and guess == source.y[row]
            line = found[site]
            assert int(line["test_rows"]) == len(own)
            assert float(line["model"]) == pytest.approx(right / len(own))
            assert float(line["violation"]) == pytest.approx(violated / len(own))
            assert float(line["masked"]) == pytest.approx(masked / len(own))
            assert int(line["predicted"]) == predicted
            if predicted:
                assert float(line["knowledge"]) == pytest.approx(alone / predicted)
            if name.startswith("injectTrue"):
                assert violated == 0
    said = " ".join(run.sentences)
    assert "FedAvg with knowledge ends at Accuracy" in said
    assert "without, but with the ranges at use, at" in said


def test_a_plain_control_is_trained_unless_the_job_compares_it(tmp_path: Path) -> None:
    (tmp_path / "own.fkg").write_text(OWN)
    fields = document(tmp_path, north={"knowledge": str(tmp_path / "own.fkg")})
    names = [config.id for config in plan_trials(Job.model_validate(fields))]
    assert names == ["fedavg-s0", "injectFalse-fedavg-s0"]


WRONG: dict[str, tuple[Any, str]] = {
    "classes": (
        {"rules": OWN.replace("A, B, C", "A, B, C, D")},
        "other classes than the data",
    ),
    "contradiction": (
        {"rules": OWN.replace("otherwise", "when heat > 60 degC allow A otherwise", 1)},
        "12 of 38 training samples have no allowed answer",
    ),
    "prediction": (
        {"rules": OWN.replace("otherwise predict B", "otherwise predict A")},
        "3 of 38 training samples have such a prediction",
    ),
    "output": ({"rules": OWN.replace("of grade", "of mark").replace("label  grade", "label mark")},
               "another output"),
    "column": ({"rules": OWN.replace("flow", "fluss")}, "not a feature"),
    "missing": ({"lookup": None}, "cannot read"),
    "empty": ({"lookup": "heat,allow\n"}, "empty.csv has no rows"),
    "width": ({"features": '["heat", "flow"]'}, "cannot be evaluated for 2 features"),
    "deep": ({"features": "[" * 100_000}, "has no list `features` in its metadata"),
    "unknown": ({"features": '["heet"]'}, "features that the data does not have"),
    "train": ({"train": "linear_regression"}, "cannot predict this target (classes)"),
}  # fmt: skip


@pytest.mark.parametrize("case", list(WRONG))
def test_invalid_knowledge_is_reported_with_the_name_of_the_site(tmp_path: Path, case: str) -> None:
    given, said = WRONG[case]
    knowledge: dict[str, Any] = {}
    if "rules" in given:
        (tmp_path / "own.fkg").write_text(given["rules"])
        knowledge["rules"] = [str(tmp_path / "own.fkg")]
    elif "lookup" in given:
        if given["lookup"] is not None:
            (tmp_path / f"{case}.csv").write_text(given["lookup"])
        knowledge["lookup"] = str(tmp_path / f"{case}.csv")
    elif "features" in given:
        import onnx

        save_onnx(tmp_path / "net.onnx")
        model = onnx.load(tmp_path / "net.onnx")
        helper.set_model_props(model, {"features": given["features"]})
        save_model(model, str(tmp_path / "net.onnx"))
        knowledge["model"] = str(tmp_path / "net.onnx")
    else:
        knowledge = given
    with pytest.raises(JobError) as caught:
        prepare(document(tmp_path, west={"knowledge": knowledge}))
    assert "sites.west.knowledge" in str(caught.value)
    assert said in str(caught.value)


def test_updates_contain_no_knowledge(tmp_path: Path) -> None:
    """Test 13 of the specification: what a site sends has the names of a plain model alone."""
    (tmp_path / "own.fkg").write_text(OWN)
    fields = document(tmp_path, north={"knowledge": str(tmp_path / "own.fkg"), "trust": 0.4})
    _, trial = prepare(fields)
    shapes = {name: tuple(value.shape) for name, value in trial.problem.model.init(0).items()}
    plain = {
        name: tuple(v.shape) for name, v in MLP(inputs=2, hidden=(4,), outputs=3).init(0).items()
    }
    assert shapes == plain
    assert json.dumps(sorted(shapes))


@pytest.mark.parametrize("kind", ["classes", "number", "chance"])
def test_the_trust_of_a_row_is_that_of_its_site(kind: str) -> None:
    """A model with a trust for each site equals one model for each trust."""
    shares = (0.2, 0.0, 0.5, 1.0)
    net = MLP(inputs=2, hidden=(4,), outputs=3 if kind == "classes" else 1)
    dice = torch.Generator().manual_seed(1)
    features = torch.randn(40, 2, generator=dice)
    site = torch.randint(0, 4, (40, 1), generator=dice).float()
    if kind == "classes":
        allowed = (torch.rand(40, 3, generator=dice) > 0.3).float()
        known = torch.cat([allowed, torch.randint(0, 4, (40, 1), generator=dice).float()], 1)
    else:
        low = torch.rand(40, 1, generator=dice) * 0.5
        known = torch.cat([low, low + 0.4, low + 0.1], 1)
    x = torch.cat([features, known, site], 1)
    params = {name: value[None] for name, value in net.init(3).items()}

    def answers(trust: Trust) -> torch.Tensor:
        if kind == "classes":
            return informed(net, 2, 3, trust).apply(params, x)[0]
        of = Bounded if kind == "number" else BoundedChance
        return of(model=net, width=2, trust=trust).apply(params, x)[0]

    found = answers(SiteTrust(shares=shares))
    for place, share in enumerate(shares):
        rows = site[:, 0] == place
        torch.testing.assert_close(found[rows], answers(share)[rows], rtol=1e-4, atol=1e-5)


def test_numbers_with_a_lookup_and_a_regression(tmp_path: Path) -> None:
    dice = np.random.default_rng(2)
    a, site = dice.uniform(0, 10, 120).round(1), np.repeat(["one", "two"], [40, 80])
    y = (3 * a + dice.normal(0, 0.2, 120)).round(2)
    lines = [f"{p},{q},{s}" for p, q, s in zip(a, y, site, strict=True)]
    (tmp_path / "table.csv").write_text("a,y,site\n" + "\n".join(lines) + "\n")
    (tmp_path / "rules.fkg").write_text(
        "signal a span 0 .. 10\noutput y in mm span -5 .. 50\n"
        "rule low require if a < 1 then y <= 10 mm\n"
    )
    wide = {v: f"{v},{3 * v - 2} .. {3 * v + 2}" for v in a[:40]}
    fields = {
        "rules": [str(tmp_path / "rules.fkg")],
        "sites": {
            "one": {"knowledge": {"lookup": str(tmp_path / "known.csv")}},
            "two": {"knowledge": {"train": "linear_regression"}, "trust": 1.0},
        },
        "data": {
            "set": "table",
            "path": str(tmp_path / "table.csv"),
            "split": "column",
            "min_samples": 5,
            "server": 0.1,
        },
        "model": {"hidden": [4]},
        "algorithm": "fedavg",
        "training": {"rounds": 1, "executor": "sequential"},
        "evaluation": {"local_baseline": False},
    }
    (tmp_path / "known.csv").write_text(f"a,allow\n{a[5]},40 .. 50\n")
    with pytest.raises(JobError, match=rf"\(row 6\) with label {y[5]:g} mm is the first"):
        prepare(fields)
    (tmp_path / "known.csv").write_text("a,allow\n" + "\n".join(wide.values()) + "\n")
    _, trial = prepare(fields)
    params = {name: value[None] for name, value in trial.problem.model.init(7).items()}
    outputs, inputs = trial.samples.scaled.outputs, trial.samples.scaled.inputs
    assert outputs is not None
    for place in (0, 1):
        x = trial.problem.clients.x[place]
        measured = x[:, 0].double().numpy() * inputs.std[0] + inputs.mean[0]
        answers = trial.problem.model.apply(params, x)[0, :, 0].double().numpy()
        answers = answers * outputs.std[0] + outputs.mean[0]
        if place == 0:
            assert (np.abs(answers - 3 * measured) <= 2 + 1e-3).all()
        else:
            labels = trial.problem.clients.y[1].double().numpy().ravel()
            labels = labels * outputs.std[0] + outputs.mean[0]
            slope, constant = np.polyfit(measured, labels, 1)
            np.testing.assert_allclose(answers, slope * measured + constant, atol=0.5)
    run = run_job(fields, out=tmp_path / "run", report=False)
    assert [row["client"] for row in RunFolder(run.folder).rows("knowledge.csv")][:3] == [
        "",
        "one",
        "two",
    ]


@pytest.mark.parametrize("kind", ["softmax", "cnn"])
def test_sites_have_knowledge_about_images(tmp_path: Path, kind: str) -> None:
    """Rules about a pixel, and a predictor that a site trains on all pixels of its images."""
    digits = ", ".join(f'"{digit}"' for digit in range(10))
    (tmp_path / "own.fkg").write_text(
        f'signal dot column "brightness (pixel 407)"\nlabel digit classes {digits}\n'
        'range knowledge bright of digit\n  when dot > 0.5 allow "1", "2", "3"\n'
        "  otherwise allow any\n"
    )
    fields = {
        "name": "images",
        "sites": {
            "north": {"knowledge": str(tmp_path / "own.fkg")},
            "south": {"knowledge": {"train": "logistic_regression"}, "trust": 0.6},
            "west": {},
        },
        "data": {"set": "mnist", "size": 180, "split": "iid", "min_samples": 5},
        "model": {"kind": kind, "inject": {"policy": "repair"}},
        "algorithm": "fedavg",
        "training": {"rounds": 1, "participation": 1.0, "batch": 16, "executor": "stacked"},
        "evaluation": {"local_baseline": False},
    }
    _, trial = prepare(fields)
    params = {name: value[None] for name, value in trial.problem.model.init(7).items()}
    scaling, bright = trial.samples.scaled.inputs, 0
    for place in range(3):
        x, y = trial.problem.clients.x[place][:30], trial.problem.clients.y[place][:30]
        images = x[:, :784].reshape(-1, 1, 28, 28)
        net = trial.problem.model.model.model.model  # type: ignore[attr-defined]
        plain = net.apply(params, images)[0].softmax(1).numpy()
        answers = trial.problem.model.apply(params, x)[0].exp().numpy()
        dots = images[:, 0].flatten(1)[:, 406].numpy() * scaling.std[0] + scaling.mean[0]
        for dot, label, s, answer in zip(dots, y.tolist(), plain, answers, strict=True):
            inside = np.ones(10)
            if place == 0 and dot > 0.5:
                bright += 1
                inside = np.isin(range(10), [1, 2, 3, label])
            expected = s * inside / (s * inside).sum()
            if place == 1:  # its predictor fits its own training images
                expected = 0.4 * expected + 0.6 * np.eye(10)[label]
            np.testing.assert_allclose(answer, expected, atol=1e-5)
    assert bright > 3
    if kind == "cnn":
        return  # its training takes longer and is the same
    done = run_job(Job.model_validate(fields), out=tmp_path / "run", report=False)
    known = {row["client"] for row in RunFolder(done.folder).rows("knowledge.csv")}
    assert known == {"", "north", "south", "west"}


def test_knowledge_about_images_names_what_does_not_fit(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("brightness,predict\n1,3\n")
    fields = {
        "name": "images",
        "sites": {"north": {"knowledge": {"lookup": str(tmp_path / "own.csv")}}, "south": {}},
        "data": {"set": "mnist", "size": 60, "split": "iid", "min_samples": 5},
        "model": {"kind": "softmax"},
    }
    with pytest.raises(JobError, match=r"sites\.north\.knowledge") as refused:
        prepare(fields)
    assert "brightness (pixel 1)" in str(refused.value)
