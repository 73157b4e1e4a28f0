"""From real measurements to clients: the correlation filter, low-dimensional states, and their own
dynamics.

Letters: M clients, T steps, D measurements, P states.
Source: Mohanty et al. 2025, section 8 (HAI and SWaT): measurements with |Pearson| >= 0.3 with
another client's are kept; states are the
first P right singular vectors of a client's measurements; A_mm is a VAR(1) on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.data.sets.testbeds import correlated_across
from fedkg.errors import UsageError
from fedkg.granger.kalman import Client, steady_gain

F64 = NDArray[np.float64]
STEADY = 0.999
"""The spectral radius to which a fitted transition is shrunk, where its series would grow without
end.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured:
    """The raw measurements [T, D] of a client, with their names."""

    name: str
    columns: tuple[str, ...]
    values: F64


def correlated(clients: Sequence[Measured], least: float = 0.3) -> tuple[Measured, ...]:
    """The clients, restricted to the measurements that correlate with a measurement of another
    client.

    Raises:
        UsageError: no measurement of a client correlates with one of another client, or a value is
            unknown.
    """
    for client in clients:
        broken = ~np.isfinite(client.values).all(0)
        if broken.any():
            raise UsageError(
                f"{client.name}: column `{client.columns[int(np.argmax(broken))]}` has "
                "unknown values",
                help="interpolate the gaps, or choose a period without gaps",
            )
    together = np.concatenate([client.values for client in clients], axis=1)
    groups = [client.name for client in clients for _ in client.columns]
    used = np.zeros(len(groups), dtype=np.bool_)
    used[correlated_across(together, groups, least=least)] = True
    kept, start = [], 0
    for client in clients:
        close = used[start : start + len(client.columns)]
        start += len(client.columns)
        if not close.any():
            raise UsageError(
                f"{client.name}: none of its measurements correlates with one of another client",
                expected=f"a correlation of at least {least:g}",
                help="leave the client out, or require a lower correlation",
            )
        columns = tuple(
            name for name, held in zip(client.columns, close.tolist(), strict=True) if held
        )
        kept.append(
            Measured(
                name=client.name,
                columns=columns,
                values=np.ascontiguousarray(client.values[:, close]),
            )
        )
    return tuple(kept)


def client_of(measured: Measured, states: int, *, process: float | None = None) -> Client:
    """A client with P states from its standardised measurements.

    Args:
        states: P; at most as many as there are measurements.
        process: variance of the process noise in the filter; None: the variance of the residuals
            of the VAR(1).

    Raises:
        UsageError: more states than measurements have directions.
    """
    values = _standard(measured.values)
    left, sizes, right = np.linalg.svd(values, full_matrices=False)
    rank = _rank(sizes)
    if rank == 0:
        raise UsageError(
            f"{measured.name}: its measurements never change in these steps",
            help="leave the client out, or use other steps",
        )
    if states > rank:
        raise UsageError(
            f"{measured.name}: only {rank} of its measurements are independent",
            expected=f"at most {rank} states",
            received=str(states),
            help="use fewer states, or leave out measurements that repeat others",
        )
    deviation = np.sqrt(len(values))
    largest = right[np.arange(states), np.abs(right[:states]).argmax(1)]
    signs = np.where(
        largest < 0, -1.0, 1.0
    )  # a direction has two: the one in which its largest measurement counts upwards
    found = left[:, :states] * (
        signs * deviation
    )  # states of unit variance: y = U S V^T, h = sqrt(T) U_P, C = V_P S_P / sqrt(T)
    emission = np.ascontiguousarray(
        (right[:states] * (signs * sizes[:states] / deviation)[:, None]).T
    )
    before, now = found[:-1], found[1:]
    transition = np.linalg.lstsq(before, now, rcond=None)[0].T
    radius = float(np.abs(np.linalg.eigvals(transition)).max())
    transition = (
        np.ascontiguousarray(transition * min(1.0, STEADY / radius)) if radius else transition
    )
    moved = now - before @ transition.T
    spread = moved.T @ moved / len(moved) if process is None else process * np.eye(states)
    unseen = values - found @ emission.T
    noise = np.diag(np.maximum(unseen.var(axis=0), 1e-6))
    gain = steady_gain(transition, emission, spread + 1e-9 * np.eye(states), noise)
    return Client(
        name=measured.name,
        transition=transition,
        emission=emission,
        gain=gain,
        measurements=np.ascontiguousarray(values),
    )


def directions(values: F64) -> int:
    """How many directions standardised measurements [T, D] have: the most states that a client of
    them can have.
    """
    return _rank(np.asarray(np.linalg.svd(_standard(values), compute_uv=False), dtype=np.float64))


def _rank(sizes: F64) -> int:
    """How many singular values, the largest first, are above rounding."""
    return int((sizes > 1e-9 * sizes[0]).sum()) if len(sizes) and sizes[0] > 0 else 0


def _standard(values: F64) -> F64:
    """Mean 0 and deviation 1 in every column; a constant one is 0."""
    deviation = values.std(axis=0)
    return np.asarray(
        (values - values.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0), dtype=np.float64
    )
