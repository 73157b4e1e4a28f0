"""Compiled temporal rules have the right meaning: hand-computed verdicts on small traces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from temporal_traces import compiled, judged, verdicts

CLIP, STRICT = "timeline step 5 min ends clip\n", "timeline step 5 min\n"
SIGNAL = "signal p in bar\n"
TRACE = [1, 1, 2, 4, 6, 4]


@pytest.mark.parametrize(
    ("formula", "clip", "strict"),
    [
        ("always [0 min, 10 min] p <= 5", "TTFFFT", "TTFFF?"),
        ("always [5 min, 5 min] p <= 5", "TTTFTT", "TTTFT?"),
        ("eventually within 10 min p >= 6", "FFTTTF", "FFTTT?"),
        ("once [5 min, 10 min] p >= 4", "FFFFTT", "??FFTT"),
        ("historically [0, 1] p <= 5", "TTTTFF", "?TTTFF"),
        ("next p >= 6", "FFFTFF", "FFFTF?"),
        ("previous p >= 2", "FFFTTT", "?FFTTT"),
        ("eventually p >= 6", "TTTTTF", "TTTTTF"),
        ("weak next p >= 6", "FFFTFT", "FFFTFT"),
        ("weak previous p >= 2", "TFFTTT", "TFFTTT"),
        ("at the start and p >= 0", "TFFFFF", "TFFFFF"),
        ("if at the end then p >= 6", "TTTTTF", "TTTTTF"),
        ("p >= 4 begins", "FFFTFF", "FFFTFF"),
        ("p <= 1 begins", "TFFFFF", "TFFFFF"),
        ("p <= 1 becomes true", "FFFFFF", "?FFFFF"),
        ("p >= 4 iff p >= 2", "TTFTTT", "TTFTTT"),
        ("p >= 4 xor p >= 2", "FFTFFF", "FFTFFF"),
        ("if previous (p >= 2 and p <= 4) then p >= 4", "TTTTTT", "?TTTTT"),
        ("p <= p 1 ago initially 1 bar", "TTFFFT", "TTFFFT"),
        ("p - p 10 min ago initially -p >= 3 bar", "FFFTTF", "FFFTTF"),
        ("p <= 1 weak until p >= 4", "FFFTTT", "FFFTTT"),
        ("p >= 4 weak until p >= 7", "FFFTTT", "FFFTTT"),
        ("p >= 4 until p >= 7", "FFFFFF", "FFFFFF"),
        ("p <= 5 weak until [0, 2] p >= 7", "TTFFFT", "TTFFF?"),
        ("p <= 2 weak since p >= 4", "TTTTTT", "TTTTTT"),
        ("p <= 1 weak since p >= 6", "TTFFTF", "TTFFTF"),
        ("if p <= 1 then always p <= 5", "FFTTTT", "FFTTTT"),
        ("if p <= 1 then eventually [2, inf] p >= 6", "TTTTTT", "TTTTTT"),
        ("p <= 3 until p >= 4", "TTTTTT", "TTTTTT"),
        ("p <= 3 until closed p >= 4", "FFFFFF", "FFFFFF"),
        ("p <= 4 until closed p >= 4", "TTTTFT", "TTTTFT"),
        ("p <= 3 until [0, 2] p >= 4", "FTTTTT", "FTTTTT"),
        ("p >= 2 since p >= 6", "FFFFTT", "FFFFTT"),
        ("p >= 4 only after p <= 2 within 10 min", "TTTTTT", "TTTTTT"),
        ("p >= 4 only after p <= 1 within 5 min", "TTTFTT", "TTTFTT"),
        ("p <= past p + 1 bar", "?TTFFT", "?TTFFT"),
        ("not (always [0, 1] p <= past p + 2 bar)", "?FFFFF", "?FFFF?"),
    ],
)
def test_one_operator(formula: str, clip: str, strict: str) -> None:
    assert verdicts(f"{CLIP}{SIGNAL}rule r require {formula}\n", p=TRACE)["r"] == clip
    assert verdicts(f"{STRICT}{SIGNAL}rule r require {formula}\n", p=TRACE)["r"] == strict


def test_the_start_and_the_end_of_each_trace_are_known_in_spite_of_gaps() -> None:
    text = (
        f'timeline step 5 min time column "t" trace column "heat"\n{SIGNAL}'
        "rule start require p != 7 and at the start\nrule end require at the end and p != 7\n"
        "rule begin require p >= 2 begins\nrule ago require p 1 ago initially 3 bar >= 3\n"
    )
    found = verdicts(
        text,
        p=[2, 2, None, 2, 3, 1],
        t=[f"2024-01-01 00:{minute:02}" for minute in (0, 10, 15, 20, 0, 5)],
        heat=["a", "a", "a", "a", "b", "b"],
    )
    assert (found["start"], found["end"]) == ("TFFFTF", "FFFTFT")
    # Minute 5 of trace a is missing, so nobody knows what came before minute 10.
    assert found["begin"] == "T?F?TF"
    assert found["ago"] == "T?F?TT"


def test_a_step_with_rows_that_differ_is_still_a_step() -> None:
    text = (
        f'timeline step 5 min time column "t"\n{SIGNAL}'
        "rule start require at the start or p <= 5\nrule end require at the end or p <= 5\n"
        "rule back require weak previous p != 7\n"
    )
    times = [f"2024-01-01 00:{minute:02}" for minute in (0, 0, 5, 10, 15, 15)]
    found = verdicts(text, p=[1, 2, 9, 9, 1, 2], t=times)
    assert found == {"start": "TTFF??", "end": "??FFTT", "back": "TT?TTT"}


def test_initially_is_judged_at_the_first_step_of_each_trace() -> None:
    text = f'timeline step 5 min trace column "heat"\n{SIGNAL}rule r require initially p <= 1\n'
    assert verdicts(text, p=[1, 5, 2, 0], heat=["a", "a", "b", "b"])["r"] == "T?F?"


@pytest.mark.parametrize("timeline", [CLIP, STRICT])
@pytest.mark.parametrize(
    ("trace", "said"),
    [
        (
            [4, 4, 1, 4],
            "FTTT",
        ),  # holding at the first step counts as an onset; the second time the cause was present
        ([1, 4, 4, 4], "TTTT"),
        ([2, 2, 4, 4], "TTFT"),
        ([2, None, 4, 4], "T??T"),  # an unknown step may have contained the cause
    ],
)
def test_only_after_looks_at_the_step_where_the_effect_comes(
    timeline: str, trace: list[int | None], said: str
) -> None:
    text = f"{timeline}{SIGNAL}rule r require p >= 4 only after p <= 1\n"
    assert verdicts(text, p=trace)["r"] == said


def test_the_past_of_an_output_is_read_as_data_within_its_trace() -> None:
    pack = compiled(
        'timeline step 5 min trace column "heat"\noutput w in t\nrule r require w <= 1.1 * past w\n'
    )
    columns = {column.name: column for column in pack.manifest.contract.columns}
    assert columns["w"].role == "output"
    assert columns["w (history)"].role == "input"
    assert columns["w (history)"].source == "w"
    assert [view.groups for view in pack.manifest.contract.views] == [(), ("heat",)]
    said = judged(pack, {"w": [10, 11, 13, 5, 5], "heat": ["a", "a", "a", "b", "b"]})["r"]
    assert said.verdicts == "?TF?T"
    np.testing.assert_allclose(said.robustness[[1, 2, 4]], [0, 12.1 - 13, 0.5], atol=1e-12)


def test_the_class_of_the_step_before() -> None:
    text = f"{STRICT}label grade classes A, B\nrule r require if past grade is B then grade is B\n"
    assert verdicts(text, grade=["A", "B", "A", "A"])["r"] == "?TFT"


def test_robustness_is_the_worst_of_the_window_in_the_unit_of_the_comparison() -> None:
    said = judged(
        compiled(f"{CLIP}{SIGNAL}rule r require always [0 min, 5 min] p <= 5000 mbar\n"),
        {"p": TRACE},
    )["r"]
    np.testing.assert_allclose(said.robustness, [4, 3, 1, -1, -1, 1])


def test_windows_differ_from_row_to_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("waits.csv").write_text("tag;wait [min]\np;0\nq;10\n", encoding="utf-8")
    text = (
        f'{CLIP}rule r for ?tag, ?wait in table "waits.csv" require always [0 min, ?wait]'
        " value(?tag) <= 5\n"
    )
    pack = compiled(text)
    (bank,) = pack.banks
    assert bank.rows == 2
    assert {tuple(row) for row in bank.params[:, :2].tolist()} == {(0.0, 0.0), (0.0, 2.0)}


def test_a_template_is_what_stands_in_its_place() -> None:
    template = "template inside(x, low, high, width) = always [0 h, width] low <= x <= high\n"
    used = compiled(
        f"{CLIP}{SIGNAL}{template}rule r require follows inside(p, 1 bar, high = 5000 mbar, width ="
        " 10 min)\n"
    )
    written = compiled(
        f"{CLIP}{SIGNAL}rule r require always [0 h, 10 min] 1 bar <= p <= 5000 mbar\n"
    )
    assert used.manifest.skeletons == written.manifest.skeletons
    np.testing.assert_array_equal(used.banks[0].params, written.banks[0].params)


def test_templates_inside_templates_take_expressions_and_classes() -> None:
    text = f"""{CLIP}{SIGNAL}label grade classes A, B
