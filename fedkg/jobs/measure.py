"""The figure that a task is judged by: what it is called, which way is better, how it is written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A figure of `rounds.csv`.

    Attributes:
        name: its column. title: what readers call it. higher: whether more is better. digits: shown behind the point.
        trivial: what the best answer that is the same for every test row comes to; NaN where that is not known.
        event: for detection, what a row labelled 1 is, as `event_of` names it.
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
        """1 where more is better, -1 where less is."""
        return 1 if self.higher else -1


MEASURES: Mapping[str, Measure] = {
    "detection": Measure(name="f1", title="F1", higher=True),
    "classes": Measure(name="accuracy", title="Accuracy", higher=True),
    "regression": Measure(name="rmse", title="RMSE", higher=False),
    "forecast": Measure(name="mse", title="MSE", higher=False),
}
"""By the task of the data. RMSE is in the unit of what is predicted; MSE in standard deviations, so that unlike channels compare."""

MEASURE_BY_COLUMN: Mapping[str, Measure] = {measure.name: measure for measure in MEASURES.values()}
"""By the column of `rounds.csv`."""


EVENTS = ("failure", "attack", "fault", "anomaly", "defect", "accident", "alarm", "leak")
"""Nouns that a label column names its rare bad case by."""


def event_of(label: str) -> str:
    """The noun for a row labelled 1 in a column of this header.

    >>> event_of("Machine failure"), event_of("attack_P1"), event_of("y")
    ('failure', 'attack', 'case of `y`')
    """
    return next((noun for noun in EVENTS if noun in label.lower()), f"case of `{label}`")


def plural_event(event: str) -> str:
    """The plural of what `event_of` gives.

    >>> events("failure"), events("anomaly"), events("case of `y`")
    ('failures', 'anomalies', 'cases of `y`')
    """
    if event.startswith("case of "):
        return event.replace("case", "cases", 1)
    return f"{event[:-1]}ies" if event.endswith("y") else f"{event}s"


def f1_of_constant_alarm(positives: int, rows: int) -> float:
    """F1 of an alarm at every row, 2 p / (1 + p) for a share p of failures; NaN without a failure, where every F1 is 0.

    >>> alarm_everywhere(5, 100) == 2 * 0.05 / 1.05
    True
    """
    return 2 * positives / (rows + positives) if positives else math.nan
