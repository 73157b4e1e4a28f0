"""Words of the language as names of signals: where they work, and the message where they do not."""

from __future__ import annotations

import pytest

from fedkg_compiler.frontends.fkg.syntax import parse, tree

# everywhere that accepts a value, including the beginning of a condition
FREE = (
    *(
        "in",
        "follows",
        "all",
        "any",
        "at",
        "least",
        "closed",
        "scope",
        "ends",
        "between",
        "model",
        "from",
        "unknown",
        "public",
        "client",
    ),
    *(
        "of",
        "over",
        "where",
        "class",
        "table",
        "until",
        "since",
        "is",
        "never",
        "require",
        "then",
        "kind",
        "rule",
        "per",
        "when",
        "allow",
    ),
)
# prefix words: not at the beginning of a condition
PREFIX = (
    "always",
    "eventually",
    "once",
    "historically",
    "next",
    "previous",
    "initially",
    "if",
    "not",
)
PLACES = (
    "signal {} in bar",
    "rule {} require x >= 1",
    "rule r require 1 <= {}",
    "rule r require 1 <= x + {} * 2",
    "rule r require f({}, a = {}) >= 1",
    "rule r require x never falls per {} as {} rises",
    "label {} classes A, {}",
    "rule r require x is {}",
    "rule r require x in A, {}",
    "example of {} holds for {} = 7 9 bar and {}(?p) = A B",
    "template {}({}) = x >= 1",
)
BEGINNINGS = (
    "rule r require {} >= 1",
    "rule r require {}(?p) >= 1 and {} <= 2",
    "rule r require {} in A, B and {} is C",
    "rule r require if {} >= 1 then x >= 1 until {} >= 2",
    "rule r require x >= 1 since {} - 1 >= 2",
    "rule r require always ({} + 1 <= 3 or {} never falls)",
    "rule r require all of ({} >= 1) over ?p in class T",
)


@pytest.mark.parametrize("word", [*FREE, *PREFIX])
def test_words_are_names_where_a_name_may_stand(word: str) -> None:
    for place in (
        PLACES if word != "not" else [place for place in PLACES if " is {}" not in place]
    ):  # `is not` is a different operator
        assert parse(place.format(*[word] * 5), "a.fkg")[1] == (), place


@pytest.mark.parametrize("word", FREE)
def test_words_begin_conditions(word: str) -> None:
    for place in BEGINNINGS:
        assert parse(place.format(*[word] * 5), "a.fkg")[1] == (), place


@pytest.mark.parametrize("word", [*PREFIX, "past"])
def test_a_reserved_word_as_a_name_gives_one_error(word: str) -> None:
    (problem,) = parse(f"rule r require {word} >= 1", "a.fkg")[1]
    assert problem.message
    assert problem.help


def test_an_inch_is_still_a_unit() -> None:
    file, problems = parse("rule r require x <= 5 in and in in A", "a.fkg")
    assert problems == ()
    (rule,) = file.statements
    assert isinstance(rule, tree.Rule)
    assert isinstance(rule.formula, tree.AllOf)
    compare, member = rule.formula.args
    assert isinstance(compare, tree.Comparison)
    assert isinstance(member, tree.Membership)
    inches = compare.operands[1]
    assert isinstance(inches, tree.Quantity)
    assert inches.unit is not None
    assert inches.unit.text == "in"


def test_classes_with_names_of_words_stand_in_quotes() -> None:
    file, problems = parse(
        'range knowledge g of y in table "t" otherwise allow "any", "between"', "a.fkg"
    )
    assert problems == ()
    (found,) = file.statements
    assert isinstance(found, tree.RangeKnowledge)
    assert found.otherwise is not None
    assert [word.text for word in found.otherwise.classes] == ["any", "between"]
    file, problems = parse('example of r holds for x = unknown "unknown"', "a.fkg")
    assert problems == ()
    (example,) = file.statements
    assert isinstance(example, tree.Example)
    assert [word.text for word in example.series[0].texts] == ["", "unknown"]
