"""From rule files and graphs to a constraint pack, with every problem said in one run.

`Waivers` are the warnings that rules allow: ``allow FKG503 because "..."``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from fedkg.errors import LimitError
from fedkg.limits import (
    limit,
    limit_comparisons,
    pause_garbage_collection,
    require_within_limit,
    time_limit,
)
from fedkg.pack import DataContract, Manifest, Pack, Provenance, Section, Source
from fedkg.pack.manifest import SECTIONS
from fedkg_compiler.banks import lower
from fedkg_compiler.compilation_result import NewCompilation
from fedkg_compiler.diagnostics.code_registry import CODES
from fedkg_compiler.diagnostics.diagnostic_collector import Problems, TooManyErrors
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.frontends.fkg.binding.category_conditions import score_column
from fedkg_compiler.frontends.fkg.binding.declarations import (
    COMMAND_LINE,
    Properties,
    gather,
    gather_uses,
    in_scope,
)
from fedkg_compiler.frontends.fkg.binding.entity_owners import (
    check_client,
    without_private_checksums,
)
from fedkg_compiler.frontends.fkg.binding.library import (
    LibraryFile,
    audible,
    library_files,
    settle_library,
)
from fedkg_compiler.frontends.fkg.binding.quantifiers import fresh
from fedkg_compiler.frontends.fkg.binding.rule import bind_rule
from fedkg_compiler.frontends.fkg.binding.scope import Names, Sources
from fedkg_compiler.frontends.fkg.binding.signal_columns import (
    Over,
    names_in,
    plain_headers,
    plain_place,
    trees_in,
)
from fedkg_compiler.frontends.fkg.syntax import parse, parse_bytes, statement_count
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import decode, is_table
from fedkg_compiler.frontends.fkg.syntax.tree import (
    InClass,
    InQuery,
    Load,
    Pattern,
    RowsAre,
    Rule,
    RuleFile,
    Signal,
    Statement,
    Use,
    Waiver,
)
from fedkg_compiler.frontends.sheets.sheet_cache import Sheets
from fedkg_compiler.input_files import (
    GRAPH_SUFFIXES,
    QUERY_SUFFIXES,
    begins_as_graph,
    find,
    holds_shapes,
    is_endpoint,
    is_store,
    may_hold_rules,
    read_bytes,
    read_start,
    remembered,
)
from fedkg_compiler.ir import NO_CONSTRAINTS, Book, Program
from fedkg_compiler.passes import PASSES

if TYPE_CHECKING:
    from fedkg_compiler.frontends.shacl.table_results import ShapeResults
    from fedkg_compiler.graph.stores.relevant_terms import RuleTerms


@dataclass(slots=True)
class _Allowed:
    """One `allow` of a rule, and what it met: warnings that it suppresses, an error that it
    cannot.
    """

    rule: Rule
    waiver: Waiver
    used: bool = False
    error: bool = False


@dataclass(slots=True)
class Waivers:
    """The `allow` options of all rules.

    Attributes:
        left_out: names of rules that are not part of this compilation.
    """

    left_out: Collection[str] = ()
    _allowed: dict[tuple[str, str], list[_Allowed]] = field(default_factory=dict)

    @classmethod
    def from_files(cls, files: Iterable[RuleFile]) -> Waivers:
        """The options of all rules in these files."""
        found = cls()
        for file in files:
            for rule in (part for part in file.statements if isinstance(part, Rule)):
                for waiver in rule.waivers:
                    key = (rule.span.file, waiver.code.text)
                    found._allowed.setdefault(key, []).append(_Allowed(rule, waiver))
        return found

    def reported(self, diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
        """The diagnostics without the warnings and notes that a rule allows.

        Errors always remain.
        """
        if not self._allowed:
            return list(diagnostics)
        return [item for item in diagnostics if not self._allows(item)]

    def _allows(self, item: Diagnostic) -> bool:
        for allowed in self._allowed.get((item.span.file, item.code), ()):
            if _inside(item.span, allowed.rule.span):
                if item.severity != "error":
                    allowed.used = True
                    return True
                allowed.error = True
        return False

    def without_effect(self, *, complete: bool, reasoned: bool) -> list[Diagnostic]:
        """A warning for each `allow` that suppresses nothing.

        Args:
            complete: whether all rules were compiled.
            reasoned: whether the rules were analysed together (FKG5xx).
        """
        return [
            Diagnostic(
                code="FKG245",
                severity="warning",
                span=one.waiver.code.span,
                message=message,
                help=advice,
            )
            for allowed in self._allowed.values()
            for one in allowed
            if not one.used
            for message, advice in self._reason(one, complete=complete, reasoned=reasoned)
        ]

    def _reason(
        self, allowed: _Allowed, *, complete: bool, reasoned: bool
    ) -> Iterable[tuple[str, str]]:
        code, rule = allowed.waiver.code.text, allowed.rule.name.text
        if code not in CODES:
            advice = "write the code as a warning shows it: FKG503"
            yield f"diagnostic `{code}` does not exist", advice
        elif allowed.error:
            yield f"`allow {code}` has no effect: {code} is an error here", "correct the error"
        elif complete and rule not in self.left_out and (reasoned or not code.startswith("FKG5")):
            yield f"`allow {code}` has no effect: `{rule}` has no such warning", "remove it"


def _inside(inner: Span, outer: Span) -> bool:
    return (outer.line, outer.column) <= (inner.line, inner.column) and (
        inner.end_line,
        inner.end_column,
    ) <= (outer.end_line, outer.end_column)


TEXT = "<text>"
"""The name of a rule file that was given as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    """A rule file as read."""

    tree: RuleFile
    name: str
    sha256: str
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Graphs:
    """The user's graphs; `stores` are folders on disk and addresses of endpoints, in which nobody
    looks for shapes.
    """

    files: list[Path]
    stores: list[Path | str]


