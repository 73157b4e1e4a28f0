"""How two versions of a rule over several steps differ.

They differ by their windows, and by the contract's time and columns.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_reason_traces import FORMULAS, WINDOWS, compiled, on_the_traces, pack_of
from tries import tries

from fedkg.evaluation.witness_verdict import replay
from fedkg.pack import Pack
from fedkg_compiler.analysis.pack_difference import RuleDifference, differences

SIGNALS = "signal x in bar span 0 .. 10\nsignal y in bar\n"


def compared(old: str, new: str) -> tuple[Pack, Pack, RuleDifference]:
    """Two packs with a rule each, and how they differ."""
    packs = [compiled(text) for text in (old, new)]
    (one,) = differences(packs[0], packs[1])
    return packs[0], packs[1], one


def both(
    old: str, new: str, timeline: str = "timeline step 1 min\n"
) -> tuple[Pack, Pack, RuleDifference]:
    before, after = (f"{timeline}{SIGNALS}rule r require {rule}\n" for rule in (old, new))
    return compared(before, after)


NESTED = [
    (
        "eventually [0 min, 20 min] x > 5 bar",
        "eventually [0 min, 30 min] x > 5 bar",
        "looser",
        True,
    ),
    (
        "eventually [0 min, 20 min] x > 5 bar",
        "eventually [0 min, 3 min] x > 5 bar",
        "stricter",
        True,
    ),
    ("always [0 min, 5 min] x > 5 bar", "always [0 min, 9 min] x > 5 bar", "stricter", True),
    ("always [0 min, 15 min] x > 5 bar", "always [0 min, end] x > 5 bar", "stricter", True),
    ("once [2 min, 20 min] x > 5 bar", "once [0 min, 20 min] x > 5 bar", "looser", True),
    (
        "historically [0 min, 20 min] x > 5 bar",
        "historically [3 min, 20 min] x > 5 bar",
        "looser",
        True,
    ),
    (
        "if y > 3 bar then always [0 min, 9 min] x > 5 bar",
        "if y > 3 bar then always [0 min, 5 min] x > 5 bar",
        "looser",
        True,
    ),
    (
        "if y > 3 bar then eventually [0 min, 9 min] x > 5 bar",
        "if y > 3 bar then eventually [0 min, 5 min] x > 5 bar",
        "stricter",
        True,
    ),
    (
        "not (eventually [0 min, 20 min] x > 5 bar)",
        "not (eventually [0 min, 30 min] x > 5 bar)",
        "stricter",
        False,
    ),
    (
        "x > 5 bar until [0 min, 20 min] y > 5 bar",
        "x > 5 bar until [0 min, 30 min] y > 5 bar",
        "looser",
        False,
    ),
    (
        "always [0 min, 9 min] (eventually [0 min, 20 min] x > 5 bar)",
        "always [0 min, 9 min] (eventually [0 min, 10 min] x > 5 bar)",
        "stricter",
        False,
    ),
]


@pytest.mark.parametrize("ends", ["", " ends clip"])
@pytest.mark.parametrize(("old", "new", "change", "shown"), NESTED)
def test_a_wider_window(old: str, new: str, change: str, shown: bool, ends: str) -> None:
    before, after, one = both(old, new, f"timeline step 1 min{ends}\n")
    assert (one.change, one.because[0].split()[0]) == (change, "window")
    assert (one.values is not None) == shown
    if one.values is not None:
        values = one.values.matrix(before.manifest.contract)
        said = [replay(pack, 0, 0, values, one.values.now) for pack in (before, after)]
        assert said == (
            ["satisfied", "violated"] if change == "stricter" else ["violated", "satisfied"]
        )


def test_windows_that_say_nothing_are_not_decided() -> None:
    assert (
        both("eventually [2 min, 20 min] x > 5 bar", "eventually [0 min, 18 min] x > 5 bar")[
            2
        ].change
        == "undecided"
    )


RULE = SIGNALS + "rule r require always [0 min, 5 min] x > 5 bar\n"
PLAIN = SIGNALS + "rule r require x > 5 bar\n"


@pytest.mark.parametrize(
    ("old", "new", "because"),
    [
        (
            "timeline step 1 min\n" + RULE,
            "timeline step 1 min ends clip\n" + RULE,
            ("timeline ends strict -> clip",),
        ),
        (
            "timeline step 1 min\n" + RULE,
            "timeline step 30 s\n" + RULE,
            ("timeline step 60 s -> 30 s",),
        ),
        ("timeline step 1 min\n" + PLAIN, "timeline step 30 s ends clip\n" + PLAIN, ()),
        (
            PLAIN,
            PLAIN.replace("signal x in bar", "signal x in kPa").replace("0 .. 10", "0 .. 1000"),
            ("column `x` in bar -> kPa",),
        ),
        (PLAIN, PLAIN.replace("signal y in bar", "signal y in kPa"), ()),
    ],
)
def test_what_the_contract_changes(old: str, new: str, because: tuple[str, ...]) -> None:
    one = compared(old, new)[2]
    assert (one.change, one.because) == (("changed" if because else "same"), because)


def test_the_end_of_the_trace_decides_as_is_reported() -> None:
    strict, clip = (compiled(f"timeline step 1 min{ends}\n{RULE}") for ends in ("", " ends clip"))
    values = np.full((1, 2, 1), 6.0)
    assert [replay(pack, 0, 0, values) for pack in (strict, clip)] == ["unknown", "satisfied"]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Pack, Pack]:
    """A rule with windows of many sizes, and the same with one of them changed."""
    formula, numbers = (
        draw(FORMULAS),
        draw(st.lists(st.integers(-1, 5).map(float), min_size=2, max_size=2)),
    )
    end = draw(st.sampled_from(["strict", "clip"]))
    old, new = (pack_of([(formula, numbers)], end) for _ in range(2))
    window = draw(st.integers(0, len(WINDOWS) - 1))
    new.banks[0].params[0, 3 + 2 * window : 5 + 2 * window] = draw(st.sampled_from(WINDOWS))
    return old, new


@tries(60)
@given(pairs())
def test_no_short_trace_speaks_against_a_difference(packs: tuple[Pack, Pack]) -> None:
    (satisfied, violated), (satisfied_, violated_) = (
        on_the_traces(pack, pack.banks[0]) for pack in packs
    )
    (one,) = differences(*packs)
    if one.change in ("same", "stricter"):
        assert not (violated & satisfied_).any()
    if one.change in ("same", "looser"):
        assert not (satisfied & violated_).any()
    if one.values is not None:
        values = one.values.matrix(packs[0].manifest.contract)
        said = [replay(pack, 0, 0, values, one.values.now) for pack in packs]
        assert said == (
            ["satisfied", "violated"] if one.accepted_by == "old" else ["violated", "satisfied"]
        )
