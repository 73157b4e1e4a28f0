"""Binds statements other than rules; the binder of each kind is imported on first use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedkg_compiler.binding.sheet_cache import Sheets
from fedkg_compiler.binding.signal_columns import Sources
from fedkg_compiler.binding.symbol_table import Names
from fedkg_compiler.ir import Outcome
from fedkg_compiler.syntax import RuleFile


def bind_statements(
    names: Names,
    files: Sequence[RuleFile],
    graphs: Sequence[Path],
    sources: Sources,
    sheets: Sheets,
    outcome: Outcome,
) -> None:
    """Enter the bound inferences, sets, causes, examples, knowledge models, shapes and queries.

    Args:
        graphs: the graph files, among which those with shapes are found. A client's private pack
            takes no shapes and no queries.
    """
    _declared(names, sources, sheets, outcome)
    if names.knowledge:
        from fedkg_compiler.knowledge import bind_knowledge

        trees = {file.file: file for file in files}
        for model in names.knowledge:
            bind_knowledge(model, trees[model.span.file], sources, sheets, outcome)
    if graphs and not names.client:
        from fedkg_compiler.shacl import bind_shapes

        bind_shapes(graphs, sources, outcome)
    queries = [load for load in names.loads if load.what == "queries"]
    if queries:
        from fedkg_compiler.sparql import bind_queries

        bind_queries(queries, sources, outcome)


def _declared(names: Names, sources: Sources, sheets: Sheets, outcome: Outcome) -> None:
    """Inferences, sets, causes and examples."""
    if names.infers:
        from fedkg_compiler.binding.infer_statement import bind_infer

        for infer in names.infers:
            bind_infer(infer, sources, outcome)
    if names.sets:
        from fedkg_compiler.binding.feasible_set_statement import bind_set

        outcome.sets += [
            kept for one in names.sets if (kept := bind_set(one, sources, sheets)) is not None
        ]
    if names.causes:
        from fedkg_compiler.binding.causes import bind_cause

        outcome.causes += [
            cause for one in names.causes if (cause := bind_cause(one, sources, sheets)) is not None
        ]
    if names.examples:
        from fedkg_compiler.binding.rule_examples import bind_example

        outcome.examples += [
            example for one in names.examples if (example := bind_example(one, sources)) is not None
        ]
