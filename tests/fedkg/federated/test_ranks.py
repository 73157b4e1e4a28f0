"""Several processes that train one federation give the same result to the bit as one.

An error ends all of them; there is one run folder.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch.distributed as dist
from algorithm_contracts import CONTRACTS, made, settings_for, task
from federations import identical

from fedkg.federated import to_tensors, train
from fedkg.federated.executors import Ranks
from fedkg.federated.executors.ranks import joined

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def single_rank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    """A group of one process that sends everything to itself."""
    store = tmp_path_factory.mktemp("ranks") / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield Ranks(rank=0, size=1)
    dist.destroy_process_group()


@pytest.mark.parametrize("executor", ["stacked", "sequential"])
@pytest.mark.parametrize("name", ["fedavg", "scaffold", "fedrep", "median", "fltrust"])
def test_what_is_sent_is_what_is_folded(name: str, executor: str, single_rank: Ranks) -> None:
    settings = settings_for(name, executor=executor, chunk=2)
    expected = [to_tensors(state)[0] for state, _ in train(task(), made(name), settings)]
    found = [
        to_tensors(state)[0] for state, _ in train(task(), made(name), settings, ranks=single_rank)
    ]
    assert all(identical(one, other) for one, other in zip(expected, found, strict=True))


def test_a_process_that_nobody_started_with_others_is_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined() as ranks:
        assert ranks is None


SCRIPT = """
import sys
sys.path.insert(0, {here!r})
from algorithm_contracts import CONTRACTS, made, settings_for, task
from dataclasses import dataclass, replace
from fedkg.federated import fedavg, to_tensors, train
from fedkg.federated.executors.ranks import joined
from safetensors.torch import save_file

@dataclass(frozen=True)
class Failing:
    rank: int
    end: bool

    def value(self, step):
        if self.rank == 1 and 4 in step.clients.tolist():
            if self.end:
                import os
                os._exit(9)
            raise ValueError("rank 1 has no such thing")
        return 0.0 * next(iter(step.params.values())).flatten(1).sum(1)

with joined() as ranks:
    assert ranks is not None and ranks.size == 2
    {body}
"""

ALL = """
    for name in CONTRACTS:
        how = settings_for(name, executor="stacked", chunk=2)
        *_, (state, _) = train(task(), made(name), how, ranks=ranks)
        save_file(to_tensors(state)[0], "%s-%d" % (name, ranks.rank))
"""
FAILING = """
    settings = settings_for("fedavg", executor="stacked", chunk=1, participation=1.0)
    list(train(task(), fedavg().with_terms(Failing(ranks.rank, {end})), settings, ranks=ranks))
"""
OTHER_DATA = """
    list(train(task((9, 9 + ranks.rank)), fedavg(), settings_for("fedavg"), ranks=ranks))
"""


def started(arguments: Sequence[str], folder: Path) -> list[tuple[int, str]]:
    """Exit status and output of two ranks that communicate on this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": "2",
        "PYTHONPATH": str(HERE.parents[1]),
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, *arguments],
            env={**common, "RANK": str(rank)},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in (0, 1)
    ]
    said = [rank.communicate(timeout=300)[0] for rank in ranks]
    return [(rank.returncode, text) for rank, text in zip(ranks, said, strict=True)]


def script(folder: Path, body: str) -> list[tuple[int, str]]:
    (folder / "script.py").write_text(SCRIPT.format(here=str(HERE), body=body.strip()))
    return started(["script.py"], folder)


@pytest.mark.slow
def test_two_ranks_are_one_process_to_the_bit_for_every_algorithm(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    for status, said in script(tmp_path, ALL):
        assert status == 0, said
    for name in CONTRACTS:
        *_, (state, _) = train(task(), made(name), settings_for(name, executor="stacked", chunk=2))
        for rank in (0, 1):
            assert identical(load_file(tmp_path / f"{name}-{rank}"), to_tensors(state)[0])


@pytest.mark.slow
def test_an_error_of_one_rank_ends_all_with_its_text(tmp_path: Path) -> None:
    (first, told), (second, raised) = script(tmp_path, FAILING.format(end=False))
    assert first == second == 1
    assert "ValueError: rank 1 has no such thing" in raised
    assert "rank 1 of 2 failed, so all ranks stop" in told
    assert "received: ValueError: rank 1 has no such thing" in told


@pytest.mark.slow
def test_a_rank_that_is_gone_ends_the_others(tmp_path: Path) -> None:
    (first, told), (second, _) = script(tmp_path, FAILING.format(end=True))
    assert (first, second) == (1, 9)
    assert "a rank stopped or never started" in told


@pytest.mark.slow
def test_ranks_with_different_data_are_distinguished(tmp_path: Path) -> None:
    for status, said in script(tmp_path, OTHER_DATA):
        assert status == 1
        assert "the ranks have different data" in said


JOB = """
name: ranked
rules: [rules.fkg]
sites: [north, south, east, west]
data: {rows: 1200}
model: {hidden: [8]}
training: {rounds: 3, participation: 1.0, executor: stacked, chunk: 1, client_memory: 1}
compare: {algorithm: [scfa, scaffold]}
"""
RULES = """
signal torque in N.m column "Torque [Nm]"
signal wear in min column "Tool wear [min]" span 0 .. 260
output failure in probability span 0 .. 1 column "Machine failure"
rule strain kind capacity require if torque * wear > 12000 N.m.min then failure >= 0.5
"""


@pytest.mark.slow
def test_a_job_of_two_ranks_has_one_folder_and_the_results_of_one_process(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "rules.fkg").write_text(RULES)
    (first, told), (second, other) = started(
        ["-m", "fedkg", "run", "job.yaml", "--out", "two"], tmp_path
    )
    assert first == 0, told
    assert (second, other.strip()) == (0, "")
    one = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    subprocess.run(
        [sys.executable, "-m", "fedkg", "run", "job.yaml", "--out", "one"],
        cwd=tmp_path,
        env=one,
        check=True,
        capture_output=True,
    )
    kept = [
        json.loads((tmp_path / folder / "results.json").read_text()) for folder in ("one", "two")
    ]
    for mine, theirs in zip(kept[0]["rows"], kept[1]["rows"], strict=True):
        assert {key: value for key, value in mine.items() if "second" not in key} == {
            key: value for key, value in theirs.items() if "second" not in key
        }
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "job.yaml",
        "one",
        "rules.fkg",
        "two",
    ]
