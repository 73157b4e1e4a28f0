"""What an exported model guarantees: its rules, and their verdicts on random inputs.

The verdicts are those of the NumPy interpreter on the outputs of the file itself.

Letters: B inputs, T steps of a window, F features, H outputs, P steps of a forecast, V channels,
C columns of the contract, R rows of a bank, K classes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedkg.constraints.binding.rule_input_values import percent
from fedkg.constraints.meaning.interpreter import Timing, evaluate_bank
from fedkg.constraints.module import ConstraintModule
from fedkg.errors import FedkgError
from fedkg.export.exportable_run_model import RunKnowledge
from fedkg.export.onnx_and_torch_export import GraphModel, RawModel
from fedkg.jobs.experiment.site_knowledge import Lookup, TrainedPredictor
from fedkg.knowledge.allowed_answers import allowed_classes, allowed_interval
from fedkg.knowledge.injected_model import Injected
from fedkg.knowledge.target_bins import bins_in_interval
from fedkg.knowledge.tensor_knowledge import RangeKnowledge
from fedkg.pack import Bank, Column, Pack, RuleRecord
from fedkg.pack.formulas import is_temporal
from fedkg.pack.knowledge_models import KnowledgeModel

Array = NDArray[np.float64]

INPUTS, SEED = 10_000, 0
"""Number of random inputs of a verification, and the seed of their generator."""

TOLERANCE = 1e-9
"""Largest violation that counts as rounding, as a share of the largest number that the rule reads
(at least 1). Projections compute in float64; `==` without `+/-` can miss by the last digit."""

LOOKUP = "the lookup table"

BATCH = 500
"""Inputs per call of an exported model, which limits its memory."""

FAR = 3.0
"""Standard deviations on each side of the mean of a feature without a span."""

WIDER = 0.1
"""Share of its span by which random inputs of a feature leave the span on each side."""

STEPS = 100
"""Half of the inputs are multiples of this part of the span, so that they meet thresholds."""


def random_inputs(model: GraphModel, columns: Sequence[Column]) -> Array:
    """Raw inputs [B, F], or windows [B, T, F]: uniform over the spans of the features and a tenth
    beyond, half of them rounded. Truth values are 0 or 1, and categories are codes, or a 1 in one
    of their features (``Type=L``). With a lookup table, every third input is one of its rows.

    Args:
        model: the model.
        columns: the columns of the contract.
    """
    random = np.random.default_rng(SEED)
    count = INPUTS * max(model.steps, 1)
    found = np.empty((count, len(model.names)))
    for place, name in enumerate(model.names):
        own = next((one for one in columns if name in (one.name, one.source)), None)
        if own is not None and own.vocabulary:
            found[:, place] = random.integers(0, len(own.vocabulary), count)
            continue
        mean, std = float(model.mean[place]), float(model.std[place])
        low, high = (mean - FAR * std, mean + FAR * std)
        if own is not None and own.span is not None:
            low, high = own.span
        drawn = random.uniform(low - WIDER * (high - low), high + WIDER * (high - low), count)
        step = (high - low) / STEPS
        drawn[::2] = low + np.round((drawn[::2] - low) / step) * step if step else low
        found[:, place] = drawn
    for places in _one_hot_groups(model, columns):
        chosen = random.integers(0, len(places) + 1, count)  # the last: a text without a feature
        found[:, places] = np.eye(len(places) + 1)[chosen, :-1]
    windows = found.reshape(INPUTS, max(model.steps, 1), -1)
    for features, keys in model.listed:
        rows = keys[random.integers(0, len(keys), len(windows[::3]))]
        windows[::3, -1, list(features)] = rows
    return windows if model.steps else windows[:, 0]


def _one_hot_groups(model: GraphModel, columns: Sequence[Column]) -> list[list[int]]:
    """The positions of the 0/1 features of each category: one of the rules, or one that is not
    scaled.
    """
    known = {name for one in columns if one.vocabulary for name in (one.name, one.source)}
    groups: dict[str, list[int]] = {}
    for place, name in enumerate(model.names):
        header, equals, _ = name.partition("=")
        plain = float(model.mean[place]) == 0.0 and float(model.std[place]) == 1.0
        if equals and (plain or header in known):
            groups.setdefault(header, []).append(place)
    return list(groups.values())


def run_batches(run: Callable[[Array], Array], inputs: Array) -> Array:
    """The outputs of a model for many inputs, [B, H]."""
    return np.concatenate([run(inputs[at : at + BATCH]) for at in range(0, len(inputs), BATCH)])


def certify_rules(
    rules: ConstraintModule,
    enforced: Collection[str],
    model: GraphModel,
    inputs: Array,
    outputs: Array,
) -> tuple[list[dict[str, Any]], int]:
    """The entries of a certificate for the rules about outputs, and the number of inputs on which
    the rules contradict each other.

    `Any`: JSON.

    Args:
        rules: all rules over the layouts of the model.
        enforced: names of the rules that the file enforces.
        model: the model in PyTorch.
        inputs: raw inputs, [B, F] or windows [B, T, F].
        outputs: the outputs of the file, [B, H].

    Raises:
        FedkgError: an output violates a rule that the file should enforce by more than the
            tolerance, although the projection in PyTorch satisfies it.
    """
    values = _contract_values(rules, model, inputs, outputs)
    entries: list[dict[str, Any]] = []
    contradicting = np.zeros(len(inputs), dtype=np.bool_)
    reference: Array | None = None
    records = rules.pack.manifest.rules
    for number, record in enumerate(records):
        if not record.output:
            continue
        entry = _describe_rule(record, enforced)
        found = _verdicts(rules.pack, number, values)
        if found is None:
            entries.append(
                entry | {"status": "not evaluated", "reason": "the rule reads other rows or inputs"}
            )
            continue
        violation, tolerance, evaluated, applied = found
        reason = _vacuous(entry, evaluated, applied, "no random input gives it a verdict")
        if reason:
            entries.append(entry | {"status": "not evaluated", "reason": reason})
            continue
        beyond = np.asarray((violation > tolerance).any(1))
        if entry["status"] == "enforced" and beyond.any():
            if reference is None:
                with torch.no_grad():
                    reference = model(torch.from_numpy(inputs)).numpy()
            exact = _verdicts(rules.pack, number, _contract_values(rules, model, inputs, reference))
            assert exact is not None, "it was evaluated before"
            wrong = beyond & ~(exact[0] > exact[1]).any(1)
            if wrong.any():
                place = int(np.flatnonzero(wrong)[0])
                raise FedkgError(
                    f"the exported model violates the rule `{record.name}`",
                    expected=f"a violation of at most {tolerance[place].max():.3g}",
                    received=(
                        f"a violation of {violation[place].max():.3g} for the input "
                        f"{dict(zip(model.names, inputs[place].T.tolist(), strict=True))}"
                    ),
                    help="report this as a bug of fedkg, with the rules",
                )
            contradicting |= beyond
            violation = np.where(beyond[:, None], 0.0, violation)
        entries.append(
            entry
            | {
                "evaluated": evaluated,
                "applied": applied,
                "violated": int((violation > tolerance).any(1).sum()),
                "largest_violation": float(violation.max(initial=0.0)),
            }
        )
    return entries, int(contradicting.sum())


def certify_forecasts(
    pack: Pack, channels: Sequence[str], enforced: Collection[str], outputs: Array
) -> list[dict[str, Any]]:
    """The entries of a certificate for the rules about forecasts. A forecast is a trace, and
    violates a rule if it does at any step.

    `Any`: JSON.

    Args:
        pack: the rules.
        channels: the names of the V channels.
        enforced: names of the rules that the file enforces.
        outputs: the outputs of the file, [B, P, V].

    Raises:
        FedkgError: a forecast violates a rule that the file should enforce.
    """
    count, steps = outputs.shape[:2]
    columns = pack.manifest.contract.columns
    values = np.full((len(pack.manifest.contract.views), count * steps, len(columns)), np.nan)
    for place, column in enumerate(columns):
        for channel, name in enumerate(channels):
            if column.role == "output" and name in (column.name, column.source):
                values[0, :, place] = outputs[:, :, channel].ravel()
    timing = Timing(
        trace=np.repeat(np.arange(count), steps), step=np.tile(np.arange(steps), count), gaps=False
    )
    entries: list[dict[str, Any]] = []
    for number, record in enumerate(pack.manifest.rules):
        if not record.output:
            continue
        entry = _describe_rule(record, enforced)
        violations: list[Array] = []
        evaluated = applied = 0
        for bank in pack.banks:
            own = bank.take(np.flatnonzero(bank.rule == number))
            if not own.rows:
                continue
            found = evaluate_bank(own, values, timing=timing)
            size = np.abs(outputs).max(axis=(1, 2), initial=1.0)[:, None]
            size = np.maximum(size, np.abs(own.params).max(axis=1, initial=1.0))
            beyond = np.where(found.violated, -np.nan_to_num(found.robustness, neginf=-np.inf), 0.0)
            beyond = beyond.reshape(count, steps, -1).max(1)
            violations.append(np.where(beyond > TOLERANCE * size, beyond, 0.0))
            known = (found.satisfied | found.violated).reshape(count, steps, -1)
            evaluated += int(known.any(1).sum())
            fired = found.fired.reshape(count, steps, -1)
            applied += int((known & fired).any(1).sum())
        reason = _vacuous(entry, evaluated, applied, "the rule reads more than the forecast")
        if reason:
            entries.append(entry | {"status": "not evaluated", "reason": reason})
            continue
        violation = np.concatenate(violations, axis=1).max(axis=1)
        if entry["status"] == "enforced" and violation.any():
            raise FedkgError(
                f"the exported model violates the rule `{record.name}`",
                received=f"a violation of {violation.max():.3g} for a random window",
                help="report this as a bug of fedkg, with the rules",
            )
        entries.append(
            entry
            | {
                "evaluated": evaluated,
                "applied": applied,
                "violated": int((violation > 0).sum()),
                "largest_violation": float(violation.max(initial=0.0)),
            }
        )
    return entries


def _describe_rule(record: RuleRecord, enforced: Collection[str]) -> dict[str, Any]:
    """What a certificate says about every rule. `Any`: JSON."""
    return {
        "name": record.name,
        "title": record.title,
        "text": record.text,
        "hard": record.hard,
        "status": "enforced" if record.name in enforced else "checked",
    }


def _vacuous(entry: dict[str, Any], evaluated: int, applied: int, unknown: str) -> str:
    """Why a rule is not evaluated; "" if it is. `Any`: JSON.

    An enforced rule stays one whatever the inputs: the projection satisfies it by construction.
    """
    if not evaluated:
        return unknown
    if not applied and entry["status"] != "enforced":
        return "no random input meets its condition"
    return ""


def certify_knowledge(
    model: Injected, raw: RawModel, inputs: Array, outputs: Array
) -> list[dict[str, Any]]:
    """The entries of a certificate for injected ranges. `Any`: JSON.

    Raises:
        FedkgError: an excluded class has a probability above 0.
    """
    entries: list[dict[str, Any]] = []
    for part in model.parts:
        if not isinstance(part, RangeKnowledge):
            names = [own.name for own in getattr(part, "models", ())]
            entries.append(
                {
                    "name": ", ".join(names) or "a function",
                    "status": "not evaluated",
                    "reason": "only ranges exclude answers",
                }
            )
            continue
        values = input_values(part.pack, raw, inputs)
        models = [(part.pack, own, values) for own in part.models]
        allowed = (
            intersect_classes(models, outputs)
            if part.ends is None
            else bins_in_interval(intersect_intervals(models, len(inputs)), part.ends)
        )
        empty = np.asarray(~allowed.any(1))
        excluded = np.where(allowed | empty[:, None], 0.0, outputs)
        if excluded.any():
            raise FedkgError(
                "the exported model gives an excluded class a probability above 0",
                received=f"a probability of {excluded.max():.3g}",
                help="report this as a bug of fedkg, with the rules",
            )
        entries.append(
            {
                "name": ", ".join(own.name for own in part.models),
                "status": "enforced",
                "evaluated": int((~empty).sum()),
                "violated": 0,
                "largest_violation": 0.0,
                "contradicting_inputs": int(empty.sum()),
            }
        )
    return entries


def certify_ranges(
    knowledge: RunKnowledge, model: GraphModel, inputs: Array, outputs: Array, *, enforced: bool
) -> list[dict[str, Any]]:
    """The entries of a certificate for the knowledge that a run injects. `Any`: JSON.

    Args:
        knowledge: the knowledge.
        model: the model.
        inputs: raw inputs, [B, F] or windows [B, T, F].
        outputs: the outputs of the file, [B, H], or forecasts [B, P, V].
        enforced: whether answers stay in the ranges; otherwise violations are only counted.

    Raises:
        FedkgError: an answer is outside its range, although it should not be.
    """
    form = knowledge.form
    entries: list[dict[str, Any]] = []
    last = inputs[:, -1] if model.steps else inputs
    known: list[tuple[Pack, KnowledgeModel, Array]] = []
    for pack in knowledge.packs:
        values = input_values(pack, model, inputs)
        known += [(pack, own, values) for own in form.select(pack)]
    predictions = [own.name for _, own, _ in known if own.kind == "predict"]
    listed = []  # what lookup tables allow
    for source in knowledge.sources:
        if isinstance(source, Lookup):
            said = source(last)
            if said.allowed is not None and "range" in form.kinds:
                listed.append(said.allowed)
            if said.predicted is not None and "predict" in form.kinds:
                predictions.append(LOOKUP)
        elif not isinstance(source, Pack):
            trained = isinstance(source, TrainedPredictor)
            predictions.append("the predictor that the site trained" if trained else "the network")
    if predictions:
        reason = "only ranges exclude answers"
        entry = {"name": ", ".join(predictions), "status": "not evaluated", "reason": reason}
        entries.append(entry)
    numbers: Sequence[str] = () if form.outputs is None else form.outputs.names
    for number, name in enumerate(numbers or ("",)):
        ranges = [
            one
            for one in known
            if one[1].kind == "range" and (not name or form.about([one[1]], name))
        ]
        if not ranges and not listed:
            continue
        if not name:
            allowed = intersect_classes(ranges, outputs)
            for own in listed:
                allowed &= own
            empty = np.asarray(~allowed.any(1))
            violation = np.where(allowed, 0.0, outputs).max(1)
            beyond = violation > 0
        else:
            ends = intersect_intervals(ranges, len(inputs))
            for own in listed:
                ends[:, 0] = np.maximum(ends[:, 0], own[:, 0])
                ends[:, 1] = np.minimum(ends[:, 1], own[:, 1])
            empty = ends[:, 0] > ends[:, 1]
            answers = outputs.reshape(len(outputs), -1, len(numbers))[:, :, number]
            outside = np.maximum(ends[:, :1] - answers, answers - ends[:, 1:]).max(1)
            violation = np.maximum(outside, 0.0)
            finite = np.where(np.isfinite(ends), np.abs(ends), 0.0).max(1)
            beyond = violation > TOLERANCE * np.maximum(finite, np.abs(answers).max(1)).clip(1.0)
        violation = np.where(empty, 0.0, violation)
        beyond &= ~empty
        names = [*(model.name for _, model, _ in ranges), *[LOOKUP] * bool(listed)]
        own_names = ", ".join(dict.fromkeys(names))
        if enforced and beyond.any():
            raise FedkgError(
                f"the exported model leaves the range of the knowledge `{own_names}`",
                received=f"an output that is {violation[beyond].max():.3g} beyond the range",
                help="report this as a bug of fedkg, with the rules",
            )
        entries.append(
            {
                "name": own_names,
                "status": "enforced" if enforced else "checked",
                "evaluated": int((~empty).sum()),
                "violated": int(beyond.sum()),
                "largest_violation": float(violation.max(initial=0.0)),
                "contradicting_inputs": int(empty.sum()),
            }
        )
    return entries


Ranges = Sequence[tuple[Pack, KnowledgeModel, Array]]
"""Range models of one output with their packs, and inputs as values of the contract."""


def intersect_classes(ranges: Ranges, outputs: Array) -> NDArray[np.bool_]:
    """The classes that all range models allow, bool [B, K] as the outputs."""
    allowed = np.ones_like(outputs, dtype=np.bool_)
    for pack, model, values in ranges:
        allowed &= allowed_classes(pack, model, values)
    return allowed


def intersect_intervals(ranges: Ranges, samples: int) -> Array:
    """The interval that all range models allow, [B, 2]; empty if the first end is the larger."""
    found = np.tile([-np.inf, np.inf], (samples, 1))
    for pack, model, values in ranges:
        own = allowed_interval(pack, model, values)
        found[:, 0] = np.maximum(found[:, 0], own[:, 0])
        found[:, 1] = np.minimum(found[:, 1], own[:, 1])
    return found


def _verdicts(pack: Pack, rule: int, values: Array) -> tuple[Array, Array, int, int] | None:
    """Violations and tolerances [B, R] of a rule's bound rows, the number of verdicts, and in how
    many of them the condition of an implication is true; None if a verdict needs more than one row
    of inputs and outputs.
    """
    parts: list[tuple[Array, Array]] = []
    evaluated = applied = 0
    for bank in pack.banks:
        rows = np.flatnonzero(bank.rule == rule)
        if not len(rows):
            continue
        own = bank.take(rows)
        if own.views.any() or own.reads_other_rows or is_temporal(own.skeleton) or own.members:
            return None
        found = evaluate_bank(own, values)
        known = found.satisfied | found.violated
        evaluated += int(known.sum())
        applied += int((known & found.fired).sum())
        violation = np.where(found.violated, -np.nan_to_num(found.robustness, neginf=-np.inf), 0.0)
        parts.append((violation, _tolerance(own, values)))
    if not parts:
        return None
    return (
        np.concatenate([violation for violation, _ in parts], axis=1),
        np.concatenate([tolerance for _, tolerance in parts], axis=1),
        evaluated,
        applied,
    )


def _tolerance(bank: Bank, values: Array) -> Array:
    """The tolerance of each bound row on each input, [B, R]."""
    read = np.nan_to_num(np.abs(values[0][:, bank.slots])).max(axis=2, initial=1.0)
    numbers = np.abs(bank.params).max(axis=1, initial=1.0)
    return np.asarray(TOLERANCE * np.maximum(read, numbers))


def input_values(pack: Pack, model: GraphModel, inputs: Array) -> Array:
    """The inputs, or the last step of windows, as values of the contract, [1, B, C]; NaN
    elsewhere.
    """
    columns, names = pack.manifest.contract.columns, model.names
    last = inputs[:, -1] if model.steps else inputs
    values = np.full((1, len(inputs), len(columns)), np.nan)
    for place, column in enumerate(columns):
        if column.role != "input":
            continue
        found = next((name for name in (column.name, column.source) if name in names), None)
        if found is not None:
            values[0, :, place] = last[:, names.index(found)]
            continue
        texts = [
            (code, f"{header}={text}")
            for code, text in enumerate(column.vocabulary)
            for header in (column.source, column.name)
        ]
        if any(name in names for _, name in texts):
            values[0, :, place] = -1.0
        for code, name in texts:
            if name in names:
                values[0, last[:, names.index(name)] > 0.5, place] = code
    return values


def _contract_values(
    rules: ConstraintModule, model: GraphModel, inputs: Array, outputs: Array
) -> Array:
    """Inputs and outputs as values of the contract, [1, B, C]; NaN elsewhere."""
    values = input_values(rules.pack, model, inputs)
    for place, column in enumerate(rules.pack.manifest.contract.columns):
        if column.role != "output":
            continue
        for entry, layout in enumerate(rules.plan.y.entries):
            own = (
                (column.label, column.category) == (layout.name, layout.category)
                if layout.kind == "score"
                else layout.name in (column.name, column.source)
            )
            if own:
                values[0, :, place] = outputs[:, entry] * percent(rules.plan, entry)
    return values
