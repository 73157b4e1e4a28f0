"""Properties mined privately beside a protected training: one ledger for both."""

from __future__ import annotations

import pytest
import torch
from forecasts import LAYOUT, ranges, task

from fedkg.errors import JobError
from fedkg.federated import Settings, fedavg, train
from fedkg.federated.privacy.budget import ledgers
from fedkg.federated.privacy.protected import Protection, protected
from fedkg.federated.temporal.properties import Properties, as_traces, mined
from fedkg.federated.temporal.teacher_loss import TeacherLoss
from fedkg.mining import Pick, least, private
from fedkg.privacy import Spent

EXAMPLE = Protection(unit="example", clip=1.0, delta=1e-3, noise=1.0)
SETTINGS = Settings(rounds=2, local_epochs=1, batch=8, learning_rate=0.05, executor="stacked")
PROBLEM, _ = task((0.0, 20.0))


def found(pick: Pick) -> Properties:
    return mined(ranges(), [as_traces(y, 6, 1) for y in PROBLEM.clients.y], LAYOUT, pick=pick)


def test_what_was_mined_and_what_was_trained_stand_in_one_ledger() -> None:
    own = found(private(0.9, 20.0, (-100.0, 100.0), torch.Generator().manual_seed(1)))
    assert own.epsilon == 20.0 * 6  # three windows, two ends each
    algorithm = protected(fedavg().with_terms(TeacherLoss(properties=own)), EXAMPLE, PROBLEM.clients.samples, SETTINGS)
    *_, (state, record) = train(PROBLEM, algorithm, SETTINGS)
    assert not record.excluded
    assert algorithm.budget is not None
    for ledger in ledgers(algorithm.budget, state, PROBLEM.clients.names):
        assert ledger.entries[0] == Spent(what="mined properties", epsilon=120.0)
        assert 120.0 < ledger.epsilon(1e-3) < 140.0


def test_what_was_mined_without_privacy_is_refused() -> None:
    own = found(least)
    assert own.epsilon is None
    algorithm = fedavg().with_terms(TeacherLoss(properties=own))
    with pytest.raises(JobError, match="found in all samples of its client"):
        protected(algorithm, EXAMPLE, PROBLEM.clients.samples, SETTINGS)
    client = protected(algorithm, Protection(unit="client", clip=1.0, delta=1e-3, noise=1.0), PROBLEM.clients.samples, SETTINGS)
    assert len(list(train(PROBLEM, client, SETTINGS))) == 2  # all that a client does is within its clip
