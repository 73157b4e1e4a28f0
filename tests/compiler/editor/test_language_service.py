"""What the language service says about places in a file, without a server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fedkg.evaluation.example_runner import run_example
from fedkg_compiler.editor.full_check import Request, Result, check_fully
from fedkg_compiler.editor.language_service import InvalidName, LanguageService, format_text
from fedkg_compiler.editor.rule_document import RuleDocument

GRAPH = """@prefix plant: <https://example.org/plant#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix qudt: <http://qudt.org/schema/qudt/> . @prefix unit: <http://qudt.org/vocab/unit/> .
plant:Centre a rdfs:Class ; rdfs:label "Milling centre" ; rdfs:comment "It mills." ;
  fkg:keyColumn "machine" .
plant:M01 a plant:Centre ; plant:maxTorque 70.0 .
plant:M02 a plant:Centre ; plant:maxTorque 65.0 .
plant:torque a sosa:ObservableProperty ; rdfs:label "spindle torque" ;
  fkg:column "Torque [Nm]" ; qudt:hasUnit unit:N-M .
"""
RULES = """use plant
timeline step 5 min
signal torque(?machine) is plant:torque in N.m
signal `TIC 101` in degC span 0 .. 90 column "TIC 101 [°C]"
label grade classes A, "B 2" column "Grade"
constant top = 70 degC
template recovers(x, high) = if x >= high then eventually within 15 min x < high
rule torque_limit "No machine exceeds its torque."
  for ?machine, ?limit where { ?machine a plant:Centre ; plant:maxTorque ?limit }
  require torque(?machine) <= ?limit
rule cools
  allow FKG503 because "start-up"
  require follows recovers(`TIC 101`, 80 degC)
rule calm require if grade is A then `TIC 101` <= top
rule second for ?l where { plant:M02 plant:maxTorque ?l } require `Torque [Nm]` <= ?l
rule tags for ?tag, ?low in table "limits.csv"
  require ?low <= value(?tag)
