"""The models that sites deploy in a given state of a trial, with bounded memory.

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
    """The models of N sites in the order of the sites, loaded in chunks.

    Iterating over them keeps one chunk in memory.

    Args:
        work: the trial's work description.
        state: the server state.
        part: maximum number of models in memory.

    Attributes:
        state: the server state.
    """

    def __init__(self, work: Work, state: ServerState, part: int) -> None:
        self._work, self.state, self._part = work, state, part
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
                self._work.algorithm.site_models(self._work, self.state, clients),
            )
        # A site computes with its model alone in memory; views at other addresses may differ in
        # the last bits.
        return {name: value[site - first].clone() for name, value in self._stack.items()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeployedModels:
    """The models that sites deploy, for any state of a trial."""

    work: Work

    def models(self, state: ServerState) -> Sequence[Params]:
        """One model that all sites share, otherwise one per site in their order.

        `Settings.client_memory` limits how many of them are in memory at once.
        """
        if self.work.algorithm.one_model:
            return [state.params]
        size = sum(value[0].numel() * value.element_size() for value in state.models.values())
        return SiteModels(
            self.work, state, max(1, self.work.settings.client_memory // max(1, size))
        )
