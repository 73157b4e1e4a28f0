"""Where Flower's programs write, and what they must not do."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

APP = "app"
"""Folder of a federation with its Flower app, for `flwr run`."""

LOGS = "logs"
"""Folder of a server or site with the output of Flower's programs."""


def flower_environment(folder: Path) -> dict[str, str]:
    """Environment variables of Flower's programs: no reports to its makers, no search for
    updates, no proxy on the way to this machine, files in the given folder only."""
    local = [part for part in (os.environ.get("NO_PROXY"), "localhost", "127.0.0.1") if part]
    return {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_HOME": str(folder.resolve() / LOGS / "flower"),
        "NO_PROXY": ",".join(local),
        "no_proxy": ",".join(local),
        "PYTHONUNBUFFERED": "1",
    }


def write_app(folder: Path, federation: Path) -> None:
    """Copy the Flower app into a new folder, with the folder of a federation as its default."""
    template = Path(__file__).parent / APP
    shutil.copytree(template, folder, ignore=shutil.ignore_patterns("__pycache__"))
    file, given = folder / "pyproject.toml", json.dumps(str(federation), ensure_ascii=False)
    text = file.read_text(encoding="utf-8").replace('federation = ""', f"federation = {given}")
    file.write_text(text, encoding="utf-8")
