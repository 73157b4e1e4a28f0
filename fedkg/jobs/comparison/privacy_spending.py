"""Sentences about the privacy that trials have spent, individually and in total."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from fedkg.errors import MissingExtra
from fedkg.privacy import Entry, Gaussian, Spent, epsilon_at_most

SIMULATED = (
    "The privacy is simulated: the noise follows from the seed (`privacy.randomness: system` "
    "protects real data)."
)


def describe_privacy(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """The spending of all trials in sentences, from the rows of `privacy.csv`."""
    worst: dict[tuple[str, ...], float] = {}
    for row in rows:
        key = (
            "a site" if row["unit"] == "a client" else "a row",
            row["delta"],
            row["accountant"],
            row["budget"],
            row["randomness"],
        )
        worst[key] = max(worst.get(key, 0.0), float(row["epsilon"]))
    for (unit, delta, accountant, budget, randomness), spent in worst.items():
        limit = f", of a budget of {float(budget):g}" if budget else ""
        protected = "is protected" if randomness == "system" else "would be protected"
        yield (
            f"The presence of {unit} {protected}: epsilon {spent:.3g} at delta "
            f"{float(delta):g} is spent ({accountant}){limit}."
        )
    if any(row["randomness"] != "system" for row in rows):
        yield SIMULATED
    yield from describe_total_privacy(rows)


def describe_total_privacy(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """The total spending of several trials on the same data, from the rows of `privacy.csv`.

    Anyone who sees all results, or the best of them, learns from every trial. A row may be at
    another site in each trial, so the unit with the largest spending represents each trial.
    Releases are composed by their Rényi divergence; with the classical accountant epsilons and
    deltas are added.
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
                f"{len(configs)} trials used the same data, and each figure counts one "
                "trial: all trials together, or a"
                f" choice among them, spend at most epsilon {epsilon:.3g} at delta "
                f"{delta:g} per {unit}."
            )


def _compose(each: Sequence[Sequence[Mapping[str, str]]]) -> tuple[float, float]:
    """Epsilon and delta of several trials as if they were one."""
    added = (
        math.fsum(max(float(row["epsilon"]) for row in rows) for rows in each),
        math.fsum(float(rows[0]["delta"]) for rows in each),
    )
    if any(rows[0]["accountant"] == "paper" for rows in each):
        return added
    delta = max(float(rows[0]["delta"]) for rows in each)
    try:
        return min((epsilon_at_most([_units(rows) for rows in each], delta), delta), added)
    except MissingExtra:  # reports need no accountant library
        return added


def _units(rows: Sequence[Mapping[str, str]]) -> list[list[Entry]]:
    """The ledger entries of each unit of a trial."""
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
