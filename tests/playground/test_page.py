"""The playground in Chromium, served from this computer alone, and from disk."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from chromium import Page, chromium
from test_docs_hook import load
from typing_extensions import override

from fedkg_compiler.diagnostics import CODES
from fedkg_compiler.diagnostics.code_registry import example_files

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build" / "playground" / "page"
PATIENCE = 300
"""Seconds until Python must be ready, also on a busy computer."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (BUILT / "parts.json").is_file(), reason="needs `make playground`"),
]

RULES = """signal pressure in bar
rule limit require pressure <= 60 degC
rule high require presure <= 8 bar
"""


KEEP_WORKER = """const Original = Worker;
window.Worker = class extends Original {
  constructor(...parts) { super(...parts); window.playgroundWorker = this; }
};"""
"""A script that gives tests the worker of the page."""


class Handler(SimpleHTTPRequestHandler):
    """Serves files without a log, and notes what was asked for."""

    asked: list[str] = []  # noqa: RUF012

    @override
    def log_message(self, format: str, *args: Any) -> None:
        self.asked.append(str(args[0]))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(BUILT)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/index.html"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def page(address: str) -> Iterator[Page]:
    """The page, as soon as Python is ready in it."""
    with chromium() as tab:
        tab.send("Network.enable")
        tab.send("Page.addScriptToEvaluateOnNewDocument", source=KEEP_WORKER)
        tab.send("Page.navigate", url=address)
        wait(tab, "document.body?.dataset.status === 'ready'")
        yield tab


