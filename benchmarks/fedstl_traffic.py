"""Error and rule satisfaction of FedSTL, FedAvg and IFCA on hourly traffic.

    python benchmarks/fedstl_traffic.py [--traffic FOLDER] [--rounds 30] [--hours 2160]
        [--cell gru] [--share 0.05]

After table 2 of An, Johnson and Ma 2024: 120 hours in, 24 out, two recurrent layers of width 16
over windows of 96 hours, ranges in twelve windows of two hours, five clusters, a tenth of the
clients in a round, 10 local epochs (FedSTL: 8, and 2 for its clusters), batches of 64, momentum
0.5, decay 1e-4. The paper uses stations in 15 American states, which we cannot ship. We use 95
stations in Norway, or generated ones, so only the order of the columns can be compared, not the
numbers. The paper's code counts upper and lower bounds separately, step by step; the column `steps,
theirs` gives our results in that measure. A fifth of the windows, the last of each station, form
the test set. The true values do not satisfy all rules that were mined before them.

Private heads are never sent to the server. The head of a cluster's model (-S) therefore learns only
from what members share: three windows of a station at 5 %. That, not the clusters, is why -S may be
worse than FedAvg here. The authors' code shares half of each client's windows (`--share 0.5`) and
averages the heads.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from dataclasses import replace

import torch

import fedkg
from fedkg.data import by_site
from fedkg.data.sets import data_set, forecast_windows, standardise
from fedkg.federated import Algorithm, Clients, Problem, Settings, SquaredError, clients_of, train
from fedkg.federated.algorithms import ifca
from fedkg.federated.algorithms.fedstl import fedstl
from fedkg.federated.executors import Work
from fedkg.federated.problem import pool
from fedkg.federated.temporal.client_property_mining import inferred
from fedkg.federated.temporal.forecast_scores import Kept, judged
from fedkg.models import Recurrent

PAST, AHEAD = 120, 24
THEIRS = {
    "FedAvg": (0.154, 80.51),
    "IFCA": (0.140, 77.47),
    "FedSTL-S": (0.148, 81.71),
    "FedSTL": (0.152, 81.83),
    "FedSTL-T": (0.118, 100.0),
}
"""Table 2, GRU: mean squared error, and the share of satisfied forecasts in percent."""


def tasks(folder: str | None, hours: int) -> tuple[Clients, Clients, str]:
    """Training and test windows of all stations."""
    source = data_set("traffic", folder, size=hours)
    windows = forecast_windows(
        source, history=PAST, horizon=AHEAD, stride=24, gaps="interpolate", longest=6
    )
    ready = standardise(windows).data
    whole = clients_of(ready, by_site(ready.clients))
    known = [~torch.isnan(y).any(1) for y in whole.y]
    kept = [
        (name, x[rows], y[rows])
        for name, x, y, rows in zip(whole.names, whole.x, whole.y, known, strict=True)
        if int(rows.sum()) > 9
    ]
    names = tuple(name for name, _, _ in kept)
    cut = [4 * len(x) // 5 for _, x, _ in kept]
    first = Clients(
        names=names,
        x=tuple(x[:n] for (_, x, _), n in zip(kept, cut, strict=True)),
        y=tuple(y[:n] for (_, _, y), n in zip(kept, cut, strict=True)),
    )
    last = Clients(
        names=names,
        x=tuple(x[n:] for (_, x, _), n in zip(kept, cut, strict=True)),
        y=tuple(y[n:] for (_, _, y), n in zip(kept, cut, strict=True)),
    )
    return first, last, source.source


def rules() -> fedkg.Pack:
    """The range of the volume in each of twelve windows of two hours."""
    found = "".join(
        f"infer hours_{i} per client find ?low, ?high in operational_range(volume, ?low, ?high,"
        f" {2 * i}, {2 * i + 1})\n"
        for i in range(AHEAD // 2)
    )
    return fedkg.compile(
        text=(
            "timeline step 1 h ends clip\nsignal volume in % span -1000 .. 1000\nuse rules"
            f" templates.operational_range\n{found}"
        )
    )


def row(name: str, kept: Kept) -> str:
    """A line of the table, with the paper's values at the end."""
    (mse, mse_half), (whole, whole_half), (steps, _) = (
        kept.mean()[key] for key in ("mse", "sequences", "steps")
    )
    theirs = THEIRS.get(name)
    told = "" if theirs is None else f"{theirs[0]:8.3f} {theirs[1]:7.2f}"
    apart = 100 * (1 + steps) / 2
    return (
        f"{name:10s} {mse:7.3f} ± {mse_half:.3f} {100 * whole:7.2f} ± {100 * whole_half:5.2f}"
        f" {100 * steps:7.2f} {apart:13.2f}   {told}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traffic")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--hours", type=int, default=2160)
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--cell", choices=("rnn", "gru", "lstm"), default="gru")
    options = parser.parse_args()
    first, last, source = tasks(options.traffic, options.hours)
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, torch {torch.__version__}, load"
        f" {os.getloadavg()[0]:.1f}"
    )
    windows = f"{sum(first.samples)} windows to train, {sum(last.samples)} for the test"
    print(f"{source}: {len(first.names)} stations, {windows}; {options.rounds} rounds\n")
    begun = time.perf_counter()
    found = inferred(rules(), first, fedkg.columns(["volume"]), steps=AHEAD, share=options.share)
    mining = time.perf_counter() - begun
    model = Recurrent(
        cell=options.cell, history=PAST, horizon=AHEAD, window=96, hidden=16, layers=2
    )
    problem = Problem(model=model, loss=SquaredError(), clients=first)
    how = {
        "rounds": options.rounds,
        "participation": 0.1,
        "batch": 64,
        "learning_rate": options.rate,
        "executor": "stacked",
    }
    descent = {"momentum": 0.5, "weight_decay": 1e-4}
    # without properties and clusters this is FedAvg with momentum
    averaging = fedstl(clusters=1, weight=0, cluster_epochs=0, **descent)
    methods: dict[str, tuple[Algorithm, Settings]] = {
        "FedAvg": (averaging, Settings(**how, local_epochs=10)),
        "IFCA": (replace(ifca(models=5), local=averaging.local), Settings(**how, local_epochs=10)),
        "FedSTL": (
            fedstl(inferred=found, clusters=5, private=model.parts["head"], **descent),
            Settings(**how, local_epochs=8),
        ),
    }
    print(
        f"{'':10s} {'mse':>15s} {'forecasts that satisfy':>16s} {'steps':>6s}"
        f" {'steps, theirs':>13s}   {'their mse, satisfying':>16s}"
    )
    errors = {}
    seconds = {}
    for name, (algorithm, settings) in methods.items():
        begun = time.process_time()
        *_, (state, _) = train(problem, algorithm, settings)
        seconds[name] = (time.process_time() - begun) / settings.rounds
        result = judged(
            Work(problem=problem, algorithm=algorithm, settings=settings, pool=pool(first)),
            state,
            found,
            last,
        )
        if name == "FedSTL":
            print(row("FedSTL-S", result.cluster))
        print(row(name, result.client))
        errors[name] = float(result.client.mse.mean())
        if name == "FedSTL":
            print(row("FedSTL-T", result.teacher))
            errors["FedSTL-T"] = float(result.teacher.mse.mean())
            assert bool((result.teacher.sequences == 1).all()), (
                "a corrected forecast breaks its property"
            )
    print(row("the truth", result.truth))
    print(
        f"\nmining at all stations {mining:.2f} s; CPU seconds a round: "
        + ", ".join(f"{name} {value:.3f}" for name, value in seconds.items())
    )
    ratio = errors["FedAvg"] / errors["FedSTL-T"]
    claim = {
        "claim": (
            f"FedSTL-T: all forecasts satisfy, less error than FedAvg after {options.rounds} rounds"
            f" of a {options.cell} on {source}"
        ),
        "ours": round(errors["FedSTL-T"], 4),
        "peer": round(errors["FedAvg"], 4),
        "peer_name": "FedAvg, the same model and epochs",
        "ratio": round(ratio, 2),
        "target": 1.0,
        "holds": ratio > 1.0,
        "floor": 0.0,
    }
    print(json.dumps(claim))


if __name__ == "__main__":
    main()
