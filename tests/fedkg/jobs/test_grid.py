"""Grids and seeds: how they expand to jobs, and which errors appear before any run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fedkg.errors import JobError, UsageError
from fedkg.jobs.sweep.grid import expand_grid, parse_axis, parse_seeds

JOB: dict[str, Any] = {
    "name": "small",
    "pack": "rules.fkgpack",
    "sites": ["graz", "linz"],
    "compare": {"algorithm": ["fedavg", "scfa"]},
    "corrupt": {"site": "linz", "compare": {"algorithm": ["fedavg", "scfa"]}},
    "seeds": 3,
}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(JOB))
    return tmp_path / "job.yaml"


def test_commas_within_brackets_belong_to_a_value():
    assert parse_axis("data.alpha=0.1,1,10").values == ("0.1", "1", "10")
    assert parse_axis("model.hidden=[16],[32, 32]").values == ("[16]", "[32, 32]")
    assert parse_axis("algorithm={preset: fedprox, proximal: 0.1}, scfa").values == (
        "{preset: fedprox, proximal: 0.1}",
        "scfa",
    )
    assert parse_axis("algorithm.name=fedavg,scfa").field == "algorithm"


@pytest.mark.parametrize(
    "text",
    [
        "data.alpha",
        "=1,2",
        "data.alpha=",
        "data.alpha=1,,2",
        "data.alpha=1,1",
        "seeds=1,2",
        "a..b=1",
    ],
)
def test_an_invalid_grid_axis_is_rejected(text: str):
    with pytest.raises(UsageError, match="--grid"):
        parse_axis(text)


def test_seeds_are_counted_or_named():
    assert parse_seeds("3") == (0, 1, 2)
    assert parse_seeds("3,7") == (3, 7)


@pytest.mark.parametrize("text", ["0", "", "-1", "1.5", "3,3", "a", "2,"])
def test_what_are_no_seeds_is_rejected(text: str):
    with pytest.raises(UsageError, match="--seeds"):
        parse_seeds(text)


def test_the_product_of_all_axes_and_seeds(job: Path):
    cells = expand_grid(
        job, [], [parse_axis("algorithm=fedavg,scfa"), parse_axis("data.alpha=0.1,10")], (0, 5)
    )
    assert [cell.id for cell in cells][:3] == [
        "fedavg-alpha0.1-s0",
        "fedavg-alpha0.1-s5",
        "fedavg-alpha10-s0",
    ]
    assert len(cells) == len({cell.id for cell in cells}) == 8
    last = cells[-1].job
    assert (last.data.alpha, last.seed_list, last.compare["algorithm"]) == (10.0, (5,), ("scfa",))
    assert last.corrupt is not None
    assert last.corrupt.compare["algorithm"] == ("scfa",)


def test_without_seeds_a_job_keeps_its_own(job: Path):
    (one, other) = expand_grid(job, ["training.rounds=2"], [parse_axis("data.alpha=0.1,10")], None)
    assert (one.seed, one.job.seed_list, other.job.training.rounds) == (None, (0, 1, 2), 2)


def test_what_is_changed_first_is_no_part_of_the_grid(job: Path):
    [one, _] = expand_grid(job, ["corrupt=null"], [parse_axis("algorithm=fedavg,scfa")], None)
    assert one.job.corrupt is None


def test_local_training_stands_beside_one_algorithm_alone(job: Path):
    cells = expand_grid(
        job, [], [parse_axis("algorithm=fedavg,scfa"), parse_axis("data.alpha=0.1,10")], None
    )
    assert [cell.job.evaluation.local_baseline for cell in cells] == [True, True, False, False]


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        (["training.rouns=1,2"], "did you mean `rounds`"),
        (["training.rounds=1,no"], "--grid training.rounds=no"),
        (["algorithm=fedavg,scaf"], "algorithm=scaf"),
        (["data.alpha=1", "data.alpha=2"], "occurs twice"),
        (
            [
                f"data.seed={','.join(map(str, range(40)))}",
                f"data.rows={','.join(map(str, range(100, 140)))}",
            ],
            "1,600 combinations",
        ),
    ],
)
def test_what_no_job_can_have_is_rejected_before_anything_is_run(
    job: Path, axes: list[str], words: str
):
    with pytest.raises((JobError, UsageError)) as caught:
        expand_grid(job, [], [parse_axis(axis) for axis in axes], None)
    assert words in str(caught.value)


def test_a_fault_of_the_job_itself_is_no_fault_of_the_grid(tmp_path: Path):
    path = tmp_path / "wrong.yaml"
    path.write_text(yaml.safe_dump({**JOB, "privacy": {"unit": "row"}}))
    with pytest.raises(JobError, match=r"wrong\.yaml: .*privacy\.unit") as caught:
        expand_grid(path, [], [parse_axis("algorithm=fedavg")], None)
    assert "--grid" not in str(caught.value)


def test_values_that_only_differ_in_signs_have_folders_of_their_own(job: Path):
    cells = expand_grid(job, ["corrupt=null"], [parse_axis("title=a b,a_b")], None)
    assert [cell.id for cell in cells] == ["titlea_b", "titlea_b-2"]
