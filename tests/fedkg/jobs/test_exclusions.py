"""Missing updates are recorded with who decided it, since when, and what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fedkg.exclusion_reasons import NO_REPLY, NOT_NEEDED
from fedkg.federated import RoundRecord
from fedkg.jobs.round_exclusion_table import ExclusionTable, latest_exclusions, summarise_exclusions

SITES = ("graz", "linz", "wien")
NO_PROCESS = "no site process answers on /site/site.sock"


def record(number: int, **excluded: str) -> RoundRecord:
    return RoundRecord(
        round=number,
        clients=SITES,
        samples=(1, 2, 3),
        alpha=(0.0,) * 3,
        excluded=excluded,
        train_loss=0.0,
        bytes_up=0,
        bytes_down=0,
        seconds=0.0,
    )


HISTORY = (
    record(1),
    record(2, graz=NO_PROCESS),
    record(3, graz=NO_PROCESS, linz="its update has NaN in w (1 of 3 values)"),
    record(4, graz=f"{NO_REPLY} (asked 3 times in 60 s)", wien=NOT_NEEDED),
    record(5, wien="column `torque` is missing"),
)


def client_rows(*records: RoundRecord) -> list[dict[str, str]]:
    """What `clients.csv` keeps of rounds."""
    return [
        {
            "trial": "t",
            "round": str(one.round),
            "client": site,
            "status": f"excluded: {one.excluded[site]}" if site in one.excluded else "",
        }
        for one in records
        for site in one.clients
    ]


def short(rows: list[Any]) -> list[tuple[Any, ...]]:
    names = ("round", "client", "state", "decided_by", "since", "rounds")
    return [tuple(row[name] for name in names) for row in rows]


EXPECTED = [
    (2, "graz", "missing", "contract", 2, 1),
    (3, "graz", "missing", "contract", 2, 2),
    (3, "linz", "missing", "server", 3, 1),
    (4, "graz", "lost", "contract", 2, 3),
    (5, "wien", "missing", "site process", 5, 1),
]


def test_rows_name_the_first_round_and_lost_sites_and_leave_out_spares():
    table = ExclusionTable(trial="t", lost_after=3)

    assert short([row for one in HISTORY for row in table.add_round(one)]) == EXPECTED


@pytest.mark.parametrize("done", range(6))
def test_resumed_run_continues_the_count(done):
    table = ExclusionTable(trial="t", lost_after=3)
    table.replay(client_rows(*HISTORY[:done]))
    other = [row | {"trial": "other"} for row in client_rows(*HISTORY)]
    table.replay(other)

    rows = [row for one in HISTORY[done:] for row in table.add_round(one)]

    assert short(rows) == [row for row in EXPECTED if row[0] > done]


def test_status_shows_the_last_round_and_the_report_each_reason_once():
    table = ExclusionTable(trial="t", lost_after=3)
    rows = [
        {name: str(value) for name, value in row.items()}
        for one in HISTORY
        for row in table.add_round(one)
    ]
    rounds = [{"trial": "t", "round": str(one.round)} for one in HISTORY]

    assert [row["client"] for row in latest_exclusions(rows, rounds)] == ["wien"]
    assert latest_exclusions(rows, []) == []
    summary = summarise_exclusions(rows)
    found = [(row["client"], row["rounds"], row["first"], row["last"]) for row in summary]
    assert found == [
        ("graz", "2", "2", "3"),
        ("linz", "1", "3", "3"),
        ("graz", "1", "4", "4"),
        ("wien", "1", "5", "5"),
    ]


def test_round_in_which_a_site_takes_part_ends_its_absence():
    table = ExclusionTable(trial="t", lost_after=1)
    table.add_round(record(1, graz=NO_PROCESS))
    table.add_round(record(2))
    [row] = table.add_round(replace(record(3), excluded={"graz": NO_PROCESS}))

    assert (row["since"], row["rounds"], row["state"]) == (3, 1, "lost")
