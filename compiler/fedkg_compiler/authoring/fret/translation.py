"""From FRETish requirements to rules.

A rule holds at every step of a trace exactly if the trace satisfies the requirement, with windows
that end with the trace (``ends clip``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lark import Token, Tree

from fedkg._internal.safe_text import list_first
from fedkg_compiler.authoring.fret.export_reader import FretVariable
from fedkg_compiler.authoring.fret.fretish import Fretish, Node, parse_formula

Truth = str | bool
"""A condition of the rule language; True or False where nothing is left to decide."""

FUNCTIONS = {
    "abs": "abs",
    "absReal": "abs",
    "absInt": "abs",
    "sin": "sin",
    "cos": "cos",
    "tan": "tan",
    "tanh": "tanh",
    "sqrt": "sqrt",
    "exp": "exp",
    "log": "log",
    "floor": "floor",
    "ceil": "ceil",
    "round": "round",
    "min": "min",
    "max": "max",
}
"""Functions of FRET and of the rule language."""
OVER_TIME = ("preBool", "preInt", "preReal", "persisted", "occurred")
"""Functions of FRET for earlier values and for conditions that last."""
COMPARISONS = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
PREFIXES = {
    "G": ("always", "all"),
    "F": ("eventually", "some"),
    "H": ("historically", "all"),
    "O": ("once", "some"),
    "X": ("next", "step"),
    "Y": ("previous", "step"),
    "Z": ("weak previous", "step"),
}
"""Operators of formulas, and what they ask of their window."""
_NUMBER = re.compile(r"-?\s*\d+(\.\d+)?([eE][+-]?\d+)?")


class Untranslatable(Exception):
    """A requirement that the rule language cannot express; the message says why.

    Attributes:
        form: whether its form is the reason, so that the published formula may still be translated.
    """

    def __init__(self, message: str, *, form: bool = False) -> None:
        super().__init__(message)
        self.form = form


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """A variable of a component in the rule file.

    Attributes:
        name: the name in rules. type: None if the export gives none, or one that rules do not know.
        constant: the number of a constant, "" for a column.
    """

    variable: FretVariable
    name: str
    type: Literal["boolean", "number"] | None
    constant: str = ""


def type_of(variable: FretVariable) -> Literal["boolean", "number"] | None:
    """Whether a variable is a truth value or a number; None if the export does not say."""
    kind = variable.data_type.strip().casefold()
    if kind in ("boolean", "bool"):
        return "boolean"
    if re.fullmatch(r"double|single|real|float|integer|u?int(8|16|32|64)?", kind):
        return "number"
    return None


def constant_of(variable: FretVariable) -> str:
    """The number that an internal variable always has; "" if it is not a constant."""
    written = variable.assignment.strip()
    is_number = variable.id_type == "Internal" and type_of(variable) == "number"
    return written if is_number and _NUMBER.fullmatch(written) else ""


def rule_of(requirement: Fretish, symbols: Mapping[str, Symbol], used: set[str]) -> str:
    """The condition after `require` that expresses a requirement.

    Args:
        symbols: the variables of its component, by their name in FRET.
        used: receives the names of the variables that the condition reads.

    Raises:
        Untranslatable: the rule language cannot express it.
    """
    writer = _Writer(symbols=symbols, used=used)
    parts = [requirement.response, requirement.trigger, requirement.whenever]
    parts += [requirement.scope[1] if requirement.scope else None, requirement.timing.stop]
    check_names([part for part in parts if part is not None], symbols)
    scope = _Interval.of(requirement, writer)
    if requirement.trigger is not None and requirement.whenever is not None:
        message = "both `whenever` and another condition are not translated from text"
        raise Untranslatable(message, form=True)
    start = requirement.trigger if requirement.trigger is not None else requirement.whenever
    condition = None if start is None else writer.condition(start)
    response = writer.condition(requirement.response)
    timing = requirement.timing
    if timing.word in ("always", "never", "finally"):
        active = scope.active(condition)
        if timing.word == "finally":
            active = _both(active, scope.last)
        wanted = _not(response) if timing.word == "never" else response
        return _decided(_if(active, wanted))
    if condition is None:
        begins: Truth = True if scope.inside is True else f"({scope.inside}) begins"
    else:
        begins = _both(scope.inside, condition)
        if requirement.trigger is not None:
            begins = begins if isinstance(begins, bool) else f"({begins}) begins"
    stop = True if timing.stop is None else writer.condition(timing.stop)
    wanted = scope.response(timing.word, response, stop, timing.steps)
    if condition is None and scope.inside is True:
        return f"initially ({_decided(wanted)})"
    return _decided(_if(begins, wanted))


def rule_of_formula(text: str, symbols: Mapping[str, Symbol], used: set[str]) -> str:
    """The condition after `require` that expresses a published formula over the past.

    FRET evaluates such a formula at the end of a trace; ``H p`` there is `p` at every step.

    Raises:
        NotFretish: the formula does not parse.
        Untranslatable: the rule language cannot express it.
    """
    tree = parse_formula(text)
    check_names([tree], symbols)
    writer = _Writer(symbols=symbols, used=used)
    match tree:
        case Tree(data="prefix", children=[Token(value="H"), Tree() as body]):
            return _decided(writer.condition(body))
        case _:
            return _decided(_if("at the end", writer.condition(tree)))


def check_names(trees: Sequence[Node], symbols: Mapping[str, Symbol]) -> None:
    """Raise Untranslatable for functions without a definition and variables without a type."""
    calls, names = dict[str, None](), dict[str, None]()
    for tree in trees:
        for node in _nodes(tree):
            if node.data in ("call", "name"):
                found = calls if node.data == "call" else names
                found[str(node.children[0])] = None
    unknown = [name for name in calls if name not in FUNCTIONS and name not in OVER_TIME]
    if unknown:
        raise Untranslatable(f"the export does not define {_listed('the function', unknown)}")
    untyped = [
        name
        for name in names
        if name not in ("FTP", "LAST") and (name not in symbols or symbols[name].type is None)
    ]
    if untyped:
        kinds = {symbols[name].variable.data_type for name in untyped if name in symbols} - {""}
        said = f" ({', '.join(sorted(kinds))} is not a number or boolean)" if kinds else ""
        what = _listed("the variable", untyped)
        raise Untranslatable(f"no data type for {what}{said}: set it in FRET's variable mapping")


def _nodes(tree: Node) -> list[Node]:
    """The nodes of a tree, in the order of the text."""
    found, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += [part for part in reversed(node.children) if isinstance(part, Tree)]
    return found


def _listed(what: str, names: Sequence[str]) -> str:
    shown = list_first([f"`{name}`" for name in names], 6)
    return f"{what}{'s' if len(names) > 1 else ''} {shown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Interval:
    """Where a requirement applies.

    Attributes:
        inside: whether a step is in such an interval; True for the whole trace.
        bounded: whether an interval can end before the trace does.
    """

    inside: Truth
    bounded: bool

    @classmethod
    def of(cls, requirement: Fretish, writer: _Writer) -> _Interval:
        if requirement.scope is None:
            return cls(inside=True, bounded=False)
        kind, tree = requirement.scope
        mode = writer.condition(tree)
        if isinstance(mode, bool):
            raise Untranslatable("the mode is always true or always false", form=True)
        match kind:
            case "in":
                return cls(inside=f"({mode})", bounded=True)
            case "notin":
                return cls(inside=f"(not ({mode}))", bounded=True)
            case "before":
                return cls(inside=f"(historically (not ({mode})))", bounded=True)
            case "after":
                ended = f"(previous ({mode})) and not ({mode})"
                return cls(inside=f"(once ({ended}))", bounded=False)
            case _:
                message = "a scope with `only` is not translated from text"
                raise Untranslatable(message, form=True)

    @property
    def last(self) -> Truth:
        """Whether a step in the interval is its last one."""
        return f"(weak next (not {self.inside}))" if self.bounded else "at the end"

    def active(self, condition: Truth | None) -> Truth:
        """Whether the condition has been true at some step of the interval up to now."""
        if condition is None or isinstance(condition, bool):
            return _both(self.inside, True if condition is None else condition)
        if self.inside is True:
            return f"(once ({condition}))"
        return f"({self.inside} since ({self.inside} and ({condition})))"

    def response(self, word: str, wanted: Truth, stop: Truth, steps: int) -> Truth:
        """What is required from the step at which a requirement starts."""
        outside = _not(self.inside) if self.bounded else False
        match word:
            case "immediately":
                return wanted
            case "next":
                return _prefix("weak next", _either(outside, wanted))
            case "eventually" if self.bounded:
                return _until("until", self.inside, _both(self.inside, wanted))
            case "eventually":
                return _prefix("eventually", wanted)
            case "until":
                return _until("weak until", wanted, _either(stop, outside))
            case "before":
                last = self.last if self.bounded else False
                return _until("weak until closed", _not(stop), _either(wanted, last))
            case "within":
                return self._within(wanted, steps)
            case "for":
                return self._for(wanted, steps)
            case _:
                return _both(self._for(_not(wanted), steps), self._within(wanted, steps + 1))

    def _within(self, wanted: Truth, steps: int) -> Truth:
        soon = _prefix(f"eventually within {steps}", wanted)
        if steps == 0:
            return soon
        return _either(soon, _prefix(f"eventually within {steps - 1}", self.last))

    def _for(self, wanted: Truth, steps: int) -> Truth:
        lasting = _prefix(f"always within {steps}", wanted)
        if not self.bounded:
            return lasting
        return _either(lasting, _until("weak until closed", wanted, self.last))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    """Writes expressions of FRET in the rule language, with more parentheses than they need."""

    symbols: Mapping[str, Symbol]
    used: set[str] = field(default_factory=set)

    def condition(self, node: Node) -> Truth:
        """A condition. Raises Untranslatable."""
        parts = node.children
        match node.data:
            case "true":
                return True
            case "false":
                return False
            case "not":
                return _not(self._part(parts[0]))
            case "and":
                return _all([self.condition(part) for part in _operands(node)], "and")
            case "or":
                return _all([self.condition(part) for part in _operands(node)], "or")
            case "implies":
                return _if(self._part(parts[0]), self._part(parts[1]))
            case "iff" | "xor":
                return _equal(self._part(parts[0]), self._part(parts[1]), str(node.data))
            case "compare":
                return self._compare(node)
            case "prefix":
                return self._prefix(node)
            case "binary":
                return self._binary(node)
            case "name":
                return self._truth(str(parts[0]))
            case "call":
                return self._condition_over_time(node)
            case _:
                raise Untranslatable("a number is used as a condition")

    def _part(self, part: Node | Token) -> Truth:
        assert isinstance(part, Tree)
        return self.condition(part)

    def _truth(self, name: str) -> Truth:
        if name == "FTP":
            return "at the start"
        if name == "LAST":
            return "at the end"
        symbol = self._symbol(name)
        if symbol.type != "boolean":
            raise Untranslatable(f"`{name}` is a number and is used as a condition")
        return f"{symbol.name} is true"

    def _symbol(self, name: str) -> Symbol:
        self.used.add(name)
        return self.symbols[name]

    def _compare(self, node: Node) -> Truth:
        left, operator, right = node.children
        assert isinstance(left, Tree)
        assert isinstance(right, Tree)
        sign = str(operator)
        if self._is_boolean(left) or self._is_boolean(right):
            if sign not in ("=", "!="):
                raise Untranslatable(f"`{sign}` compares truth values")
            return _equal(self._part(left), self._part(right), "iff" if sign == "=" else "xor")
        return f"({self.value(left)} {COMPARISONS[sign]} {self.value(right)})"

    def _is_boolean(self, node: Node) -> bool:
        match node.data:
            case "name":
                name = str(node.children[0])
                return name not in self.symbols or self.symbols[name].type == "boolean"
            case "call":
                return str(node.children[0]) in ("preBool", "persisted", "occurred")
            case "number" | "arithmetic" | "negative" | "power":
                return False
            case _:
                return True

    def _prefix(self, node: Node) -> Truth:
        letter, *bound, body = node.children
        word, kind = PREFIXES[str(letter)]
        arg = self._part(body)
        if kind == "step":
            weak = word.startswith("weak")
            if isinstance(arg, bool) and arg is not weak:
                edge = "at the end" if word == "next" else "at the start"
                return edge if weak else f"(not {edge})"
            return arg if isinstance(arg, bool) else f"({word} ({arg}))"
        window = ""
        if bound:
            low, high = _steps_of_bound(str(bound[0]))
            if high < low:
                return kind == "all"
            window = f"[{low}, {high}] "
        if isinstance(arg, bool):
            raise Untranslatable("an operator of time has a constant operand", form=True)
        return f"({word} {window}({arg}))"

    def _binary(self, node: Node) -> Truth:
        left, operator, right = node.children
        first, second = self._part(left), self._part(right)
        match str(operator):
            case "U":
                return _until("until", first, second)
            case "S":
                return _until("since", first, second)
            case _:  # V: the second holds up to and including the step at which the first does
                return _until("weak until closed", second, first)

    def _condition_over_time(self, node: Node) -> Truth:
        name, args = str(node.children[0]), node.children[1:]
        if name not in ("preBool", "persisted", "occurred"):
            raise Untranslatable(f"the value of `{name}` is used as a condition")
        if len(args) != 2:
            raise Untranslatable(f"`{name}` has {len(args)} arguments, and takes two")
        arg = self._part(args[1])
        if name == "preBool":
            first = self._part(args[0])
            if isinstance(first, bool):
                if isinstance(arg, bool):
                    return arg if arg is first else _edge(first)
                return f"({'weak previous' if first else 'previous'} ({arg}))"
            return _either(_both("at the start", first), f"(previous ({arg}))")
        steps = args[0]
        if not isinstance(steps, Tree) or steps.data != "number" or not _is_whole(steps):
            raise Untranslatable(f"`{name}` counts a fixed number of steps")
        if isinstance(arg, bool):
            raise Untranslatable(f"`{name}` has a constant operand")
        number = str(steps.children[0])
        if name == "persisted":
            return f"(({arg}) for at least {number})"
        return f"(once [0, {number}] ({arg}))"

    def value(self, node: Node | Token) -> str:
        """A number. Raises Untranslatable."""
        assert isinstance(node, Tree)
        parts = node.children
        match node.data:
            case "number":
                return str(parts[0])
            case "name":
                symbol = self.symbols.get(str(parts[0]))
                if symbol is None or symbol.type != "number":
                    raise Untranslatable(f"`{parts[0]}` is a truth value and is used as a number")
                return self._symbol(str(parts[0])).name
            case "arithmetic":
                return f"({self.value(parts[0])} {parts[1]} {self.value(parts[2])})"
            case "negative":
                return f"(-{self.value(parts[0])})"
            case "power":
                exponent = parts[1]
                if not isinstance(exponent, Tree) or exponent.data != "number":
                    raise Untranslatable("an exponent is not a number")
                return f"({self.value(parts[0])} ^ {exponent.children[0]})"
            case "call":
                return self._call(node)
            case _:
                raise Untranslatable("a condition is used as a number")

    def _call(self, node: Node) -> str:
        name, args = str(node.children[0]), node.children[1:]
        if name in ("preInt", "preReal"):
            if len(args) != 2:
                raise Untranslatable(f"`{name}` has {len(args)} arguments, and takes two")
            return f"(({self.value(args[1])}) 1 ago initially ({self.value(args[0])}))"
        if name not in FUNCTIONS:
            raise Untranslatable(f"the condition `{name}` is used as a number")
        return f"{FUNCTIONS[name]}({', '.join(self.value(arg) for arg in args)})"


def _operands(node: Node) -> list[Node]:
    """The operands of a chain of `and` or `or`, from left to right."""
    found: list[Node] = []
    waiting = [node]
    while waiting:
        one = waiting.pop()
        parts = [part for part in one.children if isinstance(part, Tree)]
        if one.data == node.data:
            waiting += reversed(parts)
        else:
            found.append(one)
    return found


def _is_whole(number: Node) -> bool:
    return str(number.children[0]).isdigit()


def _steps_of_bound(bound: str) -> tuple[int, int]:
    """The first and last step of ``[<=3]``, ``[<3]``, ``[=3]`` or ``[1, 3]``."""
    numbers = [int(digits) for digits in re.findall(r"\d+", bound)]
    if len(numbers) == 2:
        return numbers[0], numbers[1]
    if "<=" in bound:
        return 0, numbers[0]
    return (0, numbers[0] - 1) if "<" in bound else (numbers[0], numbers[0])


def _edge(first: bool) -> str:
    """``preBool(first, not first)``: `first` at the start and its opposite everywhere else."""
    return "at the start" if first else "(not at the start)"


def _not(arg: Truth) -> Truth:
    if isinstance(arg, bool):
        return not arg
    name = arg.removesuffix(" is true")
    return f"{name} is not true" if name.isidentifier() else f"(not ({arg}))"


def _all(args: Sequence[Truth], word: Literal["and", "or"]) -> Truth:
    decides = word == "or"
    if decides in args:
        return decides
    kept = [arg for arg in args if isinstance(arg, str)]
    if len(kept) < 2:
        return kept[0] if kept else not decides
    return f"({f' {word} '.join(kept)})"


def _both(*args: Truth) -> Truth:
    return _all(args, "and")


def _either(*args: Truth) -> Truth:
    return _all(args, "or")


def _if(antecedent: Truth, consequent: Truth) -> Truth:
    if isinstance(antecedent, bool) or isinstance(consequent, bool):
        return _either(_not(antecedent), consequent)
    return f"(if {antecedent} then {consequent})"


def _equal(left: Truth, right: Truth, word: str) -> Truth:
    if isinstance(left, bool):
        left, right = right, left
    if isinstance(right, bool):
        return left if right == (word == "iff") else _not(left)
    return f"({left} {word} {right})"


def _prefix(words: str, arg: Truth) -> Truth:
    """An operator that looks ahead from a step of the trace, of a condition or a constant."""
    if isinstance(arg, bool):
        return "at the end" if words == "weak next" and not arg else arg
    return f"({words} ({arg}))"


def _until(words: str, left: Truth, right: Truth) -> Truth:
    if isinstance(left, bool) or isinstance(right, bool):
        if right is True and "closed" not in words:
            return True
        raise Untranslatable("an operator of time has a constant operand", form=True)
    return f"({left} {words} {right})"


def _decided(condition: Truth) -> str:
    if isinstance(condition, bool):
        said = "satisfied" if condition else "violated"
        raise Untranslatable(f"every trace is {said}: there is nothing to check")
    return condition
