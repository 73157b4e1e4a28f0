"""Pictures of `docs/gallery.md`: `python tests/docs/gallery.py` runs its commands and takes them.

The commands of the playground need npm and take long: its picture shows the page in
`build/playground`, if `make playground` has built it.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from typing_extensions import override

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests")]
if TYPE_CHECKING:
    from chromium import Page

PICTURES = ROOT / "docs" / "images" / "gallery"
PLAYGROUND = ROOT / "build" / "playground" / "page"
SECTION = re.compile(
    r"^!\[[^\]]+\]\(images/gallery/(?P<name>\w+)\.webp\)\n\n```bash\n(?P<commands>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
RESULTS = {
    "run": "runs/building/report.html",
    "incidents": "incidents.html",
    "causes": "runs/causes/report.html",
    "ontologies": "ontologies-site/index.html",
    "notebook": "examples/notebooks/temporal_rules.ipynb",
}
"""By picture: the file that the commands write."""
WIDTH, HEIGHT, SCALE = 1280, 800, 0.5
"""Size of the window in pixels, and the factor from it to the picture."""


def sections() -> dict[str, list[str]]:
    """The commands of the gallery by the name of their picture."""
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    return {found["name"]: found["commands"].splitlines() for found in SECTION.finditer(text)}


class _Handler(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder on this computer."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def live(command: str, folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """The address that `fedkg serve` prints, while it runs."""
    process = subprocess.Popen(
        [*command.split(), "--port", "0"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = next(filter(None, (re.search(r"http://\S+", line) for line in process.stdout)))
        yield found[0].rstrip(".,;")
    finally:
        process.terminate()
        process.communicate()


def notebook_page(notebook: Path) -> Path:
    """The outputs of an executed notebook as a page beside it."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    outputs = (one.get("data", {}) for cell in cells for one in cell.get("outputs", ()))
    shown = ["".join(data["text/html"]) for data in outputs if "text/html" in data]
    assert shown, "the notebook has no rich output"
    page = notebook.with_suffix(".html")
    page.write_text(
        '<!doctype html><meta charset="utf-8"><body style="margin:40px;font:16px sans-serif">'
        + "<hr>".join(shown),
        encoding="utf-8",
    )
    return page


def take(tab: Page, address: str, picture: Path, ready: str = "document.body") -> None:
    """Write a picture of the top of a page as soon as a condition is true."""
    size = {"width": WIDTH, "height": HEIGHT}
    tab.send("Emulation.setDeviceMetricsOverride", **size, deviceScaleFactor=1, mobile=False)
    tab.send("Page.navigate", url=address)
    tab.wait(f"document.readyState === 'complete' && {ready}", patience=300)
    shot = tab.send(
        "Page.captureScreenshot",
        format="webp",
        quality=70,
        clip={"x": 0, "y": 0, **size, "scale": SCALE},
    )
    picture.write_bytes(base64.b64decode(shot["data"]))


def take_pictures(pictures: Path, folder: Path) -> list[str]:
    """Run the commands in an empty folder and write the pictures; the names of these."""
    from chromium import chromium

    shutil.copytree(ROOT / "examples", folder / "examples")
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "compiler")]),
    }
    taken = []
    with chromium() as tab:
        for name, commands in sections().items():
            picture = pictures / f"{name}.webp"
            if name == "playground":
                if not (PLAYGROUND / "parts.json").is_file():
                    continue
                with served(PLAYGROUND) as address:
                    ready = "document.querySelector('#trace svg rect.violated')"
                    take(tab, f"{address}/index.html", picture, ready)
            elif name == "live":
                with live(commands[0], folder, environment) as address:
                    take(tab, address, picture)
            else:
                for command in commands:
                    subprocess.run(command.split(), cwd=folder, env=environment, check=True)
                file = folder / RESULTS[name]
                page = notebook_page(file) if file.suffix == ".ipynb" else file
                take(tab, page.resolve().as_uri(), picture)
            taken.append(name)
    return taken


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    with TemporaryDirectory() as place:
        sys.stdout.write(" ".join(take_pictures(PICTURES, Path(place))) + "\n")
