"""The report's section on what leaves a site: the messages of each training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedkg.report.records import TrialRecord

EACH_ROUND = "in each of its rounds"


def disclosure_tables(
    rows: Sequence[Mapping[str, str]], trials: Sequence[TrialRecord]
) -> list[dict[str, Any]]:
    """The rows of `disclosures.csv`, one table for trials with the same messages.

    `Any`: texts and lists of rows.
    """
    tables: dict[tuple[tuple[str, ...], ...], list[TrialRecord]] = {}
    for trial in trials:
        own = tuple(
            tuple(value for field, value in row.items() if field != "trial")
            for row in rows
            if row["trial"] == trial.id
        )
        if own:
            tables.setdefault(own, []).append(trial)
    fields = [field for field in rows[0] if field != "trial"] if rows else []
    titles = [title for found in tables.values() for title in {trial.title for trial in found}]
    return [
        {
            "title": ", ".join(
                dict.fromkeys(_name(trial, titles.count(trial.title) > 1) for trial in found)
            )
            if len(tables) > 1
            else "",
            "rows": (messages := [dict(zip(fields, values, strict=True)) for values in own]),
            "up": _count_bytes(messages, "to the server"),
            "down": _count_bytes(messages, "to the site"),
        }
        for own, found in tables.items()
    ]


def _name(trial: TrialRecord, with_setting: bool) -> str:
    setting = [f"{name.rpartition('.')[2]} {value}" for name, value in trial.setting]
    return f"{trial.title} ({', '.join(setting)})" if with_setting and setting else trial.title


def _count_bytes(messages: Sequence[Mapping[str, str]], direction: str) -> int:
    """The bytes of a round in one direction."""
    return sum(
        int(one["bytes"])
        for one in messages
        if one["when"] == EACH_ROUND and one["direction"] == direction
    )
