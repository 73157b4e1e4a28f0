"""Where the runtime meets the compiler: everything the faces need of rule files.

`fedkg.ontologies` has what they need of ontologies, `fedkg.graphs` what jobs need of graphs. No other modules of `fedkg` import
`fedkg_compiler`, and these three do so only inside their functions, so that an installation without the compiler loads and evaluates packs.
"""

from __future__ import annotations

import codecs
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkg._internal.name_matching import nearest_name
from fedkg.errors import FedkgError, MissingExtra, UsageError

if TYPE_CHECKING:
    from fedkg.evaluation.examples import ExampleResult
    from fedkg.pack import Pack
    from fedkg.tables import Table
    from fedkg_compiler.authoring.fixes import Mended
    from fedkg_compiler.compilation import Compilation
    from fedkg_compiler.diagnostics.record import Diagnostic
    from fedkg_compiler.inputs import Inputs
    from fedkg_compiler.reason.describe import Description
    from fedkg_compiler.reason.difference import RuleDifference
    from fedkg_compiler.reason.origin import Origin

BINARY = (b"PK\x03\x04", b"PAR1", b"\x1f\x8b")
"""How workbooks, Parquet files and archives begin."""
STATEMENTS = (
    *("use", "prefix", "timeline", "rows", "signal", "output", "label", "rule"),
    *("template", "infer", "range", "predict", "set", "cause", "example", "load"),
)
"""Words that statements begin with."""
COMPILER_LIBRARIES = frozenset(
    {"lark", "rdflib", "oxrdflib", "pyoxigraph", "pint", "sympy", "fedkg_compiler"}
)


class RuleWarning(UserWarning):
    """The rules were compiled, but something in them is probably not what was meant."""


