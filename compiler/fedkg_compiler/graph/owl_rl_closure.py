"""Computes the OWL 2 RL closure of triples (`reasoning/rule_table.py`), without triples that only
restate definitions of terms.

Two departures beside those of the table: statements about an anonymous class (its members, its
superclasses) are used but not written, and no class or property is written below itself.

The rules treat things as one if they are stated or found to be equal (`owl:sameAs`, functional
properties, keys). Their triples are written under each name if they have few names, so that a query
finds them by any. With more names, their triples are written under the first name only, with links
to it.

Closures of ontologies are kept in the user's cache folder: they are the same from one compilation
to the next. An entry is named by the checksums of what was closed and by the compiler, and is
arrays (npz, without pickled objects) with the nodes as JSON. A damaged entry is computed again; in
a folder that cannot be written nothing is saved. The most recently used entries stay in memory too.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyoxigraph as ox

from fedkg.limits import limit
from fedkg_compiler.cache_location import cache_folder, compiler_stamp
from fedkg_compiler.graph import relation_algebra as relation
from fedkg_compiler.graph.reasoning.facts import SPAN, Facts, Relations, among, split
from fedkg_compiler.graph.reasoning.fixpoint import close
from fedkg_compiler.graph.reasoning.owl_vocabulary import HIDDEN, NAMES, SAME, WORDS, Node
from fedkg_compiler.graph.relation_algebra import NONE, Pairs

WORTH = 20_000
"""Triples from which on reading a closure is quicker than closing them again."""
MOST = 8
"""Entries that are kept on disk; the oldest go first."""
_IN_MEMORY = 4
_memory: dict[str, tuple[Facts, Relations]] = {}
_Arrays = dict[str, npt.NDArray[np.generic]]


def kept_closure(
    triples: Sequence[ox.Quad], key: str, *, all_rules: bool
) -> tuple[Facts, Relations]:
    """Return the closure of triples and its asserted pairs, neither of which the caller changes.

    Args:
        triples: the asserted triples.
        key: identifies the triples in the cache; "" caches nothing.
        all_rules: as for `close`.

    Raises:
        TooLarge: that is more than fits in memory.
    """
    name = f"{key} {all_rules}"
    if not key or name not in _memory:
        entry = _entry(name) if key and len(triples) >= WORTH else None
        found = None if entry is None else _read(entry)
        if found is None:
            facts = Facts()
            told = facts.number(triples)
            close(facts, told, all_rules=all_rules)
            found = facts, told
            if entry is not None:
                _write(entry, facts, told)
        if not key:
            return found
        while len(_memory) >= _IN_MEMORY:
            _memory.pop(next(iter(_memory)))
        _memory[name] = found
    return _memory[name]


def closures_folder() -> Path:
    """The folder of cached closures: `closures` beside the compilations.

    Raises RuntimeError without a home.
    """
    return cache_folder().parent / "closures"


def _entry(name: str) -> Path | None:
    try:
        return (
            closures_folder()
            / f"{hashlib.sha256(f'{compiler_stamp()} {name}'.encode()).hexdigest()[:32]}.npz"
        )
    except (OSError, RuntimeError):
        return None


def _read(entry: Path) -> tuple[Facts, Relations] | None:
    """The cached entry; None without a readable one."""
    try:
        with entry.open("rb") as file, np.load(file, allow_pickle=False) as found:
            nodes = [_node(one) for one in json.loads(found["nodes"].tobytes())]
            facts = Facts()
            facts.numbers |= {node: i + len(WORDS) for i, node in enumerate(nodes)}
            facts.grow(nodes)
            facts.one, facts.merged, facts.concluded = (
                found["one"],
                bool(found["merged"]),
                int(found["concluded"]),
            )
            facts.pairs = _relations(found["predicates"], found["ends"], found["pairs"])
            told = _relations(found["told_predicates"], found["told_ends"], found["told_pairs"])
            whole = facts.one.size == facts.kinds.size == len(facts.numbers)
    except (OSError, ValueError, KeyError, TypeError, IndexError, EOFError, zipfile.BadZipFile):
        return None
    with suppress(OSError):
        os.utime(entry)
    return (facts, told) if whole else None


def _write(entry: Path, facts: Facts, told: Relations) -> None:
    said = [_node_as_json(node) for node in facts.nodes[len(WORDS) :]]
    if None in said:
        return
    part = entry.with_name(f".{entry.name}.{os.getpid()}")
    arrays: _Arrays = {
        "nodes": np.frombuffer(json.dumps(said).encode("utf-8", "surrogatepass"), dtype=np.uint8),
        "one": facts.one,
    }
    arrays |= {"merged": np.array(facts.merged), "concluded": np.array(facts.concluded)}
    arrays |= _arrays(facts.pairs, "") | _arrays(told, "told_")
    with suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        part.replace(entry)
        older = sorted(entry.parent.glob("*.npz"), key=lambda path: path.stat().st_mtime_ns)[:-MOST]
        for path in older:
            path.unlink(missing_ok=True)
    with suppress(OSError):
        part.unlink()


def _arrays(relations: Relations, prefix: str) -> _Arrays:
    parts = [*relations.values()]
    return {
        f"{prefix}predicates": np.array([*relations], dtype=np.int64),
        f"{prefix}ends": np.cumsum([part.size for part in parts], dtype=np.int64),
        f"{prefix}pairs": np.concatenate([np.empty(0, dtype=np.int64), *parts]),
    }


def _relations(predicates: Pairs, ends: Pairs, pairs: Pairs) -> Relations:
    if predicates.size == 0:
        return {}
    return dict(zip(predicates.tolist(), np.split(pairs, ends[:-1]), strict=True))


def _node_as_json(node: Node) -> list[str] | None:
    """A node as JSON; None for a triple."""
    match node:
        case ox.NamedNode():
            return [node.value]
        case ox.BlankNode():
            return ["_", node.value]
        case ox.Literal():
            return [node.value, node.datatype.value, node.language or ""]
        case _:
            return None


def _node(said: Sequence[str]) -> Node:
    match said:
        case [iri]:
            return ox.NamedNode(iri)
        case ["_", label]:
            return ox.BlankNode(label)
        case [value, _, language] if language:
            return ox.Literal(value, language=language)
        case _:
            value, datatype, _ = said
            return ox.Literal(value, datatype=ox.NamedNode(datatype))


TYPE, SUB_CLASS, SUB_PROPERTY = (
    WORDS[NAMES[name]] for name in ("type", "subClassOf", "subPropertyOf")
)
DOMAIN, RANGE, INVERSE = (WORDS[NAMES[name]] for name in ("domain", "range", "inverseOf"))
SAME_CLASS, SAME_PROPERTY = (
    WORDS[NAMES[name]] for name in ("equivalentClass", "equivalentProperty")
)
_BELOW = (NAMES["subClassOf"], NAMES["subPropertyOf"])
FEW = 16
"""Names of one thing that are few."""
FREE = 300_000
"""Triples that may follow from any graph, however small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """A closure, in numbers.

    Attributes:
        facts: the asserted and inferred facts.
        told: the asserted facts: those of `base` with the bridges, and those of the triples.
        base: the facts of the closure of `base` and the bridges alone.
    """

    facts: Facts
    told: tuple[Relations, Relations]
    base: Facts

    def added(self) -> list[ox.Quad]:
        """Return the inferred triples without the asserted ones; each once, in any order.

        Raises TooLarge.
        """
        return written(self.facts, *self.told)

    def added_by_origin(self) -> tuple[list[ox.Quad], list[ox.Quad]]:
        """Return the inferred triples that rest on the triples outside `base`, and the others.

        A triple that `base` entails too rests on the triples if they describe its subject: a file
        that repeats statements of an ontology entails what the ontology does.

        Raises TooLarge.
        """
        before, told = self.told
        known = (_named_relations(self.base), before) if self.base.merged else (self.base.pairs,)
        ours = written(self.facts, *known, told)
        subjects = self.described()
        theirs: list[ox.Quad] = []
        for quad in written(self.base, before):
            (ours if quad.subject in subjects else theirs).append(quad)
        return ours, theirs

    def described(self) -> set[Node]:
        """Return the nodes of `base` that are subjects of the triples too."""
        _, told = self.told
        end = len(self.base.nodes) * SPAN  # pairs are sorted by subject
        subjects = [split(pairs[: np.searchsorted(pairs, end)])[0] for pairs in told.values()]
        return {self.facts.nodes[i] for i in np.unique(np.concatenate([NONE, *subjects])).tolist()}

    def all_told(self) -> Relations:
        """Return all asserted pairs in one mapping."""
        return _joined(*self.told)


