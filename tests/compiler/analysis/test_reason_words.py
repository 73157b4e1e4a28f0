"""Diagnostics about rules with an undecided relation."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkg.pack import Pack
from fedkg_compiler.analysis import reason
from fedkg_compiler.analysis.requirement_text import clause
from fedkg_compiler.analysis.rule_description import describe
from fedkg_compiler.analysis.verdict import RowRef, Verdict
from fedkg_compiler.analysis.verdict_diagnostics import diagnostics_of
from fedkg_compiler.pipeline import compile_rules

GRAPH = """\
@prefix p: <https://ex.org/p#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
p:press a sosa:ObservableProperty .
p:line1 p:has p:P1, p:P2 .
p:line2 p:has p:P3 .
""" + "".join(
    f'p:s{i} sosa:isHostedBy p:P{i} ; sosa:observes p:press ; fkg:column "p{i}" .\n'
    for i in (1, 2, 3)
)
ASKED = {
    "COUNT(?v) < 1": [
        "at least 1 of 2 of these hold: press[P1] is known; press[P2] is known",
        "press[P3] is known",
    ],
    "COUNT(?v) > 1": [
        "at most 1 of 2 of these hold: press[P1] is known; press[P2] is known",
        "at most 1 of 1 of these hold: press[P3] is known",
    ],
}


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        (
            "time",
            (
                "whether `a` and `b` contradict or repeat each other, or can never fail, could not"
                " be decided within the time"
            ),
        ),
        (
            "size",
            (
                "whether `a` and `b` contradict each other was looked at for each entity, not for"
                " all of them at once"
            ),
        ),
        (
            "places",
            (
                "7,000 combinations of keys (of machines, products and the like) were not looked"
                " at: there are too many"
            ),
        ),
    ],
)
def test_an_undecided_verdict_is_an_info_message(detail: str, words: str) -> None:
    pack = compile_rules(text="rule a require x <= 3\nrule b require x <= 4\n", reason=False).pack
    assert pack is not None
    (said,) = diagnostics_of(
        pack, [Verdict(kind="undecided", rules=("a", "b"), rows=(), places=7000, detail=detail)], {}
    )
    assert (said.code, said.severity) == ("FKG507", "info")
    assert said.message.startswith(words)
    assert said.help.startswith("nothing is wrong")


@pytest.mark.parametrize("having", ASKED)
def test_what_is_asked_of_missing_values_is_said_as_such_and_never_to_hold_always(
    having: str, tmp_path: Path
) -> None:
    query = (
        "PREFIX p: <https://ex.org/p#>\nSELECT ?l WHERE { ?l p:has ?m . OPTIONAL { ?m p:press ?v"
        " } } "
    )
    (tmp_path / "q.rq").write_text(f"{query}GROUP BY ?l HAVING({having})\n")
    (tmp_path / "g.ttl").write_text(GRAPH)
    (tmp_path / "r.fkg").write_text('queries "q.rq"\n')
    pack = compile_rules([tmp_path / "r.fkg"], graphs=[tmp_path / "g.ttl"], reason=False).pack
    assert isinstance(pack, Pack)
    assert [clause(pack, bank, row) for bank in pack.banks for row in range(bank.rows)] == ASKED[
        having
    ]
    never_fails = [(one.places, one.of) for one in reason(pack) if one.kind == "never_fails"]
    assert never_fails == ([(1, 2)] if ">" in having else [])  # line2 has one pump alone


def test_a_truth_value_is_asked_for_in_the_words_of_the_rule() -> None:
    text = (
        "signal valve in boolean\nsignal p in bar\nrule a require if valve is off then p <= 3 bar\n"
    )
    pack = compile_rules(text=text, reason=False).pack
    assert pack is not None
    assert clause(pack, pack.banks[0], 0).startswith("if valve is false then p <= 3")


SUMMED = """\
@prefix p: <https://ex.org/p#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix unit: <http://qudt.org/vocab/unit/> .
p:press a sosa:ObservableProperty .
p:l1 p:has p:P1 . p:l2 p:has p:P2 .
p:s1 sosa:isHostedBy p:P1 ; sosa:observes p:press ; fkg:column "p1" ; qudt:hasUnit unit:BAR .
p:s2 sosa:isHostedBy p:P2 ; sosa:observes p:press ; fkg:column "p2" ; qudt:hasUnit unit:KiloPA .
"""


def test_aggregates_are_said_without_the_members_that_there_are_not(tmp_path: Path) -> None:
    query = (
        "PREFIX p: <https://ex.org/p#>\nSELECT ?l WHERE { ?l p:has ?m . ?m p:press ?v } GROUP BY ?l"
        " HAVING(SUM(?v) > 3 && MIN(?v) < 1)\n"
    )
    (tmp_path / "q.rq").write_text(query)
    (tmp_path / "g.ttl").write_text(SUMMED)
    (tmp_path / "r.fkg").write_text('queries "q.rq"\n')
    pack = compile_rules([tmp_path / "r.fkg"], graphs=[tmp_path / "g.ttl"], reason=False).pack
    assert isinstance(pack, Pack)
    texts = [clause(pack, bank, row) for bank in pack.banks for row in range(bank.rows)]
    assert len(texts) == 2
    assert not any(
        word in text for text in texts for word in ("nothing", "()", "0 / 0", "there are none")
    )


def test_each_giver_of_a_redundant_rule_is_named_where_rows_follow_from_different_ones() -> None:
    text = "".join(f"signal t{i} in bar\nsignal s{i} in bar\n" for i in (1, 2))
    text += "rule one require t1 <= 3 bar\nrule two require t2 <= 3 bar\n"
    pack = compile_rules(
        text=text + "rule both require t1 <= 4 bar and t2 <= 4 bar\n", reason=False
    ).pack
    assert pack is not None
    refs = [(bank, row) for bank in range(len(pack.banks)) for row in range(pack.banks[bank].rows)]
    by_rule = {
        pack.manifest.rules[int(pack.banks[b].rule[r])].name: RowRef(bank=b, row=r) for b, r in refs
    }
    rows = (by_rule["both"], by_rule["one"])
    found = Verdict(
        kind="redundant", rules=("both", "one", "two"), rows=rows, entities=("M1", "M2"), places=2
    )
    (said,) = diagnostics_of(pack, [found], {})
    assert said.message.endswith(
        "follows from `one` (t1 <= 3 bar) for M1, and for 1 more from one or more of `one` and"
        " `two`"
    )
    assert "()" not in said.message


def test_examples_of_truth_values_are_true_or_false() -> None:
    pack = compile_rules(text="signal failed in boolean\nrule e require failed is false\n").pack
    assert pack is not None
    told = describe(pack, "e")
    assert told.keeps is not None
    assert told.breaks is not None
    assert (told.keeps.text, told.breaks.text) == ("failed = false", "failed = true")
    assert [
        one.value for example in (told.keeps, told.breaks) for one in example.values.readings
    ] == [0.0, 1.0]
    driving = compile_rules([Path("rules/examples/driving.fkg")], reason=False).pack
    assert driving is not None
    stops = describe(driving, "three_stops").breaks
    assert stops is not None
    assert stops.text == "position = 0 m"  # the vehicle comes by no place


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("mean of t over last 2 h <= 62 degC", "<= 62 degC"),
        ("max(t, f) <= 100 degF", "<= 37.7777777778 degC"),
        ("max(t, f) <= 335 K", "<= 61.85 degC"),
        ("max(k, k2) <= 62 degC", "<= 335.15 K"),
        ("(k + k2) / 2 <= 62 degC", "<= 335.15 K"),
        ("t 1 h ago - 5 K <= 60 degC", "<= 60 degC"),
        ("max(g, g - 0.5 bar) <= 2 barg", "<= 2 barg"),
        ("if mean of t over last 2 h > 50 degC then p < 3 bar", "> 50 degC then p < 3 bar"),
        ("t - f <= 3 K", "<= 3 K"),
        ("(max of t over last 2 h) - (min of t over last 2 h) <= 3 K", "<= 3 K"),
        ("rate of f over last 2 h <= 3 degR/h", "<= 3 degR/h"),
    ],
)
def test_limits_are_in_the_unit_of_their_scale_and_differences_in_its_step(
    rule: str, words: str
) -> None:
    units = {"t": "degC", "f": "degF", "k": "K", "k2": "K", "p": "bar", "g": "barg"}
    signals = "".join(f"signal {name} in {unit}\n" for name, unit in units.items())
    text = f"timeline step 1 h\n{signals}rule r require {rule}\n"
    pack = compile_rules(text=text, reason=False).pack
    assert pack is not None
    assert clause(pack, pack.banks[0], 0).endswith(words)
