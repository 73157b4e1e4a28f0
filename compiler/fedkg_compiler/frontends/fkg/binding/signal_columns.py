"""Looks up every name of a formula once, for all rows of the quantifier: finds the table column of
a signal from its clause, from the graph, or by its own name, and of a family entity by entity.

A `Reading` is what a name in a formula reads for each row of the quantifier: the table column, its
unit and the table rows it is about. A property of the graph is observed, so that it is read from
the table and not known when rules are compiled, if a signal or output is declared with it
(``signal torque(?m) is plant:torque``), or if the graph gives it, or a sensor of it, a column
(`fkg:column`). Shapes and queries are split along this line.

Letter: R rows of the environment.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from fedkg._internal.name_matching import did_you_mean
from fedkg._internal.safe_text import list_first
from fedkg.units.text import UnitProblem, parse_unit
from fedkg.units.unit import Unit, conversion, same_dimension, same_scale
from fedkg_compiler.diagnostics.record import Related, Span
from fedkg_compiler.frontends.fkg.binding.functions import FUNCTIONS
from fedkg_compiler.frontends.fkg.binding.scope import (
    NOWHERE,
    Cell,
    DeclaredSignal,
    Environment,
    Place,
    Reading,
    Readings,
    Sources,
    in_which_unit,
)
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Aggregate,
    Apply,
    Condition,
    Expression,
    Head,
    InClass,
    IsClass,
    Monotone,
    OverMembers,
    Pattern,
    Reference,
    Tree,
    Variable,
    Word,
)
from fedkg_compiler.graph.rdf_terms import ColumnFact, local_name
from fedkg_compiler.graph.sparql_syntax.tokens import tokens
from fedkg_compiler.ir import BookColumn, ColumnType, quoted

if TYPE_CHECKING:
    from fedkg_compiler.graph.graph import Graph

_IRI = re.compile(r"[A-Za-z][\w+.-]*:[^\s]+")


def strange_unit(
    problem: UnitProblem, text: str, given: str, graph: Graph | None
) -> tuple[str, str]:
    """Message and help for the unit `text`; `given` says who gives it: ``?limit comes in``, ``the
    graph gives ... the unit``.
    """
    if _IRI.fullmatch(text):
        near = None if graph is None else graph.nearest_unit(text)
        advice = (
            f"did you mean {near}?"
            if near
            else 'give the unit an `fkg:unitText` in the graph, as rule files write it: "N.m"'
        )
        return f"{given} <{text}>, and fedkg knows no unit with that IRI", advice
    advice = problem.advice or "docs/reference/units.md lists the units"
    return f"{given} `{text}`, which {problem.reason}", advice


Key = tuple[str, str]
VALUE = "value"
"""``value(?x)``: the column that a text names, or that of a sensor; ``value(?property, ?x)``: that
of an entity's property.
"""

PROBABILITY = "probability"
"""``probability(grade, A, B)``: how likely a label is one of the classes."""

OTHER_NAMES = {
    "maximum": "max",
    "minimum": "min",
    "ln": "log",
    "absolute": "abs",
    "root": "sqrt",
    "pow": "^",
    "power": "^",
    "ceiling": "ceil",
}
"""What functions are called elsewhere."""


Over = Aggregate | OverMembers
"""What ranges over members."""

ENDLESS = frozenset({"inf", "infinity", "nan"})
"""Numbers elsewhere that limit nothing."""


def look_up(
    formula: Condition | Expression, environment: Environment, sources: Sources
) -> Readings:
    """Return the readings of all names in a formula; report each problem at the first use."""
    found: dict[Key, Reading | None] = {}
    headers: dict[str, str] = {}
    for node in names_in(formula):
        match node:
            case Reference(name="pi", quoted=False) if "pi" not in sources.names.signals:
                pass  # the number
            case Reference():
                _enter(found, (node.name, ""), _plain(node, sources), environment)
            case Apply():
                _apply(node, environment, sources, found)
            case Monotone(feature=Head() as feature):
                if feature.variable is None:
                    reference = Reference(
                        span=feature.name.span, name=feature.name.text, quoted=feature.quoted
                    )
                    _enter(found, (reference.name, ""), _plain(reference, sources), environment)
                else:
                    arg = Variable(span=feature.variable.span, name=feature.variable.text)
                    _apply(
                        Apply(span=feature.span, name=feature.name, args=(arg,)),
                        environment,
                        sources,
                        found,
                    )
            case _:
                pass
        if (
            isinstance(node, Monotone)
            and node.group is not None
            and (header := _group_header(node.group, sources)) is not None
        ):
            headers[node.group.text] = header
    return Readings(found=found, headers=headers)


def _group_header(group: Word, sources: Sources) -> str | None:
    """Return the header of the column after `per`: that of a signal or label, else the word."""
    names, name = sources.names, group.text
    if name in names.labels:
        return names.labels[name].column
    if name not in names.signals:
        return None if name in names.broken else name
    place = _plain(Reference(span=group.span, name=name), sources)
    return (
        None
        if place is None or place.places[0].column < 0
        else sources.book.columns[place.places[0].column].source
    )


def trees_in(node: Tree) -> list[Tree]:
    """The node and every node inside it, those inside aggregates too."""
    found = [node]
    for part in node.parts():
        found += trees_in(part)
    return found


def names_in(tree: Tree) -> list[Tree]:
    """Yield the nodes of a formula, except those with a separate scope of names.

    These are aggregates, conditions over members and probabilities.
    """
    found = [tree]
    if not isinstance(tree, Over) and not is_probability(tree):
        for part in tree.parts():
            found += names_in(part)
    return found


def _enter(
    found: dict[Key, Reading | None], key: Key, reading: Reading | None, environment: Environment
) -> None:
    if key not in found:
        found[key] = None if reading is None else reading.take([0] * environment.rows)


def _plain(node: Reference, sources: Sources) -> Reading | None:
    """The reading, of one row, of a name without entities."""
    names, name = sources.names, node.name
    signal = names.signals.get(name) or (names.by_header(name) if node.quoted else None)
    if signal is not None:
        if signal.family:
            sources.problems.error(
                "FKG206",
                node.span,
                f"`{name}` is declared for each ?{signal.family}",
                f"write {name}(?{signal.family})",
                _declared(signal),
            )
            return None
        return Reading(name=name, places=(plain_place(signal, sources, node.span),))
    if name in names.broken or name in names.labels:
        return None
    if node.quoted or names.open:
        return Reading(name=name, places=(header_place(name, sources, node.span),))
    if not sources.problems.fresh(f"undeclared {name}", node.span):
        return None
    if name.casefold() in ENDLESS:
        sources.problems.error(
            "FKG200",
            node.span,
            f"`{name}` is not a known number",
            "leave out the side of the comparison that sets no limit",
        )
        return None
    header = f", or write the header of its column as it is: `` `{name}` ``"
    near = did_you_mean(name, names.known_names())
    if (root := name.rstrip("²³")) in names.signals and root != name:
        near = f"a power is written ^: {root} ^ {'2' if name.endswith('²') else '3'}"
    if not near and name.casefold() in ("true", "false", "on", "off", "yes", "no"):
        near = f"write a truth value after `is`: valve is {name}"
    sources.problems.error(
        "FKG200",
        node.span,
        f"`{name}` is not declared",
        near or f"declare it: signal {name} in ...{header}",
    )
    return None


def _apply(
    node: Apply, environment: Environment, sources: Sources, found: dict[Key, Reading | None]
) -> None:
    name, names = node.name.text, sources.names
    signal = names.signals.get(name)
    if (signal is None and name in FUNCTIONS) or is_probability(node):
        return
    if signal is None and name != VALUE:
        if name not in names.broken:
            _unknown_function(node, sources)
        return
    if signal is not None and not signal.family:
        advice = f"write {name} alone, or declare it for each: signal {name}(?x) ..."
        sources.problems.error(
            "FKG206", node.span, f"`{name}` is declared without entities", advice, _declared(signal)
        )
        return
    variables = (
        None if node.named or (signal is not None and len(node.args) > 1) else variables_of(node)
    )
    if variables is None:
        example, takes = f"{name}(?{signal.family if signal else 'tag'})", "one variable"
        if signal is None:
            example, takes = f"{example}, or {VALUE}(?property, ?entity)", "one or two variables"
        sources.problems.error(
            "FKG205",
            node.span,
            f"`{name}` takes {takes} of the quantifier",
            f"write {example}, with variables that the rule binds: for ?x in class ..., or"
            " for ?x where { ... }",
        )
        return
    key = name, variables
    if key in found:
        return
    found[key] = None
    for arg in node.args:
        if isinstance(arg, Variable) and arg.name not in environment.cells:
            near = did_you_mean(arg.name, environment.cells)
            advice = (
                near.replace("`", "`?", 1) if near else f"bind it: for ?{arg.name} where {{ ... }}"
            )
            sources.problems.error(
                "FKG201", arg.span, f"no quantifier of this rule binds ?{arg.name}", advice
            )
            return
    if environment.known:
        found[key] = _of_each(signal, variables.split(), node.span, environment, sources)


def variables_of(node: Apply) -> str | None:
    """The variables of ``signal(?x)`` or ``value(?property, ?x)``, as readings are found by them;
    None where they are something else.
    """
    names = [arg.name for arg in node.args if isinstance(arg, Variable)]
    most = 2 if node.name.text == VALUE else 1
    return " ".join(names) if len(names) == len(node.args) and 0 < len(names) <= most else None


def _of_each(
    signal: DeclaredSignal | None,
    variables: list[str],
    span: Span,
    environment: Environment,
    sources: Sources,
) -> Reading:
    cells = environment.cells[variables[0]]
    if signal is not None:
        return Reading(name=signal.name, places=family_places(signal, cells, sources, span))
    units = environment.units
    if "unit" in environment.cells:
        units = tuple("" if cell is None else cell.text for cell in environment.cells["unit"])
    owners = environment.cells[variables[1]] if len(variables) > 1 else None
    return Reading(name=VALUE, places=value_places(cells, owners, units, sources, span))


def _unknown_function(node: Apply, sources: Sources) -> None:
    name = node.name.text
    if name in sources.names.labels:
        sources.problems.error(
            "FKG206", node.span, f"`{name}` is a label: it has no entities", f"write {name} is ..."
        )
        return
    families = [signal.name for signal in sources.names.signals.values() if signal.family]
    known = [*FUNCTIONS, *families, VALUE]
    if name in sources.names.templates:
        sources.problems.error(
            "FKG271",
            node.name.span,
            f"`{name}` is a template, that is a condition, not a number",
            f"write follows {name}(...), without a comparison",
        )
        return
    if name in OTHER_NAMES:
        sources.problems.error(
            "FKG202",
            node.name.span,
            f"`{name}` is not a function of the language",
            f"did you mean `{OTHER_NAMES[name]}`?",
        )
        return
    advice = did_you_mean(
        name,
        known,
        f"functions are {', '.join(FUNCTIONS)}; a signal of each entity is declared: signal"
        f" {name}(?x) ...",
    )
    sources.problems.error(
        "FKG202", node.name.span, f"`{name}` is neither a function nor a declared signal", advice
    )


def _declared(signal: DeclaredSignal) -> tuple[Related, ...]:
    return (Related(span=signal.place, message="declared here"),)


def is_probability(tree: Tree) -> bool:
    """Whether this is ``probability(label, A, B)``, rather than a signal of that name."""
    return (
        isinstance(tree, Apply)
        and tree.name.text == PROBABILITY
        and bool(tree.args)
        and isinstance(tree.args[0], Reference)
    )


def body_of(node: Over) -> Condition | Expression:
    """What is asked of, or taken from, each member."""
    return node.body if isinstance(node, Aggregate) else node.arg


def pattern_variables(source: Pattern | InClass) -> set[str]:
    """The variables that a pattern mentions."""
    return (
        {token.text for token in tokens(source.text) if token.kind == "variable"}
        if isinstance(source, Pattern)
        else set()
    )


def variables_in(formula: Condition | Expression) -> tuple[set[str], set[str]]:
    """Return the variables that a formula reads as numbers, and all variables that it uses."""
    numbers: set[str] = set()
    texts: set[str] = set()
    arguments: set[int] = set()
    for node in names_in(formula):
        match node:
            case Apply() if node.name.text not in FUNCTIONS:
                for arg in node.args:
                    if isinstance(arg, Variable):
                        arguments.add(id(arg))
                        texts.add(arg.name)
            case Variable():
                if id(node) not in arguments:
                    numbers.add(node.name)
            case Monotone(feature=Head(variable=word)) if word is not None:
                texts.add(word.text)
            case IsClass(form="variable"):
                texts.add(node.value.text)
            case Aggregate() | OverMembers():
                inner, used = variables_in(body_of(node))
                numbers |= inner - {node.variable.text}
                texts |= (used | pattern_variables(node.source)) - {node.variable.text}
            case _:
                pass
    return numbers, numbers | texts


def columns_of(sources: Sources, property_iri: str, entity: str | None) -> tuple[ColumnFact, ...]:
    """The places of the observations of a property in the graph, found out once."""
    key = property_iri, entity or ""
    if key not in sources.facts:
        sources.facts[key] = (
            () if sources.graph is None else tuple(sources.graph.columns_of(property_iri, entity))
        )
    return sources.facts[key]


def _common_columns(sources: Sources, property_iri: str) -> frozenset[str]:
    """The columns that the sensors of several entities share, found out once."""
    if property_iri not in sources.common:
        sharing: dict[str, set[str]] = {}
        for fact in columns_of(sources, property_iri, None):
            sharing.setdefault(fact.column, set()).add(fact.entity or "")
        sources.common[property_iri] = frozenset(
            column for column, entities in sharing.items() if len(entities) > 1
        )
    return sources.common[property_iri]


def plain_place(signal: DeclaredSignal, sources: Sources, span: Span) -> Place:
    """The place of a signal without entities."""
    headers = plain_headers(signal, sources)
    if len(headers) > 1:
        shown = ", ".join(sorted({f"`{header}`" for header, _ in headers})[:4])
        sources.problems.error(
            "FKG207",
            span,
            f"`{signal.name}` has several columns in the graph: {shown}",
            f"declare it for each entity, `signal {signal.name}(?x) is ...`, or name one: `column"
            ' "..."`',
            (Related(span=signal.place, message="declared here"),),
        )
        return NOWHERE
    header, unit = next(iter(headers), (signal.name, None))
    return _enter_column(signal, signal.name, header, unit, sources, span)


def plain_headers(signal: DeclaredSignal, sources: Sources) -> set[tuple[str, str | None]]:
    """The headers of a signal without entities, with the units that the graph gives them; none if
    neither the declaration nor the graph names one.
    """
    if signal.column is not None or signal.property is None:
        return {(signal.column or signal.name, None)}
    facts = columns_of(sources, signal.property, None)
    shared = {(fact.column, fact.unit) for fact in facts if fact.entity is None}
    return shared or {(fact.column, fact.unit) for fact in facts}


def header_place(header: str, sources: Sources, span: Span) -> Place:
    """Return the place of a table header, with the unit of a signal that reads it, if any."""
    for signal in sources.names.signals.values():
        place = _of_signal(signal, header, sources, span)
        if place is not None:
            return place
    column = sources.book.column(BookColumn(name=header, source=header, declared=False))
    sources.book.tell_by_header(column, span)
    unit = sources.book.compared_unit(column)
    return Place(column=column, stored=unit, rule_unit=unit)


def declared_place(header: str, sources: Sources, span: Span) -> Place | None:
    """The place of a header that a declared signal reads: as that signal, with its unit, span and
    role; None where none does.
    """
    if not sources.headers:
        for signal in sources.names.signals.values():
            if signal.column is not None or (signal.property is None and not signal.family):
                sources.headers.setdefault(
                    signal.column or signal.name, (signal, signal.name, None)
                )
            for fact in (
                columns_of(sources, signal.property, None)
                if signal.column is None and signal.property is not None
                else ()
            ):
                family = bool(signal.family) and fact.entity is not None
                name = (
                    _column_name(signal, fact.column, fact.entity or "", sources)[0]
                    if family
                    else signal.name
                )
                sources.headers.setdefault(fact.column, (signal, name, fact.unit))
    found = sources.headers.get(header)
    return (
        None
        if found is None
        else _enter_column(found[0], found[1], header, found[2], sources, span)
    )


def _of_signal(signal: DeclaredSignal, header: str, sources: Sources, span: Span) -> Place | None:
    if signal.column is not None:
        return (
            _enter_column(signal, signal.name, header, None, sources, span)
            if signal.column == header
            else None
        )
    facts = (
        []
        if signal.property is None
        else [fact for fact in columns_of(sources, signal.property, None) if fact.column == header]
    )
    if not facts:
        return None
    entity = next((fact.entity for fact in facts if fact.entity is not None), None)
    name = (
        _column_name(signal, header, entity, sources)[0]
        if signal.family and entity is not None
        else signal.name
    )
    return _enter_column(signal, name, header, facts[0].unit, sources, span)


def family_places(
    signal: DeclaredSignal, cells: Sequence[Cell | None], sources: Sources, span: Span
) -> tuple[Place, ...]:
    """The places of ``signal(?x)`` for the values of ``?x``; one diagnostic reports all entities
    without a column.
    """
    known: dict[str, Place] = {}
    without: list[str] = []
    places = []

    @cache
    def placed(name: str, header: str, unit: str | None) -> Place:
        return _enter_column(signal, name, header, unit, sources, span)

    for cell in cells:
        if cell is None:
            places.append(NOWHERE)
            continue
        entity = "" if cell.row else cell.iri
        if entity not in known:
            known[entity] = (
                _row_place(signal, sources, span)
                if cell.row
                else _entity_place(signal, cell, sources, span, without, placed)
            )
        places.append(known[entity])
    if without:
        more = f" and {len(without) - 1} more" if len(without) > 1 else ""
        sources.problems.error(
            "FKG207",
            span,
            f"`{signal.name}` has no column for {without[0]}{more}",
            _help_without_column(signal, sources),
            (Related(span=signal.place, message="declared here"),),
        )
    _tell_whose(signal, known, sources, span)
    return tuple(places)


def _help_without_column(signal: DeclaredSignal, sources: Sources) -> str:
    """What to do where an entity has no column; a frequent mistake is a class after `is`."""
    if signal.property and sources.graph is not None and sources.graph.instances(signal.property):
        return (
            f"{local_name(signal.property)} is a class: write the observed property after `is`,"
            " which says what a sensor measures"
        )
    rows = "tell which table rows are about the entity with `fkg:keyColumn` (and `fkg:keyValue`)"
    if not signal.property:
        return f"{rows}, or name what its sensor observes: signal {signal.name}(?x) is PROPERTY"
    return f"give the entity's sensor an `fkg:column`, or {rows}"


def _tell_whose(
    signal: DeclaredSignal, known: Mapping[str, Place], sources: Sources, span: Span
) -> None:
    """Report a column that sensors of several entities share without a key for its rows."""
    sharing: dict[int, list[str]] = {}
    for entity, place in known.items():
        if entity and place.column >= 0 and place.key is None:
            sharing.setdefault(place.column, []).append(entity)
    for column, entities in sharing.items():
        header = sources.book.columns[column].source
        facts = [
            fact
            for entity in entities
            for fact in columns_of(sources, signal.property or "", entity)
        ]
        if len({fact.sensor for fact in facts if fact.column == header}) > 1:
            sources.problems.error(
                "FKG207",
                span,
                f"`{signal.name}` of {local_name(entities[0])} and of {local_name(entities[1])}"
                f" share one column, `{header}`",
                "tell which table rows are about each of them with `fkg:keyColumn` (and"
                " `fkg:keyValue`)",
                (Related(span=signal.place, message="declared here"),),
            )


def _row_place(signal: DeclaredSignal, sources: Sources, span: Span) -> Place:
    return plain_place(replace(signal, family=""), sources, span)


def _entity_place(
    signal: DeclaredSignal,
    cell: Cell,
    sources: Sources,
    span: Span,
    without: list[str],
    placed: Callable[[str, str, str | None], Place],
) -> Place:
    """The place of one entity; `placed` enters a column of a name, header and unit into the book,
    each once for all entities.
    """
    if not cell.iri:
        sources.problems.error(
            "FKG208",
            span,
            f'"{cell.text}" is a {"text" if cell.number is None else "number"}, but'
            f" `{signal.name}` is indexed by entities of the graph",
            f"write value(...) in place of {signal.name}(...), with the same variable, if it names"
            " a column of the table",
        )
        return NOWHERE
    facts = () if signal.property is None else columns_of(sources, signal.property, cell.iri)
    own = [fact for fact in facts if fact.entity == cell.iri]
    key = None if sources.graph is None else sources.graph.key_of(cell.iri)
    if len({fact.column for fact in own}) > 1:
        shown = ", ".join(dict.fromkeys(f"`{fact.column}`" for fact in own))
        sources.problems.error(
            "FKG207",
            span,
            f"`{signal.name}` of {cell.text} has several columns: {shown}",
            "keep one column for it in the graph, or select a sensor by a pattern and write"
            " value(?sensor)",
        )
        return NOWHERE
    if own:
        name, common = _column_name(signal, own[0].column, cell.iri, sources)
        return placed(name, own[0].column, own[0].unit)._replace(key=key if common else None)
    shared = [fact for fact in facts if fact.entity is None]
    header = signal.column or (
        shared[0].column if shared else None if signal.property else signal.name
    )
    if header is None or key is None:
        without.append(cell.text)
        return NOWHERE
    unit = shared[0].unit if shared and signal.column is None else None
    return placed(signal.name, header, unit)._replace(key=key)


def _column_name(
    signal: DeclaredSignal, header: str, entity: str, sources: Sources
) -> tuple[str, bool]:
    """``temperature[zone_7]`` for a column of one entity; ``torque`` for one that sensors of
    several entities share, with selected rows.
    """
    common = _common_columns(sources, signal.property or "")
    if header in common or header == signal.column:
        return (signal.name if len(common) <= 1 else f"{signal.name}[{header}]"), True
    return f"{signal.name}[{local_name(entity)}]", False


def _enter_column(
    signal: DeclaredSignal,
    name: str,
    header: str,
    unit_text: str | None,
    sources: Sources,
    span: Span,
) -> Place:
    """Enter the column of a declared signal into the book; the graph's unit is that of the table,
    the declared one that of the rules.
    """
    stored: Unit | None = signal.unit
    if unit_text is not None:
        found = parse_unit(unit_text)
        if isinstance(found, UnitProblem):
            given = f"the graph gives the column `{header}` of `{signal.name}` the unit"
            sources.problems.error(
                "FKG211", signal.place, *strange_unit(found, unit_text, given, sources.graph)
            )
            return NOWHERE
        if signal.unit is not None and not same_dimension(found, signal.unit):
            sources.problems.error(
                "FKG213",
                signal.place,
                f"`{signal.name}` is declared {in_which_unit(signal.unit)}, but the graph has its"
                f" column in `{unit_text}`",
                "correct the declaration or the graph",
            )
            return NOWHERE
        stored = found
    bounds = signal.span
    if bounds is not None and stored is not None and signal.unit is not None:
        change = conversion(signal.unit, stored)
        bounds = change.one(bounds[0]), change.one(bounds[1])
        bounds = bounds if all(map(math.isfinite, bounds)) else None
    kind: ColumnType = "boolean" if signal.boolean else "real"
    column = sources.book.column(
        BookColumn(name=name, source=header, type=kind, role=signal.role, unit=stored, span=bounds)
    )
    if stored is None:
        sources.book.tell_by_header(column, span)
        stored = sources.book.compared_unit(column)
    return Place(column=column, role=signal.role, stored=stored, rule_unit=signal.unit or stored)


def signal_of(property_iri: str, sources: Sources, span: Span) -> DeclaredSignal | None:
    """The signal that reads a property: the declared one, else one made up from the graph's
    columns; None for a static property.
    """
    for signal in sources.names.signals.values():
        if signal.property == property_iri:
            return signal
    if all(fact.is_stored for fact in columns_of(sources, property_iri, None)):
        return None
    return DeclaredSignal(
        name=local_name(property_iri),
        role="input",
        family="focus",
        property=property_iri,
        unit=None,
        span=None,
        column=None,
        place=span,
    )


def observed_place(property_iri: str, focus: Cell, sources: Sources, span: Span) -> Place | None:
    """Where the table has the property's value for an entity, or with `focus.row` for each table
    row; None for a static property.

    A place with column -1 (`NOWHERE`): the property is observed, but nothing tells where for this
    entity, which has been said.
    """
    signal = signal_of(property_iri, sources, span)
    return None if signal is None else family_places(signal, [focus], sources, span)[0]


SHOWN = 3
"""Maximum number of entities without a column that a message names."""


def value_places(
    cells: Sequence[Cell | None],
    owners: Sequence[Cell | None] | None,
    units: Sequence[str],
    sources: Sources,
    span: Span,
) -> tuple[Place, ...]:
    """The places of ``value(?x)`` or ``value(?x, ?owner)``, for each of R rows.

    A text is the header of a column. A sensor has the column that it or what it observes is given
    in the graph (`fkg:column`), a property
    its column; with an owner, the column of the observed property of this entity, and its rows.

    Args:
        units: [R], of the columns that texts name, from the sheet; or empty.
    """
    found: dict[tuple[str, str], Place] = {}
    without: list[str] = []
    places = []
    for i, cell in enumerate(cells):
        owner = owners[i] if owners is not None else None
        if cell is None or (owners is not None and owner is None):
            places.append(NOWHERE)
        elif not cell.iri:
            place = _text_place(cell, units[i] if units else "", sources, span)
            places.append(
                place
                if owner is None or place.column < 0
                else place._replace(key=owner.key, shared=owner.key is None)
            )
        else:
            key = cell.iri, owner.iri if owner is not None else ""
            if key not in found:
                found[key] = _sensor_or_property_place(cell, owner, sources, span, without)
            places.append(found[key])
    if without:
        _tell_without(without, len(found), sources, span)
    return tuple(places)


def _tell_without(without: Sequence[str], all_of_them: int, sources: Sources, span: Span) -> None:
    """Say which entities have no column: nothing can be checked there.

    In the rule library it is to be expected.
    """
    message = f"no column for {list_first(without, SHOWN)}: left out there"
    advice = (
        "give the sensor or the property an `fkg:column`; where entities share it, tell their table"
        " rows apart with `fkg:keyColumn`"
    )
    if span.file in sources.names.library:
        sources.problems.info("FKG542", span, message, advice)
    elif len(without) == all_of_them:
        sources.problems.error("FKG542", span, message.removesuffix(": left out there"), advice)
    else:
        sources.problems.warning("FKG542", span, message, advice)


def _sensor_or_property_place(
    cell: Cell, owner: Cell | None, sources: Sources, span: Span, without: list[str]
) -> Place:
    shown = cell.text if owner is None else f"{cell.text} of {owner.text}"
    facts = _facts(cell.iri, owner, sources)
    if len(facts) > 1:
        facts = [fact for fact in facts if fact.entity is not None] or facts
    columns = {fact.column: fact for fact in reversed(facts)}
    if len(columns) > 1:
        headers = ", ".join(f"`{header}`" for header in sorted(columns)[:4])
        sources.problems.error(
            "FKG207",
            span,
            f"{shown} has several columns: {headers}",
            "write a pattern that selects one sensor",
        )
        return NOWHERE
    if not columns:
        without.append(shown)
        return NOWHERE
    (fact,) = columns.values()
    key: Key | None = None
    if owner is not None and fact.entity is None:
        key = owner.key
    elif (
        fact.entity is not None
        and sources.graph is not None
        and sources.graph.is_shared(fact.column)
    ):
        key = sources.graph.key_of(fact.entity)
    elif fact.entity is not None or owner is None:
        place = _column(fact, shown, sources, span)
        return place._replace(shared=True) if fact.entity is None else place
    if key is None:
        without.append(shown)
        return NOWHERE
    return _column(fact, shown, sources, span)._replace(key=key)


def _facts(iri: str, owner: Cell | None, sources: Sources) -> Sequence[ColumnFact]:
    if sources.graph is None or (owner is not None and not owner.iri):
        return ()
    return sources.graph.column_at(iri) if owner is None else columns_of(sources, iri, owner.iri)


def _column(fact: ColumnFact, shown: str, sources: Sources, span: Span) -> Place:
    """The column of a fact: as a signal declares it, else by its header, in the unit that the graph
    gives.
    """
    place = declared_place(fact.column, sources, span)
    if place is not None:
        return place
    unit: Unit | None = None
    if fact.unit is not None:
        parsed = parse_unit(fact.unit)
        if isinstance(parsed, UnitProblem):
            said = strange_unit(
                parsed,
                fact.unit,
                f"the graph gives the column `{fact.column}` of {shown} the unit",
                sources.graph,
            )
            sources.problems.error("FKG211", span, *said)
            return NOWHERE
        unit = parsed
    column = sources.book.column(BookColumn(name=fact.column, source=fact.column, unit=unit))
    if unit is None:
        sources.book.tell_by_header(column, span)
    stored = sources.book.compared_unit(column)
    return Place(column=column, stored=stored, rule_unit=stored)


def _text_place(cell: Cell, unit: str, sources: Sources, span: Span) -> Place:
    """The column that a text names; `unit` is the sheet's, or ""."""
    place = _tag_place(cell.text, sources, span)
    return (
        _with_sheet_unit(place, unit, cell.text, sources, span)
        if unit and place.column >= 0
        else place
    )


