"""Candidate rules of precedence: when a measurement of a driver rises, one of the client that it
drives follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedkg.learned_knowledge_records import Candidate, CausalEdge, Precedence
from fedkg_compiler.authoring.string_and_name_quoting import Names, quoted
from fedkg_compiler.learned.candidate_formatting import name_of, rounded, shown, unwritable

_TAKEN = frozenset({"if", "past"})
"""Words that a formula does not read as the name of a signal."""


def precedences(edges: Sequence[CausalEdge], *, timed: bool) -> Iterator[Candidate]:
    """The signals that the rules read, then a rule for each edge that says something of columns.

    Nothing if none does.

    Args:
        timed: whether the rules of the runs declare a timeline; else a step is proposed that a
            person has to set.
    """
    known = [(edge, edge.precedence) for edge in edges if edge.precedence is not None]
    if not known:
        return
    names = _names([column for _, one in known for column in (one.leads, one.follows)])
    refused = {
        column: why for column, name in names.items() if (why := unwritable(_signal(name, column)))
    }
    for column, why in refused.items():
        said = f"rules of the column `{column}`, because its header cannot be written: {why}."
        yield Candidate(kind="note", evidence=f"Left out: {said} Rename it in the data.")
    found = [
        (edge, one)
        for edge, one in known
        if one.leads not in refused and one.follows not in refused
    ]
    if not found:
        return
    used = {column for _, one in found for column in (one.leads, one.follows)}
    head = (
        "The columns that the rules below read; leave out those that your rules have a "
        "signal for, and use its name."
    )
    signals = [_signal(name, column) for column, name in names.items() if column in used]
    timeline = () if timed else ("timeline step 1 s",)
    if not timed:
        head += " No rule of the run said how long a step is: set it."
    yield Candidate(kind="signals", statement="\n".join([*timeline, *signals]), evidence=head)
    rules = Names()
    for edge, one in found:
        name = rules.give(name_of(f"{one.follows}_follows_{one.leads}"))
        columns = dict.fromkeys((one.leads, one.follows))
        needed = (*timeline, *(_signal(names[column], column) for column in columns))
        yield _rule(edge, one, names, name).model_copy(update={"declarations": needed})


def _signal(name: str, column: str) -> str:
    return f"signal {name} column {quoted(column)}"


def _rule(edge: CausalEdge, one: Precedence, names: dict[str, str], name: str) -> Candidate:
    up = one.answer > 0
    said = (
        f"{edge.driver} drives {edge.driven}: of {one.cases:,} such rises {one.kept:.0%} "
        f"had this response; of all steps the same "
        f"follows {one.chance:.0%}."
    )
    lead, follow = names[one.leads], names[one.follows]
    verb, side, limit = ("rises", ">=", "down") if up else ("falls", "<=", "up")
    steps = f"{one.within} step{'s' if one.within > 1 else ''}"
    title = quoted(shown(f"When {one.leads} rises, {one.follows} {verb} within {steps}."))
    statement = (
        f"rule {name} {title}\n  kind temporal\n"
        f"  require if {lead} - past {lead} >= {rounded(one.rise, 'up')} "
        f"then eventually [1, {one.within}] {follow} - past {follow} {side} "
        f"{rounded(one.answer, limit)}"
    )
    return Candidate(kind="rule", name=name, statement=statement, evidence=said)


def _names(columns: Sequence[str]) -> dict[str, str]:
    """A separate name for each column."""
    names = Names(taken=set(_TAKEN))
    return {column: names.give(name_of(column)) for column in dict.fromkeys(columns)}
