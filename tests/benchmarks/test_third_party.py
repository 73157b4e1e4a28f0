"""Benchmarks on third-party data: the page shows the stored results, and small cases by hand."""

from __future__ import annotations

import importlib
import json
import statistics
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from scipy import optimize, stats

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a benchmark by name."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module


def test_the_page_shows_the_stored_tables(load: Any) -> None:
    module: ModuleType = load("reporting.third_party")
    results = json.loads(module.RESULTS.read_text(encoding="utf-8"))
    page = module.PAGE.read_text(encoding="utf-8")
    assert set(results) == {"tcga", "open-fdd", "dc3"}
    assert module.insert_tables(page, results) == page
    for section in results.values():
        assert module.format_table(section["columns"], section["rows"]) in page


def test_the_table_of_survival_follows_from_the_values_of_each_seed(load: Any) -> None:
    module: ModuleType = load("third_party_tcga")
    results = json.loads((BENCHMARKS / "third_party.json").read_text(encoding="utf-8"))["tcga"]
    rows, _ = module.compare(
        *(results[name] for name in ("published", "raw", "standardised", "with rules"))
    )
    assert rows == results["rows"]


@pytest.mark.parametrize(("shift", "verdict"), [(0.2, "better"), (-0.2, "worse"), (0.0, "indist")])
def test_a_verdict_needs_an_interval_without_zero(load: Any, shift: float, verdict: str) -> None:
    module: ModuleType = load("third_party_tcga")
    peer = [0.70, 0.72, 0.69, 0.71, 0.70]
    ours = [0.71 + shift, 0.71 + shift, 0.70 + shift, 0.70 + shift, 0.70 + shift]
    differences = [one - other for one, other in zip(ours, peer, strict=True)]
    low, high = stats.t.interval(
        0.95, 4, statistics.fmean(differences), statistics.stdev(differences) / 5**0.5
    )
    text, found = module.judge(ours, peer)
    assert text == f"{statistics.fmean(differences):+.3f} ({low:+.3f} .. {high:+.3f})"
    assert found.startswith(verdict)


def test_published_scores_are_read_by_strategy(load: Any, tmp_path: Path) -> None:
    module: ModuleType = load("third_party_tcga")
    for seed, shift in ((42, 0.0), (43, 0.1)):
        (tmp_path / f"published_seed{seed}.csv").write_text(
            "Method,Test,Metric\n"
            f"FedAvg100,client_test_0,0.9\nFedAvg100,Pooled Test,{0.5 + shift}\n"
            f"Local 0,Pooled Test,0.4\nLocal 1,Pooled Test,{0.6 + 2 * shift}\n"
        )
    found = module.read_published(tmp_path)
    assert found["FedAvg100"] == pytest.approx([0.5, 0.6])
    assert found["Local"] == pytest.approx([0.5, 0.6])


def test_a_projection_solves_the_quadratic_programs(load: Any) -> None:
    module: ModuleType = load("third_party_dc3")
    family = module.draw_family(6)
    x = family.right[:2]
    y = module.solve(family, x)
    for found, right in zip(y, x, strict=True):
        bounds: list[Any] = [
            optimize.LinearConstraint(family.equations.numpy(), right.numpy(), right.numpy()),
            optimize.LinearConstraint(family.inequalities.numpy(), -np.inf, family.ends.numpy()),
        ]

        def objective(v: np.ndarray) -> float:
            return float(family.objective(torch.from_numpy(v)))

        reference = optimize.minimize(
            objective, np.zeros(6), method="SLSQP", constraints=bounds, tol=1e-12
        )
        assert float(family.objective(found)) == pytest.approx(reference.fun, abs=1e-6)
    assert max(family.violations(y, x)) < 1e-9
