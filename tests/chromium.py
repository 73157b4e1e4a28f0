"""A headless Chromium for tests of pages, driven by the DevTools protocol over a pipe.

Source of the protocol: https://chromedevtools.github.io/devtools-protocol/.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


class Page:
    """One tab. `Any`: JSON of the protocol."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write, self._next, self._rest = read, write, 0, b""
        self.session = ""
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.send("Performance.enable", timeDomain="threadTicks")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._next += 1
        message = {"id": self._next, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == message["id"]:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            body = os.read(self._read, 1 << 16)
            assert body, "chromium has ended"
            self._rest += body
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, place: Path | str, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Load a file, or an address, in a window of this size."""
        self.show_in(width=width, height=height, dark=dark)
        self.events.clear()
        self.send(
            "Page.navigate", url=place if isinstance(place, str) else place.resolve().as_uri()
        )
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._receive()

    def show_in(self, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Give the window this size, and the page light or dark colours."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def main_thread_seconds(self) -> float:
        """CPU time of the tab's main thread so far; unlike the wall time, other programs on the
        computer hardly change it.
        """
        self.run("new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)))")
        metrics = self.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        found = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition: str, patience: float = 60) -> None:
        """Wait until a JavaScript expression is true, for at most this number of seconds."""
        held = self.run(
            "new Promise(done => { const end = Date.now() + "
            f"{1000 * patience}; const look = () => {{ const held = Boolean({condition});"
            " held || Date.now() > end ? done(held) : setTimeout(look, 50); }; look(); })"
        )
        assert held, f"{condition} did not come true"

    def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    def click(self, element: str) -> None:
        """Click with the mouse on the middle of an element, a JavaScript expression."""
        box = self.run(f"(({element}).getBoundingClientRect().toJSON())")
        place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = "none" if kind == "mouseMoved" else "left"
            self.send("Input.dispatchMouseEvent", type=kind, button=button, clickCount=1, **place)

    def errors(self) -> list[str]:
        """Errors of scripts and of loading since the page was opened."""
        return [
            json.dumps(event["params"])
            for event in self.events
            if event["method"] == "Runtime.exceptionThrown"
            or (
                event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error"
            )
        ]

    def screenshot(self, path: Path) -> None:
        """Write the whole page as a PNG image."""
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def print_pdf(self) -> bytes:
        """The page as printed on A4."""
        found = self.send(
            "Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=True
        )
        return base64.b64decode(found["data"])


def axe_script() -> str:
    """The text of axe-core; the test is skipped without it."""
    installed = ROOT / ".venv" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
    path = Path(os.environ.get("FEDKG_AXE", installed))
    if not path.is_file():
        pytest.skip("needs axe-core: npm install axe-core, and FEDKG_AXE=.../axe.min.js")
    return path.read_text(encoding="utf-8")


def serious_problems(page: Page, script: str) -> list[Any]:
    """The serious and critical findings of axe-core: impact, rule, and the first element."""
    page.run(f"{script};0")
    found: list[Any] = page.run(
        "axe.run(document).then(result => result.violations"
        ".filter(one => ['serious', 'critical'].includes(one.impact))"
        ".map(one => [one.impact, one.id, one.nodes[0].html.slice(0, 200)]))"
    )
    return found


@contextmanager
def chromium() -> Iterator[Page]:
    """A tab of a new browser; the test is skipped if Chromium is not installed."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        # the browser reads commands from descriptor 3 and writes answers to descriptor 4
        shell = f'exec 3<&{theirs_in} 4>&{theirs_out}; exec "$0" "$@"'
        process = subprocess.Popen(
            [
                *("bash", "-c", shell, program),
                *("--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"),
                *("--no-first-run", f"--user-data-dir={profile}", "--disable-dev-shm-usage"),
            ],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield Page(ours_in, ours_out)
        finally:
            process.kill()
            process.wait()
            os.close(ours_in)
            os.close(ours_out)
