"""The models that sites use in a state of a training, a part of them in memory at a time.

Letters: N sites.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import torch
from typing_extensions import override

from fedkg.federated import ServerState
from fedkg.federated.executors import Work
from fedkg.models import Params


class SiteModels(Sequence[Params]):
    """The models of N sites, in the order of the sites; loaded in parts as they are asked for, so that going through them holds one part.

    Args:
        work, state: of the training. part: most models in memory at once.
    """

    def __init__(self, work: Work, state: ServerState, part: int) -> None:
        self._work, self._state, self._part = work, state, part
        self._sites = len(work.problem.clients.names)
        self._first, self._stack = -1, Params()

    @override
    def __len__(self) -> int:
        return self._sites

    @overload
    def __getitem__(self, place: int) -> Params: ...

    @overload
    def __getitem__(self, place: slice) -> list[Params]: ...

    @override
    def __getitem__(self, place: int | slice) -> Params | list[Params]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(self._sites))]
        if not -self._sites <= place < self._sites:
            raise IndexError(place)
        site = place % self._sites
        first = site - site % self._part
        if first != self._first:
            clients = torch.arange(first, min(first + self._part, self._sites))
            self._first, self._stack = (
                first,
                self._work.algorithm.deployed(self._work, self._state, clients),
            )
        return {name: value[site - first] for name, value in self._stack.items()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeployedModels:
    """Which models the sites use, in any state of an arm."""

    work: Work

    def models(self, state: ServerState) -> Sequence[Params]:
        """The server's one model where all use it, else every site's, in the order of the sites.

        As many of them are in memory at once as `Settings.client_memory` has room for.
        """
        if self.work.algorithm.one_model:
            return [state.params]
        size = sum(value[0].numel() * value.element_size() for value in state.models.values())
        return SiteModels(
            self.work, state, max(1, self.work.settings.client_memory // max(1, size))
        )
