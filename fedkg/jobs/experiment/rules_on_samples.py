"""The rules of a job on a data set: for scoring, as a penalty, and for the table of rules.

Letters: N samples, W windows, H outputs, M constraints that touch an output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.constraints import ConstraintModule, columns, logit
from fedkg.constraints.binding.layout import (
    InputLayout,
    OutputLayout,
    pixel_names,
    scores,
    window_names,
)
from fedkg.constraints.binding.reads import categories_read
from fedkg.data import Frame, Scaling
from fedkg.data.sets import DataSet, StandardisedDataSet
from fedkg.errors import JobError, LayoutError
from fedkg.evaluation.result import margin_scales
from fedkg.federated import Scorer
from fedkg.federated.client.constraint_penalty import ConstraintPenalty
from fedkg.federated.round_steps import Term
from fedkg.federated.server.pack_scorer import PackScorer, scored_rows
from fedkg.federated.server.scoring import ScoredRows
from fedkg.federated.temporal.forecast_rules import (
    ForecastPenalty,
    ForecastRules,
    ForecastScorer,
    about_outputs,
    forecast_rules,
    judged_forecasts,
)
from fedkg.jobs.experiment.knowledge_feature_columns import category_codes
from fedkg.jobs.experiment.model_inputs import ModelInputs
from fedkg.jobs.experiment.sample_preparation import Index
from fedkg.jobs.experiment.task_metrics import PREDICTION_BATCH, predict_at
from fedkg.jobs.hard_rule_answers import HardRules, hard_rules
from fedkg.jobs.result_rows import RuleTally
from fedkg.models import Model, Params
from fedkg.pack import Column, Pack


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Verdicts:
    """Verdicts on the outputs for N samples, [N, M] each.

    Attributes:
        violated: whether the sample violates the constraint.
        evaluated: whether it has a verdict: satisfied or violated.
        applied: whether it has one and meets the constraint's condition.
        margin: in units of the rule.
    """

    violated: Tensor
    evaluated: Tensor
    applied: Tensor
    margin: Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleRules:
    """The rules that touch an output, for a model's samples and outputs: about rows or forecasts.

    Attributes:
        pack: with these rules alone.
        hard: the hard rules about rows that every answer satisfies.
        codes: codes of the categories that rules read, int64 [N] for all samples. Rules about a
            category that the table lacks are not evaluated.
    """

    pack: Pack
    rows: ConstraintModule | None = None
    hard: HardRules | None = None
    forecasts: ForecastRules | None = None
    codes: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def module(self) -> ConstraintModule | None:
        """The rules over tensors; None if there are none."""
        return self.rows if self.forecasts is None else self.forecasts.module

    @property
    def across_rows(self) -> tuple[str, ...]:
        """Names of the rules about rows that compare several rows."""
        if self.rows is None:
            return ()
        records = self.pack.manifest.rules
        return tuple(
            records[rule].name
            for rule in sorted(self.rows.plan.across_rows)
            if records[rule].output
        )

    def codes_at(self, index: Tensor) -> dict[str, Tensor]:
        """The codes of the samples at these positions."""
        return {name: codes[index] for name, codes in self.codes.items()}

    def answers(
        self,
        model: Model,
        params: Params,
        inputs: ModelInputs,
        index: Index,
        *,
        exact: bool = False,
    ) -> Tensor:
        """A model's raw outputs for the samples at `index` [N, H]; rows satisfy the hard rules.

        Args:
            exact: in float64, as rules are counted: limits in float32 are not those of the rules.
        """
        answers = predict_at(model, params, inputs, index, exact=exact)
        if self.hard is None or not len(index):
            return answers
        codes = self.codes_at(torch.from_numpy(index))
        x = inputs.exact_rows(index) if exact else inputs.rows_at(index)
        return self.hard.satisfy(x, answers, codes)

    def scorer(self, model: Model, x: Tensor, index: Tensor) -> Scorer | None:
        """The server's scorer for samples x [W, ...] at `index`.

        None if there is nothing to score.
        """
        if not len(x):
            return None
        if self.forecasts is not None:
            return ForecastScorer(model, self.forecasts, x)
        return (
            None
            if self.rows is None
            else PackScorer(model, self.rows, x, keys=self.codes_at(index))
        )

    def terms(self, weight: float) -> tuple[Term, ...]:
        """The penalty in the objective of the sites."""
        if not weight or self.module is None:
            return ()
        return (
            (ForecastPenalty(rules=self.forecasts, weight=weight),)
            if self.forecasts is not None
            else (ConstraintPenalty(rules=self.module, weight=weight),)
        )

    def forecast_answers(
        self, model: Model, params: Params, inputs: ModelInputs, index: Tensor
    ) -> tuple[Tensor, Tensor]:
        """A model's forecasts [N, P * V] for the samples at `index`, and the last observations
        [N, V], as forecasts are scaled, in float64.
        """
        assert self.forecasts is not None, "rules about forecasts"
        stack = {name: value.double().unsqueeze(0) for name, value in params.items()}
        answers, last = [], []
        for at in range(0, len(index), PREDICTION_BATCH):
            piece = inputs.rows_at(index[at : at + PREDICTION_BATCH]).double()
            with torch.no_grad():
                answers.append(model.apply(stack, piece)[0])
            last.append(self.forecasts.last_values(piece))
        return torch.cat(answers), torch.cat(last)

    def forecast_verdicts(
        self, model: Model, params: Params, inputs: ModelInputs, index: Tensor
    ) -> Verdicts:
        """The verdicts on a model's forecasts for the samples at `index`, in float64."""
        assert self.forecasts is not None, "rules about forecasts"
        stack = {name: value.double().unsqueeze(0) for name, value in params.items()}
        parts = []
        for at in range(0, len(index), PREDICTION_BATCH):
            piece = inputs.rows_at(index[at : at + PREDICTION_BATCH]).double()
            with torch.no_grad():
                answers = model.apply(stack, piece)[0]
                violated, applied = judged_forecasts(self.forecasts, answers, piece)
                report = self.forecasts.report(torch.nan_to_num(answers), piece)
            parts.append((violated, report.satisfied | violated, applied, report.robustness))
        violated, evaluated, applied, margin = (
            torch.cat([part[k] for part in parts]) for k in range(4)
        )
        return Verdicts(violated=violated, evaluated=evaluated, applied=applied, margin=margin)


