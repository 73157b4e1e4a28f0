"""Rules inside of compiled functions.

On a processor they are operators that `torch.compile` takes as they are, with what it must know of
their results: an operator evaluates the rules as elsewhere, in separate loops. On any other device
they are *open*: the compiler of the graph sees the tensor operations that they are made of, forward
and backward, and joins them into few passes. Nothing here is imported, and no operator declared,
before a function with rules in it is compiled.

Letters: B rows, or n windows of T steps; F features, H outputs, R rows of the pack.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from typing_extensions import override

from fedkg._internal.compile_exclusion import exclude_from_compile
from fedkg._internal.torch_compat import trace_without_python
from fedkg.constraints.binding.rule_input_values import computing_dtype
from fedkg.constraints.engine.penalty import penalty_form
from fedkg.constraints.module_handles import registered_module
from fedkg.constraints.report import ConstraintReport

V = TypeVar("V")

SATISFIED, VIOLATED, APPLICABLE, FIRED = range(4)
"""Planes of `verdicts`."""


EXACTLY = ("exact", 0.05, "hinge", 5.0)
"""What does not concern robustness and verdicts."""


class ReportArguments(NamedTuple):
    """A call as operators receive it: `ConstraintModule.forward`, with the number of the module."""

    x: Tensor
    y: Tensor
    weight: Tensor | None
    module: int
    semantics: str
    temperature: float
    form: str
    sharpness: float


def _report(arguments: ReportArguments) -> ConstraintReport:
    """The report of a call, outside of any graph."""
    form: dict[str, Any] = dict(zip(ReportArguments._fields[4:], arguments[4:], strict=True))
    report: ConstraintReport = registered_module(arguments.module)(
        arguments.x, arguments.y, sample_weight=arguments.weight, **form
    )
    return report


def _differentiable(
    arguments: ReportArguments,
    by_x: bool,
    by_y: bool,
    work: Callable[[ConstraintReport], Tensor],
    by: Tensor | None,
) -> list[Tensor]:
    """A number of a report, and the slopes of it (or of its product with `by`, summed) by features
    and answers, where they are wanted.

    On a separate thread: inside of an operator torch records nothing that could be differentiated.
    """

    def compute() -> list[Tensor]:
        with torch.enable_grad():
            leaves = [
                part.detach().clone().requires_grad_(want)
                for part, want in zip(arguments[:2], (by_x, by_y), strict=True)
            ]
            value = work(_report(arguments._replace(x=leaves[0], y=leaves[1])))
            wanted = [leaf for leaf in leaves if leaf.requires_grad]
            slopes = iter(
                torch.autograd.grad(value, wanted, by, allow_unused=True)
                if wanted and value.requires_grad
                else [None] * 2
            )
        own = [next(slopes) if leaf.requires_grad else None for leaf in leaves]
        zeros = [
            torch.zeros_like(part) if want else part.new_zeros(0)
            for part, want in zip(arguments[:2], (by_x, by_y), strict=True)
        ]
        return [
            value.detach(),
            *(
                zero if slope is None else slope.contiguous()
                for slope, zero in zip(own, zeros, strict=True)
            ),
        ]

    return _on_a_thread(compute)


def _on_a_thread(work: Callable[[], V]) -> V:
    with ThreadPoolExecutor(max_workers=1) as one:
        return one.submit(work).result()


def _slopes_like(arguments: ReportArguments, by_x: bool, by_y: bool) -> list[Tensor]:
    return [
        part.new_empty(part.shape if want else 0)
        for part, want in zip(arguments[:2], (by_x, by_y), strict=True)
    ]


def _shape(x: Tensor, steps: bool, module: int) -> tuple[int, ...]:
    """[B, R], or for windows [n, R] or (steps) [n, T, R]."""
    lead = x.shape[:-1] if steps else x.shape[:1]
    return (*lead, registered_module(module).pack.rows)


@torch.library.custom_op("fedkg::penalty", mutates_args=())
def penalty(
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    module: int,
    semantics: str,
    temperature: float,
    form: str,
    sharpness: float,
    by_x: bool,
    by_y: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The penalty and its slopes by features and answers, where they are wanted."""
    arguments = ReportArguments(
        x.detach(), y.detach(), weight, module, semantics, temperature, form, sharpness
    )
    if not by_x and not by_y:
        return _report(arguments).penalty.clone(), x.new_zeros(0), y.new_zeros(0)
    value, of_x, of_y = _differentiable(arguments, by_x, by_y, lambda report: report.penalty, None)
    return value.clone(), of_x, of_y


