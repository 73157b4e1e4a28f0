"""The rule file of an export: declarations and rules of each component, with the requirements as
comments.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from fedkg._internal.name_matching import did_you_mean
from fedkg.errors import RequirementsError
from fedkg.limits import require_within_limit
from fedkg_compiler.authoring.fret.export_reader import FretExport, FretVariable, Requirement
from fedkg_compiler.authoring.fret.fretish import Fretish, NotFretish, parse_requirement
from fedkg_compiler.authoring.fret.translation import (
    Symbol,
    Untranslatable,
    constant_of,
    rule_of,
    rule_of_formula,
    type_of,
)
from fedkg_compiler.authoring.string_and_name_quoting import Names, quoted, remark
from fedkg_compiler.frontends.fkg.syntax.parser import parse
from fedkg_compiler.frontends.fkg.syntax.printing import canonical

WIDTH = 100
TIMELINE = "timeline ends clip"
SHOWN_DEFINITION = 60
"""Characters of the definition of an internal variable that a comment shows."""
ONE_STEP = ("step", "steps", "tick", "ticks", "timepoint", "timepoints")
"""Units of durations that already say steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftedRequirement:
    """A requirement and what became of it.

    Attributes:
        rule: the name of its rule, "" if there is none.
        source: what the rule was made from.
        reason: why there is no rule, or why it was made from the formula.
    """

    requirement: str
    component: str
    rule: str = ""
    source: Literal["text", "formula", ""] = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FretDraft:
    """A rule file and the requirements that it was made from, in their order.

    Attributes:
        comparison: rules for a table of several traces: the file's, and one from the published
            formula of each requirement that was translated from its text.
        formula_rules: the names of the latter, by the names of the rules from texts.
    """

    text: str
    requirements: tuple[DraftedRequirement, ...]
    comparison: str
    formula_rules: Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class _Item:
    """A requirement on its way into the file."""

    requirement: Requirement
    component: str = ""
    parsed: Fretish | None = None
    condition: str = ""
    source: Literal["text", "formula", ""] = ""
    reason: str = ""
    used: set[str] = field(default_factory=set)


def draft_requirements(export: FretExport, name: str, component: str = "") -> FretDraft:
    """The rule file of an export.

    Args:
        name: of the export's file, for comments.
        component: the only component whose requirements are wanted; "" for all.

    Raises:
        RequirementsError: the export has no requirements, or none of the component.
        LimitError: it has more requirements than a rule file may have statements.
    """
    require_within_limit("statements", len(export.requirements), name)
    items = [_parsed(requirement) for requirement in export.requirements]
    if component:
        known = sorted({item.component for item in items} - {""})
        items = [item for item in items if item.component == component]
        if not items and export.requirements:
            listed = ", ".join(f"`{one}`" for one in known[:12])
            otherwise = (
                f"the components of the export are: {listed}"
                if known
                else "leave the component out: no requirement of the export names one"
            )
            advice = did_you_mean(component, known, otherwise)
            raise RequirementsError(
                f"{name} has no requirements of the component `{component}`", help=advice
            )
    if not items:
        raise RequirementsError(f"{name} has no requirements", help="write them in FRET first")
    variables = _variables(export.variables)
    plain = {key: _symbols(found, key[1], ()) for key, found in variables.items()}
    for item in items:
        _translate(item, plain.get(_key(item), {}))
    shared = _shared(items, plain)
    symbols = {key: _symbols(found, key[1], shared) for key, found in variables.items()}
    for item in items:
        if item.source:
            _translate(item, symbols.get(_key(item), {}))
    return _file(items, symbols, name)


def _key(item: _Item) -> tuple[str, str]:
    return item.requirement.project, item.component


def _parsed(requirement: Requirement) -> _Item:
    item = _Item(requirement=requirement)
    try:
        item.parsed = parse_requirement(requirement.fulltext)
    except NotFretish as error:
        item.reason = _position("fulltext", error)
        # a text that does not parse still names its component
        named = re.search(r"([^\W\d]\w*)\s+shall\b", requirement.fulltext, re.IGNORECASE)
        item.component = named[1] if named else ""
    else:
        item.component = item.parsed.component
    return item


