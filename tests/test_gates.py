"""The gates themselves: that they are in force, and that each can fail."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(path for folder in ("fedkg", "compiler", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
TEXTS = sorted(
    path
    for pattern in ("*.md", "*.py", "*.toml", "*.yml", "*.yaml", "*.fkg", "*.ttl", "Makefile")
    for folder in ("", "fedkg", "compiler", "docs", "ontologies", "rules", "examples", "tests", "benchmarks")
    for path in ((ROOT / folder).rglob(pattern) if folder else ROOT.glob(pattern))
)
OPEN, MACHINE = re.compile(r"\b(?:TODO|FIXME)\b"), re.compile(r"/wo" + r"rk/")


def _run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *command], cwd=cwd, capture_output=True, text=True)


def _too_long(text: str) -> list[str]:
    """What is: a file has one subject and rarely over 300 lines, a function fits one screen."""
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    found = [node.name for node in functions if (node.end_lineno or 0) - node.lineno >= 80]
    return [*(["the file"] if text.count("\n") > 400 else []), *found]


def test_files_and_functions_stay_short() -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in SOURCES}
    assert len(texts) > 300
    assert {name: found for name, text in texts.items() if (found := _too_long(text))} == {}
    assert _too_long("def f():\n" + "    x = 1\n" * 400) == ["the file", "f"]


def test_nothing_is_left_open_and_no_machine_is_named() -> None:
    wrong = []
    for path in TEXTS:
        text, name = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
        if MACHINE.search(text) or (not name.startswith("tests/") and OPEN.search(text)):
            wrong.append(name)
    assert not wrong


def test_test_files_have_names_of_their_own() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
    assert not list((ROOT / "tests").rglob("__init__.py"))


def _copy(tmp_path: Path) -> Path:
    for name in ("fedkg", "compiler"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def _contracts(folder: Path) -> subprocess.CompletedProcess[str]:
    """import-linter over the two packages in `folder`."""
    code = (
        f"import sys; sys.path[:0] = [{str(folder)!r}, {str(folder / 'compiler')!r}]; "
        "from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    )
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)


BREACHES = {
    "the runtime imports the compiler": ("fedkg/pack/bank.py", "from fedkg_compiler import syntax\n"),
    "a command reaches past the composition root": ("fedkg/cli/check.py", "from fedkg_compiler import syntax\n"),
    "the compiler imports the trainer": ("compiler/fedkg_compiler/resources.py", "from fedkg import federated\n"),
    "the interpreter imports torch": ("fedkg/constraints/meaning/interpreter.py", "import torch\n"),
}


def test_import_contracts_hold(tmp_path: Path) -> None:
    done = _contracts(_copy(tmp_path))
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("breach", BREACHES)
def test_import_contracts_can_fail(breach: str, tmp_path: Path) -> None:
    path, line = BREACHES[breach]
    broken = _copy(tmp_path) / path
    broken.write_text(broken.read_text(encoding="utf-8") + line, encoding="utf-8")
    assert _contracts(tmp_path).returncode == 1


GATES = {
    "format": (("ruff", "format", "--check", "--config", str(ROOT / "pyproject.toml")), "x = {  'a':1 }\n"),
    "lint": (("ruff", "check", "--config", str(ROOT / "pyproject.toml")), '"""Text."""\n\nimport os\n'),
    "types": (("mypy", "--strict", "--cache-dir", "cache"), "x: int = 'text'\n"),
}


@pytest.mark.slow
@pytest.mark.parametrize("gate", GATES)
def test_code_gates_can_fail(gate: str, tmp_path: Path) -> None:
    command, text = GATES[gate]
    (tmp_path / "wrong.py").write_text(text, encoding="utf-8")
    assert _run(*command, "wrong.py", cwd=tmp_path).returncode == 1


@pytest.mark.slow
def test_the_docs_gate_can_fail(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Home\n\n[nowhere](nowhere.md)\n", encoding="utf-8")
    (tmp_path / "mkdocs.yml").write_text("site_name: x\ntheme: { name: material, font: false }\n", encoding="utf-8")
    assert _run("mkdocs", "build", "--strict", cwd=tmp_path).returncode == 1


def test_check_runs_every_gate() -> None:
    line = next(line for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if line.startswith("check:"))
    assert line.split()[1:] == ["format", "lint", "types", "imports", "test", "slow", "docs"]
    assert "make check" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


LIGHT = """
import sys, fedkg, fedkg.cli.main
sys.exit(any(name in sys.modules for name in ("torch", "numpy", "lark", "rdflib", "plotly", "fedkg_compiler")))
"""


def test_importing_fedkg_is_light() -> None:
    assert subprocess.run([sys.executable, "-c", LIGHT]).returncode == 0


def test_light_names_load_no_torch() -> None:
    code = """
import sys, fedkg
for name in ("Pack", "load", "FedkgError", "evaluate", "read_table"):
    getattr(fedkg, name)
    assert not {"torch", "fedkg_compiler"} & sys.modules.keys(), name
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