def build_sample_rules(
    pack: Pack,
    source: DataSet,
    scaled: StandardisedDataSet,
    output: str,
    knowledge_names: Sequence[str],
    horizon: int,
    *,
    coded: bool = False,
    frame: Frame | None = None,
) -> SampleRules:
    """The rules over samples with the columns `knowledge_names` after their features.

    Rules about the label of a window read its last step, those about an image no pixel; such
    samples must be flattened (`is_flattened`). With `coded`, category codes follow all other
    columns, and the model itself satisfies the rules. Codes are those of the table `frame`, or of
    one-hot features.

    Raises:
        JobError, LayoutError: rules read something that samples or outputs do not have.
    """
    own = about_outputs(pack)
    if not own.banks:
        return SampleRules(pack=own)
    if horizon:
        assert scaled.outputs is not None, "forecasts are numbers"
        try:
            rules = forecast_rules(pack, input_layout(scaled.outputs), horizon)
        except LayoutError as error:
            known = scaled.outputs.names
            absent = [
                column.name
                for column in own.manifest.contract.columns
                if column.role == "output" and not {column.name, column.source} & set(known)
            ]
            raise JobError(
                f"the rules read {', '.join(f'`{name}`' for name in absent)}, which the model does "
                "not forecast"
                if absent
                else f"the rules do not fit the forecasts: {error.message}",
                received=f"forecasts of {', '.join(scaled.outputs.names)}",
                help="use the data's name for the output or its column, or forecast it "
                "(`data.window.targets`)",
            ) from error
        return SampleRules(pack=own, forecasts=_with_last_values(rules, scaled))
    names, mean, std = _columns(source, scaled, knowledge_names)
    used = categories_read(own)
    if coded:
        names += [f"{column.source} (code)" for column in used]
        mean, std = [*mean, *[0.0] * len(used)], [*std, *[1.0] * len(used)]
    x, y = columns(names, mean=mean, std=std), _output_layout(source, scaled, output)
    classes = len(source.classes) if source.task == "classes" else 0
    return SampleRules(
        pack=own,
        rows=ConstraintModule(own, x=x, y=y),
        hard=None if coded else hard_rules(own, x, y, classes),
        codes={
            column.source: torch.from_numpy(codes_of(column, source, frame))
            for column in used
            if frame is None or column.source in frame.columns
        },
    )


def codes_of(column: Column, source: DataSet, frame: Frame | None) -> NDArray[np.int64]:
    """The codes [N] of a category in the table `frame`, or of its one-hot features; -1 for a text
    that no rule names.
    """
    if frame is None:
        return category_codes(column, source)
    place = {text: code for code, text in enumerate(column.vocabulary)}
    known = frame.texts(column.source) if column.source in frame.columns else [""] * frame.rows
    return np.array([place.get(text, -1) for text in known], dtype=np.int64)


def is_flattened(pack: Pack, source: DataSet, horizon: int) -> bool:
    """Whether samples are flattened to rows: windows and images with rules about their label."""
    return source.x.ndim != 2 and not horizon and bool(about_outputs(pack).banks)


