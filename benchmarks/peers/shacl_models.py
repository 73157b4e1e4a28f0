"""Compare the reports of SHACL engines on real models: focus nodes, results and processor time.

    python benchmarks/peers/shacl_models.py SHAPES MODEL... --peers PYTHON [--engines NAME,...]

SHAPES is an ontology with shapes, such as Brick or ASHRAE 223P; PYTHON an interpreter with the
packages `pyshifty`, `pyshacl` and `shacl` (the Rust engine). Each engine runs in a new process that
reads both files, applies the rules of the shapes if it can, and validates the model together with
the ontology. Results about nodes that the model does not describe are left out: fedkg does not
validate the ontology. Times are processor times of the whole process in seconds, because they vary
less on a shared machine than wall times.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

from rdflib import Graph, URIRef

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
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
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


def main() -> None:
    """Print one line for each model and engine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--engines", default="pyshifty")
    parser.add_argument("--timeout", type=int, default=600)
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    print("model engine seconds results focus-nodes equal-focus-nodes equal-pairs")
    for model in given.models:
        own = {str(node) for node in Graph().parse(model).subjects() if isinstance(node, URIRef)}
        files = [str(model), str(given.shapes)]
        ours: list[Pair] = []
        for engine in ["fedkg", *given.engines.split(",")]:
            command = (
                [sys.executable, "-m", "fedkg", "validate", *files, "--json"]
                if engine == "fedkg"
                else [given.peers, "-c", REPORT + ENGINES[engine], *files]
            )
            done = run(command, given.timeout)
            if done is None:
                print(model.stem, engine, f"more than {given.timeout} s of wall time", flush=True)
                continue
            output, seconds = done
            found = fedkg_results(output) if engine == "fedkg" else json.loads(output)
            pairs = [(node, component) for node, component in found if node in own]
            ours = pairs if engine == "fedkg" else ours
            nodes = {node for node, _ in pairs}
            equal = nodes == {node for node, _ in ours}, set(pairs) == set(ours)
            print(model.stem, engine, f"{seconds:.1f}", len(pairs), len(nodes), *equal, flush=True)


if __name__ == "__main__":
    main()
