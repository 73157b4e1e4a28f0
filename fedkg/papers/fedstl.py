"""An, Johnson and Ma 2024, "FedSTL": tables 2 to 5 and figure 3.

The paper's FHWA stations are not available; its forecasts are repeated on stations in Norway, its
city on fedkg's generator or, below `--data`, on a folder `sumo` with `city.toml` or a table
`segments*.csv`. Letters: T steps, C clients.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

import fedkg
from fedkg.federated import Clients, Problem, Settings, SquaredError, train
from fedkg.federated.algorithms.fedstl import fedstl
from fedkg.federated.temporal.client_property_mining import inferred
from fedkg.mining import mine
from fedkg.models import Recurrent
from fedkg.papers.study import Bench, Claim, Paper, Row, Study, SweepResults

METHODS = {
    "FedAvg": ("fedavg", "client"),
    "FedProx": ("fedprox", "client"),
    "FedRep": ("fedrep", "client"),
    "Ditto": ("ditto", "client"),
    "IFCA": ("ifca", "client"),
    "IFCA-S": ("ifca", "cluster"),
    "FedSTL-S": ("fedstl", "cluster"),
    "FedSTL": ("fedstl", "client"),
    "FedSTL-T": ("fedstl", "teacher"),
}
"""The nine methods: algorithm, and which forecasts are evaluated."""

CELLS = ("rnn", "gru", "lstm", "transformer")
TABLE_2 = {
    "FedAvg": ((0.128, 78.96), (0.154, 80.51), (0.126, 81.80), (0.588, 78.01)),
    "FedProx": ((0.128, 78.86), (0.154, 80.43), (0.126, 81.93), (0.588, 78.05)),
    "FedRep": ((0.164, 80.04), (0.279, 80.08), (0.214, 81.08), (0.929, 57.01)),
    "Ditto": ((0.124, 79.17), (0.153, 80.41), (0.128, 81.48), (0.591, 78.05)),
    "IFCA": ((0.117, 77.89), (0.140, 77.47), (0.121, 80.41), (0.063, 73.43)),
    "IFCA-S": ((0.107, 78.89), (0.134, 77.66), (0.110, 81.51), (0.061, 72.79)),
    "FedSTL-S": ((0.096, 81.67), (0.148, 81.71), (0.111, 83.44), (0.025, 77.03)),
    "FedSTL": ((0.095, 81.70), (0.152, 81.83), (0.119, 83.32), (0.029, 78.99)),
    "FedSTL-T": ((0.076, 100.0), (0.118, 100.0), (0.099, 100.0), (0.287, 100.0)),
}
"""Mean squared error, and per cent of satisfied steps, for each network."""

TEMPLATES = {
    "1": "?low, ?high in operational_range(x, ?low, ?high, {first}, {last})",
    "2": "?high, ?low in extremes(x, ?high, ?low, {first}, {last})",
    "3": "?b, ?a in until(x, ?a, ?b, {first}, {last})",
    "4": "?a in intra_task(x, y, ?a, {first}, {last})",
    "5": "?answer in temporal_implication(x, 75, ?answer, {first}, {last} - 4, 1, 4)",
    "6": "?answer in nested_intra_task(x, y, 75, ?answer, {first}, {last} - 4, 1, 4)",
    "7": "?a, ?b in multiple_eventualities(x, ?a, {first}, {half}, ?b, {half} + 1, {last})",
}
MINING_SECONDS = {"1": 0.0032, "2": 0.0052, "3": 0.0111, "4": 0.0065, "5": 0.0239} | {
    "6": 0.0251,
    "7": 0.0274,
}
"""Table 3: seconds for one property of one client, length 180."""

MANY_SECONDS = {
    "1": (0.0166, 0.0317, 0.0469),
    "2": (0.0253, 0.0521, 0.0769),
    "3": (0.0532, 0.1101, 0.1607),
    "4": (0.0327, 0.0647, 0.0966),
    "5": (0.1216, 0.2443, 0.3588),
    "6": (0.1224, 0.2421, 0.3684),
    "7": (0.1390, 0.2832, 0.4173),
}
"""Table 4: seconds for 5, 10 and 15 properties."""

CLUSTER_SECONDS = {
    10: (0.5545, 0.6801, 0.8035, 0.9456),
    20: (0.6970, 0.8422, 1.0038, 1.2006),
    50: (1.0387, 1.2457, 1.5123, 1.7981),
    100: (1.1792, 1.4327, 1.7991, 2.0559),
}
"""Table 5: seconds of cluster training by clients, for 5, 10, 15 and 20 properties."""

TIMED_ROUNDS = 4
"""Rounds over which the time of a round is a mean."""

OTHER_HARDWARE = "no verdict: the published time is of other hardware"

LIBRARY = """
timeline step 1 h
signal x in % span 0 .. 100
signal y in % span 0 .. 100
use rules templates.operational_range, templates.until, templates.temporal_implication
use rules templates.extremes, templates.intra_task
use rules templates.nested_intra_task, templates.multiple_eventualities
"""


def forecasts(found: SweepResults, method: str, name: str, **setting: object) -> tuple[float, ...]:
    """A figure of the forecasts of a method, for each seed."""
    algorithm, by = METHODS[method]
    wanted = {key.replace("__", "."): str(value) for key, value in setting.items()}
    wanted |= {"algorithm": algorithm, "by": by}
    lines = [line for line in found.table("forecasts.csv") if wanted.items() <= line.items()]
    return tuple(float(line[name]) for line in lines if not line["trial"].startswith("local_only"))


def forecast_rows(
    found: SweepResults, published: dict[str, tuple[float, float]], title: str, **setting: object
) -> Iterator[Row]:
    """Errors and satisfied steps of all methods, and the paper's claims about them."""
    errors = {name: forecasts(found, name, "mse", **setting) for name in METHODS}
    steps = {name: forecasts(found, name, "steps", **setting) for name in METHODS}
    whole = {name: forecasts(found, name, "sequences", **setting) for name in METHODS}
    for name in METHODS:
        error, share = published.get(name, (math.nan, math.nan))
        yield Row(
            label=f"{title}, {name}: mean squared error",
            published="–" if math.isnan(error) else f"{error}",
            ours=errors[name],
        )
        yield Row(
            label=f"{title}, {name}: satisfied steps in %",
            published="–" if math.isnan(share) else f"{share}",
            ours=tuple(100 * one for one in steps[name]),
            form=".1f",
            note=f"whole forecasts {100 * float(np.mean(whole[name] or math.nan)):.0f} %",
        )
    baselines = ("FedAvg", "FedProx", "FedRep", "Ditto", "IFCA")
    for name in ("FedSTL", "FedSTL-T"):
        best = np.min([errors[other] for other in baselines], axis=0)
        support = tuple((best - np.array(errors[name])).tolist())
        size = None
        if published:
            size = min(published[other][0] for other in baselines) - published[name][0]
        yield Row(
            label=f"{title}: {name} has a lower error than the best baseline",
            published="–" if size is None else f"{size:.3f}",
            ours=support,
            claim=Claim(support=support, published=size if size and size > 0 else None),
        )
    best = np.max([steps[other] for other in baselines], axis=0)
    support = tuple((100 * (np.array(steps["FedSTL"]) - best)).tolist())
    size = None
    if published:
        size = published["FedSTL"][1] - max(published[other][1] for other in baselines)
    yield Row(
        label=f"{title}: FedSTL satisfies more steps than the best baseline, in points",
        published="–" if size is None else f"{size:.2f}",
        ours=support,
        claim=Claim(support=support, published=size if size and size > 0 else None),
    )
    yield Row(
        label=f"{title}: the teacher's forecasts satisfy all properties",
        published="100 %",
        ours=whole["FedSTL-T"],
        claim=Claim(support=tuple(one - 1 + 1e-9 for one in whole["FedSTL-T"]), each_seed=True),
        note="by construction; it says nothing about the error",
    )


