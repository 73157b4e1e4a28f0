"""Columns of truth values are yes/no conditions in every engine.

The margin of a rule is that of the comparison that they guard. A small second interpreter works on
the conditions as they are written: least and largest possible robustness, and the verdict, step by
step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from fused_engines import agree
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg.constraints import ConstraintModule, columns, evaluate_bank, probability
from fedkg.evaluation import evaluate
from fedkg.pack import CategoryIs, Compare, Pack, everywhere
from fedkg.tables import read_bytes
from fedkg_compiler import compile_rules

INF, NAN = math.inf, math.nan
HEAD = (
    "timeline step 1 min\nsignal valve in boolean\nsignal pump in boolean\nsignal p in bar span 0"
    " .. 50\noutput risk in probability\n"
)
NAMES = ("valve", "pump", "p")
X, Y = columns(NAMES), probability("risk")
ON = (
    "{} is on",
    "{} is not false",
    "{} >= 0.5",
    "{} == 1",
    "{} != 0",
    "0 < {}",
    "not {} <= 0.2",
    "{} in yes",
)
OFF = ("{} is off", "{} is not true", "{} <= 0.5", "{} == 0", "{} != 1", "1 > {}", "not {} is on")

Interval = tuple[float, float, bool | None]
UNKNOWN: Interval = (-INF, INF, None)


@dataclass(frozen=True)
class Part:
    """A condition: its text and its parts; `number` is a limit, or 1 for true and 0 for false."""

    kind: str
    text: str
    args: tuple[Part, ...] = ()
    name: str = ""
    number: float = 0.0


@st.composite
def truths(draw: st.DrawFn) -> Part:
    name, wanted = draw(st.sampled_from(NAMES[:2])), draw(st.booleans())
    return Part(
        "truth",
        draw(st.sampled_from(ON if wanted else OFF)).format(name),
        name=name,
        number=float(wanted),
    )


@st.composite
def limits(draw: st.DrawFn) -> Part:
    if draw(st.booleans()):
        bound = draw(st.sampled_from([0.25, 0.5, 0.75]))
        return Part("limit", f"risk <= {bound}", name="risk", number=bound)
    bound = draw(st.sampled_from([0.0, 3.0, 30.0]))
    return Part("limit", f"p <= {bound} bar", name="p", number=bound)


def wider(inner: st.SearchStrategy[Part]) -> st.SearchStrategy[Part]:
    pairs = st.tuples(inner, inner)
    return st.one_of(
        pairs.map(lambda two: Part("if", f"(if {two[0].text} then {two[1].text})", two)),
        pairs.map(lambda two: Part("and", f"({two[0].text} and {two[1].text})", two)),
        pairs.map(lambda two: Part("or", f"({two[0].text} or {two[1].text})", two)),
        inner.map(lambda one: Part("not", f"not ({one.text})", (one,))),
        inner.map(lambda one: Part("always", f"(always [0, 1] ({one.text}))", (one,))),
        inner.map(lambda one: Part("once", f"(once [0, 1] ({one.text}))", (one,))),
    )


CONDITIONS = st.recursive(st.one_of(truths(), truths(), limits()), wider, max_leaves=5)
RULES = st.tuples(CONDITIONS, limits()).map(
    lambda two: Part("if", f"if {two[0].text} then {two[1].text}", two)
)


def evaluate_condition(part: Part, data: dict[str, np.ndarray], step: int) -> Interval:
    """The robustness and the verdict of a condition at a step, by definition.

    Beyond the trace everything is unknown.
    """
    if not 0 <= step < len(data["p"]):
        return UNKNOWN
    if part.kind in ("truth", "limit"):
        value = float(data[part.name][step])
        if math.isnan(value):
            return UNKNOWN
        margin = (
            part.number - value if part.kind == "limit" else INF if value == part.number else -INF
        )
        return margin, margin, margin >= 0
    if part.kind in ("always", "once"):
        each = [
            evaluate_condition(part.args[0], data, step + k * (1 if part.kind == "always" else -1))
            for k in (0, 1)
        ]
        return (
            least(each) if part.kind == "always" else against(least([against(one) for one in each]))
        )
    each = [evaluate_condition(arg, data, step) for arg in part.args]
    if part.kind == "not":
        return against(each[0])
    if part.kind == "and":
        return least(each)
    return against(least([each[0] if part.kind == "if" else against(each[0]), against(each[1])]))


def against(one: Interval) -> Interval:
    return -one[1], -one[0], None if one[2] is None else not one[2]


def least(parts: list[Interval]) -> Interval:
    verdicts = [one[2] for one in parts]
    verdict = False if False in verdicts else None if None in verdicts else True
    return min(one[0] for one in parts), min(one[1] for one in parts), verdict


def pack_of(*rules: Part) -> Pack:
    text = HEAD + "".join(f"rule r{i} require {rule.text}\n" for i, rule in enumerate(rules))
    compilation = compile_rules(text=text, reason=False)
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    return compilation.pack


@st.composite
def traces(draw: st.DrawFn) -> dict[str, np.ndarray]:
    count, some = draw(st.integers(1, 4)), draw(st.booleans())
    grids: dict[str, list[float]] = {
        "valve": [0, 1],
        "pump": [0, 1],
        "p": [0, 2.5, 3, 33],
        "risk": [0.125, 0.5, 0.875],
    }
    gap = [NAN] if some else []
    return {
        name: np.array(draw(st.lists(st.sampled_from(grid + gap), min_size=count, max_size=count)))
        for name, grid in grids.items()
    }


def values_of(pack: Pack, data: dict[str, np.ndarray]) -> np.ndarray:
    return np.stack([data[column.name] for column in pack.manifest.contract.columns], axis=1)[None]


def batch(
    data: dict[str, np.ndarray], dtype: torch.dtype = torch.float64
) -> tuple[torch.Tensor, torch.Tensor]:
    x = np.stack([data[name] for name in NAMES], axis=1)
    return torch.from_numpy(x).to(dtype), torch.from_numpy(data["risk"][:, None]).to(dtype)


def verdicts(found: Any, row: int) -> list[bool | None]:
    """The verdicts of one row, from a bank's values or from a report."""
    pairs = zip(
        np.asarray(found.satisfied)[:, row], np.asarray(found.violated)[:, row], strict=True
    )
    return [True if kept else False if broken else None for kept, broken in pairs]


