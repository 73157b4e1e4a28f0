"""Hard limits on a minimum or maximum are several linear limits, which `project` satisfies."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fedkg
from fedkg.constraints import ConstraintModule

PLANT = """
signal c in bar span 0 .. 10
output a in bar span 0 .. 10
output b in bar span 0 .. 10
"""


def module(rule: str) -> ConstraintModule:
    pack = fedkg.compile(text=PLANT + rule)
    return pack.constraints(x=fedkg.columns(["c"]), y=fedkg.columns(["a", "b"]))


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    dice = np.random.default_rng(seed)
    x, y = dice.uniform(0, 10, (200, 1)), dice.uniform(0, 10, (200, 2))
    return torch.from_numpy(x), torch.from_numpy(y)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "rule",
    [
        "rule r hard require a < min(b, c)",
        "rule r hard require max(a, b) <= c",
        "rule r hard require min(b, c) >= a",
        "rule r hard require if c > 5 bar then max(a, 2 bar) <= min(b, c, 9 bar)",
        "rule r hard require max(a, max(b, 1 bar)) <= max(c, 1 bar)",
    ],
)
def test_projected_answers_satisfy_the_rule(rule: str) -> None:
    rules, (x, y) = module(rule), batch(1)
    assert rules.not_projected == ()
    assert rules(x, y).violated.any()
    assert not rules(x, rules.project(x=x, y=y)).violated.any()


def test_the_nearest_point_by_hand() -> None:
    """a <= min(b, c): (8, 4) with c = 9 goes to (6, 6), with c = 5 to (5, 5)."""
    rules = module("rule r hard require a <= min(b, c)")
    x = torch.tensor([[9.0], [5.0], [3.0]], dtype=torch.float64)
    y = torch.tensor([[8.0, 4.0], [8.0, 4.0], [8.0, 4.0]], dtype=torch.float64)
    found = rules.project(x=x, y=y)
    np.testing.assert_allclose(found.numpy(), [[6, 6], [5, 5], [3, 4]], atol=1e-6)


def test_margins_are_those_of_the_rule_as_written() -> None:
    text = "require max(a, 1 bar) <= min(b, c)"
    (x, y) = batch(2)
    hard, soft = module(f"rule r hard {text}"), module(f"rule r {text}")
    torch.testing.assert_close(hard(x, y).robustness, soft(x, y).robustness)


def test_what_stays_bent_is_reported() -> None:
    with pytest.warns(fedkg.authoring.RuleWarning, match="FKG222"):
        rules = module("rule r hard require a <= max(b, c)")
    assert rules.not_projected
