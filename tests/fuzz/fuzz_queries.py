# ruff: noqa: E402, PERF401, T201  (a command that prints, with a path of its own)
"""Compare generated violation queries with pyoxigraph: `make fuzz`.

Each case is drawn from its seed alone. A batch of `BATCH` cases has one schema, graph and table: a
random set of columns `entity.property`
for the numbers t, f and the texts g, h; 0 to 2 facts of each of low, lim, kind, feeds per entity;
`ROWS` rows with gaps. The store sees
the graph with one row written out as triples.

Grammar of queries (each name stands for one of its alternatives)::

    query     = SELECT ?m ?n WHERE { static read [bind] extra* FILTER(condition)+ }
              | SELECT ?m WHERE { members } GROUP BY ?m HAVING(aggregate(argument) < number)
    static    = ?m a p:Any | ?m p:lim ?x | ?m p:low ?x | ?m p:kind ?k | ?m p:feeds ?n
              | OPTIONAL { ?m p:lim ?x } | nothing
    read      = ?m p:t ?v | ?m p:t ?v ; p:f ?w | ?m p:t ?v OPTIONAL { ?m p:f ?w }
              | { ?m p:t ?v } UNION { ?m p:f ?v }
              | ?m p:t ?v ; p:g ?g | ?m p:t ?v OPTIONAL { ?m p:g ?g } | ?m p:g ?g ; p:h ?h
    bind      = BIND(number AS ?y) | BIND(text AS ?y)
    extra     = FILTER [NOT] EXISTS { ?m p:f ?z FILTER(condition) }
              | MINUS { ?m p:f ?z FILTER(?z > 1) } | OPTIONAL { ... }
    condition = number < number | text = text | BOUND(?a) | condition && condition
              | condition || condition | !(condition)
              | number IN (number, number) | IF(condition, condition, condition)
    number    = constant | ?a | (number + number) | ABS(number) | IF(condition, number, number)
              | COALESCE(number, number)
    text      = constant | ?g | ?k | IF(condition, text, text) | COALESCE(text, text) | STR(text)
              | LCASE(text)

"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parents[1] / "compiler" / "sparql")]

from sparql_cases import HEAD, PREFIX, Cell, Table, by_compiler, by_store, same_violations, sensors

RECORD = Path(__file__).with_name("queries.json")
BATCH, ROWS = 40, 3
ENTITIES = ("a1", "a2", "b1", "b2")
NUMBERS = (-2.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.0)
FIXED = ("-2.5", "-1", "0", "0.5", "1", "2", "2.5", "3")
TEXTS = ("A", "B", "C")
_NAMES = re.compile(r"[?]\w+|`[^`]*`|[A-Z]+[(][)]")


@dataclass
class Counts:
    """What a run has found: cases, refusals by reason, and the cases that differ."""

    cases: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)


class Draw:
    """Draws schemas, graphs, tables and cases from one seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.columns = [
            (entity, name) for entity in ENTITIES for name in "tfgh" if self.dice.random() < 0.7
        ] or [("a1", "t")]

    def one(self, among: tuple[str, ...]) -> str:
        """One of some texts."""
        return self.dice.choice(among)

    def graph(self) -> str:
        """The schema and facts."""
        said = ["p:A rdfs:subClassOf p:Any . p:B rdfs:subClassOf p:Any ."]
        said += [f'p:{name} fkg:category "A", "B", "C" .' for name in "gh"]
        said += [f"p:{name} fkg:datatype xsd:double ." for name in "tf"]
        for entity in ENTITIES:
            said.append(f"p:{entity} a p:{entity[0].upper()} .")
            for name, values, most in (
                ("lim", FIXED, 1),
                ("low", FIXED, 2),
                ("kind", tuple(f'"{text}"' for text in (*TEXTS, "x")), 1),
                ("feeds", tuple(f"p:{other}" for other in ENTITIES), 2),
            ):
                for value in self.dice.sample(values, self.dice.randint(0, most)):
                    said.append(f"p:{entity} p:{name} {value} .")
        return HEAD + sensors(self.columns) + "\n" + "\n".join(said)

    def table(self) -> Table:
        """The values of each column."""
        return {
            column: [self._cell(column[1] in "gh") for _ in range(ROWS)] for column in self.columns
        }

    def _cell(self, text: bool) -> Cell:
        if self.dice.random() < 0.2:
            return None
        return self.dice.choice(TEXTS) if text else self.dice.choice(NUMBERS)

    def number(self, depth: int) -> str:
        """A numeric expression."""
        kind = self.dice.randrange(10) if depth else self.dice.randrange(4)
        inner = lambda: self.number(depth - 1)  # noqa: E731
        if kind < 4:
            return self.one(FIXED) if kind == 0 else self.one(("?v", "?w", "?x", "?y"))
        if kind < 7:
            return f"({inner()} {self.one(('+', '-', '*'))} {inner()})"
        if kind == 7:
            return f"{self.one(('ABS', 'CEIL', 'FLOOR', 'ROUND', 'xsd:double'))}({inner()})"
        if kind == 8:
            return f"IF({self.condition(depth - 1)}, {inner()}, {inner()})"
        return f"COALESCE({inner()}, {inner()})"

    def text(self, depth: int) -> str:
        """An expression that is a text."""
        kind = self.dice.randrange(8) if depth else self.dice.randrange(4)
        inner = lambda: self.text(depth - 1)  # noqa: E731
        if kind < 4:
            return (
                f'"{self.one((*TEXTS, "x"))}"' if kind < 2 else self.one(("?g", "?h", "?k", "?y"))
            )
        if kind < 6:
            return f"IF({self.condition(depth - 1)}, {inner()}, {inner()})"
        if kind == 6:
            return f"COALESCE({inner()}, {inner()})"
        return f"{self.one(('STR', 'LCASE'))}({inner()})"

    def condition(self, depth: int) -> str:
        """A condition."""
        kind = self.dice.randrange(10) if depth > 0 else self.dice.randrange(5)
        depth = max(depth, 0)
        if kind < 2:
            return (
                f"{self.number(min(depth, 1))} {self.one(('<', '<=', '>', '>=', '=', '!='))}"
                f" {self.number(min(depth, 1))}"
            )
        if kind < 4:
            return f"{self.text(min(depth, 1))} {self.one(('=', '!='))} {self.text(min(depth, 1))}"
        if kind == 4:
            return f"BOUND({self.one(('?v', '?w', '?x', '?g', '?k', '?y'))})"
        if kind < 7:
            return (
                f"({self.condition(depth - 1)} {self.one(('&&', '||'))}"
                f" {self.condition(depth - 1)})"
            )
        if kind == 7:
            return f"!({self.condition(depth - 1)})"
        if kind == 8:
            return (
                f"{self.number(0)} {self.one(('IN', 'NOT IN'))} ({self.number(0)},"
                f" {self.number(0)})"
            )
        return f"IF({self.condition(0)}, {self.condition(0)}, {self.condition(0)})"

    def query(self) -> str:
        """One query."""
        if self.dice.random() < 0.2:
            return self._grouped()
        parts = [self.one(_STATIC), self.one(_READ)]
        self.dice.shuffle(parts)
        if self.dice.random() < 0.5:
            value = self.number(2) if self.dice.random() < 0.5 else self.text(2)
            parts.append(f"BIND({value} AS ?y)")
        for _ in range(self.dice.choice((0, 0, 1, 2))):
            parts.append(self.one(_EXTRA).replace("CONDITION", self.condition(1)))
        parts += [f"FILTER({self.condition(2)})" for _ in range(self.dice.randint(1, 2))]
        return f"{PREFIX}SELECT ?m ?n WHERE {{ {' '.join(parts)} }}"

    def _grouped(self) -> str:
        op = self.one(("SUM", "AVG", "MIN", "MAX", "COUNT"))
        argument = self.one(("?w", "?n", "*", "?g") if op == "COUNT" else _ARGUMENTS)
        having = f"{op}({argument}) {self.one(('<', '>', '=', '>='))} {self.one(FIXED)}"
        return f"{PREFIX}SELECT ?m WHERE {{ {self.one(_MEMBERS)} }} GROUP BY ?m HAVING({having})"


