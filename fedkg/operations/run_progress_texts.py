"""What `fedkg watch` and `fedkg serve` show of a run or a sweep, as texts in tables and lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fedkg.jobs.comparison_metric import MEASURE_BY_COLUMN
from fedkg.violation_rate_zones import describe_rate

if TYPE_CHECKING:
    from fedkg.jobs.events import Values
    from fedkg.operations.run_follower import FolderView, RunView, SiteView

LEFT_ALIGNED = frozenset({"run", "training", "site", "rule", "reason"})
"""Headers of columns with texts; the others hold numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTable:
    """A table of texts.

    Attributes:
        headers: names of the columns.
        rows: the cells of each row.
        more: a remark about rows that are left out; "" if all are shown.
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveView:
    """Everything that a view shows.

    Attributes:
        trials: rounds and last figures of each trial.
        current: the last round in words; "" before the first.
        remaining: the estimated time until the end of the run; "" if it is not known.
        lost: sites without a used update in the last round, and why.
        sites: the sites of the current trial; those left out most often first.
        rules: the rules that were violated most in the last round.
        notes: the last notes with their times.
        errors: runs that failed or are damaged.
        summary: how many runs are done, and whether one is in progress.
    """

    trials: TextTable
    current: str
    remaining: str
    lost: tuple[str, ...]
    sites: TextTable
    rules: TextTable
    notes: tuple[str, ...]
    errors: tuple[str, ...]
    summary: str


def describe_folder(watched: FolderView, *, most_rows: int) -> LiveView | None:
    """The view of a folder now; None if there is no run yet.

    Args:
        most_rows: rows of the tables of sites and of rules.
    """
    if watched.status is None:
        return None
    document = watched.status.document()
    view = watched.views.get(watched.recent)
    last = None if view is None else view.last
    current = ""
    if last is not None:
        place = f"round {last['round']} of {last['rounds']}, {clock(last['time'])}"
        current = f"{last['trial']}, {place}: {round_figures(last)}"
    seconds = watched.remaining_seconds()
    own = [run for run in document["runs"] if run["id"] == watched.recent]
    return LiveView(
        trials=trial_table(document),
        current=current,
        remaining="" if seconds is None else f"about {duration_text(seconds)} left",
        lost=tuple(exclusion_lines(own)),
        sites=_site_table(view, most_rows),
        rules=_rule_table(view, most_rows),
        notes=() if view is None else tuple(f"{clock(when)} {note}" for when, note in view.notes),
        errors=tuple(f"{run['id']}: {run['error']}" for run in document["runs"] if run["error"]),
        summary=summarise(document),
    )


def trial_table(found: dict[str, Any]) -> TextTable:
    """The trials of a status, one per row. `Any`: JSON."""
    several = len(found["runs"]) > 1
    measures = [trial["measure"] for run in found["runs"] for trial in run["trials"]]
    title = MEASURE_BY_COLUMN[measures[0]].title if measures else "F1"
    rows = []
    for run in found["runs"]:
        own = (run["id"],) if several else ()
        for trial in run["trials"]:
            figure, share = trial["figure"], trial["violated_share"]
            cells = (trial["id"], f"{trial['round']}/{trial['rounds']}")
            figures = ("-" if figure is None else f"{figure:.3f}",)
            rows.append((*own, *cells, *figures, "-" if share is None else f"{share:.0%}"))
        if not run["trials"]:
            rows.append((*own, run["state"], "", "", ""))
    headers = ("training", "rounds", title, "violated rules")
    return TextTable(headers=(*(("run",) if several else ()), *headers), rows=tuple(rows))


def exclusion_lines(runs: Iterable[dict[str, Any]]) -> Iterable[str]:
    """A line for each site without a used update in the last round. `Any`: JSON."""
    for run in runs:
        for row in run["exclusions"]:
            yield (
                f"{row['client']} is {row['state']} since round {row['since']}: {row['reason']}"
                f" (decided by: {row['decided_by']}); {row['help']}"
            )


def summarise(found: dict[str, Any]) -> str:
    """``1 of 2 runs done, 1 begun, in progress``. `Any`: JSON."""
    states = [run["state"] for run in found["runs"]]
    said = [f"{states.count('done')} of {len(states):,} run{'s' * (len(states) != 1)} done"]
    said += [
        f"{states.count(state)} {state}"
        for state in ("begun", "failed", "open", "damaged")
        if state in states
    ]
    return ", ".join(said) + (", in progress" if found["running"] else "")


def figures_text(values: Values) -> str:
    """``F1 0.71, violations 12% (danger)``; empty without an evaluation."""
    parts: list[str] = []
    rho, zone = values.get("rho_worst"), values.get("zone")
    for name, measure in MEASURE_BY_COLUMN.items():
        value = values.get(name)
        if isinstance(value, float) and value == value and not parts:
            parts.append(f"{measure.title} {value:.2f}")
    if isinstance(rho, float) and rho == rho:
        parts.append(f"violations {rho:.0%}" + (f" ({zone})" if zone else ""))
    return ", ".join(parts)


def round_figures(event: dict[str, Any]) -> str:
    """The figures of a round, with both counts of the violation rate. `Any`: JSON."""
    values = event["values"]
    rate = describe_rate(values.get("violated", 0), values.get("evaluated", 0))
    over_all = f"over all sites {rate}" if rate else "rules not evaluated"
    return ", ".join(part for part in (figures_text(values), over_all) if part)


def clock(text: str) -> str:
    """The local time of day of a UTC time."""
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%H:%M:%S")
    except ValueError:
        return text


def duration_text(seconds: float) -> str:
    """``40 s``, ``3 min``, ``2 h 5 min``."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _site_table(view: RunView | None, most: int) -> TextTable:
    headers = ("site", "samples", "last update", "validity", "weight", "left out", "reason")
    sites = {} if view is None else view.sites
    ordered = sorted(sites.items(), key=lambda one: (-one[1].exclusions, one[0]))
    rows = []
    for name, site in ordered[:most]:
        assert view is not None, "there are sites"
        rows.append((name, site.samples, _last_update(view, site), *_shares(site), site.reason))
    more = f"and {len(ordered) - most:,} more sites" if len(ordered) > most else ""
    return TextTable(headers=headers, rows=tuple(rows), more=more)


def _rule_table(view: RunView | None, most: int) -> TextTable:
    found = () if view is None else view.rules[:most]
    rows = tuple(
        (name, f"{violated:,}", f"{evaluated:,}", f"{violated / evaluated:.1%}")
        for name, violated, evaluated in found
    )
    omitted = 0 if view is None else view.omitted_rules + len(view.rules) - len(found)
    more = f"and {omitted:,} more rules, violated at most as often" if omitted else ""
    return TextTable(headers=("rule", "violated", "evaluated", "rate"), rows=rows, more=more)


def _last_update(view: RunView, site: SiteView) -> str:
    if not site.round:
        return "none"
    when = view.times.get(site.round)
    return f"round {site.round}" + (f", {clock(when)}" if when else "")


def _shares(site: SiteView) -> tuple[str, str, str]:
    validity, weight = (
        f"{float(text):.3f}" if text else "-" for text in (site.validity, site.alpha)
    )
    return validity, weight, str(site.exclusions)
