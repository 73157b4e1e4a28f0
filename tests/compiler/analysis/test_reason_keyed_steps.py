"""The next row of a machine differs from the next row of the table.

Rules about one do not interact with rules about the other.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkg_compiler import compile_rules
from fedkg_compiler.analysis import reason

PLANT = Path(__file__).parents[2] / "golden" / "plant" / "plant.ttl"
HEAD = """\
prefix plant: <https://example.org/plant#>
timeline step 1 min
signal torque(?m) is plant:torque
signal load in N.m column "Torque [Nm]"
"""
CASES = {
    "both look ahead": (
        (
            "rule a require if load > 90 N.m then next load >= 60 N.m\nrule b for ?m in class"
            " plant:Mill require next torque(?m) <= 50 N.m\n"
        ),
        [],
    ),
    "a rule about mills does not hold of the next row of any machine": (
        (
            "rule a require next load >= 60 N.m\nrule b for ?m in class plant:Mill require"
            " torque(?m) * torque(?m) <= 2500 N^2.m^2\n"
        ),
        [],
    ),
    "a rule about all rows holds of the next row of a mill": (
        (
            "rule a require load >= 60 N.m\nrule b for ?m in class plant:Mill require next"
            " torque(?m) <= 50 N.m\n"
        ),
        ["conflict"],
    ),
    "both are about mills": (
        (
            "rule a for ?m in class plant:Mill require torque(?m) >= 60 N.m\n"
            "rule b for ?m in class plant:Mill require next torque(?m) <= 50 N.m\n"
        ),
        ["conflict"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rules_meet_at_steps_of_the_same_rows(name: str) -> None:
    rules, expected = CASES[name]
    compilation = compile_rules(text=HEAD + rules, graphs=[PLANT], reason=False)
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    assert [one.kind for one in reason(compilation.pack)] == expected
