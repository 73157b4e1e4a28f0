"""Sites, what carries their messages, and the server are killed at random moments.

With a quorum of all sites, the training ends with the bits of an undisturbed one. With a smaller
quorum no round is lost, and every absence is recorded with its reason.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fedkg.deploy.site_state_versions import PrivateRows
from fedkg.federated import ServerState, initial_state, train
from fedkg.federated.state import Choice
from tests.fedkg.deploy.federation_processes import (
    ALGORITHMS,
    NAMES,
    Federation,
    make_problem,
    make_settings,
)

PARTS = tuple(f"{kind} {place}" for kind in ("site", "relay") for place in range(3))
ALL = {"retries": 100, "backoff": 0.02, "deadline": 120, "skipped_rounds": 0}


def train_here(algorithm: str, rounds: int) -> ServerState:
    """The state after an undisturbed training in this process."""
    problem, settings = make_problem(), make_settings(rounds)
    built = ALGORITHMS[algorithm]()
    first = replace(
        initial_state(problem, built, settings),
        choice=Choice(executor="sequential", chunk=1, threads=1),
    )
    *_, (state, _) = train(problem, built, settings, first)
    return state


def assert_same_bits(federation: Federation, rounds: int) -> None:
    """The server's state equals the local one, and each site remembers its own rows."""
    expected, found = train_here(federation.algorithm, rounds), federation.state()
    assert found.round == rounds
    for name, value in expected.models.items():
        assert torch.equal(found.models[name], value), name
    for joint, memory in expected.joints.items():
        for name, value in memory.items():
            assert torch.equal(found.joints[joint][name], value), (joint, name)
    for place, site in enumerate(NAMES):
        position = torch.tensor([place])
        rows = {name: value[position] for name, value in expected.clients.items()}
        if rows:
            receipt = bytes(found.clients["receipt"][position].flatten().tolist()).hex()
            kept = PrivateRows(folder=federation.folder / site / "state", first=rows).read(receipt)
            assert all(torch.equal(kept[name], value) for name, value in rows.items())


@pytest.fixture
def federation(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest):
    """A federation in a folder with a short path, as sockets need; stopped at the end."""
    started = []

    def create(algorithm: str, rounds: int, **contract: object) -> Federation:
        folder = tmp_path_factory.mktemp("f")
        started.append(Federation(folder, algorithm, rounds, **contract))
        return started[-1]

    yield create
    for one in started:
        one.stop()


def wait_for_rounds(federation: Federation, rounds: int) -> None:
    """Return when the table has this many rounds, or the server has ended."""
    while federation.rounds_done() < rounds and federation.is_training():
        time.sleep(0.005)


@pytest.mark.slow
def test_killed_server_and_site_continue_to_the_bit(federation):
    """One kill of each part in a training with private rows at the sites (SCAFFOLD)."""
    found = federation("scaffold", 12, **ALL)
    found.start_all()

    for done, part in ((2, "site 1"), (4, "server"), (6, "relay 2")):
        wait_for_rounds(found, done)
        found.kill(part)
        found.start(part)

    assert found.finish(120) == 0
    assert_same_bits(found, 12)
    assert [number for number, _ in found.rows()] == list(range(1, 13))


@pytest.mark.slow
def test_run_stops_after_too_few_answers_and_can_be_resumed(federation):
    contract = {"retries": 0, "deadline": 30, "skipped_rounds": 1, "quorum": 3}
    found = federation("fedavg", 8, **contract)
    found.start_all()
    wait_for_rounds(found, 3)
    found.kill("site 0")

    assert found.finish(120) == 5
    stopped = found.rows()
    _, missing = stopped[-1]
    assert list(missing) == list(NAMES)
    assert "no site process answers" in missing["graz"]

    found.start("site 0", "server")
    assert found.finish(120) == 0
    assert [n for n, _ in found.rows()] == list(range(1, 9))
    assert found.rows()[: len(stopped)] == stopped


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "seed"), [("scaffold", 1), ("fedavg", 2)])
def test_hundred_kills_do_not_change_a_bit(federation, algorithm, seed):
    kills, rounds = 100, 120
    found, draw = federation(algorithm, rounds, **ALL), random.Random(seed)
    found.start_all()
    killed: dict[str, int] = {}

    for number in range(1, kills + 1):
        wait_for_rounds(found, number)
        time.sleep(draw.random() * 0.08)  # somewhere within the next round
        part = draw.choice((*PARTS, "server", "server"))
        assert found.is_training()
        found.kill(part)
        found.start(part)
        killed[part] = killed.get(part, 0) + 1

    assert sum(killed.values()) == kills
    assert set(killed) == {*PARTS, "server"}
    assert found.finish(300) == 0
    assert_same_bits(found, rounds)
    assert found.rows() == [(number, {}) for number in range(1, rounds + 1)]


@pytest.mark.slow
def test_hundred_kills_with_a_quorum_lose_no_round_and_record_every_absence(federation):
    """Parts stay away for some rounds: two of three sites are enough to go on."""
    kills, rounds, seed = 100, 150, 3
    contract = {"quorum": 2, "grace": 0.5, "retries": 1, "backoff": 0.02, "deadline": 60}
    found, draw = federation("fedavg", rounds, **contract), random.Random(seed)
    found.start_all()
    away: list[str] = []

    for number in range(1, kills + 1):
        wait_for_rounds(found, number)
        time.sleep(draw.random() * 0.08)
        if away:
            found.start(away.pop())
        part = draw.choice((*PARTS, "server", "server"))
        found.kill(part)
        if part == "server":
            found.start(part)
        else:
            away.append(part)  # comes back at the next kill

    found.start(*away)
    assert found.finish(300) == 0
    rows = found.rows()
    assert [number for number, _ in rows] == list(range(1, rounds + 1))
    assert all(len(missing) <= 1 or len(missing) == len(NAMES) for _, missing in rows)
    reasons = {why for _, missing in rows for why in missing.values()}
    assert any("no site process answers" in why for why in reasons)
    assert found.state().round == rounds


@pytest.mark.slow
def test_forgotten_exclusions_would_be_seen(federation):
    """A site that is away for a while is missing in exactly the rounds of its absence."""
    contract = {"quorum": 2, "grace": 5, "retries": 0, "deadline": 60}
    rounds = 150  # the site needs longer to start than a round takes
    found = federation("fedavg", rounds, **contract)
    found.start("site 0", "relay 0", "site 1", "relay 1", "relay 2", "server")

    wait_for_rounds(found, 4)
    found.start("site 2")
    assert found.finish(120) == 0

    rows = dict(found.rows())
    assert list(rows) == list(range(1, rounds + 1))
    back = next(number for number in rows if not rows[number])
    assert back > 4
    assert all(list(rows[number]) == ["wien"] for number in range(1, back))
    assert all(rows[number] == {} for number in range(back, rounds + 1))


@pytest.mark.slow
def test_files_of_a_federation_stay_within_its_folder(federation, tmp_path: Path):
    found = federation("fedavg", 2, **ALL)
    found.start_all()
    assert found.finish(120) == 0
    names = {path.relative_to(found.folder).parts[0] for path in found.folder.rglob("*")}
    assert names == {*NAMES, "run"}
