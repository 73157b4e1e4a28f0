"""Tightness of a formula's fit to traces: the smooth metric of TeLEX (Jha et al. 2017), and its
gradient.

Robustness grows without bound as a bound is loosened. This metric is best if traces satisfy a
comparison by a little: about 1.14 standard deviations of the compared signal, the unit of residuals
here (the metric depends on scale).

Letters: C clients, S traces of each, T steps, P parameters, B = C * S * T positions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fedkg.constraints.binding.layout import InputLayout
from fedkg.constraints.engine.evaluation import compare_margin, evaluate
from fedkg.constraints.engine.evaluation_inputs import Reading, Steps
from fedkg.constraints.engine.temporal_and_member_formulas import steps_of, windows_of
from fedkg.constraints.engine.window_operators import ROBUSTNESS, over_window, until
from fedkg.errors import KnowledgeError
from fedkg.mining.mining_arguments import check_inference, check_traces
from fedkg.mining.trace_channels import read_channels
from fedkg.pack import Pack
from fedkg.pack.formulas import And, Compare, Formula, Implies, Initially, Not, Or, Temporal, Until
from fedkg.pack.parameter_mining_tasks import Inference

WIDTH = 0.01
"""Strength of the preference for wide windows of always and until, and for narrow windows of
eventually.
"""


def theta(residual: Tensor) -> Tensor:
    """``1 / (r + exp(-r)) - exp(-r)``: 0 at 0, at most 0.3652 at 1.1438, steep below 0.

    It approaches 0 for large r.
    """
    falling = torch.exp(-residual.clamp(min=-500))
    return 1 / (residual + falling) - falling


def tightness(
    pack: Pack,
    inference: Inference,
    values: Tensor,
    x: Tensor,
    *,
    layout: InputLayout,
    inside: Tensor | None = None,
) -> Tensor:
    """The sum over each client's traces of the metric at their first steps, [C]; differentiable in
    the values.

    Args:
        pack: compiled rules.
        inference: one of ``pack.manifest.inferences``.
        values: float64 [C, P], in the order of ``inference.parameters``; window bounds among them
            are rounded.
        x: traces [C, S, T, F], or [S, T, F] of one client, with F features.
        layout: names and scaling of the features, as in `fedkg.mining.mine`.
        inside: bool [C, S], the existing traces; None: all.

    Raises:
        LayoutError: the traces do not fit the layout.
        KnowledgeError: wrong pack or inference; the metric is not defined for a part of the
            formula, or window bounds differ between clients.
    """
    check_inference(pack, inference)
    check_traces(x, layout, inside)
    bank = pack.conditions[inference.condition]
    given = read_channels(pack, bank, x, layout, inside)
    if given.numbers:
        raise KnowledgeError(
            f"`{inference.name}` reads earlier values or numbers over time, for "
            "which the tightness metric is not defined",
            help="add a column with them to the table",
        )
    clients, samples, steps = given.shape
    numbers = bank.params.T.copy()
    params = [torch.full((1, 1), number, dtype=torch.float64) for number in bank.params[0].tolist()]
    for place, parameter in enumerate(inference.parameters):
        if parameter.integer:
            bounds = torch.unique(values[:, place].detach().round())
            if len(bounds) > 1:
                raise KnowledgeError(
                    f"the clients have different values of `{parameter.name}`, the bound of "
                    "a window",
                    help="call the tightness metric once for each value, with the clients that "
                    "have this value",
                )
            numbers[parameter.param] = float(bounds[0])
        params[parameter.param] = values[:, place].repeat_interleave(samples * steps)[None]
    lined = Steps(
        places=clients * samples * steps,
        count=steps,
        length=None,
        clip=pack.manifest.contract.end == "clip",
    )
    reading = Reading(slots=given.slots, params=params, careful=False, numbers=numbers, steps=lined)
    usable = given.usable
    for known in given.known.values():
        usable = usable & known.all(-1)
    counted = usable.unsqueeze(-1).expand(given.shape).reshape(clients, -1)
    each = (
        _score(bank.skeleton, reading, counted).expand(1, lined.places).reshape(given.shape)[..., 0]
    )
    return torch.where(usable, each, 0).sum(-1)


def _score(formula: Formula, reading: Reading, counted: Tensor) -> Tensor:
    """The metric at every position, [1, B]; `counted` marks the traces that determine the spread,
    bool [C, S * T].
    """

    def inner(part: Formula) -> Tensor:
        return _score(part, reading, counted)

    match formula:
        case Compare():
            margin = compare_margin(formula, True, reading).expand(1, steps_of(reading).places)
            spread = _spread(margin.detach().reshape(counted.shape), counted)
            return theta(margin / spread.repeat_interleave(counted.shape[1]))
        case Not():
            return -inner(formula.arg)
        case And():
            return torch.stack([inner(arg) for arg in formula.args]).amin(0)
        case Or():
            return torch.stack([inner(arg) for arg in formula.args]).amax(0)
        case Implies():
            return torch.maximum(-inner(formula.antecedent), inner(formula.consequent))
        case Initially():
            return inner(formula.arg)
        case Temporal():
            every = formula.op in ("always", "historically")
            windows = windows_of(formula, reading)
            past = formula.op in ("historically", "once")
            found = over_window(
                inner(formula.arg), windows, steps_of(reading), ROBUSTNESS, past=past, lowest=every
            )
            return found * _preference(windows[0, 1] - windows[0, 0], reading, wide=every)
        case Until():
            windows = windows_of(formula, reading)
            left, right = (evaluate(part, reading) for part in (formula.left, formula.right))
            places = steps_of(reading).places
            found = until(
                left.expand(1, places),
                right.expand(1, places),
                windows,
                steps_of(reading),
                ROBUSTNESS,
                past=formula.op == "since",
                closed=formula.closed,
            )
            return found * _preference(windows[0, 1] - windows[0, 0], reading, wide=True)
        case _:
            raise KnowledgeError(
                "the tightness metric is not defined for all parts of the condition",
                expected="comparisons of signals",
                received=f"a part of the kind `{formula.kind}`",
                help="write the condition with comparisons, or use fedkg.mining.mine",
            )


def _spread(values: Tensor, counted: Tensor) -> Tensor:
    """The standard deviation of the counted values [C, N], [C]; at least 1e-9."""
    number = counted.sum(1)
    mean = torch.where(counted, values, 0).sum(1) / number.clamp(min=1)
    square = torch.where(counted, (values - mean.unsqueeze(1)) ** 2, 0).sum(1)
    return (square / (number - 1).clamp(min=1)).sqrt().clamp(min=1e-9)


def _preference(reach: float, reading: Reading, *, wide: bool) -> float:
    """The factor of a window with `reach` steps; one without an end has all steps."""
    steps = reach + 1 if reach >= 0 else float(steps_of(reading).count)
    return 2 / (1 + math.exp((-WIDTH if wide else WIDTH) * steps))
