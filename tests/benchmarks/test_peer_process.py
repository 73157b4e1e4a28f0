"""A benchmark reports why a peer has no result: it crashed, was killed, or needs too long."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fedkg.errors import describe_install

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from peers.peer_process import PeerError, peer_process  # noqa: E402  # found by the path above

Send = Callable[[object], None]
Receive = Callable[[], object]


def doubles(number: int, send: Send, receive: Receive) -> None:
    send(2 * number)
    while True:
        send(2 * int(str(receive())))


def lacks_a_module(send: Send, receive: Receive) -> None:
    import no_such_peer  # noqa: F401  # it is not there


def runs_out_of_memory(send: Send, receive: Receive) -> None:
    raise MemoryError


def exits(send: Send, receive: Receive) -> None:
    os._exit(3)


def is_killed(send: Send, receive: Receive) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleeps(send: Send, receive: Receive) -> None:
    time.sleep(60)


def fails_later(send: Send, receive: Receive) -> None:
    send("ready")
    receive()
    raise ValueError("no gradient\nmore")


def test_a_peer_answers() -> None:
    with peer_process(doubles, 4) as peer:
        assert peer.receive(60) == 8
        assert peer.ask(5) == 10


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (lacks_a_module, "failed: ModuleNotFoundError: No module named 'no_such_peer'"),
        (runs_out_of_memory, "failed: out of memory"),
        (exits, "failed: exit code 3"),
        (is_killed, "failed: exit code -9"),
    ],
)
def test_a_peer_that_crashes_has_failed(work: Callable[..., None], reason: str) -> None:
    with peer_process(work) as peer, pytest.raises(PeerError) as error:
        peer.receive(60)
    assert str(error.value) == reason


def test_a_peer_that_needs_too_long_does_not_finish() -> None:
    with (
        peer_process(sleeps) as peer,
        pytest.raises(PeerError, match=r"does not finish within 1\.5 s"),
    ):
        peer.receive(1.5)


def test_a_peer_that_crashes_after_a_result_has_failed() -> None:
    with peer_process(fails_later) as peer:
        assert peer.receive(60) == "ready"
        with pytest.raises(PeerError, match=r"^failed: ValueError: no gradient$"):
            peer.ask(True)


def run_linear_rules(path: str) -> subprocess.CompletedProcess[str]:
    """The benchmark of linear rules on two tiny families, with `path` before other modules."""
    command = [
        sys.executable,
        str(BENCHMARKS / "linear_rule_projection.py"),
        "--batch",
        "8",
        "--repeats",
    ]
    return subprocess.run(
        [*command, "1", "--sizes", "20", "30"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.mark.slow
def test_the_linear_layer_names_the_failure_of_its_peer(tmp_path: Path) -> None:
    package = tmp_path / "pishield"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "shield_layer.py").write_text("raise ValueError('no layer')", encoding="utf-8")
    done = run_linear_rules(str(tmp_path))
    assert "PiShield failed: ValueError: no layer with 20 rules" in done.stdout
    assert "with 20 rules, so 30 are not tried" in done.stdout
    assert "does not finish" not in done.stdout
    rows = json.loads(done.stdout.splitlines()[-1])
    assert [row["ratio"] for row in rows[:4]] == [None] * 4
    assert all(row["reason"].startswith("failed: ValueError: no layer") for row in rows[:4])


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("pishield") is not None, reason="the peer is installed"
)
def test_the_linear_layer_names_the_package_that_its_peer_needs() -> None:
    rows = json.loads(run_linear_rules("").stdout.splitlines()[-1])
    assert [row["reason"] for row in rows[:4]] == [
        f"not run: needs pishield ({describe_install('bench')})"
    ] * 4
