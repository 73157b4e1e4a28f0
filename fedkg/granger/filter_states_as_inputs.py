"""Granger-augmented states as channels that models read: what a site's filter says of each step,
and what others will do to it.

Letters: M sites, T steps, D measurements of a site, P states that every site is to have, L lags.
Source: Mohanty et al. 2025, sections 3 and 4: the augmented state h_a = h_c + theta y, its
prediction A h_a, and the server's A h_c +
sum A_mn h_n. Where we depart from it: measurements may be unknown, and sites may have fewer
directions than P.

No step after the last that may be learnt from has a say in scaling, directions, dynamics, gains,
theta or causes, and no step has one in
the states of those before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.safe_text import list_first
from fedkg.errors import UsageError
from fedkg.granger.kalman import Client
from fedkg.granger.learn import Learnt
from fedkg.granger.moments import Series, orders_of
from fedkg.granger.scans import filled_scan
from fedkg.granger.state_extraction import Measured, client_of, directions

F64 = NDArray[np.float64]
Reads = Literal["states", "server", "both"]

SPAN = 10.0
"""Channels lie within -SPAN ..

SPAN: states have unit variance where they are learnt, and larger values are clipped.
"""
LEAST = 20
"""Common steps without which there is nothing to learn from."""
OURS = "granger_"
"""The prefix of channel names; rules may use them like any signal of a window."""
STATE, NEXT, SERVER = f"{OURS}state_", f"{OURS}next_", f"{OURS}server_"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Record:
    """The measurements of a site.

    Attributes:
        start: the step of the common clock at the first row.
        known: the first step after those that may be used for learning.
        values: [T, D], NaN for unknown values.
    """

    name: str
    start: int
    known: int
    columns: tuple[str, ...]
    values: F64

    @property
    def stop(self) -> int:
        """The step after the last."""
        return self.start + len(self.values)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Filtered:
    """The filters of the sites.

    Attributes:
        records: the measurements of each site that has states.
        clients: the filter of each of these sites, with the measurements of all its steps; the
            filter's expectation fills gaps.
        states: the estimated states of each of these sites, [T, P_m] over its own steps, with P_m
            its number of states.
        start: first step of the common clock that is used for learning.
        stop: the step after the last one that is used for learning.
        notes: remarks for the user about sites with few states or none.
    """

    records: tuple[Record, ...]
    clients: tuple[Client, ...]
    states: tuple[F64, ...]
    start: int
    stop: int
    notes: tuple[str, ...]

    def series(self, allowed: NDArray[np.bool_], lags: int | Sequence[int]) -> Series:
        """The steps that are learnt from, as the learning takes them.

        Raises UsageError for more lags than there are steps.
        """
        orders = orders_of(lags, len(self.clients), self.stop - self.start)
        cut, states = [], []
        for record, client, own in zip(self.records, self.clients, self.states, strict=True):
            place = slice(self.start - record.start, self.stop - record.start)
            cut.append(
                replace(client, measurements=np.ascontiguousarray(client.measurements[place]))
            )
            states.append(own[place])
        return Series(
            clients=tuple(cut),
            states=np.ascontiguousarray(np.concatenate(states, 1)),
            allowed=allowed,
            orders=orders,
        )


def channels(states: int, reads: Reads) -> tuple[str, ...]:
    """The names of the channels, equal at every site.

    The values of a channel are dimensionless numbers within -SPAN .. SPAN.
    """
    own = [f"{word}{number}" for word in (STATE, NEXT) for number in range(1, states + 1)]
    server = [f"{SERVER}{number}" for number in range(1, states + 1)]
    return (*(own if reads != "server" else ()), *(server if reads != "states" else ()))


def filtered(records: Sequence[Record], states: int, *, past: int = 1) -> Filtered:
    """A Kalman filter for every site, with at most `states` states, estimated on the common steps
    of all sites that may be used for learning.

    A site with measurements of lower rank has fewer states; a site with constant measurements has
    no filter.

    Args:
        past: number of last values of each signal in the measurements of a step; 1 in the paper.

    Raises:
        UsageError: if the sites share too few steps, fewer than two have a state, or none has that
            many states.
    """
    start, stop = (
        max(one.start for one in records),
        min(min(one.known, one.stop) for one in records),
    )
    if stop - start < LEAST:
        raise UsageError(
            "the sites have too few common training steps",
            expected=f"{LEAST} steps or more",
            received=f"{max(0, stop - start)} steps",
            help="use tables that cover the same period",
        )
    found: list[tuple[Record, Client, F64]] = []
    few: list[str] = []
    still: list[str] = []
    for record in (_embedded(one, past) for one in records):
        known = record.values[start - record.start : stop - record.start]
        moving = [
            place
            for place in range(known.shape[1])
            if np.unique(known[~np.isnan(known[:, place]), place]).size > 1
        ]
        if not moving:
            still.append(record.name)
            continue
        columns = tuple(record.columns[place] for place in moving)
        seen = np.stack([_bridged(known[:, place]) for place in moving], axis=1)
        size = min(states, directions(seen))
        few += [record.name] if size < states else []
        client = client_of(Measured(name=record.name, columns=columns, values=seen), size)
        deviation = seen.std(axis=0)
        scaled = (record.values[:, moving] - seen.mean(axis=0)) / np.where(
            deviation > 0, deviation, 1.0
        )
        filled = np.ascontiguousarray(np.clip(scaled, -1e3, 1e3))
        own = filled_scan(filled, client.emission, client.transition, client.gain)
        found.append((record, replace(client, measurements=filled), own))
    if len(found) < 2:
        raise UsageError(
            "causal discovery needs at least two sites",
            expected="two or more sites with changing measurements",
            received=f"{len(found)} of {len(records)} sites"
            + (f"; the measurements of {', '.join(still)} never change" if still else ""),
            help="name more sites, or columns with changing measurements",
        )
    most = max(len(client.transition) for _, client, _ in found)
    if most < states:
        raise UsageError(
            "no site has enough independent measurements for this number of states",
            expected=f"at most {most} state{'' if most == 1 else 's'} a site",
            received=str(states),
            help="use fewer `states`, or more values of earlier steps as measurements (`past`)",
        )
    return Filtered(
        records=tuple(record for record, _, _ in found),
        clients=tuple(client for _, client, _ in found),
        states=tuple(own for _, _, own in found),
        start=start,
        stop=stop,
        notes=(
            *_describe(
                still, "measure nothing that changes, have no states and are not learnt from"
            ),
            *_describe(few, "have fewer states"),
        ),
    )


def states_of(
    found: Filtered, series: Series, learnt: Learnt | None, states: int, reads: Reads
) -> dict[str, F64]:
    """The channels of each site that has states, [T, C] over its own steps with C channels; NaN for
    states that it does not have.

    Args:
        found: the filters of the sites.
        series: the steps that the causes were learnt from.
        learnt: the causes and augmentations that were learnt from `series`; None: use the filter of
            each site alone.
        states: P; the channels of missing states are NaN at sites with fewer states.
        reads: the selected channels, in the order of `channels`.
    """
    lags, made = series.lags, {}
    begin, end = min(one.start for one in found.records), max(one.stop for one in found.records)
    places, total = series.places, series.states.shape[1]
    for m, (record, client, own) in enumerate(
        zip(found.records, found.clients, found.states, strict=True)
    ):
        augmented = own if learnt is None else own + client.measurements @ learnt.augmentations[m].T
        parts = [augmented, augmented @ client.transition.T] if reads != "server" else []
        if reads != "states":
            ahead = own @ client.transition.T
            if learnt is not None:
                others = np.zeros((end - begin, total))
                for n, there in enumerate(found.records):
                    others[there.start - begin : there.stop - begin, places[n]] = found.states[n]
                    late = slice(max(there.known - begin, 0), max(record.known - begin, 0))
                    others[late, places[n]] = (
                        0.0  # steps that site n tests by must not be seen where site m learns
                    )
                regressors = replace(series, states=others).regressors if lags > 1 else others
                ahead = (
                    ahead
                    + (regressors @ learnt.causes[places[m]].T)[
                        record.start - begin : record.stop - begin
                    ]
                )
            parts.append(ahead)
        made[record.name] = np.concatenate(
            [_padded(np.clip(part, -SPAN, SPAN), states) for part in parts], axis=1
        )
    return made


def _padded(values: F64, states: int) -> F64:
    """[T, P] from fewer columns; those that a site does not have are unknown."""
    return np.concatenate(
        [values, np.full((len(values), states - values.shape[1]), np.nan)], axis=1
    )


def _embedded(record: Record, past: int) -> Record:
    """The record with the values of the steps before as measurements of each step; unknown before
    its first step.
    """
    if past == 1:
        return record
    parts = [record.values]
    for back in range(1, past):
        later = np.full_like(record.values, np.nan)
        later[back:] = record.values[:-back]
        parts.append(later)
    names = tuple(
        f"{name} {back} steps before" if back else name
        for back in range(past)
        for name in record.columns
    )
    return replace(record, columns=names, values=np.concatenate(parts, axis=1))


def _bridged(column: F64) -> F64:
    """Return a column with unknown values interpolated linearly, and extended by the nearest value
    at the ends.
    """
    known = ~np.isnan(column)
    steps = np.arange(len(column))
    return np.asarray(np.interp(steps, steps[known], column[known]), dtype=np.float64)


def _describe(names: Sequence[str], what: str) -> tuple[str, ...]:
    """A sentence about some sites; nothing where there are none."""
    return (f"{list_first(names, 3)}: {what}",) if names else ()
