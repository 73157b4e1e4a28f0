"""A repeated call gives the result of a first call, to the bit."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from fused_engines import VERDICTS, computed_by
from strategies import CATEGORY, X, Y, bank_of, pack_of
from test_window_gradients import DATA, LIMIT, OTHER, OUT, le, over, until
from torch import Tensor

from fedkg.constraints import ConstraintModule, columns
from fedkg.constraints import shape_cache as calls
from fedkg.errors import LayoutError
from fedkg.pack import And, Implies, Product

GUARDED = Implies(antecedent=le(DATA, LIMIT), consequent=le(Product(args=(OUT, OTHER)), LIMIT))
RULES = (over("always", And(args=(GUARDED, le(OUT, OTHER)))), until("until"), GUARDED)
SCALED_X = columns(X.names, mean=[0.5, -0.25, 0.0, 0.0], std=[2.0, 0.5, 1.0, 1.0], sure=True)
SCALED_Y = (
    columns([entry.name for entry in Y.entries], mean=[0.1] * 5, std=[1.5] * 5)
    if all(e.kind == "value" for e in Y.entries)
    else Y
)
NAMES = (*VERDICTS, "robustness", "penalties", "counted", "penalty", "violation_rate")


def module_of(end: str = "strict", x: Any = X, y: Any = Y) -> ConstraintModule:
    pack = pack_of(
        [bank_of(formula, [0.3, 2.0, 1.0, 3.0], [4, 5, 0, CATEGORY], rows=3) for formula in RULES]
    )
    contract = pack.manifest.contract.model_copy(update={"end": end})
    return ConstraintModule(
        replace(pack, manifest=pack.manifest.model_copy(update={"contract": contract})), x=x, y=y
    )


def batch(
    seed: int, unknown: float = 0.0, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    dice = torch.Generator().manual_seed(seed)
    parts = [torch.randn(12, 9, width, generator=dice, dtype=torch.float64) for width in (4, 5)]
    x, y = (
        torch.where(torch.rand(part.shape, generator=dice) < unknown, torch.nan, part).to(dtype)
        for part in parts
    )
    if unknown:
        y[0, 0, 0], x[1, 1, 1] = torch.inf, -torch.inf
    return x, y


def report_by_loops(module: ConstraintModule, x: Tensor, y: Tensor, **call: Any) -> list[Tensor]:
    """The result of `full_report`, computed by loops."""
    with computed_by(loops=True):
        return full_report(module, x, y, **call)


def full_report(module: ConstraintModule, x: Tensor, y: Tensor, **call: Any) -> list[Tensor]:
    """The full report, the report by steps, and the gradient of the penalty."""
    report = module(x, y, **call)
    found = [
        torch.as_tensor(getattr(part, name)) for part in (report, report.at_steps) for name in NAMES
    ]
    leaf = y.clone().requires_grad_()
    graph = module(x, leaf, **call)
    return [
        *found,
        graph.penalty.detach(),
        *torch.autograd.grad(graph.penalty + graph.robustness.nan_to_num(0, 0, 0).sum(), leaf),
    ]


def equal(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0.0, atol=0.0, equal_nan=True)


@pytest.mark.parametrize("end", ["strict", "clip"])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_was_called_before_changes_nothing(end: str, scaled: bool, dtype: torch.dtype) -> None:
    """Batches with and without unknown values, one after the other."""
    layouts = {"x": SCALED_X, "y": SCALED_Y} if scaled else {}
    module = module_of(end, **layouts)
    for seed, unknown in ((0, 0.0), (1, 0.3), (2, 0.0), (3, 1.0), (4, 0.02)):
        x, y = batch(seed, unknown, dtype)
        equal(report_by_loops(module, x, y), report_by_loops(module_of(end, **layouts), x, y))
    assert any(known is not None for known in module._repeats.values())


@pytest.mark.parametrize(
    "call", [{"form": "squared"}, {"semantics": "sound"}, {"semantics": "smooth"}]
)
def test_any_form_is_that_of_a_first_call(call: dict[str, Any]) -> None:
    module, (x, y) = module_of(), batch(5, 0.1)
    report_by_loops(module, x, y)
    equal(report_by_loops(module, x, y, **call), report_by_loops(module_of(), x, y, **call))


def test_rows_in_no_order() -> None:
    module = module_of()
    with pytest.warns(UserWarning, match="several steps"):
        module(*(part.flatten(0, 1) for part in batch(0)))
    for seed in (1, 2):
        x, y = (part.flatten(0, 1) for part in batch(seed, 0.1))
        with pytest.warns(UserWarning, match="several steps"):
            first = report_by_loops(module_of(), x, y)
        equal(report_by_loops(module, x, y), first)


def test_a_report_is_of_what_was_there_when_it_was_asked_for() -> None:
    module, (x, y), (other, later) = module_of(), batch(0), batch(1)
    report_by_loops(module, x, y)
    expected = report_by_loops(module_of(), x, y)[:2]
    report = module(x, y)
    x.copy_(other)
    y.copy_(later)
    equal([report.satisfied, report.violated], expected)


def test_tensors_that_are_seen_from_aside() -> None:
    """Strides, signs, parameters, inference and gradients by features all give the same result."""
    module, (x, y) = module_of(), batch(0)
    report_by_loops(module, x, y)
    expected = report_by_loops(module_of(), x, y)[0]
    aside = x.transpose(0, 1).contiguous().transpose(0, 1)
    with computed_by(loops=True):
        assert torch.equal(module(aside, y).satisfied, expected)
        assert torch.equal(module(x, torch._neg_view(-y)).satisfied, expected)
        assert torch.equal(module(torch.nn.Parameter(x), y).satisfied, expected)
        leaf = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(module(leaf, y).robustness.sum(), leaf)
        (fresh,) = torch.autograd.grad(module_of()(leaf, y).robustness.sum(), leaf)
        assert torch.equal(slope, fresh)
        assert (slope != 0).any()
        found = torch.func.vmap(lambda own: module(x, own).penalty)(torch.stack([y, 2 * y]))
        torch.testing.assert_close(found[0], module(x, y).penalty, rtol=1e-6, atol=0.0)


def test_what_is_found_out_in_inference_serves_training() -> None:
    module, (x, y) = module_of("clip"), batch(0)
    expected = report_by_loops(module_of("clip"), x, y)
    with computed_by(loops=True):
        for _ in range(2):
            with torch.inference_mode():
                module(x, y)
                assert torch.equal(
                    module(x.clone(), y.clone()).penalty, expected[NAMES.index("penalty")]
                )
            module(x, y)
    equal(report_by_loops(module, x, y), expected)


def test_copies_know_nothing_of_the_calls_before() -> None:
    module, (x, y) = module_of(), batch(0)
    expected = report_by_loops(module, x, y)
    for made in (
        copy.deepcopy(module),
        pickle.loads(pickle.dumps(module)),
        module.double().to("cpu"),
    ):
        assert not made._repeats
        equal(report_by_loops(made, x, y), expected)


def test_threads_see_their_own_numbers() -> None:
    module, batches = module_of(), [batch(seed, 0.1 * (seed % 2)) for seed in range(6)]
    expected = [report_by_loops(module_of(), *own) for own in batches]
    with computed_by(loops=True), ThreadPoolExecutor(4) as pool:  # a patch affects all threads
        for ours, theirs in zip(
            pool.map(lambda own: full_report(module, *own), batches * 3), expected * 3, strict=True
        ):
            equal(ours, theirs)


def test_no_more_shapes_are_remembered_than_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedkg.constraints.module.MOST", 2)
    module, (x, y) = module_of(), batch(0)
    for count in range(8, 12):
        equal(
            report_by_loops(module, x[:count], y[:count]),
            report_by_loops(module_of(), x[:count], y[:count]),
        )
    assert len(module._repeats) == 2


def test_a_wrong_shape_is_refused_as_ever() -> None:
    module, (x, y) = module_of(), batch(0)
    report_by_loops(module, x, y)
    with pytest.raises(LayoutError, match="does not fit the batch and the names"):
        module(x, y[..., :4])
    with pytest.raises(LayoutError, match="does not fit its layout"):
        module(x[..., :3], y)


@pytest.mark.parametrize("count", [1, 700])
@pytest.mark.parametrize("number", [torch.inf, torch.nan, torch.finfo(torch.float32).max])
def test_one_odd_number_wherever_it_stands(count: int, number: float) -> None:
    """Numbers are checked in runs.

    Tests the first and the last number, those next to the ends of a run, and one run more.
    """
    module, (x, y) = module_of("clip"), (part.repeat(count, 1, 1) for part in batch(0))
    report_by_loops(module, x, y)
    for place in (0, x.shape[0] * 9 // 2, -1):
        odd = y.clone()
        odd.view(-1, 5)[place, 4] = number
        with computed_by(loops=True):
            again, first = (one(x, odd).at_steps for one in (module, module_of("clip")))
            equal(
                [again.robustness, again.fired, again.unknown],
                [first.robustness, first.fired, first.unknown],
            )


def test_rules_on_what_stands_in_the_batch_are_not_repeated() -> None:
    bank = bank_of(GUARDED, [0.3, 2.0, 1.0, 3.0], [4, 5, 0, CATEGORY], rows=3)
    keys, codes = np.full((3, 1), CATEGORY, dtype=np.int32), np.arange(3, dtype=np.int32)[:, None]
    module = ConstraintModule(pack_of([replace(bank, keys=keys, codes=codes)]), x=X, y=Y)
    for seed in range(3):
        x, y = batch(seed)
        x[..., CATEGORY] = torch.randint(
            0, 3, x.shape[:2], generator=torch.Generator().manual_seed(seed)
        ).float()
        with computed_by(loops=True):
            applies = module(x, y).at_steps.applicable
        assert torch.equal(
            applies, torch.stack([x[..., CATEGORY] == code for code in range(3)], dim=-1)
        )
    assert set(module._repeats.values()) == {None}
    assert calls.MOST > 2


def test_new_tensors_stand_where_those_of_the_call_do() -> None:
    """The loops write to addresses, so a default device set meanwhile does not matter."""
    module, (x, y) = module_of(), batch(0)
    expected = report_by_loops(module, x, y)[:2]
    for again in (module, module_of()):
        with computed_by(loops=True), torch.device("meta"):
            report = again(x, y)
            found = [report.satisfied, report.violated, report.penalty]
        equal(found, [*expected, again(x, y).penalty])


@pytest.mark.parametrize("loops", [True, False])
def test_counts_are_not_rounded_in_mixed_precision(loops: bool) -> None:
    module, rows = (
        module_of(),
        [part.repeat(25, 1, 1) for part in batch(0)],
    )  # 2,700 samples: bfloat16 cannot represent this number
    weight = torch.linspace(0.5, 1.0, 300)
    with computed_by(loops=loops):
        for call in ({}, {}, {"sample_weight": weight}):
            leaves = [rows[1].clone().requires_grad_() for _ in range(2)]
            expected = module_of()(rows[0], leaves[0], **call).penalty
            with torch.autocast("cpu", torch.bfloat16):
                penalty = module(rows[0], leaves[1], **call).penalty
            equal(
                [penalty, *torch.autograd.grad(penalty, leaves[1])],
                [expected, *torch.autograd.grad(expected, leaves[0])],
            )
