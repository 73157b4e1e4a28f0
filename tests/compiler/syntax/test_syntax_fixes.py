"""Mistakes that are fixed automatically, and mistakes that are not."""

from __future__ import annotations

import pytest

from fedkg._internal.name_matching import Suggestion, certain_match, did_you_mean
from fedkg_compiler.diagnostics import Edit, Fix, Span
from fedkg_compiler.diagnostics.suggested_edits import put_in, suggested
from fedkg_compiler.frontends.fkg.syntax import parse

MENDED = [
    (
        "rule a require eventualy within 5 min x >= 1",
        "rule a require eventually within 5 min x >= 1",
    ),
    (
        "rule a require if y >= 1 then alwys [0, 5 min] x >= 1",
        "rule a require if y >= 1 then always [0, 5 min] x >= 1",
    ),
    (
        "example of a holds for x = 7 9 bar, y = 1 2",
        "example of a holds for x = 7 9 bar and y = 1 2",
    ),
    ("rule a require always [0..5 min] x >= 1", "rule a require always [0, 5 min] x >= 1"),
    ("rule a require x = 1", "rule a require x == 1"),
    ("rule a require x === 1", "rule a require x == 1"),
    ("rule a require x < = 1", "rule a require x <= 1"),
    ("rule a require x =< 1", "rule a require x <= 1"),
    ("rule a require x <> 1", "rule a require x != 1"),
    ("rule a require x >= 1&&y >= 1", "rule a require x >= 1 and y >= 1"),
    ("rule a require !(x >= 1)||y>=1", "rule a require not (x >= 1) or y>=1"),
    ("rule a require x >= 0,5 bar", "rule a require x >= 0.5 bar"),
    ("rule a require x >= 1,000,000", "rule a require x >= 1000000"),
    ("rule a require x >= 1.000,5", "rule a require x >= 1000.5"),
    ("rule a require x >= .5", "rule a require x >= 0.5"),
    ("rule a require x >= +5", "rule a require x >= 5"),
    ("rule a require x >= 1 000 kg", "rule a require x >= 1000 kg"),
    ("rule a requre x >= 1", "rule a require x >= 1"),
    ("rul a require x >= 1", "rule a require x >= 1"),
    ("rule a Require x >= 1 AND y >= 1", "rule a require x >= 1 and y >= 1"),
    ("rule a require x >= 1 -> y >= 1", "rule a require if x >= 1 then y >= 1"),
    ("rule a require x >= 1 → y >= 1", "rule a require if x >= 1 then y >= 1"),
    ("rule a require if x >= 1, y >= 2", "rule a require if x >= 1 then y >= 2"),
    ("rule a require if x >= 1, then y >= 2", "rule a require if x >= 1 then y >= 2"),
    ("rule a “T” require x >= 1", 'rule a "T" require x >= 1'),
    ("rule a require x is 'B 1'", 'rule a require x is "B 1"'),
    ("rule a require x >= 5 − 2", "rule a require x >= 5 - 2"),
    ("rule a require x ** 2 >= 1", "rule a require x ^ 2 >= 1"),
    ("rule a require x × 2 >= 1;", "rule a require x * 2 >= 1"),
    ("rule a require x >= “3.5” bar", "rule a require x >= 3.5 bar"),
    (
        "rule a require x between 1,5 and 2,5 bar and y >= 1",
        "rule a require 1.5 bar <= x <= 2.5 bar and y >= 1",
    ),
    ("rule a require x not in [3, 5]", "rule a require not (3 <= x <= 5)"),
    ("rule a require x is no greater than 5", "rule a require x <= 5"),
    ("rule a require x >= ‘3,5’ bar", "rule a require x >= 3.5 bar"),
    ("rule a weight '2' require x >= „−3,5 bar“", "rule a weight 2 require x >= -3.5 bar"),
    ("signal x in bar span “0” .. “5”", "signal x in bar span 0 .. 5"),
    ("infer a per run find ?c in follows t(x, ?c)", "infer a per run find ?c in t(x, ?c)"),
    ("rule a require\u200b x >= 1", "rule a require x >= 1"),
    ("rule a x >= 1", "rule a require x >= 1"),
    ("rule a require x >= 1\nand y >= 1", "rule a require x >= 1\n  and y >= 1"),
    ("signal x in bar\n  rule a require x >= 1", "signal x in bar\nrule a require x >= 1"),
    (
        "rule a for ?p in table limits.csv require x >= 1",
        'rule a for ?p in table "limits.csv" require x >= 1',
    ),
    ("cause a for ?x in class T allow $x drives y", "cause a for ?x in class T allow ?x drives ?y"),
    ("prefix plant <https://e.org/>", "prefix plant: <https://e.org/>"),
    ("prefix plant: https://e.org/", "prefix plant: <https://e.org/>"),
    ("signal x unit bar range 0 .. 1", "signal x in bar span 0 .. 1"),
    ("rule a require x never drops", "rule a require x never falls"),
    ("rule a kind causl require x >= 1", "rule a kind causal require x >= 1"),
    ("rule a scope cleint require x >= 1", "rule a scope client require x >= 1"),
    ("rule a client require x >= 1", "rule a scope client require x >= 1"),
    ("rule a require x is in A", "rule a require x in A"),
    ("rule a require x is not in A", "rule a require x not in A"),
    ("rule a require x not A", "rule a require x is not A"),
    ("rule a require x in (A, B)", "rule a require x in A, B"),
    ("rule a require follow band(x)", "rule a require follows band(x)"),
    (
        "rule a require at least 2 (x >= 1) over ?p in class T",
        "rule a require at least 2 of (x >= 1) over ?p in class T",
    ),
    ("example of a holds for x = 1 nan 2, 3", "example of a holds for x = 1 unknown 2 3"),
    ('range knowledge g of y model "a"', 'range knowledge g of y from model "a"'),
]
LEFT = [
    "example of a fails for x = 3/4",
    "range knowledge k of y when x > 5 allow 3 and 5 % otherwise allow any",
    "signal pump A in bar",
    "rule a require x between 1,500 and 2,000 mbar",
    "rule a require x in (3, 5)",
    "rule a require x in [3, 5[",
    "infer a per run find ?c in x >= ?c",
    "rule a require x >= 1,000",
    "rule a require always x >= 1 -> y >= 1",
    "rule a require (x >= 1 -> y >= 1)",
    "rule a require x => 1",
    "rule a require x >= 1 and y >= 1 or z >= 1",
    "rule a require x >= 60 N m",
    "rule a require x",
    "rule a require (x >= 1",
    "rule a require x >= 1 kind causal",
    "rule a require x == 1 within 2 bar",
    "range knowledge g of y when x > 1 allow A",
]


