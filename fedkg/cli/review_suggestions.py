"""The review of suggestions: options for scripts, and questions in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
import typer

from fedkg.cli.console import print_line, print_note
from fedkg.errors import Stopped, UsageError
from fedkg.limits import read_file

if TYPE_CHECKING:
    from fedkg.jobs.suggestion_reviews import Review
    from fedkg.learned_knowledge_records import Candidate, LearnedKnowledge


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewOptions:
    """What the user decides on the command line.

    Attributes:
        ask: whether to ask for a decision about each open suggestion.
        accept: names of suggestions to accept.
        reject: names of suggestions to reject.
        edit: ``NAME=FILE``: suggestions to accept with the statement in a file.
        reviewer: name of the person.
        reason: why the person decides so.
    """

    ask: bool
    accept: Sequence[str]
    reject: Sequence[str]
    edit: Sequence[str]
    reviewer: str
    reason: str

    def __bool__(self) -> bool:
        return bool(self.ask or self.accept or self.reject or self.edit)


def review(
    folder: Path,
    learned: LearnedKnowledge,
    candidates: Sequence[Candidate],
    options: ReviewOptions,
    *,
    show: bool = True,
) -> None:
    """Make the decisions, record them in the run folder, and print them if `show`.

    Raises:
        UsageError: a wrong suggestion, statement, name or reason; nothing is recorded.
    """
    from fedkg.jobs.suggestion_reviews import add_reviews, review_suggestion

    decisions: list[tuple[str, Literal["accept", "reject"], str]] = [
        *((name, "accept", "") for name in options.accept),
        *((name, "reject", "") for name in options.reject),
        *((name, "accept", text) for name, text in map(_edited, options.edit)),
    ]
    names = [name for name, *_ in decisions]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(
            f"there are several decisions about `{twice}`",
            help="use --accept, --reject or --edit once for each suggestion",
        )
    made = [
        review_suggestion(
            learned,
            candidates,
            name,
            decision,
            reviewer=options.reviewer,
            reason=options.reason,
            edited=text,
        )
        for name, decision, text in decisions
    ]
    if made:
        add_reviews(folder, made)
        _show(made if show else ())
    if options.ask:
        _ask(folder, learned, candidates, options.reviewer)
    _warn_attested(folder)


def _edited(text: str) -> tuple[str, str]:
    """The name and the statement of ``NAME=FILE``."""
    name, sign, file = text.partition("=")
    if not sign or not file or not name:
        raise UsageError(
            "--edit takes a suggestion and a file", expected="NAME=FILE", received=text
        )
    path = Path(file)
    if not path.is_file():
        raise UsageError(
            f"there is no file {file} for `{name}`", help="paths are relative to the current folder"
        )
    try:
        body = read_file(path).decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{file} is not UTF-8 text", received=str(error), help="save the file as UTF-8"
        ) from error
    if not body:
        raise UsageError(f"{file} is empty", expected=f"the statement to accept for `{name}`")
    return name, body


def _ask(
    folder: Path, learned: LearnedKnowledge, candidates: Sequence[Candidate], reviewer: str
) -> None:
    """Ask for a decision about each open suggestion; record each one at once."""
    from fedkg.jobs.suggestion_reviews import (
        add_reviews,
        read_reviews,
        review_suggestion,
        reviewable,
        valid_reviews,
    )

    decided = valid_reviews(read_reviews(folder))
    waiting = [name for name in reviewable(candidates) if name not in decided]
    if not waiting:
        print_line("every suggestion has a decision; change one with --accept, --edit or --reject")
        return
    by_name = reviewable(candidates)
    try:
        reviewer = reviewer or typer.prompt("your name")
        for number, name in enumerate(waiting, 1):
            candidate = by_name[name]
            print_line(f"\n{number} of {len(waiting)}: {candidate.evidence}\n{candidate.statement}")
            answer = typer.prompt(
                "accept, edit, reject, skip or quit",
                type=click.Choice(["a", "e", "r", "s", "q"], case_sensitive=False),
                default="s",
            )
            if answer == "q":
                break
            if answer == "s":
                continue
            text = ""
            if answer == "e":
                text = (click.edit(candidate.statement, extension=".fkg") or "").strip()
                if not text or text == candidate.statement:
                    print_note(f"`{name}` is unchanged: skipped")
                    continue
            try:
                made = review_suggestion(
                    learned,
                    candidates,
                    name,
                    "reject" if answer == "r" else "accept",
                    reviewer=reviewer,
                    reason=typer.prompt("reason"),
                    edited=text,
                )
                add_reviews(folder, [made])
            except UsageError as error:
                print_note(f"error: {error}\nskipped; the next review asks again")
                continue
            _show([made])
    except click.Abort as error:
        raise Stopped(
            "the review stopped before its end",
            help="the decisions so far are recorded; the same command continues",
        ) from error


def _show(made: Iterable[Review]) -> None:
    for one in made:
        print_line(f"{one.decision} {one.candidate.name}")


def _warn_attested(folder: Path) -> None:
    from fedkg.deploy.run_attestation import ATTESTATION

    if (folder / ATTESTATION).exists():
        print_note(
            "note: the attestation of this run no longer fits its log; sign it again: "
            f"fedkg attest {folder} --key NAME.key"
        )
