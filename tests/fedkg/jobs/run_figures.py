"""What a run measured, and tables as files, for the tests of runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedkg.jobs.folder import RunFolder


def figures(folder: Path) -> dict[str, Any]:
    """Everything a run measured, without the times."""
    rounds = [{k: v for k, v in row.items() if k != "seconds"} for row in RunFolder(folder).rows("rounds.csv")]
    states = {path.name: path.read_bytes() for path in sorted((folder / "checkpoints").glob("*.safetensors"))}
    return {
        "rounds": rounds,
        "clients": RunFolder(folder).rows("clients.csv"),
        "rules": RunFolder(folder).rows("rules.csv"),
        "results": json.loads((folder / "results.json").read_text()),
        "states": states,
    }


def csv_of(frame, path: Path) -> Path:
    columns = [frame.texts(header) for header in frame.headers]
    path.write_text("\n".join([",".join(frame.headers), *(",".join(cells) for cells in zip(*columns, strict=True))]) + "\n")
    return path
