"""The pass in chunks equals the compiled pass up to rounding.

For any chunk size, sizes of clients, lags and options.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from plants import setting_s, uneven

from fedkg.errors import FedkgError
from fedkg.granger.learn import Learnt, Rates, learn
from fedkg.granger.learning_on_accelerators import learn_in_chunks
from fedkg.granger.moments import series_of


def _same(one: Learnt, other: Learnt) -> None:
    assert one.causes == pytest.approx(other.causes, abs=1e-11)
    for own, peer in zip(one.augmentations, other.augmentations, strict=True):
        assert own == pytest.approx(peer, abs=1e-11)
    assert one.client_loss == pytest.approx(other.client_loss, rel=1e-10)
    assert one.server_loss == pytest.approx(other.server_loss, rel=1e-9, abs=1e-14)
    assert one.moved == pytest.approx(other.moved, rel=1e-6)


@pytest.mark.parametrize("chunk", [1, 7, 64])
@pytest.mark.parametrize(
    ("ridge", "normalised", "lags"), [(0.0, None, 1), (0.3, None, 2), (0.0, 1.0, 2), (0.3, 1.0, 1)]
)
@pytest.mark.parametrize("together", [False, True])
def test_chunks_are_the_compiled_pass(
    ridge: float, normalised: float | None, lags: int, chunk: int, together: bool
) -> None:
    _, plain = uneven(4, steps=70)
    allowed = np.array([[True, True, False], [True, True, True], [False, True, True]])
    series = series_of(plain.clients, allowed, lags=lags)
    rates = Rates(
        client=0.01,
        server=0.005,
        causes=0.01,
        ridge=ridge,
        normalised=normalised,
        together=together,
    )
    begun = learn(series, rates, epochs=1)
    _same(
        learn_in_chunks(series, rates, epochs=3, start=begun, chunk=chunk),
        learn(series, rates, epochs=3, start=begun),
    )


def test_chunks_on_another_device(elsewhere: torch.device) -> None:
    _, series = uneven(4, steps=70)
    rates = Rates(client=0.01, server=0.005, causes=0.01, ridge=0.3, normalised=1.0)
    _same(
        learn_in_chunks(series, rates, epochs=2, chunk=16, device=elsewhere),
        learn(series, rates, epochs=2),
    )


def test_setting_s_in_chunks() -> None:
    _, series = setting_s(0, 800)
    _same(learn_in_chunks(series, epochs=2), learn(series, epochs=2))


def test_what_diverges_is_named() -> None:
    _, series = setting_s(0, 800)
    with pytest.raises(FedkgError, match="the learning diverges at step"):
        learn_in_chunks(series, Rates(client=0.1, server=0.01, causes=0.1), epochs=8)


def test_chunks_end_where_the_compiled_pass_does() -> None:
    _, series = uneven(4, steps=70)
    rates = Rates(client=0.1, server=0.01, causes=0.1, ridge=0.3, normalised=1.0)
    plain = learn(series, rates, epochs=50, tolerance=0.01)
    assert 1 < len(plain.server_loss) < 50
    _same(learn_in_chunks(series, rates, epochs=50, tolerance=0.01), plain)