@penalty.register_fake
def _(*args: Any) -> tuple[Tensor, Tensor, Tensor]:
    arguments, wants = ReportArguments(*args[:8]), args[8:]
    of_x, of_y = _slopes_like(arguments, *wants)
    return arguments.y.new_empty((), dtype=computing_dtype(arguments.x, arguments.y)), of_x, of_y


def _keep_slopes(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(*output[1:])
    ctx.wants = inputs[8:]


def _penalty_slopes(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Any, ...]:
    slopes = [
        slope * gradient if want else None
        for slope, want in zip(ctx.saved_tensors, ctx.wants, strict=True)
    ]
    return *slopes, *[None] * 8


penalty.register_autograd(_penalty_slopes, setup_context=_keep_slopes)


@torch.library.custom_op("fedkg::robustness", mutates_args=())
def robustness(x: Tensor, y: Tensor, weight: Tensor | None, module: int, steps: bool) -> Tensor:
    """The robustness of each row of the pack: [B, R], of windows [n, R] or, with steps, [n, T,
    R].
    """
    return _robustness(
        _report(ReportArguments(x.detach(), y.detach(), weight, module, *EXACTLY)), steps
    ).clone()


def _robustness(report: ConstraintReport, steps: bool) -> Tensor:
    return (report.at_steps if steps else report).robustness.contiguous()


@robustness.register_fake
def _(x: Tensor, y: Tensor, weight: Tensor | None, module: int, steps: bool) -> Tensor:
    return y.new_empty(_shape(x, steps, module), dtype=computing_dtype(x, y))


@torch.library.custom_op("fedkg::robustness_slopes", mutates_args=())
def robustness_slopes(
    by: Tensor,
    x: Tensor,
    y: Tensor,
    weight: Tensor | None,
    module: int,
    steps: bool,
    by_x: bool,
    by_y: bool,
) -> tuple[Tensor, Tensor]:
    """The slopes by features and answers, where they are wanted, of the sum of robustness times
    `by`.
    """
    arguments = ReportArguments(x, y, weight, module, *EXACTLY)
    _, of_x, of_y = _differentiable(
        arguments, by_x, by_y, lambda report: _robustness(report, steps), by
    )
    return of_x, of_y


@robustness_slopes.register_fake
def _(
    by: Tensor, x: Tensor, y: Tensor, weight: Any, module: int, steps: bool, by_x: bool, by_y: bool
) -> tuple[Tensor, ...]:
    of_x, of_y = _slopes_like(ReportArguments(x, y, weight, module, *EXACTLY), by_x, by_y)
    return of_x, of_y


def _keep_call(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, y, weight, *ctx.rest = inputs
    ctx.save_for_backward(x, y, *([] if weight is None else [weight]))


def _robustness_slopes(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    x, y, *weight = ctx.saved_tensors
    wants = ctx.needs_input_grad[:2]
    slopes = robustness_slopes(gradient, x, y, weight[0] if weight else None, *ctx.rest, *wants)
    return (
        *(slope if want else None for slope, want in zip(slopes, wants, strict=True)),
        None,
        None,
        None,
    )


robustness.register_autograd(_robustness_slopes, setup_context=_keep_call)


@torch.library.custom_op("fedkg::verdicts", mutates_args=())
def verdicts(x: Tensor, y: Tensor, weight: Tensor | None, module: int, steps: bool) -> Tensor:
    """Bool [4, B, R], or of windows [4, n, R] or [4, n, T, R]: satisfied, violated, applicable,
    fired.
    """
    report = _report(ReportArguments(x.detach(), y.detach(), weight, module, *EXACTLY))
    report = report.at_steps if steps else report
    return torch.stack([report.satisfied, report.violated, report.applicable, report.fired])


@verdicts.register_fake
def _(x: Tensor, y: Tensor, weight: Tensor | None, module: int, steps: bool) -> Tensor:
    return y.new_empty((4, *_shape(x, steps, module)), dtype=torch.bool)


def _one_by_one(operator: Callable[..., Any]) -> Callable[..., Any]:
    """An operator on many calls at once: on one after the other."""

    def of_many(info: Any, dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        each = (
            [
                arg if dim is None else arg.select(dim, i)
                for arg, dim in zip(args, dims, strict=True)
            ]
            for i in range(info.batch_size)
        )
        found = [operator(*own) for own in each]
        if isinstance(found[0], Tensor):
            return torch.stack(found), 0
        return tuple(torch.stack(parts) for parts in zip(*found, strict=True)), (0,) * len(found[0])

    return of_many


for _operator in (penalty, robustness, robustness_slopes, verdicts):
    _operator.register_vmap(_one_by_one(_operator))


@trace_without_python
def open_penalty(parts: list[Tensor], *rest: Any) -> Tensor:
    """The penalty as tensor operations.

    `parts` are x, y and, if there is one, the weight; `rest` is what follows these in
    `ReportArguments`.
    """
    return _opened(parts, *rest).penalty


@trace_without_python
def open_robustness(parts: list[Tensor], module: int, steps: bool) -> Tensor:
    """`robustness` as tensor operations."""
    return _robustness(_opened(parts, module, *EXACTLY), steps)


@trace_without_python
def open_verdicts(parts: list[Tensor], module: int, steps: bool) -> tuple[Tensor, ...]:
    """`verdicts` as tensor operations, one tensor for each plane."""
    report = _opened([part.detach() for part in parts], module, *EXACTLY)
    report = report.at_steps if steps else report
    return report.satisfied, report.violated, report.applicable, report.fired


def _opened(parts: list[Tensor], module: int, *form: Any) -> ConstraintReport:
    x, y, *weight = parts
    return registered_module(module).opened(
        x, y, weight[0] if weight else None, penalty_form(*form)
    )


class TracedReport(ConstraintReport):
    """A report inside of a compiled function: penalty, robustness and verdicts are in its graph,
    for all else the graph ends.
    """

    def __init__(self, arguments: ReportArguments, steps: bool = False) -> None:
        self._arguments = arguments
        self._steps = steps
        self._open = (
            [part for part in arguments[:3] if part is not None]
            if arguments.x.device.type != "cpu"
            else None
        )

    @property
    @override
    def outputs(self) -> Tensor:
        """As in `ConstraintReport`."""
        x, y = self._arguments[:2]
        return y.reshape(*x.shape[:-1], -1)

    @property
    @override
    def at_steps(self) -> ConstraintReport:
        """As in `ConstraintReport`."""
        return TracedReport(self._arguments, steps=True)

    @property
    @override
    def penalty(self) -> Tensor:
        """As in `ConstraintReport`."""
        if self._open is not None:
            opened: Tensor = open_penalty(self._open, *self._arguments[3:])
            return opened
        wants = [torch.is_grad_enabled() and part.requires_grad for part in self._arguments[:2]]
        found: Tensor = penalty(*self._arguments, *wants)[0]
        return found

    @property
    @override
    def robustness(self) -> Tensor:
        """As in `ConstraintReport`."""
        if self._open is not None:
            opened: Tensor = open_robustness(self._open, self._arguments.module, self._steps)
            return opened
        found: Tensor = robustness(*self._arguments[:4], self._steps)
        return found

    def _verdicts(self) -> Any:
        if self._open is not None:
            return open_verdicts(self._open, self._arguments.module, self._steps)
        return verdicts(*self._arguments[:4], self._steps)

    def _verdict(self, plane: int) -> Tensor:
        found: Tensor = self._verdicts()[plane]
        return found

    @property
    @override
    def satisfied(self) -> Tensor:
        """As in `ConstraintReport`."""
        return self._verdict(SATISFIED)

    @property
    @override
    def violated(self) -> Tensor:
        """As in `ConstraintReport`."""
        return self._verdict(VIOLATED)

    @property
    @override
    def applicable(self) -> Tensor:
        """As in `ConstraintReport`."""
        return self._verdict(APPLICABLE)

    @property
    @override
    def fired(self) -> Tensor:
        """As in `ConstraintReport`."""
        return self._verdict(FIRED)

    @property
    @override
    def unknown(self) -> Tensor:
        """As in `ConstraintReport`."""
        found = self._verdicts()
        unknown: Tensor = found[APPLICABLE] & ~found[SATISFIED] & ~found[VIOLATED]
        return unknown

    @exclude_from_compile
    def __getattr__(self, name: str) -> Any:
        """What a `ConstraintReport` is computed from: all that no operator gives."""
        if name not in ("_of", "_each", "_shape", "_whole"):
            raise AttributeError(name)
        report = _report(self._arguments)
        report = report.at_steps if self._steps else report
        self._of, self._each, self._shape, self._whole = (
            report._of,
            report._each,
            report._shape,
            report._whole,
        )
        return getattr(report, name)
