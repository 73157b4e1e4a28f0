"""The notebooks run from top to bottom, and show what their texts say."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples/notebooks"
LARGEST = 12_000
"""Bytes of a notebook: outputs are not stored."""

SHOWN = {
    "milling": (r"<td>strain</td>", r"<strong>Run</strong>.*FedAvg", r"ConstraintReport\(2 rows"),
    "plant_shapes": (r"Validation report</strong> [1-9]\d* results", r"limit of at most 60 N\.m"),
    "temporal_rules": (r"<th>calm_damper</th>\s*<td>0</td>\s*<td>12</td>", r"2024-03-09 10:00"),
    "federated_causes": (r"unit 1 drives unit 2", r"cause found_1_ahead"),
    "review_suggestions": (r"accepted night_everywhere", r"reviewed +accepted by Ana Silva on"),
}
"""What the outputs of each notebook contain."""


def outputs(cells: list[Any]) -> str:
    """The texts and the HTML that the cells show."""
    found = []
    for cell in cells:
        for one in cell.get("outputs", []):
            data = one.get("data", {})
            found.append(one.get("text") or data.get("text/html") or data.get("text/plain") or "")
    return "\n".join(found)


def test_every_notebook_is_listed_short_and_without_outputs() -> None:
    paths = {path.stem: path for path in FOLDER.glob("*.ipynb")}
    assert paths.keys() == SHOWN.keys()
    for path in paths.values():
        assert path.stat().st_size < LARGEST
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert outputs(cells) == ""
        assert cells[0]["cell_type"] == "markdown"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of other libraries
@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_runs_and_shows_its_results(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    paths = (str(ROOT), str(ROOT / "compiler"), os.environ.get("PYTHONPATH", ""))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}}
    )
    client.execute()
    shown = outputs(notebook.cells)
    for pattern in SHOWN[name]:
        assert re.search(pattern, shown, re.DOTALL), pattern
