"""What is known of a round when it is over.

Letters: K sampled clients, M constraints.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from fedkg.violation_rate_zones import Zone


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundRecord:
    """One round, client by client, in the order of `clients`.

    Attributes:
        round: 1 for the first.
        clients: names of the sampled clients. samples: n_k of each.
        alpha: aggregation weight of each; they sum to 1, or are all 0 when the round was skipped. 0
            for an excluded client.
        validity: s_k of each (plain mean over the evaluated constraints), 0 for an excluded client,
            NaN for one without an evaluated
            constraint; None when nothing was scored. Of whole models, with the layers that stay at
            home, unless the weights depend on it.
        violated: float32 [K, M], violated share of the probe rows by client and constraint, NaN
            where the constraint was not evaluated and
            for an excluded client; or None.
        not_evaluated: constraints that were evaluated for no client, by name, and why.
        rho_worst: 1 - min_k s_k. rho_mean: 1 - mean_k s_k, over clients with a score. zone: of
            rho_worst. None when no client has one.
        excluded: why a client's update was not used, by name.
        train_loss: the clients' mean local objective over the round, weighted by samples; NaN when
            no client was usable,
            and under privacy, which does not cover it.
        bytes_up, bytes_down: sent by the sampled clients, and to them.
        seconds: wall-clock time of the round.
        notes: what else should be known, in sentences.
        ends: whether the training ends here, before the rounds it was to have; the notes say why.
    """

    round: int
    clients: tuple[str, ...]
    samples: tuple[int, ...]
    alpha: tuple[float, ...]
    validity: tuple[float, ...] | None = None
    violated: Tensor | None = None
    not_evaluated: dict[str, str] = field(default_factory=dict)
    rho_worst: float | None = None
    rho_mean: float | None = None
    zone: Zone | None = None
    excluded: dict[str, str] = field(default_factory=dict)
    train_loss: float
    bytes_up: int
    bytes_down: int
    seconds: float
    notes: tuple[str, ...] = ()
    ends: bool = False