def margins(expected: list[Interval]) -> list[float]:
    return [NAN if verdict is None else low if verdict else high for low, high, verdict in expected]


@given(RULES, traces())
@tries(30)
def test_every_engine_says_what_the_words_mean(rule: Part, data: dict[str, np.ndarray]) -> None:
    pack = pack_of(rule)
    expected = [evaluate_condition(rule, data, step) for step in range(len(data["p"]))]
    (bank,) = pack.banks
    meant = evaluate_bank(bank, values_of(pack, data))
    np.testing.assert_array_equal(meant.robustness[:, 0], margins(expected))
    assert verdicts(meant, 0) == [verdict for _, _, verdict in expected]
    x, y = batch(data)
    for found in (
        ConstraintModule(pack, x=X, y=Y)(x, y, previous="above"),
        scaled(pack)(standardised(x), y, previous="above"),
    ):
        np.testing.assert_allclose(
            found.robustness[:, 0].numpy(), margins(expected), rtol=1e-12, atol=1e-12
        )
        assert verdicts(found, 0)[: len(expected)] == verdicts(meant, 0) or near(expected)


def near(expected: list[Interval]) -> bool:
    """Whether a margin is 0 somewhere, where rounding of a scaled number may change its sign."""
    return any(0.0 in (low, high) for low, high, _ in expected)


def scaled(pack: Pack) -> ConstraintModule:
    return ConstraintModule(
        pack, x=columns(NAMES, mean=[0.3, 0.7, 5.0], std=[0.4, 0.45, 3.0], sure=True), y=Y
    )


def standardised(x: torch.Tensor) -> torch.Tensor:
    return (x - torch.tensor([0.3, 0.7, 5.0], dtype=x.dtype)) / torch.tensor(
        [0.4, 0.45, 3.0], dtype=x.dtype
    )


def check_loops(
    rules: list[Part], data: dict[str, np.ndarray], dtype: torch.dtype, plain: bool
) -> None:
    """Assert that loops and tensors agree, on raw and on standardised features."""
    pack = pack_of(*rules)
    x, y = batch(data, dtype)
    module, x = (ConstraintModule(pack, x=X, y=Y), x) if plain else (scaled(pack), standardised(x))
    agree(module, x, y, previous="above")


CALLS = (
    st.lists(RULES, min_size=1, max_size=3),
    traces(),
    st.sampled_from([torch.float64, torch.float32]),
    st.booleans(),
)


@given(*CALLS)
@tries(4)
def test_the_loops_and_the_tensors_agree(
    rules: list[Part], data: dict[str, np.ndarray], dtype: torch.dtype, plain: bool
) -> None:
    check_loops(rules, data, dtype, plain)


