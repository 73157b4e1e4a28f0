"""A pack as a PyTorch module: put it beside a model, add its penalty to the loss, read its report.

Letters: B batch, T steps of a window, F features, V runs of the model, H outputs, R rows of the
pack (banks in pack order).
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Never

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from fedkg._internal.compile_exclusion import exclude_from_compile
from fedkg._internal.notebook_html import notebook_html
from fedkg._internal.torch_compat import being_traced
from fedkg.constraints.batch_evaluation import BatchEvaluation
from fedkg.constraints.binding.batch import Batch, read_batch
from fedkg.constraints.binding.batch_scale_check import check_probabilities, check_units, not_finite
from fedkg.constraints.binding.layout import AnyLayout, InputLayout, outputs_of
from fedkg.constraints.binding.model_run_inputs import (
    Keys,
    Previous,
    codes_of,
    flat_keys,
    key_codes,
    model_inputs,
    why_inactive,
)
from fedkg.constraints.binding.model_run_outputs import Model, ask, shaped
from fedkg.constraints.binding.plan import ALWAYS, STEPS, Plan, make_plan
from fedkg.constraints.binding.rule_input_values import (
    computing_dtype,
    input_numbers,
    output_numbers,
    wiring,
)
from fedkg.constraints.binding.tensor_arguments import batch_of, check_floating, weights_of
from fedkg.constraints.binding.window_length_check import check_horizons, horizons
from fedkg.constraints.compiled_loop_warmup import LoopUse
from fedkg.constraints.cross_row_verdicts import add_table_verdicts
from fedkg.constraints.engine.bank_tensors import BankTensors, bank_tensors, chunk_of
from fedkg.constraints.engine.device_constants import lift
from fedkg.constraints.engine.penalty import HINGE, Kind, PenaltyForm, Semantics, penalty_form
from fedkg.constraints.engine.sharing import Sharing, share
from fedkg.constraints.engine.tensor_materialisation import materialise
from fedkg.constraints.module_handles import number_of
from fedkg.constraints.projecting.projection import Bounds, find_bounds, project
from fedkg.constraints.report import ConstraintReport
from fedkg.constraints.shape_cache import MOST, ShapeCaches, build_shape_cache, kind_of
from fedkg.errors import LayoutError
from fedkg.pack.pack import Pack

if TYPE_CHECKING:
    from fedkg.constraints.specialised import Specialised


NOT_FINITE = "are not finite"


class ConstraintWarning(UserWarning):
    """Rules that cannot be evaluated on what a call was given, or answers of the model.

    Each reason is warned of once per module.
    """


class ConstraintModule(nn.Module):
    """Compiled rules over tensors.

    The module has no trainable parameters and adds nothing to a ``state_dict``. It computes in
    float32, or in float64 if an input is float64; it converts half precision to float32.
    ``to(device)`` moves it, ``to(dtype)`` does not change its numbers.

    Args:
        pack: compiled rules.
        x: names and scaling of the features of a batch: ``fedkg.columns(names, mean=...,
            std=...)``.
        y: names and kinds of the model's outputs: ``fedkg.probability(...)``, ``logit``,
            ``scores``, ``columns``, joined with ``+``; None for rules over inputs alone.
        memory: approximate memory in MiB for the intermediate results of an evaluation. fedkg
            evaluates banks in chunks of rows. A chunk has at least one bound row over the batch.
            The results, [B, R], are not counted. Small chunks fit a cache, large ones suit a GPU;
            in float64, chunks take twice as much.

    Raises:
        LayoutError: the layouts lack a column or an output that the rules read.
    """

    def _repr_html_(self) -> str:
        """The rules as a notebook shows them, with the columns that they read."""
        outputs = self.plan.y.output_names
        said = f"over {len(self.plan.x.names):,} features: {', '.join(self.plan.x.names)}"
        return notebook_html(
            "ConstraintModule",
            f"{said}; outputs: {outputs}" if outputs else said,
            ("rule", "kind", "about", "title"),
            (
                (rule.name, rule.kind, "output" if rule.output else "data", rule.title)
                for rule in self.pack.manifest.rules
            ),
            len(self.pack.manifest.rules),
        )

    def __init__(
        self, pack: Pack, *, x: InputLayout, y: AnyLayout = None, memory: float = 48.0
    ) -> None:
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
        self.sharing: Sharing = share(self.plan, self.banks)
        self.bounds: Bounds = find_bounds(self.plan)
        self._horizons = horizons(pack)
        self._repeats = ShapeCaches()
        self._bound_rows = sum(bank.rows for bank in self.banks)
        self.loop_use = LoopUse()
        self._number = number_of(self)
        self._units_checked = self._answers_checked = False
        self._probabilities = tuple(
            place for place, entry in enumerate(self.plan.y.entries) if entry.kind == "probability"
        )
        self._warned: set[str] = set()

    @property
    def chunk(self) -> int:
        """How many numbers are evaluated at once."""
        return chunk_of(self.memory)

    @property
    def rule_names(self) -> tuple[str, ...]:
        """The rules' names, by rule index."""
        return tuple(rule.name for rule in self.pack.manifest.rules)

    @property
    def not_projected(self) -> tuple[str, ...]:
        """Names of rules on outputs that `project` enforces only in part, or not at all."""
        return self.bounds.not_projected

    def codes(self, name: str, texts: Sequence[Any]) -> Tensor:
        """The codes int64 [B] of a key column's texts: compute them once for a data set and pass
        ``keys={name: codes[batch]}``.

        Raises:
            LayoutError: the rules have no category column with this name or header.
        """
        for column in self.pack.manifest.contract.columns:
            if column.type == "category" and name in (column.name, column.source):
                return codes_of(column.vocabulary, texts)
        known = ", ".join(
            column.name
            for column in self.pack.manifest.contract.columns
            if column.type == "category"
        )
        raise LayoutError(
            f"the rules have no category column `{name}`"
            + ("" if known else ", nor any other category column"),
            expected=known,
        )

    def views(self, x: Tensor, *, keys: Keys | None = None, previous: Previous = None) -> Tensor:
        """The V batches on which the model must run, [V, B, F] or for windows [V, B, T, F].

        The first is `x` itself.

        If you run the model yourself: ``rules(x=x, y=torch.stack([model(view) for view in
        rules.views(x)]))``.
        """
        x = self._checked(x)
        batch = read_batch(self.plan, x, keys, previous)
        runs = model_inputs(self.plan, batch.x, batch.before)
        return runs.reshape(runs.shape[0], *x.shape)

    @override
    def forward(
        self,
        x: Tensor,
        y: Tensor | Model | None = None,
        *,
        keys: Keys | None = None,
        previous: Previous = None,
        sample_weight: Tensor | None = None,
        semantics: Semantics = "exact",
        temperature: float = 0.05,
        form: Kind = "hinge",
        sharpness: float = 5.0,
        **unknown: Never,
    ) -> ConstraintReport:
        """Evaluate the rules on a batch and on the model's answers to it.

        A batch of windows [B, T, F] contains B traces of T consecutive steps. fedkg evaluates rules
        over time on each trace, and all other rules at every step. The rows of a batch [B, F] have
        no order unless `previous` is "above": then they are one trace, or one trace for each value
        of the trace column. For rules that read other rows of the table, the batch is the table;
        `torch.compile` and `torch.func` leave them unknown.

        Args:
            x: features [B, F] or [B, T, F], in the layout of the module.
            y: the model, or its answers. The model is any callable from [n, F] to [n, H] or [n], or
                from [n, T, F] to [n, T, H] or [n, T]; fedkg runs it once, on all views stacked.
                Answers are [B, H] or [B], for windows [B, T, H] or [B, T]. For rules that compare
                answers, they have the dimension V in front, as `views` has.
            keys: for rules that select rows by category (machine, product type): the texts or codes
                of each column that is not a feature. For windows: one for each window, or one for
                each step of each window.
            previous: for rules that compare a row with the one before it in its group: the features
                of those rows, in the layout of `x`, with NaN if a row has no row before it; or
                "above" if the batch is in table order. For windows, the default is the step before.
            sample_weight: [B], or for windows [B] or [B, T]: the weight of each row in the penalty,
                0 or more (0 for padding). A window begins with its first step of positive weight
                and ends with its last one.
            semantics: how the penalty treats minima and maxima: "exact"; "smooth" with log-sum-exp
                and softplus; or "sound" with norms, which are smooth too, and positive exactly
                where the exact ones are.
            temperature: temperature of "smooth", in units of the comparisons' scales.
            form: how a violation becomes a penalty; see `PenaltyForm`.
            sharpness: sharpness of the form, above 0.

        Raises:
            LayoutError: an unknown argument, tensors of the wrong shape, values that look
                standardised although the layout is in source units (or vice versa), answers outside
                0 .. 1 for a probability, answers for one view if rules compare several, weights
                that are negative or not finite, or windows that are too short to decide a rule at
                any step.
            UsageError: unknown semantics, an unknown form, or a temperature or sharpness that is
                not above 0.
        """
        if unknown:
            columns = f"x ({', '.join(self.plan.x.names)})" + (
                f" and y ({self.plan.y.output_names})" if len(self.plan.y) else ""
            )
            raise LayoutError(
                f"unknown argument `{next(iter(unknown))}`",
                expected="x, y, keys, previous, sample_weight, semantics, temperature, form or "
                "sharpness",
                help=f"rules(x=batch, y=model), with {columns}",
            )
        alone = keys is None and previous is None and isinstance(sample_weight, Tensor | None)
        if (
            torch.compiler.is_compiling()
            and isinstance(x, Tensor)
            and isinstance(y, Tensor)
            and alone
        ):
            from fedkg.constraints.torch_compile_operators import ReportArguments, TracedReport

            near = x.device.type == "cpu"
            arguments = ReportArguments(
                x.clone() if near else x,
                y.clone() if near else y,
                sample_weight,
                self._number,
                semantics,
                temperature,
                form,
                sharpness,
            )
            return TracedReport(arguments)
        return self._report(
            x,
            y,
            keys,
            previous,
            sample_weight,
            penalty_form(semantics, temperature, form, sharpness),
        )

    @exclude_from_compile
    def _report(
        self,
        x: Tensor,
        y: Tensor | Model | None,
        keys: Keys | None,
        previous: Previous,
        sample_weight: Tensor | None,
        penalty: PenaltyForm,
    ) -> ConstraintReport:
        """The report of a call, as like ones before as may be; arguments as in `forward`."""
        kind = (
            kind_of(x, y) if keys is None and previous is None and sample_weight is None else None
        )
        again = None if kind is None else self._repeats.get(kind)
        of = (
            None
            if again is None or not isinstance(y, Tensor)
            else again.evaluate_batch(self, x, y, penalty)
        )
        if of is not None:
            self.check_answers(of.answers[None])
        if of is not None and isinstance(y, Tensor) and y.requires_grad:
            self._warn_of(x.flatten(0, -2), of.answers[None], None, stacklevel=7)
        if of is None:
            of = self._afresh(x, y, keys, previous, sample_weight, penalty)
            checked = (
                self._units_checked
                and self._answers_checked
                and not torch.is_inference_mode_enabled()
            )
            if (
                kind is not None
                and of.loops
                and kind not in self._repeats
                and checked
                and len(self._repeats) < MOST
            ):
                self._repeats[kind] = build_shape_cache(self, x, y, of)
        return ConstraintReport(
            of.hoisted(self.sharing.hoisted, self.sharing.extremes) if self.sharing.extremes else of
        )

    def opened(
        self, x: Tensor, y: Tensor, weight: Tensor | None, penalty: PenaltyForm
    ) -> ConstraintReport:
        """The report for features, answers and weights in a `torch.compile` trace: it uses tensor
        operations only.
        """
        lifted = copy.copy(self)
        lifted.__dict__["_buffers"] = {
            name: part if part is None else lift(part) for name, part in self._buffers.items()
        }
        lifted.sharing = self.sharing.each(lift)
        of = lifted._afresh(x, y, None, None, weight, penalty)
        of = replace(of, inputs=materialise(of.inputs), outputs=materialise(of.outputs))
        of = (
            of.hoisted(lifted.sharing.hoisted, lifted.sharing.extremes)
            if lifted.sharing.extremes
            else of
        )
        sure = np.array(
            [
                one == ALWAYS or (one.view == STEPS and of.traces is not None)
                for one in self.plan.conditions
            ]
        )
        unsure = (
            None if of.unsure is None else (materialise(of.unsure[0]), materialise(of.unsure[1]))
        )
        banks = tuple(bank.asking(sure) for bank in of.banks)
        return ConstraintReport(
            replace(
                of,
                banks=banks,
                inputs=materialise(of.inputs),
                outputs=materialise(of.outputs),
                unsure=unsure,
            )
        )

    def report_in_graph(self, x: Tensor, y: Tensor | None) -> ConstraintReport:
        """The report for features [B, F] and answers [B, H] inside `torch.export`, which works for
        every B.
        """
        of = self._afresh(x, y, None, None, None, HINGE)
        extremes = self.sharing.extremes
        return ConstraintReport(of.hoisted(self.sharing.hoisted, extremes) if extremes else of)

    def _afresh(
        self,
        x: Tensor,
        y: Tensor | Model | None,
        keys: Keys | None,
        previous: Previous,
        sample_weight: Tensor | None,
        form: PenaltyForm,
    ) -> BatchEvaluation:
        """Evaluate a batch without any knowledge of its shape; arguments as in `forward`."""
        x = self._checked(x)
        weight = (
            None
            if sample_weight is None
            else weights_of(sample_weight, tuple(x.shape[:-1]), x.device)
        )
        batch = self._batch(x, keys, previous, weight)
        answers = ask(self.plan, batch.x, batch.shape, y, batch.before)
        if not isinstance(y, Tensor) or y.requires_grad:
            self._warn_of(batch.x, answers, weight, stacklevel=8)
        self.check_answers(answers)
        evaluated = self.evaluate_batch(
            batch, answers, computing_dtype(x, answers), weight=weight, form=form
        )
        return evaluated.sharing(self.sharing.banks, self.sharing.values)

    def specialise(
        self, x: Tensor, *, keys: Keys | None = None, previous: Previous = None
    ) -> Specialised:
        """The rules on fixed inputs, for the answers of changing models.

        fedkg evaluates the parts of rules that read only inputs once, in this call. Use it for a
        probe set that many models answer, one after the other or several at a time; see
        `Specialised`.

        Args:
            x: as in `forward`.
            keys: as in `forward`.
            previous: as in `forward`.
        """
        from fedkg.constraints.specialised import Specialised

        return Specialised(self, self._batch(self._checked(x), keys, previous))

    def evaluate_batch(
        self,
        batch: Batch,
        answers: Tensor,
        dtype: torch.dtype,
        *,
        weight: Tensor | None = None,
        form: PenaltyForm = HINGE,
    ) -> BatchEvaluation:
        """The data from which a report is computed, for a batch and the answers [V, B, H] to it.

        `weight` [B] is the weight of its rows.
        """
        inputs = batch.numbers(self.wires, dtype)
        traced = being_traced()
        is_near = not traced and answers.device.type == "cpu"
        numbers = inputs.numbers if traced else add_table_verdicts(self.plan, inputs.numbers)
        self._check_units(batch.x)
        cells = self._bound_rows * answers.shape[1]
        loops = is_near and self.loop_use.is_worth(cells)
        if is_near and not loops:
            self.loop_use.count(cells, dtype)
        return BatchEvaluation(
            pack=self.pack,
            banks=self.banks,
            inputs=numbers,
            met=inputs.met,
            outputs=output_numbers(self.plan, self.wires, answers, batch.has, dtype),
            answers=answers[0],
            shape=batch.shape,
            sample_weight=weight,
            form=form,
            inactive=self._inactive(set(batch.codes), batch.at_hand),
            traces=batch.traces,
            chunk=sys.maxsize if traced else self.chunk,
            unseen=not is_near,
            loops=loops,
        )

    def _check_units(self, x: Tensor) -> None:
        """Raise LayoutError when a batch x [N, F] is not in the units of its layout, as far as the
        first batches tell.
        """
        if not self._units_checked and not being_traced():
            self._units_checked = check_units(self.plan, x)

    def _warn_of(self, x: Tensor, answers: Tensor, weight: Tensor | None, stacklevel: int) -> None:
        """Warn once of a model's answers [V, N, H] that are not finite.

        In a tensor without gradient, NaN marks an unknown answer.

        On an accelerator they are looked at in the first batches alone, because looking waits for
        it.
        """
        if (
            NOT_FINITE in self._warned
            or being_traced()
            or (answers.device.type != "cpu" and self._answers_checked)
        ):
            return
        if count := not_finite(x, answers, weight):
            self._warned.add(NOT_FINITE)
            text = f"{count:,} of the model's {answers.numel():,} answers {NOT_FINITE}"
            warnings.warn(
                f"{text}: fedkg does not evaluate the rules that read them there, and "
                "they add no penalty",
                ConstraintWarning,
                stacklevel=stacklevel,
            )

    @property
    def answers_checked(self) -> bool:
        """Whether `check_answers` has finished its checks."""
        return self._answers_checked

    def check_answers(self, answers: Tensor) -> None:
        """Raise LayoutError if answers [..., B, H] for probabilities are outside 0 .. 1.

        On a CPU, fedkg checks every call. On an accelerator it checks the first batches only,
        because each check waits for the device.
        """
        if being_traced() or (self._answers_checked and answers.device.type != "cpu"):
            return
        if check_probabilities(self.plan, answers, self._probabilities):
            self._answers_checked = True

    @exclude_from_compile
    def project(self, x: Tensor, y: Tensor, *, keys: Keys | None = None) -> Tensor:
        """The answers nearest to `y` that satisfy the linear rules of each row, in the layout of
        `y`.

        A rule is linear if it has the form ``[if guard over inputs then] number * output <=
        expression over inputs``, or is a conjunction of such parts. In a hard rule, the left side
        may also be a sum of outputs, and the numbers may depend on the inputs. If a guard is
        unknown, the rule does not change the row. `not_projected` names the rules with other parts,
        which include rules over time and rules that read the row before.

        The distance is in the units of `y`, for logits in their probabilities. Probabilities stay
        within 0 .. 1. If bounds contradict each other, the result is their midpoint. If sums do, it
        has the least sum of squared violations.

        Args:
            x: [B, F] or [B, T, F].
            y: answers as in `forward`, in floating-point numbers.
            keys: as in `forward`.

        Raises:
            LayoutError: as in `forward`; or the answers are whole numbers, truth values or a model.
        """
        check_floating(y)
        x = self._checked(x)
        flat, keys = x.flatten(0, -2), flat_keys(keys or {}, x.shape[:-1])
        answers = shaped(self.plan, y, tuple(x.shape[:-1]), 1)
        self._check_units(flat)
        dtype = computing_dtype(x, answers)
        inputs = input_numbers(
            self.plan,
            self.wires,
            flat,
            key_codes(self.plan, keys, flat.shape[0], x.device),
            {},
            dtype,
        )
        return project(self.plan, self.bounds, self.banks, inputs, answers[0]).reshape(y.shape)

    @property
    def wires(self) -> dict[str, Tensor]:
        """The plan's arrays as tensors on the module's device."""
        return {name: getattr(self, f"_{name}") for name in self._wires}

    @override
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ConstraintModule:
        """Follow moves to a device but no change of dtype: thresholds are exact in float64
        alone.
        """
        device = fn(torch.empty(0, device=self.wires["read_row"].device)).device
        for name in self._wires:
            setattr(self, f"_{name}", getattr(self, f"_{name}").to(device))
        self.banks = tuple(bank.each(lambda part: part.to(device)) for bank in self.banks)
        self.sharing = self.sharing.each(lambda part: part.to(device))
        self._repeats = ShapeCaches()
        return self

    @override
    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy is a separate module."""
        # torch declares it without types
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._number = number_of(self)

    def _checked(self, x: Any) -> Tensor:
        batch = batch_of(x)
        features = len(self.plan.x.names)
        if batch.ndim not in (2, 3) or batch.shape[-1] != features:
            raise LayoutError(
                "x does not fit its layout",
                expected=f"shape [B, {features}] ({', '.join(self.plan.x.names)}), or [B, "
                f"T, {features}] for windows of T steps",
                received=f"shape {list(batch.shape)}",
            )
        if batch.ndim == 3 and not batch.shape[1]:
            raise LayoutError(
                "the windows in x have no steps",
                expected="shape [B, T, F] with at least one step T",
                received=f"shape {list(batch.shape)}",
            )
        device = self._read_row.device
        if batch.device != device:
            raise LayoutError(
                f"x is on {batch.device}, the rules are on {device}", help="rules.to(x.device)"
            )
        return batch if batch.is_floating_point() else batch.to(torch.get_default_dtype())

    def _batch(
        self, x: Tensor, keys: Keys | None, previous: Previous, weight: Tensor | None = None
    ) -> Batch:
        """The batch x of a call.

        Raises HorizonError for windows too short for a rule to be decided at any step.
        """
        batch = read_batch(self.plan, x, keys, previous, weight)
        if len(batch.shape) == 2 and batch.traces is not None and not batch.traces.clip:
            check_horizons(self._horizons, self.rule_names, batch.shape[1])
        return batch

    def _inactive(self, codes: Collection[int], views: Collection[int]) -> dict[str, str]:
        """Rules (by name) with rows that this call cannot evaluate, and why.

        Warns of each reason once.
        """
        reasons: dict[str, str] = {}
        for (column, view), rules in self.plan.needs.items():
            reason = why_inactive(self.plan, column, view, codes, views)
            for rule in rules if reason else ():
                reasons.setdefault(self.rule_names[rule], reason)
        for reason in sorted(set(reasons.values()) - self._warned):
            self._warned.add(reason)
            names = ", ".join(name for name, why in reasons.items() if why == reason)
            warnings.warn(f"not evaluated: {names}: {reason}", ConstraintWarning, stacklevel=5)
        return reasons
