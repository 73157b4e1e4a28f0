"""The worst case of a rule is a decided one, and its row shows it."""

from __future__ import annotations

from evaluation_packs import BELOW, WEAR, bank, limits, pack

from fedkg.evaluation import RuleResult, evaluate
from fedkg.evaluation.incidents import find_incidents
from fedkg.evaluation.result import worst_text
from fedkg.jobs.source_data_checks import count_on_tables
from fedkg.tables import read_bytes
from fedkg_compiler.pipeline import compile_rules

SIGNALS = "signal a in bar\nsignal x in bar\n"
IMPLIES = SIGNALS + "rule r require if a > 1 bar then x <= 3 bar\n"
ALWAYS = SIGNALS + "rule r require always [0, 1] (if a > 1 bar then x <= 3 bar)\n"


def result(text: str, *rows: str) -> RuleResult:
    compilation = compile_rules(text=text, reason=False)
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    (found,) = evaluate(
        compilation.pack,
        read_bytes(("a,x,m\n" + "".join(f"{row}\n" for row in rows)).encode(), "t.csv"),
    ).rules
    return found


def test_the_worst_is_never_a_row_where_the_if_is_unknown_or_false() -> None:
    found = result(IMPLIES, "2,5,", ",100,", "0.9,200,", "2,9,")
    assert worst_text(found.worst) == "row 1: a 2 bar, x 5 bar"
    kept = result(IMPLIES, ",3,", "0.99,200,", "5,1,", "9,1,")
    assert (kept.violated, kept.fired) == (0, 2)
    assert worst_text(kept.worst) == "row 3: a 5 bar, x 1 bar"


def test_a_rule_over_time_names_the_row_that_breaks_it() -> None:
    found = result(ALWAYS, "2,1,", ",2,", "0,200,", "2,7,")
    assert found.worst is not None
    assert (found.worst.row, found.worst.fault) == (3, 4)
    assert worst_text(found.worst) == "row 3, violated in row 4: a 2 bar, x 7 bar"
    entry = found.to_json()["worst"]
    assert (entry["row"], entry["fault_row"]) == (3, 4)


def test_windows_backwards_and_without_end() -> None:
    back = result(
        SIGNALS + "rule r require historically [0, 2] x <= 3 bar\n",
        "0,1,",
        "0,9,",
        "0,1,",
        "0,1,",
        "0,1,",
    )
    assert worst_text(back.worst) == "-6 bar: row 2"
    late = result(
        SIGNALS + "rule r require historically [1, 2] x <= 3 bar\n",
        "0,1,",
        "0,9,",
        "0,1,",
        "0,1,",
        "0,1,",
    )
    assert worst_text(late.worst) == "-6 bar: row 3, violated in row 2"
    ever = result(SIGNALS + "rule r require always [1, end] x <= 3 bar\n", "0,1,", "0,9,", "0,12,")
    assert worst_text(ever.worst) == "-9 bar: row 1, violated in row 3"


def test_what_breaks_in_no_single_row_names_none() -> None:
    found = result(
        SIGNALS + "rule r require eventually [0, 1] x <= 3 bar\n", "0,5,", "0,4,", "0,1,"
    )
    assert found.worst is not None
    assert (found.worst.row, found.worst.fault) == (1, None)


def test_a_worst_case_without_a_number_is_reported() -> None:
    text = "timeline ends clip\n" + SIGNALS + "rule r require next x <= 3 bar\n"
    found = result(text, "0,1,", "0,2,")
    assert found.worst is not None
    assert worst_text(found.worst) == "yes/no: row 2: x 2 bar"
    entry = found.to_json()["worst"]
    assert (entry["robustness"], entry["infinite"], entry["row"]) == (None, "-inf", 2)
    window = result(text.replace("next", "eventually [1, 2]"), "0,1,")
    assert (window.violated, window.to_json()["worst"]["infinite"]) == (1, "-inf")
    assert worst_text(window.worst) == "yes/no: row 1: x 1 bar"
    kept = result(text.replace("next", "always [1, 2]"), "0,1,")
    assert (kept.satisfied, kept.to_json()["worst"]["infinite"]) == (1, "+inf")
    assert worst_text(kept.worst) == "yes/no"


def test_a_worst_case_with_a_number_has_no_such_field() -> None:
    worst = result(SIGNALS + "rule r require x <= 3 bar\n", "0,1,", "0,9,").to_json()["worst"]
    assert (worst["robustness"], "infinite" in worst) == (-6.0, False)


def test_margins_in_different_units_are_compared_in_one() -> None:
    wear = bank(BELOW, [[WEAR]], [[500_000, 1]], rule=0, entity=[2], unit=2)
    table = read_bytes(b"Torque [Nm],Tool wear [min]\n8,500000\n4,500010\n", "t.csv")

    def worst(*units: str) -> list[str]:
        built = pack(["r"], [limits(5, unit=1), wear], entities=("", "a", "b"), units=("", *units))
        found = evaluate(built, table)
        (rule,) = find_incidents(built, [("", table)], [found])["details"]
        counts = count_on_tables(built, [(table, table.where)], ["r"])
        return [worst_text(found.rules[0].worst), rule["events"][0]["margin"], counts["r"].example]

    assert worst("bar", "Pa") == [
        "-3 bar: a, row 1",
        "-3 bar",
        "a, row 1 (line 2): violation 3 bar",
    ]
    assert worst("bar", "K") == ["-10 K: b, row 2", "-10 K", "b, row 2 (line 3): violation 10 K"]
