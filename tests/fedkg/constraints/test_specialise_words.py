"""Programs on bit words count what the definition of their sets says, on a CPU.

Other devices use the definition.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from tries import tries

from fedkg.constraints.specialised import bit_programs, client_verdict_counts
from fedkg.constraints.specialised.client_threshold_membership import Clients, Fixed, Reach, joined
from fedkg.constraints.specialised.client_verdict_counts import Counter, Target, counted
from fedkg.kernels.scoring import bit_program_execution

CORES = 3
LEVELS = torch.tensor([-torch.inf, -1.0, -0.0, 0.0, 0.5, 3.0])
"""Few levels, so that numbers often equal thresholds."""


def drawn(of: Tensor, shape: tuple[int, ...], dice: torch.Generator) -> Tensor:
    return of[torch.randint(len(of), shape, generator=dice)]


@st.composite
def sets(
    draw: st.DrawFn, rows: int, samples: int, dice: torch.Generator, dtype: torch.dtype
) -> Clients:
    """Different sets of clients, combined to a depth of three."""
    truths = torch.tensor([False, True])

    def draw_reach() -> Clients:
        width = draw(st.sampled_from([1, samples]))
        core = torch.randint(CORES, (rows,), generator=dice)
        return Reach(
            core=core,
            threshold=drawn(LEVELS, (rows, width), dice).to(dtype),
            above=drawn(truths, (rows, width), dice),
        )

    def draw_clients(depth: int) -> Clients:
        if depth == 0 or draw(st.booleans()):
            return draw_reach()
        parts: list[Clients] = [draw_clients(depth - 1) for _ in range(draw(st.integers(1, 3)))]
        parts += [
            Fixed(mask=drawn(truths, (rows, samples), dice)) for _ in range(draw(st.integers(0, 2)))
        ]
        return joined(draw(st.permutations(parts)), draw(st.booleans()))

    return draw_clients(3)


@given(
    st.data(), st.integers(1, 150), st.sampled_from([1, 1, 2, 5]), st.integers(0, 9),
    st.sampled_from([torch.float32, torch.float64]),
    st.integers(0, 999), st.sampled_from([1, 3, bit_programs.RUNGS]),
    st.sampled_from([1, bit_program_execution.NEAR]),
    st.sampled_from([1, bit_program_execution.LEAST]),
)  # fmt: skip
@tries(80)
def test_words_count_what_the_sets_say(
    data: st.DataObject,
    windows: int,
    steps: int,
    clients: int,
    dtype: torch.dtype,
    seed: int,
    rungs: int,
    near: int,
    least: int,
) -> None:
    dice = torch.Generator().manual_seed(seed)
    samples, targets, results = windows * steps, [], 0
    for rows in data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)):
        mask = drawn(torch.tensor([False, True, True]), (rows, samples), dice)
        one = data.draw(sets(rows, samples, dice, dtype))
        targets += [
            Target(one, mask, torch.arange(results, results + rows)),
            Target(one, ~mask, torch.arange(rows) + results + rows),
        ]
        results += 2 * rows
    values = drawn(LEVELS[1:], (CORES, clients, samples), dice).to(dtype)
    constant = torch.tensor([0] * results + [1, 2, 3])  # three positions belong to no target
    own = torch.cat([counted(target, values, (windows, steps)) for target in targets])
    with (
        pytest.MonkeyPatch.context() as patched
        # sorted and unsorted thresholds; bit words in blocks; clients or words split over threads
    ):
        patched.setattr(bit_programs, "RUNGS", rungs)
        patched.setattr(bit_program_execution, "NEAR", near)
        patched.setattr(bit_program_execution, "LEAST", least)
        counter = Counter(targets, (windows, steps), dtype, constant)
        patched.setattr(client_verdict_counts, "is_compiled", lambda name: False)
        before = counter.count(counter.laid(values))
        patched.setattr(client_verdict_counts, "is_compiled", lambda name: True)
        found = counter.count(counter.laid(values))
    assert torch.equal(found, torch.cat([own, constant[results:, None].repeat(1, clients)]).T)
    assert torch.equal(before, found), "results changed when the kernels were compiled"


def test_rows_on_one_set_share_its_program() -> None:
    reach = Reach(
        core=torch.zeros(3, dtype=torch.int64),
        threshold=torch.tensor([[1.0], [1.0], [2.0]]),
        above=torch.ones(3, 1, dtype=torch.bool),
    )
    constant = torch.zeros(3, dtype=torch.int64)
    counter = Counter(
        [Target(reach, torch.ones(3, 4, dtype=torch.bool), torch.arange(3))],
        (4, 1),
        torch.float32,
        constant,
    )
    assert counter.programs is not None
    assert counter.programs.places == 2
    counts = counter.count(
        counter.laid(torch.tensor([[[0.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.0, 1.0]]]))
    )
    assert counts.tolist() == [[3, 3, 2], [4, 4, 0]]
