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
        round: the number of the round, from 1.
        clients: the names of the sampled clients.
        samples: n_k, the number of samples of each client.
        alpha: the aggregation weight of each client. The weights sum to 1, or are all 0 if the
            round was skipped; an excluded client has 0. Under robust SCFA they may sum to less: the
            rest is the weight of the current model.
        validity: s_k of each client, the plain mean over the evaluated constraints: 0 for a client
            with an unusable update, such as one with NaN; NaN for one without a score, such as an
            outlier, a spare or a site that did not answer. None if nothing was scored. It judges
            the whole model, including layers that stay with the client, unless the weights depend
            on it.
        violated: float32 [K, M], the violated share of the probe rows by client and constraint: NaN
            if the constraint was not evaluated, and for an excluded client. None if nothing was
            scored.
        not_evaluated: by name, the constraints that were evaluated for no client, and why.
        rho_worst: 1 - min_k s_k over clients with s_k other than NaN; None if there are none.
        rho_mean: 1 - mean_k s_k over the same clients; None if there are none.
        zone: the zone of `rho_worst`; None if there is none.
        excluded: by client name, why the client's update was not used.
        train_loss: the clients' mean local objective over the round, weighted by samples. NaN if no
            client was usable, and under differential privacy, which does not cover it.
        bytes_up: the bytes that the sampled clients sent.
        bytes_down: the bytes that were sent to the sampled clients.
        seconds: the wall-clock time of the round.
        notes: further remarks about the round, in sentences.
        divergence: how much the updates differ, see `estimators.divergence`; None if the settings
            do not ask for it.
        attackers: the names of the sampled clients that attack in this round, in a simulation.
        ends: whether the training ends here, before `Settings.rounds`; the notes say why.
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
    divergence: float | None = None
    attackers: tuple[str, ...] = ()
    ends: bool = False
