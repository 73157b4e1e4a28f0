"""Every benchmark in this folder, one after the other, and what they claim as a table in RESULTS.md.

    python benchmarks/run_all.py [NAME ...] [--quick] [--limit 1800] [--into FILE]

A benchmark is a program whose last line is a JSON object, or a list of them, one for each claim: `claim`, `ours`, `peer`, `peer_name`,
`ratio`, `target`, `holds`, `floor`, and where there are any `spread` and the `reason` for which there is no ratio. One that fails, lacks a
peer or takes too long is named in RESULTS.md with what it said last, and the others go on. The exit code is 1 when one failed.

Where some are run alone, the others keep the sections that they have, so that results can be gathered in several quiet hours: each says
when it was run, on what, and how busy that was. The same stands as data in RESULTS.json beside it. Quick runs have files of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).resolve().parent
QUICK: dict[str, tuple[str, ...]] = {
    "check_speed": ("--lines", "200", "--repeats", "1"),
    "constraint_module": ("--rows", "120", "--batch", "64", "--repeats", "2"),
    "device_traffic": ("--rows", "60"),
    "federated_executors": ("--quick",),
    "federated_growth": ("--turns", "1"),
    "federated_peers": ("--quick", "--turns", "1"),
    "fedstl_traffic": ("--rounds", "1", "--hours", "400", "--cell", "rnn"),
    "granger": ("--quick", "--turns", "1"),
    "granger_extensions": ("--quick",),
    "granger_paper": ("--quick",),
    "granger_skab": ("--quick",),
    "granger_studies": ("--quick",),
    "graph_store": ("--triples", "10000", "--repeats", "1", "--rdflib", "2000"),
    "keyed_rows": ("--rows", "60", "--machines", "6", "--batch", "64", "--repeats", "2"),
    "legacy_compile": ("--entities", "200", "--queries", "60", "--repeats", "1", "--growth", "200"),
    "linear_layer": ("--batch", "64", "--repeats", "1", "--patience", "40"),
    "logic_tensor_networks": ("--rules", "60", "--batch", "128", "--repeats", "1"),
    "mining": ("--clients", "20", "--repeats", "1", "--searched", "1"),
    "ontology_closure": (
        "--turns",
        "1",
        "--machines",
        "500",
        "--small",
        "40",
        "--patience",
        "20",
        "--most",
        "15",
    ),
    "personal_constraints": ("--rounds", "5", "--samples", "200"),
    "polytope": ("--points", "32", "--repeats", "1"),
    "private_steps": ("--turns", "2"),
    "projections": ("--points", "64", "--repeats", "2"),
    "scfa_overhead": ("--rows", "60", "--turns", "2"),
    "shacl_validation": ("--nodes", "500", "--repeats", "1", "--pyshacl-nodes", "50"),
    "sparql_compile": ("--entities", "200", "--queries", "60", "--repeats", "1"),
    "specialise": ("--rows", "120", "--probe", "64", "--clients", "5", "--repeats", "2"),
    "teacher": ("--traces", "200", "--repeats", "1", "--programs", "1"),
    "temporal_robustness": ("--repeats", "1", "--rows", "60"),
}
"""What makes each small, to see that it runs; its figures then say nothing."""
COLUMNS = ("claim", "ours", "peer", "ratio", "spread", "target", "holds", "floor")
PACKAGES = (
    "torch",
    "numpy",
    "numba",
    "stlcgpp",
    "LTNtorch",
    "pishield",
    "osqp",
    "proxsuite",
    "cvxpylayers",
    "pyproximal",
    "sparsemax",
    "shacl",
    "owlrl",
    "reasonable",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a benchmark printed, when and where, how long it took, and why there are no claims of it; "" when there are."""

    name: str
    when: str
    machine: str
    quick: bool
    claims: tuple[dict[str, object], ...]
    printed: str
    seconds: float
    failure: str = ""


def ran(script: Path, limit: float, *, quick: bool) -> Ran:
    """A benchmark run to its end, or stopped after `limit` seconds with all processes that it began."""
    when, here, start = (
        datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        machine(),
        time.perf_counter(),
    )
    work = subprocess.Popen(
        [sys.executable, str(script), *(QUICK.get(script.stem, ()) if quick else ())],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=HERE.parent,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},  # what one printed that is stopped is known
        start_new_session=True,
    )
    try:
        printed, failure = work.communicate(timeout=limit)[0], ""
    except subprocess.TimeoutExpired:
        os.killpg(work.pid, signal.SIGKILL)
        printed, failure = work.communicate()[0], f"stopped after {limit:.0f} s"
    seconds = time.perf_counter() - start
    lines = printed.rstrip().splitlines()
    claims: tuple[dict[str, object], ...] = ()
    if work.returncode and not failure:
        failure = f"exit code {work.returncode}: {lines[-1] if lines else 'no output'}"
    if not failure:
        try:
            found = json.loads(lines.pop())
            claims = tuple(found if isinstance(found, list) else [found])
        except (IndexError, json.JSONDecodeError):
            failure = "its last line has no claims"
    printed = printed if failure else "\n".join(lines)
    return Ran(
        name=script.stem,
        when=when,
        machine=here,
        quick=quick,
        claims=claims,
        printed=printed,
        seconds=seconds,
        failure=failure,
    )


