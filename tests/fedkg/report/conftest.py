"""A handmade run folder, so that report tests train nothing."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedkg.jobs.checksum_log import LOG
from fedkg.jobs.folder import CSV_FIELDS, RunFolder

SITES = {"graz": 300, "linz": 500, "wien": 200}


def trial(
    algorithm: str, seed: int, alpha: str, corrupted: str = "", done: bool = True
) -> dict[str, Any]:
    return {
        "id": f"{algorithm}-{alpha}-{seed}-{corrupted or 'sound'}",
        "algorithm": algorithm,
        "preset": algorithm,
        "title": {"fedavg": "FedAvg", "scfa": "SCFA"}[algorithm],
        "seed": seed,
        "setting": {"data.alpha": alpha},
        "corrupted": corrupted,
        "done": done,
    }


def spread(*values: float | None) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    mean = sum(known) / len(known) if known else None
    return {"mean": mean, "spread": 0.01 if len(known) > 1 else None, "values": list(values)}


def result(entry: dict[str, Any], f1: tuple[float, float], rho: float) -> dict[str, Any]:
    zone = "safe" if rho < 0.05 else "critical"
    figures = {
        "f1": spread(*f1),
        "precision": spread(0.7, 0.8),
        "recall": spread(0.5, 0.6),
        "bytes": spread(2.5e6, 2.5e6),
    }
    figures |= {
        "rho_worst": spread(rho, rho),
        "rho_mean": spread(rho / 2, rho / 2),
        "violation_rate": spread(rho / 4, rho / 4),
        "violated_cases": spread(250 * rho, 250 * rho),
        "evaluated_cases": spread(1000.0, 1000.0),
        "rounds_to_target": spread(3.0, None),
    }
    facts = {key: entry[key] for key in ("setting", "corrupted", "algorithm", "preset", "title")}
    return (
        facts
        | figures
        | {"seeds": 2, "reached": 1, "zone": zone, "alpha_corrupted": None, "share_corrupted": None}
    )


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, CSV_FIELDS[path.name], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_run(
    folder: Path, *, title: str = "Three sites, one model", finished: bool = True
) -> Path:
    folder.mkdir()
    trials = [
        trial(a, s, "1", site, finished or site == "")
        for site in ("", "linz")
        for a in ("fedavg", "scfa")
        for s in (0, 1)
    ]
    rounds, clients, rules = [], [], []
    for entry in trials:
        for n in (1, 2, 3):
            rounds.append(
                {
                    "trial": entry["id"],
                    "round": n,
                    "f1": 0.2 * n,
                    "rho_worst": 0.3 / n,
                    "rho_mean": 0.1 / n,
                    "zone": "danger",
                    "bytes": 100,
                }
            )
            for site, samples in SITES.items():
                alpha = (
                    0.05
                    if entry["corrupted"] == site and entry["algorithm"] == "scfa"
                    else samples / 1000
                )
                clients.append(
                    {
                        "trial": entry["id"],
                        "round": n,
                        "client": site,
                        "samples": samples,
                        "alpha": alpha,
                        "share": samples / 1000,
                    }
                )
        rules.append(
            {
                "trial": entry["id"],
                "rule": "heat",
                "title": "Heat stays in the tool.",
                "kind": "causal",
                "rate": 0.25,
                "example": "M07, row 12",
            }
        )
        rules.append(
            {
                "trial": entry["id"],
                "rule": "wear_risk",
                "title": "",
                "kind": "temporal",
                "rate": 0.0,
                "bound_rows": 30,
            }
        )
    rounds[0]["f1"] = ""
    rounds[0]["notes"] = "executor: stacks of 2: measured | the model is unchanged"
    rounds[4]["notes"] = "the model is unchanged"
    clients[0]["status"] = "excluded: NaN in layer 1"
    write_csv(folder / "rounds.csv", rounds)
    write_csv(folder / "clients.csv", clients)
    write_csv(folder / "rules.csv", rules)
    write_csv(
        folder / "checks.csv",
        [
            {
                "rule": "warm",
                "title": "Warmer inside.",
                "violated": 2,
                "evaluations": 100,
                "rate": 0.02,
                "example": "row 3",
            }
        ],
    )
    (folder / "job.yaml").write_text(
        f"title: {json.dumps(title)}\nevaluation: {{target_f1: 0.5}}\nsites: {{graz: "
        f"{{}}, linz: {{}}, wien: {{}}}}\n"
    )
    (folder / "environment.json").write_text(
        json.dumps({"python": "3.11", "libraries": {"torch": "2.13"}})
    )
    (folder / "trials.json").write_text(json.dumps(trials))
    sites = {site: {"rows": samples, "positives": 10} for site, samples in SITES.items()}
    split = {"setting": {"data.alpha": "1"}, "seed": 0, "corrupted": "", "sites": sites}
    (folder / "split.json").write_text(
        json.dumps({"note": "Dealt out.", "splits": [split], "test": {"rows": 100, "positives": 4}})
    )
    if finished:
        rows = [
            result(trials[0], (0.6, 0.61), 0.2),
            result(trials[2], (0.6, 0.62), 0.03),
            result(trials[4], (0.3, 0.31), 0.3),
            result(trials[6], (0.6, 0.62), 0.04),
        ]
        (folder / "results.json").write_text(
            json.dumps(
                {
                    "rows": rows,
                    "sentences": ["A sentence of the run."],
                    "rules": {"heat": "rule heat <b>"},
                }
            )
        )
    sign(folder)
    return folder


def sign(folder: Path) -> None:
    """Log the current files of a folder."""
    place = RunFolder(folder)
    place.log_files(path.name for path in sorted(folder.iterdir()) if path.name != LOG)


@pytest.fixture
def run_folder(tmp_path: Path) -> Callable[..., Path]:
    """Writes a run folder: `run_folder(title=..., finished=...)`."""
    return lambda **options: write_run(tmp_path / "run", **options)
