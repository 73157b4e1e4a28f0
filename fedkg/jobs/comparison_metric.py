"""The figure that decides comparisons for a task: its name, direction and format."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A figure of `rounds.csv`.

    Attributes:
        name: column name.
        title: name in reports.
        higher: whether larger values are better.
        digits: decimals shown.
        trivial: value of the best constant answer on the test rows; NaN if unknown.
        event: for detection, the noun for a row labelled 1, as `event_of` returns it.
    """

    name: str
    title: str
    higher: bool
    digits: int = 3
    trivial: float = math.nan
    event: str = "failure"

    def text(self, value: float) -> str:
        """``F1 0.713``."""
        return f"{self.title} {value:.{self.digits}f}"

    @property
    def sign(self) -> int:
        """1 if larger values are better, otherwise -1."""
        return 1 if self.higher else -1


MEASURES: Mapping[str, Measure] = {
    "detection": Measure(name="f1", title="F1", higher=True),
    "classes": Measure(name="accuracy", title="Accuracy", higher=True),
    "regression": Measure(name="rmse", title="RMSE", higher=False),
    "forecast": Measure(name="mse", title="MSE", higher=False),
    "survival": Measure(name="concordance", title="Concordance index", higher=True),
}
"""The measure of each task.

RMSE has the unit of the target. MSE is in standard deviations, so that channels are comparable.
"""

MEASURE_BY_COLUMN: Mapping[str, Measure] = {measure.name: measure for measure in MEASURES.values()}
"""The same by column of `rounds.csv`."""

FIGURE_COLUMNS = ("f1", "precision", "recall", "accuracy", "rmse", "mse", "concordance", "loss")
"""Columns of `rounds.csv` that are figures of a model on the test rows."""


EVENTS = ("failure", "attack", "fault", "anomaly", "defect", "accident", "alarm", "leak")
"""Nouns for the rare bad case, found in the names of label columns."""


def event_of(label: str) -> str:
    """The noun for a row labelled 1 in a column of this header.

    Examples:
        >>> event_of("Machine failure"), event_of("attack_P1"), event_of("y")
        ('failure', 'attack', 'case of `y`')
    """
    return next((noun for noun in EVENTS if noun in label.lower()), f"case of `{label}`")


def plural_event(event: str) -> str:
    """The plural of a noun that `event_of` returns.

    Examples:
        >>> plural_event("failure"), plural_event("anomaly"), plural_event("case of `y`")
        ('failures', 'anomalies', 'cases of `y`')
    """
    if event.startswith("case of "):
        return event.replace("case", "cases", 1)
    return f"{event[:-1]}ies" if event.endswith("y") else f"{event}s"


def f1_of_constant_alarm(positives: int, rows: int) -> float:
    """F1 of an alarm at every row: 2 p / (1 + p) for a share p of failures.

    NaN without failures, where every F1 is 0.

    Examples:
        >>> f1_of_constant_alarm(5, 100) == 2 * 0.05 / 1.05
        True
    """
    return 2 * positives / (rows + positives) if positives else math.nan
