from __future__ import annotations

import math

import pytest
import torch

from fedkg.errors import JobError
from fedkg.federated.metrics import best_threshold, detection, rounds_to, rounds_to_own_share


def test_counts_and_ratios_by_hand() -> None:
    score = torch.tensor([0.9, 0.8, 0.5, 0.4, 0.1])
    target = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0])
    found = detection(score, target, 0.5)
    assert (
        found.true_positive,
        found.false_positive,
        found.false_negative,
        found.true_negative,
    ) == (2, 1, 1, 1)
    assert found.precision == pytest.approx(2 / 3)
    assert found.recall == pytest.approx(2 / 3)
    assert found.f1 == pytest.approx(2 / 3)


def test_nothing_predicted_and_nothing_there() -> None:
    nothing = detection(torch.zeros(4), torch.tensor([0.0, 0, 1, 1]), 0.5)
    assert (nothing.precision, nothing.recall, nothing.f1) == (0.0, 0.0, 0.0)
    assert detection(torch.zeros(4), torch.zeros(4), 0.5).f1 == 0.0
    assert detection(torch.full((3,), math.nan), torch.ones(3), 0.5).false_negative == 3
    with pytest.raises(JobError, match="3 scores and 2 targets"):
        detection(torch.zeros(3), torch.zeros(2), 0.5)


def test_the_best_threshold_has_the_best_f1_of_all() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        score = torch.randint(0, 6, (30,), generator=generator) / 5
        target = (torch.rand(30, generator=generator) < score).float()
        found = {
            float(t): detection(score.double(), target, float(t)).f1
            for t in score.double().unique()
        }
        best = best_threshold(score, target)
        assert found[best] == pytest.approx(max(found.values()))


def test_rounds_to_a_target() -> None:
    values = [0.1, 0.4, 0.39, 0.8, 0.7]
    assert rounds_to(values, 0.4) == 2
    assert rounds_to(values, 0.9) is None
    assert rounds_to_own_share(values) == 4  # 90 % of the last value, 0.63
    assert rounds_to_own_share([]) is None
