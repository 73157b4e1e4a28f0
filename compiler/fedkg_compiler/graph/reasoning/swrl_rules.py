"""Reads SWRL rules (W3C member submission 2004) from the triples of a closure, as rules like those
of OWL 2 RL.

A rule is an ``swrl:Imp`` whose body and head are lists of atoms. fedkg applies rules of class
atoms, property atoms and comparisons of literals; the head may also state that two individuals are
the same or different. Such a rule creates no new node, so that a closure always ends. All other
rules are reported and not applied: built-ins that compute a value, data ranges, and comparisons of
individuals in a body.

Variables stand for the nodes of the graph only, as in the DL-safe rules of OWL. The nodes that
`owl:Thing` contains are all of them, so that atoms of this class are skipped.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.reasoning.facts import Facts, partners
from fedkg_compiler.graph.reasoning.owl_vocabulary import FIRST, NAMES, NIL, REST, TYPE, Node
from fedkg_compiler.graph.reasoning.rule_table import Atom, Rule
from fedkg_compiler.graph.standard_vocabularies import NUMBERS, SWRL, SWRLB, XSD

IMP = NAMES["Imp"]
SAME_NODE = "is"
"""The comparison of a variable with the node of the rule that it must stand for."""
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "equal": operator.eq,
    "notEqual": operator.ne,
    "lessThan": operator.lt,
    "lessThanOrEqual": operator.le,
    "greaterThan": operator.gt,
    "greaterThanOrEqual": operator.ge,
}
"""The built-ins of `swrlb:` that fedkg evaluates, by their local names.

`Any`: values of literals of one kind.
"""
_SWITCH = ox.NamedNode("http://swrl.stanford.edu/ontologies/3.3/swrla.owl#isRuleEnabled")
_EQUALITIES = {"SameIndividualAtom": "sameAs", "DifferentIndividualsAtom": "differentFrom"}
_PROPERTY_ATOMS = ("IndividualPropertyAtom", "DatavaluedPropertyAtom")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotApplied:
    """A SWRL rule that fedkg does not apply.

    Attributes:
        triple: the triple of the rule that the reason is about.
        reason: what fedkg does not support, to follow "the SWRL rule is not applied: ".
        advice: what the author can do.
    """

    triple: tuple[Node, Node, Node]
    reason: str
    advice: str


class _Unsupported(Exception):
    def __init__(self, fact: Atom, reason: str, advice: str) -> None:
        super().__init__(reason)
        self.fact, self.reason, self.advice = fact, reason, advice


def swrl_rules(facts: Facts) -> tuple[list[Rule], list[NotApplied]]:
    """Return the SWRL rules that are stated in a closure, and those that are not applied.

    A rule that an editor has switched off (``swrla:isRuleEnabled false``) is in neither list.
    """
    rules: list[Rule] = []
    others: list[NotApplied] = []
    nodes = facts.nodes
    for imp in facts.typed(IMP).tolist():
        if _is_switched_off(facts, imp):
            continue
        try:
            rules.append(_Reader(facts, imp).rule())
        except _Unsupported as error:
            others.append(
                NotApplied(
                    triple=(nodes[error.fact[0]], nodes[error.fact[1]], nodes[error.fact[2]]),
                    reason=error.reason,
                    advice=error.advice,
                )
            )
    return rules, others


def compare(name: str, one: Node, other: Node) -> bool:
    """Tell whether a built-in of `COMPARISONS` holds between two literals.

    Numbers compare by value whatever their datatype, texts by code point, dates and times by time.
    Literals of different kinds (a number and a text, a time with a time zone and one without)
    satisfy no comparison, nor do nodes that are not literals.

    Examples:
        >>> five = ox.Literal("5.0", datatype=ox.NamedNode(XSD + "decimal"))
        >>> compare("equal", five, ox.Literal(5)), compare("notEqual", five, ox.Literal("5"))
        (True, False)
    """
    kind, left = _comparable(one)
    other_kind, right = _comparable(other)
    return bool(kind) and kind == other_kind and COMPARISONS[name](left, right)


def _comparable(node: Node) -> tuple[str, object]:
    """The kind of a literal's value and the value; "" for what has no order that fedkg knows."""
    if not isinstance(node, ox.Literal):
        return "", None
    datatype, text = node.datatype.value, node.value.strip()
    try:
        if datatype in NUMBERS:
            number = Decimal(text.replace("INF", "Infinity"))
            return ("", None) if number.is_nan() else ("number", number)
        if datatype == XSD + "boolean" and text in ("true", "false", "1", "0"):
            return "boolean", text in ("true", "1")
        if datatype == XSD + "dateTime":
            time = datetime.fromisoformat(text)
            return f"time {time.tzinfo is None}", time
        if datatype == XSD + "date":
            return "date", date.fromisoformat(text)
    except (ValueError, InvalidOperation):
        return "", None
    if datatype == XSD + "string" or node.language:
        return f"text {node.language or ''}", node.value
    return "", None


