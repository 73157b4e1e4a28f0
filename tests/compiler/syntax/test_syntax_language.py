"""The whole language parses into the typed tree."""

from __future__ import annotations

from pathlib import Path

import pytest
from shared import SHARED, needs_shared

from fedkg_compiler.frontends.fkg.syntax import parse, tree
from fedkg_compiler.frontends.fkg.syntax.tree import RuleFile, Statement

LANGUAGE = Path(__file__).parents[2] / "golden" / "language"
FILES = sorted(LANGUAGE.glob("*.fkg"))


def read(path: Path) -> RuleFile:
    found, problems = parse(path.read_text(encoding="utf-8"), path.name)
    assert problems == ()
    return found


def one(text: str) -> Statement:
    found, problems = parse(text, "a.fkg")
    assert problems == ()
    (statement,) = found.statements
    return statement


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_files_parse(path: Path) -> None:
    found = read(path)
    assert found.statements
    assert found.lost == ()


@needs_shared
@pytest.mark.parametrize("name", ["examples.fkg", "plant.fkg"])
def test_the_reference_files_parse(name: str) -> None:
    assert read(SHARED / "language" / name).statements


def test_every_node_of_the_tree_occurs_in_the_files() -> None:
    seen: set[str] = set()

    def walk(value: object) -> None:
        if isinstance(value, tree.Tree):
            seen.add(type(value).__name__)
            for name in value.__dataclass_fields__:
                walk(getattr(value, name))
        elif isinstance(value, tuple):
            for item in value:
                walk(item)

    for path in FILES:
        walk(read(path).statements)
    nodes = {
        name
        for name, kind in vars(tree).items()
        if isinstance(kind, type) and issubclass(kind, tree.Tree)
    }
    assert nodes - seen == {"Tree", "Operator", "Lost"}


def test_declarations() -> None:
    use = one("use isa95, mason")
    assert isinstance(use, tree.Use)
    assert [name.text for name in use.names] == ["isa95", "mason"]
    assert not use.rules
    use = one("use rules isa95.capacity")
    assert isinstance(use, tree.Use)
    assert [name.text for name in use.names] == ["isa95.capacity"]
    assert use.rules
    prefix = one("prefix plant: <https://example.org/plant#>")
    assert isinstance(prefix, tree.Prefix)
    assert (prefix.name.text, prefix.iri.text) == ("plant", "https://example.org/plant#")
    line = one('timeline trace column "heat" step 5 min time column "Zeit"')
    assert isinstance(line, tree.Timeline)
    assert line.step
    assert line.step.value == 5
    assert line.step.unit
    assert line.step.unit.text == "min"
    assert line.time
    assert line.trace
    assert (line.time.text, line.trace.text) == ("Zeit", "heat")
    rows = one("rows are Part")
    assert isinstance(rows, tree.RowsAre)
    assert (rows.term.text, rows.term.form) == ("Part", "name")
    load = one('queries "legacy/*.rq"')
    assert isinstance(load, tree.Load)
    assert (load.what, load.path.text) == ("queries", "legacy/*.rq")


def test_signals() -> None:
    signal = one(
        'output temperature(?zone) column "T \\"in\\" \\u00b0C" span -5 .. 1.5e3 in degC is'
        " <https://e.org/t>"
    )
    assert isinstance(signal, tree.Signal)
    assert signal.role == "output"
    assert signal.head.variable is not None
    assert (signal.head.name.text, signal.head.variable.text) == ("temperature", "zone")
    assert signal.bounds == (-5.0, 1500.0)
    assert signal.unit is not None
    assert signal.unit.text == "degC"
    assert signal.column is not None
    assert signal.column.text == 'T "in" °C'
    assert signal.term is not None
    assert (signal.term.text, signal.term.form) == ("https://e.org/t", "iri")
    tag = one("signal `TIC-101.PV`")
    assert isinstance(tag, tree.Signal)
    assert tag.head.quoted
    assert tag.head.name.text == "TIC-101.PV"
    assert tag.role == "input"
    label = one('label grade classes A, "B 1"')
    assert isinstance(label, tree.Label)
    assert [word.text for word in label.classes] == ["A", "B 1"]


