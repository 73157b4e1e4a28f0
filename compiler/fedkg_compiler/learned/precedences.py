"""Candidate rules of precedence: when a measurement of a driver rises, one of the client that it drives follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedkg.learned import CausalEdge, Precedence
from fedkg_compiler.learned.written import comment, name_of, rounded


def precedences(edges: Sequence[CausalEdge], *, timed: bool) -> Iterator[str]:
    """The signals that the rules read, then a rule for each edge that says something of columns; nothing where none does.

    Args:
        timed: whether the rules of the runs declare a timeline; else a step is proposed that a person has to set.
    """
    found = [(edge, edge.precedence) for edge in edges if edge.precedence is not None]
    if not found:
        return
    names = _names([column for _, one in found for column in (one.leads, one.follows)])
    head = "The columns that the rules below read; leave out those that your rules have a signal for, and use its name."
    signals = [f'signal {name} column "{column}"' for column, name in names.items()]
    if not timed:
        head += " No rule of the run said how long a step is: set it."
        signals = ["timeline step 1 s", *signals]
    yield "\n".join([comment(head), *signals])
    taken: set[str] = set()
    for edge, one in found:
        yield _rule(edge, one, names, taken)


def _rule(edge: CausalEdge, one: Precedence, names: dict[str, str], taken: set[str]) -> str:
    up = one.answer > 0
    said = (
        f"{edge.driver} drives {edge.driven}: of {one.cases:,} such rises {one.kept:.0%} were answered so; of all steps the same "
        f"follows {one.chance:.0%}."
    )
    name = _free(name_of(f"{one.follows}_follows_{one.leads}"), taken)
    lead, follow = names[one.leads], names[one.follows]
    verb, side, limit = ("rises", ">=", "down") if up else ("falls", "<=", "up")
    steps = f"{one.within} step{'s' if one.within > 1 else ''}"
    return (
        f'{comment(said)}\nrule {name} "When {one.leads} rises, {one.follows} {verb} within {steps}."\n  kind temporal\n'
        f"  require if {lead} - past {lead} >= {rounded(one.rise, 'up')} "
        f"then eventually [1, {one.within}] {follow} - past {follow} {side} {rounded(one.answer, limit)}"
    )


def _names(columns: Sequence[str]) -> dict[str, str]:
    """A name of its own for each column."""
    taken: set[str] = set()
    return {column: _free(name_of(column), taken) for column in dict.fromkeys(columns)}


def _free(name: str, taken: set[str]) -> str:
    """The name, or with a number, not among those taken, to which it is added."""
    number, own = 1, name
    while own in taken:
        number += 1
        own = f"{name}_{number}"
    taken.add(own)
    return own
