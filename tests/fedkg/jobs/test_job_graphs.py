"""TabNet with a knowledge graph from files, or built from column names and rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fedkg.errors import JobError
from fedkg.jobs import resume, run_job
from fedkg.jobs.experiment.experiment import create_experiment
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.model_knowledge_graphs import GraphCache
from fedkg.jobs.rule_pack import empty_pack
from fedkg.jobs.schema.job_reader import parse_job
from fedkg.models.tabnet import TabNet
from fedkg.pack import load

PLANT = """
@prefix : <https://example.org/plant#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
:line a :Line ; :has :mill . :mill a :Machine .
:torque a sosa:ObservableProperty ; fkg:column "Torque [Nm]" .
:meter sosa:observes :wear ; sosa:isHostedBy :mill ; fkg:column "Tool wear [min]" .
:wear fkg:column "Tool wear [min]" ; :note "words are no edges" .
"""
TABNET = {"kind": "tabnet", "steps": 2, "width": 4}


def of_table(job_fields: dict[str, Any], graph: Any) -> dict[str, Any]:
    plain = {"compare": {}, "corrupt": None, "seeds": 1, "algorithm": "scfa"}
    training = {**job_fields["training"], "rounds": 2, "executor": "stacked"}
    evaluation = {**job_fields.get("evaluation", {}), "local_baseline": False}
    return {
        **job_fields,
        **plain,
        "training": training,
        "evaluation": evaluation,
        "model": {**TABNET, "graph": graph},
    }


@pytest.mark.usefixtures("no_report")
def test_the_graph_of_a_file_is_read_trained_and_resumed_to_the_bit(
    job_fields, tmp_path, monkeypatch
):
    (tmp_path / "plant.ttl").write_text(PLANT)
    fields = of_table(job_fields, {"files": [str(tmp_path / "plant.ttl")], "convolutions": 2})
    whole = run_job(fields, out=tmp_path / "whole")
    folder = RunFolder(whole.folder)
    assert str(tmp_path / "plant.ttl") in [
        source["path"] for source in folder.environment()["sources"]
    ]
    job = parse_job(fields, name="j", base=tmp_path)
    graph = GraphCache(empty_pack()).graph_for(
        job, ("Torque [Nm]", "Tool wear [min]", "Type=L", "speed")
    )
    assert graph is not None
    assert graph.column_node.tolist()[2:] == [-1, -1]
    assert graph.observed.tolist() == [0, 1]
    assert graph.nodes == 8  # five things, our two classes and the class of properties
    stopped = {**fields, "training": {**fields["training"], "rounds": 2}}
    seen = []

    def stop(event: Any) -> None:
        seen.append(event)
        if event.kind == "round":
            raise KeyboardInterrupt

    with pytest.raises(Exception, match="stopped"):
        run_job(stopped, out=tmp_path / "half", on_event=stop)
    resume(tmp_path / "half")

    def rounds(place: Path) -> list[dict[str, str]]:
        return [{**row, "seconds": ""} for row in RunFolder(place).rows("rounds.csv")]

    assert rounds(tmp_path / "half") == rounds(whole.folder)


def test_without_files_the_graph_is_made_of_names_and_rules(job_fields):
    pack = load(job_fields["pack"])
    job = parse_job(of_table(job_fields, True), name="j", base=Path())
    graph = GraphCache(pack).graph_for(
        job,
        ("Torque [Nm]", "Tool wear [min]", "Type=L", "Type=M", "L0_S1_F2", "L0_S1_F3", "L0_S2_F4"),
    )
    assert graph is not None
    nodes = graph.column_node.tolist()
    assert nodes[2] == nodes[3]
    assert len(set(nodes)) == 6
    around = graph.around.to_dense() > 0
    line = torch.matrix_power(around.double(), 2) > 0
    assert bool(
        around[nodes[0]].logical_and(around[nodes[1]]).any()
    )  # the rule node connects the columns that it reads
    assert bool(line[nodes[4], nodes[5]])  # of one station
    assert not bool(line[nodes[4], nodes[6]])  # of two
    assert bool((torch.matrix_power(around.double(), 8) > 0).all())  # one piece


def test_a_data_set_with_bosch_s_names_has_stations(tmp_path):
    fields = {
        "data": {"set": "bosch", "size": 200, "split": "iid", "min_samples": 5, "server": 0},
        "sites": ["a", "b"],
        "model": {**TABNET, "graph": {"convolutions": 1}},
        "training": {"rounds": 1, "participation": 1, "executor": "stacked", "batch": 32},
    }
    job = parse_job(fields, name="j", base=tmp_path)
    experiment = create_experiment(job, empty_pack())
    from fedkg.jobs.trial_expansion import expand_trials

    [config] = expand_trials(job)
    experiment.prepare([config])
    model = experiment.build_trial(config).problem.model
    assert isinstance(model, TabNet)
    assert model.graph is not None
    assert model.graph.nodes == 1 + 4 + 52 + 968
    assert int(model.graph.column_node.min()) >= 0


def test_a_graph_that_knows_no_column_is_rejected(job_fields, tmp_path):
    (tmp_path / "plant.ttl").write_text(
        PLANT.replace("Torque [Nm]", "A").replace("Tool wear [min]", "B")
    )
    with pytest.raises(JobError, match="no node of the graph is linked to a column") as caught:
        run_job(
            of_table(job_fields, {"files": [str(tmp_path / "plant.ttl")]}), out=tmp_path / "run"
        )
    assert "A, B" in str(caught.value)
    assert not (tmp_path / "run").exists()
    with pytest.raises(JobError, match="the file does not exist"):
        run_job(of_table(job_fields, {"files": [str(tmp_path / "none.ttl")]}), out=tmp_path / "run")


def test_only_tabnet_reads_a_graph(job_fields):
    fields = {**of_table(job_fields, None), "model": {"kind": "mlp", "graph": True}}
    with pytest.raises(JobError, match="`graph` does not apply to `mlp`, which has"):
        parse_job(fields, name="j", base=Path())
