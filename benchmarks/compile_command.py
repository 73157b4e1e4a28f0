"""`fedkg compile` of 3,000 SPARQL rules over a plant of 10,000 entities, in new processes.

    python benchmarks/compile_command.py [--entities 10000] [--queries 3000] [--repeats 3]
        [--ontologies FOLDER] [--growth 12500 100000]

The four official ontologies are loaded too. *Cold* begins with an empty cache folder; then the same
command runs again without any change. Start-up counts; Python's compiled files are retained, as in
an installed fedkg. Times are processor time of the process, including system time; wall times are
printed next to them.

*Varied* is another plant, in which 3,000 queries of six forms bind about fifty of the entities each
and are compared with each other: limits that differ by entity, differences of two values, missing
values, defaults and alternatives. Its limits are processor time and memory.

The peer does less work than fedkg: it is what any tool based on rdflib has to do first, in one
process without its start-up. It loads the same graph files, and parses and translates each query.
The floor reads the queries and parses the same graph files with
pyoxigraph. Before the benchmark measures time, both commands must produce the same bytes, with a
rule for every query that is not about the graph alone. Finally, one kind of query is applied to all
machines with a growing number of thresholds, to show time and memory for up to 100,000 rows.

The benchmark looks for the official files in FOLDER (default: `ontologies` in $FEDKG_SHARED, else
in `shared` next to the repository). Without them it uses the modules that ship, and prints that.
`python benchmarks/sparql_compile.py` times the queries' own share.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reporting.rows import Row, compare, limit

from fedkg.pack import Pack, load

COLD_S, UNCHANGED_S, VARIED_MIB = 10.0, 1.0, 600.0
PER_PLACE = 50
"""Entities at a place of the varied plant."""
SHARED = Path(os.environ.get("FEDKG_SHARED", Path(__file__).resolve().parents[2] / "shared"))
OFFICIAL = {
    "isa95": "isa95-dinen62264-2/DINEN62264.owl",
    "mason": "mason/mason.owl",
    "nist": "amontology/AMOntology_v2.ttl",
    "schema": "schemaorg/schemaorg-current-https.ttl",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One process: seconds of processor and of wall time, and MiB of memory at its peak."""

    cpu: float
    wall: float
    memory: float


