"""Serve an exported model on this machine with the standard library and onnxruntime.

    python examples/serving/serve.py deployed/ 8000
    curl -d '{"feed": 60}' http://127.0.0.1:8000

The body of a request has a number for each input, in its unit; the answer has the outputs.
"""

from __future__ import annotations

import json
import math
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import onnxruntime

LARGEST_BODY = 1 << 16
"""Bytes of the largest accepted request."""


def make_server(folder: Path, port: int) -> HTTPServer:
    """A server of the model in a folder on loopback; port 0 chooses a free port."""
    certificate = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    session = onnxruntime.InferenceSession(folder / certificate["model"])
    names = [given["name"] for given in certificate["inputs"]]
    outputs = [given["name"] for given in certificate["outputs"]]

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_POST(self) -> None:
            """Answer one request."""
            try:
                size = int(self.headers.get("Content-Length", 0))
                if size > LARGEST_BODY:
                    raise ValueError(f"the request is larger than {LARGEST_BODY} bytes")
                given = json.loads(self.rfile.read(size))
                row = [float(given[name]) for name in names]
                if not all(map(math.isfinite, row)):
                    raise ValueError("every input must be a finite number")
            except (KeyError, TypeError, ValueError, OverflowError) as error:
                self.reply(400, {"error": f"{error}", "expected": names})
                return
            [answer] = session.run(None, {"inputs": np.array([row], dtype=np.float64)})[0]
            self.reply(200, dict(zip(outputs, answer.tolist(), strict=True)))

        def reply(self, status: int, document: dict[str, object]) -> None:
            """Send a JSON document."""
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    return HTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    make_server(Path(sys.argv[1]), int(sys.argv[2])).serve_forever()
