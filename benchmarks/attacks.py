"""F1 and violation rate of every aggregation rule under every attack.

    python benchmarks/attacks.py [--seeds 3] [--shares 0.1 0.2 0.4] [--attacks ...] [--quick]

Twenty sites with the machines of the milling example and AI4I data of its generator (10,000 rows,
Dirichlet split with alpha 1, an MLP with 16 hidden units, 10 rounds of two epochs, all sites in
each round). The rules are `examples/milling/alarms.fkg`: they only demand alarms, so that a model
that always answers "failure" satisfies all of them, the worst case for SCFA. Krum and multi-Krum
assume 8 attackers, the trimmed mean removes 40 % at each end: as many as the largest share. The
violation rate is the mean over the honest sites of the share of rules that their updates violate.

The second table forecasts generated traffic at ten stations with the same number of windows. It
compares FedAvg with and without the exclusion of outlying properties.

Cells are the mean over seeds and, after the slash, the standard deviation, in hundredths.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reporting.rows import Row, compare

from fedkg.algorithm_compatibility import ATTACKS
from fedkg.jobs import run_job
from fedkg.jobs.folder import RunFolder

ROOT = Path(__file__).resolve().parents[1]
ASSUMED = 8
RULES: dict[str, dict[str, Any]] = {
    "mean": {"preset": "fedavg"},
    "median": {"preset": "median"},
    "trimmed": {"preset": "trimmed_mean", "aggregate": {"trimmed_mean": {"trim": 0.4}}},
    "krum": {"preset": "krum", "aggregate": {"krum": {"attackers": ASSUMED}}},
    "mkrum": {"preset": "multi_krum", "aggregate": {"multi_krum": {"attackers": ASSUMED}}},
    "fltrust": {"preset": "fltrust"},
    "scfa": {"preset": "scfa"},
    "s-prod": {"preset": "scfa", "scoring": {"combine": "product"}},
    "s-min": {"preset": "scfa", "scoring": {"combine": "min"}},
    "s-graded": {"preset": "scfa", "scoring": {"graded": True}},
    "s-beta2": {"preset": "scfa", "scoring": {"beta": 2}},
    "r-mkrum": {"preset": "robust_scfa", "aggregate": {"multi_krum": {"attackers": ASSUMED}}},
    "r-trust": {"weighting": "scfa", "aggregate": "fltrust"},
    "r-trust-g": {"weighting": "scfa", "aggregate": "fltrust", "scoring": {"graded": True}},
    "r-mkrum-p": {
        "preset": "robust_scfa",
        "aggregate": {"multi_krum": {"attackers": ASSUMED}},
        "scoring": {"combine": "product"},
    },
}
"""SCFA is `s-`, robust SCFA `r-`; `g` is graded, `p` the product over families."""

QUICK_RULES = ("mean", "mkrum", "fltrust", "scfa", "s-prod", "r-mkrum", "r-trust")
FORECAST_RULES = """
timeline step 1 h ends clip
output volume span 0 .. 20000
use rules templates.operational_range
infer early per client find ?low, ?high in operational_range(volume, ?low, ?high, 0, 2)
infer late per client find ?low, ?high in operational_range(volume, ?low, ?high, 3, 5)
"""

Cell = tuple[list[float], list[float]]
"""F1 (or the mean squared error) and violation rate of each seed."""


def milling(rules: Sequence[str], seeds: int, rounds: int) -> dict[str, Any]:
    """The job of the first table, without an attack."""
    sites = {
        f"site {i}": {"machines": [f"M{machine:02}" for machine in range(i, 31, 20)]}
        for i in range(1, 21)
    }
    return {
        "name": "attacks",
        "rules": [str(ROOT / "examples" / "milling" / "alarms.fkg")],
        "sites": sites,
        "data": {"categories": ["Type"]},
        "model": {"hidden": [16]},
        "training": {
            "rounds": rounds,
            "participation": 1.0,
            "local_epochs": 2,
            "learning_rate": 0.3,
            "executor": "stacked",
            "positive_weight": 5,
            "checkpoint_every": 1000,
        },
        "evaluation": {"every": 1000, "local_baseline": False},
        "algorithms": {name: RULES[name] for name in rules},
        "compare": {"algorithm": list(rules)},
        "seeds": seeds,
    }


def traffic(folder: Path, seeds: int, rounds: int) -> dict[str, Any]:
    """The job of the second table, without an attack."""
    rules = folder / "traffic.fkg"
    rules.write_text(FORECAST_RULES)
    window = {"history": 12, "horizon": 6, "stride": 6, "targets": ["volume"]}
    return {
        "name": "attacks",
        "rules": [str(rules)],
        "data": {
            "set": "traffic",
            "size": 360,
            "clients": 10,
            "min_samples": 3,
            "window": {**window, "gaps": "interpolate"},
        },
        "model": {"kind": "gru", "hidden": 8, "layers": 1},
        "training": {
            "rounds": rounds,
            "participation": 1.0,
            "learning_rate": 0.1,
            "batch": 8,
            "executor": "stacked",
        },
        "evaluation": {"every": 1000, "local_baseline": False},
        "algorithms": {
            "mean": {"preset": "fedavg"},
            "excluded": {"preset": "fedavg", "exclude": "properties"},
        },
        "compare": {"algorithm": ["mean", "excluded"]},
        "seeds": seeds,
    }


def measure(job: dict[str, Any], attack: str, share: float, figure: str) -> dict[str, Cell]:
    """The figure of the last round and the violation rate of the honest sites, by algorithm."""
    job = {**job, "simulation": {"attacks": {"kind": attack, "share": share}}}
    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(run_job(job, out=Path(place) / "run", report=False).folder)
        last = {row["trial"]: row for row in folder.rows("rounds.csv")}
        rates: dict[str, list[float]] = {}
        for row in folder.rows("clients.csv"):
            if not row["status"] and row["round"] == last[row["trial"]]["round"]:
                rates.setdefault(row["trial"], []).append(1 - float(row["validity"] or "nan"))
    found: dict[str, Cell] = {}
    for name in job["algorithms"]:
        trials = [trial for trial in last if trial.rpartition("-s")[0] == name]
        found[name] = (
            [float(last[trial][figure]) for trial in trials],
            [statistics.mean(rates[trial]) if trial in rates else float("nan") for trial in trials],
        )
    return found


def show(values: list[float]) -> str:
    """Mean and standard deviation in hundredths."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{100 * statistics.mean(values):.0f}/{100 * spread:.0f}"


