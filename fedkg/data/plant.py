"""A synthetic plant of any size: knowledge graph, sensor table, and violation queries as people
write them.

The hierarchy is that of ISA-95 (IEC 62264-1): an enterprise has sites, a site areas, an area
production lines, a line work cells. Each cell has a machine tool with a mounted cutting tool of a
kind that MASON names. Every tenth line buffers in a tank. Machines have limits as bare numbers,
tools have limits, and there are `fkg:Limit` nodes with QUDT quantities. Machines are rows of one
table, with their name in the column ``machine``; tanks have separate columns. All names, numbers
and faults depend on one seed.

The numbers follow the milling machines of AI4I 2020 (Matzka 2020): torque about 40 N.m, speed about
1540 rpm, a process temperature near 310 K, here in degC, tool wear up to 240 min.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PLANT = "https://example.org/plant#"
_SPACES = {
    "plant": PLANT,
    "isa95": "http://www.w3id.org/hsu-aut/DINEN62264-2#",
    "fkg-isa95": "https://w3id.org/fedkg/isa95#",
    "mason": "http://www.owl-ontologies.com/mason.owl#",
    "fkg-mason": "https://w3id.org/fedkg/mason#",
    "fkg": "https://w3id.org/fedkg/ns#",
    "sosa": "http://www.w3.org/ns/sosa/",
    "qudt": "http://qudt.org/schema/qudt/",
    "unit": "http://qudt.org/vocab/unit/",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
MACHINES_PER_LINE = 10
LINES_PER_AREA = 10
AREAS_PER_SITE = 5
LINES_PER_TANK = 10
_KINDS = ("Mill", "Lathe", "Drill", "Grinder")
_TOOLS = ("FaceMill", "EndMill", "Reamer", "ThreadTap")
_COLUMNS = {"torque": "N-M", "speed": "REV-PER-MIN", "temperature": "DEG_C", "toolWear": "MIN"}
_TANK_COLUMNS = {"level": "M", "inflow": "KiloGM-PER-HR", "outflow": "KiloGM-PER-HR"}
SHAPES = (
    "torque",
    "fixed",
    "power",
    "wear",
    "window",
    "balance",
    "chain",
    "total",
    "overheat",
    "unlimited",
)
"""The kinds of queries, in the order in which they alternate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine tool in its work cell: names, line, and limits in N.m, degC and minutes of tool
    life.
    """

    name: str
    kind: str
    line: str
    area: str
    torque: float
    temperature: float
    life: int
    fault: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """The drawn plant.

    Attributes:
        machines: in the order of their lines.
        tanks: names, each with its area.
        lines: names, each with its area.
        areas: names, each with its site.
        sites: names.
    """

    machines: tuple[Machine, ...]
    tanks: tuple[tuple[str, str], ...]
    lines: tuple[tuple[str, str], ...]
    areas: tuple[tuple[str, str], ...]
    sites: tuple[str, ...]

    @property
    def entities(self) -> int:
        """Number of equipment, tools and tanks, including the enterprise."""
        return (
            1
            + len(self.sites)
            + len(self.areas)
            + len(self.lines)
            + 2 * len(self.machines)
            + len(self.tanks)
        )


def draw_plant(entities: int, seed: int) -> Plant:
    """Draw a plant of about this many entities, with at least one line. Equal seeds give equal
    plants.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    count = max(
        1,
        round(
            (entities - 2) / (2 * MACHINES_PER_LINE + 1 + 1 / LINES_PER_TANK + 1 / LINES_PER_AREA)
        ),
    )
    lines = tuple((f"L{i + 1:04d}", f"A{i // LINES_PER_AREA + 1:03d}") for i in range(count))
    areas = tuple(
        (area, f"S{i // AREAS_PER_SITE + 1:02d}")
        for i, area in enumerate(dict.fromkeys(area for _, area in lines))
    )
    machines: list[Machine] = []
    for line, area in lines:
        kinds = generator.choice(_KINDS, MACHINES_PER_LINE)
        torques, heats = (
            generator.normal(62, 3, MACHINES_PER_LINE),
            generator.normal(47, 2, MACHINES_PER_LINE),
        )
        lives, faults = (
            generator.integers(180, 240, MACHINES_PER_LINE),
            generator.random(MACHINES_PER_LINE) < 0.02,
        )
        for j in range(MACHINES_PER_LINE):
            machine = Machine(
                name=f"M{len(machines) + 1:05d}",
                kind=str(kinds[j]),
                line=line,
                area=area,
                torque=round(float(torques[j]), 1),
                temperature=round(float(heats[j]), 1),
                life=int(lives[j]),
                fault=bool(faults[j]),
            )
            machines.append(machine)
    tanks = tuple((f"T{i + 1:04d}", area) for i, (_, area) in enumerate(lines[::LINES_PER_TANK]))
    return Plant(
        machines=tuple(machines),
        tanks=tanks,
        lines=lines,
        areas=areas,
        sites=tuple(dict.fromkeys(site for _, site in areas)),
    )


