"""Stacks of clients trained side by side in worker processes of one thread each.

The stacks are those of the stacked executor in its order, and their updates are handed on in that
order whichever is done first: what a
round leads to is that of the stacked executor with the same chunk, to the bit, for any number of
workers.

Letters: K sampled clients, C clients of a stack.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.federated.client.per_client_settings import steps_for
from fedkg.federated.executors.protocol import Updates, Work
from fedkg.federated.executors.stacked import Stacked
from fedkg.federated.executors.worker import Answer, Task, unflat
from fedkg.federated.executors.worker_pool import WorkerPool
from fedkg.federated.state import ServerState
from fedkg.models.model_protocols import Params


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """Stacks of at most `chunk` clients in the processes of a crew.

    Where there is one stack only, it is trained in this process.
    """

    chunk: int
    crew: WorkerPool

    def train(
        self, work: Work, state: ServerState, clients: Tensor, *, limit: int | None = None
    ) -> Iterator[Updates]:
        """See `Executor.train`."""
        if len(clients) <= self.chunk:
            yield from Stacked(chunk=self.chunk).train(work, state, clients, limit=limit)
            return
        order = torch.argsort(steps_for(work, clients, limit), descending=True, stable=True)
        parts = [
            clients[order[first : first + self.chunk]] for first in range(0, len(order), self.chunk)
        ]
        crew = self.crew
        call, free = crew.begin(work, state.round, _shown(state))
        given, done = 0, dict[int, Answer]()
        for turn in range(len(parts)):
            while turn not in done:
                while free and given < len(parts) and crew.ready():
                    task = Task(turn=(call, given), slot=free.pop(), asked={}, limit=limit)
                    crew.give(
                        task,
                        parts[given],
                        {name: rows[parts[given]] for name, rows in state.clients.items()},
                    )
                    given += 1
                for answer in crew.answers():
                    if answer.turn[0] == call:
                        done[answer.turn[1]] = answer
                    else:  # an earlier call was given up before its end
                        free.append(answer.slot)
            answer = done.pop(turn)
            yield unflat(crew.looked_at(answer))
            free.append(answer.slot)


def _shown(state: ServerState) -> Params:
    """The server's tensors, as workers are shown them."""
    shown = {f"models/{name}": value for name, value in state.models.items()}
    for joint, memory in state.joints.items():
        shown |= {f"joints/{joint}/{name}": value for name, value in memory.items()}
    return shown