@contextmanager
def _compiling() -> Iterator[None]:
    """The conditions of a compilation: limits on time and on comparisons of names, and no search
    for cyclic garbage.
    """
    with pause_garbage_collection(), time_limit("the compilation"), limit_comparisons():
        yield


@_compiling()
def compile_rules(
    paths: Sequence[Path | str] = (),
    *,
    text: str | None = None,
    rows_class: str = "",
    graphs: Sequence[Path | str] = (),
    client: str = "",
    check_only: bool = False,
    reason: bool = True,
    shape_results: ShapeResults | None = None,
) -> NewCompilation:
    """Compile rule files, or a rule text, into a pack.

    Args:
        paths: rule files, SPARQL queries, and graphs: RDF files, stores on disk, addresses of
            endpoints. The same file twice counts once. The pack depends neither on their order nor
            on whether a graph is in a file, a store or an endpoint.
        text: rules without a file.
        rows_class: IRI of the class that the rows of the table are members of, as after `rows are`.
        graphs: further graphs.
        client: name or IRI of the client of a private pack; "" for the public pack.
        check_only: find every problem, but make no pack: `pack` is None.
        reason: also report what the rules mean together: conflicts, rules that never apply or never
            fail, and rules that others imply.
        shape_results: takes the violations of shapes by the graph, which are no diagnostics then.

    What cannot be read or understood is a diagnostic.

    Raises:
        LimitError: an input is above a limit of `fedkg.limits`.
    """
    problems = Problems()
    rule_paths, given = _sorted_out(paths, graphs)
    order = [str(path) for path in rule_paths]
    queries = _queries([path for path in rule_paths if path.suffix.lower() in QUERY_SUFFIXES])
    rule_paths = [path for path in rule_paths if path.suffix.lower() not in QUERY_SUFFIXES]
    reasons: list[Diagnostic] = []
    pack, program, waivers = None, Program(), Waivers()
    with suppress(TooManyErrors):  # the last diagnostic says so
        bodies = [body for path in rule_paths if (body := _read(path, problems)) is not None]
        if text is not None:
            require_within_limit("rules", len(text), TEXT)
            _require_few_statements(text, TEXT)
            tree, found = parse(text, TEXT)
            problems.add(found)
            bodies.append(_text_body(tree))
            order.append(TEXT)
        library = _add_library(bodies, problems)
        bodies.sort(key=lambda body: (body.name, body.sha256))
        waivers = Waivers.from_files(body.tree for body in bodies)
        pack, program = _compile(
            bodies,
            library,
            given,
            queries,
            problems,
            check_only,
            reasons if reason else None,
            shape_results,
            client,
            rows_class,
            waivers,
        )
    diagnostics = [*waivers.reported(problems.all()), *reasons]
    diagnostics += waivers.without_effect(
        complete=not problems.failed, reasoned=reason and pack is not None
    )
    return NewCompilation(
        pack=None if problems.failed or check_only else pack,
        diagnostics=_in_order(diagnostics, order),
        examples=program.examples,
    )


