"""Random traces for a requirement, and the verdict of its rule on them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from fret_oracle import Trace, holds, read

from fedkg.constraints.meaning.interpreter import evaluate_bank
from fedkg.evaluation import table_values
from fedkg.evaluation.table_time_steps import table_timing
from fedkg.pack import Pack
from fedkg.tables import read_bytes

Values = dict[str, list[Any]]


@dataclass(frozen=True, kw_only=True)
class Oracle:
    """The published formulas of a requirement.

    Attributes:
        types: of its variables, without constants. constants: the numbers of the others.
    """

    past: tuple[Any, ...]
    future: tuple[Any, ...]
    types: Mapping[str, str]
    constants: Mapping[str, float]
    numbers: tuple[float, ...]

    @classmethod
    def of(
        cls,
        past: Sequence[str],
        future: Sequence[str],
        types: Mapping[str, str],
        constants: Mapping[str, float],
    ) -> Oracle:
        text = " ".join([*past, *future])
        names = set(re.findall(r"[A-Za-z_]\w*", text))
        names |= {name.partition("_")[2] for name in names if name[:4] in ("Fin_", "Lin_")}
        written = {float(one) for one in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)}
        used = {value for name, value in constants.items() if name in names}
        most = max([1.0, *written, *used]) + 1
        return cls(
            past=tuple(map(read, past)),
            future=tuple(map(read, future)),
            types={name: kind for name, kind in types.items() if name in names},
            constants=constants,
            numbers=tuple(sorted({0.0, 1.0, -1.0, most, -most} | written | used)),
        )

    def verdict(self, trace: Values) -> bool:
        """Whether the trace satisfies the requirement; all formulas must agree."""
        found = {
            holds(formula, trace, self.constants, future=future)
            for formulas, future in ((self.past, False), (self.future, True))
            for formula in formulas
        }
        assert len(found) == 1, ("the published formulas differ", trace)
        return found.pop()

    def traces(self, seed: int, count: int, longest: int) -> list[tuple[Values, bool]]:
        """Traces with their verdicts: random ones, some that are searched to satisfy the
        requirement, and some to violate it.
        """
        random = Random(seed)
        found: list[tuple[Values, bool]] = []
        while len(found) < count:
            length = random.randint(1, longest)
            trace = self._random(random, length, steady=random.random() < 0.5)
            if len(found) % 4 == 1:
                trace = self._climb(random, trace)
            if len(found) % 4 == 3:
                trace = self._violating(random, longest)
            if self._score(trace) >= 0:
                found.append((trace, self.verdict(trace)))
        return found

    def _value(self, random: Random, name: str) -> Any:
        if self.types[name] == "boolean":
            return random.random() < 0.5
        return random.choice(self.numbers)

    def _random(self, random: Random, length: int, *, steady: bool) -> Values:
        """Values that are the same at most steps (`steady`), or that change at each."""
        trace = {}
        for name in self.types:
            column = [self._value(random, name)]
            while len(column) < length:
                keep = steady and random.random() < 0.9
                column.append(column[-1] if keep else self._value(random, name))
            trace[name] = column
        return trace

    def _climb(self, random: Random, trace: Values) -> Values:
        """A trace with more true comparisons, until it satisfies the formula."""
        best = self._score(trace)
        for _ in range(25 * len(trace)):
            name = random.choice(list(trace))
            length = len(trace[name])
            column = [self._value(random, name)] * length
            if random.random() < 0.5:
                column = [*trace[name]]
                column[random.randrange(length)] = self._value(random, name)
            changed = {**trace, name: column}
            score = self._score(changed)
            if score >= best:
                trace, best = changed, score
        return trace

    def _violating(self, random: Random, length: int) -> Values:
        """A trace that violates the first formula, or the last one that was tried."""
        trace: Values = {}
        for _ in range(60):
            trace = self._random(random, length, steady=random.random() < 0.8)
            if self._score(trace) >= 0 and not holds(
                self.past[0], trace, self.constants, future=False
            ):
                break
        return trace

    def _score(self, trace: Values) -> float:
        """How many comparisons of the first formula are true.

        -1 if one divides by zero or takes the root of a negative number, which is undefined in
        FRET and unknown in fedkg.
        """
        meaning = Trace(trace, self.constants, future=False)
        try:
            return sum(
                bool(meaning.at(node, t))
                for node in _atoms(self.past[0])
                for t in range(meaning.length)
            )
        except (ZeroDivisionError, ValueError):
            return -1


def _atoms(node: Any) -> list[Any]:
    if not isinstance(node, tuple):
        return []
    if node[0] == "two" and node[1] in ("=", "!=", "<", "<=", ">", ">="):
        return [node]
    return [atom for part in node for atom in _atoms(part)]


def rule_verdicts(pack: Pack, rule: str, traces: Sequence[Values]) -> list[bool]:
    """Whether each trace satisfies a rule at every step at which it applies.

    A rule with `initially` applies at the first step. No verdict may be unknown.
    """
    contract = pack.manifest.contract
    headers = [column.name for column in contract.columns]
    lines = [",".join(["trace", *headers])]
    for i, trace in enumerate(traces):
        length = len(next(iter(trace.values())))
        for t in range(length):
            cells = (trace[name][t] if name in trace else 0 for name in headers)
            lines.append(",".join([f"t{i}", *(repr(float(cell)) for cell in cells)]))
    table = read_bytes("\n".join([*lines, ""]).encode(), "traces.csv")
    timing, _ = table_timing(contract, table)
    values = table_values(contract, table).values
    number = next(i for i, one in enumerate(pack.manifest.rules) if one.name == rule)
    bank = next(bank for bank in pack.banks if number in bank.rule.tolist())
    place = bank.rule.tolist().index(number)
    result = evaluate_bank(bank, values, timing)
    satisfied, violated = result.satisfied[:, place], result.violated[:, place]
    first = bank.skeleton.kind == "initially"
    found, start = [], 0
    for trace in traces:
        end = start + len(next(iter(trace.values())))
        steps = slice(start, start + 1 if first else end)
        assert np.all(satisfied[steps] ^ violated[steps]), (rule, trace)
        found.append(bool(satisfied[steps].all()))
        start = end
    return found
