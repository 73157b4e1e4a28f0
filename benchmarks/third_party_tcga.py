"""Survival on TCGA-BRCA beside the scores that FLamby publishes.

    python benchmarks/third_party_tcga.py [--data FOLDER] [--seeds 5] [--rounds 5] [--write]

Six centres, 866 training and 222 test patients, a linear Cox model, and FLamby's published
hyper-parameters (Ogier du Terrail et al. 2022): minibatches of 8; 5 rounds of 100 local steps with
the learning rates of the published results; Adam with rate 0.1 over 30 epochs for all data in one
place and for each centre alone. Nothing is selected on test data. Models read features in the units
of the source, as FLamby's do, and in a second run standardised, fedkg's default.

The figure is the concordance index of all 222 test patients together, after the last round. A
difference is ours minus published, seed by seed; as the programs draw different random numbers, the
pairs share the split alone. The verdict is "better" or "worse" if the 95 % interval of the mean
difference excludes 0, else "indistinguishable". The last rows train with the rules of
`examples/survival` as a penalty of weight 1, and compare with our own training on the same seeds,
which share all random numbers.

Without `--data` and without the published files (`FEDKG_SHARED`), it trains on generated patients
and compares nothing. `--write` stores the table for `docs/reference/third-party.md`.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reporting.rows import Row, round_digits
from reporting.third_party import format_table, save_section

from fedkg.federated.metrics import concordant_pairs
from fedkg.jobs import run_job
from fedkg.jobs.checkpoint import load_state
from fedkg.jobs.comparison.paired_test import mean_interval
from fedkg.jobs.experiment.site_sample_statistics import TEST
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.run_initial_files import reopen_run
from fedkg.jobs.trial_training import deployed_models

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = Path(os.environ.get("FEDKG_SHARED", ROOT / "shared")) / "external/tcga-brca"
RULES = ROOT / "examples" / "survival" / "rules.fkg"
ADAPTIVE = {"beta1": 0.9, "tau": 1e-8}
SLOW = {"learning_rate": 0.01}

STRATEGIES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "FedAvg": ("FedAvg100", {"preset": "fedavg"}),
    "FedProx": ("FedProx100", {"preset": "fedprox", "proximal": 0.1}),
    "SCAFFOLD": ("Scaffold100", {"preset": "scaffold", "training": SLOW}),
    "FedAdam": (
        "FedAdam100",
        {
            "preset": "fedadam",
            "server": {"adam": {"rate": 0.1, "beta2": 0.999, **ADAPTIVE}},
            "training": SLOW,
        },
    ),
    "FedYogi": (
        "FedYogi100",
        {
            "preset": "fedyogi",
            "server": {"yogi": {"rate": 0.1, "beta2": 0.999, **ADAPTIVE}},
            "training": SLOW,
        },
    ),
    "FedAdagrad": (
        "FedAdagrad100",
        {
            "preset": "fedadagrad",
            "server": {"adagrad": {"rate": 1.0, **ADAPTIVE}},
            "training": SLOW,
        },
    ),
}
"""The published name and our configuration of each strategy."""

TOGETHER = {
    "all data in one place": ("Pooled Training", {"preset": "centralised", "local": {"adam": {}}}),
    "each centre alone": ("Local", {"preset": "local_only", "local": {"adam": {}}}),
}


def main() -> None:
    """Train, print the table, and print the rows as JSON in the last line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder with brca.csv and train_test_split.csv")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="store the table for the page")
    args = parser.parse_args()
    known = PUBLISHED.is_dir()
    data = args.data or (str(PUBLISHED) if known else None)
    published = read_published(PUBLISHED) if known and data else {}
    seeds = list(range(42, 42 + args.seeds))
    raw = train(data, seeds, args.rounds, standardise=False, rules=False)
    scaled = train(data, seeds, args.rounds, standardise=True, rules=False)
    taught = train(data, seeds, args.rounds, standardise=True, rules=True)
    rows, claims = compare(published, raw, scaled, taught)
    columns = [
        "strategy", "published", "fedkg, same inputs", "difference", "verdict",
        "fedkg, standardised", "difference", "verdict",
    ]  # fmt: skip
    print(format_table(columns, rows))
    if args.write and published:
        section = {
            "columns": columns,
            "rows": rows,
            "seeds": seeds,
            "published": published,
            "raw": raw,
            "standardised": scaled,
            "with rules": taught,
        }
        save_section("tcga", section)
    print(json.dumps(claims))