@_compiling()
def look_up(paths: Sequence[Path | str]) -> tuple[Sources, list[Path]]:
    """What a compilation of these files knows before it binds the rules: their names and the graph,
    and the files that may hold shapes.
    """
    problems = Problems()
    rule_paths, given = _sorted_out(paths, ())
    queries = _queries([path for path in rule_paths if path.suffix.lower() in QUERY_SUFFIXES])
    bodies = [
        body
        for path in rule_paths
        if path.suffix.lower() not in QUERY_SUFFIXES
        if (body := _read(path, problems)) is not None
    ]
    library = _add_library(bodies, problems)
    sources, graphs, _ = _gather(bodies, library, given, queries, problems, "")
    _apply_shape_rules(graphs, sources)
    return sources, graphs


def _gather(
    bodies: Sequence[_Body],
    library: Sequence[LibraryFile],
    graphs: _Graphs,
    queries: Sequence[Load],
    problems: Problems,
    client: str,
) -> tuple[Sources, list[Path], tuple[Source, ...]]:
    """The names and the graph before rules are bound, the files that may hold shapes, and the
    sources of the graph.
    """
    files = [body.tree for body in bodies]
    names = Names(
        folders={body.tree.file: body.folder for body in bodies}, loads=[*queries], client=client
    )
    names.library |= {file.name: file.asked for file in library}
    if files:
        gather_uses(files, names, problems)
    paths = [*graphs.files, *_shapes(files, graphs.files, names, problems)]
    sources, loaded = _load(
        bodies,
        [*sorted(paths, key=lambda path: (path.name, str(path))), *graphs.stores],
        names,
        problems,
    )
    if files:
        gather(files, _properties(files, sources), names, problems)
    return sources, paths, loaded


def _apply_shape_rules(graphs: Sequence[Path], sources: Sources) -> None:
    """Add to the graph what the rules of shapes conclude."""
    if not sources.names.client and any(map(may_hold_rules, graphs)):
        from fedkg_compiler.frontends.shacl.graph_rules import apply_rules

        apply_rules(graphs, sources)


def _sorted_out(
    paths: Sequence[Path | str], graphs: Sequence[Path | str]
) -> tuple[list[Path], _Graphs]:
    """Rule files and graphs, each once."""
    seen: set[Path | str] = set()
    rules: list[Path] = []
    found = _Graphs(files=[], stores=[])
    for argument, further in [
        *((path, False) for path in paths),
        *((path, True) for path in graphs),
    ]:
        if is_endpoint(argument):
            if argument not in seen:
                found.stores.append(argument)
            seen.add(argument)
            continue
        path = Path(argument)
        place = path.absolute() if not path.exists() else path.resolve()
        if place in seen:
            continue
        seen.add(place)
        if is_store(path):
            found.stores.append(path)
        else:
            is_graph = path.suffix.lower() in GRAPH_SUFFIXES or begins_as_graph(path)
            (found.files if further or is_graph else rules).append(path)
    found.stores.sort(key=str)
    return rules, found


def _read(path: Path, problems: Problems) -> _Body | None:
    try:
        body = read_bytes(path, name="rules")
    except LimitError:
        if (table := _table(path)) is None:
            raise
        problems.add([table])
        return None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        problems.error(
            "FKG240",
            Span(file=str(path), line=1, column=1, end_line=1, end_column=1),
            f"cannot read {path}: {reason}",
            "check the path, and that you may read the file",
        )
        return None
    _require_few_statements(decode(body, str(path))[0], str(path))
    tree, found = parse_bytes(body, str(path))
    problems.add(found)
    return _Body(
        tree=tree, name=path.name, sha256=hashlib.sha256(body).hexdigest(), folder=path.parent
    )


