"""Jobs with augmented models, which read states from filters or causal discovery."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkg.data.sets import DataSet, data_set
from fedkg.errors import FedkgError, JobError, UsageError
from fedkg.jobs import run_job
from fedkg.jobs.experiment import sample_preparation as reading
from fedkg.jobs.experiment.experiment import Experiment, create_experiment
from fedkg.jobs.experiment.site_sample_statistics import TEST, TRAIN
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.reproduce import reproduce
from fedkg.jobs.rule_pack import load_rules
from fedkg.jobs.schema.job import Job
from fedkg.jobs.schema.job_reader import parse_job
from fedkg.jobs.trial_expansion import expand_trials

DATA = {
    "set": "traffic",
    "size": 240,
    "clients": 3,
    "min_samples": 3,
    "server": 0.1,
    "window": {"history": 12, "horizon": 6, "stride": 6, "gaps": "interpolate"},
}
AUGMENT = {"states": 2, "past": 3, "reads": "both", "learning": {"epochs": 20}}
TRAINING = {"rounds": 2, "participation": 1.0, "batch": 8, "executor": "sequential"}


def _fields(**fields: Any) -> dict[str, Any]:
    return {
        "name": "states",
        "data": DATA,
        "model": {"kind": "mlp", "hidden": (4,)},
        "training": TRAINING,
        "evaluation": {"local_baseline": False},
        "augment": AUGMENT,
        **fields,
    }


def _experiment(**fields: Any) -> Experiment:
    job = Job.model_validate(_fields(**fields))
    pack, _ = load_rules(job)
    experiment = create_experiment(job, pack)
    assert isinstance(experiment, Experiment)
    return experiment


def _x(experiment: Experiment, use: int) -> np.ndarray[Any, Any]:
    """The inputs of the first trial's model for the windows of one use."""
    configs = expand_trials(experiment.job)
    experiment.prepare(configs)
    trial = experiment.build_trial(configs[0])
    return np.asarray(trial.inputs.rows_at(experiment.samples.rows(use)).numpy())


def test_what_the_test_is_made_of_changes_no_training_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Changed test values change the test windows, and no training window."""
    before = _experiment()
    tested = before.samples.source.time
    assert tested is not None
    first = tested[before.samples.rows(TEST)].min()

    def changed(name: str, path: str | None, *, seed: int, size: int | None) -> DataSet:
        data = data_set(name, path, seed=seed, size=size)
        assert data.time is not None
        late = data.time >= first
        x = np.where(late[:, None], np.random.default_rng(1).permutation(data.x) * 3 + 50, data.x)
        return replace(data, x=x, y=x[:, 0])

    monkeypatch.setattr(reading, "data_set", changed)
    after = _experiment()
    assert _x(before, TRAIN).shape[2] == 1 + 6
    assert np.array_equal(_x(before, TRAIN), _x(after, TRAIN))
    assert not np.array_equal(_x(before, TEST)[:, :, 1:], _x(after, TEST)[:, :, 1:])


@pytest.mark.parametrize("horizon", [6, 0])
def test_a_gap_at_the_first_test_is_not_bridged_to_it(
    horizon: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With unknown values around the first test steps, later values do not affect training."""
    window = {"history": 12, "horizon": horizon, "stride": 3, "gaps": "interpolate"}
    fields = {"augment": "none", "data": {**DATA, "window": window}}
    tested = _experiment(**fields).samples
    assert tested.source.time is not None
    assert tested.source.clients is not None
    test = tested.rows(TEST)
    begins = {
        name: tested.source.time[test][tested.source.clients[test] == name].min()
        for name in tested.source.client_names
    }

    def holed(later: float) -> Experiment:
        def changed(name: str, path: str | None, *, seed: int, size: int | None) -> DataSet:
            data = data_set(name, path, seed=seed, size=size)
            assert data.time is not None
            assert data.clients is not None
            first = np.array([begins.get(name, np.inf) for name in data.clients])
            whole = np.where((data.time >= first - data.step / 2)[:, None], data.x + later, data.x)
            hole = np.abs(data.time - first) < 8 * data.step
            return replace(data, x=np.where(hole[:, None], np.nan, whole), y=whole[:, 0])

        monkeypatch.setattr(reading, "data_set", changed)
        return _experiment(**fields)

    one, other = holed(0.0), holed(500.0)
    assert np.array_equal(_x(one, TRAIN), _x(other, TRAIN))
    left, right = (
        experiment.samples.source.y[experiment.samples.rows(TRAIN)] for experiment in (one, other)
    )
    assert np.array_equal(left, right, equal_nan=True)
    assert not np.array_equal(_x(one, TEST), _x(other, TEST))


def test_states_stand_at_the_steps_that_they_are_of() -> None:
    """With one signal and one state the channel follows the signal without a delay."""
    x = _x(_experiment(augment={"states": 1, "learning": {"mode": "closed_form"}}), TRAIN)
    signal, state = x[:, :, 0], x[:, :, 1]
    now = np.corrcoef(signal.ravel(), state.ravel())[0, 1]
    later = np.corrcoef(signal[:, :-1].ravel(), state[:, 1:].ravel())[0, 1]
    assert now > later + 0.05