def test_rules() -> None:
    text = (
        'rule r "Title"\n  weight 2 hard\n  for ?a, ?b in table "l.csv" kind capacity\n  require ?a'
        " <= x   # end\n\n# next\n"
    )
    rule = one(text)
    assert isinstance(rule, tree.Rule)
    assert rule.title is not None
    assert rule.title.text == "Title"
    assert rule.weight is not None
    assert rule.weight.value == 2
    assert rule.hard
    assert rule.kind is not None
    assert rule.kind.text == "capacity"
    assert rule.quantifier is not None
    assert [word.text for word in rule.quantifier.variables] == ["a", "b"]
    assert isinstance(rule.quantifier.source, tree.InTable)
    assert rule.quantifier.source.path.text == "l.csv"
    assert rule.text == text[: text.index("   # end")]


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("where { ?a ?b ?c }", tree.Pattern),
        ("in class plant:Pump", tree.InClass),
        ('in table "a.csv"', tree.InTable),
        ('in query "a.rq"', tree.InQuery),
    ],
)
def test_quantifiers(source: str, kind: type) -> None:
    rule = one(f"rule r for ?a {source} require x >= 1")
    assert isinstance(rule, tree.Rule)
    assert rule.quantifier is not None
    assert isinstance(rule.quantifier.source, kind)


def test_the_text_of_a_pattern_is_kept_as_it_is() -> None:
    inner = " ?a plant:n \"}\" . # }\n   { ?a <https://e.org/#x> ?b } FILTER(?b<5&&?b>1) '''}''' "
    rule = one(f"rule r for ?a where {{{inner}}} require x >= 1")
    assert isinstance(rule, tree.Rule)
    assert rule.quantifier is not None
    assert isinstance(rule.quantifier.source, tree.Pattern)
    assert rule.quantifier.source.text == inner


def test_knowledge() -> None:
    text = (
        "range knowledge g of grade when a > 1 % allow C, D when a < 0 allow -1 .. 2 bar otherwise"
        " allow any"
    )
    found = one(text)
    assert isinstance(found, tree.RangeKnowledge)
    assert len(found.clauses) == 2
    assert [word.text for word in found.clauses[0][1].classes] == ["C", "D"]
    assert found.clauses[1][1].interval == (-1.0, 2.0)
    assert found.otherwise is not None
    assert found.otherwise == tree.Choice(span=found.otherwise.span)
    predict = one(
        "predict knowledge g of grade for ?x in class plant:P when a > 1 predict A otherwise"
        " predict 2 * b"
    )
    assert isinstance(predict, tree.PredictKnowledge)
    assert predict.quantifier is not None
    assert isinstance(predict.otherwise, tree.Arithmetic)
    assert isinstance(predict.clauses[0][1], tree.Reference)
    template = one("template t(x, low) = x >= low")
    assert isinstance(template, tree.Template)
    assert [word.text for word in template.parameters] == ["x", "low"]
    infer = one("infer i per client find ?low, ?high in t(x, ?low, 2 h)")
    assert isinstance(infer, tree.Infer)
    assert len(infer.variables) == 2
    assert infer.per.text == "client"
    assert infer.call.name.text == "t"
    keep = one("set s for ?c, ?r where { ?c a ?r } keep model.parameters in l1_ball(radius = ?r)")
    assert isinstance(keep, tree.KeepSet)
    assert keep.target.text == "model.parameters"
    assert keep.call.named[0][0].text == "radius"
    cause = one("cause c for ?a, ?b where { ?a ?x ?b } allow ?a drives ?b lag 10 min")
    assert isinstance(cause, tree.Cause)
    assert (cause.driver.text, cause.driven.text) == ("a", "b")
    assert cause.lag is not None
    example = one("example of r holds for `PT-101.PV` = -7 9 5 bar and flow(?p) = 1 1")
    assert isinstance(example, tree.Example)
    assert example.holds
    assert example.series[0].values == (-7.0, 9.0, 5.0)
    assert example.series[1].unit is None
    assert example.series[1].head.variable is not None


def test_what_broken_statements_would_have_declared_is_known() -> None:
    text = (
        "use isa95, mason x\nprefix plant <https://e.org/>\nsignal torque in N m\nsignal `T 1` in"
        " N m\n"
    )
    text += "rul wear require x\nlabel grade clases A\nbanana\n"
    found, problems = parse(text, "a.fkg")
    assert len(problems) == 7
    assert [(lost.word, lost.names) for lost in found.lost] == [
        ("use", ("isa95", "mason", "x")),
        ("prefix", ("plant",)),
        ("signal", ("torque",)),
        ("signal", ("T 1",)),
        ("rule", ("wear",)),
        ("label", ("grade",)),
    ]
