"""All clients of a stack as one tensor program: parameters [C, ...], batched matrix products,
unequal sizes by masking.

The clients of a stack are ordered by their number of steps, so that the stack narrows as clients
finish: nothing is computed for those
that are done. A cohort that would not fit the memory budget is cut into several stacks of clients
of similar size.

Letters: K sampled clients, C clients of a stack, B batch, F features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from fedkg.federated.client.batches import Batches, by_chance, plan
from fedkg.federated.client.compiled_steps import compiled_steps_for, descended, side_by_side
from fedkg.federated.client.per_client_settings import batch_for, rate_for, steps_for
from fedkg.federated.executors.protocol import Updates, Work, client_context
from fedkg.federated.randomness import DROPOUT, ORDER, client_keys
from fedkg.federated.round_steps import Outcome, Setting, Step, write_statistics
from fedkg.federated.state import ServerState
from fedkg.federated.step_results import finish_local
from fedkg.models.activation_memory import footprint
from fedkg.models.model_protocols import DifferentiatedModel, Params
from fedkg.models.random_streams import Noise

GATHERED = 1 << 20
"""Numbers of the pool's rows that are gathered at once: enough to hide the calls, few enough to
stay in a cache.
"""

FREED = 31 << 20
"""Bytes freed once so that memory is reused from round to round, just below the largest size that
the C library learns from.
"""

CLOSED, TRACED = 4, 6
"""Copies of the parameters that a client takes while it is trained, by a derivative in closed form
and by automatic differentiation.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacked:
    """Stacks of at most `chunk` clients."""

    chunk: int

    def train(
        self, work: Work, state: ServerState, clients: Tensor, *, limit: int | None = None
    ) -> Iterator[Updates]:
        """See `Executor.train`."""
        _reuse_memory()
        steps = steps_for(work, clients, limit)
        order = torch.argsort(steps, descending=True, stable=True)
        for first in range(0, len(order), self.chunk):
            part = order[first : first + self.chunk]
            updates = _train_stack(work, state, clients[part], steps[part])
            other = work.beside()
            if other is not None:
                aside = _train_stack(other, state, clients[part], steps[part])
                updates = replace(
                    updates, client_memory=updates.client_memory | aside.client_memory
                )
            yield updates


@cache
def _reuse_memory() -> None:
    """Keep what a round frees for the next: at most 62 MiB, once in a process.

    The GNU C library gives freed memory back to the system where it exceeds twice the largest
    mapped block that was ever freed. A stack of
    small models exceeds that in every round, and fetching the pages anew takes a third of the
    round. Elsewhere this does nothing.
    """
    torch.empty(FREED, dtype=torch.uint8)


