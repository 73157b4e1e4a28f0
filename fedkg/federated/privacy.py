"""What happens to updates before anybody sees them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedkg.models.model import Params


@dataclass(frozen=True, slots=True)
class NoPrivacy:
    """Updates are sent as they are."""

    def client(self, update: Params, keys: Tensor) -> Params:
        """See `Privacy.client`."""
        return update

    def server(self, update: Params, key: Tensor) -> Params:
        """See `Privacy.server`."""
        return update
