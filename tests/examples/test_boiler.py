"""The boiler example: a published graph restricts causal edges, and forbidden blocks stay zero."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shared import SHARED, needs_shared

from fedkg import authoring
from fedkg.jobs.causes.run import run_causes
from fedkg.pack.causes import prior

FOLDER = Path(__file__).parents[2] / "examples/boiler"
PUBLISHED = SHARED / "data/hai-metadata/boiler-graph/phy_boiler.json"


def _run(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> dict[str, Any]:
    monkeypatch.setattr(sys, "argv", ["read_graph.py", *map(str, arguments)])
    return runpy.run_path(str(FOLDER / "read_graph.py"), run_name="__main__")


def _allowed(folder: Path, names: list[str]) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    pack = authoring.compile([FOLDER / "rules.fkg", folder / "plant.ttl"])
    return prior(pack.manifest.causes, names)


def test_the_flow_masks_the_blocks_and_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(monkeypatch, FOLDER / "plant.json", "--out", tmp_path, "--generate", "900")
    assert "2 of 6 pairs feed each other" in capsys.readouterr().out
    assert _allowed(tmp_path, ["TANK", "HEATER", "DRUM"]).tolist() == [
        [True, False, False],
        [True, True, False],
        [False, True, True],
    ]
    done = run_causes(tmp_path / "job.yaml", out=tmp_path / "run", overrides=["shifts=59"])
    assert {(edge["driver"], edge["driven"]) for edge in done.results["edges"]} == {
        ("TANK", "HEATER"),
        ("HEATER", "DRUM"),
    }
    assert all(edge["adjusted"] <= 0.05 for edge in done.results["edges"])


def test_columns_that_a_table_lacks_are_passed_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some.csv").write_text("time,P1_LT1,P1_PT1\n")
    _run(monkeypatch, FOLDER / "plant.json", "--out", tmp_path, "--table", tmp_path / "some.csv")
    assert _allowed(tmp_path, ["TANK", "DRUM"]).tolist() == [[True, False], [True, True]]


def test_a_table_of_something_else_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.csv").write_text("time,colour\n")
    with pytest.raises(
        SystemExit,
        match=r"fewer than two vessels with columns in .*other\.csv: its header must have",
    ):
        _run(
            monkeypatch,
            FOLDER / "plant.json",
            "--out",
            tmp_path / "out",
            "--table",
            tmp_path / "other.csv",
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "text", ['{"nodes": [1]}', '{"nodes": [], "links": [{"source": "TANK", "target": "DRUM"}]}']
)
def test_another_file_is_rejected(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(SystemExit, match="no graph of nodes"):
        _run(monkeypatch, tmp_path / "other.json", "--out", tmp_path)


@pytest.mark.parametrize(
    "arguments", [("nope.json",), (FOLDER / "plant.json", "--table", "nope.csv")]
)
def test_a_file_that_is_not_there_is_named(
    arguments: tuple[str | Path, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match=r"nope\.\w+ cannot be read: No such file"):
        _run(monkeypatch, *arguments, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@needs_shared
def test_the_published_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _run(monkeypatch, PUBLISHED, "--out", tmp_path, "--generate", "200")
    names = ["HEX01T", "TK01", "TK02", "TK03"]
    allowed = _allowed(tmp_path, names)
    assert "vessels" in capsys.readouterr().out
    assert allowed[0, 1]  # the pumps of the main tank feed the heat exchanger's tubes
    assert allowed[3, 0]  # they feed the return tank
    assert allowed[1, 3]  # it feeds the main tank
    assert not allowed[2, 3]
