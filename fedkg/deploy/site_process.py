"""A site as a process that stays alive between rounds: it answers requests on a Unix socket.

Loading data, rules and libraries takes seconds. A process that does it once spares every round
these seconds; whatever carries messages to the site only passes bytes on.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket as sockets
import struct
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Listener
from pathlib import Path

from fedkg.deploy.message import read_head
from fedkg.errors import FederationError, FedkgError, MissingExtra, PackError, TableError
from fedkg.exclusion_reasons import NO_ANSWER, NO_PROCESS

MOST_BYTES = 1 << 31
"""Largest request or answer; a model of this size needs another transport."""

LONGEST_PATH = 100
"""Bytes of the path of a Unix socket; Linux allows 107, macOS 103."""

BACKLOG = 64
"""Requests that wait for the one that is being answered."""

STALLED_SECONDS = 60.0
"""How long a site waits for the next bytes of a request that somebody began to send."""

UNREADABLE_TABLE = (
    "a table of the site does not fit the job or its sites file; `fedkg site status SITE` at the "
    "site shows why"
)
"""What the server learns of a `TableError`, whose text may quote a cell."""

UNSUITABLE_DATA = (
    "the data, settings or knowledge of the site do not fit the job; `fedkg site status SITE` at "
    "the site shows why"
)
"""What the server learns of other errors of the site, whose text may quote a cell too."""

_ANSWER, _ERROR = b"\x00", b"\x01"
"""First byte of what comes back: an answer, or the text of an error."""


@contextmanager
def listen(socket: Path) -> Iterator[Listener]:
    """Own the socket of a site while in the block: a lock that ends with the process keeps other
    processes out, so that only one uses the state of the site.

    Only processes of the same user can connect. A socket file that a killed process left behind
    is replaced.

    Args:
        socket: where the socket is created; removed at the end. The lock is beside it.

    Raises:
        FederationError: the path is too long, or another process owns the socket.
    """
    if len(os.fsencode(socket)) > LONGEST_PATH:
        raise FederationError(
            f"the path of the socket {socket} is too long",
            expected=f"at most {LONGEST_PATH} bytes",
            help="choose a site folder with a shorter path",
        )
    with socket.with_suffix(".lock").open("a") as lock:
        for is_last in (False, True):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if is_last:
                    raise FederationError(
                        f"another `fedkg site run` already serves this site ({socket})",
                        help="stop that process first: only one process may use the state of a "
                        "site",
                    ) from error
                time.sleep(0.2)  # `is_served` may have held it for a moment
        lock.truncate(0)
        socket.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            listener = Listener(str(socket), family="AF_UNIX", backlog=BACKLOG)
        finally:
            os.umask(mask)
        with listener:
            lock.write(str(os.getpid()))  # from now on it answers
            lock.flush()
            yield listener


def answer_requests(
    handle: Callable[[bytes], bytes],
    listener: Listener,
    *,
    until: Callable[[], bool] = lambda: False,
) -> None:
    """Answer requests one after the other, until `until` says so after an answer.

    Args:
        handle: answers a request.
        listener: where the requests arrive, see `listen`.
        until: whether to stop.
    """
    while True:
        with listener.accept() as connection:
            _limit_waits(connection.fileno(), STALLED_SECONDS)
            _answer(connection, handle)
        if until():
            return


def serve(
    handle: Callable[[bytes], bytes], socket: Path, *, until: Callable[[], bool] = lambda: False
) -> None:
    """Own a socket and answer requests on it: `listen`, `repeat_last_answer`, `answer_requests`."""
    with listen(socket) as listener:
        answer_requests(repeat_last_answer(handle), listener, until=until)


def ask(socket: Path, request: bytes, *, seconds: float) -> bytes:
    """The answer of the site process on a socket.

    Args:
        seconds: how long to wait for it.

    Raises:
        FederationError: no process answers in time, or it answers with an error.
    """
    try:
        with _connect(socket, seconds) as connection:
            connection.send_bytes(request)
            if not connection.poll(seconds):
                raise FederationError(
                    f"the site process {NO_ANSWER} within {seconds:g} s",
                    help="see the output of `fedkg site run`; if it does nothing, start it again",
                )
            found = connection.recv_bytes(MOST_BYTES)
    except (OSError, EOFError) as error:
        raise FederationError(
            NO_PROCESS,
            received=f"{type(error).__name__}: {error}",
            help="start the site with `fedkg site run SITE`",
        ) from error
    if found[:1] == _ERROR:
        raise FederationError(found[1:].decode(errors="replace"))
    return found[1:]


def is_served(socket: Path) -> bool:
    """Whether a process answers on a socket. It learns nothing of this question: a connection
    would wait in its queue, and a busy process counts as one that answers.
    """
    try:
        with socket.with_suffix(".lock").open() as lock:
            if not os.fstat(lock.fileno()).st_size:
                return False
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no process has run here
        return False
    return False


def _connect(socket: Path, seconds: float) -> Connection:
    """A connection on which no single step waits longer than `seconds`."""
    with sockets.socket(sockets.AF_UNIX) as plain:
        _limit_waits(plain.fileno(), seconds)
        plain.connect(str(socket))
        return Connection(plain.detach())


def _limit_waits(descriptor: int, seconds: float) -> None:
    """Let the kernel end every send and receive on a socket that makes no progress: a process at
    the other end may be stopped or hang, and `Connection` itself has no time limit.
    """
    limit = struct.pack("ll", int(seconds), max(1, int(seconds % 1 * 1e6)))
    with sockets.socket(fileno=os.dup(descriptor)) as same:
        for option in (sockets.SO_SNDTIMEO, sockets.SO_RCVTIMEO):
            same.setsockopt(sockets.SOL_SOCKET, option, limit)


def repeat_last_answer(handle: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """A handler that gives the last request the same answer again, without another computation: a
    server that saw no answer asks again, while the site may still be busy with the first request.

    An error is not kept, nor an answer that the operator of the site can change meanwhile.
    """
    last: dict[bytes, bytes] = {}

    def answer(request: bytes) -> bytes:
        digest = hashlib.sha256(request).digest()
        if digest not in last or _is_about_site(request):
            last.clear()
            last[digest] = handle(request)
        return last[digest]

    return answer


def _is_about_site(request: bytes) -> bool:
    """Whether a request asks for the tables of the site, or for rules that it has confirmed."""
    with suppress(FederationError):
        kind, _, fields = read_head(request)
        return kind == "rules" or fields.get("step") in ("summary", "units")
    return False


def _answer(connection: Connection, handle: Callable[[bytes], bytes]) -> None:
    """Answer one request; an error of the site is part of the answer, a lost asker is not."""
    try:
        request = connection.recv_bytes(MOST_BYTES)
    except (OSError, EOFError):
        return
    try:
        found = _ANSWER + handle(request)
    except TableError:
        found = _ERROR + UNREADABLE_TABLE.encode()
    except (FederationError, MissingExtra, PackError) as error:  # of messages, consent, versions
        found = _ERROR + str(error).encode(errors="replace")
    except FedkgError:
        found = _ERROR + UNSUITABLE_DATA.encode()
    except Exception as error:  # noqa: BLE001  no request may end the process
        traceback.print_exc()
        # Its text may quote rows: only its kind leaves the site.
        kind = type(error).__name__
        found = _ERROR + f"internal error of the site process ({kind}), see its output".encode()
    try:
        connection.send_bytes(found)
    except (OSError, BrokenPipeError):
        return
