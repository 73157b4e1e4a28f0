"""Marks the rules that read what a model predicts."""

from __future__ import annotations

from dataclasses import replace

from fedkg_compiler.ir import Program


def mark_output_rules(program: Program) -> Program:
    """Set `output` in the records of rules with a row that reads an output."""
    names = {
        part.rule.name
        for part in program.rows
        if any(slot.role == "output" for slot in part.rows.slots_read())
    }
    records = {
        id(part.rule): part.rule.model_copy(update={"output": True})
        for part in program.rows
        if part.rule.name in names
    }
    rows = (replace(part, rule=records.get(id(part.rule), part.rule)) for part in program.rows)
    return replace(program, rows=tuple(rows))
