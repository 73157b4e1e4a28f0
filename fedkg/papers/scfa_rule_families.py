"""What the violations of each family of rules cost in F1, a claim about the ablation of SCFA.

Letters: T trainings, S seeds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedkg.papers.scfa import FAMILIES, changes, differences
from fedkg.papers.study import Bench, Claim, Row, Study


def family_slopes(bench: Bench) -> Iterator[Row]:
    """The F1 that the violations of each family cost, from trainings with its rules alone and
    several penalties, which change the violation rate.
    """
    weights = bench.pick("0,10", "0,10,100", "0,3,10,30,100")
    slopes: dict[str, tuple[float, ...]] = {}
    for family, (_, published) in FAMILIES.items():
        if bench.size == "smoke" and family not in ("temporal", "causal"):
            continue
        found = bench.sweep(
            "scfa_milling",
            f"training.penalty={weights}",
            key=f"penalties-{family}",
            changes=[*changes(bench), f"rules=[scfa_milling_{family}.fkg]"],
        )
        rho, f1 = (
            np.array([row[name]["values"] for row in found.rows], dtype=np.float64)
            for name in ("rho_mean_average", "f1")
        )
        slopes[family] = lost_per_violation(rho, f1)
        yield Row(
            label=f"loss of F1 per violation rate of {family} rules",
            published=str(published),
            ours=slopes[family],
            claim=Claim(support=slopes[family], published=published),
            note="a line for each seed; violation rates, the mean of sites and rounds,"
            f" {np.nanmin(rho):.2f} to {np.nanmax(rho):.2f}",
        )
    others = [own for family, own in slopes.items() if family != "temporal"]
    most = differences(slopes["temporal"], np.max(others, axis=0).tolist())
    yield Row(
        label="temporal rules cost more F1 per violation rate than every other family",
        published="0.62 against 0.48",
        ours=most,
        claim=Claim(support=most, published=0.62 - 0.48),
    )


def lost_per_violation(rho: NDArray[np.float64], f1: NDArray[np.float64]) -> tuple[float, ...]:
    """Minus the slope of a line through each column of F1 by violation rate, [T, S] each; NaN if
    its violation rates are equal.
    """
    away = rho - rho.mean(axis=0)
    with np.errstate(invalid="ignore"):
        slope = -(away * f1).sum(axis=0) / (away**2).sum(axis=0)
    return tuple(np.where(np.ptp(rho, axis=0) > 0, slope, np.nan).tolist())


FAMILY_SLOPES = Study(
    name="slopes", title="what violations of each family cost", minutes=10, run=family_slopes
)
