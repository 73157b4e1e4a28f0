"""Compare the reports of SHACL engines on real models: focus nodes, results and processor time.

    python benchmarks/shacl_models.py [--models FOLDER] [--repeats 3] [--engines NAME,...]

FOLDER has the ontologies with shapes and the models: `brick/Brick.ttl` and `s223/223p.ttl`. Each
engine runs in a new process that reads both files, applies the rules of the shapes if it can (the
Rust engine `shacl` cannot), and validates the model together with the ontology. Results about nodes
that the model does not describe are left out: fedkg does not validate the ontology. Times are
processor times of the whole process in seconds, because they vary less on a shared machine than
wall times; a second row subtracts the time of a process that only imports the engine. Python keeps
its compiled files, as those of an installed program.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from rdflib import Graph, URIRef
from reporting.rows import Row, compare, without_peer

SHARED = Path(os.environ.get("FEDKG_SHARED", Path(__file__).resolve().parents[1] / "shared"))
MODELS = SHARED / "external"
NAMES = (
    *("brick/bldg24.ttl", "brick/bldg11.ttl", "s223/NIST-HPL.ttl", "s223/nist-bdg1-1.ttl"),
    *("s223/nrel-example.ttl", "s223/lbnl-bdg3-1.ttl"),
)
"""The models by default."""
Pair = tuple[str, str]
"""Focus node and name of the constraint component."""

REPORT = """
import json, sys
from rdflib import Namespace
SH = Namespace("http://www.w3.org/ns/shacl#")
def show(report):
    results = set(report.objects(None, SH.result))
    print(json.dumps([[str(report.value(r, SH.focusNode)),
        str(report.value(r, SH.sourceConstraintComponent)).rsplit("#")[-1]] for r in results]))
"""
ENGINES = {
    "pyshifty": "import shifty; show(shifty.validate(sys.argv[1], sys.argv[2])[1])",
    "pyshacl": """
from pyshacl import validate
from rdflib import Graph
data, shapes = Graph().parse(sys.argv[1]), Graph().parse(sys.argv[2])
show(validate(data, shacl_graph=shapes, ont_graph=shapes, advanced=True)[1])
""",
    "shacl": """
import shacl
text = open(sys.argv[1]).read() + open(sys.argv[2]).read()
report = shacl.Shapes.from_file(sys.argv[2]).validate_turtle(text)
print(json.dumps([[r.focus_node.strip("<>"), r.component] for r in report.results]))
""",
}
"""Programs that print the results as JSON; `shacl` has no rules."""


def run(command: list[str], timeout: int) -> tuple[str, float] | None:
    """Run a command; return its output and processor time, None if it takes too long."""
    settings = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=settings, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not done.stdout:
        raise SystemExit(f"{command[0]} failed: {done.stderr[-500:]}")
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, seconds


def fedkg_results(output: str) -> list[Pair]:
    """The results in the JSON of `fedkg validate`."""
    return [
        (one["focus_node"]["value"], one["component"].rsplit("#")[-1])
        for one in json.loads(output)["results"]
    ]


def call(engine: str, files: list[str], timeout: int) -> tuple[list[Pair], float] | None:
    """Validate; return the results and the processor time, None if it takes too long."""
    command = [sys.executable, "-m", "fedkg", "validate", *files, "--json"]
    if engine != "fedkg":
        command = [sys.executable, "-c", REPORT + ENGINES[engine], *files]
    done = run(command, timeout)
    if done is None:
        return None
    output, seconds = done
    found = fedkg_results(output) if engine == "fedkg" else json.loads(output)
    return [(node, component) for node, component in found], seconds


def startup(engine: str) -> float:
    """The processor time of a process that only imports an engine."""
    module = {"fedkg": "fedkg_compiler.frontends.shacl.validation", "pyshifty": "shifty"}.get(
        engine, engine
    )
    done = run([sys.executable, "-c", f"import {module}; print(1)"], 60)
    assert done is not None
    return done[1]


def compare_model(model: Path, shapes: Path, engines: list[str], given: Any) -> list[Row]:
    """Print how far the results are equal; return the rows of one model."""
    own = {str(node) for node in Graph().parse(model).subjects() if isinstance(node, URIRef)}
    files = [str(model), str(shapes)]
    times: dict[str, list[float]] = {}
    late: set[str] = set()
    ours: set[Pair] = set()
    for turn in range(given.repeats):
        for engine in ("fedkg", *engines):
            done = None if engine in late else call(engine, files, given.timeout)
            if done is None:
                late.add(engine)
                continue
            times.setdefault(engine, []).append(done[1])
            pairs = {pair for pair in done[0] if pair[0] in own}
            ours = pairs if engine == "fedkg" else ours
            nodes = {node for node, _ in pairs}
            if turn == 0:
                equal = nodes == {node for node, _ in ours}, pairs == ours
                print(model.stem, engine, len(pairs), len(nodes), *equal, flush=True)
    rows = []
    for engine in engines:
        claim = f"SHACL, {model.stem}: report with rules, processor s"
        if engine in late:
            reason = f"more than {given.timeout} s of wall time"
            rows.append(
                without_peer(claim, reason, engine, ours=times.get("fedkg", ()), target=1.0)
            )
            continue
        rows.append(compare(claim, times["fedkg"], times[engine], engine, target=1.0))
        own_start, peer_start = startup("fedkg"), startup(engine)
        rows.append(
            compare(
                f"{claim}, without start-up",
                [seconds - own_start for seconds in times["fedkg"]],
                [seconds - peer_start for seconds in times[engine]],
                engine,
            )
        )
    return rows


def main() -> None:
    """Compare the results, then time all engines in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, default=MODELS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--engines", default="pyshifty,shacl,pyshacl")
    parser.add_argument("--names", nargs="+", default=list(NAMES))
    parser.add_argument("--timeout", type=int, default=300)
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    engines = given.engines.split(",")
    rows: list[Row] = []
    print("model engine results focus-nodes equal-focus-nodes equal-pairs")
    for name in given.names:
        model = given.models / name
        shapes = model.parent / ("Brick.ttl" if model.parent.name == "brick" else "223p.ttl")
        if not model.is_file():
            claim = f"SHACL, {model.stem}: report with rules, processor s"
            rows.append(without_peer(claim, f"{model} is missing", "pyshifty", target=1.0))
            continue
        rows += compare_model(model, shapes, engines, given)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
