"""Every operation of the loops, forward and backward, against the engine.

The list is literal, and the test fails if an operation is missing from it.
"""

from __future__ import annotations

import pytest
import torch
from fused_engines import agree, computed_by
from strategies import CATEGORY, bank_of, pack_of
from test_torch_windows import ending
from test_window_gradients import DATA, LIMIT, LOW, OTHER, OUT, SCALE, le, module_of, over, until

from fedkg.constraints.batch_evaluation import BatchEvaluation
from fedkg.constraints.fused.program import Op
from fedkg.pack import (
    And,
    Bank,
    Call,
    CategoryIs,
    Coalesce,
    Compare,
    Formula,
    Implies,
    Initially,
    Known,
    Negate,
    Not,
    Or,
    Pack,
    Param,
    Power,
    Product,
    Quotient,
    Sum,
    Term,
)

POSITIVE = Sum(args=(Call(function="abs", args=(OUT,)), LIMIT))
"""A positive term."""


def below(term: Term) -> Formula:
    """``term <= 0.3``."""
    return le(term, LIMIT)


def call_below(function: str, *args: Term) -> Formula:
    return below(Call.model_validate({"function": function, "args": args}))


def equal(left: Term, right: Term) -> Compare:
    return Compare.model_validate({"op": "eq", "left": left, "right": right, "scale": SCALE})


WITHOUT_SLOPE = {Op.FLOOR, Op.CEIL, Op.ROUND, Op.FILL, Op.KNOWN, Op.CATEGORY, Op.DECIDE, Op.GUARD}
"""Operations that are constant or step functions, so they have no gradient."""

FORMULAS: dict[Op, Formula] = {
    Op.ADD: below(Sum(args=(OUT, OTHER))),
    Op.SUB: below(Sum(args=(OUT, Negate(arg=OTHER)))),
    Op.MUL: below(Product(args=(OUT, OTHER))),
    Op.DIV: below(Quotient(numerator=OUT, denominator=OTHER)),
    Op.LEAST: call_below("min", OUT, OTHER),
    Op.MOST: call_below("max", OUT, OTHER),
    Op.ADD_S: equal(Sum(args=(OUT, LIMIT)), OTHER),
    Op.SUB_S: equal(Sum(args=(OUT, Negate(arg=LIMIT))), OTHER),
    Op.S_SUB: equal(Sum(args=(LIMIT, Negate(arg=OUT))), OTHER),
    Op.MUL_S: below(Product(args=(OUT, Param(index=SCALE)))),
    Op.DIV_S: below(Quotient(numerator=OUT, denominator=LIMIT)),
    Op.S_DIV: below(Quotient(numerator=LIMIT, denominator=OUT)),
    Op.NEG: below(Product(args=(Negate(arg=OUT), OTHER))),
    Op.ABS: call_below("abs", OUT),
    Op.SQRT: below(Power(base=POSITIVE, exponent=0.5)),
    Op.FLOOR: call_below("floor", Product(args=(OUT, Param(index=SCALE)))),
    Op.CEIL: call_below("ceil", Product(args=(OUT, Param(index=SCALE)))),
    Op.ROUND: call_below("round", Product(args=(OUT, Param(index=SCALE)))),
    Op.FILL: call_below("max", OUT, LIMIT),
    Op.COALESCE: le(Coalesce(args=(DATA, OUT)), OTHER),
    Op.MARGIN: le(OUT, OTHER),
    Op.MARGIN_S: le(LIMIT, OUT),
    Op.S_MARGIN: le(OUT, LIMIT),
    Op.SCALED: le(OUT, LIMIT),
    Op.KNOWN: Implies(antecedent=Known(slot=2), consequent=le(OUT, LIMIT)),
    Op.CATEGORY: Implies(antecedent=CategoryIs(slot=3, param=LOW), consequent=le(OUT, LIMIT)),
    Op.MIN: And(args=(le(OUT, LIMIT), le(LIMIT, OTHER), le(DATA, OUT))),
    Op.MAX: Or(args=(le(OUT, LIMIT), le(LIMIT, OTHER), le(DATA, OUT))),
    Op.WINDOW_MIN: over("always", And(args=(le(OUT, LIMIT), le(DATA, OTHER)))),
    Op.WINDOW_MAX: over("once", And(args=(le(OUT, LIMIT), le(DATA, OTHER)))),
    Op.UNTIL: until("until"),
    Op.RELEASE: Not(arg=until("since")),
    Op.FIRST: And(args=(Initially(arg=le(OUT, OTHER)), le(OTHER, LIMIT))),
    Op.ENDS_MIN: And(args=(over("always", le(OUT, LIMIT)), le(OTHER, DATA))),
    Op.ENDS_MAX: And(args=(over("eventually", le(OUT, LIMIT)), le(OTHER, DATA))),
    Op.DECIDE: Or(args=(And(args=(le(DATA, LIMIT), le(OUT, LIMIT))), le(OTHER, LIMIT))),
    Op.GUARD: Implies(antecedent=le(DATA, LIMIT), consequent=le(OUT, LIMIT)),
}
"""A formula that has the operation.

It is over two answers, a number of the data (slot 2) and its category (slot 3).
"""


