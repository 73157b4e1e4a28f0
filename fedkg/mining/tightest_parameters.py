"""The tightest parameters of a template that the traces of each client satisfy.

Source: An, Johnson and Ma 2024, sections 3 and 4.1. Parameters are mined one after the other, with
the loosest value for those without a value. A parameter that every value satisfies is postponed,
because another one may bind it later. If two depend on each other (a trigger and its answer), the
first is set to a quantile of the values that it is compared with.

Letters: C clients, S traces of each, T steps, F features, P parameters, B = C * S * T positions; R
distinct windows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg._internal.threads import library_threads
from fedkg.constraints.binding.layout import InputLayout
from fedkg.constraints.engine.evaluation import reported
from fedkg.constraints.engine.evaluation_inputs import Reading
from fedkg.constraints.meaning.trace_robustness import Reach, reach
from fedkg.errors import KnowledgeError
from fedkg.kernels.compiled_loop_policy import can_compile_loops
from fedkg.mining.closed_form_tightest_values import (
    ALWAYS,
    NoLevel,
    compared_with,
    comparisons_with_parameter,
    interval_ends,
    levels_of,
    margin_slope,
    robustness_of,
)
from fedkg.mining.first_step_robustness import Steps, evaluate_first_step
from fedkg.mining.formula_lowering import Lowering, NoProgram
from fedkg.mining.formula_opcodes import Numbers
from fedkg.mining.level_selection import Pick, least
from fedkg.mining.mining_arguments import check_inference, check_method, check_pick, check_traces
from fedkg.mining.trace_channels import (
    Channels,
    check_horizon,
    check_known,
    known_traces,
    read_channels,
)
from fedkg.pack import Bank, Pack
from fedkg.pack.formulas import Compare
from fedkg.pack.parameter_mining_tasks import Inference, MinedParameter

LOOSEST = 1e200
"""Larger than every number of data: a parameter with this value satisfies, or violates, its
comparison everywhere.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MiningResult:
    """The tightest values that the traces of each client satisfy.

    Attributes:
        names: of the parameters.
        units: of their values.
        values: float64 [C, P]; NaN, and `determined` False, if the data does not determine the
            parameter or the template does not fit.
        determined: bool [C, P].
        chosen: bool [C, P], whether the value is set instead of mined: the trigger of a property
            with two ends.
        fits: bool [C], whether the traces satisfy the formula with its loosest parameters;
            otherwise no value satisfies it.
        traces: int64 [C], number of traces used; those with an unknown value at a step that the
            formula reads are skipped.
        satisfied: float64 [C], share of the traces that satisfy the formula with these values; NaN
            if a value is not determined, or for private mining.
        robustness: float64 [C], the least robustness of these traces; NaN likewise.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    values: Tensor
    determined: Tensor
    chosen: Tensor
    fits: Tensor
    traces: Tensor
    satisfied: Tensor
    robustness: Tensor


def mine(
    pack: Pack,
    inference: Inference,
    x: Tensor,
    *,
    layout: InputLayout,
    inside: Tensor | None = None,
    pick: Pick = least,
    trigger: float = 0.75,
    margin: float = 1e-6,
    method: Literal["exact", "bisection"] = "exact",
    fixed: Mapping[str, float] | None = None,
) -> MiningResult:
    """Mine the tightest parameters, for many clients in one call.

    Args:
        pack: compiled rules.
        inference: one of ``pack.manifest.inferences``.
        x: traces [C, S, T, F], or [S, T, F] of one client; verdicts are those at the first step of
            each.
        layout: names and scaling of the features: ``fedkg.columns(names, mean=..., std=...)``.
        inside: bool [C, S], the existing traces; None: all.
        pick: chooses the level of a client from those of its traces: `least`, ``quantile(0.95)``,
            ``private(...)``.
        trigger: quantile for a trigger that nothing else determines.
        margin: distance of a strict comparison from the tightest value, as a share of its declared
            span; for bisection the tolerance.
        method: "exact" reads values off the levels of comparisons, and bisects the declared span
            only for a parameter without a level (one in a product with data, or among members);
            "bisection" bisects for all.
        fixed: values of parameters that are not mined, by name: they count as chosen.

    Raises:
        LayoutError: the traces are not a tensor, or do not fit the layout; `inside` is not boolean.
        HorizonError: the formula looks beyond the traces, or reads a number over time where every
            trace leaves it unknown.
        KnowledgeError: wrong pack, inference, pick or method; a parameter in which the formula is
            not monotone, one to be bisected without a declared span, one that cannot be mined
            privately; a trigger or margin outside 0 .. 1; an unknown fixed parameter, or an invalid
            value for it.
    """
    check_inference(pack, inference)
    check_traces(x, layout, inside)
    check_pick(pick)
    check_method(method)
    if not 0 <= trigger <= 1 or not 0 < margin < 1:
        raise KnowledgeError(
            "`trigger` must be a share of the data, and `margin` a share of a span",
            expected="trigger in 0 .. 1, margin above 0 and below 1",
            received=f"trigger {trigger}, margin {margin}",
        )
    with library_threads(
        1
    ):  # its tensor operations are too small for several threads; the compiled loops are not
        bank = pack.conditions[inference.condition]
        given = read_channels(pack, bank, x.detach(), layout, inside)
        fixed_values = _fixed_positions(inference, fixed or {})
        search = _Search(
            bank,
            inference,
            given,
            pick,
            fixed_values,
            clip=pack.manifest.contract.end == "clip",
            bisecting=method == "bisection",
        )
        check_horizon(search.reach(0.0), given.shape[2], inference.name)
        search.skip_unknown()
        waiting = [place for place in range(len(inference.parameters)) if place not in fixed_values]
        if not pick.noisy and method == "exact":
            for low, high in interval_ends(given.formula, inference, waiting):
                if search.settle_interval(low, high, margin):
                    waiting = [place for place in waiting if place not in (low, high)]
        while waiting:
            found = next((place for place in waiting if search.settle(place, margin)), None)
            if found is None and len(waiting) > 1:
                found = next(
                    (place for place in waiting if search.set_trigger(place, trigger)), None
                )
            if found is None:
                break
            waiting.remove(found)
        for place in range(len(inference.parameters)):
            search.settle_zero_steps(place)
        return search.result()


def satisfied_traces(
    pack: Pack,
    inference: Inference,
    values: Tensor,
    x: Tensor,
    *,
    layout: InputLayout,
    inside: Tensor | None = None,
) -> Tensor:
    """Which traces satisfy the formula with these values, bool [C, S]; False if a value is unknown
    or not determined.

    Args:
        pack: compiled rules.
        inference: one of ``pack.manifest.inferences``.
        values: float64 [C, P], in the order of ``inference.parameters``: those of `mine`, for other
            traces of the clients.
        x: traces [C, S, T, F], or [S, T, F] of one client.
        layout: names and scaling of the features, as in `mine`.
        inside: bool [C, S], the existing traces; None: all.

    Raises:
        LayoutError, HorizonError: as `mine`.
        KnowledgeError: wrong pack or inference; values of another shape.
    """
    return verdicts(pack, inference, values, x, layout=layout, inside=inside)[0]


def verdicts(
    pack: Pack,
    inference: Inference,
    values: Tensor,
    x: Tensor,
    *,
    layout: InputLayout,
    inside: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """As `satisfied_traces`, and which traces have no unknown value, bool [C, S]."""
    check_inference(pack, inference)
    check_traces(x, layout, inside)
    values = torch.as_tensor(values, dtype=torch.float64)
    bank = pack.conditions[inference.condition]
    given = read_channels(pack, bank, x.detach(), layout, inside)
    search = _Search(
        bank,
        inference,
        given,
        least,
        {},
        clip=pack.manifest.contract.end == "clip",
        bisecting=False,
    )
    if values.shape != search.values.shape:
        raise KnowledgeError(
            f"the parameter values do not fit the inference `{inference.name}`",
            expected=f"shape {list(search.values.shape)}",
            received=f"shape {list(values.shape)}",
        )
    search.values = values
    windows, which = search.windows()
    usable = given.usable.clone()
    for number, row in enumerate(windows.T):
        far = reach(given.formula, row.tolist())
        check_horizon(
            Reach(back=0.0, ahead=0.0) if search.clip else far, given.shape[2], inference.name
        )
        own = torch.from_numpy(which == number).to(usable.device)
        signals, numbers = search.known(row.tolist())
        usable[own] &= (signals & numbers)[own]
    return search.verdicts() & usable & ~torch.isnan(values).any(-1, keepdim=True), usable


def _fixed_positions(inference: Inference, fixed: Mapping[str, float]) -> dict[int, float]:
    """The fixed values of parameters by position."""
    names = [parameter.name for parameter in inference.parameters]
    unknown = next((name for name in fixed if name not in names), None)
    if unknown is not None:
        raise KnowledgeError(
            f"`{inference.name}` has no parameter `{unknown}`", expected=", ".join(names)
        )
    steps = {parameter.name for parameter in inference.parameters if parameter.integer}
    for name, value in fixed.items():
        if not math.isfinite(value) or (name in steps and (value < 0 or value != int(value))):
            what = "a number of steps, counted from 0" if name in steps else "a finite number"
            raise KnowledgeError(
                f"`{name}` of `{inference.name}` cannot be fixed at this value",
                expected=what,
                received=f"{value:g}",
            )
    return {names.index(name): float(value) for name, value in fixed.items()}


def _stacked(given: Channels) -> Numbers:
    """The channels for the kernel, [s, C * S, T]."""
    return np.stack(
        [given.slots[slot].numpy().reshape(-1, given.shape[2]) for slot in sorted(given.slots)]
    )


class _Search:
    """The values so far, and their verdicts. A parameter without a value has its loosest."""

    def __init__(
        self,
        bank: Bank,
        inference: Inference,
        given: Channels,
        pick: Pick,
        fixed: Mapping[int, float],
        *,
        clip: bool,
        bisecting: bool,
    ) -> None:
        self.bank, self.parameters, self.given, self.pick, self.clip = (
            bank,
            inference.parameters,
            given,
            pick,
            clip,
        )
        self.name, self.bisecting = inference.name, bisecting
        device = given.usable.device
        self.slots = (
            _stacked(given)
            if device.type == "cpu" and given.slots and can_compile_loops()
            else None
        )
        self.values = torch.full(
            (given.shape[0], len(self.parameters)), math.nan, dtype=torch.float64, device=device
        )
        self.chosen = torch.zeros(self.values.shape, dtype=torch.bool, device=device)
        self.fixed = fixed
        self.last_evaluation: tuple[Tensor, Tensor] | None = (
            None  # the last evaluated values, and the robustness of each trace
        )
        for place, value in fixed.items():
            self.values[:, place], self.chosen[:, place] = value, True
        self.fits = torch.ones(given.shape[0], dtype=torch.bool, device=device)

    def known(self, windows: Sequence[float]) -> tuple[Tensor, Tensor]:
        """`known_traces` with the formula's parameters as ends of windows."""
        steps = Steps(count=self.given.shape[2], numbers=windows, device=self.values.device)
        return known_traces(self.given, steps)

    def skip_unknown(self) -> None:
        """Skip the traces with an unknown value at a step that the formula reads.

        Windows with ends to be mined count as the widest, as in the bank.

        Raises:
            HorizonError: an earlier value or a number over time is unknown in all traces.
        """
        widest = self.bank.params[0].copy()
        for place, value in self.fixed.items():
            widest[self.parameters[place].param] = value
        signals, numbers = self.known(widest.tolist())
        usable = self.given.usable & signals
        check_known(usable, numbers, self.name)
        self.given = replace(self.given, usable=usable & numbers)
        if not self.pick.noisy:
            self.fits = self._client_verdicts()

    def settle(self, place: int, margin: float) -> bool:
        """Mine a parameter for the clients with traces that bind it; return whether there are
        any."""
        parameter = self.parameters[place]
        if parameter.direction == "none":
            raise self._error(
                parameter,
                "a larger value loosens one part of the formula and tightens another",
                help=f"use one parameter for each part, or give it a value: "
                f'fixed={{"{parameter.name}": ...}}',
            )
        if self.pick.noisy and parameter.integer:
            raise self._error(
                parameter,
                "bounds of windows cannot be mined privately",
                expected="a parameter that signals are compared with",
            )
        value = self._steps(place) if parameter.integer else self._tightest(place, margin)
        if bool(torch.isnan(value).all()):
            return False
        self._set(place, value, margin)
        return True

    def settle_interval(self, low: int, high: int, margin: float) -> bool:
        """Mine the shortest interval that the traces of each client satisfy; return whether some
        client has one.

        Each round takes the lowest possible upper end above the lower ends tried so far, then the
        highest lower end for it. These pairs are all intervals with no end that can be tightened
        alone, from left to right, so the shortest is among them (the first of equal ones). For
        ``eventually`` over S traces of W steps there are at most S W pairs.
        """
        least, best = (
            torch.full_like(self.values[:, low], number) for number in (-math.inf, math.nan)
        )
        length = torch.full_like(least, math.inf)
        try:
            while True:
                self.values[:, high] = math.nan
                most = self._level(high)
                self.values[:, low], self.values[:, high] = math.nan, most
                found = self._level(low)
                progress = found > least  # False for NaN: this client has no interval left
                shorter = progress & (most - found < length)
                length, best = (
                    torch.where(shorter, new, old)
                    for new, old in ((most - found, length), (most, best))
                )
                if not bool(progress.any()):
                    break
                least = torch.where(progress, found, math.inf)
                above = torch.nextafter(least, torch.full_like(least, math.inf))
                self.values[:, low] = torch.where(progress, above, math.nan)
        except NoLevel:
            best = torch.full_like(best, math.nan)
        self.values[:, low] = self.values[:, high] = math.nan
        open_ = torch.isnan(best)
        if bool(open_.all()):
            return False
        self._set(high, best, margin)
        self.settle(low, margin)
        if bool(open_.any()):  # traces that do not bind both ends of a client may bind one
            fixed = self.values[:, high].clone()
            self.values[:, high] = math.nan
            self._set(high, torch.where(open_, self._level(high), fixed), margin)
        return True

    def _set(self, place: int, value: Tensor, margin: float) -> None:
        """Assign a value to a parameter; next to it if a strict comparison excludes the value
        itself.
        """
        parameter = self.parameters[place]
        self.values[:, place] = value
        if not parameter.integer:
            span = parameter.span or (0.0, 1.0)
            loosen = (
                margin
                * max(span[1] - span[0], 1e-12)
                * (1.0 if parameter.direction == "up" else -1.0)
            )
            self.values[:, place] = (
                value + loosen
                if self.pick.noisy
                else torch.where(self._client_verdicts(), value, value + loosen)
            )

    def _tightest(self, place: int, margin: float) -> Tensor:
        """The value at which the formula changes, [C]; NaN if it does not."""
        if self.bisecting:
            return self._bisect(place, margin)
        try:
            return self._level(place)
        except NoLevel:
            return self._bisect(place, margin)

    def _level(self, place: int) -> Tensor:
        """The value at which the formula changes, from the levels of its comparisons, [C]; NaN if
        it does not. Raises NoLevel.
        """
        parameter = self.parameters[place]
        each = self._first_step(target=parameter.param)
        level = self._pick_for(parameter).choose(each, self.given.usable)
        bound = level.abs() < LOOSEST / 2
        return torch.where(bound, -level if parameter.direction == "up" else level, math.nan)

    def _pick_for(self, parameter: MinedParameter) -> Pick:
        """The choice of this parameter's level, within its declared span if the pick needs one."""
        if self.pick.within is None:
            return self.pick
        if parameter.span is None:
            raise self._error(
                parameter,
                "the search of a private quantile needs the span of the signal",
                help="declare it: signal ... span LOW .. HIGH",
            )
        low, high = parameter.span
        return self.pick.within((-high, -low) if parameter.direction == "up" else (low, high))

    def _bisect(self, place: int, margin: float) -> Tensor:
        """The value at which the formula changes, by bisection of the declared span, [C].

        Uses Boolean satisfaction, because robustness 0 decides nothing (specification 4.1).
        """
        parameter = self.parameters[place]
        if parameter.span is None:
            raise self._error(
                parameter,
                "bisection needs the span of the signal that the parameter is compared with",
                help="declare it: signal ... span LOW .. HIGH",
            )
        if self.pick.noisy:
            raise self._error(
                parameter,
                "it needs bisection, whose many passes over the traces cannot be private",
                expected="a parameter that one pass over the traces determines",
            )
        ends = parameter.span if parameter.direction == "down" else parameter.span[::-1]
        good, bad = (torch.full_like(self.values[:, place], end) for end in ends)
        kept: list[Tensor] = []
        for end in (good, bad):
            self.values[:, place] = end
            kept.append(self._client_verdicts())
        for _ in range(max(1, math.ceil(math.log2(1 / margin)))):
            middle = (good + bad) / 2
            self.values[:, place] = middle
            holds = self._client_verdicts()
            good, bad = torch.where(holds, middle, good), torch.where(holds, bad, middle)
        self.values[:, place] = math.nan
        return torch.where(kept[0] & ~kept[1], good, math.nan)

    def _steps(self, place: int) -> Tensor:
        """The tightest number of steps, [C], by trying all; NaN if all numbers satisfy the formula,
        or none.
        """
        steps = self.given.shape[2]
        counts = range(
            next((count for count in range(steps) if self.reach(count).ahead >= steps), steps)
        )
        found = torch.full_like(self.values[:, place], math.nan)
        kept: list[Tensor] = []
        for count in counts:
            self.values[:, place] = count
            kept.append(self._client_verdicts())
        self.values[:, place] = math.nan
        holds = torch.stack(kept)
        order = (
            counts if self.parameters[place].direction == "down" else reversed(counts)
        )  # the tightest comes last
        for count in order:
            found = torch.where(holds[count], float(count), found)
        return torch.where(holds.all(0), math.nan, found)

    def settle_zero_steps(self, place: int) -> None:
        """Set a number of steps to 0 for the clients with traces that satisfy any number, if fewer
        steps are tighter.

        Does nothing if the formula is satisfied without these windows, because the traces then
        contain no information about them.
        """
        parameter = self.parameters[place]
        left = torch.isnan(self.values[:, place])
        if not parameter.integer or parameter.direction != "up" or not bool(left.any()):
            return
        kept = self.values[:, place].clone()
        self.values[:, place] = torch.where(left, 0.0, kept)
        asked = ~self._client_verdicts(parameter.param, -math.inf) | ~self._client_verdicts(
            parameter.param, math.inf
        )
        self.values[:, place] = torch.where(
            left & ~(self._client_verdicts() & asked), math.nan, self.values[:, place]
        )

    def set_trigger(self, place: int, share: float) -> bool:
        """Set a parameter to a quantile of the values that it is compared with; return whether
        there are any.
        """
        slots = {  # NaN where unknown, so that the quantile leaves it out
            slot: torch.where(known.reshape(1, -1), self.given.slots[slot], math.nan)
            for slot, known in self.given.known.items()
        }
        numbers = (
            None
            if self.parameters[place].integer
            else compared_with(
                self.given.formula,
                replace(self._reading(), slots=slots),
                self.parameters[place].param,
            )
        )
        if numbers is None:
            return False
        if self.pick.noisy:
            raise self._error(
                self.parameters[place],
                "the number of its trigger would be a quantile of the data, which is not private",
                expected="a trigger with a fixed number",
            )
        usable = self.given.usable.unsqueeze(-1)
        each = numbers.expand(1, math.prod(self.given.shape)).reshape(self.given.shape)
        self.values[:, place] = torch.nanquantile(
            torch.where(usable, each, math.nan).flatten(1), share, dim=1
        )
        self.chosen[:, place] = True
        return True

    def result(self) -> MiningResult:
        """The result, with the verdicts of the traces."""
        determined = ~torch.isnan(self.values)
        whole, count = determined.all(-1), self.given.usable.sum(-1)
        values = self._first_step()
        worst = torch.where(self.given.usable, reported(self.given.formula, values), math.inf).amin(
            -1
        )
        share = ((values >= 0) & self.given.usable).sum(-1).double() / count
        is_reported = whole & (count > 0) & (not self.pick.noisy)
        return MiningResult(
            names=tuple(parameter.name for parameter in self.parameters),
            units=tuple(parameter.unit for parameter in self.parameters),
            values=self.values,
            determined=determined,
            chosen=self.chosen,
            fits=self.fits,
            traces=count,
            satisfied=torch.where(is_reported, share, math.nan),
            robustness=torch.where(is_reported, worst, math.nan),
        )

    def verdicts(self, param: int | None = None, number: float = math.nan) -> Tensor:
        """Whether each trace satisfies the formula: bool [C, S].

        The value of windows with `param` as bound counts as `number`.
        """
        return self._first_step(param=param, number=number) >= 0

    def _client_verdicts(self, param: int | None = None, number: float = math.nan) -> Tensor:
        """Whether the traces of each client satisfy the formula, as far as `pick` requires: bool
        [C].
        """
        holds = self.verdicts(param, number)
        return self.pick.choose(torch.where(holds, 1.0, -1.0).double(), self.given.usable) > 0

    def _error(
        self, parameter: MinedParameter, reason: str, *, expected: str = "", help: str = ""
    ) -> KnowledgeError:
        return KnowledgeError(
            f"fedkg cannot mine the parameter `{parameter.name}` of `{self.name}`: {reason}",
            expected=expected,
            help=help,
        )

    def windows(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The parameters as numbers for each distinct choice of window bounds, [p, R], and each
        client's choice, [C].
        """
        own = [place for place, parameter in enumerate(self.parameters) if parameter.integer]
        bounds = self._filled()[:, own].cpu().numpy()
        distinct, which = np.unique(bounds, axis=0, return_inverse=True)
        numbers = np.repeat(self.bank.params.T, len(distinct), axis=1)
        for column, place in enumerate(own):
            numbers[self.parameters[place].param] = distinct[:, column]
        return numbers, which.reshape(-1)

    def _filled(self) -> Tensor:
        """The values, with the loosest for parameters without one: [C, P]."""
        last = float(self.given.shape[2] - 1)
        loosest = [
            (last if parameter.direction == "up" else 0.0)
            if parameter.integer
            else math.copysign(LOOSEST, (parameter.direction == "up") - 0.5)
            for parameter in self.parameters
        ]
        return torch.where(torch.isnan(self.values), self.values.new_tensor(loosest), self.values)

    def _reading(self) -> Reading:
        each = self._filled()
        spread = self.given.shape[1] * self.given.shape[2]
        params = [
            torch.full((1, 1), value, dtype=torch.float64, device=each.device)
            for value in self.bank.params[0].tolist()
        ]
        for place, parameter in enumerate(self.parameters):
            params[parameter.param] = each[:, place].repeat_interleave(spread)[None]
        return Reading(slots=self.given.slots, params=params)

    def _first_step(
        self, *, target: int | None = None, param: int | None = None, number: float = math.nan
    ) -> Tensor:
        """The formula at the first step of each trace, with each client's windows: [C, S].

        Its robustness, or the level of the parameter `target`; param and number as in `verdicts`.
        Raises NoLevel.
        """
        if target is not None or param is not None:
            return self._evaluate(target, param, number)
        filled = self._filled()
        if self.last_evaluation is None or not torch.equal(self.last_evaluation[0], filled):
            self.last_evaluation = (filled, self._evaluate(None, None, number))
        return self.last_evaluation[1]

    def _evaluate(self, target: int | None, param: int | None, number: float) -> Tensor:
        clients, samples, steps = self.given.shape
        numbers, which = self.windows()
        device = self.values.device
        step_windows = [
            Steps(count=steps, numbers=row.tolist(), param=param, number=number, device=device)
            for row in numbers.T
        ]
        if self.slots is not None:
            try:
                return torch.from_numpy(
                    self._looped(self.slots, step_windows, which, target)
                ).reshape(clients, samples)
            except NoProgram:
                self.slots = None
        leaf = (
            robustness_of(self._reading(), steps)
            if target is None
            else levels_of(self.given.formula, self._reading(), target, steps)
        )
        rows = [evaluate_first_step(self.given.formula, leaf, one) for one in step_windows]
        laid = torch.stack([row.expand(clients * samples) for row in rows]).reshape(
            -1, clients, samples
        )
        return laid[
            torch.from_numpy(which).to(laid.device), torch.arange(clients, device=laid.device)
        ]

    def _looped(
        self,
        slots: Numbers,
        step_windows: Sequence[Steps],
        which: NDArray[np.int64],
        target: int | None,
    ) -> Numbers:
        """The formula at the first step by the compiled kernel, [N]. Raises NoProgram, NoLevel."""
        from fedkg.kernels.numba_formula_interpreter import first_numbers

        skeleton, samples = self.given.formula, self.given.shape[1]
        filled = self._filled().numpy()
        params = np.repeat(self.bank.params[:1], len(filled), axis=0)
        params[:, [parameter.param for parameter in self.parameters]] = filled
        result = np.empty(slots.shape[1])
        holding = (
            frozenset[int]() if target is None else comparisons_with_parameter(skeleton, target)
        )

        def slope(atom: Compare) -> float | None:
            return (
                margin_slope(atom, target, params[0].tolist())
                if target is not None and id(atom) in holding
                else None
            )

        for row, steps in enumerate(step_windows):
            lowering = Lowering(
                steps, None if target is None else slope, target=target, always=ALWAYS
            )
            program, constants = lowering.program(skeleton)
            traces = np.flatnonzero(np.repeat(which == row, samples))
            first_numbers(program, constants, slots, params, result, traces)
        return result

    def reach(self, steps: float) -> Reach:
        """The steps that the formula reads, with this number for the bounds of windows to be
        mined."""
        numbers = self.bank.params[0].copy()
        for place, parameter in enumerate(self.parameters):
            if parameter.integer:
                numbers[parameter.param] = self.fixed.get(place, steps)
        far = reach(self.given.formula, numbers.tolist())
        return Reach(back=0.0, ahead=0.0) if self.clip else far
