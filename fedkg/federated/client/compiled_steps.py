"""Local training as one compiled loop, if every part of it has a supported form.

It equals the steps of an executor up to rounding, for a perceptron or a convolutional network with
one of the losses of this
package, plain descent with or without control variates, no terms but proximal ones, and gradients
that are means, or sums clipped sample by
sample and noised. Whether it is taken depends on the work alone, not on who is stacked with whom,
so that a client gets the same bits in
every stack. All that the neutral settings of an algorithm leave has the same form: these stay
FedAvg to the bit.

Letters: C clients of a stack, S most steps of any of them, B widest batch, P parameters of a model,
O outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedkg._internal.threads import run_in_parts
from fedkg.errors import JobError
from fedkg.federated.client.batches import Batches
from fedkg.federated.client.gradient import MeanGradient
from fedkg.federated.client.optimisers import SGD
from fedkg.federated.client.proximal import Proximal
from fedkg.federated.client.task_losses import (
    BinaryCrossEntropy,
    CrossEntropy,
    KnownSquaredError,
    Loss,
    SquaredError,
)
from fedkg.federated.client.variates import ControlVariates, ProxSkip
from fedkg.federated.executors.protocol import Work
from fedkg.federated.privacy.dp_sgd import ClippedGradient
from fedkg.federated.round_steps import Setting
from fedkg.kernels.checked_memory_access import address
from fedkg.kernels.training import batch_losses
from fedkg.kernels.training.llvm_primitives import VECTOR
from fedkg.kernels.training.local_steps import CONVOLUTIONS, ENTRIES, room_for
from fedkg.models.batched_products import has_compiled_loops
from fedkg.models.convnet import ConvNet
from fedkg.models.loop_layout import layout_of
from fedkg.models.mlp import MLP
from fedkg.models.model_protocols import Params

if TYPE_CHECKING:
    from fedkg.kernels.loop_library import Library

LOSSES = {
    CrossEntropy: batch_losses.CLASSES,
    BinaryCrossEntropy: batch_losses.BINARY,
    SquaredError: batch_losses.SQUARED,
    KnownSquaredError: batch_losses.KNOWN,
}
"""Losses that the loop knows."""

LEAST = 1 << 18
"""Multiplications that are worth a thread."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Known:
    """Parts that the compiled loop knows."""

    model: MLP | ConvNet
    loss: CrossEntropy | BinaryCrossEntropy | SquaredError | KnownSquaredError
    local: SGD | ControlVariates | ProxSkip
    proximal: tuple[Proximal, ...]
    clipped: ClippedGradient | None


def compiled_steps_for(work: Work) -> Known | None:
    """The parts of the work where the compiled loop knows them all, and their data are such as it
    may read unchecked; else None.
    """
    algorithm, problem, pool = work.algorithm, work.problem, work.pool
    model, loss, local, differentiation = (
        problem.model,
        problem.loss,
        algorithm.local,
        algorithm.differentiation,
    )
    if (
        not isinstance(model, MLP | ConvNet)
        or type(model) not in (MLP, ConvNet)  # what is derived from such a part may do otherwise
        or type(differentiation) not in (MeanGradient, ClippedGradient)
        or differentiation.randomness != "seeded"  # the loop computes its noise from keys
        or type(local) not in (SGD, ControlVariates, ProxSkip)
        or type(loss) not in LOSSES
    ):
        return None
    if (
        (isinstance(local, SGD) and local.momentum)
        or work.settings.precision != "float32"
        or not has_compiled_loops(pool.x)
    ):
        return None
    proximal = tuple(term for term in algorithm.terms if type(term) is Proximal)
    fits = (
        pool.x.shape[1:] == model.image
        if isinstance(model, ConvNet)
        else pool.x[0].numel() == model.widths[0]
    )
    if (
        len(proximal) < len(algorithm.terms)
        or not fits
        or not _fits(loss, pool.y, pool.x, model.widths[-1])
    ):
        return None
    assert isinstance(loss, CrossEntropy | BinaryCrossEntropy | SquaredError | KnownSquaredError)
    assert isinstance(local, SGD | ControlVariates | ProxSkip)
    clipped = differentiation if isinstance(differentiation, ClippedGradient) else None
    return Known(model=model, loss=loss, local=local, proximal=proximal, clipped=clipped)