_STATIC = (
    "?m a p:Any .",
    "?m p:lim ?x .",
    "?m p:low ?x .",
    "?m p:kind ?k .",
    "?m p:feeds ?n .",
    "OPTIONAL { ?m p:lim ?x }",
    "",
)
_READ = (
    "?m p:t ?v .",
    "?m p:t ?v ; p:f ?w .",
    "?m p:t ?v OPTIONAL { ?m p:f ?w }",
    "{ ?m p:t ?v } UNION { ?m p:f ?v }",
    "?m p:t ?v ; p:g ?g .",
    "?m p:t ?v OPTIONAL { ?m p:g ?g }",
    "?m p:g ?g ; p:h ?h .",
)
_EXTRA = (
    "FILTER NOT EXISTS { ?m p:f ?z FILTER(CONDITION) }",
    "FILTER EXISTS { ?m p:feeds ?q . ?q p:t ?z FILTER(CONDITION) }",
    "MINUS { ?m p:f ?z FILTER(?z > 1) }",
    "OPTIONAL { ?m p:low ?u . ?m p:f ?z FILTER(?z > ?u) }",
    "FILTER NOT EXISTS { ?m p:h ?z }",
)
_MEMBERS = (
    "?n p:feeds ?m ; p:f ?w .",
    "?n p:feeds ?m ; p:t ?w . OPTIONAL { ?n p:f ?x }",
    "?n p:feeds ?m ; p:f ?w ; p:g ?g .",
    "{ ?n p:feeds ?m ; p:f ?w } UNION { ?m p:feeds ?n . ?n p:t ?w }",
)
_ARGUMENTS = (
    "?w",
    "?w * 2",
    "?w + ?x",
    "ABS(?w)",
    "IF(?w > 1, 1, 0)",
    'IF(?g = "A", ?w, 0)',
    "COALESCE(?x, ?w)",
)
_OF_NUMBERS = (
    "sh:minInclusive N",
    "sh:maxExclusive N",
    "sh:minCount 1",
    "sh:maxCount 0",
    "sh:in ( N N )",
    "sh:hasValue N",
    "sh:nodeKind sh:Literal",
)
_OF_TEXTS = (
    'sh:in ( "A" "C" )',
    'sh:hasValue "B"',
    'sh:pattern "^[AB]$"',
    "sh:minLength 2",
    "sh:minCount 1",
    "sh:maxLength 1",
)


