"""The probe's counts equal those of a report, client by client."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import X, Y, guarded, packs, tables
from tries import tries

from fedkg.constraints import ConstraintModule, Probe, columns
from fedkg.constraints.engine.skeleton_properties import reads_output
from fedkg.constraints.specialised import fixed_input_rules
from fedkg.pack import Pack


@given(packs(max_rows=8), tables(), st.integers(0, 99), st.booleans())
@tries(30)
def test_scores_are_violated_over_applicable(
    pack: Pack, table: np.ndarray, seed: int, broken: bool
) -> None:
    module = ConstraintModule(pack, x=X, y=Y)
    x, runs = torch.from_numpy(table[:, :4]), len(module.plan.runs)
    y = torch.from_numpy(
        np.random.default_rng(seed).integers(-2, 3, (3, runs, len(table), 5)) / 2.0
    )
    if broken:
        y[1, :, : len(table) // 2] = torch.nan
    probe = Probe(module, x, previous="above")
    scores = probe.score(y.flatten(1, 2))
    touched = [
        c
        for c, bank in enumerate(b for b in pack.banks for _ in range(b.rows))
        if reads_output(bank.skeleton)
    ]
    assert probe.constraints == len(touched) == scores.violation.shape[1]
    assert probe.inputs.shape == (runs * len(table), 4)
    for k in range(3):
        report = module(x, y[k], previous="above")
        bad = torch.isnan(y[k]).any(dim=2).any(dim=0)[:, None]
        violated, fired = report.violated[:, touched], (report.fired & ~report.unknown)[:, touched]
        least, count = violated.sum(0), fired.sum(0)
        if not bad.any():
            assert scores.counts[k].tolist() == count.tolist()
            torch.testing.assert_close(
                scores.violation[k], least.double() / count, rtol=0, atol=0, equal_nan=True
            )
        evaluated = scores.counts[k] > 0
        assert torch.equal(scores.violation[k].isnan(), ~evaluated)
        assert (scores.violation[k, evaluated] <= 1).all()
        assert ((scores.violation[k] * scores.counts[k] >= least - 1e-9) | ~evaluated).all()


def test_rules_that_apply_nowhere_are_named() -> None:
    module = ConstraintModule(guarded(limit=1e9), x=X, y=Y)
    probe = Probe(module, torch.zeros(4, 4))
    scores = probe.score(torch.ones(2, 4, 5))
    assert probe.not_evaluated(scores) == ("rule_0",)
    assert scores.violation.isnan().tolist() == [[True], [True]]


def test_an_answer_that_is_no_number_satisfies_nothing() -> None:
    module = ConstraintModule(guarded(limit=-1.0), x=X, y=Y)
    scores = Probe(module, torch.zeros(4, 4)).score(torch.full((2, 4, 5), torch.nan))
    assert scores.violation.tolist() == [[1.0], [1.0]]


@given(
    st.sampled_from([63, 64, 65, 128]),
    st.sampled_from([torch.float32, torch.float64]),
    st.booleans(),
    st.integers(0, 99),
)
@tries(20)
def test_answers_like_earlier_ones_are_counted_the_short_way(
    rows: int, dtype: torch.dtype, flat: bool, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 4, generator=generator, dtype=dtype)
    module = ConstraintModule(guarded(limit=0.0), x=X, y=columns(["failure"]))
    probe, y = Probe(module, x), torch.randn(3, rows, generator=generator, dtype=dtype)
    odd = y.clone()
    odd[1, : rows // 2] = torch.nan
    odd[2, 0] = torch.inf
    for answers in (y, y.clone().requires_grad_(), odd, y):
        given_as = answers if flat else answers[..., None]
        again, afresh = probe.score(given_as), Probe(module, x).score(given_as)
        assert torch.equal(again.violation, afresh.violation)
        assert torch.equal(again.counts, afresh.counts)
        shares = probe.violation(given_as)
        assert torch.equal(shares, afresh.violation)
        assert not again.violation.requires_grad
        assert not shares.requires_grad


def test_an_answer_that_no_rule_reads_is_looked_at_too() -> None:
    module = ConstraintModule(guarded(limit=0.0), x=X, y=Y)
    x = torch.ones(64, 4)
    x[0] = torch.nan
    y = torch.ones(2, 64, 5)
    probe = Probe(module, x)
    before = probe.score(y).violation
    y[1, 0, 0] = (
        torch.nan
    )  # the row is undecided for another reason, and its answer is not a number: violated
    assert torch.equal(probe.violation(y), Probe(module, x).score(y).violation)
    assert probe.score(y).violation[0].equal(before[0])


@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize("rows", [63, 64])
def test_answers_are_counted_wherever_they_stand(
    models: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One output of two, of samples by models, every other sample, and with the sign reversed.

    Also tests some models at a time.
    """
    generator = torch.Generator().manual_seed(models)
    module, x = (
        ConstraintModule(guarded(limit=0.0), x=X, y=columns(["failure"])),
        torch.randn(rows, 4, generator=generator),
    )
    y = torch.randn(models, rows, generator=generator)
    aside = [
        torch.stack([y, 5.0 - y], dim=-1)[..., 0],
        y.repeat_interleave(2, dim=1)[:, ::2],
        torch._neg_view(-y),
        y.T.contiguous().T,
    ]
    for most in (fixed_input_rules.ANSWERS, rows):
        monkeypatch.setattr(fixed_input_rules, "ANSWERS", most)
        probe, expected = Probe(module, x), Probe(module, x).score(y)
        for answers in aside * 2:
            found = probe.score(answers)
            assert torch.equal(found.violation, expected.violation)
            assert torch.equal(found.counts, expected.counts)
            assert torch.equal(probe.violation(answers), expected.violation)


def test_scores_are_the_callers_own() -> None:
    module = ConstraintModule(guarded(limit=0.0), x=X, y=columns(["failure"]))
    probe, y = Probe(module, torch.ones(64, 4)), torch.zeros(1, 64)
    first = [probe.score(y), probe.score(y)][1]
    probe.violation(y).zero_()
    assert first.violation.equal(probe.violation(y))
    expected = first.violation.clone(), first.counts.clone()
    for part in (first.violation, first.counts):
        part.zero_()
    again = probe.score(y)
    for found, wanted in zip((again.violation, again.counts), expected, strict=True):
        assert wanted.any()
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda probe: pickle.loads(pickle.dumps(probe))])
def test_a_probe_that_has_scored_is_copied(copied: Callable[[Probe], Probe]) -> None:
    module = ConstraintModule(guarded(limit=0.0), x=X, y=columns(["failure"]))
    probe, y = Probe(module, torch.ones(64, 4)), torch.linspace(0.0, 1.0, 128).view(2, 64)
    expected = probe.score(y).violation
    assert expected.any()
    assert torch.equal(copied(probe).violation(y), expected)


def test_no_model_at_all_says_the_same_each_time() -> None:
    module = ConstraintModule(guarded(limit=0.0), x=X, y=columns(["failure"]))
    probe = Probe(module, torch.ones(64, 4))
    for _ in range(2):
        probe.score(torch.zeros(1, 64))
        scores = probe.score(torch.zeros(0, 64))
        assert probe.violation(torch.zeros(0, 64)).shape == (0, probe.constraints)
        assert scores.violation.shape == scores.counts.shape == (0, probe.constraints)
