"""Reads XML schemas (W3C XSD 1.0) as an ontology: types to classes, elements and attributes to
properties, enumerations to individuals.

The mapping is stated in `docs/reference/ontology-sources.md`. B2MML, the form in which industry has
ISA-95, is its touchstone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.sources.result import Read
from fedkg_compiler.graph.sources.xml_schema_components import index, space_of
from fedkg_compiler.graph.sources.xsd_files import Gathered, Schema, gather, gather_folder
from fedkg_compiler.graph.sources.xsd_terms import Terms
from fedkg_compiler.graph.sources.xsd_undefined_names import missing


def read(text: str, file: str, folder: Path | None) -> Read:
    """Return what a schema says, with those that it includes from `folder`."""
    return _read(gather(text, file, folder))


def read_folder(folder: Path, shown: str) -> Read:
    """Return what all schemas below a folder say. Raises OSError where one cannot be read."""
    return _read(gather_folder(folder, shown))


def _read(found: Gathered) -> Read:
    if not found.schemas:
        return Read(triples=[], prefixes={}, problems=tuple(found.problems), usable=False)
    names, twice = index(found.schemas)
    terms = Terms(names)
    terms.write(found.schemas)
    return Read(
        triples=terms.triples,
        prefixes=_prefixes(found.schemas),
        problems=(*_sorted(found.problems), *twice, *missing(found.schemas, names, found.problems)),
        parts=tuple(sorted(found.parts.items())),
    )


def _prefixes(schemas: Sequence[Schema]) -> dict[str, str]:
    prefixes: dict[str, str] = {}
    for schema in schemas:
        for prefix, namespace in schema.prefixes.items():
            prefixes.setdefault(prefix, space_of(namespace))
    return prefixes


def _sorted(problems: Sequence[Diagnostic]) -> list[Diagnostic]:
    return sorted(
        problems,
        key=lambda problem: (problem.severity != "error", problem.span.file, problem.span.line),
    )