def table(title: str, cells: dict[tuple[str, float], dict[str, Cell]], place: int) -> None:
    """Print one figure of all attacks and rules."""
    names = list(next(iter(cells.values())))
    print(f"\n{title:26s}" + "".join(f"{name:>10s}" for name in names))
    for (attack, share), found in cells.items():
        print(
            f"{attack:21s}{share:5.0%}"
            + "".join(f"{show(found[name][place]):>10s}" for name in names)
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.1, 0.2, 0.4])
    parser.add_argument("--attacks", nargs="+", default=list(ATTACKS), choices=list(ATTACKS))
    parser.add_argument("--rules", nargs="+", default=list(RULES), choices=list(RULES))
    parser.add_argument("--quick", action="store_true", help="few rules, attacks and seeds")
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.shares, options.rules = 2, [0.2], list(QUICK_RULES)
        options.attacks = ["flipped_labels", "sign_flipped_update", "rule_satisfying_model"]
    job = milling(options.rules, options.seeds, options.rounds)
    cells = {("none", 0.0): measure(job, "none", 0.0, "f1")}
    for attack in options.attacks:
        for share in options.shares:
            cells[attack, share] = measure(job, attack, share, "f1")
            print(f"{attack} {share:.0%}", file=sys.stderr, flush=True)
    table("F1", cells, 0)
    table("violation rate", cells, 1)
    with tempfile.TemporaryDirectory() as folder:
        forecasts = traffic(Path(folder), options.seeds, options.rounds)
        found = {("none", 0.0): measure(forecasts, "none", 0.0, "mse")}
        for attack in ("flipped_labels", "sign_flipped_update"):
            found[attack, 0.2] = measure(forecasts, attack, 0.2, "mse")
    table("forecasts: MSE", found, 0)
    print(json.dumps(rows(cells)))


def rows(cells: dict[tuple[str, float], dict[str, Cell]]) -> list[Row]:
    """Robust SCFA beside its robust rule and plain SCFA, where these were measured."""
    made = []
    for (attack, share), found in cells.items():
        for ours, peer in (("r-mkrum", "mkrum"), ("r-trust", "fltrust"), ("r-mkrum", "scfa")):
            if ours in found and peer in found:
                claim = f"1 - F1, {attack} at {share:.0%} of 20 sites: robust SCFA ({ours})"
                errors = [[1 - one for one in found[name][0]] for name in (ours, peer)]
                made.append(compare(claim, *errors, peer))
    return made


if __name__ == "__main__":
    main()
