"""What learnt causes mean: edges for the knowledge graph, and how far and how soon a disturbance
reaches.

Letters: M clients, S states of all clients, K steps ahead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkg.granger.edge_significance import adjusted
from fedkg.granger.learn import Learnt
from fedkg.granger.moments import Series
from fedkg.learned_knowledge_records import CausalEdge

F64 = NDArray[np.float64]


def edges(series: Series, found: Learnt, p_values: F64 | None = None) -> tuple[CausalEdge, ...]:
    """The learned edges, the strongest first, with the lag at which each is strongest; without
    edges that the prior excludes.

    Args:
        p_values: [M, M], from `fedkg.granger.edge_significance.p_values`.
    """
    names, each = [client.name for client in series.clients], found.strengths(series)
    strength, lag = found.strength(series), each.argmax(0) + 1
    corrected = None if p_values is None else adjusted(p_values)
    made = [
        CausalEdge(
            driver=names[n],
            driven=names[m],
            strength=float(strength[m, n]),
            lag=int(lag[m, n]),
            p_value=None if p_values is None else float(p_values[m, n]),
            adjusted=None if corrected is None else float(corrected[m, n]),
        )
        for m in range(len(names))
        for n in range(len(names))
        if m != n and series.allowed[m, n]
    ]
    return tuple(sorted(made, key=lambda edge: (-edge.strength, edge.driver, edge.driven)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A client that a disturbance reaches.

    Attributes:
        client: name of the client.
        first: number of steps after which the effect on the client first reaches the share of its
            largest value that the caller asks for.
        peak: number of steps after which the effect is largest.
        size: the largest effect, as a share of the disturbance.
    """

    client: str
    first: int
    peak: int
    size: float


def effect_horizons(
    series: Series,
    found: Learnt,
    origin: int,
    *,
    ahead: int = 50,
    share: float = 0.1,
    least: float = 0.01,
) -> tuple[Reached, ...]:
    """The clients that a disturbance of unit size in the states of client `origin` reaches within
    K steps, in the order of arrival.

    The computation uses the complete transition: the own dynamics of each client and the learned
    causes.
    """
    whole = found.causes.copy()
    for client, place in zip(series.clients, series.places, strict=True):
        whole[place, place] = client.transition
    return reach_of(series, whole, origin, ahead=ahead, share=share, least=least)


def reach_of(
    series: Series,
    whole: F64,
    origin: int,
    *,
    ahead: int = 50,
    share: float = 0.1,
    least: float = 0.01,
) -> tuple[Reached, ...]:
    """The same by any transition [S, L S], in which clients act on themselves too, as
    `fedkg.granger.edge_significance.joint` gives one.

    An effect is the spectral norm of what a unit of the origin's states has become after k steps.
    Clients on which it stays below `least`
    are left out; so is the origin.
    """
    total = len(whole)
    column = np.zeros(
        (series.lags * total, len(series.clients[origin].transition))
    )  # the last L steps, the newest first
    column[series.places[origin]] = np.eye(column.shape[1])
    sizes = np.zeros((ahead + 1, len(series.clients)))
    for k in range(ahead + 1):
        sizes[k] = [np.linalg.norm(column[place], 2) for place in series.places]
        column = np.concatenate([whole @ column, column[: total * (series.lags - 1)]])
    made = []
    for m, client in enumerate(series.clients):
        top = float(sizes[:, m].max())
        if m != origin and top >= least:
            first = int(np.argmax(sizes[:, m] >= share * top))
            made.append(
                Reached(client=client.name, first=first, peak=int(sizes[:, m].argmax()), size=top)
            )
    return tuple(sorted(made, key=lambda one: (one.first, one.peak, one.client)))