def _fits(loss: Loss, y: Tensor, x: Tensor, outputs: int) -> bool:
    """Whether targets are what the loss reads: classes that are there, or as many numbers of the
    samples' type as there are outputs.
    """
    match loss:
        case CrossEntropy():
            return y.dtype == torch.int64 and y.dim() == 1
        case BinaryCrossEntropy():
            return y.dtype == x.dtype and y.dim() == 1 and outputs == 1
        case SquaredError() | KnownSquaredError():
            return y.dtype == x.dtype and y[0].numel() == outputs
        case _:
            return False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stack:
    """Parameters of all clients side by side.

    Attributes:
        flat: [C, P], the parameters of each client.
        views: the parts of `flat` by parameter name, each [C, ...].
        origin: [1, P], the start of all clients if they share one and use plain gradient descent;
            otherwise None. With it, `flat` is uninitialised before the loop and contains the change
            since the start afterwards.
    """

    flat: Tensor
    views: Params
    origin: Tensor | None


def side_by_side(compiled_steps_for: Known, params: Params) -> Stack:
    """Return a separate stack [C, ...] of the parameters at the start of local training."""
    clients = len(next(iter(params.values())))
    one = all(value.stride(0) == 0 for value in params.values())
    flat = torch.cat([(value[:1] if one else value).flatten(1) for value in params.values()], 1)
    origin = flat if one and isinstance(compiled_steps_for.local, SGD) else None
    if one:
        flat = (
            flat.expand(clients, -1).contiguous()
            if origin is None
            else flat.new_empty(clients, flat.shape[1])
        )
    views, first = {}, 0
    for name, value in params.items():
        last = first + value.numel() // clients
        views[name] = flat[:, first:last].view(value.shape)
        first = last
    return Stack(flat=flat, views=views, origin=origin)


