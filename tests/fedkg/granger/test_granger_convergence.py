"""rho(H) and the distance from the identity as a report shows them, against steps by definition."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from fedkg.granger.learn import MOST_UNKNOWNS, Rates, convergence_of
from fedkg.granger.synthetic_systems import two_clients
from fedkg.papers.granger import series_from

RATES = Rates(client=4e-3, server=4e-4, causes=3e-4, ridge=0.2)


@pytest.mark.parametrize("normalised", [None, 0.5])
def test_the_recursion_is_the_step_of_the_definition(normalised: float | None) -> None:
    """One step of theta and A_21 on averages, from zero and from every unit vector."""
    series = series_from(two_clients(seed=0, measurements=3), 40, seed=1)
    client, own = series.clients[1], series.clients[1].transition
    states, drivers = series.states[:-1, 2:], series.states[:-1, :2]
    before, now = client.measurements[:-1], client.measurements[1:]
    rates, count = RATES, len(before)

    def step(flat: NDArray[np.float64]) -> NDArray[np.float64]:
        causes, theta = flat[:4].reshape(2, 2).T, flat[4:].reshape(3, 2).T
        slope_causes, slope_theta = -rates.ridge * causes, -rates.client * rates.ridge * theta
        power_y = power_h = 0.0
        for h, d, y, ahead in zip(states, drivers, before, now, strict=True):
            e = own @ theta @ y - causes @ d
            r = ahead - client.emission @ own @ (h + theta @ y)
            slope_causes = slope_causes + np.outer(e, d) / count
            slope_theta = (
                slope_theta + rates.client * np.outer((client.emission @ own).T @ r, y) / count
            )
            slope_theta = slope_theta - rates.server * np.outer(own.T @ e, y) / count
            power_y, power_h = power_y + y @ y / count, power_h + d @ d / count
        sizes = (1.0, 1.0) if normalised is None else (normalised + power_y, normalised + power_h)
        causes = causes + 2 * rates.causes * slope_causes / sizes[1]
        theta = theta + 2 * slope_theta / sizes[0]
        return np.concatenate([causes.T.ravel(), theta.T.ravel()])

    start = step(np.zeros(10))
    matrix = np.stack([step(unit) - start for unit in np.eye(10)], axis=1)
    asked = Rates(
        client=rates.client,
        server=rates.server,
        causes=rates.causes,
        ridge=rates.ridge,
        normalised=normalised,
    )
    known = convergence_of(series, asked, 1)
    assert known is not None
    assert known.radius == pytest.approx(np.abs(np.linalg.eigvals(matrix)).max(), rel=1e-10)
    assert known.distance == pytest.approx(np.linalg.norm(np.eye(10) - matrix, 2), rel=1e-9)
    assert 0 < known.convexity <= known.smoothness


def test_large_recursions_are_left_out() -> None:
    series = series_from(two_clients(seed=0, measurements=MOST_UNKNOWNS), 40, seed=1)
    assert convergence_of(series, Rates(), 1) is None
