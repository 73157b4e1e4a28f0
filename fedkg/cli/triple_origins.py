"""Format triples and their derivations for `fedkg explain` and `fedkg ontology reason`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedkg_compiler.row_source_triples import Fact, Origin


def origin_lines(origin: Origin | None) -> Iterator[str]:
    """The triples behind a rule's rows for one entity, with their premises."""
    if origin is None:
        return
    for i, fact in enumerate(origin.facts):
        first, *rest = _lines(fact)
        yield f"  {'from' if i == 0 else '':<9} {first}"
        yield from (f"  {'':<9} {line}" for line in rest)


def _lines(fact: Fact) -> Iterator[str]:
    """``plant:M01 a plant:Mill  (plant.ttl:81)``, or an inference with its premises."""
    if fact.rule:
        yield f"{fact.triple}, by {fact.rule} from"
    else:
        yield f"{fact.triple}  ({_source(fact)})"
    for premise in fact.premises:
        yield from (f"  {line}" for line in _lines(premise))


def _source(fact: Fact) -> str:
    """``plant.ttl:81``, with the graph if it is not that of the file."""
    file = PurePath(fact.place.rpartition(":")[0]).name
    if not fact.graph or fact.graph in (f"file:///{file}", fact.place):
        return fact.place or "source not found"
    return f"{fact.place}, graph {fact.graph}"


def origin_json(origin: Origin | None) -> dict[str, Any]:
    """The same as JSON. `Any`: JSON."""
    return (
        {}
        if origin is None
        else {"entity_iri": origin.entity, "from": [asdict(fact) for fact in origin.facts]}
    )
