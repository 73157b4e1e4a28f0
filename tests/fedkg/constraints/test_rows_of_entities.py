"""A table row that a shape constrains twice counts once.

The shape constrains it as the row itself and as its entity's row; modules count as `fedkg eval`
does.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

import fedkg
from fedkg.evaluation import evaluate
from fedkg.tables import read_bytes

GRAPH = """@prefix plant: <https://example.org/plant#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix unit: <http://qudt.org/vocab/unit/> .
plant:Pump fkg:keyColumn "pump" .
plant:P1 a plant:Pump . plant:P2 a plant:Pump .
plant:pressure a sosa:ObservableProperty ; fkg:column "p [bar]" ; qudt:hasUnit unit:BAR .
"""

SHAPE = """@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix plant: <https://example.org/plant#> .
plant:H a sh:NodeShape ; sh:targetClass plant:Pump ;
    sh:property [ sh:path plant:pressure ; sh:maxInclusive 9 ] .
"""

PUMPS, PRESSURES = ["P1", "P1", "P2", "P2", "P3"], [5.0, 9.5, 8.0, 9.5, 12.0]


@pytest.fixture
def pack(tmp_path: Path) -> fedkg.Pack:
    (tmp_path / "plant.ttl").write_text(GRAPH)
    (tmp_path / "s.ttl").write_text(SHAPE)
    (tmp_path / "r.fkg").write_text(
        "rows are plant:Pump\nprefix plant: <https://example.org/plant#>\nuse plant\nshapes"
        ' "s.ttl"\n'
    )
    return fedkg.compile(tmp_path / "r.fkg")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_asked_of_a_row_and_of_its_entity_counts_once(pack: fedkg.Pack) -> None:
    text = "pump,p [bar]\n" + "".join(
        f"{pump},{pressure}\n" for pump, pressure in zip(PUMPS, PRESSURES, strict=True)
    )
    told = evaluate(pack, read_bytes(text.encode(), "plant.csv")).rules[0]
    name = next(
        column.name for column in pack.manifest.contract.columns if column.source == "p [bar]"
    )
    rules = fedkg.ConstraintModule(pack, x=fedkg.columns([name], sure=True))
    report = rules(torch.tensor(PRESSURES)[:, None], keys={"pump": PUMPS})
    assert (told.satisfied, told.violated) == (2, 3)
    assert (int(report.satisfied.sum()), int(report.violated.sum())) == (2, 3)
    assert math.isclose(report.violation_rate, 3 / 5)
    assert not rules(
        torch.tensor(PRESSURES)[:, None]
    ).inactive  # without keys each row is evaluated all the same
