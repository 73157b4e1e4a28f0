"""Run every benchmark in this folder and write what they measured to RESULTS.md.

    python benchmarks/run_all.py [NAME ...] [--quick | --smoke] [--limit 1800] [--into FILE]

The settings:

- full (no option): the sizes and numbers of turns that the claims are about.
- `--quick`: fewer turns, and smaller sizes where a benchmark is long; the row texts name the sizes.
- `--smoke`: tiny sizes, to see that every benchmark runs. Its figures mean nothing, so it writes
  RESULTS_smoke.md instead.

A benchmark is a program. Its last line is a JSON object, or a list of them, one for each row:
`claim`, `ours`, `peer`, `peer_name`, `ratio`, `spread` (of the ratio over turns), `target`,
`holds`, `floor`, and `reason` in place of a missing ratio. A benchmark that fails or takes longer
than `--limit` seconds gets the line "failed: reason". One that lacks a package gets "not run: needs
PACKAGE". The others still run. The exit code is 1 if a benchmark failed or did not run.

If you name some benchmarks, the sections of the others stay as they are. Each section names its
date, setting and machine, and the load of the machine before it ran. RESULTS.json has the same
data.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fedkg.errors import describe_install

HERE = Path(__file__).resolve().parent
QUICK: dict[str, str] = {
    "event_log_cost": "",
    "language_server": "",
    "attacks": "--quick",
    "rule_file_check_time": "--repeats 3",
    "constraint_module": "--repeats 5",
    "gpu_memory_traffic": "--together",
    "federated_executors": "--pairs 5",
    "federated_growth": "--turns 2",
    "first_result": "--turns 3",
    "first_round": "--turns 5",
    "federated_peers": "--only mlp lstm --turns 3",
    "federation_faults": "--turns 15",
    "flower_rounds": "--rounds 3",
    "flower_simulation": "--quick",
    "flower_soak": "--kills 4",
    "fedstl_traffic": "--rounds 3 --hours 1080",
    "granger": "--turns 3",
    "granger_extensions": "--steps 1500 --seeds 3 --nulls 3",
    "granger_paper": "--steps 2000",
    "granger_skab": "--quick",
    "granger_real_data": "--shifts 119",
    "graph_store": "--triples 100000",
    "kernels": "--turns 1",
    "page_load": "--turns 3",
    "per_machine_constraints": "--repeats 5",
    "compile_command": "--entities 2000 --queries 300 --growth 12500",
    "linear_rule_projection": "--repeats 3 --sizes 20 30 100 1000 --patience 20",
    "logic_tensor_networks": "--repeats 3",
    "mining": "--repeats 3 --searched 2",
    "ontology_closure": "--turns 2 --machines 20000 --patience 20 --most 50",
    "pcfedavg_paper": "--rounds 50",
    "polytope": "--repeats 3",
    "dp_sgd_overhead": "--turns 5",
    "projections": "--repeats 7",
    "scfa_overhead": "--turns 15",
    "shacl_models": "--repeats 3 --engines pyshifty --names brick/bldg24.ttl brick/bldg11.ttl "
    "s223/NIST-HPL.ttl s223/nist-bdg1-1.ttl s223/nrel-example.ttl s223/lbnl-bdg3-1.ttl",
    "shacl_validation": "--nodes 20000 --pyshacl-nodes 2000",
    "sparql_compile": "--entities 2000 --queries 300",
    "client_scoring": "--repeats 9",
    "nearest_trace": "--repeats 3",
    "temporal_robustness": "--repeats 3",
    "third_party_dc3": "--epochs 1 --seeds 1",
    "third_party_open_fdd": "",
    "third_party_tcga": "--seeds 2",
}
"""Arguments of each benchmark with few turns: about 20 minutes in all on two quiet cores."""
SMOKE: dict[str, str] = {
    "event_log_cost": "--share 0.05",
    "language_server": "--changes 2",
    "attacks": "--tables f1 --rounds 1 --seeds 1 --shares 0.2 --attacks nan_update "
    "--rules scfa x-scfa",
    "rule_file_check_time": "--lines 200 --repeats 1",
    "constraint_module": "--rows 120 --batch 64 --repeats 2",
    "gpu_memory_traffic": "--rows 60 --together",
    "federated_executors": "--quick",
    "federated_growth": "--turns 1",
    "first_result": "--turns 1 --only module",
    "first_round": "--sites 10 1000 2000 --turns 2",
    "federated_peers": "--quick --turns 1",
    "federation_faults": "--rounds 100 --turns 1 --only endurance overhead",
    "flower_rounds": "--rounds 1",
    "flower_simulation": "--sites 3 --rounds 1",
    "flower_soak": "--kills 1",
    "fedstl_traffic": "--rounds 1 --hours 400 --cell rnn",
    "granger": "--quick --turns 1",
    "granger_extensions": "--quick",
    "granger_paper": "--quick",
    "granger_skab": "--quick",
    "granger_real_data": "--quick",
    "graph_store": "--triples 10000 --repeats 1",
    "kernels": "--turns 1 --share 0.1 --only images",
    "page_load": "--turns 1 --rules 20 --sites 2",
    "per_machine_constraints": "--rows 60 --machines 6 --batch 64 --repeats 2",
    "compile_command": "--entities 200 --queries 60 --repeats 1 --growth 200",
    "linear_rule_projection": "--batch 64 --repeats 1 --patience 40",
    "logic_tensor_networks": "--rules 60 --batch 128 --repeats 1",
    "mining": "--clients 20 --repeats 1 --searched 1",
    "ontology_closure": "--turns 1 --machines 500 --small 40 --patience 20 --most 15",
    "pcfedavg_paper": "--rounds 5 --samples 200",
    "polytope": "--points 32 --repeats 1",
    "dp_sgd_overhead": "--turns 2",
    "projections": "--points 64 --repeats 2",
    "scfa_overhead": "--rows 60 --turns 2",
    "shacl_models": "--repeats 1 --names s223/guideline36-2021-A-1.ttl --engines pyshifty",
    "shacl_validation": "--nodes 500 --repeats 1 --pyshacl-nodes 50",
    "sparql_compile": "--entities 200 --queries 60 --repeats 1",
    "client_scoring": "--rows 120 --probe 64 --clients 5 --repeats 2",
    "nearest_trace": "--traces 200 --repeats 1 --programs 1",
    "temporal_robustness": "--repeats 1 --rows 60",
    "third_party_dc3": "--epochs 1 --seeds 1 --variables 20",
    "third_party_open_fdd": "",
    "third_party_tcga": "--seeds 1 --rounds 1",
}
"""Arguments that make each benchmark tiny."""
SETTINGS: dict[str, dict[str, str]] = {"full": {}, "quick": QUICK, "smoke": SMOKE}
COLUMNS = ("claim", "ours", "peer", "ratio", "spread", "target", "holds", "floor")
PACKAGES = (
    *("torch", "numpy", "numba", "stlcgpp", "LTNtorch", "pishield", "osqp", "proxsuite"),
    *("cvxpylayers", "pyproximal", "sparsemax", "shacl", "pyshacl", "pyoxigraph", "rdflib"),
    *("pyshifty", "owlrl", "reasonable", "statsmodels", "flwr"),
)
SHOWN_LINES = 150
"""Lines of a benchmark's output that its section shows, the last ones."""
MISSING = re.compile(r"No module named '([\w.]+)'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One run of a benchmark.

    Attributes:
        when: date and time of the start. machine: processor, load and versions.
        setting: "full", "quick" or "smoke". arguments: of the command line.
        claims: the rows; empty if there was a failure.
        printed: the output without the line of JSON. seconds: wall time of the whole run.
        failure: "failed: ..." or "not run: ..."; "" if the benchmark ran to its end.
    """

    name: str
    when: str
    machine: str
    setting: str
    arguments: str
    claims: tuple[dict[str, object], ...]
    printed: str
    seconds: float
    failure: str = ""


def run_benchmark(script: Path, limit: float, setting: str) -> Section:
    """Run a benchmark. After `limit` seconds, end it with all processes that it has started."""
    arguments = SETTINGS[setting].get(script.stem, "")
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    here, start = describe_machine(), time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, str(script), *arguments.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=HERE.parent,
        # without a buffer, so that the output of a benchmark that is ended is not lost
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    )
    try:
        printed, failure = process.communicate(timeout=limit)[0], ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        printed, failure = process.communicate()[0], f"failed: stopped after {limit:.0f} s"
    seconds = time.perf_counter() - start
    lines = printed.rstrip().splitlines()
    claims: tuple[dict[str, object], ...] = ()
    if process.returncode and not failure:
        failure = explain_failure(process.returncode, lines[-1] if lines else "no output")
    if not failure:
        try:
            found = json.loads(lines.pop())
            claims = tuple(found if isinstance(found, list) else [found])
        except (IndexError, json.JSONDecodeError):
            failure = "failed: its last line has no rows"
    return Section(
        name=script.stem,
        when=when,
        machine=here,
        setting=setting,
        arguments=arguments,
        claims=claims,
        printed=printed if failure else "\n".join(lines),
        seconds=seconds,
        failure=failure,
    )


def explain_failure(code: int, last: str) -> str:
    """Why a benchmark has no rows, from its exit code and its last line."""
    lacking = MISSING.search(last)
    if lacking and not lacking[1].startswith("fedkg"):
        return f"not run: needs {lacking[1]} ({describe_install('bench')})"
    return f"failed: exit code {code}: {last}"


def read_sections(data: Path, names: Sequence[str], setting: str) -> dict[str, Section]:
    """The sections of an earlier run, by name.

    Sections of benchmarks that no longer exist are left out. Smoke runs and others never mix.
    """
    if not data.is_file():
        return {}
    found = (
        Section(**{**one, "claims": tuple(one["claims"])})
        for one in json.loads(data.read_text(encoding="utf-8"))
    )
    smoke = setting == "smoke"
    return {
        one.name: one for one in found if one.name in names and (one.setting == "smoke") == smoke
    }


def format_row(claim: dict[str, object]) -> str:
    """A row of the table."""
    shown = {name: claim.get(name) for name in COLUMNS}
    shown["peer"] = " ".join(
        str(part) for part in (claim.get("peer"), claim.get("peer_name")) if part is not None
    )
    if claim.get("ratio") is None:
        shown["ratio"] = claim.get("reason", "not measured")
    judged = "yes" if claim.get("holds") else "not measured" if is_open(claim) else "**no**"
    shown["holds"] = "-" if claim.get("target") is None else judged
    cells = (
        "" if part is None else str(part).replace("|", "/").replace("\n", " ")
        for part in shown.values()
    )
    return "| " + " | ".join(cells) + " |"


def is_open(claim: dict[str, object]) -> bool:
    """Whether nothing decides the claim, because its peer failed or did not run."""
    return claim.get("ratio") is None and not claim.get("holds")


def format_results(sections: Sequence[Section]) -> str:
    """The text of RESULTS.md."""
    judged = [claim for one in sections for claim in one.claims if claim.get("target") is not None]
    held = sum(bool(claim.get("holds")) for claim in judged)
    open_claims = sum(is_open(claim) for claim in judged)
    failed = [one for one in sections if one.failure]
    parts = ["# Benchmark results\n\n`make bench` writes this page.\n"]
    if any(one.setting == "smoke" for one in sections):
        parts.append("**A smoke run with tiny sizes: its figures mean nothing.**\n")
    parts.append(
        f"{held} of {len(judged)} targets are met, {open_claims} are not measured. "
        f"{len(sections) - len(failed)} of {len(sections)} benchmarks ran to their end.\n"
    )
    if failed:
        parts.append("\n".join(f"- `{one.name}`: {one.failure}" for one in failed) + "\n")
    parts.append(
        "`ours`, `peer` and `floor` are medians in the unit of the row. A ratio above 1 means"
        " that\nfedkg is ahead. `spread` is the smallest and the largest ratio over all turns; it"
        " is empty\nfor counts, which do not vary. Each section names its setting and the command"
        " that repeats\nit: `full` has the sizes of the claims, `quick` fewer turns or smaller"
        " sizes.\nBenchmarks of the Python API measure long runs: compiled loops serve from the"
        " first\ncall (`FEDKG_KERNELS=on`).\n"
    )
    for one in sections:
        table = [
            "| " + " | ".join(COLUMNS) + " |",
            "|" + " --- |" * len(COLUMNS),
            *map(format_row, one.claims),
        ]
        body = "\n".join(table) if one.claims else one.failure
        printed = "\n".join(one.printed.rstrip().splitlines()[-SHOWN_LINES:])
        command = f"python benchmarks/{one.name}.py {one.arguments}".rstrip()
        where = f"{one.when}, setting {one.setting}, {one.seconds:.0f} s in all; {one.machine}"
        parts.append(f"## {one.name}\n\n`{command}`\n\n{body}\n\n{where}\n\n```\n{printed}\n```\n")
    return "\n".join(parts)


def describe_machine() -> str:
    """The machine, its load, and the versions of the packages."""
    model = platform.processor() or platform.machine()
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        names = [
            line.partition(":")[2].strip()
            for line in listed.read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ]
        model = names[0] if names else model
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed")
    load = f"load before {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "load unknown"
    return (
        f"{platform.platform()}, {model}, {os.cpu_count()} cores, {load}; "
        f"Python {platform.python_version()}, {', '.join(found)}."
    )


def main() -> int:
    """Run the benchmarks that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="run only these benchmarks")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="few turns, about 20 minutes in all")
    size.add_argument("--smoke", action="store_true", help="tiny sizes, to see that they run")
    parser.add_argument(
        "--limit", type=float, default=1800.0, help="most seconds for one benchmark"
    )
    parser.add_argument("--into", type=Path, help="write here instead of RESULTS.md")
    options = parser.parse_args()
    setting = "quick" if options.quick else "smoke" if options.smoke else "full"
    into = options.into or HERE / ("RESULTS_smoke.md" if options.smoke else "RESULTS.md")
    scripts = [script for script in sorted(HERE.glob("*.py")) if script != Path(__file__).resolve()]
    known = [script.stem for script in scripts]
    unknown = sorted(set(options.names) - set(known))
    if unknown:
        parser.error(f"unknown benchmark {', '.join(unknown)}; available: {', '.join(known)}")
    data = into.with_suffix(".json")
    done = read_sections(data, known, setting)
    failed = []
    chosen = [script for script in scripts if not options.names or script.stem in options.names]
    for script in chosen:
        print(f"== {script.stem}", flush=True)
        one = run_benchmark(script, options.limit, setting)
        print(one.printed, f"   {one.seconds:.0f} s {one.failure}".rstrip(), sep="\n", flush=True)
        done[one.name] = one
        failed += [one.name] if one.failure else []
        # after each benchmark, so that a run that is stopped keeps what it has
        sections = [done[name] for name in sorted(done)]
        data.write_text(
            json.dumps([asdict(section) for section in sections], indent=1) + "\n", encoding="utf-8"
        )
        into.write_text(format_results(sections), encoding="utf-8")
    without = f": {', '.join(failed)}" if failed else ""
    print(f"{into}: {len(chosen) - len(failed)} benchmarks ran, {len(failed)} did not{without}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
