"""Input of knowledge models: some of the features, or an image at a lower resolution (Fan et al.
2022, section 6).

Letters: F features, n the side of a square image, p the side of a block.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch.nn import functional

from fedkg.errors import LayoutError


def select(x: Tensor, features: Sequence[int]) -> Tensor:
    """The features at these positions, counted from 0, in this order: [..., F] to [...,
    len(features)].

    Raises:
        LayoutError: a position outside the features.
    """
    wrong = [position for position in features if not 0 <= position < x.shape[-1]]
    if wrong:
        raise LayoutError(
            f"the knowledge reads feature {wrong[0]}, which x does not have",
            expected=f"positions from 0 to {x.shape[-1] - 1}",
            help="correct the positions of the features",
        )
    return x[..., list(features)]


def max_pool(x: Tensor, block: int) -> Tensor:
    """The largest number of each p x p block: [..., n, n] to [..., n / p, n / p].

    Raises:
        LayoutError: images that are not square, or with a side that is not a multiple of p.
    """
    rows, columns = x.shape[-2:]
    if rows != columns or block < 1 or rows % block:
        raise LayoutError(
            f"the images cannot be divided into blocks of {block} x {block} pixels",
            expected=f"square images with a side divisible by {block}",
            received=f"{rows} x {columns} pixels",
        )
    pooled = functional.max_pool2d(x.reshape(-1, 1, rows, columns), block)
    return pooled.reshape(*x.shape[:-2], rows // block, columns // block)
