"""Comparisons and counts of 64 samples at once, for loops that Numba compiles: instructions that it
has no name for.

Arrays are contiguous and of one dimension.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from fedkg.kernels.kernel_compilation import check_index, instruction
from fedkg.kernels.scoring.bit_program_constants import WORD


@instruction
def reaching(_typing: Any, values: Any, start: Any, levels: Any, at: Any) -> Any:
    """The word of 64 bits that says which values from `start` reach their levels, which begin `at`.

    Both of one float type.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        numbers, limits = (
            _read(context, builder, signature.args[i], args[i], args[i + 1]) for i in (0, 2)
        )
        return builder.bitcast(builder.fcmp_ordered(">=", numbers, limits), ir.IntType(WORD))

    return types.int64(values, start, levels, at), generate


@instruction
def reaching_number(_typing: Any, values: Any, start: Any, level: Any) -> Any:
    """The word of 64 bits that says which values from `start` reach a level of their type."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        numbers = _read(context, builder, signature.args[0], args[0], args[1])
        nothing, first = ir.Constant(numbers.type, ir.Undefined), ir.Constant(ir.IntType(32), 0)
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), WORD), [0] * WORD)
        levels = builder.shuffle_vector(
            builder.insert_element(nothing, args[2], first), nothing, everywhere
        )
        return builder.bitcast(builder.fcmp_ordered(">=", numbers, levels), ir.IntType(WORD))

    return types.int64(values, start, level), generate


@instruction
def ones(_typing: Any, word: Any) -> Any:
    """How many bits of an int64 are set."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(word), generate


@instruction
def shared(_typing: Any, words: Any, at: Any, flip: Any, masks: Any, place: Any) -> Any:
    """How many bits a word, flipped where `flip` has them, has in common with a mask.

    Arrays of int64, in any number of dimensions.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        def word_at(i: int) -> Any:
            words = context.make_array(signature.args[i])(context, builder, args[i])
            check_index(context, builder, args[i + 1], words.nitems)
            return builder.load(builder.gep(words.data, [args[i + 1]]))

        word, mask = word_at(0), word_at(3)
        return builder.ctpop(builder.and_(builder.xor(word, args[2]), mask))

    return types.int64(words, at, flip, masks, place), generate


def _read(context: Any, builder: Any, kind: Any, array: Any, start: Any) -> Any:
    """64 numbers of an array as one vector; they need not be aligned."""
    vector = ir.VectorType(context.get_data_type(kind.dtype), WORD)
    numbers = context.make_array(kind)(context, builder, array)
    check_index(context, builder, start, numbers.nitems)
    check_index(context, builder, builder.add(start, start.type(WORD - 1)), numbers.nitems)
    place = builder.gep(numbers.data, [start])
    return builder.load(builder.bitcast(place, vector.as_pointer()), align=kind.dtype.bitwidth // 8)
