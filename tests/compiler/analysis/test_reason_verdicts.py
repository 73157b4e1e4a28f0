"""Verdicts about rules that interact: each comes with a proof that the interpreter confirms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedkg.evaluation.witness_verdict import replay
from fedkg.pack import Pack
from fedkg_compiler import compile_rules
from fedkg_compiler.analysis import Verdict, reason

SIGNALS = """\
signal torque in N.m span 0 .. 100
signal speed in rpm span 0 .. 3000
signal wear in min span 0 .. 200
signal pressure in bar
signal variant
output failure in probability span 0 .. 1
label grade classes A, B, C
"""


def verdicts(rules: str, signals: str = SIGNALS) -> tuple[Pack, list[Verdict]]:
    compilation = compile_rules(text=signals + rules, reason=False)
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    return compilation.pack, list(reason(compilation.pack))


def verdict_triples(rules: str, signals: str = SIGNALS) -> list[tuple[str, tuple[str, ...], str]]:
    return [(one.kind, one.rules, one.decided_by) for one in verdicts(rules, signals)[1]]


def confirm(pack: Pack, verdict: Verdict) -> None:
    """Each row can be left out: its witness satisfies all the others."""
    assert len(verdict.keeps) == len(verdict.rows)
    for left_out, witness in zip(verdict.rows, verdict.keeps, strict=True):
        assert witness is not None
        values = witness.matrix(pack.manifest.contract)
        for ref in verdict.rows:
            if ref != left_out:
                assert (
                    replay(
                        pack, ref.bank, ref.row, values, -min(one.step for one in witness.readings)
                    )
                    == "satisfied"
                )


CONFLICTS = {
    "two bounds": (
        "rule a require torque >= 70 N.m\nrule b require torque <= 60 N.m\n",
        ("a", "b"),
        "interval",
    ),
    "two units": (
        "rule a require pressure >= 7 bar\nrule b require pressure <= 600 kPa\n",
        ("a", "b"),
        "interval",
    ),
    "strict at one value": (
        "rule a require torque >= 5 N.m\nrule b require torque < 5 N.m\n",
        ("a", "b"),
        "interval",
    ),
    "a tolerance that is too small": (
        "rule a require torque == 5 N.m +/- 1 N.m\nrule b require torque >= 6.5 N.m\n",
        ("a", "b"),
        "interval",
    ),
    "a sum": (
        (
            "rule a require torque + pressure * 1 N.m/bar <= 5\nrule b require torque >= 4"
            " N.m\nrule c require pressure >= 2 bar\n"
        ),
        ("a", "b", "c"),
        "z3",
    ),
    "a product": (
        "rule a require torque * speed >= 9 kW\nrule b require torque <= 10 N.m\n",
        ("a", "b"),
        "z3",
    ),
    "categories": ("rule a require variant is H\nrule b require variant is L\n", ("a", "b"), "z3"),
    "classes": (
        "rule a require grade is A or grade is B\nrule b require grade is C\n",
        ("a", "b"),
        "z3",
    ),
    "an absolute value": (
        "rule a require abs(pressure) <= 1 bar\nrule b require pressure > 2 bar\n",
        ("a", "b"),
        "z3",
    ),
    "extremes": (
        (
            "rule a require max(torque, 10 N.m) <= 20 N.m\nrule b require min(torque, 30 N.m) >= 25"
            " N.m\n"
        ),
        ("a", "b"),
        "z3",
    ),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_a_conflict_and_its_proof(name: str) -> None:
    rules, expected, method = CONFLICTS[name]
    pack, found = verdicts(rules)
    assert [(one.kind, one.rules, one.decided_by) for one in found if one.kind == "conflict"] == [
        ("conflict", expected, method)
    ]
    confirm(pack, next(one for one in found if one.kind == "conflict"))


QUIET = {
    "touching bounds": "rule a require torque >= 5 N.m\nrule b require torque <= 5 N.m\n",
    "touching after conversion": (
        "rule a require pressure >= 6 bar\nrule b require pressure <= 600 kPa\n"
    ),
    "a tenth and two": (
        "rule a require torque >= 0.3 N.m\nrule b require torque - 0.1 N.m <= 0.2 N.m\n"
    ),
    "a bound at the end of its span": (
        "rule a require torque <= 100 N.m\nrule b require torque >= 0 N.m\n"
    ),
    "conditions that exclude each other": (
        "rule a require if speed > 2000 rpm then failure >= 0.5\nrule b require if speed < 100 rpm"
        " then failure < 0.4\n"
    ),
    "a soft rule inside a hard one": (
        "rule a hard require torque <= 70 N.m\nrule b require torque <= 60 N.m\n"
    ),
}


@pytest.mark.parametrize("name", QUIET)
def test_nothing_is_said_where_nothing_is_wrong(name: str) -> None:
    assert verdict_triples(QUIET[name]) == []


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("rule a require speed >= 4000 rpm\n", ("outside", ("a",), "interval")),
        ("rule a require wear <= 300 min\n", ("never_fails", ("a",), "interval")),
        ("rule a require torque * wear <= 30000 N.m.min\n", ("never_fails", ("a",), "z3")),
        ("rule a require if wear > 250 min then failure >= 0.5\n", ("never_applies", ("a",), "z3")),
        (
            (
                "rule a require if wear > 150 min then failure >= 0.5\nrule b hard require wear <="
                " 100 min\n"
            ),
            ("never_applies", ("a", "b"), "z3"),
        ),
        (
            "rule a require torque <= 60 N.m\nrule b require torque <= 70 N.m\n",
            ("redundant", ("b", "a"), "interval"),
        ),
        (
            "rule a require wear <= 60 min\nrule b require wear <= 1 h\n",
            ("duplicate", ("b", "a"), "interval"),
        ),
        (
            "rule a require torque * speed <= 9 kW\nrule b require torque * speed <= 10 kW\n",
            ("redundant", ("b", "a"), "interval"),
        ),
        (
            (
                "rule a require abs(pressure) <= 1 bar\nrule b require pressure * pressure <= 4"
                " bar^2\n"
            ),
            ("redundant", ("b", "a"), "z3"),
        ),
        (
            "rule a require torque >= 70 N.m and torque <= 60 N.m\n",
            ("conflict", ("a",), "interval"),
        ),
        (
            "rule a require if pressure > 5 bar then pressure < 3 bar\n",
            ("conditional", ("a",), "z3"),
        ),
    ],
)
def test_one_verdict(rules: str, expected: tuple[str, tuple[str, ...], str]) -> None:
    assert verdict_triples(rules) == [expected]


def test_a_condition_under_which_rules_contradict_each_other() -> None:
    pack, found = verdicts(
        "rule a require if speed > 2000 rpm then failure >= 0.5\nrule b require if speed > 1500 rpm"
        " then failure < 0.4\n"
    )
    (one,) = found
    assert (one.kind, one.rules) == ("conditional", ("a", "b"))
    confirm(pack, one)


def test_the_later_of_three_equal_rules_goes() -> None:
    found = verdicts(
        "rule a require torque <= 60 N.m\nrule b require torque <= 60 N.m\nrule c require torque <="
        " 60 N.m\n"
    )[1]
    assert [one.rules[0] for one in found] == ["b", "c"]


STEPS = "timeline step 1 min\n" + SIGNALS


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (
            (
                "rule a require always [0, 3 min] torque <= 3 N.m\nrule b require eventually within"
                " 30 min torque >= 5 N.m\n"
            ),
            "conflict",
        ),
        ("rule a require torque <= 3 N.m\nrule b require next torque >= 5 N.m\n", "conflict"),
        (
            "rule a require torque <= 3 N.m\nrule b require speed <= 1 rpm until torque >= 5 N.m\n",
            "conflict",
        ),
        (
            (
                "rule a require if torque >= 2 N.m then next torque >= 5 N.m\nrule b require torque"
                " <= 3 N.m\n"
            ),
            "conditional",
        ),
    ],
)
def test_rules_over_several_steps(rules: str, expected: str) -> None:
    assert [(one.kind, set(one.rules)) for one in verdicts(rules, STEPS)[1]] == [
        (expected, {"a", "b"})
    ]


def test_rules_over_several_steps_that_go_together() -> None:
    rules = (
        "rule a require if torque >= 5 N.m then eventually within 10 min torque <= 2 N.m\nrule b"
        " require torque <= 9 N.m\n"
    )
    assert verdicts(rules, STEPS)[1] == []


def test_every_zone_is_counted_and_equal_ones_are_looked_at_once() -> None:
    plant = "\n".join(f"zone{i},{70 if i % 4 == 0 else 10},60" for i in range(40))
    rules = 'rule low for ?tag, ?low, ?high in table "t.csv" require value(?tag) >= ?low\n'
    rules += 'rule high for ?tag, ?low, ?high in table "t.csv" require value(?tag) <= ?high\n'
    compilation = _with_sheet("tag,low,high\n" + plant + "\n", rules)
    (one,) = reason(compilation)
    assert (one.kind, one.rules, one.places) == ("conflict", ("low", "high"), 10)
    assert one.entities[0] == "zone0"


def _with_sheet(sheet: str, rules: str) -> Pack:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "t.csv").write_text(sheet, encoding="utf-8")
        (Path(folder) / "r.fkg").write_text(rules, encoding="utf-8")
        pack = compile_rules([Path(folder) / "r.fkg"], reason=False).pack
    assert pack is not None
    return pack


@pytest.mark.slow
def test_very_many_linear_rules_go_to_linear_programming() -> None:
    count = 400
    text = "".join(f"signal x{i} in bar span 0 .. 100\n" for i in range(count + 1))
    text += "".join(f"rule r{i} require x{i} + 1 bar <= x{i + 1}\n" for i in range(count))
    compilation = compile_rules(text=text, reason=False)
    assert compilation.pack is not None
    (one,) = reason(compilation.pack)
    assert (one.kind, one.decided_by) == ("conflict", "lp")
    assert 100 < len(one.rules) < 130  # 101 of them do not fit into the spans


def test_what_is_not_decided_is_reported() -> None:
    from fedkg_compiler.analysis import Budget

    pack, _ = verdicts(
        "rule a require torque * speed >= 20 kW\nrule b require torque + speed * 1 N.m/rpm <= 90"
        " N.m\n"
    )
    found = reason(pack, Budget(total=0))
    assert [(one.kind, one.rules, one.detail) for one in found] == [
        ("undecided", ("a", "b"), "time")
    ]


def test_witnesses_are_matrices_of_the_contract() -> None:
    pack, (one,) = verdicts("rule a require torque >= 70 N.m\nrule b require torque <= 60 N.m\n")
    assert one.keeps[0] is not None
    matrix = one.keeps[0].matrix(pack.manifest.contract)
    assert matrix.shape == (1, 1, 1)
    assert np.isfinite(matrix).all()


def test_of_very_many_findings_alike_the_first_are_reported_and_the_others_counted() -> None:
    from fedkg_compiler.pipeline import compile_rules

    rules = "".join(f"rule r{i:03d} require torque <= {70 + i / 100} N.m\n" for i in range(60))
    found = compile_rules(text="signal torque in N.m span 0 .. 80\n" + rules)
    told = [item.message for item in found.diagnostics if item.code == "FKG505"]
    assert len(told) == 40
    assert [message for message in told if "the same for 19 more" in message] == told[-1:]


def test_a_rule_that_needs_no_other_to_follow_never_fails() -> None:
    spans = "signal x in bar span 0 .. 10\nsignal y in bar span 0 .. 10\n"
    rules = "rule a require x + y <= 20 bar\nrule b require x * y <= 40 bar^2\n"
    assert verdict_triples(rules, spans) == [("never_fails", ("a",), "z3")]
    pack, _ = verdicts(rules, spans)
    assert replay(pack, 0, 0, np.full((1, 1, 2), 10.0)) == "satisfied"
    single = "rule a require x <= 10 bar\nrule b require x + y <= 15 bar\n"
    assert verdict_triples(single, spans) == []


@pytest.mark.parametrize(
    ("rule", "detail"),
    [
        ("if x == 0 bar then y / x > 5", "unknown"),
        ("if x < 0 bar then log(x * 1 bar^-1) > 1", "unknown"),
        ("if x > 12 bar then x > 11 bar", ""),
    ],
)
def test_what_is_unknown_does_not_always_hold(rule: str, detail: str) -> None:
    pack, found = verdicts(f"rule a require {rule}\n", "signal x in bar\nsignal y in bar\n")
    assert [(one.kind, one.detail) for one in found] == [("never_fails", detail)]
    columns = len(pack.manifest.contract.columns)
    told = {replay(pack, 0, 0, np.full((1, 1, columns), value)) for value in (-1.0, 0.0, 13.0)}
    assert told == ({"satisfied", "unknown"} if detail else {"satisfied"})


def test_a_conflict_over_steps_has_proofs_that_the_interpreter_replays() -> None:
    rules = (
        "rule a require torque <= 3 N.m\nrule b require eventually within 30 min torque >= 5 N.m\n"
    )
    pack, (one,) = verdicts(rules, STEPS)
    assert one.kind == "conflict"
    without_a, without_b = one.keeps
    assert without_a is not None
    assert without_b is not None
    for witness, kept in ((without_a, 1), (without_b, 0)):
        values = witness.matrix(pack.manifest.contract)
        assert (
            replay(pack, one.rows[kept].bank, one.rows[kept].row, values, witness.now)
            == "satisfied"
        )


SHAPES = """\
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix plant: <https://example.org/plant#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
plant:state a rdf:Property .
plant:Pump fkg:keyColumn "pump" .
plant:P1 a plant:Pump .
plant:S a sh:NodeShape ; sh:targetClass plant:Pump ;
    sh:property [ sh:path plant:state ; sh:in ("on" "off") ; sh:minCount 1 ] .
"""


def test_presence_does_not_follow_from_a_rule_that_an_empty_cell_leaves_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plant.ttl").write_text(SHAPES)
    text = (
        "prefix plant: <https://example.org/plant#>\nsignal state(?p) is plant:state column"
        ' "state"\nshapes "plant.ttl"\n'
    )
    compilation = compile_rules(text=text, graphs=[tmp_path / "plant.ttl"], reason=False)
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    assert sum(bank.rows for bank in compilation.pack.banks) == 2
    assert reason(compilation.pack) == ()


def test_a_chain_over_a_value_that_may_be_missing_makes_nothing_redundant() -> None:
    chain = "rule a require torque <= pressure * 1 N.m/bar\nrule b require pressure <= 7 bar\n"
    assert (
        verdict_triples(
            chain + "rule c require torque <= 8 N.m and torque * torque <= 64 N^2.m^2\n"
        )
        == []
    )
    near = (
        "rule a require torque * torque <= 49 N^2.m^2 and wear <= 9 min\nrule c require torque *"
        " torque <= 64 N^2.m^2\n"
    )
    assert verdict_triples(near) == [("redundant", ("c", "a"), "z3")]
