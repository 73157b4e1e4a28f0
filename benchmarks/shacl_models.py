"""Compare the reports of SHACL engines on real models: focus nodes, results and processor time.

    python benchmarks/shacl_models.py [--models FOLDER] [--repeats 3] [--engines NAME,...]

FOLDER has the ontologies with shapes and the models: `brick/Brick.ttl` and `s223/223p.ttl`. Each
engine runs in a new process that reads both files, applies the rules of the shapes if it can (the
Rust engine `shacl` cannot), and validates the model together with the ontology. Results about nodes
that the model does not describe are left out: fedkg does not validate the ontology. Times are
processor times of the whole process in seconds, because they vary less on a shared machine than
wall times. Python keeps its compiled files, as those of an installed program.

fedkg keeps the shapes that it has read, so that a further validation with them is quicker than the
first: the table has both, and the ratios are those of further ones. A peer is ended after
`--seconds` of processor time. An engine that needs more than `SLOW` seconds runs once.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rdflib import Graph, URIRef
from reporting.rows import Row, compare, format_spread, ratios, without_peer

SHARED = Path(os.environ.get("FEDKG_SHARED", Path(__file__).resolve().parents[1] / "shared"))
MODELS = SHARED / "external"
BUILDINGS = (24, 7, 1, 13, 4, 43, 34, 30, 40, 18, 11, 37)
PLANTS = (
    *("guideline36-2021-A-1", "design-patterns", "NIST-HPL", "guideline36-2021-A-9"),
    *("nist-bdg1-1", "nrel-example", "lbnl-bdg3-1"),
)
NAMES = (
    *(f"brick/bldg{number}.ttl" for number in BUILDINGS),
    *(f"s223/{name}.ttl" for name in PLANTS),
)
"""The models by default, of each ontology the smallest first."""
LINE = "{:21} {:12} {:>7} {:>11} {:>10} {:>12}  {}"
SLOW = 15.0
"""Seconds from which on an engine runs once."""
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


def run(command: list[str], seconds: int) -> tuple[str, float] | None:
    """Run a command; return its output and processor time, None if it takes more than `seconds`."""
    settings = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=settings,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1)),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode == -signal.SIGXCPU:
        return None
    if not done.stdout:
        raise SystemExit(f"{command[0]} failed: {done.stderr[-500:]}")
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fedkg_results(output: str) -> list[Pair]:
    """The results in the JSON of `fedkg validate`."""
    return [
        (one["focus_node"]["value"], one["component"].rsplit("#")[-1])
        for one in json.loads(output)["results"]
    ]


def call(engine: str, files: list[str], seconds: int) -> tuple[list[Pair], float] | None:
    """Validate; return the results and the processor time, None if it takes more than `seconds`."""
    command = [sys.executable, "-m", "fedkg", "validate", *files, "--json"]
    if engine != "fedkg":
        command = [sys.executable, "-c", REPORT + ENGINES[engine], *files]
    done = run(command, seconds)
    if done is None:
        return None
    found = fedkg_results(done[0]) if engine == "fedkg" else json.loads(done[0])
    return [(node, component) for node, component in found], done[1]


def startup(engine: str) -> float:
    """The processor time of a process that only imports an engine."""
    module = {"fedkg": "fedkg_compiler.frontends.shacl.validation", "pyshifty": "shifty"}.get(
        engine, engine
    )
    times = [run([sys.executable, "-c", f"import {module}; print(1)"], 60) for _ in range(5)]
    return statistics.median(done[1] for done in times if done is not None)


def compare_model(model: Path, shapes: Path, engines: list[str], given: Any) -> list[Row]:
    """Print a line for each engine; return a row for each peer."""
    own = {str(node) for node in Graph().parse(model).subjects() if isinstance(node, URIRef)}
    files = [str(model), str(shapes)]
    times: dict[str, list[float]] = {}
    found: dict[str, set[Pair]] = {}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        first = call("fedkg", files, given.seconds)
        for turn in range(given.repeats):
            for engine in ("fedkg", *engines):
                if turn and (engine not in times or times[engine][0] > SLOW):
                    continue
                done = call(engine, files, given.seconds)
                if done is not None:
                    found[engine] = {pair for pair in done[0] if pair[0] in own}
                    times.setdefault(engine, []).append(done[1])
    late = f"not finished in {given.seconds} s"
    if first is None or "fedkg" not in times:
        raise SystemExit(f"fedkg on {model}: {late}")
    rows = []
    ours = {node for node, _ in found["fedkg"]}
    own_cells = (len(found["fedkg"]), len(ours), "", "")
    print(LINE.format(model.stem, "fedkg, first", *own_cells, f"{first[1]:.2f}"))
    median = statistics.median(times["fedkg"])
    print(LINE.format(model.stem, "fedkg", *own_cells, f"{median:.2f}"), flush=True)
    for engine in engines:
        claim = f"SHACL, {model.stem}: report with rules, processor s"
        if engine not in times:
            print(LINE.format(model.stem, engine, "", "", "", "", late), flush=True)
            rows.append(without_peer(claim, late, engine, ours=times["fedkg"]))
            continue
        pairs, nodes = found[engine], {node for node, _ in found[engine]}
        same = ("yes" if nodes == ours else "no", "yes" if pairs == found["fedkg"] else "no")
        mine, theirs = times["fedkg"][: len(times[engine])], times[engine]
        each = ratios(mine, theirs)
        shown = f"{statistics.median(theirs):.2f}  {statistics.median(each):.2f}"
        shown += f" ({format_spread(each)})"
        print(LINE.format(model.stem, engine, len(pairs), len(nodes), *same, shown), flush=True)
        # An engine that finds other focus nodes has done other work.
        claim, target = (claim, 1.0) if nodes == ours else (f"{claim}, other focus nodes", None)
        rows.append(compare(claim, mine, theirs, engine, target=target))
    return rows


def main() -> None:
    """Compare the results, then time all engines in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, default=MODELS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--engines", default="pyshifty,shacl,pyshacl")
    parser.add_argument("--names", nargs="+", default=list(NAMES))
    parser.add_argument("--seconds", type=int, default=30)
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    engines = given.engines.split(",")
    rows: list[Row] = []
    starts = (f"{engine} {startup(engine):.2f} s" for engine in ("fedkg", *engines))
    print(f"imports alone: {', '.join(starts)}\n")
    heads = ("results", "focus nodes", "same nodes", "same results")
    print(LINE.format("model", "engine", *heads, "processor s, peer / fedkg"), flush=True)
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
