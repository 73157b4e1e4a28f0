"""What protected trainings have spent, each alone and all together, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence


def kept_private(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """What the promises of all arms came to, in words, from the lines of `privacy.csv`."""
    worst: dict[tuple[str, ...], float] = {}
    for row in rows:
        key = ("a site" if row["unit"] == "a client" else "a row", row["delta"], row["accountant"], row["budget"])
        worst[key] = max(worst.get(key, 0.0), float(row["epsilon"]))
    for (unit, delta, accountant, budget), spent in worst.items():
        limit = f", of {float(budget):g} that may be" if budget else ""
        yield f"Whether {unit} was there is protected: epsilon {spent:.3g} at delta {float(delta):g} is spent ({accountant}){limit}."
    yield from added_up(rows)


def added_up(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """What several protected trainings on the same data come to (basic composition), in words, from the lines of `privacy.csv`.

    Whoever sees all results, or the best of them, has learnt from every training.
    """
    for unit in ("row", "site"):
        own = [row for row in rows if (row["unit"] == "a client") == (unit == "site")]
        spent = {row["arm"]: (max(float(other["epsilon"]) for other in own if other["arm"] == row["arm"]), row["delta"]) for row in own}
        if len(spent) > 1:
            epsilon, delta = math.fsum(cost for cost, _ in spent.values()), math.fsum(float(chance) for _, chance in spent.values())
            yield (
                f"{len(spent)} trainings learnt from the same data, and each counts what it spends alone: all of them together, and a"
                f" choice among them, keep a {unit} to epsilon {epsilon:.3g} at delta {delta:g} at most."
            )
