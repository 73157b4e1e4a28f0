"""A pack as a PyTorch module: put it beside a model, add its penalty to the loss, read its report.

Letters: B batch, T steps of a window, F features, V runs of the model, H outputs, R rows of the pack (banks in pack order).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from fedkg.constraints.answers import Model, ask, shaped
from fedkg.constraints.banks import BankTensors, bank_tensors, chunk_of
from fedkg.constraints.evaluated import Evaluated
from fedkg.constraints.hoist import hoist
from fedkg.constraints.horizon import check_horizons, horizons
from fedkg.constraints.layout import AnyLayout, InputLayout, outputs_of
from fedkg.constraints.numbers import computing_dtype, input_numbers, output_numbers, wiring
from fedkg.constraints.plan import STEPS, Plan, make_plan
from fedkg.constraints.plausible import check_probabilities, check_units
from fedkg.constraints.projection import Bounds, find_bounds, project
from fedkg.constraints.report import ConstraintReport
from fedkg.constraints.traces import Traces
from fedkg.constraints.views import (
    Before,
    Keys,
    Previous,
    codes_of,
    flat_keys,
    key_codes,
    model_inputs,
    rows_before,
    traces_of,
    why_inactive,
)
from fedkg.errors import LayoutError
from fedkg.pack.pack import Pack


class ConstraintWarning(UserWarning):
    """Rules that cannot be evaluated on what a call was given; each reason is warned of once per module."""


class ConstraintModule(nn.Module):
    """Compiled rules over tensors.

    Nothing in it is trained and nothing of it enters a ``state_dict``. It computes in float32, or in float64 when an input is; half
    precision is widened. ``to(device)`` moves it, ``to(dtype)`` leaves its numbers as they are.

    Args:
        pack: compiled rules.
        x: what the features of a batch are and how they were scaled: ``fedkg.columns(names, mean=..., std=...)``.
        y: what the model's outputs are: ``fedkg.probability(...)``, ``logit``, ``scores``, ``columns``, joined with ``+``; None for rules
            over inputs alone.
        memory: how many MiB the intermediate results of an evaluation may take, about: banks are evaluated in chunks of rows. No chunk is
            smaller than one row over the batch, and the results themselves, [B, R], come on top. Smaller chunks fit a cache, larger ones
            suit a GPU; in float64 they take twice as much.

    Raises:
        LayoutError: when a column or output that the rules read has no place in the layouts.
    """

    def __init__(self, pack: Pack, *, x: InputLayout, y: AnyLayout = None, memory: float = 48.0) -> None:
        super().__init__()
        self.pack = pack
        self.plan: Plan = make_plan(pack, x, outputs_of(y))
        self.memory = memory
        self._wires = tuple(wiring(self.plan))
        for name, array in wiring(self.plan).items():
            self.register_buffer(f"_{name}", torch.from_numpy(array), persistent=False)
        self.banks: tuple[BankTensors, ...] = tuple(
            bank_tensors(bank, plan) for bank, plan in zip(pack.banks, self.plan.banks, strict=True)
        )
        hoisting = hoist(self.plan)
        self._extremes = hoisting.extremes
        self._hoisted: tuple[BankTensors | None, ...] = tuple(
            None if plan is None else bank_tensors(bank, plan) for bank, plan in zip(pack.banks, hoisting.banks, strict=True)
        )
        self.bounds: Bounds = find_bounds(self.plan)
        self._horizons = horizons(pack)
        self._units_checked = self._answers_checked = False
        self._warned: set[str] = set()

    @property
    def rule_names(self) -> tuple[str, ...]:
        """The rules' names, by rule index."""
        return tuple(rule.name for rule in self.pack.manifest.rules)

    @property
    def not_projected(self) -> tuple[str, ...]:
        """Names of rules on outputs of which `project` enforces no part, or not every part."""
        return self.bounds.not_projected

    def codes(self, name: str, texts: Sequence[Any]) -> Tensor:
        """The codes int64 [B] of a key column's texts: compute them once for a data set and pass ``keys={name: codes[batch]}``.

        Raises:
            LayoutError: when the rules know no category column of that name or header.
        """
        for column in self.pack.manifest.contract.columns:
            if column.type == "category" and name in (column.name, column.source):
                return codes_of(column.vocabulary, texts)
        known = ", ".join(column.name for column in self.pack.manifest.contract.columns if column.type == "category")
        raise LayoutError(f"the rules have no category column `{name}`", expected=known or "none")

    def views(self, x: Tensor, *, keys: Keys | None = None, previous: Previous = None) -> Tensor:
        """The V batches on which the model must run, [V, B, F] or for windows [V, B, T, F]; the first is `x` itself.

        For whoever runs the model himself: ``rules(x=x, y=torch.stack([model(view) for view in rules.views(x)]))``.
        """
        x = self._checked(x)
        flat, keys = x.flatten(0, -2), flat_keys(keys or {}, x.shape[:-1])
        traces = traces_of(self.plan, x.shape[:-1], flat, keys, previous, None)
        before = self.rows_before(flat, keys, _flat(previous), traces if x.ndim == 3 else None)
        runs = model_inputs(self.plan, flat, before)
        return runs.reshape(runs.shape[0], *x.shape)

    def forward(
        self,
        x: Tensor,
        y: Tensor | Model | None = None,
        *,
        keys: Keys | None = None,
        previous: Previous = None,
        sample_weight: Tensor | None = None,
        semantics: Literal["exact", "smooth"] = "exact",
        temperature: float = 0.05,
    ) -> ConstraintReport:
        """What the rules say of a batch and the model's answers to it.

        A batch of windows [B, T, F] is B traces of T consecutive steps. Rules over time are judged on each; all others at every step. A
        batch of rows [B, F] is in no order unless `previous` says "above": then it is one trace, or one for each value of the trace column.

        Args:
            x: features [B, F] or [B, T, F], laid out as announced.
            y: the model (any callable from [n, F] to [n, H] or [n], or from [n, T, F] to [n, T, H] or [n, T]; run once, on all views
                stacked), or its answers: [B, H] or [B], for windows [B, T, H] or [B, T]; for rules that compare answers with V in front, as
                for `views`.
            keys: for rules that select rows by category (machine, product type): per column its texts or codes, unless a feature holds it.
                For windows one for each window, or one for each step of each.
            previous: for rules that compare a row with the one before it in its group: the features of those rows, laid out as `x`, NaN
                where there is none, or "above" when the batch is in table order. In windows it is the step before unless said otherwise.
            sample_weight: [B], or for windows [B] or [B, T], how much each row counts in the penalty (0 for padding). Steps before the
                first and after the last of positive weight are no steps of a window.
            semantics: what the penalty does with minima and maxima: "exact", or "smooth" with log-sum-exp and softplus.
            temperature: of "smooth", in units of the comparisons' scales.

        Raises:
            LayoutError: tensors of the wrong shape, values that look standardised though the layout says source units (or the other way
                round), answers outside of 0..1 announced as probabilities, answers for one view where rules compare several, windows
                too short for a rule to be decided at any step.
        """
        x = self._checked(x)
        shape, flat, keys = tuple(x.shape[:-1]), x.flatten(0, -2), flat_keys(keys or {}, x.shape[:-1])
        weight = None if sample_weight is None else _weights(sample_weight, shape)
        traces = traces_of(self.plan, shape, flat, keys, previous, None if weight is None else weight.reshape(shape))
        if len(shape) == 2 and traces is not None and not traces.clip:
            check_horizons(self._horizons, self.rule_names, shape[1])
        before = self.rows_before(flat, keys, _flat(previous), traces if len(shape) == 2 else None)
        answers = ask(self.plan, flat, shape, y, before)
        dtype = computing_dtype(x, answers)
        codes = key_codes(self.plan, keys, flat.shape[0], x.device)
        wires = self.wires
        inputs = input_numbers(self.plan, wires, flat, codes, before, dtype, steps=traces is not None)
        if not self._units_checked:
            self._units_checked = check_units(self.plan, flat)
        if not self._answers_checked:
            self._answers_checked = check_probabilities(self.plan, answers)
        evaluated = Evaluated(
            pack=self.pack,
            banks=self.banks,
            inputs=inputs.numbers,
            met=inputs.met,
            outputs=output_numbers(self.plan, wires, answers, before, dtype),
            answers=answers[0],
            shape=shape,
            sample_weight=weight,
            temperature=temperature if semantics == "smooth" else None,
            inactive=self._inactive(set(codes), {*before, *(() if traces is None else (STEPS,))}),
            traces=traces,
            chunk=chunk_of(self.memory),
        )
        return ConstraintReport(evaluated.hoisted(self._hoisted, self._extremes) if self._extremes else evaluated)

    def project(self, x: Tensor, y: Tensor, *, keys: Keys | None = None) -> Tensor:
        """The answers nearest to `y` that keep what linear rules say of each row, laid out as `y`.

        Linear are rules of the shape ``[if guard over inputs then] number * output <= expression over inputs``, and conjunctions of them;
        where the rule is hard, also with a sum of outputs on the left, and with numbers that depend on the inputs. A guard that is not
        known leaves the row alone. `not_projected` names the rules with parts of other shapes, those over time among them.

        Nearest is meant in the units of `y`, for logits in their probabilities; those and probabilities stay within 0 and 1. Where bounds
        contradict each other, the midpoint; where sums do, the answers by which the sum of squares of what is missed is least.

        Args:
            x: [B, F] or [B, T, F]. y: laid out as in `forward`. keys: as in `forward`.
        """
        x = self._checked(x)
        flat, keys = x.flatten(0, -2), flat_keys(keys or {}, x.shape[:-1])
        answers = shaped(self.plan, y, tuple(x.shape[:-1]), 1)
        dtype = computing_dtype(x, answers)
        inputs = input_numbers(self.plan, self.wires, flat, key_codes(self.plan, keys, flat.shape[0], x.device), {}, dtype)
        return project(self.plan, self.bounds, self.banks, inputs, answers[0]).reshape(y.shape)

    @property
    def wires(self) -> dict[str, Tensor]:
        """The plan's arrays as tensors on the module's device."""
        return {name: getattr(self, f"_{name}") for name in self._wires}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ConstraintModule:
        """Follow moves to a device but no change of dtype: thresholds are exact in float64 alone."""
        device = fn(torch.empty(0)).device
        for name in self._wires:
            setattr(self, f"_{name}", getattr(self, f"_{name}").to(device))
        self.banks = tuple(bank.to(device) for bank in self.banks)
        self._hoisted = tuple(bank and bank.to(device) for bank in self._hoisted)
        return self

    def _checked(self, x: Any) -> Tensor:
        batch: Tensor = torch.as_tensor(x)
        features = len(self.plan.x.names)
        if batch.ndim not in (2, 3) or batch.shape[-1] != features:
            raise LayoutError(
                "x does not fit its layout",
                expected=f"shape [B, {features}] ({', '.join(self.plan.x.names)}), or [B, T, {features}] for windows of T steps",
                received=f"shape {list(batch.shape)}",
            )
        if batch.ndim == 3 and not batch.shape[1]:
            raise LayoutError("the windows in x have no steps", received=f"shape {list(batch.shape)}")
        device = self._read_row.device
        if batch.device != device:
            raise LayoutError(f"x is on {batch.device}, the rules are on {device}", help="rules.to(x.device)")
        return batch if batch.is_floating_point() else batch.to(torch.get_default_dtype())

    def rows_before(self, x: Tensor, keys: Keys, previous: Previous, traces: Traces | None = None) -> dict[int, Before]:
        """For each view "previous" that rules read, the row before each row, as far as the call tells; by contract view.

        Args:
            traces: of windows, whose steps are the rows of `x`.
        """
        found = {view: rows_before(self.plan, view, x, keys, previous, traces) for view in self.plan.groups}
        return {view: rows for view, rows in found.items() if rows is not None}

    def _inactive(self, codes: Collection[int], views: Collection[int]) -> dict[str, str]:
        """Rules (by name) with rows that this call cannot evaluate, and why; warns of each reason once."""
        reasons: dict[str, str] = {}
        for (column, view), rules in self.plan.needs.items():
            reason = why_inactive(self.plan, column, view, codes, views)
            for rule in rules if reason else ():
                reasons.setdefault(self.rule_names[rule], reason)
        for reason in sorted(set(reasons.values()) - self._warned):
            self._warned.add(reason)
            names = ", ".join(name for name, why in reasons.items() if why == reason)
            warnings.warn(f"not evaluated: {names}: {reason}", ConstraintWarning, stacklevel=4)
        return reasons


def _flat(previous: Previous) -> Previous:
    return previous.flatten(0, -2) if isinstance(previous, Tensor) and previous.ndim > 2 else previous


def _weights(weight: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The weight of each row, [B] or for windows of each step, [B * T]."""
    if len(shape) == 2 and weight.shape == shape[:1]:
        return weight.repeat_interleave(shape[1])
    if weight.shape == shape:
        return weight.flatten()
    expected = f"shape {list(shape)}" + (f" or {list(shape[:1])}" if len(shape) == 2 else "")
    raise LayoutError("sample_weight does not fit the batch", expected=expected, received=f"shape {list(weight.shape)}")
