"""Jobs with graphs from an endpoint or a store: results, and records in the run folder."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from oxigraph_server import in_front, needs_oxigraph, put, reply, serving

import fedkg
from fedkg.authoring import CompileError
from fedkg.errors import JobError
from fedkg.jobs import resume, run_job
from fedkg.jobs.causes.run import run_causes
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.learned_knowledge_reader import read_learned
from fedkg.jobs.reproduce import reproduce
from fedkg_compiler.graph.stores.store_writing import load_files

RULES = """\
prefix plant: <https://example.org/plant#>
signal torque is plant:torque in N.m span 0 .. 80
output failure in probability span 0 .. 1 column "Machine failure"
rule strain for ?x where { ?m plant:maxTorque ?x } require if torque > ?x then failure >= 0.5
"""
PLANT = """\
@prefix plant: <https://example.org/plant#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
plant:torque a sosa:ObservableProperty ; <https://w3id.org/fedkg/ns#column> "Torque [Nm]" .
plant:wear <https://w3id.org/fedkg/ns#column> "Tool wear [min]" .
plant:mill plant:maxTorque 60 ; plant:has plant:torque, plant:wear .
"""
TABNET = {"kind": "tabnet", "steps": 2, "width": 4}

pytestmark = [needs_oxigraph, pytest.mark.usefixtures("no_report")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("oxigraph")) as address:
        yield address


@pytest.fixture
def small(job_fields: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """A job with rules, one trial and one round."""
    (tmp_path / "rules.fkg").write_text(RULES, encoding="utf-8")
    (tmp_path / "plant.ttl").write_text(PLANT, encoding="utf-8")
    plain = {
        "compare": {},
        "corrupt": None,
        "seeds": 1,
        "algorithm": "scfa",
        "evaluation": {"local_baseline": False},
    }
    training = {**job_fields["training"], "rounds": 1, "executor": "stacked"}
    fields = {key: value for key, value in job_fields.items() if key != "pack"}
    data = {**fields["data"], "rows": 800}
    return {
        **fields,
        **plain,
        "data": data,
        "training": training,
        "rules": [str(tmp_path / "rules.fkg")],
    }


def with_graph(small: dict[str, Any], graph: str, **more: Any) -> dict[str, Any]:
    return {**small, "rules": [*small["rules"], graph], **more}


def figures(folder: Path) -> list[dict[str, str]]:
    return [{**row, "seconds": "", "notes": ""} for row in RunFolder(folder).rows("rounds.csv")]


@pytest.mark.slow
def test_the_rules_of_a_job_speak_of_a_graph_wherever_it_stands(
    small: dict[str, Any], server: str, tmp_path: Path
) -> None:
    put(server, PLANT)
    load_files(tmp_path / "plant.store", [tmp_path / "plant.ttl"])
    places = {
        "file": str(tmp_path / "plant.ttl"),
        "store": str(tmp_path / "plant.store"),
        "endpoint": f"{server}/query",
    }
    runs = {
        name: run_job(with_graph(small, graph), out=tmp_path / name).folder
        for name, graph in places.items()
    }
    packs = {(folder / "pack.fkgpack").read_bytes() for folder in runs.values()}
    assert len(packs) == 1
    assert figures(runs["file"]) == figures(runs["store"]) == figures(runs["endpoint"])
    [source] = [
        one
        for one in fedkg.load(runs["file"] / "pack.fkgpack").manifest.provenance.sources
        if one.kind == "graph"
    ]
    assert RunFolder(runs["file"]).environment()["fetched"] == []
    assert RunFolder(runs["endpoint"]).environment()["fetched"] == [
        {
            "address": f"{server}/query",
            "triples": 6,
            "sha256": source.sha256,
        }  # the pack's record of its graph
    ]
    put(server, PLANT + "plant:other a plant:Mill .")
    again = reproduce(
        runs["endpoint"], out=tmp_path / "again"
    )  # from the pack: the rules' graph is not queried again
    assert again.differences == ()
    assert (
        RunFolder(again.folder).environment()["fetched"]
        == RunFolder(runs["endpoint"]).environment()["fetched"]
    )


@pytest.mark.slow
def test_a_model_reads_its_graph_from_an_endpoint_and_goes_on_with_the_same_alone(
    small: dict[str, Any], server: str, tmp_path: Path
) -> None:
    put(server, PLANT)
    address = f"{server}/query"
    fields = with_graph(
        small, str(tmp_path / "plant.ttl"), model={**TABNET, "graph": {"files": [address]}}
    )
    by_file = {**fields, "model": {**TABNET, "graph": True}}

    def stop(event: Any) -> None:
        if event.kind == "round":
            raise KeyboardInterrupt

    fields["training"] = by_file["training"] = {**fields["training"], "rounds": 2}
    with pytest.raises(Exception, match="stopped"):
        run_job(fields, out=tmp_path / "half", on_event=stop)
    environment = RunFolder(tmp_path / "half").environment()
    [fetched] = environment["fetched"]
    assert (fetched["address"], fetched["triples"]) == (address, 6)
    assert {"path": address, "sha256": fetched["sha256"]} in environment["sources"]
    put(server, PLANT.replace("plant:has", "plant:knows"))
    with pytest.raises(JobError, match="has changed since the run started") as caught:
        resume(tmp_path / "half")
    assert address in str(caught.value)
    put(server, PLANT)
    resume(tmp_path / "half")
    assert figures(tmp_path / "half") == figures(run_job(by_file, out=tmp_path / "file").folder)


def test_an_endpoint_gets_the_header_that_the_surroundings_hold(
    small: dict[str, Any], server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(server, PLANT)

    def asks_who(handler: BaseHTTPRequestHandler, body: bytes) -> bool:
        if handler.headers.get("Authorization") == "Bearer plant-7":
            return False
        reply(handler, 401)
        return True

    with in_front(asks_who, server) as front:
        fields = with_graph(small, f"{front}/query")
        with pytest.raises(CompileError, match="FKG142") as caught:
            run_job(fields, out=tmp_path / "run")
        assert "FEDKG_SPARQL_AUTHORIZATION" in str(caught.value)
        assert not (tmp_path / "run").exists()
        monkeypatch.setenv("FEDKG_SPARQL_AUTHORIZATION", "Bearer plant-7")
        folder = run_job(fields, out=tmp_path / "run").folder
    assert not [
        path for path in folder.rglob("*") if path.is_file() and b"plant-7" in path.read_bytes()
    ]


def test_an_endpoint_that_has_no_graph_or_cannot_be_read_ends_the_job_before_it_begins(
    small: dict[str, Any], server: str, tmp_path: Path
) -> None:
    put(server, "")
    for fields in (
        with_graph(small, f"{server}/query"),
        with_graph(
            small,
            str(tmp_path / "plant.ttl"),
            model={**TABNET, "graph": {"files": [f"{server}/query"]}},
        ),
    ):
        with pytest.raises(CompileError, match="FKG140") as caught:
            run_job(fields, out=tmp_path / "run")
        assert "is empty" in str(caught.value)
        assert not (tmp_path / "run").exists()


def test_a_learning_of_causes_reads_who_may_drive_whom_from_an_endpoint(
    server: str, tmp_path: Path
) -> None:
    example = Path(__file__).parents[3] / "examples/causes"
    put(server, (example / "plant.ttl").read_text(encoding="utf-8"))
    small = ["data.plant.steps=900", "shifts=19", "learning.epochs=1"]
    folders = [
        run_causes(
            example / "job.yaml",
            out=tmp_path / name,
            overrides=[*small, f"rules=[rules.fkg, {graph}]"],
        ).folder
        for name, graph in (("file", "plant.ttl"), ("endpoint", f"{server}/query"))
    ]
    assert (folders[0] / "edges.csv").read_text() == (folders[1] / "edges.csv").read_text()
    [fetched] = RunFolder(folders[1]).read_json("environment.json")["fetched"]
    assert fetched["address"] == f"{server}/query"
    assert (fetched["address"], fetched["sha256"]) in [
        (one.name, one.sha256) for one in read_learned(folders[1]).files
    ]
