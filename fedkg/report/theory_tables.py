"""The report's section on theory: what the theorems imply for each trial."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedkg.report.records import Json
from fedkg.report.trial_groups import mean, setting_text

Cell = Callable[[Sequence[Json]], str]


def theory_tables(document: Json) -> list[dict[str, Any]]:
    """One table per setting: rows are quantities, columns algorithms, cells means over seeds.

    `Any`: texts and lists of texts.
    """
    groups: dict[str, dict[str, list[Json]]] = {}
    for training in document.get("trials", ()):
        title = setting_text(
            tuple((name, str(value)) for name, value in training["setting"].items()),
            training["corrupted"],
        )
        groups.setdefault(title, {}).setdefault(training["title"], []).append(training)
    return [_table(title, columns) for title, columns in groups.items()]


def _table(title: str, columns: Mapping[str, Sequence[Json]]) -> dict[str, Any]:
    lines = [
        {"label": label, "meaning": meaning, "cells": [cell(own) for own in columns.values()]}
        for label, meaning, cell in INSTRUMENTS
    ]
    known = [line for line in lines if any(cell != "–" for cell in line["cells"])]
    notes = [
        f"{name}: {training['note']}"
        for name, own in columns.items()
        for training in own[:1]
        if training["note"]
    ]
    return {"title": title, "algorithms": list(columns), "lines": known, "notes": notes}


def property_lines(document: Json) -> list[str]:
    """Whether each mined property is convex, in sentences."""
    return [
        f"{one['name']}: "
        + (
            "the series that satisfy it form a convex set, so the distance to it is "
            "convex in the prediction."
            if one["convex"]
            else (
                "possibly not convex, because of an `or`, `eventually`, `until` or "
                "implication: the nearest series may not be unique."
            )
        )
        for one in document.get("properties", ())
    ]


def _mean_cell(*path: str, form: str = ".3g") -> Cell:
    """A cell with the mean over seeds of the value at a path."""

    def cell(trials: Sequence[Json]) -> str:
        value = mean(_at(training, path) for training in trials)
        return "–" if math.isnan(value) else f"{value:{form}}"

    return cell


def _at(document: Json, path: Sequence[str]) -> float:
    place: Any = document
    for key in path:
        place = place.get(key) if isinstance(place, dict) else None
    return math.nan if place is None else float(place)


def _step_cell(trials: Sequence[Json]) -> str:
    held = [one["bound"]["step_small_enough"] for one in trials if one.get("bound")]
    return "–" if not held else "yes" if all(held) else "no: the bound does not apply"


def _benefit_cell(trials: Sequence[Json]) -> str:
    held = [one["benefit"]["satisfied"] for one in trials if one.get("benefit")]
    return (
        "–"
        if not held
        else f"{'yes' if all(held) else 'no'}, below {_mean_cell('benefit', 'threshold')(trials)}"
    )


def _theta_cell(trials: Sequence[Json]) -> str:
    share, low, high = (
        _mean_cell("constants", name, form=".1%")(trials)
        for name in ("theta", "theta_low", "theta_high")
    )
    return "–" if share == "–" else f"{share} ({low} to {high})"


def _rate_cell(trials: Sequence[Json]) -> str:
    a, b, r2 = (
        _mean_cell("rate_fit", name, form=".2f" if name == "r2" else ".3g")(trials)
        for name in ("a", "b", "r2")
    )
    return "–" if a == "–" else f"a {a}, b {b}, R² {r2}{_interval('rate_fit', trials)}"


def _violation_cell(trials: Sequence[Json]) -> str:
    start, slope, r2 = (
        _mean_cell("violation_fit", name, form=".2f" if name == "r2" else ".3g")(trials)
        for name in ("intercept", "slope", "r2")
    )
    interval = _interval("violation_fit", trials)
    return "–" if start == "–" else f"{start} − {slope} ρ, R² {r2}{interval}"


def _interval(fit: str, trials: Sequence[Json]) -> str:
    ends = [one[fit]["r2_interval"] for one in trials if one.get(fit) and one[fit]["r2_interval"]]
    return (
        f" [{mean(low for low, _ in ends):.2f}, {mean(high for _, high in ends):.2f}]"
        if ends
        else ""
    )


def _zones_cell(trials: Sequence[Json]) -> str:
    counts: dict[str, int] = {}
    for training in trials:
        for name, count in training["zones"].items():
            counts[name] = counts.get(name, 0) + count
    total = sum(counts.values())
    return (
        ", ".join(f"{name} {count / total:.0%}" for name, count in counts.items() if count)
        if total
        else "–"
    )


INSTRUMENTS: tuple[tuple[str, str, Cell], ...] = (
    (
        "Bound on the least squared gradient",
        "theorem 1, sum of the four terms",
        _mean_cell("bound", "total"),
    ),
    (
        "optimisation",
        "2 (F(w⁰) − F*) / (η T), with the smallest observed F for F*, so rather too small",
        _mean_cell("bound", "optimisation"),
    ),
    ("variance", "2 L η E² σ² / K", _mean_cell("bound", "variance")),
    ("drift", "2 L² η² E² D²", _mean_cell("bound", "drift")),
    ("violation", "ρ L_c D, with the worst round's ρ", _mean_cell("bound", "violation")),
    ("η ≤ 1 / (L E)", "the theorem's condition on the step size", _step_cell),
    (
        "Least squared gradient observed",
        "the quantity that the bound limits",
        _mean_cell("gradient2_least"),
    ),
    ("D²", "heterogeneity of the sites, mean over rounds", _mean_cell("heterogeneity", "mean")),
    (
        "γ",
        "1 − D_c² / D²: reduction of heterogeneity by the weights of the round",
        _mean_cell("gamma"),
    ),
    (
        "γ by samples alone",
        "control: the same clients with FedAvg's weights; only the rest of γ is due to rules",
        _mean_cell("gamma_samples"),
    ),
    (
        "Δ",
        "divergence: squared distance of the updates from their mean, over the mean's square",
        _mean_cell("divergence"),
    ),
    (
        "Signal to noise, ε = 10",
        "mean clipped gradient over the length of the noise of one release",
        _mean_cell("signal_to_noise", "10"),
    ),
    ("L", "smoothness, largest observed value: a lower bound", _mean_cell("smoothness")),
    ("σ²", "variance of minibatch gradients, mean over rounds", _mean_cell("variance", "mean")),
    (
        "L_c",
        (
            "largest gradient norm of a site in rounds that satisfy all rules (or in all "
            "rounds, if none does)"
        ),
        _mean_cell("gradient_bound", "value"),
    ),
    (
        "rounds that satisfy all rules",
        "at their start, on the probe",
        _mean_cell("gradient_bound", "valid_iterates", form=".0f"),
    ),
    (
        "ρ below γ D / (L_c √T)",
        "corollary 2: the condition under which constraints help",
        _benefit_cell,
    ),
    ("γ D / (L_c ρ)", "from corollary 2; not a ratio of rounds", _mean_cell("benefit", "quantity")),
    (
        "θ",
        "share of models around the last one that satisfy all rules, with its 95 % interval",
        _theta_cell,
    ),
    (
        "Loss by noise, times H / σ²",
        "theorem 3: L d for d parameters; H and the noise σ are unknown for a run without noise",
        _mean_cell("noise_loss", "unconstrained"),
    ),
    (
        "claimed with constraints",
        "θ L d, as stated in the paper",
        _mean_cell("noise_loss", "claimed_constrained"),
    ),
    (
        "by its printed formula",
        (
            "L d / θ: a smaller hypothesis space increases the bound, so the claim does not "
            "follow from it"
        ),
        _mean_cell("noise_loss", "printed_constrained"),
    ),
    ("Rate of convergence", "|∇F|² as a / √t + b ρ, with the bootstrap interval of R²", _rate_cell),
    ("Figure by violation rate", "proposition 4: over rounds up to ρ = 0.18", _violation_cell),
    ("Rounds by zone", "of the worst site", _zones_cell),
    (
        "Infeasibility",
        "PC-FedAvg: distance of all models to their sets, averaged iterates",
        _mean_cell("constants", "infeasibility"),
    ),
    (
        "certified",
        "upper bound, with the nearest feasible models instead of the solution",
        _mean_cell("constants", "bound"),
    ),
    ("limit", "m G / ρ", _mean_cell("constants", "limit")),
    ("Objective above the optimum", "certified: at most", _mean_cell("constants", "upper")),
    (
        "Objective below the optimum",
        "certified: at most (negative)",
        _mean_cell("constants", "lower"),
    ),
)
"""Rows in display order: name, meaning, cell function."""
