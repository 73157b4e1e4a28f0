"""A formula at the first step equals the interpreter's, also if inner windows reach beyond the
trace.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

import fedkg
from fedkg.constraints.engine.evaluation_inputs import Reading
from fedkg.constraints.meaning.trace_robustness import trace_values
from fedkg.mining.closed_form_tightest_values import robustness_of
from fedkg.mining.first_step_robustness import Steps, evaluate_first_step

OPERATORS = ("always", "eventually", "historically", "once")
HEAD = "timeline step 1 h ends clip\nsignal x in % span 0 .. 100\n"
STEPS = 7


@pytest.mark.parametrize("inner", OPERATORS)
@pytest.mark.parametrize("outer", OPERATORS)
def test_windows_that_end_with_their_trace(outer: str, inner: str) -> None:
    x = 100 * torch.rand(
        20, STEPS, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    for (a, b), (c, d) in product([(0, 4), (2, 5), (6, 9)], [(0, 1), (2, 3), (5, 8)]):
        condition = f"{outer} [{a}, {b}] (x >= 50 % or ({inner} [{c}, {d}] x <= 30 %))"
        if outer in ("historically", "once"):
            condition = f"eventually [3, 3] ({condition})"
        [bank] = fedkg.compile(text=f"{HEAD}rule r require initially ({condition})\n").banks
        numbers = bank.params[0].tolist()
        wanted = trace_values(bank.skeleton, x.numpy(), numbers, end="clip").robustness[:, 0]
        params = [torch.full((1, 1), number, dtype=torch.float64) for number in numbers]
        leaf = robustness_of(Reading(slots={0: x.reshape(1, -1)}, params=params), STEPS)
        found = evaluate_first_step(
            bank.skeleton, leaf, Steps(count=STEPS, numbers=numbers)
        ).expand(20)
        np.testing.assert_allclose(np.clip(found.numpy(), -1e9, 1e9), np.clip(wanted, -1e9, 1e9))