_INSIDE = (("sh:minInclusive 1", "sh:maxExclusive 2"), ('sh:in ( "A" )', 'sh:pattern "^B"'))
"""The second alternative of `sh:or`, for numbers and for texts."""


def run(seeds: Iterator[int]) -> Counts:
    """Run one batch of queries for each seed."""
    counts = Counts()
    for seed in seeds:
        draw = Draw(seed)
        graph, table = draw.graph(), draw.table()
        queries = [draw.query() for _ in range(BATCH)]
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            ours, diagnostics = by_compiler(Path(folder), graph, queries, table, ROWS, patch)
        theirs = by_store(graph, queries, table, ROWS)
        for i, (query, mine, other) in enumerate(zip(queries, ours, theirs, strict=True)):
            counts.cases += 1
            if mine is None:
                found = [
                    item
                    for item in diagnostics
                    if item.severity == "error" and Path(item.span.file).stem == f"q{i}"
                ]
                counts.refused[reason_of(found[0].code, found[0].message)] += 1
            elif not all(map(same_violations, mine, other)):
                counts.different.append(f"seed {seed}, query {i}: {query}\n  {mine}\n  {other}")
    return counts


def reason_of(code: str, message: str) -> str:
    """A message without the names in it."""
    return f"{code}: {_NAMES.sub('_', message)}"


def main(run: Callable[[Iterator[int]], Counts], record: Path) -> int:
    """Run the recorded seeds, or those that are given; 1 if a case differs or more is refused than
    recorded.
    """
    parser = argparse.ArgumentParser(description="Compare generated cases with another engine.")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--batches", type=int, help="how many seeds; default: the recorded ones")
    parser.add_argument("--record", action="store_true", help="write what was found as the record")
    given = parser.parse_args()
    recorded = json.loads(record.read_text()) if record.exists() else {"batches": 0}
    batches = recorded["batches"] if given.batches is None else given.batches
    counts = run(iter(range(given.first, given.first + batches)))
    refused = sum(counts.refused.values())
    print(f"{counts.cases} cases, {len(counts.different)} different, {refused} refused")
    for reason, count in counts.refused.most_common():
        print(f"{count:6} {reason}")
    for case in counts.different:
        print(case)
    if given.record:
        content = {
            "first": given.first,
            "batches": batches,
            "cases": counts.cases,
            "different": len(counts.different),
            "refused": dict(counts.refused.most_common()),
        }
        record.write_text(json.dumps(content, indent=1) + "\n")
        return int(bool(counts.different))
    same = (given.first, batches) == (recorded.get("first"), recorded["batches"])
    more = [
        reason
        for reason, count in counts.refused.items()
        if same and count > recorded["refused"].get(reason, 0)
    ]
    for reason in more:
        print(f"refused more often than recorded: {reason}")
    return int(bool(counts.different or more))


if __name__ == "__main__":
    sys.exit(main(run, RECORD))
