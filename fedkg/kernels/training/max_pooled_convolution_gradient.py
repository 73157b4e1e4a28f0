"""Backward pass of a convolution under max pooling: at most one number of each square has a nonzero
derivative.

Each of these numbers has a window of the image. With contiguous channels, the window's rows are
contiguous runs of numbers: the gradient of a channel's weights is a sum of such runs, and the
weights' runs are added to the derivative by the image. This takes a quarter of the work of a dense
product, or less. Zeros are skipped. If an image has a value that is not finite, all weights get a
NaN derivative, as some would from a product with 0, so that the server can detect such a client.

Letters: I and O channels, h and w height and width of the layer's input (with padding), k side of
its window, n numbers of a run, N numbers of a vector, D positions with a derivative.
"""

from __future__ import annotations

from fedkg.kernels.loop_language import (
    Float,
    Floats,
    Ints,
    LLVMFunction,
    address_of,
    ints_at,
    loop,
    to_float,
)
from fedkg.kernels.training.matrix_products import fill
from fedkg.kernels.training.transposes import transpose

N = 8
"""Numbers of a vector; runs are at least as long."""

WIDE, MIDDLE = 12, 3
"""Vectors that are summed in parallel if a run is long enough: dependent sums would take three
times as long.
"""


def _number(single: bool) -> tuple[str, str, int]:
    return ("float", "f32", 4) if single else ("double", "f64", 8)


def _of_vectors(single: bool) -> tuple[str, ...]:
    kind, short, _ = _number(single)
    vector = f"<{N} x {kind}>"
    return (f"declare {vector} @llvm.fma.v{N}{short}({vector}, {vector}, {vector})",)


def _spread(kind: str) -> list[str]:
    """The number `%by` as a vector."""
    vector, zeros = f"<{N} x {kind}>", ", ".join(["i32 0"] * N)
    one = f"  %one = insertelement {vector} undef, {kind} %by, i32 0"
    return [one, f"  %all = shufflevector {vector} %one, {vector} undef, <{N} x i32> <{zeros}>"]


def _summed(many: int) -> LLVMFunction:
    name = f"summed{many}"

    def text(single: bool) -> str:
        kind, short, size = _number(single)
        vector = f"<{N} x {kind}>"
        lines = [
            (
                f"define internal void @{name}(ptr %out, ptr %x, ptr %factors, ptr %places, i64 "
                "%count) nounwind noinline {"
            ),
            "entry:",
            "  %some = icmp sgt i64 %count, 0",
            "  br i1 %some, label %loop, label %done",
            "loop:",
            "  %d = phi i64 [ 0, %entry ], [ %next, %loop ]",
            *(
                f"  %sum{i} = phi {vector} [ zeroinitializer, %entry ], [ %more{i}, %loop ]"
                for i in range(many)
            ),
            f"  %factor = getelementptr {kind}, ptr %factors, i64 %d",
            f"  %by = load {kind}, ptr %factor",
            "  %place = getelementptr i64, ptr %places, i64 %d",
            "  %far = load i64, ptr %place",
            f"  %since = getelementptr {kind}, ptr %x, i64 %far",
            *_spread(kind),
        ]
        for i in range(many):
            lines += [
                f"  %at{i} = getelementptr {kind}, ptr %since, i64 {N * i}",
                f"  %values{i} = load {vector}, ptr %at{i}, align {size}",
                (
                    f"  %more{i} = call {vector} @llvm.fma.v{N}{short}({vector} %all, {vector} "
                    f"%values{i}, {vector} %sum{i})"
                ),
            ]
        lines += [
            "  %next = add i64 %d, 1",
            "  %again = icmp slt i64 %next, %count",
            "  br i1 %again, label %loop, label %done",
            "done:",
        ]
        lines += [
            f"  %end{i} = phi {vector} [ zeroinitializer, %entry ], [ %more{i}, %loop ]"
            for i in range(many)
        ]
        for i in range(many):
            lines += [
                f"  %to{i} = getelementptr {kind}, ptr %out, i64 {N * i}",
                f"  store {vector} %end{i}, ptr %to{i}, align {size}",
            ]
        return "\n".join([*lines, "  ret void", "}"])

    return LLVMFunction(
        name, ("Floats", "Floats", "Floats", "Ints", "int"), "None", text, _of_vectors
    )


summed_wide, summed_middle, summed_one = _summed(WIDE), _summed(MIDDLE), _summed(1)
"""``out = sum over d of factors[d] x[places[d]:]`` for this many vectors."""


