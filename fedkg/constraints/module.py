"""A pack as a PyTorch module: put it beside a model, add its penalty to the loss, read its report.

Letters: B batch, F features, V runs of the model, H outputs, R rows of the pack (banks in pack order).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from fedkg.constraints.banks import BankTensors, bank_tensors
from fedkg.constraints.evaluated import Evaluated
from fedkg.constraints.layout import AnyLayout, InputLayout, outputs_of
from fedkg.constraints.numbers import computing_dtype, input_numbers, output_numbers, wiring
from fedkg.constraints.plan import Plan, make_plan
from fedkg.constraints.plausible import check_probabilities, check_units
from fedkg.constraints.projection import Bounds, find_bounds, project
from fedkg.constraints.report import ConstraintReport
from fedkg.constraints.views import Before, Keys, Previous, codes_of, key_codes, model_inputs, rows_before
from fedkg.errors import LayoutError
from fedkg.pack.pack import Pack

Model = Callable[[Tensor], Tensor]


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

    Raises:
        LayoutError: when a column or output that the rules read has no place in the layouts.
    """

    def __init__(self, pack: Pack, *, x: InputLayout, y: AnyLayout = None) -> None:
        super().__init__()
        self.pack = pack
        self.plan: Plan = make_plan(pack, x, outputs_of(y))
        self._wires = tuple(wiring(self.plan))
        for name, array in wiring(self.plan).items():
            self.register_buffer(f"_{name}", torch.from_numpy(array), persistent=False)
        self.banks: tuple[BankTensors, ...] = tuple(
            bank_tensors(bank, plan) for bank, plan in zip(pack.banks, self.plan.banks, strict=True)
        )
        self.bounds: Bounds = find_bounds(self.plan)
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
        """The V batches on which the model must run, [V, B, F]; the first is `x` itself.

        For whoever runs the model himself: ``rules(x=x, y=torch.stack([model(view) for view in rules.views(x)]))``.
        """
        x = self._checked(x)
        return model_inputs(self.plan, x, self.rows_before(x, keys or {}, previous))

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

        Args:
            x: features [B, F], laid out as announced.
            y: the model (any callable from [n, F] to [n, H] or [n]; run once, on all views stacked), or its answers: [B, H] or [B], or for
                rules that compare answers [V, B, H] as for `views`.
            keys: for rules that select rows by category (machine, product type): per column its texts or codes, unless a feature holds it.
            previous: for rules that compare a row with the one before it in its group: the features of those rows [B, F], NaN where there
                is none, or "above" when the batch is in table order.
            sample_weight: [B], how much each row counts in the penalty (0 for padding).
            semantics: what the penalty does with minima and maxima: "exact", or "smooth" with log-sum-exp and softplus.
            temperature: of "smooth", in units of the comparisons' scales.

        Raises:
            LayoutError: tensors of the wrong shape, values that look standardised though the layout says source units (or the other way
                round), answers outside of 0..1 announced as probabilities, answers for one view where rules compare several.
        """
        x = self._checked(x)
        keys = keys or {}
        before = self.rows_before(x, keys, previous)
        answers = self._answers(x, y, before)
        dtype = computing_dtype(x, answers)
        codes = key_codes(self.plan, keys, x.shape[0], x.device)
        inputs = input_numbers(self.plan, self.wires, x, codes, before, dtype)
        if not self._units_checked:
            self._units_checked = check_units(self.plan, x)
        if not self._answers_checked:
            self._answers_checked = check_probabilities(self.plan, answers)
        return ConstraintReport(
            Evaluated(
                pack=self.pack,
                banks=self.banks,
                inputs=inputs.numbers,
                met=inputs.met,
                outputs=output_numbers(self.plan, self.wires, answers, before, dtype),
                answers=answers[0],
                sample_weight=sample_weight,
                temperature=temperature if semantics == "smooth" else None,
                inactive=self._inactive(set(codes), set(before)),
            )
        )

    def project(self, x: Tensor, y: Tensor, *, keys: Keys | None = None) -> Tensor:
        """The answers nearest to `y` that keep every bound on a single output which the rules set for each row, laid out as `y`.

        Bounds are the rows of the shape ``[if guard over inputs then] number * output <= expression over inputs``, and conjunctions of
        them; `not_projected` names the rules with parts of other shapes. Where bounds contradict each other, the midpoint.

        Args:
            x: [B, F]. y: [B, H] or [B]. keys: as in `forward`.
        """
        x = self._checked(x)
        answers = self._shaped(y, x.shape[0], 1)
        dtype = computing_dtype(x, answers)
        inputs = input_numbers(self.plan, self.wires, x, key_codes(self.plan, keys or {}, x.shape[0], x.device), {}, dtype)
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
        return self

    def _checked(self, x: Any) -> Tensor:
        batch: Tensor = torch.as_tensor(x)
        features = len(self.plan.x.names)
        if batch.ndim != 2 or batch.shape[1] != features:
            raise LayoutError(
                "x does not fit its layout",
                expected=f"shape [B, {features}] ({', '.join(self.plan.x.names)})",
                received=f"shape {list(batch.shape)}",
            )
        device = self.wires["read_row"].device
        if batch.device != device:
            raise LayoutError(f"x is on {batch.device}, the rules are on {device}", help="rules.to(x.device)")
        return batch if batch.is_floating_point() else batch.to(torch.get_default_dtype())

    def rows_before(self, x: Tensor, keys: Keys, previous: Previous) -> dict[int, Before]:
        """For each view "previous" that rules read, the row before each row, as far as the call tells; by contract view."""
        found = {view: rows_before(self.plan, view, x, keys, previous) for view in self.plan.groups}
        return {view: rows for view, rows in found.items() if rows is not None}

    def _answers(self, x: Tensor, y: Tensor | Model | None, before: dict[int, Before]) -> Tensor:
        """The model's answers on all its runs: [V, B, H]."""
        runs = len(self.plan.runs)
        if y is None:
            if len(self.plan.y):
                raise LayoutError("the rules read what the model says", help="rules(x=batch, y=model)")
            return x.new_zeros((1, x.shape[0], 0))
        if isinstance(y, Tensor) or not callable(y):
            return self._shaped(y, x.shape[0], runs)
        answers = y(model_inputs(self.plan, x, before).flatten(0, 1) if runs > 1 else x)
        return self._shaped(answers, x.shape[0], runs, stacked=True)

    def _shaped(self, y: Any, batch: int, runs: int, *, stacked: bool = False) -> Tensor:
        entries = len(self.plan.y)
        if not isinstance(y, Tensor):
            received = type(y).__name__
            raise LayoutError("the model's answers must be one tensor", received=received, help="rules(x=batch, y=lambda z: model(z)[0])")
        count = batch * runs if stacked else batch
        single = entries == 1
        if stacked or runs == 1:
            if y.shape == (count, entries) or (single and y.shape == (count,)):
                return y.reshape(runs, batch, entries)
            if not stacked and y.shape == (1, batch, entries):
                return y
        elif y.shape == (runs, batch, entries) or (single and y.shape == (runs, batch) and y.shape != (batch, 1)):
            return y.reshape(runs, batch, entries)
        elif y.shape == (batch, entries) or (single and y.shape == (batch,)):
            raise LayoutError(
                f"some rules compare what the model says on {runs} views of the batch, and y has its answers to one",
                received=f"shape {list(y.shape)}",
                help="rules(x=batch, y=model), or y=torch.stack([model(view) for view in rules.views(batch)])",
            )
        expected = f"shape [{count}, {entries}]" if stacked or runs == 1 else f"shape [{runs}, {batch}, {entries}]"
        raise LayoutError("y does not fit its layout", expected=expected, received=f"shape {list(y.shape)}")

    def _inactive(self, codes: set[int], before: set[int]) -> dict[str, str]:
        """Rules (by name) with rows that this call cannot evaluate, and why; warns of each reason once."""
        reasons: dict[str, str] = {}
        for (column, view), rules in self.plan.needs.items():
            if column >= 0 and self.plan.features[column] < 0 and column not in codes:
                name = self.pack.manifest.contract.columns[column].source
                reason = f'needs keys={{"{name}": ...}} (one text or code per row)'
            elif view >= 0 and view not in before:
                groups = ", ".join(f'"{group}": ...' for group in self.plan.groups[view])
                reason = 'needs previous= (the rows before) or previous="above" when the batch is in table order'
                reason += f", with keys={{{groups}}}" if groups else ""
            else:
                continue
            for rule in rules:
                reasons.setdefault(self.rule_names[rule], reason)
        for reason in sorted(set(reasons.values()) - self._warned):
            self._warned.add(reason)
            names = ", ".join(name for name, why in reasons.items() if why == reason)
            warnings.warn(f"not evaluated: {names}: {reason}", ConstraintWarning, stacklevel=4)
        return reasons
