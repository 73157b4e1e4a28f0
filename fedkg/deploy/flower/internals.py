"""Every use of Flower 1.41 beyond its documented interface.

- `start_client_internal.time`: a SuperNode sleeps 3 s between polls, without an option for it.
- `HEARTBEAT_DEFAULT_INTERVAL`: a killed SuperNode may connect again after two intervals only.
- `RuntimeHttpClient`, `run_clientapp`: Flower starts a process for each message, which takes 3 s
  and runs code that the server sends. One thread answers all messages with the app that is
  installed at the site.
- `superlink.extensions`: the port for sites also serves Flower's administration, without a
  login. It is reserved for this machine.
- `ControlHttpClient`: `flwr run` needs a configuration file in the home
  folder and several seconds for each call.
- `http_grid.pull_objects`: a grid waits two hours for the rest of an answer if a node was lost
  while it sent it.
- `HttpGrid`, `TaskIdentity`: the round loop runs in the process of `fedkg server run`, so that it
  survives the SuperLink.

All of them fail at import time, or with an AttributeError, if Flower changes; a test imports them.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
import zipfile
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
from flwr.app import Context, Message
from flwr.proto.control_pb2 import RegisterNodeRequest, StartRunRequest
from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullTaskInputRequest, PushTaskOutputRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.inflatable.inflatable_utils import pull_objects
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.runtime import RuntimeHttpClient

if TYPE_CHECKING:
    from flwr.superlink.grid.http_grid import HttpGrid

POLL_S = 0.25
"""Seconds between two questions of a SuperNode for a message, and of an app for a task."""

PULL_S = 20.0
"""Seconds that the parts of one answer may take to arrive at the server."""

HEARTBEAT_S = 10.0
"""Seconds between signs of life of a task; Flower gives it up after 60."""

NODE_HEARTBEAT_S = 10
"""Seconds between signs of life of a SuperNode, the least that Flower allows (its own: 30)."""

_ACQUIRE = "/flwr.proto.Runtime/AcquireTask"
_APP = Path(__file__).parent / "app"


def run_superlink(arguments: Sequence[str]) -> None:
    """Run `flower-superlink` until it is stopped, with administration from this machine only."""
    from flwr.superlink import extensions
    from flwr.superlink.cli.flower_superlink import flower_superlink
    from starlette.middleware import Middleware

    vars(extensions)["get_middleware"] = lambda: (Middleware(_ReserveAdministration),)
    sys.argv = ["flower-superlink", *arguments]
    flower_superlink()


class _ReserveAdministration:
    """Answer calls from other machines with 403 unless a node makes them."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle one call. `Any`: values of ASGI."""
        if scope["type"] == "http" and not is_allowed(scope["path"], (scope["client"] or [""])[0]):
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive, send)


def is_allowed(path: str, host: str) -> bool:
    """Whether a machine may call a path of the SuperLink: nodes may call the fleet only."""
    return path.startswith("/v1/fleet/") or host in ("127.0.0.1", "::1")


def run_supernode(arguments: Sequence[str], runtime: str, secret: Path) -> None:
    """Run `flower-supernode` until it is stopped, with an app in a thread instead of processes.

    Args:
        arguments: the options of `flower-supernode` without those of the runtime.
        runtime: address HOST:PORT on which the SuperNode offers tasks.
        secret: file with the secret that only the app of this node knows.
    """
    from flwr.supercore import heartbeat
    from flwr.supernode import fleet_http_connection, start_client_internal
    from flwr.supernode.cli.flower_supernode import flower_supernode

    for module in (fleet_http_connection, heartbeat):
        vars(module)["HEARTBEAT_DEFAULT_INTERVAL"] = NODE_HEARTBEAT_S
    short = SimpleNamespace(sleep=lambda seconds: time.sleep(min(seconds, POLL_S)))
    vars(start_client_internal)["time"] = short
    threading.Thread(target=_answer_tasks, args=(runtime, secret.read_bytes()), daemon=True).start()
    host, _, port = runtime.rpartition(":")
    sys.argv = ["flower-supernode", *arguments, "--isolation", "process"]
    sys.argv += ["--host", host, "--port", port, "--superexec-auth-secret-file", str(secret)]
    flower_supernode()


def _answer_tasks(address: str, secret: bytes) -> None:
    """Answer the tasks of a SuperNode one after the other, as `flwr-clientapp` would."""
    from fedkg.deploy.flower.client_app import app

    tasks = _connect_runtime(address, None, secret=secret)
    while True:
        try:
            found = tasks.AcquireTask(
                AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
            )
            if found.token:
                _answer_task(_connect_runtime(address, None, token=found.token), app)
                continue
        except httpx.HTTPError:  # the SuperNode starts or stops
            pass
        except Exception:  # noqa: BLE001  the server asks again; this thread must go on
            traceback.print_exc()
        time.sleep(POLL_S)


