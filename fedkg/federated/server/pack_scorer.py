"""A constraint pack as the server's judge of updates.

Letters: C clients of a stack, P probe rows, V runs of the model, F features, H outputs, M
constraints.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import torch
from torch import Tensor

from fedkg.constraints.binding.model_run_inputs import Keys, Previous
from fedkg.constraints.module import ConstraintModule, ConstraintWarning
from fedkg.constraints.probe_scores import Probe
from fedkg.federated.device_transfer import on_device
from fedkg.federated.server.scoring import ProbeScores, ScoredRows
from fedkg.models.activation_memory import Footprint, footprint
from fedkg.models.model_protocols import Model, Params

SINGLE_ROWS = "it compares rows, and probe rows are independent"
"""Why a rule about several rows or steps is not evaluated on a probe."""

MEMORY = 256 << 20
"""Bytes that the model's hidden values may take when it runs on the probe rows for a stack of
clients.
"""


class PackScorer:
    """Scores stacked models by a pack's rules on probe rows of the server (never on data of a
    client); see `Scorer`.

    Only constraints on outputs are scored: rules over inputs alone check data, and would dilute the
    score. Rules over time are not evaluated, because a probe row is not a step of a trace.

    Args:
        model: the model of the scored parameters. Its raw outputs match the layout of the rules:
            for a probability, ``fedkg.logit``.
        rules: the pack over the layout of the model's inputs and outputs.
        x: probe rows [P, F], unlabelled; converted to the parameters' type.
        keys: of the probe rows, as in `ConstraintModule.forward`.
        previous: the rows before them, as in `ConstraintModule.forward`.
    """

    def __init__(
        self,
        model: Model,
        rules: ConstraintModule,
        x: Tensor,
        *,
        keys: Keys | None = None,
        previous: Previous = None,
    ) -> None:
        self._model = model
        self._asked = rules, x, keys, previous
        with warnings.catch_warnings():  # `ScoredRows.reasons` says which rules are not evaluated
            warnings.simplefilter("ignore", ConstraintWarning)
            self._probe = Probe(rules, x, keys=keys, previous=previous)
        across = rules.plan.across_rows if previous is None else frozenset()
        reasons = _without_columns(rules, self._probe.inactive)
        reasons |= {rules.rule_names[rule]: SINGLE_ROWS for rule in across}
        self._rows = scored_rows(rules, reasons)
        self._held: Footprint | None = None

    def to(self, device: torch.device) -> PackScorer:
        """The same on another device."""
        model, (rules, x, keys, previous) = on_device((self._model, self._asked), device)
        return PackScorer(model, rules, x, keys=keys, previous=previous)

    @property
    def rows(self) -> ScoredRows:
        """See `Scorer.rows`."""
        return self._rows

    def score(self, params: Params) -> ProbeScores:
        """See `Scorer.score`."""
        first = next(iter(params.values()))
        x = self._probe.inputs.to(first.dtype)
        if self._held is None:  # of one model, whichever stack it comes in
            self._held = footprint(self._model, params, x)
        step = max(
            1,
            MEMORY // ((self._held.client + self._held.sample * x.shape[0]) * x.element_size() + 1),
        )
        clients = first.shape[0]
        with torch.no_grad():
            several = (
                (
                    {name: value[start : start + step] for name, value in params.items()}
                    if clients > step
                    else params
                )
                for start in range(0, clients, step)
            )
            parts = [self._model.apply(some, x) for some in several]
            answers = parts[0] if len(parts) == 1 else torch.cat(parts)
            return ProbeScores(violation=self._probe.violation(answers))


def _without_columns(rules: ConstraintModule, inactive: Mapping[str, str]) -> dict[str, str]:
    """The reasons by the name of a rule; if a category is missing, with the header of its
    column.
    """
    reasons = dict(inactive)
    for (column, _), needing in rules.plan.needs.items():
        if column >= 0 and rules.pack.manifest.contract.columns[column].type == "category":
            header = rules.pack.manifest.contract.columns[column].source
            for name in {rules.rule_names[rule] for rule in needing} & inactive.keys():
                reasons[name] = f"the probe rows have no column `{header}`"
    return reasons


def scored_rows(rules: ConstraintModule, inactive: Mapping[str, str] | None = None) -> ScoredRows:
    """What the pack says of the constraints that are scored, in the probe's order: banks in pack
    order, those on outputs.

    `inactive` gives, for the name of a rule that no probe row can decide, the reason.
    """
    inactive = {} if inactive is None else inactive
    manifest, device = rules.pack.manifest, next((bank.weight.device for bank in rules.banks), None)
    names, families, weights, hard, reasons = [], [], [], [], []
    for bank, tensors in zip(rules.pack.banks, rules.banks, strict=True):
        if not (tensors.touches_output and tensors.rows):
            continue
        for rule, entity, weight in zip(
            bank.rule.tolist(), bank.entity.tolist(), bank.weight.tolist(), strict=True
        ):
            record, label = manifest.rules[rule], manifest.entities[entity]
            names.append(f"{record.name}[{label}]" if label else record.name)
            families.append(record.kind)
            weights.append(weight)
            hard.append(record.hard)
            reasons.append(inactive.get(record.name, ""))
    return ScoredRows(
        names=tuple(names),
        families=tuple(families),
        weight=torch.tensor(weights, dtype=torch.float64, device=device),
        hard=torch.tensor(hard, dtype=torch.bool, device=device),
        reasons=tuple(reasons),
    )
