"""How sites are trained, as somebody at a plant is told it."""

from __future__ import annotations

import pytest

from fedkg.federated.settings import ExecutorName
from fedkg.federated.state import Choice
from fedkg.jobs.executor_notes import format_executor_note

NOTE = "executor: stacks of 4: 0.2 s a round by the first steps, against sequential 0.5 s; 2 processes would save 0 s in all at best"
TRIED = "the quickest way on this machine by a short trial, which the report tells"


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
            "the sites of a round are trained one after the other: as the job says",
        ),
        ("sequential", 1, "auto", f"the sites of a round are trained one after the other: {TRIED}"),
        (
            "processes",
            1,
            "processes",
            "the sites of a round are trained side by side in several processes: as the job says",
        ),
    ],
)
def test_the_executor_is_told_in_plain_words(
    executor: str, chunk: int, asked: ExecutorName, said: str
) -> None:
    assert (
        format_executor_note(NOTE, Choice(executor=executor, chunk=chunk, threads=1), asked) == said
    )


def test_other_notes_are_told_as_they_are() -> None:
    choice = Choice(executor="stacked", chunk=1, threads=1)
    assert (
        format_executor_note("the model was kept as it was", choice, "auto")
        == "the model was kept as it was"
    )
    assert format_executor_note(NOTE, None, "auto") == NOTE
