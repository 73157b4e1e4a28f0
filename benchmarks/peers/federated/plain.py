"""A plain PyTorch loop over the clients: `python plain.py FOLDER PROCESSES`.

It runs in one process, or in several with one thread each.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.multiprocessing
from contender_protocol import Asked
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch_workload import Workload


def summed(work: Workload, net: nn.Module, world: Tensor, clients: Any) -> Tensor:
    """The sum of the clients' parameters after their training."""
    total = torch.zeros_like(world)
    for client in clients:
        vector_to_parameters(world.clone(), net.parameters())
        work.learn(net, int(client))
        total += parameters_to_vector(net.parameters()).detach()
    return total


def worker(folder: str, world: Tensor, total: Tensor, asked: Any, told: Any) -> None:
    """Train shares of cohorts until there are no more."""
    torch.set_num_threads(1)
    work = Workload(folder)
    net = work.network()
    while (clients := asked.get()) is not None:
        total.copy_(summed(work, net, world, clients))
        told.put(True)


def main() -> None:
    folder, processes = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    work = Workload(folder)
    net = work.network()
    world = parameters_to_vector(net.parameters()).detach().clone().share_memory_()
    forked: Any = torch.multiprocessing.get_context("fork")
    totals = torch.zeros(processes, len(world)).share_memory_()
    queues, told = [forked.Queue() for _ in range(processes)], forked.Queue()
    others = []
    if processes > 1:
        for queue, total in zip(queues, totals, strict=True):
            others.append(
                forked.Process(target=worker, args=(folder, world, total, queue, told), daemon=True)
            )
            others[-1].start()

    def loss() -> float:
        vector_to_parameters(world.clone(), net.parameters())
        return work.probe(net)

    asked = Asked(work.folder, loss)
    for cohort in work.cohorts:
        asked.wait()
        if others:
            for place, queue in enumerate(queues):
                queue.put(cohort[place::processes])
            for _ in queues:
                told.get()
            world.copy_(totals.sum(0) / len(cohort))
        else:
            world.copy_(summed(work, net, world, cohort) / len(cohort))
        asked.done()
    asked.wait()


if __name__ == "__main__":
    main()
