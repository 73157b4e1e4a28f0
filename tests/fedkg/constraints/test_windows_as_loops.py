"""Windows as loops of a compiled graph agree with a plain call.

Compares values, verdicts and gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import CATEGORY, X, Y, bank_of, pack_of
from test_hoisting import LAYOUT, contract
from test_hoisting import bank_rows as rows_of
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from tries import tries

from fedkg._internal.torch_compat import being_traced
from fedkg.constraints import ConstraintModule
from fedkg.constraints.engine import accelerator_window_operators, sliding
from fedkg.constraints.engine.penalty import HINGE
from fedkg.constraints.engine.tensor_materialisation import materialise
from fedkg.constraints.engine.unknown_value_encoding import marked
from fedkg.pack import And, Compare, Formula, Implies, Param, Slot, Temporal, Until

INF = float("inf")
Case = tuple[np.ndarray[Any, np.dtype[np.float64]], Tensor, Tensor, Tensor]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Windows and the values beyond the trace [R, 3], and inputs for them.

    Values, other values and incoming gradients [R, n, T], with many ties.
    """
    rows, traces, steps = draw(st.integers(1, 4)), draw(st.integers(1, 2)), draw(st.integers(1, 8))
    one = st.tuples(
        st.integers(0, steps + 2),
        st.integers(-1, steps + 2),
        st.sampled_from([-INF, -1.0, -1e-40, 0.0, INF]),
    )
    windows = [
        (first, last if last < 0 else max(first, last), beyond)
        for first, last, beyond in draw(st.lists(one, min_size=1, max_size=rows))
    ]
    windows = [windows[row % len(windows)] for row in range(rows)]
    dice = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    values, others, slopes = (
        torch.randint(-2, 3, (rows, traces, steps), generator=dice).double() for _ in range(3)
    )
    return np.array(windows, dtype=np.float64), values, others, slopes


def clamped(
    windows: np.ndarray[Any, np.dtype[np.float64]], steps: int
) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.column_stack(
        [accelerator_window_operators.spans(windows[:, :2], steps), windows[:, 2]]
    )


def steps_of(
    values: Tensor, windows: np.ndarray[Any, np.dtype[np.float64]]
) -> accelerator_window_operators.At:
    """The values of the next steps, and those beyond the trace."""
    steps, beyond = values.shape[-1], torch.from_numpy(windows[:, 2, None, None])

    def at(by: int) -> Tensor:
        places = torch.arange(steps) + by
        return torch.where(
            (places >= 0) & (places < steps), values[..., places.clamp(0, steps - 1)], beyond
        )

    return at


def with_slopes(work: Callable[..., Tensor], by: Tensor, *parts: Tensor) -> list[Tensor]:
    """The results without a graph and with one, and the gradients."""
    leaves = [part.clone().requires_grad_() for part in parts]
    found = work(*leaves)
    return [work(*parts), found.detach(), *torch.autograd.grad(found, leaves, by)]


def assert_equal(ours: list[Tensor], theirs: list[Tensor]) -> None:
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True)), (
        ours,
        theirs,
    )


@given(case=cases(), lowest=st.booleans(), past=st.booleans())
@tries(150)
def test_extremes_are_those_of_passes(case: Case, lowest: bool, past: bool) -> None:
    windows, values, _, slopes = case
    ends = accelerator_window_operators.ends_of(
        clamped(windows, values.shape[-1]), values, past=past
    )

    def by_passes(own: Tensor) -> Tensor:
        parts = zip(own, windows.tolist(), strict=True)
        return torch.stack(
            [
                sliding.extreme(p, int(a), int(b), c, lowest=lowest, past=past)
                for p, (a, b, c) in parts
            ]
        )

    def in_a_loop(own: Tensor) -> Tensor:
        return accelerator_window_operators.extreme(own, ends, lowest=lowest)

    def written_out(own: Tensor) -> Tensor:
        return accelerator_window_operators.extreme(
            own, ends, lowest=lowest, at=steps_of(own, windows)
        )

    expected = with_slopes(by_passes, slopes, values)
    for work in (in_a_loop, written_out):
        assert_equal(with_slopes(work, slopes, values), expected)


