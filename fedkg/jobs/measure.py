"""The figure that a task is judged by: what it is called, which way is better, how it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A figure of `rounds.csv`.

    Attributes:
        name: its column. title: what readers call it. higher: whether more is better. digits: shown behind the point.
    """

    name: str
    title: str
    higher: bool
    digits: int = 3

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

BY_NAME: Mapping[str, Measure] = {measure.name: measure for measure in MEASURES.values()}
"""By the column of `rounds.csv`."""
