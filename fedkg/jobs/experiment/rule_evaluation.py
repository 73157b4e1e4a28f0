"""Evaluate the rules about outputs on the test rows with the answers of deployed models, as
`fedkg eval` does with the answers as the output's column.

The interpreter evaluates the source values in float64, because limits lie exactly on decimal data.

Letters: V views of the rows, N rows, C columns of the contract, H outputs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.constraints import Timing, evaluate_bank
from fedkg.constraints.engine.skeleton_properties import reads_output
from fedkg.data import Frame
from fedkg.evaluation import table_values
from fedkg.evaluation.result import least_margin, margin_scales, without_constants
from fedkg.evaluation.row_explanation import example
from fedkg.jobs.chronological_holdout import SITE_COLUMN, row_timing
from fedkg.jobs.experiment.model_inputs import ModelInputs
from fedkg.jobs.experiment.rules_on_samples import SampleRules
from fedkg.jobs.experiment.sample_preparation import Index, Samples
from fedkg.jobs.experiment.task_metrics import PREDICTION_BATCH
from fedkg.jobs.folder import Row
from fedkg.jobs.result_rows import RuleCounts, RuleTally, rule_row
from fedkg.jobs.source_data_checks import ordered_frame, row_name
from fedkg.jobs.unevaluated_rules import COMPARES_ROWS
from fedkg.models import Model, Params
from fedkg.pack import Bank, Implies, Pack

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Deployed:
    """A deployed model and its test samples.

    Attributes:
        params: of the model.
        index: positions of the samples that it answers, among all samples.
        counted: bool, which of them count; the others are neighbours of these in time.
    """

    params: Params
    index: Index
    counted: NDArray[np.bool_]


@dataclass(slots=True, kw_only=True)
class _Counts(RuleCounts):
    """Counts of one rule, and its worst violation.

    Attributes:
        least: whether it has no margin, and the margin in the common unit of the rule.
        worst: bank, row of the bank, values of the test row [V, C], and the test row's name.
    """

    least: tuple[bool, float] = (True, np.inf)
    worst: tuple[Bank, int, Values, str] | None = None

    def tally(self, pack: Pack, met: NDArray[np.bool_]) -> RuleTally:
        """The counts with the worst violation in words."""
        text = ""
        if self.worst is not None:
            bank, row, values, place = self.worst
            text = example(pack, bank, row, values, place=place)
        return RuleTally(
            bound=len(met),
            violated=self.violated,
            evaluations=self.evaluations,
            applied=self.applied,
            not_evaluated=int((~met).sum()),
            met=met,
            least=self.least,
            example=text,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluated:
    """Counts of verdicts on the test samples.

    Attributes:
        rules: counts of each rule about an output, by the position of the rule.
        violated: one int64 array for each deployed model, with the number of violated evaluations
            of each sample in the model's index.
        evaluations: one int64 array for each deployed model, with the number of evaluations of each
            sample in the model's index by rules that fire on one of these samples.
    """

    rules: dict[int, RuleTally] = field(default_factory=dict)
    violated: list[NDArray[np.int64]] = field(default_factory=list)
    evaluations: list[NDArray[np.int64]] = field(default_factory=list)


def evaluate_rows(
    rules: SampleRules,
    samples: Samples,
    frame: Frame | None,
    inputs: ModelInputs,
    model: Model,
    output: str,
    deployed: Sequence[Deployed],
) -> Evaluated:
    """Evaluate rules about rows on the answers of every deployed model.

    Rules that compare rows are evaluated where the test follows the training in time
    (`Samples.ordered`), and not where it is a random sample.

    Args:
        frame: the table of the samples; None for a data set.
        output: the output or label of the answers.
    """
    assert rules.rows is not None, "rules about rows"
    pack, found = rules.pack, Evaluated()
    counted_rules: dict[int, _Counts] = {}
    banks = [bank for bank in pack.banks if reads_output(bank.skeleton)]
    met = [np.zeros(len(bank.rule), dtype=np.bool_) for bank in banks]
    scales = margin_scales(pack)
    across = frozenset[int]() if samples.ordered else rules.rows.plan.across_rows
    for one in deployed:
        if not len(one.index):  # a site without test samples
            found.violated.append(np.zeros(0, dtype=np.int64))
            found.evaluations.append(np.zeros(0, dtype=np.int64))
            continue
        part, order = _rows(pack, samples, frame, one.index)
        index = one.index[order]
        values = _values_with_answers(rules, samples, part, inputs, model, output, one, index)
        timing = row_timing(pack, part)
        counted = one.counted[order]
        violated, none = (np.zeros(len(index), dtype=np.int64) for _ in range(2))
        cases: dict[int, NDArray[np.int64]] = {}
        fired: set[int] = set()
        for bank, applied in zip(banks, met, strict=True):
            broken, evaluated, fires = _count_bank(
                bank, values, timing, counted, across, part, counted_rules, scales
            )
            violated += broken.sum(1)
            for rule in np.unique(bank.rule).tolist():
                cases[rule] = cases.get(rule, none) + evaluated[:, bank.rule == rule].sum(1)
            applied |= fires
            fired.update(bank.rule[fires].tolist())
        evaluations = sum((cases[rule] for rule in fired), start=none)
        for tally, counts in ((found.violated, violated), (found.evaluations, evaluations)):
            back = np.empty_like(counts)
            back[order] = counts
            tally.append(back)
    by_rule: dict[int, list[bool]] = {}
    for bank, applied in zip(banks, met, strict=True):
        for rule, applies in zip(bank.rule.tolist(), applied.tolist(), strict=True):
            by_rule.setdefault(rule, []).append(applies)
    for rule, applies in by_rule.items():
        own = counted_rules.get(rule, _Counts())
        found.rules[rule] = own.tally(pack, np.array(applies, dtype=np.bool_))
    return found


def answered_frame(
    rules: SampleRules,
    samples: Samples,
    frame: Frame | None,
    inputs: ModelInputs,
    model: Model,
    output: str,
    deployed: Deployed,
) -> Frame:
    """The source rows of a model's samples with its answers as the output's column.

    Args:
        frame: the table of the samples; None for a data set.
        output: the output or label of the answers.
    """
    part, order = _rows(rules.pack, samples, frame, deployed.index)
    values = _values_with_answers(
        rules, samples, part, inputs, model, output, deployed, deployed.index[order]
    )
    contract = rules.pack.manifest.contract
    places = _output_places(rules.pack, output)
    header = contract.columns[places[0]].source
    if samples.source.task != "classes":
        return part.with_numbers(header, values[0, :, places[0]])
    categories = [contract.columns[place].category for place in places]
    return part.with_texts(header, [categories[one] for one in values[0][:, places].argmax(1)])


def rule_rows(
    rules: SampleRules, tallies: Mapping[int, RuleTally], samples: Samples, trial: str
) -> list[Row]:
    """Rows of `rules.csv`: every rule about an output, with the worst example in words."""
    across = frozenset[int]()
    if rules.rows is not None and not samples.ordered:
        across = rules.rows.plan.across_rows
    return [
        rule_row(
            trial,
            record,
            tallies.get(rule, RuleTally()),
            compares=COMPARES_ROWS if rule in across else "",
        )
        for rule, record in enumerate(rules.pack.manifest.rules)
        if record.output
    ]


def _rows(pack: Pack, samples: Samples, frame: Frame | None, index: Index) -> tuple[Frame, Index]:
    """The source rows of these samples, and the positions of the samples in that order."""
    if frame is not None:
        return frame.take(index), np.arange(len(index))
    source, uncut = samples.source, samples.uncut_rows
    wanted = source.rows[index]
    data = source.take(index)
    if samples.sites and uncut.clients is not None:  # the rows of each site count from 0
        uncut = uncut.take(np.isin(uncut.clients.astype(str), data.client_names))
    if source.x.ndim == 3 and (wanted >= 0).all():  # the rows that the labels of windows are about
        places = np.argsort(uncut.rows, kind="stable")
        states = data.x[:, -1, len(uncut.features) :]  # augmented states, which the rows lack
        data = uncut.take(places[np.searchsorted(uncut.rows[places], wanted)])
        data = replace(
            data,
            x=np.concatenate([data.x, states], axis=1),
            features=source.features,
            units=source.units,
        )
    elif source.x.ndim == 3:
        data = replace(data, x=data.x[:, -1])
    return ordered_frame(pack, data)


def _values_with_answers(
    rules: SampleRules,
    samples: Samples,
    frame: Frame,
    inputs: ModelInputs,
    model: Model,
    output: str,
    deployed: Deployed,
    index: Index,
) -> Values:
    """The rows in all views with the model's answers, float64 [V, N, C]."""
    assert rules.rows is not None, "rules about rows"
    pack, module = rules.pack, rules.rows
    contract = pack.manifest.contract
    values, before = _read(rules, samples, frame)
    columns = _output_places(pack, output)
    double = {name: value.double().unsqueeze(0) for name, value in deployed.params.items()}
    earlier_rows = None
    if before is not None:
        x = inputs.exact_rows(index[before])
        earlier_rows = torch.where(torch.from_numpy(before < 0)[:, None], torch.nan, x)
    for at in range(0, len(index), PREDICTION_BATCH):
        here = slice(at, at + PREDICTION_BATCH)
        places = torch.from_numpy(index[here])
        x, codes = inputs.exact_rows(index[here]), rules.codes_at(places)
        with torch.no_grad():
            earlier = None if earlier_rows is None else earlier_rows[here]
            views = module.views(x, keys=codes, previous=earlier)
            answers = model.apply(double, views.flatten(0, 1))[0].reshape(*views.shape[:2], -1)
            if rules.hard is not None:
                answers = torch.stack(
                    [
                        rules.hard.satisfy(view, one, codes)
                        for view, one in zip(views, answers, strict=True)
                    ]
                )
        said = _quantities(samples, answers)
        for run, place in enumerate(module.plan.runs):
            view, unknown = contract.views[place], np.zeros(len(x), dtype=np.bool_)
            if view.kind == "previous":  # a row without a row before it
                unknown |= True if before is None else before[here] < 0
            elif view.column is not None:  # a raised unknown value stays unknown
                unknown |= np.isnan(values[0, here, view.column])
            for number, column in enumerate(columns):
                values[place, here, column] = np.where(unknown, np.nan, said[run, :, number])
    return values


