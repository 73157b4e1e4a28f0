"""Score models by rules that compare rows, on traces that the server holds.

Rows of a probe are independent, so rules over time, monotone rules and rules about the row before
need consecutive rows. Everything else stays with `PackScorer`.

Letters: C clients of a stack, W traces, T steps of each, F features, V runs of the model, H
outputs, R constraints of the pack, M of them that touch an output.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from fedkg.constraints.binding.model_run_inputs import Keys
from fedkg.constraints.module import ConstraintModule, ConstraintWarning
from fedkg.federated.device_transfer import on_device
from fedkg.federated.server.pack_scorer import MEMORY, PackScorer, scored_rows
from fedkg.federated.server.scoring import ProbeScores, ScoredRows
from fedkg.models.activation_memory import footprint
from fedkg.models.model_protocols import Model, Params


class TraceScorer:
    """Scores stacked models by all rules of a pack: on rows, and on traces of consecutive rows.

    The violation rate of a rule that compares rows is violated steps / evaluated steps over all
    traces; see `Scorer`.

    Args:
        rows: the scorer of the rules about single rows; its rates of other rules are replaced.
        model: the model of the scored parameters; it predicts one row at a time.
        rules: the pack over the layout of the model's inputs and outputs.
        x: traces [W, T, F] of consecutive steps, unlabelled.
        keys: of the traces, [W] or [W, T] each, as in `ConstraintModule.forward`.
    """

    def __init__(
        self,
        rows: PackScorer,
        model: Model,
        rules: ConstraintModule,
        x: Tensor,
        *,
        keys: Keys | None = None,
    ) -> None:
        self._base, self._model, self._rules, self._x = rows, model, rules, x
        self._keys = keys
        touched = [torch.full_like(bank.rule, bank.touches_output) for bank in rules.banks]
        self._scored = torch.nonzero(torch.cat(touched))[:, 0]
        owner = torch.cat([bank.rule for bank in rules.banks])[self._scored].tolist()
        across = rules.plan.across_rows
        self._on_traces = torch.tensor(
            [place for place, rule in enumerate(owner) if rule in across], dtype=torch.int64
        )
        others = {
            name: reason
            for name, reason in zip(rows.rows.names, rows.rows.reasons, strict=True)
            if reason
        }
        names = {rules.rule_names[rule] for rule in across}
        self._rows = scored_rows(
            rules, {rule: reason for rule, reason in _by_rule(others).items() if rule not in names}
        )

    def to(self, device: torch.device) -> TraceScorer:
        """The same on another device."""
        model, rules, x, keys = on_device((self._model, self._rules, self._x, self._keys), device)
        return TraceScorer(self._base.to(device), model, rules, x, keys=keys)

    @property
    def rows(self) -> ScoredRows:
        """See `Scorer.rows`."""
        return self._rows

    def score(self, params: Params) -> ProbeScores:
        """See `Scorer.score`; a trace with an answer that is not finite satisfies no rule."""
        violation = self._base.score(params).violation.clone()
        first = next(iter(params.values()))
        x = self._x.to(first.dtype)
        held = footprint(self._model, params, x.flatten(0, 1))
        size = (held.client + held.sample * x.shape[0] * x.shape[1]) * x.element_size() + 1
        step = max(1, MEMORY // size)
        for at in range(0, first.shape[0], step):
            some = {name: value[at : at + step] for name, value in params.items()}
            violated, evaluated = self._counts(some, x)
            violation[at : at + step, self._on_traces] = (violated.double() / evaluated).to(
                violation
            )
        return ProbeScores(violation=violation)

    def _counts(self, params: Params, x: Tensor) -> tuple[Tensor, Tensor]:
        """Violated and evaluated steps of each constraint that compares rows, int64 [C, .]."""
        traces, steps = x.shape[:2]
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConstraintWarning)
            views = self._rules.views(x, keys=self._keys)
            answers = self._model.apply(params, views.flatten(0, 2))
            clients = answers.shape[0]
            answers = answers.reshape(clients, len(views), traces, steps, -1).transpose(0, 1)
            answers = answers.reshape(len(views), clients * traces, steps, -1)
            lost = ~torch.isfinite(answers).all(3).all(0)
            keys = None if self._keys is None else _repeat_keys(self._keys, clients)
            known_answers = torch.nan_to_num(answers if len(views) > 1 else answers[0])
            report = self._rules(x.repeat(clients, 1, 1), known_answers, keys=keys).at_steps
            chosen = self._scored[self._on_traces]
            # A lost answer leaves no verdict open in a client's favour.
            broken = lost.any(1)[:, None, None] & report.applicable[..., chosen]
            known = (report.fired & ~report.unknown)[..., chosen]
            violated = (report.violated[..., chosen] & known) | broken
            evaluated = known | broken
        count = (clients, traces * steps, len(chosen))
        return violated.reshape(count).sum(1), evaluated.reshape(count).sum(1)


def _by_rule(reasons: dict[str, str]) -> dict[str, str]:
    """Reasons by the rule of a constraint `rule[entity]`."""
    return {name.partition("[")[0]: reason for name, reason in reasons.items()}


def _repeat_keys(keys: Keys, clients: int) -> dict[str, Tensor]:
    """The codes of the traces once for every client."""
    return {name: codes.repeat(clients, *([1] * (codes.ndim - 1))) for name, codes in keys.items()}
