"""All five methods on one plant, against each alone and none. No paper has this experiment.

The plant is a road network with forecasts of hourly traffic: rules for SCFA, mined properties for
FedSTL, a set of parameters for PC-FedAvg, ranges for knowledge injection, and states of all sites
for federated Granger learning. PC-FedAvg's blocks exclude weights by rules and private layers, so
all methods together use its sets as a penalty (`sets`); `agents` is PC-FedAvg itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from fedkg.papers.study import Bench, Claim, Paper, Row, Study, SweepResults

ALONE = {
    "none": "FedAvg (none of them)",
    "scfa": "SCFA alone",
    "fedstl": "FedSTL alone",
    "agents": "PC-FedAvg alone",
    "sets": "PC-FedAvg's sets as a penalty alone",
}

CHANGED = 1e-3
"""Difference of mean squared errors from which a method counts as different from FedAvg."""

INJECT = "model.inject={control: false, trust: 0.3, policy: repair}"
"""A training label outside its range counts as inside: the ranges exclude some of the windows."""


def trainings(bench: Bench) -> dict[str, tuple[SweepResults, str]]:
    """The sweep and the algorithm of each method."""
    smoke = ["training.rounds=1", "data.size=240", "training.local_epochs=1", "data.clients=4"]
    changes = bench.pick(smoke, [], ["data.clients=20", "training.rounds=40"])
    names = bench.pick(
        "none,all", "none,scfa,fedstl,agents,sets,all", "none,scfa,fedstl,agents,sets,all"
    )
    job = "together_traffic"
    plain = bench.sweep(job, f"algorithm={names}", key="plain", changes=changes)
    found = {title: (plain, name) for name, title in ALONE.items() if name in names.split(",")}
    for key, title, extra in (
        ("knowledge", "knowledge injection alone", [INJECT]),
        ("granger", "Granger states alone", ["augment=granger"]),
    ):
        one = bench.sweep(job, "algorithm=none", key=key, changes=[*changes, *extra])
        found[title] = (one, "none")
    whole = bench.sweep(
        job, "algorithm=all", key="all", changes=[*changes, INJECT, "augment=granger"]
    )
    found["all five together"] = (whole, "all")
    return found


def together(bench: Bench) -> Iterator[Row]:
    """Errors, violated cases and satisfied properties."""
    found = trainings(bench)
    errors = {name: sweep.figure("mse", algorithm) for name, (sweep, algorithm) in found.items()}
    for name, (sweep, algorithm) in found.items():
        lines = [
            line
            for line in sweep.table("forecasts.csv")
            if line["by"] == "client" and line.get("algorithm", algorithm) == algorithm
        ]
        steps = [float(line["steps"]) for line in lines]
        rules = [
            (float(line["violated"]), float(line["evaluations"]))
            for line in sweep.table("rules.csv")
            if line.get("algorithm", algorithm) == algorithm and line["evaluations"]
        ]
        cases = sum(evaluated for _, evaluated in rules)
        violated = sum(one for one, _ in rules) / cases if cases else math.nan
        yield Row(
            label=f"{name}: mean squared error",
            ours=tuple(errors[name]),
            note=f"{violated:.1%} of the cases of rules violated; {np.mean(steps):.0%} of the steps"
            " satisfy the mined property",
        )
    plain, last = ALONE["none"], "all five together"
    for name in errors:
        if name == plain:
            continue
        apart = tuple(a - b for a, b in zip(errors[name], errors[plain], strict=True))
        yield Row(
            label=f"{name} differs from FedAvg",
            published="no claim",
            ours=apart,
            claim=Claim(support=tuple(abs(one) - CHANGED for one in apart), each_seed=True),
            note=f"for each seed, by more than {CHANGED} in the error: the method does something",
        )
    for name in errors:
        if name == last:
            continue
        gain = tuple(a - b for a, b in zip(errors[name], errors[last], strict=True))
        yield Row(
            label=f"all five together have a lower error than {name}",
            published="no claim",
            ours=gain,
            claim=Claim(support=gain),
        )


PAPER = Paper(
    name="together",
    title="All five methods on one plant",
    studies=(Study(name="plant", title="all, each alone, and none", minutes=3, run=together),),
)
