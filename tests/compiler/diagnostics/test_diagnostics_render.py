"""A diagnostic as text and as JSON."""

from __future__ import annotations

import json

from fedkg_compiler.diagnostics import Diagnostic, Related, Span, render, to_json


def problem(
    line: int,
    column: int,
    end_line: int,
    end_column: int,
    help: str = "",
    related: tuple[Related, ...] = (),
) -> Diagnostic:
    span = Span(
        file="rules.fkg", line=line, column=column, end_line=end_line, end_column=end_column
    )
    return Diagnostic(
        code="FKG999",
        severity="error",
        span=span,
        message="this is wrong",
        help=help,
        related=related,
    )


def test_the_place_is_underlined() -> None:
    said = render(problem(2, 6, 2, 9, help="mend it"), "one\nfour five six\n")
    assert (
        said
        == "rules.fkg:2:6: error[FKG999]: this is wrong\n  |\n2 | four five six\n  |      ^^^\n  ="
        " help: mend it"
    )


def test_without_text_there_is_no_excerpt() -> None:
    assert render(problem(2, 6, 2, 9), None) == "rules.fkg:2:6: error[FKG999]: this is wrong"


def test_a_place_beyond_the_text_has_no_excerpt() -> None:
    assert render(problem(9, 1, 9, 2), "one\n") == "rules.fkg:9:1: error[FKG999]: this is wrong"


def test_a_place_behind_the_last_character_gets_one_mark() -> None:
    assert render(problem(1, 4, 1, 5), "one").splitlines()[-1] == "  |    ^"


def test_tabs_stay_tabs_and_wide_letters_take_two_cells() -> None:
    assert render(problem(1, 3, 1, 4), "\tax").splitlines()[-1] == "  | \t ^"
    assert render(problem(1, 3, 1, 5), "温度温度").splitlines()[-1] == "  |     ^^^^"
    assert render(problem(1, 3, 1, 4), "e\u0301x").splitlines()[-1] == "  |  ^"


def test_control_characters_are_made_visible() -> None:
    assert render(problem(1, 2, 1, 3), "a\x07b\r\n").splitlines()[2:] == ["1 | a␇b", "  |  ^"]


def test_several_lines_are_marked_and_many_are_cut() -> None:
    text = "".join(f"  line {n}\n" for n in range(1, 13))
    said = render(problem(2, 3, 4, 9), text).splitlines()
    assert said[2:] == [
        "2 |   line 2",
        "  |   ^^^^^^",
        "3 |   line 3",
        "  |   ^^^^^^",
        "4 |   line 4",
        "  |   ^^^^^^",
    ]
    said = render(problem(1, 3, 12, 4), text).splitlines()
    assert "   ..." in said
    assert said[-2:] == ["12 |   line 12", "   |   ^"]


def test_long_lines_are_cut_around_the_place() -> None:
    said = render(problem(1, 1001, 1, 1004), "a" * 1000 + "bad" + "z" * 1000).splitlines()
    assert len(said[2]) < 150
    assert said[3].index("^") == said[2].index("bad")


def test_related_places_are_shown() -> None:
    first = Related(
        span=Span(file="rules.fkg", line=1, column=1, end_line=1, end_column=4),
        message="first written here",
    )
    other = Related(
        span=Span(file="plant.ttl", line=7, column=1, end_line=7, end_column=4),
        message="said there",
    )
    said = render(problem(2, 1, 2, 5, related=(first, other)), "one\nfour\n")
    assert "  = note: first written here: rules.fkg:1:1\n  |\n1 | one\n  | ^^^" in said
    assert said.endswith("  = note: said there: plant.ttl:7:1")


def test_a_diagnostic_without_a_file_shows_no_position() -> None:
    nowhere = Span(file="", line=1, column=1, end_line=1, end_column=1)
    related = Related(span=nowhere, message="an option says so")
    said = render(
        Diagnostic(
            code="FKG999",
            severity="error",
            span=nowhere,
            message="this is wrong",
            related=(related,),
        ),
        None,
    )
    assert said == "error[FKG999]: this is wrong\n = note: an option says so"


def test_json_has_exactly_these_fields() -> None:
    related = Related(
        span=Span(file="rules.fkg", line=1, column=1, end_line=1, end_column=4), message="there"
    )
    body = to_json(problem(2, 1, 2, 5, help="h", related=(related,)))
    assert json.loads(json.dumps(body)) == body
    assert list(body) == [
        "code",
        "severity",
        "file",
        "line",
        "column",
        "end_line",
        "end_column",
        "message",
        "help",
        "related",
        "fix",
    ]
    assert body["fix"] is None
    assert (body["line"], body["column"], body["end_line"], body["end_column"]) == (2, 1, 2, 5)
    assert body["related"] == [
        {
            "file": "rules.fkg",
            "line": 1,
            "column": 1,
            "end_line": 1,
            "end_column": 4,
            "message": "there",
        }
    ]