@pytest.mark.slow
def test_a_job_is_trained_with_and_without_states(tmp_path: Path) -> None:
    rules = tmp_path / "rules.fkg"
    rules.write_text(
        "timeline step 1 h ends clip\noutput volume span 0 .. 20000\nuse rules "
        "templates.operational_range\nrule counted require volume >= 0\ninfer early per "
        "client find ?low, ?high in operational_range(volume, ?low, ?high, 0, 2)\n"
    )
    fields = _fields(
        rules=[str(rules)],
        algorithms={
            "fedstl": {
                "preset": "fedstl",
                "grouping": {"fedstl": {"clusters": 2, "share": 0.3, "weight": 0.5}},
            }
        },
        compare={"augment": ["none", "filter", "granger"], "algorithm": ["fedavg", "fedstl"]},
        evaluation={"local_baseline": True},
    )
    run = run_job(fields, out=tmp_path / "run")
    folder = RunFolder(run.folder)
    causes = folder.rows("causes.csv")
    assert {row["trial"] for row in causes} == {
        "augmentgranger-fedavg-s0",
        "augmentgranger-fedstl-s0",
    }  # local sites have no other sites to learn from
    assert len(causes) == 2 * 3 * 2
    assert all(float(row["strength"]) > 0 for row in causes)
    beside = [
        said
        for said in run.sentences
        if "with the states of a causal discovery among its inputs" in said
    ]
    assert [said.partition(" ends")[0] for said in beside] == ["FedAvg", "fedstl"]
    assert any(
        said.startswith("Each site alone ends at MSE")
        and "the states of each site's filter" in said
        for said in run.sentences
    )
    assert folder.environment()["features"]["names"] == [
        "volume",
        *(f"granger_{word}_{number}" for word in ("state", "next", "server") for number in (1, 2)),
    ]
    notes = " ".join(row["notes"] for row in folder.rows("rounds.csv"))
    assert "with a local filter each, fitted on" in notes
    assert "causal discovery used" in notes
    assert "has not settled: epoch 20" in notes
    page = (run.folder / "report.html").read_text()
    assert "<h2>Causes</h2>" in page
    assert "station 1</th>" in page
    assert reproduce(run.folder).differences == ()


def test_rules_may_speak_of_states(tmp_path: Path) -> None:
    """In labelled windows the states of the last step are signals with a span."""
    stream, table, rules = np.random.default_rng(0), tmp_path / "plant.csv", tmp_path / "rules.fkg"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["unit", "hour", "load", "fault"])
        for unit in ("mill", "press"):
            load = np.cumsum(stream.standard_normal(120))
            writer.writerows(
                [unit, hour, f"{load[hour]:.4f}", int(load[hour] > 3)] for hour in range(120)
            )
    rules.write_text(
        'timeline step 1 s time column "hour" ends clip\nsignal load span -1000 .. '
        "1000\n"
        "signal granger_state_1 span -10 .. 10\noutput fault in probability\nrule known "
        "require load >= -1000\nrule loud require if granger_state_1 >= 1 then fault >= "
        "0.5\n"
    )
    data = {
        "set": "table",
        "path": str(table),
        "split": "column",
        "site_column": "unit",
        "window": {"history": 5},
        "min_samples": 5,
    }
    fields = _fields(rules=[str(rules)], data=data, augment="granger", algorithm="fedavg")
    run = run_job(fields, out=tmp_path / "run")
    row = next(row for row in RunFolder(run.folder).rows("rules.csv") if row["rule"] == "loud")
    assert int(row["applied"]) > 0
    with pytest.raises(FedkgError, match="granger_state_1"):
        run_job({**fields, "augment": "none"}, out=tmp_path / "without")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"data": {**DATA, "clients": None, "split": "iid"}, "sites": 3},
            "this split assigns windows to sites at random",
        ),
        (
            {"data": {"set": "ai4i"}, "sites": 3},
            "`augment` reads series, and `data.window` is not set",
        ),
        (
            {"data": {"set": "cmapss", "size": 3, "window": {"history": 5}}},
            "requires a common clock, and every engine of cmapss counts its own cycles",
        ),
        (
            {"privacy": {"unit": "client", "noise": 1.0}},
            "sends the states of every site at every step without noise",
        ),
        ({"augment": {"states": 3}}, "at most 1 state a site"),
        ({"augment": {"learning": {"normalised": False, "client": 5.0}}}, "the learning diverges"),
    ],
)
def test_an_impossible_job_is_rejected_before_training(
    fields: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(FedkgError, match=said):
        run_job(_fields(**fields), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("grangr", "augment"),
        ({"state": 2}, "did you mean `states`"),
        ({"learning": {"epoch": 3}}, "did you mean `epochs`"),
        ({"reads": "all"}, "augment.reads"),
    ],
)
def test_wrong_fields_are_named(value: object, said: str) -> None:
    with pytest.raises(JobError, match=said):
        parse_job(_fields(augment=value), name="job.yaml", base=Path())


def test_one_setting_of_the_discovery_leaves_its_other_defaults() -> None:
    job = Job.model_validate(_fields(augment={"learning": {"epochs": 5}}))
    assert (job.augment.learning.epochs, job.augment.learning.ridge) == (5, 0.01)


def test_one_word_keeps_what_the_section_says() -> None:
    job = Job.model_validate(_fields(compare={"augment": ["none", "granger"]}))
    assert [(config.job.augment.by, config.job.augment.past) for config in expand_trials(job)] == [
        ("none", 3),
        ("granger", 3),
    ]
    assert Job.model_validate(_fields(augment=None)).augment.by == "none"


def test_sites_of_other_times_learn_nothing_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def changed_data(name: str, path: str | None, *, seed: int, size: int | None) -> DataSet:
        data = data_set(name, path, seed=seed, size=size)
        assert data.time is not None
        assert data.clients is not None
        return replace(data, time=data.time + 1000 * (data.clients == "station 2"))

    monkeypatch.setattr(reading, "data_set", changed_data)
    experiment = _experiment()
    with pytest.raises(UsageError, match="too few common training steps"):
        experiment.prepare(expand_trials(experiment.job))
