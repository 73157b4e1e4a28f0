"""Rules over several steps that follow from others, and those that do not."""

from __future__ import annotations

import pytest

from fedkg_compiler import compile_rules
from fedkg_compiler.analysis import reason

SIGNALS = "signal a in dimensionless span 0 .. 10\nsignal b in dimensionless span 0 .. 10\n"
ALWAYS, EVENTUALLY = "always [0, 10 min] a <= 5", "eventually [0, 3 min] b >= 4"
AGAIN = {
    "a looser limit": (ALWAYS, "always [0, 10 min] a <= 6"),
    "a window inside": (ALWAYS, "always [2 min, 4 min] a <= 6"),
    "a window elsewhere, as the rule holds at every step": (
        ALWAYS,
        "always [20 min, 30 min] a <= 6",
    ),
    "each row": (ALWAYS, "a <= 7"),
    "all steps": ("a <= 5", "always [1 min, 9 h] a <= 6"),
    "a longer wait": (EVENTUALLY, "eventually [0, 5 min] b >= 3"),
    "the same wait": (EVENTUALLY, "eventually [0, 3 min] b >= 3"),
    "a wait of hours": ("eventually [0, 8 h] b >= 4", "eventually [0, 9 h] b >= 3"),
    "the past": ("once [1 min, 3 min] b >= 4", "once [0, 5 min] b >= 4"),
    "an answer": (
        "if a > 5 then eventually [0, 2 h] b >= 4",
        "if a > 6 then eventually [0, 3 h] b >= 3",
    ),
    "an until": ("a <= 5 until [0, 20 min] b >= 4", "a <= 6 until [0, 30 min] b >= 3"),
    "a window in a window": (
        "eventually [0, 2 h] (always [0, 1 h] a <= 3)",
        "eventually [0, 3 h] (always [0, 30 min] a <= 4)",
    ),
    "denied": ("not (eventually [0, 2 h] a > 5)", "not (eventually [10 min, 20 min] a > 6)"),
    "one of two": ("always [1 min, 9 h] a <= 5", "always [1 min, 8 h] (a <= 6 or b >= 3)"),
    "a sum": ("always [0, 2 h] a + b <= 5", "a + b <= 6"),
}
APART = {
    "a tighter limit": ("always [0, 10 min] a <= 6", "always [0, 10 min] a <= 5"),
    "a wider window that begins later": (
        "always [2 min, 4 min] a <= 5",
        "always [1 min, 4 min] a <= 6",
    ),
    "a shorter wait": ("eventually [0, 5 min] b >= 4", "eventually [0, 3 min] b >= 3"),
    "a wait that begins later": (EVENTUALLY, "eventually [1 min, 3 min] b >= 3"),
    "the first steps": ("always [2 min, 4 min] a <= 5", "a <= 6"),
    "the other column": (ALWAYS, "always [0, 10 min] b <= 6"),
    "a shorter wait of hours": ("eventually [0, 9 h] b >= 4", "eventually [0, 8 h] b >= 3"),
}


def find_verdicts(one: str, other: str, ends: str = "") -> list[tuple[str, tuple[str, ...]]]:
    pack = compile_rules(
        text=(
            f"timeline step 1 min{ends}\n{SIGNALS}rule one require {one}\nrule two require"
            f" {other}\n"
        ),
        reason=False,
    ).pack
    assert pack is not None
    return [(verdict.kind, verdict.rules) for verdict in reason(pack)]


@pytest.mark.parametrize("ends", ["", " ends clip"])
@pytest.mark.parametrize("name", AGAIN)
def test_a_rule_that_follows_from_another(name: str, ends: str) -> None:
    assert find_verdicts(*AGAIN[name], ends) == [("redundant", ("two", "one"))]


@pytest.mark.parametrize("ends", ["", " ends clip"])
@pytest.mark.parametrize("name", APART)
def test_a_rule_that_does_not(name: str, ends: str) -> None:
    found = find_verdicts(*APART[name], ends)
    assert ("redundant", ("two", "one")) not in found
    assert [kind for kind, _ in found if kind not in ("undecided", "redundant")] == []


def test_the_end_of_a_trace_counts() -> None:
    """The end of a trace matters.

    At the last step, `eventually [0, 3 min]` is unknown under "strict", while `eventually [0, end]`
    is violated.
    """
    rules = "eventually [0, 3 min] b >= 4", "eventually [0, end] b >= 4"
    assert ("redundant", ("two", "one")) not in find_verdicts(*rules)
    assert find_verdicts(*rules, " ends clip") == [("redundant", ("two", "one"))]


def test_a_rule_holds_at_later_steps_too() -> None:
    """A rule that is violated now is also violated one step later, unless the trace has ended.

    Under "clip" nothing answers at the last step.
    """
    later = EVENTUALLY, "eventually [1 min, 5 min] b >= 3"
    assert find_verdicts(*later) == [("redundant", ("two", "one"))]
    assert ("redundant", ("two", "one")) not in find_verdicts(*later, " ends clip")


def test_two_windows_imply_one_across_them() -> None:
    rules = (
        SIGNALS
        + "rule one require always [2 min, 4 min] a <= 5\nrule two require always [4 min, 6 min] a"
        " <= 5\n"
    )
    rules += "rule three require always [3 min, 5 min] a <= 6\n"
    pack = compile_rules(text="timeline step 1 min\n" + rules, reason=False).pack
    assert pack is not None
    assert [(one.kind, one.rules[0]) for one in reason(pack)] == [
        ("redundant", "two"),
        ("redundant", "three"),
    ]


def test_a_trace_shows_that_rules_do_not_follow() -> None:
    rules = (
        "if a > 5 then eventually [0, 2 h] b >= 4",
        "if a > 6 and b < 4 then a >= 3 until [0, 3 h] b >= 3",
    )
    assert find_verdicts(*rules) == []


@pytest.mark.slow
def test_an_undecided_relation_is_reported() -> None:
    rules = (
        "if sin(a) > 0.5 then eventually [0, 2 h] b >= 4",
        "if a > 6 and b < 4 then a >= 3 until [0, 3 h] sin(b) >= 0.3",
    )
    assert [kind for kind, _ in find_verdicts(*rules)] == ["undecided"]