def _columns(
    source: DataSet, scaled: StandardisedDataSet, knowledge_names: Sequence[str]
) -> tuple[list[str], list[float], list[float]]:
    """Names, means and deviations of the columns of flattened samples.

    The columns of a window are ordered by step; the last step has plain names.
    """
    assert scaled.inputs is not None, "samples are scaled"
    names, extra = [*scaled.inputs.names], len(knowledge_names)
    mean, std = scaled.inputs.mean.tolist(), scaled.inputs.std.tolist()
    if source.x.ndim == 4:  # knowledge follows the pixels of all channels
        pixels = source.x.shape[2] * source.x.shape[3]
        return (
            [*pixel_names(names, pixels), *knowledge_names],
            [*(value for value in mean for _ in range(pixels)), *[0.0] * extra],
            [*(value for value in std for _ in range(pixels)), *[1.0] * extra],
        )
    names = [*names, *knowledge_names]
    mean, std = [*mean, *[0.0] * extra], [*std, *[1.0] * extra]
    if source.x.ndim == 3:
        steps = source.x.shape[1]
        return list(window_names(names, steps)), mean * steps, std * steps
    return names, mean, std


def input_layout(scaling: Scaling) -> InputLayout:
    """The layout of scaled columns."""
    return columns(scaling.names, mean=scaling.mean, std=scaling.std)


def _output_layout(
    source: DataSet, scaled: StandardisedDataSet, output: str
) -> OutputLayout | InputLayout:
    match source.task:
        case "detection":
            return logit(output)
        case "classes":
            return scores(output, source.classes)
        case _:
            assert scaled.outputs is not None, "numbers are scaled"
            return columns([output], mean=scaled.outputs.mean, std=scaled.outputs.std)


def _with_last_values(rules: ForecastRules, scaled: StandardisedDataSet) -> ForecastRules:
    """The rules with the feature index of each channel's last observed value."""
    inputs, outputs = scaled.inputs, scaled.outputs
    assert inputs is not None, "series are scaled"
    assert outputs is not None, "forecasts are numbers"
    last = [inputs.names.index(name) for name in outputs.names]
    factor = torch.as_tensor(inputs.std[last] / outputs.std)
    offset = torch.as_tensor((inputs.mean[last] - outputs.mean) / outputs.std)
    return replace(rules, last=tuple(last), factor=factor, offset=offset)


def tally_forecasts(
    rules: SampleRules, verdicts: Verdicts, index: Tensor, source: DataSet
) -> dict[int, RuleTally]:
    """Counts of each rule about forecasts, by its position, with the worst example.

    Args:
        index: int64, positions of the samples of the verdicts.
    """
    assert rules.module is not None, "rules about forecasts"
    rows = scored_rows(rules.module)
    owner = torch.cat([bank.rule for bank in rules.module.banks if bank.rows])
    scales = margin_scales(rules.module.pack)
    scale = np.concatenate(
        [scales[bank.rule, bank.unit] for bank in rules.module.pack.banks if bank.rows]
    )
    found: dict[int, RuleTally] = {}
    for number, record in enumerate(rules.pack.manifest.rules):
        columns_of = torch.nonzero(owner == number).flatten()
        if not record.output:
            continue
        applied = verdicts.applied[:, columns_of]
        met = applied.any(0).numpy()
        least, text = _worst_example(
            verdicts, index, columns_of, rows, source, torch.from_numpy(scale)
        )
        found[number] = RuleTally(
            bound=len(columns_of),
            violated=int(verdicts.violated[:, columns_of].sum()),
            evaluations=int(verdicts.evaluated[:, columns_of].sum()),
            applied=int(applied.sum()),
            not_evaluated=int((~met).sum()),
            met=met,
            least=(False, least),
            example=text,
        )
    return found


def _worst_example(
    verdicts: Verdicts,
    index: Tensor,
    chosen: Tensor,
    rows: ScoredRows,
    source: DataSet,
    scale: Tensor,
) -> tuple[float, str]:
    """Margin, in the common unit of the rule, and sample of the largest violation; infinity and ""
    without violation. `scale` brings the margin of each bound row to that unit.
    """
    margin = torch.where(verdicts.violated[:, chosen], verdicts.margin[:, chosen], torch.inf)
    compared = margin.double() * scale[chosen]
    if not margin.numel() or not float(compared.min()) < torch.inf:
        return torch.inf, ""
    sample, column = divmod(int(compared.argmin()), len(chosen))
    by = f"violation {abs(float(margin[sample, column])):.4g}"
    name = rows.names[int(chosen[column])].partition("[")[2].rstrip("]")
    place = _sample_name(source, int(index[sample]))
    return float(compared.min()), f"{f'{name}, ' if name else ''}{place}: {by}"


def _sample_name(source: DataSet, sample: int) -> str:
    """The name of a sample for readers: its site and time, or its number."""
    client = "" if source.clients is None else f"{source.clients[sample]}, "
    if source.time is None or source.x.ndim != 3:
        return f"{client}sample {sample + 1}"
    seconds = float(source.time[sample]) * {"h": 3600.0, "s": 1.0}.get(source.step_unit, 0.0)
    if seconds > 1e8:
        return f"{client}forecast from {datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
    return f"{client}forecast from {source.time[sample]:g} {source.step_unit}".rstrip()
