"""Reasoning over sets of members, over values that may be missing, and over choices."""

from __future__ import annotations

import numpy as np
import pytest

from fedkg.pack import (
    SECTIONS,
    AtLeast,
    Bank,
    Choose,
    Coalesce,
    Column,
    Compare,
    DataContract,
    Formula,
    Known,
    Manifest,
    MemberTable,
    Not,
    Pack,
    Param,
    Provenance,
    Reduce,
    RuleRecord,
    Section,
    Slot,
    Term,
)
from fedkg_compiler.analysis import reason
from fedkg_compiler.analysis.requirement_text import clause, sentence
from fedkg_compiler.formulas.formula_algebra import affine_by_shape, nonlinear_comparisons

X, Y = Slot(index=0), Slot(index=1)
OUT = Slot(index=0, role="output")
COLUMNS = tuple(Column(name=name, source=name, span=(0.0, 10.0)) for name in ("x", "y", "z"))


def at_most(term: Term, limit: int = 0) -> Compare:
    return Compare(op="le", left=term, right=Param(index=limit), scale=1)


def at_least(term: Term, limit: int = 0) -> Compare:
    return Compare(op="le", left=Param(index=limit), right=term, scale=1)


def pack_of(*rules: tuple[Formula, float]) -> Pack:
    """One row for each rule: its formula, with its parameter 0.

    The members are x, y and z, each limited by 4.
    """
    none = np.zeros((1, 0), dtype=np.int32)
    members = MemberTable(
        parent=-1,
        offsets=np.array([0, 3]),
        slots=np.array([[0], [1], [2]], dtype=np.int32),
        views=np.zeros((3, 1), dtype=np.int32),
        params=np.array([[4.0, 1.0]] * 3),
    )
    banks = [
        Bank(
            skeleton=formula,
            slots=np.array([[0, 1]], dtype=np.int32),
            views=np.zeros((1, 2), dtype=np.int32),
            params=np.array([[number, 1.0, 2.0]]),
            keys=none,
            codes=none,
            weight=np.ones(1),
            rule=np.array([i], dtype=np.int32),
            entity=np.zeros(1, dtype=np.int32),
            unit=np.zeros(1, dtype=np.int32),
            members=(members,),
        )
        for i, (formula, number) in enumerate(rules)
    ]
    manifest = Manifest(
        sections={name: Section(version=version) for name, version in SECTIONS.items()},
        contract=DataContract(columns=COLUMNS),
        rules=tuple(RuleRecord(name=f"r{i}") for i in range(len(rules))),
        skeletons=tuple(bank.skeleton for bank in banks),
        provenance=Provenance(compiler="test"),
    )
    return Pack(manifest=manifest, banks=tuple(banks))


SUM = Reduce(op="sum", members=0, arg=X)
MOST = Reduce(op="max", members=0, arg=X)
ALL_LOW = AtLeast(count=None, members=0, arg=at_most(X))
TWO_HIGH = AtLeast(count=2, members=0, arg=at_least(X))


@pytest.mark.parametrize(
    "rules",
    [
        ((ALL_LOW, 0.0), (at_least(SUM), 13.0)),
        ((ALL_LOW, 0.0), (at_least(MOST), 5.0)),
        ((TWO_HIGH, 0.0), (at_most(SUM), 7.0)),
        ((Not(arg=TWO_HIGH), 0.0), (at_least(SUM), 25.0)),
        ((Known(slot=0), 0.0), (Not(arg=Known(slot=0)), 0.0)),
        ((Not(arg=Known(slot=0)), 0.0), (at_most(X), 5.0)),
        ((at_most(Coalesce(args=(X, Y))), 3.0), (at_least(X), 4.0)),
        ((at_most(Choose(condition=at_least(X), then=Y, otherwise=Y)), 3.0), (at_least(Y), 4.0)),
    ],
)
def test_a_conflict(rules: tuple[tuple[Formula, float], ...]) -> None:
    assert [(one.kind, one.rules) for one in reason(pack_of(*rules)) if one.kind == "conflict"] == [
        ("conflict", ("r0", "r1"))
    ]


@pytest.mark.parametrize(
    "rules",
    [
        ((ALL_LOW, 0.0), (at_least(SUM), 12.0)),
        ((TWO_HIGH, 0.0), (at_most(SUM), 8.0)),
        ((Known(slot=0), 0.0), (at_most(X), 5.0)),
        ((at_most(Coalesce(args=(X, Y))), 3.0), (at_least(Y), 4.0)),
    ],
)
def test_compatible_rules_are_not_a_conflict(rules: tuple[tuple[Formula, float], ...]) -> None:
    assert [one.kind for one in reason(pack_of(*rules)) if one.kind == "conflict"] == []


def test_members_in_words() -> None:
    pack = pack_of((ALL_LOW, 0.0), (at_least(SUM), 13.0), (TWO_HIGH, 0.0))
    assert (
        sentence(pack, pack.banks[0], 0)
        == "all 3 of these hold: x is at most 4; y is at most 4; z is at most 4"
    )
    assert clause(pack, pack.banks[1], 0) == "the sum of (x, y, z) >= 13"
    assert clause(pack, pack.banks[2], 0) == "at least 2 of 3 of these hold: x >= 4; y >= 4; z >= 4"


def test_a_sum_of_predictions_is_linear_and_their_maximum_is_not() -> None:
    def limit_aggregate(op: str) -> Compare:
        return at_most(Reduce.model_validate({"op": op, "members": 0, "arg": OUT}))

    assert nonlinear_comparisons(limit_aggregate("sum")) == []
    assert nonlinear_comparisons(limit_aggregate("max")) == [limit_aggregate("max")]
    assert affine_by_shape(SUM, [np.ones(1)], 1) is None