ALGORITHMS = "algorithm=fedavg,fedprox,fedrep,ditto,ifca,fedstl"


def table_2(bench: Bench) -> Iterator[Row]:
    """Errors and satisfaction with four networks."""
    cells = bench.pick(("rnn",), CELLS, CELLS)
    smoke = ["training.rounds=1", "data.clients=6", "data.size=480", "training.local_epochs=1"]
    smoke += ["data.window.history=48", "model.reads=24"]
    reduced = ["data.clients=10", "training.rounds=8", "training.local_epochs=3", "model.layers=1"]
    for place, cell in enumerate(cells):
        own = [f"model.kind={cell}"]
        if cell == "transformer":
            own = ["model={kind: transformer, width: 32, feed: 64, layers: 1}"]
            if bench.size == "full":
                own = ["model={kind: transformer}"]
            own.append("training.learning_rate=0.01")  # FedSTL and Ditto diverge at 0.05
        changes = bench.pick(smoke, reduced if cell != "transformer" else reduced[:3], [])
        found = bench.sweep(
            "fedstl_traffic", ALGORITHMS, key=f"traffic-{cell}", changes=[*changes, *own]
        )
        published = {name: values[place] for name, values in TABLE_2.items()}
        yield from forecast_rows(found, published, cell)


def figure_3(bench: Bench) -> Iterator[Row]:
    """The property between vehicles and occupancy in a city; the figure prints no numbers."""
    smoke = ["training.rounds=1", "data.size=144", "data.clients=6", "training.local_epochs=1"]
    found = bench.sweep(
        "fedstl_city", ALGORITHMS, changes=bench.pick(smoke, ["training.rounds=8"], [])
    )
    yield from forecast_rows(found, {}, "city")


