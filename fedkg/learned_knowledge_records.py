"""Knowledge that a run learned, as data: mined properties, causes, and violations of rules.

A run folder stores it in tables. The compiler writes it to the knowledge graph and proposes rules
from it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from fedkg.pack.contract import Node

TimeRange = tuple[str, str]
"""First and last time of data, as text: moments (``2024-03-09T10:00:00``), steps (``0 s``, ``192
cycle``) or rows (``row 1``).
"""
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}(T.*)?")


def combine_ranges(windows: Sequence[TimeRange | None]) -> TimeRange | None:
    """Return the range that covers all given ranges; None if they have no comparable moments.

    Equal ranges give that range. Otherwise all must be moments, and the result runs from the first
    moment to the last.
    """
    known = [window for window in windows if window is not None]
    if len(known) < len(windows) or not known:
        return None
    if len(set(known)) == 1:
        return known[0]
    if not all(_MOMENT.fullmatch(end) for window in known for end in window):
        return None
    if (
        len({end.endswith("Z") for window in known for end in window}) > 1
    ):  # moments with and without a zone cannot be ordered
        return None
    return min(first for first, _ in known), max(last for _, last in known)


class MinedNumber(Node):
    """A number that was mined from data, in `unit` ("" if it has none, or counts steps).

    Attributes:
        direction: the direction in which the property gets easier to satisfy: ``up``, ``down``, or
            ``none`` if the formula does not determine it.
    """

    name: str
    value: float
    unit: str = ""
    integer: bool = False
    direction: Literal["up", "down", "none"] = "none"


class MinedProperty(Node):
    """An inference with the numbers mined from the series of one client, or of all.

    Attributes:
        inference: its name in the rules.
        template: the template that it calls.
        text: the call as written, with its open numbers (``?low``).
        client: the client with the series; "" for the series of all clients.
        columns: headers of the columns that it reads, sorted.
        numbers: in the order of the inference.
        traces: number of series.
        epsilon: privacy budget that each series spent; None without differential privacy.
        window: time range of the series; None if the data has no time.
    """

    inference: str
    template: str
    text: str
    client: str = ""
    columns: tuple[str, ...] = ()
    numbers: tuple[MinedNumber, ...]
    traces: int
    epsilon: float | None = None
    window: TimeRange | None = None

    @property
    def confidence(self) -> float:
        """Expected share of further series from the same source that satisfy the property: 1 - P /
        (S + 1).

        Each of P numbers is determined by one of S series; another series exceeds it with
        probability 1 / (S + 1) (scenario approach: Campi and Garatti 2008, theorem 1). The bound
        does not apply if the series are not exchangeable, or if the numbers are quantiles.
        """
        return max(0.0, 1.0 - len(self.numbers) / (self.traces + 1))


class RuleEvidence(Node):
    """How often the data, or the predictions of a trained model, violated a rule.

    Attributes:
        about: ``data`` or ``model``.
        training: the training of the model; "" for data.
        applied: evaluations with a verdict.
        violated: number of violations among them.
        not_evaluated: why the rule, or some of its limits, has no verdict at all; "" if every limit
            has one.
        example: text of one violation, "" if there is none.
    """

    rule: str
    title: str
    kind: str
    about: Literal["data", "model"]
    training: str = ""
    applied: int
    violated: int
    not_evaluated: str = ""
    example: str = ""

    @property
    def rate(self) -> float | None:
        """The violation rate; None if no evaluation has a verdict."""
        return self.violated / self.applied if self.applied else None


class Precedence(Node):
    """A relation between two columns of an edge: when one rises, the other follows.

    Attributes:
        leads: a column of the driver.
        rise: how much it rises in one step, in the largest tenth of steps.
        follows: a column of the driven client.
        answer: how much that column rises in one of the `within` following steps, in four of five
            of these cases; negative if it falls.
        kept: share of the cases in which it did.
        chance: share of all steps after which it did.
        cases: number of cases.
    """

    leads: str
    rise: float
    follows: str
    answer: float
    within: int
    kept: float
    chance: float
    cases: int


class CausalEdge(Node):
    """A causal edge between two clients, as a run identified it.

    Attributes:
        driver: name of the driving client.
        driven: name of the driven client.
        strength: the norm of the learned block.
        lag: in steps of the series.
        p_value: of the strength under independence; None if it was not tested.
        adjusted: the p-value corrected for the number of tested pairs (Benjamini and Hochberg
            1995).
        precedence: relation between columns; None if it was not searched for, or if none exists.
    """

    driver: str
    driven: str
    strength: float
    lag: int = 1
    p_value: float | None = None
    adjusted: float | None = None
    precedence: Precedence | None = None


class UsedFile(Node):
    """A file that a run read, with its name and SHA-256."""

    name: str
    sha256: str


class LearnedKnowledge(Node):
    """Everything that one run learned.

    Attributes:
        run: SHA-256 of its job file, in hexadecimal digits.
        title: the job's.
        software: name and version of the program.
        began: start time, as ISO 8601.
        window: time range of the data; None if it has no time.
        step: seconds between two steps of the series; None if the rules declare none.
    """

    run: str
    title: str
    software: str
    began: str
    window: TimeRange | None = None
    step: float | None = None
    files: tuple[UsedFile, ...] = ()
    properties: tuple[MinedProperty, ...] = ()
    evidence: tuple[RuleEvidence, ...] = ()
    edges: tuple[CausalEdge, ...] = ()


class Candidate(Node):
    """A part of a candidate rule file: a rule or a cause with its evidence, or a remark.

    Attributes:
        kind: ``rule`` and ``cause`` are reviewed; ``signals`` declares the columns that rules
            below it read; ``note`` is a comment.
        name: name of the rule or cause; "" for the others.
        statement: the statement as rule files write it; "" for a note.
        evidence: why it is proposed; the text of a note.
        declarations: statements that it needs, if your rules lack them.
    """

    kind: Literal["rule", "cause", "signals", "note"]
    name: str = ""
    statement: str = ""
    evidence: str = ""
    declarations: tuple[str, ...] = ()
