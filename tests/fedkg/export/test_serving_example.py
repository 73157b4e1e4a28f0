"""The example server answers with the exported model, and rejects what is not a row of inputs."""

from __future__ import annotations

import importlib.util
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import fedkg

SERVE = Path(__file__).parents[3] / "examples/serving/serve.py"

TANK = """
signal feed in kg/h span 0 .. 100
output oil  in kg/h span 0 .. 100
rule most hard require oil <= feed
"""


def ask(port: int, body: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}", body.encode(), timeout=10) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    spec = importlib.util.spec_from_file_location("serve", SERVE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.make_server(folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.slow
def test_the_server_answers_with_the_model(tmp_path: Path) -> None:
    rules = fedkg.compile(text=TANK).constraints(
        x=fedkg.columns(["feed"]), y=fedkg.columns(["oil"])
    )
    model = torch.nn.Linear(1, 1)
    with torch.no_grad():
        model.weight.fill_(2.0)
        model.bias.fill_(-20.0)
    fedkg.export_model(model, tmp_path, rules=rules)
    with serving(tmp_path) as port:
        assert ask(port, '{"feed": 15}') == (200, {"oil": 10.0})
        assert ask(port, '{"feed": 60}') == (200, {"oil": pytest.approx(60, rel=1e-12)})
        for wrong in ("{}", "[]", "x", '{"feed": NaN}', '{"feed": "a"}', "[" * 60_000):
            assert ask(port, wrong)[0] == 400


def test_a_model_of_windows_reads_a_list_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Session:
        def __init__(self, path: Path) -> None:
            pass

        def run(self, names: None, feed: dict[str, Any]) -> list[Any]:
            return [feed["inputs"].cumsum(1)]  # two rows in, a forecast of two steps out

    monkeypatch.setattr("onnxruntime.InferenceSession", Session)
    certificate = {"model": "", "inputs": [{"name": "feed"}], "outputs": [{"name": "oil"}]}
    (tmp_path / "certificate.json").write_text(json.dumps(certificate | {"steps": 2}))
    with serving(tmp_path) as port:
        assert ask(port, '[{"feed": 1}, {"feed": 2}]') == (200, [{"oil": 1.0}, {"oil": 3.0}])
        for wrong in ('{"feed": 1}', '[{"feed": 1}]', "[1, 2]"):
            status, answer = ask(port, wrong)
            assert status == 400
            assert answer["expected"] == "a list of 2 rows with these inputs"