def wait(page: Page, condition: str) -> Any:
    """The value of a JavaScript expression as soon as it is true."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := page.run(condition):
            return found
        time.sleep(0.2)
    text = page.run("document.body.innerText")
    raise AssertionError(f"{condition} did not come true: {text}")


def write(page: Page, text: str) -> None:
    """Replace the text of the editor as a user does."""
    page.run("document.querySelector('.cm-content').focus()")
    for kind in ("keyDown", "keyUp"):
        page.send(
            "Input.dispatchKeyEvent",
            type=kind,
            key="a",
            code="KeyA",
            windowsVirtualKeyCode=65,
            modifiers=2,
            commands=["selectAll"] if kind == "keyDown" else [],
        )
    page.send("Input.insertText", text=text)


def test_the_page_is_there_at_once_and_evaluates_its_example(page: Page) -> None:
    paint = page.run("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert paint < 2000
    rows = wait(page, "document.querySelectorAll('#verdicts tbody tr').length")
    assert rows == 2
    assert page.run("document.querySelectorAll('#trace svg rect.violated').length") > 0
    assert "substitute" in page.run("document.getElementById('missing').innerText")


def test_typing_shows_the_diagnostics_of_check(page: Page, tmp_path: Path) -> None:
    write(page, RULES)
    wait(page, "document.querySelectorAll('#problems li[data-code]').length >= 2")
    shown = page.run("[...document.querySelectorAll('#problems > li')].map(one => one.innerText)")
    (tmp_path / "rules.fkg").write_text(RULES)
    done = subprocess.run(
        [sys.executable, "-m", "fedkg", "check", "rules.fkg", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    expected = [
        f"rules.fkg:{one['line']}:{one['column']}: {one['severity']}[{one['code']}]: "
        f"{one['message']}"
        + (f"\n{one['help']}" if one["help"] else "")
        + "".join(
            f"\nrules.fkg:{other['line']}:{other['column']}: {other['message']}"
            for other in one["related"]
        )
        for one in json.loads(done.stdout)["diagnostics"]
    ]
    assert "this is in `bar`" in expected[0]
    assert [one.replace("\xa0", " ") for one in shown] == expected
    wait(page, "document.querySelectorAll('.cm-lintRange').length")


def test_statements_that_need_a_graph_are_named_beside_other_problems(page: Page) -> None:
    write(page, "use isa95\nrule limit require pressure <= 60 degC\nrule b require pressure <=")
    found = "[...document.querySelectorAll('#problems > li')].map((one) => one.innerText)"
    wait(page, f"{found}.length >= 2 && {found}[0].includes('not checked')")
    assert page.run(found)[0].startswith("rules.fkg:1:1: info: not checked: rules that use an")


def test_messages_of_the_server_are_shown(page: Page) -> None:
    params = {"type": 3, "message": "example: holds, as expected"}
    message = {"jsonrpc": "2.0", "method": "window/showMessage", "params": params}
    page.run(
        "playgroundWorker.dispatchEvent(new MessageEvent('message', {data: {lsp: "
        f"{json.dumps(json.dumps(message))}}}}}))"
    )
    wait(page, "document.querySelector('#problems > li.note')?.innerText.startsWith('example:')")


def test_the_link_opens_the_same_rules(page: Page, address: str) -> None:
    text = "rule limit require pressure <= 7 bar\n"
    before = page.run("location.hash")
    write(page, text)
    state = wait(page, f"location.hash !== {json.dumps(before)} && location.hash")
    cells = "[...document.querySelectorAll('#verdicts td')].map((one) => one.innerText)"
    wait(page, f"{cells}[0] === 'limit'")
    assert page.run(cells) == ["limit", "3", "7", "0", "-2.4 bar", "7"]
    page.send("Page.navigate", url="about:blank")
    page.send("Page.navigate", url=address + state)
    wait(page, "document.querySelectorAll('.cm-line').length")
    assert page.run("document.querySelector('.cm-content').innerText").rstrip() == text.rstrip()


def test_the_link_of_a_code_opens_its_example(address: str) -> None:
    hook = load("docs_hook")
    link = re.search(r'href="([^"]+)">Open the example', hook.code_page("FKG001"))
    assert link is not None
    site = address.rsplit("/", 1)[0]
    url, _, state = urljoin(f"{site}/reference/codes/FKG001/", link[1]).partition("#")
    assert url == f"{site}/{hook.APP}/index.html", "where the site has the playground"
    (text,) = example_files(CODES["FKG001"].page).values()
    with chromium() as tab:
        tab.send("Page.navigate", url=f"{address}#{state}")
        tab.wait("document.querySelector('#problems li[data-code=FKG001]')", PATIENCE)
        shown = tab.run("document.querySelector('.cm-content').innerText")
        assert shown.rstrip() == text.rstrip()


def test_the_page_from_disk_shows_diagnostics() -> None:
    state = load("docs_hook").encode_state({"rules.fkg": RULES})
    with chromium() as tab:
        tab.send("Page.navigate", url=f"{(BUILT / 'index.html').as_uri()}#{state}")
        tab.wait("document.querySelectorAll('#problems li[data-code]').length >= 2", PATIENCE)
        paint = tab.run("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        assert paint < 2000
        tab.wait("document.body.dataset.status === 'ready'", PATIENCE)
        assert tab.errors() == []


def test_a_page_from_disk_without_its_scripts_names_the_server(tmp_path: Path) -> None:
    for name in ("index.html", "page.js", "style.css"):
        shutil.copy(BUILT / name, tmp_path)
    with chromium() as tab:
        tab.open(tmp_path / "index.html", width=1280)
        tab.wait("document.getElementById('status').innerText.includes('python -m http.server')")
        assert tab.run("document.querySelectorAll('.cm-line').length") > 0


def test_a_rule_is_explained(page: Page) -> None:
    wait(page, "document.body.dataset.status === 'ready'")
    wait(page, "!document.getElementById('missing').innerText.includes('solver')")
    write(page, "rule limit require pressure <= 7 bar\n")
    wait(page, "document.querySelector('#verdicts td')?.innerText === 'limit'")
    page.run("document.getElementById('what').value = 'limit'")
    page.run("document.querySelector('#explain button').click()")
    text = wait(page, "document.getElementById('explanation').textContent")
    assert "requires  pressure is at most 7 bar" in text
    assert "violated  pressure = " in text


def test_nothing_comes_from_another_host(page: Page, address: str) -> None:
    urls = [
        event["params"]["request"]["url"]
        for event in page.events
        if event["method"] == "Network.requestWillBeSent"
    ]
    host = address.rsplit("/", 1)[0]
    assert urls
    assert [url for url in urls if not url.startswith((host, "about:", "blob:", "data:"))] == []
