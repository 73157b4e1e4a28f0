"""How far rules look, and windows too short to decide them (An, Johnson and Ma 2024, section 2: the
horizon of a formula).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fedkg.constraints.engine.skeleton_properties import is_temporal
from fedkg.errors import LayoutError
from fedkg.pack.formulas import ROWS, Initially, everywhere, reach
from fedkg.pack.pack import Pack


def horizons(pack: Pack) -> dict[int, int]:
    """For each rule over time (position in the pack) how many steps it looks back and ahead
    together, of its longest windows.

    Windows without an end end with the trace and add nothing. Windows over members are not looked
    at.
    """
    found: dict[int, int] = {}
    for bank in pack.banks:
        if not (bank.rows and is_temporal(bank.skeleton)):
            continue
        parts = [part for table, part in everywhere(bank.skeleton) if table == ROWS]
        windows = bank.params[:, sorted({step for part in parts for step in part.step_params()})]
        rows, which = np.unique(windows, axis=0, return_index=True)
        of_row: dict[tuple[float, ...], int] = {}
        formula = bank.skeleton.arg if isinstance(bank.skeleton, Initially) else bank.skeleton
        for row, first in zip(rows.tolist(), which.tolist(), strict=True):
            far = reach(formula, bank.params[first].tolist())
            of_row[tuple(row)] = (
                int(far.back + far.ahead) if math.isfinite(far.back + far.ahead) else 0
            )
        for rule, row in zip(bank.rule.tolist(), windows.tolist(), strict=True):
            found[rule] = max(found.get(rule, 0), of_row[tuple(row)])
    return found


def check_horizons(found: Mapping[int, int], names: Sequence[str], steps: int) -> None:
    """Raise LayoutError where a rule can be decided at no step of a window: it looks beyond the
    window's ends from all of them.
    """
    beyond = {rule: horizon for rule, horizon in found.items() if horizon >= steps}
    if not beyond:
        return
    rule = max(beyond, key=lambda r: beyond[r])
    others = len(beyond) - 1
    more = f" (and {others} more rule{'s' * (others > 1)})" if others else ""
    raise LayoutError(
        f"rule `{names[rule]}`{more} cannot be decided at any step of windows of {steps} "
        f"steps: its horizon is {beyond[rule]} steps",
        expected=f"x of shape [B, T, F] with T of {beyond[rule] + 1} or more",
        received=f"T = {steps}",
        help="use longer windows, or `ends clip` in the rules' timeline: then a window ends "
        "with its trace",
    )