def pack_for(op: Op, end: str = "clip") -> Pack:
    """Two rows of the formula, with the limits 0.3 and 0.7, a scale of 2 and the window 1..3."""
    bank = bank_of(FORMULAS[op], [0.3, 2.0, 1.0, 3.0], [4, 5, 0, CATEGORY], rows=2)
    params = bank.params.copy()
    params[1, 0] = 0.7
    return ending(
        pack_of(
            [
                Bank(
                    **{name: getattr(bank, name) for name in bank.tensors()} | {"params": params},
                    skeleton=FORMULAS[op],
                )
            ]
        ),
        end,
    )


HOISTED = {Op.ENDS_MIN, Op.ENDS_MAX}


def data(op: Op, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    dice = torch.Generator().manual_seed(int(op))
    x, y = (
        torch.randn(4, 9, width, generator=dice, dtype=torch.float64).to(dtype) for width in (4, 5)
    )
    x[..., CATEGORY] = torch.randint(0, 3, (4, 9), generator=dice).to(dtype)
    if op not in HOISTED:  # windows with unknown values are not hoisted
        x[0, 2:4, 0] = torch.nan
        y[1, 5, 0] = torch.nan
    return x, y


def test_every_operation_has_a_formula() -> None:
    assert set(FORMULAS) == set(Op)


@pytest.mark.parametrize("op", Op, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["double", "single"])
@pytest.mark.parametrize("end", ["clip", "strict"])
def test_each_operation_and_its_gradient(
    op: Op, dtype: torch.dtype, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[int] = set()
    call = BatchEvaluation.call

    def observed(self: BatchEvaluation, *args: object, **named: object) -> object:
        found = call(self, *args, **named)  # type: ignore[arg-type]
        seen.update([] if found is None else found.fused.program.code[:, 0].tolist())
        return found

    monkeypatch.setattr(BatchEvaluation, "call", observed)
    x, y = data(op, dtype)
    found = agree(
        module_of(pack_for(op, end)), x, y, rounded=op is Op.SQRT and dtype == torch.float32
    )
    assert int(op) in seen
    assert found["at steps"].isfinite().any()
    if op not in WITHOUT_SLOPE:
        gradients = [
            found[name] for name in found if name.startswith(("slopes by y", "hinge by y"))
        ]
        assert any(bool(gradient.any()) for gradient in gradients), "something to compare"
        assert all(bool(gradient.isfinite().all()) for gradient in gradients)


SMOOTH = [op for op in Op if op not in {Op.FLOOR, Op.CEIL, Op.ROUND}]


@pytest.mark.parametrize("op", SMOOTH, ids=lambda op: op.name)
def test_gradients_are_finite_differences(op: Op) -> None:
    module = module_of(pack_for(op))
    x, y = data(op, torch.float64)
    y, x = torch.where(torch.isnan(y), 0.4, y).requires_grad_(), torch.where(torch.isnan(x), 0.2, x)
    with computed_by(loops=True):
        for form in ("hinge", "squared", "log_barrier"):

            def penalty(at: torch.Tensor, form: str = form) -> torch.Tensor:
                return module(x, at, form=form).penalty  # type: ignore[arg-type, no-any-return]

            (gradient,) = torch.autograd.grad(penalty(y), y)
            dice, step = torch.Generator().manual_seed(3), 1e-7
            for _ in range(3):
                way = torch.randn(y.shape, generator=dice, dtype=torch.float64)
                with torch.no_grad():
                    slope = (penalty(y + step * way) - penalty(y - step * way)) / (2 * step)
                torch.testing.assert_close((gradient * way).sum(), slope, rtol=2e-5, atol=1e-7)