def _tag_place(tag: str, sources: Sources, span: Span) -> Place:
    signal = sources.names.signals.get(tag) or sources.names.by_header(tag)
    return (
        plain_place(signal, sources, span)
        if signal is not None and not signal.family
        else header_place(tag, sources, span)
    )


def _with_sheet_unit(place: Place, text: str, tag: str, sources: Sources, span: Span) -> Place:
    """The place, with the unit of the sheet as the unit of the rule."""
    unit = parse_unit(text)
    if isinstance(unit, UnitProblem):
        sources.problems.error(
            "FKG211",
            span,
            *strange_unit(unit, text, f"the sheet gives `{tag}` the unit", sources.graph),
        )
        return NOWHERE
    if place.stored is None:
        sources.book.tell_by_sheet(place.column, unit, span)
        return place._replace(stored=unit, rule_unit=unit)
    if not same_dimension(place.stored, unit):
        why, hint = "", "correct the unit in the sheet or in the declaration of the signal"
        if sources.book.headed(place.column):
            why, hint = (
                ", as its header says",
                (
                    f"correct the sheet, or declare what the column is in: `signal {quoted(tag)} in"
                    f" {text}`"
                ),
            )
        sources.problems.error(
            "FKG213",
            span,
            f"the sheet gives `{tag}` the unit `{text}`, but it is {in_which_unit(place.stored)}"
            f"{why}",
            hint,
        )
        return NOWHERE
    if sources.book.unit_place(place.column) is not None and not same_scale(place.stored, unit):
        message = (
            f"the sheet gives `{tag}` the unit `{text}`, and other rules read it in"
            f" `{place.stored.text}`; fedkg cannot tell in which of them its column is"
        )
        sources.problems.error(
            "FKG216", span, message, f"declare it: `signal {quoted(tag)} in {place.stored.text}`"
        )
        return NOWHERE
    return place._replace(rule_unit=unit)
