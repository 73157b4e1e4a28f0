"""The prior that causes make for a Granger learner."""

from __future__ import annotations

import pytest

from fedkg.errors import UsageError
from fedkg.pack.causes import CauseRecord, Drive, prior

LINE = CauseRecord(
    name="line",
    drives=(Drive(driver="a", driven="b"), Drive(driver="b", driven="c")),
    lag=600,
    steps=2,
)


def test_who_may_drive_whom() -> None:
    assert prior([LINE], ["a", "b", "c"]).tolist() == [
        [True, False, False],
        [True, True, False],
        [False, True, True],
    ]
    assert prior([LINE], ["c", "b", "z"]).tolist() == [
        [True, True, False],
        [False, True, False],
        [False, False, True],
    ]


def test_without_causes_everything_may_drive_everything() -> None:
    assert prior([], ["a", "b"]).all()


def test_names_that_no_client_has() -> None:
    with pytest.raises(UsageError, match="no cause is between two clients"):
        prior([LINE], ["linz", "wien"])


def test_the_error_names_the_client_that_does_not_take_part() -> None:
    """The driver may take part; the other end of the cause is then the unknown name."""
    cause = CauseRecord(name="line", drives=(Drive(driver="linz", driven="graz"),))
    with pytest.raises(UsageError, match="`graz` is not one of them"):
        prior([cause], ["linz", "wien"])
