"""What an evaluation of rules over a table found."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from fedkg._internal.notebook_html import notebook_html
from fedkg.errors import MissingExtra
from fedkg.evaluation.tally import MOST, EntityCounts
from fedkg.knowledge.knowledge_model_agreement import Agreement

if TYPE_CHECKING:
    import pandas
    import polars


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """Where a rule is nearest to, or farthest into, violation.

    Attributes:
        robustness: distance to violation in `unit`; negative if the rule is violated, infinite if
            no number measures the distance.
        unit: unit of the robustness; "" for none.
        entity: the entity that the bound row is about; None for none.
        row: the data row, counted from 1 below the header.
        time: text of the time column in this row; None without one.
        read: the values that the rule read, if the robustness is infinite or means little to users
            (an ``if ... then`` with an ``if`` that compares numbers, or comparisons in several
            units); else "".
        fault: for a rule over time, the data row in its window that violates it, if that is
            another row than `row`; else None. `read` has the values of that row.
    """

    robustness: float
    unit: str
    entity: str | None
    row: int
    time: str | None
    read: str = ""
    fault: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """One rule over a table; counts are of evaluations (bound row x table row that it is about).

    The bound rows that a shape has for one focus node are one evaluation together: violated when
    one of them is, else unknown when one is.

    Attributes:
        rule: name of the rule, as the author wrote it.
        title: the sentence that the author gave it; "" for none.
        kind: its SCFA family.
        output: whether the rule touches a prediction.
        bound_rows: number of constraints that the rule became.
        satisfied: number of evaluations that satisfy the rule.
        violated: number of evaluations that violate it.
        unknown: number of evaluations without a verdict.
        fired: number of evaluations in which the antecedent of an ``if ... then`` holds; for other
            rules, all evaluations.
        worst: where the rule is nearest to, or farthest into, violation; None without a verdict.
        severity: severity of a violation.
        needs_model: whether the rule compares predictions for changed inputs, so that a table
            cannot answer it.
        bound_to: number of things that the rule is bound to, where the bound rows of one focus node
            count once; None if it equals `bound_rows`.
        missing: headers that the rule needs and the table lacks.
        notes: remarks about the rule, as sentences.
        by_entity: the entities with violations, most violations first.
        no_rows: sentences about keys that no table row has.
    """

    rule: str
    title: str
    kind: str
    output: bool
    bound_rows: int
    satisfied: int
    violated: int
    unknown: int
    fired: int
    worst: Worst | None
    severity: Literal["violation", "warning", "info"] = "violation"
    needs_model: bool = False
    bound_to: int | None = None
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    by_entity: tuple[EntityCounts, ...] = ()
    no_rows: tuple[str, ...] = ()

    @property
    def evaluations(self) -> int:
        """Satisfied, violated and unknown together."""
        return self.satisfied + self.violated + self.unknown

    @property
    def violation_rate(self) -> float | None:
        """Violated among those with a verdict; None when there is none."""
        return rate(self.satisfied, self.violated)

    def to_json(self) -> dict[str, Any]:
        """The rule's entry; robustness is null where it is not a finite number, and `infinite` says
        which it is.
        """
        worst = self.worst
        return {
            "rule": self.rule,
            "bound_rows": self.bound_rows,
            "satisfied": self.satisfied,
            "violated": self.violated,
            "unknown": self.unknown,
            "worst": None
            if worst is None
            else {
                "robustness": worst.robustness if math.isfinite(worst.robustness) else None,
                "unit": worst.unit,
                "entity": worst.entity,
                "row": worst.row,
                "time": worst.time,
            }
            | ({} if math.isfinite(worst.robustness) else {"infinite": f"{worst.robustness:+}"})
            | ({} if worst.fault is None else {"fault_row": worst.fault}),
            "bound_to": self.bound_rows if self.bound_to is None else self.bound_to,
            "title": self.title,
            "kind": self.kind,
            "severity": self.severity,
            "fired": self.fired,
            "needs_model": self.needs_model,
            "missing": list(self.missing),
            "notes": [*self.notes, *self.no_rows],
            "by_entity": [one.to_json() for one in self.by_entity[:MOST]],
            "more_entities": max(0, len(self.by_entity) - MOST),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """All rules over a table.

    Attributes:
        table: name of the table's file.
        rows: number of its data rows.
        found: the format of the file, in one line.
        rules: the result of each rule, in the pack's order.
        knowledge: how far each knowledge model of the pack agrees with the others and with the
            answers in the table.
        notes: sentences about columns, and about keys that no row has.
    """

    table: str
    rows: int
    found: str
    rules: tuple[RuleResult, ...]
    knowledge: tuple[Agreement, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def violation_rate(self) -> float | None:
        """Violated among all evaluations with a verdict, over all rules.

        None when there is none.
        """
        return rate(
            sum(rule.satisfied for rule in self.rules), sum(rule.violated for rule in self.rules)
        )

    def to_pandas(self) -> pandas.DataFrame:
        """One row for each rule: its counts, rate and worst place; missing values are NA.

        Raises MissingExtra: pandas is not installed.
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise MissingExtra("an evaluation as a pandas data frame", "frames") from error
        names = {str: "object", bool: "bool", int: "Int64", float: "Float64"}
        return pandas.DataFrame(
            {
                name: pandas.Series(values, dtype=names[kind])
                for name, (kind, values) in self._columns().items()
            }
        )

    def to_polars(self) -> polars.DataFrame:
        """One row for each rule, with the columns of `to_pandas`; missing values are null.

        Raises MissingExtra: polars is not installed.
        """
        try:
            import polars
        except ModuleNotFoundError as error:
            raise MissingExtra("an evaluation as a polars data frame", "frames") from error
        kinds = {
            str: polars.String(),
            bool: polars.Boolean(),
            int: polars.Int64(),
            float: polars.Float64(),
        }
        columns = self._columns()
        return polars.DataFrame(
            {name: values for name, (_, values) in columns.items()},
            schema={name: kinds[kind] for name, (kind, _) in columns.items()},
        )

    def _columns(self) -> dict[str, tuple[type, list[Any]]]:
        """Columns of a data frame: type of the values, and the values. `Any`: that type or None."""
        texts = ("rule", "title", "kind", "severity")
        counts = ("bound_rows", "satisfied", "violated", "unknown", "fired")
        rules, worst = self.rules, [rule.worst for rule in self.rules]
        return {
            **{name: (str, [getattr(rule, name) for rule in rules]) for name in texts},
            "output": (bool, [rule.output for rule in rules]),
            **{name: (int, [getattr(rule, name) for rule in rules]) for name in counts},
            "violation_rate": (float, [rule.violation_rate for rule in rules]),
            "worst_robustness": (float, [one and one.robustness for one in worst]),
            "worst_unit": (str, [one and one.unit for one in worst]),
            "worst_entity": (str, [one and one.entity for one in worst]),
            "worst_row": (int, [one and one.row for one in worst]),
            "worst_time": (str, [one and one.time for one in worst]),
            "notes": (str, ["; ".join((*rule.notes, *rule.no_rows)) for rule in rules]),
        }

    def _repr_html_(self) -> str:
        """The verdicts as a notebook shows them."""
        from fedkg.evaluation.result_presentation import share_text, worst_text

        rate = self.violation_rate
        said = "no verdicts" if rate is None else f"{share_text(rate)} of the verdicts violated"
        return notebook_html(
            "Evaluation",
            f"of {self.rows:,} rows in {self.table}: {said}",
            ("rule", "bound rows", "satisfied", "violated", "unknown", "worst"),
            (
                (
                    rule.rule,
                    rule.bound_rows,
                    rule.satisfied,
                    rule.violated,
                    rule.unknown,
                    worst_text(rule.worst) or "; ".join(rule.notes[:1]),
                )
                for rule in self.rules
            ),
            len(self.rules),
        )

    def to_json(self) -> dict[str, Any]:
        """The evaluation as plain data."""
        return {
            "rules": [rule.to_json() for rule in self.rules],
            "violation_rate": self.violation_rate,
            "table": self.table,
            "rows": self.rows,
            "found": self.found,
            "knowledge": [asdict(one) for one in self.knowledge],
            "notes": list(self.notes),
        }


def rate(satisfied: int, violated: int) -> float | None:
    """violated / (satisfied + violated), None for no verdict at all."""
    return violated / (satisfied + violated) if satisfied + violated else None
