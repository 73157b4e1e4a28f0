"""Shapes over an RDF file without a store: the members of a class become the rows of a table, their
properties its columns, and the shapes a pack for each table.

N-Triples are read line by line: a line with a wanted predicate and a plain number as its object is
taken unchanged. All other lines go to the parser of pyoxigraph in blocks. Other syntaxes are
streamed through that parser. Letters: N subjects, M values of a property.
"""

from __future__ import annotations

import re
import tempfile
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rdflib import URIRef

from fedkg.pack import Pack
from fedkg.tables import Table
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.frontends.shacl.graph_rules import reject_rules_on_rows
from fedkg_compiler.frontends.shacl.shape_conditions import BLANK, DATATYPE_HEADER, RESOURCE, TEXTS
from fedkg_compiler.frontends.shacl.shapes_graph_reader import (
    SH,
    ShapesFile,
    Step,
    quiet,
    read_shapes,
    shape_name,
)
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.ontologies import closest_name
from fedkg_compiler.graph.rdf_reader import RDF_FORMATS
from fedkg_compiler.graph.rdf_terms import local_name
from fedkg_compiler.graph.standard_vocabularies import FKG, NUMBERS, RDF, RDFS, WHOLE_NUMBERS
from fedkg_compiler.input_files import NotRdf, detect_format, holds_shapes, read_start

FOCUS = "focus node"
"""The header of the column with the rows' IRIs."""

MOST_VALUES = 8
"""A property with more values than this at one subject has no columns."""

MOST_CATEGORIES = 2000
"""A property with more texts than this is not judged text by text."""

_BLOCK = 50_000
_FORMATS = {
    ".nt": ox.RdfFormat.N_TRIPLES,
    ".ttl": ox.RdfFormat.TURTLE,
    ".shacl": ox.RdfFormat.TURTLE,
    ".trig": ox.RdfFormat.TRIG,
    ".nq": ox.RdfFormat.N_QUADS,
    ".rdf": ox.RdfFormat.RDF_XML,
    ".owl": ox.RdfFormat.RDF_XML,
    ".xml": ox.RdfFormat.RDF_XML,
    ".jsonld": ox.RdfFormat.JSON_LD,
}
_IRI = re.compile(rb'<[A-Za-z][A-Za-z0-9+.-]*:[^<>"{}|^`\\\x00-\x20]*>')
_DIGITS = b"+-0123456789"
_TYPE, _SUBCLASS = RDF + "type", RDFS + "subClassOf"


@dataclass(slots=True)
class _Values:
    """The values of one property: numbers of its usual datatype by row, others as terms."""

    datatype: str = ""
    rows: array[int] = field(default_factory=lambda: array("q"))
    numbers: array[float] = field(default_factory=lambda: array("d"))
    others: list[tuple[int, ox.NamedNode | ox.BlankNode | ox.Literal]] = field(default_factory=list)
    suffix: bytes = b"\n\n"
    marks: bytes = b""

    def usual(self, datatype: str) -> None:
        """From now on, numbers of this datatype are taken unchanged."""
        self.datatype, self.marks = datatype, _marks(datatype)
        self.suffix = f'"^^<{datatype}> .\n'.encode()

    def add(self, row: int, term: ox.NamedNode | ox.BlankNode | ox.Literal) -> None:
        """One value as the parser gave it."""
        if isinstance(term, ox.Literal):
            datatype = term.datatype.value
            if not self.datatype and datatype in NUMBERS:
                self.usual(datatype)
            number = _number(term.value, self.marks) if datatype == self.datatype else None
            if number is not None:
                self.rows.append(row)
                self.numbers.append(number)
                return
        self.others.append((row, term))


@dataclass(slots=True)
class Subjects:
    """The subjects in the order of the file, their classes, and their values by property.

    Attributes:
        others: the subjects of every other property, where these are asked for.
    """

    names: dict[str, int]
    types: dict[str, set[int]]
    subclasses: dict[str, set[str]]
    values: dict[str, _Values]
    others: dict[str, set[int]] | None = None

    def members(self, kind: str, also: Mapping[str, set[str]]) -> NDArray[np.int64]:
        """The rows of the members of a class and its subclasses.

        `also`: further subclasses of each class.
        """
        seen, waiting = {kind}, [kind]
        while waiting:
            at = waiting.pop()
            new = (self.subclasses.get(at, set()) | also.get(at, set())) - seen
            seen |= new
            waiting += new
        return np.array(
            sorted(set().union(*(self.types.get(one, set()) for one in seen))), dtype=np.int64
        )