def _output_places(pack: Pack, output: str) -> list[int]:
    """The positions of an output, or of the classes of a label, among the contract's columns."""
    return [
        place
        for place, column in enumerate(pack.manifest.contract.columns)
        if column.role == "output" and output in (column.name, column.label)
    ]


def _quantities(samples: Samples, answers: Tensor) -> Values:
    """Answers [V, N, H] as the output's columns: probabilities, 1 for the class, quantities."""
    match samples.source.task:
        case "detection":
            return np.asarray(torch.sigmoid(answers).numpy())
        case "classes":
            best = torch.nn.functional.one_hot(answers.argmax(-1), answers.shape[-1])
            return np.asarray(best.double().numpy())
        case _:
            return samples.scaled.quantities(answers.numpy())


def _read(
    rules: SampleRules, samples: Samples, frame: Frame
) -> tuple[Values, NDArray[np.int64] | None]:
    """The rows in all views, float64 [V, N, C], and the row before each row, one of the same site;
    -1 for none. None if no view of the rules looks back, or the rows are a random sample.
    """
    assert rules.rows is not None, "rules about rows"
    contract = rules.pack.manifest.contract
    values = np.full((len(contract.views), frame.rows, len(contract.columns)), np.nan)
    asked = [view for view in rules.rows.plan.runs if contract.views[view].kind == "previous"]
    before = np.full(frame.rows, -1, dtype=np.int64) if asked and samples.ordered else None
    sites = frame.columns.get(SITE_COLUMN, np.full(frame.rows, "", dtype=object))
    for site in dict.fromkeys(sites.tolist()):
        rows = np.flatnonzero(sites == site)
        read = table_values(contract, frame.take(rows).table(), missing="skip")
        values[:, rows] = read.values
        if before is not None and (own := read.before[asked[0]]) is not None:
            before[rows] = np.where(own < 0, -1, rows[own])
    return values, before


