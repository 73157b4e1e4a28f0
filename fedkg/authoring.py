"""The runtime's access to the compiler for rule files.

`fedkg.ontologies` covers ontologies, and `fedkg.graphs` covers the graphs of jobs. No other module
of `fedkg` imports `fedkg_compiler`, and these three import it only inside functions, so an
installation without the compiler can load and evaluate packs.
"""

from __future__ import annotations

import codecs
import itertools
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkg._internal.name_matching import nearest_name
from fedkg.errors import FedkgError, LimitError, MissingExtra, TableError, UsageError
from fedkg.limits import read_file

if TYPE_CHECKING:
    from fedkg.evaluation.example_runner import ExampleResult
    from fedkg.pack import Pack
    from fedkg.tables import Table
    from fedkg_compiler.analysis.cause_description import CauseDescription
    from fedkg_compiler.analysis.pack_difference import RuleDifference
    from fedkg_compiler.analysis.rule_description import Description
    from fedkg_compiler.authoring.fixes import FixedFiles
    from fedkg_compiler.authoring.fret import FretDraft
    from fedkg_compiler.compilation_result import Compilation
    from fedkg_compiler.diagnostics.record import Diagnostic
    from fedkg_compiler.frontends.shacl.validation_report import Report
    from fedkg_compiler.input_files import Inputs
    from fedkg_compiler.row_source_triples import Origin

BINARY = (b"PK\x03\x04", b"PAR1", b"\x1f\x8b")
"""First bytes of workbooks, Parquet files and archives."""
STATEMENTS = (
    *("use", "prefix", "timeline", "rows", "signal", "output", "label", "rule"),
    *("constant", "template", "infer", "range", "predict", "set", "cause", "example", "load"),
)
"""First words of statements."""
COMPILER_LIBRARIES = frozenset(
    {"lark", "rdflib", "oxrdflib", "pyoxigraph", "pint", "sympy", "fedkg_compiler"}
)


class RuleWarning(UserWarning):
    """The rules were compiled, but part of them probably does not mean what the author intended."""


class CompileError(FedkgError):
    """Rules that cannot be compiled.

    Attributes:
        diagnostics: every problem, in file order; each has a code, a severity, a span, a message
            and a help.
    """

    def __init__(self, diagnostics: Sequence[Diagnostic], rendered: str) -> None:
        super().__init__(rendered)
        self.diagnostics = tuple(diagnostics)


