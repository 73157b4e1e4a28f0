"""Small stacks of updates in one: the server's work on a stack takes as long for one client as for
many.

Letters: K sampled clients, C clients of a stack.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from fedkg.federated.executors.protocol import Updates
from fedkg.models.model_protocols import Params

ENOUGH = 1 << 20
"""Bytes of updates from which a stack is worth the server's while."""


def join_small_stacks(stacks: Iterator[Updates], clients: int) -> Iterator[Updates]:
    """The same updates, in their order, stacks of less than `ENOUGH` bytes joined; `clients`: K,
    after which no more is waited for.
    """
    kept: list[Updates] = []
    held = seen = 0
    for updates in stacks:
        held, seen = held + _size(updates), seen + len(updates.clients) + len(updates.rejected)
        over = held >= ENOUGH or seen >= clients
        if over:
            yield _joined([*kept, updates])
            kept, held = [], 0
        else:
            kept.append(
                _copied(updates)
            )  # what a stack refers to holds until the next one is asked for
    if kept:
        yield _joined(kept)


def by_client(stacks: Iterator[Updates]) -> Iterator[Updates]:
    """Yield all updates of a round as one stack in the order of the clients' positions, or nothing.

    Executors return stacks in different orders. A rule that breaks ties by the order of the clients
    needs one that is the same in all.
    """
    parts = [_copied(updates) for updates in stacks]
    if not parts:
        return
    whole = _joined(parts)
    yield whole.take(whole.clients.argsort())


def _size(updates: Updates) -> int:
    """Bytes of what the server looks at, the start of each client counted."""
    parts = (updates.start, updates.update, updates.client_memory, updates.shared)
    return sum(value.numel() * value.element_size() for part in parts for value in part.values())


def _copied(updates: Updates) -> Updates:
    return _joined([updates], copied=True)


def _joined(stacks: list[Updates], *, copied: bool = False) -> Updates:
    """One stack of several, or a copy of one."""
    if len(stacks) == 1 and not copied:
        return stacks[0]
    rejected: dict[int, str] = {}
    late: dict[int, tuple[int, float]] = {}
    for one in stacks:
        rejected |= one.rejected
        late |= one.late
    told = [one.violation for one in stacks if one.violation is not None]
    return Updates(
        clients=torch.cat([one.clients for one in stacks]),
        groups=torch.cat([one.groups for one in stacks]),
        start=_concatenate([one.start for one in stacks]),
        update=_concatenate([one.update for one in stacks]),
        loss=torch.cat([one.loss for one in stacks]),
        client_memory=_concatenate([one.client_memory for one in stacks]),
        shared=_concatenate([one.shared for one in stacks]),
        rejected=rejected,
        notes=tuple(note for one in stacks for note in one.notes),
        outgoing=all(one.outgoing for one in stacks),
        violation=torch.cat(told) if told else None,
        late=late,
    )


def _concatenate(parts: list[Params]) -> Params:
    """Tensors of one name one after the other, [C, ...]."""
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
