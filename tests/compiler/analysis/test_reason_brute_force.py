"""Verdicts compared with every point of a small grid, and witnesses with the interpreter."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg.constraints.meaning.interpreter import evaluate_bank
from fedkg.evaluation.witness_verdict import replay
from fedkg.pack import (
    SECTIONS,
    And,
    Bank,
    CategoryIs,
    Column,
    Compare,
    DataContract,
    Formula,
    Implies,
    Manifest,
    Negate,
    Not,
    Or,
    Pack,
    Param,
    Product,
    Provenance,
    RuleRecord,
    Section,
    Slot,
    Sum,
    Term,
)
from fedkg.pack.contract import TRUTHS
from fedkg_compiler.analysis import reason
from fedkg_compiler.analysis.pack_difference import differences

NUMBERS = tuple(Column(name=name, source=name, span=(0.0, 4.0)) for name in ("x", "y"))
ANSWERS = tuple(
    Column(name=name, source=name, type="boolean", span=(0.0, 1.0), vocabulary=TRUTHS)
    for name in ("valve", "pump")
)
CONTRACT = DataContract(columns=NUMBERS + ANSWERS)
HALVES = np.arange(0, 4.25, 0.5)
GRID = np.array(list(product(HALVES, HALVES, (0.0, 1.0), (0.0, 1.0))))[None]
"""All combinations of the values 0 to 4 in steps of 0.5 in both numeric columns, and true and false
in both truth values: [1, points, 4].
"""

SLOTS = st.sampled_from([Slot(index=0), Slot(index=1)])
TERMS = st.one_of(
    SLOTS,
    SLOTS,
    st.builds(lambda a, b: Sum(args=(a, b)), SLOTS, SLOTS),
    st.builds(lambda a, b: Sum(args=(a, Negate(arg=b))), SLOTS, SLOTS),
    st.builds(lambda a, b: Product(args=(a, b)), SLOTS, SLOTS),
)


@st.composite
def comparisons(draw: st.DrawFn) -> Compare:
    term: Term = draw(TERMS)
    limit = Param(index=draw(st.integers(0, 1)))
    left, right = (term, limit) if draw(st.booleans()) else (limit, term)
    return Compare(
        op=draw(st.sampled_from(["le", "lt", "le", "lt", "eq", "ne"])),
        left=left,
        right=right,
        scale=2,
    )


TRUE_OR_FALSE: st.SearchStrategy[Formula] = st.builds(
    CategoryIs, slot=st.sampled_from([2, 3]), param=st.sampled_from([3, 4])
)
BOTH = st.one_of(
    TRUE_OR_FALSE,
    TRUE_OR_FALSE.map(lambda a: Not(arg=a)),
    st.builds(lambda a, b: Or(args=(a, b)), TRUE_OR_FALSE, comparisons()),
)
FORMULAS: st.SearchStrategy[Formula] = st.one_of(
    comparisons(),
    comparisons(),
    BOTH,
    st.builds(lambda a, b: Implies(antecedent=a, consequent=b), BOTH, comparisons()),
    st.builds(lambda a, b: Implies(antecedent=a, consequent=b), comparisons(), BOTH),
    st.builds(lambda a: Not(arg=a), comparisons()),
    st.builds(lambda a, b: And(args=(a, b)), comparisons(), comparisons()),
    st.builds(lambda a, b: Or(args=(a, b)), comparisons(), comparisons()),
    st.builds(lambda a, b: Implies(antecedent=a, consequent=b), comparisons(), comparisons()),
)


@st.composite
def packs(draw: st.DrawFn) -> Pack:
    banks = []
    count = draw(st.integers(2, 4))
    for rule in range(count):
        numbers = [float(draw(st.integers(-1, 6))), float(draw(st.integers(-1, 6))), 1.0, 0.0, 1.0]
        none = np.zeros((1, 0), dtype=np.int32)
        banks.append(
            Bank(
                skeleton=draw(FORMULAS),
                slots=np.array([[0, 1, 2, 3]], dtype=np.int32),
                views=np.zeros((1, 4), dtype=np.int32),
                params=np.array([numbers]),
                keys=none,
                codes=none,
                weight=np.ones(1),
                rule=np.array([rule], dtype=np.int32),
                entity=np.zeros(1, dtype=np.int32),
                unit=np.zeros(1, dtype=np.int32),
            )
        )
    manifest = Manifest(
        sections={name: Section(version=version) for name, version in SECTIONS.items()},
        contract=CONTRACT,
        rules=tuple(RuleRecord(name=f"r{i}") for i in range(count)),
        skeletons=tuple(bank.skeleton for bank in banks),
        provenance=Provenance(compiler="test"),
    )
    return Pack(manifest=manifest, banks=tuple(banks))


def on_the_grid(pack: Pack) -> np.ndarray:
    """Whether each rule is satisfied at each point: bool [points, rules]."""
    return np.stack([evaluate_bank(bank, GRID).satisfied[:, 0] for bank in pack.banks], axis=1)


def check_on_the_grid(pack: Pack) -> None:
    holds = on_the_grid(pack)
    for one in reason(pack):
        rules = [int(pack.banks[ref.bank].rule[ref.row]) for ref in one.rows]
        match one.kind:
            case "conflict" | "outside":
                assert not holds[:, rules].all(axis=1).any()
            case "never_fails":
                assert holds[:, rules].all()
            case "redundant" | "duplicate":
                needless, *others = rules
                assert holds[holds[:, others].all(axis=1), needless].all()
            case "never_applies" | "conditional":
                skeleton = pack.banks[one.rows[0].bank].skeleton
                while isinstance(skeleton, Not):
                    skeleton = skeleton.arg
                if isinstance(skeleton, Implies):
                    bank = pack.banks[one.rows[0].bank]
                    applies = evaluate_bank(
                        replace(bank, skeleton=skeleton.antecedent), GRID
                    ).satisfied[:, 0]
                    others = rules if one.kind == "conditional" else rules[1:]
                    assert not (applies & holds[:, others].all(axis=1)).any()
            case "undecided":
                pass


@tries(12)
@given(packs())
def test_no_point_of_the_grid_speaks_against_a_verdict(pack: Pack) -> None:
    check_on_the_grid(pack)


@pytest.mark.slow
@tries(100)
@given(packs())
def test_no_point_of_the_grid_speaks_against_many_verdicts(pack: Pack) -> None:
    check_on_the_grid(pack)


@tries(12)
@given(packs())
def test_the_interpreter_confirms_every_witness(pack: Pack) -> None:
    for one in reason(pack):
        for left_out, witness in zip(one.rows, one.keeps, strict=False):
            if witness is None:
                continue
            values = witness.matrix(CONTRACT)
            for ref in one.rows:
                if ref != left_out and one.kind == "conflict":
                    assert replay(pack, ref.bank, ref.row, values) == "satisfied"


@tries(12)
@given(packs(), packs())
def test_no_point_of_the_grid_speaks_against_a_difference(old: Pack, new: Pack) -> None:
    before, after = on_the_grid(old), on_the_grid(new)
    names = [record.name for record in old.manifest.rules]
    for one in differences(old, new):
        if one.change not in ("same", "stricter", "looser", "changed"):
            continue
        i = names.index(one.name)
        if one.change == "same":
            assert (before[:, i] == after[:, i]).all()
        elif one.change == "stricter":
            assert not (after[:, i] & ~before[:, i]).any()
        elif one.change == "looser":
            assert not (before[:, i] & ~after[:, i]).any()
        if one.values is not None:
            values = one.values.matrix(CONTRACT)
            verdicts = [replay(pack, i, 0, values) for pack in (old, new)]
            assert verdicts == (
                ["satisfied", "violated"] if one.accepted_by == "old" else ["violated", "satisfied"]
            )