def closure(
    triples: Sequence[ox.Quad],
    *,
    base: Sequence[ox.Quad] = (),
    key: str = "",
    bridges: Sequence[ox.Quad] = (),
    all_rules: bool = False,
) -> Closure:
    """Return the closure of triples.

    Args:
        triples: the triples that are not in `base`.
        base: triples that many closures share, like those of the ontologies. Their closure is
            computed once and cached; adding `triples` to it costs time in proportion to their
            number.
        key: identifies `base` in the cache; "" caches nothing.
        bridges: mappings between terms, which nobody stated as data.
        all_rules: include rules that only restate definitions of terms (`rule_table.TERMINOLOGY`).

    Raises:
        TooLarge: that is more than fits in memory.
    """
    known, before = kept_closure(base, key, all_rules=all_rules) if base else (Facts(), {})
    most = FREE + limit("inferred") * (len(triples) + len(bridges))
    with relation.at_most(known.concluded + most):
        if bridges:
            known = known.copy()
            bridged = known.number(bridges)
            close(known, bridged, all_rules=all_rules)
            before = _joined(before, bridged)
        facts = known.copy()
        told = facts.number(triples)
        close(facts, told, all_rules=all_rules)
    return Closure(facts=facts, told=(before, told), base=known)


def follows(triples: Sequence[ox.Quad], *, all_rules: bool = False) -> list[ox.Quad]:
    """Return everything that follows from these triples, as `Closure.added` does.

    Raises TooLarge.
    """
    return closure(triples, all_rules=all_rules).added()


