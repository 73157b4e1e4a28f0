"""Rules over tables: what holds, what does not, where it is worst. Needs numpy alone."""

from fedkg.evaluation.earlier_evaluation_comparison import (
    Change,
    Comparison,
    compare,
    parse_allowance,
    read_baseline,
)
from fedkg.evaluation.evaluate import evaluate
from fedkg.evaluation.result import Evaluation, RuleResult, Worst
from fedkg.evaluation.table_readings import Readings, table_values

__all__ = [
    "Change",
    "Comparison",
    "Evaluation",
    "Readings",
    "RuleResult",
    "Worst",
    "compare",
    "evaluate",
    "parse_allowance",
    "read_baseline",
    "table_values",
]
