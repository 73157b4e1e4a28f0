"""Decisions of people about suggested rules, as lines of `reviews.jsonl` in the run folder.

A line is never changed. If a suggestion has several lines, the last one is valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from fedkg._internal.name_matching import did_you_mean
from fedkg._internal.safe_text import HIDDEN
from fedkg.errors import JobError, UsageError
from fedkg.jobs.folder import REVIEWS, RunFolder
from fedkg.learned_knowledge_records import Candidate, LearnedKnowledge
from fedkg.pack.contract import Node

MAX_NAME, MAX_REASON, MAX_STATEMENT = 200, 2_000, 20_000
"""Most characters of a reviewer's name, of a reason and of an edited statement."""

_NAME = re.compile(r"^(rule|cause)(?:\s|#[^\n]*\n)+(`[^`\n]+`|\w+)", re.MULTILINE)
"""The kind and the name at the beginning of a statement; comments may come before the name."""

Verdict = Literal["accepted", "edited", "rejected"]


class Review(Node):
    """One decision about one suggestion.

    Attributes:
        time: when it was made, in UTC (ISO 8601).
        candidate: the suggestion.
        decision: ``edited`` accepts another statement than the suggested one.
        statement: the accepted statement; the suggested one if the suggestion was rejected.
        reviewer: name of the person.
        reason: why the person decided so.
        run: title, SHA-256 of the job and start of the run that the suggestion comes from.
        data: time range and files of the data; "" for a run with differential privacy.
    """

    time: str
    candidate: Candidate
    decision: Verdict
    statement: str
    reviewer: str
    reason: str
    run: str
    data: str


def reviewable(candidates: Iterable[Candidate]) -> dict[str, Candidate]:
    """The rules and causes among the candidates, by name."""
    return {one.name: one for one in candidates if one.kind in ("rule", "cause")}


def read_reviews(folder: Path) -> list[Review]:
    """All decisions of a run, oldest first. Raises JobError if the file cannot be read."""
    files = RunFolder(folder)
    if REVIEWS not in files.log.states() and not (folder / REVIEWS).exists():
        return []
    try:
        found: list[Review] = []
        for line in files.read_bytes(REVIEWS).splitlines():
            found.append(Review.model_validate_json(line))  # noqa: PERF401  the error counts them
        return found
    except ValidationError as error:
        first = error.errors()[0]
        raise JobError(
            f"{folder / REVIEWS}, line {len(found) + 1}: this is not a decision",
            received=f"{'.'.join(map(str, first['loc'])) or 'the line'}: {first['msg']}",
            help="its checksum fits the log: use the version of fedkg that wrote it",
        ) from error


def valid_reviews(reviews: Iterable[Review]) -> dict[str, Review]:
    """The last decision about each suggestion, by name, in the order of first decisions."""
    return {one.candidate.name: one for one in reviews}


def review_suggestion(
    learned: LearnedKnowledge,
    candidates: Sequence[Candidate],
    name: str,
    decision: Literal["accept", "reject"],
    *,
    reviewer: str,
    reason: str,
    edited: str = "",
) -> Review:
    """Make a decision about a suggestion; nothing is written.

    Args:
        learned: the findings of the run.
        candidates: its suggestions.
        edited: the statement to accept instead of the suggested one; "" for the suggested one.

    Raises:
        UsageError: an unknown suggestion, no reviewer or reason, a text that is too long, or an
            edited text that is not one statement of the same kind.
    """
    from fedkg import ontologies

    known = reviewable(candidates)
    if name not in known:
        raise UsageError(
            f"there is no suggestion `{name}`",
            expected=", ".join([*known][:20]) or "a run with suggestions",
            help=did_you_mean(name, list(known), "list the suggestions: fedkg suggest RUN"),
        )
    candidate = known[name]
    reviewer = _require_text(reviewer, "the reviewer", "--reviewer NAME", MAX_NAME)
    reason = _require_text(reason, "the reason", "--reason TEXT", MAX_REASON)
    statement = candidate.statement
    edited = edited.replace("\r\n", "\n").strip()
    if edited and edited != statement:
        if len(edited) > MAX_STATEMENT:
            raise UsageError(
                f"the edited statement of `{name}` is too long",
                expected=f"at most {MAX_STATEMENT:,} characters",
                received=f"{len(edited):,} characters",
                help="shorten the statement",
            )
        if decision == "reject":
            raise UsageError(
                f"`{name}` cannot be both edited and rejected",
                help="accept the edited statement, or reject the suggestion without an edit",
            )
        ontologies.require_statement(edited, candidate.kind, name)
        statement = edited
    changed = statement != candidate.statement
    window = [] if learned.window is None else ["from {} to {}".format(*learned.window)]
    return Review(
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        candidate=candidate,
        decision="rejected" if decision == "reject" else "edited" if changed else "accepted",
        statement=statement,
        reviewer=reviewer,
        reason=reason,
        run=f"{learned.title}, sha256 {learned.run}"
        + (f", began {learned.began}" if learned.began else ""),
        data="; ".join([*window, *(f"{one.name} sha256 {one.sha256}" for one in learned.files)]),
    )


