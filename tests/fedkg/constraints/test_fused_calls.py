"""Tests around the loops: threads, parts of a batch, keys, second derivatives and transforms.

Also small calls and light imports.
"""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from fused_engines import VERDICTS, agree, computed_by, evaluate_module
from strategies import CATEGORY, X, Y, bank_of, pack_of
from test_window_gradients import DATA, LIMIT, OTHER, OUT, le, over, until
from torch import Tensor

from fedkg.constraints import ConstraintModule, compiled_loop_warmup
from fedkg.constraints.batch_evaluation import BatchEvaluation
from fedkg.constraints.fused import batch_loop_arguments as fused_batch
from fedkg.constraints.fused.bank_loop_arguments import Fused
from fedkg.errors import LayoutError
from fedkg.kernels.compiled_loop_policy import checks_bounds
from fedkg.kernels.scratch import KEPT, scratch_space
from fedkg.pack import And, Bank, Formula, Implies, Or, Product, Sum

GUARDED = Implies(antecedent=le(DATA, LIMIT), consequent=le(Product(args=(OUT, OTHER)), LIMIT))
FORMULAS: dict[str, Formula] = {
    "guarded": GUARDED,
    "or": Or(args=(le(Sum(args=(OUT, DATA)), LIMIT), le(OTHER, LIMIT))),
    "always": over("always", And(args=(GUARDED, le(OUT, OTHER)))),
    "until": until("until", closed=True),
}


def rules(formula: Formula, keyed: int = 0, rows: int = 6) -> Bank:
    """Rows with individual limits.

    With `keyed`, each row has one category; with 2, the first row has both categories.
    """
    bank = bank_of(formula, [0.3, 2.0, 1.0, 3.0], [4, 5, 0, CATEGORY], rows=rows)
    params = bank.params.copy()
    params[:, 0] = np.linspace(-0.5, 0.6, rows)
    keys, codes = (
        np.full((rows, keyed), CATEGORY, dtype=np.int32),
        np.arange(rows, dtype=np.int32)[:, None] % 3,
    )
    tensors = {name: getattr(bank, name) for name in bank.tensors()}
    changed = {
        "params": params,
        "keys": keys,
        "codes": np.repeat(codes, keyed, axis=1),
        "rule": np.arange(rows, dtype=np.int32) % 2,
    }
    return Bank(**(tensors | changed), skeleton=formula)


def module_of(name: str, keyed: int = 0) -> ConstraintModule:
    return ConstraintModule(pack_of([rules(FORMULAS[name], keyed)]), x=X, y=Y)


def data(count: int = 5, steps: int = 7, seed: int = 0) -> tuple[Tensor, Tensor]:
    dice = torch.Generator().manual_seed(seed)
    x, y = (
        torch.randn(count, steps, width, generator=dice, dtype=torch.float64) for width in (4, 5)
    )
    x[..., CATEGORY] = torch.randint(0, 3, (count, 1), generator=dice).double()
    return x, y


def keys_of(x: Tensor) -> dict[str, list[str]]:
    return {"Type": ["HLM"[int(code)] for code in x[:, 0, CATEGORY]]}


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("keyed", [0, 1, 2])
def test_rows_with_conditions(name: str, keyed: int) -> None:
    x, y = data(12)
    agree(module_of(name, keyed), x, y, keys=keys_of(x))


@pytest.mark.parametrize("keyed", [1, 2])
def test_rows_with_conditions_on_a_batch_without_traces(keyed: int) -> None:
    x, y = (part.flatten(0, 1) for part in data(40))
    x[:, CATEGORY] = torch.arange(280).double() % 3
    found = agree(
        module_of("guarded", keyed),
        x,
        y,
        keys={"Type": ["HLM"[int(code)] for code in x[:, CATEGORY]]},
    )
    assert 0 < int(found["applicable"].sum()) < found["applicable"].numel()


