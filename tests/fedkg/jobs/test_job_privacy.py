"""Privacy in jobs: what is protected, reported and rejected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from fedkg.data.ai4i import generate
from fedkg.errors import JobError, Stopped, UsageError
from fedkg.federated import Clients
from fedkg.federated.privacy.dp_sgd import ClippedGradient
from fedkg.jobs import Event, resume, run_job
from fedkg.jobs.experiment.experiment import create_experiment
from fedkg.jobs.experiment.labelled_table_samples import read_job_tables
from fedkg.jobs.experiment.site_sample_statistics import SERVER, TRAIN
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.reproduce import reproduce
from fedkg.jobs.rule_pack import empty_pack, load_rules
from fedkg.jobs.schema.algorithm_section import Algorithm
from fedkg.jobs.schema.consistency import describe_unprotected
from fedkg.jobs.schema.job_reader import parse_job
from fedkg.jobs.schema.privacy_section import Privacy
from fedkg.jobs.source_tables import SourceTables
from fedkg.jobs.sweep.grid import parse_axis
from fedkg.jobs.sweep.sweep import run_sweep
from fedkg.jobs.trial_expansion import expand_trials
from fedkg.jobs.trial_training import trial_settings
from fedkg.report.privacy_table import privacy_table

EXAMPLE = {"unit": "example", "noise": 2.0, "delta": 1e-3}
CLIENT = {"unit": "client", "noise": 2.0, "delta": 1e-2}


@pytest.fixture
def fields(job_fields: dict[str, Any]) -> dict[str, Any]:
    training = {**job_fields["training"], "executor": "stacked", "local_epochs": 1}
    return {**job_fields, "compare": {}, "corrupt": None, "algorithm": "scfa", "training": training}


def rows(folder: Path, name: str = "privacy.csv") -> list[dict[str, str]]:
    return RunFolder(folder).rows(name)


@pytest.mark.usefixtures("no_report")
@pytest.mark.parametrize("privacy", [EXAMPLE, CLIENT], ids=["example", "client"])
def test_a_run_tells_what_it_spent(fields, tmp_path, privacy):
    run = run_job({**fields, "privacy": privacy}, out=tmp_path / "run")
    spent = rows(run.folder)
    assert [row["unit"] for row in spent] == (
        ["a client"] if privacy is CLIENT else [row["unit"] for row in spent]
    )
    assert all(
        row["what"] == "training" and float(row["noise"]) == 2.0 and float(row["epsilon"]) > 0
        for row in spent
    )
    assert {row["train_loss"] for row in rows(run.folder, "rounds.csv")} == {""}
    said = [sentence for sentence in run.sentences if "would be protected" in sentence]
    assert len(said) == 1
    assert f"epsilon {max(float(row['epsilon']) for row in spent):.3g}" in said[0]


@pytest.mark.usefixtures("no_report")
def test_a_spent_budget_ends_the_run_and_it_is_a_finished_one(fields, tmp_path):
    whole = run_job({**fields, "privacy": EXAMPLE}, out=tmp_path / "whole")
    most = max(float(row["epsilon"]) for row in rows(whole.folder))
    events: list[Event] = []
    job = {
        **fields,
        "privacy": {**EXAMPLE, "epsilon": 0.9 * most},
        "evaluation": {**fields["evaluation"], "every": 3},
    }
    run = run_job(job, out=tmp_path / "run", on_event=events.append)
    done = rows(run.folder, "rounds.csv")
    assert 0 < len(done) < 3
    assert done[-1]["f1"]  # the last round is evaluated in any case
    assert "one more would exceed the budget" in done[-1]["notes"]
    assert any(
        "one more would exceed the budget" in event.message
        for event in events
        if event.kind == "note"
    )
    assert [entry["rounds"] for entry in json.loads((run.folder / "trials.json").read_text())] == [
        len(done)
    ]
    assert max(float(row["epsilon"]) for row in rows(run.folder)) <= 0.9 * most
    assert resume(run.folder).sentences == run.sentences
    assert len(rows(run.folder, "rounds.csv")) == len(done)


@pytest.mark.usefixtures("no_report")
def test_a_protected_run_resumes_to_the_bit(fields, tmp_path):
    job = {**fields, "privacy": {**EXAMPLE, "epsilon": 50.0}}
    whole = run_job(job, out=tmp_path / "whole")

    def interrupt(event: Event) -> None:
        if event.kind == "round" and event.round == 2:
            raise KeyboardInterrupt

    with pytest.raises(BaseException, match="resume"):
        run_job(job, out=tmp_path / "run", on_event=interrupt)
    again = resume(tmp_path / "run")
    assert rows(again.folder) == rows(whole.folder)
    assert [row["f1"] for row in rows(again.folder, "rounds.csv")] == [
        row["f1"] for row in rows(whole.folder, "rounds.csv")
    ]


@pytest.mark.usefixtures("no_report")
def test_system_noise_resumes_but_cannot_be_reproduced(fields, tmp_path):
    """The figures of two runs differ, a stopped run ends with its ledger, and `reproduce` explains
    itself."""
    job = {**fields, "privacy": {**EXAMPLE, "randomness": "system"}}

    def stop(event: Event) -> None:
        if event.kind == "round" and event.round == 1:
            raise KeyboardInterrupt

    with pytest.raises(Stopped):
        run_job(job, out=tmp_path / "one", on_event=stop)
    one = resume(tmp_path / "one")
    other = run_job(job, out=tmp_path / "other")

    assert rows(one.folder) == rows(other.folder)  # the ledgers agree
    assert {row["randomness"] for row in rows(one.folder)} == {"system"}
    assert rows(one.folder, "rounds.csv") != rows(other.folder, "rounds.csv")
    assert any("is protected" in sentence for sentence in one.sentences)
    assert not any("simulated" in sentence for sentence in one.sentences)
    with pytest.raises(UsageError, match="noise came from the operating system"):
        reproduce(one.folder)


def test_a_budget_below_one_round_is_rejected_before_there_is_a_folder(fields, tmp_path):
    job = {**fields, "privacy": {**EXAMPLE, "epsilon": 1e-3}}
    with pytest.raises(JobError, match="does not allow a single round"):
        run_job(job, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_epsilon_finds_its_noise_and_can_be_compared(fields):
    job = parse_job(
        {
            **fields,
            "privacy": EXAMPLE | {"epsilon": 3.0, "noise": None},
            "compare": {"privacy.epsilon": [2, 8]},
        },
        name="j",
        base=Path(),
    )
    experiment = create_experiment(job, load_rules(job)[0])
    configs = expand_trials(job)
    experiment.prepare(configs)
    noises = []
    for config in configs:
        algorithm = experiment.build_trial(config).algorithm
        assert isinstance(algorithm.differentiation, ClippedGradient)
        noises.append(algorithm.differentiation.noise)
    assert noises[0] > noises[1] > 0


def test_inputs_are_standardised_by_the_servers_rows(fields):
    found = []
    for privacy in (None, EXAMPLE):
        job = parse_job({**fields, "privacy": privacy}, name="j", base=Path())
        experiment = create_experiment(job, load_rules(job)[0])
        experiment.prepare(expand_trials(job))
        found.append(experiment.samples)
    plain, private = found
    server = private.source.x[private.rows(SERVER)]
    numbers = [at for at, name in enumerate(private.source.features) if "=" not in name]
    mean = private.scaled.inputs.mean[numbers]
    assert mean == pytest.approx(server[:, numbers].mean(0))
    assert plain.scaled.inputs.mean[numbers] != pytest.approx(mean)


def test_the_texts_of_categories_are_those_of_the_servers_rows(fields, monkeypatch):
    """A category text in a single row must not become a model input."""
    job = parse_job(fields, name="j", base=Path())
    pack = load_rules(job)[0]
    row, whole = read_job_tables(job, pack).rows(TRAIN)[0], generate(job.data.rows, job.data.seed)
    texts = [*whole.texts("Type")]
    texts[row] = "a single one"
    tables = SourceTables(whole=whole.with_texts("Type", texts))
    monkeypatch.setattr(
        "fedkg.jobs.experiment.labelled_table_samples.read_tables", lambda job, contract: tables
    )
    plain, private = (
        read_job_tables(job.model_copy(update={"privacy": privacy}), pack).source.features
        for privacy in (None, Privacy(**EXAMPLE))
    )
    assert set(plain) - set(private) == {"Type=a single one"}


@pytest.mark.usefixtures("no_report")
def test_sites_alone_send_nothing_and_are_trained_as_they_are(fields, tmp_path):
    job = {
        **fields,
        "compare": {"algorithm": ["fedavg", "local_only"]},
        "privacy": EXAMPLE,
        "training": {**fields["training"], "rounds": 1},
    }
    run = run_job(job, out=tmp_path / "run")
    assert {row["trial"] for row in rows(run.folder)} == {"fedavg-s0"}
    losses = {row["trial"]: row["train_loss"] for row in rows(run.folder, "rounds.csv")}
    assert losses["local_only-s0"]
    assert not losses["fedavg-s0"]
    assert not any(
        "used the same data" in sentence for sentence in run.sentences
    )  # one of them is private


@pytest.mark.usefixtures("no_report")
def test_trainings_on_the_same_data_add_up(fields, tmp_path):
    job = {
        **fields,
        "seeds": 2,
        "privacy": EXAMPLE,
        "training": {**fields["training"], "rounds": 1},
    }
    run = run_job(job, out=tmp_path / "run")
    worst = {
        config: max(float(row["epsilon"]) for row in rows(run.folder) if row["trial"] == config)
        for config in ("scfa-s0", "scfa-s1")
    }
    [said] = [sentence for sentence in run.sentences if "used the same data" in sentence]
    assert said.startswith("2 trials")
    epsilon = float(said.partition("at most epsilon ")[2].partition(" at delta 0.001 ")[0])
    assert max(worst.values()) < epsilon < 0.9 * sum(worst.values())  # composed: less than the sum
    table = privacy_table(rows(run.folder))
    assert table is not None
    assert said in table["notes"]


def test_no_two_protected_trainings_share_their_noise(fields):
    """With equal noise, the difference of two trials would reveal rows without noise."""
    compare = {"algorithm": ["fedavg", "scfa", "local_only"], "training.learning_rate": [0.1, 0.2]}
    job = parse_job(
        {**fields, "privacy": EXAMPLE, "compare": compare, "seeds": 2}, name="j", base=Path()
    )
    configs = expand_trials(job)
    clients = Clients(names=("a",), x=(torch.zeros(3, 2),), y=(torch.zeros(3),))
    seeds = {config.id: trial_settings(config, empty_pack(), clients).seed for config in configs}
    private = [seeds[config.id] for config in configs if config.algorithm != "local_only"]
    assert len(set(private)) == len(private) == 8
    assert all(0 <= seed < 2**63 for seed in private)
    assert [seeds[config.id] for config in configs if config.algorithm == "local_only"] == [
        0,
        1,
        0,
        1,
    ]
    computed = {**fields["training"], "executor": "processes", "workers": 2}
    again = parse_job(
        {
            **fields,
            "privacy": EXAMPLE,
            "compare": compare,
            "seeds": 2,
            "training": computed,
            "title": "x",
        },
        name="k",
        base=Path(),
    )
    assert {
        config.id: trial_settings(config, empty_pack(), clients).seed
        for config in expand_trials(again)
    } == seeds
    plain = parse_job({**fields, "compare": compare}, name="j", base=Path())
    assert {
        trial_settings(config, empty_pack(), clients).seed for config in expand_trials(plain)
    } == {0}


REFUSED = [
    ({"algorithm": "ifca"}, EXAMPLE, "which model fits their samples best"),
    ({"algorithm": "centralised"}, EXAMPLE, "all rows are sent"),
    ({"algorithm": "median"}, CLIENT, "medians, Krum and FLTrust have no known bound"),
    ({"algorithm": "fltrust"}, CLIENT, "medians, Krum and FLTrust have no known bound"),
    ({"algorithm": "scaffold"}, CLIENT, "control variates are gradients"),
    ({"algorithm": "pcfedavg"}, CLIENT, "no sum in which it could hide"),
    (
        {"training.positive_weight": "balanced"},
        EXAMPLE,
        "uses the number of failures at all sites without noise",
    ),
    ({"theory": True}, EXAMPLE, "reports gradients of all sites without noise"),
    (
        {"federation": {"oversampling": 2.0}},
        {"unit": "example", "epsilon": 8.0, "delta": 1e-3},
        "spend the budget before the last round",
    ),
    ({"training.precision": "bfloat16"}, EXAMPLE, "each sample is clipped separately"),
]


@pytest.mark.parametrize(("changes", "privacy", "words"), REFUSED)
def test_what_cannot_be_covered_is_rejected_before_anything_is_loaded(
    fields, changes, privacy, words
):
    job = {**fields, "privacy": privacy, "training": {**fields["training"], "participation": 1.0}}
    for name, value in changes.items():
        section, _, field = name.partition(".")
        job[section] = {**job[section], field: value} if field else value
    with pytest.raises(JobError, match=words):
        expand_trials(parse_job(job, name="j", base=Path()))


@pytest.mark.parametrize(
    ("privacy", "words"),
    [
        ({"unit": "example"}, "give `epsilon`, `noise` or both"),
        ({"unit": "row", "noise": 1}, "unit"),
        ({"unit": "example", "noise": 1, "delta": 1}, "delta"),
        ({"unit": "example", "noise": 0}, "noise"),
        ({"noise": 1}, "unit"),
        ({"unit": "client", "noise": 1, "accountant": "gdp"}, "accountant"),
    ],
)
def test_a_section_that_promises_nothing_is_rejected(fields, privacy, words):
    with pytest.raises(JobError, match=words):
        parse_job({**fields, "privacy": privacy}, name="j", base=Path())


def test_half_the_bytes_and_mixed_precision_are_settings_of_a_job(fields, tmp_path, no_report):
    training = {**fields["training"], "wire": "bfloat16", "precision": "bfloat16", "rounds": 1}
    plain, half = (
        run_job({**fields, "training": own}, out=tmp_path / name)
        for name, own in (("a", {**training, "wire": None}), ("b", training))
    )
    up = [int(rows(run.folder, "rounds.csv")[0]["bytes_up"]) - 24 for run in (plain, half)]
    assert up[1] == up[0] // 2


def test_the_report_has_a_section(fields, tmp_path):
    run = run_job(
        {
            **fields,
            "privacy": EXAMPLE | {"epsilon": 40.0},
            "training": {**fields["training"], "rounds": 1},
        },
        out=tmp_path / "run",
    )
    assert run.report is not None
    text = run.report.read_text(encoding="utf-8")
    assert 'id="privacy"' in text
    assert "Covered: everything that a site sends" in text
    table = privacy_table(rows(run.folder))
    assert table is not None
    assert table["rows"][0]["budget"] == "40"
    assert "noised sums" in table["rows"][0]["mechanism"]
    assert "simulated" in table["notes"][0]
    assert privacy_table(()) is None


def test_a_job_with_privacy_is_written_and_read_again(fields):
    job = parse_job({**fields, "privacy": EXAMPLE}, name="j", base=Path())
    assert (
        parse_job(
            yaml.safe_load(yaml.safe_dump(job.model_dump(mode="json"))), name="j", base=Path()
        ).privacy
        == job.privacy
    )


@pytest.mark.usefixtures("no_report")
def test_the_cells_of_a_grid_add_up(fields, tmp_path):
    (tmp_path / "job.yaml").write_text(
        yaml.safe_dump(
            {**fields, "privacy": EXAMPLE, "training": {**fields["training"], "rounds": 1}}
        )
    )
    sweep = run_sweep(
        tmp_path / "job.yaml",
        [parse_axis("training.learning_rate=0.1,0.2")],
        None,
        out=tmp_path / "sweep",
    )
    costs = [
        max(float(row["epsilon"]) for row in rows(folder))
        for folder in sorted((tmp_path / "sweep" / "cells").iterdir())
    ]
    [said] = [sentence for sentence in sweep.sentences if "used the same data" in sentence]
    assert said.startswith("2 trials")
    assert (
        max(costs)
        < float(said.partition("at most epsilon ")[2].partition(" at delta ")[0])
        < sum(costs)
    )


@pytest.mark.parametrize(
    ("window", "privacy", "often"),
    [
        ({"history": 12, "horizon": 3}, EXAMPLE, "up to 15 windows"),
        ({"history": 12, "horizon": 3, "stride": 4}, EXAMPLE, "up to 4 windows"),
        ({"history": 4, "horizon": 2, "stride": 6}, EXAMPLE, ""),
        ({"history": 12, "horizon": 3}, CLIENT, ""),
    ],
)
def test_a_step_of_a_series_is_in_several_windows(window, privacy, often):
    job = parse_job(
        {"data": {"set": "traffic", "window": window}, "privacy": privacy}, name="j", base=Path()
    )
    said = describe_unprotected(job, Algorithm(preset="fedavg"))
    assert [sentence for sentence in said if "standardise" in sentence]
    assert [often in sentence for sentence in said if "windows" in sentence] == (
        [True] if often else []
    )
