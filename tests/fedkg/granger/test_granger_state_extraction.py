"""From real measurements to clients."""

from __future__ import annotations

import numpy as np
import pytest

from fedkg.errors import UsageError
from fedkg.granger.learn import learn
from fedkg.granger.moments import series_of
from fedkg.granger.state_extraction import Measured, client_of, correlated


def _measured(seed: int = 0, steps: int = 400) -> tuple[Measured, Measured]:
    stream = np.random.default_rng(seed)
    slow = np.cumsum(stream.standard_normal(steps)) * 0.3
    noise = stream.standard_normal((steps, 6))
    first = np.stack([slow + 0.1 * noise[:, 0], 2 * slow + 0.1 * noise[:, 1], noise[:, 2]], 1)
    second = np.stack(
        [np.roll(slow, 1) + 0.1 * noise[:, 3], noise[:, 4], -slow + 0.2 * noise[:, 5]], 1
    )
    return Measured(name="a", columns=("p", "q", "r"), values=first), Measured(
        name="b", columns=("s", "t", "u"), values=second
    )


def test_measurements_that_go_with_nobodys_are_left_out() -> None:
    first, second = correlated(_measured())
    assert first.columns == ("p", "q")
    assert second.columns == ("s", "u")


def test_states_explain_the_measurements_best() -> None:
    """The first P singular vectors: no other P states leave a smaller error."""
    measured = _measured()[0]
    values = (measured.values - measured.values.mean(0)) / measured.values.std(0)
    for states in (1, 2):
        client = client_of(measured, states)
        sizes = np.linalg.svd(values, compute_uv=False)
        projected = values @ client.emission @ np.linalg.pinv(client.emission)
        assert np.linalg.norm(values - projected) ** 2 == pytest.approx(
            (sizes[states:] ** 2).sum(), rel=1e-9
        )
        assert client.measurements == pytest.approx(values)


def test_real_looking_data_can_be_learnt_from() -> None:
    kept = correlated(_measured(steps=1200))
    series = series_of([client_of(one, 1) for one in kept])
    found = learn(series, mode="closed_form")
    assert np.isfinite(found.causes).all()


def test_unusable_measurements_are_rejected() -> None:
    first, second = _measured()
    broken = Measured(
        name="a",
        columns=first.columns,
        values=np.where(np.arange(400)[:, None] == 7, np.nan, first.values),
    )
    with pytest.raises(UsageError, match="a: column `p` has unknown values"):
        correlated([broken, second])
    with pytest.raises(UsageError, match="none of its measurements"):
        correlated([first, Measured(name="b", columns=("t",), values=second.values[:, 1:2])])
    with pytest.raises(UsageError, match="at most 3 states"):
        client_of(first, 4)
