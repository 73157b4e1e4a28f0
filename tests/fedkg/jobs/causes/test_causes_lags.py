"""Lags per client, noise and devices in causal discovery jobs."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from command import call

from fedkg.errors import JobError, UsageError
from fedkg.jobs.causes.run import run_causes
from fedkg.jobs.learned_knowledge_reader import read_learned

JOB = """\
kind: causes
data: {plant: {clients: 3, steps: 500}}
shifts: 39
learning: {epochs: 6}
"""


def _job(folder: Path, text: str = JOB) -> Path:
    (folder / "job.yaml").write_text(text)
    return folder / "job.yaml"


def test_lags_by_name_go_to_the_tables_the_report_and_the_graph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unlisted client has one lag; one lag each is the same as `lags: 1`."""
    named = _job(tmp_path, JOB.replace("epochs: 6", "epochs: 6, lags: {unit 2: 3}"))
    done = run_causes(named, out=tmp_path / "named")
    assert [one["lags"] for one in done.results["clients"].values()] == [1, 3, 1]
    assert all(
        edge["lag"] <= done.results["clients"][edge["driven"]]["lags"]
        for edge in done.results["edges"]
    )
    assert " of 3</td>" in (done.folder / "report.html").read_text()
    lags = {(edge.driver, edge.driven): edge.lag for edge in read_learned(done.folder).edges}
    assert call(capsys, "ontology", "learned", done.folder, "-o", tmp_path / "found.trig").code == 0
    assert f"lagSteps {lags['unit 1', 'unit 2']}" in (tmp_path / "found.trig").read_text()
    plain = run_causes(_job(tmp_path), out=tmp_path / "plain")
    ones = run_causes(
        named, out=tmp_path / "ones", overrides=["learning.lags={unit 1: 1, unit 3: 1}"]
    )
    assert (plain.folder / "edges.csv").read_text() == (ones.folder / "edges.csv").read_text()


@pytest.mark.parametrize(
    ("learning", "said"),
    [
        # 400 of 500 steps are training steps
        ("lags: 450", "the number of lags does not fit the length of the series"),
        ("lags: {unit 2: 450}", "the number of lags does not fit the length of the series"),
        ("lags: {nobody: 2}", "unknown client nobody"),
        ("lags: {unit 2: 0}", r"`learning.lags.unit 2` \(line 4\): must be at least 1, not 0$"),
        ("lags: many", "must be a whole number or 'choose' or a section"),
    ],
)
def test_lags_that_cannot_be_are_reported(tmp_path: Path, learning: str, said: str) -> None:
    with pytest.raises((JobError, UsageError), match=said):
        run_causes(
            _job(tmp_path, JOB.replace("epochs: 6", f"epochs: 6, {learning}")), out=tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["server", "epoch"])
def test_a_client_is_not_called_as_another_column_of_the_losses(tmp_path: Path, name: str) -> None:
    """Its losses would overwrite those of the server."""
    (tmp_path / "plant.csv").write_text(
        "a,b\n" + "".join(f"{n % 7},{(n + 1) % 7}\n" for n in range(40))
    )
    text = f"{JOB}clients: {{{name}: [a], other: [b]}}\nstates: 1\n".replace(
        "plant: {clients: 3, steps: 500}", "path: plant.csv"
    )
    with pytest.raises(JobError, match=f"a client cannot be called {name}"):
        run_causes(_job(tmp_path, text), out=tmp_path / "run")


def test_a_learning_on_another_device_gives_the_same(
    elsewhere: torch.device, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def named(name: str, field: str) -> torch.device:
        asked.append(f"{field}: {name}")
        return elsewhere

    monkeypatch.setattr("fedkg.federated.device_transfer.device_named", named)
    text = JOB.replace("steps: 500", "steps: 160").replace(
        "epochs: 6", "epochs: 9, tolerance: 0.3, lags: {unit 2: 2}"
    )
    here, there = (
        run_causes(_job(tmp_path, text), out=tmp_path / name, overrides=[f"learning.device={name}"])
        for name in ("cpu", "cuda")
    )
    assert set(asked) == {"learning.device: cuda"}
    one, other = ((done.folder / "losses.csv").read_text().splitlines() for done in (here, there))
    assert 2 < len(one) == len(other) < 10
    for left, right in zip(here.results["edges"], there.results["edges"], strict=True):
        assert right["strength"] == pytest.approx(left["strength"], rel=1e-8, abs=1e-12)
        assert right["p_value"] == left["p_value"]
    assert [note.split(" changed ")[0] for note in here.results["notes"]] == [
        note.split(" changed ")[0] for note in there.results["notes"]
    ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_reported_before_anything_is_read(tmp_path: Path) -> None:
    job = _job(
        tmp_path,
        JOB.replace("epochs: 6", "device: cuda").replace(
            "plant: {clients: 3, steps: 500}", "path: none.csv"
        ),
    )
    with pytest.raises(JobError, match=r"learning\.device: this computer has no device cuda"):
        run_causes(
            job.rename(tmp_path / "far.yaml"),
            out=tmp_path / "run",
            overrides=["clients={a: [x], b: [y]}"],
        )
    assert not (tmp_path / "run").exists()


def test_edges_that_noise_alone_would_make_are_not_told(tmp_path: Path) -> None:
    """Three slow noisy clients in a chain: the discovery finds no reverse edges."""
    stream = np.random.default_rng(0)
    states = np.zeros((1500, 3))
    for t in range(1, 1500):
        states[t] = (
            0.9 * states[t - 1]
            + 0.2 * np.array([0.0, *states[t - 1, :2]])
            + stream.standard_normal(3)
        )
    seen = states + 2.0 * stream.standard_normal((1500, 3))
    with (tmp_path / "plant.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows(
            [["a", "b", "c"], *([f"{value:.5f}" for value in row] for row in seen.tolist())]
        )
    text = JOB.replace("plant: {clients: 3, steps: 500}", "path: plant.csv").replace(
        "epochs: 6", "mode: closed_form"
    )
    done = run_causes(
        _job(
            tmp_path,
            f"{text}clients: {{a: [a], b: [b], c: [c]}}\nstates: 1\nshifts: 199\n".replace(
                "shifts: 39\n", ""
            ),
        ),
        out=tmp_path / "run",
    )
    told = {(edge["driver"], edge["driven"]): edge for edge in done.results["edges"]}
    assert {pair for pair, edge in told.items() if edge["adjusted"] <= 0.05} == {
        ("a", "b"),
        ("b", "c"),
    }
    assert told["b", "a"]["p_measured"] <= 0.02
    assert told["b", "a"]["p_noise"] > 0.05
    assert all(
        edge["p_value"] == max(edge["p_measured"], edge["p_noise"]) for edge in told.values()
    )
    assert any(
        said.startswith("Edges that are significant without allowing for measurement noise")
        for said in done.sentences
    )
