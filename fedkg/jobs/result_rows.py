"""Rows of `rules.csv` and `sites.csv`: counts and figures of the deployed models on the test."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

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


@dataclass(slots=True, kw_only=True, eq=False)
class RuleTally(RuleCounts):
    """Counts of one rule on the test samples of some sites, and its worst violation.

    Attributes:
        met: bool [bound rows], whether a bound row has a verdict and its condition is met.
        least: whether the worst violation has no margin, and its margin in the common unit of
            the rule.
        example: the worst violation in words; "" for none.
    """

    met: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    least: tuple[bool, float] = (True, math.inf)
    example: str = ""

    def merge(self, other: RuleTally) -> RuleTally:
        """The counts at the sites of both; of equally bad violations the first."""
        met = self.met | other.met
        worse = bool(other.example) and (not self.example or other.least < self.least)
        worst = other if worse else self
        return RuleTally(
            bound=self.bound,
            violated=self.violated + other.violated,
            evaluations=self.evaluations + other.evaluations,
            applied=self.applied + other.applied,
            not_evaluated=int((~met).sum()),
            met=met,
            least=worst.least,
            example=worst.example,
        )


def merge_tallies(each: Iterable[Mapping[int, RuleTally]]) -> dict[int, RuleTally]:
    """The tallies of each rule (by its position) at all sites, merged in the order of the sites."""
    found: dict[int, RuleTally] = {}
    for tallies in each:
        for rule, own in tallies.items():
            found[rule] = found[rule].merge(own) if rule in found else own
    return found


def rule_row(trial: str, record: RuleRecord, counts: RuleTally, *, compares: str = "") -> Row:
    """A row of `rules.csv`; a rule with a condition that no test row meets has no rate.

    Args:
        compares: the reason if the rule compares rows and the test has none to compare.
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
        "example": counts.example,
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
