"""A rule file with accepted candidates; each carries its evidence as comments in the statement.

The comments are part of the statement's text, so that packs contain them and `fedkg explain` shows
them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from fedkg.errors import UsageError
from fedkg.learned_knowledge_records import Candidate
from fedkg_compiler.frontends.fkg.syntax.parser import parse
from fedkg_compiler.frontends.fkg.syntax.tree import Cause, Rule
from fedkg_compiler.learned.candidate_formatting import WIDE, comment, shown

_FIRST, _NEXT = "  # ", "  #   "


def require_statement(text: str, kind: str, name: str) -> None:
    """Check that a text is one statement.

    Args:
        kind: the statement that it has to be, ``rule`` or ``cause``.
        name: the candidate that it replaces, for the message.

    Raises UsageError otherwise.
    """
    tree, problems = parse(text, name)
    errors = [one for one in problems if one.severity == "error"]
    if errors:
        received = f"line {errors[0].span.line}: {errors[0].message}"
    elif len(tree.statements) != 1:
        received = f"{len(tree.statements)} statements"
    elif not isinstance(tree.statements[0], Rule if kind == "rule" else Cause):
        received = f"the statement {text.split(maxsplit=1)[0]}"
    else:
        return
    raise UsageError(
        f"the edited text of `{name}` cannot replace it",
        expected=f"one `{kind}` statement",
        received=received,
    )


def format_accepted(accepted: Sequence[tuple[Candidate, str, Iterable[tuple[str, str]]]]) -> str:
    """A rule file with accepted candidates.

    Args:
        accepted: each candidate with its statement and its labelled evidence (`LABELS`).
    """
    if not accepted:
        return comment("No suggestion is accepted.") + "\n"
    declared = dict.fromkeys(line for one, _, _ in accepted for line in one.declarations)
    parts = [comment("Accepted suggestions: compile them with your rules.")]
    if declared:
        said = "Leave out the signals and the timeline that your rules declare."
        parts.append("\n".join([comment(said), *declared]))
    parts += [_annotated(statement, evidence) for _, statement, evidence in accepted]
    return "\n\n".join(parts) + "\n"


def _annotated(statement: str, evidence: Iterable[tuple[str, str]]) -> str:
    """A statement with comments after its name and title."""
    one = parse(statement, "")[0].statements[0]
    assert isinstance(one, Rule | Cause), "only rules and causes are reviewed"
    title = one.title if isinstance(one, Rule) else None
    end = (title or one.name).span
    lines = statement.split("\n")
    line, column = end.end_line - 1, end.end_column - 1
    head = [*lines[:line], lines[line][:column]]
    rest = [lines[line][column:].strip(), *lines[line + 1 :]]
    body = [f"  {rest[0]}"] if rest[0] else []
    comments = [line for label, text in evidence for line in _comment(label, text)]
    return "\n".join([*head, *comments, *body, *rest[1:]])


def _comment(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        f"{label}: {shown(text)}",
        WIDE,
        initial_indent=_FIRST,
        subsequent_indent=_NEXT,
        break_long_words=False,
        break_on_hyphens=False,
    )
