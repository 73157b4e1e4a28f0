"""Result of mining: parameters and statistics of the traces.

Letters: C clients, P parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MiningResult:
    """The tightest values that the traces of each client satisfy.

    Attributes:
        names: of the parameters.
        units: of their values.
        values: float64 [C, P]; NaN, and `determined` False, if the data does not determine the
            parameter or the template does not fit.
        determined: bool [C, P].
        chosen: bool [C, P], whether the value is set instead of mined: the trigger of a property
            with two ends.
        fits: bool [C], whether the traces satisfy the formula with its loosest parameters;
            otherwise no value satisfies it.
        traces: int64 [C], number of traces used; traces with unknown values are skipped.
        satisfied: float64 [C], share of the traces that satisfy the formula with these values; NaN
            if a value is not determined, or for private mining.
        robustness: float64 [C], the least robustness of these traces; NaN likewise.
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