def _added(single: bool) -> str:
    kind, short, size = _number(single)
    vector = f"<{N} x {kind}>"
    return "\n".join([
        f"define internal void @added(ptr %out, ptr %x, {kind} %by) alwaysinline {{",
        *_spread(kind),
        f"  %values = load {vector}, ptr %x, align {size}",
        f"  %old = load {vector}, ptr %out, align {size}",
        (f"  %new = call {vector} @llvm.fma.v{N}{short}({vector} %all, {vector} %values, "
        f"{vector} %old)"),
        f"  store {vector} %new, ptr %out, align {size}",
        "  ret void",
        "}",
    ])  # fmt: skip


added = LLVMFunction("added", ("Floats", "Floats", "Float"), "None", _added, _of_vectors)
"""``out += by x``, one vector."""


@loop
def sparse_backward(
    sums: Floats,
    image: Floats,
    weight: Floats,
    slopes: Floats,
    long: int,
    places: int,
    width: int,
    size: int,
    channels: int,
    outputs: int,
    side: int,
    inward: int,
    spare: Floats,
) -> None:
    """Add a sample's derivative by the weights, [I k k, O], and by the bias after them; with
    `inward`, overwrite the image by its derivative.

    Args:
        image: [I, h w].
        weight: [O, k, k, I].
        slopes: the derivative by the output, [O, long], at `places` positions.
        width: w.
        size: h w.
        spare: for ``2 I h w + I k k + 4 places + 4`` numbers.
    """
    depth, run = channels * side * side, channels * side
    lower = spare[size * channels :]
    part = lower[size * channels :]
    factors = part[depth:]
    found = ints_at((address_of(factors[places:]) + 7) // 8 * 8)
    nothing = _nothing(factors, image, size * channels)
    transpose(spare, channels, image, size, channels, size)
    if inward > 0:
        fill(lower, size * channels, to_float(0))
    for output in range(outputs):
        count = _listed(factors, found, slopes[output * long :], places, channels)
        total = sums[depth * outputs + output]
        for place in range(count):
            total += factors[place]
        sums[depth * outputs + output] = total
        for row in range(side):
            _summed_run(
                part[row * run :], spare[row * width * channels :], factors, found, run, count
            )
            if inward > 0:
                _add_runs(
                    lower[row * width * channels :],
                    weight[output * depth + row * run :],
                    factors,
                    found,
                    run,
                    count,
                )
        for row in range(side):
            for column in range(side):
                to, since = (
                    sums[(row * side + column) * outputs + output :],
                    part[row * run + column * channels :],
                )
                for channel in range(channels):
                    to[channel * side * side * outputs] += since[channel] + nothing
    if inward > 0:
        transpose(image, size, lower, channels, size, channels)


@loop
def _nothing(sums: Floats, x: Floats, n: int) -> Float:
    """The product of numbers with 0: 0, or NaN if one is not finite. sums: for N numbers."""
    straight, total = n - n % N, to_float(0)
    fill(sums, N, to_float(0))
    for at in range(0, straight, N):
        added(sums, x[at:], to_float(0))
    for i in range(N):
        total += sums[i]
    for i in range(straight, n):
        total += x[i] * to_float(0)
    return total


@loop
def _listed(factors: Floats, found: Ints, slopes: Floats, places: int, channels: int) -> int:
    """The number of nonzero derivatives, their values, and the positions of their windows in an
    image [h w, I].
    """
    count = 0
    for place in range(places):
        v = slopes[place]
        factors[count] = v
        found[count] = place * channels
        count = count + 1 if v != 0.0 else count
    return count


@loop
def _summed_run(out: Floats, x: Floats, factors: Floats, found: Ints, run: int, count: int) -> None:
    """The sums of a run; the last vector may overlap the previous one, with equal values."""
    at = 0
    while at < run:
        if run - at >= 96:
            summed_wide(out[at:], x[at:], factors, found, count)
            at += 96
        elif run - at >= 24:
            summed_middle(out[at:], x[at:], factors, found, count)
            at += 24
        else:
            at = min(at, run - N)
            summed_one(out[at:], x[at:], factors, found, count)
            at += N


@loop
def _add_runs(
    out: Floats, weight: Floats, factors: Floats, found: Ints, run: int, count: int
) -> None:
    straight = run - run % N
    for place in range(count):
        to, by = out[found[place] :], factors[place]
        for at in range(0, straight, N):
            added(to[at:], weight[at:], by)
        for at in range(straight, run):
            to[at] += by * weight[at]


@loop
def channels_last(to: Floats, weight: Floats, outputs: int, channels: int, square: int) -> None:
    """Weights [O, I, k k] as [O, k k, I]."""
    for output in range(outputs):
        transpose(
            to[output * channels * square :],
            channels,
            weight[output * channels * square :],
            square,
            channels,
            square,
        )
