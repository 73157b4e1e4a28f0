"""Rules from the ranges that the data itself keeps."""

from __future__ import annotations

from fedkg._internal.safe_text import list_first
from fedkg.tables import Table, is_unknown
from fedkg_compiler.authoring.ranges import Finding, find_range
from fedkg_compiler.authoring.string_and_name_quoting import Names, quoted, reference, remark, slug


def rules_from_data(table: Table, table_name: str, time: str | None) -> list[str]:
    """Lines of rules, one per column of numbers, and of remarks on the columns without a rule;
    `time` is the time column, if any.
    """
    lines: list[str] = []
    remarks: list[str] = []
    names = Names()
    for header in table.headers:
        if header == time:
            continue
        if not table.is_numeric(header):
            remarks.append(f"#   {remark(header)}: {_text_remark(table.texts(header))}")
            continue
        finding = find_range(table.numbers(header))
        if finding.remark:
            remarks.append(f"#   {remark(header)}: {finding.remark}")
            continue
        lines += _rule(header, finding, table_name, names.give(slug(header)))
    if remarks:
        lines += ["# Columns without a rule:", *remarks]
    return lines


def _rule(header: str, finding: Finding, table_name: str, name: str) -> list[str]:
    column, before = reference(header, name)
    if finding.trend is not None:
        prefix, kind, title, formula = (
            "trend",
            "temporal",
            f"{header} never {finding.trend}.",
            f"{column} never {finding.trend}",
        )
    else:
        prefix, kind, title = (
            "range",
            "capacity",
            f"{header} stays in the range it had in {table_name}.",
        )
        formula = f"{finding.low} <= {column} <= {finding.high}"
    return [
        *before,
        f"rule {prefix}_{name} {quoted(title)}",
        f"  kind {kind}",
        f"  require {formula}    # found: {finding.seen}",
        "",
    ]


def _text_remark(texts: list[str]) -> str:
    words = list(dict.fromkeys(text for text in texts if not is_unknown(text)))
    if not words:
        return "no known value"
    return f"text, {list_first([remark(word) for word in words], 5)}"
