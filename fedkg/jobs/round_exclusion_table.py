"""The table of updates that are missing in a round: who decided it, why, since when, what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedkg.exclusion_reasons import NOT_NEEDED, explain_exclusion
from fedkg.jobs.folder import Row

if TYPE_CHECKING:
    from fedkg.federated import RoundRecord

EXCLUSIONS = "exclusions.csv"

_STATUS = "excluded: "


@dataclass(slots=True, kw_only=True)
class ExclusionTable:
    """Writes the rows of one trial, and knows since when each site is missing.

    Attributes:
        trial: its id.
        lost_after: rounds in a row without any answer after which a site is lost.
        since: by site, the first round of the rows in which it is missing.
        rounds: by site, the number of these rounds.
    """

    trial: str
    lost_after: int
    since: dict[str, int] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)

    def replay(self, clients: Iterable[Mapping[str, str]]) -> None:
        """Continue after the rows of `clients.csv` that the trial has already."""
        for row in clients:
            if row["trial"] == self.trial:
                status = row["status"]
                reason = status.removeprefix(_STATUS) if status.startswith(_STATUS) else None
                self._count(row["client"], int(row["round"]), reason)

    def add_round(self, record: RoundRecord) -> list[Row]:
        """The rows of a round: one for each site without a used update, but for spares."""
        rows: list[Row] = []
        for site in record.clients:
            reason = record.excluded.get(site)
            self._count(site, record.round, reason)
            if reason is None or reason == NOT_NEEDED:
                continue
            found = explain_exclusion(reason)
            is_lost = found.absent and self.rounds[site] >= self.lost_after
            rows.append(
                {
                    "trial": self.trial,
                    "round": record.round,
                    "client": site,
                    "state": "lost" if is_lost else "missing",
                    "decided_by": found.decided_by,
                    "reason": reason,
                    "since": self.since[site],
                    "rounds": self.rounds[site],
                    "help": found.help,
                }
            )
        return rows

    def _count(self, site: str, number: int, reason: str | None) -> None:
        if reason is None:
            self.since.pop(site, None)
            self.rounds.pop(site, None)
        elif reason != NOT_NEEDED:
            self.since.setdefault(site, number)
            self.rounds[site] = self.rounds.get(site, 0) + 1


def latest_exclusions(
    exclusions: Sequence[Mapping[str, str]], rounds: Sequence[Mapping[str, str]]
) -> list[dict[str, str]]:
    """The rows of the sites that are missing in the last round of the run."""
    if not rounds:
        return []
    last = rounds[-1]
    return [
        dict(row)
        for row in exclusions
        if (row["trial"], row["round"]) == (last["trial"], last["round"])
    ]


def summarise_exclusions(exclusions: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """One row for each trial, site and reason: its rounds, and whether the site was lost."""
    found: dict[tuple[str, str, str], list[Mapping[str, str]]] = {}
    for row in exclusions:
        found.setdefault((row["trial"], row["client"], row["reason"]), []).append(row)
    return [
        {
            "trial": trial,
            "client": site,
            "reason": reason,
            "rounds": str(len(rows)),
            "first": rows[0]["round"],
            "last": rows[-1]["round"],
            "state": rows[-1]["state"],
            "decided_by": rows[-1]["decided_by"],
            "help": rows[-1]["help"],
        }
        for (trial, site, reason), rows in found.items()
    ]
