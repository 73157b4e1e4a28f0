"""What the model says of a batch, on all the runs that rules compare, however the call gives it.

Letters: V runs of the model, B batch, T steps of a window, N rows (B, or B * T), F features, H
outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from fedkg.constraints.binding.model_run_inputs import Before, model_inputs
from fedkg.constraints.binding.plan import Plan
from fedkg.errors import LayoutError

Model = Callable[[Tensor], Tensor]


def ask(
    plan: Plan,
    x: Tensor,
    shape: tuple[int, ...],
    y: Tensor | Model | None,
    before: Mapping[int, Before],
) -> Tensor:
    """Return the model's answers on all its runs, [V, N, H].

    Args:
        plan: the pack bound to its layouts.
        x: [N, F], the features.
        shape: (B,), or (B, T) for windows.
        y: the model, its answers, or None if the rules read no output.
        before: by contract view that looks back: the row before each row.

    Raises:
        LayoutError: answers of another shape, or none where rules read them.
    """
    runs = len(plan.runs)
    if y is None:
        if len(plan.y):
            raise LayoutError(
                "the rules read the model's outputs, but y is missing",
                expected=f"y ({plan.y.output_names})",
                help="rules(x=batch, y=model)",
            )
        return x.new_zeros((1, x.shape[0], 0))
    if isinstance(y, Tensor) or not callable(y):
        return shaped(plan, y, shape, runs)
    batches = model_inputs(plan, x, before).flatten(0, 1) if runs > 1 else x
    return shaped(
        plan, y(batches.reshape(runs * shape[0], *shape[1:], x.shape[1])), shape, runs, stacked=True
    )


def shaped(
    plan: Plan, y: Any, shape: tuple[int, ...], runs: int, *, stacked: bool = False
) -> Tensor:
    """Answers as [V, N, H]; `stacked`: of all runs one after the other.

    `Any`: whatever somebody's model returns. Raises LayoutError.
    """
    entries = len(plan.y)
    if not isinstance(y, Tensor):
        received = type(y).__name__
        raise LayoutError(
            "the model's answers must be one tensor", received=received, help=_advice(y, stacked)
        )
    lead = (shape[0] * runs, *shape[1:]) if stacked else shape
    single = entries == 1
    if stacked or runs == 1:
        if y.shape in ((*lead, entries), lead if single else None) or (
            not stacked and y.shape == (1, *lead, entries)
        ):
            return y.reshape(runs, _count(shape), entries)
    elif y.shape == (runs, *lead, entries) or (
        single and y.shape == (runs, *lead) and y.shape != (*lead, 1)
    ):
        return y.reshape(runs, _count(shape), entries)
    elif y.shape in ((*lead, entries), lead if single else None):
        raise LayoutError(
            f"some rules compare the model's answers on {runs} views of the batch, "
            "and y has the answers to one view",
            received=f"shape {list(y.shape)}",
            help="rules(x=batch, y=model), or y=torch.stack([model(view) for view in "
            "rules.views(batch)])",
        )
    wanted = (*lead, entries) if stacked or runs == 1 else (runs, *lead, entries)
    raise LayoutError(
        f"the shape of {'the answers of the model' if stacked else 'y'} does not fit the batch and "
        "the names in y=",
        expected=f"shape {list(wanted)}",
        received=f"shape {list(y.shape)}",
        help=f"{'return' if stacked else 'pass'} one row of answers for each row of "
        f"{'the input of the model' if stacked else 'x'}, in the order of the names in y=",
    )


def _advice(y: Any, stacked: bool) -> str:
    """Describe the expected answers if they are not a tensor; `stacked`: a model gave them."""
    if callable(y):
        return "pass the answers, not the model: y=model(x)"
    if stacked:
        return (
            "return one tensor from the model; for a model that returns a tuple: "
            "rules(x=batch, y=lambda z: model(z)[0])"
        )
    tensors = isinstance(y, list | tuple) and any(isinstance(part, Tensor) for part in y)
    return (
        "pass one of the tensors, y=answers[0], or all of them, y=torch.stack(answers)"
        if tensors
        else "pass a tensor: y=torch.as_tensor(y)"
    )


def _count(shape: tuple[int, ...]) -> int:
    return shape[0] if len(shape) == 1 else shape[0] * shape[1]
