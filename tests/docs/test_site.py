"""Each release has its version of the documentation, with a selector of versions and a search."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from chromium import chromium
from typing_extensions import override

ROOT = Path(__file__).parents[2]
PATHS = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def test_a_release_deploys_its_version() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    job = workflow["jobs"]["docs"]
    commands = [step.get("run", "") for step in job["steps"]]
    deploy = 'mike deploy --push --update-aliases "${GITHUB_REF_NAME#v}"'
    place = next(i for i, command in enumerate(commands) if deploy in command)
    assert "python playground/build.py" in commands[:place]  # else the site has no playground
    assert job["permissions"] == {"contents": "write"}
    assert job["if"] == "startsWith(github.ref, 'refs/tags/v')"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The branch of the site after `mike deploy` in a clone."""
    mike = shutil.which("mike", path=PATHS)
    if mike is None:
        pytest.skip("needs mike: pip install -c constraints.txt mike")
    if not (ROOT / ".git").exists():
        pytest.skip("needs a clone of the repository")
    folder = tmp_path_factory.mktemp("versions")
    clone, pages = folder / "clone", folder / "pages"
    subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), str(clone)], check=True)
    author = {"GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org"}
    committer = {"GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.org"}
    path = os.pathsep.join([str(Path(mike).parent), PATHS])
    environment = os.environ | author | committer | {"PATH": path, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(
        [mike, "deploy", "--update-aliases", "0.1", "latest"],
        cwd=clone,
        env=environment,
        check=True,
        capture_output=True,
    )
    subprocess.run(["git", "clone", "-q", "-b", "gh-pages", str(clone), str(pages)], check=True)
    return pages


@pytest.mark.slow
def test_the_site_lists_its_versions(site: Path) -> None:
    (version,) = json.loads((site / "versions.json").read_text())
    assert (version["version"], version["aliases"]) == ("0.1", ["latest"])
    assert (site / "0.1" / "reference" / "language" / "index.html").is_file()


class _Handler(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_a_page_has_a_selector_of_versions(address: str) -> None:
    with chromium() as tab:
        tab.send("Page.navigate", url=f"{address}/0.1/index.html")
        tab.wait("document.querySelector('.md-version__link')")
        assert tab.run("document.querySelector('.md-version__current').innerText") == "0.1"
        links = tab.run("[...document.querySelectorAll('.md-version__link')].map(one => one.href)")
        assert links == [f"{address}/0.1/"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("Granger", "how-to/federated-granger-causality/"),
        ("differential privacy", "how-to/differential-privacy/"),
    ],
)
def test_search_finds_a_topic(address: str, words: str, page: str) -> None:
    with chromium() as tab:
        tab.send("Page.navigate", url=f"{address}/0.1/index.html")
        tab.wait("document.querySelector('.md-version__link')")  # the scripts of the page run
        tab.run("document.querySelector('.md-search__input').focus()")
        tab.send("Input.insertText", text=words)
        tab.wait("document.querySelector('.md-search-result__link')")
        shown = "[...document.querySelectorAll('.md-search-result__link')].map(one => one.href)"
        tab.wait(f"{shown}.some(one => one.includes('/0.1/{page}'))", patience=20)
