"""How often each of many clients is in each of many sets, over the samples of a probe set.

Letters: C cores (predicted numbers), K clients, P samples: B windows (or rows) of T steps each; R
rows, G results.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import torch
from torch import Tensor

from fedkg.constraints.specialised.bit_programs import Programs, Writer, in_sample_order, laid
from fedkg.constraints.specialised.client_threshold_membership import Clients, within
from fedkg.kernels.background_compilation import is_compiled
from fedkg.kernels.compiled_loop_policy import WORTH_SECONDS, can_compile_loops, waits_for_loops
from fedkg.kernels.scoring.bit_program_constants import WORD

CHUNK = 1 << 24
"""Verdicts that are held at once on devices without words of bits."""

_seconds = [0.0]
"""How long tensor operations have counted in this process while kernels could have."""


class Target(NamedTuple):
    """Sets of clients that vary, for some rows, the samples on which they count, bool [R, P], and
    their place in the result, [R].
    """

    clients: Clients
    mask: Tensor
    place: Tensor


class Counter:
    """Counts clients in sets: with words of bits on a CPU, otherwise with tensor operations.

    Args:
        targets: the sets to count, at least one.
        shape: (B, T), each at least 1. A window counts if one of its steps does.
        dtype: the data type of the cores.
        constant: int64 [G], the counts at places that no target has, and 0 at the others.

    Attributes:
        programs: the words of bits, on a CPU. Tensor operations count the same until they have
            taken `WORTH_SECONDS` and the kernels are compiled.
    """

    def __init__(
        self, targets: list[Target], shape: tuple[int, int], dtype: torch.dtype, constant: Tensor
    ) -> None:
        self._targets, self._shape, self._constant = targets, shape, constant
        self.programs: Programs | None = None
        self._kernels = ""
        on_cpu = all(target.mask.device.type == "cpu" for target in targets)
        if on_cpu and can_compile_loops():
            writer = Writer(shape)
            for target in targets:
                writer.add(*target)
            number = torch.empty(0, dtype=dtype, device="cpu").numpy().dtype
            self.programs, self._kernels = writer.programs(number), f"scoring-{number.name}"

    @property
    def is_compiled(self) -> bool:
        """Whether the kernels that run the programs are compiled, and worth loading."""
        is_worth = waits_for_loops() or _seconds[0] >= WORTH_SECONDS
        found = is_worth and is_compiled(self._kernels)
        if found:
            self._targets = []  # the programs say the same
        return found

    @property
    def places(self) -> int:
        """S, or P without words of bits."""
        windows, steps = self._shape
        return windows * steps if self.programs is None else -(-windows // WORD) * WORD * steps

    @property
    def results(self) -> int:
        """G."""
        return int(self._constant.shape[0])

    def laid(self, values: Tensor) -> Tensor:
        """Values [..., P] in the order of the samples that `count` asks for."""
        return values if self.programs is None else laid(values, self._shape)

    def count(self, values: Tensor) -> Tensor:
        """How many samples (or windows) of each client are in each set, int64 [K, G].

        Args:
            values: of each core, all known, [C, K, P], `laid`.
        """
        if self.programs is None or not self.is_compiled:
            if self.programs is not None:
                values = in_sample_order(values, self._shape)
            begun = time.perf_counter()
            counts = self._constant.repeat(values.shape[1], 1)
            for target in self._targets:
                counts[:, target.place] = counted(target, values, self._shape).T
            _seconds[0] += time.perf_counter() - begun
            return counts
        from fedkg.kernels.scoring import bit_program_execution

        counts = self._constant.new_empty((values.shape[1], self._constant.shape[0]))
        bit_program_execution.count(
            self.programs, values.numpy(), self._constant.numpy(), counts.numpy()
        )
        return counts


def counted(target: Target, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """The counts of one target, by the definition of its sets: int64 [R, K]."""
    rows, clients = target.place.shape[0], values.shape[1]
    step = max(1, CHUNK // max(1, clients * values.shape[2]))
    found = []
    for part in (slice(start, start + step) for start in range(0, rows, step)):
        inside = within(target.clients, part, values) & target.mask[part, None]
        found.append(inside.reshape(*inside.shape[:2], *shape).any(dim=3).sum(dim=2))
    return torch.cat(found)
