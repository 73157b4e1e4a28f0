"""Regression by classes (Fan et al. 2022, appendix C)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkg.knowledge import bin_centres, bin_edges, bin_of, bins_in_interval, expected_number


def test_bins_are_half_open_and_the_last_one_is_closed() -> None:
    ends = bin_edges((0.0, 10.0), 5)
    np.testing.assert_array_equal(
        bin_of(np.array([0.0, 1.999, 2.0, 9.9, 10.0, -3.0, 12.0, np.nan]), ends),
        [0, 0, 1, 4, 4, 0, 4, np.nan],
    )
    np.testing.assert_array_equal(bin_centres(ends), [1, 3, 5, 7, 9])


def test_an_interval_is_the_bins_that_it_meets() -> None:
    ends = bin_edges((0.0, 10.0), 5)
    masks = bins_in_interval(
        np.array(
            [
                [1.0, 4.0],
                [2.0, 2.0],
                [9.5, 10.0],
                [10.0, 10.0],
                [5.0, 4.0],
                [11.0, 12.0],
                [-np.inf, np.inf],
            ]
        ),
        ends,
    )
    found = ["".join(map(str, row.astype(int))) for row in masks]
    assert found == ["11100", "01000", "00001", "00001", "00000", "00000", "11111"]


@given(st.floats(-50, 50), st.integers(1, 40))
def test_a_number_is_in_the_range_that_it_alone_makes(number: float, count: int) -> None:
    ends = bin_edges((-50.0, 50.0), count)
    mask = bins_in_interval(np.array([[number, number]]), ends)[0]
    assert mask[int(bin_of(np.array([number]), ends)[0])]
    assert mask.sum() == 1


def test_the_expected_number_is_the_mean_of_the_centres() -> None:
    assert expected_number(np.array([[0.5, 0.5, 0.0]]), bin_edges((0.0, 3.0), 3)).tolist() == [1.0]


@pytest.mark.parametrize(
    ("span", "count"), [((1.0, 1.0), 3), ((0.0, 1.0), 0), ((0.0, float("inf")), 3)]
)
def test_no_bins_without_width(span: tuple[float, float], count: int) -> None:
    with pytest.raises(ValueError, match=r"cannot divide .* bins"):
        bin_edges(span, count)


def test_the_papers_bins() -> None:
    ends = bin_edges((0.0, 10.0), 5)
    assert bin_of(np.array([0.0, 2.0, 9.999, 10.0]), ends).tolist() == [0.0, 1.0, 4.0, 4.0]
    closed = bins_in_interval(np.array([[2.0, 4.0], [0.0, 10.0], [10.0, 10.0]]), ends)
    assert [np.flatnonzero(row).tolist() for row in closed] == [[1, 2], [0, 1, 2, 3, 4], [4]]
    half_open = bins_in_interval(np.array([[1.9, 2.0], [6.0, 8.0]]), ends, open_end=True)
    assert [np.flatnonzero(row).tolist() for row in half_open] == [[0], [3]]


def test_a_tenth_is_where_it_is_written() -> None:
    ends = bin_edges((0.0, 1.0), 10)
    written = np.arange(10) / 10
    assert (ends[3], written[3]) == (0.30000000000000004, 0.3)
    assert bin_of(written, ends).tolist() == list(range(10))
    assert [int(row.sum()) for row in bins_in_interval(np.stack([written, written], 1), ends)] == [
        1
    ] * 10
