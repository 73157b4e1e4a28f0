"""A real Oxigraph server on a free local port, and a small proxy in front of it that misbehaves."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

BINARY = shutil.which("oxigraph", path=str(Path(sys.executable).parent)) or shutil.which("oxigraph")

needs_oxigraph = pytest.mark.skipif(
    BINARY is None, reason="no `oxigraph` beside this Python: pip install 'fedkg[dev]'"
)

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a server that serves a folder, until the end of the block."""
    assert BINARY is not None
    for _ in range(5):  # another process may take the port before the server does
        port = free_port()
        process = subprocess.Popen(
            [BINARY, "serve", "--location", str(folder), "--bind", f"127.0.0.1:{port}"],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        assert process.stderr is not None
        said = process.stderr.readline()
        if "Listening" in said:
            break
        process.communicate()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.communicate()


def put(server: str, turtle: str, graph: str = "default") -> None:
    """Replace a graph of the server, named by a query such as ``graph=IRI``, by this Turtle."""
    request = urllib.request.Request(
        f"{server}/store?{graph}",
        data=turtle.encode(),
        headers={"Content-Type": "text/turtle"},
        method="PUT",
    )
    with DIRECT.open(request) as answer:
        assert answer.status in (201, 204)


Answer = Callable[[BaseHTTPRequestHandler, bytes], bool]
"""Answers a request, given its body; returns False to forward it to the server behind."""


@contextmanager
def in_front(answer: Answer, server: str = "") -> Iterator[str]:
    """The address of a server that answers by `answer`, and forwards everything else."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if answer(self, body):
                return
            kept = {
                key: value
                for key, value in self.headers.items()
                if key in ("Accept", "Content-Type")
            }
            with DIRECT.open(
                urllib.request.Request(server + self.path, data=body, headers=kept)
            ) as found:
                reply(self, 200, found.read(), found.headers["Content-Type"])

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing."""

    front = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=front.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{front.server_port}"
    finally:
        front.shutdown()
        thread.join()
        front.server_close()


def reply(
    handler: BaseHTTPRequestHandler,
    status: int,
    body: bytes = b"",
    kind: str = "text/plain",
    length: int | None = None,
    **more: str,
) -> None:
    """Send an answer.

    `length`: the declared length, if it is wrong. `more`: further headers, with `_` for `-`.
    """
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    for name, value in more.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)
