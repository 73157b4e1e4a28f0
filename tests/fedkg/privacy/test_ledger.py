from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkg.errors import JobError
from fedkg.privacy import Gaussian, Ledger, Spent

texts = st.text(max_size=5)
entries = st.one_of(
    st.builds(
        Gaussian,
        what=texts,
        noise=st.floats(0.1, 10),
        rate=st.floats(0.01, 1),
        releases=st.integers(0, 1000),
    ),
    st.builds(Spent, what=texts, epsilon=st.floats(0, 5), delta=st.floats(0, 0.1)),
)


@given(st.builds(Ledger, unit=texts, entries=st.lists(entries, max_size=4).map(tuple)))
def test_a_saved_ledger_is_the_same(ledger: Ledger) -> None:
    assert Ledger.of(json.loads(json.dumps(ledger.document()))) == ledger


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6))
def test_releases_of_one_mechanism_are_counted_together(counts: list[int]) -> None:
    ledger = Ledger(unit="a client")
    for count in counts:
        ledger = ledger.plus(Gaussian(what="training", noise=1.0, rate=0.5, releases=count))
    assert ledger.entries == (Gaussian(what="training", noise=1.0, rate=0.5, releases=sum(counts)),)


def test_other_mechanisms_stand_apart() -> None:
    ledger = Ledger(unit="a row of graz").plus(Spent(what="mined", epsilon=0.5))
    ledger = ledger.plus(Gaussian(what="training", noise=1.0, rate=0.5, releases=3)).plus(
        Gaussian(what="training", noise=2.0, rate=0.5, releases=3)
    )
    assert len(ledger.entries) == 3
    assert ledger.epsilon(1e-5) > 0.5


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"unit": "x", "entries": [{"kind": "other"}]},
        {"unit": "x", "entries": [{"kind": "spent"}]},
    ],
)
def test_a_damaged_ledger_is_rejected(document: dict[str, object]) -> None:
    with pytest.raises(JobError, match="cannot be read"):
        Ledger.of(document)
