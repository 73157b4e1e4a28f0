"""`fedkg explain RULE` and `fedkg diff`: words and example values that the interpreter confirms."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Command

OLD = """\
signal torque in N.m span 0 .. 100
signal speed in rpm
signal `steam` in bar
rule a require torque <= 60 N.m
rule b require speed <= 10 rpm
rule c require torque * speed <= 100
rule gone require torque >= 1 N.m
rule was require torque >= 2 N.m
rule w weight 2 require if speed > 3 rpm then torque > 5
rule p require steam <= 6 bar
"""
NEW = """\
signal torque in N.m span 0 .. 100
signal speed in rpm
signal `steam` in bar
rule a require torque <= 55 N.m
rule b require not (speed > 10 rpm)
rule c require torque * speed <= 120 and torque <= 30
rule is_now require torque >= 2 N.m
rule fresh require speed >= 2
rule w weight 3 require if speed > 3 rpm then torque > 5
rule p require steam <= 700 kPa
"""


def test_what_a_limit_requires(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "old.fkg").write_text(OLD)
    lines = fedkg("explain", "a", "old.fkg").out.splitlines()
    assert lines[0] == "a"
    assert "  about     the data, 1 bound row" in lines
    assert "  requires  torque is at most 60 N.m" in lines
    assert "  formula   torque <= 60  (in N.m)" in lines
    assert lines[-2:] == ["  satisfied torque = 59 N.m", "  violated  torque = 61 N.m"]


def test_what_lower_bounds_require(fedkg: Command, tmp_path: Path) -> None:
    limits = {
        "in bar span 0 .. 20": (">= 10 bar", 11, 9),
        "in bar span 0.. 20": ("> 12 bar", 13, 11),
        "in degC span 0 .. 120": (">= 50 degC", 51, 49),
        "span 1 .. 20": (">= 12", 13, 11),
        "in bar": (">= 10 bar", 11, 9),
        "in bar span 0 ..20": ("> 0 bar", 1, 0),
        "in bar span 0 .. 20.0": ("< 20 bar", 19, 20),
    }
    for span, (bound, inside, outside) in limits.items():
        (tmp_path / "low.fkg").write_text(f"signal p {span}\nrule half require p {bound}\n")
        found = fedkg("explain", "half", "low.fkg", "--json").json
        shown = [
            (example["replayed"], example["readings"][0]["value"])
            for example in (found["keeps"], found["breaks"])
        ]
        assert shown == [(True, inside), (True, outside)]


@pytest.mark.parametrize(
    ("unit", "limit", "words"),
    [("degC", "20 degC", "t[h] is at most 68 degF"), ("K", "300 K", "t[h] is at most 80.33 degF")],
)
def test_a_limit_of_converted_temperatures_has_not_the_unit_of_the_margin(
    fedkg: Command, tmp_path: Path, unit: str, limit: str, words: str
) -> None:
    (tmp_path / "rooms.ttl").write_text(
        "@prefix : <https://example.org/plant#> .\n"
        "@prefix brick: <https://brickschema.org/schema/Brick#> .\n"
        "@prefix unit: <http://qudt.org/vocab/unit/> .\n"
        ":h a brick:AHU ; brick:hasPoint :s .\n"
        ":s a brick:Supply_Air_Temperature_Sensor ; brick:hasUnit unit:DEG_F ;\n"
        '  brick:timeseries [ brick:hasTimeseriesId "S" ] .\n'
    )
    (tmp_path / "hot.fkg").write_text(
        "use rooms\nprefix brick: <https://brickschema.org/schema/Brick#>\n"
        f"signal t(?ahu) is brick:Supply_Air_Temperature_Sensor in {unit}\n"
        "rule hot for ?point in class brick:Supply_Air_Temperature_Sensor"
        f" require value(?point) <= {limit}\n"
    )
    lines = fedkg("explain", "hot", "hot.fkg", "--entity", "s").out.splitlines()
    assert f"  requires  {words}" in lines
    assert any(line.endswith("(margin in degR)") for line in lines)


def test_where_numbers_of_expressions_come_from(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "pumps.ttl").write_text(
        "@prefix : <https://example.org/plant#> .\n:PU1 a :Pump ; :maxPressure 8 "
        ".\n:PU2 a :Pump ; :maxPressure 9 .\n"
    )
    (tmp_path / "pumps.fkg").write_text(
        "prefix plant: <https://example.org/plant#>\nsignal p in bar\nrule safe\n  for "
        "?pump, # each pump\n      ?max where { ?pump a plant:Pump ; plant:maxPressure "
        "?max } require p <= 0.95 * ?max\nrule inner for ?max where { ?pump "
        "plant:maxPressure ?max } require p <= max(0.95 * (?max), 2)\nrule one for ?max "
        "where { plant:PU2 plant:maxPressure ?max } require p <= ?max\n"
    )
    source = "?max: from the graph, for each of its entities"
    ranges = [source, "the numbers made from them range over 7.6 .. 8.55"]
    for rule, numbers in {"safe": ranges, "inner": ranges, "one": [source, "?max is 9"]}.items():
        assert fedkg("explain", rule, "pumps.fkg", "pumps.ttl", "--json").json["numbers"] == numbers


def test_numbers_of_columns_in_different_units_are_told_by_unit(
    fedkg: Command, tmp_path: Path
) -> None:
    (tmp_path / "kilns.ttl").write_text(
        "@prefix : <https://example.org/plant#> . @prefix fkg: <https://w3id.org/fedkg/ns#> .\n"
        "@prefix qudt: <http://qudt.org/schema/qudt/> .\n"
        "@prefix unit: <http://qudt.org/vocab/unit/> .\n"
        + "".join(
            f":t{i} fkg:column 't{i}' ; qudt:hasUnit unit:{unit} ; :max"
            f" [ qudt:numericValue {most} ; qudt:unit unit:{unit} ] .\n"
            for i, (unit, most) in enumerate([("DEG_F", 392), ("DEG_C", 200), ("DEG_C", 250)])
        )
    )
    (tmp_path / "kilns.fkg").write_text(
        "prefix plant: <https://example.org/plant#>\n"
        "rule hot for ?t, ?m where { ?t plant:max ?m } require value(?t) <= ?m\n"
    )
    assert fedkg("explain", "hot", "kilns.fkg", "kilns.ttl", "--json").json["numbers"][1:] == [
        "in degF: ?m is 392",
        "in degC: they range over 200 .. 250",
    ]


def test_what_a_condition_requires(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "old.fkg").write_text(OLD)
    found = fedkg("explain", "w", "old.fkg", "--json").json
    assert found["words"] == "whenever speed is above 3 rpm, then torque is above 5 N.m"
    assert found["numbers"] == ["its numbers are written in the rule itself"]
    for example, kept in ((found["keeps"], True), (found["breaks"], False)):
        assert example["replayed"]
        speed, torque = (reading["value"] for reading in example["readings"])
        assert speed > 3
        assert (torque > 5) is kept


def test_rules_of_entities(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text("tag,high\nT1,60\nT2,80\n")
    (tmp_path / "sheet.fkg").write_text(
        'rule limit for ?tag, ?high in table "limits.csv" require value(?tag) <= ?high\n'
    )
    found = fedkg("explain", "limit", "sheet.fkg", "--entity", "t2", "--json").json
    assert (found["entity"], found["entities"], found["words"]) == (
        "T2",
        ["T1", "T2"],
        "T2 is at most 80",
    )
    assert found["numbers"] == [
        "?high: from the sheet limits.csv, for each of its entities",
        "they range over 60 .. 80",
    ]
    assert "did you mean `T1`?" in fedkg("explain", "limit", "sheet.fkg", "--entity", "T11").err


def test_entities_with_one_label_have_prefixed_names(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "kilns.ttl").write_text(
        "@prefix : <https://example.org/plant#> . @prefix fkg: <https://w3id.org/fedkg/ns#> .\n"
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        ':t1 a :T ; rdfs:label "Temperature" ; fkg:column "a" .\n'
        ':t2 a :T ; rdfs:label "Temperature" ; fkg:column "b" .\n'
        ':t3 a :T ; rdfs:label "Outside" ; fkg:column "c" .\n'
    )
    (tmp_path / "kilns.fkg").write_text(
        "prefix plant: <https://example.org/plant#>\n"
        "rule hot for ?t in class plant:T require value(?t) <= 9\n"
    )
    for asked, name in {"t2": "plant:t2", "plant:t1": "plant:t1", "outside": "Outside"}.items():
        found = fedkg("explain", "hot", "kilns.fkg", "kilns.ttl", "--entity", asked, "--json").json
        assert found["entity"] == name
        assert found["entities"] == ["plant:t1", "plant:t2", "Outside"]
    done = fedkg("explain", "hot", "kilns.fkg", "kilns.ttl", "--entity", "Temperature")
    assert (done.code, "plant:t1, plant:t2, Outside" in done.err) == (2, True)
    assert fedkg("check", "kilns.fkg", "kilns.ttl").out.startswith("kilns.fkg, kilns.ttl: clean")


def test_each_variable_of_a_sheet_has_its_own_range(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text("low,high\n1,10\n5,30\n2,20\n")
    source = "?low, ?high: from the sheet limits.csv, for each of its entities"
    for rule, numbers in {
        "require x <= ?high and x >= ?low": "?low ranges over 1 .. 5; ?high ranges over 10 .. 30",
        "require if x >= 3 bar then ?low <= y <= ?high": (
            "?low ranges over 1 .. 5; ?high ranges over 10 .. 30"
        ),
        "require x + ?low <= ?high": "the numbers made from them range over 1 .. 5; 10 .. 30",
    }.items():
        text = (
            "signal x in bar\nsignal y in bar\nrule both for ?low, ?high in table "
            f'"limits.csv" {rule}\n'
        )
        (tmp_path / "both.fkg").write_text(text)
        assert fedkg("explain", "both", "both.fkg", "--json").json["numbers"] == [source, numbers]


def test_a_rule_of_this_folder_and_one_that_is_not_there(fedkg: Command) -> None:
    done = fedkg("explain", "strong")
    assert done.out.startswith("strong: No torque above 70 N.m.\n")
    for title in ("No torque above 70 N.m.", "no torque above 70 N.m"):
        assert fedkg("explain", title).out == done.out
    assert done.err == "using the files in this folder: rules.fkg\n"
    assert fedkg("explain", "strong", "rules.fkg").err == ""
    missed = fedkg("explain", "stron", "rules.fkg")
    assert missed.code == 2
    assert "did you mean `strong`?" in missed.err


def test_files_of_the_folder_that_do_not_belong_together_are_distinguished(
    fedkg: Command, tmp_path: Path
) -> None:
    (tmp_path / "other.fkg").write_text(
        "signal torque in N.m\nrule gentle require torque <= 60 N.m\n"
    )
    done = fedkg("explain", "strong")
    assert done.code == 1
    assert "list those of the rule: fedkg explain strong rules.fkg\n" in done.err
    assert "is declared twice" in done.err
    assert fedkg("explain", "strong", "rules.fkg").code == 0


def test_all_rule_files_and_graphs_of_the_folder_are_taken_and_named(
    fedkg: Command, tmp_path: Path
) -> None:
    (tmp_path / "more.fkg").write_text("rule weak require torque <= 80 N.m\n")
    (tmp_path / "plant.ttl").write_text(
        "<https://example.org/K1> a <https://example.org/Kessel> .\n"
    )
    (tmp_path / "page.xml").write_text("<page/>")
    done = fedkg("explain", "weak")
    assert (done.code, done.err) == (
        0,
        "using the files in this folder: more.fkg, rules.fkg, plant.ttl\n",
    )
    assert done.out.startswith("weak\n")


def test_inspect_takes_several_files(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "more.fkg").write_text("rule weak require torque <= 80 N.m\n")
    (tmp_path / "plant.ttl").write_text(
        "<https://example.org/K1> a <https://example.org/Kessel> .\n"
    )
    done = fedkg("inspect", "rules.fkg", "more.fkg", "plant.ttl")
    assert done.code == 0
    assert done.out.startswith("rules.fkg, more.fkg, plant.ttl  4 rules")
    names = [
        rule["rule"] for rule in fedkg("inspect", "rules.fkg", "more.fkg", "--json").json["rules"]
    ]
    assert sorted(names) == ["strain", "strong", "weak", "wear_risk"]
    assert fedkg("compile", "rules.fkg", "-o", "a.fkgpack").code == 0
    mixed = fedkg("inspect", "a.fkgpack", "more.fkg")
    assert (mixed.code, "cannot be combined with rule files" in mixed.err) == (2, True)


def test_diff_classifies_the_change_of_each_rule(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "old.fkg").write_text(OLD)
    (tmp_path / "new.fkg").write_text(NEW)
    done = fedkg("diff", "old.fkg", "new.fkg", "--json")
    found = {one["name"]: one for one in done.json["rules"]}
    assert done.code == 1
    changes = {name: one["change"] for name, one in found.items()}
    assert changes == {
        "a": "stricter",
        "b": "same",
        "c": "changed",
        "is_now": "renamed",
        "fresh": "added",
        "w": "same",
        "p": "looser",
        "gone": "removed",
    }
    assert found["is_now"]["was"] == "was"
    assert found["w"]["settings"] == ["weight 2 -> 3"]
    assert found["a"]["accepted_by"] == "old"
    assert 55 < found["a"]["readings"][0]["value"] <= 60
    assert found["p"]["accepted_by"] == "new"
    lines = fedkg("diff", "old.fkg", "new.fkg").out.splitlines()
    assert "a: stricter" in lines
    assert "  torque <= 60 N.m -> torque <= 55 N.m" in lines


def test_the_same_meaning_ends_with_nothing(fedkg: Command, tmp_path: Path) -> None:
    (tmp_path / "a.fkg").write_text("signal p in bar\nrule r require p <= 6 bar\n")
    (tmp_path / "b.fkg").write_text("# other words\nsignal p in bar\nrule r require 600 kPa >= p\n")
    done = fedkg("diff", "a.fkg", "b.fkg")
    assert (done.code, done.out) == (
        0,
        "r: means the same, in other words\na.fkg and b.fkg mean the same\n",
    )
    assert fedkg("compile", "a.fkg", "-o", "a.fkgpack").code == 0
    assert fedkg("diff", "a.fkgpack", "b.fkg").code == 0


def test_some_entities_became_stricter(fedkg: Command, tmp_path: Path) -> None:
    rule = 'rule limit for ?tag, ?high in table "{}" require value(?tag) <= ?high\n'
    for name, second in (("one", 80), ("two", 70)):
        (tmp_path / f"{name}.csv").write_text(f"tag,high\nT1,60\nT2,{second}\nT3,90\n")
        (tmp_path / f"{name}.fkg").write_text(rule.format(f"{name}.csv"))
    lines = fedkg("diff", "one.fkg", "two.fkg").out.splitlines()
    assert lines[:2] == ["limit: stricter for 1 of 3 entities", "  T2: T2 <= 80 -> T2 <= 70"]
    assert lines[2].endswith(" was accepted and is now rejected")
