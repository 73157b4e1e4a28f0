"""What protected trainings have spent, each alone and all together, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from fedkg.errors import MissingExtra
from fedkg.privacy import Entry, Gaussian, Spent, epsilon_at_most


def describe_privacy(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """What the promises of all arms came to, in words, from the lines of `privacy.csv`."""
    worst: dict[tuple[str, ...], float] = {}
    for row in rows:
        key = (
            "a site" if row["unit"] == "a client" else "a row",
            row["delta"],
            row["accountant"],
            row["budget"],
        )
        worst[key] = max(worst.get(key, 0.0), float(row["epsilon"]))
    for (unit, delta, accountant, budget), spent in worst.items():
        limit = f", of {float(budget):g} that may be" if budget else ""
        yield f"Whether {unit} was there is protected: epsilon {spent:.3g} at delta {float(delta):g} is spent ({accountant}){limit}."
    yield from describe_total_privacy(rows)


def describe_total_privacy(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """What several protected trainings on the same data come to, in words, from the lines of `privacy.csv`.

    Whoever sees all results, or the best of them, has learnt from every training. A row may be at another site in each of them, so that
    in each the unit that is worst off stands for all. Their releases are composed by their Rényi divergence; under the classical
    accountant epsilons and deltas are added up.
    """
    for unit in ("row", "site"):
        own = [row for row in rows if (row["unit"] == "a client") == (unit == "site")]
        configs = {
            config: [row for row in own if row["trial"] == config]
            for config in dict.fromkeys(row["trial"] for row in own)
        }
        if len(configs) > 1:
            epsilon, delta = _compose(list(configs.values()))
            yield (
                f"{len(configs)} trainings learnt from the same data, and each counts what it spends alone: all of them together, and a"
                f" choice among them, keep a {unit} to epsilon {epsilon:.3g} at delta {delta:g} at most."
            )


def _compose(each: Sequence[Sequence[Mapping[str, str]]]) -> tuple[float, float]:
    """Epsilon and delta of several trainings as if they were one, from the lines of each."""
    added = (
        math.fsum(max(float(row["epsilon"]) for row in rows) for rows in each),
        math.fsum(float(rows[0]["delta"]) for rows in each),
    )
    if any(rows[0]["accountant"] == "paper" for rows in each):
        return added
    delta = max(float(rows[0]["delta"]) for rows in each)
    try:
        return min((epsilon_at_most([_units(rows) for rows in each], delta), delta), added)
    except MissingExtra:  # a report may be made where nothing is trained
        return added


def _units(rows: Sequence[Mapping[str, str]]) -> list[list[Entry]]:
    """The entries of each unit of a training."""
    return [
        [_entry(row) for row in rows if row["unit"] == unit]
        for unit in dict.fromkeys(row["unit"] for row in rows)
    ]


def _entry(row: Mapping[str, str]) -> Entry:
    if row["each"]:
        return Spent(what=row["what"], epsilon=float(row["each"]), releases=int(row["releases"]))
    return Gaussian(
        what=row["what"],
        noise=float(row["noise"]),
        rate=float(row["rate"]),
        releases=int(row["releases"]),
    )
