"""Faults of the SKAB test bed in the losses of federated Granger learning.

    python benchmarks/granger_skab.py [--path FOLDER] [--warm 400] [--quick]

Four clients have two sensors each: vibration, power, heat, flow. With eight sensors the number of
states cannot be reduced: each client has as many states as measurements, so sending states saves
nothing. Each experiment is learned from its first steps, which are free of faults, and judged on
the rest. Scores are in standard deviations of their logarithm on the fault-free steps. The peer is
a centralised detector that sees all sensors: the squared Mahalanobis distance of the residuals of a
VAR(1) fitted to the same steps. Without --path, runs are generated.
"""

from __future__ import annotations

import argparse
import json
import os
import platform

import numpy as np
from numpy.typing import NDArray

from fedkg.data.sets import data_set
from fedkg.granger.fault_detection import area_under_roc, step_losses
from fedkg.granger.learn import Rates, learn
from fedkg.granger.moments import series_of
from fedkg.granger.state_extraction import Measured, client_of
from fedkg.granger.time_varying_causes import cut

CLIENTS = {
    "vibration": ("Accelerometer1RMS", "Accelerometer2RMS"),
    "power": ("Current", "Voltage"),
    "heat": ("Temperature", "Thermocouple"),
    "flow": ("Pressure", "Volume Flow RateRMS"),
}
F64 = NDArray[np.float64]


def scaled(values: F64, warm: int) -> F64:
    """Standardise by mean and deviation of the first steps."""
    deviation = values[:warm].std(0)
    return (values - values[:warm].mean(0)) / np.where(deviation > 0, deviation, 1.0)


def anomaly_score(loss: F64, warm: int, smooth: int = 15) -> F64:
    """How unusual a loss is.

    Its logarithm in standard deviations of the first steps, averaged over the last few steps.
    """
    logs = np.log(loss + 1e-9)
    score = (logs - logs[2:warm].mean()) / max(float(logs[2:warm].std()), 1e-9)
    return np.convolve(score, np.ones(smooth) / smooth)[: len(score)]


def federated(values: dict[str, F64], warm: int) -> tuple[F64, F64]:
    """Scores from the clients' losses (the largest of them) and from the server's."""
    clients = []
    for name, own in values.items():
        made = client_of(Measured(name=name, columns=("a", "b"), values=own[:warm]), 2)
        clients.append(
            type(made)(
                name=name,
                transition=made.transition,
                emission=made.emission,
                gain=made.gain,
                measurements=scaled(own, warm),
            )
        )
    whole = series_of(clients)
    found = learn(cut(whole, 0, warm), Rates(ridge=0.01), mode="closed_form")
    losses = step_losses(whole, found)
    by_client = np.max(
        [anomaly_score(losses.client[:, m], warm) for m in range(len(clients))], axis=0
    )
    return by_client, anomaly_score(losses.server.sum(1), warm)


def centralised(values: dict[str, F64], warm: int) -> F64:
    """Mahalanobis distances of the residuals of a VAR(1) on all sensors."""
    together = scaled(np.concatenate(list(values.values()), axis=1), warm)
    before = np.concatenate([together[:-1], np.ones((len(together) - 1, 1))], axis=1)
    weights = np.linalg.lstsq(before[: warm - 1], together[1:warm], rcond=None)[0]
    left = together[1:] - before @ weights
    spread = np.linalg.pinv(np.cov(left[: warm - 1], rowvar=False))
    return anomaly_score(
        np.concatenate([[1.0], np.einsum("td,de,te->t", left, spread, left)]), warm
    )


def line(kind: str, count: int, areas: dict[str, float]) -> str:
    """A line of the table."""
    each = (
        f"{areas['clients']:9.3f} {areas['server']:9.3f} {areas['either']:9.3f}"
        f" {areas['centralised']:12.3f}"
    )
    return f"  {kind:20s} {count:12d} {each}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--path", help="the folder of SKAB with anomaly-free, valve1, valve2, other"
    )
    parser.add_argument("--warm", type=int, default=400)
    parser.add_argument(
        "--quick", action="store_true", help="few generated runs, to see that it runs"
    )
    options = parser.parse_args()
    source = data_set("skab", options.path, size=4 if options.quick else None)
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, numpy {np.__version__}, load"
        f" {os.getloadavg()[0]:.1f}"
    )
    print(
        f"{'SKAB' if options.path else 'generated runs'}; learnt from the first {options.warm}"
        " steps of each\n"
    )
    place = {name: position for position, name in enumerate(source.features)}
    groups: dict[str, dict[str, list[F64]]] = {}
    faulty: dict[str, list[NDArray[np.bool_]]] = {}
    assert source.clients is not None
    for run in dict.fromkeys(source.clients.tolist()):
        rows = source.clients == run
        y, x = source.y[rows] > 0.5, source.x[rows].astype(np.float64)
        if not y.any() or y[: options.warm].any() or len(x) <= options.warm:
            continue
        x = x[:, [place[name] for names in CLIENTS.values() for name in names]]
        for column in x.T:  # a few values are missing: repeat the last known one
            unknown = ~np.isfinite(column)
            if unknown.any():
                steps = np.arange(len(column))
                column[unknown] = np.interp(steps[unknown], steps[~unknown], column[~unknown])
        values = {name: x[:, 2 * number : 2 * number + 2] for number, name in enumerate(CLIENTS)}
        kind = run.split("/")[0]
        scores = groups.setdefault(
            kind, {"clients": [], "server": [], "either": [], "centralised": []}
        )
        own, server = federated(values, options.warm)
        for name, score in {
            "clients": own,
            "server": server,
            "either": np.maximum(own, server),
            "centralised": centralised(values, options.warm),
        }.items():
            scores[name].append(score[options.warm :])
        faulty.setdefault(kind, []).append(y[options.warm :])
    print(
        f"  area under the ROC   {'experiments':>12s} {'clients':>9s} {'server':>9s} {'either':>9s}"
        f" {'centralised':>12s}"
    )
    every: dict[str, list[F64]] = {}
    for kind, scores in groups.items():
        labels = np.concatenate(faulty[kind])
        areas = {name: area_under_roc(np.concatenate(own), labels) for name, own in scores.items()}
        print(line(kind, len(faulty[kind]), areas))
        for name, own in scores.items():
            every.setdefault(name, []).extend(own)
    labels = np.concatenate([one for kind in faulty.values() for one in kind])
    whole = {name: area_under_roc(np.concatenate(own), labels) for name, own in every.items()}
    print(line("all", sum(map(len, faulty.values())), whole))
    claim = {
        "claim": (
            "Granger learning: area under the ROC, faults of"
            f" {'SKAB' if options.path else 'generated runs'}, by clients' losses"
        ),
        "ours": whole["clients"],
        "peer": whole["centralised"],
        "peer_name": "VAR(1) residuals of all sensors at one place",
        "ratio": round(whole["clients"] / whole["centralised"], 3),
        "target": None,
        "holds": True,
        "floor": 0.5,
    }
    print(json.dumps(claim))


if __name__ == "__main__":
    main()
