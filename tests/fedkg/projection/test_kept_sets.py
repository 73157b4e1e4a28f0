"""`set ... keep ... in ...` of a rule file as feasible sets of its clients."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import fedkg
from fedkg.errors import SetError
from fedkg.pack.feasible_sets import KeptSet
from fedkg.projection import feasible_set

RULES = """
prefix ex: <https://example.org/>
set sparse for ?c, ?r where { ?c ex:budget ?r }  keep parameters in l1_ball(radius = ?r)
set near for ?c, ?r where { ?c ex:budget ?r }  keep parameters in l2_ball(radius = job, center = ?r)
set bounded keep parameters.head in box(low = -1, high = 1)
set half keep parameters in halfspace(1, 2, bound = 2)
set line keep parameters in affine(1, 1, bound = 2)
set shares keep parameters in simplex(total = 2)
set rising keep parameters in monotone()
set positive keep parameters in nonnegative()
set near_zero keep parameters in linf_ball(radius = 0.5)
"""
GRAPH = """
@prefix ex: <https://example.org/> .
ex:a ex:budget 1.0 .
ex:b ex:budget 2.0 .
"""
A, B = "https://example.org/a", "https://example.org/b"


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, KeptSet]:
    folder: Path = tmp_path_factory.mktemp("sets")
    (folder / "sets.fkg").write_text(RULES, encoding="utf-8")
    (folder / "plant.ttl").write_text(GRAPH, encoding="utf-8")
    pack = fedkg.compile([folder / "sets.fkg", folder / "plant.ttl"])
    return {kept.name: kept for kept in pack.manifest.sets}


def test_each_client_has_its_own_radius(sets: dict[str, KeptSet]) -> None:
    points = torch.tensor([[3.0, 0.0], [3.0, 0.0]])
    assert feasible_set(sets["sparse"], [A, B]).project(points).tolist() == [[1.0, 0.0], [2.0, 0.0]]
    assert feasible_set(sets["sparse"], B).project(points).tolist() == [[2.0, 0.0], [2.0, 0.0]]


def test_the_job_gives_what_rules_leave_open(sets: dict[str, KeptSet]) -> None:
    near = feasible_set(sets["near"], [A, B], {"radius": 1.0})
    torch.testing.assert_close(
        near.project(torch.tensor([[4.0, 1.0], [2.0, 5.0]])), torch.tensor([[2.0, 1.0], [2.0, 3.0]])
    )
    with pytest.raises(SetError, match="the rules leave `radius` of the set `near` to the job"):
        feasible_set(sets["near"], A)
    with pytest.raises(SetError, match="no numbers for the client"):
        feasible_set(sets["sparse"], "https://example.org/z")
    with pytest.raises(SetError, match="needs the names of clients"):
        feasible_set(sets["rising"], [])


@pytest.mark.parametrize(
    ("name", "point", "nearest"),
    [
        ("bounded", [3.0, -0.5], [1.0, -0.5]),
        ("half", [2.0, 2.0], [1.2, 0.4]),
        ("line", [0.0, 0.0], [1.0, 1.0]),
        ("shares", [3.0, 2.0], [1.5, 0.5]),
        ("rising", [3.0, 1.0], [2.0, 2.0]),
        ("positive", [3.0, -1.0], [3.0, 0.0]),
        ("near_zero", [3.0, -0.2], [0.5, -0.2]),
    ],
)
def test_every_shape(
    sets: dict[str, KeptSet], name: str, point: list[float], nearest: list[float]
) -> None:
    torch.testing.assert_close(
        feasible_set(sets[name], A).project(torch.tensor(point)), torch.tensor(nearest)
    )
    both = feasible_set(sets[name], [A, B]).project(torch.tensor([point, point]))
    torch.testing.assert_close(both, torch.tensor([nearest, nearest]))
