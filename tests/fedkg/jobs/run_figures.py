"""Helpers for run tests: the figures of a run, and tables as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedkg.jobs.folder import CSV_FIELDS, RunFolder


def figures(folder: Path) -> dict[str, Any]:
    """Everything that a run measured, without times."""
    tables = {
        name: [
            {field: cell for field, cell in row.items() if field != "seconds"}
            for row in RunFolder(folder).rows(name)
        ]
        for name in CSV_FIELDS
    }
    states = {
        path.name: path.read_bytes()
        for path in sorted((folder / "checkpoints").glob("*.safetensors"))
    }
    documents = {
        name: json.loads((folder / name).read_text())
        for name in ("results.json", "theory.json")
        if (folder / name).exists()
    }
    return {**tables, **documents, "states": states}


def csv_of(frame, path: Path) -> Path:
    columns = [frame.texts(header) for header in frame.headers]
    path.write_text(
        "\n".join(
            [",".join(frame.headers), *(",".join(cells) for cells in zip(*columns, strict=True))]
        )
        + "\n"
    )
    return path
