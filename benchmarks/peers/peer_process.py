"""A peer that runs in a separate process.

If it crashes or never finishes, the benchmark continues and reports the reason.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any


class PeerError(Exception):
    """A peer has no result; the message is "failed: ..." or "does not finish within ... s"."""


class Peer:
    """The connection to a peer's process.

    Args:
        process: started. channel: this end of its pipe.
    """

    def __init__(self, process: multiprocessing.process.BaseProcess, channel: Connection) -> None:
        self._process, self._channel = process, channel

    def receive(self, patience: float | None = None) -> Any:
        """The next object that the peer sends.

        Args:
            patience: the seconds that it may take; None: any time.

        Raises:
            PeerError: the peer raised an exception, ended, or needs more time.
        """
        if not self._channel.poll(patience):
            raise PeerError(f"does not finish within {patience:g} s")
        try:
            kind, value = self._channel.recv()
        except EOFError:
            self._process.join()
            raise PeerError(f"failed: exit code {self._process.exitcode}") from None
        if kind == "failed":
            raise PeerError(f"failed: {value}")
        return value

    def ask(self, message: object) -> Any:
        """Send a message and return the reply. Raises PeerError as `receive`."""
        try:
            self._channel.send(message)
        except OSError:
            self._process.join()
            raise PeerError(f"failed: exit code {self._process.exitcode}") from None
        return self.receive()


@contextmanager
def peer_process(work: Callable[..., None], *arguments: object) -> Iterator[Peer]:
    """Run ``work(*arguments, send, receive)`` in a process, which ends with the block.

    Args:
        work: a function at module level. It calls ``send(value)`` for each result and ``receive()``
            for each message of `Peer.ask`.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_run, args=(work, arguments, there), daemon=True)
    process.start()
    there.close()
    try:
        yield Peer(process, here)
    finally:
        process.kill()
        process.join()
        here.close()


def _run(work: Callable[..., None], arguments: tuple[object, ...], channel: Connection) -> None:
    try:
        work(*arguments, lambda value: channel.send(("result", value)), channel.recv)
    except EOFError:  # the benchmark has ended
        return
    except MemoryError:
        failure = "out of memory"
    except (Exception, SystemExit) as error:  # noqa: BLE001  # a peer may raise anything
        failure = f"{type(error).__name__}: {error}".splitlines()[0]
    else:
        return
    channel.send(("failed", failure))