def _text_body(tree: RuleFile) -> _Body:
    digest = hashlib.sha256(tree.text.encode("utf-8", "surrogatepass")).hexdigest()
    return _Body(tree=tree, name=TEXT, sha256=digest, folder=Path.cwd())


def _add_library(bodies: list[_Body], problems: Problems) -> Sequence[LibraryFile]:
    """Add the files of the rule library that `use rules` names; returns them."""
    if not any(
        isinstance(statement, Use) and statement.rules
        for body in bodies
        for statement in body.tree.statements
    ):
        return ()
    library = library_files(
        [body.tree for body in bodies], [body.folder / body.name for body in bodies], problems
    )
    bodies += [
        _Body(tree=file.tree, name=file.name, sha256=file.sha256, folder=file.folder)
        for file in library
    ]
    return library


def _require_few_statements(text: str, name: str) -> None:
    """Reject a rule file with too many statements before it is parsed. Raises LimitError."""
    if len(text) > limit("statements"):
        require_within_limit("statements", statement_count(text), name)


def _table(path: Path) -> Diagnostic | None:
    """The error for a large file that is a table and no rule file; None for any other."""
    return is_table(read_start(path), str(path))


def _queries(paths: Sequence[Path]) -> list[Load]:
    """Query files that were named beside rule files, as if a statement named them."""
    if not paths:
        return []
    from fedkg_compiler.frontends.sparql import query_loads

    return query_loads(paths)


def _shapes(
    files: Sequence[RuleFile], graphs: Sequence[Path], names: Names, problems: Problems
) -> list[Path]:
    """The files that `shapes` statements name: they are graphs too."""
    if not any(
        isinstance(item, Load) and item.what == "shapes"
        for file in files
        for item in file.statements
    ):
        return []
    from fedkg_compiler.frontends.shacl import shape_files

    return shape_files(files, graphs, names, problems)


def _in_order(diagnostics: Sequence[Diagnostic], files: Sequence[str]) -> tuple[Diagnostic, ...]:
    position = {file: i for i, file in enumerate(files)}
    return tuple(
        sorted(
            diagnostics,
            key=lambda item: (position.get(item.span.file, len(files)), item.span, item.code),
        )
    )


def _compile(
    bodies: Sequence[_Body],
    library: Sequence[LibraryFile],
    graphs: _Graphs,
    queries: Sequence[Load],
    problems: Problems,
    check_only: bool,
    reasons: list[Diagnostic] | None,
    shape_results: ShapeResults | None,
    client: str,
    rows_class: str,
    waivers: Waivers,
) -> tuple[Pack | None, Program]:
    """The pack, None if there is an error, and the program after all passes; the findings of the
    analysis go into `reasons`, if that is a list.
    """
    files = [body.tree for body in bodies]
    sources, graph_paths, loaded = _gather(bodies, library, graphs, queries, problems, client)
    names = sources.names
    names.rows_class = rows_class or names.rows_class
    _apply_shape_rules(graph_paths, sources)
    if files or client:
        in_scope(names, problems)
    waivers.left_out = names.left_out
    if names.client:
        check_client(sources)
    sheets = Sheets()
    try:
        program = _bind_statements(names, files, graph_paths, sources, sheets, shape_results)
        sources.book.settle(problems)
        sources.book.note_units(problems)
        _enter_outputs(names, sources)
    finally:
        if sources.graph is not None:
            sources.graph.close()
    files_read = [
        *program.sources,
        *(Source(name=body.name, kind="rules", sha256=body.sha256) for body in bodies),
        *loaded,
        *sheets.sources.values(),
    ]
    program = replace(
        program,
        sources=tuple(
            without_private_checksums(files_read, sources)
            if names.client or (sources.graph is not None and sources.graph.states_owners)
            else files_read
        ),
        columns=sources.book.freeze(),
        timing=names.timing,
    ).after(PASSES)
    problems.add(program.diagnostics)
    if names.library:
        settle_library(names, program, problems)
    _complain_of_nothing(bodies, names, program, problems)
    if problems.failed or (check_only and not (program.rows or program.conditions)):
        return None, program
    if check_only and reasons is None and not program.knowledge:  # nobody reads the pack
        return None, program
    pack = _pack(program, names.client, sources)
    if program.knowledge:
        from fedkg_compiler.frontends.knowledge.consistency_proof import prove

        pack, said = prove(pack, {model.name.text: model.name.span for model in names.knowledge})
        problems.add(said)
    if reasons is not None:
        from fedkg_compiler.analysis.run import reason_about

        named = [*graph_paths, *(body.folder / body.name for body in bodies)]
        found = reason_about(pack, names, sources, named, program.places, waivers.reported)
        reasons += audible(found, names) if names.library else found
    if sources.graph is not None:
        sources.graph.keep_answers()
    return pack, program