@given(case=cases(), lowest=st.booleans(), past=st.booleans())
@tries(150)
def test_until_is_that_of_passes(case: Case, lowest: bool, past: bool) -> None:
    windows, left, right, slopes = case
    ends = accelerator_window_operators.ends_of(clamped(windows, left.shape[-1]), left, past=past)

    def turned(values: Tensor) -> Tensor:
        return values.flip(-1) if past else values

    def by_passes(one: Tensor, other: Tensor) -> Tensor:
        parts = zip(turned(one), turned(other), windows.tolist(), strict=True)
        return turned(
            torch.stack(
                [
                    sliding.until_within(p, q, int(a), int(b), c, lowest=lowest)
                    for p, q, (a, b, c) in parts
                ]
            )
        )

    def written_out(p: Tensor, q: Tensor) -> Tensor:
        return accelerator_window_operators.until(
            p, q, ends, lowest=lowest, at=(steps_of(p, windows), steps_of(q, windows))
        )

    assert_equal(
        with_slopes(written_out, slopes, left, right), with_slopes(by_passes, slopes, left, right)
    )


@pytest.mark.parametrize("one_window", [True, False])
def test_many_at_once(one_window: bool) -> None:
    """Under vmap, values and gradients equal those of single calls."""
    dice = torch.Generator().manual_seed(0)
    left, right, by = (
        torch.randint(-2, 3, (3, 2, 2, 6), generator=dice).double() for _ in range(3)
    )
    windows = np.array([[0, 2, INF], [0, 2, INF] if one_window else [1, 4, -1.0]])
    ends = accelerator_window_operators.ends_of(windows, left, past=False)

    def both(p: Tensor, q: Tensor, slope: Tensor) -> tuple[Tensor, ...]:
        def sum_of_results(a: Tensor, b: Tensor) -> Tensor:
            at = steps_of(a, windows), steps_of(b, windows)
            found = materialise(
                accelerator_window_operators.extreme(a, ends, lowest=True)
            ) + accelerator_window_operators.extreme(b, ends, lowest=True, at=at[1])
            return (
                (
                    found + accelerator_window_operators.until(a, b, ends, lowest=False, at=at)
                ).nan_to_num(0.0, 0.0, 0.0)
                * slope
            ).sum()

        return torch.func.grad(sum_of_results, argnums=(0, 1))(p, q)

    expected = [
        torch.stack(parts)
        for parts in zip(*(both(*each) for each in zip(left, right, by, strict=True)), strict=True)
    ]
    assert_equal(list(torch.func.vmap(both)(left, right, by)), expected)


def test_what_is_unknown_is_seen_in_a_mirror() -> None:
    value = torch.tensor([1.0, torch.nan, INF, -INF, -0.0], requires_grad=True)
    for infinite in (True, False):
        ours, theirs = (
            marked(value, -0.5, infinite=infinite, mirror=-value.detach()),
            marked(value, -0.5, infinite=infinite),
        )
        assert torch.equal(ours, theirs)
        slopes = [torch.autograd.grad(found.sum(), value)[0] for found in (ours, theirs)]
        assert torch.equal(*slopes)


A, B = Param(index=3), Param(index=4)
SIGNAL, OUT = Slot(index=0), Slot(index=1, role="output")


def le(left: object, right: object) -> Compare:
    return Compare.model_validate({"op": "le", "left": left, "right": right, "scale": 0})


def over(op: str, arg: Formula) -> Temporal:
    return Temporal.model_validate({"op": op, "low": 1, "high": 2, "arg": arg})


