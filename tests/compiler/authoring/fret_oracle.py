"""An evaluator of the formulas that FRET publishes, written from their semantics alone.

The formulas are fully parenthesised. A formula over the past holds for a trace if it is true at its
last step, one over the future if it is true at its first step; both over finite traces.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

TOKEN = re.compile(
    r"\s*([A-Za-z_]\w*|\d+(?:\.\d+)?|<->|<=>|<=|>=|!=|->|=>|\[[^\]]*\]|[-+*/^()=<>&|!,])"
)
MEANING: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "&": lambda a, b: a and b,
    "|": lambda a, b: a or b,
    "->": lambda a, b: not a or b,
    "<->": lambda a, b: a == b,
}
TIME = ("G", "F", "X", "H", "O", "Y", "Z")
NUMERIC = {"absReal": abs, "absInt": abs, "sin": math.sin, "cos": math.cos, "sqrt": math.sqrt}


def read(text: str) -> Any:
    """The formula as nested tuples."""
    tokens, place = [], 0
    while place < len(text.rstrip()):
        found = TOKEN.match(text, place)
        assert found, text[place:]
        tokens.append(found[1])
        place = found.end()
    tree, rest = _chain(tokens, 0)
    assert rest == len(tokens), tokens[rest:]
    return tree


def _chain(tokens: list[str], i: int) -> tuple[Any, int]:
    """``term (operator term)*``, from left to right; parentheses leave one operator at most."""
    tree, i = _term(tokens, i)
    while i < len(tokens) and (tokens[i] in MEANING or tokens[i] in ("U", "V", "S")):
        operator = tokens[i]
        right, i = _term(tokens, i + 1)
        tree = ("two", operator, tree, right)
    return tree, i


def _term(tokens: list[str], i: int) -> tuple[Any, int]:
    token = tokens[i]
    if token == "(":
        tree, i = _chain(tokens, i + 1)
        assert tokens[i] == ")"
        return tree, i + 1
    if token in ("!", "-"):
        tree, i = _term(tokens, i + 1)
        return (token, tree), i
    if token in TIME:
        bound = None
        if tokens[i + 1].startswith("["):
            i += 1
            bound = tokens[i]
        tree, i = _term(tokens, i + 1)
        return ("time", token, bound, tree), i
    if re.fullmatch(r"[\d.]+", token):
        return ("number", float(token)), i + 1
    if i + 1 < len(tokens) and tokens[i + 1] == "(":
        args, i = [], i + 1
        while tokens[i] != ")":
            arg, i = _chain(tokens, i + 1)
            args.append(arg)
        return ("call", token, *args), i + 1
    return ("name", token), i + 1


def _window(bound: str | None) -> tuple[float, float]:
    if bound is None:
        return 0, math.inf
    numbers = [int(one) for one in re.findall(r"\d+", bound)]
    if len(numbers) == 2:
        return numbers[0], numbers[1]
    if "<=" in bound:
        return 0, numbers[0]
    return (0, numbers[0] - 1) if "<" in bound else (numbers[0], numbers[0])


class Trace:
    """A finite trace: a list of values for each variable, and the values of constants."""

    def __init__(
        self, values: Mapping[str, Sequence[Any]], constants: Mapping[str, float], future: bool
    ) -> None:
        self.values, self.constants, self.future = values, constants, future
        self.length = len(next(iter(values.values())))
        self.known: dict[tuple[int, int], Any] = {}

    def at(self, node: Any, t: int) -> Any:
        """The value of a formula at step `t`."""
        key = id(node), t
        if key not in self.known:
            self.known[key] = self._at(node, t)
        return self.known[key]

    def _at(self, node: Any, t: int) -> Any:
        last = self.length - 1
        match node:
            case ("number", value):
                return value
            case ("name", name):
                return self._named(name, t)
            case ("!", arg):
                return not self.at(arg, t)
            case ("-", arg):
                return -self.at(arg, t)
            case ("two", "U", a, b):
                return any(
                    self.at(b, u) and all(self.at(a, v) for v in range(t, u))
                    for u in range(t, last + 1)
                )
            case ("two", "V", a, b):
                return all(
                    self.at(b, u) or any(self.at(a, v) for v in range(t, u))
                    for u in range(t, last + 1)
                )
            case ("two", "S", a, b):
                return any(
                    self.at(b, u) and all(self.at(a, v) for v in range(u + 1, t + 1))
                    for u in range(t + 1)
                )
            case ("two", "=" | "!=" as sign, a, b):
                return MEANING[sign](self.at(a, t), self.at(b, t))
            case ("two", sign, a, b):
                return MEANING[sign](self.at(a, t), self.at(b, t))
            case ("time", "X", None, arg):
                return t < last and self.at(arg, t + 1)
            case ("time", "Y", None, arg):
                return t > 0 and self.at(arg, t - 1)
            case ("time", "Z", None, arg):
                return t == 0 or self.at(arg, t - 1)
            case ("time", letter, bound, arg):
                low, high = _window(bound)
                way = 1 if letter in "GF" else -1
                steps = (u for u in range(self.length) if low <= (u - t) * way <= high)
                found = (self.at(arg, u) for u in steps)
                return all(found) if letter in "GH" else any(found)
            case ("call", "preBool" | "preInt" | "preReal", first, arg):
                return self.at(first, 0) if t == 0 else self.at(arg, t - 1)
            case ("call", "persisted", ("number", n), arg):
                return t >= n and all(self.at(arg, u) for u in range(t - int(n), t + 1))
            case ("call", name, arg):
                return NUMERIC[name](self.at(arg, t))
        raise AssertionError(node)

    def _named(self, name: str, t: int) -> Any:
        if name in self.values:
            return self.values[name][t]
        if name in self.constants:
            return self.constants[name]
        match name:
            case "TRUE" | "FALSE":
                return name == "TRUE"
            case "FTP":
                return t == 0
            case "LAST":
                return t == self.length - 1
        kind, _, mode = name.partition("_")
        modes = self.values[mode]
        if self.future:  # the step before an interval, and its last step
            if kind == "Fin":
                return t + 1 < self.length and not modes[t] and modes[t + 1]
            return t + 1 < self.length and modes[t] and not modes[t + 1]
        if kind == "Fin":  # the first step of an interval, and the one after it
            return modes[t] and (t == 0 or not modes[t - 1])
        return t > 0 and modes[t - 1] and not modes[t]


def holds(
    formula: Any,
    values: Mapping[str, Sequence[Any]],
    constants: Mapping[str, float],
    *,
    future: bool,
) -> bool:
    """Whether a formula holds for a trace."""
    trace = Trace(values, constants, future)
    return bool(trace.at(formula, 0 if future else trace.length - 1))