def _load(
    bodies: Sequence[_Body], graphs: Sequence[Path | str], names: Names, problems: Problems
) -> tuple[Sources, tuple[Source, ...]]:
    """The knowledge graph, where anything asks for it."""
    book, texts = Book(), {body.tree.file: body.tree.text for body in bodies}
    if not names.loads and not _asks_graph([body.tree for body in bodies], graphs):
        return Sources(names=names, graph=None, book=book, problems=problems, texts=texts), ()
    from fedkg_compiler.graph.load import load_graph

    uses = [(word.text, word.span) for use in names.uses for word in use.names]
    prefixes = {
        prefix.name.text: (prefix.iri.text, prefix.iri.span) for prefix in names.prefixes.values()
    }
    rules = _rule_terms(bodies, graphs, names)
    graph, found, sources = remembered(
        (tuple(uses), tuple(prefixes.items()), tuple(graphs), names.client, rules and rules.text),
        lambda: load_graph(
            uses, prefixes, graphs, beside=names.folders, client=names.client, rules=rules
        ),
    )
    problems.add(found)
    names.graph_broken = names.graph_broken or any(item.severity == "error" for item in found)
    return Sources(names=names, graph=graph, book=book, problems=problems, texts=texts), tuple(
        sources
    )


def _rule_terms(
    bodies: Sequence[_Body], graphs: Sequence[Path | str], names: Names
) -> RuleTerms | None:
    """What rules name, for endpoints and stores; None if everything matters, as for shapes, which
    any file may hold, and for the owners of entities.
    """
    if names.client or not graphs:
        return None
    if not all(is_endpoint(path) or is_store(Path(path)) for path in graphs):
        return None
    from fedkg_compiler.frontends.sparql.triple_filter_terms import rule_terms

    nodes = [
        node
        for body in bodies
        for statement in body.tree.statements
        for node in trees_in(statement)
    ]
    loads = [*names.loads, *(node for node in nodes if isinstance(node, Load))]
    if any(isinstance(node, InQuery) for node in nodes) or any(
        load.what != "queries" for load in loads
    ):
        return None
    queries = []
    for load in loads:
        folder, text = names.folders.get(load.path.span.file, Path()), load.path.text
        several = any(mark in text for mark in "*?[")
        try:
            paths = find(folder, text) if several else (folder / text,)
            queries += [decode(read_bytes(path, name="rules"), str(path))[0] for path in paths]
        except (OSError, ValueError, NotImplementedError):
            return None
    patterns = [f"SELECT * WHERE {{ {node.text} }}" for node in nodes if isinstance(node, Pattern)]
    texts = [*(body.tree.text for body in bodies), *queries]
    return rule_terms(texts, [*patterns, *queries])


def _asks_graph(files: Sequence[RuleFile], graphs: Sequence[Path | str]) -> bool:
    return bool(graphs) or any(
        asks_graph(statement) for file in files for statement in file.statements
    )


