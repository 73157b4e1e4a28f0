"""Matrix products over many samples of each client: compiled loops on a CPU, PyTorch elsewhere.

For matrices of a few dozen columns, PyTorch's batched products are several times slower than their
arithmetic.

Letters: C clients of a stack, R samples (times steps), O and I output and input width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fedkg.kernels.compiled_loop_policy import uses_loops
from fedkg.models.layers import dense


def has_compiled_loops(value: Tensor) -> bool:
    """Whether compiled loops are in use and support the device and dtype of this value.

    Outside rounds of training, tensor operations compute models, so that predictions do not depend
    on what the process did before.
    """
    return (
        value.device.type == "cpu"
        and value.dtype in (torch.float32, torch.float64)
        and uses_loops()
    )


def outer_sums(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """The sums over r of ``left[c, r, o] right[c, r, i]``, [C, O, I], and of ``left[c, r, o]``, [C,
    O], of [C, R, O] and [C, R, I].
    """
    if not has_compiled_loops(left):
        return torch.bmm(left.transpose(1, 2), right), left.sum(1)
    from fedkg.models.compiled_recurrent_cells import outer_sums as loop

    return loop(left, right)


def affine(weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    """``x weight^T + bias``, [C, R, O], for weight [C, O, I], bias [C, O], x [C, R, I]; without a
    derivative.
    """
    if not has_compiled_loops(x):
        return dense(weight, bias, x)
    from fedkg.models.compiled_recurrent_cells import affine as loop

    return loop(weight, bias, x)
