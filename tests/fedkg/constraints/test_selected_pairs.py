"""Evaluating rows with keys only on their samples gives the results of the whole batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import CATEGORY, EXACT, X, Y, formulas, packs, tables
from test_agreement import cases, compare
from test_torch_windows import answers_for
from torch import Tensor
from tries import tries

from fedkg.constraints import ConstraintModule, applicable_samples, columns, penalty_sum
from fedkg.constraints.applicable_samples import Selector, runs
from fedkg.constraints.report import ConstraintReport
from fedkg.pack import (
    SECTIONS,
    Bank,
    Column,
    Compare,
    DataContract,
    Formula,
    Implies,
    Manifest,
    Pack,
    Param,
    Provenance,
    RuleRecord,
    Section,
    Slot,
)

VERDICTS = ("satisfied", "violated", "unknown", "applicable", "fired", "counted")
FORMS = (
    {},
    {"semantics": "smooth"},
    {"semantics": "sound"},
    {"form": "squared"},
    {"form": "log_barrier"},
)


@contextmanager
def selected_pairs_up_to(share: float, small: int = -1) -> Iterator[None]:
    """Evaluate rows on their samples if these are at most this share of the batch.

    1: always; -1: never.
    """
    with (
        patch.object(applicable_samples, "WORTH", share),
        patch.object(applicable_samples, "SMALL", small),
    ):
        yield


def numbers_of(report: ConstraintReport, answers: Tensor) -> dict[str, Tensor]:
    """All numbers of a report, computed here."""
    found = {
        name: getattr(report, name) for name in (*VERDICTS, "robustness", "penalties", "penalty")
    }
    if report.penalty.requires_grad:
        found["gradient"] = torch.autograd.grad(report.penalty, answers, retain_graph=True)[0]
    if report.robustness.requires_grad:
        found["of robustness"] = torch.autograd.grad(
            torch.nan_to_num(report.robustness, 0.0, 0.0, 0.0).sum(),
            answers,
            retain_graph=True,
            allow_unused=True,
        )[0]
    return found | {f"of {name}": part for name, part in report.penalty_by("rule").items()}


def alike(module: ConstraintModule, x: Tensor, answers: Tensor, **options: object) -> None:
    """Assert that both ways of evaluation agree.

    Verdicts and robustness agree to the bit, penalties up to the order of addition.
    """
    with selected_pairs_up_to(-1.0):
        whole = numbers_of(module(x, answers, **options), answers)
    for chunk in (1 << 18, 3):
        with (
            selected_pairs_up_to(1.0),
            patch("fedkg.constraints.module.chunk_of", lambda memory, chunk=chunk: chunk),
        ):
            alone = numbers_of(module(x, answers, **options), answers)
        assert alone.keys() == whole.keys()
        for name, value in whole.items():
            tolerance = (
                {"rtol": 0.0, "atol": 0.0}
                if name in (*VERDICTS, "robustness")
                else {"rtol": 1e-5, "atol": 1e-7}
            )
            torch.testing.assert_close(
                alone[name],
                value,
                equal_nan=True,
                msg=lambda text, name=name: f"{name}: {text}",
                **tolerance,
            )


KEYED = st.one_of(packs(), packs(members=True, temporal=True))


@pytest.mark.slow
@given(
    KEYED,
    tables(max_rows=7),
    st.integers(0, 99),
    st.booleans(),
    st.sampled_from(FORMS),
    st.booleans(),
)
@tries(40)
def test_samples_alone_are_the_whole_batch(
    pack: Pack,
    table: NDArray[np.float64],
    seed: int,
    unknown: bool,
    form: dict[str, object],
    weighted: bool,
) -> None:
    module = ConstraintModule(pack, x=X, y=Y)
    dtype = torch.float64 if seed % 2 else torch.float32
    answers = (
        torch.from_numpy(answers_for(seed, len(table), unknown))[list(module.plan.runs)]
        .to(dtype)
        .requires_grad_()
    )
    x, keys = (
        torch.from_numpy(table[:, :4]).to(dtype),
        {"Type": torch.from_numpy(table[:, CATEGORY]).long()},
    )
    weight = torch.arange(len(table)).to(dtype) if weighted else None
    alike(module, x, answers, keys=keys, sample_weight=weight, previous="above", **form)


@pytest.mark.slow
@given(
    KEYED,
    tables(max_rows=6),
    st.integers(0, 99),
    st.sampled_from([None, [0.0, 1.0, 2.0], [1.0, 1.0, 0.0]]),
)
@tries(25)
def test_windows_and_their_padding_are_alike(
    pack: Pack, table: NDArray[np.float64], seed: int, weight: list[float] | None
) -> None:
    windows = len(table) // 3
    pack = Pack(
        manifest=pack.manifest.model_copy(
            update={"contract": pack.manifest.contract.model_copy(update={"end": "clip"})}
        ),
        banks=pack.banks,
    )
    module = ConstraintModule(pack, x=X, y=Y)
    table = table[: 3 * windows].reshape(windows, 3, table.shape[1])
    answers = torch.from_numpy(answers_for(seed, 3 * windows, True))[list(module.plan.runs)]
    answers = answers.reshape(len(module.plan.runs), windows, 3, answers.shape[-1]).requires_grad_()
    keys = {"Type": torch.from_numpy(table[..., CATEGORY]).long()}
    padding = (
        None if weight is None else torch.tensor(weight, dtype=torch.float64).expand(windows, 3)
    )
    alike(module, torch.from_numpy(table[..., :4]), answers, keys=keys, sample_weight=padding)


@given(packs(skeletons=formulas(EXACT)), cases())
@tries(25)
def test_samples_alone_say_what_the_interpreter_says(
    pack: Pack, case: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> None:
    with selected_pairs_up_to(1.0):
        compare(pack, *case)


def limits(machines: int = 3, products: int = 0) -> ConstraintModule:
    """One limit for each machine, or for each machine and product."""
    guarded: Formula = Implies(
        antecedent=Compare(op="lt", left=Param(index=1), right=Slot(index=0), scale=0),
        consequent=Compare(
            op="le", left=Slot(index=1, role="output"), right=Param(index=2), scale=0
        ),
    )
    names = tuple(f"M{i}" for i in range(machines))
    kinds = tuple(f"P{i}" for i in range(products))
    contract = DataContract(
        columns=(
            Column(name="speed", source="speed"),
            Column(name="machine", source="machine", type="category", vocabulary=names),
            Column(name="product", source="product", type="category", vocabulary=kinds or ("P0",)),
            Column(name="power", source="power", role="output"),
        )
    )
    codes = np.array(
        [(m, p) for m in range(machines) for p in range(max(1, products))], dtype=np.int32
    )
    rows = len(codes)
    bank = Bank(
        skeleton=guarded,
        slots=np.tile(np.array([[0, 3]], np.int32), (rows, 1)),
        views=np.zeros((rows, 2), np.int32),
        params=np.stack(
            [np.ones(rows), np.linspace(-0.5, 0.5, rows), np.linspace(0.5, -0.5, rows)], axis=1
        ),
        keys=np.tile(np.array([[1, 2 if products else -1]], np.int32), (rows, 1)),
        codes=np.where(np.array([True, products > 0]), codes, -1).astype(np.int32),
        weight=np.linspace(0.5, 1.0, rows),
        rule=(np.arange(rows) % 2).astype(np.int32),
        entity=np.zeros(rows, np.int32),
        unit=np.zeros(rows, np.int32),
    )
    manifest = Manifest(
        sections={name: Section(version=version) for name, version in SECTIONS.items()},
        contract=contract,
        rules=(
            RuleRecord(name="one", output=True),
            RuleRecord(name="other", output=True, weight=2.0),
        ),
        skeletons=(guarded,),
        provenance=Provenance(compiler="test"),
    )
    return ConstraintModule(
        Pack(manifest=manifest, banks=(bank,)), x=columns(["speed"]), y=columns(["power"])
    )


def keys_of(count: int, machines: int = 3, products: int = 1) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(count)
    codes = {"machine": machines, "product": products}
    return {
        name: torch.randint(-1, many, (count,), generator=generator) for name, many in codes.items()
    }


@pytest.mark.parametrize("batch", [0, 1, 2, 50])
@pytest.mark.parametrize("products", [0, 4])
def test_several_keys_empty_groups_and_small_batches(batch: int, products: int) -> None:
    generator = torch.Generator().manual_seed(batch)
    x, y = (
        torch.randn(batch, 1, generator=generator),
        torch.randn(batch, 1, generator=generator).requires_grad_(),
    )
    alike(
        limits(5, products), x, y, keys=keys_of(batch, 4, 3)
    )  # no sample has the last machine or product


def test_pairs_are_those_that_apply_in_order_of_rows() -> None:
    met = torch.tensor(
        [
            [True, True, True, True],
            [True, False, True, False],
            [False, True, True, False],
            [False, False, False, False],
        ]
    )
    conditions = torch.tensor([[1, 2, 0, 3], [0, 1, 2, 0]])
    with selected_pairs_up_to(1.0):
        selector = Selector(met, None)
        chosen = selector.select(conditions.numpy())
        assert chosen is not None
        assert not chosen.enough
        assert chosen.most.tolist() == [2, 2, 2, 0]
        pairs = selector.pairs(conditions, chosen, slice(0, 4))
        assert list(zip(pairs.row.tolist(), pairs.sample.tolist(), strict=True)) == [
            (0, 0),
            (0, 2),
            (1, 2),
            (2, 1),
            (2, 2),
        ]
        padded = Selector(met, torch.tensor([False, True, True, True]))
        again = padded.select(conditions.numpy())
        assert again is not None
        assert padded.pairs(conditions, again, slice(0, 2)).sample.tolist() == [2, 2]
    spread = pairs.spread(torch.arange(5.0)[:, None], -1.0)
    assert spread.tolist() == [[0, -1, 1, -1], [-1, -1, 2, -1], [-1, 3, 4, -1], [-1, -1, -1, -1]]


def test_rows_that_apply_to_many_samples_are_evaluated_on_the_whole_batch() -> None:
    machines = torch.nn.functional.one_hot(torch.arange(400) % 40, 40).T.bool()
    own = np.arange(40).repeat(20)[None]
    assert Selector(machines, None).select(own) is not None
    assert Selector(machines[:, :8], None).select(own) is None, "too few to gain anything"
    assert Selector(torch.ones_like(machines), None).select(own) is None
    assert Selector(machines, None).select(own[:0]) is None, "rows without conditions"


def test_runs_hold_at_most_so_many_numbers_or_one_row() -> None:
    load = np.array([0, 3, 3, 3, 10, 11, 12])
    assert [(part.start, part.stop) for part in runs(load, 4)] == [(0, 3), (3, 4), (4, 6)]
    assert list(runs(np.array([0]), 4)) == []


@pytest.mark.parametrize("share", [None, [[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]])
@pytest.mark.parametrize("way", [1.0, -1.0])
def test_parts_of_a_batch_are_punished_as_batches_of_their_own(
    way: float, share: list[list[float]] | None
) -> None:
    rules, keys = limits(3, 2), keys_of(6, 3, 2)
    x, y = (
        torch.randn(6, 1, dtype=torch.float64),
        torch.randn(6, 1, dtype=torch.float64).requires_grad_(),
    )
    weight = torch.full((2, 3), 1 / 3) if share is None else torch.tensor(share)
    with selected_pairs_up_to(way):
        apart = rules(x, y, keys=keys).penalty_apart(weight)
        own = [
            rules(
                x[part],
                y[part],
                keys={n: k[part] for n, k in keys.items()},
                sample_weight=weight.flatten()[part],
            ).penalty
            for part in (slice(0, 3), slice(3, 6))
        ]
    torch.testing.assert_close(apart, torch.stack(own))
    gradients = [
        torch.autograd.grad(value, y, retain_graph=True)[0]
        for value in (apart.sum(), own[0] + own[1])
    ]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    "first", [torch.func.grad, lambda penalty: torch.func.vmap(torch.func.grad(penalty)), None]
)
def test_conditions_of_all_banks_at_once_count_as_bank_by_bank(
    first: Callable[..., Any] | None,
) -> None:
    rules, keys = limits(3, 2), keys_of(6, 3, 2)
    x, y = torch.randn(6, 1), torch.randn(6, 1)
    if first is not None:  # a cached result must outlive the transform in which it was computed
        first(lambda z: rules(x, z, keys=keys).penalty)(y if first is torch.func.grad else y[None])
    at_once = rules(x, y, keys=keys).penalty
    with patch.object(penalty_sum, "LITTLE", 0):
        assert torch.equal(limits(3, 2)(x, y, keys=keys).penalty, at_once)


def test_keys_that_cannot_be_looked_at_are_masked() -> None:
    rules = limits()
    x, y, machine = torch.randn(4, 6, 1), torch.randn(4, 6, 1), torch.randint(0, 3, (4, 6))

    def penalty(answers: Tensor, x: Tensor, machine: Tensor) -> Tensor:
        return rules(x, answers, keys={"machine": machine}).penalty

    each = [
        torch.autograd.functional.jacobian(lambda z, i=i: penalty(z, x[i], machine[i]), y[i])
        for i in range(4)
    ]
    with selected_pairs_up_to(1.0):
        torch.testing.assert_close(
            torch.func.vmap(torch.func.grad(penalty))(y, x, machine), torch.stack(each)
        )
        own = torch.func.vmap(torch.func.grad(penalty), in_dims=(0, None, None))(
            y, x[1], machine[1]
        )  # the keys are the same for all
        torch.testing.assert_close(own[1], each[1])
        torch.testing.assert_close(torch.func.grad(penalty)(y[2], x[2], machine[2]), each[2])
        robustness = torch.func.vmap(
            lambda answers: rules(x[0], answers, keys={"machine": machine[0]}).robustness
        )(y)
        assert torch.equal(
            robustness[3].nan_to_num(9.0),
            rules(x[0], y[3], keys={"machine": machine[0]}).robustness.nan_to_num(9.0),
        )


def test_rows_stay_in_the_packs_order() -> None:
    rules = limits(4)
    machine = torch.tensor([3, 1, 1, 0])
    with selected_pairs_up_to(1.0):
        report = rules(torch.zeros(4, 1), torch.zeros(4, 1), keys={"machine": machine})
        assert torch.equal(~torch.isnan(report.robustness), machine[:, None] == torch.arange(4))
    assert report.rule_index.tolist() == [0, 1, 0, 1]