def graph_text(plant: Plant) -> str:
    """The knowledge graph as N-Triples, in the order of the hierarchy."""
    return "".join(f"{_term(s)} {_term(p)} {_term(o)} .\n" for s, p, o in _triples(plant))


def _triples(plant: Plant) -> Iterator[tuple[str, str, str]]:
    yield from _vocabulary()
    yield "plant:enterprise", "a", "isa95:Enterprise"
    for site in plant.sites:
        yield from _part(site, "isa95:Site", "enterprise")
    for area, site in plant.areas:
        yield from _part(area, "isa95:Area", site)
    for line, area in plant.lines:
        yield from _part(line, "isa95:Production_Line", area)
    before = None
    for machine in plant.machines:
        yield from _machine(machine)
        if before is not None and before.line == machine.line:
            yield f"plant:{before.name}", "fkg-isa95:feeds", f"plant:{machine.name}"
        before = machine
    for tank, area in plant.tanks:
        yield from _tank(tank, area)


def _vocabulary() -> Iterator[tuple[str, str, str]]:
    yield "plant:Machine", "a", "rdfs:Class"
    yield "plant:Machine", "rdfs:subClassOf", "isa95:Work_Cell"
    yield "plant:Machine", "fkg:keyColumn", '"machine"'
    for kind in _KINDS:
        yield f"plant:{kind}", "a", "rdfs:Class"
        yield f"plant:{kind}", "rdfs:subClassOf", "plant:Machine"
    for name, unit in (_COLUMNS | _TANK_COLUMNS).items():
        yield f"plant:{name}", "a", "sosa:ObservableProperty"
        yield f"plant:{name}", "qudt:unit", f"unit:{unit}"
    for name in _COLUMNS:
        yield f"plant:{name}", "fkg:column", f'"{name}"'
    for name in ("maxTorque", "ratedLife", "mountedTool", "capacity", "lowLevel"):
        yield f"plant:{name}", "a", "rdf:Property"


def _part(name: str, kind: str, whole: str) -> Iterator[tuple[str, str, str]]:
    yield f"plant:{name}", "a", kind
    yield f"plant:{name}", "rdfs:label", f'"{name}"'
    yield f"plant:{name}", "isa95:isPartOf", f"plant:{whole}"


def _machine(machine: Machine) -> Iterator[tuple[str, str, str]]:
    name, tool, limit = (
        f"plant:{machine.name}",
        f"plant:{machine.name}_tool",
        f"plant:{machine.name}_heat",
    )
    yield from _part(machine.name, f"plant:{machine.kind}", machine.line)
    if not machine.fault:
        yield name, "plant:maxTorque", f'"{machine.torque}"^^xsd:decimal'
    yield name, "plant:mountedTool", tool
    yield tool, "a", f"fkg-mason:{_TOOLS[_KINDS.index(machine.kind)]}"
    yield tool, "plant:ratedLife", f'"{machine.life}"^^xsd:integer'
    yield name, "fkg:hasLimit", limit
    yield limit, "a", "fkg:Limit"
    yield limit, "fkg:limits", "plant:temperature"
    yield limit, "fkg:highLimit", f"{limit}_value"
    yield f"{limit}_value", "qudt:numericValue", f'"{machine.temperature}"^^xsd:decimal'
    yield f"{limit}_value", "qudt:unit", "unit:DEG_C"


