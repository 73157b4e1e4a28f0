"""Causes: which client of a federation may drive which other, and after how long.

Letter: K clients.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.name_matching import did_you_mean
from fedkg._internal.safe_text import list_first
from fedkg.errors import UsageError
from fedkg.pack.contract import Node


class Drive(Node):
    """One client may drive another: their names."""

    driver: str
    driven: str


class CauseRecord(Node):
    """The causes that one `cause` statement allows.

    Attributes:
        name: name of the statement.
        drives: pairs of different clients, each once, sorted.
        lag: seconds until the effect; None if the statement gives none.
        steps: the lag in steps of the timeline, rounded up; None without a lag.
        text: the statement as written.
        file: name of the statement's file without folders.
        line: line of the statement in `file`.
    """

    name: str
    drives: tuple[Drive, ...]
    lag: float | None = None
    steps: int | None = None
    text: str = ""
    file: str = ""
    line: int = 0


def prior(causes: Sequence[CauseRecord], clients: Sequence[str]) -> NDArray[np.bool_]:
    """Which client may drive which: bool [K, K], true at [m, n] where client n may drive client m.

    A client always drives itself, so the diagonal is true. Without any cause nothing is known, and
    everything may drive everything. The entries are those of the state matrix A_mn of federated
    Granger learning (An, 2024, section 3): where the prior is false, the influence of n on m is
    held at zero.

    Args:
        clients: the names of the federation's clients, in their order. Causes between clients that
            do not take part are left out.

    Raises:
        UsageError: if no cause refers to two of these clients, so the names are probably wrong.

    Example:
        >>> cause = CauseRecord(name="line", drives=(Drive(driver="a", driven="b"),))
        >>> prior([cause], ["a", "b"]).tolist()
        [[True, False], [True, True]]
    """
    if not causes:
        return np.ones((len(clients), len(clients)), dtype=np.bool_)
    allowed = np.eye(len(clients), dtype=np.bool_)
    for m, n in _resolved_causes(causes, clients):
        allowed[m, n] = True
    return allowed


def _resolved_causes(
    causes: Sequence[CauseRecord], clients: Sequence[str]
) -> list[tuple[int, int]]:
    """The pairs of clients that take part: positions of the driven one and of its driver."""
    position = {client: i for i, client in enumerate(clients)}
    pairs = [(drive.driven, drive.driver) for cause in causes for drive in cause.drives]
    known = [(position[m], position[n]) for m, n in pairs if m in position and n in position]
    if pairs and not known:
        name = next(one for m, n in pairs for one in (n, m) if one not in position)
        raise UsageError(
            f"no cause is between two clients of this federation: `{name}` is not one of them",
            expected=list_first(clients, 12),
            help=did_you_mean(
                name, clients, "name the clients of the job as `fkg:client` names them in the graph"
            ),
        )
    return known
