"""Gathers what the statements of all files declare: signals, labels, prefixes, the timeline, the
rules.

A constant is made of numbers, functions and constants that are declared before it. It is replaced
on the syntax tree, so it may stand wherever a number may: in comparisons, tolerances, windows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar, assert_never, cast, get_args

from fedkg._internal.name_matching import Suggestion, did_you_mean, distance, normalise_header
from fedkg.units.header import header_unit
from fedkg.units.text import UnitProblem, known_units, parse_unit
from fedkg.units.unit import NUMBER, Unit, conversion, same_dimension
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.diagnostics.record import Related, Span
from fedkg_compiler.frontends.fkg.binding.functions import FUNCTIONS
from fedkg_compiler.frontends.fkg.binding.scope import (
    DeclaredLabel,
    DeclaredSignal,
    FileRule,
    Names,
)
from fedkg_compiler.frontends.fkg.binding.signal_columns import trees_in
from fedkg_compiler.frontends.fkg.binding.templates import check_templates
from fedkg_compiler.frontends.fkg.syntax.parser import MAX_TERMS
from fedkg_compiler.frontends.fkg.syntax.tree import (
    Apply,
    Arithmetic,
    Cause,
    Constant,
    Example,
    Expression,
    Infer,
    KeepSet,
    Label,
    Load,
    Negative,
    PredictKnowledge,
    Prefix,
    Quantity,
    Raised,
    RangeKnowledge,
    Reference,
    RowsAre,
    Rule,
    RuleFile,
    Signal,
    Statement,
    Template,
    Timeline,
    Tree,
    Use,
    Word,
)
from fedkg_compiler.ir import Timing


def with_constants(
    files: Sequence[RuleFile], names: Names, problems: Problems
) -> Sequence[RuleFile]:
    """The files with each constant replaced by its value; wrong constants are reported."""
    values: dict[str, Expression] = {}
    columns = {
        statement.head.name.text if isinstance(statement, Signal) else statement.name.text
        for file in files
        for statement in file.statements
        if isinstance(statement, Signal | Label)
    }
    for file in files:
        for statement in file.statements:
            if (
                not isinstance(statement, Constant)
                or statement.name.text in columns | values.keys()
            ):
                continue
            value = _value(statement, values, problems)
            if value is None:
                names.broken.add(statement.name.text)
            else:
                values[statement.name.text] = value
    if not values:
        return files
    return [
        replace(file, statements=tuple(_replaced(one, values) for one in file.statements))
        for file in files
    ]


def _value(
    statement: Constant, earlier: Mapping[str, Expression], problems: Problems
) -> Expression | None:
    """The value of a constant without names; None if it is wrong, which is reported."""
    value: Expression = _replaced(statement.value, earlier)
    name = statement.name.text
    parts = trees_in(value)
    for part in parts:
        match part:
            case Quantity() | Negative() | Arithmetic() | Raised() | Word():
                continue
            case Reference(name="pi", quoted=False):
                continue
            case Apply(name=function) if function.text in FUNCTIONS:
                continue
            case Reference(name=other, quoted=False):
                message = f"`{other}` is not a constant that is declared before `{name}`"
                advice = did_you_mean(
                    other, earlier, "use numbers and earlier constants; a rule can read signals"
                )
            case _:
                message = f"the constant `{name}` is not made of numbers alone"
                advice = "use numbers and earlier constants: constant NAME = 2.5 bar"
        problems.error("FKG296", part.span, message, advice)
        return None
    if len(parts) > MAX_TERMS:
        message = (
            f"the constant `{name}` has more than {MAX_TERMS} parts when earlier constants are"
            " written out"
        )
        problems.error("FKG261", statement.value.span, message, "write its value as a number")
        return None
    return value


def _replaced(node: Any, values: Mapping[str, Expression]) -> Any:
    """A node, a tuple of nodes or a plain value (`Any`), with the values of constants in place of
    their names.

    The parameters of a template hide constants with the same name.
    """
    if isinstance(node, tuple):
        return tuple(_replaced(item, values) for item in node)
    if not isinstance(node, Tree):
        return node
    match node:
        case Reference(name=name, quoted=False) if name in values:
            return replace(values[name], span=node.span)
        case Template():
            parameters = {word.text for word in node.parameters}
            values = {name: value for name, value in values.items() if name not in parameters}
        case _:
            pass
    changed = {
        name: _replaced(value, values)
        for name in node.__dataclass_fields__
        if isinstance(value := getattr(node, name), Tree | tuple) and name != "span"
    }
    return replace(node, **changed)


Named = TypeVar("Named", KeepSet, Cause, RangeKnowledge | PredictKnowledge)

BOOLEAN = "boolean"
"""What a signal is in that is true or false."""

Properties = dict[Span, str | None]
"""IRIs of the terms after `is` and `rows are`, by their place; None where the graph does not know
them.
"""


COMMAND_LINE = Span(file="", line=1, column=1, end_line=1, end_column=1)
"""The place of diagnostics about the command line."""

ScopeName = Literal["public", "server", "client"]

Scoped = FileRule | Infer | KeepSet | RangeKnowledge | PredictKnowledge


def gather_uses(files: Sequence[RuleFile], names: Names, problems: Problems) -> None:
    """Enter `use`, `prefix` and everything that did not parse."""
    for file in files:
        for gone in file.lost:
            if gone.word == "use":
                names.graph_broken = True
            elif gone.word == "prefix":
                names.broken_prefixes.update(gone.names)
            elif gone.word == "template":
                names.broken_templates.update(gone.names)
            elif gone.word == "rule":
                names.broken_rules.update(gone.names)
            elif gone.word in ("signal", "output", "label", "constant"):
                names.broken.update(gone.names)
        for statement in file.statements:
            match statement:
                case Use(rules=False):
                    names.uses.append(statement)
                case Prefix():
                    _prefix(statement, names, problems)
                case _:
                    pass


def gather(
    files: Sequence[RuleFile], properties: Properties, names: Names, problems: Problems
) -> None:
    """Enter all other statements, with the values of constants in place of their names."""
    first: dict[str, Statement] = {}
    rules: dict[str, Rule] = {}
    if any(isinstance(one, Constant) for file in files for one in file.statements):
        files = with_constants(files, names, problems)
    for file in files:
        for statement in file.statements:
            match statement:
                case Signal():
                    if _is_new(statement, statement.head.name, first, problems):
                        _signal(statement, properties, names, problems)
                case Label():
                    _label(statement, first, names, problems)
                case Constant():
                    _is_new(statement, statement.name, first, problems)
                case Rule():
                    _rule(statement, file, rules, names, problems)
                case Template():
                    _template(statement, names, problems)
                case Infer():
                    _infer(statement, names, problems)
                case Timeline():
                    _timeline(statement, first, names, problems)
                case RowsAre():
                    if _is_only("the class of the rows", statement, first, problems):
                        names.rows_class = properties.get(statement.term.span)
                case Use() | Prefix():
                    pass
                case Load():
                    names.loads.append(statement)
                case KeepSet():
                    _named_once(statement, names.sets, "sets", problems)
                case Cause():
                    _named_once(statement, names.causes, "causes", problems)
                case RangeKnowledge() | PredictKnowledge():
                    _named_once(statement, names.knowledge, "knowledge models", problems)
                case Example():
                    names.examples.append(statement)
                case _:
                    assert_never(statement)
    _one_unit_each(names, problems)
    _unlike_their_headers(names, problems)
    if names.templates:
        check_templates(names, problems)


def _label(statement: Label, first: dict[str, Statement], names: Names, problems: Problems) -> None:
    name = statement.name.text
    if not statement.classes:
        names.broken.add(name)
        return
    if not _is_new(statement, statement.name, first, problems):
        return
    names.labels[name] = DeclaredLabel(
        name=name,
        classes=tuple(dict.fromkeys(word.text for word in statement.classes)),
        column=statement.column.text if statement.column else name,
        place=statement.name.span,
    )
    if len(statement.classes) == 1:
        problems.error(
            "FKG229",
            statement.name.span,
            f"the label `{name}` has only one class, so there is nothing to predict",
            "name all classes: classes A, B, C",
        )


def _one_unit_each(names: Names, problems: Problems) -> None:
    """Signals that read the same column must agree in its unit: its cells are in one."""
    first: dict[str, tuple[DeclaredSignal, Unit]] = {}
    for signal in names.signals.values():
        header = signal.column or (
            signal.name if signal.property is None and not signal.family else ""
        )
        if not header or signal.unit is None:
            continue
        other, unit = first.setdefault(header, (signal, signal.unit))
        if unit.text == signal.unit.text or (
            same_dimension(unit, signal.unit) and conversion(signal.unit, unit).one(1.0) == 1.0
        ):
            continue
        problems.error(
            "FKG216",
            signal.place,
            f"`{signal.name}` reads the column `{header}` {_in_unit(signal)}, and `{other.name}`"
            f" reads it {_in_unit(other)}",
            "declare the column once, in the unit of its cells; rules convert units",
            (Related(span=other.place, message="declared here"),),
        )


def _unlike_their_headers(names: Names, problems: Problems) -> None:
    """Note each signal with a declared unit that differs from the unit in its column's header.

    The declaration takes precedence.

    Rates in 1/min declared in rpm, and gauge pressures with bar in the header, are common and not
    noted.
    """
    for signal in names.signals.values():
        header = (
            None if signal.column is None or signal.unit is None else header_unit(signal.column)
        )
        if (
            header is None
            or signal.unit is None
            or signal.boolean
            or not same_dimension(header, signal.unit)
        ):
            continue
        factor = conversion(header, signal.unit).one(2.0) - conversion(header, signal.unit).one(1.0)
        scale = {header.text, signal.unit.text} & {
            "K",
            "degC",
            "°C",
            "degF",
            "°F",
        }  # different zero
        if math.isclose(factor, 1.0) and (
            not scale or conversion(header, signal.unit).one(0.0) == 0.0
        ):
            continue
        if math.isclose(factor, math.tau) or math.isclose(factor, 1 / math.tau):
            continue
        problems.warning(
            "FKG242",
            signal.place,
            f"`{signal.name}` is declared {_in_unit(signal)}, but the header of its column says"
            f" {header.text}; fedkg reads its cells {_in_unit(signal)}",
            f"if the header is right, declare the signal `in {header.text}`",
        )


def _in_unit(signal: DeclaredSignal) -> str:
    """``in bar``, ``as true or false``, ``without a unit``: what the cells of a signal contain."""
    if signal.boolean:
        return "as true or false"
    return f"in {signal.unit.text}" if signal.unit and signal.unit.text else "without a unit"


def _prefix(statement: Prefix, names: Names, problems: Problems) -> None:
    known = names.prefixes.setdefault(statement.name.text, statement)
    if known.iri.text != statement.iri.text:
        problems.error(
            "FKG237",
            statement.span,
            f"the prefix `{statement.name.text}:` means <{known.iri.text}> already",
            "choose another prefix for the second namespace",
            (Related(span=known.span, message="declared here"),),
        )


def _is_new(
    statement: Signal | Label | Constant,
    name: Word,
    first: dict[str, Statement],
    problems: Problems,
) -> bool:
    """Return whether the name is free; a second file may repeat the same declaration."""
    known = first.setdefault(name.text, statement)
    if known is statement:
        return True
    if known.span.file == statement.span.file or _bare(known) != _bare(statement):
        where = known.head.name.span if isinstance(known, Signal) else known.span
        problems.error(
            "FKG203",
            name.span,
            f"`{name.text}` is declared twice",
            "keep one of the two",
            (Related(span=where, message="first declared here"),),
        )
    return False


def _bare(node: Any) -> Any:  # Any: a tree as nested tuples, without places
    if isinstance(node, tuple):
        return tuple(_bare(item) for item in node)
    if hasattr(node, "__dataclass_fields__"):
        return type(node).__name__, *(
            _bare(getattr(node, name))
            for name in node.__dataclass_fields__
            if name not in ("span", "text" if isinstance(node, Rule) else "")
        )
    return node


def _signal(statement: Signal, properties: Properties, names: Names, problems: Problems) -> None:
    head = statement.head
    boolean = statement.unit is not None and statement.unit.text == BOOLEAN
    unit = NUMBER if boolean else unit_of(statement.unit, problems)
    if boolean and (statement.role == "output" or statement.bounds is not None):
        _refuse_boolean(statement, problems)
    property_iri = None
    broken = statement.unit is not None and unit is None
    if statement.term is not None:
        property_iri = properties.get(statement.term.span)
        broken = broken or property_iri is None
    if broken:
        names.broken.add(head.name.text)
        return
    bounds = (
        statement.bounds
        if statement.bounds is not None and statement.bounds[0] < statement.bounds[1]
        else None
    )
    names.signals[head.name.text] = DeclaredSignal(
        name=head.name.text,
        role=statement.role,
        family=head.variable.text if head.variable else "",
        property=property_iri,
        unit=unit,
        span=(0.0, 1.0) if boolean else bounds,
        column=statement.column.text if statement.column else None,
        place=head.name.span,
        boolean=boolean,
    )


def _refuse_boolean(statement: Signal, problems: Problems) -> None:
    """Complain of an output that is true or false, which no model predicts, and of a span, which
    goes without saying.
    """
    name, place = (
        statement.head.name.text,
        statement.unit.span if statement.unit is not None else statement.span,
    )
    if statement.role == "output":
        message = (
            f"`{name}` is predicted, and a model predicts how likely something is, not whether"
        )
        problems.error("FKG281", place, message, f"write: output {name} in probability span 0 .. 1")
    else:
        problems.error(
            "FKG281", place, f"`{name}` is true or false, so it needs no span", "remove the span"
        )


def unit_of(word: Word | None, problems: Problems, signals: Container[str] = ()) -> Unit | None:
    """The unit that a word of the rule file names; None, with a problem, where it names none or
    several.

    Args:
        signals: declared names, which are a frequent mistake in place of a unit.
    """
    if word is None:
        return None
    unit = parse_unit(word.text)
    if isinstance(unit, Unit):
        return unit
    if unit.doubtful:
        advice = unit.advice or "write it out"
        problems.error("FKG212", word.span, f"the unit `{unit.text}` {unit.reason}", advice)
    elif word.text in signals:
        advice = f"write the unit of the number, or the missing operator: 80 * {word.text}"
        problems.error("FKG211", word.span, f"`{unit.text}` is a signal, not a unit", advice)
    else:
        advice = (
            "a unit is one word: N.m, kg/h, m3/h, degC, 1/min, %; docs/reference/units.md lists all"
        )
        if unit.instead:
            advice = _spelling(word.text, unit.advice, unit)
        problems.error("FKG211", word.span, f"`{unit.text}` is not a unit", advice)
    return None


def _spelling(written: str, advice: str, unit: UnitProblem) -> str:
    """The advice on a unit, certain where one spelling alone is near; of ``kgg/h`` that is one of
    ``kgg``.
    """
    wrong = re.sub(r"\^?-?\d+\Z", "", unit.text)
    places = [*re.finditer(rf"(?<![^\W\d]){re.escape(wrong)}(?![^\W\d])", written)]
    if len(unit.instead) != 1 or len(places) != 1 or not _is_only_match(wrong, unit.instead[0]):
        return advice
    return Suggestion(
        advice, written, written[: places[0].start()] + unit.instead[0] + written[places[0].end() :]
    )


def _is_only_match(wrong: str, meant: str) -> bool:
    """Whether a unit is the only one that a text can be: but for case and points, with a letter
    written twice, or as the nearest.
    """
    doubled = [wrong[:i] + wrong[i + 1 :] for i in range(1, len(wrong)) if wrong[i] == wrong[i - 1]]
    if normalise_header(wrong) == normalise_header(meant) or meant in doubled:
        return True
    far = distance(wrong.casefold(), meant.casefold(), len(wrong))
    others = (unit for unit in known_units() if unit != meant)
    digits = [re.sub(r"\D", "", text) for text in (wrong, meant)]
    return digits[0] == digits[1] and all(
        distance(wrong.casefold(), unit.casefold(), far) > far for unit in others
    )


def _named_once(statement: Named, others: list[Named], what: str, problems: Problems) -> None:
    """Enter a statement with a unique name; a second file may repeat the same statement."""
    known = next((one for one in others if one.name.text == statement.name.text), None)
    if known is None:
        others.append(statement)
    elif known.span.file == statement.span.file or _bare(known) != _bare(statement):
        related = (Related(span=known.name.span, message="the first is here"),)
        message = f"there are two {what} called `{statement.name.text}`"
        problems.error(
            "FKG204", statement.name.span, message, "give each a different name", related
        )


def _rule(
    statement: Rule, file: RuleFile, rules: dict[str, Rule], names: Names, problems: Problems
) -> None:
    known = rules.setdefault(statement.name.text, statement)
    if known is not statement:
        problems.error(
            "FKG204",
            statement.name.span,
            f"there are two rules called `{statement.name.text}`",
            "give each rule its own name",
            (Related(span=known.name.span, message="the first is here"),),
        )
    if statement.weight is not None and statement.weight.value <= 0:
        problems.error(
            "FKG220",
            statement.weight.span,
            "a weight of 0 removes the rule from every score",
            "remove the rule, or give it a weight above 0",
        )
    names.rules.append(FileRule(rule=statement, file=file))


def _timeline(
    statement: Timeline, first: dict[str, Statement], names: Names, problems: Problems
) -> None:
    if not _is_only("the timeline", statement, first, problems):
        return
    step = None if statement.step is None else seconds(statement.step, problems)
    if step is not None and not 0 < step < math.inf:
        step = None  # said by the parser
    names.timing = Timing(
        step=step,
        time=statement.time.text if statement.time else None,
        trace=statement.trace.text if statement.trace else None,
        end="clip" if statement.ends is not None and statement.ends.text == "clip" else "strict",
        declared=True,
        step_broken=statement.step is not None and step is None,
    )


def _template(statement: Template, names: Names, problems: Problems) -> None:
    known = names.templates.setdefault(statement.name.text, statement)
    if known is statement or (
        known.span.file != statement.span.file and _bare(known) == _bare(statement)
    ):
        return
    problems.error(
        "FKG264",
        statement.name.span,
        f"there are two templates called `{statement.name.text}`",
        "give the second a different name",
        (Related(span=known.name.span, message="the first is here"),),
    )


def _infer(statement: Infer, names: Names, problems: Problems) -> None:
    known = next((one for one in names.infers if one.name.text == statement.name.text), None)
    if known is None:
        names.infers.append(statement)
    elif known.span.file == statement.span.file or _bare(known) != _bare(statement):
        problems.error(
            "FKG273",
            statement.name.span,
            f"there are two inferences called `{statement.name.text}`",
            "give each a different name",
            (Related(span=known.name.span, message="the first is here"),),
        )


def _is_only(
    what: str, statement: Statement, first: dict[str, Statement], problems: Problems
) -> bool:
    """Return whether this is the first such statement; a second file may repeat the same one."""
    known = first.setdefault(f"{what} ", statement)
    if known is statement:
        return True
    if known.span.file == statement.span.file or _bare(known) != _bare(statement):
        related = (Related(span=known.span, message="first declared here"),)
        problems.error(
            "FKG203", statement.span, f"{what} is declared twice", "keep one of the two", related
        )
    return False


def seconds(quantity: Quantity, problems: Problems, word: str = "step") -> float | None:
    """Return a duration in seconds; report a problem and return None if it is not a duration.

    Args:
        word: the word before it.
    """
    unit = unit_of(quantity.unit, problems)
    second = parse_unit("s")
    if isinstance(second, UnitProblem) or (unit is None and quantity.unit is not None):
        return None
    if unit is None or not same_dimension(unit, second):
        said = f"`{unit.text}` is not a time" if unit else f"a {word} needs a unit of time"
        problems.error(
            "FKG213",
            quantity.unit.span if quantity.unit else quantity.span,
            said,
            f"write: {word} 5 min",
        )
        return None
    found = conversion(replace(unit), second).one(quantity.value)
    if math.isinf(found):
        problems.error(
            "FKG228",
            quantity.span,
            "this duration is too long",
            "write a shorter one, such as 5 min",
        )
        return None
    return found


def in_scope(names: Names, problems: Problems) -> None:
    """Leave out the statements that this pack is not for: those of clients in a public pack, all
    others in a private one.

    If a public pack leaves some out, a note explains how to compile them.
    """
    everything: list[Scoped] = [*names.rules, *names.infers, *names.sets, *names.knowledge]
    private = [statement for statement in everything if _scope(statement) == "client"]
    names.rules = [rule for rule in names.rules if (_scope(rule) == "client") == bool(names.client)]
    names.infers = [
        infer for infer in names.infers if (_scope(infer) == "client") == bool(names.client)
    ]
    names.sets = [kept for kept in names.sets if (_scope(kept) == "client") == bool(names.client)]
    names.knowledge = [
        model for model in names.knowledge if (_scope(model) == "client") == bool(names.client)
    ]
    names.left_out = {
        _name(statement)
        for statement in everything
        if (_scope(statement) == "client") != bool(names.client)
    }
    if names.client:
        names.causes, names.loads = [], []
        if not private:
            message = "no statement has the scope `client`, so the pack of a client would be empty"
            problems.error(
                "FKG286",
                COMMAND_LINE,
                message,
                "write `scope client` after the names of rules that must stay at a site",
            )
    elif private:
        first = private[0]
        word = first.rule.scope if isinstance(first, FileRule) else first.scope
        what = "one statement is" if len(private) == 1 else f"{len(private)} statements are"
        problems.info(
            "FKG287",
            word.span if isinstance(word, Word) else COMMAND_LINE,
            f"{what} for clients and not in this pack",
            "at each site, with its own graph: fedkg compile RULES GRAPH --client NAME -o"
            " NAME.fkgpack",
        )


def _name(statement: Scoped) -> str:
    return statement.rule.name.text if isinstance(statement, FileRule) else statement.name.text


def _scope(statement: Scoped) -> ScopeName:
    return scope_of(statement.rule.scope if isinstance(statement, FileRule) else statement.scope)


def scope_of(word: Word | None) -> ScopeName:
    """The scope that a statement names; public where it names none, or one that there is not, which
    has been said.
    """
    return (
        cast(ScopeName, word.text)
        if word is not None and word.text in get_args(ScopeName)
        else "public"
    )
