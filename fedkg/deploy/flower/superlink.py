"""The SuperLink of a server: a child process that is started again when it is lost."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from types import TracebackType

import httpx
from flwr.serverapp import Grid

from fedkg.deploy.child_process import ChildProcess
from fedkg.deploy.federation_folders import CA, KEYS, Federation, split_address
from fedkg.deploy.flower.app_and_environment import LOGS, flower_environment
from fedkg.deploy.flower.internals import ServerTask, is_reachable, register_nodes, start_run
from fedkg.errors import FederationError

START_S = 180.0
"""Seconds that a SuperLink has to start; five on an idle computer."""

MOST_STARTS = 3
"""Starts in a row without an answer; then the cause is not an accident."""

PAUSE_S = 0.2
"""Seconds between two tries to reach it."""

ORPHAN_S = 10.0
"""Seconds in which the SuperLink of a server that was killed ends and frees the port."""

LOCAL = ("localhost", "127.0.0.1")


class SuperLink:
    """The SuperLink of a federation, with the nodes of its admitted sites registered.

    Its state is in memory: after a restart the keys are registered again, and a new run starts.

    Args:
        folder: the server's folder.
    """

    def __init__(self, folder: Path, federation: Federation) -> None:
        host, self._port = split_address(federation.address)
        self._host = "127.0.0.1" if host in LOCAL else "0.0.0.0"
        self._address = f"127.0.0.1:{self._port}"
        self._keys, self._nodes = folder / KEYS, tuple(federation.node_keys().values())
        self._root = (self._keys / CA).read_bytes()
        self._log = folder / LOGS / "superlink.log"
        self.child = ChildProcess(
            "fedkg.deploy.flower",
            self._list_arguments,
            log=self._log,
            environment=flower_environment(folder),
        )
        self._task: ServerTask | None = None
        self._lost_since = 0.0
        self._starts = 0

    def connect(self, seconds: float) -> Grid | None:
        """The grid of a new run, on a SuperLink that is started if none runs.

        Args:
            seconds: how long to wait at most.

        Returns:
            None if the SuperLink does not answer in time.

        Raises:
            FederationError: its port is taken, or it does not start at all.
        """
        end = time.monotonic() + seconds
        self._lost_since = self._lost_since or time.monotonic()
        self._close_task(completed=False)
        while True:
            if self.child.pid is None:
                self._start()
            if is_reachable(self._address, self._root):
                try:
                    register_nodes(self._address, self._root, self._nodes)
                    secret = (self._keys / "app.secret").read_bytes()
                    self._task = start_run(self._address, self._root, secret)
                except httpx.HTTPError:  # it ended in between
                    pass
                else:
                    self._lost_since, self._starts = 0.0, 0
                    return self._task.grid
            if time.monotonic() - self._lost_since > START_S:
                raise self._explain_failure()
            if time.monotonic() > end:
                return None
            time.sleep(PAUSE_S)

    def admit(self, nodes: Collection[bytes]) -> None:
        """Register the nodes of all admitted sites, some of which may be new.

        Raises httpx.HTTPError: the SuperLink does not answer.
        """
        register_nodes(self._address, self._root, set(nodes) - set(self._nodes))
        self._nodes = tuple(nodes)

    def close(self, *, completed: bool) -> None:
        """End the run and the SuperLink."""
        self._close_task(completed=completed)
        self.child.stop()

    def __enter__(self) -> SuperLink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close(completed=kind is None)

    def _start(self) -> None:
        if self._starts == MOST_STARTS:
            raise self._explain_failure()
        self._starts += 1
        end = time.monotonic() + ORPHAN_S
        while error := self._try_port():
            if error.errno != errno.EADDRINUSE or time.monotonic() > end:
                raise FederationError(
                    f"the server cannot use the port {self._port}",
                    received=error.strerror or str(error),
                    help="stop the program that uses the port; or create the federation again "
                    "with another port, above 1023: fedkg federation init JOB.yaml -o FEDERATION "
                    "--address HOST:PORT",
                ) from error
            time.sleep(PAUSE_S)
        self.child.start()

    def _try_port(self) -> OSError | None:
        """Why the port is not free; None if it is."""
        with closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self._host, self._port))
            except OSError as error:
                return error
        return None

    def _explain_failure(self) -> FederationError:
        last = self.child.read_log().strip().splitlines()[-1:] or ["nothing was written"]
        return FederationError(
            "the SuperLink (Flower's server process) does not start",
            received=last[0],
            help=f"{self._log} shows why; correct the cause, and start the server again",
        )

    def _close_task(self, *, completed: bool) -> None:
        if self._task is not None:
            self._task.close(completed=completed)
            self._task = None

    def _list_arguments(self) -> list[str]:
        keys = self._keys
        return [
            "superlink", "--host", self._host, "--port", str(self._port),
            "--ssl-ca-certfile", str(keys / CA), "--ssl-certfile", str(keys / "server.pem"),
            "--ssl-keyfile", str(keys / "server.key"), "--enable-supernode-auth",
            "--isolation", "process", "--superexec-auth-secret-file", str(keys / "app.secret"),
            "--disable-runtime-dependency-installation",
        ]  # fmt: skip
