"""From rule files and graphs to a constraint pack, with every problem said in one run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from fedkg.pack import Manifest, Pack, Provenance, Section, Source
from fedkg.pack.manifest import SECTIONS
from fedkg_compiler.binding.book import Book
from fedkg_compiler.binding.declare import Properties, gather, gather_uses
from fedkg_compiler.binding.names import Names
from fedkg_compiler.binding.outcome import Outcome
from fedkg_compiler.binding.places import Sources
from fedkg_compiler.binding.problems import Problems
from fedkg_compiler.binding.quantify import fresh
from fedkg_compiler.binding.rule import bind_rule
from fedkg_compiler.binding.sheet import Sheets
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.inputs import read_bytes
from fedkg_compiler.lowering.banks import lower
from fedkg_compiler.shacl import bind_shapes
from fedkg_compiler.sparql import bind_queries
from fedkg_compiler.syntax import RuleFile, parse, parse_bytes
from fedkg_compiler.syntax.tree import InClass, Pattern, RowsAre, Signal, Use

TEXT = "<text>"
"""The name of a rule file that was given as text."""

GRAPH_SUFFIXES = frozenset({".ttl", ".nt", ".rdf", ".owl", ".jsonld", ".xml"})
"""Files that are taken as graphs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """The pack (None exactly when there is an error) and everything that was found out, in the order of the files."""

    pack: Pack | None
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    """A rule file as read."""

    tree: RuleFile
    name: str
    sha256: str
    folder: Path


def compile_rules(
    paths: Sequence[Path] = (), *, text: str | None = None, graphs: Sequence[Path] = (), check_only: bool = False
) -> Compilation:
    """Compile rule files, or a rule text, into a pack.

    Args:
        paths: rule files, and RDF files, which count as graphs. The same file twice counts once; the order does not matter for the pack.
        text: rules that stand in no file. graphs: further RDF files.
        check_only: find every problem, and make no pack: then `pack` is None.

    Bad input never raises: what cannot be read or understood is a diagnostic.
    """
    problems = Problems()
    rule_paths, graph_paths = _sorted_out([Path(path) for path in paths], [Path(path) for path in graphs])
    order = [str(path) for path in rule_paths]
    bodies = [body for path in rule_paths if (body := _read(path, problems)) is not None]
    if text is not None:
        tree, found = parse(text, TEXT)
        problems.add(found)
        bodies.append(
            _Body(tree=tree, name=TEXT, sha256=hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), folder=Path.cwd())
        )
        order.append(TEXT)
    bodies.sort(key=lambda body: (body.name, body.sha256))
    pack = _compile(bodies, graph_paths, problems, check_only)
    return Compilation(pack=None if problems.failed else pack, diagnostics=_in_order(problems.all(), order))