@pytest.mark.parametrize("name", FORMULAS)
def test_any_number_of_threads_says_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results agree to the bit, sums included, because each sum is over one position."""
    monkeypatch.setattr(fused_batch, "PART", 64)  # parts large enough for a thread
    monkeypatch.setattr("fedkg.constraints.fused.call.PART", 64)
    (x, y), threads, found = data(64, 9), torch.get_num_threads(), []
    try:
        for number in (1, 2, 4):
            torch.set_num_threads(number)
            found.append(evaluate_module(module_of(name), x, y, loops=True))
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        for key, value in found[0].items():
            rounding = (
                {}
                if key in (*VERDICTS, "robustness", "at steps") or " by " in key
                else {"rtol": 1e-14, "atol": 0.0}
            )
            torch.testing.assert_close(
                other[key], value, equal_nan=True, **({"rtol": 0.0, "atol": 0.0} | rounding)
            )


@pytest.mark.parametrize("name", FORMULAS)
def test_parts_of_a_batch_that_weigh_unequally(name: str) -> None:
    x, y = data(6)
    weight = torch.rand(3, 2, 7, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    weight[1, 1, 5:], weight[2] = 0.0, 0.25
    found = []
    for loops in (True, False):
        with computed_by(loops):
            answers = y.clone().requires_grad_()
            apart = module_of(name)(x, answers, sample_weight=weight.flatten(0, 1)).penalty_apart(
                weight
            )
            by = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
            found.append((apart.detach(), *torch.autograd.grad((apart * by).sum(), answers)))
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-14)
    assert (found[0][0] > 0).all()


@pytest.mark.parametrize("name", ["guarded", "always", "until"])
@pytest.mark.parametrize("sizes", [(2, 21), (6, 7)])
def test_parts_of_a_batch_whose_traces_are_anywhere(name: str, sizes: tuple[int, int]) -> None:
    """Positions are then ordered by trace, not by part."""
    pack = pack_of([rules(FORMULAS[name])])
    contract = pack.manifest.contract.model_copy(update={"trace": "Type"})
    module = ConstraintModule(
        replace(pack, manifest=pack.manifest.model_copy(update={"contract": contract})), x=X, y=Y
    )
    x, y = (part.flatten(0, 1) for part in data(6))
    x[:, CATEGORY] = (torch.arange(42) % 2 + 1) * (torch.arange(42) > 20)
    found = []
    for loops in (True, False):
        with computed_by(loops):
            answers = y.clone().requires_grad_()
            apart = module(x, answers, previous="above").penalty_apart(
                torch.ones(sizes, dtype=torch.float64)
            )
            found.append((apart.detach(), *torch.autograd.grad(apart[0], answers)))
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-14)
    agree(module, x, y, previous="above")


@pytest.mark.parametrize("shape", [(2, 2, 7), (3, 3, 7), (42,)])
def test_parts_that_are_not_the_batch(shape: tuple[int, ...]) -> None:
    with pytest.raises(LayoutError, match="42 numbers"):
        module_of("always")(*data(6)).penalty_apart(torch.ones(shape))


@pytest.mark.parametrize("name", FORMULAS)
def test_numbers_changed_before_the_gradient_are_an_error(name: str) -> None:
    """As in torch: the loops read the numbers again."""
    x, y = data()
    with computed_by(True):
        report = module_of(name)(x, y.requires_grad_())
        total = report.robustness.nan_to_num().sum()
        report._of.outputs.detach().add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            total.backward()


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("form", ["squared", "log_barrier"])
def test_penalties_apart_are_differentiated_twice(name: str, form: str) -> None:
    x, y = data(4)
    weight = torch.ones(2, 2, 7, dtype=torch.float64)
    found = []
    for loops in (True, False):
        with computed_by(loops):
            answers = y.clone().requires_grad_()
            report = module_of(name)(x, answers, form=form)  # type: ignore[arg-type]
            apart = report.penalty_apart(weight)
            (slope,) = torch.autograd.grad(apart.square().sum(), answers, create_graph=True)
            found.append((slope.detach(), *torch.autograd.grad(slope.square().sum(), answers)))
    torch.testing.assert_close(found[0], found[1], rtol=1e-10, atol=1e-13)
    assert found[0][1].any()


@pytest.mark.parametrize("name", FORMULAS)
def test_transforms_fall_back(name: str) -> None:
    x, y = data(4)
    module = module_of(name)

    def penalty(answers: Tensor) -> Tensor:
        return module(x, answers).penalty

    def transformed_gradients() -> tuple[Tensor, Tensor, Tensor]:
        several = torch.stack([y, -y])
        return (
            torch.func.grad(penalty)(y),
            torch.func.vmap(penalty)(several),
            torch.func.vmap(torch.func.grad(penalty))(several),
        )

    results = []
    for loops in (True, False):
        with computed_by(loops):
            results.append(transformed_gradients())
    torch.testing.assert_close(results[0], results[1], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("semantics", ["smooth", "sound"])
def test_what_is_not_exact_is_left_to_the_engine(semantics: str) -> None:
    x, y = data()
    found = []
    for loops in (True, False):
        with computed_by(loops):
            report = module_of("always")(x, y, semantics=semantics)  # type: ignore[arg-type]
            found.append(report.penalty)
    assert torch.equal(*found)


@pytest.mark.skipif(checks_bounds(), reason="with bounds checks, scratch space is not reused")
def test_room_is_kept_for_each_thread_alone() -> None:
    """A small request returns the thread's scratch space; a larger one gets a separate array."""
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(scratch_space, 10).result()
    assert scratch_space(10) is scratch_space(KEPT)
    assert scratch_space(10) is not other
    assert scratch_space(KEPT + 1) is not scratch_space(KEPT + 1)


