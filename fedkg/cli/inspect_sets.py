"""Lines about the sets of a pack: target, shape, numbers and clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from fedkg._internal.safe_text import count_noun

if TYPE_CHECKING:
    from fedkg.pack.feasible_sets import ClientSet, KeptSet


def set_lines(sets: Sequence[KeptSet], most: int) -> Iterator[str]:
    """Each set with its numbers.

    ``small: the parameters in l1_ball(radius = 3), for every client``.

    If the clients differ, at most `most` of them have a line each.
    """
    for kept in sets:
        what = kept.target or ("the parameters" if kept.on == "parameters" else "the predictions")
        if kept.on == "parameters" and kept.target:
            what = f"the parameters {kept.target}"
        if len({one.numbers for one in kept.clients}) == 1:
            yield (
                f"  {kept.name}: {what} in {_shape(kept, kept.clients[0])}, for "
                f"{_client_text(kept)}"
            )
            continue
        yield f"  {kept.name}: {what} in {kept.shape}, by client ({_client_text(kept)}):"
        for one in kept.clients[:most]:
            yield f"    {one.client or one.iri}: {_shape(kept, one)}"
        if len(kept.clients) > most:
            yield (
                f"    and {count_noun(len(kept.clients) - most, 'client')} more (--rows "
                f"{len(kept.clients)} shows all)"
            )


def _client_text(kept: KeptSet) -> str:
    """``every client``, ``linz alone``, ``3 clients``."""
    if any(not (one.client or one.iri) for one in kept.clients):
        return "every client"
    return (
        f"{kept.clients[0].client or kept.clients[0].iri} alone"
        if len(kept.clients) == 1
        else count_noun(len(kept.clients), "client")
    )


def _shape(kept: KeptSet, entry: ClientSet) -> str:
    """``box(low = 0 kg/h, high = 50 kg/h)``; ``job`` for a number from the job."""
    from fedkg.pack.feasible_sets import ARGUMENTS
    from fedkg.pack.formula_text import number_text

    said = []
    for name, number in zip(kept.arguments, entry.numbers, strict=True):
        text = "job" if number is None else f"{number_text(number)}{_unit(kept.unit, name)}"
        said.append(f"{name} = {text}" if name in ARGUMENTS[kept.shape] else text)
    return f"{kept.shape}({', '.join(said)})"


def _unit(unit: str, name: str) -> str:
    """The unit after a number, with a space.

    None for a coefficient; for a radius around degC the unit of a difference, K.
    """
    from fedkg.units import Unit, parse_unit

    if not unit or (name[0] == "c" and name[1:].isdigit()):
        return ""
    known = parse_unit(unit) if name == "radius" else None
    return f" {known.step().text}" if isinstance(known, Unit) else f" {unit}"