@contextmanager
def needs_compiler(feature: str) -> Iterator[None]:
    """Turn a missing library of the compiler into a MissingExtra that names `feature`."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in COMPILER_LIBRARIES:
            raise MissingExtra(feature, "compiler") from error
        raise


def check(
    paths: Sequence[str | Path] = (),
    *,
    text: str | None = None,
    graphs: Sequence[str | Path] = (),
    client: str = "",
    fresh: bool = False,
    reason: bool = True,
) -> Compilation:
    """Compile rule files and RDF graphs, or one rule text; return the pack and all diagnostics.

    The pack is None if there is an error. With `client`, a name or an IRI, it is the private pack
    of that client. An earlier result, which has no example results, is reused while nothing has
    changed; `fresh` always compiles. Without `reason`, contradictions and other
    findings about several rules are not searched.

    Raises:
        UsageError: a file does not exist.
        MissingExtra: the compiler is not installed.
    """
    files = [resolve_source(path) for path in (*paths, *graphs)]
    with needs_compiler("compiling rules"):
        count = len(paths)
        if text is None and reason and not fresh:
            from fedkg_compiler.cache import compile_cached

            return compile_cached(files[:count], files[count:], client)
        from fedkg_compiler.pipeline import compile_rules

        return compile_rules(
            files[:count], text=text, graphs=files[count:], client=client, reason=reason
        )


def compile(  # noqa: A001  the public name, fixed
    paths: str | Path | Sequence[str | Path] = (),
    *,
    text: str | None = None,
    graphs: Sequence[str | Path] = (),
    client: str = "",
) -> Pack:
    """Compile rule files (and RDF graphs among them), or one rule text, to a constraint pack.

    Warnings of the compiler are issued as `RuleWarning`.

    Args:
        paths: one file or several: rule files (`.fkg`), queries (`.rq`), shapes and graphs (`.ttl`,
            `.shacl`, `.trig`, `.nt`, `.nq`, `.rdf`, `.owl`, `.jsonld`).
        text: the rules themselves, instead of files.
        graphs: more graphs that the rules may refer to: files, stores on disk (`fedkg graph load`),
            and addresses of SPARQL endpoints (strings that begin with ``https://``). All three may
            also appear in `paths`.
        client: name or IRI of the client to compile the private pack for; "" for the public pack.

    Raises:
        CompileError: with every diagnostic of every file.
        UsageError: a file does not exist, there are neither files nor text, or a path is a rule
            text.
    """
    if isinstance(paths, str) and text is None and is_rule_text(paths):
        raise UsageError(
            "`paths` contains the rules themselves instead of the path of their file",
            expected="the path of a rule file",
            received=repr(paths if len(paths) <= 40 else paths[:37] + "..."),
            help='pass rules as text: fedkg.compile(text="...")',
        )
    if isinstance(paths, str | Path):
        paths = (paths,)
    if not paths and text is None:
        raise UsageError(
            "there is nothing to compile: neither a rule file nor a text",
            help='fedkg.compile("rules.fkg") or fedkg.compile(text="...")',
        )
    result = check(paths, text=text, graphs=graphs, client=client)
    texts = {} if text is None else {d.span.file: text for d in result.diagnostics}
    if result.pack is None:
        raise CompileError(result.diagnostics, render(result.diagnostics, texts, client=client))
    doubts = [d for d in result.diagnostics if d.severity == "warning"]
    if doubts:
        warnings.warn(render(doubts, texts, client=client), RuleWarning, stacklevel=2)
    return result.pack


def run_examples(
    paths: Sequence[str | Path] = (), *, text: str | None = None, graphs: Sequence[str | Path] = ()
) -> tuple[tuple[ExampleResult, ...], tuple[Diagnostic, ...]]:
    """Run the examples in rule files, or in one rule text; return their results and all
    diagnostics.

    Rules with an error give no results.

    Raises:
        UsageError: a file does not exist.
        MissingExtra: the compiler is not installed.
    """
    from fedkg.evaluation.example_runner import run_example

    result = check(paths, text=text, graphs=graphs, fresh=True)
    if any(item.severity == "error" for item in result.diagnostics):
        return (), result.diagnostics
    return tuple(run_example(example) for example in result.examples), result.diagnostics


MOST_SHOWN = 200
"""Most diagnostics that are shown as text, errors first; nobody reads more."""


def render(
    diagnostics: Sequence[Diagnostic], texts: Mapping[str, str] | None = None, *, client: str = ""
) -> str:
    """Format diagnostics as text, each with its source lines underlined.

    Lines are shown if the file can be read, or if `texts` has its text. With `client`, no line of a
    graph is shown, because it may be a fact about another client.
    """
    with needs_compiler("explaining rules"):
        from fedkg_compiler.diagnostics import render as render_one

        sources: dict[str, str | None] = dict(texts or {})
        blocks = []
        first = sorted(range(len(diagnostics)), key=lambda i: diagnostics[i].severity != "error")
        for diagnostic in (diagnostics[i] for i in sorted(first[:MOST_SHOWN])):
            file = diagnostic.span.file
            if file not in sources:
                sources[file] = None if client and is_graph(file) else _source_text(Path(file))
            blocks.append(render_one(diagnostic, sources[file]))
        if len(diagnostics) > MOST_SHOWN:
            blocks.append(f"and {len(diagnostics) - MOST_SHOWN:,} more, with --json")
        return "\n\n".join(block.rstrip("\n") for block in blocks)


def diagnostics_json(diagnostics: Sequence[Diagnostic]) -> dict[str, Any]:
    """Diagnostics as `fedkg check --json` prints them. `Any`: JSON.

    An empty list does not load the compiler.
    """
    if not diagnostics:
        return {"diagnostics": []}
    with needs_compiler("explaining rules"):
        from fedkg_compiler.diagnostics import to_json

        return {"diagnostics": [to_json(d) for d in diagnostics]}


def apply_fixes(paths: Sequence[str | Path]) -> FixedFiles:
    """Apply the certain fixes to rule files in memory; return the new texts and the remaining
    diagnostics.

    Nothing is written. Raises UsageError, OSError.
    """
    files = [require_file(path) for path in paths]
    with needs_compiler("fixing rules"):
        from fedkg_compiler.authoring import fixes

        return fixes.apply_fixes(files)


def check_with_inputs(paths: Sequence[str | Path]) -> tuple[Compilation, Inputs]:
    """Run `check`, and return every file it read as well, including the rule files' sheets and
    graphs.
    """
    with needs_compiler("compiling rules"):
        from fedkg_compiler.input_files import recording

        with recording() as inputs:
            return check(paths), inputs


def format_rule_file(body: bytes, name: str) -> tuple[str, str | None, tuple[Diagnostic, ...]]:
    """Return the text of a rule file, its canonical form (None with syntax errors) and those
    errors.
    """
    with needs_compiler("formatting rules"):
        from fedkg_compiler.frontends.fkg.syntax.printing import canonical as form
        from fedkg_compiler.frontends.fkg.syntax.statement_grammar import decode

        text, problems = decode(body, name)
        after, more = form(text, name)
        return text, (None if problems else after), (*problems, *more)


def serve_language() -> None:
    """Run the language server for one client over standard input and output.

    Raises:
        MissingExtra: the compiler or pygls is not installed.
    """
    with needs_compiler("the language server"):
        try:
            import pygls  # noqa: F401  the extra that the server needs besides the compiler
        except ModuleNotFoundError as error:
            raise MissingExtra("the language server", "editor") from error
        from fedkg_compiler.editor.language_server import serve

        serve()


def check_open_file(request: str) -> str:
    """Answer the language server's request for a full check; both are JSON.

    Raises:
        LimitError: the file is above a limit.
    """
    from fedkg.evaluation.example_runner import run_example

    with needs_compiler("the language server"):
        from fedkg_compiler.editor.full_check import Request, check_fully

        return check_fully(Request.from_json(request), run_example).to_json()


def explain(code: str) -> tuple[str, str]:
    """Return the title and the page of a diagnostic code. Raises UsageError for an unknown code."""
    with needs_compiler("explaining codes"):
        from fedkg_compiler.diagnostics import CODES

        key = code.strip().upper()
        if key not in CODES:
            near = nearest_name(key, list(CODES))
            hint = f"did you mean {near}?" if near else "`fedkg explain --list` lists all codes"
            raise UsageError(f"there is no code `{code}`", help=hint)
        return CODES[key].title, CODES[key].page


def explain_in(pack: Pack, rule: str, entity: str = "") -> Description:
    """Explain a rule of a pack, with examples that the interpreter has confirmed.

    Raises:
        UsageError: an unknown rule or entity.
    """
    from fedkg.evaluation.witness_verdict import replay

    with needs_compiler("explaining rules"):
        from fedkg_compiler.analysis.rule_description import describe

        contract = pack.manifest.contract
        return describe(
            pack,
            rule,
            entity,
            lambda ref, shown: replay(pack, ref.bank, ref.row, shown.matrix(contract), shown.now),
        )


def explain_cause(pack: Pack, name: str) -> CauseDescription | None:
    """Explain a `cause` of a pack; None if it has no cause of this name."""
    found = next((one for one in pack.manifest.causes if one.name == name), None)
    if found is None:
        return None
    with needs_compiler("explaining causes"):
        from fedkg_compiler.analysis.cause_description import describe_cause

        return describe_cause(found)


def find_origins(
    paths: Sequence[str | Path], rules: Sequence[str], entity: str
) -> tuple[Origin, ...]:
    """Return the triples that put an entity's rows into the banks of rules, with their derivations.

    A pack has no graph, so its rules have no origins.
    """
    if not all(is_authored(path) for path in paths):
        return ()
    with needs_compiler("explaining rules"):
        from fedkg_compiler.row_source_triples import origins as found

        return tuple(found(paths, rules, entity))


def compare_rules(
    old: Sequence[str | Path], new: Sequence[str | Path]
) -> tuple[RuleDifference, ...]:
    """Compare two versions rule by rule: packs, or rule files with their graphs. Raises
    CompileError, PackError.
    """
    before, _ = load_or_compile(old)
    after, _ = load_or_compile(new)
    return compare_packs(before, after)


def compare_packs(old: Pack, new: Pack) -> tuple[RuleDifference, ...]:
    """Compare two packs rule by rule. Raises MissingExtra without the compiler."""
    with needs_compiler("comparing rules"):
        from fedkg_compiler.analysis.pack_difference import differences

        return differences(old, new)


def describe_changes(old: str | Path, new: str | Path) -> Iterator[str]:
    """The lines of `fedkg diff` for two packs or rule files. Raises CompileError, PackError."""
    for one in compare_rules([old], [new]):
        yield from one.lines()


def list_codes() -> dict[str, str]:
    """Return every diagnostic code with its title."""
    with needs_compiler("explaining codes"):
        from fedkg_compiler.diagnostics import CODES

        return {key: CODES[key].title for key in sorted(CODES)}


def draft_rules(
    limits: Table | None,
    table: Table,
    *,
    limits_name: str,
    table_name: str,
    units: Mapping[str, str],
) -> str:
    """Draft a rule file from a sheet of limits, or from the table's own ranges. Raises
    TableError."""
    with needs_compiler("writing rules"):
        from fedkg_compiler.authoring.first_rule_file import draft_rules

        return draft_rules(
            limits, table, limits_name=limits_name, table_name=table_name, units=units
        )


def translate_fret(path: str | Path, component: str = "") -> FretDraft:
    """Translate the requirements in a JSON export of FRET into a rule file.

    Args:
        path: the export. component: the only component that is translated; "" for all.

    Raises:
        RequirementsError: the file is not an export of FRET, or has no such requirements.
        LimitError, OSError: the file is too large, or cannot be read.
    """
    with needs_compiler("writing rules"):
        from fedkg_compiler.authoring.fret import draft_requirements, read_export

        export = read_export(read_file(path, name="document"), str(path))
        return draft_requirements(export, Path(path).name, component)


def find_tags(table: Table) -> tuple[str, ...] | None:
    """Return the tags of a sheet of limits; None if the table is not one."""
    from fedkg.tables import is_unknown

    with needs_compiler("writing rules"):
        from fedkg_compiler.authoring import find_limit_columns

        try:
            tags = table.texts(find_limit_columns(table).tag)
        except TableError:
            return None
        return tuple(dict.fromkeys(tag for tag in tags if not is_unknown(tag)))


def find_missing_tags(limits: Table, table: Table) -> tuple[int, dict[str, str | None]]:
    """Return the number of tags in a sheet of limits, and its tags that are not a column of the
    table.

    Each missing tag comes with a similar header, or None. Raises TableError.
    """
    with needs_compiler("writing rules"):
        from fedkg_compiler.authoring import missing_tags as find

        return find(limits, table)


def is_authored(path: str | Path) -> bool:
    """Return whether a file is input of the compiler (rules, queries, shapes, graphs) rather than a
    pack or table.
    """
    from fedkg_compiler.input_files import (
        GRAPH_SUFFIXES,
        QUERY_SUFFIXES,
        RULE_SUFFIXES,
        is_endpoint,
        is_store,
    )

    return (
        is_endpoint(path)
        or is_store(Path(path))
        or Path(path).suffix.lower() in RULE_SUFFIXES | GRAPH_SUFFIXES | QUERY_SUFFIXES
    )


def parse_sources(arguments: Sequence[str]) -> list[str | Path]:
    """Turn command-line arguments into paths; keep endpoint addresses, because a path would lose a
    slash.
    """
    from fedkg_compiler.input_files import is_endpoint

    return [argument if is_endpoint(argument) else Path(argument) for argument in arguments]


def is_graph(path: str | Path) -> bool:
    """Return whether a file is read as a graph, which may contain shapes."""
    from fedkg_compiler.input_files import GRAPH_SUFFIXES

    return Path(path).suffix.lower() in GRAPH_SUFFIXES


def load_or_compile(paths: Sequence[str | Path]) -> tuple[Pack, tuple[Diagnostic, ...]]:
    """Load one pack file, or compile rule files; return the pack with the compiler's notes.

    Raises:
        UsageError: packs and rules are mixed, or a file is neither.
        PackError, CompileError: the pack or the rules are wrong.
    """
    from fedkg.pack import load

    packs = [path for path in paths if not is_authored(path)]
    if len(paths) == 1 and packs:
        require_file(packs[0])
        return load(packs[0]), ()
    if packs:
        other = next((path for path in packs if Path(path).suffix.lower() != ".fkgpack"), None)
        if other is not None:
            require_file(other)  # report a missing file before a misplaced pack
        several = len(packs) == len(paths)
        raise UsageError(
            f"{other} is neither a rule file nor a graph"
            if other is not None
            else f"the packs {packs[0]} and {packs[1]} cannot be combined"
            if several
            else f"the pack {packs[0]} cannot be combined with rule files",
            expected="one pack (.fkgpack), or rule files (.fkg), queries (.rq), shapes and graphs "
            "(.ttl, .shacl, .trig, .nt, .nq, .rdf, .owl, .jsonld)",
            help="rename the file if it contains rules or a graph, or leave it out"
            if other is not None
            else "name one of them"
            if several
            else "name the pack alone, or leave it out",
        )
    result = check(paths)
    if result.pack is None:
        raise CompileError(result.diagnostics, render(result.diagnostics))
    return result.pack, result.diagnostics


def is_rdf_data(rules: Sequence[str | Path], data: str | Path) -> bool:
    """Return whether a file is RDF data to check with shapes, rather than a graph in place of a
    table.
    """
    paths = [Path(path) for path in (*rules, data)]
    if not all(path.is_file() for path in paths):
        return False
    with needs_compiler("reading shapes"):
        from fedkg_compiler.input_files import begins_as_graph, holds_shapes

        if not is_graph(paths[-1]) and not begins_as_graph(paths[-1]):
            return False
        return any(holds_shapes(path) for path in paths[:-1]) and not holds_shapes(paths[-1])


def compile_for_rdf(
    rules: Sequence[str | Path], data: str | Path
) -> tuple[tuple[tuple[str, Pack, Table], ...], tuple[Diagnostic, ...]]:
    """Compile the shapes among rule files for an RDF file.

    Return, for each class that they target, its IRI, a pack, and the members as a table; and the
    diagnostics.

    Raises:
        CompileError: the rules, the shapes or the data are wrong.
    """
    with needs_compiler("reading shapes"):
        from fedkg_compiler.rdf_data_tables import compile_for_rdf as compile_

        found = compile_([require_file(path) for path in rules], require_file(data))
    if any(item.severity == "error" for item in found.diagnostics):
        raise CompileError(found.diagnostics, render(found.diagnostics))
    return found.parts, found.diagnostics


def validate(
    data: str | Path, shapes: Sequence[str | Path], ontologies: Sequence[str | Path] = ()
) -> tuple[Report, tuple[Diagnostic, ...]]:
    """Validate a graph or a table against SHACL shapes; return the report, and notes.

    Args:
        data: a graph (a file, a store or an endpoint), or a table. shapes: files with shapes; for a
            graph none means those in `data`; for a table rule files too, which name its columns.
        ontologies: further graphs that both refer to.

    Raises:
        CompileError: the data or the shapes cannot be read or evaluated.
        TableError: the table lacks a column.
        UsageError: a file does not exist, or there are no shapes.
    """
    from fedkg_compiler.input_files import begins_as_graph

    if not is_authored(data) and not begins_as_graph(Path(data)):
        return _validate_table(require_file(data), [*shapes, *ontologies])
    with needs_compiler("validating graphs"):
        from fedkg_compiler.frontends.shacl.validation import validate_graph

        found = validate_graph(
            [resolve_source(data)],
            [resolve_source(path) for path in shapes],
            [resolve_source(path) for path in ontologies],
        )
    if found.report is None:
        raise CompileError(found.diagnostics, render(found.diagnostics))
    return found.report, found.diagnostics


def _validate_table(
    path: Path, shapes: Sequence[str | Path]
) -> tuple[Report, tuple[Diagnostic, ...]]:
    from fedkg.evaluation.evaluate import evaluate_with_rows
    from fedkg.tables import read_table

    if not shapes:
        raise UsageError(
            "the shapes are missing",
            expected="a table, then files with shapes",
            help=f"fedkg validate {path} shapes.ttl",
        )
    with needs_compiler("validating tables"):
        from fedkg_compiler.frontends.shacl.table_results import RowViolation
        from fedkg_compiler.shapes_compilation import compile_shapes

        found = compile_shapes([resolve_source(file) for file in shapes])
        if found.pack is None:
            raise CompileError(found.diagnostics, render(found.diagnostics))
        if not found.noted.files:
            raise UsageError(
                f"fedkg found no SHACL shapes in {', '.join(map(str, shapes))}",
                help="name a file with SHACL shapes; to check a table with a rule file: "
                "fedkg eval RULES TABLE",
            )
        table = read_table(path)
        result, violations = evaluate_with_rows(found.pack, table)
        rows = [
            RowViolation(
                rule=row.rule, entity=row.entity, row=row.row, line=row.line, cells=row.cells
            )
            for row in violations
        ]
        report = found.report(str(path), table.rows, rows)
        unasked = sum(
            not (rule.satisfied or rule.violated or rule.unknown)
            for rule in result.rules
            if table.rows and rule.rule in found.noted.components
        )
        unchecked = report.unchecked + unasked
        return replace(report, unchecked=unchecked, notes=result.notes), found.diagnostics


def is_rule_text(path: str) -> bool:
    """Return whether a string is rules rather than a path: several lines, or a keyword at the
    beginning.
    """
    return (
        "\n" in path.strip() or path.lstrip().startswith(tuple(f"{word} " for word in STATEMENTS))
    ) and not os.path.lexists(path)


_MOST_FILES = 1000
"""Files of a folder that are compared with the name of a missing one."""


def require_file(path: str | Path) -> Path:
    """Return the path of an existing file of rules, graphs or findings. Raises UsageError."""
    path = Path(path)
    if not path.exists():
        endpoint = str(path).lower().startswith(("http:/", "https:/"))
        advice = (
            (
                "this command does not query endpoints: load the graph into a store first, with "
                "`fedkg graph load`"
            )
            if endpoint
            else _near_file(path)
        )
        raise UsageError(f"there is no file {path}", help=advice)
    if path.is_dir():
        rules = next(iter(sorted(path.glob("*.fkg"))), None)
        raise UsageError(
            f"{path} is a folder, not a file",
            help=f"name the files in it, such as {rules}"
            if rules is not None
            else "name the files in it one by one"
            if any(path.iterdir())
            else f"to make it a store of graphs: fedkg graph load {path} FILES...",
        )
    if path.suffix.lower() in (".yaml", ".yml"):
        raise UsageError(
            f"{path} is a YAML file, not a file of rules or graphs",
            help=f"for a job: fedkg run {path}; for a sites file: fedkg eval RULES --sites {path}",
        )
    return path


def _near_file(path: Path) -> str:
    """A help line about a missing file: one with a similar name, or how paths are read."""
    try:
        names = [entry.name for entry in itertools.islice(path.parent.iterdir(), _MOST_FILES)]
    except OSError:
        names = []
    near = nearest_name(path.name, names)
    return (
        f"did you mean `{path.parent / near}`?" if near else f"relative paths start at {Path.cwd()}"
    )


def resolve_source(path: str | Path) -> str | Path:
    """Return the compiler's input: an endpoint address, a store, or the path of an existing file.
    Raises UsageError.
    """
    from fedkg_compiler.input_files import is_endpoint, is_store

    return path if is_endpoint(path) or is_store(Path(path)) else require_file(path)


def _source_text(path: Path) -> str | None:
    """Return a rule file's text with the line numbers of diagnostics; None for unreadable or binary
    files.
    """
    from fedkg_compiler.input_files import library_path

    try:
        body = read_file(library_path(path) or path)
    except (OSError, LimitError):
        return None
    wide = body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return (
        None
        if body.startswith(BINARY)
        else body.decode("utf-16" if wide else "utf-8-sig", errors="replace")
    )
