"""From a published graph of a plant to a prior for the learning of causes: who feeds whom, and
whose sensors are whose.

    python examples/boiler/read_graph.py GRAPH.json --out FOLDER [--table train1.csv] [--generate
    3000]
    fedkg run FOLDER/job.yaml

GRAPH.json is in the form of the physical graph that is published with HAI
(`graph/boiler/phy_boiler.json` of github.com/icsdataset/hai,
written as JSON): nodes with an `id` and the tags they read and write (`in_tags`, `out_tags`), links
from node to node along which water,
pressure or heat acts. Nodes without a tag are vessels (tanks, heat exchangers): they are the
clients. Every other node is a device, part of
the vessel that is the fewest links away, of equals the one whose name comes first. A vessel feeds
another where links lead there through
devices alone. Tags become columns as HAI names them: DM-PCV01-D is P1_PCV01D.

With --table only columns that it has are used; vessels without any are passed through. With
--generate a table is made from the graph, in
which each vessel drives those that it feeds. Without a graph of your own try `plant.json` beside
this file.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PREFIXES = """@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix plant: <https://example.org/plant#> .

"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """vessels: the columns of each. feeds: pairs of vessels. parts: the vessel of each device."""

    vessels: dict[str, tuple[str, ...]]
    feeds: tuple[tuple[str, str], ...]
    parts: dict[str, str]


def column(tag: str) -> str:
    """The header of a tag in HAI's tables."""
    return "P1_" + tag.removeprefix("DM-").removeprefix("P1_").replace("-", "")


def _text(path: Path) -> str:
    """What stands in a file. Raises SystemExit where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SystemExit(f"{path} cannot be read: {error.strerror}") from error


def read_plant(path: Path, known: Collection[str] | None = None) -> Plant:
    """The plant in a graph; `known`: the columns that there are, None: all.

    Raises SystemExit where the file has another form.
    """
    try:
        document = json.loads(_text(path))
        tags = {
            node["id"]: [*_listed(node["in_tags"]), *_listed(node["out_tags"])]
            for node in document["nodes"]
        }
        links = [(link["source"], link["target"]) for link in document["links"]]
        ahead: dict[str, list[str]] = {name: [] for name in tags}
        beside: dict[str, list[str]] = {name: [] for name in tags}
        for source, target in links:
            ahead[source].append(target)
            beside[source].append(target)
            beside[target].append(source)
    except (ValueError, KeyError, TypeError) as error:
        raise SystemExit(
            f"{path}: no graph of nodes with in_tags and out_tags, and links between them:"
            f" {error!r}"
        ) from error
    vessels = sorted(name for name, own in tags.items() if not own)
    parts = {
        name: found
        for name in sorted(tags)
        if name not in vessels and (found := _nearest(name, beside, vessels))
    }
    columns = {
        vessel: tuple(
            dict.fromkeys(
                header
                for device, own in parts.items()
                if own == vessel
                for header in map(column, tags[device])
                if known is None or header in known
            )
        )
        for vessel in vessels
    }
    kept = {vessel: own for vessel, own in columns.items() if own}
    feeds = sorted(
        (vessel, other)
        for vessel in kept
        for other in _reached(vessel, ahead, kept)
        if other != vessel
    )
    return Plant(
        vessels=kept,
        feeds=tuple(feeds),
        parts={device: own for device, own in parts.items() if own in kept},
    )


def _listed(tags: str) -> list[str]:
    return [tag.strip() for tag in tags.split(",") if tag.strip()]


def _nearest(start: str, beside: Mapping[str, list[str]], vessels: Collection[str]) -> str:
    """The vessel the fewest links away; "" where there is none."""
    seen, front = {start}, [start]
    while front:
        front = sorted({other for name in front for other in beside[name]} - seen)
        seen |= set(front)
        found = [name for name in front if name in vessels]
        if found:
            return found[0]
    return ""


def _reached(start: str, ahead: Mapping[str, list[str]], vessels: Collection[str]) -> set[str]:
    """The vessels to which links lead without passing another vessel."""
    found, seen, waiting = set(), {start}, deque([start])
    while waiting:
        for other in ahead[waiting.popleft()]:
            if other in seen:
                continue
            seen.add(other)
            if other in vessels:
                found.add(other)
            else:
                waiting.append(other)
    return found


def turtle(plant: Plant) -> str:
    """The plant's flow as a graph that `rules.fkg` reads."""
    lines = [f'plant:{vessel} fkg:client "{vessel}" .' for vessel in plant.vessels]
    lines += [f"plant:{source} plant:feeds plant:{target} ." for source, target in plant.feeds]
    lines += [
        f"plant:{device} plant:partOf plant:{vessel} ." for device, vessel in plant.parts.items()
    ]
    return PREFIXES + "\n".join(lines) + "\n"