def kept(data: Path, names: Sequence[str], *, quick: bool) -> dict[str, Ran]:
    """The sections there are already, by name: of benchmarks that there still are, of the same kind of run."""
    if not data.is_file():
        return {}
    found = (
        Ran(**{**one, "claims": tuple(one["claims"])})
        for one in json.loads(data.read_text(encoding="utf-8"))
    )
    return {one.name: one for one in found if one.name in names and one.quick == quick}


def row(claim: dict[str, object]) -> str:
    """A claim as a line of the table."""
    shown = {name: claim.get(name) for name in COLUMNS}
    shown["peer"] = " ".join(
        str(part) for part in (claim.get("peer"), claim.get("peer_name")) if part is not None
    )
    shown["ratio"] = (
        claim.get("reason", "not measured") if claim.get("ratio") is None else claim["ratio"]
    )
    shown["holds"] = (
        "-" if claim.get("target") is None else "yes" if claim.get("holds") else "**no**"
    )
    return (
        "| "
        + " | ".join(
            "" if part is None else str(part).replace("|", "/").replace("\n", " ")
            for part in shown.values()
        )
        + " |"
    )


def results(done: Sequence[Ran]) -> str:
    """The text of RESULTS.md."""
    claims = [claim for one in done for claim in one.claims]
    failed = [one for one in done if one.failure]
    judged = [claim for claim in claims if claim.get("target") is not None]
    parts = ["# Benchmark results\n\nWritten by `make bench`.\n"]
    if any(one.quick for one in done):
        parts.append("**A quick run, to see that all benchmarks run: its figures say nothing.**\n")
    held = sum(bool(claim.get("holds")) for claim in judged)
    parts.append(
        f"{held} of {len(judged)} targets are met; {len(done) - len(failed)} of {len(done)} benchmarks ran to their end.\n"
    )
    if failed:
        parts.append(
            "Failed:\n\n" + "\n".join(f"- `{one.name}`: {one.failure}" for one in failed) + "\n"
        )
    parts.append(
        "`ours`, `peer` and `floor` are in the units of each benchmark, printed below; a ratio above 1 says that ours is ahead.\n"
    )
    for one in done:
        table = [
            "| " + " | ".join(COLUMNS) + " |",
            "|" + " --- |" * len(COLUMNS),
            *map(row, one.claims),
        ]
        body = "\n".join(table) if one.claims else f"Failed: {one.failure}"
        printed = "\n".join(one.printed.rstrip().splitlines()[-60:])
        where = f"{one.when}, {one.seconds:.0f} s in all; {one.machine}"
        parts.append(f"## {one.name}\n\n{body}\n\n{where}\n\n```\n{printed}\n```\n")
    return "\n".join(parts)


def machine() -> str:
    """The machine and the versions on it."""
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
    load = f"load before {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"{platform.platform()}, {model}, {os.cpu_count()} cores, {load}; Python {platform.python_version()}, {', '.join(found)}."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="some benchmarks alone")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that they run")
    parser.add_argument(
        "--limit", type=float, default=1800.0, help="seconds that one of them may take"
    )
    parser.add_argument(
        "--into", type=Path, help="instead of RESULTS.md here, with --quick of RESULTS_quick.md"
    )
    options = parser.parse_args()
    into = options.into or HERE / ("RESULTS_quick.md" if options.quick else "RESULTS.md")
    scripts = [script for script in sorted(HERE.glob("*.py")) if script != Path(__file__).resolve()]
    unknown = sorted(set(options.names) - {script.stem for script in scripts})
    if unknown:
        parser.error(
            f"there is no benchmark {', '.join(unknown)}; there are {', '.join(script.stem for script in scripts)}"
        )
    data = into.with_suffix(".json")
    done = kept(data, [script.stem for script in scripts], quick=options.quick)
    failed = []
    for script in scripts:
        if options.names and script.stem not in options.names:
            continue
        print(f"== {script.stem}", flush=True)
        one = ran(script, options.limit, quick=options.quick)
        print(
            one.printed,
            f"   {one.seconds:.0f} s{', ' + one.failure if one.failure else ''}",
            sep="\n",
            flush=True,
        )
        done[one.name] = one
        failed += [one.name] if one.failure else []
        sections = [done[name] for name in sorted(done)]
        data.write_text(
            json.dumps([asdict(section) for section in sections], indent=1) + "\n", encoding="utf-8"
        )
        into.write_text(
            results(sections), encoding="utf-8"
        )  # what is known, should this be stopped
    count = len({*options.names}) or len(scripts)
    print(
        f"{into}: {count - len(failed)} benchmarks ran, {len(failed)} failed{': ' + ', '.join(failed) if failed else ''}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