def add_reviews(folder: Path, reviews: Sequence[Review]) -> None:
    """Append decisions to the run folder, all or none.

    Raises:
        UsageError: another process works in the folder, or two accepted statements would have the
            same name.
        JobError: the file with earlier decisions is damaged.
    """
    with RunFolder(folder).locked():
        files = RunFolder(folder)  # as the folder is now that no other process writes to it
        _require_separate_names(read_reviews(folder), reviews)
        body = files.read_bytes(REVIEWS) if REVIEWS in files.log.states() else b""
        lines = b"".join(one.model_dump_json().encode() + b"\n" for one in reviews)
        files.write_bytes(REVIEWS, body + lines)


def _require_separate_names(earlier: Sequence[Review], reviews: Sequence[Review]) -> None:
    """Raise UsageError if a new decision accepts a second statement with the same name."""
    valid = valid_reviews([*earlier, *reviews]).values()
    declared = {one: _declared(one.statement) for one in valid if one.decision != "rejected"}
    for one, name in declared.items():
        other = next((two for two in declared if two != one and declared[two] == name), None)
        if one in reviews and other is not None:
            raise UsageError(
                f"the statement for `{one.candidate.name}` has the same name as the one accepted "
                f"for `{other.candidate.name}`",
                received=name,
                help=f"change the name in the statement, or reject `{other.candidate.name}`",
            )


def _declared(statement: str) -> str:
    """``rule NAME`` or ``cause NAME``."""
    found = _NAME.search(statement)
    return " ".join(found.groups()).replace("`", "") if found else statement


def accepted_rules(reviews: Mapping[str, Review]) -> str:
    """A rule file with the accepted suggestions, each with its evidence as comments."""
    from fedkg import ontologies

    return ontologies.format_accepted_rules(
        [
            (one.candidate, one.statement, _evidence(one))
            for one in reviews.values()
            if one.decision != "rejected"
        ]
    )


def _evidence(one: Review) -> list[tuple[str, str]]:
    """Labels and texts, as the rule file and `fedkg explain` show them."""
    day = one.time.partition("T")[0]
    lines = [
        ("evidence", one.candidate.evidence),
        ("data", one.data),
        ("run", one.run),
        ("reviewed", f"{one.decision} by {one.reviewer} on {day}: {one.reason}"),
        ("proposed", one.candidate.statement if one.decision == "edited" else ""),
    ]
    return [(label, text) for label, text in lines if text]


def _require_text(text: str, what: str, option: str, most: int) -> str:
    text = " ".join(text.split())
    if not text:
        raise UsageError(
            f"{what} of the decision is missing", help=f"add {option}, or fill in the form"
        )
    if len(text) > most:
        raise UsageError(
            f"{what} of the decision is too long",
            expected=f"at most {most:,} characters",
            received=f"{len(text):,} characters",
            help="shorten the text",
        )
    if (hidden := HIDDEN.search(text)) is not None:
        raise UsageError(
            f"{what} of the decision contains a control character",
            received=f"{hidden[0]!a} at character {hidden.start() + 1}",
            help="remove the character",
        )
    return text