@pytest.mark.parametrize(("text", "wanted"), MENDED)
def test_fixes_lead_to_a_valid_file(text: str, wanted: str) -> None:
    for _ in range(6):
        _, problems = parse(text, "a.fkg")
        text, done = put_in(text, [problem.fix for problem in problems if problem.fix])
        if not done:
            break
    assert (text, problems) == (wanted, ())


@pytest.mark.parametrize("text", LEFT)
def test_what_is_left_to_the_author(text: str) -> None:
    _, problems = parse(text, "a.fkg")
    assert problems
    assert all(problem.fix is None for problem in problems)


def span(column: int, end: int, line: int = 1) -> Span:
    return Span(file="a", line=line, column=column, end_line=line, end_column=end)


def test_edits_that_meet_or_do_not_fit_are_not_made() -> None:
    first = Fix(edits=(Edit(span=span(1, 3), was="ab", text="x"),))
    second = Fix(edits=(Edit(span=span(2, 4), was="bc", text="y"),))
    stale = Fix(edits=(Edit(span=span(4, 5), was="z", text="q"),))
    beyond = Fix(edits=(Edit(span=span(1, 2, line=9), was="a", text="q"),))
    both = Fix(
        edits=(
            Edit(span=span(4, 4), was="", text="("),
            Edit(span=span(1, 2, line=2), was="e", text="E"),
        )
    )
    assert put_in("abcd\nef", [first, second, stale, beyond, both, first]) == (
        "xc(d\nEf",
        (first, both),
    )


def test_suggestions_keep_the_marks_of_a_name() -> None:
    advice = Suggestion("did you mean `torque`?", "torqe", "torque")
    for column, end, start in ((1, 6, 1), (1, 7, 2), (1, 8, 2)):
        fix = suggested(span(column, end), advice)
        assert fix is not None
        (edit,) = fix.edits
        assert (edit.span.column, edit.was, edit.text) == (start, "torqe", "torque")
    assert suggested(span(1, 12), advice) is None
    assert suggested(span(1, 6), "did you mean `torque`?") is None
    assert suggested(span(1, 6), Suggestion("", "torqe", "two words")) is None


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("torqe", ["torque", "speed"], "torque"),
        ("Torque", ["torque"], "torque"),
        ("torque", ["Torque", "TORQUE"], None),
        ("flow_1", ["flow_2"], None),
        ("flow1", ["flow"], None),
        ("inlet_a", ["inlet_b"], None),
        ("inlet_on", ["inlet_in"], None),
        ("slow", ["flow"], None),
        ("low", ["slow"], None),
        ("presure", ["pressure", "presures"], None),
        ("max_presure", ["max_pressure"], "max_pressure"),
        ("pressure", ["pressure"], None),
    ],
)
def test_a_name_is_certain_where_one_slip_explains_it(
    word: str, known: list[str], meant: str | None
) -> None:
    assert certain_match(word, known) == meant
    assert isinstance(did_you_mean(word, known), Suggestion) == (meant is not None)
