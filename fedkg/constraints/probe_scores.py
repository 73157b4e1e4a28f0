"""How often each constraint is violated by many models' answers on one probe set: what a server
scores its clients by.

A constraint that applies to no row of the probe set is not evaluated. Constraints over time never
are: a probe set has rows, no traces. All that depends on the probe set alone is evaluated once: see
`Specialised`.

Letters: K clients, P rows of the probe set, V runs of the model, H outputs, M constraints that
touch an output (the others say nothing of a model).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.constraints.binding.model_run_inputs import Keys, Previous
from fedkg.constraints.module import ConstraintModule
from fedkg.constraints.specialised.fixed_input_rules import Tally
from fedkg.errors import LayoutError

MOST = 16
"""At most this number of answer shapes is remembered by a probe, with the way to count them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProbeScores:
    """What the probe set says of K clients.

    Attributes:
        violation: float64 [K, M], violated rows / rows on which the constraint applies; NaN where
            it applies to none.
        counts: int64 [K, M], rows on which it applies: its keys match, for an implication its
            antecedent holds, and the row tells its verdict, as the first row does not for a rule
            that compares a row with the row before.
    """

    violation: Tensor
    counts: Tensor


class Probe:
    """A probe set under the rules of a module.

    Args:
        module: the rules.
        x: [P, F], the F features of the probe set, in the layout of the module's `x`.
        keys: as in `ConstraintModule.forward`.
        previous: as in `ConstraintModule.forward`.

    Attributes:
        inputs: [V * P, F], the rows on which each client's model must run.
        rows: P.
        inactive: rules (by name) that the probe set cannot score, and the reasons.
        rule: int64 [M], the rule (position in the pack) of each constraint.
        weight: float64 [M], the share of the rule's weight that each constraint has.
    """

    def __init__(
        self,
        module: ConstraintModule,
        x: Tensor,
        *,
        keys: Keys | None = None,
        previous: Previous = None,
    ) -> None:
        banks = [bank for bank in module.banks if bank.rows]
        self._module = module
        self._rules = module.specialise(x, keys=keys, previous=previous)
        self.inputs = self._rules.inputs.flatten(0, 1)
        self.rows = int(x.shape[0])
        self._tallies: dict[tuple[torch.Size, torch.dtype], Tally] = {}
        self.inactive = {**self._rules.inactive, **_over_time(module)}
        everything = torch.zeros(0, dtype=torch.int64, device=x.device)
        scored = [torch.full_like(bank.rule, bank.touches_output) for bank in banks]
        self._scored = torch.nonzero(torch.cat([everything, *scored]))[:, 0]
        self._timeless = torch.cat(
            [everything, *(torch.full_like(bank.rule, not bank.temporal) for bank in banks)]
        )[self._scored]
        self._whole = len(self._scored) == sum(bank.rows for bank in banks) and bool(
            self._timeless.all()
        )  # nothing is left out
        self.rule = torch.cat([everything, *(bank.rule for bank in banks)])[self._scored]
        self.weight = torch.cat([everything.double(), *(bank.weight for bank in banks)])[
            self._scored
        ]

    @property
    def constraints(self) -> int:
        """M."""
        return int(self.rule.shape[0])

    def not_evaluated(self, scores: ProbeScores) -> tuple[str, ...]:
        """Names of rules without a constraint that applies to any row of the probe set, for any
        client.
        """
        names = self._module.rule_names
        applied = set(self.rule[scores.counts.any(dim=0)].tolist())
        return tuple(names[rule] for rule in sorted(set(self.rule.tolist()) - applied))

    def violation(self, y: Tensor) -> Tensor:
        """`ProbeScores.violation`, which is all that weights are made of; `y` as in `score`."""
        y = y.detach()
        tally = self._tallies.get((y.shape, y.dtype))
        violated = None if tally is None else tally.violated(y)
        if tally is None or violated is None:
            return self.score(y).violation
        return violated / tally.evaluated

    def score(self, y: Tensor) -> ProbeScores:
        """The scores of K clients by their models' answers on `inputs`.

        An answer that is not a finite number satisfies nothing: where it leaves a constraint open,
        it counts as violated.

        Args:
            y: [K, V * P, H], or [K, V * P] for one output.
        """
        y = y.detach()
        runs, entries = len(self._module.plan.runs), len(self._module.plan.y)
        given, y = y, y[..., None] if y.ndim == 2 and entries == 1 else y
        if y.ndim != 3 or y.shape[1:] != (self.inputs.shape[0], entries):
            raise LayoutError(
                "the answers do not fit the probe set",
                expected=f"shape [K, {self.inputs.shape[0]}, {entries}] for K models",
                received=f"shape {list(given.shape)}",
            )
        answers = y.reshape(y.shape[0], runs, self.rows, entries)
        found = self._rules.counts(answers, unanswered="violated")
        if (
            self._whole
            and len(self._tallies) < MOST
            and (given.shape, given.dtype) not in self._tallies
        ):
            short = self._rules.tally(answers)
            if short is not None:
                self._tallies[given.shape, given.dtype] = short
        violated, evaluated = self._chosen(found.violated), self._chosen(found.evaluated)
        return ProbeScores(violation=violated.double().div_(evaluated), counts=evaluated)

    def _chosen(self, counts: Tensor) -> Tensor:
        """Of counts [K, R] of all rules those of the constraints that are scored, [K, M].

        Those over time apply nowhere.
        """
        return counts if self._whole else counts[:, self._scored] * self._timeless


def _over_time(module: ConstraintModule) -> dict[str, str]:
    """Rules (by name) that a probe set of rows cannot score, and why."""
    rules = {rule for bank in module.banks if bank.temporal for rule in bank.rule.tolist()}
    return {
        module.rule_names[rule]: "is judged over time; a probe set has rows, no traces"
        for rule in sorted(rules)
    }
