"""What the theorems imply for each trial of a run, computed from its measurements.

`theory.json`.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from fedkg.errors import JobError
from fedkg.federated.temporal.conjunction import is_convex
from fedkg.federated.theory.scfa_constants import CLIP
from fedkg.federated.theory.theorems import (
    Bound,
    benefit,
    bound,
    noise_scale,
    privacy_loss,
    rate_fit,
    signal_to_noise,
    violation_fit,
)
from fedkg.jobs.comparison.summary import known_values
from fedkg.jobs.comparison_metric import Measure
from fedkg.jobs.trial_expansion import TrialConfig, algorithm_section, trial_title
from fedkg.pack import Pack
from fedkg.violation_rate_zones import ZONES, classify_rate

PAPER_EPSILONS = (0.1, 1.0, 10.0, 100.0)
"""Privacy budgets for which the paper compares signal and noise."""

BOOTSTRAP = 1000
"""Bootstrap draws of rounds for the intervals of R^2."""

Line = Mapping[str, str]
Json = dict[str, Any]
"""`Any`: JSON."""


def compute_theory(
    pack: Pack,
    measure: Measure,
    configs: Sequence[TrialConfig],
    rounds: Sequence[Line],
    sights: Sequence[Line],
    constants: Sequence[Line],
) -> Json:
    """For each trial the bound, its constants, fits and zones.

    For each mined property, its convexity.
    """
    found = []
    has_rules = any(rule.output for rule in pack.manifest.rules)
    for config in configs:
        own, seen = _trial_lines(rounds, config), _trial_lines(sights, config)
        at_end = next(iter(_trial_lines(constants, config)), {})
        found.append(
            {
                "id": config.id,
                "algorithm": config.algorithm,
                "title": trial_title(config),
                "seed": config.seed,
                "setting": dict(config.setting),
                "corrupted": "" if config.corrupt is None else config.corrupt.site,
                "zones": _zones(own),
                "violation_fit": _violation_fit(own, measure),
                "constants": {
                    key: _number(value)
                    for key, value in at_end.items()
                    if key not in ("trial", "note")
                },
                "note": at_end.get("note", ""),
                **(_observed_bound(config, own, seen, at_end, has_rules) if seen else {}),
            }
        )
    return {"trials": found, "properties": properties(pack)}


def properties(pack: Pack) -> list[Json]:
    """Every property of `infer ... find`, and whether the traces that satisfy it form a convex set.

    The distance to a convex set is convex.
    """
    return [
        {"name": one.name, "convex": is_convex(pack.conditions[one.condition].skeleton)}
        for one in pack.manifest.inferences
    ]


def _observed_bound(
    config: TrialConfig, rounds: Sequence[Line], seen: Sequence[Line], at_end: Line, has_rules: bool
) -> Json:
    """The bound and its terms.

    F* is unknown: the smallest observed objective replaces it, so the gap is a lower bound.
    """
    training = config.job.training
    objective, gradient2 = known_values(seen, "objective"), known_values(seen, "gradient2")
    d2, smooth = (
        known_values(seen, "heterogeneity"),
        max(known_values(seen, "smoothness"), default=0.0),
    )
    steepest = [_number(line["steepest"]) or 0.0 for line in seen if line["valid"] == "1"]
    l_c = max(steepest or known_values(seen, "steepest"))
    worst, mean = known_values(rounds, "rho_worst"), known_values(rounds, "rho_mean")
    gamma = _fold_known(statistics.fmean, known_values(seen, "gamma"))
    terms = None
    if smooth > 0:
        terms = bound(
            gap=objective[0] - min(objective),
            rate=training.learning_rate,
            rounds=training.rounds,
            smoothness=smooth,
            local_steps=int(at_end["local_steps"]),
            variance=max(known_values(seen, "variance")),
            clients=int(at_end["clients"]),
            heterogeneity=math.sqrt(max(d2)),
            rho=max(worst, default=0.0),
            gradient_bound=l_c,
        )
    helps = None
    if gamma is not None and l_c > 0 and mean:
        helps = benefit(
            gamma=gamma,
            heterogeneity=math.sqrt(statistics.fmean(d2)),
            gradient_bound=l_c,
            rho=_fold_known(statistics.fmean, mean) or 0.0,
            rounds=training.rounds,
        )
    return {
        "bound": None if terms is None else _bound_document(terms, bool(worst) or not has_rules),
        "benefit": None if helps is None else _finite(asdict(helps)),
        "noise_loss": _noise_loss(rounds, smooth, _number(at_end["theta"])),
        "gap": objective[0] - min(objective),
        "gradient2_least": min(gradient2),
        "heterogeneity": {"mean": statistics.fmean(d2), "max": max(d2)},
        "gamma": gamma,
        "gamma_samples": _fold_known(statistics.fmean, known_values(seen, "gamma_samples")),
        "divergence": _fold_known(
            statistics.fmean,
            [one for one in known_values(seen, "divergence") if math.isfinite(one)],
        ),
        "signal_to_noise": _signal_to_noise(rounds, seen),
        "variance": {
            "mean": statistics.fmean(known_values(seen, "variance")),
            "max": max(known_values(seen, "variance")),
        },
        "smoothness": smooth,
        "gradient_bound": {
            "value": l_c,
            "valid_iterates": len(steepest) if any(line["valid"] for line in seen) else None,
        },
        "rho": {"max": max(worst, default=None), "mean": _fold_known(statistics.fmean, mean)},
        "rate_fit": _rate_fit(config, seen, worst),
    }


def _bound_document(terms: Bound, has_rate: bool) -> Json:
    """The terms and their sum; without a violation rate its term and the sum are unknown."""
    document: Json = asdict(terms) | {"total": terms.total}
    return document if has_rate else document | {"violation": None, "total": None}


def _noise_loss(rounds: Sequence[Line], smooth: float, theta: float | None) -> Json | None:
    """Theorem 3 for noise with standard deviation 1 and a hypothesis space of size 1.

    Neither is known for a run without noise.
    """
    if not smooth > 0 or not rounds:
        return None
    dimensions = int(float(rounds[-1]["bytes_paper"])) // 4
    if not theta:
        return {
            "unconstrained": smooth * dimensions,
            "claimed_constrained": None,
            "printed_constrained": None,
        }
    return asdict(
        privacy_loss(
            smoothness=smooth, sigma=1.0, dimensions=dimensions, hypotheses=1.0, theta=theta
        )
    )


def _signal_to_noise(rounds: Sequence[Line], seen: Sequence[Line]) -> Json | None:
    """The mean clipped gradient over the length of the noise of one release, by epsilon."""
    if not rounds or not seen:
        return None
    dimensions = int(float(rounds[-1]["bytes_paper"])) // 4
    signal = statistics.fmean(known_values(seen, "clipped"))
    return {
        f"{epsilon:g}": signal_to_noise(
            signal, sigma=noise_scale(epsilon), clip=CLIP, dimensions=dimensions
        )
        for epsilon in PAPER_EPSILONS
    }


def _rate_fit(config: TrialConfig, seen: Sequence[Line], worst: Sequence[float]) -> Json | None:
    """The convergence fit of ``|grad F|^2``; with weights by rules it has a constant term."""
    rho = (
        statistics.fmean(worst)
        if worst and algorithm_section(config.job).weighting == "scfa"
        else 0.0
    )
    places = [int(line["round"]) for line in seen]
    try:
        return asdict(
            rate_fit(known_values(seen, "gradient2"), rounds=places, rho=rho, bootstrap=BOOTSTRAP)
        )
    except JobError:
        return None


def _violation_fit(rounds: Sequence[Line], measure: Measure) -> Json | None:
    """Proposition 4 over the rounds.

    Needs a measure where more is better, and rates that differ.
    """
    known = [line for line in rounds if line.get(measure.name) and line["rho_worst"]]
    if not measure.higher:
        return None
    try:
        fit = violation_fit(
            [float(line[measure.name]) for line in known],
            [float(line["rho_worst"]) for line in known],
            bootstrap=BOOTSTRAP,
        )
    except JobError:
        return None
    return asdict(fit)


def _zones(rounds: Sequence[Line]) -> dict[str, int]:
    counts = Counter(
        classify_rate(float(line["rho_worst"])) for line in rounds if line["rho_worst"]
    )
    return {name: counts[name] for name, *_ in ZONES}


def _trial_lines(lines: Sequence[Line], config: TrialConfig) -> list[Line]:
    return [line for line in lines if line["trial"] == config.id]


def _fold_known(fold: Callable[[Sequence[float]], float], values: Sequence[float]) -> float | None:
    return fold(values) if values else None


def _number(text: str) -> float | None:
    return float(text) if text else None


def _finite(document: Json) -> Json:
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in document.items()
    }
