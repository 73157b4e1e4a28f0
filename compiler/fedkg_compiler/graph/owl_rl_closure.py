"""Computes the OWL 2 RL closure of triples (`reasoning/rule_table.py`), without triples that only
restate definitions of terms.

The rules of the table are applied to what is new until nothing is (semi-naive evaluation). Facts
about classes and properties are closed first, so that the many facts about things are visited few
times. The premises of a rule are matched against the facts a whole array at once. `clashes` finds
contradictions: statements that cannot all be true.

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

Letters: R rows. A table has for each variable the numbers that it is bound to, [R].
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

from fedkg.limits import limit
from fedkg_compiler.cache_entries import cache_folder, compiler_stamp
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.reasoning import rule_table
from fedkg_compiler.graph.reasoning.facts import (
    NONE,
    SPAN,
    Facts,
    Nodes,
    Pairs,
    Relations,
    TooManyPairs,
    among,
    at_most_pairs,
    joined,
    most_pairs,
    split,
)
from fedkg_compiler.graph.reasoning.owl_vocabulary import HIDDEN, NAMES, SAME, WORDS, Node
from fedkg_compiler.graph.reasoning.owl_vocabulary import TYPE as TYPE_NUMBER
from fedkg_compiler.graph.reasoning.rule_table import Atom, Rule
from fedkg_compiler.graph.reasoning.swrl_rules import IMP, SAME_NODE, compare, swrl_rules

Table = dict[int, Nodes]


def possible(rule: Rule, facts: Facts) -> bool:
    """Whether facts exist for each premise with a named property, to skip unused rules."""
    for _, predicate, other in rule.body:
        if predicate >= 0 and not facts.pairs_of(predicate).size:
            return False
        if predicate == TYPE_NUMBER and other >= 0 and not facts.typed(other).size:
            return False
    return True


def matches(
    rule: Rule, facts: Facts, *, start: int | None = None, source: Mapping[int, Pairs] | None = None
) -> Table | None:
    """All joint bindings of the variables of a rule, None without bindings.

    Args:
        rule: the rule.
        facts: all facts.
        start: the position of the premise to begin with; default: the premise with the fewest
            pairs.
        source: the pairs for that premise, by property; default: all facts.

    Raises:
        TooManyPairs: there is more than fits in memory.
    """
    if start is None:
        sizes = [
            facts.pairs_of(atom[1]).size if atom[1] >= 0 and not is_ground(atom) else SPAN
            for atom in rule.body
        ]
        start = sizes.index(min(sizes))
    table = _begin(rule, start, facts.pairs if source is None else source, facts)
    rest = [atom for i, atom in enumerate(rule.body) if i != start]
    return _joined(table, rest, facts, rule)


def bound(rule: Rule, facts: Facts, values: Mapping[int, int]) -> Table | None:
    """As `matches`, where some variables are known already."""
    if not values:
        return matches(rule, facts)
    table = {variable: np.array([value]) for variable, value in values.items()}
    return _joined(table, [*rule.body], facts, rule)


def _joined(table: Table, rest: list[Atom], facts: Facts, rule: Rule) -> Table | None:
    while rest and _rows(table):
        atom = min(rest, key=lambda one: _cost(one, table, facts))
        rest.remove(atom)
        table = _join(table, atom, facts)
    for one, other in rule.unequal:
        if _rows(table):
            table = _select_rows(table, table[one] != table[other])
    for name, one, other in rule.comparisons:
        count = _rows(table)
        if not count:
            break
        sides = [(table[end] if end < 0 else np.full(count, end)).tolist() for end in (one, other)]
        held = [satisfies(name, left, right, facts) for left, right in zip(*sides, strict=True)]
        table = _select_rows(table, np.array(held, dtype=np.bool_))
    return table if _rows(table) else None


def is_ground(atom: Atom) -> bool:
    """Tell whether a premise has no variables, so that a match cannot begin with it."""
    return min(atom) >= 0


def satisfies(name: str, one: int, other: int, facts: Facts) -> bool:
    """Tell whether two nodes satisfy a comparison of a SWRL rule."""
    if name == SAME_NODE:
        return bool(facts.one[one] == facts.one[other])
    return compare(name, facts.nodes[one], facts.nodes[other])


def _rows(table: Table) -> int:
    return next(iter(table.values())).size


def _select_rows(table: Table, rows: npt.NDArray[np.bool_] | Nodes) -> Table:
    return {variable: column[rows] for variable, column in table.items()}


def _cost(atom: Atom, table: Table, facts: Facts) -> tuple[int, int]:
    """Those that hang together with what is known first, then by how many ends are free, then by
    how many pairs there are.
    """
    s, p, o = atom
    free = sum(end < 0 and end not in table for end in (s, o))
    if p < 0 and p not in table:
        return 6 + free, 0
    if p < 0:
        return (5 if free == 2 else free), SPAN
    apart = s not in table and o not in table
    return (4 if apart else free), facts.pairs_of(p).size


def _begin(rule: Rule, start: int, source: Mapping[int, Pairs], facts: Facts) -> Table:
    s, p, o = rule.body[start]
    if p >= 0:
        return _constants(s, o, p, source.get(p, NONE))
    allowed = _allowed(rule, start, p, facts)
    used = [node for node in source if allowed is None or node in allowed]
    pairs = np.concatenate([NONE, *(source[node] for node in used)])
    predicates = np.repeat(np.array(used, dtype=np.int64), [source[node].size for node in used])
    left, right = split(pairs)
    rows = np.ones(left.shape, dtype=np.bool_) if s != o else left == right
    return {s: left[rows], o: right[rows], p: predicates[rows]}


def _constants(s: int, o: int, p: int, pairs: Pairs) -> Table:
    left, right = split(pairs)
    rows = np.ones(left.shape, dtype=np.bool_)
    if s >= 0:
        rows &= left == s
    if o >= 0:
        rows &= right == o
    if s == o:
        rows &= left == right
    return {end: column[rows] for end, column in ((s, left), (o, right)) if end < 0}


def _allowed(rule: Rule, start: int, predicate: int, facts: Facts) -> set[int] | None:
    """The properties that the other premises can mean by a variable."""
    found: set[int] | None = None
    for i, (s, p, o) in enumerate(rule.body):
        if i == start or p < 0 or predicate not in (s, o):
            continue
        if o >= 0:
            nodes = facts.typed(o)
            assert p == TYPE_NUMBER
        else:
            left, right = split(facts.pairs_of(p))
            nodes = left if predicate == s else right
        some = set(np.unique(nodes).tolist())
        found = some if found is None else found & some
    return found


def _join(table: Table, atom: Atom, facts: Facts) -> Table:
    s, p, o = atom
    if p >= 0:
        return _with(table, s, o, facts.pairs_of(p), p, facts)
    parts: list[Table] = []
    if p in table:
        used = [node for node in np.unique(table[p]).tolist() if facts.pairs_of(node).size]
        parts += [
            _with(_select_rows(table, table[p] == node), s, o, facts.pairs_of(node), node, facts)
            for node in used
        ]
    else:
        for node, pairs in facts.pairs.items():
            found = _with(table, s, o, pairs, node, facts)
            parts.append(found | {p: np.full(_rows(found), node)})
    variables = {*table, *(end for end in atom if end < 0)}
    return {
        variable: np.concatenate([NONE, *(part[variable] for part in parts)])
        for variable in variables
    }


def _with(table: Table, s: int, o: int, pairs: Pairs, predicate: int, facts: Facts) -> Table:
    """The rows of a table for which there is a pair from s to o, once for each."""
    count = _rows(table)
    left = np.full(count, s) if s >= 0 else table.get(s)
    right = np.full(count, o) if o >= 0 else table.get(o)
    if left is not None and right is not None:
        return _select_rows(table, among(left * SPAN + right, pairs))
    if left is not None or right is not None:
        known, other, ordered = (
            (left, o, pairs) if left is not None else (right, s, facts.turned(predicate))
        )
        assert known is not None
        rows, found = _expanded(known, ordered)
        if other == (
            s if left is not None else o
        ):  # the same variable on both sides cannot be known and free at once
            raise AssertionError
        return _select_rows(table, rows) | {other: found}
    if count * pairs.size > 8 * most_pairs():
        raise TooManyPairs
    rows = np.repeat(np.arange(count), pairs.size)
    one, two = split(np.tile(pairs, count))
    if s == o:
        same = one == two
        return _select_rows(table, rows[same]) | {s: one[same]}
    return _select_rows(table, rows) | {s: one, o: two}


def _expanded(known: Nodes, ordered: Pairs) -> tuple[Nodes, Nodes]:
    """For each row all partners of its node: the rows, repeated for each partner, and the partners.

    Raises TooManyPairs.
    """
    begin, end = (
        np.searchsorted(ordered, known * SPAN),
        np.searchsorted(ordered, (known + 1) * SPAN),
    )
    counts = end - begin
    total = int(counts.sum())
    if total > 8 * most_pairs():
        raise TooManyPairs
    places = np.repeat(begin - (np.cumsum(counts) - counts), counts) + np.arange(total)
    return np.repeat(np.arange(known.size), counts), ordered[places] & (SPAN - 1)


def concluded(table: Table, heads: Sequence[Atom], facts: Facts) -> list[tuple[int, Pairs]]:
    """The pairs that a rule concludes, by property.

    About literals it concludes only that two are equal.
    """
    found: list[tuple[int, Pairs]] = []
    count = _rows(table)
    for s, p, o in heads:
        left = table[s] if s < 0 else np.full(count, s)
        right = table[o] if o < 0 else np.full(count, o)
        can = facts.kinds[left] < 2 if p != SAME else np.ones(count, dtype=np.bool_)
        pairs = (left * SPAN + right)[can]
        if p >= 0:
            found.append((p, pairs))
            continue
        predicates = table[p][can]
        found += [
            (node, pairs[predicates == node])
            for node in np.unique(predicates).tolist()
            if facts.kinds[node] < 2
        ]
    return [(node, pairs) for node, pairs in found if pairs.size]


def close(facts: Facts, new: Mapping[int, Pairs], *, all_rules: bool = False) -> None:
    """Take up pairs with all that follows from them.

    In proportion to them where the facts are closed.

    Args:
        all_rules: also those that only restate definitions of terms (`table.TERMINOLOGY`).

    Raises:
        TooLarge: that is more than fits in memory.
    """
    schema = rule_table.rules(rule_table.SCHEMA) + (
        rule_table.rules(rule_table.TERMINOLOGY) if all_rules else ()
    )
    if facts.concluded > most_pairs():
        raise facts.too_large(TYPE_NUMBER)
    first = not facts.pairs
    fresh = facts.absorb(new, told=True)
    while fresh:
        pending = fresh
        while fresh:
            fresh = facts.absorb(_step(schema, facts, fresh, first=first))
            pending = _both(pending, fresh, facts)
        concluded = _step(rule_table.rules(rule_table.FACTS), facts, pending, first=first)
        stated = facts.typed(IMP).size > 0 or facts.rules
        if stated and (further := _swrl_step(facts, pending, first=first)):
            concluded = _both(concluded, further, facts)
        fresh = facts.absorb(concluded)
        first = False


def _swrl_step(facts: Facts, fresh: Relations, *, first: bool) -> Relations:
    """The conclusions of the SWRL rules among the facts.

    They are read again each time: the fresh facts may state a rule, or make its terms equal to
    others. A rule that is new is matched with all facts.
    """
    rules, _ = swrl_rules(facts)
    known = set() if first else {*facts.rules}
    facts.rules = tuple(rules)
    new = [rule for rule in rules if rule not in known]
    old = [rule for rule in rules if rule in known]
    return _both(_step(new, facts, fresh, first=True), _step(old, facts, fresh, first=False), facts)


def _both(some: Relations, more: Relations, facts: Facts) -> Relations:
    found: dict[int, list[Pairs]] = defaultdict(list)
    for predicate, pairs in (*some.items(), *more.items()):
        left, right = split(pairs)
        found[int(facts.one[predicate])].append(
            facts.one[left] * SPAN + facts.one[right] if facts.merged else pairs
        )
    return {predicate: joined(*parts) for predicate, parts in found.items()}


def _step(rules: Sequence[Rule], facts: Facts, fresh: Relations, *, first: bool) -> Relations:
    """The conclusions of the rules from pairs, at least one of them fresh."""
    found: dict[int, list[Pairs]] = defaultdict(list)
    for rule in rules:
        if not possible(rule, facts):
            continue
        try:
            for matched in _fresh_matches(rule, facts, fresh, first=first):
                for predicate, pairs in concluded(matched, rule.heads, facts):
                    found[predicate].append(pairs)
        except TooManyPairs:
            head = rule.heads[0][1]
            raise facts.too_large(head if head >= 0 else TYPE_NUMBER) from None
    return {predicate: joined(*parts) for predicate, parts in found.items()}


def _fresh_matches(rule: Rule, facts: Facts, fresh: Relations, *, first: bool) -> list[Table]:
    if first:  # everything is fresh
        starts: list[int | None] = [None]
    else:
        starts = [
            i
            for i, atom in enumerate(rule.body)
            if (atom[1] < 0 or atom[1] in fresh) and not is_ground(atom)
        ]
    found = (
        matches(rule, facts, start=start, source=None if start is None else fresh)
        for start in starts
    )
    return [matched for matched in found if matched is not None]


MOST_CLASHES = 20
"""Contradictions that are reported at most; more would have the same causes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """One contradiction.

    Attributes:
        rule: the rule that finds the contradiction.
        values: the number of the node that each variable of the rule stands for.
        more: the number of further contradictions that the same statements about terms cause.
    """

    rule: Rule
    values: dict[int, int]
    more: int = 0


