"""Several processes, on one host or many, that train one federation together through
`torch.distributed`.

Every rank runs the same program on the same problem and holds the whole server; the stacks of a
cohort are dealt out to the ranks in turn
and their updates are sent to all of them, in the order of the stacks. So every rank folds the same
numbers in the same order: the result
is that of one process with the same chunk to the bit where the ranks' machines compute alike, and
aggregates that must see every update
(medians, Krum) work like all others. Each rank receives the updates of the clients once per round.

Letters: K sampled clients, C clients of a stack.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from fedkg.errors import FedkgError, JobError
from fedkg.federated.client.per_client_settings import steps_for
from fedkg.federated.executors.protocol import Executor, Updates, Work
from fedkg.federated.executors.shared_tensors import Plan, plan_of, put, seen
from fedkg.federated.executors.worker import flat, unflat
from fedkg.federated.state import ServerState

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """The processes of the default group of `torch.distributed`, seen by one of them.

    Attributes:
        rank: the number of this process, 0 .. size - 1.
        size: the number of processes.
    """

    rank: int
    size: int

    def all_gather(self, what: Any) -> list[Any]:
        """What each rank says, by rank; all must ask together. `Any`: whatever can be pickled.

        Raises:
            JobError: when a rank is gone.
        """
        found: list[Any] = [None] * self.size
        with _raise_if_rank_lost():
            dist.all_gather_object(found, what)
        return found

    def first(self, what: T) -> T:
        """What rank 0 says. Raises JobError when a rank is gone."""
        found: list[Any] = [what]
        with _raise_if_rank_lost():
            dist.broadcast_object_list(found, src=0)
        said: T = found[0]
        return said

    def shared(self, own: Updates | None, like: Tensor) -> list[Updates | None]:
        """The updates of each rank, by rank; None where it has none.

        They are on the device of `like`.

        Raises:
            JobError: when a rank is gone, or says that it met an error.
        """
        tensors = {} if own is None else flat(own)
        plan, size = plan_of(tensors)
        plans: list[tuple[Plan, int] | str] = self.all_gather((plan, size))
        self._raise(plans)
        device = like.device if dist.get_backend() == "nccl" else torch.device("cpu")
        found: list[Updates | None] = []
        for rank, there in enumerate(plans):
            assert not isinstance(there, str)
            if not there[1]:
                found.append(None)
                continue
            buffer = torch.empty(there[1], dtype=torch.uint8, device=device)
            if rank == self.rank:
                put(buffer, tensors, plan)
            with _raise_if_rank_lost():
                dist.broadcast(buffer, src=rank)
            found.append(
                unflat(
                    {name: value.to(like.device) for name, value in seen(buffer, there[0]).items()}
                )
            )
        return found

    def failed(self, error: Exception) -> None:
        """Tell the others that this rank met an error, in place of what they wait for."""
        self.all_gather(
            error.message if isinstance(error, FedkgError) else f"{type(error).__name__}: {error}"
        )

    def _raise(self, told: list[Any]) -> None:
        wrong = {rank: text for rank, text in enumerate(told) if isinstance(text, str)}
        if wrong:
            rank, text = next(iter(wrong.items()))
            raise JobError(
                f"rank {rank} of {self.size} failed, so all ranks stop",
                received=text,
                help=f"see the output of rank {rank}, correct its error, and start all ranks again",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """An executor that deals the stacks of a cohort out to the ranks: the first to rank 0, the
    second to rank 1, and so on.

    Attributes:
        ranks: the processes that train together.
        executor: the executor of this rank's stacks.
        chunk: the largest number of clients in a stack.
        sorted: whether the executor sorts clients by descending number of steps, as all do except
            the sequential one.
    """

    ranks: Ranks
    executor: Executor
    chunk: int
    sorted: bool = True

    def train(
        self, work: Work, state: ServerState, clients: Tensor, *, limit: int | None = None
    ) -> Iterator[Updates]:
        """See `Executor.train`. All ranks must call it together."""
        order = torch.arange(len(clients), device=clients.device)
        if self.sorted:
            order = torch.argsort(steps_for(work, clients, limit), descending=True, stable=True)
        parts = [
            clients[order[first : first + self.chunk]] for first in range(0, len(order), self.chunk)
        ]
        own = parts[self.ranks.rank :: self.ranks.size]
        trained = self.executor.train(work, state, torch.cat(own), limit=limit) if own else iter(())
        for first in range(0, len(parts), self.ranks.size):
            try:
                mine = next(trained, None)
            except Exception as error:
                self.ranks.failed(error)
                raise
            for updates in self.ranks.shared(mine, work.pool.x)[: len(parts) - first]:
                assert updates is not None
                yield updates


@contextmanager
def joined() -> Iterator[Ranks | None]:
    """Yield the rank of this process among those of `torchrun`, or None if it is the only process.

    Raises:
        JobError: when the others cannot be reached.
    """
    text = os.environ.get("WORLD_SIZE", "1")
    if not text.isdecimal():
        raise JobError(
            "the environment variable WORLD_SIZE must be the number of processes",
            received=text or "an empty text",
            help="start the processes with `torchrun`, or unset WORLD_SIZE to run one process",
        )
    size = int(text)
    if size < 2 or "RANK" not in os.environ:
        yield None
        return
    if not dist.is_available():
        raise JobError(
            "WORLD_SIZE asks for several processes, and this torch has no torch.distributed",
            received=f"WORLD_SIZE={size}",
            help="install a torch with torch.distributed, or unset WORLD_SIZE to run one process",
        )
    with _raise_if_rank_lost():
        dist.init_process_group("gloo")
    try:
        yield Ranks(rank=dist.get_rank(), size=dist.get_world_size())
    finally:
        dist.destroy_process_group()


@contextmanager
def _raise_if_rank_lost() -> Iterator[None]:
    """What `torch.distributed` raises, as an error of ours."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise JobError(
            "a rank stopped or never started, so the others cannot continue",
            received=(str(error).splitlines() or [type(error).__name__])[0],
            help="see the output of the other ranks for the cause, and start all of them again "
            "with `torchrun`",
        ) from error
