"""Counted random orders: the cohort of a population, and the samples of a client at each of its
steps.

The random numbers come from streams (see `fedkg.models.random_streams`), so a client's order does
not depend on the other clients. They are sorted by their highest bits first, after which random
numbers are almost sorted.

Letters: C clients, S most steps of any of them, B widest batch, N elements to order.
"""

from __future__ import annotations

from fedkg.models.loops.primitives import number
from fedkg.native.kernel_language import Ints, LLVMFunction, loop

_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def _mixed(name: str) -> str:
    """Text that scrambles ``%{name}`` into ``%{name}_out``."""
    return f"""  %{name}_a = lshr i64 %{name}, 30
  %{name}_b = xor i64 %{name}, %{name}_a
  %{name}_c = mul i64 %{name}_b, {_FIRST}
  %{name}_d = lshr i64 %{name}_c, 27
  %{name}_e = xor i64 %{name}_c, %{name}_d
  %{name}_f = mul i64 %{name}_e, {_SECOND}
  %{name}_g = lshr i64 %{name}_f, 31
  %{name}_out = xor i64 %{name}_f, %{name}_g"""


def _nothing(single: bool) -> tuple[str, ...]:
    return ()


def _drawn(single: bool) -> str:
    return f"""define internal i64 @drawn(i64 %key, i64 %place) alwaysinline {{
  %i = add i64 %place, 1
  %w = mul i64 %i, {_GOLDEN}
{_mixed("w")}
  %v = add i64 %key, %w_out
{_mixed("v")}
  ret i64 %v_out
}}"""


drawn = LLVMFunction("drawn", ("int", "int"), "int", _drawn, _nothing)
"""Sort key of the sample at a position in an epoch with this key: see
`fedkg.federated.randomness.permutations`.
"""


def _range_of(single: bool) -> str:
    return """define internal i64 @range_of(i64 %draw, i64 %bits) alwaysinline {
  %down = sub i64 64, %bits
  %high = ashr i64 %draw, %down
  %less = sub i64 %bits, 1
  %half = shl i64 1, %less
  %v = add i64 %high, %half
  ret i64 %v
}"""


range_of = LLVMFunction("range_of", ("int", "int"), "int", _range_of, _nothing)
"""Position of a number among ``2^bits`` equal ranges of the signed 64-bit numbers, bits > 0."""


@loop
def sort(draws: Ints, count: int, order: Ints, room: Ints) -> None:
    """The positions of `draws` [N] by ascending draw (stable), written into `order` [N]. room: for
    3 N + 2 numbers.
    """
    bits, ranges = 1, 2
    while ranges < count:
        bits += 1
        ranges += ranges
    sorted_draws, starts = room, room[count:]
    for i in range(ranges):
        starts[i] = 0
    for i in range(count):
        starts[range_of(draws[i], bits)] += 1
    total = 0
    for i in range(ranges):
        here = starts[i]
        starts[i] = total
        total += here
    for i in range(count):
        draw = draws[i]
        place = starts[range_of(draw, bits)]
        starts[range_of(draw, bits)] = place + 1
        sorted_draws[place] = draw
        order[place] = i
    for i in range(1, count):
        draw, who, at = sorted_draws[i], order[i], i
        while at > 0:
            if sorted_draws[at - 1] <= draw:
                break
            sorted_draws[at] = sorted_draws[at - 1]
            order[at] = order[at - 1]
            at -= 1
        sorted_draws[at] = draw
        order[at] = who


@loop
def draw_cohort(key: int, population: int, size: int, chosen: Ints, room: Ints) -> None:
    """The `size` of N positions with the smallest numbers in the stream `key`, in ascending order.
    room: for 5 N + 2 numbers.
    """
    draws, order = room, room[population:]
    for i in range(population):
        draws[i] = number(key, i)
    sort(draws, population, order, room[2 * population :])
    for i in range(population):
        draws[i] = 0
    for i in range(size):
        draws[order[i]] = 1
    to = 0
    for i in range(population):
        if draws[i] > 0:
            chosen[to] = i
            to += 1


@loop
def keys_of(key: int, places: Ints, count: int, keys: Ints) -> None:
    """The keys of the streams of these positions."""
    for i in range(count):
        keys[i] = number(key, places[i])


@loop
def plan_steps(
    first: int,
    last: int,
    most: int,
    width: int,
    passes: int,
    padding: int,
    keys: Ints,
    sizes: Ints,
    offsets: Ints,
    steps: Ints,
    batches: Ints,
    index: Ints,
    counts: Ints,
    room: Ints,
) -> None:
    """The rows of clients first .. last - 1 at each step, and their number: see
    `fedkg.federated.client.batches.plan`.

    Args:
        most, width: S, B.
        passes: 1 for passes through the samples, 0 for fresh draws at each step.
        keys, sizes, offsets, steps, batches: [C].
        index: [C, S, B].
        counts: [C, S].
        room: for 5 N + 2 numbers, N the most samples of any client.
    """
    for client in range(first, last):
        size, batch, since, step, epoch = sizes[client], batches[client], offsets[client], 0, 0
        parts = (size + batch - 1) // batch if passes > 0 else 1
        draws, order = room, room[size:]
        while step < steps[client]:
            key = number(keys[client], epoch)
            for i in range(size):
                draws[i] = drawn(key, i)
            sort(draws, size, order, room[2 * size :])
            for part in range(min(parts, steps[client] - step)):
                to, there = (
                    index[(client * most + step + part) * width :],
                    min(batch, size - part * batch),
                )
                for i in range(there):
                    to[i] = order[part * batch + i] + since
                for i in range(there, width):
                    to[i] = padding
                counts[client * most + step + part] = there
            step += parts
            epoch += 1
        for rest in range(steps[client], most):
            for i in range(width):
                index[(client * most + rest) * width + i] = padding
            counts[client * most + rest] = 0