def read_subjects(
    path: Path, properties: Iterable[str], datatypes: Mapping[str, str], *, others: bool = False
) -> tuple[Subjects | None, tuple[Diagnostic, ...]]:
    """The subjects of an RDF file with their values of some properties.

    None, with the reason, where the file cannot be read.

    Args:
        path: the RDF file.
        properties: IRIs of the properties whose values are read.
        datatypes: the datatype that most values of a property are expected to have.
        others: also collect the subjects of every other property.
    """
    suffix = path.suffix.lower()
    form = _FORMATS.get(suffix)
    reason = f"`{suffix}` is not the ending of an RDF syntax"
    advice = "give it as a graph: fedkg validate DATA SHAPES"
    if form is None:
        syntax = detect_format(read_start(path), path.name)
        if isinstance(syntax, NotRdf):
            reason, advice = f"it is {syntax.what}", syntax.help
        else:
            form = RDF_FORMATS.get(syntax)
    if form is None:
        message = f"{path.name} cannot be read: {reason}"
        return None, (report("FKG320", point(str(path)), message, help=advice),)
    found = Subjects({}, {}, {}, {one: _Values() for one in properties}, {} if others else None)
    for one, values in found.values.items():
        if datatypes.get(one) in NUMBERS:
            values.usual(datatypes[one])
    try:
        if suffix == ".nt":
            _read_lines(path, found)
        else:
            for quad in ox.parse(path=str(path), format=form, base_iri=path.absolute().as_uri()):
                _take(quad, found)
    except SyntaxError as error:
        reason = str(error.msg or error).rsplit(" (line", 1)[0]
        return None, (
            report(
                "FKG320",
                point(str(path), error.lineno or 1, error.offset or 1),
                f"{path.name} cannot be read: {reason}",
                help="correct the file at this place",
            ),
        )
    except OSError as error:
        return None, (
            report(
                "FKG320",
                point(str(path)),
                f"{path.name} cannot be read: {error.strerror or error}",
                help="check the path, and that you may read the file",
            ),
        )
    return found, ()


def _read_lines(path: Path, found: Subjects) -> None:
    """N-Triples, each line on its own. Raises SyntaxError with the line of the file."""
    wanted = {f"<{iri}>".encode(): values for iri, values in found.values.items()}
    quick = {
        iri: (v.suffix, -len(v.suffix), v.marks, v.rows.append, v.numbers.append)
        for iri, v in wanted.items()
        if v.datatype
    }
    kind = f"<{_TYPE}>".encode()
    types: dict[bytes, set[int]] = {}
    ids, names = dict[bytes, int](), found.names
    last, row = b"", -1
    left: list[tuple[int, bytes]] = []
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                subject, predicate, thing = line.split(b" ", 2)
                if subject != last:
                    row = ids[subject]
                    last = subject
                suffix, end, marks, add_row, add_number = quick[predicate]
                if (
                    thing.endswith(suffix)
                    and thing[0] == 34
                    and not (text := thing[1:end]).strip(marks)
                ):
                    add_number(float(text))
                    add_row(row)
                    continue
            except (KeyError, ValueError):
                pass
            if _taken(line, kind, types, ids, names):
                continue
            left.append((number, line))
            if len(left) >= _BLOCK:
                _take_lines(left, found)
                left.clear()
                quick = {
                    iri: (v.suffix, -len(v.suffix), v.marks, v.rows.append, v.numbers.append)
                    for iri, v in wanted.items()
                    if v.datatype
                }
    _take_lines(left, found)
    for thing, rows in types.items():
        found.types.setdefault(thing[1:-4].decode(), set()).update(rows)


def _taken(
    line: bytes,
    kind: bytes,
    types: dict[bytes, set[int]],
    ids: dict[bytes, int],
    names: dict[str, int],
) -> bool:
    """Take a line that gives a subject's class; enter a subject that is new."""
    subject, _, rest = line.partition(b" ")
    row = ids.get(subject)
    if row is None:
        if _IRI.fullmatch(subject) is None:
            return False
        row = ids[subject] = names.setdefault(subject[1:-1].decode(), len(names))
    predicate, _, thing = rest.partition(b" ")
    if predicate != kind:
        return False
    if thing not in types:
        if not thing.endswith(b" .\n") or _IRI.fullmatch(thing[:-3]) is None:
            return False
        types[thing] = set()
    types[thing].add(row)
    return True


def _marks(datatype: str) -> bytes:
    """The characters that a number of a datatype is written with."""
    return (
        _DIGITS
        if datatype in WHOLE_NUMBERS
        else _DIGITS + b"."
        if datatype.endswith("decimal")
        else _DIGITS + b".eE"
    )


def _number(text: str, marks: bytes) -> float | None:
    """A number as XML Schema writes it; infinite and not-a-number do not count."""
    try:
        return None if text.encode().strip(marks) else float(text)
    except ValueError:
        return None