def _count_bank(
    bank: Bank,
    values: Values,
    timing: Timing,
    counted: NDArray[np.bool_],
    across: frozenset[int],
    frame: Frame,
    rules: dict[int, _Counts],
    scales: NDArray[np.float64],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Add the verdicts of a bank on one model; the violated and the evaluated cases, and which rows
    of the bank apply somewhere.

    The worst example of an `if ... then` has the largest violation of its consequence.
    """
    alone = ~np.isin(bank.rule, list(across))
    found = evaluate_bank(bank, values, timing)
    use = counted[:, None] & alone
    violated, evaluated = found.violated & use, (found.satisfied | found.violated) & use
    applied = found.fired & ~found.unknown & use
    margin = found.robustness
    if violated.any() and isinstance(bank.skeleton, Implies):
        inner = replace(bank, skeleton=bank.skeleton.consequent)
        margin = evaluate_bank(inner, values, timing).robustness
    margin = without_constants(margin)
    for row, rule in enumerate(bank.rule.tolist()):
        counts = rules.setdefault(rule, _Counts())
        counts.violated += int(violated[:, row].sum())
        counts.evaluations += int(evaluated[:, row].sum())
        counts.applied += int(applied[:, row].sum())
        if violated[:, row].any():
            at = int(least_margin(margin[:, [row]], violated[:, [row]])[0])
            scaled = float(margin[at, row] * scales[rule, bank.unit[row]])
            least = math.isinf(scaled), scaled
            if counts.worst is None or least < counts.least:
                counts.least = least
                counts.worst = bank, row, values[:, at].copy(), row_name(frame, at)
    return violated, evaluated, np.any(applied, axis=0)