class CompileError(FedkgError):
    """Rules that cannot be compiled.

    Attributes:
        diagnostics: every problem, in file order; each has a code, a severity, a span, a message and a help.
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
) -> Compilation:
    """The pack (None when there is an error) and all diagnostics of rule files and RDF graphs, or of one rule text.

    With `client`, a name or an IRI, it is the private pack of that client. What was compiled before is taken as long as nothing has
    changed, without the examples; `fresh` compiles in any case.

    Raises:
        UsageError: when a file does not exist.
        MissingExtra: when the compiler is not installed.
    """
    files = [resolve_source(path) for path in (*paths, *graphs)]
    with needs_compiler("compiling rules"):
        count = len(paths)
        if text is None and not fresh:
            from fedkg_compiler.cache import compile_cached

            return compile_cached(files[:count], files[count:], client)
        from fedkg_compiler.driver import compile_rules

        return compile_rules(files[:count], text=text, graphs=files[count:], client=client)


def compile(  # noqa: A001  the public name, fixed
    paths: str | Path | Sequence[str | Path] = (),
    *,
    text: str | None = None,
    graphs: Sequence[str | Path] = (),
    client: str = "",
) -> Pack:
    """The constraint pack of rule files (and RDF graphs among them), or of one rule text.

    Warnings of the compiler are issued as `RuleWarning`.

    Args:
        paths: one file or several: rule files (`.fkg`), queries (`.rq`), shapes and graphs (`.ttl`, `.shacl`, `.nt`, `.rdf`, `.owl`,
            `.jsonld`).
        text: the rules themselves, in place of files.
        graphs: more graphs that the rules may speak about: files, stores on disk (`fedkg graph load`), and addresses of SPARQL
            endpoints (texts that begin with ``https://``), all three also among `paths`.
        client: name or IRI of the client whose private pack is made; "" for the public pack.

    Raises:
        CompileError: with every diagnostic of every file.
        UsageError: when a file does not exist, neither files nor text are given, or the text of rules as a path.
    """
    if isinstance(paths, str) and text is None and is_rule_text(paths):
        raise UsageError(
            "the rules themselves stand where their file is named",
            expected="the path of a rule file",
            received=repr(paths if len(paths) <= 40 else paths[:37] + "..."),
            help='fedkg.compile(text="...")',
        )
    if isinstance(paths, str | Path):
        paths = (paths,)
    if not paths and text is None:
        raise UsageError(
            "nothing to compile", help='fedkg.compile("rules.fkg") or fedkg.compile(text="...")'
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
    """What comes out of the examples in rule files, or in one rule text, and what the compiler says of the rules.

    Where the rules have an error, there are no results.

    Raises:
        UsageError: when a file does not exist.
        MissingExtra: when the compiler is not installed.
    """
    from fedkg.evaluation.examples import run_example

    result = check(paths, text=text, graphs=graphs, fresh=True)
    if any(item.severity == "error" for item in result.diagnostics):
        return (), result.diagnostics
    return tuple(run_example(example) for example in result.examples), result.diagnostics


MOST_SHOWN = 200
"""Diagnostics that are shown as text, errors first: more are not read."""


def render(
    diagnostics: Sequence[Diagnostic], texts: Mapping[str, str] | None = None, *, client: str = ""
) -> str:
    """Diagnostics as text, each with its source lines underlined where the file can be read (or stands in `texts`).

    For a `client` no line of a graph is shown: it may be a fact about another one.
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
    """Diagnostics as `fedkg check --json` prints them; without any, nothing of the compiler is loaded. `Any`: JSON."""
    if not diagnostics:
        return {"diagnostics": []}
    with needs_compiler("explaining rules"):
        from fedkg_compiler.diagnostics import to_json

        return {"diagnostics": [to_json(d) for d in diagnostics]}


def apply_fixes(paths: Sequence[str | Path]) -> Mended:
    """Rule files with their certain fixes put in (nothing is written), and what is left to say. Raises UsageError, OSError."""
    files = [require_file(path) for path in paths]
    with needs_compiler("mending rules"):
        from fedkg_compiler.authoring.fixes import apply_fixes as put_in

        return put_in(files)


def check_with_inputs(paths: Sequence[str | Path]) -> tuple[Compilation, Inputs]:
    """`check`, and every file that was read for it, the rule files' sheets and graphs too."""
    with needs_compiler("compiling rules"):
        from fedkg_compiler.inputs import recording

        with recording() as inputs:
            return check(paths), inputs


def format_rule_file(body: bytes, name: str) -> tuple[str, str | None, tuple[Diagnostic, ...]]:
    """The text of a rule file, its canonical form (None where it has syntax errors), and those errors."""
    with needs_compiler("formatting rules"):
        from fedkg_compiler.syntax.printing import format_rule_file as form
        from fedkg_compiler.syntax.text import decode

        text, problems = decode(body, name)
        after, more = form(text, name)
        return text, (None if problems else after), (*problems, *more)


def explain(code: str) -> tuple[str, str]:
    """The title and the page of a diagnostic's code. Raises UsageError, with the nearest code, when there is none."""
    with needs_compiler("explaining codes"):
        from fedkg_compiler.diagnostics import CODES

        key = code.strip().upper()
        if key not in CODES:
            near = nearest_name(key, list(CODES))
            hint = f"did you mean {near}?" if near else "`fedkg explain --list` lists all codes"
            raise UsageError(f"there is no code `{code}`", help=hint)
        return CODES[key].title, CODES[key].page


def explain_rule(paths: Sequence[str | Path], rule: str, entity: str = "") -> Description:
    """What a rule of these files (or of a pack) asks for, with examples that the interpreter has confirmed.

    Raises:
        UsageError: when there is no such rule or entity. CompileError, PackError: when the files are wrong.
    """
    pack, _ = load_or_compile(paths)
    return explain_in(pack, rule, entity)


def explain_in(pack: Pack, rule: str, entity: str = "") -> Description:
    """What a rule of a pack asks for, as `explain_rule` says it. Raises UsageError when there is no such rule or entity."""
    from fedkg.evaluation.replay import replay

    with needs_compiler("explaining rules"):
        from fedkg_compiler.reason.describe import describe

        contract = pack.manifest.contract
        return describe(
            pack,
            rule,
            entity,
            lambda ref, shown: replay(pack, ref.bank, ref.row, shown.matrix(contract), shown.now),
        )


def find_origins(
    paths: Sequence[str | Path], rules: Sequence[str], entity: str
) -> tuple[Origin, ...]:
    """The triples that put an entity's rows into the banks of rules, with what they follow from; none for a pack, which has no graph."""
    if not all(is_authored(path) for path in paths):
        return ()
    with needs_compiler("explaining rules"):
        from fedkg_compiler.reason.origin import find_origins as found

        return tuple(found(paths, rules, entity))


def compare_rules(
    old: Sequence[str | Path], new: Sequence[str | Path]
) -> tuple[RuleDifference, ...]:
    """What became of each rule between two versions: packs, or rule files with their graphs. Raises CompileError, PackError."""
    before, _ = load_or_compile(old)
    after, _ = load_or_compile(new)
    with needs_compiler("comparing rules"):
        from fedkg_compiler.reason.difference import compare_rules as compare

        return compare(before, after)


def list_codes() -> dict[str, str]:
    """Every diagnostic's code with its title."""
    with needs_compiler("explaining codes"):
        from fedkg_compiler.diagnostics import CODES

        return {key: CODES[key].title for key in sorted(CODES)}


def draft_rules(limits: Table | None, table: Table, *, limits_name: str, table_name: str) -> str:
    """A first rule file from a sheet of limits, or from the table's own ranges. Raises TableError."""
    with needs_compiler("writing rules"):
        from fedkg_compiler.authoring.draft import draft_rules

        return draft_rules(limits, table, limits_name=limits_name, table_name=table_name)


def find_missing_tags(limits: Table, table: Table) -> tuple[int, dict[str, str | None]]:
    """How many tags a sheet of limits has, and those that are no column of the table, each with a near header. Raises TableError."""
    with needs_compiler("writing rules"):
        from fedkg_compiler.authoring import find_missing_tags as find

        return find(limits, table)


def is_authored(path: str | Path) -> bool:
    """Whether a file is something to compile (rules, queries, shapes, a graph or a store of graphs) rather than a pack or a table."""
    from fedkg_compiler.inputs import (
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
    """What a command line names: paths, and addresses of endpoints as they are (a path would lose one of the slashes)."""
    from fedkg_compiler.inputs import is_endpoint

    return [argument if is_endpoint(argument) else Path(argument) for argument in arguments]


def is_graph(path: str | Path) -> bool:
    """Whether a file is taken as a graph, which may hold shapes."""
    from fedkg_compiler.inputs import GRAPH_SUFFIXES

    return Path(path).suffix.lower() in GRAPH_SUFFIXES


def load_or_compile(paths: Sequence[str | Path]) -> tuple[Pack, tuple[Diagnostic, ...]]:
    """The pack behind one pack file, or behind rule files, with the compiler's notes on it.

    Raises:
        UsageError: when packs and rules are mixed, or a file is neither.
        PackError, CompileError: when the pack or the rules are wrong.
    """
    from fedkg.pack import load

    packs = [path for path in paths if not is_authored(path)]
    if len(paths) == 1 and packs:
        require_file(packs[0])
        return load(packs[0]), ()
    if packs:
        if (
            Path(packs[0]).suffix.lower() != ".fkgpack"
        ):  # a wrong name, and no pack in a wrong place
            require_file(packs[0])
        raise UsageError(
            f"{packs[0]} stands among rule files",
            expected="one pack (.fkgpack), or rule files (.fkg), queries (.rq), shapes and graphs (.ttl, .shacl, .nt, .rdf, .owl, .jsonld)",
        )
    result = check(paths)
    if result.pack is None:
        raise CompileError(result.diagnostics, render(result.diagnostics))
    return result.pack, result.diagnostics


def is_rdf_data(rules: Sequence[str | Path], data: str | Path) -> bool:
    """Whether a file is RDF that shapes among the rules are to be checked on, rather than a graph that stands where a table should."""
    paths = [Path(path) for path in (*rules, data)]
    if not is_graph(paths[-1]) or not all(path.is_file() for path in paths):
        return False
    with needs_compiler("reading shapes"):
        from fedkg_compiler.shacl import holds_shapes

        return any(holds_shapes(path) for path in paths[:-1]) and not holds_shapes(paths[-1])


def compile_for_rdf(
    rules: Sequence[str | Path], data: str | Path
) -> tuple[tuple[tuple[str, Pack, Table], ...], tuple[Diagnostic, ...]]:
    """The shapes among rule files, compiled for an RDF file: for each class that they target its IRI, a pack, and the members as a table.

    Raises:
        CompileError: when the rules, the shapes or the data are wrong.
    """
    with needs_compiler("reading shapes"):
        from fedkg_compiler.shacl.rows import compile_for_rdf as compile_

        found = compile_([require_file(path) for path in rules], require_file(data))
    if any(item.severity == "error" for item in found.diagnostics):
        raise CompileError(found.diagnostics, render(found.diagnostics))
    return found.parts, found.diagnostics


def is_rule_text(path: str) -> bool:
    """Whether something that is no file reads as rules and not as a path: several lines, or a word that begins a statement."""
    return (
        "\n" in path.strip() or path.lstrip().startswith(tuple(f"{word} " for word in STATEMENTS))
    ) and not os.path.lexists(path)


def require_file(path: str | Path) -> Path:
    """The path of a file that exists. Raises UsageError."""
    path = Path(path)
    if not path.exists():
        endpoint = str(path).lower().startswith(("http:/", "https:/"))
        advice = (
            "no endpoint is asked here: put its graph into a store first, with `fedkg graph load`"
            if endpoint
            else ""
        )
        raise UsageError(f"there is no file {path}", help=advice)
    if path.is_dir():
        raise UsageError(
            f"{path} is a folder, not a file",
            help=f"is it to be a store of graphs? fedkg graph load {path} FILES...",
        )
    return path


def resolve_source(path: str | Path) -> str | Path:
    """What the compiler takes: the address of an endpoint, a store, or the path of a file that exists. Raises UsageError."""
    from fedkg_compiler.inputs import is_endpoint, is_store

    return path if is_endpoint(path) or is_store(Path(path)) else require_file(path)


def _source_text(path: Path) -> str | None:
    """A rule file's text as the diagnostics count it, or None when it cannot be read or has nothing to show (a workbook, an archive)."""
    from fedkg_compiler.resources import library_path

    try:
        body = (library_path(path) or path).read_bytes()
    except OSError:
        return None
    wide = body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return (
        None
        if body.startswith(BINARY)
        else body.decode("utf-16" if wide else "utf-8-sig", errors="replace")
    )