def descended(
    compiled_steps_for: Known,
    work: Work,
    setting: Setting,
    stack: Stack,
    carry: Params,
    batches: Batches,
    noise_keys: Tensor,
) -> Tensor:
    """The sum over the steps of each client's objective, [C], NaN where gradients are clipped; the
    stack becomes where steps lead.
    """
    flat = stack.flat
    layout, loss, pool, local, clipped = (
        layout_of(compiled_steps_for.model),
        compiled_steps_for.loss,
        work.pool,
        compiled_steps_for.local,
        compiled_steps_for.clipped,
    )
    pulls = _pulls(compiled_steps_for, setting, flat, carry)
    index = batches.index.transpose(0, 1).contiguous()
    _, steps, batch = index.shape
    if isinstance(loss, CrossEntropy):
        _check_classes(pool.y[index], layout.widths[-1])
    form = layout.form(
        parameters=flat.shape[1],
        steps=steps,
        batch=batch,
        loss=LOSSES[type(loss)],
        pulled=pulls.strength is not None,
        anchors=len(pulls.anchor) > 1,
        drifting=pulls.drift is not None,
        clipped=clipped is not None,
    )
    numbers = layout.numbers(
        decay=local.weight_decay if isinstance(local, SGD) else 0.0,
        weight=loss.pos_weight if isinstance(loss, BinaryCrossEntropy) else 1.0,
        clip=0.0 if clipped is None else clipped.clip,
    )
    counted, noise = _scale_minibatch_sums(clipped, batches, flat)
    totals, y = flat.new_empty(len(flat)), pool.y.contiguous()
    given = (
        torch.tensor(form, device="cpu"),
        torch.tensor(numbers, dtype=torch.float64, device="cpu"),
        torch.tensor(layout.images, device="cpu"),
        flat,
        pool.x.contiguous(),
        y,  # as classes
        y,  # as numbers
        index,
        batches.counts.contiguous(),
        setting.steps.contiguous(),
        noise_keys.contiguous(),
        torch.as_tensor(setting.rate, dtype=flat.dtype, device=flat.device)
        .expand(len(flat))
        .contiguous(),
        flat if pulls.strength is None else pulls.strength,
        pulls.anchor,
        flat if pulls.drift is None else pulls.drift,
        counted,
        noise,
        totals,
    )
    addresses = [address(value) for value in given]
    size = (
        room_for(layout.widths, batch, VECTOR // flat.element_size())
        + batch * layout.kept
        + layout.spare
    )
    size += 0 if clipped is None else flat.shape[1]
    library, origin, own = (
        loops(flat.dtype, isinstance(compiled_steps_for.model, ConvNet)),
        None if stack.origin is None else stack.origin.numpy(),
        flat.numpy(),
    )

    def part(first: int, last: int) -> None:
        room = flat.new_empty(size)
        if origin is not None:
            own[first:last] = origin
        library.descend(first, last, *addresses, address(room))
        if origin is not None:
            own[first:last] -= origin  # while it is near

    run_in_parts(
        len(flat), max(1, LEAST // max(1, steps * batch * (flat.shape[1] + layout.kept))), part
    )
    return totals if clipped is None else totals.fill_(torch.nan)


def _scale_minibatch_sums(
    clipped: ClippedGradient | None, batches: Batches, flat: Tensor
) -> tuple[Tensor, Tensor]:
    """What a sample counts in the sum of a minibatch, and the standard deviation of that sum's
    noise, each [C]; else anything.
    """
    if clipped is None:
        return flat, flat
    expected = clipped.expected(batches.expected)
    return (1.0 / expected).to(flat.dtype).contiguous(), clipped.scale(expected).to(
        flat.dtype
    ).contiguous()


def _check_classes(classes: Tensor, outputs: int) -> None:
    """Raise JobError for a class that the model has no score for."""
    low, high = int(classes.min()), int(classes.max())
    if low < 0 or high >= outputs:
        raise JobError(
            "the target of a sample is not a class of the model",
            expected=f"0 .. {outputs - 1}: the model has {outputs} "
            f"output{'' if outputs == 1 else 's'}",
            received=str(low if low < 0 else high),
            help="correct the targets, or give the model one output for each class",
        )


@cache
def loops(dtype: torch.dtype, convolutional: bool) -> Library:
    """The loop in float32 or float64, with convolutions or without; compiled when this machine has
    never had it.
    """
    from fedkg.kernels.loop_library import Library

    return Library(
        ENTRIES, single=dtype == torch.float32, without=() if convolutional else CONVOLUTIONS
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pulls:
    """What moves parameters besides the loss: strength [P] towards the anchor [C or 1, P], and
    drift [C, P], where there are such.
    """

    strength: Tensor | None
    anchor: Tensor
    drift: Tensor | None


def _pulls(compiled_steps_for: Known, setting: Setting, flat: Tensor, carry: Params) -> _Pulls:
    """Proximal terms and control variates."""
    strength, anchor, drift = None, flat[:1], None
    start, pull = setting.start.variables, setting.start.pull
    if compiled_steps_for.proximal:
        total = sum(term.strength for term in compiled_steps_for.proximal)
        strength = torch.cat(
            [
                value.new_full((value[0].numel(),), total if name in pull else 0.0)
                for name, value in start.items()
            ]
        )
        anchor = torch.cat([pull.get(name, value).flatten(1) for name, value in start.items()], 1)
    if carry:
        drift = torch.cat([carry[name].flatten(1) for name in start], 1)
        drift = -drift if isinstance(compiled_steps_for.local, ProxSkip) else drift
    return _Pulls(strength=strength, anchor=anchor, drift=drift)
