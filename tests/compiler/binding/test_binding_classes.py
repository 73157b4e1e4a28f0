"""Several classes at once, categories, probabilities and truth values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedkg
from fedkg.constraints.meaning.interpreter import evaluate_bank
from fedkg.evaluation import table_values
from fedkg.pack import ClassIn, Pack
from fedkg.tables import read_bytes
from fedkg_compiler import compile_rules

HEAD = (
    "label grade classes A, B, C\nsignal running in boolean\nsignal state\nsignal ash in %\noutput"
    " risk in probability\n"
)


def pack_of(rule: str) -> Pack:
    compilation = compile_rules(text=f"{HEAD}rule r require {rule}", reason=False)
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    return compilation.pack


def verdicts(rule: str, header: str, *cells: str) -> list[bool | None]:
    """Satisfied, violated or None for unknown, for each cell of a column."""
    pack = pack_of(rule)
    table = read_bytes("\n".join((header, *cells, "")).encode(), "t.csv")
    result = evaluate_bank(pack.banks[0], table_values(pack.manifest.contract, table).values)
    return [
        None if result.unknown[i, 0] else bool(result.satisfied[i, 0]) for i in range(len(cells))
    ]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("grade in A, B", [True, True, False, None]),
        ("grade not in A, B", [False, False, True, None]),
        ("grade in A", [True, False, False, None]),
        ("not grade in A, B", [False, False, True, None]),
        ("probability(grade, A, B) >= 0.9", [True, True, False, None]),
        ("probability(grade, C) <= 10 %", [True, True, False, None]),
        ("1 - probability(grade, C) >= probability(grade, A)", [True, True, True, None]),
    ],
)
def test_classes_of_a_label(rule: str, expected: list[bool | None]) -> None:
    assert verdicts(rule, "grade", "A", "B", "C", "?") == expected


def test_a_set_of_classes_is_one_atom_with_the_ties_of_one_class() -> None:
    inside, outside = (
        pack_of("grade in A, B").banks[0].skeleton,
        pack_of("grade not in A, B").banks[0].skeleton,
    )
    assert isinstance(inside, ClassIn)
    assert isinstance(outside, ClassIn)
    assert (len(inside.inside), len(inside.outside), inside.strict) == (2, 1, False)
    assert (len(outside.inside), len(outside.outside), outside.strict) == (1, 2, True)
    scores = np.array(
        [[[0.4, 0.2, 0.4]]]
    )  # A and C are equally likely: no set contains both, and the tie counts for `in`
    assert evaluate_bank(pack_of("grade in A, B").banks[0], scores).satisfied.tolist() == [[True]]
    assert evaluate_bank(pack_of("grade not in A, B").banks[0], scores).satisfied.tolist() == [
        [False]
    ]


def test_scores_that_are_read_as_probabilities_say_so() -> None:
    """Logits have to be converted to probabilities: all classes of the label carry the unit."""
    columns = pack_of("probability(grade, A) >= 0.5 or grade is B").manifest.contract.columns
    assert {(column.category, column.unit) for column in columns} == {
        (name, "probability") for name in "ABC"
    }
    assert {column.unit for column in pack_of("grade is B").manifest.contract.columns} == {""}


def test_outputs_that_no_rule_reads_are_not_columns_of_an_evaluation() -> None:
    text = "signal heat\noutput loss in kW\nlabel grade classes A, B\nrule hot require heat <= 3\n"
    contract = fedkg.compile(text=text).manifest.contract
    assert [column.name for column in contract.columns] == ["heat"]
    assert [column.name for column in contract.unread] == ["grade[A]", "grade[B]", "loss"]
    trained = contract.with_output("grade")
    assert [column.name for column in trained.columns] == ["heat", "grade[A]", "grade[B]"]
    assert [column.name for column in trained.unread] == ["loss"]


def test_outputs_that_no_rule_reads_have_the_headers_of_the_graph(tmp_path: Path) -> None:
    (tmp_path / "e.ttl").write_text(
        "@prefix e: <urn:e:> . @prefix fkg: <https://w3id.org/fedkg/ns#> .\n"
        "@prefix sosa: <http://www.w3.org/ns/sosa/> .\n"
        'e:loss fkg:column "L" ; fkg:alternativeColumn "Verlust" .\n'
        'e:s1 sosa:observes e:flow ; fkg:column "F1" .\n'
        'e:s2 sosa:observes e:flow ; fkg:column "F2" .\n'
    )
    (tmp_path / "r.fkg").write_text(
        "use e\nsignal heat\noutput loss is e:loss in kW\noutput flow is e:flow\n"
        'output other column "L"\nrule hot require heat <= 3\n'
    )
    unread = fedkg.compile(tmp_path / "r.fkg").manifest.contract.unread
    assert [(one.name, one.source, one.alternatives) for one in unread] == [
        ("loss", "L", ("Verlust",)),
        ("other", "L", ("Verlust",)),
    ]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ('state in idle, "on hold"', [True, True, False, None]),
        ('state not in idle, "on hold"', [False, False, True, None]),
    ],
)
def test_categories_of_a_column(rule: str, expected: list[bool | None]) -> None:
    assert verdicts(rule, "state", "idle", "on hold", "up", "n/a") == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("running is true", [True, False, None]),
        ("running is not on", [False, True, None]),
        ("running is off", [False, True, None]),
        ("running in yes", [True, False, None]),
        ("running >= 1", [True, False, None]),
        ("running * 3 <= 2", [False, True, None]),
    ],
)
@pytest.mark.parametrize(
    ("yes", "no"), [("true", "false"), ("On", "off"), ("1", "0"), ("ja", "nein")]
)
def test_truth_values(rule: str, expected: list[bool | None], yes: str, no: str) -> None:
    assert verdicts(rule, "running", yes, no, "-") == expected
    (column,) = pack_of(rule).manifest.contract.columns
    assert (column.type, column.span, column.unit) == ("boolean", (0, 1), "")


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("grade in A, B, C", "FKG282"),
        ("grade not in A, D", "FKG210"),
        ("ash in A, B", "FKG209"),
        ("risk in A, B", "FKG209"),
        ("running is open", "FKG281"),
        ("probability(grade) >= 1", "FKG205"),
        ("probability(grade, D) >= 1", "FKG210"),
        ("probability(ash, A) >= 1", "FKG230"),
        ("probability(grde, A) >= 1", "FKG230"),
    ],
)
def test_what_is_wrong_with_classes(rule: str, code: str) -> None:
    compilation = compile_rules(text=f"{HEAD}rule r require {rule}", reason=False)
    assert [problem.code for problem in compilation.diagnostics if problem.severity == "error"] == [
        code
    ]


def test_what_is_predicted_is_no_truth_value() -> None:
    for text in ("output fault in boolean", "signal fault in boolean span 0 .. 1"):
        compilation = compile_rules(text=f"{text}\nrule r require fault >= 1", reason=False)
        assert "FKG281" in [problem.code for problem in compilation.diagnostics]


def test_a_number_that_is_neither_true_nor_false_is_unknown() -> None:
    table = read_bytes(b"running\n1\n0\n2.5\n", "t.csv")
    readings = table_values(pack_of("running is true").manifest.contract, table)
    np.testing.assert_array_equal(readings.base[:, 0], [1, 0, np.nan])
    assert readings.notes == (
        "column `running` is true or false, and holds 2.5 in 1 of its rows: taken as unknown there",
    )
