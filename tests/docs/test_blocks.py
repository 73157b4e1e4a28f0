"""Every example in the documentation is tested."""

from __future__ import annotations

import re
import shlex
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from blocks import ROOT, RUN, Block, blocks, commands, matches, pages
from command import Command, call


def _tried(page: Path) -> bool:
    return any(block.language in RUN for block in blocks(page))


def _marks(page: Path) -> list[pytest.MarkDecorator]:
    marks = [pytest.mark.slow] if any("slow" in block.notes for block in blocks(page)) else []
    if page.parent.name == "coming-from":  # other libraries warn
        marks.append(pytest.mark.filterwarnings("ignore"))
    return marks


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """A plain terminal of 120 columns."""
    for name, value in {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    return partial(call, capsys)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=str(page.relative_to(ROOT)), marks=_marks(page))
        for page in pages()
        if _tried(page)
    ],
)
def test_page(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDKG_HOME", str(tmp_path / "home"))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    names: dict[str, Any] = {"__name__": "__page__"}
    titled: dict[str, str] = {}
    for block in blocks(page):
        if "needs" in block.notes:
            pytest.importorskip(block.notes["needs"])
        text = titled.get(block.notes.get("before", ""), "") + block.text
        if block.title:
            (tmp_path / block.title).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / block.title).write_text(text, encoding="utf-8")
            titled[block.title] = text
        if "skip" not in block.notes:
            _try(block, text, page, names, terminal)


def _try(block: Block, text: str, page: Path, names: dict[str, Any], terminal: Command) -> None:
    where = f"{page.relative_to(ROOT)}:{block.line}"
    if block.language == "python":
        exec(compile("\n" * block.line + text, str(page), "exec"), names)
    elif block.language == "fkg":
        _compile(block, text, where)
    elif block.language == "yaml" and "\nsites:" in text:
        _check_job(text, where)
    elif block.language == "console":
        for command, expected in commands(text):
            if command.split()[0] == "fedkg":
                _run(command, expected, int(block.notes.get("exit", "0")), where, terminal)


def _compile(block: Block, text: str, where: str) -> None:
    from fedkg import authoring

    result = authoring.check(
        [block.title] if block.title else (), text=None if block.title else text
    )
    found = [d.code for d in result.diagnostics if d.severity != "info"]
    expected = block.notes.get("expect", "").split()
    assert found == expected, f"{where}:\n{authoring.render(result.diagnostics, {'<text>': text})}"


def _check_job(text: str, where: str) -> None:
    import yaml

    from fedkg.jobs.schema.job import Job

    assert Job.model_validate(yaml.safe_load(text)), where


def _run(command: str, expected: list[str], exit_code: int, where: str, terminal: Command) -> None:
    line, _, target = command.partition(" > ")
    done = terminal(*shlex.split(line)[1:])
    if target:
        Path(target.strip()).write_text(done.out, encoding="utf-8")
    output = done.out or done.err
    assert done.code == exit_code, (
        f"{where}: $ {command}\nexit code {done.code}\n{done.out}{done.err}"
    )
    assert not expected or matches(expected, output), (
        f"{where}: $ {command}\nshows, but the page does not:\n{output}"
    )


PRINT_NOTHING = frozenset({"fedkg fmt tested.fkg --check"})
"""Commands that print nothing if all is well."""


def test_each_command_has_its_output() -> None:
    """A command that writes its output to a file has none."""
    silent = [
        f"{page.relative_to(ROOT)}:{block.line}: $ {command}"
        for page in pages()
        for block in blocks(page)
        if block.language == "console"
        for command, expected in commands(block.text)
        if not expected and " > " not in command and command not in PRINT_NOTHING
    ]
    assert silent == []


def test_a_page_with_a_wrong_output_fails(terminal: Command) -> None:
    """The gate itself can fail."""
    with pytest.raises(AssertionError, match="the page does not"):
        _run("fedkg --version", ["fedkg 0.0.0-nothing"], 0, "here", terminal)


def test_blocks_are_found_with_their_notes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        'text\n<!-- expect: FKG001 -->\n```fkg title="a.fkg"\nrule\n```\n\n```console\n$ fedkg x'
        " \\\n    y\nout\n```\n"
    )
    first, second = blocks(page)
    assert (first.language, first.title, first.text, first.notes) == (
        "fkg",
        "a.fkg",
        "rule\n",
        {"expect": "FKG001"},
    )
    assert commands(second.text) == [("fedkg x y", ["out"])]


def test_output_matches_with_gaps() -> None:
    assert matches(["a ... c", "", "d"], "a bbb c\nd\n")
    assert not matches(["a ... c"], "a bbb c\nd\n")


IN_DEV = frozenset({"flwr", "ray", "model_signing", "pyshacl"})
"""Libraries that the extra `dev` installs, which all tests need."""


def test_ci_installs_the_libraries_that_pages_need() -> None:
    """Without them, the pages would always skip."""
    needed = {block.notes["needs"] for page in pages() for block in blocks(page)
              if "needs" in block.notes}  # fmt: skip
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    texts = [step.get("run", "") for step in workflow["jobs"]["gates"]["steps"]]
    step = next(text for text in texts if "tests/docs/test_blocks.py" in text)
    imported = re.search(r'python -c "import (.*)"', step)
    assert imported is not None
    assert set(imported[1].split(", ")) == needed - IN_DEV
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bench = extra["optional-dependencies"]["bench"]
    assert set(re.findall(r'"([^" ]+>=[^"]+)"', step)) <= set(bench)
