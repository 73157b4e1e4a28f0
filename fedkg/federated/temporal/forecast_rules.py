"""Rules on forecasts: a forecast is a trace, and rules over time are judged on it, as a penalty in
training and as a score at the server.

Letters: C clients of a stack, B batch, W windows of a probe, T steps of the history, F features, P
steps of the forecast, V channels,
M constraints that touch an output.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from fedkg.constraints.binding.layout import InputLayout, OutputLayout, outputs_of
from fedkg.constraints.engine.skeleton_properties import reads_output
from fedkg.constraints.module import ConstraintModule
from fedkg.constraints.report import ConstraintReport
from fedkg.errors import JobError
from fedkg.federated.device_transfer import on_device
from fedkg.federated.round_steps import Step
from fedkg.federated.server.pack_scorer import scored_rows
from fedkg.federated.server.scoring import ProbeScores, ScoredRows
from fedkg.federated.temporal.properties import as_traces
from fedkg.models.activation_memory import footprint
from fedkg.models.model_protocols import Model, Params
from fedkg.pack import Pack

MEMORY = 256 << 20
"""Bytes that the model's hidden values may take when it forecasts the probe's windows for a stack
of clients.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForecastRules:
    """A pack over forecasts of V channels.

    An output of the rules is a channel of the forecast. ``past x`` is the step before: for the
    first step the last observation, for all others the forecast itself, without gradient.

    Attributes:
        module: the rules that touch an output, over the layout of the channels.
        steps: P.
        last: the positions of the channels among the F features; None if the history does not
            contain them.
        factor: [V], the factor from the scaling of each feature to that of its channel; None: 1.
        offset: [V], the summand after this factor; None: 0.
    """

    module: ConstraintModule
    steps: int
    last: tuple[int, ...] | None = None
    factor: Tensor | None = None
    offset: Tensor | None = None

    @property
    def channels(self) -> int:
        """V."""
        return len(self.module.plan.x.names)

    def last_values(self, x: Tensor) -> Tensor:
        """What windows x [B, T, F] observed last, [B, V] as forecasts are scaled; NaN if the
        history does not have the channels.
        """
        if self.last is None:
            return x.new_full((len(x), self.channels), torch.nan)
        observed = x[:, -1, list(self.last)]
        if self.factor is not None and self.offset is not None:
            observed = observed * self.factor.to(observed) + self.offset.to(observed)
        return observed

    def report(self, output: Tensor, x: Tensor) -> ConstraintReport:
        """What the rules say of forecasts [B, P * V] for windows x [B, T, F]; one verdict for each
        forecast.
        """
        traces = as_traces(output, self.steps, self.channels)
        held = traces.detach()
        before = self.last_values(x).to(held.dtype).unsqueeze(1)
        found: ConstraintReport = self.module(
            held, traces, previous=torch.cat([before, held[:, :-1]], 1)
        )
        return found


def forecast_rules(pack: Pack, channels: InputLayout, steps: int) -> ForecastRules:
    """The rules of a pack that read an output, over forecasts with these channel names and scales.

    Raises:
        LayoutError: if a rule reads a column or an output that is not a channel.
    """
    own = about_outputs(pack)
    contract = own.manifest.contract
    known = [column for column in contract.columns if column.role == "output"]
    entries = []
    for entry in outputs_of(channels).entries:
        fitting = [column for column in known if entry.name in (column.name, column.source)]
        entries += [replace(entry, name=fitting[0].name) if fitting else entry]
    some = [entry for entry in entries if any(entry.name == column.name for column in known)]
    if len(some) < len(entries) and some:
        raise JobError(
            "the rules must declare every channel of a forecast as an output",
            expected=", ".join(entry.name for entry in entries),
            received=", ".join(column.name for column in known),
        )
    return ForecastRules(
        module=ConstraintModule(
            own, x=replace(channels, sure=True), y=OutputLayout(entries=tuple(some))
        ),
        steps=steps,
    )


