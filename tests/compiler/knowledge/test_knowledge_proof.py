"""Proofs about knowledge models, and mistakes found in them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from fedkg.knowledge import agreement
from fedkg_compiler.pipeline import compile_rules

HEAD = """\
signal ash in % span 0 .. 40
signal kind
label grade classes A, B, C, D
output quality in % span 0 .. 100
"""


def proven(text: str) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """The proofs of each model, and the codes of the diagnostics."""
    found = compile_rules(text=HEAD + text)
    assert found.pack is not None, [item.message for item in found.diagnostics]
    codes = [item.code for item in found.diagnostics if item.code in ("FKG379", "FKG380", "FKG381")]
    return {model.name: model.proven for model in found.pack.manifest.knowledge}, codes


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        (
            "when ash > 12 % allow C, D when ash <= 10 % allow A, B otherwise allow any",
            ("nonempty",),
        ),
        (
            "when ash > 12 % allow C, D when ash > 10 % allow B, C otherwise allow any",
            ("nonempty",),
        ),
        ("when ash > 12 % allow C, D when ash > 10 % allow A, B otherwise allow any", ()),
        (
            "when ash > 12 % allow C, D when ash > 50 % allow A, B otherwise allow any",
            ("nonempty",),
        ),
        (
            (
                "when ash > 30 % allow A, B when ash > 20 % allow B, C when ash > 10 % allow "
                "A, C otherwise allow any"
            ),
            (),
        ),
        ('when kind is "x" allow A when kind is "y" allow B otherwise allow any', ("nonempty",)),
    ],
)
def test_clauses_of_classes_that_cannot_hold_together_are_no_contradiction(
    clauses: str, expected: tuple[str, ...]
) -> None:
    found, codes = proven(f"range knowledge r of grade {clauses}\n")
    assert found["r"] == expected
    assert codes == ([] if expected else ["FKG379"])


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        (
            "when ash > 20 % allow 0 .. 40 % when ash <= 20 % allow 50 .. 90 % otherwise allow any",
            True,
        ),
        (
            "when ash > 20 % allow 0 .. 40 % when ash > 10 % allow 50 .. 90 % otherwise allow any",
            False,
        ),
        ("when ash > 20 % allow between 2 * ash and 90 % otherwise allow any", True),
        ("when ash > 20 % allow between 2 * ash and 70 % otherwise allow any", False),
        ("when ash > 20 % allow between 4 * ash and 300 % otherwise allow any", False),
    ],
)
def test_intervals_are_compared_wherever_their_conditions_hold(
    clauses: str, expected: bool
) -> None:
    found, _ = proven(f"range knowledge r of quality {clauses}\n")
    assert found["r"] == (("nonempty",) if expected else ())


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("when ash > 12 % predict C otherwise predict A", True),
        ("when ash > 11 % predict C otherwise predict A", True),
        ("when ash > 12 % predict A otherwise predict C", False),
        ("when ash > 12 % predict D when ash > 5 % predict A otherwise predict C", True),
        ("when ash > 5 % predict A otherwise predict C", False),
    ],
)
def test_a_prediction_counts_only_where_none_before_it_holds(clauses: str, expected: bool) -> None:
    found, codes = proven(
        "range knowledge r of grade when ash > 12 % allow C, D otherwise allow "
        f"any\npredict knowledge p of grade {clauses}\n"
    )
    assert found["p"] == (("within",) if expected else ())
    assert ("FKG380" in codes) != expected


def test_what_is_not_allowed_is_shown_at_values_that_data_confirms() -> None:
    found = compile_rules(
        text=HEAD
        + "range knowledge r of quality when ash > 20 % allow 0 .. 40 % otherwise allow any\n"
        + "predict knowledge p of quality when ash > 25 % predict 30 % otherwise predict 100 % - 2"
        " * ash\n"
    )
    assert found.pack is not None
    [message] = [item.message for item in found.diagnostics if item.code == "FKG380"]
    value = re.search(r"at ash ([0-9.]+) %", message)
    assert value is not None
    names = [column.name for column in found.pack.manifest.contract.columns]
    values = np.full((1, 1, len(names)), np.nan)
    values[0, 0, names.index("ash")] = float(value[1])
    assert {one.model: one.outside for one in agreement(found.pack, values, {})}["p"] == 1


@pytest.mark.parametrize(
    ("first", "second", "codes"),
    [
        ("grade when ash > 12 % allow C, D", "grade when ash > 20 % allow A, B", ["FKG379"]),
        ("grade when ash > 12 % allow C, D", "grade when ash <= 12 % allow A, B", []),
        ("grade when ash > 12 % allow C, D", "grade when ash > 20 % allow B, C", []),
        ("grade when ash > 12 % allow C, D", "grade when ash > 50 % allow A, B", []),
        (
            "quality when ash > 12 % allow 0 .. 40 %",
            "quality when ash > 20 % allow 50 .. 90 %",
            ["FKG379"],
        ),
        (
            "quality when ash > 12 % allow 0 .. 40 %",
            "quality when ash > 20 % allow between ash and 90 %",
            [],
        ),
        (
            "quality when ash > 12 % allow 0 .. 40 %",
            "quality when ash > 20 % allow between 2 * ash and 90 %",
            ["FKG379"],
        ),
        (
            "quality when sin(ash) > 0.5 allow 0 .. 40 %",
            "quality when cos(ash) > 0.5 allow 60 .. 90 %",
            ["FKG381"],
        ),
        ("grade when ash > 12 % allow C, D", "quality when ash > 20 % allow 0 .. 40 %", []),
    ],
)
def test_range_models_of_one_output_must_leave_something_together(
    first: str, second: str, codes: list[str]
) -> None:
    found, said = proven(
        f"range knowledge r1 of {first} otherwise allow any\nrange knowledge r2 of "
        f"{second} otherwise allow any\n"
    )
    assert said == codes
    assert found == dict.fromkeys(("r1", "r2"), () if codes else ("nonempty",))


def test_models_that_contradict_each_other_are_named_with_values_that_data_confirms() -> None:
    found = compile_rules(
        text=HEAD
        + "range knowledge r1 of grade when ash > 12 % allow C, D otherwise allow any\n"
        + "range knowledge r2 of grade when ash > 20 % allow A, B otherwise allow any\n"
        + "range knowledge r3 of grade when ash > 30 % allow A, B, C otherwise allow any\n"
    )
    assert found.pack is not None
    [item] = [item for item in found.diagnostics if item.code == "FKG379"]
    assert item.message == "`r1` and `r2` together allow nothing for `grade`, at ash 21 %"
    assert (item.span.line, [one.span.line for one in item.related]) == (6, [5])
    names = [column.name for column in found.pack.manifest.contract.columns]
    values = np.full((1, 1, len(names)), np.nan)
    values[0, 0, names.index("ash")] = 21
    assert {
        one.model: (one.empty, one.disjoint) for one in agreement(found.pack, values, {})
    } == dict.fromkeys(("r1", "r2", "r3"), (0, 1))


def test_three_models_that_only_together_allow_nothing_are_one_message() -> None:
    ranges = {"r1": "30 % allow A, B", "r2": "20 % allow B, C", "r3": "10 % allow A, C"}
    text = "".join(
        f"range knowledge {name} of grade when ash > {clause} otherwise allow any\n"
        for name, clause in ranges.items()
    )
    found = compile_rules(text=HEAD + text)
    assert [item.message for item in found.diagnostics if item.code == "FKG379"] == [
        "`r1`, `r2` and `r3` together allow nothing for `grade`, at ash 31 %"
    ]


def test_an_undecided_proof_is_reported() -> None:
    text = (
        "range knowledge r of quality when sin(ash) > 0.5 allow 0 .. 40 % when cos(ash) "
        "> 0.5 allow 60 .. 90 % otherwise allow any\n"
    )
    found, codes = proven(text)
    assert found["r"] == ()
    assert codes == ["FKG381"]


def test_clauses_empty_only_together_are_not_proven_beside_others_that_exclude_each_other() -> None:
    found, codes = proven(
        'range knowledge r of grade when kind is "x" allow A when kind is "y" allow B when (kind is'
        ' "z" and ash > 1 %) allow B, C, D when (kind is "z" and ash > 2 %) allow A, C, D when'
        ' (kind is "z" and ash > 3 %) allow A, B, D when (kind is "z" and ash > 4 %) allow A, B, C'
        " otherwise allow any\n"
    )
    assert found["r"] == ()
    assert codes == ["FKG381"]


MACHINES = """\
@prefix plant: <https://example.org/plant#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
plant:Machine fkg:keyColumn "machine" .
plant:torque a sosa:ObservableProperty ; fkg:column "torque" .
plant:M1 a plant:Machine ; plant:limit 10 .
plant:M2 a plant:Machine ; plant:limit 20 ; plant:only 15 .
"""


def test_a_clause_about_another_machine_does_not_stand_before_this_one_s(tmp_path: Path) -> None:
    graph = tmp_path / "plant.ttl"
    graph.write_text(MACHINES, encoding="utf-8")
    text = """prefix plant: <https://example.org/plant#>
