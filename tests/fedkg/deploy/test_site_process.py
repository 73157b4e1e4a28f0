"""A site process answers on its socket, and whoever asks learns in words when it does not."""

import os
import socket as sockets
import threading
from pathlib import Path

import pytest

from fedkg.deploy import child_process
from fedkg.deploy.message import Message
from fedkg.deploy.site_process import BACKLOG, ask, is_served, listen, serve
from fedkg.errors import FederationError, JobError, TableError


@pytest.fixture
def served(tmp_path):
    """A socket on which a process echoes requests, fails on `fail`, and ends on `end`."""
    socket, ended = tmp_path / "s", []

    def handle(request: bytes) -> bytes:
        if request == b"fail":
            raise FederationError("site graz has not joined the training")
        if request in (b"cell", b"label"):
            kind = TableError if request == b"cell" else JobError
            raise kind('row 7, column `torque`: "8,250.0" is not a number')
        if request == b"end":
            ended.append(True)
        return request * 2

    thread = threading.Thread(
        target=serve, args=(handle, socket), kwargs={"until": lambda: ended}, daemon=True
    )
    thread.start()
    while not is_served(socket):
        pass
    yield socket
    if is_served(socket):
        ask(socket, b"end", seconds=5)
    thread.join(5)
    assert not thread.is_alive()


def test_answers_large_requests_after_errors(served):
    large = os.urandom(3_000_000)

    with pytest.raises(FederationError, match="site graz has not joined the training"):
        ask(served, b"fail", seconds=5)

    assert ask(served, large, seconds=5) == large * 2


@pytest.mark.parametrize(
    ("request_", "said"),
    [(b"cell", "a table of the site does not fit"), (b"label", "do not fit the job")],
)
def test_an_error_about_a_table_quotes_no_cell(served, request_, said):
    with pytest.raises(FederationError, match=said) as caught:
        ask(served, request_, seconds=5)

    assert "8,250" not in str(caught.value)


def test_a_busy_process_is_served_however_often_somebody_looks(tmp_path):
    """The queue of the socket stays free for requests."""
    socket = tmp_path / "s"
    with listen(socket):  # nobody accepts
        assert all(is_served(socket) for _ in range(2 * BACKLOG))
        with pytest.raises(FederationError, match="no answer within"):
            ask(socket, b"the queue has room", seconds=0.2)
    assert not is_served(socket)


def test_a_child_is_started_again_without_its_log_and_without_a_terminal(tmp_path, monkeypatch):
    monkeypatch.setattr(child_process, "CHECK_S", 0.01)
    monkeypatch.setattr(child_process, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(child_process, "MOST_LOG_BYTES", 0)
    log, ends, third = tmp_path / "logs" / "child.log", [], threading.Event()
    child = child_process.ChildProcess("platform", lambda: (), log=log, environment={})

    def on_end(text: str) -> None:
        ends.append(text)
        if len(ends) == 2:
            log.unlink()
            assert child.read_log() == ""
        if len(ends) == 3:
            third.set()
        raise OSError("the terminal is closed")

    with child_process.supervise(child, on_end):
        assert third.wait(30)
    assert ends[0]  # `platform` prints the name of the system
    assert Path(f"{log}.1").exists()


def test_only_its_user_may_connect(served):
    assert served.stat().st_mode & 0o077 == 0


def test_second_process_is_rejected(served):
    with pytest.raises(FederationError, match="another `fedkg site run` already serves"):
        serve(lambda request: request, served)


def test_no_process_is_an_error_with_a_remedy(tmp_path):
    with pytest.raises(FederationError, match="fedkg site run"):
        ask(tmp_path / "nobody", b"", seconds=1)


def test_socket_of_a_killed_process_is_replaced(tmp_path):
    socket, ended = tmp_path / "s", [True]
    socket.touch()
    thread = threading.Thread(
        target=serve, args=(bytes.upper, socket), kwargs={"until": lambda: ended}
    )
    thread.start()
    answer = b""
    while not answer:
        try:
            answer = ask(socket, b"again", seconds=5)
        except FederationError:
            continue
    thread.join(5)
    assert answer == b"AGAIN"


def test_long_path_is_rejected_before_anything_is_created():
    with pytest.raises(FederationError, match="too long"):
        serve(bytes.upper, Path("/tmp") / ("x" * 120))


def test_repeated_request_gets_its_answer_again_without_another_computation(tmp_path):
    socket, computed = tmp_path / "s", []

    def handle(request: bytes) -> bytes:
        computed.append(request)
        return b"%d" % len(computed)

    thread = threading.Thread(
        target=serve, args=(handle, socket), kwargs={"until": lambda: b"end" in computed}
    )
    thread.start()
    while not is_served(socket):
        pass

    rules = Message(kind="rules").to_bytes()  # the operator may have confirmed them meanwhile
    requests = (b"a", b"a", b"b", b"a", rules, rules, b"end")
    answers = [ask(socket, request, seconds=5) for request in requests]

    thread.join(5)
    assert answers == [b"1", b"1", b"2", b"3", b"4", b"5", b"6"]


def test_process_that_does_not_read_is_given_up_in_time(tmp_path):
    """A stopped process (SIGSTOP) accepts connections through the kernel and never reads."""
    with sockets.socket(sockets.AF_UNIX) as stopped:
        stopped.bind(str(tmp_path / "s"))
        stopped.listen(1)
        for request in (b"small", os.urandom(5_000_000), b"the queue is full"):
            with pytest.raises(FederationError, match=r"no answer within|no site process answers"):
                ask(tmp_path / "s", request, seconds=0.2)


def test_unexpected_error_of_a_request_does_not_end_the_process(tmp_path, capfd):
    socket, ended = tmp_path / "s", []

    def handle(request: bytes) -> bytes:
        if request == b"end":
            ended.append(True)
            return b""
        raise ZeroDivisionError("row 7: torque 61 N.m")

    thread = threading.Thread(
        target=serve, args=(handle, socket), kwargs={"until": lambda: ended}, daemon=True
    )
    thread.start()
    while not is_served(socket):
        pass
    with pytest.raises(FederationError, match="internal error of the site process") as caught:
        ask(socket, b"anything", seconds=5)
    assert "torque" not in str(caught.value)  # its text may quote rows
    ask(socket, b"end", seconds=5)
    thread.join(5)
    assert "torque" in capfd.readouterr().err