def until(op: str, closed: bool) -> Until:
    return Until.model_validate(
        {
            "op": op,
            "low": 1,
            "high": 2,
            "left": le(SIGNAL, A),
            "right": le(B, OUT),
            "closed": closed,
        }
    )


BETWEEN = And(args=(le(SIGNAL, OUT), le(OUT, A)))
SHAPES: dict[str, Formula] = {
    **{op: over(op, BETWEEN) for op in ("always", "once")},
    **{f"{op} of one": over(op, le(SIGNAL, OUT)) for op in ("eventually", "historically")},
    "guarded": Implies(
        antecedent=And(args=(le(A, SIGNAL), over("once", le(SIGNAL, B)))),
        consequent=over("eventually", le(SIGNAL, OUT)),
    ),
    "guarded at its end": Implies(antecedent=over("once", le(A, SIGNAL)), consequent=le(OUT, B)),
    "nested": over(
        "always", Implies(antecedent=le(A, SIGNAL), consequent=over("once", le(SIGNAL, OUT)))
    ),
    "until, closed": until("until", closed=True),
    "since": until("since", closed=False),
}
SPANS = ([[0, 3]] * 3, [[0, 0], [1, 3], [0, 5]], [[2, -1], [0, -1], [3, 5]])
"""Windows of three rows: equal, different, and to the trace's end or beyond it."""


def evaluate_module(
    module: ConstraintModule,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    opened: bool,
    form: Any = "hinge",
) -> tuple[Tensor, ...]:
    """Penalty and robustness with their gradients, and verdicts at steps."""
    report = (
        module.opened(x, y, weight, replace(HINGE, kind=form))
        if opened
        else module(x, y, sample_weight=weight, form=form)
    )
    assert being_traced() == opened
    (of_penalty,) = torch.autograd.grad(report.penalty, y, retain_graph=True)
    (of_robustness,) = torch.autograd.grad(report.robustness.nan_to_num(0.0, 0.0, 0.0).sum(), y)
    steps = report.at_steps
    planes = (steps.satisfied, steps.violated, steps.applicable, steps.fired)
    return (
        report.penalty.detach(),
        of_penalty,
        report.robustness.detach(),
        of_robustness,
        steps.robustness.detach(),
        *planes,
    )