example of calm fails for grade = A and `TIC 101` = 75 degC
"""


@pytest.fixture
def document(tmp_path: Path) -> RuleDocument:
    (tmp_path / "plant.ttl").write_text(GRAPH)
    (tmp_path / "limits.csv").write_text("tag,low\nTIC 101 [°C],5\n")
    (tmp_path / "data.csv").write_text("Torque [Nm];machine;TIC 101 [°C]\n1,5;M01;3\n")
    return RuleDocument(tmp_path / "rules.fkg", RULES)


def check_document(document: RuleDocument) -> Result:
    request = Request(path=str(document.path), text=document.text)
    return check_fully(request, run_example)


def place(text: str, after: str = "") -> tuple[int, int]:
    """Line and column (from 1) of the beginning of a text, the first one after another."""
    at = RULES.index(text, RULES.index(after) if after else 0)
    return RULES.count("\n", 0, at) + 1, at - RULES.rfind("\n", 0, at)


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (place("torque", "require"), "**signal torque**, in N.m, observes plant:torque"),
        (place("torque", "require"), "plant:torque “spindle torque”"),
        (place("torque", "require"), "column “Torque [Nm]”, in N.m"),
        (place("`TIC 101`", "rule calm"), "in degC, span 0 .. 90, column “TIC 101 [°C]”"),
        (place("grade", "rule calm"), "**label grade**, classes A, B 2"),
        (place("top", "rule calm"), "constant top = 70 degC"),
        (place("recovers", "rule cools"), "template recovers(x, high) = if x >= high"),
        (place("degC", "rule cools"), "**degC**"),
        (place("N.m"), "**N.m**"),
        (place("FKG503"), "**FKG503**"),
        (place("plant:Centre"), "**plant:Centre** “Milling centre”\n\nclass of plant.ttl"),
        (place("plant"), "plant.ttl"),
        (place("limits.csv"), "limits.csv"),
        (place("eventually"), "true at some later step"),
        (place("?limit", "torque_limit"), "a value of the quantifier"),
        (place("calm"), "**rule calm**"),
    ],
)  # fmt: skip
def test_hover(document: RuleDocument, at: tuple[int, int], expected: str) -> None:
    found = LanguageService().hover(document, *at)
    assert found is not None
    assert expected in found[0]


def test_hover_of_a_rule_has_the_facts_of_the_last_full_check(document: RuleDocument) -> None:
    result = check_document(document)
    service = LanguageService(rules=result.rules)

    found = service.hover(document, *place("torque_limit"))

    assert found is not None
    assert found[0].split("\n\n") == [
        "**rule torque_limit**",
        "No machine exceeds its torque.",
        "2 bound rows, about the data: M01, M02",
        "First row: torque is at most 70 N.m",
        "Robustness in N.m",
    ]


def test_a_full_check_finds_the_triples_behind_a_rule(document: RuleDocument) -> None:
    request = Request(path=str(document.path), text=document.text, origin="torque_limit")
    facts = check_fully(request, run_example).facts
    assert any("plant:M01 plant:maxTorque" in line and "plant.ttl:8" in line for line in facts)


def test_a_full_check_runs_the_examples(document: RuleDocument) -> None:
    [example] = check_fully(
        Request(path=str(document.path), text=document.text), run_example
    ).examples
    assert (example.line, example.passed, example.text) == (18, True, "fails, as expected")


@pytest.mark.parametrize(
    ("at", "file", "line", "column"),
    [
        (place("torque", "require"), "rules.fkg", 3, 8),
        (place("`TIC 101`", "rule calm"), "rules.fkg", 4, 8),
        (place("recovers", "rule cools"), "rules.fkg", 7, 10),
        (place("calm", "example"), "rules.fkg", 14, 6),
        (place("limits.csv"), "limits.csv", 1, 1),
        (place("?low", "require ?low"), "limits.csv", 1, 5),
        (place("?limit", "require"), "rules.fkg", 9, 17),
        (place("plant:Centre"), "plant.ttl", 6, 1),
        (place("plant"), "plant.ttl", 1, 1),
        (place("plant:M02"), "plant.ttl", 9, 1),
        (place("TIC 101 [°C]", "column"), "data.csv", 1, 21),
        (place("`Torque [Nm]`"), "data.csv", 1, 1),
    ],
)
def test_definition(
    document: RuleDocument, at: tuple[int, int], file: str, line: int, column: int
) -> None:
    span = LanguageService().definition(document, *at)
    assert span is not None
    assert (Path(span.file).name, span.line, span.column) == (file, line, column)


def test_an_ontology_of_the_catalogue_is_defined_in_its_file(tmp_path: Path) -> None:
    document = RuleDocument(tmp_path / "x.fkg", "use mason\nrule a require x <= 1\n")
    span = LanguageService().definition(document, 1, 5)
    assert span is not None
    assert Path(span.file).name == "mason.ttl"


def rename(document: RuleDocument, at: tuple[int, int], name: str) -> str:
    """The text after a rename."""
    edits = LanguageService().rename(document, *at, name)
    lines = document.text.split("\n")
    for edit in sorted(edits, key=lambda one: one.span, reverse=True):
        line = lines[edit.span.line - 1]
        before, after = line[: edit.span.column - 1], line[edit.span.end_column - 1 :]
        assert line[edit.span.column - 1 : edit.span.end_column - 1] == edit.was
        lines[edit.span.line - 1] = before + edit.text + after
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("at", "name", "old", "new"),
    [
        (place("`TIC 101`", "rule cools"), "oven", "`TIC 101`", "oven"),
        (place("torque", "require"), "load", "torque(?machine)", "load(?machine)"),
        (place("`TIC 101`", "rule cools"), "oven 2", "`TIC 101`", "`oven 2`"),
        (place("`TIC 101`", "rule cools"), "if", "`TIC 101`", "`if`"),
        (place("top", "rule calm"), "limit", "top", "limit"),
        (place("recovers"), "returns", "recovers", "returns"),
        (place("calm"), "quiet", "calm", "quiet"),
        (place("?limit", "torque_limit"), "most", "?limit", "?most"),
    ],
)
def test_rename_changes_every_place_and_nothing_else(
    document: RuleDocument, at: tuple[int, int], name: str, old: str, new: str
) -> None:
    assert rename(document, at, name) == RULES.replace(old, new)


@pytest.mark.parametrize(
    ("at", "name", "message"),
    [
        (place("N.m"), "Nm", "only signals"),
        (place("torque"), "top", "exists already"),
        (place("calm"), "two words", "is not a name"),
        (place("top"), "", "is not a name"),
        (place("torque"), "load nm", "cannot be in every place"),
    ],
)
def test_rename_refuses(
    document: RuleDocument, at: tuple[int, int], name: str, message: str
) -> None:
    with pytest.raises(InvalidName, match=message):
        LanguageService().rename(document, *at, name)


TEMPLATES = """signal pressure in bar
template inside(x, low, high) = always low <= x <= high
rule r require follows inside(pressure, low = 0 bar, high = 9 bar)
example of inside holds for x = 1 2 3 bar and low = 1 bar and high = 4 bar
infer z per client find ?least, ?high in inside(pressure, ?least, ?high)
rule s for ?m, ?most in table "t.csv" require level(?m) never falls as age(?m) rises
rule t for ?most in table "t.csv" require pressure <= ?most
example of t holds for most = 4 bar and pressure = 2 bar
rule v for ?pressure in table "t.csv" require value(?pressure) <= level(?pressure)
example of v holds for value(?pressure) = 3 bar and `pressure` = 4 bar
"""


@pytest.mark.parametrize(
    ("at", "name", "pattern", "lines"),
    [
        ((4, 12), "within2", r"\binside\b", (2, 3, 4, 5)),
        ((2, 17), "y", r"\bx\b", (2, 4)),
        ((4, 47), "least", r"\blow\b", (2, 3, 4)),
        ((5, 26), "low", r"(?<=\?)least", (5,)),
        ((6, 12), "each", r"(?<=\?)m\b", (6,)),
        ((7, 12), "limit", r"\bmost\b", (7, 8)),
        ((9, 12), "tag", r"(?<=\?)pressure", (9, 10)),
    ],
)
def test_rename_knows_the_parts_of_templates_and_variables(
    tmp_path: Path, at: tuple[int, int], name: str, pattern: str, lines: tuple[int, ...]
) -> None:
    expected = TEMPLATES.split("\n")
    for line in lines:
        expected[line - 1] = re.sub(pattern, name, expected[line - 1])
    assert rename(RuleDocument(tmp_path / "x.fkg", TEMPLATES), at, name).split("\n") == expected


def test_rename_keeps_apart_a_signal_and_the_parameter_of_a_template(tmp_path: Path) -> None:
    document = RuleDocument(tmp_path / "x.fkg", "signal a\ntemplate t(x) = x >= a\n")
    assert rename(document, (1, 8), "x") == "signal `x`\ntemplate t(x) = x >= `x`\n"
    with pytest.raises(InvalidName, match="means something else"):
        LanguageService().rename(document, 2, 12, "a")


@pytest.mark.parametrize(
    ("typed", "label", "kind"),
    [
        ("ru", "rule", "keyword"),
        ("rule y require to", "torque", "value"),
        ("rule y require follows ", "recovers", "template"),
        ("rule y require top <= 5 deg", "degF", "unit"),
        ("signal z in ", "kg/h", "unit"),
        ("rule y for ?a in class plant:", "plant:Centre", "term"),
        ('signal z column "', "Torque [Nm]", "column"),
        ("rule y require `Tor", "Torque [Nm]", "column"),
        ("rule y require `TIC 101` <= `", "TIC 101", "value"),
        ("use ma", "mason", "ontology"),
        ("use pl", "plant", "ontology"),
        ("rule y require grade is ", "B 2", "class"),
        ("rule y require sq", "sqrt", "function"),
        ("example of ", "calm", "rule"),
        ("example of ", "recovers", "template"),
        ("use rules templates.", "templates.operational_range", "template"),
        ("signal a is ", "plant:torque", "term"),
        ("signal a is <urn:x:T>\nsignal b is ", "<urn:x:T>", "term"),
        ("rule y allow ", "FKG503", "code"),
        ('rule y for ?a in table "', "limits.csv", "file"),
        (
            'rule y for ?tag, ?high in table "limits.csv" require value(?tag) <= ?',
            "high",
            "variable",
        ),
        ("rule y require plant:", "plant:Centre", "term"),
        ("rule y require grade in ", "B 2", "class"),
    ],
)
def test_completion(document: RuleDocument, typed: str, label: str, kind: str) -> None:
    text = f"{RULES}{typed}"
    document = RuleDocument(document.path, text)
    line = text.count("\n") + 1
    found = LanguageService().complete(document, line, len(text.split("\n")[-1]) + 1)
    assert [one.kind for one in found if one.label == label] == [kind]


def test_what_is_typed_and_what_is_rejected_are_not_offered(document: RuleDocument) -> None:
    for name in ("a.omn", "a.rq", "a.sparql"):
        (document.path.parent / name).touch()
    for typed, labels in (
        ("signal b is Te", {"Te"}),
        ("rule y for ?a in class plant:Ce", {"plant:Ce"}),
        ('shapes "', {"a.omn", "a.rq"}),
    ):
        document = RuleDocument(document.path, f"{RULES}{typed}")
        found = LanguageService().complete(document, RULES.count("\n") + 1, len(typed) + 1)
        assert found
        assert not labels & {one.label for one in found}
    document = RuleDocument(document.path, f'{RULES}queries "')
    found = LanguageService().complete(document, RULES.count("\n") + 1, 10)
    assert [one.label for one in found] == ["a.rq", "a.sparql"]


@pytest.mark.parametrize("typed", ["# as measured in ", 'rule y "', 'rule y "Never in '])
def test_nothing_is_offered_in_comments_and_titles(document: RuleDocument, typed: str) -> None:
    document = RuleDocument(document.path, f"{RULES}{typed}")
    assert LanguageService().complete(document, RULES.count("\n") + 1, len(typed) + 1) == []


@pytest.mark.parametrize("typed", ["example of ", "rule y require follows "])
def test_only_names_of_the_right_kind_are_offered(document: RuleDocument, typed: str) -> None:
    document = RuleDocument(document.path, f"{RULES}{typed}")
    found = LanguageService().complete(document, RULES.count("\n") + 1, len(typed) + 1)
    assert {one.kind for one in found} <= {"rule", "template"}


def test_terms_without_a_definition_are_offered_and_described(tmp_path: Path) -> None:
    (tmp_path / "site.ttl").write_text("@prefix b: <https://b.test/> . b:x a b:AHU .\n")
    text = "use site\nprefix b: <https://b.test/>\nrule a for ?u in class b:AHU require y <= 1\n"
    document = RuleDocument(tmp_path / "x.fkg", f"{text}rule c for ?u in class b:")
    found = LanguageService().complete(document, 4, 26)
    assert [(one.label, one.text) for one in found if one.label == "b:AHU"] == [("b:AHU", "AHU")]
    hover = LanguageService().hover(RuleDocument(tmp_path / "x.fkg", text), 3, 25)
    assert hover is not None
    assert "used in the graph" in hover[0]


def test_fixes_are_offered_on_the_lines_of_their_diagnostic(tmp_path: Path) -> None:
    document = RuleDocument(tmp_path / "x.fkg", "signal x in bar\n\nrule a require x <= 5 Bar\n")
    diagnostics = check_fully(
        Request(path=str(document.path), text=document.text), run_example
    ).diagnostics
    service = LanguageService()
    [action] = service.actions(diagnostics, document, 3, 3)
    assert [(edit.was, edit.text) for edit in action.edits] == [("Bar", "bar")]
    assert service.actions(diagnostics, document, 1, 2) == []


def test_formatting_is_that_of_fmt_and_leaves_broken_files(tmp_path: Path) -> None:
    path = tmp_path / "x.fkg"
    assert format_text(RuleDocument(path, "rule a  require x<=5\n")) == "rule a  require x <= 5\n"
    assert format_text(RuleDocument(path, "rule a require\n")) is None