@pytest.mark.slow
@given(*CALLS)
@tries(30)
def test_the_loops_and_the_tensors_agree_on_many(
    rules: list[Part], data: dict[str, np.ndarray], dtype: torch.dtype, plain: bool
) -> None:
    check_loops(rules, data, dtype, plain)


@given(RULES, traces())
@tries(15)
def test_the_command_line_tells_the_same_worst_case(
    rule: Part, data: dict[str, np.ndarray]
) -> None:
    rows = zip(*(data[name] for name in (*NAMES, "risk")), strict=True)
    cells = ["" if math.isnan(value) else f"{value:g}" for row in rows for value in row]
    text = "valve,pump,p,risk\n" + "".join(
        f"{','.join(cells[i : i + 4])}\n" for i in range(0, len(cells), 4)
    )
    (found,) = evaluate(pack_of(rule), read_bytes(text.encode(), "t.csv")).rules
    expected = [evaluate_condition(rule, data, step) for step in range(len(data["p"]))]
    assert (found.satisfied, found.violated) == tuple(
        sum(verdict is wanted for _, _, verdict in expected) for wanted in (True, False)
    )
    missed = [high for _, high, verdict in expected if verdict is False]
    finite = [margin for margin in missed if margin > -INF]
    if missed and found.worst is not None:
        assert found.worst.robustness == (min(finite) if finite else -INF)


@given(truths(), limits(), traces(), st.sampled_from(["exact", "smooth", "sound"]))
@tries(20)
def test_a_guard_takes_nothing_from_the_margin_that_it_guards(
    guard: Part, limit: Part, data: dict[str, np.ndarray], semantics: str
) -> None:
    """If the guard holds, robustness, penalties and gradients are those of the limit alone.

    If it does not, the violation is 0.
    """
    x, y = batch(data)
    y.requires_grad_()
    alone, guarded = (
        ConstraintModule(pack_of(one), x=X, y=Y)(x, y, semantics=semantics)
        for one in (limit, Part("if", f"if {guard.text} then {limit.text}", (guard, limit)))
    )
    holds = torch.from_numpy(data[guard.name] == guard.number)
    fails = torch.from_numpy(data[guard.name] == 1 - guard.number)
    torch.testing.assert_close(
        guarded.robustness[holds], alone.robustness[holds], equal_nan=True, rtol=0, atol=0
    )
    assert (guarded.robustness[fails] == INF).all()
    if limit.name == "risk":
        torch.testing.assert_close(
            guarded.penalties[holds], alone.penalties[holds], equal_nan=True, rtol=0, atol=0
        )
        assert not guarded.penalties[fails].any()


def test_the_margin_of_a_breach_is_that_of_the_pressure() -> None:
    rule = Part("if", "if valve is on then p <= 3 bar")
    for text in ("valve is on", "valve >= 0.5", "valve == 1"):
        pack = pack_of(Part("if", f"if {text} then p <= 3 bar"))
        assert pack.banks[0].skeleton == pack_of(rule).banks[0].skeleton
        found = ConstraintModule(pack, x=X, y=None)(
            torch.tensor([[1.0, 0.0, 33.0], [0.0, 0.0, 33.0], [NAN, 0.0, 33.0]]), None
        )
        np.testing.assert_array_equal(found.robustness[:, 0], [-30.0, INF, NAN])


@pytest.mark.parametrize(
    "text",
    [
        "valve + pump >= 1",
        "valve >= pump",
        "valve >= 0",
        "valve == 0.5 +/- 0.1",
        "2 * valve >= 1",
        "valve == 1 +/- 0.1",
    ],
)
def test_arithmetic_with_truth_values_is_that_of_numbers(text: str) -> None:
    pack = pack_of(Part("truth", text))
    assert not any(isinstance(part, CategoryIs) for _, part in everywhere(pack.banks[0].skeleton))
    assert any(isinstance(part, Compare) for _, part in everywhere(pack.banks[0].skeleton))


def test_perturbed_truth_values_are_rounded() -> None:
    """Perturbed features, or features scaled in half precision, count as the nearer truth value."""
    x = torch.tensor([[0.97, 0.0, 33.0], [0.03, 0.0, 33.0]])
    found = ConstraintModule(pack_of(Part("if", "if valve is on then p <= 3 bar")), x=X, y=None)(
        x, None
    )
    assert found.robustness[:, 0].tolist() == [-30.0, INF]