signal torque(?m) is plant:torque
label grade classes A, B, C
range knowledge r of grade for ?m, ?x where { ?m plant:only ?x }
  when torque(?m) > ?x allow B otherwise allow any
predict knowledge p of grade for ?m, ?x where { ?m plant:limit ?x }
  when torque(?m) > ?x predict A otherwise predict B
"""
    found = compile_rules(text=text, graphs=[graph])
    assert found.pack is not None
    assert {model.name: model.proven for model in found.pack.manifest.knowledge} == {
        "p": (),
        "r": ("nonempty",),
    }
    columns = {column.name: i for i, column in enumerate(found.pack.manifest.contract.columns)}
    values = np.zeros((1, 1, len(columns)))
    values[0, 0, columns["torque"]] = 25
    values[0, 0, columns["machine"]] = found.pack.manifest.contract.columns[
        columns["machine"]
    ].vocabulary.index("M2")
    assert {one.model: one.outside for one in agreement(found.pack, values, {})} == {"p": 1, "r": 0}


def test_what_holds_now_is_not_taken_to_hold_at_other_steps() -> None:
    text = (
        "timeline step 1 min\nrange knowledge r of grade when (previous ash <= 5 %) "
        "allow B otherwise allow any\n"
    )
    found, codes = proven(
        f"{text}predict knowledge p of grade when ash > 12 % predict A otherwise predict B\n"
    )
    assert found["p"] == ()
    assert codes == ["FKG381"]
