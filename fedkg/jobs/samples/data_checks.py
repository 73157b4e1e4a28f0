"""Check the rules over inputs alone on the rows of a data set. N rows."""

from __future__ import annotations

import numpy as np

from fedkg.data import Frame
from fedkg.data.sets import DataSet
from fedkg.evaluation import evaluate
from fedkg.jobs.folder import Row
from fedkg.jobs.samples.knowledge_inputs import category_codes
from fedkg.jobs.unevaluated_rules import NO_ROW, NO_ROWS
from fedkg.pack import Pack
from fedkg.pack.manifest import RuleRecord


def check_data(pack: Pack, data: DataSet) -> list[Row]:
    """Rows of `checks.csv`; no rule is evaluated on windows or images."""
    own = [rule for rule in pack.manifest.rules if not rule.output]
    if data.x.ndim != 2 or not own:
        return [_line(rule, 0, 0, reason=NO_ROWS) for rule in own]
    asked = _needed_headers(pack)
    read = [place for place, name in enumerate(data.features) if name in asked] or [
        0
    ]  # at least one column, which defines the number of rows
    frame = Frame(
        name=data.name,
        columns={
            data.features[place]: np.asarray(data.x[:, place], dtype=np.float64) for place in read
        },
    )
    for column in pack.manifest.contract.columns:
        if column.type == "category":
            texts = (*column.vocabulary, "")
            frame = frame.with_texts(
                column.source, [texts[code] for code in category_codes(column, data).tolist()]
            )
    found: list[Row] = []
    for result in evaluate(pack, frame.table(), missing="skip").rules:
        if result.output:
            continue
        record = next(rule for rule in pack.manifest.rules if rule.name == result.rule)
        known = result.violated + result.satisfied
        worst = result.worst
        text = (
            ""
            if not result.violated or worst is None
            else f"row {worst.row}: {worst.read or f'violation {abs(worst.robustness):.4g}'}"
        )
        found.append(
            _line(record, result.violated, known, reason="" if known else NO_ROW, example=text)
        )
    return found


def _line(
    rule: RuleRecord, violated: int, evaluations: int, *, reason: str, example: str = ""
) -> Row:
    return {
        "rule": rule.name,
        "title": rule.title,
        "kind": rule.kind,
        "violated": violated,
        "evaluations": evaluations,
        "rate": violated / evaluations if evaluations else None,
        "reason": reason,
        "example": example,
    }


def _needed_headers(pack: Pack) -> set[str]:
    """Headers that the rules may read, so that a wide table is not copied to float64 completely."""
    contract = pack.manifest.contract
    headers = [column.source for column in contract.columns] + [
        model.column for model in pack.manifest.knowledge
    ]
    headers += [header for view in contract.views for header in view.groups] + [
        contract.time or "",
        contract.trace or "",
    ]
    return {form for header in headers for form in (header, " ".join(header.split()))}
