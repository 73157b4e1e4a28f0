"""A formula over a trace of known length as one Boolean expression over literals at steps.

Negations are pushed to the comparisons. Windows beyond the trace are clipped or rejected, as the
data contract specifies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fedkg.constraints.meaning.trace_robustness import reach, window_at
from fedkg.errors import HorizonError, SetError
from fedkg.pack.formulas import (
    And,
    Compare,
    Formula,
    Implies,
    Initially,
    Known,
    Not,
    Or,
    Temporal,
    Until,
)
from fedkg.teacher.boolean_expressions import FALSE, TRUE, Expressions
from fedkg.teacher.literals import Literals


@dataclass(slots=True)
class Unrolling:
    """Unrolls a formula over T steps.

    Attributes:
        numbers: the formula's parameters, for those that are bounds of windows.
        clip: whether windows end with the trace.
        open_end: without `clip`, whether comparisons beyond the trace may still become true, as in
            verdicts on rules: the formula then requires only that nothing violates it already.
            Otherwise a window beyond the trace is an error.
    """

    steps: int
    numbers: Sequence[float]
    clip: bool
    literals: Literals
    open_end: bool = False
    expressions: Expressions = field(default_factory=Expressions)
    _known: dict[tuple[int, bool, int], int] = field(default_factory=dict)
    _nodes: list[Formula] = field(default_factory=list)

    def at(self, formula: Formula, step: int, positive: bool = True) -> int:
        """The expression of a formula, or of its negation, at a step.

        Raises:
            HorizonError: a window reaches beyond the trace, and the contract does not clip it.
            SetError: a part that the teacher does not support.
        """
        key = (id(formula), positive, step)
        if key not in self._known:
            self._known[key] = self._unrolled(formula, step, positive)
            self._nodes.append(formula)  # keep the formula alive, because its id is the key
        return self._known[key]

    def throughout(self, formula: Formula) -> int:
        """The expression of a formula at every step; with strict ends, at the steps from which it
        stays within the trace.

        Raises:
            HorizonError: there is no such step.
            SetError: as `at`.
        """
        far = reach(formula, self.numbers)
        whole = self.clip or self.open_end
        first, last = (0, self.steps - 1) if whole else (far.back, self.steps - 1 - far.ahead)
        if isinstance(formula, Initially):
            return self.at(formula, 0)
        if first > last:
            raise HorizonError(
                (
                    f"the formula looks {far.back:g} steps back and {far.ahead:g} ahead, beyond "
                    "the trace"
                ),
                expected=f"more than {far.back + far.ahead:g} steps",
                received=f"{self.steps} steps",
                help="project longer traces, or write `timeline ... ends clip`",
            )
        return self.expressions.all_of(
            self.at(formula, step) for step in range(int(first), int(last) + 1)
        )

    def _unrolled(self, formula: Formula, step: int, positive: bool) -> int:
        join = self.expressions.all_of if positive else self.expressions.any_of
        dual = self.expressions.any_of if positive else self.expressions.all_of
        outside = not 0 <= step < self.steps
        match formula:
            case Compare() if outside:
                return TRUE
            case Compare():
                how, numbers = self.literals.literals_of(formula, positive)
                each = [self.expressions.literal(step, number) for number in numbers]
                return (
                    self.expressions.all_of(each) if how == "and" else self.expressions.any_of(each)
                )
            case Not():
                return self.at(formula.arg, step, not positive)
            case And():
                return join(self.at(arg, step, positive) for arg in formula.args)
            case Or():
                return dual(self.at(arg, step, positive) for arg in formula.args)
            case Implies():
                return dual(
                    (
                        self.at(formula.antecedent, step, not positive),
                        self.at(formula.consequent, step, positive),
                    )
                )
            case Initially():
                return self.at(formula.arg, 0, positive)
            case Known():
                return TRUE if positive else FALSE  # predicted values are always known
            case Temporal() | Until() if outside and not self._window(formula, step):
                return TRUE
            case Temporal():
                every = (formula.op in ("always", "historically")) == positive
                each = [
                    self.at(formula.arg, other, positive) for other in self._window(formula, step)
                ]
                return self.expressions.all_of(each) if every else self.expressions.any_of(each)
            case Until():
                return self._until(formula, step, positive)
            case _:
                raise SetError(
                    "the teacher cannot correct traces for this formula",
                    expected="comparisons, `and`, `or`, `not`, `if`, and operators over time",
                    received=f"a part of the kind `{formula.kind}`",
                    help="write the formula without this part, or leave the rule out",
                )

    def _until(self, formula: Until, step: int, positive: bool) -> int:
        """Until by its recursion from the far end: there, or here and later."""
        both = self.expressions.all_of if positive else self.expressions.any_of
        either = self.expressions.any_of if positive else self.expressions.all_of
        window = set(self._window(formula, step))
        forward = formula.op == "until"
        far = (max(window, default=step - 1)) if forward else min(window, default=step + 1)
        result = FALSE if positive else TRUE
        for other in range(far, step - 1, -1) if forward else range(far, step + 1):
            here = self.at(formula.left, other, positive)
            there = (
                self.at(formula.right, other, positive)
                if other in window
                else (FALSE if positive else TRUE)
            )
            result = (
                both((here, either((there, result))))
                if formula.closed
                else either((there, both((here, result))))
            )
        return result

    def _window(self, formula: Temporal | Until, step: int) -> range:
        first, last = window_at(formula, self.numbers, step, self.steps)
        if self.open_end and not self.clip:
            return range(first, last + 1)
        if not self.clip and (first < 0 or last >= self.steps):
            raise HorizonError(
                f"a window reaches from step {first} to {last}, beyond the trace",
                expected=f"steps 0 to {self.steps - 1}",
                help="project longer traces, or write `timeline ... ends clip`",
            )
        return range(max(first, 0), min(last, self.steps - 1) + 1)
