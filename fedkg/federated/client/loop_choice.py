"""Whether a training uses compiled loops: from its second round on, if it is long enough.

The first round runs by tensor operations while a background process compiles the loops, so that
its result does not have to wait for them. A short training never uses them.
"""

from __future__ import annotations

import torch

from fedkg.federated.client.compiled_steps import compiled_steps_for
from fedkg.federated.client.constraint_penalty import ConstraintPenalty
from fedkg.federated.client.per_client_settings import batch_for, steps_for
from fedkg.federated.executors.protocol import Work
from fedkg.kernels.background_compilation import compile_ahead
from fedkg.kernels.compiled_loop_policy import (
    WORTH_SECONDS,
    can_compile_loops,
    loops_in_round,
    waits_for_loops,
)
from fedkg.models.convnet import ConvNet
from fedkg.models.recurrent import Recurrent

STEP_SECONDS = 2e-4
"""Roughly the time of a local step of the smallest model by tensor operations."""

PENALTY_SECONDS = 2e-3
"""Roughly what a constraint penalty adds to a local step."""

MULTIPLICATIONS = 2e9
"""Roughly the multiplications per second of tensor operations on small matrices."""

PASSES = 3
"""A local step multiplies each weight in the forward pass and twice in the backward pass."""


def is_worth_loops(work: Work) -> bool:
    """Return whether compiled loops are worth loading for a training.

    The answer follows from the job and the number of samples alone, not from measured times, so
    that a job gives the same bits on a machine whether its loops are compiled already or not.
    """
    return (
        can_compile_loops()
        and work.pool.x.device.type == "cpu"
        and estimate_seconds(work) >= WORTH_SECONDS
    )


def estimate_seconds(work: Work) -> float:
    """Estimate how long the local steps of all rounds take by tensor operations, in seconds."""
    settings, model, x = work.settings, work.problem.model, work.pool.x
    population = len(work.pool.sizes)
    everyone = torch.arange(population, device=x.device)
    steps = steps_for(work, everyone).double()
    batch = work.pool.sizes.clamp(max=batch_for(work, everyone))
    penalties = sum(isinstance(term, ConstraintPenalty) for term in work.algorithm.terms)
    length = x.shape[1] if isinstance(model, Recurrent) else 1  # steps of time, one by one
    weights = sum(value.numel() for value in model.init(0, x.dtype).values())
    if isinstance(model, ConvNet):
        weights *= x[0].numel()  # a filter is applied at each pixel
    products = PASSES * weights * length * batch
    step = length * STEP_SECONDS + penalties * PENALTY_SECONDS + products / MULTIPLICATIONS
    return settings.rounds * settings.sampled(population) / population * float((steps * step).sum())


def compile_for(work: Work) -> None:
    """Start the compilation of the loops of a training in background processes."""
    if waits_for_loops():
        return  # the first call compiles them
    names = []
    if any(isinstance(term, ConstraintPenalty) for term in work.algorithm.terms):
        names.append("formulas")
    with loops_in_round(use=True):
        parts = compiled_steps_for(work)
    if parts is not None:
        names.append("convolutional" if isinstance(parts.model, ConvNet) else "perceptron")
    elif isinstance(work.problem.model, Recurrent):
        names.append("cells")
    compile_ahead(names)
