"""Mutation tests of the algorithm files: `make mutants`, or `python tests/mutation/mutants.py
--help`.

Each mutant is the package with one small change, made in a copy of the repository. The tests that
`mutants.toml`
names for the file must fail on it. A mutant on which they pass survives: write a test, or explain
in
`mutants.toml` why no test can tell it apart. Tests run in processes forked from one that has loaded
PyTorch and the
other libraries, and hypothesis does not shrink what it finds.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

UNSHRUNK = "unshrunk"
"""The hypothesis profile of `tests/tries.py` that tries less and ends at the first failure."""
OUTPUT = "pytest.txt"

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutants.toml")
COPIED = ("fedkg", "compiler", "tests", "ontologies", "rules", "examples", "pyproject.toml")
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.GtE: ast.Gt,
    ast.Gt: ast.GtE,
    ast.LtE: ast.Lt,
    ast.Lt: ast.LtE,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
LIBRARIES = ("torch", "numba", "scipy.optimize", "scipy.stats", "pydantic", "pandas")
"""Loaded once for all mutants: they take most of the time of a short test run."""
UNUSABLE = (3, 4, 5)
"""Exit codes of pytest that say nothing of the mutant: an internal error, a wrong option, no test.
"""
FIRST_LIMIT = 3600.0
"""Seconds that the tests may take on the unchanged code."""
MARGIN = 60.0
"""Seconds that a mutant's tests may take beyond three times those of the unchanged code: loops that
no longer end.
"""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of one file.

    Attributes:
        name: says the change; it does not depend on line numbers, so that explanations stay valid.
        path: of the file in the repository. source: the file with the change. tests: pytest
            arguments.
    """

    name: str
    path: str
    source: str
    tests: tuple[str, ...]


def listed(document: dict[str, Any]) -> Iterator[Mutant]:
    """The mutants that `[[mutant]]` entries spell out.

    Raises:
        ValueError: `old` does not occur exactly once in the file.
    """
    for entry in document.get("mutant", ()):
        source = (ROOT / entry["path"]).read_text(encoding="utf-8")
        if source.count(entry["old"]) != 1:
            raise ValueError(
                f"{entry['name']}: {entry['old']!r} occurs {source.count(entry['old'])} times in"
                f" {entry['path']}"
            )
        changed = source.replace(entry["old"], entry["new"])
        yield Mutant(
            name=entry["name"], path=entry["path"], source=changed, tests=tuple(entry["tests"])
        )


def generated(path: str, source: str, tests: tuple[str, ...]) -> Iterator[Mutant]:
    """All mutants of a file: comparisons, signs, dropped terms, constants, removed calls."""
    seen: dict[str, int] = {}
    for place, node in _nodes(ast.parse(source), ""):
        for new in _changes(node):
            before, after = ast.unparse(node), ast.unparse(ast.fix_missing_locations(new))
            if before == after:
                continue
            name = f"{path}:{place}: {before} -> {after}"
            seen[name] = seen.get(name, 0) + 1
            yield Mutant(
                name=name if seen[name] == 1 else f"{name} #{seen[name]}",
                path=path,
                source=_replaced(
                    source, node, f"({after})" if isinstance(new, ast.expr) else after
                ),
                tests=tests,
            )


def _nodes(node: ast.AST, place: str) -> Iterator[tuple[str, ast.expr | ast.stmt]]:
    """Statements and expressions in functions, with the function's name; no messages, annotations
    and docstrings.
    """
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
        return
    inside = place
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        inside = f"{place}.{node.name}".strip(".")
    if place and isinstance(node, ast.expr | ast.Expr):
        yield place, node
    skipped = {"annotation", "returns", "decorator_list", "bases", "keywords" if not place else ""}
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in skipped:
                yield from _nodes(child, inside)


def _changes(node: ast.expr | ast.stmt) -> Iterator[ast.expr | ast.stmt]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            new = deepcopy(node)
            new.ops = [COMPARISONS[type(op)]()]
            yield new
        case ast.BinOp(op=op, left=left, right=right) if type(op) in OPERATORS:
            new_operation = deepcopy(node)
            new_operation.op = OPERATORS[type(op)]()
            yield new_operation
            yield left
            if isinstance(op, ast.Add | ast.Mult):
                yield right
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            yield operand
        case ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.Call(func=ast.Attribute(value=value)) if not isinstance(value, ast.Name):
            yield value


def _replaced(source: str, node: ast.expr | ast.stmt, text: str) -> str:
    lines = source.encode().splitlines(keepends=True)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    rest = lines[node.end_lineno - 1][node.end_col_offset :] + b"".join(lines[node.end_lineno :])
    return (before + text.encode() + rest).decode()