@pytest.mark.slow
@pytest.mark.parametrize("end", ["strict", "clip"])
@pytest.mark.parametrize(
    ("shape", "longest", "written_out"),
    [
        *((shape, None, None) for shape in SHAPES),
        ("always", 2, 2),
        ("since", 2, 2),
        ("nested", None, 0),
        ("historically of one", None, 0),
    ],
)
def test_a_traced_call_says_what_a_plain_one_says(
    shape: str,
    longest: int | None,
    written_out: int | None,
    end: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Equal and different windows, traces of one step and more, and traces that begin late and end
    early.

    Also unknown and infinite numbers.
    """
    for name, limit in (
        ("LONGEST", longest),
        ("WRITTEN_OUT", written_out),
    ):  # the ordinary passes, as for windows that are too long
        if limit is not None:
            monkeypatch.setattr(accelerator_window_operators, name, limit)
    dice = np.random.default_rng(5)
    cases = {"strict": ((13, False), (13, True)), "clip": ((13, True), (1, False))}[end]
    for spans, (steps, weighed) in zip(
        SPANS[:2] if end == "strict" else SPANS[1:], cases, strict=True
    ):
        params = np.array(
            [[2.0, *span, a, -a] for span, a in zip(spans, (0.5, -0.5, 1.0), strict=True)]
        )
        module = ConstraintModule(
            pack_of([rows_of(SHAPES[shape], params, dice)], contract=contract(end)), **LAYOUT
        )
        x, y = (torch.from_numpy(dice.integers(-3, 4, (5, steps, 3)) / 2.0) for _ in range(2))
        x[0, 0], y[1, -1], y[2, :, 0] = torch.nan, torch.nan, INF
        weight = torch.ones(5, steps, dtype=torch.float64)
        weight[3, : steps // 2], weight[4, 1 + steps // 2 :] = 0.0, 0.0
        args = [x, y.requires_grad_(), *([weight] if weighed else [])]

        def work(*given: Tensor, module: ConstraintModule = module) -> tuple[Tensor, ...]:
            return evaluate_module(module, *given[:2], given[2] if given[2:] else None, opened=True)

        graph = make_fx(work, tracing_mode="fake")(*args)
        for ours, theirs in zip(
            graph(*args),
            evaluate_module(module, x, y, weight if weighed else None, opened=False),
            strict=True,
        ):
            torch.testing.assert_close(ours, theirs, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["squared", "log_barrier"])
@pytest.mark.parametrize("end", ["strict", "clip"])
def test_of_one_evaluation_both_penalties_and_what_counts(end: Any, form: Any) -> None:
    """True, false and unknown guards before satisfied, violated and unknown parts."""
    dice = np.random.default_rng(2)
    params = np.array([[2.0, 0, 1, 0.5, -0.5], [1.0, 1, 2, -0.5, 0.5], [0.5, 0, 0, 1.0, -1.0]])
    twice = Implies(
        antecedent=le(A, SIGNAL),
        consequent=Implies(
            antecedent=over("once", le(SIGNAL, B)), consequent=over("always", le(OUT, A))
        ),
    )
    x, y = (torch.from_numpy(dice.integers(-3, 4, (40, 7, 3)) / 2.0) for _ in range(2))
    for part in (x, y):
        part[torch.from_numpy(dice.random(part.shape) < 0.2)] = torch.nan
    y.requires_grad_()
    for shape in (twice, SHAPES["guarded"], SHAPES["guarded at its end"]):
        module = ConstraintModule(
            pack_of([rows_of(shape, params, dice)], contract=contract(end)), **LAYOUT
        )

        def work(*given: Tensor, module: ConstraintModule = module) -> tuple[Tensor, ...]:
            return evaluate_module(module, *given, None, opened=True, form=form)

        graph = make_fx(work, tracing_mode="fake")(x, y)
        expected = evaluate_module(module, x, y, None, opened=False, form=form)
        assert expected[0] > 0
        for ours, theirs in zip(graph(x, y), expected, strict=True):
            torch.testing.assert_close(ours, theirs, equal_nan=True)


def test_traces_of_keyed_rows_are_their_own_where_they_are_traced() -> None:
    """The previous and the next step of a row's key are its neighbours in the trace.

    This does not depend on which condition is left out because it is always true.
    """
    dice = np.random.default_rng(5)
    skeleton = over("always", le(Slot(index=0, role="output"), A))
    one = bank_of(skeleton, [1.0, 0.0, 2.0, 0.5], [CATEGORY + 1], rows=4)
    codes = np.array([[0], [1], [2], [0]], dtype=np.int32)
    for keys in ([CATEGORY] * 4, [CATEGORY, CATEGORY, CATEGORY, -1]):
        bank = replace(
            one,
            keys=np.array(keys, dtype=np.int32)[:, None],
            codes=codes,
            params=one.params + np.arange(4)[:, None] * [1, 0, 0, 0],
        )
        module = ConstraintModule(pack_of([bank]), x=X, y=Y)
        x, y = (torch.from_numpy(dice.integers(-3, 4, (5, 13, width)) / 2.0) for width in (4, 5))
        x[..., 3] = torch.from_numpy(dice.integers(0, 3, (5, 13)))
        args = [x, y.requires_grad_()]

        def work(*given: Tensor, module: ConstraintModule = module) -> tuple[Tensor, ...]:
            return evaluate_module(module, *given, None, opened=True)

        graph = make_fx(work, tracing_mode="fake")(*args)
        for ours, theirs in zip(
            graph(*args), evaluate_module(module, x, y, None, opened=False), strict=True
        ):
            torch.testing.assert_close(ours, theirs, equal_nan=True)
