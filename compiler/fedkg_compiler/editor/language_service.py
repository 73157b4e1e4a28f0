"""Answers about a place in a rule file: hover, completion, definition, rename, fixes.

Lines and columns count from 1, and columns count characters. No function here needs a server.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from fedkg.errors import FedkgError
from fedkg.tables import read_table
from fedkg.units.text import known_units, parse_unit
from fedkg.units.unit import Unit
from fedkg_compiler.diagnostics.code_registry import CODES
from fedkg_compiler.diagnostics.record import Diagnostic, Edit, Span
from fedkg_compiler.editor.full_check import SHOWN_ENTITIES, RuleFacts
from fedkg_compiler.editor.rule_document import Kind, Occurrence, RuleDocument, moved
from fedkg_compiler.editor.word_help import CLAUSES, OPERATORS, STATEMENTS, WORDS
from fedkg_compiler.frontends.fkg.binding.functions import FUNCTIONS
from fedkg_compiler.frontends.fkg.binding.library import library_names
from fedkg_compiler.frontends.fkg.syntax.printing import canonical
from fedkg_compiler.frontends.fkg.syntax.tree import Constant, Label, Rule, Signal, Template
from fedkg_compiler.input_files import (
    GRAPH_SUFFIXES,
    QUERY_SUFFIXES,
    InputMemory,
    instead,
    remembering,
)
from fedkg_compiler.pipeline import look_up

if TYPE_CHECKING:
    from fedkg_compiler.frontends.fkg.binding.scope import Sources
    from fedkg_compiler.graph.ontologies import Catalog
    from fedkg_compiler.graph.rdf_terms import KnownTerm

TABLE_SUFFIXES = frozenset({".csv", ".tsv", ".parquet", ".xlsx"})
MOST_TABLES = 20
"""Tables beside the rule file whose headers are offered."""
MOST_TABLE_BYTES = 2_000_000
"""Larger tables are not opened for their headers."""
MOST_HEADER_LINES = 50
"""Lines of a table in which its header is looked for; lines of a title can come before it."""
MOST_COMPLETIONS = 500
FILE_SUFFIXES = {
    "table": TABLE_SUFFIXES,
    "query": QUERY_SUFFIXES,
    "shapes": GRAPH_SUFFIXES - {".omn"},
    "queries": QUERY_SUFFIXES,
}
"""Files that may follow a word of the language, in quotes."""
RENAMED: frozenset[Kind] = frozenset({"value", "rule", "template", "parameter", "variable"})
"""What can be renamed: names that the file itself declares."""

_NAME = re.compile(r"[^\W\d]\w*")
_TERM_BEFORE = re.compile(r"(?<!\w)([A-Za-z][\w.-]*)?:[\w.-]*$")
_UNIT_BEFORE = re.compile(r"(?:\bin\s+|\d\s+)[\w./^°%*-]*$")
_COLUMN_BEFORE = re.compile(r'\bcolumn\s+"[^"]*$')
_STRING = re.compile(r'"(?:\\.|[^"\\])*"')
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"|`[^`]*(?:`|$)|<[^<>\s]*>')
_VARIABLE = re.compile(r"\?(\w+)")
_VARIABLE_BEFORE = re.compile(r"\?\w*$")
_FILE_BEFORE = re.compile(r'\b(table|query|shapes|queries)\s+"[^"]*$')
_EXAMPLE_BEFORE = re.compile(r"^example\s+of\s+\w*$")
_FOLLOWS_BEFORE = re.compile(r"\bfollows\s+\w*$")
_LIBRARY_BEFORE = re.compile(r"^use\s+rules\s+(?:[\w.]+\s*,\s*)*[\w.]*$")
_MEANING_BEFORE = re.compile(
    r"^(?:signal|output)\s+(?:\w+|`[^`]+`)(?:\(\?\w+\))?\s+is\s+\w*$|\bin\s+class\s+\w*$"
)
_WAIVER_BEFORE = re.compile(r"^(?:\s+|rule\b.*\s)allow\s+\w*$")
_USE_BEFORE = re.compile(r"^use\s+(?:[\w.]+\s*,\s*)*\w*$")
_CLASS_BEFORE = re.compile(r"(\w+|`[^`]+`)\s+(?:is(?:\s+not)?|(?:not\s+)?in)\s+\w*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A text that may follow.

    Attributes:
        kind: what it is, as in `Occurrence`, or ``keyword``, ``function``, ``class``, ``column``.
        detail: one line about it.
        text: what to insert; "" for the label itself.
    """

    label: str
    kind: str
    detail: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A fix that is offered at a diagnostic."""

    title: str
    diagnostic: Diagnostic
    edits: tuple[Edit, ...]


class InvalidName(FedkgError):
    """A name that cannot replace another one."""


@dataclass(slots=True)
class LanguageService:
    """Everything that is asked about one open file.

    Attributes:
        graphs: files of graphs that the rules refer to besides those that they name themselves.
        memory: keeps the graph; the checks of the file can share it.
        rules: facts of the last full check, by the name of the rule.
    """

    graphs: Sequence[Path | str] = ()
    memory: InputMemory = field(default_factory=InputMemory)
    rules: Mapping[str, RuleFacts] = field(default_factory=dict)

    def hover(self, document: RuleDocument, line: int, column: int) -> tuple[str, Span] | None:
        """What stands at a place, as Markdown, and its span; None if there is nothing to say."""
        found = document.occurrence_at(line, column)
        if found is None:
            return _hover_word(document, line, column)
        text = self._describe(document, found)
        return (text, found.span) if text else None

    def _describe(self, document: RuleDocument, found: Occurrence) -> str:
        match found.kind:
            case "value":
                return self._describe_value(document, found.name)
            case "rule":
                return self._describe_rule(document, found.name)
            case "template":
                return _describe_declaration(document, found)
            case "parameter":
                return f"`{found.name}`: a parameter of `{found.template}`"
            case "variable":
                statement = document.statement_at(found.span.line)
                tree = statement.tree if statement else None
                quantifier = getattr(tree, "quantifier", None)
                return f"`?{found.name}`: a value of the quantifier" if quantifier else ""
            case "unit":
                unit = parse_unit(found.name)
                return _describe_unit(unit) if isinstance(unit, Unit) else unit.reason
            case "code":
                page = CODES.get(found.name)
                return f"**{found.name}** {page.title}" if page else ""
            case "ontology":
                return _describe_ontology(document, found.name)
            case "term" | "prefix":
                return self._describe_term(document, found)
            case "file":
                path = document.path.parent / found.name
                return f"`{path}`" + ("" if path.exists() else " does not exist")

    def _describe_value(self, document: RuleDocument, name: str) -> str:
        declared = document.declarations().get(("value", name))
        tree = declared[1].tree if declared else None
        facts = self._columns_in_graph(document, tree) if isinstance(tree, Signal) else []
        return "\n\n".join(filter(None, (_describe_value(document, name), *facts)))

    def _columns_in_graph(self, document: RuleDocument, signal: Signal) -> list[str]:
        """What the graph states about the property that a signal observes: its label, and the
        columns with their units; [] for a signal with a column in the rule file.
        """
        if signal.term is None or signal.column is not None:
            return []
        with self._look_up(document) as sources:
            if sources is None or sources.graph is None:
                return []
            graph, term = sources.graph, signal.term
            iri, _ = graph.resolve(term.text, term.form, term.span)
            if iri is None:
                return []
            lines = [f"{graph.vocabulary.shorten(iri)} “{graph.label_of(iri)}”"]
            facts = graph.columns_of(iri, None)
            for fact in facts[:SHOWN_ENTITIES]:
                entity = f"{graph.label_of(fact.entity)}: " if fact.entity else ""
                unit = f", in {fact.unit}" if fact.unit else ""
                lines.append(f"{entity}column “{fact.column}”{unit}")
            if len(facts) > SHOWN_ENTITIES:
                lines.append(f"and {len(facts) - SHOWN_ENTITIES:,} more columns")
            return lines
        return []

    def _describe_rule(self, document: RuleDocument, name: str) -> str:
        declared = document.declarations().get(("rule", name))
        tree = declared[1].tree if declared else None
        lines = [f"**rule {name}**"]
        if isinstance(tree, Rule) and tree.title is not None:
            lines.append(tree.title.text)
        facts = self.rules.get(name)
        if facts is None:
            return "\n\n".join(lines) if declared else ""
        rows = "1 bound row" if facts.rows == 1 else f"{facts.rows:,} bound rows"
        about = f"{rows}, about {facts.about}"
        if facts.entities:
            others = f" and {facts.others:,} more" if facts.others else ""
            about += f": {', '.join(facts.entities)}{others}"
        lines += [about, f"First row: {facts.meaning}"]
        if facts.unit:
            lines.append(f"Robustness in {facts.unit}")
        return "\n\n".join(lines)

    def _describe_term(self, document: RuleDocument, found: Occurrence) -> str:
        term = self._term(document, found.name)
        if term is None:
            iri = self._iri_in_graph(document, found)
            return (
                f"**{found.name}**\n\nused in the graph, not defined there\n\n<{iri}>"
                if iri
                else ""
            )
        label = f" “{term.label}”" if term.label else ""
        lines = [f"**{term.short}**{label}", f"{term.kind} of {term.ontology}", term.comment]
        return "\n\n".join(line for line in [*lines, f"<{term.iri}>"] if line)

    def definition(self, document: RuleDocument, line: int, column: int) -> Span | None:
        """Where the name at a place is defined: in this file, a sheet, a graph or an ontology."""
        found = document.occurrence_at(line, column)
        if found is None:
            header = _column_at(document, line, column)
            return None if header is None else _place_of_header(document.path.parent, header)
        if found.kind == "file":
            path = document.path.parent / found.name
            return _start_of(path) if path.is_file() else None
        if found.kind == "ontology":
            return next(map(_start_of, _ontology_files(document, found.name)), None)
        if found.kind == "term":
            term = self._term(document, found.name)
            if term is not None:
                return self._place_of(document, term)
            return self._place_of_individual(document, found)
        if found.kind in {"variable", "parameter"}:
            return _place_of_variable(document, found)
        declared = document.declarations().get((found.kind, found.name))
        if declared is None and found.kind == "value":
            return _place_of_header(document.path.parent, found.name)
        return declared[0].span if declared else None

    def references(self, document: RuleDocument, line: int, column: int) -> list[Span]:
        """All places of the file with the name at this place."""
        found = document.occurrence_at(line, column)
        return [] if found is None else [one.span for one in document.same_name(found)]

    def rename(self, document: RuleDocument, line: int, column: int, name: str) -> list[Edit]:
        """The edits that give another name to what stands at a place.

        Raises:
            InvalidName: nothing there can be renamed, or the new name cannot be used.
        """
        found = document.occurrence_at(line, column)
        if found is None or found.kind not in RENAMED:
            raise InvalidName("only signals, labels, constants, rules, templates, parameters and "
                              "variables can be renamed")  # fmt: skip
        places = document.same_name(found)
        if not any(one.declares for one in places):
            raise InvalidName(f"`{found.name}` is not declared in this file")
        name = name.removeprefix("?").strip("`")
        plain = _NAME.fullmatch(name) is not None
        if (not plain and found.kind != "value") or not name or "\n" in name or "`" in name:
            raise InvalidName(
                f"`{name}` is not a name", expected="letters, digits and _", help="for example x_1"
            )
        if document.same_name(replace(found, name=name)):
            raise InvalidName(f"`{name}` exists already")
        written = [name] * plain + [f"`{name}`"] * (found.kind == "value")
        for text in written:  # a word of the rule language may need quotes
            edits = [
                Edit(span=one.span, was=was, text=f"?{text}" if was.startswith("?") else text)
                for one in places
                if (was := _text_at(document.text, one.span))
            ]
            renamed = RuleDocument(document.path, _edited(document.text, edits))
            if len(renamed.same_name(replace(found, name=name))) == len(places):
                return edits
        raise InvalidName(
            f"`{name}` cannot be in every place of `{found.name}`, or means something else there",
            help="choose another name",
        )

    def complete(self, document: RuleDocument, line: int, column: int) -> list[Completion]:
        """What may stand at a place."""
        lines = document.text.split("\n")
        before = lines[line - 1][: column - 1] if line <= len(lines) else ""
        if not before.strip() or (before == before.lstrip() and _NAME.fullmatch(before)):
            return [*_words("keyword", STATEMENTS), *_words("keyword", CLAUSES)]
        if found := _FILE_BEFORE.search(before):
            return _files(document.path.parent, FILE_SUFFIXES[found[1]])
        code = _QUOTED.sub("", before)
        if not _COLUMN_BEFORE.search(before) and ("#" in code or '"' in code):
            return []  # a comment or a title
        if _LIBRARY_BEFORE.search(before):
            return [Completion(label=name, kind="template") for name in library_names()]
        if _USE_BEFORE.search(before):
            return _ontology_names(document)
        if _EXAMPLE_BEFORE.search(before):
            return [one for one in _names(document) if one.kind in {"rule", "template"}]
        if _FOLLOWS_BEFORE.search(before):
            return [one for one in _names(document) if one.kind == "template"]
        if _WAIVER_BEFORE.search(before) and _is_in_rule(document, line):
            return [Completion(label=code, kind="code", detail=CODES[code].title) for code in CODES]
        if _VARIABLE_BEFORE.search(before):
            return _variables(document, line, column)
        if _COLUMN_BEFORE.search(before) or _is_in_backquotes(before):
            columns = [Completion(label=name, kind="column", detail=table)
                       for name, table in _columns(document.path.parent)]  # fmt: skip
            if _COLUMN_BEFORE.search(before):
                return columns
            # the quotes are there already
            names = [replace(one, text="") for one in _names(document) if one.kind == "value"]
            declared = {one.label for one in names}
            return [*names, *(one for one in columns if one.label not in declared)]
        if found := _TERM_BEFORE.search(before):
            return self._terms(document, found[1] or "", (line, column))
        if _MEANING_BEFORE.search(before):
            return self._terms(document, None, (line, column))
        if found := _CLASS_BEFORE.search(before):
            classes = _classes(document, found[1].strip("`"))
            if classes:
                return classes
        if _UNIT_BEFORE.search(before):
            return [Completion(label=unit, kind="unit") for unit in known_units()]
        return [*_names(document), *_words("function", dict.fromkeys(FUNCTIONS, "function")),
                *_words("keyword", OPERATORS), *_words("keyword", CLAUSES)]  # fmt: skip

    def actions(
        self, diagnostics: Sequence[Diagnostic], document: RuleDocument, first: int, last: int
    ) -> list[Action]:
        """The certain fixes of the diagnostics on these lines."""
        return [
            Action(title=one.help or f"fix {one.code}", diagnostic=one, edits=one.fix.edits)
            for one in diagnostics
            if one.fix is not None
            if one.span.file == str(document.path)
            if first <= one.span.end_line and one.span.line <= last
        ]

    def _term(self, document: RuleDocument, name: str) -> KnownTerm | None:
        terms = self._vocabulary(document)
        return terms.get(name) or terms.get(f"<{name}>")

    def _terms(
        self, document: RuleDocument, prefix: str | None, typed: tuple[int, int]
    ) -> list[Completion]:
        """The terms with a prefix: those that are defined, and those that the file names, as they
        are written there, but for the one that ends at `typed`.

        Without a prefix the prefixes and the terms that the file names.
        """
        found = {
            _text_at(document.text, one.span): ""
            for one in document.occurrences()
            if one.kind == "term" and (one.span.end_line, one.span.end_column) != typed
        }
        for name, term in self._vocabulary(document).items():
            if prefix is not None:
                found[name] = term.label
            elif not name.startswith("<"):
                found.setdefault(f"{name.partition(':')[0]}:", "prefix")
        return [
            Completion(
                label=name,
                kind="term",
                detail=label,
                text=name if prefix is None else name.partition(":")[2],
            )
            for name, label in found.items()
            if prefix is None or (name.startswith(f"{prefix}:") and not name.endswith(":"))
        ][:MOST_COMPLETIONS]

    def _vocabulary(self, document: RuleDocument) -> dict[str, KnownTerm]:
        """The terms that the file can name, by their prefixed names and IRIs in brackets."""
        with self._look_up(document) as sources:
            terms = () if sources is None or sources.graph is None else sources.graph.terms()
        return {name: term for term in terms for name in (term.short, f"<{term.iri}>")}

    @contextmanager
    def _look_up(self, document: RuleDocument) -> Iterator[Sources | None]:
        """The names and the graph of a file; None if they cannot be read."""
        body = document.text.encode("utf-8", "surrogatepass")
        with instead({document.path: body}), remembering(self.memory):
            try:
                sources, _ = look_up([document.path, *self.graphs])
            except FedkgError:
                yield None
                return
            try:
                yield sources
            finally:
                if sources.graph is not None:
                    sources.graph.close()

    def _place_of(self, document: RuleDocument, term: KnownTerm) -> Span | None:
        """The line of a file that begins with a term, else the first that mentions it."""
        files = [*_ontology_files(document, term.ontology), *_graph_files(document, self.graphs)]
        return _first_line(files, term.short.strip("<>").rpartition(":")[2])

    def _place_of_individual(self, document: RuleDocument, found: Occurrence) -> Span | None:
        """The line of a graph that begins with a thing, which no ontology defines."""
        from fedkg_compiler.graph.rdf_terms import local_name

        iri = self._iri_in_graph(document, found)
        if iri is None:
            return None
        return _first_line(_graph_files(document, self.graphs), local_name(iri))

    def _iri_in_graph(self, document: RuleDocument, found: Occurrence) -> str | None:
        """The IRI of a name, if the graph has it."""
        with self._look_up(document) as sources:
            if sources is None or sources.graph is None:
                return None
            is_prefixed = "://" not in found.name
            iri, _ = sources.graph.resolve(
                found.name, "pname" if is_prefixed else "iri", found.span
            )
            return iri if iri is not None and sources.graph.has(iri) else None
        return None


def _first_line(files: Sequence[Path], name: str) -> Span | None:
    """The line of a file that begins with a local name, else the first that mentions it."""
    local = re.escape(name)
    for pattern in (rf"^\s*(?:\w*:|<[^>]*){local}>?(?=[\s;.])", rf"{local}(?![\w-])"):
        for path in files:
            with suppress(OSError, UnicodeDecodeError):
                lines = path.read_text(encoding="utf-8").split("\n")
                for number, text in enumerate(lines, 1):
                    if found := re.search(pattern, text):
                        return _span(path, number, found.start() + 1, found.end() + 1)
    return None


def format_text(document: RuleDocument) -> str | None:
    """The file in its canonical form; None if it has syntax errors."""
    text, problems = canonical(document.text, str(document.path))
    return None if problems else text


def _hover_word(document: RuleDocument, line: int, column: int) -> tuple[str, Span] | None:
    lines = document.text.split("\n")
    if line > len(lines):
        return None
    for found in _NAME.finditer(lines[line - 1]):
        if found.start() < column <= found.end() + 1 and found[0] in WORDS:
            span = _span(document.path, line, found.start() + 1, found.end() + 1)
            return f"**{found[0]}**: {WORDS[found[0]]}", span
    return None


def _describe_value(document: RuleDocument, name: str) -> str:
    declared = document.declarations().get(("value", name))
    if declared is None:
        return f"**{name}**: function" if name in FUNCTIONS else ""
    match declared[1].tree:
        case Signal() as signal:
            facts = [f"**{'output' if signal.role == 'output' else 'signal'} {name}**"]
            if signal.unit is not None:
                facts.append(f"in {signal.unit.text}")
            if signal.bounds is not None:
                facts.append(f"span {signal.bounds[0]:g} .. {signal.bounds[1]:g}")
            if signal.column is not None:
                facts.append(f"column “{signal.column.text}”")
            if signal.term is not None:
                facts.append(f"observes {signal.term.text}")
            return ", ".join(facts)
        case Label(classes=classes):
            return f"**label {name}**, classes {', '.join(word.text for word in classes)}"
        case _:
            return _describe_declaration(document, declared[0])


def _describe_declaration(document: RuleDocument, found: Occurrence) -> str:
    declared = document.declarations().get((found.kind, found.name))
    return f"```fkg\n{declared[1].chunk.text.strip()}\n```" if declared else ""


def _describe_unit(unit: Unit) -> str:
    dimension = " ".join(f"{base}^{power}" for base, power in unit.dimension if power)
    factor = (
        f", 1 {unit.text} = {float(unit.factor):g} in SI base units" if unit.factor != 1 else ""
    )
    return f"**{unit.text}**: {dimension or 'no dimension'}{factor}"


@lru_cache(maxsize=1)
def _catalog() -> Catalog:
    from fedkg_compiler.graph.ontologies import load_catalog

    return load_catalog()


def _describe_ontology(document: RuleDocument, name: str) -> str:
    entry = _catalog().entries.get(name)
    if entry is not None:
        version = f", version {entry.version}" if entry.version else ""
        return f"**{name}**: {entry.title}{version}\n\nprefix `{entry.prefix}:` <{entry.namespace}>"
    return next((f"`{path}`" for path in _ontology_files(document, name)), "")


def _ontology_files(document: RuleDocument, name: str) -> Iterator[Path]:
    """The files behind a name after `use`, or the file of this name."""
    catalog = _catalog()
    entry, added = catalog.entries.get(name), catalog.added.get(name)
    if added is not None:
        yield catalog.shelf / added.file
    elif entry is not None:
        yield from (catalog.folder / file for file in (entry.module, *entry.parts))
    for suffix in ("", *sorted(GRAPH_SUFFIXES)):
        path = document.path.parent / f"{name}{suffix}"
        if path.is_file():
            yield path


def _graph_files(document: RuleDocument, graphs: Sequence[Path | str]) -> list[Path]:
    used = [one.name for one in document.occurrences() if one.kind == "ontology"]
    beside = [path for name in used for path in _ontology_files(document, name)]
    return [*beside, *(Path(graph) for graph in graphs if Path(graph).is_file())]


def _place_of_variable(document: RuleDocument, found: Occurrence) -> Span | None:
    """The header of the sheet that a variable reads, else where the quantifier declares it."""
    places = document.same_name(found)
    declared = next((one.span for one in places if one.declares), None)
    statement = document.statement_at(found.span.line)
    sheet = next((one for one in (statement.occurrences() if statement else ())
                  if one.kind == "file"), None)  # fmt: skip
    if sheet is None or declared is None:
        return declared
    path = document.path.parent / sheet.name
    with suppress(OSError, UnicodeDecodeError):
        if path.suffix.lower() in {".csv", ".tsv"}:
            first = path.read_text(encoding="utf-8").split("\n", 1)[0]
            if header := re.search(rf"(?<![^\W_]){re.escape(found.name)}(?![^\W_])", first):
                return _span(path, 1, header.start() + 1, header.end() + 1)
    return declared


def _variables(document: RuleDocument, line: int, column: int) -> list[Completion]:
    """The other variables of the statement at a place; the `?` is there already."""
    found = document.statement_at(line)
    if found is None:
        return []
    lines = found.chunk.text.split("\n")
    row = line - found.chunk.line
    if row < len(lines):
        text = lines[row]
        before, after = text[: column - 1], text[column - 1 :]
        lines[row] = _VARIABLE_BEFORE.sub("", before) + re.sub(r"^\w+", "", after)
    names = dict.fromkeys(_VARIABLE.findall("\n".join(lines)))
    return [Completion(label=name, kind="variable") for name in names]


def _is_in_rule(document: RuleDocument, line: int) -> bool:
    found = document.statement_at(line)
    return found is not None and found.chunk.text.startswith("rule")


def _files(folder: Path, suffixes: Collection[str]) -> list[Completion]:
    found = sorted(path.name for path in folder.glob("*") if path.suffix.lower() in suffixes)
    return [Completion(label=name, kind="file") for name in found]


def _ontology_names(document: RuleDocument) -> list[Completion]:
    catalog = _catalog()
    named = [
        Completion(label=name, kind="ontology", detail=entry.title)
        for name, entry in sorted(catalog.entries.items())
    ]
    folder = document.path.parent
    beside = sorted(path for path in folder.glob("*") if path.suffix.lower() in GRAPH_SUFFIXES)
    return [*named, *(Completion(label=path.stem, kind="ontology", detail=path.name)
                      for path in beside)]  # fmt: skip


def _names(document: RuleDocument) -> list[Completion]:
    found = []
    for (kind, name), (_, statement) in document.declarations().items():
        if kind not in {"value", "template", "rule"}:
            continue
        detail = {Label: "label", Constant: "constant", Template: "template", Rule: "rule"}
        about = detail.get(type(statement.tree), "")
        if isinstance(statement.tree, Signal):
            unit = statement.tree.unit
            about = f"in {unit.text}" if unit else "signal"
        text = "" if _NAME.fullmatch(name) else f"`{name}`"
        found.append(Completion(label=name, kind=kind, detail=about, text=text))
    return found


def _classes(document: RuleDocument, name: str) -> list[Completion]:
    declared = document.declarations().get(("value", name))
    tree = declared[1].tree if declared else None
    if not isinstance(tree, Label):
        return []
    return [
        Completion(
            label=word.text,
            kind="class",
            text="" if _NAME.fullmatch(word.text) else f'"{word.text}"',
        )
        for word in tree.classes
    ]


def _columns(folder: Path) -> list[tuple[str, str]]:
    """The headers of the tables in a folder, each with its table."""
    found: dict[str, str] = {}
    tables = sorted(path for path in folder.glob("*") if path.suffix.lower() in TABLE_SUFFIXES)
    for path in tables[:MOST_TABLES]:
        with suppress(FedkgError, OSError):
            if path.stat().st_size <= MOST_TABLE_BYTES:
                for header in read_table(path).headers:
                    found.setdefault(header, path.name)
    return list(found.items())


def _is_in_backquotes(before: str) -> bool:
    """Whether a name in backquotes begins on a line and does not end there."""
    code = _STRING.sub("", before).split("#", 1)[0]
    return code.count("`") % 2 == 1


def _column_at(document: RuleDocument, line: int, column: int) -> str | None:
    """The header after `column` at a place."""
    statement = document.statement_at(line)
    tree = statement.tree if statement else None
    if statement is None or not isinstance(tree, Signal | Label) or tree.column is None:
        return None
    span = moved(tree.column.span, statement.chunk.line - 1)
    is_inside = span.line == line and span.column <= column <= span.end_column
    return tree.column.text if is_inside else None


def _place_of_header(folder: Path, header: str) -> Span | None:
    """The header in a table of the folder; of a workbook or Parquet file only the file."""
    name = next((table for one, table in _columns(folder) if one == header), None)
    if name is None:
        return None
    path = folder / name
    if path.suffix.lower() in {".csv", ".tsv"}:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
        cell = re.compile(rf"(?:^|(?<=[,;|\t\"\ufeff ])){re.escape(header)}(?=$|[,;|\t\"\r ])")
        for number, text in enumerate(lines[:MOST_HEADER_LINES], 1):
            if found := cell.search(text):
                return _span(path, number, found.start() + 1, found.end() + 1)
    return _start_of(path)


def _words(kind: str, words: Mapping[str, str]) -> list[Completion]:
    return [Completion(label=word, kind=kind, detail=text) for word, text in words.items()]


def _edited(text: str, edits: Sequence[Edit]) -> str:
    """The text after edits that each stay within a line."""
    lines = text.split("\n")
    for one in sorted(edits, key=lambda edit: edit.span, reverse=True):
        line = lines[one.span.line - 1]
        before, after = line[: one.span.column - 1], line[one.span.end_column - 1 :]
        lines[one.span.line - 1] = before + one.text + after
    return "\n".join(lines)


def _text_at(text: str, span: Span) -> str:
    lines = text.split("\n")
    return lines[span.line - 1][span.column - 1 : span.end_column - 1]


def _start_of(path: Path) -> Span:
    return _span(path, 1, 1, 1)


def _span(path: Path, line: int, column: int, end: int) -> Span:
    return Span(file=str(path), line=line, column=column, end_line=line, end_column=end)