template high(x, limit) = x >= limit
template graded(g, class) = g is class
template answer(cause, limit, g, class, wait)
  = if follows high(cause, limit) then (eventually within_wait(g, class, wait))
"""
    text = text.replace(
        "(eventually within_wait(g, class, wait))",
        "(eventually [0, wait] follows graded(g, class))",
    )
    text += "rule r require follows answer(2 * p, 8 bar, grade, B, 5 min)\n"
    assert verdicts(text, p=[1, 4, 1, 4], grade=["A", "A", "B", "A"])["r"] == "TTTF"


def test_the_timeline_stands_in_the_contract() -> None:
    contract = compiled(f"{CLIP}{SIGNAL}rule r require p <= 3\n").manifest.contract
    assert (contract.kind, contract.step, contract.end) == ("trace", 300.0, "clip")
    assert compiled(f"{SIGNAL}rule r require p <= 3\n").manifest.contract.kind == "table"
    assert compiled(f"{SIGNAL}rule r require next p <= 3\n").manifest.contract.kind == "trace"
    assert compiled(f"{SIGNAL}rule r require always p <= 3\n").manifest.contract.kind == "table"
    assert (
        compiled(
            f'timeline step 1 s trace column "heat"\n{SIGNAL}rule r require next p <= 3\n'
        ).manifest.contract.kind
        == "panel"
    )


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ("always [0, ?low] value(?tag) <= ?high", 0),
        ("always [0, 3] ?low <= value(?tag) <= ?high", 2),
        ("value(?tag) >= 0 only after ?low <= value(?tag) <= ?high within 3 s", 2),
        ("value(?tag) >= ?low only after value(?tag) <= ?high within 3 s", 0),
        ("value(?tag) <= ?high until value(?tag) <= ?low", 0),
    ],
)
def test_what_a_missing_limit_leaves_of_a_temporal_rule(
    rule: str, left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("limits.csv").write_text("tag;low;high\np;1;2\nq;;2\n", encoding="utf-8")
    pack = compiled(
        f'timeline step 1 s\nrule r for ?tag, ?low, ?high in table "limits.csv" require {rule}\n'
    )
    kept = sum(bank.rows for bank in pack.banks)
    assert kept == 1 + (left > 0)
