"""Is a table worse than it was? An evaluation compared with the JSON of an older one, rule by
rule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from fedkg.errors import UsageError
from fedkg.evaluation.result import Evaluation, rate
from fedkg.limits import parse_json, read_file

ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change of one rule between two evaluations.

    Attributes:
        rule: name of the rule.
        state: ``worse`` if the violation rate rose by more than is allowed, ``better`` if it fell,
            ``same`` if it stayed or rose by no more than is allowed. ``new`` if only the new
            evaluation has the rule, ``removed`` if only the older one has it. ``untold`` if only
            one of the two evaluations has a verdict.
        before: violation rate in the older evaluation; None without a verdict or without the rule.
        after: violation rate in the new evaluation; None without a verdict or without the rule.
        severity: severity of a violation of the rule.
    """

    rule: str
    state: Literal["worse", "better", "same", "new", "removed", "untold"]
    before: float | None
    after: float | None
    severity: Literal["violation", "warning", "info"] = "violation"

    def sentence(self) -> str:
        """The change in words."""
        match self.state:
            case "worse":
                mild = "" if self.severity == "violation" else f" ({self.severity})"
                return (
                    f"{self.rule}{mild}: violation rate rose from "
                    f"{_percent(self.before)} to {_percent(self.after)}"
                )
            case "better":
                return (
                    f"{self.rule}: violation rate fell from {_percent(self.before)} to "
                    f"{_percent(self.after)}"
                )
            case "same":
                return (
                    f"{self.rule}: violation rate {_percent(self.after)}, before "
                    f"{_percent(self.before)}"
                )
            case "new":
                return f"{self.rule}: new, violation rate {_percent(self.after)}"
            case "removed":
                return f"{self.rule}: no longer among the rules; before {_percent(self.before)}"
            case "untold":
                return (
                    f"{self.rule}: violation rate {_percent(self.after)}, before "
                    f"{_percent(self.before)}: not compared"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All rules of either evaluation, those of the new one first.

    `allow` is how much a violation rate may rise.
    """

    changes: tuple[Change, ...]
    allow: float

    @property
    def worse(self) -> bool:
        """Whether the violation rate of any rule rose beyond the allowance, except for warning or
        info rules.
        """
        return any(
            change.state == "worse" and change.severity == "violation" for change in self.changes
        )

    @property
    def exit_code(self) -> int:
        """1 when something got worse than allowed, else 0."""
        return int(self.worse)

    def to_json(self) -> dict[str, Any]:
        """The comparison as plain data."""
        return {
            "worse": self.worse,
            "allow": self.allow,
            "changes": [asdict(change) for change in self.changes],
        }


def parse_allowance(text: str) -> float:
    """How much a violation rate may rise, as a fraction: ``1%`` and ``0.01`` are the same.

    Raises UsageError.
    """
    match = re.fullmatch(r"\s*(\d+(?:[.,]\d*)?|[.,]\d+)\s*(%?)\s*", text)
    value = (
        math.nan
        if match is None
        else float(match.group(1).replace(",", ".")) / (100 if match.group(2) else 1)
    )
    if not 0 <= value <= 1:
        raise UsageError(
            "--allow must be a share from 0 to 1",
            expected="a share such as 1% or 0.01",
            received=repr(text),
            help="for example --allow 1%",
        )
    return value


def read_baseline(path: str | Path) -> dict[str, float | None]:
    """The violation rate of each rule in an older evaluation's JSON file. Raises UsageError."""
    return baseline_rates(load_baseline(path), str(path))


def load_baseline(path: str | Path) -> object:
    """The document in an older evaluation's JSON file. Raises UsageError."""
    try:
        document: object = parse_json(read_file(path), str(path))
    except OSError as error:
        raise UsageError(
            f"cannot read baseline {path}",
            received=error.strerror or str(error),
            help="check the path; to write a baseline: fedkg eval RULES TABLE --json > FILE",
        ) from error
    except ValueError as error:
        raise UsageError(
            f"baseline {path} is not JSON",
            received=str(error),
            help="write it with `fedkg eval RULES TABLE --json > FILE`",
        ) from error
    return document


def baseline_rates(document: object, name: str) -> dict[str, float | None]:
    """The violation rate of each rule in an evaluation's JSON document. Raises UsageError."""
    return {
        rule: rate(decided - violated, violated)
        for rule, (violated, decided) in baseline_counts(document, name).items()
    }


def baseline_counts(document: object, name: str) -> dict[str, tuple[int, int]]:
    """Violated and decided evaluations of each rule in an evaluation's JSON document.

    Args:
        document: the document.
        name: its file, for messages.

    Raises:
        UsageError: it is not the JSON of an evaluation of one table.
    """

    def wrong(received: str) -> UsageError:
        return UsageError(
            f"baseline {name} is not the JSON of an evaluation of one table",
            expected='an object with the list "rules", in which each entry has the text "rule" '
            'and the counts "satisfied" and "violated"',
            received=received,
            help="write it with `fedkg eval RULES TABLE --json > FILE`",
        )

    rules = document.get("rules") if isinstance(document, Mapping) else None
    if not isinstance(rules, list):
        several = isinstance(document, Mapping) and "sites" in document
        raise wrong("the evaluation of several sites" if several else 'no list "rules"')
    out: dict[str, tuple[int, int]] = {}
    for number, entry in enumerate(rules, 1):
        if not isinstance(entry, Mapping):
            raise wrong(f"entry {number} of the list is not an object")
        name_, satisfied, violated = (
            entry.get("rule"),
            entry.get("satisfied"),
            entry.get("violated"),
        )
        if (
            not isinstance(name_, str)
            or not isinstance(satisfied, int)
            or not isinstance(violated, int)
            or min(satisfied, violated) < 0
        ):
            raise wrong(f"entry {number} of the list lacks one of the three, or a count is wrong")
        out[name_] = (violated, satisfied + violated)
    return out


def compare(
    evaluation: Evaluation, baseline: Mapping[str, float | None], allow: float = 0.0
) -> Comparison:
    """What became of each rule since the baseline (violation rates by rule, from `read_baseline`).

    Args:
        allow: how much a violation rate may rise, in absolute terms, before the rule counts as
            worse.
    """
    changes = [
        replace(_change(rule.rule, rule.violation_rate, baseline, allow), severity=rule.severity)
        for rule in evaluation.rules
    ]
    present = {rule.rule for rule in evaluation.rules}
    gone = [
        Change(rule=rule, state="removed", before=before, after=None)
        for rule, before in baseline.items()
        if rule not in present
    ]
    return Comparison(changes=(*changes, *gone), allow=allow)


def _change(
    rule: str, after: float | None, baseline: Mapping[str, float | None], allow: float
) -> Change:
    if rule not in baseline:
        return Change(rule=rule, state="new", before=None, after=after)
    before = baseline[rule]
    if before is None or after is None:
        return Change(
            rule=rule, state="same" if before is after else "untold", before=before, after=after
        )
    if after > before + allow + ROUNDING:
        return Change(rule=rule, state="worse", before=before, after=after)
    return Change(
        rule=rule,
        state="better" if after < before - ROUNDING else "same",
        before=before,
        after=after,
    )


def _percent(value: float | None) -> str:
    return "not known" if value is None else f"{value:.2%}"
