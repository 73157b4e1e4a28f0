"""Windows of series: their contents, treatment of gaps, and no leak from other clients or the
future.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkg.data.sets import DataSet, data_set, forecast_windows, labelled_windows, series
from fedkg.errors import JobError


def rows(
    values: dict[str, list[float]],
    *,
    times: dict[str, list[float]] | None = None,
    test: list[bool] | None = None,
) -> DataSet:
    """A data set of two features per client: the values, and ten times them; y is the values."""
    clients = np.array([name for name, own in values.items() for _ in own], dtype=object)
    flat = np.array([value for own in values.values() for value in own])
    time = np.array(
        [t for name, own in values.items() for t in (times or {}).get(name, range(len(own)))],
        dtype=float,
    )
    marks = None if test is None else np.array(test)
    parts = {
        "features": ("a", "b"),
        "units": ("", ""),
        "clients": clients,
        "time": time,
        "step_unit": "h",
        "test": marks,
    }
    return DataSet(
        name="small",
        source="here",
        x=np.stack([flat, 10 * flat], 1),
        y=flat,
        task="forecast",
        **parts,
    )


NAN = float("nan")


def test_a_window_holds_the_last_steps_and_its_target_the_next_ones() -> None:
    found = forecast_windows(
        rows({"p": [0, 1, 2, 3, 4, 5], "q": [7, 8, 9, 10]}), history=3, horizon=1, targets=["a"]
    )
    assert found.x.shape == (4, 3, 2)
    assert found.x[:, :, 0].tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [7, 8, 9]]
    assert found.x[0, :, 1].tolist() == [0, 10, 20]
    assert found.y.tolist() == [[3], [4], [5], [10]]
    assert found.clients is not None
    assert found.clients.tolist() == ["p", "p", "p", "q"]
    assert found.time is not None
    assert found.time.tolist() == [3, 4, 5, 3]


def test_several_targets_go_step_after_step() -> None:
    found = forecast_windows(rows({"p": [0, 1, 2, 3]}), history=1, horizon=2, stride=2)
    assert found.y.tolist() == [[1, 10, 2, 20]]


def test_rows_in_any_order_with_missing_and_double_steps_come_on_an_even_grid() -> None:
    one = series(rows({"p": [3.0, 1.0, 6.0, 7.0]}, times={"p": [13, 11, 16, 16]}))[0]
    np.testing.assert_array_equal(one.x[:, 0], [1, NAN, 3, NAN, NAN, 7])
    assert one.time.tolist() == [11, 12, 13, 14, 15, 16]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [NAN, 1, NAN, 3, NAN, NAN, 6, NAN]),
        ({"gaps": "interpolate"}, [NAN, 1, 2, 3, 4, 5, 6, NAN]),
        ({"gaps": "interpolate", "longest": 1}, [NAN, 1, 2, 3, NAN, NAN, 6, NAN]),
    ],
)
def test_gaps_stay_unknown_or_are_bridged_between_known_values(
    options: dict[str, object], expected: list[float]
) -> None:
    one = series(rows({"p": [NAN, 1, NAN, 3, NAN, NAN, 6, NAN]}), **options)[0]
    np.testing.assert_array_equal(one.x[:, 0], expected)


def test_a_gap_before_a_time_is_bridged_without_the_values_from_it_on() -> None:
    data = rows({"p": [1, NAN, 3, NAN, NAN, NAN, 7, NAN, 9], "q": [1, NAN, 3]})
    one, other = series(data, gaps="interpolate", before={"p": 5.0})
    np.testing.assert_array_equal(one.x[:, 0], [1, 2, 3, NAN, NAN, 6, 7, 8, 9])
    np.testing.assert_array_equal(other.x[:, 0], [1, 2, 3])
    np.testing.assert_array_equal(
        series(data, gaps="interpolate", longest=1, before={"p": 4.0})[0].x[:, 0],
        [1, 2, 3, NAN, NAN, NAN, 7, 8, 9],
    )


@given(
    st.lists(st.one_of(st.none(), st.integers(-5, 5)), min_size=2, max_size=30), st.integers(1, 4)
)
def test_bridges_change_no_known_value_and_leave_no_short_gap_inside(
    cells: list[int | None], longest: int
) -> None:
    values = np.array([NAN if cell is None else float(cell) for cell in cells])
    found = series(rows({"p": values.tolist()}), gaps="interpolate", longest=longest)[0].x[:, 0]
    known = np.flatnonzero(~np.isnan(values))
    np.testing.assert_array_equal(found[known], values[known])
    for before, after in pairwise(known):
        assert np.isnan(found[before + 1 : after]).all() == (
            after - before - 1 > longest or after == before + 1
        )
    if len(known):
        assert np.isnan(found[: known[0]]).all()
        assert np.isnan(found[known[-1] + 1 :]).all()


def test_gaps_are_refused_by_client_feature_and_time() -> None:
    with pytest.raises(JobError, match="client q has a gap: no value of a at 1 h"):
        series(rows({"p": [1, 2], "q": [1, NAN]}), gaps="error")


def test_windows_without_any_known_input_or_target_are_left_out_and_others_keep_their_gaps() -> (
    None
):
    found = forecast_windows(
        rows({"p": [1, NAN, NAN, 4, 5, NAN, 7, 8]}), history=2, horizon=1, targets=["a"]
    )
    np.testing.assert_array_equal(found.x[:, :, 0], [[NAN, 4], [5, NAN], [NAN, 7]])
    assert found.y[:, 0].tolist() == [5, 7, 8]


def test_labelled_windows_take_the_target_of_their_last_row() -> None:
    data = rows({"p": [0, 1, 2, 3], "q": [8, 9]}, test=[False] * 4 + [True] * 2)
    found = labelled_windows(data, history=2)
    assert found.y.tolist() == [1, 2, 3, 9]
    assert found.test is not None
    assert found.test.tolist() == [False, False, False, True]


def test_windows_for_predictions_include_the_last_one_but_none_that_ends_in_a_gap() -> None:
    data = rows({"p": [0, 1, 2, 4, 5, 6, 7]}, times={"p": [0, 1, 2, 4, 5, 6, 7]})
    found = labelled_windows(data, history=2, stride=2, to_predict=True)
    assert found.rows.tolist() == [1, 4, 6]
    gap = labelled_windows(data, history=2, to_predict=True)
    assert gap.rows.tolist() == [1, 2, 3, 4, 5, 6]
    ahead = forecast_windows(data, history=2, horizon=3, stride=5, to_predict=True)
    assert ahead.time is not None
    assert ahead.time.tolist() == [2, 7, 8]


def test_windows_that_cannot_be_are_rejected() -> None:
    data = rows({"p": [1, 2, 3]})
    with pytest.raises(
        JobError, match=r"long enough for a window of 3 \+ 1 steps(.|\n)*at most 3 steps"
    ):
        forecast_windows(data, history=3, horizon=1)
    empty = rows({"p": [float("nan")] * 6})
    with pytest.raises(JobError, match=r"every window is empty(.|\n)*without a value"):
        forecast_windows(empty, history=3, horizon=1)
    with pytest.raises(JobError, match="the horizon of windows must be at least 1"):
        forecast_windows(data, history=1, horizon=0)
    with pytest.raises(JobError, match=r"the history and the stride(.|\n)*history 0, stride 0\n"):
        labelled_windows(data, history=0, stride=0)
    with pytest.raises(JobError, match="no feature c"):
        forecast_windows(data, history=1, horizon=1, targets=["c"])
    with pytest.raises(JobError, match="unknown, interpolate or error"):
        series(data, gaps="drop")  # type: ignore[arg-type]
    with pytest.raises(JobError, match="not a series"):
        series(data_set("mnist", size=6))
    with pytest.raises(JobError, match="not evenly spaced in time"):
        series(rows({"p": [1, 2]}, times={"p": [0, 1_000]}))


def test_the_blank_hour_of_the_stations_needs_a_policy() -> None:
    data = data_set("traffic", size=7 * 24)
    plain = forecast_windows(data, history=48, horizon=24, stride=24)
    assert np.isnan(plain.x).any()
    assert np.isnan(plain.y).any(axis=1).all()  # every day has an hour that was not counted
    bridged = forecast_windows(
        data, history=48, horizon=24, stride=24, gaps="interpolate", longest=3
    )
    assert not np.isnan(bridged.y).any(axis=1).all()
    assert (
        np.nanmax(np.abs(np.where(np.isnan(plain.y), 0, plain.y - bridged.y[: len(plain.y)]))) == 0
    )
