"""Client states in files: every version stays unchanged and memory stays bounded.

Results equal those in memory.
"""

from __future__ import annotations

import gc
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from algorithm_contracts import made, settings_for, task
from federations import classes, identical
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from fedkg.errors import JobError
from fedkg.federated import (
    Clients,
    ServerState,
    Settings,
    from_tensors,
    initial_state,
    to_tensors,
    train,
)
from fedkg.federated.client_state_store import (
    FewRows,
    Store,
    StoredRows,
    changed,
    hold,
    placed,
    whole,
)

REMEMBERING = ["scaffold", "scaffnew", "fedrep", "ditto", "local_only"]


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 9), unique=True, max_size=6), st.booleans(), st.integers(0, 4)
        ),
        max_size=25,
    ),
    st.booleans(),
)
def test_every_version_stays_what_it_was(
    history: list[tuple[list[int], bool, int]], shared: bool
) -> None:
    """Rows of ten clients change repeatedly, from any existing version.

    Versions are retained or dropped.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder), (2,), torch.float32, 10, fresh=True, lasting=True)
        first = torch.zeros(10, 2) if shared else torch.arange(20.0).view(10, 2)
        start = store.write(first[:1]).expand(10) if shared else store.write(first)
        versions = [(store.version(start), first)]
        for number, (clients, keep, parent) in enumerate(history):
            rows, expected = versions[parent % len(versions)]
            places, new = (
                torch.tensor(clients, dtype=torch.int64),
                torch.full((len(clients), 2), float(number + 100)),
            )
            after = rows.replaced(places, new), expected.index_copy(0, places, new)
            versions = [*versions, after] if keep else [after]
            del rows, after
            for held, what in versions:
                assert torch.equal(whole(held), what)
        assert store.slots <= 10 * (len(history) + 2)


def test_slots_are_written_again() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder), (3,), torch.float64, 100, fresh=True, lasting=True)
        rows = store.version(store.write(torch.zeros(1, 3, dtype=torch.float64)).expand(100))
        for number in range(50):
            rows = rows.replaced(
                torch.arange(0, 100, 3), torch.full((34, 3), float(number), dtype=torch.float64)
            )
        assert store.slots <= 200


def test_few_rows_are_found_by_client() -> None:
    rows = FewRows(torch.tensor([7, 2, 9]), torch.tensor([[7.0], [2.0], [9.0]]))
    assert rows[torch.tensor([9, 7])].tolist() == [[9.0], [7.0]]
    assert rows[torch.tensor([7, 2, 9])] is rows.rows
    with pytest.raises(TypeError, match="FewRows cannot be changed"):
        changed(rows, torch.tensor([7]), torch.zeros(1, 1), before=rows)


def test_the_largest_go_into_files(tmp_path: Path) -> None:
    rows = {
        "small": torch.zeros(4, 2),
        "large": torch.arange(40.0).view(4, 10),
        "same": torch.ones(1, 9).expand(4, 9),
    }
    found = placed(rows, 40, tmp_path)
    assert [isinstance(found[name], StoredRows) for name in rows] == [False, True, True]
    assert all(torch.equal(whole(found[name]), rows[name]) for name in rows)
    assert placed(found, 40, tmp_path)["large"] is found["large"]


@pytest.mark.parametrize("name", REMEMBERING)
def test_files_change_no_bit(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    settings = settings_for(name, executor="stacked", chunk=2)
    memory = list(train(task(), made(name), settings))
    files = list(train(task(), made(name), replace(settings, client_memory=100)))
    assert any(isinstance(rows, StoredRows) for rows in files[0][0].clients.values())
    for (one, _), (other, _) in zip(memory, files, strict=True):
        assert identical(to_tensors(one)[0], to_tensors(other)[0])
    assert list(tmp_path.iterdir())
    del files, other
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def checkpoint(state: ServerState, folder: Path) -> None:
    tensors, document = to_tensors(state)
    save_file(tensors, folder / "state.safetensors")
    (folder / "state.json").write_text(json.dumps(document))
    hold(state.clients)


def loaded(folder: Path, rows: Path | None) -> ServerState:
    return from_tensors(
        load_file(folder / "state.safetensors"),
        json.loads((folder / "state.json").read_text()),
        rows,
    )


@pytest.mark.parametrize("name", REMEMBERING)
def test_a_killed_run_goes_on_from_its_checkpoint_to_the_bit(name: str, tmp_path: Path) -> None:
    """Four rounds after the checkpoint are discarded, as when a process is killed.

    There are few slots, so they are reused.
    """
    settings = settings_for(name, executor="stacked", rounds=8, client_memory=1, participation=1.0)
    expected = [
        to_tensors(state)[0]
        for state, _ in train(task(), made(name), replace(settings, client_memory=1 << 20))
    ]
    rows = tmp_path / "rows"
    for state, _ in train(task(), made(name), settings, folder=rows):
        if state.round <= 2:
            checkpoint(state, tmp_path)
        if state.round == 6:
            break
    del state
    again = loaded(tmp_path, rows)
    assert again.round == 2
    rest = [state for state, _ in train(task(), made(name), settings, again, folder=rows)]
    for state, was in zip(rest, expected[2:], strict=True):
        whole_state = replace(
            state, clients={key: whole(value) for key, value in state.clients.items()}
        )
        assert identical(to_tensors(whole_state)[0], was)


def test_a_checkpoint_with_rows_in_files_is_small_and_needs_them(tmp_path: Path) -> None:
    problem, rows = classes((3,) * 200), tmp_path / "rows"
    settings = Settings(rounds=1, local_epochs=1, batch=8, client_memory=1, executor="stacked")
    [(state, _)] = train(problem, made("scaffold"), settings, folder=rows)
    checkpoint(state, tmp_path)
    assert (
        tmp_path / "state.safetensors"
    ).stat().st_size < 30_000  # six places of 200 clients, and two models
    with pytest.raises(JobError, match="so their folder is needed"):
        loaded(tmp_path, None)
    next(iter(sorted(rows.rglob("0.rows")))).unlink()
    with pytest.raises(JobError, match="state of clients are missing"):
        loaded(tmp_path, rows)


def anonymous() -> int:
    """Bytes of this process's memory that are not backed by a file."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").is_file(),
    reason="the system does not tell what memory is a file's",
)
@pytest.mark.parametrize("name", ["fedrep", "scaffold"])
def test_memory_stays_bounded_with_100_000_clients(name: str, tmp_path: Path) -> None:
    """One row of each client takes at least 8 KiB: 0.8 GB in all; a twentieth of it stays in
    memory.
    """
    count = 100_000
    small = classes((count,), features=4, dtype=torch.float32)
    x, y = small.clients.x[0].split(1), small.clients.y[0].split(1)
    problem = replace(
        small,
        model=replace(small.model, hidden=(32, 64)),
        clients=Clients(names=tuple(map(str, range(count))), x=x, y=y),
    )
    algorithm = made(name) if name == "scaffold" else made(name, {"private": ("layers.1.",)})
    settings = Settings(
        rounds=6,
        participation=0.02,
        local_epochs=1,
        batch=1,
        client_memory=32 << 20,
        executor="stacked",
        chunk=500,
    )
    total = sum(
        rows.shape.numel() * rows.dtype.itemsize
        for rows in initial_state(problem, algorithm, settings).clients.values()
    )
    assert total > 800_000_000
    before = anonymous()
    peak = 0
    for _, record in train(problem, algorithm, settings, folder=tmp_path):
        assert len(record.clients) == 2000
        peak = max(peak, anonymous() - before)
    assert peak < total / 4
    assert sum(file.stat().st_blocks * 512 for file in tmp_path.rglob("*.rows")) < total / 4
    assert record.round == 6
