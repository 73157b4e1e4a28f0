"""Serve an exported model on this machine with the standard library and onnxruntime.

    python examples/serving/serve.py deployed/ 8000
    curl -d '{"feed": 60}' http://127.0.0.1:8000

The body of a request has a number for each input, in its unit; for a model of windows it is a list
of such rows, the earliest first. The answer has the outputs, for a forecast those of each step.
"""

from __future__ import annotations

import json
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
    steps = certificate.get("steps", 0)
    expected = f"a list of {steps} rows with these inputs" if steps else "these inputs"

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_POST(self) -> None:
            """Answer one request."""
            try:
                size = int(self.headers.get("Content-Length", 0))
                if size > LARGEST_BODY:
                    raise ValueError(f"the request is larger than {LARGEST_BODY} bytes")
                given = json.loads(self.rfile.read(size))
                if steps and (not isinstance(given, list) or len(given) != steps):
                    raise ValueError(f"the model reads windows of {steps} rows")
                given = given if steps else [given]
                rows = [[float(row[name]) for name in names] for row in given]
                if not np.isfinite(rows).all():
                    raise ValueError("every input must be a finite number")
            except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
                self.reply(400, {"error": f"{error}", "expected": expected, "inputs": names})
                return
            inputs = np.array([rows] if steps else rows, dtype=np.float64)
            [answer] = session.run(None, {"inputs": inputs})[0]
            answers = [
                dict(zip(outputs, row, strict=True)) for row in np.atleast_2d(answer).tolist()
            ]
            self.reply(200, answers[0] if answer.ndim == 1 else answers)

        def reply(self, status: int, document: object) -> None:
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
