"""What an executor is given and what it gives back.

Letters: K sampled clients, C of them in a stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from torch import Tensor

from fedkg.federated.algorithm import Algorithm
from fedkg.federated.attacks import Attackers
from fedkg.federated.client.per_client_settings import steps_for
from fedkg.federated.client_state_store import ClientRows
from fedkg.federated.problem import Pool, Problem
from fedkg.federated.round_steps import ClientMemory, RoundContext
from fedkg.federated.settings import Settings
from fedkg.federated.state import ServerState
from fedkg.models.model_protocols import Params


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Work:
    """All that a training consists of besides its state.

    Attributes:
        excluded: by position, the clients that take part in no round, with the reason.
        attackers: the clients that attack, in a simulation; or None.
    """

    problem: Problem
    algorithm: Algorithm
    settings: Settings
    pool: Pool
    excluded: Mapping[int, str] = field(default_factory=dict)
    attackers: Attackers | None = None

    def beside(self) -> Self | None:
        """The same work for the model that each client trains beside the one it sends; None where
        there is none.
        """
        other = self.algorithm.beside
        return None if other is None else replace(self, algorithm=other)


def round_context(work: Work, state: ServerState, clients: Tensor) -> RoundContext:
    """What steps of the server may know about a round and its clients (int64 [C])."""
    return RoundContext(
        round=state.round + 1,
        population=len(work.problem.clients.names),
        clients=clients,
        samples=work.pool.sizes[clients],
        steps=steps_for(work, clients),
        shared=state.joints.get("local", {}),
    )


def client_context(work: Work, state: ServerState, clients: Tensor, steps: Tensor) -> RoundContext:
    """What steps at clients (int64 [C]) may know about a round; `steps` int64 [C] of each."""
    return RoundContext(
        round=state.round + 1,
        population=len(work.problem.clients.names),
        clients=clients,
        samples=work.pool.sizes[clients],
        steps=steps,
        memory=ClientMemory(state.clients, clients),
        shared=state.joints.get("local", {}),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Updates:
    """The updates of a stack of clients, as they arrive at the server.

    Attributes:
        clients: int64 [C], positions in the population.
        groups: int64 [C], the server's model from which each client started.
        start: the parameters from which each client started, each [C, ...] (views).
        update: what each client sends, each [C, ...].
        loss: [C], the mean objective over each client's local steps.
        client_memory: new rows for `ServerState.clients`, each [C, ...].
        shared: what each client also sends, see `Outcome.shared`, each [C, ...].
        rejected: by position, the clients that sent something unusable, with the reason. They are
            in none of the above.
        notes: what else the server's record should say.
        outgoing: whether these are the updates as they leave the clients, see
            `client.outgoing_updates`.
        violation: float64 [C, M], the violated share of probe rows of each constraint, as the
            clients tell it of their own models; None: they do not.
        late: by position, the clients whose update was made for an earlier round: by how many
            rounds, and the factor on their samples.
    """

    clients: Tensor
    groups: Tensor
    start: Params
    update: Params
    loss: Tensor
    client_memory: Params = field(default_factory=dict)
    shared: Params = field(default_factory=dict)
    rejected: dict[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    outgoing: bool = False
    violation: Tensor | None = None
    late: dict[int, tuple[int, float]] = field(default_factory=dict)

    def take(self, index: Tensor) -> Self:
        """The updates at these positions of the stack: int64 in this order, or a mask bool [C]."""
        return replace(
            self,
            clients=self.clients[index],
            groups=self.groups[index],
            start={name: value[index] for name, value in self.start.items()},
            update={name: value[index] for name, value in self.update.items()},
            loss=self.loss[index],
            client_memory={name: value[index] for name, value in self.client_memory.items()},
            shared={name: value[index] for name, value in self.shared.items()},
            violation=None if self.violation is None else self.violation[index],
        )


class Executor(Protocol):
    """Carries out the local work of a round."""

    def train(
        self, work: Work, state: ServerState, clients: Tensor, *, limit: int | None = None
    ) -> Iterator[Updates]:
        """The updates of the clients (int64 [K]) in round ``state.round + 1``, in one or more
        stacks, in any order.

        The tensors of a stack hold until the next one is asked for. `limit` stops every client
        after this number of steps; for measurements.
        """
        ...


class SiteExecutor(Executor, Protocol):
    """Asks clients to train where their data and their rows are."""

    def initial_memory(self, rows: Mapping[str, ClientRows], population: int) -> Params:
        """What the server remembers of each of the N clients in place of its rows, each [N, ...].

        Args:
            rows: the rows before the first round, as `ServerState.clients` would have them.
        """
        ...
