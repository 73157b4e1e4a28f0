"""Counts, worst rows and unevaluated rules."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace

import numpy as np
import pytest
from evaluation_packs import (
    BELOW,
    BELOW_STRICTLY,
    COLUMNS,
    FAILURE,
    GROWS,
    TORQUE,
    VARIANT,
    WEAR,
    bank,
    limits,
    pack,
    strain_limits,
)
from hypothesis import given
from hypothesis import strategies as st
from shared import SHARED, needs_shared
from tries import tries

from fedkg.constraints.meaning.interpreter import evaluate_bank
from fedkg.errors import TableError, UsageError
from fedkg.evaluation import evaluate, table_values
from fedkg.pack import Column, Pack, View
from fedkg.tables import Table, read_bytes, read_table

HEADER = "Zeit,Torque [Nm],Tool wear [min],Type,Machine failure\n"


def table(*lines: str) -> Table:
    return read_bytes((HEADER + "\n".join(lines) + "\n").encode(), "plant.csv")


@pytest.mark.parametrize(
    ("rules", "rows", "help"),
    [
        ("rules.fkg", table("10:00,40,1,L,0"), "fedkg.compile"),
        (pack(["torque_limit"], [limits(50)]), {"Torque [Nm]": [40.0]}, "fedkg.read_table"),
    ],
)
def test_an_argument_of_another_type_is_an_error_with_the_right_call(
    rules: object, rows: object, help: str
) -> None:
    with pytest.raises(UsageError, match=help):
        evaluate(rules, rows)  # type: ignore[arg-type]


def test_the_json_is_what_other_people_build_on() -> None:
    rules = pack(
        ["torque_limit"],
        [limits(50, 30, unit=1)],
        time="Zeit",
        entities=("", "graz", "linz"),
        units=("", "N.m"),
    )
    document = evaluate(
        rules, table("10:00,40,1,L,0", "10:01,Bad,1,L,0", "10:02,55,1,L,0")
    ).to_json()
    assert list(document)[:2] == ["rules", "violation_rate"]
    assert list(document["rules"][0])[:6] == [
        "rule",
        "bound_rows",
        "satisfied",
        "violated",
        "unknown",
        "worst",
    ]
    entry = {
        key: document["rules"][0][key]
        for key in ("rule", "bound_rows", "satisfied", "violated", "unknown", "worst")
    }
    assert entry == {
        "rule": "torque_limit",
        "bound_rows": 2,
        "satisfied": 1,
        "violated": 3,
        "unknown": 2,
        "worst": {"robustness": -25.0, "unit": "N.m", "entity": "linz", "row": 3, "time": "10:02"},
    }
    assert document["violation_rate"] == 0.75
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_rows_whose_keys_do_not_match_are_not_counted() -> None:
    found = evaluate(
        pack(["strain"], [strain_limits()], entities=("", "L", "M", "H")),
        table(",100,120,L,1", ",100,120,M,1", ",100,125,M,0", ",100,200,X,0", ",100,200,,0"),
    ).rules[0]
    assert (found.bound_rows, found.satisfied, found.violated, found.unknown, found.fired) == (
        3,
        2,
        1,
        0,
        2,
    )
    assert found.worst is not None
    assert (found.worst.row, found.worst.entity, found.worst.robustness) == (3, "M", -0.5)


def test_unknown_throughout_has_no_worst_and_no_rate() -> None:
    found = evaluate(
        pack(["torque_limit"], [limits(50)], entities=("", "a")),
        table(",Bad,1,L,0", ",No Data,1,L,0"),
    )
    assert found.rules[0].worst is None
    assert found.rules[0].unknown == 2
    assert found.violation_rate is None
    assert found.to_json()["rules"][0]["worst"] is None
    assert found.notes == ("column `Torque [Nm]` has no known value in any row",)


def test_a_strict_comparison_missed_by_nothing_is_the_worst_place() -> None:
    strict = bank(BELOW_STRICTLY, [[TORQUE]], [[50.0, 1.0]], rule=0)
    loose = bank(BELOW, [[TORQUE]], [[50.0, 1.0]], rule=0)
    found = evaluate(pack(["both"], [loose, strict]), table(",40,1,L,0", ",50,1,L,0")).rules[0]
    assert (found.satisfied, found.violated) == (3, 1)
    assert found.worst is not None
    assert (found.worst.robustness, found.worst.row) == (0.0, 2)


def test_the_row_before_in_its_group() -> None:
    grows = bank(GROWS, [[WEAR, WEAR]], [[1.0]], rule=0, views=[[1, 0]])
    rules = pack(["wear_grows"], [grows], views=(View(), View(kind="previous", groups=("Type",))))
    found = evaluate(
        rules, table(",1,5,L,0", ",1,3,M,0", ",1,4,L,0", ",1,3,M,0", ",1,9,L,0")
    ).rules[0]
    assert (found.satisfied, found.violated, found.unknown) == (2, 1, 2)
    assert found.worst is not None
    assert (found.worst.row, found.worst.robustness) == (3, -1.0)


def test_what_only_a_model_can_answer_is_reported_and_not_counted() -> None:
    monotone = bank(GROWS, [[FAILURE, FAILURE]], [[1.0]], rule=1, views=[[0, 1]])
    rules = pack(
        ["torque_limit", "risk"],
        [limits(50), monotone],
        views=(View(), View(kind="raised", column=WEAR, delta=1)),
        entities=("", "a"),
    )
    found = evaluate(rules, table(",40,1,L,0"))
    assert (
        found.rules[1].bound_rows,
        found.rules[1].evaluations,
        found.rules[1].worst,
        found.rules[1].needs_model,
    ) == (1, 0, None, True)
    assert "needs a model" in found.rules[1].notes[0]
    assert found.violation_rate == 0.0


def test_without_the_output_column_the_checks_of_data_remain() -> None:
    text = read_bytes(b"Torque [Nm],Tool wear [min],Type\n40,1,L\n", "inputs.csv")
    torque = bank(BELOW, [[TORQUE]], [[50.0, 1.0]], rule=1)
    found = evaluate(
        pack(["strain", "torque_limit"], [strain_limits(), torque], entities=("", "a", "b", "c")),
        text,
    )
    assert found.rules[0].evaluations == 0
    assert found.rules[0].missing == ("Machine failure",)
    assert "no column `Machine failure`" in found.rules[0].notes[0]
    assert found.rules[1].satisfied == 1


def test_a_missing_input_names_file_header_rules_and_the_nearest() -> None:
    text = read_bytes(b"Torque (Nm),Tool wear [min],Type,Machine failure\n40,1,L,0\n", "graz.csv")
    rules = pack(["strain"], [strain_limits()], entities=("", "a", "b", "c"))
    with pytest.raises(TableError) as caught:
        evaluate(rules, text)
    assert "graz.csv: no column `Torque [Nm]`, which rule `strain` needs" in str(caught.value)
    assert "did you mean `Torque (Nm)`?" in str(caught.value)
    skipped = evaluate(rules, text, missing="skip").rules[0]
    assert (skipped.evaluations, skipped.missing) == (0, ("Torque [Nm]",))


def test_several_missing_inputs_are_one_message() -> None:
    with pytest.raises(TableError) as caught:
        evaluate(
            pack(["strain"], [strain_limits()], entities=("", "a", "b", "c")),
            read_bytes(b"a,b\n1,2\n", "graz.csv"),
        )
    message = str(caught.value)
    assert "graz.csv: 3 columns are missing, which rule `strain` needs" in message
    assert all(
        header in message for header in ("`Torque [Nm]`", "`Tool wear [min]`", "`Type`", "`a`")
    )


def test_columns_that_no_bound_row_reads_may_be_missing() -> None:
    assert (
        evaluate(
            pack(["torque_limit"], [limits(50)], entities=("", "a")),
            read_bytes(b"Torque [Nm]\n40\n", "t.csv"),
        )
        .rules[0]
        .satisfied
        == 1
    )


def test_text_in_a_numeric_column_names_everything() -> None:
    with pytest.raises(TableError) as caught:
        evaluate(
            pack(["torque_limit"], [limits(50)], entities=("", "a")),
            table(",40,1,L,0", ",high,1,L,0", ",low,1,L,0"),
        )
    message = str(caught.value)
    for part in (
        "plant.csv",
        "`Torque [Nm]`",
        "rule `torque_limit` needs",
        '"high" in row 2 (line 3)',
        "1 more row",
    ):
        assert part in message


def test_a_rule_bound_to_nothing_and_one_about_no_row() -> None:
    keyed = bank(BELOW, [[TORQUE]], [[50.0, 1.0]], rule=0, keys=[[VARIANT]], codes=[[2]])
    found = evaluate(pack(["high_variant", "empty"], [keyed]), table(",40,1,L,0"))
    assert found.rules[0].notes == ("no row of the table is about what it is bound to",)
    assert found.rules[0].no_rows == ("no row has Type = H",)
    assert found.rules[1].notes == ("bound to nothing",)


def machines(*names: str) -> Pack:
    column = Column(name="machine", source="Maschine", type="category", vocabulary=names)
    count = len(names)
    rows = bank(
        BELOW,
        [[0]] * count,
        [[50, 1]] * count,
        rule=0,
        keys=[[1]] * count,
        codes=[[i] for i in range(count)],
    )
    rows = replace(rows, entity=np.arange(1, count + 1, dtype=np.int32))
    return pack(
        ["hot"],
        [rows],
        columns=(COLUMNS[TORQUE], column),
        entities=("", *(f"K{i}" for i in range(1, count + 1))),
    )


def test_an_entity_that_no_row_is_about_is_named() -> None:
    data = read_bytes(b"Maschine;Torque [Nm]\nKessel 1;60\nKessel 2;40\n", "plant.csv")
    found = evaluate(machines("Kessel1", "Kessel 2"), data)
    sentence = "K1: no row has Maschine = Kessel1; did you mean `Kessel 1`?"
    stranger = (
        "1 of 2 rows has a `Maschine` that no rule is bound to (Kessel 1): rules for each"
        " `Maschine` do not check them"
    )
    assert found.notes == (sentence, stranger)
    assert found.to_json()["rules"][0]["notes"] == [sentence]


def test_rows_about_machines_that_no_rule_knows_are_counted_and_named() -> None:
    lines = ["M1;40", "X;1", "Y;2", "X;3", "Z;4", "W;5", ";6", "M1;70"]
    found = evaluate(
        machines("M1"),
        read_bytes("\n".join(["Maschine;Torque [Nm]", *lines]).encode(), "plant.csv"),
    )
    about = "5 of 8 rows have a `Maschine` that no rule is bound to (X, Y, Z and 1 more)"
    assert found.notes == (
        (
            f"{about}; 1 of 8 rows has no value in `Maschine`: rules for each `Maschine` do"
            " not check them"
        ),
    )
    assert (found.rules[0].satisfied, found.rules[0].violated) == (1, 1)


def test_a_table_about_known_machines_is_no_matter() -> None:
    assert (
        evaluate(
            machines("M1", "M2"), read_bytes(b"Maschine;Torque [Nm]\nM1;60\nM2;1\n", "plant.csv")
        ).notes
        == ()
    )


def test_many_entities_without_rows_are_one_line() -> None:
    data = read_bytes(b"Maschine;Torque [Nm]\nM01;60\n", "plant.csv")
    found = evaluate(machines(*(f"M{i:02d}" for i in range(1, 31))), data)
    assert found.notes == (
        "no row is about K2, K3, K4 and 26 more: 29 of the 30 keys that the rules have",
    )


def test_keys_that_meet_in_no_row() -> None:
    keyed = bank(
        BELOW, [[TORQUE]], [[50.0, 1.0]], rule=0, keys=[[VARIANT, 4]], codes=[[0, 1]], entity=[1]
    )
    line = Column(name="line", source="Linie", type="category", vocabulary=("1", "2"))
    rules = pack(["r"], [keyed], columns=(*COLUMNS, line), entities=("", "L2"))
    data = read_bytes(b"Torque [Nm],Type,Linie\n1,L,1\n1,M,2\n", "plant.csv")
    assert evaluate(rules, data).notes == ("L2: no row has Type = L and Linie = 2",)


def test_violations_by_entity() -> None:
    rules = pack(["torque_limit"], [limits(50, 30, 90)], entities=("", "graz", "linz", "wien"))
    entry = evaluate(rules, table(",40,1,L,0", ",Bad,1,L,0", ",55,1,L,0")).to_json()["rules"][0]
    assert entry["by_entity"] == [
        {"entity": "linz", "satisfied": 0, "violated": 2, "unknown": 1},
        {"entity": "graz", "satisfied": 1, "violated": 1, "unknown": 1},
    ]
    assert entry["more_entities"] == 0


def test_at_most_a_hundred_entities_are_named() -> None:
    names = [f"pump_{i}" for i in range(130)]
    entry = evaluate(
        pack(["r"], [limits(*[5.0] * 130)], entities=("", *names)), table(",40,1,L,0")
    ).to_json()["rules"][0]
    assert (len(entry["by_entity"]), entry["more_entities"]) == (100, 30)


def test_a_table_of_no_rows() -> None:
    found = evaluate(
        pack(["torque_limit"], [limits(50)], entities=("", "a")),
        read_bytes(HEADER.encode(), "t.csv"),
    )
    assert (found.rows, found.rules[0].evaluations, found.violation_rate) == (0, 0, None)


@tries(40)
@given(data=st.data())
def test_chunks_and_groups_do_not_change_the_counts(data: st.DataObject) -> None:
    module = importlib.import_module("fedkg.evaluation.evaluate")
    rows, size = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 8))
    cell = st.sampled_from(["", "1", "2", "3.5", "7", "Bad"])
    lines = [
        f",{data.draw(cell)},{data.draw(cell)},{data.draw(st.sampled_from('LMHX'))},0"
        for _ in range(rows)
    ]
    keyed = bank(
        BELOW_STRICTLY,
        [[data.draw(st.sampled_from([TORQUE, WEAR]))] for _ in range(size)],
        [[data.draw(st.sampled_from([0.0, 2.0, 5.0])), 1.0] for _ in range(size)],
        rule=0,
        keys=[[data.draw(st.sampled_from([VARIANT, -1]))] for _ in range(size)],
        codes=[[data.draw(st.integers(0, 2))] for _ in range(size)],
        entity=range(1, size + 1),
    )
    rules = pack(["r"], [keyed], entities=("", *(f"e{i}" for i in range(size))))
    data_table = table(*lines)
    whole = evaluate(rules, data_table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SMALL", 0)
        patch.setattr(module, "EVALUATIONS", 3)
        patch.setattr(module, "CELLS", 8)
        parts = evaluate(rules, data_table)
    assert (parts.rules[0].satisfied, parts.rules[0].violated, parts.rules[0].unknown) == (
        whole.rules[0].satisfied,
        whole.rules[0].violated,
        whole.rules[0].unknown,
    )
    values = evaluate_bank(keyed, table_values(rules.manifest.contract, data_table).values)
    assert whole.rules[0].satisfied == values.satisfied.sum()
    assert whole.rules[0].violated == values.violated.sum()
    assert whole.rules[0].unknown == values.unknown.sum()
    known = values.robustness[values.satisfied | values.violated]
    for found in (whole, parts):
        assert (found.rules[0].worst is None) == (known.size == 0)
        if found.rules[0].worst is not None:
            assert found.rules[0].worst.robustness == known.min()
            assert known.min() in values.robustness[found.rules[0].worst.row - 1]


@needs_shared
def test_overstrain_is_found_row_for_row_in_the_real_table() -> None:
    found = evaluate(
        pack(["strain"], [strain_limits()], entities=("", "L", "M", "H")),
        read_table(SHARED / "data/ai4i2020/ai4i2020.csv.gz"),
    ).rules[0]
    assert (found.satisfied + found.violated, found.fired, found.violated) == (10_000, 98, 0)


def test_many_bound_rows_on_many_table_rows_stay_within_memory() -> None:
    rng = np.random.default_rng(0)
    columns = {
        "Torque [Nm]": rng.normal(40, 10, 20_000),
        "Tool wear [min]": np.ones(20_000),
        "Machine failure": np.zeros(20_000),
    }
    big = Table.of("big", {**columns, "Type": rng.choice(["L", "M", "H"], 20_000).tolist()})
    values = rng.uniform(30, 80, 300)
    found = evaluate(
        pack(["torque_limit"], [limits(*values)], entities=("", *map(str, range(300)))), big
    ).rules[0]
    assert found.evaluations == 6_000_000
    assert found.violated == sum(int((columns["Torque [Nm]"] > value).sum()) for value in values)
