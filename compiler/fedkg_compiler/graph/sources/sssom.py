"""Reads SSSOM/TSV, the Simple Standard for Sharing Ontological Mappings: each row becomes a triple
and an `owl:Axiom` with its justification, confidence, author and date.

Source: https://w3id.org/sssom, version 1.1: "The SSSOM/TSV serialisation format", "The SSSOM data
model" and "The OWL/RDF serialisation format". Slots that fedkg does not use are skipped.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path, PurePath

import yaml

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.diagnostic_spans import FILE_READ_ON, point, report
from fedkg_compiler.graph.rdf_terms import is_iri
from fedkg_compiler.graph.sources.result import Read
from fedkg_compiler.graph.standard_vocabularies import (
    DCTERMS,
    OWL,
    PAV,
    RDF,
    RDFS,
    SEMAPV,
    SKOS,
    SSSOM,
    XSD,
)
from fedkg_compiler.input_files import read_bytes

BUILT_IN_PREFIXES = {
    "owl": OWL,
    "rdf": RDF,
    "rdfs": RDFS,
    "semapv": SEMAPV,
    "skos": SKOS,
    "sssom": SSSOM,
    "xsd": XSD,
}
"""Prefixes that a file need not declare, and must not declare otherwise."""
JUSTIFICATIONS = [
    "BackgroundKnowledgeBasedMatching",
    "CompositeMatching",
    "InstanceBasedMatching",
    "LexicalMatching",
    "LexicalSimilarityThresholdMatching",
    "LogicalReasoning",
    "ManualMappingCuration",
    "MappingChaining",
    "MappingInversion",
    "MappingReview",
    "SemanticSimilarityThresholdMatching",
    "StructuralMatching",
    "UnspecifiedMatching",
]
"""The terms of the vocabulary `semapv` that justify a mapping."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The reader in C is ten times as fast; PyYAML is also installed without it."""
_REQUIRED_COLUMNS = ("subject_id", "predicate_id", "object_id", "mapping_justification")
_REQUIRED_METADATA = ("mapping_set_id", "license")
_PROPAGATED = ("mapping_date",)
"""Slots of the set that hold for all rows, unless a row has its own value."""
_SET_PROPERTIES = {
    "mapping_set_title": RDFS + "label",
    "mapping_set_description": RDFS + "comment",
    "mapping_set_version": OWL + "versionInfo",
    "creator_label": DCTERMS + "creator",
}
_MOST_REPORTED = 20
_MOST_NESTED = 20
"""Levels of YAML in the metadata; SSSOM has three."""
_CELL = re.compile(
    r'(?:"(?P<quoted>(?:[^"]|"")*+)"|(?P<plain>[^\t\r\n"][^\t\r\n]*+)?+)(\t|\r?\n|\Z)'
)
_NO_TERM = SSSOM + "NoTermFound"


@dataclass(frozen=True, slots=True)
class _Cell:
    """A value with its place, which counts from 1."""

    value: str
    line: int
    column: int


_Metadata = dict[str, _Cell | list[_Cell] | dict[str, _Cell]]
"""The slots of a mapping set: single values, lists and `curie_map`."""


@dataclass(slots=True)
class _Reading:
    """The state of reading one file."""

    file: str
    triples: list[ox.Quad] = field(default_factory=list)
    prefixes: dict[str, str] = field(default_factory=lambda: dict(BUILT_IN_PREFIXES))
    problems: list[Diagnostic] = field(default_factory=list)
    parts: list[tuple[str, str]] = field(default_factory=list)

    def report(self, cell: _Cell, message: str, help: str) -> None:
        """Report a mistake at a cell."""
        if len(self.problems) < _MOST_REPORTED:
            span = point(self.file, cell.line, cell.column, width=max(1, len(cell.value)))
            self.problems.append(report("FKG122", span, message, help=help))

    def iri(self, cell: _Cell) -> ox.NamedNode | None:
        """Return the IRI of a CURIE; None with a problem reported."""
        prefix, colon, local = cell.value.partition(":")
        if colon and local.startswith("//"):
            advice = "write it as a CURIE such as `iof:Person`, with its prefix in `curie_map`"
            self.report(cell, f"`{cell.value}` is an IRI, not a CURIE", advice)
        elif not colon:
            advice = "write a prefix of `curie_map`, a colon and a name: `iof:Person`"
            self.report(cell, f"`{cell.value}` is not a CURIE", advice)
        elif prefix not in self.prefixes:
            advice = f"add `{prefix}: https://...` to `curie_map` in the metadata"
            self.report(cell, f"the prefix `{prefix}:` is not declared in `curie_map`", advice)
        elif not is_iri(self.prefixes[prefix] + local):
            self.report(
                cell, f"`{cell.value}` does not make an IRI", "remove spaces, quotes and braces"
            )
        else:
            return ox.NamedNode(self.prefixes[prefix] + local)
        return None