def _is_switched_off(facts: Facts, imp: int) -> bool:
    switch = facts.numbers.get(_SWITCH)
    values = [] if switch is None else partners(facts.pairs_of(switch), imp)
    return any(getattr(facts.nodes[value], "value", "") == "false" for value in values)


@dataclass(slots=True)
class _Reader:
    """Reads one rule.

    Attributes:
        variables: the number of each variable in the rule, below 0, by its node.
        bound: the variables that occur in a class or property atom of the body.
    """

    facts: Facts
    imp: int
    variables: dict[int, int] = field(default_factory=dict)
    comparisons: list[tuple[str, int, int]] = field(default_factory=list)
    bound: set[int] = field(default_factory=set)

    def rule(self) -> Rule:
        body = [atom for node in self.atoms("body") for atom in self.body_atom(node)]
        heads = [self.head_atom(node) for node in self.atoms("head")]
        if not body:
            self.refuse("its body has no class or property atom", "state the fact itself")
        if not heads:
            advice = "state the contradiction with owl:disjointWith or owl:complementOf"
            self.refuse("its head is empty", advice)
        used = [end for _, one, other in self.comparisons for end in (one, other)]
        used += [end for atom in heads for end in atom]
        for node, variable in self.variables.items():
            if variable in used and variable not in self.bound:
                advice = "add an atom to the body that says what it stands for"
                self.refuse(
                    f"the variable {self.facts.nodes[node]} is in no class or property atom of the"
                    " body",
                    advice,
                    (node, TYPE, NAMES["Variable"]),
                )
        return Rule(
            name="swrl",
            # The rule is a premise of what it concludes: a proof then shows where it is written.
            body=((self.imp, TYPE, IMP), *body),
            heads=tuple(heads),
            comparisons=tuple(self.comparisons),
        )

    def refuse(self, reason: str, advice: str, fact: Atom | None = None) -> NoReturn:
        """Refuse the rule because of one of its triples; default: the one that states the rule."""
        raise _Unsupported((self.imp, TYPE, IMP) if fact is None else fact, reason, advice)

    def body_atom(self, node: int) -> Iterator[Atom]:
        """The premise of an atom; none for a comparison, which is collected."""
        kind = self.kind(node)
        if kind == "BuiltinAtom":
            self.compare(node)
            return
        if kind in _EQUALITIES:
            advice = "use a property of the individuals that tells them apart"
            self.refuse(
                "its body asks whether individuals are the same or different",
                advice,
                (node, TYPE, NAMES[kind]),
            )
        subject, predicate, value = self.triple(node, kind)
        if predicate == TYPE and value == NAMES["Thing"]:
            return
        if isinstance(self.facts.nodes[max(value, 0)], ox.Literal) and value >= 0:
            value = self.fresh("equal", value)
        if subject >= 0 and value >= 0:
            subject = self.fresh(SAME_NODE, subject)
        self.bound |= {end for end in (subject, value) if end < 0}
        yield subject, predicate, value

    def fresh(self, comparison: str, node: int) -> int:
        """A new variable that stands for a node of the rule."""
        variable = -1 - len(self.variables)
        self.variables[variable] = variable
        self.comparisons.append((comparison, variable, node))
        return variable

    def head_atom(self, node: int) -> Atom:
        kind = self.kind(node)
        if kind == "BuiltinAtom":
            self.refuse(
                "its head has a built-in",
                "move the built-in into the body",
                (node, TYPE, NAMES[kind]),
            )
        return self.triple(node, kind)

    def triple(self, node: int, kind: str) -> Atom:
        if kind == "ClassAtom":
            return self.end(node, "argument1"), TYPE, self.value(node, "classPredicate")
        if kind in _PROPERTY_ATOMS:
            predicate = self.value(node, "propertyPredicate")
        elif kind in _EQUALITIES:
            predicate = NAMES[_EQUALITIES[kind]]
        else:
            advice = (
                "remove the atom; declare the range of the property in the ontology, or compare "
                "the value with a built-in such as swrlb:lessThan"
                if kind == "DataRangeAtom"
                else "give the atom one of the types swrl:ClassAtom, swrl:IndividualPropertyAtom "
                "and swrl:DatavaluedPropertyAtom (in a body also swrl:BuiltinAtom)"
            )
            what = f"atoms of the kind swrl:{kind}" if kind else "an atom without a kind"
            fact = (node, TYPE, NAMES[kind]) if kind in NAMES else None
            self.refuse(f"fedkg does not read {what}", advice, fact)
        return self.end(node, "argument1"), predicate, self.end(node, "argument2")

    def compare(self, node: int) -> None:
        builtin = self.value(node, "builtin")
        iri = getattr(self.facts.nodes[builtin], "value", "")
        name = iri.removeprefix(SWRLB)
        if not iri.startswith(SWRLB) or name not in COMPARISONS:
            shown = f"swrlb:{name}" if iri.startswith(SWRLB) else f"<{iri}>"
            known = ", ".join(f"swrlb:{one}" for one in COMPARISONS)
            self.refuse(
                f"fedkg does not evaluate the built-in {shown}",
                f"fedkg evaluates {known}; compute other values in a rule file",
                (node, NAMES["builtin"], builtin),
            )
        ends = [self.numbered(one) for one in self.members(self.value(node, "arguments"))]
        if len(ends) != 2:
            advice = "give it two arguments"
            fact = (node, NAMES["builtin"], builtin)
            arguments = "1 argument" if len(ends) == 1 else f"{len(ends)} arguments"
            self.refuse(f"swrlb:{name} has {arguments}", advice, fact)
        self.comparisons.append((name, ends[0], ends[1]))

    def kind(self, atom: int) -> str:
        kinds = partners(self.facts.pairs_of(TYPE), atom)
        iris = [getattr(self.facts.nodes[kind], "value", "") for kind in kinds]
        return next((iri.removeprefix(SWRL) for iri in iris if iri.startswith(SWRL)), "")

    def atoms(self, side: str) -> list[int]:
        return self.members(self.value(self.imp, side))

    def members(self, head: int) -> list[int]:
        found: list[int] = []
        seen: set[int] = set()
        while head != NIL and head not in seen:
            seen.add(head)
            found.append(self.only(head, FIRST))
            head = self.only(head, REST)
        return found

    def end(self, atom: int, word: str) -> int:
        return self.numbered(self.value(atom, word))

    def numbered(self, node: int) -> int:
        """The number of a variable in the rule, the number of any other node itself."""
        if NAMES["Variable"] not in partners(self.facts.pairs_of(TYPE), node):
            return node
        return self.variables.setdefault(node, -1 - len(self.variables))

    def value(self, node: int, word: str) -> int:
        return self.only(node, NAMES[word])

    def only(self, node: int, predicate: int) -> int:
        values = partners(self.facts.pairs_of(predicate), node)
        if len(values) != 1:
            name = getattr(self.facts.nodes[predicate], "value", "")
            reason = f"a part of it has {len(values)} values of <{name}>, and must have one"
            self.refuse(reason, "correct the rule")
        return values[0]