def read_published(folder: Path) -> dict[str, list[float]]:
    """The published concordance on all test patients by strategy, one value for each seed; of
    training alone the mean over the centres.
    """
    found: dict[str, list[float]] = {}
    for path in sorted(folder.glob("published_seed*.csv")):
        alone = []
        with path.open(encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        for line in lines:
            if line["Test"] != "Pooled Test":
                continue
            if line["Method"].startswith("Local "):
                alone.append(float(line["Metric"]))
            else:
                found.setdefault(line["Method"], []).append(float(line["Metric"]))
        found.setdefault("Local", []).append(statistics.fmean(alone))
    return found


def train(
    data: str | None, seeds: Sequence[int], rounds: int, *, standardise: bool, rules: bool
) -> dict[str, list[float]]:
    """The concordance on all test patients of each strategy, one value for each seed."""
    found = {}
    runs: tuple[tuple[Mapping[str, Any], dict[str, Any]], ...] = ((STRATEGIES, {}),)
    if not rules:
        runs += ((TOGETHER, {"rounds": 1, "local_epochs": 30, "local_steps": None}),)
    for strategies, training in runs:
        names = [name.replace(" ", "_") for name in strategies]
        job = {
            "name": "tcga",
            "rules": [str(RULES)] if rules else [],
            "data": {
                "set": "tcga-brca",
                "path": data,
                "server": 0,
                "min_samples": 5,
                "standardise": standardise,
            },
            "model": {"kind": "softmax"},
            "training": {
                "rounds": rounds,
                "local_steps": 100,
                "batch": 8,
                "learning_rate": 0.1,
                "participation": 1.0,
                "schedule": "constant",
                "executor": "stacked",
                "penalty": 1.0 if rules else 0.0,
                **training,
            },
            "evaluation": {"every": 1000, "local_baseline": False},
            "algorithms": dict(zip(names, (one[1] for one in strategies.values()), strict=True)),
            "compare": {"algorithm": names},
            "seeds": list(seeds),
        }
        with tempfile.TemporaryDirectory() as folder:
            done = run_job(job, out=Path(folder) / "run", report=False)
            every = concordances(RunFolder(done.folder))
        for name, key in zip(strategies, names, strict=True):
            found[name] = [every[f"{key}-s{seed}"] for seed in seeds]
    return found


def concordances(folder: RunFolder) -> dict[str, float]:
    """The concordance on all test patients by trial; the mean over models if centres have their
    own.
    """
    _, experiment, configs = reopen_run(folder, trust_code=False)
    found = {}
    for config in configs:
        trial, state = experiment.build_trial(config), load_state(folder, config.id)
        assert state is not None, "finished"
        test = experiment.samples.rows(TEST)
        time, event = experiment.samples.scaled.y[test].T
        values = []
        for params in deployed_models(trial).models(state):
            risk = trial.rules.answers(trial.problem.model, params, trial.inputs, test).flatten()
            pairs, right = concordant_pairs(
                risk.double(), risk.new_tensor(time), risk.new_tensor(event)
            )
            values.append(right / pairs)
        found[config.id] = statistics.fmean(values)
    return found


def compare(
    published: Mapping[str, Sequence[float]],
    raw: Mapping[str, Sequence[float]],
    scaled: Mapping[str, Sequence[float]],
    taught: Mapping[str, Sequence[float]],
) -> tuple[list[list[str]], list[Row]]:
    """The rows of the table, and those of the benchmark."""
    rows, claims = [], []
    for name, (theirs, _) in {**STRATEGIES, **TOGETHER}.items():
        peer = published.get(theirs)
        row = [name, mean_text(peer)]
        for title, ours in (("same inputs", raw[name]), ("standardised", scaled[name])):
            difference, verdict = judge(ours, peer)
            row += [mean_text(ours), difference, verdict]
            claims.append(claim(f"{name}, {title}", ours, peer, "FLamby", verdict))
        rows.append(row)
    for name in STRATEGIES:
        difference, verdict = judge(taught[name], scaled[name])
        without = ["–", "–", "–", "–"]
        rows.append(
            [f"{name} with rules, against without", *without, mean_text(taught[name]), difference,
             verdict]
        )  # fmt: skip
        claims.append(
            claim(f"{name} with rules", taught[name], scaled[name], "without rules", verdict)
        )
    return rows, claims


def mean_text(values: Sequence[float] | None) -> str:
    """The mean with the smallest and the largest value."""
    if not values:
        return "–"
    return f"{statistics.fmean(values):.3f} ({min(values):.3f} .. {max(values):.3f})"


def judge(ours: Sequence[float], peer: Sequence[float] | None) -> tuple[str, str]:
    """The mean difference with its 95 % interval, and the verdict; empty without a peer."""
    if peer is None or len(peer) != len(ours):
        return "–", "not compared"
    differences = [one - other for one, other in zip(ours, peer, strict=True)]
    interval = mean_interval(differences)
    if interval is None:
        return f"{differences[0]:+.3f}", "one seed"
    low, high = interval
    verdict = "better" if low > 0 else "worse" if high < 0 else "indistinguishable"
    return f"{statistics.fmean(differences):+.3f} ({low:+.3f} .. {high:+.3f})", verdict


def claim(
    name: str, ours: Sequence[float], peer: Sequence[float] | None, peer_name: str, verdict: str
) -> Row:
    """A row of the benchmark; more is better, so it has no ratio of times."""
    return {
        "claim": f"concordance index on TCGA-BRCA, {name}",
        "ours": round_digits(statistics.fmean(ours)),
        "peer": round_digits(statistics.fmean(peer)) if peer else None,
        "peer_name": peer_name,
        "ratio": None,
        "reason": verdict,
        "spread": None,
        "target": None,
        "holds": verdict != "worse",
        "floor": None,
    }


if __name__ == "__main__":
    main()