def about_outputs(pack: Pack) -> Pack:
    """The pack with the banks alone that touch an output; all its rules keep their numbers."""
    places = [place for place, bank in enumerate(pack.banks) if reads_output(bank.skeleton)]
    skeletons = tuple(pack.manifest.skeletons[place] for place in places)
    return replace(
        pack,
        manifest=pack.manifest.model_copy(update={"skeletons": skeletons}),
        banks=tuple(pack.banks[p] for p in places),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForecastPenalty:
    """``weight`` times the rules' penalty on a client's forecasts, as in `ConstraintReport.penalty`
    with each forecast as a trace.

    Args:
        rules: the rules over the model's forecasts.
        weight: the factor of the penalty, at least 0.
    """

    rules: ForecastRules
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise JobError(
                "`weight` of the constraint penalty must not be negative", received=str(self.weight)
            )

    @property
    def reads(self) -> Literal["samples"]:
        """See `KnownTerm.reads`: a forecast is a separate trace."""
        return "samples"

    def value(self, step: Step) -> Tensor:
        """See `Term.value`."""
        output = (
            step.model.apply(step.params, step.x, step.noise)
            if step.output is None
            else step.output
        )
        return self._penalty_of(step, output)

    def by_output(self, step: Step) -> tuple[Tensor, Tensor]:
        """See `OutputTerm.by_output`."""
        assert step.output is not None, "the output is known where its derivative is asked for"
        with torch.enable_grad():
            leaf = step.output.detach().requires_grad_()
            value = self._penalty_of(step, leaf)
            (slope,) = torch.autograd.grad(value.sum(), leaf)
        return value.detach(), slope

    def _penalty_of(self, step: Step, output: Tensor) -> Tensor:
        clients, batch = output.shape[:2]
        report = self.rules.report(output.flatten(0, 1), step.x.flatten(0, 1))
        share = output.new_full((clients, batch), 1.0 / batch) if step.share is None else step.share
        share = share.repeat_interleave(self.rules.steps, dim=1) / self.rules.steps
        return self.weight * report.penalty_apart(share).to(output.dtype)


class ForecastScorer:
    """Scores stacked models by the rules, on forecasts for windows that the server holds; see
    `Scorer`.

    Args:
        model: the model of the scored parameters.
        rules: the rules over the model's forecasts.
        x: [W, T, F], the windows of the probe.
    """

    def __init__(self, model: Model, rules: ForecastRules, x: Tensor) -> None:
        self._model, self._rules, self._x = model, rules, x
        self._rows = scored_rows(rules.module)

    def to(self, device: torch.device) -> ForecastScorer:
        """The same on another device."""
        return ForecastScorer(*on_device((self._model, self._rules, self._x), device))

    @property
    def rows(self) -> ScoredRows:
        """See `Scorer.rows`."""
        return self._rows

    def score(self, params: Params) -> ProbeScores:
        """See `Scorer.score`; a forecast with a non-finite number satisfies no rule."""
        first = next(iter(params.values()))
        x = self._x.to(first.dtype)
        held = footprint(self._model, params, x)
        step = max(1, MEMORY // ((held.client + held.sample * x.shape[0]) * x.element_size() + 1))
        parts = [
            self._counted({key: value[at : at + step] for key, value in params.items()}, x)
            for at in range(0, first.shape[0], step)
        ]
        violated, fired = (torch.cat(part) for part in zip(*parts, strict=True))
        return ProbeScores(violation=violated.double() / fired)

    def _counted(self, params: Params, x: Tensor) -> tuple[Tensor, Tensor]:
        """How many windows break each constraint, and how many it applies to: int64 [C, M]."""
        with torch.no_grad():
            answers = self._model.apply(params, x)
            clients = answers.shape[0]
            violated, fired = judged_forecasts(
                self._rules, answers.flatten(0, 1), x.repeat(clients, 1, 1)
            )
        return violated.view(clients, len(x), -1).sum(1), fired.view(clients, len(x), -1).sum(1)


def judged_forecasts(rules: ForecastRules, output: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Which forecasts [B, P * V] break each constraint, and to which it applies and is known: bool
    [B, M] each.
    """
    report = rules.report(torch.nan_to_num(output), x)
    lost = ~torch.isfinite(output).all(1, keepdim=True)
    known = report.fired & ~report.unknown
    return (report.violated & known) | (lost & report.applicable), known | (
        lost & report.applicable
    )