def read(text: str, file: str, folder: Path | None) -> Read:
    """Return the mappings of an SSSOM/TSV file.

    A row with the predicate modifier `Not`, and one for a term without a match
    (`sssom:NoTermFound`), asserts nothing.

    Args:
        text: its content. file: how messages name it. folder: where `NAME.sssom.yml` is looked for
            if the file has no metadata; None: nowhere.
    """
    reading = _Reading(file)
    metadata_text, rows_from = _metadata_lines(text)
    metadata = (
        _metadata(reading, metadata_text) if metadata_text else _external_metadata(reading, folder)
    )
    if metadata is None:
        return _result(reading, usable=False)
    name = _set_triples(reading, metadata)
    rows, problems = _rows(reading, text, rows_from), len(reading.problems)
    header = next(rows, [_Cell("", text.count("\n") + 1, 1)])
    if reading.problems[problems:] or not _check_header(reading, header):
        return _result(reading, usable=False)
    columns = [cell.value for cell in header]
    defaults = {slot: cell for slot in _PROPAGATED if isinstance(cell := metadata.get(slot), _Cell)}
    for row in rows:
        if len(row) != len(columns):
            message = f"this row has {len(row)} cells, and the header has {len(columns)}"
            advice = "separate cells by one tab each, and leave cells without a value empty"
            reading.report(row[0], message, advice)
            continue
        cells = {column: cell for column, cell in zip(columns, row, strict=True) if cell.value}
        _mapping(reading, name, {**defaults, **cells}, row[0])
    return _result(reading, usable=True)


def _result(reading: _Reading, *, usable: bool) -> Read:
    return Read(
        triples=reading.triples,
        prefixes=reading.prefixes,
        problems=tuple(reading.problems),
        usable=usable,
        parts=tuple(reading.parts),
    )


def _metadata_lines(text: str) -> tuple[str, int]:
    """The lines of the metadata block without `#` (columns do not shift: a space takes its place),
    and the offset behind them.
    """
    lines, at = [], 0
    while text.startswith("#", at):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        lines.append(f" {text[at + 1 : end].rstrip()}")
        at = min(end + 1, len(text))
    return "\n".join(lines), at


def _external_metadata(reading: _Reading, folder: Path | None) -> _Metadata | None:
    """The metadata of the file beside this one, which has none."""
    stem = PurePath(reading.file).name.removesuffix(".tsv").removesuffix(".sssom")
    path = Path() if folder is None else folder / f"{stem}.sssom.yml"
    if not path.is_file():
        advice = f"begin it with metadata in lines with `#`, or put {stem}.sssom.yml beside it"
        reading.report(_Cell("", 1, 1), "the file has no metadata", advice)
        return None
    body = read_bytes(path, name="graph")
    reading.parts.append((path.name, hashlib.sha256(body).hexdigest()))
    inner = _Reading(str(path), prefixes=reading.prefixes)
    found = _metadata(inner, body.decode("utf-8", errors="replace"))
    reading.problems += inner.problems
    return found


