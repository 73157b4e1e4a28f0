"""Random temporal formulas over two channels x and y."""

from __future__ import annotations

import random

from fedkg.pack import And, Compare, Formula, Implies, Not, Or, Param, Slot, Temporal, Until


class Maker:
    """Random formulas in our form and as rtamt's text, their numbers collected in `params`."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.params: list[float] = [1.0]

    def formula(self, depth: int) -> tuple[Formula, str]:
        """A formula with operators nested up to `depth`."""
        if depth == 0 or self.dice.random() < 0.1:
            return self._predicate()
        kind = self.dice.choice(
            [
                "not",
                "and",
                "or",
                "implies",
                "window",
                "window",
                "ever",
                "until",
                "until",
                "ever until",
                "step",
            ]
        )
        one, text = self.formula(depth - 1)
        if kind == "not":
            return Not(arg=one), f"not({text})"
        if kind in ("window", "ever"):
            op = self.dice.choice(["always", "eventually", "historically", "once"])
            low, high, shown = self._window(kind == "window")
            return Temporal(op=op, low=low, high=high, arg=one), f"({op}{shown}({text}))"
        if kind == "step":
            low, high = self._number(1.0), self._number(1.0)
            op, word = self.dice.choice(
                [
                    ("always", "next"),
                    ("historically", "prev"),
                    ("eventually", "s_next"),
                    ("once", "s_prev"),
                ]
            )
            return Temporal(op=op, low=low, high=high, arg=one), f"({word}({text}))"
        other, more = self.formula(depth - 1)
        if kind in ("until", "ever until"):
            op = self.dice.choice(["until", "since"])
            low, high, shown = self._window(kind == "until")
            return Until(
                op=op, low=low, high=high, left=one, right=other
            ), f"(({text}) {op}{shown} ({more}))"
        if kind == "implies":
            return Implies(antecedent=one, consequent=other), f"(({text}) implies ({more}))"
        return (And if kind == "and" else Or)(args=(one, other)), f"(({text}) {kind} ({more}))"

    def _predicate(self) -> tuple[Formula, str]:
        slot, bound, op = (
            self.dice.randrange(2),
            self.dice.choice([-1.5, 0.0, 0.5, 2.25]),
            self.dice.choice(["<=", "<", ">=", ">", "=="]),
        )
        here, there = Slot(index=slot), Param(index=self._number(bound))
        left, right = (there, here) if op[0] == ">" else (here, there)
        name = {"=": "eq"}.get(op[0], "le" if op.endswith("=") else "lt")
        value = f"({bound})" if bound >= 0 else f"(0 - {-bound})"
        return Compare.model_validate(
            {"op": name, "left": left, "right": right, "scale": 0}
        ), f"({'xy'[slot]} {op} {value})"

    def _window(self, bounded: bool) -> tuple[int, int, str]:
        low = self.dice.randrange(4) if bounded else 0
        high = low + self.dice.randrange(4) if bounded else -1
        return self._number(low), self._number(high), f"[{low},{high}]" if bounded else ""

    def _number(self, value: float) -> int:
        self.params.append(float(value))
        return len(self.params) - 1
