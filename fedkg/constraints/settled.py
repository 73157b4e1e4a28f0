"""What evaluations on batches of one shape have in common, where which conditions are met does not depend on their numbers.

Letters: B rows of the batch, D conditions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fedkg.constraints.engine.traces import Traces

if TYPE_CHECKING:
    from fedkg.constraints.fused.batch import Places


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """Found out when first asked for.

    Attributes:
        met: bool [D, B]. traces: of the batch. dtype: of its numbers. kept: what has been found out.
    """

    met: Tensor
    traces: Traces | None
    dtype: torch.dtype
    kept: dict[Any, Any] = field(default_factory=dict)

    def places(self, temporal: bool) -> Places | None:
        """The samples as loops see them; None where there are no loops for them."""
        from fedkg.constraints.fused.batch import fused_places

        if temporal not in self.kept:
            with torch.inference_mode(mode=False):  # what is kept serves training too
                self.kept[temporal] = fused_places(self.met, self.traces if temporal else None, self.dtype)
        found: Places | None = self.kept[temporal]
        return found

    @property
    def always_met(self) -> Tensor:
        """Which conditions all samples meet, bool [D]."""
        if "met" not in self.kept:
            with torch.inference_mode(mode=False):
                self.kept["met"] = self.met.all(dim=1)
        found: Tensor = self.kept["met"]
        return found
