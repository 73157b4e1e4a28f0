"""The pipeline as a whole: files in, packs and diagnostics out, no exceptions."""

from __future__ import annotations

import gc
import os
import random
import shutil
from itertools import permutations
from pathlib import Path

import pytest

from fedkg_compiler import compile_rules
from fedkg_compiler.pipeline import TEXT

GOLDEN = Path(__file__).parents[1] / "golden"

SIGNALS = (
    "signal torque(?m) is plant:torque span 0 .. 80\nsignal speed in rpm\noutput failure in"
    " probability span 0 .. 1\n"
)
PREFIX = "prefix plant: <https://example.org/plant#>\n"
CAPACITY = (
    "rule cap for ?m, ?x where { ?m plant:maxTorque ?x } require torque(?m) <= ?x\nrule fast"
    " require speed <= 3000\n"
)
RISK = """
rule risk weight 2 require if speed > 2500 then failure >= 0.5
rule tags for ?tag, ?high in table "limits.csv" require value(?tag) <= ?high
"""


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path in (GOLDEN / "plant").iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "signals.fkg").write_text(PREFIX + SIGNALS, encoding="utf-8")
    (tmp_path / "capacity.fkg").write_text(CAPACITY, encoding="utf-8")
    (tmp_path / "risk.fkg").write_text(RISK, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def codes(*paths: str | Path, text: str | None = None) -> list[str]:
    return [
        problem.code
        for problem in compile_rules(
            [Path(path) for path in paths], text=text, reason=False
        ).diagnostics
    ]


def test_three_lines_and_nothing_else() -> None:
    compilation = compile_rules(text="rule cap require torque <= 60\n")
    assert compilation.diagnostics == ()
    assert compilation.pack is not None
    assert compilation.pack.rows == 1
    assert [column.name for column in compilation.pack.manifest.contract.columns] == ["torque"]


@pytest.mark.slow
def test_the_bytes_do_not_depend_on_the_order_of_files(plant: Path) -> None:
    files = [Path("signals.fkg"), Path("capacity.fkg"), Path("risk.fkg"), Path("plant.ttl")]
    packs = [compile_rules(order).pack for order in permutations(files)]
    bytes_ = {pack.to_bytes() for pack in packs if pack is not None}
    assert len(bytes_) == 1
    assert None not in packs


def test_the_bytes_do_not_depend_on_the_folder(
    plant: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("elsewhere")
    for path in plant.iterdir():
        shutil.copy(path, other)
    names = ("signals.fkg", "capacity.fkg", "risk.fkg", "plant.ttl")
    here, there = (
        compile_rules([Path(name) for name in names]).pack,
        compile_rules([other / name for name in names]).pack,
    )
    assert here is not None
    assert there is not None
    assert here.to_bytes() == there.to_bytes()


def test_provenance_names_every_file_and_the_graphs_by_what_they_say(plant: Path) -> None:
    pack = compile_rules(
        [Path("signals.fkg"), Path("capacity.fkg"), Path("risk.fkg"), Path("plant.ttl")]
    ).pack
    assert pack is not None
    sources = pack.manifest.provenance.sources
    named = {(source.kind, source.name) for source in sources if source.kind != "ontology"}
    assert named == {
        ("graph", "graph"),
        ("rules", "capacity.fkg"),
        ("rules", "risk.fkg"),
        ("rules", "signals.fkg"),
        ("sheet", "limits.csv"),
    }
    assert all(len(source.sha256) == 64 for source in sources)


def test_rules_are_recorded(plant: Path) -> None:
    pack = compile_rules(
        [Path("signals.fkg"), Path("capacity.fkg"), Path("risk.fkg"), Path("plant.ttl")]
    ).pack
    assert pack is not None
    records = {record.name: record for record in pack.manifest.rules}
    assert list(records) == ["cap", "fast", "risk", "tags"]
    assert records["risk"].output
    assert not records["cap"].output
    assert records["risk"].weight == 2
    assert records["risk"].file == "risk.fkg"
    assert records["fast"].line == 2
    assert records["fast"].text == "rule fast require speed <= 3000"


def test_the_weight_of_a_rule_is_shared_by_its_rows(plant: Path) -> None:
    pack = compile_rules(
        [Path("signals.fkg"), Path("capacity.fkg"), Path("risk.fkg"), Path("plant.ttl")]
    ).pack
    assert pack is not None
    total: dict[str, float] = {}
    for bank in pack.banks:
        for rule, weight in zip(bank.rule.tolist(), bank.weight.tolist(), strict=True):
            name = pack.manifest.rules[rule].name
            total[name] = total.get(name, 0.0) + weight
    assert total == pytest.approx({"cap": 1.0, "fast": 1.0, "risk": 2.0, "tags": 1.0})


def test_a_file_twice_counts_once(plant: Path) -> None:
    once = compile_rules([Path("signals.fkg"), Path("capacity.fkg"), Path("plant.ttl")])
    twice = compile_rules(
        [
            Path("signals.fkg"),
            Path("capacity.fkg"),
            plant / "capacity.fkg",
            Path("plant.ttl"),
            Path("plant.ttl"),
        ]
    )
    assert once.pack is not None
    assert twice.pack is not None
    assert once.pack.to_bytes() == twice.pack.to_bytes()


def test_the_same_declarations_in_two_files_are_fine(plant: Path) -> None:
    (plant / "more.fkg").write_text(
        PREFIX + SIGNALS + "rule slow require speed >= 10\n", encoding="utf-8"
    )
    assert codes("signals.fkg", "capacity.fkg", "more.fkg", "plant.ttl") == []


def test_different_declarations_in_two_files_are_not(plant: Path) -> None:
    (plant / "more.fkg").write_text(
        "signal speed in 1/min\nrule slow require speed >= 10\n", encoding="utf-8"
    )
    found = compile_rules(
        [Path("signals.fkg"), Path("capacity.fkg"), Path("more.fkg"), Path("plant.ttl")]
    ).diagnostics
    assert [problem.code for problem in found] == ["FKG203"]
    assert {found[0].span.file, found[0].related[0].span.file} == {"signals.fkg", "more.fkg"}


def test_errors_of_all_files_come_in_the_order_of_the_files(plant: Path) -> None:
    Path("b.fkg").write_text(
        "rule b require torqe <= 3\nrule b2 require (speed <= 3\n", encoding="utf-8"
    )
    Path("a.fkg").write_text("signal speed in Bar\nrule a require torqe2 <= 3\n", encoding="utf-8")
    found = compile_rules([Path("b.fkg"), Path("a.fkg")]).diagnostics
    assert [(problem.span.file, problem.span.line, problem.code) for problem in found] == [
        ("b.fkg", 1, "FKG200"),
        ("b.fkg", 2, "FKG005"),
        ("a.fkg", 1, "FKG211"),
        ("a.fkg", 2, "FKG200"),
    ]


def test_files_that_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "folder.fkg").mkdir()
    (tmp_path / "noise.fkg").write_bytes(random.Random(3).randbytes(20_000))
    (tmp_path / "empty.fkg").write_bytes(b"")
    (tmp_path / "broken.ttl").write_text("@prefix : <", encoding="utf-8")
    assert codes(tmp_path / "missing.fkg") == ["FKG240"]
    assert codes(tmp_path / "folder.fkg") == ["FKG240"]
    assert codes(tmp_path / "empty.fkg") == ["FKG241"]
    assert codes("bad\0name.fkg") == ["FKG240"]
    assert codes() == ["FKG241"]
    noise = compile_rules([tmp_path / "noise.fkg"])
    assert noise.pack is None
    assert noise.diagnostics
    graph = compile_rules([tmp_path / "broken.ttl"], text="rule a require torque <= 3\n")
    assert graph.pack is None
    assert all(problem.span.file.endswith("broken.ttl") for problem in graph.diagnostics)
    assert (
        compile_rules([tmp_path / "missing.ttl"], text="rule a require torque <= 3\n").pack is None
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "secret.fkg"
    path.write_text("rule a require torque <= 3\n", encoding="utf-8")
    path.chmod(0)
    assert codes(path) == ["FKG240"]


def test_a_text_has_a_name_of_its_own() -> None:
    (problem,) = compile_rules(text="rule a require torque <= 3 foobars\n").diagnostics
    assert problem.span.file == TEXT
    assert (problem.span.line, problem.span.column) == (1, 28)


def test_checking_makes_no_pack() -> None:
    compilation = compile_rules(text="rule a require torque <= 3\n", check_only=True)
    assert compilation.pack is None
    assert compilation.diagnostics == ()


def test_the_timeline_is_in_the_contract() -> None:
    text = (
        'timeline time column "Zeit" step 5 min trace column "heat"\nrule a require torque <= 3\n'
    )
    pack = compile_rules(text=text).pack
    assert pack is not None
    contract = pack.manifest.contract
    assert (contract.kind, contract.time, contract.step, contract.trace) == (
        "panel",
        "Zeit",
        300.0,
        "heat",
    )
    plain = compile_rules(text="rule a require torque <= 3\n").pack
    assert plain is not None
    assert plain.manifest.contract.kind == "table"


@pytest.mark.slow
def test_mutated_rule_files_never_raise(plant: Path) -> None:
    source = PREFIX + SIGNALS + CAPACITY + RISK
    dice = random.Random(7)
    pieces = [
        "torque",
        "?m",
        "?x",
        "<=",
        "bar",
        "degC",
        "not",
        "if",
        "then",
        "(",
        ")",
        "3",
        "never falls",
        "value",
        "{",
        "\n",
        "as",
        "^2",
        "/",
    ]
    for _ in range(150):
        words = source.split(" ")
        for _ in range(dice.randint(1, 3)):
            at = dice.randrange(len(words))
            words[at] = dice.choice([*pieces, words[dice.randrange(len(words))], ""])
        compilation = compile_rules([Path("plant.ttl")], text=" ".join(words))
        assert (compilation.pack is None) == any(
            problem.severity == "error" for problem in compilation.diagnostics
        )
        assert list(compilation.diagnostics) == sorted(
            compilation.diagnostics,
            key=lambda problem: (problem.span.file != TEXT, problem.span, problem.code),
        )


def test_each_rule_file_uses_the_graphs_beside_it(tmp_path: Path) -> None:
    files = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        body = (
            f"@prefix {name}: <https://example.org/{name}#> .\n{name}:a a {name}:Pump ;"
            f" {name}:limit 3 .\n"
        )
        (folder / f"{name}.ttl").write_text(body, encoding="utf-8")
        rule = (
            f"use {name}\nrule r_{name} for ?x, ?y where {{ ?x {name}:limit ?y }} require `p` <="
            " ?y\n"
        )
        (folder / f"{name}.fkg").write_text(rule, encoding="utf-8")
        files.append(folder / f"{name}.fkg")
    compilation = compile_rules(files)
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    assert len(compilation.pack.manifest.rules) == 2


def test_a_compilation_leaves_the_search_for_garbage_as_it_was() -> None:
    try:
        for enabled in (False, True):
            (gc.enable if enabled else gc.disable)()
            codes(text=PREFIX + SIGNALS)
            assert gc.isenabled() is enabled
    finally:
        gc.enable()


def test_a_cause_that_nothing_fits_is_reported_once(tmp_path: Path) -> None:
    (tmp_path / "p.ttl").write_text(
        "@prefix ex: <https://example.org/p#> .\nex:A ex:feeds ex:B .\n"
    )
    text = (
        "prefix ex: <https://example.org/p#>\ncause flow for ?a, ?b where { ?a ex:feeds ?b . ?b"
        " ex:feeds ?a } allow ?a drives ?b\n"
    )
    found = compile_rules((), text=text, graphs=[tmp_path / "p.ttl"]).diagnostics
    assert [(one.code, one.severity) for one in found] == [("FKG173", "error")]