@pytest.mark.parametrize("count", [600, 2500])
def test_all_samples_in_runs(count: int) -> None:
    """More positions than a run has, with rows that apply to all of them.

    Compares verdicts, and where implications fire, at each position.
    """
    agree(module_of("guarded"), *data(count))


def test_small_calls_are_left_to_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start-up cost of the loops is not worth it."""
    called: list[bool] = []
    call = BatchEvaluation.call

    def observed(self: BatchEvaluation, *args: object, **named: object) -> object:
        found = call(self, *args, **named)  # type: ignore[arg-type]
        called.append(found is not None)
        return found

    monkeypatch.setattr(BatchEvaluation, "call", observed)
    x, y = data()
    module_of("guarded")(x, y).robustness  # noqa: B018
    assert called
    assert not any(called)
    called.clear()
    count = compiled_loop_warmup.SMALLEST // (6 * 7) + 1
    module_of("guarded")(*data(count)).robustness  # noqa: B018
    assert any(called)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))]
)
def test_a_copy_does_not_read_where_the_other_stood(
    copied: Callable[[ConstraintModule], ConstraintModule],
) -> None:
    """Loops receive numbers by address; a copy must pass its own addresses."""
    x, y = data()
    with computed_by(True):
        module = module_of("always")
        expected = module(x, y).penalty
        other = copied(module)
        for bank in module.banks:
            for fused in bank.kept.values():
                if isinstance(fused, Fused):
                    fused.numbers[:], fused.index[:] = np.nan, 0
        assert torch.equal(other(x, y).penalty, expected)
        assert expected > 0


def test_nothing_to_do_is_no_error() -> None:
    x, y = data(0)
    agree(module_of("guarded"), x, y)
    one = replace(pack_of([rules(GUARDED)]), banks=(rules(GUARDED, rows=0),))
    agree(ConstraintModule(one, x=X, y=Y), *data())


@pytest.mark.slow
def test_numba_is_not_loaded_before_there_are_loops_to_carry_out() -> None:
    code = (
        "import sys, fedkg.constraints.module, fedkg.constraints.batch_evaluation, "
        "fedkg.constraints.penalty_sum; sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
