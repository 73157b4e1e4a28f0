"""Packs with time, members and conditions: files, errors, and formulas as text."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from strategies import CONTRACT, bank_of, banks, formulas, pack_of
from tries import tries

from fedkg.errors import PackError
from fedkg.pack import (
    And,
    AtLeast,
    Bank,
    CategoryIs,
    Choose,
    Coalesce,
    Column,
    Compare,
    DataContract,
    Formula,
    Implies,
    Initially,
    Known,
    MemberTable,
    Not,
    Pack,
    Param,
    Reduce,
    Section,
    Slot,
    Temporal,
    Until,
    atoms,
    everywhere,
    is_temporal,
    read_pack,
    reads_output,
    subterms,
    used_params,
    used_slots,
)
from fedkg.pack.bank import FORMULA
from fedkg.pack.formula_text import Names, duration_text, formula_text, row_text

BELOW = Compare(op="le", left=Slot(index=0), right=Param(index=0), scale=1)


def table(
    parent: int, offsets: list[int], columns: list[int], params: list[list[float]] | None = None
) -> MemberTable:
    """Members that read one column each."""
    return MemberTable(
        parent=parent,
        offsets=np.array(offsets, dtype=np.int64),
        slots=np.array(columns, dtype=np.int32).reshape(-1, 1),
        views=np.zeros((len(columns), 1), dtype=np.int32),
        params=np.array(params if params is not None else [[1.0, 2.0]] * len(columns)).reshape(
            len(columns), -1
        ),
    )


SUM = Compare(
    op="le", left=Reduce(op="sum", members=0, arg=Slot(index=0)), right=Param(index=0), scale=1
)
NESTED = AtLeast(
    count=None,
    members=0,
    arg=Compare(
        op="le", left=Reduce(op="mean", members=1, arg=Slot(index=0)), right=Slot(index=0), scale=1
    ),
)


def make_bank(
    skeleton: Formula = SUM, params: list[float] | None = None, *members: MemberTable
) -> Bank:
    return replace(
        bank_of(skeleton, params or [5.0, 1.0], [0], rows=2),
        members=members or (table(-1, [0, 3, 3], [0, 1, 2]),),
    )


def nested() -> Bank:
    return make_bank(
        NESTED, None, table(-1, [0, 1, 3], [0, 1, 2]), table(0, [0, 2, 2, 3], [2, 1, 0])
    )


def same(left: Bank, right: Bank) -> bool:
    """Whether two banks are equal, members included."""
    one, two = left.tensors(), right.tensors()
    own = all(np.array_equal(one[name], two[name], equal_nan=True) for name in one)
    pairs = zip(left.members, right.members, strict=True)
    return (
        own
        and left.skeleton == right.skeleton
        and all(
            np.array_equal(getattr(a, f.name), getattr(b, f.name))
            for a, b in pairs
            for f in fields(MemberTable)
        )
    )


def with_conditions(pack: Pack, conditions: list[Bank]) -> Pack:
    manifest = pack.manifest.model_copy(
        update={"conditions": tuple(bank.skeleton for bank in conditions)}
    )
    return replace(pack, manifest=manifest, conditions=tuple(conditions))


@given(banks(temporal=True, members=True), banks(temporal=True, members=True))
@tries(12)
def test_banks_with_members_and_conditions_come_out_as_they_went_in(
    bank: Bank, condition: Bank
) -> None:
    pack = with_conditions(pack_of([bank]), [replace(condition, rule=condition.rule + 1000)])
    body = pack.to_bytes()
    again = read_pack(body)
    assert same(again.banks[0], bank)
    assert same(again.conditions[0], pack.conditions[0])
    assert again.to_bytes() == body


@given(formulas(temporal=True, members=True))
@tries(40)
def test_the_json_of_a_formula_reads_back(formula: Formula) -> None:
    text = FORMULA.dump_json(formula)
    assert FORMULA.validate_json(text) == formula
    assert FORMULA.dump_json(FORMULA.validate_python(json.loads(text))) == text
    assert formula_text(formula)


@pytest.mark.parametrize("version", [1, 2])
def test_packs_of_earlier_versions_of_the_section_still_load(version: int) -> None:
    pack = pack_of([bank_of(BELOW, [1.0, 2.0], [0])])
    old = replace(
        pack,
        manifest=pack.manifest.model_copy(
            update={"sections": {"constraints": Section(version=version)}}
        ),
    )
    assert read_pack(old.to_bytes()).manifest.sections["constraints"].version == version


@pytest.mark.parametrize(
    ("words", "fits"), [(("false", "true"), True), ((), False), (("true", "false"), False)]
)
def test_truth_values_are_codes_of_false_and_true(words: tuple[str, ...], fits: bool) -> None:
    contract = DataContract(
        columns=(Column(name="valve", source="valve", type="boolean", vocabulary=words),)
    )
    body = pack_of([bank_of(CategoryIs(slot=0, param=0), [1.0], [0])], contract=contract).to_bytes()
    if fits:
        assert read_pack(body).manifest.contract == contract
    else:
        with pytest.raises(PackError, match="not of the kind `category`"):
            read_pack(body)


WINDOW = Temporal(op="always", low=2, high=3, arg=BELOW)


@pytest.mark.parametrize(
    ("bank", "words"),
    [
        (
            lambda: make_bank(SUM, None, table(-1, [0, 3], [0, 1, 2])),
            "member.0.offsets does not fit",
        ),
        (
            lambda: make_bank(SUM, None, table(-1, [0, 2, 4], [0, 1, 2])),
            "member.0.offsets does not fit",
        ),
        (
            lambda: make_bank(SUM, None, table(-1, [0, 4, 3], [0, 1, 2])),
            "member.0.offsets does not fit",
        ),
        (
            lambda: make_bank(SUM, None, table(-1, [1, 3, 3], [0, 1, 2])),
            "member.0.offsets does not fit",
        ),
        (
            lambda: make_bank(SUM, None, table(0, [0, 3, 3], [0, 1, 2])),
            "member.0.parent points outside",
        ),
        (
            lambda: make_bank(SUM, None, table(-1, [0, 3, 3], [0, 1, 99])),
            "bank.0.member.0.slots points outside",
        ),
        (
            lambda: make_bank(SUM, None, table(-1, [0, 3, 3], [0, 1, 4])),
            "bank.0.member.0.slots has a column in slot",
        ),
        (lambda: make_bank(SUM, None, table(-1, [0, 3, 3], [0, 1, 2], [[], [], []])), None),
        (lambda: make_bank(NESTED), "members that it does not contain"),
        (
            lambda: make_bank(
                NESTED, None, table(-1, [0, 1, 3], [0, 1, 2]), table(-1, [0, 1, 2], [0, 1])
            ),
            "has another owner than its terms",
        ),
        (lambda: replace(make_bank(), members=()), "members that it does not contain"),
        (lambda: bank_of(WINDOW, [1.0, 2.0, 3.0, 2.0], [0]), "window that is none"),
        (lambda: bank_of(WINDOW, [1.0, 2.0, -1.0, 2.0], [0]), "window that is none"),
        (lambda: bank_of(WINDOW, [1.0, 2.0, 0.5, 2.0], [0]), "window that is none"),
        (lambda: bank_of(WINDOW, [1.0, 2.0, 0.0, np.inf], [0]), "window that is none"),
        (lambda: bank_of(WINDOW, [1.0, 2.0, 4.0, -1.0], [0]), None),
        (lambda: bank_of(WINDOW, [1.0, 2.0, 0.0], [0]), "bank.0.params points outside"),
        (
            lambda: make_bank(AtLeast(count=0, members=0, arg=BELOW), [1.5, 1.0]),
            "not a whole number",
        ),
        (
            lambda: make_bank(AtLeast(count=0, members=0, arg=BELOW), [-1.0, 1.0]),
            "not a whole number",
        ),
        (lambda: make_bank(AtLeast(count=7, members=0, arg=BELOW)), "bank.0.params points outside"),
        (
            lambda: make_bank(
                AtLeast(count=None, members=0, arg=BELOW),
                None,
                table(-1, [0, 1, 1], [0], [[1.0, 0.0]]),
            ),
            "scale that is not positive",
        ),
        (
            lambda: bank_of(
                Compare(op="le", left=Coalesce(args=()), right=Param(index=0), scale=1),
                [1.0, 1.0],
                [0],
            ),
            "coalesce with 0 parts",
        ),
        (
            lambda: bank_of(
                Not(arg=Temporal(op="once", low=2, high=3, arg=And(args=()))),
                [1.0, 1.0, 0.0, 1.0],
                [0],
            ),
            "connective of nothing",
        ),
    ],
)
def test_wrong_members_windows_and_counts_are_rejected(
    bank: Callable[[], Bank], words: str | None
) -> None:
    body = pack_of([bank()]).to_bytes()
    conditions = with_conditions(pack_of([]), [bank()]).to_bytes()
    if words is None:
        assert read_pack(body).rows
        assert read_pack(conditions).conditions
        return
    with pytest.raises(PackError, match=words):
        read_pack(body)
    with pytest.raises(PackError, match=words.replace("bank.0", "condition.0")):
        read_pack(conditions)


def test_walks_stay_in_the_table_where_they_begin() -> None:
    formula = Implies(
        antecedent=Until(op="until", low=4, high=5, left=Known(slot=3), right=NESTED),
        consequent=Compare(
            op="le",
            left=Choose(
                condition=BELOW, then=Slot(index=7, role="output"), otherwise=Param(index=9)
            ),
            right=Slot(index=2),
            scale=8,
        ),
    )
    assert used_slots(formula) == {3, 7, 2, 0}
    assert used_slots(formula, 0) == {0}
    assert used_slots(formula, 1) == {0}
    assert used_params(formula) == {4, 5, 9, 8, 0, 1}
    assert used_params(formula, 0) == {1}
    assert [part.kind for part in atoms(formula)] == ["known", "compare"]
    assert [table for table, _ in everywhere(NESTED)] == [-1, 0, 0, 1, 0]
    assert {part.index for part in subterms(formula.consequent.left) if isinstance(part, Slot)} == {
        0,
        7,
    }  # type: ignore[union-attr]
    assert is_temporal(formula)
    assert is_temporal(AtLeast(count=None, members=0, arg=WINDOW))
    assert not is_temporal(NESTED)
    assert reads_output(formula)
    assert reads_output(Reduce(op="sum", members=0, arg=Slot(index=0, role="output")))
    assert not reads_output(NESTED)


TEXTS: list[tuple[Formula, str]] = [
    (WINDOW, "always [p2, p3] (x0 <= p0)"),
    (
        Until(op="since", low=2, high=3, left=BELOW, right=Known(slot=1), closed=True),
        "x0 <= p0 since closed [p2, p3] x1 is known",
    ),
    (Not(arg=Initially(arg=BELOW)), "not (initially (x0 <= p0))"),
    (AtLeast(count=2, members=0, arg=BELOW), "at least p2 of (x0 <= p0) over members"),
    (SUM, "sum of x0 over members <= p0"),
    (
        SUM.model_copy(update={"left": Coalesce(args=(SUM.left, Param(index=1)))}),
        "coalesce(sum of x0 over members, p1) <= p0",
    ),
    (
        SUM.model_copy(
            update={"left": Choose(condition=BELOW, then=Slot(index=1), otherwise=Param(index=1))}
        ),
        "if x0 <= p0 then x1 else p1 <= p0",
    ),
]


@pytest.mark.parametrize(("formula", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_the_new_skeletons_as_text(formula: Formula, text: str) -> None:
    assert formula_text(formula) == text


@pytest.mark.parametrize(
    ("low", "high", "step", "text"),
    [
        ("0", "24", None, "always within 24 steps (x0 <= p0)"),
        ("0", "24", 300.0, "always within 2 h (x0 <= p0)"),
        ("1", "1", None, "always [1 step, 1 step] (x0 <= p0)"),
        ("3", "6", 20.0, "always [1 min, 2 min] (x0 <= p0)"),
        ("0", "-1", None, "always (x0 <= p0)"),
        ("6", "-1", 600.0, "always [1 h, end] (x0 <= p0)"),
    ],
)
def test_windows_are_reported_in_time_where_the_step_is_known(
    low: str, high: str, step: float | None, text: str
) -> None:
    assert formula_text(WINDOW, Names(params=["p0", "1", low, high], step=step)) == text


def test_next_and_previous_have_words_of_their_own() -> None:
    names = Names(params=["p0", "1", "1", "1"])
    assert formula_text(WINDOW.model_copy(update={"op": "eventually"}), names) == "next (x0 <= p0)"
    assert formula_text(WINDOW.model_copy(update={"op": "once"}), names) == "previous (x0 <= p0)"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (7200, "2 h"),
        (5400, "90 min"),
        (86400, "24 h"),
        (259200, "3 d"),
        (0.5, "0.5 s"),
        (90.0, "90 s"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_a_row_names_its_members() -> None:
    columns = tuple(Column(name=f"flow[p{i}]", source=f"F{i}", unit="l/s") for i in range(3))
    pack = pack_of([make_bank()], contract=DataContract(columns=columns, step=60.0))
    assert row_text(pack, pack.banks[0], 0) == "sum of flow over 3 members <= 5"
    assert row_text(pack, pack.banks[0], 1) == "sum of x0 over 0 members <= 5"
    counted = make_bank(
        AtLeast(count=0, members=0, arg=BELOW),
        [1.0, 1.0],
        table(-1, [0, 2, 3], [0, 1, 2], [[4.0, 1.0], [6.0, 1.0], [7.0, 1.0]]),
    )
    assert row_text(pack, counted, 0) == "any of (flow <= (4 .. 6)) over 2 members"
    assert row_text(pack, counted, 1) == "any of (flow[p2] <= 7) over 1 member"
    assert CONTRACT.step is None


def test_members_are_taken_with_their_rows() -> None:
    taken: Any = nested().take(np.array([1, 0]))
    assert taken.members[0].offsets.tolist() == [0, 2, 3]
    assert taken.members[1].offsets.tolist() == [0, 0, 1, 3]
    assert taken.members[1].slots.ravel().tolist() == [0, 2, 1]