def _answer_task(client: RuntimeHttpClient, app: Callable[[Message, Context], Message]) -> None:
    """Pull a message, answer it and push the answer."""
    from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

    try:
        with Heartbeats(client):
            request, context, _, _ = pull_task_input(client)
            push_message(client, app(request, context), context)
        push_task_output(client, context, "completed", "")
    finally:
        client.close()


class Heartbeats:
    """Signs of life of a task while the block runs."""

    def __init__(self, client: RuntimeHttpClient) -> None:
        self._client = client
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def _beat(self) -> None:
        from flwr.proto.runtime_pb2 import SendTaskHeartbeatRequest

        while not self._end.is_set():
            with suppress(httpx.HTTPError):  # whoever uses the task notices it
                self._client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
            self._end.wait(HEARTBEAT_S)

    def __enter__(self) -> Heartbeats:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


@dataclass(frozen=True, slots=True)
class ServerTask:
    """A run of a SuperLink that this process has taken over, and its grid."""

    grid: HttpGrid
    heartbeats: Heartbeats

    def close(self, *, completed: bool) -> None:
        """End the run; errors of a SuperLink that is gone do not matter any more."""
        self.heartbeats.__exit__()
        status = "completed" if completed else "failed"
        with suppress(httpx.HTTPError):
            self.grid._runtime_client.PushTaskOutput(
                PushTaskOutputRequest(sub_status=status, details="")
            )
        self.grid.close()


def is_reachable(address: str, root: bytes) -> bool:
    """Whether a SuperLink answers."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=root.decode("ascii"))
    try:
        httpx.get(f"https://{address}/health", verify=context, timeout=2.0, trust_env=False)
    except httpx.HTTPError:
        return False
    return True


def register_nodes(address: str, root: bytes, keys: Iterable[bytes]) -> None:
    """Make public keys known to a SuperLink, which may know some of them.

    Raises `httpx.HTTPError`.
    """
    from flwr.supercore.control import ControlHttpClient

    client = ControlHttpClient.from_server_address(
        address, False, root, [RuntimeVersionHttpInterceptor(component_name="flwr-cli")]
    )
    try:
        for key in keys:
            try:
                client.RegisterNode(RegisterNodeRequest(public_key=key))
            except httpx.HTTPStatusError as error:
                if "already in use" not in error.response.text.lower():
                    raise
    finally:
        client.close()


def start_run(address: str, root: bytes, secret: bytes) -> ServerTask:
    """Start a run of the fedkg app, and take its server part over into this process.

    Raises `httpx.HTTPError`.
    """
    from flwr.common.serde import fab_to_proto, run_from_proto
    from flwr.supercore.control import ControlHttpClient
    from flwr.supercore.fab import Fab
    from flwr.supercore.task_identity import TaskIdentity
    from flwr.superlink.grid import http_grid
    from flwr.superlink.grid.http_grid import HttpGrid

    vars(http_grid)["pull_objects"] = partial(pull_objects, max_time=PULL_S)
    archive = BytesIO()
    with zipfile.ZipFile(archive, "w") as file:  # neither side runs code of it
        file.writestr("pyproject.toml", (_APP / "pyproject.toml").read_bytes())
    control = ControlHttpClient.from_server_address(
        address, False, root, [RuntimeVersionHttpInterceptor(component_name="flwr-cli")]
    )
    control.StartRun(StartRunRequest(fab=fab_to_proto(Fab("", archive.getvalue(), {}))))
    control.close()
    tasks = _connect_runtime(address, root, secret=secret)
    found = tasks.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP]))
    tasks.close()
    if not found.token:
        raise httpx.HTTPError("the SuperLink has no task for the run that was started")
    grid = HttpGrid(address, False, root, token=found.token)
    vars(grid)["_retry_invoker"] = None  # it waits for a lost SuperLink without end
    heartbeats = Heartbeats(grid._runtime_client)
    pulled = grid._runtime_client.PullTaskInput(PullTaskInputRequest())
    run = run_from_proto(pulled.run)
    grid.set_run(run)
    # the sender of every message that this process creates
    TaskIdentity.task_id, TaskIdentity.run_id = pulled.task_id, run.run_id
    TaskIdentity.node_id = pulled.context.node_id
    heartbeats.__enter__()
    return ServerTask(grid, heartbeats)


def _connect_runtime(
    address: str, root: bytes | None, *, token: str = "", secret: bytes = b""
) -> RuntimeHttpClient:
    """A connection to the runtime of a SuperLink or SuperNode, for one task or to acquire tasks."""
    proof = (
        RuntimeTokenHttpInterceptor(token)
        if token
        else SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods={_ACQUIRE})
    )
    return RuntimeHttpClient.from_server_address(
        address, root is None, root, [RuntimeVersionHttpInterceptor(component_name="fedkg"), proof]
    )
