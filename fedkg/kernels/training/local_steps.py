"""All local steps of a client as one loop, with its parameters in the cache.

Letters: C clients, S samples of all clients, K most steps of any client, B most samples of a
minibatch, V the same rounded up to whole vectors, F numbers of a sample, H outputs, P parameters of
a model.
"""

from __future__ import annotations

from fedkg.kernels.loop_language import Doubles, Float, Floats, Ints, loop, to_float
from fedkg.kernels.training.batch_losses import add_losses
from fedkg.kernels.training.convolutions import convolve_backward, convolve_forward
from fedkg.kernels.training.dense_layers import (
    ALL,
    ANCHORS,
    BATCH,
    CLIP,
    CLIPPED,
    LAYERS,
    LOSS,
    PULLED,
    SEEN,
    SIZE,
    STEPS,
    WEIGHT,
    WIDEST,
    WIDTHS,
    apply_penalties,
    back,
    forth,
    step_down,
)
from fedkg.kernels.training.llvm_primitives import lanes, number
from fedkg.kernels.training.matrix_products import fill
from fedkg.kernels.training.random_normal_kernels import BLOCK, SITE, disturb
from fedkg.kernels.training.sample_norms import add_clipped, clip_factors, measure


@loop
def descend(
    first: int,
    last: int,
    form: Ints,
    numbers: Doubles,
    images: Ints,
    params: Floats,
    x: Floats,
    classes: Ints,
    targets: Floats,
    index: Ints,
    counts: Ints,
    steps: Ints,
    keys: Ints,
    rates: Floats,
    strength: Floats,
    anchor: Floats,
    drift: Floats,
    shares: Floats,
    noises: Floats,
    totals: Floats,
    room: Floats,
) -> None:
    """Run the local steps of clients first .. last - 1; overwrite `params` [C, P] and sum the
    objective over the steps.

    Args:
        first: position of the first client.
        last: position after the last client.
        form: whole numbers and flags of the model and its training, see `dense_layers`.
        numbers: other numbers of the training, see `dense_layers`.
        images: the convolutions, see `convolutions`; its first number is 0 without convolutions.
        params: layer by layer the weight [O, I, ...] and the bias [O], convolutions first, with O
            outputs and I inputs of a layer.
        x: samples, [S, F].
        classes: class of each sample, [S]; read if the loss is that of classes.
        targets: targets of each sample, [S, H]; read if the loss is another one.
        index: rows of the samples in each minibatch, [C, K, B].
        counts: number of valid rows in each minibatch, [C, K].
        steps: number of steps of each client, [C].
        keys: random keys of dropout and noise, [C].
        rates: learning rates, [C].
        strength: [P], weights of the pull to `anchor`: ``strength (w - anchor)`` is added to the
            gradient at the parameters w.
        anchor: [C or 1, P], parameters to which those of a client are pulled.
        drift: [C, P], added to the gradient unchanged.
        shares: [C], weight of a sample in the gradient of a minibatch; used with clipping.
        noises: [C], standard deviation of the noise on the gradient of a minibatch; used with
            clipping.
        totals: [C], overwritten with the sums of the objective.
        room: workspace of `room_for` numbers, plus that of the convolutions, plus P with clipping.
    """
    size, most, batch, whole, seen = form[SIZE], form[STEPS], form[BATCH], form[ALL], form[SEEN]
    most_wide, outputs = (batch + lanes() - 1) // lanes() * lanes(), form[WIDTHS + form[LAYERS]]
    turned = room[whole * most_wide :]
    factors = turned[whole * batch :]
    carried = factors[whole * most_wide :]
    squares = carried[form[WIDEST] * most_wide :]
    spare = squares[most_wide:]
    noised = spare[max(3 * most_wide, 2 * BLOCK) :]
    pictures = noised[size if form[CLIPPED] > 0 else 0 :]
    for client in range(first, last):
        own, pull, away = (
            params[client * size :],
            anchor[client * size if form[ANCHORS] > 0 else 0 :],
            drift[client * size :],
        )
        total, rate, share = to_float(0), rates[client], shares[client]
        for step in range(steps[client]):
            rows, count = index[(client * most + step) * batch :], counts[client * most + step]
            wide = (count + lanes() - 1) // lanes() * lanes()
            if images[0] > 0:
                convolve_forward(own, form, images, x, rows, count, turned, pictures)
            else:
                _gather(x, form[WIDTHS], rows, count, room, turned, wide)
            forth(
                own[seen:],
                form,
                numbers,
                room,
                turned,
                factors,
                number(keys[client], step),
                count,
                wide,
            )
            out = room[(whole - outputs) * wide :]
            mean = to_float(1) if form[CLIPPED] > 0 else 1.0 / to_float(count)
            total += add_losses(
                out,
                outputs,
                wide,
                form[LOSS],
                numbers[WEIGHT],
                classes,
                targets,
                rows,
                count,
                mean,
                spare,
            )
            if form[PULLED] > 0 and form[CLIPPED] == 0:
                total += _pulled(own, pull, strength, size)
            dense = own[seen:]
            if form[CLIPPED] > 0:
                measure(dense, form, numbers, room, factors, carried, squares, spare, count, wide)
                fill(noised, size, to_float(0))
                if noises[client] > 0.0:
                    disturb(noised, number(keys[client], SITE + step), size, noises[client], spare)
            else:
                by, toward, aside = strength[seen:], pull[seen:], away[seen:]
                back(
                    dense,
                    form,
                    numbers,
                    room,
                    turned,
                    factors,
                    carried,
                    count,
                    wide,
                    rate,
                    by,
                    toward,
                    aside,
                )
            if images[0] > 0:
                convolve_backward(
                    own,
                    form,
                    numbers,
                    images,
                    count,
                    room,
                    pictures,
                    rate,
                    strength,
                    pull,
                    away,
                    squares,
                    share,
                    noised,
                )
            elif form[CLIPPED] > 0:
                clip_factors(squares, to_float(numbers[CLIP]), share, count)
            if form[CLIPPED] > 0:
                add_clipped(
                    noised[seen:], form, room, turned, squares, count, wide
                )  # parameters change only after noise is added
                apply_penalties(own, form, numbers, rate, strength, pull, away, size)
                step_down(own, noised, rate, size)
        totals[client] = total


def room_for(widths: tuple[int, ...], batch: int, lanes: int) -> int:
    """Size of the workspace of the dense layers."""
    wide = (batch + lanes - 1) // lanes * lanes
    return sum(widths) * (2 * wide + batch) + max(widths) * wide + wide + max(3 * wide, 2 * BLOCK)


@loop
def _gather(
    x: Floats, features: int, index: Ints, count: int, values: Floats, turned: Floats, wide: int
) -> None:
    """The minibatch with its samples as columns and as rows; further columns are 0."""
    for place in range(count):
        row, to = x[index[place] * features :], turned[place * features :]
        for feature in range(features):
            v = row[feature]
            to[feature] = v
            values[feature * wide + place] = v
    for feature in range(features):
        for place in range(count, wide):
            values[feature * wide + place] = 0.0


@loop
def _pulled(own: Floats, anchor: Floats, strength: Floats, n: int) -> Float:
    """``sum strength / 2 (w - anchor)^2``."""
    total = to_float(0)
    for i in range(n):
        away = own[i] - anchor[i]
        total += strength[i] * away * away
    return 0.5 * total


ENTRIES = (descend,)
"""What Python calls."""

CONVOLUTIONS = (convolve_forward, convolve_backward)
"""What a perceptron never calls: two fifths of the compilation."""
