"""Model inputs are stored once: sites, server and test are views, or copies for other splits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkg.data.sets import DataSet, data_set, standardise
from fedkg.federated.problem import Clients, gathered, pool
from fedkg.jobs.experiment.experiment import Experiment, create_experiment
from fedkg.jobs.experiment.model_inputs import build_inputs
from fedkg.jobs.rule_pack import empty_pack
from fedkg.jobs.schema.job_reader import parse_job
from fedkg.jobs.trial_expansion import plan_trials


def of_shape(shape: tuple[int, ...], kind: type[np.floating]) -> DataSet:
    draw = np.random.Generator(np.random.PCG64(0))
    x = draw.normal(3.0, 2.0, shape).astype(kind)
    if len(shape) < 4:
        x.reshape(-1)[:: max(1, x.size // 5)] = np.nan
    features = tuple(f"f{number}" for number in range(shape[1] if len(shape) == 4 else shape[-1]))
    return DataSet(
        name="d",
        source="s",
        x=x,
        y=draw.normal(size=shape[0]),
        features=features,
        units=("",) * len(features),
        task="regression",
    )


@settings(max_examples=40, deadline=None)
@given(
    shape=st.sampled_from([(11, 3), (9, 4, 2), (7, 2, 3, 3)]),
    kind=st.sampled_from([np.float32, np.float64]),
    cuts=st.tuples(st.integers(0, 5), st.integers(5, 7)),
    seed=st.integers(0, 5),
)
def test_every_sample_is_found_wherever_it_lies(
    shape: tuple[int, ...], kind: type[np.floating], cuts: tuple[int, int], seed: int
) -> None:
    ready = standardise(of_shape(shape, kind))
    order = np.random.Generator(np.random.PCG64(seed)).permutation(shape[0])
    groups = [order[: cuts[0]], order[cuts[0] : cuts[1]]]
    inputs = build_inputs(ready, groups)
    whole = torch.from_numpy(ready.data.x).to(torch.float32)
    assert torch.equal(inputs.rows_at(np.arange(shape[0])), whole)
    assert torch.equal(inputs.rows_at(order[:3]), whole[torch.from_numpy(order[:3])])
    assert not inputs.rows[list(inputs.zero_rows)].any()
    for index, seen in (
        (groups[0], True),
        (groups[1], True),
        (groups[1][::-1].copy(), False),
        (order, False),
    ):
        if not len(index):
            continue
        found = inputs.contiguous_rows(index)
        assert torch.equal(found[:-1], whole[torch.from_numpy(index)])
        assert not found[-1].any()
        shared = found.untyped_storage().data_ptr() == inputs.rows.untyped_storage().data_ptr()
        assert shared == (
            seen or (len(index) == 1 and int(inputs.row_of[index[0]]) + 1 in inputs.zero_rows)
        )


def test_knowledge_follows_the_features_and_codes_come_last() -> None:
    ready = standardise(of_shape((5, 3, 2), np.float64))
    told, code = np.arange(5.0)[:, None], np.arange(5)
    plain = build_inputs(ready, [np.arange(4)], knowledge=told)
    assert plain.shape == (3, 3)
    assert plain.rows_at(np.array([2]))[0, :, 2].tolist() == [2.0] * 3
    coded = build_inputs(ready, [np.arange(4)], knowledge=told, codes=[code])
    assert coded.rows.shape == (6, 10)
    assert torch.equal(coded.rows_at(np.arange(5))[:, :9], plain.rows_at(np.arange(5)).flatten(1))
    assert coded.rows_at(np.arange(5))[:, 9].tolist() == code.tolist()


def test_a_training_reads_the_samples_where_they_lie(tmp_path) -> None:
    fields = {
        "data": {
            "set": "bosch",
            "size": 300,
            "split": "dirichlet",
            "alpha": 1.0,
            "min_samples": 5,
            "server": 0.1,
        },
        "sites": ["a", "b", "c"],
        "model": {"kind": "mlp", "hidden": [4]},
        "training": {"rounds": 1, "participation": 1, "executor": "stacked"},
        "seeds": 2,
    }
    job = parse_job(fields, name="j", base=tmp_path)
    experiment = create_experiment(job, empty_pack())
    assert isinstance(experiment, Experiment)
    configs = plan_trials(job)
    experiment.prepare(configs)
    first, second = (next(config for config in configs if config.seed == seed) for seed in (0, 1))
    trial = experiment.build_trial(first)
    memory = trial.inputs.rows.untyped_storage().data_ptr()
    shown = (
        pool(trial.problem.clients),
        pool(gathered(trial.problem).clients),
        pool(trial.problem.server_data),
    )  # type: ignore[arg-type]
    assert [one.x.untyped_storage().data_ptr() == memory for one in shown] == [True] * 3
    other = experiment.build_trial(
        second
    ).problem.clients  # another split: copied once, and trained in place
    assert other.x[0].untyped_storage().data_ptr() != memory
    assert pool(other).x.untyped_storage().data_ptr() == other.x[0].untyped_storage().data_ptr()
    whole = torch.from_numpy(experiment.samples.scaled.data.x)
    for clients, config in ((trial.problem.clients, first), (other, second)):
        for site, x in enumerate(clients.x):
            assert torch.equal(
                x,
                whole[torch.from_numpy(experiment.site_splits[config.split_key].samples_at(site))],
            )


@pytest.mark.parametrize("behind", ["nothing", "a number", "nan", "a gap"])
def test_rows_that_do_not_lie_end_to_end_with_zeros_behind_them_are_copied(behind: str) -> None:
    rows = torch.arange(1.0, 13.0).view(6, 2)
    rows[5] = {"a number": 1.0, "nan": torch.nan}.get(behind, 0.0)
    parts = {"nothing": (rows[2:4], rows[4:]), "a gap": (rows[:2], rows[3:5])}.get(
        behind, (rows[:2], rows[2:5])
    )
    clients = Clients(names=("a", "b"), x=parts, y=tuple(torch.zeros(len(part)) for part in parts))
    made = pool(clients)
    assert torch.equal(made.x[:-1], torch.cat(parts))
    assert not made.x[-1].any()
    assert made.x.untyped_storage().data_ptr() != rows.untyped_storage().data_ptr()
    moved = replace(clients, x=(parts[1], parts[0]), y=clients.y[::-1])
    assert torch.equal(pool(moved).x[:-1], torch.cat([parts[1], parts[0]]))


def test_the_numbers_of_a_data_set_are_those_of_its_pieces() -> None:
    data = data_set("bosch", seed=3, size=120)
    ready = standardise(data)
    assert ready.data.x.dtype == np.float32
    index = np.array([5, 3, 99])
    assert np.array_equal(ready.x(index), ready.data.x[index])
