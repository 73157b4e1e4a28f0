"""The words that begin a statement of the rule language."""

from __future__ import annotations

STATEMENT_WORDS = (
    "use",
    "prefix",
    "timeline",
    "rows",
    "signal",
    "output",
    "label",
    "rule",
    "constant",
    "template",
    "infer",
    "range",
    "predict",
    "set",
    "cause",
    "example",
    "shapes",
    "queries",
)
