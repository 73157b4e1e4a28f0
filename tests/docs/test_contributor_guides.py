"""Each contributor guide is followed to the letter in a copy of the repository.

A titled block becomes a file, a ``diff`` block changes files, and a ``console`` block is run. Lines
below a command must be its output, ``...`` stands for anything. A diff needs no line numbers: the
unchanged and removed lines of a hunk must occur exactly once in its file.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from blocks import ROOT, blocks, commands, matches

GUIDES = sorted((ROOT / "docs" / "contributing").glob("add-*.md"))
COPIED = (
    "fedkg",
    "compiler",
    "ontologies",
    "rules",
    "examples",
    "tests",
    "docs",
    "benchmarks",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
)
LIMIT_S = 600


def _copy(target: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)


def _apply(diff: str, folder: Path) -> None:
    """Apply a diff.

    A hunk without unchanged or removed lines, or one that fits twice, is an error.
    """
    path, hunks = Path(), []
    for line in diff.splitlines():
        if line.startswith("+++ b/"):
            path = folder / line.removeprefix("+++ b/")
        elif line.startswith("@@"):
            hunks.append((path, [], []))
        elif not line.startswith("--- "):
            _, old, new = hunks[-1]
            if line[:1] != "+":
                old.append(line[1:])
            if line[:1] != "-":
                new.append(line[1:])
    for path, old, new in hunks:
        text, before = path.read_text(encoding="utf-8"), "\n".join(old) + "\n"
        assert text.count(before) == 1, f"{path}: {text.count(before)} places fit\n{before}"
        path.write_text(text.replace(before, "\n".join(new) + "\n"), encoding="utf-8")


def _run(command: str, shown: list[str], folder: Path) -> None:
    words = shlex.split(command)
    program = {"python": [sys.executable], "fedkg": [sys.executable, "-m", "fedkg"]}[words[0]]
    paths = os.pathsep.join(map(str, (folder, folder / "compiler")))
    environment = os.environ | {"PYTHONPATH": paths, "FEDKG_HOME": str(folder / "home")}
    done = subprocess.run(
        [*program, *words[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
    assert not shown or matches(shown, done.stdout), f"$ {command}\n{done.stdout}"


@pytest.mark.slow
@pytest.mark.parametrize("guide", [pytest.param(path, id=path.stem) for path in GUIDES])
def test_a_contributor_can_follow_the_guide(guide: Path, tmp_path: Path) -> None:
    _copy(tmp_path)
    for block in blocks(guide):
        if block.title:
            (tmp_path / block.title).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "diff":
            _apply(block.text, tmp_path)
        elif block.language == "console":
            for command, shown in commands(block.text):
                _run(command, shown, tmp_path)


def test_a_hunk_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n", encoding="utf-8")
    diff = "--- a/a.py\n+++ b/a.py\n@@\n{} = 1\n+y = 2\n"
    with pytest.raises(AssertionError, match="0 places fit"):
        _apply(diff.format(" z"), tmp_path)
    _apply(diff.format(" x"), tmp_path)
    assert (tmp_path / "a.py").read_text(encoding="utf-8") == "x = 1\ny = 2\n"
