"""``cause NAME for ?a, ?b where { ... } allow ?a drives ?b lag 10 min``: which client may drive
which.
"""

from __future__ import annotations

import math
from pathlib import Path

from fedkg._internal.name_matching import did_you_mean
from fedkg.pack.causes import CauseRecord, Drive
from fedkg_compiler.frontends.fkg.binding.declarations import seconds
from fedkg_compiler.frontends.fkg.binding.entity_owners import client_of
from fedkg_compiler.frontends.fkg.binding.quantifiers import note_unused, quantify
from fedkg_compiler.frontends.fkg.binding.scope import Environment, Sources
from fedkg_compiler.frontends.fkg.syntax.tree import Cause, Word
from fedkg_compiler.frontends.sheets.sheet_cache import Sheets

NEARLY = 1e-9
"""By how much of a step a lag may miss a whole number of steps."""


def bind_cause(statement: Cause, sources: Sources, sheets: Sheets) -> CauseRecord | None:
    """The pairs of clients of a `cause`; None where something in it is wrong, which has been
    said.
    """
    environment = quantify(statement.quantifier, sources, sheets, "cause")
    ends = (statement.driver, statement.driven)
    missing = [word for word in ends if word.text not in environment.cells]
    for word in missing:
        near = did_you_mean(
            word.text, environment.cells, f"bind it: for ?{word.text}, ... where {{ ... }}"
        )
        sources.problems.error(
            "FKG201",
            word.span,
            f"no quantifier of this cause binds ?{word.text}",
            near.replace("`", "`?", 1),
        )
    lag = None if statement.lag is None else seconds(statement.lag, sources.problems, "lag")
    if missing or not environment.known or (statement.lag is not None and lag is None):
        return None
    used = {word.text for word in ends}
    note_unused(statement.quantifier, environment, used, sources.problems, "cause")
    drivers, driven = (_clients(word, environment, sources) for word in ends)
    if drivers is None or driven is None:
        return None
    pairs = sorted({pair for pair in zip(drivers, driven, strict=True) if pair[0] != pair[1]})
    loops = sorted({a for a, b in zip(drivers, driven, strict=True) if a == b})
    if loops:
        who = (
            f"{loops[0]} would drive itself"
            if len(loops) == 1
            else f"{loops[0]} and {len(loops) - 1} more would drive themselves"
        )
        message = f"{who}: fedkg leaves this out, because every client drives itself anyway"
        sources.problems.info("FKG292", statement.driver.span, message)
    if not pairs:
        sources.problems.warning(
            "FKG292",
            statement.quantifier.span,
            f"the cause `{statement.name.text}` does not connect two different clients",
            "correct the pattern so that it finds entities of two clients",
        )
    return CauseRecord(
        name=statement.name.text,
        drives=tuple(Drive(driver=a, driven=b) for a, b in pairs),
        lag=lag,
        steps=None if lag is None else _steps(statement, lag, sources),
        text=sources.written(statement.span),
        file=Path(statement.span.file).name,
        line=statement.span.line,
    )


def _clients(word: Word, environment: Environment, sources: Sources) -> list[str] | None:
    """The client of each row's entity, or the text in its place."""
    names = []
    for i, cell in enumerate(environment.cells[word.text]):
        if cell is None or not cell.may_be_name:
            what = "has no value" if cell is None else f"is a number ({cell.text})"
            message = f"?{word.text} {what} in {environment.name(i)}, and a client is needed"
            sources.problems.error(
                "FKG291",
                word.span,
                message,
                "ask for entities that are clients, or belong to one by `fkg:client`",
            )
            return None
        names.append(client_of(cell.iri, sources) if cell.iri else cell.text)
    return names


def _steps(statement: Cause, lag: float, sources: Sources) -> int | None:
    step = sources.names.timing.step
    if step is None or statement.lag is None:
        if statement.lag is not None and not sources.names.timing.step_broken:
            message = (
                "the length of a step is unknown, so fedkg does not know how many steps this lag is"
            )
            sources.problems.info(
                "FKG292",
                statement.lag.span,
                message,
                "write the time from one row to the next: timeline step 5 min",
            )
        return None
    return math.ceil(lag / step - NEARLY)
