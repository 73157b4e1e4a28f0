"""A site as a process that stays alive between rounds: it answers requests on a Unix socket.

Loading data, rules and libraries takes seconds. A process that does it once spares every round
these seconds; whatever carries messages to the site only passes bytes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

from fedkg.errors import FederationError, FedkgError

MOST_BYTES = 1 << 31
"""Largest request or answer; a model of this size needs another transport."""

LONGEST_PATH = 100
"""Bytes of the path of a Unix socket; Linux allows 107, macOS 103."""

_ANSWER, _ERROR = b"\x00", b"\x01"
"""First byte of what comes back: an answer, or the text of an error."""


def serve(
    handle: Callable[[bytes], bytes], socket: Path, *, until: Callable[[], bool] = lambda: False
) -> None:
    """Answer requests on a socket, one after the other, until `until` says so after an answer.

    Only processes of the same user can connect. A socket file that a killed process left behind
    is replaced.

    Args:
        handle: answers a request.
        socket: where the socket is created; removed at the end.

    Raises:
        FederationError: the path is too long, or another process answers on it.
    """
    if len(os.fsencode(socket)) > LONGEST_PATH:
        raise FederationError(
            f"the path of the socket {socket} is too long",
            expected=f"at most {LONGEST_PATH} bytes",
            help="choose a site folder with a shorter path",
        )
    if socket.exists():
        if is_served(socket):
            raise FederationError(
                f"another process already serves this site on {socket}",
                help="stop it first: only one process may use the state of a site",
            )
        socket.unlink()
    mask = os.umask(0o177)
    try:
        listener = Listener(str(socket), family="AF_UNIX")
    finally:
        os.umask(mask)
    with listener:
        while True:
            with listener.accept() as connection:
                _answer(connection, handle)
            if until():
                return


def ask(socket: Path, request: bytes, *, seconds: float) -> bytes:
    """The answer of the site process on a socket.

    Args:
        seconds: how long to wait for it.

    Raises:
        FederationError: no process answers in time, or it answers with an error.
    """
    try:
        with Client(str(socket), family="AF_UNIX") as connection:
            connection.send_bytes(request)
            if not connection.poll(seconds):
                raise FederationError(f"the site process gave no answer within {seconds:g} s")
            found = connection.recv_bytes(MOST_BYTES)
    except (OSError, EOFError) as error:
        raise FederationError(
            f"no site process answers on {socket}",
            received=f"{type(error).__name__}: {error}",
            help="start it with `fedkg site run`",
        ) from error
    if found[:1] == _ERROR:
        raise FederationError(found[1:].decode())
    return found[1:]


def is_served(socket: Path) -> bool:
    """Whether a process accepts connections on a socket."""
    try:
        with Client(str(socket), family="AF_UNIX"):
            return True
    except OSError:
        return False


def _answer(connection: Connection, handle: Callable[[bytes], bytes]) -> None:
    """Answer one request; an error of the site is part of the answer, a lost asker is not."""
    try:
        request = connection.recv_bytes(MOST_BYTES)
    except (OSError, EOFError):
        return
    try:
        found = _ANSWER + handle(request)
    except FedkgError as error:
        found = _ERROR + str(error).encode()
    try:
        connection.send_bytes(found)
    except (OSError, BrokenPipeError):
        return
