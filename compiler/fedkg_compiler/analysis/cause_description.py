"""What a `cause` statement allows, and the evidence of one that was suggested."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fedkg._internal.safe_text import count_noun, list_first
from fedkg.pack.causes import CauseRecord
from fedkg_compiler.analysis.evidence_comment_reader import read_evidence
from fedkg_compiler.analysis.requirement_text import plain_number

MAX_SHOWN = 8
"""Number of pairs of clients shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseDescription:
    """One `cause` statement.

    Attributes:
        cause: the record of the pack.
        evidence: labels and texts of an accepted suggestion: its evidence, data, run and reviewer.
    """

    cause: CauseRecord
    evidence: tuple[tuple[str, str], ...]

    def lines(self) -> Iterator[str]:
        """The description as `fedkg explain` prints it."""
        drives = self.cause.drives
        pairs = count_noun(len(drives), "pair")
        yield self.cause.name
        yield f"  about     which client may drive which, {pairs} of clients"
        shown = list_first([f"{one.driver} drives {one.driven}" for one in drives], MAX_SHOWN)
        yield f"  allows    {shown or 'nothing'}"
        if self.cause.lag is not None:
            steps = "" if self.cause.steps is None else f", rounded up to {self.cause.steps} steps"
            yield f"  lag       {plain_number(self.cause.lag)} s{steps}"
        for label, text in self.evidence:
            yield f"  {label:<9} {text}"

    def to_json(self) -> dict[str, Any]:
        """The description as `fedkg explain --json` prints it. `Any`: JSON."""
        facts = self.cause.model_dump(mode="json", include={"drives", "lag", "steps"})
        evidence = {"evidence": dict(self.evidence)} if self.evidence else {}
        return {"cause": self.cause.name} | facts | evidence


def describe_cause(cause: CauseRecord) -> CauseDescription:
    """What a cause of a pack allows."""
    return CauseDescription(cause=cause, evidence=read_evidence(cause.text))
