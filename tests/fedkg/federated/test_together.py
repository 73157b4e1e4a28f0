"""Small stacks of updates are joined; contents, order and rejected clients stay the same."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from fedkg.federated.executors.join_update_stacks import ENOUGH, join_small_stacks
from fedkg.federated.executors.protocol import Updates


def stack(clients: list[int], width: int = 3, rejected: dict[int, str] | None = None) -> Updates:
    value = torch.tensor(clients, dtype=torch.float32).unsqueeze(1).expand(len(clients), width)
    return Updates(
        clients=torch.tensor(clients, dtype=torch.int64),
        groups=torch.zeros(len(clients), dtype=torch.int64),
        start={"w": torch.zeros(1, width).expand(len(clients), width)},
        update={"w": value.clone()},
        loss=torch.tensor(clients, dtype=torch.float32),
        client_memory={"start/v": value + 1},
        rejected=rejected or {},
    )


def spoilt(stacks: list[Updates]) -> Iterator[Updates]:
    """Stacks that become invalid when the next one is requested."""
    for one in stacks:
        yield one
        one.update["w"].fill_(torch.nan)


def test_small_stacks_become_one_in_their_order() -> None:
    [found] = join_small_stacks(
        spoilt([stack([4]), stack([2, 7], rejected={3: "why"}), stack([1])]), 5
    )
    assert found.clients.tolist() == [4, 2, 7, 1]
    assert found.update["w"][:, 0].tolist() == [4, 2, 7, 1]
    assert found.client_memory["start/v"][:, 0].tolist() == [5, 3, 8, 2]
    assert found.loss.tolist() == [4, 2, 7, 1]
    assert found.rejected == {3: "why"}


def test_a_stack_that_is_all_or_large_is_passed_on_as_it_is() -> None:
    whole, large, last = stack([0, 1]), stack([0], ENOUGH // 4), stack([1])
    [passed] = join_small_stacks(iter([whole]), 2)
    assert passed is whole
    found = list(join_small_stacks(iter([large, last]), 2))
    assert found[0] is large
    assert found[1] is last


def test_nothing_is_kept_back_where_clients_are_missing() -> None:
    assert [
        one.clients.tolist() for one in join_small_stacks(spoilt([stack([0]), stack([1])]), 9)
    ] == [[0, 1]]
    assert not list(join_small_stacks(iter([]), 3))
