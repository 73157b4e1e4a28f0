"""An endpoint with fifty million triples costs a compilation no more memory than a small one, as
long as the rules do not touch them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs

import pytest

from fedkg.pack import load

P, FKG = "https://example.org/p#", "https://w3id.org/fedkg/ns#"
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
MACHINES = 2_000
ROOM_MIB = 40
"""Memory that may differ between two compilations of the same rules: the allocator's blocks."""
RULES = f"""\
prefix p: <{P}>
signal torque(?m) is p:torque
rule cap for ?m, ?x where {{ ?m a p:Machine ; p:limit ?x }} require torque(?m) <= ?x
"""


class Synthetic:
    """A graph whose triples are computed when they are asked for: machines with a limit, and
    `events` of which each has two triples that no rule names.
    """

    def __init__(self, events: int) -> None:
        self.asked: list[str] = []
        self.sent = 0
        self.counts = {
            TYPE: MACHINES + 1 + events,
            f"{P}limit": MACHINES,
            f"{P}reading": events,
            f"{FKG}column": 1,
            f"{FKG}keyColumn": 1,
        }
        self.classes = {f"{P}Machine": MACHINES, f"{P}Property": 1, f"{P}Event": events}

    def rows(self, name: str) -> Iterator[tuple[str, object]]:
        """Subject and object of the triples of a property that rules touch."""
        if name == f"{P}limit":
            yield from ((f"{P}M{i}", i % 97) for i in range(MACHINES))
        elif name == f"{FKG}column":
            yield f"{P}torque", "torque"
        elif name == f"{FKG}keyColumn":
            yield f"{P}Machine", "machine"
        else:
            raise AssertionError(f"nobody needs {name}")

    def members(self, name: str) -> Iterator[str]:
        """The members of a class that rules touch."""
        if name == f"{P}Machine":
            yield from (f"{P}M{i}" for i in range(MACHINES))
        elif name == f"{P}Property":
            yield f"{P}torque"
        else:
            raise AssertionError(f"nobody needs the members of {name}")

    def answer(self, query: str) -> list[dict[str, object]]:
        """The solutions of the queries that fedkg asks."""
        if "GROUP BY ?p" in query:
            return [{"p": name, "n": count} for name, count in self.counts.items()]
        if "GROUP BY ?c" in query:
            return [{"c": name, "n": count} for name, count in self.classes.items()]
        if "COUNT(*)" in query:
            return [{"n": 0}]
        if "isBlank(?s) || isBlank(?o)" in query:
            return []
        if values := re.search(r"VALUES \?p \{ (.*?) \}", query):
            names = re.findall(r"<(.*?)>", values[1])
            return [{"s": s, "p": name, "o": o} for name in names for s, o in self.rows(name)]
        if page := re.search(rf"\?s <{TYPE}> <(.*?)> .*LIMIT (\d+) OFFSET (\d+)", query):
            some = sorted(self.members(page[1]))[int(page[3]) :][: int(page[2])]
            return [{"s": member} for member in some]
        raise AssertionError(f"unexpected: {query}")


def _term(value: object) -> dict[str, str]:
    if isinstance(value, int):
        datatype = "http://www.w3.org/2001/XMLSchema#integer"
        return {"type": "literal", "value": str(value), "datatype": datatype}
    kind = "uri" if str(value).startswith("http") else "literal"
    return {"type": kind, "value": str(value)}


@contextmanager
def serving(graph: Synthetic) -> Iterator[str]:
    """Serve a graph on loopback; gives the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["Content-Length"]))
            query = parse_qs(sent.decode())["query"][0]
            graph.asked.append(query)
            rows = graph.answer(query)
            names = re.findall(r"\?(\w+)", query.partition("WHERE")[0].replace("COUNT(*) AS", ""))
            bindings = [{name: _term(value) for name, value in row.items()} for row in rows]
            answer = {"head": {"vars": names}, "results": {"bindings": bindings}}
            body = json.dumps(answer).encode()
            graph.sent += len(body)
            self.send_response(200)
            self.send_header("Content-Type", "application/sparql-results+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/query"
    finally:
        server.shutdown()
        server.server_close()


def compiled(folder: Path, address: str) -> float:
    """Compile the rules in a new process; gives its memory at the peak, in MiB."""
    (folder / "rules.fkg").write_text(RULES, encoding="utf-8")
    command = [sys.executable, "-m", "fedkg", "compile", "rules.fkg", address, "-o", "out.fkgpack"]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    assert process.returncode == 0, said
    return usage.ru_maxrss / 1024


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured in the units of Linux")
def test_memory_does_not_grow_with_what_rules_do_not_touch(tmp_path: Path) -> None:
    peaks, sent, queries = [], [], []
    for events in (150_000, 25_000_000):
        graph = Synthetic(events)
        with serving(graph) as address:
            peaks.append(compiled(tmp_path, address))
        assert load(tmp_path / "out.fkgpack").rows == MACHINES
        sent.append(graph.sent)
        queries.append(len(graph.asked))
    assert sum(graph.counts.values()) > 50_000_000
    assert queries[0] == queries[1]
    assert sent[1] - sent[0] < 100  # longer numbers alone
    assert peaks[1] - peaks[0] < ROOM_MIB, peaks