def _sorted_out(paths: Sequence[Path], graphs: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Rule files and graphs, each once."""
    seen: set[Path] = set()
    rules: list[Path] = []
    others: list[Path] = []
    for path, is_graph in [*((path, path.suffix.lower() in GRAPH_SUFFIXES) for path in paths), *((path, True) for path in graphs)]:
        place = path.absolute() if not path.exists() else path.resolve()
        if place not in seen:
            seen.add(place)
            (others if is_graph else rules).append(path)
    return rules, others


def _read(path: Path, problems: Problems) -> _Body | None:
    try:
        body = read_bytes(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problems.error("FKG240", Span(file=str(path), line=1, column=1, end_line=1, end_column=1), f"cannot read {path}: {reason}")
        return None
    tree, found = parse_bytes(body, str(path))
    problems.add(found)
    return _Body(tree=tree, name=path.name, sha256=hashlib.sha256(body).hexdigest(), folder=path.parent)


def _in_order(diagnostics: Sequence[Diagnostic], files: Sequence[str]) -> tuple[Diagnostic, ...]:
    position = {file: i for i, file in enumerate(files)}
    return tuple(sorted(diagnostics, key=lambda item: (position.get(item.span.file, len(files)), item.span, item.code)))


def _compile(bodies: Sequence[_Body], graph_paths: Sequence[Path], problems: Problems, check_only: bool) -> Pack | None:
    files = [body.tree for body in bodies]
    texts = {tree.file: tree.text for tree in files}
    names = Names(folders={body.tree.file: body.folder for body in bodies})
    gather_uses(files, names, problems)
    sources, loaded = _load(bodies, graph_paths, names, problems)
    gather(files, _properties(files, sources, texts), names, problems)
    sheets = Sheets()
    outcome = Outcome(rows=[part for rule in names.rules for part in bind_rule(rule, sources, sheets, texts)])
    bind_shapes([load for load in names.loads if load.what == "shapes"], graph_paths, sources, outcome)
    bind_queries([load for load in names.loads if load.what == "queries"], sources, outcome)
    sources.book.settle(problems)
    sources.book.note_units(problems)
    _complain_of_nothing(bodies, names, outcome, problems)
    if problems.failed or check_only:
        return None
    outcome.sources += [*(Source(name=body.name, kind="rules", sha256=body.sha256) for body in bodies), *loaded, *sheets.sources.values()]
    return _pack(outcome, names, sources.book)


def _load(bodies: Sequence[_Body], graph_paths: Sequence[Path], names: Names, problems: Problems) -> tuple[Sources, tuple[Source, ...]]:
    """The knowledge graph, where anything asks for it."""
    book = Book()
    if not _asks_graph([body.tree for body in bodies], graph_paths):
        return Sources(names=names, graph=None, book=book, problems=problems), ()
    from fedkg_compiler.ontology import load_graph

    graph, found, sources = load_graph(
        [(word.text, word.span) for use in names.uses for word in use.names],
        {prefix.name.text: (prefix.iri.text, prefix.iri.span) for prefix in names.prefixes.values()},
        sorted(graph_paths, key=lambda path: (path.name, str(path))),
        beside=names.folders,
    )
    problems.add(found)
    names.graph_broken = names.graph_broken or any(item.severity == "error" for item in found)
    return Sources(names=names, graph=graph, book=book, problems=problems), tuple(sources)


def _asks_graph(files: Sequence[RuleFile], graph_paths: Sequence[Path]) -> bool:
    if graph_paths:
        return True
    for statement in (statement for file in files for statement in file.statements):
        if isinstance(statement, RowsAre) or (isinstance(statement, Use) and not statement.rules):
            return True
        if isinstance(statement, Signal) and statement.term is not None:
            return True
        quantifier = getattr(statement, "quantifier", None)
        if quantifier is not None and isinstance(quantifier.source, Pattern | InClass):
            return True
    return False


def _properties(files: Sequence[RuleFile], sources: Sources, texts: dict[str, str]) -> Properties:
    """The IRIs of all terms after `is` and `rows are`."""
    found: Properties = {}
    for statement in (statement for file in files for statement in file.statements):
        if isinstance(statement, Signal | RowsAre) and statement.term is not None and sources.graph is not None:
            term = statement.term
            iri, problems = sources.graph.resolve(term.text, term.form, term.span)
            said = fresh(problems, sources.names, texts)
            if isinstance(statement, Signal) and statement.head.variable is not None and any(item.code == "FKG112" for item in said):
                iri, said = None, [replace(item, severity="error") for item in said]  # no entity of the graph can have a column for it
            sources.problems.add(said)
            found[term.span] = iri
    return found


def _complain_of_nothing(bodies: Sequence[_Body], names: Names, outcome: Outcome, problems: Problems) -> None:
    """Rules that hold for nothing at all are an error; so are files without any rule."""
    if problems.failed or outcome.rows or outcome.conditions or outcome.placements:
        return
    escalated = [problems.escalate(code) for code in ("FKG112", "FKG173") if names.rules]
    if any(escalated):
        return
    if names.rules:
        name = names.rules[0].rule.name
        problems.error("FKG235", name.span, "no rule holds for anything: every row lacks a value", "fill in the values that the notes name")
    elif bodies:
        start = Span(file=bodies[0].tree.file, line=1, column=1, end_line=1, end_column=1)
        problems.error("FKG241", start, "there is no rule here", "write one: rule capacity require torque <= 60 N.m")
    else:
        problems.error(
            "FKG241", Span(file="", line=1, column=1, end_line=1, end_column=1), "there is no rule file", "name a file that ends with .fkg"
        )


def _pack(outcome: Outcome, names: Names, book: Book) -> Pack:
    records = list({part.rule.name: part.rule for part in outcome.rows}.values())
    lowered = lower(outcome.rows, outcome.conditions, {record.name: i for i, record in enumerate(records)}, book, names.timing)
    outputs = {part.rule.name for part in outcome.rows if any(slot.role == "output" for slot in part.rows.slots_read())}
    manifest = Manifest(
        sections={name: Section(version=version) for name, version in SECTIONS.items()},
        contract=lowered.numbering.contract,
        rules=tuple(record.model_copy(update={"output": record.name in outputs}) for record in records),
        skeletons=tuple(bank.skeleton for bank in lowered.banks),
        entities=lowered.entities,
        units=lowered.units,
        conditions=tuple(bank.skeleton for bank in lowered.conditions),
        placements=tuple(outcome.placements),
        provenance=Provenance(
            compiler=f"fedkg {_version()}",
            sources=tuple(sorted(set(outcome.sources), key=lambda item: (item.kind, item.name, item.sha256))),
        ),
    )
    return Pack(manifest=manifest, banks=lowered.banks, conditions=lowered.conditions)


def _version() -> str:
    try:
        return metadata.version("fedkg")
    except metadata.PackageNotFoundError:
        return "0"
