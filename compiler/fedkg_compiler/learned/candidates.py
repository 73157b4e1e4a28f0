"""Findings as candidate rules: text for a person to read, change and take over. Nothing of it holds before that.

A found property becomes a rule with the loosest numbers that any client needs, so that it holds in the series of all; or, for one client,
with its own. Edges become a `cause` that reads them from the graph of findings. Evidence becomes notes.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fedkg.learned import CausalEdge, FoundNumber, FoundProperty, Learned, RuleEvidence

DIGITS = 4
"""Significant digits of proposed limits; they are rounded to the side on which the property is easier to keep."""
WIDE = 130
"""Characters of a comment line."""
MANY = 1000
"""Evaluations after which a rule that was never broken by the data is proposed to be hard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The text of a candidate file, and what is in it."""

    text: str
    rules: int
    causes: int
    notes: int


def proposed(found: Sequence[Learned], *, client: str = "", least: float = 0.0, alpha: float = 0.05) -> Proposal:
    """What is proposed from the findings of runs.

    Args:
        client: for which client; "" for all. least: confidence that a property must have. alpha: the p-value that an edge has at most.
    """
    properties = [one for run in found for one in run.properties if one.client in ("", client) or not client]
    groups: dict[tuple[str, str], list[FoundProperty]] = {}
    for one in properties:
        groups.setdefault((one.inference, one.text), []).append(one)
    rules = [text for key in sorted(groups) for text in _rule(groups[key], client, least)]
    edges = [edge for run in found for edge in run.edges if edge.p_value is None or edge.p_value <= alpha]
    causes = [*_causes(edges, alpha)]
    notes = [note for run in found for evidence in run.evidence for note in _noted(evidence)]
    where = f"for {client}" if client else "for all clients"
    titles = ", ".join(sorted({f"{run.title} ({run.began})" if run.began else run.title for run in found}))
    head = _comment(f"Candidates {where}, from what was learnt in: {titles}. Keep what is right, change it, delete the rest.")
    parts = [head, *rules, *causes, *(["\n".join(notes)] if notes else [])]
    if len(parts) == 1:
        parts.append(
            _comment(f"Nothing to propose: no property was found, no edge has a p-value of {_plain(alpha)} or less, no rule stands out.")
        )
    made = sum(not part.startswith("#") or "\nrule " in part for part in rules)
    return Proposal(text="\n\n".join(parts) + "\n", rules=made, causes=len(causes), notes=len(notes))


def _rule(group: Sequence[FoundProperty], client: str, least: float) -> Iterator[str]:
    first = group[0]
    sure = min(one.confidence for one in group)
    clients = sorted({one.client for one in group} - {""})
    who = clients[0] if len(clients) == 1 else f"{len(clients)} clients" if clients else "all clients together"
    traces = sorted(one.traces for one in group)
    seen = f"{traces[0]}" if traces[0] == traces[-1] else f"{traces[0]} to {traces[-1]}"
    said = f"{first.inference}: found in the series of {who}, {seen} of them each. "
    said += f"Of further series, {sure:.0%} or more are expected to keep it." if sure else "So few series say nothing about further ones."
    if sure < least:
        yield _comment(f"{said} Left out: that is less than {least:.0%}.")
        return
    numbers = [_common([one.numbers[place] for one in group]) for place in range(len(first.numbers))]
    open_ones = [own.name for own, number in zip(first.numbers, numbers, strict=True) if number is None]
    if open_ones:
        differ = " and ".join(f"?{name}" for name in open_ones)
        yield _comment(f"{said} No rule for all: {differ} differ from client to client, and the formula does not tell which is looser.")
        return
    text = first.text
    for own, number in zip(first.numbers, numbers, strict=True):
        text = re.sub(rf"\?{re.escape(own.name)}\b", lambda _, value=number: str(value), text)  # type: ignore[misc]
    name = _name(f"{first.inference}_{client}" if client else f"{first.inference}_everywhere")
    title = f"Found in the series of {client}." if client else f"Found in the series of {who}."
    yield f'{_comment(said)}\nrule {name} "{title}"\n  kind temporal\n  require initially follows {text}'


def _common(numbers: Sequence[FoundNumber]) -> str | None:
    """The loosest of one number's values, as rule files write it; None where they differ and neither side is looser."""
    first, values = numbers[0], [one.value for one in numbers]
    if first.direction == "none" and len(set(values)) > 1:
        return None
    value = max(values) if first.direction == "up" else min(values)
    text = str(round(value)) if first.integer else _rounded(value, first.direction)
    return f"{text} {first.unit}".strip()


def _rounded(value: float, direction: str) -> str:
    """A number with few digits, rounded to the looser side; as it is where there is none."""
    if direction == "none" or value == 0:
        return _plain(value)
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - DIGITS + 1)
    scaled = value / unit
    near = round(scaled)
    if math.isclose(scaled, near, rel_tol=1e-6):  # a limit of the data that came out a hair off
        return _plain(near * unit)
    return _plain((math.ceil(scaled) if direction == "up" else math.floor(scaled)) * unit)


def _plain(value: float) -> str:
    """A number without an exponent: ``0.00012``, ``1200``."""
    return f"{value:.12f}".rstrip("0").rstrip(".") if abs(value) < 1e15 else repr(value)


def _causes(edges: Sequence[CausalEdge], alpha: float) -> Iterator[str]:
    for lag in sorted({edge.lag for edge in edges}):
        own = [edge for edge in edges if edge.lag == lag]
        listed = "; ".join(f"{edge.driver} drives {edge.driven} ({edge.strength:.3g})" for edge in own)
        tested = any(edge.p_value is not None for edge in own)
        only = f" ; fkg:pValue ?p . FILTER(?p <= {_plain(alpha)})" if tested else ""
        yield (
            f"{_comment(f'Found, {lag} step(s) ahead: {listed}.')}\n"
            f"cause found_{lag}_ahead\n"
            f"  for ?a, ?b where {{ ?edge a fkg:CausalEdge ; fkg:driver ?a ; fkg:driven ?b ; fkg:lagSteps {lag}{only} }}\n"
            f"  allow ?a drives ?b"
        )


def _noted(evidence: RuleEvidence) -> Iterator[str]:
    if evidence.about != "data" or not evidence.applied:
        return
    if evidence.violated:
        example = f" For example: {evidence.example}" if evidence.example else ""
        yield _comment(
            f"{evidence.rule}: the data itself breaks it in {evidence.violated:,} of {evidence.applied:,} cases ({evidence.rate:.2%}): "
            f"look at its limits, or at the data.{example}"
        )
    elif evidence.applied >= MANY:
        yield _comment(f"{evidence.rule}: held in all {evidence.applied:,} cases of the data; it can be made `hard`.")


def _comment(text: str) -> str:
    return "\n".join(textwrap.wrap(text, WIDE, initial_indent="# ", subsequent_indent="# ", break_long_words=False))


def _name(text: str) -> str:
    """A name for a rule: letters, digits and underscores."""
    plain = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return plain if plain[:1].isalpha() else f"found_{plain}"
