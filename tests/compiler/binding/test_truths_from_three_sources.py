"""Columns of truth values in rules, queries and shapes.

Each is a yes/no condition, and what it guards retains its margin.
"""

from __future__ import annotations

from pathlib import Path

from fedkg.evaluation import evaluate
from fedkg.pack import CategoryIs, Compare, Pack, Slot, everywhere, used_params
from fedkg.tables import read_bytes
from fedkg_compiler import compile_rules

RULES = """prefix plant: <https://example.org/plant#>
signal valve(?m) is plant:valve in boolean
signal p(?m) is plant:p in bar
rule plain for ?m in class plant:Pump require if valve(?m) is on then p(?m) <= 3 bar
rule numbered for ?m in class plant:Pump require if valve(?m) >= 1 then p(?m) <= 3 bar
rule counted require at least 2 of (valve(?m) is on) over ?m in class plant:Pump
rule wanted for ?m, ?w where { ?m plant:wanted ?w } require valve(?m) is ?w
queries "query.rq"
queries "equal.rq"
shapes "shapes.ttl"
"""
QUERY = """PREFIX plant: <https://example.org/plant#>
SELECT ?m WHERE {{ ?m a plant:Pump ; plant:valve ?v ; plant:p ?p . FILTER({} && ?p > 3) }}
"""
GRAPH = """@prefix plant: <https://example.org/plant#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
plant:Pump a owl:Class .
plant:a a plant:Pump ; plant:wanted "yes" . plant:b a plant:Pump ; plant:wanted "off" .
""" + "".join(
    f"plant:{pump}{number} sosa:observes plant:{what} ; sosa:isHostedBy plant:{pump} ; fkg:column"
    f' "{what[0]}{pump}" .\n'
    for pump in "ab"
    for number, what in enumerate(("valve", "p"))
)
SHAPES = """@prefix plant: <https://example.org/plant#> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
plant:S a sh:NodeShape ; sh:targetClass plant:Pump ;
  sh:or ( [ sh:property [ sh:path plant:valve ; sh:hasValue false ] ]
          [ sh:property [ sh:path plant:p ; sh:maxInclusive 3 ] ] ) .
plant:T a sh:NodeShape ; sh:targetClass plant:Pump ;
    sh:property [ sh:path plant:valve ; sh:minInclusive 1 ] .
"""
TABLE = b"va,vb,pa,pb\n1,0,33,33\non,off,2,2\nno,1,33,8\n"


def pack_of(folder: Path) -> Pack:
    queries = {"query.rq": QUERY.format("?v"), "equal.rq": QUERY.format("1 = ?v")}
    files = {"rules.fkg": RULES, "graph.ttl": GRAPH, "shapes.ttl": SHAPES, **queries}
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    compilation = compile_rules([folder / "rules.fkg"], graphs=[folder / "graph.ttl"], reason=False)
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    return compilation.pack


def test_no_comparison_reads_a_truth_value(tmp_path: Path) -> None:
    pack = pack_of(tmp_path)
    types = [column.type for column in pack.manifest.contract.columns]
    for bank in pack.banks:
        parts = list(everywhere(bank.skeleton))
        assert any(isinstance(part, CategoryIs) for _, part in parts)
        compared = {
            i.index
            for _, atom in parts
            if isinstance(atom, Compare)
            for i in (atom.left, atom.right)
            if isinstance(i, Slot)
        }
        assert all(
            types[column] == "real" for column in bank.slots[:, sorted(compared)].ravel().tolist()
        )
        assert bank.members or used_params(bank.skeleton, -1) == set(range(bank.params.shape[1]))


def test_each_is_missed_by_what_it_guards(tmp_path: Path) -> None:
    found = {
        result.rule: result
        for result in evaluate(pack_of(tmp_path), read_bytes(TABLE, "t.csv")).rules
    }
    worst = {name: result.worst for name, result in found.items()}
    for name in ("plain", "numbered", "query", "equal", "S.or"):
        assert (found[name].satisfied, found[name].violated) == (4, 2)
        told = worst[name]
        assert told is not None
        assert (told.robustness, told.row, told.unit) == (-30, 1, "bar")
    decided = {"counted": (0, 3), "wanted": (4, 2), "T.valve.minInclusive": (3, 3)}
    assert {name: (found[name].satisfied, found[name].violated) for name in decided} == decided
