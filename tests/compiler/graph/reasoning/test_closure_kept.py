"""Cached closures of ontologies equal fresh ones.

They are stored by what they were made of, and a damaged cache never causes an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import axioms as ax
import pyoxigraph as ox
import pytest

from fedkg_compiler.graph import owl_rl_closure as closures
from fedkg_compiler.graph.owl_rl_closure import close, closure, follows
from fedkg_compiler.graph.reasoning import facts
from fedkg_compiler.graph.reasoning.facts import Facts, TooLarge

SPOKEN = [
    ax.listed("_:k0", "intersectionOf", [ax.CLASSES[1], ax.CLASSES[2]]),
    ((ax.CLASSES[0], ax.rdfs("subClassOf"), "_:k0"),),
    ((ax.THINGS[0], ax.owl("sameAs"), ax.THINGS[1]),),
    ((ax.THINGS[0], ax.PROPERTIES[0], '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'),),
    ((ax.PROPERTIES[0], ax.TYPE, ax.owl("FunctionalProperty")),),
]
BASE = [
    *ax.quads_of(SPOKEN),
    ox.Quad(
        ox.NamedNode(ax.E + "x0"), ox.NamedNode(ax.E + "label"), ox.Literal("Säge", language="de")
    ),
]
PLANT = ax.quads_of(
    [((ax.THINGS[2], ax.TYPE, ax.CLASSES[0]), (ax.THINGS[2], ax.owl("sameAs"), ax.THINGS[1]))]
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(closures, "WORTH", 1)
    monkeypatch.setattr(closures, "_memory", {})
    return tmp_path / "fedkg" / "closures"


def added(base: list[ox.Quad], key: str) -> set[str]:
    return {*map(str, closure(PLANT, base=base, key=key).added())}


def test_it_is_the_same_from_the_rules_from_memory_and_from_disk(cache: Path) -> None:
    whole = {*map(str, follows([*BASE, *PLANT]))}
    assert added(BASE, "one") == whole
    assert added([], "") == {*map(str, follows(PLANT))}
    assert len([*cache.iterdir()]) == 1
    assert added(BASE, "one") == whole
    closures._memory.clear()
    assert added(BASE, "one") == whole


def test_what_was_read_is_not_closed_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    added(BASE, "one")
    closures._memory.clear()
    expected = {*map(str, follows([*BASE, *PLANT]))}
    calls: list[int] = []

    def count_calls(facts: Facts, *arguments: Any, **options: Any) -> None:
        calls.append(1)
        close(facts, *arguments, **options)

    monkeypatch.setattr(closures, "close", count_calls)
    assert added(BASE, "one") == expected
    assert len(calls) == 1, "only the user's triples are closed"
    assert cache.is_dir()


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", b"no archive at all", None])
def test_a_damaged_entry_is_closed_again(damage: bytes | None, cache: Path) -> None:
    before = added(BASE, "one")
    (entry,) = cache.iterdir()
    body = entry.read_bytes()
    entry.write_bytes(body[: len(body) // 2] if damage is None else damage)
    closures._memory.clear()
    assert added(BASE, "one") == before
    assert entry.read_bytes() == body


def test_the_oldest_go_and_no_part_stays(cache: Path) -> None:
    for key in range(closures.MOST_KEPT + 3):
        added(BASE, str(key))
    assert len([*cache.iterdir()]) == closures.MOST_KEPT


def test_a_folder_that_cannot_be_written_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert added(BASE, "one") == {*map(str, follows([*BASE, *PLANT]))}


def test_too_much_is_too_much_from_memory_too(monkeypatch: pytest.MonkeyPatch) -> None:
    added(BASE, "one")
    monkeypatch.setattr(facts, "MOST_PAIRS", 0)
    with pytest.raises(TooLarge):
        closure([], base=BASE, key="one")


def test_few_names_of_one_thing_are_all_written_and_many_are_linked() -> None:
    def named(count: int) -> list[ox.Quad]:
        names = [f"<{ax.E}n{i}>" for i in range(count)]
        links = [((names[0], ax.owl("sameAs"), name),) for name in names[1:]]
        return ax.quads_of([*links, ((names[-1], ax.PROPERTIES[0], '"5"'),)])

    few = {str(quad) for quad in follows(named(16))}
    assert sum("/p0>" in quad for quad in few) == 15
    assert sum("sameAs" in quad for quad in few) == 16 * 15 - 15
    many = {str(quad) for quad in follows(named(400))}
    assert sum("/p0>" in quad for quad in many) == 1
    assert len(many) < 3 * 400