def clashes(facts: Facts) -> list[Clash]:
    """Return the contradictions in a closure, one for each group that the same statements about
    terms bring about; at most `MOST_CLASHES`.
    """
    found: list[Clash] = []
    for rule in rule_table.rules(rule_table.CLASHES):
        plain, equal = _without_equality(rule)
        if not possible(plain, facts):
            continue
        try:
            matched = matches(plain, facts)
        except TooManyPairs:
            continue
        if matched is None:
            continue
        columns = {variable: column.tolist() for variable, column in matched.items()}
        groups: dict[tuple[frozenset[int], ...], list[dict[int, int]]] = {}
        for row in range(len(next(iter(columns.values())))):
            values = {variable: column[row] for variable, column in columns.items()}
            values |= {one: values[other] for one, other in equal.items()}
            groups.setdefault(_subjects(rule, values), []).append(values)
        found += [
            Clash(rule=rule, values=group[0], more=len(group) - 1) for group in groups.values()
        ]
    return found[:MOST_CLASHES]


def _subjects(rule: Rule, values: dict[int, int]) -> tuple[frozenset[int], ...]:
    """The terms in the premises about terms, in any order.

    For a rule without such premises, all terms in its premises.
    """
    terms = [
        frozenset(values[end] for end in (s, o) if end < 0)
        for s, p, o in rule.body
        if p > 0 and p != SAME
    ]
    return (frozenset().union(*terms),) if terms else (frozenset(values.values()),)


