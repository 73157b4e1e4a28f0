"""Splits over sites: complete, reproducible, with the requested skew; empty sites are rejected by
name.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg.data.partition import (
    apportion,
    by_column,
    deal_names,
    dirichlet,
    hold_out,
    iid,
    too_few_rows,
)
from fedkg.errors import JobError

SITES = ("graz", "linz", "wien", "steyr", "villach")


def stream(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def labels(n: int = 5000, share: float = 0.1) -> np.ndarray:
    return (np.arange(n) < share * n).astype(float)


def imbalance(alpha: float) -> float:
    spread = []
    for seed in range(8):
        counts = np.array(list(dirichlet(labels(), SITES, alpha, stream(seed)).counts().values()))
        spread.append(counts.std() / counts.mean())
    return float(np.mean(spread))


def test_every_row_has_one_site_and_equal_seeds_agree():
    one, two = (dirichlet(labels(), SITES, 0.5, stream(3), min_samples=10) for _ in range(2))
    np.testing.assert_array_equal(one.owner, two.owner)
    assert sum(one.counts().values()) == 5000
    np.testing.assert_array_equal(
        np.sort(np.concatenate([one.rows(k) for k in range(5)])), np.arange(5000)
    )


def test_smaller_alpha_makes_sites_more_unequal():
    assert imbalance(0.1) > 1.5 * imbalance(1.0) > 6 * imbalance(100.0)


def test_label_mix_differs_between_sites_for_small_alpha():
    split = dirichlet(labels(), SITES, 0.3, stream(1), min_samples=20)
    rates = [labels()[split.rows(k)].mean() for k in range(5)]
    assert max(rates) > 5 * (min(rates) + 1e-9)


def test_size_alpha_makes_sizes_differ_where_alpha_does_not():
    even = dirichlet(labels(), SITES, 1000.0, stream(0)).counts()
    skewed = dirichlet(labels(), SITES, 1000.0, stream(0), size_alpha=0.5).counts()
    assert max(even.values()) < 1.2 * min(even.values())
    assert max(skewed.values()) > 3 * min(skewed.values())


def test_draws_with_too_few_rows_are_drawn_again():
    split = dirichlet(labels(), SITES, 0.1, stream(0), min_samples=50)
    assert split.draws > 1
    assert min(split.counts().values()) >= 50


def test_a_site_that_stays_too_small_is_rejected_by_name():
    with pytest.raises(JobError, match=r"site `\w+` has .* after the split") as caught:
        dirichlet(labels(60), SITES, 0.05, stream(0), min_samples=12)
    assert "at least 12 rows" in str(caught.value)
    assert "alpha" in caught.value.help


def test_more_sites_than_rows_is_rejected():
    with pytest.raises(JobError, match="no rows after the split"):
        dirichlet(labels(3), SITES, 1.0, stream(0))


def test_iid_sites_are_alike():
    split = iid(labels(), SITES, stream(0))
    assert set(split.counts().values()) == {1000}
    assert {float(labels()[split.rows(k)].mean()) for k in range(5)} == {0.1}


def test_by_column_follows_the_texts_and_names_strangers():
    split = by_column(["linz", "graz", "linz"], ("graz", "linz"), column="site")
    assert split.counts() == {"graz": 1, "linz": 2}
    with pytest.raises(JobError, match=r"names sites that the job does not have") as caught:
        by_column(["linz", "paris"], ("graz", "linz"), column="site")
    assert "paris" in caught.value.received


def test_an_empty_site_in_a_column_is_named():
    with pytest.raises(JobError, match="site `graz` has no rows"):
        by_column(["linz", "linz"], ("graz", "linz"), column="site")


@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=8), st.integers(0, 1000))
@tries(30)
def test_apportion_sums_and_stays_within_one(shares, total):
    array = np.array(shares)
    counts = apportion(array, total)
    assert counts.sum() == total
    assert (np.abs(counts - array / array.sum() * total) <= 1.0 + 1e-9).all()


def test_deal_gives_every_name_equally_often():
    names = deal_names(10, ["a", "b", "c"], stream(0))
    assert sorted(names.count(name) for name in "abc") == [3, 3, 4]


def test_hold_out_keeps_class_shares_and_loses_no_row():
    parts = hold_out(labels(1000), (0.6, 0.25, 0.15), stream(0))
    assert [len(part) for part in parts] == [600, 250, 150]
    assert [int(labels(1000)[part].sum()) for part in parts] == [60, 25, 15]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(1000))


def test_of_many_sites_the_poorest_are_named():
    error = too_few_rows([f"s{i}" for i in range(300)], [i + 1 for i in range(300)], 50, "so")
    assert (
        error.received
        == "s0 1, s1 2, s2 3, s3 4, s4 5, s5 6, s6 7, s7 8, and 292 sites with as many or more"
    )
    assert too_few_rows(["a", "b"], [9, 3], 5, "so").received == "a 9, b 3"