def mining_seconds(template: str, count: int, clients: int) -> float:
    """Seconds for one client, with `count` properties mined on `clients` clients in one call."""
    length = 180
    text = TEMPLATES[template]
    lines = []
    for number in range(count):
        first = number * (length // count)
        last = min(length - 1, first + length // count - 1)
        call = text.format(first=first, last=last, half=(first + last) // 2)
        call = call.replace(f"{last} - 4", str(last - 4))
        call = call.replace(f"{(first + last) // 2} + 1", str((first + last) // 2 + 1))
        lines.append(f"infer t{number} per client find {call}\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pack = fedkg.compile(text=LIBRARY + "".join(lines))
    traces = np.random.default_rng(0).uniform(0, 100, (clients, 1, length, 2))
    layout, x = fedkg.columns(["x", "y"]), torch.from_numpy(traces)
    mine(pack, pack.manifest.inferences[0], x, layout=layout)
    begun = time.perf_counter()
    for one in pack.manifest.inferences:
        mine(pack, one, x, layout=layout)
    return (time.perf_counter() - begun) / clients


def mining_rows(bench: Bench, counts: tuple[int, ...], published: dict[str, Any]) -> Iterator[Row]:
    """Seconds of mining against the paper's."""
    clients = bench.pick(5, 500, 500)
    templates = bench.pick(["1"], list(TEMPLATES), list(TEMPLATES))
    repeats = max(2, bench.seeds)
    work = {
        f"template {template}, {count} properties, turn {turn}": partial(
            mining_seconds, template, count, clients
        )
        for template in templates
        for count in counts
        for turn in range(repeats)
    }
    bench.settings.append(f"{clients} clients in one call, length 180; seconds for each client")
    found = bench.compute("mining", work)
    for template in templates:
        for place, count in enumerate(counts):
            ours = tuple(
                found[f"template {template}, {count} properties, turn {turn}"]
                for turn in range(repeats)
            )
            paper = published[template]
            paper = paper[place] if isinstance(paper, tuple) else paper
            yield Row(
                label=f"template {template}, number of properties {count}: seconds",
                published=f"{paper}",
                ours=ours,
                note=OTHER_HARDWARE,
            )


def table_3(bench: Bench) -> Iterator[Row]:
    """Seconds to mine one property."""
    return mining_rows(bench, (1,), MINING_SECONDS)


def table_4(bench: Bench) -> Iterator[Row]:
    """Seconds to mine several properties."""
    return mining_rows(bench, bench.pick((5,), (5, 10, 15), (5, 10, 15)), MANY_SECONDS)


def cluster_seconds(clients: int, properties: int) -> float:
    """Processor seconds that five epochs of cluster training add to a round with ten local epochs.

    The mean over `TIMED_ROUNDS` rounds after the first; noise can make it negative.
    """
    windows = "".join(
        f"infer w{i} per client find ?low, ?high in operational_range(x, ?low, ?high, {i}, {i})\n"
        for i in range(properties)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rules = fedkg.compile(
            text="timeline step 1 h ends clip\nsignal x in % span -100 .. 100\n"
            "use rules templates.operational_range\n" + windows
        )
    stream = np.random.default_rng(0)
    series = torch.from_numpy(stream.normal(size=(clients, 20, 120 + 24)).astype(np.float32))
    data = Clients(
        names=tuple(f"c{i}" for i in range(clients)),
        x=tuple(one[:, :120].unsqueeze(-1) for one in series),
        y=tuple(one[:, 120:] for one in series),
    )
    problem = Problem(
        model=Recurrent(cell="rnn", history=120, horizon=24, hidden=16, layers=1, window=96),
        loss=SquaredError(),
        clients=data,
    )
    known = inferred(rules, data, fedkg.columns(["x"]), steps=24, share=0.2)
    settings = Settings(rounds=1 + TIMED_ROUNDS, local_epochs=10, batch=64, executor="stacked")
    seconds = []
    for epochs in (5, 0):
        algorithm = fedstl(
            inferred=known, clusters=5, private=("head.",), weight=1.0, cluster_epochs=epochs
        )
        ends = [time.process_time() for _ in train(problem, algorithm, settings)]
        seconds.append((ends[-1] - ends[0]) / TIMED_ROUNDS)
    return seconds[0] - seconds[1]


def table_5(bench: Bench) -> Iterator[Row]:
    """Seconds of cluster training."""
    clients = bench.pick([10], [10, 20, 50], [10, 20, 50, 100])
    counts = bench.pick([5], [5, 20], [5, 10, 15, 20])
    repeats = max(2, bench.seeds)
    work = {
        f"{count} clients, {properties} properties, turn {turn}": partial(
            cluster_seconds, count, properties
        )
        for count in clients
        for properties in counts
        for turn in range(repeats)
    }
    bench.settings.append(
        "RNN, five clusters, ten local and five cluster epochs; processor time of"
        f" {TIMED_ROUNDS} rounds with and without cluster epochs"
    )
    found = bench.compute("clusters", work)
    for count in clients:
        for properties in counts:
            ours = tuple(
                found[f"{count} clients, {properties} properties, turn {turn}"]
                for turn in range(repeats)
            )
            published = CLUSTER_SECONDS[count][(5, 10, 15, 20).index(properties)]
            yield Row(
                label=f"{count} clients, {properties} properties: seconds",
                published=f"{published}",
                ours=ours,
                note=OTHER_HARDWARE,
            )


PAPER = Paper(
    name="fedstl",
    title="FedSTL (An, Johnson, Ma 2024)",
    studies=(
        Study(name="table 2", title="nine methods, four networks", minutes=8, run=table_2),
        Study(name="table 3", title="mining time", minutes=0.3, run=table_3),
        Study(name="table 4", title="mining time, several", minutes=1, run=table_4),
        Study(name="table 5", title="cluster training time", minutes=2.5, run=table_5),
        Study(name="figure 3", title="nine methods in a city", minutes=2, run=figure_3),
    ),
)