def _take_lines(lines: Sequence[tuple[int, bytes]], found: Subjects) -> None:
    try:
        for quad in ox.parse(
            b"".join(line if line.endswith(b"\n") else line + b"\n" for _, line in lines),
            format=ox.RdfFormat.N_TRIPLES,
        ):
            _take(quad, found)
    except SyntaxError as error:
        error.lineno = lines[min((error.lineno or 1), len(lines)) - 1][0]
        raise


def _take(quad: ox.Quad, found: Subjects) -> None:
    subject, term = quad.subject, quad.object
    if isinstance(subject, ox.Triple) or isinstance(term, ox.Triple):
        return
    predicate = quad.predicate.value
    name = subject.value if isinstance(subject, ox.NamedNode) else str(subject)
    row = found.names.setdefault(name, len(found.names))
    if predicate == _TYPE and isinstance(term, ox.NamedNode):
        found.types.setdefault(term.value, set()).add(row)
    elif predicate == _SUBCLASS and isinstance(term, ox.NamedNode):
        found.subclasses.setdefault(term.value, set()).add(name)
    values = found.values.get(predicate)
    if values is not None:
        values.add(row, term)
    elif found.others is not None and predicate != _TYPE:
        found.others.setdefault(predicate, set()).add(row)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassTable:
    """The members of one class as a table, and Turtle that maps each property to its column.

    Attributes:
        left_out: properties without columns, each with the first subject that has the most values
            of it.
    """

    kind: str
    table: Table
    turtle: str
    left_out: tuple[tuple[str, str], ...]


def class_table(
    found: Subjects, kind: str, rows: NDArray[np.int64], name: str, *, categories: bool = False
) -> ClassTable:
    """The table of some subjects, with a column for each value that a property has at most.

    Args:
        categories: the Turtle also tells all values of the properties that have texts and entities
            alone, and the entities' classes.
    """
    place = np.full(len(found.names), -1, dtype=np.int64)
    place[rows] = np.arange(rows.size)
    names = list(found.names)
    columns: Columns = {FOCUS: [names[i] for i in rows.tolist()]}
    turtle: list[str] = []
    left_out: list[tuple[str, str]] = []
    taken = {FOCUS}
    for iri, values in found.values.items():
        header = local_name(iri) if local_name(iri) not in taken else iri
        taken.add(header)
        added = _columns(values, place, rows.size, header)
        if isinstance(added, int):
            left_out.append((iri, names[int(rows[added])]))
            turtle.append(f"<{iri}> a <{RDF}Property> .\n")
            continue
        headers, datatype, datatype_headers = added
        columns |= headers
        shown = ", ".join(_quoted(one) for one in headers if one not in datatype_headers)
        turtle.append(f"<{iri}> <{FKG}column> {shown} .\n")
        if datatype_headers:
            turtle.append(
                f"<{iri}> <{FKG}datatypeColumn> {', '.join(map(_quoted, datatype_headers))} .\n"
            )
        if datatype:
            turtle.append(f"<{iri}> <{FKG}datatype> <{datatype}> .\n")
        if categories:
            turtle += _categories(iri, values, place, found)
    if categories:
        pairs = (
            (sub, kind)
            for kind, subs in sorted(found.subclasses.items())
            for sub in sorted(subs)
            if not sub.startswith("_:")
        )
        turtle += [f"<{sub}> <{_SUBCLASS}> <{kind}> .\n" for sub, kind in pairs]
    for iri, subjects in (found.others or {}).items():
        header = local_name(iri) if local_name(iri) not in taken else iri
        taken.add(header)
        at = place[np.array(sorted(subjects), dtype=np.int64)]
        columns[header] = np.where(np.isin(np.arange(rows.size), at), 1.0, np.nan)
        turtle.append(f"<{iri}> <{FKG}column> {_quoted(header)} .\n")
    table = Table.of(name, columns, subject=FOCUS)
    return ClassTable(kind=kind, table=table, turtle="".join(turtle), left_out=tuple(left_out))


def _categories(iri: str, values: _Values, place: NDArray[np.int64], found: Subjects) -> list[str]:
    """All values of a property as categories.

    Nothing if some are numbers or blank nodes, or there are very many.
    """
    terms = {term for row, term in values.others if place[row] >= 0}
    literals = {term.datatype.value for term in terms if isinstance(term, ox.Literal)}
    if (
        values.numbers
        or not terms
        or len(terms) > MOST_CATEGORIES
        or literals & NUMBERS
        or any(isinstance(t, ox.BlankNode) for t in terms)
    ):
        return []
    lines = [f"<{iri}> <{FKG}category> {', '.join(sorted(map(str, terms)))} .\n"]
    rows = {
        row: term
        for term in terms
        if isinstance(term, ox.NamedNode) and (row := found.names.get(term.value)) is not None
    }
    lines += [
        f"{rows[row]} <{FKG}categoryOf> <{kind}> .\n"
        for kind, members in sorted(found.types.items())
        for row in sorted(members & rows.keys())
    ]
    return lines


