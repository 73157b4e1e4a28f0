"""Rows of `rules.csv` and `sites.csv`: counts and figures of the deployed models on the test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedkg.jobs.folder import Row
from fedkg.jobs.unevaluated_rules import NO_TEST_ROW, UNBOUND
from fedkg.pack.manifest import RuleRecord


@dataclass(slots=True, kw_only=True)
class RuleCounts:
    """Counts of one rule over pairs of a bound row and a test row.

    Attributes:
        bound: bound rows of the rule.
        violated: pairs that violate it.
        evaluations: pairs with a verdict, satisfied or violated, as `fedkg eval` counts.
        applied: pairs with a verdict that meet the condition of an `if ... then`.
        not_evaluated: bound rows without any such pair.
    """

    bound: int = 0
    violated: int = 0
    evaluations: int = 0
    applied: int = 0
    not_evaluated: int = 0


def rule_row(
    trial: str, record: RuleRecord, counts: RuleCounts, *, compares: str = "", example: str = ""
) -> Row:
    """A row of `rules.csv`; a rule with a condition that no test row meets has no rate.

    Args:
        compares: the reason if the rule compares rows and the test has none to compare.
        example: the worst violation in words.
    """
    reason = ""
    if not counts.bound:
        reason = UNBOUND
    elif counts.not_evaluated:
        reason = compares or NO_TEST_ROW
    return {
        "trial": trial,
        "rule": record.name,
        "title": record.title,
        "kind": record.kind,
        "rate": counts.violated / counts.evaluations if counts.applied else None,
        "bound_rows": counts.bound,
        "violated": counts.violated,
        "evaluations": counts.evaluations,
        "applied": counts.applied,
        "not_evaluated": counts.not_evaluated,
        "reason": reason,
        "example": example,
    }


def site_row(
    trial: str,
    site: str,
    *,
    samples: int,
    test_rows: int,
    positives: int | None,
    figures: Mapping[str, float],
    violated: int,
    evaluations: int,
) -> Row:
    """A row of `sites.csv`: a site's own test rows with the model that it deploys.

    Args:
        positives: test rows with a failure; None for tasks without. F1, precision and recall are
            left out without failures, because they are 0 for every model.
    """
    hidden = {"threshold", *(("f1", "precision", "recall") if positives == 0 else ())}
    return {
        "trial": trial,
        "client": site,
        "samples": samples,
        "test_rows": test_rows,
        "positives": positives or 0,
        **{name: value for name, value in figures.items() if name not in hidden},
        "violation": violated / evaluations if evaluations else None,
        "violated": violated,
        "evaluations": evaluations,
    }
