"""Findings as candidate rules: text for a person to read, change and take over.

Nothing of it holds before that.

A found property becomes a rule with the loosest numbers that any client needs, so that it holds in
the series of all; or, for one client, with its own. Edges become a `cause` that reads them from the
graph of findings, and rules of what follows what. Evidence becomes notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fedkg.learned_knowledge_records import (
    Candidate,
    CausalEdge,
    LearnedKnowledge,
    MinedNumber,
    MinedProperty,
    RuleEvidence,
    combine_ranges,
)
from fedkg_compiler.authoring.string_and_name_quoting import quoted
from fedkg_compiler.learned.candidate_formatting import (
    comment,
    name_of,
    plain,
    rounded,
    shown,
    unwritable,
)
from fedkg_compiler.learned.precedence_rule_candidates import precedences

MANY = 1000
"""Evaluations after which a rule that all data satisfied is proposed as a hard rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The text of a candidate file, and what is in it.

    Attributes:
        text: the file.
        candidates: its parts in order.
        notes: number of remarks about rules that the data violates or always satisfies.
    """

    text: str
    candidates: tuple[Candidate, ...]
    notes: int

    @property
    def rules(self) -> int:
        """Number of proposed rules."""
        return sum(one.kind == "rule" for one in self.candidates)

    @property
    def causes(self) -> int:
        """Number of proposed causes."""
        return sum(one.kind == "cause" for one in self.candidates)


def proposed(
    found: Sequence[LearnedKnowledge], *, client: str = "", least: float = 0.0, alpha: float = 0.05
) -> Proposal:
    """Propose candidate rules from the findings of runs.

    Args:
        found: the findings, one entry for each run.
        client: keep only the properties of this client and those that belong to no client; "" keeps
            the properties of all clients.
        least: the smallest confidence with which a property becomes a rule, from 0 to 1.
        alpha: the largest p-value of an edge, corrected for the number of pairs if the correction
            is known; an edge without a p-value is kept.
    """
    properties = [
        one for run in found for one in run.properties if one.client in ("", client) or not client
    ]
    groups: dict[tuple[str, str], list[MinedProperty]] = {}
    for one in properties:
        groups.setdefault((one.inference, one.text), []).append(one)
    parts = [one for key in sorted(groups) for one in _rule(groups[key], client, least)]
    edges = [
        edge
        for run in found
        for edge in run.edges
        if _sure(edge) is None or (_sure(edge) or 0.0) <= alpha
    ]
    parts += _causes(edges, alpha)
    parts += precedences(edges, timed=any(run.step is not None for run in found))
    parts = [_legible(one) for one in parts]
    notes = [note for run in found for evidence in run.evidence for note in _noted(evidence)]
    where = f"for {client}" if client else "for all clients"
    titles = ", ".join(sorted({_titled(run) for run in found}))
    head = comment(
        f"Candidates {where}, from what was learnt in: {titles}. Keep what is right, "
        "change it, delete the rest."
    )
    texts = [head, *map(candidate_text, parts), *(["\n".join(notes)] if notes else [])]
    if len(texts) == 1:
        texts.append(
            comment(
                "Nothing to propose: no property was found, no edge has a p-value of "
                f"{plain(alpha)} or less, the data violates no rule, and none is satisfied in "
                f"{MANY:,} cases or more."
            )
        )
    return Proposal(text="\n\n".join(texts) + "\n", candidates=tuple(parts), notes=len(notes))


def candidate_text(one: Candidate) -> str:
    """A candidate as a rule file has it: its evidence as a comment, then the statement."""
    return "\n".join(filter(None, (comment(one.evidence), one.statement)))


def _legible(one: Candidate) -> Candidate:
    """The candidate if the parser reads it, else a note that says what is left out, and why."""
    text = candidate_text(one)
    why = unwritable(text)
    if not why:
        return one
    said = f"Left out, since it cannot be written as a rule: {why}. It would read: {text}"
    return Candidate(kind="note", evidence=said)


def _titled(run: LearnedKnowledge) -> str:
    """A run, with when it began and from when to when its data reaches."""
    said = [run.began] if run.began else []
    said += [f"data from {run.window[0]} to {run.window[1]}"] if run.window else []
    return f"{run.title} ({'; '.join(said)})" if said else run.title


def _rule(group: Sequence[MinedProperty], client: str, least: float) -> Iterator[Candidate]:
    first = group[0]
    sure = min(one.confidence for one in group)
    clients = sorted({one.client for one in group} - {""})
    who = (
        clients[0]
        if len(clients) == 1
        else f"{len(clients)} clients"
        if clients
        else "all clients together"
    )
    traces = sorted(one.traces for one in group)
    seen = f"{traces[0]}" if traces[0] == traces[-1] else f"{traces[0]} to {traces[-1]}"
    window = combine_ranges([one.window for one in group])
    when = f", from {window[0]} to {window[1]}" if window else ""
    said = f"{first.inference}: found in the series of {who}, {seen} of them each{when}. "
    said += (
        f"Of further series, {sure:.0%} or more are expected to satisfy it."
        if sure
        else "So few series say nothing about further ones."
    )
    if sure < least:
        yield Candidate(kind="note", evidence=f"{said} Left out: that is less than {least:.0%}.")
        return
    numbers = [
        _common([one.numbers[place] for one in group]) for place in range(len(first.numbers))
    ]
    open_ones = [
        own.name for own, number in zip(first.numbers, numbers, strict=True) if number is None
    ]
    if open_ones:
        differ = " and ".join(f"?{name}" for name in open_ones)
        why = (
            f"{differ} differ from client to client, and the formula does not tell which is looser."
        )
        yield Candidate(kind="note", evidence=f"{said} No rule for all: {why}")
        return
    text = first.text
    for own, number in zip(first.numbers, numbers, strict=True):
        limit = rf"\?{re.escape(own.name)}\b"
        text = re.sub(limit, lambda _, value=number: str(value), text)  # type: ignore[misc]
    name = name_of(f"{first.inference}_{client}" if client else f"{first.inference}_everywhere")
    title = f"Found in the series of {client}." if client else f"Found in the series of {who}."
    statement = (
        f"rule {name} {quoted(shown(title))}\n  kind temporal\n  require initially follows {text}"
    )
    yield Candidate(kind="rule", name=name, statement=statement, evidence=said)


def _common(numbers: Sequence[MinedNumber]) -> str | None:
    """The loosest of one number's values, as rule files write it.

    None if they differ and neither side is looser.
    """
    first, values = numbers[0], [one.value for one in numbers]
    if first.direction == "none" and len(set(values)) > 1:
        return None
    value = max(values) if first.direction == "up" else min(values)
    text = str(round(value)) if first.integer else rounded(value, first.direction)
    return f"{text} {first.unit}".strip()


def _sure(edge: CausalEdge) -> float | None:
    """The p-value by which an edge is judged: corrected, where it was tested among others.

    None if it was not tested.
    """
    return edge.p_value if edge.adjusted is None else edge.adjusted


def _causes(edges: Sequence[CausalEdge], alpha: float) -> Iterator[Candidate]:
    for lag, word in sorted({(edge.lag, _judged_by(edge)) for edge in edges}):
        own = [edge for edge in edges if (edge.lag, _judged_by(edge)) == (lag, word)]
        listed = "; ".join(
            f"{edge.driver} drives {edge.driven} ({edge.strength:.3g})" for edge in own
        )
        only = f" ; fkg:{word} ?p . FILTER(?p <= {plain(alpha)})" if word else ""
        more = "_uncorrected" if word == "pValue" else "_untested" if not word else ""
        name = f"found_{lag}_ahead{more}"
        statement = (
            f"cause {name}\n  for ?a, ?b where {{ GRAPH ?run {{ ?edge a fkg:CausalEdge ;"
            f" fkg:driver ?a ; fkg:driven ?b ; fkg:lagSteps {lag}{only} }} }}\n"
            "  allow ?a drives ?b"
        )
        said = f"Found, {lag} step(s) ahead: {listed}."
        yield Candidate(kind="cause", name=name, statement=statement, evidence=said)


def _judged_by(edge: CausalEdge) -> str:
    """The name of the graph property that contains this p-value; "" without a p-value."""
    return (
        "adjustedPValue"
        if edge.adjusted is not None
        else "pValue"
        if edge.p_value is not None
        else ""
    )


def _noted(evidence: RuleEvidence) -> Iterator[str]:
    if evidence.about != "data" or evidence.rate is None:
        return
    if evidence.violated:
        example = f" For example: {evidence.example}" if evidence.example else ""
        yield comment(
            f"{evidence.rule}: the data itself breaks it in {evidence.violated:,} of "
            f"{evidence.applied:,} cases ({evidence.rate:.2%}): "
            f"look at its limits, or at the data.{example}"
        )
    elif evidence.applied >= MANY:
        yield comment(
            f"{evidence.rule}: held in all {evidence.applied:,} cases of the data; it can "
            "be made `hard`."
        )
