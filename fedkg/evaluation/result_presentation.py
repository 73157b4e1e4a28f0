"""An evaluation for people: a table with one line per rule, and the outcome in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fedkg.evaluation.earlier_evaluation_comparison import Comparison
from fedkg.evaluation.result import Evaluation, RuleResult, Worst
from fedkg.evaluation.row_explanation import PURE_NUMBERS

BOUND = (
    "* how many limits the rule became: one for each machine, tag or row of a sheet "
    "that it is bound to"
)

TOGETHER = "; those of one focus node of a shape count as one evaluation"
"""Suffix for a shape that became several bound rows for one focus node."""

YES_NO = "yes/no"
"""Placeholder without a margin: for a category, a presence check, a window beyond the table."""

LISTED = 10
"""Entities named under a rule that they break."""

ALIKE = 5
"""A sentence that applies to more than this share of the rules is printed once."""

if TYPE_CHECKING:
    from rich.table import Table as RichTable
    from rich.text import Text

    from fedkg.knowledge import Agreement


def rules_table(evaluation: Evaluation) -> RichTable:
    """A rich table: per rule its bound rows, satisfied, violated and unknown evaluations, and where
    it is worst.

    Below a violated rule of several bound rows the entities with most violations follow. Texts of
    users are escaped.
    """
    from rich.table import Table as RichTable
    from rich.text import Text

    together = any(
        rule.bound_to is not None and rule.bound_to < rule.bound_rows for rule in evaluation.rules
    )
    table = RichTable(
        header_style="bold",
        caption=Text(BOUND + TOGETHER * together),
        caption_justify="left",
        caption_style="dim",
    )
    table.add_column("rule", overflow="fold")
    for header in ("bound *", "satisfied", "violated", "unknown"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("worst", overflow="fold")
    for rule in evaluation.rules:
        remark = worst_text(rule.worst) or _first_note((*rule.notes, *rule.no_rows))
        table.add_row(_name(rule), f"{rule.bound_rows:,}", *_counts(rule), Text(remark))
        for cells in _entities(rule):
            table.add_row(*(Text(cell, style="dim") for cell in cells))
    return table


def _entities(rule: RuleResult) -> Iterator[tuple[str, str, str, str, str]]:
    """The entities that violate a rule of several bound rows, the first of them with their
    counts.
    """
    if rule.bound_rows < 2:
        return
    for one in rule.by_entity[:LISTED]:
        share = one.violated / (one.satisfied + one.violated)
        yield (
            f"  {one.entity}",
            "",
            f"{one.satisfied:,}",
            f"{one.violated:,} ({share_text(share)})",
            f"{one.unknown:,}",
        )
    if len(rule.by_entity) > LISTED:
        yield (
            f"  and {len(rule.by_entity) - LISTED:,} more",
            "",
            "",
            f"{sum(one.violated for one in rule.by_entity[LISTED:]):,}",
            "",
        )


def share_text(share: float) -> str:
    """A share in per cent, ``37.50%``; little is never shown as nothing, nor nearly all as all."""
    if 0 < share < 5e-5:
        return "< 0.01%"
    return "> 99.99%" if 1 - 5e-5 < share < 1 else f"{share:.2%}"


def _name(rule: RuleResult) -> Text:
    from rich.text import Text

    grave = rule.severity == "violation"
    style = (
        "green"
        if rule.evaluations and not rule.violated
        else "red"
        if rule.violated and grave
        else "yellow"
    )
    return Text(rule.rule if grave else f"{rule.rule} ({rule.severity})", style=style)


def _counts(rule: RuleResult) -> Iterator[str]:
    if not rule.evaluations:
        yield from ("-", "-", "-")
        return
    yield f"{rule.satisfied:,}"
    rate = rule.violation_rate
    yield f"{rule.violated:,}" + (f" ({share_text(rate)})" if rate else "")
    yield f"{rule.unknown:,}"


def worst_text(worst: Worst | None) -> str:
    """Format the worst row: ``-0.2 bar: pump_7, row 17, 09.03.2020 10:14``.

    If the margin is not meaningful, the values follow: ``row 17: torque 57.3 N.m``.

    For verdicts without a number: ``yes/no: row 17: grade D`` if violated, ``yes/no`` if satisfied.
    "" for None.
    """
    if worst is None:
        return ""
    if worst.robustness == math.inf:
        return YES_NO
    unit = f" {worst.unit}" if worst.unit and worst.unit not in PURE_NUMBERS else ""
    fault = f"violated in row {worst.fault}" if worst.fault is not None else None
    places = ", ".join(filter(None, (worst.entity, f"row {worst.row}", worst.time, fault)))
    if worst.robustness == -math.inf:
        return ": ".join(filter(None, (YES_NO, places, worst.read)))
    return f"{places}: {worst.read}" if worst.read else f"{worst.robustness:+.4g}{unit}: {places}"


def _first_note(notes: tuple[str, ...]) -> str:
    return notes[0] if notes else ""


def outcome(evaluation: Evaluation) -> list[str]:
    """Sentences about the table, the number and rate of violated rules, and rules not evaluated."""
    rules = evaluation.rules
    lines = [f"{evaluation.table}: {_count_text(evaluation.rows, 'row')}; {evaluation.found}"]
    lines += [f"note: {note}" for note in evaluation.notes]
    decided = [rule for rule in rules if rule.satisfied or rule.violated]
    undecided = [
        rule.rule for rule in rules if rule.evaluations and not (rule.satisfied or rule.violated)
    ]
    violated = [rule for rule in decided if rule.violated]
    rate = evaluation.violation_rate
    if rate is None:
        lines += (
            ["No rule could be evaluated on this table." if rules else "The pack has no rules."]
            if rules or not evaluation.knowledge
            else []
        )
    elif violated:
        verb = "is" if len(violated) == 1 else "are"
        lines.append(
            f"{len(violated)} of {len(decided)} rules {verb} violated "
            f"somewhere{_milder(violated)}; violation rate {share_text(rate)}."
        )
    else:
        lines.append(_all_satisfied(len(decided), len(rules)))
    if undecided:
        lines.append(f"{len(undecided)} could not be decided in any row: {', '.join(undecided)}")
    lines += _rules_notes(rules)
    return [*lines, *(line for one in evaluation.knowledge for line in knowledge_lines(one))]


def _all_satisfied(decided: int, rules: int) -> str:
    """The result if no rule is violated: of all rules, or of those with a verdict."""
    if decided < rules:
        return (
            f"{decided} of {rules} rules {'holds' if decided == 1 else 'hold'}; none is violated."
        )
    return "The one rule holds." if decided == 1 else f"All {decided} rules hold."


def _milder(violated: Sequence[RuleResult]) -> str:
    """`` (1 warning, 2 info)``: the number of violated rules below severity violation; "" for
    none.
    """
    counts = Counter[str](rule.severity for rule in violated)
    plural = "s" if counts["warning"] > 1 else ""
    parts = [
        f"{counts[kind]:,} {word}"
        for kind, word in (("warning", f"warning{plural}"), ("info", "info"))
        if counts[kind]
    ]
    return f" ({', '.join(parts)})" if parts else ""


def _rules_notes(rules: Sequence[RuleResult]) -> Iterator[str]:
    """``RULE: sentence``; one line with count and three names if more than `ALIKE` rules share
    it.
    """
    names: dict[str, list[str]] = {}
    for rule in rules:
        for note in dict.fromkeys(rule.notes):
            names.setdefault(note, []).append(rule.rule)
    printed: set[str] = set()
    for rule in rules:
        for note in rule.notes:
            sharing = names[note]
            if len(sharing) <= ALIKE:
                yield f"{rule.rule}: {note}"
            elif note not in printed:
                printed.add(note)
                yield f"each of {len(sharing):,} rules ({', '.join(sharing[:3])}, ...): {note}"


def knowledge_lines(model: Agreement) -> list[str]:
    """What a knowledge model says of the table, and where it contradicts itself, others or the
    truth.
    """
    says = "restricts" if model.kind == "range" else "predicts"
    lines = [f"{model.model}: {says} {model.restricted:,} of {model.samples:,} rows"]
    if model.labelled:
        what = "the answer lies in the range" if model.kind == "range" else "it is right"
        lines[0] += (
            f"; {what} in {model.right:,} of {model.labelled:,} of them that have one "
            f"({model.right / model.labelled:.1%})"
        )
    if model.empty and model.first_empty is not None:
        where = f"{_count_text(model.empty, 'row')}, first in row {model.first_empty + 1}"
        lines.append(f"{model.model}: allows nothing in {where}: its clauses contradict")
    if model.disjoint and model.first_disjoint is not None:
        where = f"{_count_text(model.disjoint, 'row')}, first in row {model.first_disjoint + 1}"
        lines.append(
            f"{model.model}: the ranges of `{model.output}` together allow nothing in "
            f"{where}: they contradict it"
        )
    if model.outside and model.first_outside is not None:
        lie = (
            f"{_count_text(model.outside, 'prediction')} {'lies' if model.outside == 1 else 'lie'}"
        )
        lines.append(
            f"{model.model}: {lie} outside of the range, first in row {model.first_outside + 1}"
        )
    return lines


def _count_text(count: int, what: str) -> str:
    """``1 row``, ``2,000 rows``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def comparison_lines(comparison: Comparison) -> list[str]:
    """Sentences on what changed since the baseline, worse ones first.

    Rules that stayed the same are counted only.
    """
    order = ("worse", "untold", "removed", "new", "better")
    lines = [
        change.sentence()
        for state in order
        for change in comparison.changes
        if change.state == state
    ]
    same = sum(1 for change in comparison.changes if change.state == "same")
    if same:
        lines.append(
            f"{same} rule{'' if same == 1 else 's'} as before"
            + (f" (at most {comparison.allow:.2%} worse)" if comparison.allow else "")
        )
    return lines
