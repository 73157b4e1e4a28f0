"""The terminal's description of how sites are trained."""

from __future__ import annotations

import pytest

from fedkg.federated.settings import ExecutorName
from fedkg.federated.state import Choice
from fedkg.jobs.executor_description import format_executor_note

NOTE = (
    "executor: stacks of 4: 0.2 s a round by the first steps, against sequential 0.5 s; 2 "
    "processes would save 0 s in all at best"
)
TRIED = "the fastest way on this machine in a short measurement (see the report)"


@pytest.mark.parametrize(
    ("executor", "chunk", "asked", "said"),
    [
        (
            "stacked",
            4,
            "auto",
            f"the sites of a round are trained together, up to 4 at a time: {TRIED}",
        ),
        (
            "stacked",
            1,
            "stacked",
            "the sites of a round are trained one after the other: as the job requests",
        ),
        ("sequential", 1, "auto", f"the sites of a round are trained one after the other: {TRIED}"),
        (
            "processes",
            1,
            "processes",
            "the sites of a round are trained in parallel processes: as the job requests",
        ),
    ],
)
def test_the_executor_is_reported_in_plain_words(
    executor: str, chunk: int, asked: ExecutorName, said: str
) -> None:
    assert (
        format_executor_note(NOTE, Choice(executor=executor, chunk=chunk, threads=1), asked) == said
    )


def test_other_notes_are_told_as_they_are() -> None:
    choice = Choice(executor="stacked", chunk=1, threads=1)
    assert (
        format_executor_note("the model is unchanged", choice, "auto") == "the model is unchanged"
    )
    assert format_executor_note(NOTE, None, "auto") == NOTE