Columns = dict[str, Sequence[str] | NDArray[np.float64]]


def _columns(
    values: _Values, place: NDArray[np.int64], rows: int, header: str
) -> tuple[Columns, str, list[str]] | int:
    """The columns of one property, its datatype where all share it, else the columns that tell it.

    A row with too many values instead.
    """
    at = (
        place[np.frombuffer(values.rows, dtype=np.int64)]
        if len(values.rows)
        else np.empty(0, dtype=np.int64)
    )
    numbers = (
        np.frombuffer(values.numbers, dtype=np.float64) if len(values.numbers) else np.empty(0)
    )
    at, numbers = at[at >= 0], numbers[at >= 0]
    others = [(int(place[row]), *_read(term)) for row, term in values.others if place[row] >= 0]
    once = np.bincount(at, minlength=rows)
    column = np.full(rows, np.nan)
    column[at] = numbers
    if not others and (not at.size or once.max() == 1):
        return {header: column}, values.datatype, []
    rest = {row for row, *_ in others} | set(np.flatnonzero(once > 1).tolist())
    again = np.isin(at, list(rest))
    by_row: dict[int, set[_Told]] = {row: set() for row in rest}
    for row, number in zip(at[again].tolist(), numbers[again].tolist(), strict=True):
        by_row[row].add((values.datatype, "", number))
    for row, number, kind, text in others:
        by_row[row].add((kind, text, number))
    kinds = {kind for found in by_row.values() for kind, *_ in found} | (
        {values.datatype} if at.size else set()
    )
    return _several(by_row, kinds, column, header, values.datatype if at.size else "")


_Told = tuple[str, str, float]
"""Datatype, text and number of one value."""


def _several(
    by_row: dict[int, set[_Told]],
    kinds: set[str],
    column: NDArray[np.float64],
    header: str,
    usual: str,
) -> tuple[Columns, str, list[str]] | int:
    """The columns of a property if some rows (`by_row`) have several values, or values that are not
    numbers of the `usual` datatype.

    Values of several datatypes have a column with their datatype each. A row with too many values
    is returned instead.
    """
    fullest = max(by_row, key=lambda row: (len(by_row[row]), -row))
    if len(by_row[fullest]) > MOST_VALUES:
        return fullest
    ordered = {row: sorted(found) for row, found in by_row.items()}
    rows, known = column.size, (~np.isnan(column)).tolist()
    columns: Columns = {}
    datatype_headers: list[str] = []
    for i in range(len(ordered[fullest])):
        name = header if i == 0 else f"{header} ({i + 1})"
        at = {row: found[i] for row, found in ordered.items() if len(found) > i}
        if kinds & NUMBERS:
            numbers = column.copy() if i == 0 else np.full(rows, np.nan)
            numbers[list(ordered)] = [at[row][2] if row in at else np.nan for row in ordered]
            columns[name] = numbers
        else:
            columns[name] = [at[row][1] if row in at else "" for row in range(rows)]
        if len(kinds) > 1:
            plain = usual if i == 0 else ""
            datatype_headers.append(f"{name}{DATATYPE_HEADER}")
            columns[datatype_headers[-1]] = [
                at[row][0] if row in at else plain if known[row] else "" for row in range(rows)
            ]
    if not datatype_headers:
        return columns, next(iter(kinds)), []
    return columns, "" if kinds & NUMBERS else TEXTS, datatype_headers


def _read(term: ox.NamedNode | ox.BlankNode | ox.Literal) -> tuple[float, str, str]:
    """A value as number (NaN where it is none), datatype and text."""
    if not isinstance(term, ox.Literal):
        return (
            (np.nan, RESOURCE, term.value)
            if isinstance(term, ox.NamedNode)
            else (np.nan, BLANK, str(term))
        )
    datatype = term.datatype.value
    if datatype in NUMBERS:
        number = _number(term.value, _marks(datatype))
        if number is not None:
            return number, datatype, ""
        return np.nan, f"{datatype} (ill-formed)", term.value
    return np.nan, datatype, f"{term.value}@{term.language}" if term.language else term.value


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


__all__ = ["FOCUS", "ClassTable", "Subjects", "class_table", "read_subjects"]


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
            f"constraints that read it are not checked for any {local_name(part.kind)}: check "
            "them with `fedkg validate`"
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
        for sub, kind in file.graph.subject_objects(URIRef(RDFS + "subClassOf")):
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
            help=f"check them with: fedkg validate {data} {file.name}",
            severity="warning",
        )
        for file in files
        for shape in file.targeted()
        if not shape.deactivated and any(target.kind != "class" for target in shape.targets)
    ]
