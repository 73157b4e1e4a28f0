"""Looks up every name of a formula once, for all rows of the quantifier."""

from __future__ import annotations

from fedkg._internal.name_matching import did_you_mean
from fedkg_compiler.diagnostics.record import Related, Span
from fedkg_compiler.frontends.fkg.binding.functions import FUNCTIONS
from fedkg_compiler.frontends.fkg.binding.quantifier_values import Environment
from fedkg_compiler.frontends.fkg.binding.signal_columns import (
    Reading,
    Readings,
    Sources,
    family_places,
    header_place,
    plain_place,
)
from fedkg_compiler.frontends.fkg.binding.symbol_table import DeclaredSignal
from fedkg_compiler.frontends.fkg.binding.value_columns import value_places
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
from fedkg_compiler.graph.sparql_syntax.tokens import tokens

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
            "leave out the side of a comparison that does not limit",
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
            f"`{name}` is a template, which is a condition and no number",
            f"write follows {name}(...), alone",
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