def generated(plant: Plant, steps: int, seed: int = 0) -> dict[str, np.ndarray]:
    """A column for each tag: every vessel keeps 0.5 of itself and takes 0.45 of those that feed it,
    in equal shares.
    """
    stream, names = np.random.default_rng(seed), list(plant.vessels)
    transition = 0.5 * np.eye(len(names))
    for source, target in plant.feeds:
        count = sum(end == target for _, end in plant.feeds)
        transition[names.index(target), names.index(source)] = 0.45 / count
    states = np.zeros((steps, len(names)))
    for t in range(1, steps):
        states[t] = transition @ states[t - 1] + stream.standard_normal(len(names))
    return {
        header: 50 + 10 * stream.uniform(0.5, 2) * states[:, place] + stream.standard_normal(steps)
        for place, own in enumerate(plant.vessels.values())
        for header in own
    }


def job(plant: Plant, table: str) -> str:
    """The job file."""
    clients = "\n".join(f"  {vessel}: [{', '.join(own)}]" for vessel, own in plant.vessels.items())
    rules = (Path(__file__).parent / "rules.fkg").resolve()
    return (
        f"kind: causes\nname: boiler\ntitle: Who drives whom in a boiler\nrules: ['{rules}',"
        f" plant.ttl]\ndata: {{path: '{table}'}}\nclients:\n{clients}\nstates: 1\ncorrelation:"
        " 0\nlearning: {mode: closed_form}\nshifts: 399\n"
    )


def main() -> None:
    """Reads the graph, writes the prior, the job and, where none is given, the table; prints which
    blocks are learnt.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graph", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--generate", type=int, default=3000, metavar="STEPS")
    options = parser.parse_args()
    known = None
    if options.table is not None:
        known = set(next(csv.reader(_text(options.table).splitlines()), []))
    plant = read_plant(options.graph, known)
    if len(plant.vessels) < 2:
        where = (
            ""
            if options.table is None
            else f" in {options.table}: its header must have the tags of the graph's sensors"
        )
        raise SystemExit(f"{options.graph}: fewer than two vessels with columns{where}")
    options.out.mkdir(parents=True, exist_ok=True)
    table = str(options.table.resolve()) if options.table is not None else "plant.csv"
    if options.table is None:
        values = generated(plant, options.generate)
        with (options.out / "plant.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(values)
            writer.writerows(
                [[f"{cell:.5g}" for cell in row] for row in zip(*values.values(), strict=True)]
            )
    (options.out / "plant.ttl").write_text(turtle(plant), encoding="utf-8")
    (options.out / "job.yaml").write_text(job(plant, table), encoding="utf-8")
    pairs, columns = (
        len(plant.vessels) * (len(plant.vessels) - 1),
        sum(map(len, plant.vessels.values())),
    )
    print(
        f"{len(plant.vessels)} vessels, {columns} columns; {len(plant.feeds)} of {pairs} pairs feed"
        " each other"
    )
    names = list(plant.vessels)
    print(f"\n{'drives:':8s}" + "".join(f"{name:>8s}" for name in names))
    for driven in names:  # as the blocks of the learning stand: a row for who is driven
        row = "".join(
            f"{'own' if n == driven else 'x' if (n, driven) in plant.feeds else '.':>8s}"
            for n in names
        )
        print(f"{driven:8s}{row}")
    print(f"\nnext: fedkg run {options.out / 'job.yaml'}")


if __name__ == "__main__":
    main()
