"""`use rules`: files of the library as parts of a compilation, on the user's graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkg.authoring import render
from fedkg.evaluation import evaluate
from fedkg.tables import read_table
from fedkg_compiler import compile_rules
from fedkg_compiler.compilation_result import Compilation
from fedkg_compiler.frontends.fkg.binding.library import library_names
from fedkg_compiler.input_files import data_folder, library_path, recording

LIMITS = data_folder("rules") / "isa95" / "limits.ttl"
CAPACITY = data_folder("rules") / "isa95" / "capacity.ttl"


def used(text: str, *graphs: Path) -> Compilation:
    return compile_rules(text=text, graphs=graphs)


def names(compilation: Compilation) -> list[str]:
    assert compilation.pack is not None, [item.message for item in compilation.diagnostics]
    return [record.name for record in compilation.pack.manifest.rules]


def test_a_file_is_taken_once_however_often_it_is_named() -> None:
    once = used("use rules isa95.limits, isa95.capacity\n", LIMITS, CAPACITY)
    often = used("use rules isa95\nuse rules isa95.limits, isa95\n", LIMITS, CAPACITY)
    assert names(once) == names(often)
    assert len(names(once)) == 4


def test_a_users_rule_may_have_the_name_of_one_in_the_library() -> None:
    text = "use rules isa95.limits\nsignal p in bar\nrule equipment_limits require p <= 3\n"
    assert {"equipment_limits", "isa95.limits.equipment_limits"} <= set(names(used(text, LIMITS)))


def test_a_file_that_is_compiled_itself_is_not_taken_again() -> None:
    path = data_folder("rules") / "isa95" / "limits.fkg"
    both = compile_rules([path], text="use rules isa95.limits\n", graphs=[LIMITS])
    assert names(both) == ["equipment_limits", "class_limits", "material_limits"]


def test_templates_are_used_by_name() -> None:
    head = "use rules templates.operational_range\ntimeline step 1 h\nsignal v in m3\n"
    compilation = used(f"{head}rule r require follows operational_range(v, 1, 9, 0 h, 2 h)\n")
    assert names(compilation) == ["r"]
    assert [item.message for item in compilation.diagnostics] == []


def test_a_template_that_is_not_taken_yet_is_asked_for() -> None:
    text = "signal v in m3\nrule r require follows operational_range(v, 1, 9, 0 h, 2 h)\n"
    [found] = used(text).diagnostics
    assert (found.code, found.help) == ("FKG265", "write: use rules templates.operational_range")
    text = (
        "signal v in m3\ninfer s per client find ?low, ?high in operational_range(v, ?low, ?high, 0"
        " h, 2 h)\n"
    )
    [found] = used(text).diagnostics
    assert (found.code, found.help) == ("FKG265", "write: use rules templates.operational_range")
    [found] = used("signal v in m3\nrule r require follows within_capacity(v)\n").diagnostics
    assert found.help == (
        "it is a rule of the library, not a template; include it: use rules isa95.capacity"
    )


def test_a_signal_may_have_the_name_of_a_parameter_in_the_library() -> None:
    head = "use rules templates\ntimeline step 1 h\nsignal x in m3\n"
    assert (
        used(f"{head}rule r require follows operational_range(x, 1, 9, 0 h, 2 h)\n").diagnostics
        == ()
    )
    own = used(f"{head}template mine(x) = x <= 9\nrule r require follows mine(x)\n").diagnostics
    assert [item.code for item in own] == ["FKG268"]


def test_the_cache_knows_what_was_read() -> None:
    with recording() as inputs:
        used("use rules isa95\n", LIMITS)
    read = {Path(path).name for path in inputs.files}
    assert {"limits.fkg", "balances.fkg"} <= read
    assert any(pattern == "*/*.fkg" for _, pattern in inputs.listings)


def test_a_declared_signal_gives_its_unit_and_role(tmp_path: Path) -> None:
    text = 'use rules isa95.limits\noutput pressure in kPa span 0 .. 1000 column "PI7"\n'
    pack = used(text, LIMITS).pack
    assert pack is not None
    columns = {column.source: column for column in pack.manifest.contract.columns}
    assert (columns["PI7"].name, columns["PI7"].role) == ("pressure", "output")
    assert columns["TI9"].role == "input"
    assert {record.name: record.output for record in pack.manifest.rules}[
        "isa95.limits.equipment_limits"
    ]


def test_rows_of_many_machines_in_one_column_are_distinguished(tmp_path: Path) -> None:
    (tmp_path / "plant.ttl").write_text(
        """@prefix plant: <https://example.org/plant#> . @prefix fkg: <https://w3id.org/fedkg/ns#> .
        @prefix unit: <http://qudt.org/vocab/unit/> .
        @prefix isa95: <http://www.w3id.org/hsu-aut/DINEN62264-2#> .
        @prefix qudt: <http://qudt.org/schema/qudt/> .
        isa95:Work_Cell fkg:keyColumn "machine" .
        plant:torque fkg:column "torque" ; qudt:hasUnit unit:N-M .
        plant:M1 a isa95:Work_Cell ;
            fkg:hasLimit [ a fkg:Limit ; fkg:limits plant:torque ; fkg:highLimit 50 ] .
        plant:M2 a isa95:Work_Cell ; fkg:keyValue "M-2" ;
          fkg:hasLimit [ a fkg:Limit ; fkg:limits plant:torque ;
              fkg:highLimit [ qudt:numericValue 0.06 ; qudt:hasUnit unit:KiloN-M ] ] .
        plant:M3 a isa95:Work_Cell ;
            fkg:hasLimit [ a fkg:Limit ; fkg:limits plant:unseen ; fkg:highLimit 50 ] .
        """,
        encoding="utf-8",
    )
    (tmp_path / "table.csv").write_text(
        "machine,torque\nM1,55\nM-2,55\nM-2,61\nM9,99\n", encoding="utf-8"
    )
    compilation = used("use rules isa95.limits\n", tmp_path / "plant.ttl")
    assert compilation.pack is not None
    (rule,) = evaluate(compilation.pack, read_table(tmp_path / "table.csv")).rules
    assert (rule.bound_rows, rule.satisfied, rule.violated) == (2, 1, 2)
    assert rule.worst is not None
    assert rule.worst.entity == "M1, torque"
    said = {item.code: item for item in compilation.diagnostics}
    assert said["FKG542"].severity == "info"
    assert said["FKG542"].span.file == "rules/isa95/limits.fkg"
    assert "unseen of M3" in said["FKG542"].message
    assert "value(?property, ?equipment)" in render([said["FKG542"]])


def test_the_source_of_a_library_file_is_found_by_its_name_in_diagnostics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert library_path(Path("rules/isa95/limits.fkg")) == LIMITS.with_suffix(".fkg")
    assert library_path(Path("rules/isa95/none.fkg")) is None
    (tmp_path / "rules" / "isa95").mkdir(parents=True)
    (tmp_path / "rules" / "isa95" / "limits.fkg").write_text("", encoding="utf-8")
    assert library_path(Path("rules/isa95/limits.fkg")) is None


def test_every_file_of_the_library_compiles_on_a_graph_that_has_nothing_of_it(
    tmp_path: Path,
) -> None:
    text = f"use rules {', '.join(library_names())}\nsignal p in bar\nrule r require p <= 3\n"
    compilation = used(text)
    assert names(compilation) == ["r"]
    assert {item.code for item in compilation.diagnostics} == {"FKG541"}
    assert all(item.span.file == "<text>" for item in compilation.diagnostics)
