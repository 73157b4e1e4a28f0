"""The part of a closed store that rules touch, in memory.

A closure on disk takes about ten microseconds for each triple that is read, one in memory a tenth
of that. The closure holds all conclusions, so that no further ones are drawn here: rows are those
of the whole closure, as long as a pattern names its properties and classes. What may be asked of
any property (whether a name occurs at all, explanations) is asked of the whole closure.

The triples are cached beside the closure, under a digest of the properties and classes that were
chosen: the default graph as N-Triples, which are read fast, the others as N-Quads. They are read
only for questions that no earlier compilation asked (`fedkg_compiler.graph.recorded_answers`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.rdf_reader import DEFAULT, load_lines
from fedkg_compiler.graph.standard_vocabularies import FKG, SOSA
from fedkg_compiler.graph.stores.closure_cache import Closed
from fedkg_compiler.graph.stores.relevant_terms import TYPE, RuleTerms, is_read_of_closure

FOLDER = "touched"
ANSWERS = ".json"
"""Suffix of the file with the answers to earlier compilations."""
MOST = 8
"""Parts of one closure that have files."""
LARGEST = 1_000_000
"""Triples of a part that are read into memory: about 300 MB. Of more, the closure itself is
asked."""
_KEY_COLUMN = ox.NamedNode(FKG + "keyColumn")
_OBSERVES = ox.NamedNode(SOSA + "observes")


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchedPart:
    """The triples of a closure that rules can ask for.

    Attributes:
        read: reads them into memory; gives the closure itself where that is very much of it.
        answers: the file with the answers of earlier compilations.
    """

    read: Callable[[], ox.Store]
    answers: Path


def touched_part(entry: Path, closed: Closed, rules: RuleTerms) -> TouchedPart:
    """Return the triples of a closure that rules can ask for.

    Args:
        entry: the folder of the closure.
        closed: the closure.
        rules: what the rules name.
    """
    properties = [
        name
        for name in closed.properties
        if name != TYPE and (is_read_of_closure(name) or rules.names(name))
    ]
    kinds = [kind for kind in closed.classes if rules.types or rules.names(kind)]
    count = sum(closed.properties[name] for name in properties)
    count += sum(closed.classes[kind] for kind in kinds)
    asked = json.dumps([sorted(name.value for name in some) for some in (properties, kinds)])
    path = entry / FOLDER / f"{hashlib.sha256(asked.encode()).hexdigest()[:32]}.nt"
    answers = path.with_suffix(ANSWERS)
    if not answers.exists():
        _forget_oldest(path.parent)
    if count > LARGEST:
        return TouchedPart(read=lambda: closed.store, answers=answers)
    return TouchedPart(read=lambda: _read(path, closed.store, properties, kinds), answers=answers)


def _read(
    path: Path, whole: ox.Store, properties: Iterable[ox.NamedNode], kinds: Iterable[ox.NamedNode]
) -> ox.Store:
    """Read a part from its files, which are written first if they do not exist."""
    beside = path.with_suffix(".nq")
    try:
        default, named = path.read_bytes(), beside.read_bytes()
    except OSError:
        found = dict.fromkeys(_triples(whole, properties, kinds))
        inside = [quad.triple for quad in found if quad.graph_name == DEFAULT]
        default = ox.serialize(inside, format=ox.RdfFormat.N_TRIPLES) or b""
        others = (quad for quad in found if quad.graph_name != DEFAULT)
        named = ox.serialize(others, format=ox.RdfFormat.N_QUADS) or b""
        _keep(beside, named)
        _keep(path, default)
    store = ox.Store()
    blank = load_lines(store, default, is_checked=True)
    store.bulk_extend(ox.parse(default, format=ox.RdfFormat.N_TRIPLES) if blank is None else blank)
    store.bulk_extend(ox.parse(named, format=ox.RdfFormat.N_QUADS))
    return store


def _triples(
    store: ox.Store, properties: Iterable[ox.NamedNode], kinds: Iterable[ox.NamedNode]
) -> Iterator[ox.Quad]:
    """The triples of these properties and the members of these classes; also the members of
    classes with a key column, and the classes of what is observed.
    """
    for name in properties:
        yield from store.quads_for_pattern(None, name, None)
    keyed = {quad.subject for quad in store.quads_for_pattern(None, _KEY_COLUMN, None)}
    for kind in {*kinds, *keyed}:
        yield from store.quads_for_pattern(None, TYPE, kind)
    observed = {quad.object for quad in store.quads_for_pattern(None, _OBSERVES, None)}
    for node in observed:
        if isinstance(node, ox.NamedNode | ox.BlankNode):
            yield from store.quads_for_pattern(node, TYPE, None)


def _keep(path: Path, body: bytes) -> None:
    """Write a part, whole or not at all, and take away the oldest ones; nothing where the folder
    cannot be written.
    """
    with suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}")
        part.write_bytes(body)
        part.replace(path)
        _forget_oldest(path.parent)


def _forget_oldest(folder: Path) -> None:
    """Take away the files of the parts that were written first, beyond `MOST` parts."""
    with suppress(OSError):
        files = sorted(
            (path for path in folder.iterdir() if not path.name.startswith(".")),
            key=lambda path: path.stat().st_mtime_ns,
            reverse=True,
        )
        kept = {*list(dict.fromkeys(path.stem for path in files))[:MOST]}
        for path in files:
            if path.stem not in kept:
                path.unlink(missing_ok=True)
