"""F1 and violation rate of every aggregation rule under every attack.

    python benchmarks/attacks.py [--seeds 3] [--shares 0.1 0.2 0.3 0.4] [--attacks ...] [--quick]
                                 [--tables weights f1 scores forecasts]

Twenty sites with the machines of the milling example and AI4I data of its generator (10,000 rows,
Dirichlet split with alpha 1, an MLP with 16 hidden units, 10 rounds of two epochs, all sites in
each round). The rules are `examples/milling/alarms.fkg`: they only demand alarms, so that a model
that always answers "failure" satisfies all of them, the worst case for SCFA. Krum and multi-Krum
assume 8 attackers, the trimmed mean removes 40 % at each end: as many as the largest share. The
violation rate is the mean over the honest sites of the share of rules that their updates violate.

Columns of rules: `s-` is SCFA over families (product, minimum), `r-` robust SCFA on multi-Krum (mk)
and FLTrust (fl), `x-` leaves out outlying answers; `-r` is relative to the current model. Here
`constant_model` sends the same as `rule_satisfying_model`, and only the latter is measured.

The table `weights` shows what weight two constant models of twenty sites get under SCFA, by
setting. The table `scores` is that of F1 under `scoring.at: sites`, with the attack
`inflated_score`: the other tables score at the server, where no site states a score. The table
`forecasts` is about generated traffic at ten stations with the same number of
windows, with and without the exclusion of outlying properties.

Cells are hundredths: the mean over seeds, and after the sign the half width of its 95 % interval by
Student's t.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from reporting.rows import Row, compare
from scipy import stats

from fedkg.algorithm_compatibility import ATTACKS
from fedkg.federated import train
from fedkg.federated.attacks import Attack
from fedkg.federated.round_record import RoundRecord
from fedkg.jobs import Job, run_job
from fedkg.jobs.experiment.experiment import create_experiment
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.rule_pack import load_rules
from fedkg.jobs.trial_expansion import TrialConfig, plan_trials
from fedkg.jobs.trial_training import build_trial_algorithm

ROOT = Path(__file__).resolve().parents[1]
AI4I = Path(os.environ.get("FEDKG_SHARED", ROOT / "shared")) / "data/ai4i2020/ai4i2020.csv.gz"
ASSUMED = 8
KRUM = {"multi_krum": {"attackers": ASSUMED}}
RULES: dict[str, dict[str, Any]] = {
    "mean": {"preset": "fedavg"},
    "median": {"preset": "median"},
    "trimmed": {"preset": "trimmed_mean", "aggregate": {"trimmed_mean": {"trim": 0.4}}},
    "krum": {"preset": "krum", "aggregate": {"krum": {"attackers": ASSUMED}}},
    "mkrum": {"preset": "multi_krum", "aggregate": KRUM},
    "fltrust": {"preset": "fltrust"},
    "x-mean": {"preset": "fedavg", "exclude": "answers"},
    "x-scfa": {"preset": "scfa", "exclude": "answers"},
    "scfa": {"preset": "scfa"},
    "s-prod": {"preset": "scfa", "scoring": {"combine": "product"}},
    "s-min": {"preset": "scfa", "scoring": {"combine": "min"}},
    "r-mk": {"preset": "robust_scfa", "aggregate": KRUM},
    "r-mk-r": {"preset": "robust_scfa", "aggregate": KRUM, "scoring": {"relative": True}},
    "r-fl": {"weighting": "scfa", "aggregate": "fltrust"},
    "r-fl-r": {"weighting": "scfa", "aggregate": "fltrust", "scoring": {"relative": True}},
}
ALL_ATTACKS = [
    kind for kind, what in ATTACKS.items() if kind != "constant_model" and what != "score"
]
BLOCKS = (tuple(RULES)[:8], tuple(RULES)[8:])
"""Columns that are printed side by side."""

SCORED_RULES = tuple(RULES)[8:]
"""Columns of the table `scores`: the rules that weight sites by their scores."""

QUICK_RULES = ("mean", "mkrum", "fltrust", "x-scfa", "scfa", "r-mk-r", "r-fl-r")
FORECAST_RULES = """
timeline step 1 h ends clip
output volume span 0 .. 20000
use rules templates.operational_range
infer early per client find ?low, ?high in operational_range(volume, ?low, ?high, 0, 2)
infer late per client find ?low, ?high in operational_range(volume, ?low, ?high, 3, 5)
"""

Cell = tuple[list[float], list[float]]
"""F1 (or the mean squared error) and violation rate of each seed."""


def milling(
    rules: Sequence[str], seeds: int, rounds: int, at: Literal["server", "sites"] = "server"
) -> dict[str, Any]:
    """The job of the first table, without an attack; `at` is the place that scores."""
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
            "batch": 32,
            "executor": "stacked",
            "positive_weight": 5,
            "checkpoint_every": 1000,
        },
        "evaluation": {"every": 1000, "local_baseline": False},
        "scoring": {"at": at},
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


class Milling:
    """Trainings of the first table: the sites of each seed are prepared once.

    Args:
        fields: the job.
    """

    def __init__(self, fields: dict[str, Any]) -> None:
        job = Job.model_validate(fields)
        self.configs = plan_trials(job)
        experiment = create_experiment(job, load_rules(job)[0])
        experiment.prepare(self.configs)
        first = {config.seed: config for config in reversed(self.configs)}
        self.trials = {seed: experiment.build_trial(config) for seed, config in first.items()}

    def train(
        self, config: TrialConfig, attack: Attack | None
    ) -> tuple[dict[str, float], list[RoundRecord]]:
        """The figures of the last model, and the records of the rounds."""
        trial = self.trials[config.seed]
        problem = replace(trial.problem, attack=attack)
        algorithm = build_trial_algorithm(config, problem, trial.settings, None)
        rounds = list(train(problem, algorithm, trial.settings))
        return trial.figures([rounds[-1][0].params]), [record for _, record in rounds]

    def measure(self, kind: str, share: float) -> dict[str, Cell]:
        """F1 of the last round and the violation rate of the honest sites, by algorithm."""
        attack = None if kind == "none" else Attack(kind=kind, share=share)
        found: dict[str, Cell] = {config.algorithm: ([], []) for config in self.configs}
        for config in self.configs:
            figures, records = self.train(config, attack)
            last = records[-1]
            valid = dict(zip(last.clients, last.validity or (), strict=True))
            honest = [1 - valid[name] for name in set(valid) - {*last.attackers, *last.excluded}]
            f1, rate = found[config.algorithm]
            f1.append(figures["f1"])
            rate.append(statistics.mean(honest) if honest else math.nan)
        return found


def gamed(fields: dict[str, Any]) -> tuple[list[list[float]], list[float], list[float]]:
    """What two constant models gain: the attackers' weight in each round, the F1, and the F1
    without them; each by seed.
    """
    prepared = Milling(fields)
    weights, f1, honest = [], [], []
    for config in prepared.configs:
        figures, records = prepared.train(config, Attack(kind="constant_model", share=0.1))
        f1.append(figures["f1"])
        weights.append(
            [
                sum(
                    weight
                    for name, weight in zip(record.clients, record.alpha, strict=True)
                    if name in record.attackers
                )
                for record in records
            ]
        )
        honest.append(prepared.train(config, None)[0]["f1"])
    return weights, f1, honest


def show_weights(seeds: int) -> None:
    """Print how much weight two constant models of twenty sites get, by setting."""
    product = {"combine": "product"}
    settings: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
        "generator, product": ("alarms.fkg", {}, product),
        "AI4I 2020, product": ("alarms.fkg", {"path": str(AI4I)}, product),
        "generator, product, equal sites": ("alarms.fkg", {"split": "iid"}, product),
        "generator, min": ("alarms.fkg", {}, {"combine": "min"}),
        "generator, mean": ("alarms.fkg", {}, {}),
        "generator, mean of graded": ("alarms.fkg", {}, {"graded": True}),
        "generator, product, relative": ("alarms.fkg", {}, {**product, "relative": True}),
        "generator, product, rules.fkg": ("rules.fkg", {}, product),
    }
    print(f"\n{'weight of 2 constant models':32s}by round, mean of rounds 1 to 6, F1, without them")
    for name, (rules, data, scoring) in settings.items():
        if "path" in data and not AI4I.is_file():
            print(f"{name:32s}not measured: {AI4I} is missing")
            continue
        job = milling(["scfa"], seeds, 10)
        job["rules"] = [str(ROOT / "examples" / "milling" / rules)]
        job["data"] = {**job["data"], **data}
        del job["training"]["batch"]
        job["algorithms"] = {"scfa": {"preset": "scfa", "scoring": scoring}}
        weights, f1, honest = gamed(job)
        rounds = " ".join(
            f"{100 * statistics.mean(one):3.0f}" for one in zip(*weights, strict=True)
        )
        six = [statistics.mean(one[:6]) for one in weights]
        print(f"{name:32s}{rounds}  {show(six):>6s} {show(f1):>6s} {show(honest):>6s}")


def show_scores(seeds: int, rounds: int, shares: Sequence[float]) -> None:
    """Print F1 if sites score their own models, and attackers claim to satisfy all rules."""
    prepared = Milling(milling(SCORED_RULES, seeds, rounds, at="sites"))
    cells = {("none", 0.0): prepared.measure("none", 0.0)}
    for share in shares:
        cells["inflated_score", share] = prepared.measure("inflated_score", share)
    table("F1, scores of sites", cells, 0)


def show_forecasts(seeds: int, rounds: int) -> None:
    """Print the squared errors of forecasts with and without the exclusion of properties."""
    print(f"\n{'forecasts: MSE':26s}    mean excluded")
    for attack, share in (("none", 0.0), ("flipped_labels", 0.2), ("sign_flipped_update", 0.2)):
        with tempfile.TemporaryDirectory() as place:
            job = traffic(Path(place), seeds, rounds)
            job["simulation"] = {"attacks": {"kind": attack, "share": share}}
            folder = RunFolder(run_job(job, out=Path(place) / "run", report=False).folder)
            rows = folder.rows("rounds.csv")
            last = {row["trial"]: float(row["mse"]) for row in rows if row["mse"]}
        found = [
            show([error for trial, error in last.items() if trial.rpartition("-s")[0] == name])
            for name in ("mean", "excluded")
        ]
        print(f"{attack:21s}{share:5.0%}{found[0]:>8s} {found[1]:>8s}")


def show(values: Sequence[float]) -> str:
    """The mean and half the 95 % interval, in hundredths."""
    count, mean = len(values), statistics.mean(values)
    if count < 2:
        return f"{100 * mean:.0f}"
    half = float(stats.t.ppf(0.975, count - 1)) * statistics.stdev(values) / math.sqrt(count)
    return f"{100 * mean:.0f}±{100 * half:.0f}"


def table(title: str, cells: dict[tuple[str, float], dict[str, Cell]], place: int) -> None:
    """Print one figure of all attacks and rules, some columns at a time."""
    names = list(next(iter(cells.values())))
    blocks = [[name for name in block if name in names] for block in BLOCKS]
    blocks.append([name for name in names if not any(name in block for block in BLOCKS)])
    for block in filter(None, blocks):
        print(f"\n{title:26s}" + "".join(f"{name:>8s}" for name in block))
        for (attack, share), found in cells.items():
            row = "".join(f"{show(found[name][place]):>8s}" for name in block)
            print(f"{attack:21s}{share:5.0%}{row}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.1, 0.2, 0.3, 0.4])
    parser.add_argument(
        "--attacks", nargs="+", default=ALL_ATTACKS, choices=[*ALL_ATTACKS, "constant_model"]
    )
    parser.add_argument("--rules", nargs="+", default=list(RULES), choices=list(RULES))
    parser.add_argument("--quick", action="store_true", help="few rules, attacks and seeds")
    parser.add_argument(
        "--tables",
        nargs="+",
        default=["weights", "f1"],
        choices=["weights", "f1", "scores", "forecasts"],
    )
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.shares, options.rules = 2, [0.2], list(QUICK_RULES)
        options.attacks = ["flipped_labels", "sign_flipped_update", "rule_satisfying_model"]
    if "forecasts" in options.tables:
        show_forecasts(options.seeds, options.rounds)
    if "weights" in options.tables:
        show_weights(options.seeds)
    if "scores" in options.tables:
        show_scores(options.seeds, options.rounds, options.shares)
    cells = {}
    if "f1" in options.tables:
        prepared = Milling(milling(options.rules, options.seeds, options.rounds))
        cells["none", 0.0] = prepared.measure("none", 0.0)
        for attack in options.attacks:
            for share in options.shares:
                cells[attack, share] = prepared.measure(attack, share)
                print(f"{attack} {share:.0%}", file=sys.stderr, flush=True)
        table("violation rate", cells, 1)
        table("F1", cells, 0)
    print(json.dumps(rows(cells)))


PAIRS = (("x-scfa", "scfa"), ("r-mk-r", "mkrum"), ("r-fl-r", "fltrust"))
"""Ours, and what it is compared with."""


def rows(cells: dict[tuple[str, float], dict[str, Cell]]) -> list[Row]:
    """Ours beside the rules that it extends, without attackers and with 20 %."""
    made = []
    for (attack, share), found in cells.items():
        if share not in (0.0, 0.2):
            continue
        for ours, peer in PAIRS:
            if ours in found and peer in found:
                claim = f"1 - F1, {attack} at {share:.0%} of 20 sites: {ours}"
                errors = [[1 - one for one in found[name][0]] for name in (ours, peer)]
                made.append(compare(claim, *errors, peer))
    return made


if __name__ == "__main__":
    main()
