"""The incident report: where tables violate rules, as one self-contained HTML file or a section."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkg._internal.html_templates import template_environment
from fedkg._internal.safe_text import count_noun, list_first
from fedkg.evaluation.result import share_text
from fedkg.report.incident_cause_lookup import CandidateCauses, duration_text

if TYPE_CHECKING:
    from jinja2 import Environment

    from fedkg.graphs import Neighbour

HERE = Path(__file__).parent
WIDTH, HEIGHT = 600, 96
"""Size of a trend in user units; the page stretches it to the width of its place."""
UNFOLDED = 10
"""Number of rules with details, and of sites, that the page shows unfolded."""
UNFOLDED_RULES = 25
"""Number of violated rules that the overview shows unfolded: about two screens."""
MAX_LISTED = 100
"""Number of sites, and of notes on the data, that the page lists."""
MAX_FOLDED = 2000
"""Number of rules listed in a folded list."""
MAX_ENTITIES, MAX_NEIGHBOURS = 3, 4
"""Number of entities of a rule that show neighbours, and number of neighbours of an entity."""
MANY = 10
"""A neighbour that more things share is a class rather than a line or a room."""
MAX_NAMES = 6
"""Number of names in a sentence."""
MOSTLY_VIOLATED = 0.5
"""A rule that is violated more often than this probably has a wrong limit or unit: faults are
rarer."""
ONE_SITE = 0.5
"""A site with more than this share of all violations is named."""
ROLE_TEXTS = {
    "required": "limit",
    "alternative": "one way to satisfy the rule",
    "condition": "condition of the rule",
    "signal": "",
}

Json = dict[str, Any]
"""A JSON object, or template variables. `Any`: texts, numbers, lists and mappings of them."""


def incident_page(
    incidents: Mapping[str, Any],
    *,
    neighbours: Mapping[str, Sequence[Neighbour]] | None = None,
    causes: CandidateCauses | None = None,
    notes: Sequence[str] = (),
) -> str:
    """Draw the incidents of tables as an HTML document that loads nothing.

    Args:
        incidents: as `fedkg.evaluation.incidents.find_incidents` returns them.
        neighbours: by entity, what the graph states about it; None without a graph.
        causes: the edges of a causal discovery; None without one.
        notes: remarks about the rules and the data.

    Raises:
        MissingExtra: jinja2 is not installed.
    """
    template = report_environment("the incident report").get_template("incident_page.html.j2")
    from markupsafe import Markup

    context = incident_context(incidents, neighbours=neighbours, causes=causes)
    text: str = template.render(
        context
        | {
            "i": context,
            "style": Markup((HERE / "style.css").read_text(encoding="utf-8")),
            "remarks": list(notes),
        }
    )
    return text


@cache
def report_environment(feature: str) -> Environment:
    """The environment of the templates of reports. Raises MissingExtra."""
    environment = template_environment(HERE, feature)
    from markupsafe import Markup, escape

    environment.filters["coded"] = lambda text: Markup(
        re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    )
    return environment


def incident_context(
    incidents: Mapping[str, Any],
    *,
    neighbours: Mapping[str, Sequence[Neighbour]] | None = None,
    causes: CandidateCauses | None = None,
) -> Json:
    """The template variables of the incidents."""
    rules: Sequence[Json] = incidents["rules"]
    violated = [rule for rule in rules if rule["violated"]]
    unknown = [rule for rule in rules if not rule["violated"] and rule["rate"] is None]
    satisfied = [rule for rule in rules if not rule["violated"] and rule["rate"] is not None]
    tables: Sequence[Json] = incidents["tables"]
    violating = _violating_entities(rules)
    several = len({table["site"] for table in tables}) > 1
    context: Json = {
        "title": _title(tables),
        "subtitle": _subtitle(tables, rules),
        "verdict": _verdict(violated, unknown, satisfied, tables),
        "key_figures": _key_figures(violated, unknown, satisfied, tables),
        "actions": _actions(incidents, violated, unknown),
        "sites": _site_lines(tables) if several else [],
        "several": several,
        "unfolded": UNFOLDED,
        "more_sites": max(0, len(tables) - MAX_LISTED),
        "violated": [_overview_line(rule) for rule in violated[:UNFOLDED_RULES]],
        "folded": [_overview_line(rule) for rule in violated[UNFOLDED_RULES:MAX_FOLDED]],
        "unevaluated": [{"title": rule_title(rule), "reasons": _reasons(rule)} for rule in unknown][
            :MAX_FOLDED
        ],
        "satisfied": [
            {"title": rule_title(rule), "count": f"{rule['satisfied']:,}"}
            for rule in satisfied[:MAX_FOLDED]
        ],
        "left_out": max(0, len(violated) - MAX_FOLDED)
        + max(0, len(unknown) - MAX_FOLDED)
        + max(0, len(satisfied) - MAX_FOLDED),
        "details": [
            _detail(one, violating, neighbours, causes, several) for one in incidents["details"]
        ],
        "without_details": len(violated) - len(incidents["details"]),
        "data_notes": _data_notes(tables),
        "causes_run": "" if causes is None else causes.run,
    }
    return context


def rule_title(rule: Mapping[str, Any]) -> str:
    """The title of a rule, or its name in readable form."""
    return str(rule["title"]).rstrip(".") or str(rule["rule"]).replace("_", " ")


def _title(tables: Sequence[Json]) -> str:
    sites = {table["site"] for table in tables}
    return f"{len(sites)} sites" if len(sites) > 1 else tables[0]["table"] if tables else "Nothing"


def _subtitle(tables: Sequence[Json], rules: Sequence[Json]) -> str:
    rows = sum(table["rows"] for table in tables)
    found = f", {tables[0]['found']}" if len(tables) == 1 and tables[0]["found"] else ""
    return f"{count_noun(len(rules), 'rule')}, {count_noun(rows, 'row')}{found}"


def _verdict(
    violated: Sequence[Json],
    unknown: Sequence[Json],
    satisfied: Sequence[Json],
    tables: Sequence[Json],
) -> list[str]:
    """The result in two or three sentences."""
    decided = len(violated) + len(satisfied)
    verb = "was" if len(unknown) == 1 else "were"
    missing = f"{count_noun(len(unknown), 'rule')} {verb} not evaluated."
    if not decided:
        return ["No rule could be evaluated.", *([missing] if unknown else [])]
    if not violated:
        where = "at any site" if len(tables) > 1 else f"in {_title(tables)}"
        all_of = "The rule is" if decided == 1 else f"All {decided:,} evaluated rules are"
        return [
            f"{all_of} satisfied; nothing is violated {where}.",
            *([missing] if unknown else []),
        ]
    worst = violated[0]
    said = [
        (
            f"{len(violated):,} of {count_noun(decided, 'rule')} "
            f"{'is' if len(violated) == 1 else 'are'} violated."
        ),
        (
            f"The worst is “{rule_title(worst)}”, violated in {worst['violated']:,} of "
            f"{worst['violated'] + worst['satisfied']:,} evaluations "
            f"({share_text(worst['rate'])})."
        ),
    ]
    return [*said, missing] if unknown else said


def _key_figures(
    violated: Sequence[Json],
    unknown: Sequence[Json],
    satisfied: Sequence[Json],
    tables: Sequence[Json],
) -> list[Json]:
    decided = len(violated) + len(satisfied)
    broken = sum(rule["violated"] for rule in violated)
    judged = broken + sum(rule["satisfied"] for rule in (*violated, *satisfied))
    third = (
        {
            "value": f"{sum(bool(table['rules_violated']) for table in tables):,} of "
            f"{len(tables):,}",
            "label": "sites with violations",
        }
        if len({table["site"] for table in tables}) > 1
        else {"value": f"{len(unknown):,}", "label": "rules not evaluated"}
    )
    return [
        {"value": f"{len(violated):,} of {decided:,}", "label": "rules violated"},
        {
            "value": share_text(broken / judged) if judged else "–",
            "label": f"of evaluations violated ({broken:,} of {judged:,})",
        },
        third,
    ]


def _actions(
    incidents: Mapping[str, Any], violated: Sequence[Json], unknown: Sequence[Json]
) -> list[str]:
    """What to do, most urgent first."""
    actions = []
    tables, details = incidents["tables"], incidents["details"]
    if details and details[0]["events"]:
        first, event = details[0], details[0]["events"][0]
        place = ", ".join(filter(None, (event["site"], event["entity"])))
        measured = f": {event['extreme']}" if event["extreme"] else ""
        limit = f" (allowed: {event['limit']})" if event["limit"] and measured else ""
        actions.append(
            f"Look at “{rule_title(first)}” first. Its worst event is "
            f"{f'at {place}, ' if place else ''}{event['worst_time'] or event['worst']}"
            f"{measured}{limit}."
        )
    broken = Counter[str]()
    for rule in violated:
        for one in rule["by_site"]:
            broken[one["site"]] += one["violated"]
    if len({table["site"] for table in tables}) > 1 and broken:
        site, count = broken.most_common(1)[0]
        share = count / sum(rule["violated"] for rule in violated)
        if share > ONE_SITE:
            actions.append(f"Check {site}: it has {share:.0%} of all violations.")
    suspicious = [
        f"“{rule_title(rule)}”"
        for rule in violated
        if rule["rate"] is not None and rule["rate"] > MOSTLY_VIOLATED
    ]
    if suspicious:
        actions.append(
            f"Check limit and unit of {list_first(suspicious, MAX_NAMES)}: violated in more "
            "than half of the evaluations, which is rarely a fault of a machine."
        )
    modelled = [rule for rule in unknown if any("needs a model" in one for one in _reasons(rule))]
    unknown = [rule for rule in unknown if rule not in modelled]
    if modelled:
        actions.append(
            f"Judge {count_noun(len(modelled), 'rule')} about changed inputs with a model: "
            "`fedkg run` evaluates such rules on predictions."
        )
    if unknown:
        reasons = Counter(reason for rule in unknown for reason in _reasons(rule)[:1])
        reason, count = reasons.most_common(1)[0] if reasons else ("", 0)
        actions.append(
            f"Make the missing data available: {count_noun(len(unknown), 'rule')} "
            f"{'was' if len(unknown) == 1 else 'were'} not evaluated"
            f"{f' (most often: {reason})' if reason else ''}."
        )
    return actions or ["No action is needed: every rule was evaluated and is satisfied."]


def _reasons(rule: Mapping[str, Any]) -> list[str]:
    """Why a rule has no verdict."""
    if rule["notes"]:
        return [note.removeprefix("not evaluated: ") for note in rule["notes"]]
    return (
        [f"unknown in all {count_noun(rule['unknown'], 'evaluation')}: values are missing"]
        if rule["unknown"]
        else ["no row of the tables is about it"]
    )


def _site_lines(tables: Sequence[Json]) -> list[Json]:
    """One line per site, highest share of violated evaluations first; not evaluated ones last."""
    ordered = sorted(tables, key=lambda one: (one["rate"] is None, -(one["rate"] or 0)))
    return [
        {
            "site": table["site"],
            "rows": f"{table['rows']:,}",
            "rules": f"{table['rules_violated']:,}",
            "share": "not evaluated" if table["rate"] is None else share_text(table["rate"]),
            "width": _bar(table["rate"]),
        }
        for table in ordered[:MAX_LISTED]
    ]


def _bar(share: float | None) -> str:
    """The width of a bar in per cent; a share above 0 is never invisible."""
    return f"{max(100 * share, 1.0):.1f}" if share else "0"


def _overview_line(rule: Json) -> Json:
    return {
        "place": rule["rule"] if rule["detailed"] else "",
        "title": rule_title(rule),
        "severity": rule["severity"],
        "violated": f"{rule['violated']:,}",
        "share": share_text(rule["rate"]),
        "width": _bar(rule["rate"]),
        "unknown": f"{rule['unknown']:,}" if rule["unknown"] else "",
        "sites": f"{rule['sites_violated']:,}",
    }


def _violating_entities(rules: Sequence[Json]) -> dict[str, set[str]]:
    """By entity or site, the rules that it violates."""
    found: dict[str, set[str]] = {}
    for rule in rules:
        for one in rule["entities"]:
            found.setdefault(one["entity"], set()).add(rule["rule"])
        for one in rule["by_site"]:
            if one["violated"] and one["site"]:
                found.setdefault(one["site"], set()).add(rule["rule"])
    return found


def _detail(
    rule: Json,
    violating: Mapping[str, set[str]],
    neighbours: Mapping[str, Sequence[Neighbour]] | None,
    causes: CandidateCauses | None,
    several: bool,
) -> Json:
    events = rule["events"]
    names = list(dict.fromkeys(name for e in events for name in (e["entity"], e["site"]) if name))
    decided = rule["violated"] + rule["satisfied"]
    facts = [
        (
            f"Violated in {rule['violated']:,} of {count_noun(decided, 'evaluation')} "
            f"({share_text(rule['rate'])})."
        )
    ]
    if rule["is_conditional"]:
        facts.append(
            f"Its condition was true in {rule['fired']:,} of {rule['evaluations']:,} evaluations "
            f"({share_text(rule['fired'] / rule['evaluations'])})."
        )
    if rule["unknown"]:
        facts.append(
            f"{count_noun(rule['unknown'], 'evaluation')} had no verdict, because values are"
            " missing."
        )
    if several:
        without = rule["sites_without_verdict"]
        facts.append(
            f"Violated at {count_noun(rule['sites_violated'], 'site')}"
            + (f", not evaluated at {count_noun(without, 'site')}." if without else ".")
        )
    return {
        "place": rule["rule"],
        "title": rule_title(rule),
        "name": rule["rule"],
        "severity": rule["severity"],
        "facts": facts,
        "text": rule["text"],
        "source": rule["source"],
        "events": [_event(event) for event in events],
        "events_note": ""
        if rule["events_found"] <= len(events)
        else f"The worst {len(events)} of {rule['events_found']:,} events are listed.",
        "has_entities": any(event["entity"] for event in events),
        "has_margin": any(event["margin"] for event in events),
        "several": several,
        "entities": [
            f"{one['entity']} ({one['violated']:,} of {one['violated'] + one['satisfied']:,})"
            for one in rule["entities"]
        ],
        "more_entities": rule["more_entities"],
        "by_site": [
            {
                "site": one["site"],
                "text": f"{one['violated']:,} of {one['evaluations']:,}",
                "width": _bar(one["violated"] / one["evaluations"] if one["evaluations"] else 0),
            }
            for one in rule["by_site"]
            if one["violated"]
        ]
        if several
        else [],
        "more_sites": max(0, rule["sites_violated"] - len(rule["by_site"])),
        "panels": [_panel(panel, rule) for panel in rule["panels"]],
        "neighbours": _neighbour_lines(names, rule["rule"], violating, neighbours),
        "causes": _cause_lines(names, rule["headers"], causes),
    }


def _event(event: Json) -> Json:
    single = event["rows"] == 1
    begin, end = event["start"] or event["first"], event["end"] or event["last"]
    return {
        "site": event["site"],
        "entity": event["entity"],
        "start": begin,
        "end": "" if single else end,
        "duration": (f"{duration_text(event['duration'])}, " if event["duration"] else "")
        + count_noun(event["rows"], "row"),
        "extreme": event["extreme"] or event["read"],
        "limit": event["limit"],
        "margin": event["margin"],
        "worst": event["worst"],
    }


def _neighbour_lines(
    names: Sequence[str],
    rule: str,
    violating: Mapping[str, set[str]],
    neighbours: Mapping[str, Sequence[Neighbour]] | None,
) -> list[Json]:
    """What the graph states about the entities of the worst events, one line per entity.

    Neighbours that few things share, such as a line, come before those of many, such as a class.
    """
    lines: list[Json] = []
    for name in names:
        found = sorted(
            (neighbours or {}).get(name, ()),
            key=lambda one: (len(one.others) > MANY, not one.others, one.is_subject),
        )
        if not found or len(lines) == MAX_ENTITIES:
            continue
        said = []
        for one in found[:MAX_NEIGHBOURS]:
            kind = f" ({one.kind})" if one.kind and one.kind != one.name else ""
            text = (
                f"{one.name}{kind} {one.relation} it"
                if one.is_subject
                else f"{one.relation} {one.name}{kind}"
            )
            broken = [other for other in one.others if rule in violating.get(other, ())]
            if one.others:
                count = f"{len(one.others)} other{'s' if len(one.others) > 1 else ''}"
                who = f" ({', '.join(one.others)})" if len(one.others) <= MAX_NAMES else ""
                text += f", shared with {count}{who}"
            if broken:
                verb = "violates" if len(broken) == 1 else "violate"
                text += f"; of these {list_first(broken, MAX_NAMES)} {verb} the rule too"
            said.append(text)
        lines.append({"name": name, "said": said, "more": max(0, len(found) - MAX_NEIGHBOURS)})
    return lines


def _cause_lines(
    names: Sequence[str], headers: Sequence[str], causes: CandidateCauses | None
) -> list[Json] | None:
    """The candidate causes; None if no discovery was named or it does not cover the rule."""
    if causes is None or not causes.knows(names, headers):
        return None
    return [
        {
            "text": f"{one.driver} drives {one.driven}",
            "evidence": one.evidence,
            "is_significant": one.is_significant,
        }
        for one in causes.of(names, headers)
    ]


def _data_notes(tables: Sequence[Json]) -> list[str]:
    """Notes about columns, with the sites that they concern."""
    found: dict[str, list[str]] = {}
    for table in tables:
        for note in table["notes"]:
            found.setdefault(note, []).append(table["site"])
    lines = []
    for note, sites in found.items():
        named = [site for site in sites if site]
        lines.append(f"{list_first(named, MAX_NAMES)}: {note}" if named else note)
    return lines[:MAX_LISTED]


def _panel(panel: Json, rule: Json) -> Json:
    place = ", ".join(filter(None, (panel["site"], panel["entity"])))
    parts = []
    for key, title in (("whole", "All rows"), ("near", "Around the worst event")):
        if panel[key] is not None:
            parts.append(_trend_group(panel[key], title, rule_title(rule), panel["is_ordered"]))
    return {
        "place": place,
        "parts": parts,
        "rows": panel["rows"],
        "more_quantities": panel["more_quantities"],
    }


def _trend_group(trends: Json, title: str, rule: str, is_ordered: bool) -> Json:
    """The trends over the same rows, one below the other."""
    return {
        "title": f"{title}: {count_noun(trends['rows'], 'row')}",
        "ticks": [  # a text at the end would stand out of the chart
            {"left": f"{100 * place:.1f}", "text": text}
            for place, text in trends["ticks"]
            if place < 0.97
        ],
        "from": trends["from"],
        "to": trends["to"],
        "timed": trends["timed"],
        "trends": [_trend(one, trends, rule, is_ordered) for one in trends["quantities"]],
        "has_condition": bool(trends["condition"]),
        "violated": [_rectangle(span) for span in trends["violated"]],
        "condition": [_rectangle(span) for span in trends["condition"]],
    }


def _rectangle(span: Sequence[float]) -> Json:
    return {"x": f"{span[0] * WIDTH:.1f}", "width": f"{(span[1] - span[0]) * WIDTH:.1f}"}


def _trend(one: Json, trends: Json, rule: str, is_ordered: bool) -> Json:
    """One trend as paths of an SVG element."""
    known = [value for value in one["y"] if value is not None]
    limits = [
        value
        for limit in (one["low"], one["high"])
        for value in (limit if isinstance(limit, list) else [limit])
        if value is not None
    ]
    low, high = _range(known, limits)
    xs = [x * WIDTH for x in one["x"]]

    def height(value: float) -> float:
        return HEIGHT - HEIGHT * (min(max(value, low), high) - low) / (high - low)

    band = ""
    if limits and one["role"] != "condition":
        upper = _edge(one["high"], xs, high, height)
        lower = _edge(one["low"], xs, low, height)
        band = "M" + "L".join([*upper, *reversed(lower)]) + "Z"
    lines = [
        "M" + "L".join(_edge(limit, xs, math.nan, height))
        for limit in (one["low"], one["high"])
        if limit is not None
    ]
    unit = f" {one['unit']}" if one["unit"] else ""
    spread = f"{_short(min(known))} to {_short(max(known))}{unit}" if known else "no known value"
    limit = one["limit"] or ("limit varies" if limits else "")
    return {
        "name": one["name"],
        "unit": one["unit"],
        "role": one["role"],
        "limit": limit,
        "role_text": ROLE_TEXTS[one["role"]] if limits else "",
        "top": _short(high),
        "bottom": _short(low),
        "band": band,
        "lines": lines,
        "path": _path(xs, one["y"], height, is_ordered),
        "label": f"{one['name']}: {spread}{f', {limit}' if limit else ''}. "
        f"{count_noun(len(trends['violated']), 'stretch').replace('stretchs', 'stretches')} with "
        f"violations of “{rule}”.",
    }


def _range(known: Sequence[float], limits: Sequence[float]) -> tuple[float, float]:
    """The vertical range: all values, and limits that lie within three times their spread.

    The range of positive values does not become negative.
    """
    if not known:
        return (min(limits) - 1, max(limits) + 1) if limits else (0.0, 1.0)
    low, high = min(known), max(known)
    spread = (high - low) or abs(high) or 1.0
    near = [limit for limit in limits if low - 3 * spread <= limit <= high + 3 * spread]
    low, high = min([low, *near]), max([high, *near])
    margin = 0.08 * ((high - low) or abs(high) or 1.0)
    return (max(low - margin, 0.0) if low >= 0 else low - margin), high + margin


def _edge(
    limit: list[float | None] | float | None,
    xs: Sequence[float],
    without: float,
    height: Any,  # a function from a value to its vertical place
) -> list[str]:
    """The points of a limit from left to right; `without` is its value where there is none."""
    if not isinstance(limit, list):
        value = height(without if limit is None else limit)
        return [f"0,{value:.1f}", f"{WIDTH},{value:.1f}"]
    return [
        f"{x:.1f},{height(without if value is None else value):.1f}"
        for x, value in zip(xs, limit, strict=True)
        if value is not None or not math.isnan(without)
    ] or [f"0,{HEIGHT}"]


def _path(
    xs: Sequence[float], values: Sequence[float | None], height: Any, is_ordered: bool
) -> str:
    """A line with gaps at unknown values; single points where rows have no order."""
    parts, pen_down = [], False
    for x, value in zip(xs, values, strict=True):
        if value is None:
            pen_down = False
            continue
        point = f"{x:.1f},{height(value):.1f}"
        parts.append(f"L{point}" if pen_down else f"M{point}")
        if not is_ordered or not pen_down:
            parts.append("h.01")  # a point without neighbours is visible by its round cap
        pen_down = is_ordered
    return "".join(parts)


def _short(value: float) -> str:
    """Three significant digits without an exponent where it can be helped."""
    return f"{value:,.3g}" if abs(value) < 1e3 or abs(value) >= 1e9 else f"{value:,.0f}"
