"""Parameters as they are found in traces.

Letters: C clients, P parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mined:
    """The tightest values that the traces of each client satisfy.

    Attributes:
        names: of the parameters. units: of their values.
        values: float64 [C, P]; NaN where nothing in the data says anything (`determined` is False there).
        determined: bool [C, P]. chosen: bool [C, P], where the value is not found but set: the trigger of a property that has two ends.
        traces: int64 [C], how many traces were mined in; traces with unknown values are left out.
        satisfied: float64 [C], which share of them satisfies the formula with these values; NaN where a value is not determined.
        robustness: float64 [C], the least robustness of those traces.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    values: Tensor
    determined: Tensor
    chosen: Tensor
    traces: Tensor
    satisfied: Tensor
    robustness: Tensor
