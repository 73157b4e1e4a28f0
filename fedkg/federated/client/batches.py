"""Which samples each client of a stack sees at each of its local steps, planned for the whole round
in a few tensor operations.

Letters: C clients of a stack, S most steps of any of them, B widest batch, E epochs begun (or fresh
draws).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fedkg.federated.randomness import permutations
from fedkg.federated.settings import Settings
from fedkg.models.random_streams import above_zero, fold
from fedkg.privacy import Randomness, system_noise


@dataclass(frozen=True, kw_only=True, eq=False)
class Batches:
    """The plan of a stack of clients in decreasing order of their numbers of steps.

    Attributes:
        index: int64 [S, C, B], rows of the pool; `padding` for missing samples. May be a view.
        counts: int64 [C, S], how many samples each minibatch has: the first ones of its B.
        steps: int64 [C].
        expected: float64 [C], the samples expected in a minibatch to which each belongs by chance;
            None where a minibatch is what it is.
    """

    index: Tensor
    counts: Tensor
    steps: Tensor
    expected: Tensor | None = None

    @cached_property
    def valid(self) -> Tensor:
        """bool [S, C, B], which are samples."""
        return torch.arange(
            self.index.shape[2], device=self.index.device
        ) < self.counts.t().unsqueeze(2)

    @cached_property
    def active(self) -> list[int]:
        """For each step how many clients still work: the first ones."""
        working: list[int] = (
            (torch.arange(self.index.shape[0], device=self.steps.device).view(-1, 1) < self.steps)
            .sum(1)
            .tolist()
        )
        return working

    @cached_property
    def full(self) -> list[bool]:
        """For each step whether all samples of the active clients are valid."""
        if self.expected is not None:
            return [False] * len(self.index)
        samples = self.counts.sum(0).tolist()
        return [
            count == active * self.index.shape[2]
            for count, active in zip(samples, self.active, strict=True)
        ]

    def blocks(self, batches: int) -> Iterator[range]:
        """The steps in runs of equally many working clients, each of at least one step and at most
        `batches` minibatches.
        """
        first = 0
        while first < len(self.active):
            active = self.active[first]
            last, most = first + 1, first + max(1, batches // active)
            while last < len(self.active) and last < most and self.active[last] == active:
                last += 1
            yield range(first, last)
            first = last


def steps_of(sizes: Tensor, settings: Settings, limit: int | None = None) -> Tensor:
    """Number of local steps of clients with these numbers of samples, int64 [C]: epochs times
    batches, or as the settings say.
    """
    if settings.local_steps is not None:
        steps = torch.full_like(sizes, settings.local_steps)
    else:
        steps = (sizes + settings.batch - 1) // settings.batch * (settings.local_epochs or 1)
    return steps if limit is None else steps.clamp(max=limit)


def plan(
    keys: Tensor,
    sizes: Tensor,
    offsets: Tensor,
    steps: Tensor,
    batch: int | Tensor,
    *,
    passes: bool,
    padding: int,
) -> Batches:
    """The minibatches of a stack of clients in one round.

    In passes, a client goes through its samples in a new random order each epoch, `batch` at a time
    (the last batch of an epoch may be smaller), until its steps are done. Otherwise each step draws
    `batch` of its samples afresh (all, if it has fewer), without replacement within the batch. The
    samples of a client depend only on its key, size and steps, not on the other clients of the
    stack.

    Args:
        keys: int64 [C], the random key of each client, see `randomness.permutations`.
        sizes: int64 [C], the number of samples of each client.
        offsets: int64 [C], the position of each client's first row in the pool.
        steps: int64 [C], the number of steps of each client, in descending order.
        batch: the samples in a minibatch: one number for all clients, or int64 [C].
        passes: whether clients make passes instead of drawing afresh in each step.
        padding: the row of the pool that replaces missing samples.
    """
    batch = torch.as_tensor(batch, device=keys.device).expand(len(keys))
    per_epoch = (sizes + batch - 1) // batch if passes else torch.ones_like(sizes)
    most, width = int(steps.max()), int(torch.minimum(batch, sizes).max())
    epochs = int(((steps + per_epoch - 1) // per_epoch).max())
    order = permutations(keys, sizes, epochs)
    longest = order.shape[2]
    at = torch.arange(most, device=keys.device).view(1, -1, 1)
    parts = per_epoch.view(-1, 1, 1)
    epoch = (at // parts).clamp_(max=epochs - 1)
    across = torch.arange(width, device=keys.device)
    position = (at % parts) * batch.view(-1, 1, 1) + across
    valid = (
        (position < sizes.view(-1, 1, 1))
        & (at < steps.view(-1, 1, 1))
        & (across < batch.view(-1, 1, 1))
    )
    place = torch.where(valid, epoch * longest + position, 0)
    chosen = order.flatten(1).gather(1, place.flatten(1)).view(len(keys), most, width)
    index = torch.where(valid, chosen + offsets.view(-1, 1, 1), padding)
    return Batches(index=index.transpose(0, 1), counts=valid.sum(2), steps=steps)


def by_chance(
    keys: Tensor,
    sizes: Tensor,
    offsets: Tensor,
    steps: Tensor,
    batch: int | Tensor,
    *,
    padding: int,
    randomness: Randomness = "seeded",
) -> Batches:
    """The plan of a stack in which each sample belongs to each minibatch with chance ``batch /
    n_k`` (1 for fewer samples than that).

    All these chances are independent, as accountants of privacy assume: a minibatch has `batch`
    samples on average, and may have none.
    The samples of one are found by the gaps between them, which are geometric: gap = 1 + floor(log
    u / log(1 - chance)).
    Arguments as of `plan`, and what a client sees depends on its own as there; with the `system`
    randomness, `keys` are not read.
    """
    most, expected = (
        int(steps.max()),
        torch.minimum(sizes, torch.as_tensor(batch, device=sizes.device)).to(torch.float64),
    )
    rate = expected / sizes
    streams = fold(keys.unsqueeze(1), torch.arange(most, device=keys.device)).flatten()
    width = int((expected + 5.0 * (expected * (1.0 - rate)).sqrt()).max()) + 8
    scale = torch.log1p(-rate).view(-1, 1, 1)
    draws = streams.new_empty((len(streams), 0), dtype=torch.float64)
    while True:
        # with a wider plan, the numbers so far stay the first ones: to draw all of them anew would
        # favour minibatches of few samples
        if randomness == "seeded":
            draws = above_zero(streams, width)
        else:
            more = system_noise.uniform(len(streams) * (width - draws.shape[1]))
            draws = torch.cat([draws, torch.from_numpy(more).to(draws).view(len(streams), -1)], 1)
        place = draws.view(len(keys), most, width)
        place = (place.log() / scale).floor_().add_(1.0).cumsum_(2).sub_(1.0)
        if bool((place[..., -1] >= sizes.view(-1, 1)).all()):
            break
        width *= 2
    at = torch.arange(most, device=keys.device)
    valid = (place < sizes.view(-1, 1, 1)) & (at.view(1, -1, 1) < steps.view(-1, 1, 1))
    widest = max(1, int(valid.sum(2).max()))
    valid = valid[..., :widest].transpose(0, 1)
    place = place[..., :widest].transpose(0, 1)
    index = torch.where(valid, place, 0.0).to(torch.int64) + offsets.view(1, -1, 1)
    index = torch.where(valid, index, padding)
    return Batches(
        index=index, counts=valid.sum(2).t().contiguous(), steps=steps, expected=expected
    )
