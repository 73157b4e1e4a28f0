"""What a run has learnt of its domain, as data: properties mined in the sites' series, causes, and how often rules were broken.

A run folder holds it in its tables; the compiler writes it to the knowledge graph, and proposes rules from it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from fedkg.pack.node import Node

TimeRange = tuple[str, str]
"""First and last time of data, as it says itself: moments (``2024-03-09T10:00:00``), steps (``0 s``, ``192 cycle``) or rows (``row 1``)."""
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}(T.*)?")


def combine_ranges(windows: Sequence[TimeRange | None]) -> TimeRange | None:
    """What several data reach over together: that of all if alike, else from the first moment to the last; None without moments."""
    known = [window for window in windows if window is not None]
    if len(known) < len(windows) or not known:
        return None
    if len(set(known)) == 1:
        return known[0]
    if not all(_MOMENT.fullmatch(end) for window in known for end in window):
        return None
    if (
        len({end.endswith("Z") for window in known for end in window}) > 1
    ):  # in UTC and without a zone: nobody knows which is first
        return None
    return min(first for first, _ in known), max(last for _, last in known)


class MinedNumber(Node):
    """One number that was found in data, in `unit` ("" where it has none, or counts steps).

    Attributes:
        direction: in which direction the property is easier to keep: ``up``, ``down``, or ``none`` where the formula does not tell.
    """

    name: str
    value: float
    unit: str = ""
    integer: bool = False
    direction: Literal["up", "down", "none"] = "none"


class MinedProperty(Node):
    """An inference with the numbers that the series of one client, or of all, gave it.

    Attributes:
        inference: its name in the rules. template: of which it is a case. text: the call as written, with its open numbers (``?low``).
        client: in whose series; "" for those of all. numbers: in the order of the inference. traces: how many series there were.
        epsilon: what each series spent of its privacy; None where the numbers were found without.
        window: from when to when these series reach, as the data says itself; None where it has no time.
    """

    inference: str
    template: str
    text: str
    client: str = ""
    numbers: tuple[MinedNumber, ...]
    traces: int
    epsilon: float | None = None
    window: TimeRange | None = None

    @property
    def confidence(self) -> float:
        """The share of further series, of the same source as those seen, that are expected to keep the property: 1 - P / (S + 1).

        Each of P numbers is held in its place by one of S series, which another series outdoes with probability 1 / (S + 1) (scenario
        approach: Campi and Garatti 2008, theorem 1). It says nothing where series are not exchangeable, or numbers are quantiles.
        """
        return max(0.0, 1.0 - len(self.numbers) / (self.traces + 1))


class RuleEvidence(Node):
    """How often a rule was broken, by the data itself or by what a trained model predicts.

    Attributes:
        about: ``data`` or ``model``. training: of which training the model is; "" for data. applied: evaluations that were decided.
        violated: of them broken. example: one of them in words, "" where there is none.
    """

    rule: str
    title: str
    kind: str
    about: Literal["data", "model"]
    training: str = ""
    applied: int
    violated: int
    example: str = ""

    @property
    def rate(self) -> float | None:
        """The violation rate; None where nothing was evaluated."""
        return self.violated / self.applied if self.applied else None


class Precedence(Node):
    """What an edge says of two columns: where one rises, the other follows.

    Attributes:
        leads: a column of the driver. rise: by how much it rises in one step, as in one step in ten.
        follows: a column of the driven client. answer: by how much that rises in one of the `within` steps after, in four of five such
            cases; below 0: by how much it falls.
        kept: the share of the cases in which it did. chance: the share of all steps after which it did. cases: how many there were.
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
    """What drives what, as a run has found it.

    Attributes:
        driver, driven: clients. strength: the norm of the learned block. lag: in steps of the series.
        p_value: of the strength where nothing drives anything; None where it was not tested.
        adjusted: the same corrected for how many pairs were tested (Benjamini and Hochberg 1995).
        precedence: what the edge says of columns; None where it was not looked for, or says nothing.
    """

    driver: str
    driven: str
    strength: float
    lag: int = 1
    p_value: float | None = None
    adjusted: float | None = None
    precedence: Precedence | None = None


class UsedFile(Node):
    """A file that a run read, by its name and its SHA-256."""

    name: str
    sha256: str


class LearnedKnowledge(Node):
    """All that one run has learnt.

    Attributes:
        run: SHA-256 of its job file, in hexadecimal digits. title: the job's. software: name and version of what ran. began: when, as
            ISO 8601. window: from when to when the data reaches, as it says itself; None where it has no time.
        step: seconds between two steps of the series; None where the rules declare none.
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
