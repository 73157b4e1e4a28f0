"""SPARQL violation queries, partially evaluated: static facts now, observed values as formulas.

`bind_queries` binds query files; `prebound.bind_query` binds one text with some variables bound in
advance, like ``$this`` of SHACL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedkg.pack import Source
from fedkg_compiler.frontends.fkg.binding.scope import Sources
from fedkg_compiler.frontends.fkg.syntax.tree import Load, Word
from fedkg_compiler.graph.diagnostic_spans import point
from fedkg_compiler.ir import Program


def query_loads(paths: Sequence[Path]) -> list[Load]:
    """Return query files that are passed without a rule file, as a rule file would name them."""
    places = [(str(path), point(str(path))) for path in paths]
    return [
        Load(span=place, what="queries", path=Word(span=place, text=text)) for text, place in places
    ]


def bind_queries(loads: Sequence[Load], sources: Sources) -> Program:
    """Bind every query that `queries` statements name."""
    if not loads or sources.graph is None:
        return Program()
    from fedkg_compiler.frontends.sparql.observed_columns import Observations
    from fedkg_compiler.frontends.sparql.query_binder import QueryBinder
    from fedkg_compiler.frontends.sparql.query_files import read_queries

    queries = read_queries(loads, sources)
    observations = Observations(sources=sources, span=loads[0].span)
    found = QueryBinder(sources.graph, observations).bind(queries)
    files = [
        Source(
            name=query.file.replace("\\", "/").rsplit("/", 1)[-1], kind="query", sha256=query.sha256
        )
        for query in queries
    ]
    return replace(found, sources=tuple(files))