def _position(place: str, error: NotFretish) -> str:
    return f"{place}, character {error.position}: {error}"


def _variables(variables: Sequence[FretVariable]) -> dict[tuple[str, str], dict[str, FretVariable]]:
    """The variables by project and component, and by name."""
    found: dict[tuple[str, str], dict[str, FretVariable]] = {}
    for variable in variables:
        found.setdefault((variable.project, variable.component), {})[variable.name] = variable
    return found


def _symbols(
    variables: Mapping[str, FretVariable], component: str, shared: Sequence[str]
) -> dict[str, Symbol]:
    """The names of a component's variables in rules: with the component for those that several
    components have.
    """
    names = Names()
    found = {}
    for name, variable in variables.items():
        plain = f"{component}_{name}" if name in shared else name
        found[name] = Symbol(
            variable=variable,
            name=names.give(_name(plain)),
            type=type_of(variable),
            constant=constant_of(variable),
        )
    return found


def _name(text: str) -> str:
    """A name of the rule language."""
    word = re.sub(r"\W+", "_", text).strip("_")
    return word if re.match(r"[^\W\d]", word) else f"r_{word}"


def _shared(
    items: Sequence[_Item], symbols: Mapping[tuple[str, str], Mapping[str, Symbol]]
) -> tuple[str, ...]:
    """Names that the rules of several components use, for columns or for different constants."""
    uses: dict[str, dict[tuple[str, str], str]] = {}
    for item in items:
        for name in item.used if item.source else ():
            uses.setdefault(name, {})[_key(item)] = symbols[_key(item)][name].constant
    return tuple(
        name
        for name, found in uses.items()
        if len(found) > 1 and (len(set(found.values())) > 1 or "" in found.values())
    )


def _translate(item: _Item, symbols: Mapping[str, Symbol]) -> None:
    """Enter the condition of a requirement, from its text if possible, or the reason why there is
    none.
    """
    item.used.clear()
    item.source = ""
    if item.parsed is not None:
        try:
            item.condition = _checked(rule_of(item.parsed, symbols, item.used))
        except Untranslatable as error:
            item.reason = str(error)
            if not error.form:
                return
        else:
            item.source, item.reason = "text", ""
            return
    formula = item.requirement.semantics.pt_expanded or item.requirement.semantics.pt
    field_name = (
        "semantics.ptExpanded" if item.requirement.semantics.pt_expanded else "semantics.pt"
    )
    first = item.reason
    if not formula:
        item.reason = f"{first}; there is no published formula"
        return
    item.used.clear()
    try:
        item.condition = _checked(rule_of_formula(formula, symbols, item.used))
    except NotFretish as error:
        item.reason = f"{first}; {_position(field_name, error)}"
    except Untranslatable as error:
        item.reason = f"{first}; {field_name}: {error}"
    else:
        item.source = "formula"


def _from_formula(item: _Item, symbols: Mapping[str, Symbol]) -> str:
    """The condition from the published formula of a requirement that was translated from its text;
    "" if there is none, or if it reads other variables.
    """
    semantics = item.requirement.semantics
    formula, used = semantics.pt_expanded or semantics.pt, set[str]()
    if item.source != "text" or not formula:
        return ""
    try:
        condition = _checked(rule_of_formula(formula, symbols, used))
    except (NotFretish, Untranslatable):
        return ""
    return condition if used <= item.used else ""


def _checked(condition: str) -> str:
    """A condition that the rule language can read. Raises Untranslatable."""
    problems = parse(f"rule r require {condition}\n", "")[1]
    if problems:
        raise Untranslatable(f"not readable as a rule: {problems[0].message}", form=True)
    return condition