def asks_graph(statement: Statement) -> bool:
    """Whether a statement cannot be compiled without the knowledge graph."""
    if isinstance(statement, RowsAre | Load) or (
        isinstance(statement, Use) and not statement.rules
    ):
        return True
    if isinstance(statement, Signal) and statement.term is not None:
        return True
    quantifier = getattr(statement, "quantifier", None)
    if quantifier is not None and isinstance(quantifier.source, Pattern | InClass | InQuery):
        return True
    return any(isinstance(node, Over) for node in names_in(statement))


def _properties(files: Sequence[RuleFile], sources: Sources) -> Properties:
    """The IRIs of all terms after `is` and `rows are`."""
    found: Properties = {}
    for statement in (statement for file in files for statement in file.statements):
        if (
            isinstance(statement, Signal | RowsAre)
            and statement.term is not None
            and sources.graph is not None
        ):
            term = statement.term
            iri, problems = sources.graph.resolve(term.text, term.form, term.span)
            said = fresh(problems, sources) if problems else []
            if (
                isinstance(statement, Signal)
                and statement.head.variable is not None
                and any(item.code == "FKG112" for item in said)
            ):
                iri, said = (
                    None,
                    [replace(item, severity="error") for item in said],
                )  # no entity of the graph can have a column for it
            sources.problems.add(said)
            found[term.span] = iri
    return found


def _complain_of_nothing(
    bodies: Sequence[_Body], names: Names, program: Program, problems: Problems
) -> None:
    """Rules that hold for nothing at all are an error; so are files without any rule."""
    if (
        problems.failed
        or program.rows
        or program.conditions
        or any(one.reason != NO_CONSTRAINTS for one in program.placements)
        or program.sets
        or program.causes
    ):
        return
    if names.left_out and not names.rules:
        advice = (
            "compile it at each site: --client NAME"
            if not names.client
            else "compile it without --client"
        )
        problems.error(
            "FKG286",
            COMMAND_LINE,
            "this pack would be empty: the scope of every statement excludes it",
            advice,
        )
        return
    stated = names.rules or names.causes or names.sets
    escalated = [problems.escalate(code) for code in ("FKG112", "FKG173", "FKG541") if stated]
    if any(escalated):
        return
    if names.rules:
        name = names.rules[0].rule.name
        problems.error(
            "FKG235",
            name.span,
            "no rule applies to anything: every row lacks a value",
            "fill in the values that the notes name",
        )
    elif names.templates:
        if not names.examples:
            name = next(iter(names.templates.values())).name
            message = "there are templates here and no rule: the pack is empty"
            problems.info(
                "FKG241",
                name.span,
                message,
                f"write one: rule {name.text}_here require follows {name.text}(...)",
            )
    elif bodies:
        start = Span(file=bodies[0].tree.file, line=1, column=1, end_line=1, end_column=1)
        problems.error(
            "FKG241",
            start,
            "the file contains no rule" if len(bodies) == 1 else "the files contain no rule",
            "write one: rule capacity require torque <= 60 N.m",
        )
    else:
        problems.error(
            "FKG241",
            Span(file="", line=1, column=1, end_line=1, end_column=1),
            "no rule file was given",
            "name a file that ends with .fkg",
        )


def _enter_outputs(names: Names, sources: Sources) -> None:
    """Enter declared outputs and labels that no rule reads into the book: jobs can train them.

    Outputs with a column for each entity, or with several columns in the graph, are left out: only
    a rule says which of their columns it means.
    """
    for signal in names.signals.values():
        if signal.role != "output" or signal.family:
            continue
        if len(plain_headers(signal, sources)) <= 1:
            plain_place(signal, sources, signal.place)
    for label in names.labels.values():
        for name in label.classes:
            sources.book.column(score_column(label, name))


