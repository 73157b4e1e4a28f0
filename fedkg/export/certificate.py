"""What an exported model guarantees: its rules, and their verdicts on random inputs.

The verdicts are those of the NumPy interpreter on the outputs of the file itself.

Letters: B inputs, F features, H outputs, C columns of the contract, R rows of a bank, K classes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedkg.constraints.binding.rule_input_values import percent
from fedkg.constraints.meaning.interpreter import evaluate_bank
from fedkg.constraints.module import ConstraintModule
from fedkg.errors import FedkgError
from fedkg.export.graph import RawModel
from fedkg.knowledge.allowed_answers import allowed_classes, allowed_interval
from fedkg.knowledge.injected_model import Injected
from fedkg.knowledge.target_bins import bins_in_interval
from fedkg.knowledge.tensor_knowledge import RangeKnowledge
from fedkg.pack import Bank, Column, Pack
from fedkg.pack.formulas import is_temporal

Array = NDArray[np.float64]

INPUTS, SEED = 10_000, 0
"""Number of random inputs of a verification, and the seed of their generator."""

TOLERANCE = 1e-9
"""Largest violation that counts as rounding, as a share of the largest number that the rule reads
(at least 1). Projections compute in float64; `==` without `+/-` can miss by the last digit."""

BATCH = 500
"""Inputs per call of an exported model, which limits its memory."""

FAR = 3.0
"""Standard deviations on each side of the mean of a feature without a span."""

WIDER = 0.1
"""Share of its span by which random inputs of a feature leave the span on each side."""

STEPS = 100
"""Half of the inputs are multiples of this part of the span, so that they meet thresholds."""


def random_inputs(model: RawModel, columns: Sequence[Column]) -> Array:
    """Raw inputs [B, F]: uniform over the spans of the features and a tenth beyond, half of them
    rounded. Truth values are 0 or 1, and categories are codes.

    Args:
        model: the model.
        columns: the columns of the contract.
    """
    random = np.random.default_rng(SEED)
    found = np.empty((INPUTS, len(model.names)))
    for place, name in enumerate(model.names):
        own = next((one for one in columns if name in (one.name, one.source)), None)
        if own is not None and own.vocabulary:
            found[:, place] = random.integers(0, len(own.vocabulary), INPUTS)
            continue
        mean, std = float(model.mean[place]), float(model.std[place])
        low, high = (mean - FAR * std, mean + FAR * std)
        if own is not None and own.span is not None:
            low, high = own.span
        drawn = random.uniform(low - WIDER * (high - low), high + WIDER * (high - low), INPUTS)
        step = (high - low) / STEPS
        drawn[::2] = low + np.round((drawn[::2] - low) / step) * step if step else low
        found[:, place] = drawn
    return found


def run_batches(run: Callable[[Array], Array], inputs: Array) -> Array:
    """The outputs of a model for many inputs, [B, H]."""
    return np.concatenate([run(inputs[at : at + BATCH]) for at in range(0, len(inputs), BATCH)])


def certify_rules(
    rules: ConstraintModule,
    enforced: Collection[str],
    model: RawModel,
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
        inputs: raw inputs, [B, F].
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
        entry = {
            "name": record.name,
            "title": record.title,
            "text": record.text,
            "hard": record.hard,
            "status": "enforced" if record.name in enforced else "checked",
        }
        found = _verdicts(rules.pack, number, values)
        if found is None:
            entries.append(
                entry | {"status": "not evaluated", "reason": "the rule reads other rows or inputs"}
            )
            continue
        violation, tolerance, evaluated = found
        if not evaluated:
            entries.append(
                entry | {"status": "not evaluated", "reason": "no random input gives it a verdict"}
            )
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
                        f"{dict(zip(model.names, inputs[place].tolist(), strict=True))}"
                    ),
                    help="report this as a bug of fedkg, with the rules",
                )
            contradicting |= beyond
            violation = np.where(beyond[:, None], 0.0, violation)
        entries.append(
            entry
            | {
                "evaluated": int(evaluated),
                "violated": int((violation > tolerance).any(1).sum()),
                "largest_violation": float(violation.max(initial=0.0)),
            }
        )
    return entries, int(contradicting.sum())


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
        values = _input_values(part.pack, raw, inputs)
        allowed = np.ones(outputs.shape, dtype=np.bool_)
        low = np.tile([-np.inf, np.inf], (len(inputs), 1))
        for own in part.models:
            if part.ends is None:
                allowed &= allowed_classes(part.pack, own, values)
            else:
                found = allowed_interval(part.pack, own, values)
                low[:, 0] = np.maximum(low[:, 0], found[:, 0])
                low[:, 1] = np.minimum(low[:, 1], found[:, 1])
        if part.ends is not None:
            allowed = bins_in_interval(low, part.ends)
        empty = np.asarray(~allowed.any(1))
        excluded = np.where(allowed | empty[:, None], 0.0, outputs)
        if excluded.any():
            raise FedkgError(
                "the exported model gives an excluded class a probability above 0",
                received=f"{excluded.max():.3g}",
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


def _verdicts(pack: Pack, rule: int, values: Array) -> tuple[Array, Array, int] | None:
    """Violations and tolerances [B, R] of a rule's bound rows, and the number of verdicts; None if
    a verdict needs more than one row of inputs and outputs.
    """
    parts: list[tuple[Array, Array]] = []
    evaluated = 0
    for bank in pack.banks:
        rows = np.flatnonzero(bank.rule == rule)
        if not len(rows):
            continue
        own = bank.take(rows)
        if own.views.any() or own.reads_other_rows or is_temporal(own.skeleton) or own.members:
            return None
        found = evaluate_bank(own, values)
        evaluated += int((found.satisfied | found.violated).sum())
        violation = np.where(found.violated, -np.nan_to_num(found.robustness, neginf=-np.inf), 0.0)
        parts.append((violation, _tolerance(own, values)))
    if not parts:
        return None
    return (
        np.concatenate([violation for violation, _ in parts], axis=1),
        np.concatenate([tolerance for _, tolerance in parts], axis=1),
        evaluated,
    )


def _tolerance(bank: Bank, values: Array) -> Array:
    """The tolerance of each bound row on each input, [B, R]."""
    read = np.nan_to_num(np.abs(values[0][:, bank.slots])).max(axis=2, initial=1.0)
    numbers = np.abs(bank.params).max(axis=1, initial=1.0)
    return np.asarray(TOLERANCE * np.maximum(read, numbers))


def _input_values(pack: Pack, model: RawModel, inputs: Array) -> Array:
    """The inputs as values of the contract, [1, B, C]; NaN elsewhere."""
    columns = pack.manifest.contract.columns
    values = np.full((1, len(inputs), len(columns)), np.nan)
    for place, column in enumerate(columns):
        for name in (column.name, column.source):
            if column.role == "input" and name in model.names:
                values[0, :, place] = inputs[:, model.names.index(name)]
                break
    return values


def _contract_values(
    rules: ConstraintModule, model: RawModel, inputs: Array, outputs: Array
) -> Array:
    """Inputs and outputs as values of the contract, [1, B, C]; NaN elsewhere."""
    values = _input_values(rules.pack, model, inputs)
    for place, column in enumerate(rules.pack.manifest.contract.columns):
        for entry, layout in enumerate(rules.plan.y.entries):
            if column.role == "output" and layout.name in (column.name, column.source):
                values[0, :, place] = outputs[:, entry] * percent(rules.plan, entry)
    return values