def _file(
    items: Sequence[_Item], symbols: Mapping[tuple[str, str], Mapping[str, Symbol]], name: str
) -> FretDraft:
    """The text of the file, component by component, and the list of requirements."""
    rules = Names()
    formula_rules: dict[str, str] = {}
    from_formulas: list[str] = []
    drafted: dict[int, DraftedRequirement] = {}
    lines: list[str] = []
    translated = sum(bool(item.source) for item in items)
    declared: set[str] = set()
    for key in dict.fromkeys(map(_key, items)):
        mine = [(i, item) for i, item in enumerate(items) if _key(item) == key]
        used = set().union(*(item.used for _, item in mine if item.source))
        lines += ["", *_comment(f"Component {key[1]}" if key[1] else "No component")]
        lines += _declarations(symbols.get(key, {}), used, declared)
        for i, item in mine:
            requirement = item.requirement
            entry = DraftedRequirement(
                requirement=requirement.reqid,
                component=item.component,
                source=item.source,
                reason=item.reason,
            )
            lines += ["", *_comment(f"{requirement.reqid}: {requirement.fulltext}")]
            if item.source:
                entry = replace(entry, rule=rules.give(_name(requirement.reqid)))
                lines += _remarks(item)
                lines.append(f"rule {entry.rule} require {item.condition}")
                formula = _from_formula(item, symbols.get(key, {}))
                if formula:
                    formula_rules[entry.rule] = rules.give(f"{entry.rule}__formula")
                    from_formulas.append(f"rule {formula_rules[entry.rule]} require {formula}")
            else:
                lines += _comment(f"not translated: {item.reason}")
            drafted[i] = entry
    head = [
        *_comment(f"Drafted by `fedkg new --from fret` from {name}."),
        *_comment(
            f"{translated} of {len(items)} requirements are rules; a comment gives the reason for"
            " each of the others. A trace satisfies a requirement if every step satisfies its rule."
            " Durations are numbers of steps, as in FRET's formulas. FRET has no units: put those"
            " of your columns in place of `dimensionless`."
        ),
        TIMELINE,
    ]
    text = "\n".join([*head, *lines]) + "\n"
    formatted, problems = canonical(text, name)
    if formatted is None:
        raise RequirementsError(
            f"{name} has names that the rule language cannot read: {problems[0].message}",
            help="rename the variable or requirement in FRET",
        )
    several = formatted.replace(TIMELINE, f'{TIMELINE} trace column "trace of FRET"', 1)
    return FretDraft(
        text=formatted,
        requirements=tuple(drafted[i] for i in range(len(items))),
        comparison="\n".join([several, *from_formulas, ""]),
        formula_rules=formula_rules,
    )


def _declarations(symbols: Mapping[str, Symbol], used: set[str], declared: set[str]) -> list[str]:
    """Constants and signals that rules of a component use, each once in the file."""
    constants, signals = [], []
    for name, symbol in symbols.items():
        if name not in used or symbol.name in declared:
            continue
        declared.add(symbol.name)
        if symbol.constant:
            constants.append(f"constant {symbol.name} = {symbol.constant}")
            continue
        unit = "boolean" if symbol.type == "boolean" else "dimensionless"
        signal = f"signal {symbol.name} in {unit} column {quoted(name)}"
        definition = remark(symbol.variable.assignment)
        if definition:
            cut = (
                f"{definition[:SHOWN_DEFINITION]} ..." if len(definition) > SHOWN_DEFINITION else ""
            )
            signals += _comment(f"{name} is internal, defined in FRET as: {cut or definition}")
        signals.append(signal)
    return [*constants, *signals]


def _remarks(item: _Item) -> list[str]:
    if item.source == "formula":
        return _comment(f"translated from the published formula, because {item.reason}")
    timing = item.parsed.timing if item.parsed else None
    if timing is None or not timing.unit or timing.unit.casefold() in ONE_STEP:
        return []
    return _comment(f"{timing.steps} {timing.unit} are counted as {timing.steps} steps")


def _comment(text: str) -> list[str]:
    """Comment lines, without characters that do not print."""
    plain = "".join(one if one.isprintable() else "?" for one in remark(text))
    return textwrap.wrap(
        plain, WIDTH, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False
    ) or ["#"]
