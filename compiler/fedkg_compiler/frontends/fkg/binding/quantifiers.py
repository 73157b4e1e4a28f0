"""The values of a quantifier: from a graph pattern, from a class, from the table's own rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from fedkg.pack import Source
from fedkg.units.text import UnitProblem, parse_unit
from fedkg.units.unit import Dimension, Unit, conversion
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.frontends.fkg.binding.entity_owners import owned
from fedkg_compiler.frontends.fkg.binding.scope import (
    Cell,
    Environment,
    LiteralText,
    Sources,
    unknown,
)
from fedkg_compiler.frontends.fkg.syntax.tree import (
    InClass,
    InQuery,
    InTable,
    Pattern,
    Quantifier,
    Word,
)
from fedkg_compiler.frontends.sheets.sheet_cache import Sheets
from fedkg_compiler.graph.rdf_terms import Iri, Literal, Quantity, RdfTerm, local_name
from fedkg_compiler.graph.standard_vocabularies import OWL, RDFS
from fedkg_compiler.input_files import read_bytes


def quantify(
    quantifier: Quantifier, sources: Sources, sheets: Sheets, statement: str = "rule"
) -> Environment:
    """The solutions of a quantifier.

    Args:
        statement: what kind of statement it belongs to, for messages.
    """
    variables = [word.text for word in quantifier.variables]
    source = quantifier.source
    if len(set(variables)) < len(variables):  # said by the parser
        return unknown(variables, quantifier.span)
    match source:
        case Pattern():
            environment = _pattern(source, variables, sources)
        case InClass():
            environment = _class(source, quantifier, variables, sources)
        case InTable():
            from fedkg_compiler.frontends.sheets.sheet_quantifiers import sheet_environment

            environment = sheet_environment(source.path, quantifier.variables, sources, sheets)
        case InQuery():
            environment = query_environment(source.path, quantifier.variables, sources, sheets)
    if environment is None:
        return unknown(variables, quantifier.span)
    environment = owned(environment, sources)
    if environment.rows == 0 and sources.names.graph_broken and not isinstance(source, InTable):
        return unknown(variables, quantifier.span)
    if environment.rows == 0:
        if isinstance(source, InTable):
            message, advice = "the sheet has no rows", "add rows to the sheet, or name another one"
        else:
            wrong = {Pattern: "pattern", InClass: "class", InQuery: "query"}[type(source)]
            message = "nothing in the graph fits this quantifier"
            advice = f"load the graph that has the facts, or correct the {wrong}"
        sources.problems.warning(
            "FKG173",
            source.path.span if isinstance(source, InTable) else source.span,
            f"{message}: the {statement} applies to nothing",
            advice,
        )
        return unknown(variables, quantifier.span)
    return _told_apart(environment, sources).distinct()


def _told_apart(environment: Environment, sources: Sources) -> Environment:
    """The environment with names that tell the entities of each variable apart."""
    graph = sources.graph
    if graph is None:
        return environment
    cells = dict(environment.cells)
    for name, column in cells.items():
        # the text of `?unit` is a unit
        iris = {cell.iri for cell in column if cell is not None and cell.iri}
        if len(iris) > 1 and name.casefold() != "unit":
            names = graph.names_of(iris)
            cells[name] = tuple(
                cell if cell is None or not cell.iri else cell._replace(text=names[cell.iri])
                for cell in column
            )
    return replace(environment, cells=cells)


def _pattern(source: Pattern, variables: list[str], sources: Sources) -> Environment | None:
    if sources.graph is None:
        return None
    rows, problems = sources.graph.select(source.text, variables, span=source.span)
    said = fresh(problems, sources)
    sources.problems.add(said)
    if any(problem.severity == "error" for problem in problems) or (not rows and _unheard_of(said)):
        return None
    return of_solutions(rows, variables, source.span, sources)


def of_solutions(
    rows: Sequence[tuple[RdfTerm | None, ...]],
    variables: Sequence[str],
    span: Span,
    sources: Sources,
) -> Environment:
    """The environment of rows that the graph gave for some variables."""
    of_terms: dict[RdfTerm | None, Cell | None] = {
        term: None if term is None else _new_cell(term, sources)
        for term in dict.fromkeys([term for row in rows for term in row])
    }
    cells = [tuple([of_terms[term] for term in row]) for row in rows]
    columns = {name: in_one_unit([row[i] for row in cells]) for i, name in enumerate(variables)}
    return Environment(rows=len(rows), cells=columns, span=span, where=partial(_describe, cells))


def query_environment(
    path: Word, variables: Sequence[Word], sources: Sources, sheets: Sheets
) -> Environment | None:
    """The solutions of the SELECT in a query file; None, with a problem, where there are none to be
    had.
    """
    place = sources.names.folders.get(path.span.file, Path()) / path.text
    try:
        body = read_bytes(place, name="rules")
        text = body.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        advice = "check the path, which is relative to the folder of the rule file"
        if isinstance(error, UnicodeDecodeError):
            reason = f"it is not UTF-8 text, the byte at position {error.start} is not valid"
            advice = "save it as UTF-8"
        sources.problems.error(
            "FKG283", path.span, f'the query "{path.text}" cannot be read: {reason}', advice
        )
        return None
    sheets.sources[place.resolve()] = Source(
        name=place.name, kind="query", sha256=hashlib.sha256(body).hexdigest()
    )
    if sources.graph is None:
        return None
    rows, problems = sources.graph.select_file(
        text, str(place), [(word.text, word.span) for word in variables]
    )
    sources.problems.add(problems)
    if any(problem.severity == "error" for problem in problems):
        return None
    return of_solutions(rows, [word.text for word in variables], path.span, sources)


def in_one_unit(cells: Sequence[Cell | None]) -> tuple[Cell | None, ...]:
    """Quantities of one kind, all in the unit of the first: a limit of 3.5 kW among others in W is
    3500 W.
    """
    first: dict[Dimension, Unit] = {}
    done: dict[Cell, Cell] = {}
    if not any(cell is not None and cell.unit for cell in cells):
        return tuple(cells)
    for cell in cells:
        if cell is None or not cell.unit or cell.number is None or cell in done:
            continue
        unit = parse_unit(cell.unit)
        if isinstance(unit, UnitProblem) or unit.affine:
            continue
        known = first.setdefault(unit.dimension, unit)
        done[cell] = cell._replace(number=conversion(unit, known).one(cell.number), unit=known.text)
    return tuple(cell if cell is None else done.get(cell, cell) for cell in cells)


def _describe(cells: list[tuple[Cell | None, ...]], row: int) -> str:
    shown = ", ".join(cell.text for cell in cells[row] if cell is not None)
    return f"the solution {shown}" if shown else f"solution {row + 1}"


def term_cell(term: RdfTerm, sources: Sources, known: dict[RdfTerm, Cell]) -> Cell:
    """A value of the graph as a value of the quantifier; `known` keeps those that were seen."""
    if term not in known:
        known[term] = _new_cell(term, sources)
    return known[term]


def _new_cell(term: RdfTerm, sources: Sources) -> Cell:
    match term:
        case Iri(value):
            return entity_cell(value, sources)
        case Quantity(number, unit):
            return Cell(text=f"{number:g} {unit}", number=number, unit=unit)
        case Literal(value, lexical, datatype):
            return Cell(
                text=LiteralText(lexical, datatype),
                number=None if isinstance(value, str) else float(value),
                category=lexical,
            )


def entity_cell(iri: str, sources: Sources) -> Cell:
    """An entity as a value of the quantifier, with its name for people and its key."""
    graph = sources.graph
    label = local_name(iri) if graph is None else graph.label_of(iri)
    key = None if graph is None or iri.startswith("_:") else graph.key_of(iri)
    return Cell(text=label, iri=iri, category=key[1] if key else label, key=key)


def _class(
    source: InClass, quantifier: Quantifier, variables: list[str], sources: Sources
) -> Environment | None:
    if len(variables) > 1:
        sources.problems.error(
            "FKG176",
            quantifier.variables[1].span,
            "`in class` takes one variable, for the members of the class",
            "for more variables, write a pattern: for ?x, ?y where { ?x a ... ; ... ?y }",
        )
        return None
    if sources.graph is None:
        return None
    iri, problems = sources.graph.resolve(source.term.text, source.term.form, source.term.span)
    said = fresh(problems, sources)
    sources.problems.add(said)
    if iri is None:
        return None
    if iri == sources.names.rows_class:
        return Environment(
            rows=1, cells={variables[0]: (Cell(text="", row=True),)}, span=source.span
        )
    cells = tuple(entity_cell(member, sources) for member in sources.graph.instances(iri))
    if not cells and (_unheard_of(said) or _is_no_class(iri, source, sources)):
        return None
    return Environment(
        rows=len(cells),
        cells={variables[0]: cells},
        span=source.span,
        where=partial(_describe, [(cell,) for cell in cells]),
    )


def _unheard_of(said: Sequence[Diagnostic]) -> bool:
    """Whether the graph knows nothing of a term, which explains that nothing fits."""
    return any(item.code == "FKG112" for item in said)


def _is_no_class(iri: str, source: InClass, sources: Sources) -> bool:
    """Report a term after `in class` that is not a class; return whether it is one of these."""
    if sources.graph is None or iri.startswith("_:"):
        return False
    classes = f"ASK {{ VALUES ?c {{ <{RDFS}Class> <{OWL}Class> }} <{iri}> a ?c }}"
    if sources.graph.is_true(classes):
        return False  # a class may be something else besides: a shape, a member of a metaclass
    written = source.term.text
    for pattern, what, advice in (
        (
            f"?a <{iri}> ?b",
            "a property",
            f"ask for what has it: for ?x, ?y where {{ ?x {written} ?y }}",
        ),
        (f"<{iri}> a ?b . FILTER(isIRI(?b))", "one thing", "name the class that it is in"),
    ):
        if sources.graph.is_true(f"ASK {{ {pattern} }}"):
            sources.problems.error(
                "FKG176", source.term.span, f"`{written}` is {what}, not a class", advice
            )
            return True
    return False


def fresh(diagnostics: tuple[Diagnostic, ...], sources: Sources) -> list[Diagnostic]:
    """What the graph complains of, without what merely follows from a `use` or `prefix` that is
    wrong itself.
    """
    return [item for item in diagnostics if not _follows(item, sources)]


def _follows(item: Diagnostic, sources: Sources) -> bool:
    if not item.code.startswith("FKG1"):
        return False
    prefix, colon, _ = sources.written(item.span).partition(":")
    if colon and prefix in sources.names.broken_prefixes:
        return True
    return sources.names.graph_broken and item.code in FOLLOWS_USE


FOLLOWS_USE = ("FKG110", "FKG111", "FKG112", "FKG113")
"""What the graph says of names that an ontology which could not be loaded may have had."""


def note_unused(
    quantifier: Quantifier,
    environment: Environment,
    used: set[str],
    problems: Problems,
    statement: str = "rule",
) -> None:
    """Tell of variables on which nothing depends: the statement does not read them, and they select
    no table rows.

    Args:
        statement: what kind of statement the quantifier belongs to, for messages.
    """
    for word in quantifier.variables:
        selects = any(
            cell is not None and cell.key is not None
            for cell in environment.cells.get(word.text, ())
        )
        if (
            word.text not in used
            and not selects
            and word.text.casefold() != "unit"
            and environment.known
        ):
            message = f"?{word.text} is not used in the {statement}"
            if statement == "rule":
                message = (
                    f"?{word.text} is not used in the condition of the rule; the rule only gets one"
                    " bound row for each value"
                )
            problems.info(
                "FKG233",
                word.span,
                message,
                f"use it in the {statement}, or remove it from the quantifier",
            )