def written(facts: Facts, *known: Relations) -> list[ox.Quad]:
    """The triples of a closure that are not known already, with IRIs for properties and classes.

    Equal things under all their names.
    """
    named, blank = facts.kinds == 0, facts.kinds == 1
    groups = _groups(facts)
    quads: list[ox.Quad] = []
    for predicate, pairs in _named_pairs(facts, groups):
        if predicate in HIDDEN or not named[predicate]:
            continue
        for some in known:
            pairs = pairs[~among(pairs, some.get(predicate, NONE))]
        left, right = split(pairs)
        if predicate == NAMES["type"]:
            pairs = pairs[~blank[right]]
        elif predicate in _BELOW:
            pairs = pairs[~blank[left] & ~blank[right] & (left != right)]
        quads += _quads(facts, predicate, pairs)
    return quads


def _named_relations(facts: Facts) -> Relations:
    """The pairs by property, those of equal nodes under all their names."""
    return dict(_named_pairs(facts, _groups(facts)))


def _joined(*parts: Relations) -> Relations:
    """The pairs of several mappings in one."""
    return {
        predicate: relation.joined(*(one.get(predicate, NONE) for one in parts))
        for part in parts
        for predicate in part
    }


def _groups(facts: Facts) -> dict[int, list[int]]:
    """The numbers of equal nodes, by the first of them; only where there is more than one."""
    if not facts.merged:
        return {}
    others = np.flatnonzero(facts.one != np.arange(facts.one.size))
    found: dict[int, list[int]] = {}
    for other in others.tolist():
        first = int(facts.one[other])
        found.setdefault(first, [first]).append(other)
    return found


def _named_pairs(facts: Facts, groups: Mapping[int, list[int]]) -> list[tuple[int, Pairs]]:
    """The pairs by property, those of equal nodes under all their names."""
    if not groups:
        return [*facts.pairs.items()]
    few = {first: names for first, names in groups.items() if len(names) <= FEW}
    several = np.zeros(len(facts.nodes), dtype=np.bool_)
    several[[*few]] = True
    found: dict[int, list[Pairs]] = defaultdict(list)
    for predicate, pairs in facts.pairs.items():
        left, right = split(pairs)
        touched = several[left] | several[right]
        further = [
            one * SPAN + other
            for a, b in zip(left[touched].tolist(), right[touched].tolist(), strict=True)
            for one in few.get(a, (a,))
            for other in few.get(b, (b,))
        ]
        if len(further) > relation.most():
            raise facts.too_large(predicate)
        whole = relation.joined(pairs, np.array(further, dtype=np.int64))
        for name in few.get(predicate, (predicate,)):
            found[name].append(whole)
    for first, names in groups.items():
        ends = (
            [(a, b) for a in names for b in names]
            if first in few
            else [pair for a in names for pair in ((first, a), (a, first))]
        )
        found[SAME].append(np.array([a * SPAN + b for a, b in ends if a != b], dtype=np.int64))
    return [(predicate, relation.joined(*parts)) for predicate, parts in found.items()]


def _quads(facts: Facts, predicate: int, pairs: Pairs) -> list[ox.Quad]:
    node = facts.nodes[predicate]
    assert isinstance(node, ox.NamedNode)
    nodes = facts.nodes
    left, right = split(pairs)
    return [
        ox.Quad(nodes[i], node, nodes[j])
        for i, j in zip(left.tolist(), right.tolist(), strict=True)
    ]
