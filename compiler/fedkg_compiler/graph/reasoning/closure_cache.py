"""Closures of ontologies, kept in the user's cache folder: they are the same from one compilation
to the next.

An entry is named by the checksums of what was closed and by the compiler, and is arrays (npz,
without pickled objects) with the nodes as JSON. A damaged entry is computed again; in a folder that
cannot be written nothing is saved. The most recently used entries stay in memory too.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyoxigraph as ox

from fedkg_compiler.cache_location import cache_folder, compiler_stamp
from fedkg_compiler.graph.binary_relations import Pairs
from fedkg_compiler.graph.reasoning.facts import Facts, Relations
from fedkg_compiler.graph.reasoning.fixpoint import close
from fedkg_compiler.graph.reasoning.owl_vocabulary import WORDS, Node

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
