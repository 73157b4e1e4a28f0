"""Each page fits a desktop and a telephone, and axe-core finds no serious problem in it."""

from __future__ import annotations

import base64
import json
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from chromium import ROOT, axe_script, chromium, serious_problems
from typing_extensions import override

from fedkg.authoring import check
from fedkg.evaluation import evaluate
from fedkg.evaluation.incidents import find_incidents
from fedkg.learned_knowledge_records import LearnedKnowledge, MinedNumber, MinedProperty
from fedkg.operations import live_server
from fedkg.operations.live_server import serve_folder
from fedkg.operations.run_progress_texts import LiveView, describe_folder
from fedkg.report import write_report
from fedkg.report.causes_page import causes_page
from fedkg.report.incident_page import incident_page
from fedkg.tables import read_table

LONG = "/srv/plants/" + "a_folder_with_a_long_name/" * 6 + "table.csv"
PLAYGROUND = ROOT / "build" / "playground" / "page"
READY = 200
"""Seconds until Python must be ready in the playground, also on a busy computer."""

FILES = {
    "rules.fkg": """# A comment
use isa95
signal p in bar span 0 .. 10 column "p"
rule high "The pressure is low." allow FKG233 because "none" require p <= 5 bar
""",
    "table.csv": "p\n4\n6\n",
}
"""A page with a note, a warning, and a violated rule."""

Address = Iterator[str | Path]


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def incidents(recorded: Any, folder: Path) -> Address:
    rules = 'signal p in bar span 0 .. 10 column "p"\nrule high "Low." require p <= 5 bar\n'
    pack = check(text=rules, reason=False).pack
    assert pack is not None
    path = folder / "table.csv"
    path.write_text("p\n4\n6\n7\n4\n")
    table = read_table(path)
    found = find_incidents(pack, [(LONG, table)], [evaluate(pack, table)])
    (folder / "page.html").write_text(incident_page(found, notes=(LONG,)), encoding="utf-8")
    yield folder / "page.html"


@contextmanager
def report(recorded: Any, folder: Path) -> Address:
    yield write_report(recorded.folder)


@contextmanager
def causes(recorded: Any, folder: Path) -> Address:
    clients = ("boiler_of_the_north_wing", "hall")
    edge = {"driver": clients[0], "driven": clients[1], "adjusted": 0.01, "p_value": 0.002}
    figures = {"radius": 0.98765, "distance": 1.2345e-7, "convexity": 0.123456, "smoothness": 1.5}
    results = {
        "title": "Causes",
        "sentences": [f"{clients[0]} drives {clients[1]}."],
        "notes": [LONG],
        "prior": [],
        "level": 0.05,
        "step": 60.0,
        "edges": [edge | {"reference": 0.5, "strength": 0.4, "kept": 0.8, "lag": 1}],
        "clients": {name: {"lags": 1} for name in clients},
        "central": False,
        "held": {},
        "readings": [],
        "precedences": [],
        "reached": {name: [] for name in clients},
        "convergence": [{"client": name, "loss": 0.00012345, **figures} for name in clients],
    }
    losses = [{"epoch": n, "server": 1 / n, **dict.fromkeys(clients, 1 / n)} for n in (1, 2, 3)]
    page = folder / "causes.html"
    page.write_text(causes_page(results, losses), encoding="utf-8")
    yield page


@contextmanager
def live(recorded: Any, folder: Path, path: str = "") -> Address:
    with serve_folder(recorded.folder, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.server_port}/{path}"


@contextmanager
def playground(recorded: Any, folder: Path) -> Address:
    if not (PLAYGROUND / "parts.json").is_file():
        pytest.skip("needs `make playground`")
    handler = partial(Quiet, directory=str(PLAYGROUND))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        packer = zlib.compressobj(wbits=-15)
        packed = packer.compress(json.dumps(FILES).encode()) + packer.flush()
        state = base64.urlsafe_b64encode(packed).decode().rstrip("=")
        yield f"http://127.0.0.1:{server.server_address[1]}/index.html#{state}"
        server.shutdown()


def _suggestions(folder: Path) -> LearnedKnowledge:
    found = MinedProperty(
        inference="night",
        template="range",
        text="operational_range(volume, ?low)",
        client="north",
        numbers=(MinedNumber(name="low", value=2.5, direction="down"),),
        traces=9,
    )
    return LearnedKnowledge(
        run="a" * 64, title=LONG, software="fedkg", began="", properties=(found,)
    )


def _with_long_note(*arguments: Any, **options: Any) -> LiveView | None:
    view = describe_folder(*arguments, **options)
    return None if view is None else replace(view, notes=(LONG,))


PAGES: dict[str, Callable[..., Any]] = {
    "incidents": incidents,
    "report": report,
    "causes": causes,
    "live": live,
    "suggestions": partial(live, path="suggestions"),
    "playground": playground,
}
LOADED = {
    "playground": "document.querySelector('#verdicts tbody tr') && "
    "document.querySelector('#problems li.warning')"
}
"""What a page shows last, if it is not there at once."""


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_and_axe_finds_no_serious_problem(
    name: str, recorded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = axe_script()
    monkeypatch.setattr("fedkg.jobs.learned_knowledge_reader.read_learned", _suggestions)
    monkeypatch.setattr(live_server, "describe_folder", _with_long_note)
    problems: dict[tuple[int, bool], Any] = {}
    with PAGES[name](recorded, tmp_path) as place, chromium() as page:
        page.open(place, width=1280)
        page.wait(LOADED.get(name, "true"), READY)
        page.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        for width in (1280, 390):
            for dark in (False, True):
                page.show_in(width=width, dark=dark)
                wide = page.run("document.documentElement.scrollWidth")
                found = [f"{wide} px wide"] if wide > width else []
                cut = page.run(
                    "[...document.querySelectorAll('section')].filter(one => "
                    "one.scrollWidth > one.clientWidth).map(one => one.innerText.slice(0, 40))"
                )
                problems[width, dark] = [*found, *cut, *serious_problems(page, script)]
        assert page.errors() == []
    assert {place: found for place, found in problems.items() if found} == {}