def _tank(tank: str, area: str) -> Iterator[tuple[str, str, str]]:
    yield from _part(tank, "isa95:Storage_Unit", area)
    yield f"plant:{tank}", "plant:capacity", '"5.0"^^xsd:decimal'
    yield f"plant:{tank}", "plant:lowLevel", '"0.5"^^xsd:decimal'
    for name, unit in _TANK_COLUMNS.items():
        sensor = f"plant:{tank}_{name}"
        yield sensor, "a", "sosa:Sensor"
        yield sensor, "sosa:observes", f"plant:{name}"
        yield sensor, "sosa:isHostedBy", f"plant:{tank}"
        yield sensor, "fkg:column", f'"{tank}.{name}"'
        yield sensor, "qudt:unit", f"unit:{unit}"


def _term(text: str) -> str:
    """A prefixed name or literal as N-Triples."""
    if text == "a":
        return f"<{_SPACES['rdf']}type>"
    if text.startswith('"'):
        lexical, mark, datatype = text.rpartition("^^")
        return f"{lexical}^^{_term(datatype)}" if mark else text
    prefix, _, local = text.partition(":")
    return f"<{_SPACES[prefix]}{local}>"


def table_lines(plant: Plant, rows: int, seed: int) -> Iterator[str]:
    """The table as CSV, line by line: machines alternate by row; 2 % of the cells are empty, as
    sensors fail.
    """
    generator = np.random.Generator(np.random.PCG64([seed, 1]))
    tanks = [tank for tank, _ in plant.tanks]
    yield ",".join(
        ["machine", *_COLUMNS, *(f"{tank}.{name}" for tank in tanks for name in _TANK_COLUMNS)]
    )
    for i in range(rows):
        machine = plant.machines[i % len(plant.machines)]
        speed = generator.normal(1540, 120)
        torque = generator.normal(40, 10) * 1540 / speed
        own = (torque, speed, generator.normal(37, 4), generator.uniform(0, 240))
        flows = generator.normal(120, 10, len(tanks))
        each = zip(
            generator.normal(3, 0.8, len(tanks)),
            flows,
            flows + generator.normal(0, 2, len(tanks)),
            strict=True,
        )
        cells = [*own, *(value for group in each for value in group)]
        gone = generator.random(len(cells)) < 0.02
        yield ",".join(
            [
                machine.name,
                *(
                    "" if empty else f"{value:.2f}"
                    for value, empty in zip(cells, gone, strict=True)
                ),
            ]
        )


