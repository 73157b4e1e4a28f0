"""One number for each client, or each model of the server, laid against what there is of each.

Letters: C clients of a stack, or models the server holds.
"""

from __future__ import annotations

from torch import Tensor


def per_client(numbers: Tensor, like: Tensor) -> Tensor:
    """Numbers [C] in the shape that goes with `like` [C, ...]; floating ones in its type, which a
    product then keeps.
    """
    numbers = numbers.to(like.dtype) if numbers.is_floating_point() else numbers
    return numbers.view(-1, *[1] * (like.dim() - 1))
