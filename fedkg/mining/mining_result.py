"""Parameters as they are found in traces.

Letters: C clients, P parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MiningResult:
    """The tightest values that the traces of each client satisfy.

    Attributes:
        names: of the parameters. units: of their values.
        values: float64 [C, P]; NaN, and `determined` False, where the data says nothing of the parameter or the template does not fit.
        determined: bool [C, P]. chosen: bool [C, P], where the value is not found but set: the trigger of a property that has two ends.
        fits: bool [C], whether the traces satisfy the formula with its parameters at their loosest; where not, no value makes them.
        traces: int64 [C], how many traces were mined in; traces with unknown values are left out.
        satisfied: float64 [C], which share of them satisfies the formula with these values; NaN where one is not determined, or private.
        robustness: float64 [C], the least robustness of those traces; NaN likewise.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    values: Tensor
    determined: Tensor
    chosen: Tensor
    fits: Tensor
    traces: Tensor
    satisfied: Tensor
    robustness: Tensor
