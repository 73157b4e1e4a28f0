"""Knowledge models against each other and against the truth, on data."""

from __future__ import annotations

import numpy as np
import pytest

import fedkg
from fedkg.evaluation.result import knowledge_lines
from fedkg.knowledge import agreement

RULES = """
signal ash in %
label grade classes A, B, C
output quality in % span 0 .. 100
range knowledge r of grade
  when ash > 12 % allow C
  when ash > 10 % allow A, B
  otherwise allow any
predict knowledge p of grade
  when ash > 11 % predict C
  when ash > 5 % predict B
  otherwise predict A
range knowledge q of quality  when ash > 12 % allow 0 .. 50 %  otherwise allow any
predict knowledge s of quality  when ash > 12 % predict 60 %  otherwise predict 90 %
"""


def test_range_models_that_leave_nothing_together_are_counted_beside_those_that_do_so_alone() -> (
    None
):
    with pytest.warns(fedkg.RuleWarning, match="FKG379"):
        pack = fedkg.compile(
            text="""
signal ash in %
label grade classes A, B, C
output quality in % span 0 .. 100
range knowledge r of grade  when ash > 12 % allow C  when ash > 30 % allow A, B  otherwise allow any
range knowledge s of grade  when ash > 20 % allow A, B  otherwise allow any
range knowledge q of quality  when ash > 12 % allow 0 .. 50 %  otherwise allow any
range knowledge t of quality  when ash > 20 % allow between 60 % and 2 * ash  otherwise allow any
"""
        )
    columns = [column.name for column in pack.manifest.contract.columns]
    values = np.full((1, 5, len(columns)), np.nan)
    values[0, :, columns.index("ash")] = [1.0, 13.0, 25.0, 35.0, np.nan]
    found = {one.model: one for one in agreement(pack, values, {})}
    assert [
        (found[name].empty, found[name].disjoint, found[name].first_disjoint) for name in "rs"
    ] == [(1, 1, 2), (0, 2, 2)]
    assert [
        (found[name].empty, found[name].disjoint, found[name].first_disjoint) for name in "qt"
    ] == [(0, 2, 2), (1, 1, 3)]
    [told] = [line for line in knowledge_lines(found["s"]) if "together" in line]
    assert told == (
        "s: the ranges of `grade` together allow nothing in 2 rows, first in row 3: they "
        "contradict it"
    )


def test_contradictions_are_counted_and_the_first_is_named() -> None:
    with pytest.warns(fedkg.RuleWarning, match="FKG379"):
        pack = fedkg.compile(text=RULES)
    ash = [1.0, 6.0, 11.0, 11.5, 13.0, np.nan]
    values = np.array(ash)[None, :, None]
    if len(pack.manifest.contract.columns) > 1:
        values = np.full((1, 6, len(pack.manifest.contract.columns)), np.nan)
        values[0, :, [column.name for column in pack.manifest.contract.columns].index("ash")] = ash
    truth = {
        "grade": np.array([0.0, 1.0, 2.0, 2.0, 2.0, 0.0]),
        "quality": np.array([90.0, 89.0, 60.0, np.nan, 40.0, 1.0]),
    }
    found = {one.model: one for one in agreement(pack, values, truth)}
    assert (found["r"].empty, found["r"].first_empty) == (1, 4)
    assert (found["r"].restricted, found["r"].labelled, found["r"].right) == (3, 3, 0)
    assert (found["p"].outside, found["p"].first_outside) == (1, 3)
    assert (found["p"].restricted, found["p"].right) == (5, 4)
    assert (found["s"].outside, found["s"].first_outside) == (1, 4)
    assert (found["s"].labelled, found["s"].right) == (4, 2)
    assert (found["q"].restricted, found["q"].right) == (1, 1)