def fitting(work: Work, state: ServerState) -> int:
    """How many clients a stack may hold within the settings' memory, judged by the largest client;
    at least 1.
    """
    settings, x = work.settings, work.pool.x
    variables = work.algorithm.start.place_clients(
        work, state, torch.zeros(1, dtype=torch.int64, device=x.device)
    ).variables
    largest = int(work.pool.sizes.max())
    everybody = torch.arange(len(work.pool.sizes), device=x.device)
    steps = int(steps_for(work, everybody).max())
    parameters = sum(value.numel() for value in variables.values())
    held = footprint(work.problem.model, state.models, x)
    width = min(int(torch.as_tensor(batch_for(work, everybody)).max()), largest)
    epochs = max(
        [settings.local_epochs or steps, *(one.local_epochs or 1 for one in settings.own.values())]
    )
    copies = CLOSED if isinstance(work.problem.model, DifferentiatedModel) else TRACED
    numbers = copies * parameters + 2 * held.client + width * (2 * held.sample + 4 * x[0].numel())
    integers = 3 * epochs * largest + 4 * steps * width
    return max(1, settings.memory // (numbers * x.element_size() + integers * 8))


@torch.no_grad()
def _train_stack(work: Work, state: ServerState, clients: Tensor, steps: Tensor) -> Updates:
    algorithm, settings, pool = work.algorithm, work.settings, work.pool
    number = state.round + 1
    sizes = pool.sizes[clients]
    start = algorithm.start.place_clients(work, state, clients)
    setting = Setting(
        state=state,
        clients=clients,
        samples=sizes,
        share=pool.share(clients),
        steps=steps,
        rate=rate_for(work, number, clients),
        start=start,
        context=client_context(work, state, clients, steps),
    )
    parts = compiled_steps_for(work)
    stack = None if parts is None else side_by_side(parts, start.variables)
    variables = _copies(start.variables) if stack is None else stack.views
    carry = algorithm.local.begin(setting, variables)
    keys = client_keys(settings.seed, number, ORDER, clients)
    passes, padding = settings.local_steps is None, pool.x.shape[0] - 1
    batch = batch_for(work, clients)
    rule = algorithm.differentiation
    if rule.by_chance:
        batches = by_chance(
            keys,
            sizes,
            pool.first_rows(clients),
            steps,
            batch,
            padding=padding,
            randomness=rule.randomness,
        )
    else:
        batches = plan(
            keys, sizes, pool.first_rows(clients), steps, batch, passes=passes, padding=padding
        )
    noise_keys = client_keys(settings.seed, number, DROPOUT, clients)
    if parts is not None and stack is not None:
        total = descended(parts, work, setting, stack, carry, batches, noise_keys)
    else:
        total = _stepped(work, setting, variables, carry, batches, noise_keys)
    changed = stack is not None and stack.origin is not None
    outcome = (
        algorithm.start.part(setting, Outcome(update=variables))
        if changed
        else finish_local(algorithm, setting, variables, carry)
    )
    return Updates(
        clients=clients,
        groups=start.groups,
        start=start.variables,
        update=outcome.update,
        loss=total / steps,
        client_memory=outcome.client_memory,
        shared=outcome.shared,
    )


def _copies(stack: Params) -> Params:
    return {
        name: value.clone(memory_format=torch.contiguous_format) for name, value in stack.items()
    }


def _stepped(
    work: Work,
    setting: Setting,
    variables: Params,
    carry: Params,
    batches: Batches,
    noise_keys: Tensor,
) -> Tensor:
    """The sum over the steps of each client's objective, [C]; `variables` and `carry` are written
    over with where the steps lead.
    """
    algorithm, pool, clients = work.algorithm, work.pool, setting.clients
    total = torch.zeros(len(clients), dtype=pool.x.dtype, device=pool.x.device)
    for block in batches.blocks(GATHERED // (batches.index.shape[2] * pool.x[0].numel())):
        active = batches.active[block.start]
        mine, kept = _first_rows(variables, active), _first_rows(carry, active)
        rate = setting.rate[:active] if isinstance(setting.rate, Tensor) else setting.rate
        values = []
        for step in _steps(work, setting, batches, block, mine, noise_keys):
            value, gradient = algorithm.differentiation(step, algorithm.terms)
            algorithm.local.advance(mine, gradient, kept, rate)
            write_statistics(step, mine)
            values.append(value)
        total[:active] += torch.stack(values).sum(0)
    return total


def _steps(
    work: Work,
    setting: Setting,
    batches: Batches,
    block: range,
    variables: Params,
    noise_keys: Tensor,
) -> Iterator[Step]:
    """The steps of a block one by one; their rows are gathered together."""
    model, pool, active = work.problem.model, work.pool, batches.active[block.start]
    index = batches.index[block.start : block.stop, :active].contiguous()
    flat = index.view(-1)
    x = pool.x.index_select(0, flat).view(*index.shape, *pool.x.shape[1:]).unbind(0)
    y = pool.y.index_select(0, flat).view(*index.shape, *pool.y.shape[1:]).unbind(0)
    keys = {name: codes[index] for name, codes in pool.keys.items()} if work.algorithm.terms else {}
    shares = _shares(batches, block, active, pool.x.dtype)
    noise_keys, clients, begun = (
        noise_keys[:active],
        setting.clients[:active],
        _first_rows(setting.start.pull, active),
    )
    closed = model if isinstance(model, DifferentiatedModel) else None
    context = setting.context.first(active) if work.algorithm.terms else setting.context
    for place, count in enumerate(block):
        yield Step(
            model=model,
            loss=work.problem.loss,
            params=work.algorithm.local.point(variables),
            x=x[place],
            y=y[place],
            share=None if shares is None or batches.full[count] else shares[place],
            noise=Noise(
                noise_keys, count, None if batches.full[count] else batches.valid[count, :active]
            ),
            clients=clients,
            start=begun,
            round=setting.state.round + 1,
            keys={name: codes[place] for name, codes in keys.items()},
            closed=closed,
            expected=None if batches.expected is None else batches.expected[:active],
            autocast=torch.bfloat16 if work.settings.precision == "bfloat16" else None,
            context=context,
        )


def _shares(batches: Batches, block: range, active: int, dtype: torch.dtype) -> Tensor | None:
    """What each sample counts in its client's mean, [steps, active, B]; None when all batches of
    the block are full.
    """
    if batches.expected is not None:
        return batches.valid[block.start : block.stop, :active].to(dtype) / batches.expected[
            :active
        ].to(dtype).unsqueeze(1)
    if all(batches.full[block.start : block.stop]):
        return None
    valid = batches.valid[block.start : block.stop, :active].to(dtype)
    return valid / valid.sum(2, keepdim=True)


def _first_rows(stack: Params, count: int) -> Params:
    """The first clients of a stack, as views."""
    first = next(iter(stack.values()), None)
    if first is None or first.shape[0] == count:
        return stack
    return {name: value[:count] for name, value in stack.items()}
