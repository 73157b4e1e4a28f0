"""Knowledge with conditions on other steps, over the times and traces of a table."""

from __future__ import annotations

import numpy as np
import pytest

import fedkg
from fedkg.constraints.meaning.interpreter import Timing
from fedkg.evaluation import evaluate
from fedkg.evaluation import knowledge_on_table as chunks
from fedkg.knowledge import agreement, allowed_classes, allowed_interval, predictions
from fedkg.pack import Pack
from fedkg.tables import Table

RULES = """
timeline time column "time" step 5 min trace column "line"{ends}
signal ash in % span 0 .. 40
label grade classes A, B, C
output quality in % span 0 .. 100
range knowledge r of grade  when previous (ash > 12 %) allow C  otherwise allow any
predict knowledge p of grade  when next (ash > 12 %) predict C  otherwise predict A
range knowledge q of quality
  when previous (ash > 12 %) allow between ash and 50 %
  otherwise allow any
rule other require ash <= 40 %
"""
ASH = [13.0, 1.0, 13.0, 1.0, 1.0, 1.0]
MINUTES = [0, 5, 0, 10, 10, 5]
"""Line x is ordered, without a row at 10 min; the last rows of line y are in reverse order."""
LINES = ["x", "x", "y", "x", "y", "y"]
# the row before: none, 0, none, (10 min: 1), 5, 2; the row behind: 1, 3, 5, none, none, 4


def compiled(ends: str = "") -> Pack:
    return fedkg.compile(text=RULES.format(ends=ends))


def table(grades: str = "ACACCC") -> Table:
    times = [f"2024-03-09 00:{minute:02d}:00" for minute in MINUTES]
    return Table.of(
        "t.csv",
        {
            "time": times,
            "line": LINES,
            "ash": np.array(ASH),
            "grade": list(grades),
            "quality": np.full(6, 20.0),
        },
    )


@pytest.mark.parametrize("cells", [4_000_000, 1])
def test_conditions_follow_the_times_and_the_traces_of_a_table(
    monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    monkeypatch.setattr(chunks, "CELLS", cells)
    found = {one.model: one for one in evaluate(compiled(), table()).knowledge}
    assert found["r"].samples == 6
    assert (found["r"].restricted, found["r"].labelled, found["r"].right) == (
        2,
        2,
        2,
    )  # rows 1 and 5, which follow 13 %
    assert found["p"].restricted == 4  # the last step of each line does not know the next one
    # it allows only A at rows 0, 1, 2 and 5
    assert (found["p"].labelled, found["p"].right) == (4, 2)
    assert (found["p"].outside, found["p"].first_outside) == (2, 1)
    assert (found["q"].restricted, found["q"].right) == (2, 2)


def test_windows_that_end_with_their_trace() -> None:
    found = {one.model: one for one in evaluate(compiled(" ends clip"), table()).knowledge}
    assert found["p"].restricted == 6


def test_the_first_row_is_named_by_its_place_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CELLS", 1)
    minutes, lines = [5, 5, 0, 0], ["x", "y", "y", "x"]
    times = [f"2024-03-09 00:0{minute}:00" for minute in minutes]
    made = Table.of(
        "t.csv", {"time": times, "line": lines, "ash": np.array([1.0, 1.0, 13.0, 13.0])}
    )
    found = {one.model: one for one in evaluate(compiled(" ends clip"), made).knowledge}
    assert (found["p"].outside, found["p"].first_outside) == (2, 0)


def test_timing_says_which_samples_follow_each_other() -> None:
    pack = compiled()
    columns = [column.name for column in pack.manifest.contract.columns]
    values = np.full((len(pack.manifest.contract.views), 6, len(columns)), np.nan)
    values[:, :, columns.index("ash")] = ASH
    timing = Timing(
        trace=np.array([0, 0, 1, 0, 1, 1]), step=np.array([0, 1, 0, 2, 2, 1]), end="strict"
    )
    r, p, q = pack.manifest.knowledge
    only_c = [False, False, True]
    assert np.flatnonzero(
        (allowed_classes(pack, r, values, timing) == only_c).all(axis=1)
    ).tolist() == [1, 5]
    assert np.flatnonzero((allowed_classes(pack, r, values) == only_c).all(axis=1)).tolist() == [
        1,
        3,
    ]
    assert allowed_interval(pack, q, values, timing)[[1, 3, 5]].tolist() == [
        [1.0, 50.0],
        [0.0, 100.0],
        [1.0, 50.0],
    ]
    np.testing.assert_array_equal(
        predictions(pack, p, values, timing), [0, 0, 0, np.nan, np.nan, 0]
    )
    np.testing.assert_array_equal(predictions(pack, p, values), [0, 2, 0, 0, 0, np.nan])
    assert {one.model: one.restricted for one in agreement(pack, values, {}, timing)} == {
        "r": 2,
        "p": 4,
        "q": 2,
    }
    assert {one.model: one.restricted for one in agreement(pack, values, {})} == {
        "r": 2,
        "p": 5,
        "q": 2,
    }
