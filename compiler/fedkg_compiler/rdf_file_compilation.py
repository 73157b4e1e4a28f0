"""Shapes over an RDF file without a store: its focus nodes become the rows of tables, which packs
are then evaluated on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rdflib import RDFS, URIRef

from fedkg.pack import Pack
from fedkg.tables import Table
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.frontends.shacl import holds_shapes, quiet
from fedkg_compiler.frontends.shacl.graph_rules import reject_rules_on_rows
from fedkg_compiler.frontends.shacl.model import ShapesFile, Step, shape_name
from fedkg_compiler.frontends.shacl.parameters import SH
from fedkg_compiler.frontends.shacl.rdf_tables import (
    MOST_VALUES,
    ClassTable,
    Subjects,
    class_table,
    read_subjects,
)
from fedkg_compiler.frontends.shacl.read import read_shapes
from fedkg_compiler.graph.graph_terms import local_name
from fedkg_compiler.graph.spans import point, report
from fedkg_compiler.graph.vocabulary import closest_name

_OF_TEXTS = frozenset(
    {
        "pattern",
        "minLength",
        "maxLength",
        "languageIn",
        "uniqueLang",
        "class",
        "equals",
        "disjoint",
        "lessThan",
        "lessThanOrEquals",
    }
)
"""Components for which it counts what the texts of a property are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRows:
    """A pack for each class that shapes target, with the table of its members.

    And everything that was found out.
    """

    parts: tuple[tuple[str, Pack, Table], ...]
    diagnostics: tuple[Diagnostic, ...]


def compile_for_rdf(paths: Sequence[Path], data: Path) -> ReadRows:
    """The rules and shapes in `paths`, compiled for the nodes of the RDF file `data` as table
    rows.
    """
    with quiet():
        files = [
            shapes
            for path in paths
            if holds_shapes(path) and (shapes := read_shapes(path)[0]) is not None
        ]
        # Each class is compiled on its own, and an error in a rule would be that of every class.
        with_rules = [file for file in files if any(file.graph.subjects(SH.rule))]
        rejected = [error for file in with_rules if (error := reject_rules_on_rows(file))]
    if rejected:
        return ReadRows(parts=(), diagnostics=tuple(rejected))
    asked = {
        constraint.name
        for file in files
        for shape in file.shapes.values()
        for constraint in shape.constraints
    }
    found, problems = read_subjects(
        data, sorted(_properties(files)), _datatypes(files), others="closed" in asked
    )
    if found is None:
        return ReadRows(parts=(), diagnostics=problems)
    also = _subclasses(files)
    parts: list[tuple[str, Pack, Table]] = []
    diagnostics = list(_other_targets(files, data))
    for kind in _classes(files):
        rows = found.members(kind, also)
        if not rows.size:
            diagnostics.append(_no_members(kind, found, data, files))
            continue
        pack, table, said = _one(
            paths,
            data,
            class_table(found, kind, rows, data.name, categories=bool(asked & _OF_TEXTS)),
        )
        diagnostics += [item for item in said if item not in diagnostics]
        if pack is not None:
            parts.append((kind, pack, table))
    return ReadRows(parts=tuple(parts), diagnostics=tuple(diagnostics))


def _one(
    paths: Sequence[Path], data: Path, part: ClassTable
) -> tuple[Pack | None, Table, list[Diagnostic]]:
    from fedkg_compiler.pipeline import compile_rules

    with tempfile.TemporaryDirectory() as folder:
        columns = Path(folder) / f"{data.stem}.columns.ttl"
        columns.write_text(part.turtle, encoding="utf-8")
        compilation = compile_rules(paths, rows_class=part.kind, graphs=[columns])
    said = [
        item for item in compilation.diagnostics if item.code != "FKG326"
    ]  # the data of a property in the file does not declare the property
    for iri, subject in part.left_out:
        message = (
            f"`{local_name(iri)}` has no columns: {local_name(subject)} has more "
            f"than {MOST_VALUES} values of it"
        )
        advice = (
            f"what reads it is not checked for any {local_name(part.kind)}: check that with"
            " `fedkg validate`"
        )
        said.append(report("FKG322", point(str(data)), message, help=advice, severity="warning"))
    return compilation.pack, part.table, said


def _no_members(kind: str, found: Subjects, data: Path, files: Sequence[ShapesFile]) -> Diagnostic:
    """The diagnostic for a target class without members.

    Suggests a class of the data with a similar name.
    """
    name = local_name(kind)
    space = kind.removesuffix(name)
    near = closest_name(
        name, [local_name(one) for one in found.types if one.removesuffix(local_name(one)) == space]
    )
    file, shape = next(
        (file, shape)
        for file in files
        for shape in file.targeted()
        if any(str(one.value) == kind for one in shape.targets)
    )
    message = f"{data.name} has no {name}: {shape_name(shape)} is not checked there"
    others = ", ".join(f"`{local_name(one)}`" for one in sorted(found.types)[:3])
    advice = (
        f"did you mean `{near}`?"
        if near
        else f"its classes are {others}"
        if others
        else "nothing in it has an rdf:type"
    )
    line, column, width = file.locate(shape.line, name, space)
    return report(
        "FKG321",
        Span(file=file.name, line=line, column=column, end_line=line, end_column=column + width),
        message,
        help=advice,
        severity="warning",
    )


def _properties(files: Sequence[ShapesFile]) -> set[str]:
    """The properties that shapes read straight from a focus node."""
    found: set[str] = set()
    for file in files:
        for shape in file.shapes.values():
            if isinstance(shape.path, Step):
                found.add(str(shape.path.property))
            for constraint in shape.constraints:
                if constraint.name in (
                    "equals",
                    "disjoint",
                    "lessThan",
                    "lessThanOrEquals",
                ) and isinstance(constraint.values[0], URIRef):
                    found.add(str(constraint.values[0]))
    return found


def _datatypes(files: Sequence[ShapesFile]) -> dict[str, str]:
    return {
        str(shape.path.property): str(constraint.values[0])
        for file in files
        for shape in file.shapes.values()
        if isinstance(shape.path, Step)
        for constraint in shape.constraints
        if constraint.name == "datatype"
    }


def _classes(files: Sequence[ShapesFile]) -> list[str]:
    targets = (
        target
        for file in files
        for shape in file.targeted()
        if not shape.deactivated
        for target in shape.targets
    )
    return sorted({str(target.value) for target in targets if target.kind == "class"})


def _subclasses(files: Sequence[ShapesFile]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for file in files:
        for sub, kind in file.graph.subject_objects(RDFS.subClassOf):
            found.setdefault(str(kind), set()).add(str(sub))
    return found


def _other_targets(files: Sequence[ShapesFile], data: Path) -> list[Diagnostic]:
    """A warning for each shape with focus nodes that are not the members of a class: a data file is
    not searched for them.
    """
    return [
        report(
            "FKG323",
            point(file.name, shape.line),
            f"{shape.name or 'a shape'} has a target that is not a class: its focus nodes "
            f"are not searched for in {data.name}",
            help=f"compile with {data.name} as a graph, which looks for them",
            severity="warning",
        )
        for file in files
        for shape in file.targeted()
        if not shape.deactivated and any(target.kind != "class" for target in shape.targets)
    ]