def _copy(folder: Path) -> Path:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(
                source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
            )
        else:
            shutil.copy(source, folder / name)
    return folder


def _passes(folder: Path, tests: tuple[str, ...], limit: float) -> bool:
    """Whether the tests pass in a copy; False also where they do not end in time."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LIBRARIES))
    process = context.Process(target=_run_tests, args=(folder, tests))
    process.start()
    process.join(limit)
    with contextlib.suppress(ProcessLookupError):  # also what the tests started
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.join()
    if process.exitcode in UNUSABLE:
        raise RuntimeError(
            f"pytest could not run {tests}:\n{(folder / OUTPUT).read_text()[-2000:]}"
        )
    return process.exitcode == 0


def _run_tests(folder: Path, tests: tuple[str, ...]) -> None:
    """Run pytest in a copy and exit with its code. It is the first thing that its process does."""
    os.setsid()
    os.chdir(folder)
    with Path(OUTPUT).open("w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    packages = [str(folder), str(folder / "compiler")]
    os.environ["PYTHONPATH"] = os.pathsep.join(packages)
    os.environ["NUMBA_CACHE_DIR"] = str(folder / "kernels")
    os.environ["WITHOUT_WORKERS"] = "1"
    sys.path[:0] = packages
    sys.dont_write_bytecode = True
    import pytest

    options = ["-q", "-x", "-p", "no:cacheprovider", f"--hypothesis-profile={UNSHRUNK}"]
    os._exit(int(pytest.main([*options, *tests])))


def _report(mutant: Mutant, survived: bool, explained: Mapping[str, str]) -> bool:
    """Print what became of a mutant; whether it survived without an explanation."""
    if not survived:
        print(f"killed    {mutant.name}", flush=True)
    elif mutant.name in explained:
        print(f"explained {mutant.name}\n          {explained[mutant.name]}", flush=True)
    else:
        print(f"SURVIVED  {mutant.name}", flush=True)
    return survived and mutant.name not in explained


def main() -> int:
    """Run the mutants; exits with 1 if one survives without an explanation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="mutants with this text in their name")
    parser.add_argument("--listed", action="store_true", help="only those spelled out in the list")
    parser.add_argument("--sample", type=int, help="so many of the generated ones, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    document = tomllib.loads(LIST.read_text(encoding="utf-8"))
    explained = {entry["name"]: entry["reason"] for entry in document.get("survivor", ())}
    chosen = list(listed(document))
    if not options.listed:
        made = [
            mutant
            for entry in document["file"]
            for mutant in generated(
                entry["path"],
                (ROOT / entry["path"]).read_text(encoding="utf-8"),
                tuple(entry["tests"]),
            )
        ]
        made = [mutant for mutant in made if options.only in mutant.name]
        if options.sample is not None:
            made = random.Random(options.seed).sample(made, min(options.sample, len(made)))
        chosen += made
    chosen = [mutant for mutant in chosen if options.only in mutant.name]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        folders: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.workers):
            (Path(place) / str(number)).mkdir()
            folders.put(_copy(Path(place) / str(number)))

        def survives(mutant: Mutant, limit: float) -> bool:
            own = folders.get()
            target = own / mutant.path
            unchanged = target.read_text(encoding="utf-8")
            target.write_text(mutant.source, encoding="utf-8")
            try:
                return _passes(own, mutant.tests, limit)
            finally:
                target.write_text(unchanged, encoding="utf-8")
                folders.put(own)

        open_ones = 0
        for tests in dict.fromkeys(mutant.tests for mutant in chosen):
            folder, start = folders.get(), time.perf_counter()
            if not _passes(folder, tests, FIRST_LIMIT):
                print(f"the tests fail on the unchanged code: {' '.join(tests)}")
                print((folder / OUTPUT).read_text(encoding="utf-8")[-2000:])
                return 2
            folders.put(folder)
            limit = 3 * (time.perf_counter() - start) + MARGIN
            group = [mutant for mutant in chosen if mutant.tests == tests]
            with ThreadPoolExecutor(options.workers) as pool:
                survived = pool.map(survives, group, [limit] * len(group))
                open_ones += sum(map(_report, group, survived, [explained] * len(group)))
    print(
        f"{len(chosen)} mutants in {(time.perf_counter() - began) / 60:.0f} minutes, "
        f"{open_ones} survive without an explanation"
    )
    return int(open_ones > 0)


if __name__ == "__main__":
    sys.exit(main())
