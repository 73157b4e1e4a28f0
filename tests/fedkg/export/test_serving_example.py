"""The example server answers with the exported model, and rejects what is not a row of inputs."""

from __future__ import annotations

import importlib.util
import json
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import torch

import fedkg

SERVE = Path(__file__).parents[3] / "examples/serving/serve.py"

TANK = """
signal feed in kg/h span 0 .. 100
output oil  in kg/h span 0 .. 100
rule most hard require oil <= feed
"""


def ask(port: int, body: str) -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}", body.encode(), timeout=10) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.slow
def test_the_server_answers_with_the_model(tmp_path):
    rules = fedkg.compile(text=TANK).constraints(
        x=fedkg.columns(["feed"]), y=fedkg.columns(["oil"])
    )
    model = torch.nn.Linear(1, 1)
    with torch.no_grad():
        model.weight.fill_(2.0)
        model.bias.fill_(-20.0)
    fedkg.export_model(model, tmp_path, rules=rules)
    spec = importlib.util.spec_from_file_location("serve", SERVE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.make_server(tmp_path, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            port = server.server_port
            assert ask(port, '{"feed": 15}') == (200, {"oil": 10.0})
            assert ask(port, '{"feed": 60}') == (200, {"oil": pytest.approx(60, rel=1e-12)})
            for wrong in ("{}", "[]", "x", '{"feed": NaN}', '{"feed": "a"}'):
                assert ask(port, wrong)[0] == 400
        finally:
            server.shutdown()
            thread.join()
