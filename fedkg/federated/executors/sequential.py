"""The reference executor: one client after the other, in the most obvious form, with automatic
differentiation.

Letters: B batch, F features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedkg.federated.client.batches import by_chance, plan
from fedkg.federated.client.per_client_settings import batch_for, rate_for, steps_for
from fedkg.federated.executors.protocol import Updates, Work, client_context
from fedkg.federated.randomness import DROPOUT, ORDER, client_keys
from fedkg.federated.round_steps import Setting, Step, write_statistics
from fedkg.federated.state import ServerState
from fedkg.federated.step_results import finish_local
from fedkg.models.random_streams import Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequential:
    """One client after the other; batches hold samples only, never padding.

    `chunk` is accepted and means nothing here.
    """

    chunk: int = 1

    def train(
        self, work: Work, state: ServerState, clients: Tensor, *, limit: int | None = None
    ) -> Iterator[Updates]:
        """See `Executor.train`."""
        seed, number = work.settings.seed, state.round + 1
        order = client_keys(seed, number, ORDER, clients)
        noise = client_keys(seed, number, DROPOUT, clients)
        for place in range(len(clients)):
            here = slice(place, place + 1)
            updates = _train_one(work, state, clients[here], order[here], noise[here], limit)
            other = work.beside()
            if other is not None:
                aside = _train_one(other, state, clients[here], order[here], noise[here], limit)
                updates = replace(
                    updates, client_memory=updates.client_memory | aside.client_memory
                )
            yield updates


@torch.no_grad()
def _train_one(
    work: Work, state: ServerState, client: Tensor, order: Tensor, noise: Tensor, limit: int | None
) -> Updates:
    algorithm, settings, problem = work.algorithm, work.settings, work.problem
    sizes, offsets = work.pool.sizes[client], work.pool.first_rows(client)
    steps = steps_for(work, client, limit)
    start = algorithm.start.place_clients(work, state, client)
    setting = Setting(
        state=state,
        clients=client,
        samples=sizes,
        share=work.pool.share(client),
        steps=steps,
        rate=rate_for(work, state.round + 1, client),
        start=start,
        context=client_context(work, state, client, steps),
    )
    variables = {name: value.clone() for name, value in start.variables.items()}
    carry = algorithm.local.begin(setting, variables)
    batch = batch_for(work, client)
    rule = algorithm.differentiation
    if rule.by_chance:
        batches = by_chance(
            order, sizes, offsets, steps, batch, padding=-1, randomness=rule.randomness
        )
    else:
        batches = plan(
            order, sizes, offsets, steps, batch, passes=settings.local_steps is None, padding=-1
        )
    expected = None if batches.expected is None else batches.expected.to(work.pool.x.dtype)
    total = torch.zeros(1, dtype=work.pool.x.dtype)
    for step_number, (index, valid) in enumerate(zip(batches.index, batches.valid, strict=True)):
        rows = (
            index[valid] if bool(valid.any()) else index[:, :1].flatten()
        )  # the row of zeros, which then counts nothing
        step = Step(
            model=problem.model,
            loss=problem.loss,
            params=algorithm.local.point(variables),
            x=work.pool.x[rows].unsqueeze(0),
            y=work.pool.y[rows].unsqueeze(0),
            share=None if expected is None else (valid.sum() > 0) / expected.expand(1, len(rows)),
            noise=Noise(noise, step_number),
            clients=client,
            start=start.pull,
            round=state.round + 1,
            keys={name: codes[rows].unsqueeze(0) for name, codes in work.pool.keys.items()}
            if algorithm.terms
            else {},
            expected=expected,
            autocast=torch.bfloat16 if settings.precision == "bfloat16" else None,
            context=setting.context,
        )
        value, gradient = algorithm.differentiation(step, algorithm.terms)
        algorithm.local.advance(variables, gradient, carry, setting.rate)
        write_statistics(step, variables)
        total += value
    outcome = finish_local(algorithm, setting, variables, carry)
    return Updates(
        clients=client,
        groups=start.groups,
        start=start.variables,
        update=outcome.update,
        loss=total / len(batches.index),
        client_memory=outcome.client_memory,
        shared=outcome.shared,
    )
