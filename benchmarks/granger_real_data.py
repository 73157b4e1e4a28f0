"""Causal discovery on real data, against a centralised VAR.

    python benchmarks/granger_real_data.py [--traffic FOLDER] [--engines FOLDER] [--shifts 999]
        [--quick]

The data are hourly traffic along a road, and the modules of turbofan engines. Each is a `kind:
causes` job with the name of a data set, run twice: on the raw measurements, and without what all
clients have in common (the mean week of the road's traffic; the wear of the engines, by comparing
each cycle with the one before). Without a folder, data in the format of the set is generated: its
stations and sensors do not drive each other, so every reported edge is false.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml

ROAD = {
    "Arna": ["86349V805605"],
    "Herland": ["55153V805604"],
    "Trengereid": ["56466V804740"],
    "Stanghelle": ["16793V804739", "18129V804739"],
    "Dalseid": ["20895V805602", "20407V805602"],
    "Eidesmoen": ["74461V805599"],
    "Voss": ["54929V805598", "08615V2398666"],
    "Vinje": ["09047V805597"],
}
"""Stations along the road from Bergen inland (E16), in that order.

Names and coordinates are the published ones; the two directions form one client.
"""
SETTINGS = {"states": 1, "correlation": 0, "centralised": True}


def job(
    name: str, data: dict[str, Any], clients: dict[str, list[str]], lags: int, shifts: int
) -> dict[str, Any]:
    """A job file as data. `Any`: YAML."""
    learning = {"mode": "closed_form", "lags": lags}
    return {
        "kind": "causes",
        "name": name,
        "data": data,
        "clients": clients,
        "learning": learning,
        "shifts": shifts,
        **SETTINGS,
    }


def run_and_print(title: str, document: dict[str, Any]) -> dict[str, Any]:
    """Run a job, print its findings, and return its results. `Any`: JSON."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.yaml"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "fedkg", "run", str(path), "--out", str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    edges, level = results["edges"], results["level"]
    sure = [edge for edge in edges if edge["adjusted"] <= level]
    central = sum(edge["central_adjusted"] <= level for edge in edges)
    print(f"\n{title}\n  " + "\n  ".join(results["notes"]))
    print(
        f"  significant at {level:g}, corrected: {len(sure)} of {len(edges)} pairs; by a VAR at one"
        f" place: {central}"
    )
    for edge in sorted(sure, key=lambda one: -one["reference"])[:8]:
        print(
            f"    {edge['driver']:>24s} drives {edge['driven']:24s} p {edge['adjusted']:.3f}, VAR"
            f" {edge['central_adjusted']:.2g}; strength {edge['reference']:.3f}, learnt"
            f" {edge['strength']:.3f}; own dynamics took {edge['taken']:.0%}"
        )
    return {"pairs": len(edges), "found": len(sure), "central": central, "edges": sure}


def along(edges: list[dict[str, Any]]) -> int:
    """The number of edges that lead away from the city. `Any`: JSON."""
    order = list(ROAD)
    return sum(order.index(edge["driver"]) < order.index(edge["driven"]) for edge in edges)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traffic", help="the folder of hourly volumes in Norway")
    parser.add_argument("--engines", help="the folder of C-MAPSS")
    parser.add_argument("--shifts", type=int, default=1199)
    parser.add_argument(
        "--quick", action="store_true", help="little generated data, to see that it runs"
    )
    options = parser.parse_args()
    shifts = 119 if options.quick else options.shifts
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, numpy {np.__version__}, load"
        f" {os.getloadavg()[0]:.1f}"
    )
    real = options.traffic is not None
    clients = (
        ROAD
        if real
        else {f"place {i}": [f"station {i}"] for i in range(1, 5 if options.quick else 9)}
    )
    traffic = (
        {"set": "traffic", "path": options.traffic}
        if real
        else {"set": "traffic", "size": 500 if options.quick else 1344, "gaps": 24}
    )
    run_and_print("road, as counted", job("road", traffic, clients, 2, shifts))
    road = run_and_print(
        "road, without the mean week", job("road", {**traffic, "season": 168}, clients, 2, shifts)
    )
    if real and road["edges"]:
        print(f"  of these {along(road['edges'])} go away from the city")
    engines: dict[str, Any] = {"set": "cmapss"}
    engines |= (
        {"path": options.engines} if options.engines else {"size": 6 if options.quick else 60}
    )
    run_and_print("engine modules, as measured", job("engine", engines, {}, 1, shifts))
    wear = run_and_print(
        "engine modules, each cycle less the one before",
        job("engine", {**engines, "trend": 1}, {}, 1, shifts),
    )
    claims = [
        {
            "claim": f"Granger study: edges told of {name}, without what all have in common",
            "ours": one["found"],
            "peer": one["central"],
            "peer_name": "VAR at one place",
            "ratio": None,
            "reason": "counts of false edges, fewer is better",
            "target": None,
            "holds": True,
            "floor": None,
        }
        for name, one in (("a road's traffic", road), ("engine modules", wear))
    ]
    print(json.dumps(claims))


if __name__ == "__main__":
    main()
