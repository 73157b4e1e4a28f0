"""Candidate rules: their text, and that they compile.

The series from which they were mined satisfy them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkg import authoring
from fedkg.learned_knowledge_records import (
    CausalEdge,
    LearnedKnowledge,
    MinedNumber,
    MinedProperty,
    Precedence,
    RuleEvidence,
)
from fedkg_compiler.frontends.fkg.syntax.parser import parse
from fedkg_compiler.learned.candidate_formatting import rounded
from fedkg_compiler.learned.candidates import proposed
from fedkg_compiler.learned.to_rdf import trig

TEXT = "operational_range(volume, ?low, ?high, 0, ?end)"


def _mined_range(
    client: str, low: float, high: float, *, end: float = 7.0, unit: str = ""
) -> MinedProperty:
    return MinedProperty(
        inference="night",
        template="operational_range",
        text=TEXT,
        client=client,
        traces=38,
        numbers=(
            MinedNumber(name="low", value=low, unit=unit, direction="down"),
            MinedNumber(name="high", value=high, unit=unit, direction="up"),
            MinedNumber(name="end", value=end, integer=True),
        ),
    )


def _learned(*properties: MinedProperty, **more: object) -> LearnedKnowledge:
    return LearnedKnowledge.model_validate(
        {
            "run": "1",
            "title": "Traffic",
            "software": "s",
            "began": "2026-01-31T12:00:00Z",
            "properties": properties,
        }
        | more
    )


def test_the_loosest_numbers_of_all_clients() -> None:
    made = proposed([_learned(_mined_range("a", 3.0, 835.0), _mined_range("b", 7.99999, 71.0))])
    assert made.rules == 1
    assert made.text.splitlines() == [
        (
            "# Candidates for all clients, from what was learnt in: Traffic "
            "(2026-01-31T12:00:00Z). Keep what is right, change it, delete the"
        ),
        "# rest.",
        "",
        (
            "# night: found in the series of 2 clients, 38 of them each. Of further series, "
            "92% or more are expected to satisfy it."
        ),
        'rule night_everywhere "Found in the series of 2 clients."',
        "  kind temporal",
        "  require initially follows operational_range(volume, 3, 835, 0, 7)",
    ]


def test_one_client_has_its_own_numbers() -> None:
    made = proposed(
        [_learned(_mined_range("a", 3.0, 835.0), _mined_range("Graz 2", 7.5, 71.0))],
        client="Graz 2",
    )
    assert "rule night_graz_2 " in made.text
    assert "operational_range(volume, 7.5, 71, 0, 7)" in made.text


def test_numbers_that_differ_and_have_no_looser_side_give_no_rule() -> None:
    made = proposed(
        [_learned(_mined_range("a", 3.0, 835.0, end=7), _mined_range("b", 3.0, 835.0, end=8))]
    )
    assert made.rules == 0
    assert "?end differ" in made.text


def test_a_property_that_is_not_sure_enough_is_left_out() -> None:
    made = proposed([_learned(_mined_range("a", 3.0, 835.0))], least=0.95)
    assert made.rules == 0
    assert "Left out" in made.text


def test_evidence_about_the_data_becomes_notes() -> None:
    kept = RuleEvidence(
        rule="warm", title="", kind="physical", about="data", applied=10_000, violated=0
    )
    broken = RuleEvidence(
        rule="dry",
        title="",
        kind="physical",
        about="data",
        applied=200,
        violated=3,
        example="row 7: humid 9",
    )
    model = RuleEvidence(
        rule="dry", title="", kind="physical", about="model", training="t", applied=200, violated=3
    )
    made = proposed([_learned(evidence=(kept, broken, model))])
    assert made.notes == 2
    assert "warm: held in all 10,000 cases of the data; it can be made `hard`." in made.text
    assert "dry: the data itself breaks it in 3 of 200 cases (1.50%)" in made.text


@given(
    st.floats(-1e6, 1e6).filter(lambda value: value == 0 or abs(value) > 1e-18),
    st.sampled_from(["up", "down"]),
)
def test_rounding_never_tightens(value: float, direction: str) -> None:
    found = float(rounded(value, direction))
    slack = 1e-5 * abs(value)
    assert found >= value - slack if direction == "up" else found <= value + slack
    assert abs(found - value) <= 2e-3 * abs(value) + slack


def test_candidates_compile_beside_the_rules_they_came_of(tmp_path: Path) -> None:
    edge = CausalEdge(driver="a", driven="b", strength=0.3, lag=1, p_value=0.01)
    weak = CausalEdge(driver="b", driven="a", strength=0.01, lag=1, p_value=0.6)
    found = _learned(_mined_range("a", 3.0, 835.0, unit="degC"), edges=(edge, weak))
    rules = (
        "timeline step 1 h ends clip\noutput volume in degC span 0 .. 900\nuse rules "
        "templates.operational_range\n"
    )
    (tmp_path / "rules.fkg").write_text(rules + "rule warm require volume >= 0 degC\n")
    made = proposed([found])
    (tmp_path / "candidates.fkg").write_text(made.text)
    (tmp_path / "found.trig").write_text(trig(found))
    result = authoring.check(
        [tmp_path / "rules.fkg", tmp_path / "candidates.fkg", tmp_path / "found.trig"]
    )
    assert result.pack is not None, [one.message for one in result.diagnostics]
    assert [rule.name for rule in result.pack.manifest.rules] == ["night_everywhere", "warm"]
    (cause,) = result.pack.manifest.causes
    assert [(drive.driver, drive.driven) for drive in cause.drives] == [("a", "b")]


@pytest.mark.parametrize("client", ["a", "b"])
def test_a_private_pack_takes_its_own_findings_from_the_graph(tmp_path: Path, client: str) -> None:
    found = _learned(_mined_range("a", 3.0, 835.0), _mined_range("b", 8.0, 71.0))
    (tmp_path / "found.trig").write_text(trig(found))
    pattern = (
        '?p fkg:inference "night" ; fkg:number ?low, ?high . ?low fkg:numberName "low" . ?high'
        ' fkg:numberName "high"'
    )
    (tmp_path / "rules.fkg").write_text(
        "timeline step 1 h ends clip\noutput volume span 0 .. 900\n"
        f"rule own scope client for ?low, ?high where {{ GRAPH ?run {{ {pattern} }} }} "
        "require initially always within 7 h ?low <= volume <= ?high\n"
    )
    pack = authoring.compile([tmp_path / "rules.fkg", tmp_path / "found.trig"], client=client)
    (bank,) = pack.banks
    assert bank.rows == 1
    assert set(bank.params[0].tolist()) >= ({3.0, 835.0} if client == "a" else {8.0, 71.0})


def test_no_significant_result_gives_a_proposal_without_rules() -> None:
    edge = CausalEdge(driver="a", driven="b", strength=0.5, lag=1, p_value=0.4)
    made = proposed([_learned(edges=(edge,))])
    assert (made.rules, made.causes, made.notes) == (0, 0, 0)
    assert "# Nothing to propose" in made.text


FOLLOWED = Precedence(
    leads="P 1",
    rise=0.52881,
    follows="N2",
    answer=-0.26759,
    within=2,
    kept=0.8,
    chance=0.25,
    cases=240,
)


def test_an_edge_is_judged_by_its_corrected_p_value() -> None:
    told = CausalEdge(driver="a", driven="b", strength=0.3, p_value=0.01, adjusted=0.04)
    lost = CausalEdge(driver="b", driven="a", strength=0.3, p_value=0.01, adjusted=0.06)
    made = proposed([_learned(edges=(told, lost))])
    assert "a drives b (0.3)." in made.text
    assert "b drives a" not in made.text
    assert "fkg:adjustedPValue ?p . FILTER(?p <= 0.05)" in made.text
    assert "b drives a" in proposed([_learned(edges=(told, lost))], alpha=0.1).text


def test_edges_of_either_kind_are_read_by_the_word_they_have() -> None:
    old = CausalEdge(driver="a", driven="b", strength=0.3, p_value=0.01)
    new = CausalEdge(driver="b", driven="a", strength=0.3, p_value=0.01, adjusted=0.02)
    text = proposed([_learned(edges=(old, new))]).text
    assert "cause found_1_ahead\n" in text
    assert "cause found_1_ahead_uncorrected\n" in text


def test_what_follows_what_is_proposed_as_a_rule_that_compiles(tmp_path: Path) -> None:
    edge = CausalEdge(
        driver="a", driven="b", strength=0.3, p_value=0.01, adjusted=0.01, precedence=FOLLOWED
    )
    back = edge.model_copy(
        update={"precedence": FOLLOWED.model_copy(update={"answer": 0.1, "within": 1})}
    )
    found = _learned(edges=(edge, back))
    made = proposed([found])
    assert made.rules == 2
    assert (
        "require if p_1 - past p_1 >= 0.5289 then eventually [1, 2] n2 - past n2 <= -0.2675"
        in made.text
    )
    assert (
        "require if p_1 - past p_1 >= 0.5289 then eventually [1, 1] n2 - past n2 >= 0.1"
        in made.text
    )
    assert 'rule n2_follows_p_1_2 "When P 1 rises, N2 rises within 1 step."' in made.text
    (tmp_path / "candidates.fkg").write_text(made.text)
    (tmp_path / "found.trig").write_text(trig(found))
    result = authoring.check([tmp_path / "candidates.fkg", tmp_path / "found.trig"])
    assert result.pack is not None, [one.message for one in result.diagnostics]
    assert [rule.name for rule in result.pack.manifest.rules] == [
        "n2_follows_p_1",
        "n2_follows_p_1_2",
    ]


@pytest.mark.parametrize(
    ("leads", "follows"), [("past", "if"), ('the "hot" end', "a\\b"), ("P", "p")]
)
def test_columns_of_any_name_are_proposed_as_rules_that_compile(leads: str, follows: str) -> None:
    found = FOLLOWED.model_copy(update={"leads": leads, "follows": follows, "rise": 3.45678e-11})
    text = proposed(
        [_learned(edges=(CausalEdge(driver="a", driven="b", strength=0.3, precedence=found),))]
    ).text
    rules = text[text.index("timeline") :]
    pack = authoring.compile(text=rules)
    assert {column.source or column.name for column in pack.manifest.contract.columns} == {
        leads,
        follows,
    }
    assert ">= 0.00000000003457 then" in rules


@given(
    st.text(min_size=1, max_size=12),
    st.text(min_size=1, max_size=12),
    st.text(min_size=1, max_size=8),
)
def test_whatever_headers_and_clients_are_called_what_is_proposed_is_read_by_the_parser(
    leads: str, follows: str, client: str
) -> None:
    found = FOLLOWED.model_copy(update={"leads": leads, "follows": follows})
    edge = CausalEdge(driver=client, driven="b", strength=0.3, precedence=found)
    made = proposed([_learned(_mined_range(client, 3.0, 835.0), edges=(edge,))])
    tree, problems = parse(made.text, "candidates.fkg")
    assert problems == ()
    written = [statement for statement in tree.statements if type(statement).__name__ == "Rule"]
    assert len(written) == made.rules
    made.text.encode()


@pytest.mark.parametrize(
    ("header", "why"),
    [
        ("P1\n[bar]", "this text is never closed"),
        ("P1\x07", "control character U+0007"),
        ("P1\ud800", "half a character, U+D800"),
    ],
)
def test_a_header_that_no_rule_can_write_is_reported_and_the_other_rules_stay(
    header: str, why: str
) -> None:
    bad, good = FOLLOWED.model_copy(update={"leads": header}), FOLLOWED
    edges = [
        CausalEdge(driver="a", driven="b", strength=0.3, precedence=one) for one in (bad, good)
    ]
    made = proposed([_learned(edges=tuple(edges))])
    assert made.rules == 1
    flat = " ".join(line.removeprefix("# ") for line in made.text.splitlines())
    assert "Left out: rules of the column" in flat
    assert why in flat
    assert "Rename it in the data." in flat
    assert parse(made.text, "candidates.fkg")[1] == ()
