"""The trust chosen by cross-validation."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkg.errors import KnowledgeError
from fedkg.knowledge import choose_trust, folds


def test_the_least_mean_loss_over_the_folds_wins():
    losses = {
        (0.0, 0): 1.0,
        (0.0, 1): 3.0,
        (0.3, 0): 2.0,
        (0.3, 1): 1.0,
        (0.6, 0): 0.5,
        (0.6, 1): 4.0,
    }
    found = choose_trust([0.0, 0.3, 0.6], 2, lambda trust, fold: losses[trust, fold])
    assert (found.trust, found.losses) == (0.3, (2.0, 1.5, 2.25))
    assert found.text() == "trust 0.3 (loss 1.5; 0: 2, 0.6: 2.25)"


def test_of_equal_losses_the_smallest_trust_and_what_is_not_finite_is_worst():
    assert choose_trust([0.6, 0.2, 0.4], 2, lambda trust, fold: 1.0).trust == 0.2
    assert (
        choose_trust(
            [0.0, 0.5], 2, lambda trust, fold: math.nan if trust == 0.0 and fold else 7.0
        ).trust
        == 0.5
    )


@pytest.mark.parametrize(
    ("candidates", "count", "received"), [([], 2, "[]"), ([1.5], 2, "[1.5]"), ([0.5], 1, "1 fold")]
)
def test_what_cannot_be_chosen_from(candidates, count, received):
    with pytest.raises(KnowledgeError, match=rf"received: {re.escape(received)}(\n|$)"):
        choose_trust(candidates, count, lambda trust, fold: 0.0)


@given(st.integers(0, 60), st.integers(2, 7))
def test_folds_are_as_equal_as_can_be(samples, count):
    counts = np.bincount(folds(samples, count, np.random.default_rng(0)), minlength=count)
    assert counts.sum() == samples
    assert counts.max() - counts.min() <= 1