def _pack(program: Program, client: str, sources: Sources) -> Pack:
    """The pack of a program after all passes."""
    lowered = lower(program)
    parts = (
        ("sets", program.sets),
        ("causes", program.causes),
        ("table_rows", any(bank.reads_other_rows for bank in lowered.banks)),
    )
    empty = {name for name, found in parts if not found}
    manifest = Manifest(
        sections={
            name: Section(version=version)
            for name, version in SECTIONS.items()
            if name not in empty
        },
        contract=_with_alternatives(lowered.numbering.contract, sources),
        rules=tuple({part.rule.name: part.rule for part in program.rows}.values()),
        skeletons=tuple(bank.skeleton for bank in lowered.banks),
        entities=lowered.entities,
        units=lowered.units,
        conditions=tuple(bank.skeleton for bank in lowered.conditions),
        inferences=program.inferences,
        knowledge=program.knowledge,
        sets=tuple(sorted(program.sets, key=lambda one: one.name)),
        causes=tuple(sorted(program.causes, key=lambda one: one.name)),
        client=client,
        placements=program.placements,
        provenance=Provenance(
            compiler=f"fedkg {_version()}",
            sources=tuple(
                sorted(set(program.sources), key=lambda item: (item.kind, item.name, item.sha256))
            ),
        ),
    )
    return Pack(
        manifest=manifest,
        banks=lowered.banks,
        conditions=lowered.conditions,
        arrays=dict(program.arrays),
    )


def _with_alternatives(contract: DataContract, sources: Sources) -> DataContract:
    """The contract with the further headers that the graph knows for its columns."""
    alternatives = {} if sources.graph is None else sources.graph.alternative_columns()
    if not alternatives:
        return contract
    columns, unread = (
        tuple(
            column.model_copy(update={"alternatives": others})
            if (others := alternatives.get(column.source))
            else column
            for column in some
        )
        for some in (contract.columns, contract.unread)
    )
    return contract.model_copy(update={"columns": columns, "unread": unread})


@cache
def _version() -> str:
    try:
        return metadata.version("fedkg")
    except metadata.PackageNotFoundError:
        return "0"


def _bind_statements(
    names: Names,
    files: Sequence[RuleFile],
    graphs: Sequence[Path],
    sources: Sources,
    sheets: Sheets,
    shape_results: ShapeResults | None,
) -> Program:
    """All bound statements, shapes and queries; the binder of each kind is imported on first use.

    Args:
        graphs: the graph files, among which those with shapes are found. A client's private pack
            takes no shapes and no queries.
    """
    program = _bind_declarations(names, sources, sheets)
    if names.knowledge:
        from fedkg_compiler.frontends.knowledge import bind_knowledge

        trees = {file.file: file for file in files}
        for model in names.knowledge:
            first = len(program.conditions)
            program = program.joined_with(
                bind_knowledge(model, trees[model.span.file], sources, sheets, first)
            )
    shapes = [] if names.client else [path for path in graphs if holds_shapes(path)]
    if shapes:
        from fedkg_compiler.frontends.shacl.bind import bind_shapes

        taken = {part.rule.name for part in program.rows}
        program = program.joined_with(bind_shapes(shapes, sources, taken, shape_results)[0])
    queries = [load for load in names.loads if load.what == "queries"]
    if queries:
        from fedkg_compiler.frontends.sparql import bind_queries

        program = program.joined_with(bind_queries(queries, sources))
    return program


def _bind_declarations(names: Names, sources: Sources, sheets: Sheets) -> Program:
    """Rules, inferences, sets, causes and examples."""
    rows = [part for rule in names.rules for part in bind_rule(rule, sources, sheets)]
    program = Program(rows=tuple(rows))
    if names.infers:
        from fedkg_compiler.frontends.fkg.binding.parameter_inference_statement import bind_infer

        for infer in names.infers:
            program = program.joined_with(bind_infer(infer, sources, len(program.conditions)))
    if names.sets:
        from fedkg_compiler.frontends.fkg.binding.feasible_set_statement import bind_set

        sets = (bind_set(one, sources, sheets) for one in names.sets)
        program = replace(program, sets=tuple(one for one in sets if one is not None))
    if names.causes:
        from fedkg_compiler.frontends.fkg.binding.causes import bind_cause

        causes = (bind_cause(one, sources, sheets) for one in names.causes)
        program = replace(program, causes=tuple(one for one in causes if one is not None))
    if names.examples:
        from fedkg_compiler.frontends.fkg.binding.rule_examples import bind_example

        examples = (bind_example(one, sources) for one in names.examples)
        program = replace(program, examples=tuple(one for one in examples if one is not None))
    return program