@dataclass(frozen=True, slots=True)
class Bench:
    """A folder with everything that the processes read and write."""

    folder: Path

    def compile(self, rules: Sequence[str], cache: str) -> Run:
        """Run `fedkg compile` on files of the folder, to ``out.fkgpack``, with the cache of this
        name.
        """
        settings = os.environ | {
            "XDG_CACHE_HOME": str(self.folder / "caches" / cache),
            "FEDKG_HOME": str(self.folder / "home"),
            "PYTHONPYCACHEPREFIX": str(self.folder / "pycache"),
        }
        settings.pop("PYTHONDONTWRITEBYTECODE", None)
        with (self.folder / "said.txt").open("w+", encoding="utf-8") as said:
            start = time.perf_counter()
            command = [sys.executable, "-m", "fedkg", "compile", *rules, "-o", "out.fkgpack"]
            process = subprocess.Popen(
                command, stdout=said, stderr=said, cwd=self.folder, env=settings
            )
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            assert process.returncode == 0, said.read()[-2000:]
        return Run(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)

    def run(self, *arguments: str) -> str:
        """Run another `fedkg` command in the folder and return its output."""
        done = subprocess.run(
            [sys.executable, "-m", "fedkg", *arguments],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=os.environ | {"FEDKG_HOME": str(self.folder / "home")},
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    def pack(self) -> Pack:
        """The bytes of the last compilation."""
        return load(self.folder / "out.fkgpack")

    def digest(self) -> str:
        """The checksum of the last compilation."""
        return hashlib.sha256((self.folder / "out.fkgpack").read_bytes()).hexdigest()


def add_official(bench: Bench, folder: Path) -> list[Path]:
    """Replace our modules by the official files, as `fedkg ontology add` does.

    Returns [] if the official files are not available.
    """
    files = [folder / file for file in OFFICIAL.values()]
    if not all(file.is_file() for file in files):
        print(
            "no official ontologies: using the modules that ship instead; name their"
            " folder with --ontologies"
        )
        return []
    for name, file in zip(OFFICIAL, files, strict=True):
        bench.run("ontology", "add", name, str(file))
    return files


def by_rdflib(queries: Sequence[Path], plant: Path, ontologies: Sequence[Path]) -> float:
    """Processor seconds in which rdflib loads the graph and parses and translates all queries."""
    import rdflib
    from rdflib.plugins.sparql.algebra import translateQuery
    from rdflib.plugins.sparql.parser import parseQuery

    start = time.process_time()
    for path in ontologies:
        rdflib.Graph().parse(path, format="turtle" if path.suffix == ".ttl" else "xml")
    rdflib.Graph().parse(plant, format="nt")
    for path in queries:
        translateQuery(parseQuery(path.read_text(encoding="utf-8")))
    return time.process_time() - start


def floor(queries: Sequence[Path], graphs: Sequence[Path]) -> float:
    """Processor seconds to read the queries and parse the graph files."""
    import pyoxigraph as ox

    formats = {
        ".nt": ox.RdfFormat.N_TRIPLES,
        ".ttl": ox.RdfFormat.TURTLE,
        ".owl": ox.RdfFormat.RDF_XML,
    }
    start = time.process_time()
    for path in queries:
        path.read_bytes()
    for path in graphs:
        for _ in ox.parse(
            path.read_bytes(), format=formats[path.suffix], base_iri="file:///graph", lenient=True
        ):
            pass
    return time.process_time() - start


def grow(bench: Bench, rows: int, machines: int) -> tuple[int, Run]:
    """Compile one query over all machines, with enough thresholds for `rows` rows.

    Returns the number of rows.
    """
    prefix = "PREFIX plant: <https://example.org/plant#>\n"
    folder = bench.folder / f"grown_{rows}"
    folder.mkdir()
    for i in range(max(1, round(rows / machines))):
        text = (
            f"{prefix}SELECT ?m WHERE {{ ?m a plant:Machine ; plant:speed ?n FILTER(?n >"
            f" {1000 + i}) }}\n"
        )
        (folder / f"all_{i}.rq").write_text(text, encoding="utf-8")
    signals = [
        line
        for line in (bench.folder / "plant.fkg").read_text(encoding="utf-8").splitlines()
        if line.startswith(("use", "signal"))
    ]
    text = "\n".join(
        [*signals, "prefix plant: <https://example.org/plant#>", f'queries "{folder.name}/*.rq"\n']
    )
    (bench.folder / f"grown_{rows}.fkg").write_text(text, encoding="utf-8")
    run = bench.compile([f"grown_{rows}.fkg", "plant.nt"], f"grown_{rows}")
    return bench.pack().rows, run


VARIED = (
    "?m a v:{kind} ; v:at v:P{place} ; v:rated ?x ; v:s{one} ?t . FILTER(?t {op} {share} * ?x)",
    "?m v:at v:P{place} ; v:year ?y ; v:s{one} ?t . FILTER(?y < {year} && ?t {op} {limit})",
    "?m v:at v:P{place} ; v:s{one} ?t ; v:s{two} ?u . FILTER(?t - ?u {op} {limit})",
    """?m a v:{kind} ; v:at v:P{place} ; v:s{one} ?t .
  FILTER NOT EXISTS {{ ?m v:s{two} ?u . FILTER(?u {op} {limit}) }}""",
    """?m v:at v:P{place} ; v:s{one} ?t .
  OPTIONAL {{ ?m v:rated ?x FILTER(?x > {limit}) }} FILTER(?t {op} COALESCE(?x, {share}))""",
    """?m v:at v:P{place} .
  {{ ?m v:s{one} ?t FILTER(?t {op} {limit}) }}
  UNION {{ ?m v:s{two} ?t FILTER(?t {op} {share}) }}""",
)
"""The forms of the queries of the varied plant."""


def write_varied(folder: Path, entities: int, queries: int) -> list[str]:
    """Write the graph and the queries of the varied plant; return their names."""
    draw = random.Random(0)
    kinds, signals = ("Mill", "Lathe", "Press", "Robot", "Drill"), range(12)
    lines = [
        "@prefix v: <https://example.org/varied#> .",
        "@prefix fkg: <https://w3id.org/fedkg/ns#> .",
        "@prefix sosa: <http://www.w3.org/ns/sosa/> .",
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .",
        'v:Machine fkg:keyColumn "machine" .',
        *(f"v:{kind} rdfs:subClassOf v:Machine ." for kind in kinds),
        *(f'v:s{i} a sosa:ObservableProperty ; fkg:column "s{i}" .' for i in signals),
        *(
            f"v:M{i} a v:{draw.choice(kinds)} ; v:at v:P{i // PER_PLACE} ; v:rated"
            f" {draw.uniform(40, 90):.2f} ; v:year {draw.randrange(1990, 2025)} ."
            for i in range(entities)
        ),
    ]
    (folder / "varied.ttl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "varied").mkdir()
    for i in range(queries):
        one, two = draw.sample(signals, 2)
        body = draw.choice(VARIED).format(
            kind=draw.choice(kinds),
            place=draw.randrange(-(-entities // PER_PLACE)),
            one=one,
            two=two,
            op=draw.choice((">", "<", ">=", "<=")),
            share=round(draw.uniform(0.5, 2), 2),
            limit=round(draw.uniform(0, 90), 1),
            year=draw.randrange(1995, 2024),
        )
        text = f"PREFIX v: <https://example.org/varied#>\nSELECT ?m WHERE {{ {body} }}\n"
        (folder / "varied" / f"v{i:04d}.rq").write_text(text, encoding="utf-8")
    (folder / "varied.fkg").write_text('queries "varied/*.rq"\n', encoding="utf-8")
    return ["varied.fkg", "varied.ttl"]


def check(bench: Bench, rules: Sequence[str], queries: Sequence[Path]) -> None:
    """Fill Python's byte code cache and check that all runs agree.

    The bytes must be the same cold, again, and from the cache, with a rule for each query that
    reads the table.
    """
    digests = []
    for cache in ("first", "second", "second"):
        bench.compile(rules, cache)
        digests.append(bench.digest())
    assert len(set(digests)) == 1, digests
    pack = bench.pack()
    names = {rule.name for rule in pack.manifest.rules}
    silent = {path.stem for path in queries} - names
    assert all(name.startswith("unlimited") for name in silent), sorted(silent)[:5]
    print(
        f"{len(names):,} rules, {pack.rows:,} bound rows in {len(pack.banks)} banks; {len(silent)}"
        " queries are about the graph alone"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entities", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=3_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--ontologies", type=Path, default=SHARED / "ontologies")
    parser.add_argument("--growth", type=int, nargs="*", default=[12_500, 25_000, 50_000, 100_000])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name) / "plant")
        arguments = ["--entities", str(options.entities), "--queries", str(options.queries)]
        plant = json.loads(
            Bench(Path(name)).run("data", "plant", "plant", *arguments, "--rows", "1", "--json")
        )
        entities, machines = plant["entities"], plant["machines"]
        (bench.folder / "official.fkg").write_text(f"use {', '.join(OFFICIAL)}\n", encoding="utf-8")
        queries, rules = (
            sorted((bench.folder / "legacy").glob("*.rq")),
            ["plant.fkg", "official.fkg", "plant.nt"],
        )
        official = add_official(bench, options.ontologies)
        print(
            f"{entities:,} entities, {machines:,} machines, {len(queries):,} queries,"
            f" {len(official)} official ontologies"
        )
        check(bench, rules, queries)
        cold: list[Run] = []
        unchanged: list[Run] = []
        varied: list[Run] = []
        varied_rules = write_varied(bench.folder, options.entities, options.queries)
        peer, least = [], []
        for repeat in range(options.repeats):
            cold.append(bench.compile(rules, f"cache_{repeat}"))
            unchanged.append(bench.compile(rules, f"cache_{repeat}"))
            varied.append(bench.compile(varied_rules, f"varied_{repeat}"))
            peer.append(by_rdflib(queries, bench.folder / "plant.nt", official))
            least.append(floor(queries, [bench.folder / "plant.nt", *official]))
        print(f"{'':14} {'median s':>9} {'spread s':>17} {'wall s':>8} {'MiB':>7}")
        for title, runs in (("cold", cold), ("unchanged", unchanged), ("varied", varied)):
            times, walls = [run.cpu for run in runs], statistics.median(run.wall for run in runs)
            spread = f"{min(times):.2f} .. {max(times):.2f}"
            print(
                f"{title:14} {statistics.median(times):9.2f} {spread:>17} {walls:8.2f}"
                f" {max(run.memory for run in runs):7.0f}"
            )
        print(
            f"{'rdflib':14} {statistics.median(peer):9.2f}"
            f" {f'{min(peer):.2f} .. {max(peer):.2f}':>17}"
        )
        grown = [grow(bench, size, machines) for size in options.growth]
        for rows, run in grown:
            print(f"{rows:>9,} rows: {run.cpu:6.2f} s, {run.memory:6.0f} MiB at the peak")
    load = os.getloadavg()[0]
    print(
        f"Python {sys.version.split()[0]}, {platform.machine()}, {os.cpu_count()} cores, load"
        f" {load:.1f}; times are processor time"
    )
    print(
        json.dumps(
            claims(
                f"{len(queries):,} SPARQL rules over {entities:,} entities",
                cold,
                unchanged,
                peer,
                least,
                varied,
            )
        )
    )


def claims(
    what: str,
    cold: Sequence[Run],
    unchanged: Sequence[Run],
    peer: Sequence[float],
    least: Sequence[float],
    varied: Sequence[Run],
) -> list[Row]:
    """The rows: the two limits, and the peer."""
    times, floor = [run.cpu for run in cold], statistics.median(least)
    again = [run.cpu for run in unchanged]
    return [
        limit(f"{what}: compiled cold, CPU s", times, COLD_S, floor=floor),
        limit(f"{what}: compiled with nothing changed, CPU s", again, UNCHANGED_S),
        limit(f"{what}, varied forms: CPU s", [run.cpu for run in varied], COLD_S),
        limit(f"{what}, varied forms: MiB", [run.memory for run in varied], VARIED_MIB),
        compare(
            f"{what}: compiled cold, CPU s",
            times,
            peer,
            "rdflib: load the graphs, parse and translate the queries (no rules, no rows)",
            floor=floor,
        ),
    ]


if __name__ == "__main__":
    main()
