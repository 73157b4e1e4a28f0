"""The printer: its output reads back as the same tree and prints the same again.

No comment is ever lost.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared import SHARED
from syntax_trees import simple, statements
from tries import tries

from fedkg_compiler.frontends.fkg.syntax import parse, tree
from fedkg_compiler.frontends.fkg.syntax.printing import canonical, print_statement
from fedkg_compiler.frontends.fkg.syntax.printing.conditions import WIDTH
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import split

REPOSITORY = Path(__file__).parents[3]
FILES = sorted(
    path
    for folder in (
        REPOSITORY / "examples",
        REPOSITORY / "rules",
        REPOSITORY / "tests" / "golden",
        SHARED / "language",
    )
    for path in folder.rglob("*.fkg")
    if path.name != "bad.fkg"
)


def printed(text: str) -> str:
    """The canonical form, after checking its properties."""
    before, problems = parse(text, "a.fkg")
    assert problems == ()
    form, problems = canonical(text, "a.fkg")
    assert problems == ()
    assert form is not None
    after, problems = parse(form, "a.fkg")
    assert [problem.message for problem in problems] == []
    assert simple(after.statements) == simple(before.statements)
    assert canonical(form, "a.fkg")[0] == form
    return form


def test_there_are_files() -> None:
    assert len(FILES) >= 6


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_rule_file_means_the_same_when_it_is_printed(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    form = printed(text)
    assert all(line == line.rstrip() for line in form.split("\n"))
    assert form.count("#") == text.count("#")


def test_sets_without_numbers_keep_their_parentheses() -> None:
    text = (
        "set rising keep parameters in monotone( )\nset positive keep predictions in"
        " nonnegative()\n"
    )
    assert (
        printed(text)
        == "set rising  keep parameters in monotone()\nset positive  keep predictions in"
        " nonnegative()\n"
    )
    assert (
        printed("set a keep parameters in l1_ball(radius=job)\n")
        == "set a  keep parameters in l1_ball(radius = job)\n"
    )


@tries(75)
@given(statements)
def test_every_tree_reads_back_as_itself(statement: tree.Statement) -> None:
    text = print_statement(statement) + "\n"
    file, problems = parse(text, "a.fkg")
    assert [problem.message for problem in problems] == [], text
    assert simple(file.statements) == simple((statement,)), text
    assert canonical(text, "a.fkg")[0] == text


@tries(25)
@given(st.lists(statements, max_size=5), st.data())
def test_files_of_any_statements_with_comments_between_them(
    several: list[tree.Statement], data: st.DataObject
) -> None:
    gaps = ["\n", "  # beside\n", "\n\n\n", "\n# left\n\n  # below\n", "\n\n#\n", "\r\n"]
    text = "".join(print_statement(one) + data.draw(st.sampled_from(gaps)) for one in several)
    form = printed(text.replace("\r\n", "\n"))
    for comment in ("# beside", "# left", "# below"):
        assert text.count(comment) == form.count(comment)


def test_no_comment_is_lost_wherever_it_stands() -> None:
    source = random.Random(5)
    chunks = [
        chunk.text for path in FILES for chunk in split(path.read_text(encoding="utf-8"), "a.fkg")
    ]
    tried = 0
    for text in source.sample(chunks, min(90, len(chunks))):
        breaks = [found.start() for found in re.finditer(r"(?<=\S)[ \t]*\n?[ \t]+(?=\S)", text)]
        for at in source.sample(breaks, min(4, len(breaks))):
            put = f"{text[:at]}  # put in {at}\n    {text[at:].lstrip()}"
            if not parse(put, "a.fkg")[1]:
                assert printed(put).count(f"# put in {at}\n") == 1
                tried += 1
    assert tried > 200


SHAPES = {
    "options in their order": (
        (
            "rule a hard for ?p in class plant:Pump weight 2 kind causal scope client require"
            ' flow(?p)>=1 kg/h and level is not "L"'
        ),
        (
            "rule a\n  kind causal  weight 2  hard  scope client\n  for ?p in class plant:Pump\n"
            '  require flow(?p) >= 1 kg/h and level is not "L"\n'
        ),
    ),
    "a title is a separate line": ('rule a "T" require x≥1', 'rule a "T"\n  require x >= 1\n'),
    "numbers as written": (
        "rule a weight 2.50 require 1.0e3 bar<=x^-2.0",
        "rule a  weight 2.50  require 1.0e3 bar <= x ^ -2.0\n",
    ),
    "needless parentheses": (
        "rule a require ((a>=1)) and (not (b>=1))",
        "rule a  require a >= 1 and not b >= 1\n",
    ),
    "needed parentheses": (
        "rule a require (a>=1 or b>=1) and 2*(c+1)>=-(-d)",
        "rule a  require (a >= 1 or b >= 1) and 2 * (c + 1) >= -(-d)\n",
    ),
    "a unit behind a bare window": (
        "rule a require always within 5 (x>=1)",
        "rule a  require always within 5 (x >= 1)\n",
    ),
    "a signal called is behind a window": (
        "rule a require always within 3 min (is(x)>=1)",
        "rule a  require always within 3 min (is(x) >= 1)\n",
    ),
    "a signal called time behind a window": (
        "rule a require b>=1 until within 2 h (time>=1)",
        "rule a  require b >= 1 until within 2 h (time >= 1)\n",
    ),
    "a signal called closed": (
        "rule a require b>=1 until closed>=1",
        "rule a  require b >= 1 until closed >= 1\n",
    ),
    "closed before a minus": (
        "rule a require b>=1 until closed (-x>=1)",
        "rule a  require b >= 1 until closed (-x >= 1)\n",
    ),
    "columns": (
        (
            'signal a in bar span 0 .. 1 column "A"\nsignal longer in kg/h span -5 .. 10 #'
            " beside\noutput o in 1/min\n"
        ),
        (
            'signal a       in bar   span 0 .. 1  column "A"\nsignal longer  in kg/h  span -5 .. 10'
            "  # beside\noutput o       in 1/min\n"
        ),
    ),
    "comments behind clauses": (
        'rule a "T"   # why\n  kind causal # so\n  # and\n  require x >= 1 # end\n# below',
        'rule a "T"  # why\n  kind causal  # so\n  # and\n  require x >= 1  # end\n# below\n',
    ),
    "a comment inside a condition": (
        "rule a   kind causal  require x>=1   # one  \n   and y>=1\nrule b require x>=1",
        "rule a   kind causal  require x>=1   # one\n   and y>=1\nrule b  require x >= 1\n",
    ),
    "line ends": (
        "rule a require x>=1\r\n\r\n\r\nrule b require x>=1",
        "rule a  require x >= 1\r\n\r\nrule b  require x >= 1\r\n",
    ),
    "an indented file": (
        "   # one\n   rule a require x>=1\n   # two\n     # three\n",
        "# one\nrule a  require x >= 1\n# two\n  # three\n",
    ),
    "nothing": ("\n\n", ""),
    "comments alone": ("\n\n# one\n\n\n# two\n\n", "# one\n\n# two\n"),
}


@pytest.mark.parametrize("title", SHAPES)
def test_the_canonical_form(title: str) -> None:
    text, wanted = SHAPES[title]
    form, problems = canonical(text, "a.fkg")
    assert problems == ()
    assert form == wanted


def test_a_broken_file_has_no_canonical_form() -> None:
    form, problems = canonical("rule a require x >= 1\nrule b require x =< 1\n", "a.fkg")
    assert form is None
    assert [problem.code for problem in problems] == ["FKG010"]


def test_long_conditions_are_broken_at_their_joints() -> None:
    condition = (
        "if "
        + " and ".join(f"signal_number_{n} >= {n} bar" for n in range(8))
        + " then ((eventually within 2 h y >= 1) or z is C)"
    )
    form = printed(f"rule a require {condition}")
    lines = form.split("\n")
    assert max(map(len, lines)) <= WIDTH
    assert lines[1] == "  require if signal_number_0 >= 0 bar"
    assert lines[2] == "      and signal_number_1 >= 1 bar"
    assert lines[-2] == "    then (eventually within 2 h y >= 1) or z is C"
