"""Sentences about how many forecasts satisfy the properties mined at the sites."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from fedkg.jobs.trial_expansion import TrialConfig, trial_title

FORECAST_SOURCES: Mapping[str, str] = {
    "client": "the site's model",
    "cluster": "its cluster's model (-S)",
    "teacher": "the site's model, corrected by the teacher (-T)",
    "truth": "the observed values",
}
"""Descriptions of the `by` column of `forecasts.csv`."""


def describe_forecasts(
    configs: Sequence[TrialConfig], rows: Sequence[Mapping[str, str]]
) -> Iterator[str]:
    """One sentence per setting and algorithm:

    the share of forecasts that satisfy their site's property.

    Shares are means over sites and seeds.
    """
    groups: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = {}
    settings = {config.id: config for config in configs}
    for row in rows:
        config = settings[row["trial"]]
        where = ", ".join(f"{field.rpartition('.')[2]} {value}" for field, value in config.setting)
        title = trial_title(config)
        found = groups.setdefault((where, title), {})
        if row["sequences"] and row["mse"]:
            found.setdefault(row["by"], []).append((float(row["sequences"]), float(row["mse"])))
    for (where, title), found in groups.items():
        said = [
            _describe_source(by, found[by])
            for by in FORECAST_SOURCES
            if by in found and by != "truth"
        ]
        truth = (
            f"; of the observed values, {_mean_share(found['truth'])} did"
            if "truth" in found
            else ""
        )
        if said:
            begin = f"With {where}, {title}" if where else title
            yield (
                f"{begin}: forecasts that satisfy the property mined at their site: "
                f"{', '.join(said)}{truth}."
            )


def _describe_source(by: str, found: Sequence[tuple[float, float]]) -> str:
    words = {
        "client": " without correction",
        "cluster": " from the cluster models",
        "teacher": " after the teacher's correction",
    }[by]
    return f"{_mean_share(found)}{words} (MSE {statistics.fmean(mse for _, mse in found):.3f})"


def _mean_share(found: Sequence[tuple[float, float]]) -> str:
    return f"{statistics.fmean(share for share, _ in found):.0%}"
