"""The quality gates are in force, and each can fail."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXTS = sorted(
    path
    for pattern in ("*.md", "*.py", "*.toml", "*.yml", "*.yaml", "*.fkg", "*.ttl", "Makefile")
    for folder in (
        "",
        "fedkg",
        "compiler",
        "docs",
        "ontologies",
        "rules",
        "examples",
        "tests",
        "benchmarks",
    )
    for path in ((ROOT / folder).rglob(pattern) if folder else ROOT.glob(pattern))
)
OPEN, MACHINE = re.compile(r"\b(?:TODO|FIXME)\b"), re.compile(r"(?<!\w)/wo" + r"rk/")


def _run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *command], cwd=cwd, capture_output=True, text=True)


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
    "the runtime imports the compiler": (
        "fedkg/pack/bank.py",
        "from fedkg_compiler.frontends.fkg import syntax\n",
    ),
    "a command reaches past the composition root": (
        "fedkg/cli/check.py",
        "from fedkg_compiler.frontends.fkg import syntax\n",
    ),
    "the compiler imports the trainer": (
        "compiler/fedkg_compiler/input_files.py",
        "from fedkg import federated\n",
    ),
    "a stage of the compiler imports a later one": (
        "compiler/fedkg_compiler/passes/set_scales.py",
        "from fedkg_compiler import banks\n",
    ),
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
    "format": (
        ("ruff", "format", "--check", "--config", str(ROOT / "pyproject.toml")),
        "x = {  'a':1 }\n",
    ),
    "lint": (
        ("ruff", "check", "--config", str(ROOT / "pyproject.toml")),
        '"""Text."""\n\nimport os\n',
    ),
    "types": (("mypy", "--strict", "--cache-dir", "cache"), "x: int = 'text'\n"),
}


@pytest.mark.slow
@pytest.mark.parametrize("gate", GATES)
def test_code_gates_can_fail(gate: str, tmp_path: Path) -> None:
    command, text = GATES[gate]
    (tmp_path / "wrong.py").write_text(text, encoding="utf-8")
    assert _run(*command, "wrong.py", cwd=tmp_path).returncode == 1


BASE = """
from typing_extensions import override


class Base:
    def weigh(self) -> int:
        return 1
"""
OVERRIDES = {
    "marked": ("    @override\n    def weigh(self) -> int:", 0, "Success"),
    "not marked": ("    def weigh(self) -> int:", 1, "not using @override"),
    "overrides nothing": (
        "    @override\n    def weights(self) -> int:",
        1,
        "no base method was found",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("override", OVERRIDES)
def test_the_types_gate_finds_missing_and_dead_overrides(override: str, tmp_path: Path) -> None:
    method, code, message = OVERRIDES[override]
    text = f"{BASE}\n\nclass Derived(Base):\n{method}\n        return 2\n"
    (tmp_path / "derived.py").write_text(text, encoding="utf-8")
    config = str(ROOT / "pyproject.toml")
    done = _run("mypy", "--config-file", config, "--cache-dir", "cache", "derived.py", cwd=tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    assert message in done.stdout


@pytest.mark.slow
def test_the_docs_gate_can_fail(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(
        "# Home\n\n[nowhere](nowhere.md)\n", encoding="utf-8"
    )
    (tmp_path / "mkdocs.yml").write_text(
        "site_name: x\ntheme: { name: material, font: false }\n", encoding="utf-8"
    )
    assert _run("mkdocs", "build", "--strict", cwd=tmp_path).returncode == 1


def test_check_runs_every_gate() -> None:
    line = next(
        line
        for line in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
        if line.startswith("check:")
    )
    assert line.split()[1:] == [
        *("format", "lint", "types", "imports"),
        *("test", "slow", "bounds", "docs"),
    ]
    assert "make check" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


LIGHT = """
import sys
from fedkg.cli.main import make_app
make_app()
heavy = ("torch", "numpy", "lark", "rdflib", "plotly", "fedkg_compiler")
sys.exit(any(name in sys.modules for name in heavy))
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


@pytest.mark.slow
def test_a_type_checker_sees_the_types_of_an_installed_package(tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(
        'import fedkg\n\nreveal_type(fedkg.compile("rules.fkg"))\nfedkg.compile(1)\n',
        encoding="utf-8",
    )
    done = _run("mypy", "--cache-dir", "cache", "use.py", cwd=tmp_path)
    assert 'Revealed type is "fedkg.pack.pack.Pack"' in done.stdout
    assert 'use.py:4: error: Argument 1 to "compile"' in done.stdout
    assert "Found 1 error in 1 file" in done.stdout
