"""Skewed splits: complete, with the requested skew, shown, saved, and rejected by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkg.data import (
    Split,
    by_site,
    classes_per_site,
    dirichlet_sizes,
    iid,
    load_split,
    quantity_skew,
    save_split,
    split_table,
)
from fedkg.errors import JobError

SITES = ("graz", "linz", "wien", "steyr", "villach")


def stream(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@given(st.integers(0, 1_000), st.integers(5, 200))
def test_every_row_has_one_site_and_equal_seeds_agree(seed: int, rows: int) -> None:
    labels = np.arange(rows) % 4
    for make in (
        lambda s: dirichlet_sizes(rows, SITES, 0.7, s, min_samples=0),
        lambda s: quantity_skew(rows, SITES, (5, 1, 2, 3, 4), s, min_samples=0),
        lambda s: classes_per_site(labels, SITES, 2, s, min_samples=0),
    ):
        one, two = make(stream(seed)), make(stream(seed))
        np.testing.assert_array_equal(one.owner, two.owner)
        np.testing.assert_array_equal(np.sort(np.concatenate(one.index)), np.arange(rows))
        for site, index in enumerate(one.index):
            np.testing.assert_array_equal(index, one.rows(site))


def test_small_alpha_makes_sizes_unequal_and_leaves_the_mix_alone() -> None:
    labels = np.arange(20_000) % 2
    spread = {}
    for alpha in (0.3, 30.0):
        split = dirichlet_sizes(len(labels), SITES, alpha, stream(1), min_samples=200)
        sizes = np.array(list(split.counts().values()))
        spread[alpha] = sizes.std() / sizes.mean()
        for index in split.index:
            assert abs(labels[index].mean() - 0.5) < 4 * 0.5 / len(index) ** 0.5
    assert spread[0.3] > 4 * spread[30.0]


def test_sizes_are_in_the_proportions_asked_for() -> None:
    split = quantity_skew(1_180, SITES, (470, 120, 330, 95, 165), stream())
    assert split.counts() == {"graz": 470, "linz": 120, "wien": 330, "steyr": 95, "villach": 165}


@given(st.integers(0, 300), st.integers(1, 10))
def test_a_site_holds_no_more_classes_than_asked(seed: int, count: int) -> None:
    labels = np.repeat(np.arange(10), 60)
    sites = tuple(f"s{i}" for i in range(12))
    table = split_table(classes_per_site(labels, sites, count, stream(seed)), labels)
    assert int((table.counts > 0).sum(1).max()) <= count
    assert table.counts.sum(0).tolist() == [60] * 10


def test_the_sites_of_the_source_keep_their_order() -> None:
    split = by_site(np.array(["b", "a", "b", "c"], dtype=object))
    assert split.sites == ("b", "a", "c")
    assert split.owner.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: dirichlet_sizes(10, SITES, 0.0, stream()), "above 0"),
        (lambda: dirichlet_sizes(20, SITES, 0.1, stream(), min_samples=4), "best of 1000 draws"),
        (lambda: quantity_skew(10, SITES, (1, 2), stream()), "one share above 0"),
        (lambda: quantity_skew(10, SITES, (1, 1, 1, 1, 0), stream()), "one share above 0"),
        (lambda: quantity_skew(10, SITES, (100, 1, 1, 1, 1), stream()), "`linz` has no rows"),
        (lambda: classes_per_site(np.arange(4), SITES, 5, stream()), "this number of classes"),
        (lambda: classes_per_site(np.arange(12), SITES, 2, stream()), "cannot hold 12 classes"),
        (lambda: by_site(np.array(["a", "a", "b"], dtype=object), min_samples=2), "`b` has 1 row "),
        (
            lambda: split_table(
                Split(sites=("a",), owner=np.zeros(3, dtype=np.int64)), np.zeros(2)
            ),
            "one entry for each row",
        ),
    ],
)
def test_splits_that_cannot_be_are_rejected(make: object, said: str) -> None:
    assert callable(make)
    with pytest.raises(JobError, match=said):
        make()


def test_a_split_is_shown_and_saved_as_a_table(tmp_path: Path) -> None:
    split = Split(sites=("graz", "linz"), owner=np.array([0, 1, 1, 0, 1]))
    table = split_table(split, np.array([0, 1, 1, 1, 0]), ("good", "bad"))
    assert table.text() == (
        "site  good  bad  rows\ngraz     1    1     2\nlinz     1    2     3\nall      2    3     5"
    )
    table.save(tmp_path / "split.csv")
    assert (
        tmp_path / "split.csv"
    ).read_text() == "site,good,bad,rows\ngraz,1,1,2\nlinz,1,2,3\nall,2,3,5\n"


def test_labels_name_the_classes_where_nobody_else_does() -> None:
    split = Split(sites=("a",), owner=np.zeros(4, dtype=np.int64))
    assert split_table(split, np.array([0.0, 1.5, np.nan, 1.5])).classes == ("0", "1.5", "unknown")
    assert split_table(split, np.array(["x", "y", "y", "x"], dtype=object)).classes == ("x", "y")


def test_a_saved_split_is_read_back(tmp_path: Path) -> None:
    split = iid(np.arange(30) % 3, SITES, stream())
    save_split(split, tmp_path / "split.npz")
    again = load_split(tmp_path / "split.npz")
    assert again.sites == split.sites
    assert again.draws == split.draws
    np.testing.assert_array_equal(again.owner, split.owner)
    for body in (b"", b"no archive"):
        (tmp_path / "bad.npz").write_bytes(body)
        with pytest.raises(JobError, match="does not contain a split"):
            load_split(tmp_path / "bad.npz")
    np.savez(tmp_path / "wrong.npz", sites=np.array(["a"]), owner=np.array([1]), draws=np.array(0))
    with pytest.raises(JobError, match="a row belongs to a site that the file does not list"):
        load_split(tmp_path / "wrong.npz")