def violation_queries(plant: Plant, count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Violation queries of ten kinds with their file names, in the style of different authors."""
    generator = np.random.Generator(np.random.PCG64([seed, 2]))
    for i in range(count):
        kind = SHAPES[i % len(SHAPES)]
        title, body = _query(kind, plant, generator)
        head = "".join(
            f"PREFIX {prefix}: <{_SPACES[prefix]}>\n"
            for prefix in ("plant", "isa95", "fkg-isa95", "fkg")
        )
        yield (
            f"{kind}_{i + 1:05d}.rq",
            (
                f"# title: {title}\n# kind: "
                f"{'physical' if kind == 'balance' else 'capacity'}\n{head}{body}\n"
            ),
        )


def _query(kind: str, plant: Plant, generator: np.random.Generator) -> tuple[str, str]:
    line, area = plant.lines[int(generator.integers(len(plant.lines)))]
    machine = plant.machines[int(generator.integers(len(plant.machines)))].name
    tank = plant.tanks[int(generator.integers(len(plant.tanks)))][0]
    share = round(float(generator.uniform(0.9, 1.2)), 2)
    return {
        "torque": (
            f"The torque in {line} stays below the limits of its machines.",
            (
                "SELECT ?m ?t WHERE "
                f"{{ ?m isa95:isPartOf plant:{line} ; plant:maxTorque ?x ; plant:torque ?t . "
                f"FILTER(?t > {share} * ?x) }}"
            ),
        ),
        "fixed": (
            f"{machine} does not run hot.",
            (
                "SELECT ?t WHERE "
                f"{{ plant:{machine} plant:temperature ?t . FILTER(?t > {round(45 * share, 1)}) }}"
            ),
        ),
        "power": (
            f"Power in {line} stays in its window.",
            (
                "SELECT ?m WHERE "
                f"{{ ?m isa95:isPartOf plant:{line} ; plant:torque ?t ; plant:speed ?n .\n"
                f"  BIND(?t * ?n / 9.549 AS ?p) FILTER(?p < 3500 || ?p > {round(9000 * share)}) }}"
            ),
        ),
        "wear": (
            f"Tools in {line} are changed in time.",
            (
                "SELECT ?m ?tool WHERE "
                f"{{ ?m isa95:isPartOf plant:{line} ; "
                "plant:mountedTool ?tool ; plant:toolWear ?w .\n"
                f"  ?tool plant:ratedLife ?life . FILTER(?w > {share} * ?life) }}"
            ),
        ),
        "window": (
            f"The level of {tank} stays between its limits.",
            (
                "SELECT ?l WHERE "
                f"{{ plant:{tank} plant:level ?l ; plant:lowLevel ?low ; plant:capacity ?high .\n"
                f"  FILTER(!(?l >= ?low && ?l <= {share} * ?high)) }}"
            ),
        ),
        "balance": (
            f"What flows into {tank} flows out of it.",
            (
                "ASK "
                f"{{ plant:{tank} plant:inflow ?in ; plant:outflow ?out . "
                f"FILTER(ABS(?in - ?out) > {round(8 * share, 1)}) }}"
            ),
        ),
        "chain": (
            f"A machine of {line} that feeds another one is not overloaded at speed.",
            (
                "SELECT ?m WHERE "
                f"{{ ?m isa95:isPartOf plant:{line} ; fkg-isa95:feeds/plant:maxTorque ?x ; "
                "plant:torque ?t ; plant:speed ?n .\n"
                f"  FILTER(?n > {round(1700 * share)} && ?t > ?x) }}"
            ),
        ),
        "total": (
            f"The tanks of {area} take no more than their area is allowed.",
            (
                "SELECT ?a (SUM(?in) AS ?sum) WHERE "
                f"{{ VALUES ?a {{ plant:{area} }} ?tank isa95:isPartOf ?a ; plant:inflow ?in }}\n"
                f"GROUP BY ?a HAVING (SUM(?in) > {round(260 * share)})"
            ),
        ),
        "overheat": (
            f"Machines of {line} keep the limits of their observed properties.",
            (
                f"SELECT ?m WHERE {{ ?m isa95:isPartOf plant:{line} ; fkg:hasLimit ?limit .\n"
                "  ?limit fkg:limits plant:temperature ; fkg:highLimit ?high . ?m "
                "plant:temperature ?v . FILTER(?v > ?high) }"
            ),
        ),
        "unlimited": (
            f"Every machine of {line} has a torque limit.",
            (
                "SELECT ?m WHERE "
                f"{{ ?m a plant:Machine ; isa95:isPartOf plant:{line} . "
                "FILTER NOT EXISTS { ?m plant:maxTorque ?x } }"
            ),
        ),
    }[kind]


_TANK_LIMITS = "{ ?t a isa95:Storage_Unit ; plant:lowLevel ?low ; plant:capacity ?high }"

RULES = f"""# The plant as rules: signals, two rules over the graph, and people's SPARQL queries.
use isa95, mason
prefix plant: <{PLANT}>

signal torque(?m) is plant:torque in N.m span 0 .. 120
signal speed(?m) is plant:speed in rpm span 500 .. 3000
signal temperature(?m) is plant:temperature in degC span -20 .. 150
signal toolWear(?m) is plant:toolWear in min span 0 .. 300
signal level(?t) is plant:level in m span 0 .. 6

rule torque_limit "A machine stays below its torque limit."
  kind capacity
  for ?m, ?max where {{ ?m a plant:Machine ; plant:maxTorque ?max }}
  require torque(?m) <= ?max

rule tank_level "A tank is neither empty nor full."
  kind capacity
  for ?t, ?low, ?high where {_TANK_LIMITS}
  require ?low <= level(?t) <= ?high

queries "legacy/*.rq"
"""


def write_plant(folder: Path, *, entities: int, count: int, rows: int, seed: int) -> Plant:
    """Write ``plant.nt``, ``table.csv``, ``plant.fkg`` and ``legacy/*.rq`` into a new folder;
    return the plant.
    """
    plant = draw_plant(entities, seed)
    (folder / "legacy").mkdir(parents=True, exist_ok=True)
    (folder / "plant.nt").write_text(graph_text(plant), encoding="utf-8")
    (folder / "plant.fkg").write_text(RULES, encoding="utf-8")
    with (folder / "table.csv").open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in table_lines(plant, rows, seed))
    for name, text in violation_queries(plant, count, seed):
        (folder / "legacy" / name).write_text(text, encoding="utf-8")
    return plant