def _metadata(reading: _Reading, text: str) -> _Metadata | None:
    """The slots of the mapping set, and the prefixes of `curie_map` in `reading`; None if the YAML
    cannot be read.
    """
    try:
        if not _is_plain_yaml(reading, text):
            return None
        root = yaml.compose(text, _LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        cell = _Cell("", mark.line + 1, mark.column + 1) if mark else _Cell("", 1, 1)
        problem = error.problem or error.context
        reading.report(cell, f"the metadata is not YAML: {problem}", "correct the line")
        return None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        cell = _Cell("", before.count("\n") + 1, error.position - before.rfind("\n"))
        reading.report(cell, "the metadata has a control character", "remove it")
        return None
    if not isinstance(root, yaml.MappingNode):
        advice = "write `mapping_set_id: https://...` and the other slots, one on each line"
        reading.report(_Cell("", 1, 1), "the metadata has no slots", advice)
        return None
    found: _Metadata = {}
    for key, value in root.value:
        if isinstance(value, yaml.ScalarNode):
            found[str(key.value)] = _cell(value)
        elif isinstance(value, yaml.SequenceNode):
            found[str(key.value)] = [_cell(one) for one in value.value]
        else:
            found[str(key.value)] = {str(one.value): _cell(two) for one, two in value.value}
    declared = found.get("curie_map", {})
    if not isinstance(declared, dict):
        reading.report(
            declared if isinstance(declared, _Cell) else _Cell("", 1, 1),
            "`curie_map` is not a map",
            "write a line such as `  iof: https://...` for each prefix below it",
        )
        declared = {}
    for prefix, cell in declared.items():
        if BUILT_IN_PREFIXES.get(prefix, cell.value) != cell.value:
            advice = f"leave it out: it is {BUILT_IN_PREFIXES[prefix]} in every file"
            reading.report(cell, f"SSSOM declares the prefix `{prefix}:`", advice)
        elif not is_iri(cell.value):
            advice = "an IRI has a scheme and no spaces: `https://example.org/plant#`"
            reading.report(cell, f"`{cell.value}` is not an IRI", advice)
        else:
            reading.prefixes[prefix] = cell.value
    for slot in _REQUIRED_METADATA:
        value = found.get(slot)
        if not isinstance(value, _Cell) or not is_iri(value.value):
            cell = value if isinstance(value, _Cell) else _Cell("", 1, 1)
            what = "is not an IRI" if isinstance(value, _Cell) else "is missing"
            verb = "write" if isinstance(value, _Cell) else "add"
            advice = f"{verb} `{slot}: https://...` in the metadata"
            reading.report(cell, f"`{slot}` {what}", advice)
    return found


def _is_plain_yaml(reading: _Reading, text: str) -> bool:
    """Report what SSSOM forbids in YAML: directives, tags, anchors, aliases; and deep nesting."""
    depth = 0
    forbidden = (yaml.DirectiveToken, yaml.TagToken, yaml.AnchorToken, yaml.AliasToken)
    starts = (
        yaml.BlockMappingStartToken,
        yaml.BlockSequenceStartToken,
        yaml.FlowMappingStartToken,
        yaml.FlowSequenceStartToken,
    )
    ends = (yaml.BlockEndToken, yaml.FlowMappingEndToken, yaml.FlowSequenceEndToken)
    for token in yaml.scan(text, _LOADER):
        depth += isinstance(token, starts) - isinstance(token, ends)
        if isinstance(token, forbidden) or depth > _MOST_NESTED:
            cell = _Cell("", token.start_mark.line + 1, token.start_mark.column + 1)
            message = "SSSOM does not allow YAML directives, tags, anchors and aliases"
            if depth > _MOST_NESTED:
                message = f"the metadata is nested more than {_MOST_NESTED} deep"
            reading.report(cell, message, "write one slot on each line")
            return False
    return True


def _cell(node: yaml.Node) -> _Cell:
    """A scalar of YAML with its place; "" for what is not a scalar."""
    value = str(node.value) if isinstance(node, yaml.ScalarNode) else ""
    return _Cell(value, node.start_mark.line + 1, node.start_mark.column + 1)


def _set_triples(reading: _Reading, metadata: _Metadata) -> ox.NamedNode | None:
    """State what the set says of itself; return its name."""
    cell = metadata.get("mapping_set_id")
    if not isinstance(cell, _Cell) or not is_iri(cell.value):
        return None
    name = ox.NamedNode(cell.value)
    add = reading.triples.append
    add(ox.Quad(name, ox.NamedNode(RDF + "type"), ox.NamedNode(OWL + "Ontology")))
    for slot, predicate in _SET_PROPERTIES.items():
        given = metadata.get(slot, [])
        for one in [given] if isinstance(given, _Cell) else given:
            if isinstance(one, _Cell) and one.value:
                language = "en" if predicate.startswith(RDFS) else None
                add(
                    ox.Quad(name, ox.NamedNode(predicate), ox.Literal(one.value, language=language))
                )
    licence = metadata.get("license")
    if isinstance(licence, _Cell) and is_iri(licence.value):
        add(ox.Quad(name, ox.NamedNode(DCTERMS + "license"), ox.NamedNode(licence.value)))
    return name


def _rows(reading: _Reading, text: str, at: int) -> Iterator[list[_Cell]]:
    """The rows of the mappings with the places of their cells; stops at a wrong quotation mark."""
    line, line_start = text.count("\n", 0, at) + 1, at
    row: list[_Cell] = []
    while at < len(text) or row:
        match = _CELL.match(text, at)
        cell = _Cell("", line, at - line_start + 1)
        if match is None:
            advice = 'enclose the value in double quotes, and write `""` for one inside it'
            reading.report(cell, "the quotation marks of this cell do not match", advice)
            return
        quoted = match["quoted"]
        value = (match["plain"] or "") if quoted is None else quoted.replace('""', '"')
        row.append(_Cell(value.strip(), cell.line, cell.column))
        at = match.end()
        if "\n" in match[0]:
            line += match[0].count("\n")
            line_start = match.start() + match[0].rindex("\n") + 1
        if match[3] != "\t":
            if len(row) > 1 or row[0].value:
                yield row
            row = []


def _check_header(reading: _Reading, header: Sequence[_Cell]) -> bool:
    """Report columns that are missing or there twice."""
    seen: dict[str, _Cell] = {}
    for cell in header:
        if cell.value in seen:
            if cell.value:
                advice = "leave one of the two out"
                reading.report(cell, f"the column `{cell.value}` occurs twice", advice)
            else:
                advice = "name them, or remove these cells from the header and from every row"
                reading.report(cell, "two columns of the header have no name", advice)
            return False
        seen[cell.value] = cell
    missing = [column for column in _REQUIRED_COLUMNS if column not in seen]
    if missing:
        listed = ", ".join(f"`{column}`" for column in missing)
        advice = "add them to the header, the line after the metadata; tabs separate columns"
        columns = "column is" if len(missing) == 1 else "columns are"
        reading.report(header[0], f"required {columns} missing: {listed}", advice)
    return not missing


def _mapping(
    reading: _Reading, name: ox.NamedNode | None, cells: Mapping[str, _Cell], start: _Cell
) -> None:
    """State the mapping of one row, if nothing is wrong with it."""
    count = len(reading.problems)
    missing = [column for column in _REQUIRED_COLUMNS if column not in cells]
    if missing:
        message = f"this row has no `{missing[0]}`"
        reading.report(start, message, f"every mapping needs one; {FILE_READ_ON}")
        return
    ends = [reading.iri(cells[column]) for column in _REQUIRED_COLUMNS]
    justification = ends[3]
    if justification is not None and (
        justification.value.removeprefix(SEMAPV) not in JUSTIFICATIONS
    ):
        cell = cells["mapping_justification"]
        advice = f"write one of {', '.join(f'semapv:{term}' for term in JUSTIFICATIONS)}"
        reading.report(cell, f"`{cell.value}` is not a justification of mappings", advice)
    modifier = cells.get("predicate_modifier")
    if modifier is not None and modifier.value != "Not":
        advice = "write `Not`, or leave the cell empty"
        reading.report(modifier, f"`{modifier.value}` is not a predicate modifier", advice)
    annotations = [
        *_number(reading, cells.get("confidence")),
        *_date(reading, cells.get("mapping_date")),
        *_authors(reading, cells),
    ]
    subject, predicate, target, _ = ends
    if (
        len(reading.problems) > count
        or subject is None
        or predicate is None
        or target is None
        or justification is None
        or modifier is not None
        or _NO_TERM in (subject.value, target.value)
    ):
        return
    if "comment" in cells:
        comment = ox.Literal(cells["comment"].value, language="en")
        annotations.append((RDFS + "comment", comment))
    if name is not None:
        annotations.append((RDFS + "isDefinedBy", name))
    axiom = ox.BlankNode()
    reading.triples.append(ox.Quad(subject, predicate, target))
    for slot, value in (
        (RDF + "type", ox.NamedNode(OWL + "Axiom")),
        (OWL + "annotatedSource", subject),
        (OWL + "annotatedProperty", predicate),
        (OWL + "annotatedTarget", target),
        (SSSOM + "mapping_justification", justification),
        *annotations,
    ):
        reading.triples.append(ox.Quad(axiom, ox.NamedNode(slot), value))


_Annotation = tuple[str, ox.NamedNode | ox.Literal]


def _number(reading: _Reading, cell: _Cell | None) -> list[_Annotation]:
    if cell is None:
        return []
    try:
        number = float(cell.value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        reading.report(
            cell, f"the confidence `{cell.value}` is not a number from 0 to 1", "write it as in 0.9"
        )
    return [(SSSOM + "confidence", ox.Literal(cell.value, datatype=ox.NamedNode(XSD + "decimal")))]


def _date(reading: _Reading, cell: _Cell | None) -> list[_Annotation]:
    if cell is None:
        return []
    try:
        date.fromisoformat(cell.value)
    except ValueError:
        reading.report(cell, f"`{cell.value}` is not a date", "write it as 2026-11-29")
    value = ox.Literal(cell.value, datatype=ox.NamedNode(XSD + "date"))
    return [(SSSOM + "mapping_date", value)]


def _authors(reading: _Reading, cells: Mapping[str, _Cell]) -> list[_Annotation]:
    """The authors of a mapping: IRIs of `author_id`, texts of `author_label`."""
    found: list[_Annotation] = []
    for column in ("author_id", "author_label"):
        cell = cells.get(column)
        for text in cell.value.split("|") if cell is not None else ():
            if cell is not None and column == "author_id":
                iri = reading.iri(_Cell(text.strip(), cell.line, cell.column))
                found += [(PAV + "authoredBy", iri)] if iri is not None else []
            else:
                found.append((SSSOM + "author_label", ox.Literal(text.strip())))
    return found