def _without_equality(rule: Rule) -> tuple[Rule, dict[int, int]]:
    """The rule for facts with merged equal nodes, and the variable that replaces each of its
    variables.
    """
    equal = {o: s for s, p, o in rule.body if p == SAME}
    body = tuple((equal.get(s, s), p, equal.get(o, o)) for s, p, o in rule.body if p != SAME)
    return Rule(name=rule.name, body=body, unequal=rule.unequal), equal


# The closure of triples, kept in the cache and written as triples.

WORTH = 20_000
"""Triples from which on reading a closure is quicker than closing them again."""
MOST_KEPT = 8
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
        older = sorted(entry.parent.glob("*.npz"), key=lambda path: path.stat().st_mtime_ns)[
            :-MOST_KEPT
        ]
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
        return _united(*self.told)


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
    with at_most_pairs(known.concluded + most):
        if bridges:
            known = known.copy()
            bridged = known.number(bridges)
            close(known, bridged, all_rules=all_rules)
            before = _united(before, bridged)
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


def _united(*parts: Relations) -> Relations:
    """The pairs of several mappings in one."""
    return {
        predicate: joined(*(one.get(predicate, NONE) for one in parts))
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
        if len(further) > most_pairs():
            raise facts.too_large(predicate)
        whole = joined(pairs, np.array(further, dtype=np.int64))
        for name in few.get(predicate, (predicate,)):
            found[name].append(whole)
    for first, names in groups.items():
        ends = (
            [(a, b) for a in names for b in names]
            if first in few
            else [pair for a in names for pair in ((first, a), (a, first))]
        )
        found[SAME].append(np.array([a * SPAN + b for a, b in ends if a != b], dtype=np.int64))
    return [(predicate, joined(*parts)) for predicate, parts in found.items()]


def _quads(facts: Facts, predicate: int, pairs: Pairs) -> list[ox.Quad]:
    node = facts.nodes[predicate]
    assert isinstance(node, ox.NamedNode)
    nodes = facts.nodes
    left, right = split(pairs)
    return [
        ox.Quad(nodes[i], node, nodes[j])
        for i, j in zip(left.tolist(), right.tolist(), strict=True)
    ]
