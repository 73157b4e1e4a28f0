"""The page of the report: sections filled from the records, as one self-contained HTML file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkg._internal.safe_text import count_noun, list_first
from fedkg.errors import MissingExtra
from fedkg.graphs import Neighbour
from fedkg.jobs.comparison_metric import plural_event
from fedkg.jobs.folder import REPORT, RunFolder
from fedkg.jobs.round_exclusion_table import summarise_exclusions
from fedkg.jobs.sweep.stored_plan import is_sweep
from fedkg.jobs.trial_expansion import BASELINE
from fedkg.report import charts
from fedkg.report.causal_edges import causal_edge_table
from fedkg.report.comparison_and_rule_tables import (
    comparison_table,
    data_checks,
    environment_facts,
    most_violated,
    never_violated,
    settings_facts,
    unevaluated_table,
)
from fedkg.report.difference_table import difference_table
from fedkg.report.disclosure_tables import disclosure_tables
from fedkg.report.forecast_curves import BASELINE_TITLES, CURVES, forecast_curves, forecast_table
from fedkg.report.incident_cause_lookup import CandidateCauses, edges_of_sites
from fedkg.report.incident_page import MAX_NAMES, incident_context, report_environment
from fedkg.report.outcome_sentences import describe_outcome
from fedkg.report.privacy_table import privacy_table
from fedkg.report.properties_and_sets import property_table, set_table
from fedkg.report.records import RunRecords, read_run
from fedkg.report.site_tables import run_measure, site_tables
from fedkg.report.sweep_records import read_sweep
from fedkg.report.theory_tables import property_lines, theory_tables
from fedkg.report.trial_groups import Scenario, scenarios
from fedkg.report.verdict import advice_on_best, run_verdict
from fedkg.report.violation_zone_advice import zone_advice, zone_basis, zone_legend

HERE = Path(__file__).parent
ALPHA_NOTE = (
    "Alpha controls how similar the sites are: with 0.1 their data differ strongly, with 10 "
    "they are nearly equal."
)
LOCAL_MODELS_NOTE = (
    "For algorithms with one model per site, such as local training, the figure here is"
    " the mean of all models on all test rows, including kinds of data that a site never saw."
    " Site by site shows each model on the data of its site."
)

MEASURE_NOTES: Mapping[str, str] = {
    "f1": (
        "F1 combines the share of {events} found (recall) and the share of alarms that are "
        "right (precision); 1 is perfect."
    ),
    "accuracy": "Accuracy is the share of samples with the right class.",
    "rmse": (
        "RMSE is the root of the mean squared error, in the unit of the target; less is better."
    ),
    "mse": (
        "MSE is the mean squared error in standard deviations (1: no better than "
        "forecasting the mean); less is better. RMSE is its root in the unit of the target."
    ),
    "concordance": (
        "The concordance index is the share of comparable pairs of test samples in which the one "
        "with the earlier event has the higher risk; 0.5 is chance, 1 is perfect. If the data has "
        "sites, both samples of a pair are of the same site."
    ),
}

Context = dict[str, Any]
"""The variables of the template. `Any`: texts, numbers, lists and mappings of them."""


def write_report(folder: str | Path) -> Path:
    """Write `report.html` into a run folder and return its path.

    Raises:
        UsageError: the folder is not a run folder.
        JobError: a file is missing or damaged.
        MissingExtra: plotly or jinja2 is not installed.
    """
    records = read_sweep(Path(folder)) if is_sweep(Path(folder)) else read_run(Path(folder))
    return RunFolder(records.folder).write_text(REPORT, page(records))


def page(records: RunRecords) -> str:
    """The report as one HTML document. Raises MissingExtra."""
    template = report_environment("writing the report").get_template("template.html.j2")
    from markupsafe import Markup

    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        raise MissingExtra("writing the report", "report") from error
    figures = _Figures()
    context = _context(records, figures)
    context |= {
        "style": Markup((HERE / "style.css").read_text(encoding="utf-8")),
        "script": Markup((HERE / "script.js").read_text(encoding="utf-8")),
        "plotly": Markup(get_plotlyjs()),
        "figures": Markup(_script_json(figures.found)),
    }
    text: str = template.render(context)
    return text


class _Figures:
    """The charts of the page, numbered in the order of adding."""

    def __init__(self) -> None:
        self.found: dict[str, charts.Figure] = {}

    def add(self, figure: charts.Figure, title: str, label: str) -> list[Context]:
        """The template variables of a chart; empty if there is nothing to draw."""
        if not any(len(trace["x"]) for trace in figure["data"]):
            return []
        name = f"f{len(self.found)}"
        self.found[name] = figure
        return [{"id": name, "title": title, "label": label, "height": figure["layout"]["height"]}]


def _context(records: RunRecords, figures: _Figures) -> Context:
    found = scenarios(records)
    contenders = list(dict.fromkeys(c.algorithm for s in found for c in s.contenders))
    names = {c.algorithm: c.name for s in found for c in s.contenders}
    algorithm_colour = charts.colours(contenders, charts.ALGORITHM_COLOURS)
    site_colour = charts.colours(
        sorted({row.client for row in records.clients}), charts.SITE_COLOURS
    )
    seeds = max((len(c.trials) for s in found for c in s.contenders), default=0)
    comparison = comparison_table(records.results, records.target, algorithm_colour)
    measure, learning, violations = run_measure(records), [], []
    for s in found:
        learning += figures.add(
            charts.learning_curve(s, algorithm_colour, measure),
            s.title,
            f"{measure.title} by round, {s.title or 'all trials'}",
        )
        violations += figures.add(
            charts.violation_curve(s, algorithm_colour),
            s.title,
            f"Share of rules violated by round, {s.title or 'all trials'}",
        )
    rules = most_violated(records, found, algorithm_colour)
    context: Context = {
        "title": records.title,
        "subtitle": _subtitle(records, seeds),
        "outcome": describe_outcome(records),
        **run_verdict(records),
        "forecast_table": forecast_table(records),
        "forecast_headers": ["model", *BASELINE_TITLES.values()],
        "forecast_curves": forecast_curves(records),
        "forecast_legend": list(CURVES.items()),
        "incidents": _incidents(records, records.incidents),
        "prediction_incidents": _incidents(records, records.prediction_incidents),
        "prediction_notes": _prediction_notes(records.prediction_incidents),
        "predicted_by": records.prediction_incidents.get("algorithm", ""),
        "has_forecasts": bool(records.forecast_values),
        "alpha_note": ALPHA_NOTE
        if any(name.endswith("alpha") for s in found for name, _ in s.setting)
        else "",
        "comparison": comparison,
        "seeds_note": f"mean ± standard deviation over {seeds} seeds."
        if seeds > 1
        else "from a single seed, so chance affects them.",
        "target_note": _target_note(records),
        "alone_note": LOCAL_MODELS_NOTE
        if any(result.baseline and result.preset == BASELINE for result in records.results)
        else "",
        "measure_note": MEASURE_NOTES[measure.name].format(events=plural_event(records.event)),
        "detects": measure.name == "f1",
        "event": records.event,
        "events": plural_event(records.event),
        "title_of_measure": measure.title,
        "band_note": "The line is the mean over seeds, and the band spans all seeds."
        if seeds > 1
        else "",
        "learning": learning,
        "violations": violations,
        "zones": zone_legend(),
        "zone_basis": zone_basis(records.job),
        "zone_advice": zone_advice(records),
        "advised": bool(advice_on_best(records)),
        "algorithms": [(names[key], colour) for key, colour in algorithm_colour.items()],
        "sites": list(site_colour.items()),
        "weights": _weights(records, found, site_colour, algorithm_colour, figures),
        "exclusions": summarise_exclusions(records.exclusions),
        "rule_changes": records.rule_changes,
        "weights_note": ", mean over seeds" if seeds > 1 else "",
        "sites_apart": site_tables(records, found),
        "theory": theory_tables(records.theory),
        "properties": property_lines(records.theory),
        "differences": difference_table(records.results),
        "failed": records.failed,
        "rules": rules,
        "rules_kept": never_violated(records),
        "not_evaluated": unevaluated_table(records),
        "rules_note": ", mean over the trials without corruption"
        if any(s.corrupted for s in found)
        else "",
        "privacy": privacy_table(records.privacy),
        "disclosures": disclosure_tables(records.disclosures, records.trials),
        "forecasts": property_table(records),
        "sets": set_table(records),
        "drives": causal_edge_table(records),
        "split": _splits(records, figures),
        "checks": data_checks(records),
        "split_note": records.split_note,
        "settings": settings_facts(records.job),
        "job_text": records.job_text,
        "environment": environment_facts(records),
        "folder": records.folder.name,
    }
    return context | {"sections": _shown_sections(context)}


def _incidents(records: RunRecords, incidents: Mapping[str, Any]) -> Context:
    """Incidents in data or predictions; empty if they violate no rule, or the run may not tell."""
    if not incidents:
        return {}
    if "causes" in records.environment:
        causes = CandidateCauses.from_json(records.environment["causes"])
    else:
        edges = edges_of_sites(
            {name: str(getattr(row, name)) for name in ("driver", "driven", "strength", "lag")}
            for row in records.causes
        )
        causes = CandidateCauses(run=records.folder.name, edges=tuple(edges), columns={})
    neighbours = {
        name: [Neighbour(**(one | {"others": tuple(one["others"])})) for one in each]
        for name, each in incidents.get("neighbours", {}).items()
    }
    return incident_context(
        incidents, neighbours=neighbours, causes=causes if causes.edges or causes.columns else None
    )


def _prediction_notes(incidents: Mapping[str, Any]) -> list[str]:
    """The rules and sites that the incidents of predictions leave out."""
    notes = []
    for reason, names in incidents.get("left_out", {}).items():
        listed = list_first([f"`{name}`" for name in names], MAX_NAMES)
        notes.append(f"Not shown here, but counted above: {listed} ({reason}).")
    if left := incidents.get("sites_left_out", 0):
        notes.append(f"{count_noun(left, 'more site')} with predictions are counted above only.")
    return notes


def _shown_sections(context: Context) -> list[tuple[str, str]]:
    """The sections with content, for the navigation."""
    every = (
        ("outcome", "Outcome", True),
        ("comparison", "Comparison", context["comparison"]),
        ("differences", "Differences", context["differences"]),
        ("sites", "Sites", context["sites_apart"]),
        ("learning", "Learning", context["learning"]),
        ("violations", "Violations", context["violations"] or context["not_evaluated"]),
        ("forecast-values", "Forecasts", context["forecast_table"]),
        ("weights", "Weights", context["weights"]),
        ("rule-changes", "Rule changes", context["rule_changes"]),
        ("exclusions", "Missing updates", context["exclusions"]),
        ("rules", "Violated rules", context["rules"]),
        ("theory", "Theory", context["theory"]),
        ("constraints", "Properties and sets", context["forecasts"] or context["sets"]),
        ("causes", "Causes", context["drives"]),
        ("privacy", "Privacy", context["privacy"]),
        ("disclosures", "What leaves a site", context["disclosures"]),
        ("data", "Data", context["split"] or context["checks"]),
        ("incidents", "Incidents", context["incidents"]),
        ("prediction-incidents", "Predictions", context["prediction_incidents"]),
        ("settings", "Settings", True),
    )
    return [(name, label) for name, label, shown in every if shown]


def _subtitle(records: RunRecords, seeds: int) -> str:
    sites = len({row.client for row in records.clients})
    rounds = max((row.round for row in records.rounds), default=0)
    parts = [count_noun(len(records.trials), "trial")]
    if sites:
        parts.append(count_noun(sites, "site"))
    if rounds:
        parts.append(
            f"{count_noun(rounds, 'round')} each"
            if len(records.trials) > 1
            else count_noun(rounds, "round")
        )
    if seeds > 1:
        parts.append(f"{seeds} seeds")
    return ", ".join(parts)


def _target_note(records: RunRecords) -> str:
    if math.isnan(records.target):
        return ""
    title = run_measure(records).title
    return (
        f"Rounds to target: the first round with {title} of at least {records.target:g}; in "
        "brackets the number of seeds that reach it."
    )


def _weights(
    records: RunRecords,
    found: Sequence[Scenario],
    sites: Mapping[str, str],
    algorithms: Mapping[str, str],
    figures: _Figures,
) -> list[Context]:
    """One group of charts per scenario, those with a corrupted site first."""
    groups = []
    for s in sorted(found, key=lambda s: not s.corrupted):
        bars = charts.weight_bars(s, records.clients, list(sites), algorithms)
        drawn = figures.add(
            bars, "Mean over all rounds", f"mean weight of each site, {s.title or 'all trials'}"
        )
        for c in s.contenders:
            lines = charts.weight_curve(c, records.clients, sites, s.corrupted)
            drawn += figures.add(
                lines, f"{c.name}, by round", f"weight of each site by round, {c.name}"
            )
        if drawn:
            note = "red: the corrupted site; dashed: its share of the data" if s.corrupted else ""
            groups.append({"title": s.title, "note": note, "charts": drawn})
    return groups


def _splits(records: RunRecords, figures: _Figures) -> list[Context]:
    drawn: list[Context] = []
    is_detection = run_measure(records).name == "f1"
    for title, sites in records.splits:
        drawn += figures.add(
            charts.split_bars(sites, records.event if is_detection else ""),
            title,
            f"rows of data per site, {title or 'all trials'}",
        )
    return drawn


def _script_json(value: Any) -> str:
    """JSON for a script element, without `<` and NaN. `Any`: JSON."""
    return json.dumps(_nulls(value), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _nulls(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_nulls(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
