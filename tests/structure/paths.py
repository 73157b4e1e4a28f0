"""Count the source files that an action runs through: `python tests/structure/paths.py`.

A file counts if one of its functions is called in the action, in this process; importing a module
does not count. Each action runs once before it is counted, so that imports and caches are done.
"""

from __future__ import annotations

import contextlib
import io
import math
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import numpy as np

import fedkg
from fedkg.cli.main import run
from fedkg.federated import round as round_module

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (str(ROOT / "fedkg"), str(ROOT / "compiler" / "fedkg_compiler"))

RULE = """signal x in bar span 0 .. 10
rule limit require x <= 6 bar
"""
SHAPES = """@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix ex: <http://example.org/> .
ex:PumpShape a sh:NodeShape ; sh:targetClass ex:Pump ;
  sh:property [ sh:path ex:pressure ; sh:maxInclusive {limit} ] .
"""
DATA = """@prefix ex: <http://example.org/> .
ex:a a ex:Pump ; ex:pressure 5 .
ex:b a ex:Pump ; ex:pressure 7 .
"""
JOB = """name: paths
rules: [rules.fkg]
sites: [north, south]
data: {path: table.csv, label: fault}
model: {hidden: [4]}
training: {rounds: 1, participation: 1.0}
algorithm: scfa
"""
JOB_RULES = """signal x in bar span 0 .. 10
output fault in probability span 0 .. 1
rule high require if x > 6 bar then fault >= 0.5
"""


@contextlib.contextmanager
def counted_files() -> Iterator[set[str]]:
    """The files whose functions are called in the block, relative to the repository."""
    found: set[str] = set()

    def note_call(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        is_function = event == "call" and code.co_name != "<module>"
        if is_function and code.co_filename.startswith(SOURCES):
            found.add(str(Path(code.co_filename).relative_to(ROOT)))

    sys.setprofile(note_call)
    threading.setprofile(note_call)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def command(*arguments: str) -> None:
    """Run a command in this process, without its output."""
    given = sys.argv
    sys.argv = ["fedkg", *arguments]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            run()
    except SystemExit as end:
        if end.code not in (None, 0, 1):
            raise
    finally:
        sys.argv = given


def files_of(action: Callable[[int], object]) -> set[str]:
    """The files of an action, which gets the number of its turn and must not find cached results
    of the first.
    """
    action(0)
    with counted_files() as found:
        action(1)
    return found


def compile_rule(turn: int) -> object:
    """A rule with one comparison, from text to bank."""
    return fedkg.compile(text=RULE.replace("6 bar", f"{6 + turn} bar"))


def validate_shape(folder: Path, turn: int) -> None:
    """A SHACL shape and a graph, from files to verdicts."""
    (folder / "shapes.ttl").write_text(SHAPES.replace("{limit}", str(6 + turn)))
    (folder / "data.ttl").write_text(DATA)
    command("eval", str(folder / "shapes.ttl"), str(folder / "data.ttl"))


def run_job(folder: Path, turn: int) -> None:
    """A job of two sites and one round, from its file to the report."""
    numbers = np.random.default_rng(turn).uniform(0, 10, 200)
    rows = "\n".join(f"{x:.3f},{int(x > 6)}" for x in numbers)
    (folder / "table.csv").write_text(f"x,fault\n{rows}\n")
    (folder / "rules.fkg").write_text(JOB_RULES)
    (folder / "job.yaml").write_text(JOB)
    command("run", str(folder / "job.yaml"), "--out", str(folder / f"run{turn}"))
    assert (folder / f"run{turn}" / "report.html").exists(), "the job failed"


def round_files(folder: Path) -> set[str]:
    """The files of one round of the job: from the sites' data to the new global model."""
    found: set[str] = set()
    original = round_module.run_round

    def counted(*arguments: Any, **options: Any) -> Any:
        with counted_files() as files:
            result = original(*arguments, **options)
        found.update(files)
        return result

    train = import_module("fedkg.federated.train")  # the package exports a function of this name
    with patch.object(train, "run_round", counted):
        run_job(folder, 2)
    return found


def measure() -> dict[str, set[str]]:
    """The files of each action."""
    # On a busy machine an action takes long enough to write a cache file, which is another path.
    with tempfile.TemporaryDirectory() as name, patch("fedkg_compiler.cache.WORTH", math.inf):
        folder = Path(name)
        return {
            "compile a rule with one comparison, text to bank": files_of(compile_rule),
            "SHACL shape to verdict": files_of(lambda turn: validate_shape(folder, turn)),
            "job file to report": files_of(lambda turn: run_job(folder, turn)),
            "one round: updates to the new global model": round_files(folder),
        }


def main() -> None:
    """Print the number of files of each action, and by folder with -v."""
    sources = [path for root in SOURCES for path in Path(root).rglob("*.py")]
    lines = sum(len(path.read_text().splitlines()) for path in sources)
    print(f"{lines:,} lines in {len(sources)} files")
    for action, files in measure().items():
        print(f"{len(files):4d} files  {action}")
        if "-v" in sys.argv[1:]:
            for folder_name, count in Counter(str(Path(one).parent) for one in files).most_common():
                print(f"       {count:4d}  {folder_name}")


if __name__ == "__main__":
    main()
