"""The documentation has a page for each diagnostic code, with a link that opens its example."""

from __future__ import annotations

import base64
import importlib.util
import json
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files

from fedkg_compiler.diagnostics import CODES

ROOT = Path(__file__).parents[2]


def load(name: str) -> Any:
    found = importlib.util.spec_from_file_location(name, ROOT / "playground" / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


hook = load("docs_hook")


def decode(state: str) -> Any:
    packed = base64.urlsafe_b64decode(state + "=" * (-len(state) % 4))
    return json.loads(zlib.decompress(packed, wbits=-15))


def test_a_link_contains_all_files() -> None:
    files = {"rules.fkg": 'rule a require "Überdruck" <= 3 bar\n' * 50, "table.csv": "a;b\n1;2\n"}
    state = hook.encode_state(files)
    assert re.fullmatch(r"[\w-]+", state)
    assert decode(state) == files
    assert len(state) < 200


def test_codes_whose_example_works_in_the_playground_have_a_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hook, "is_built", lambda: True)
    linked = set()
    for code in CODES:
        page = hook.code_page(code)
        assert page.startswith(f"# {code}: {CODES[code].title}\n\nSeverity: ")
        found = re.search(r'href="\.\./\.\./\.\./playground/app/index\.html#([\w-]+)"', page)
        if found:
            linked.add(code)
            assert decode(found[1])["rules.fkg"] in page
    assert linked == hook.LINKED
    assert len(linked) > 100


@pytest.mark.slow
def test_the_playground_shows_the_code_of_each_example_with_a_link() -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("without_libraries.py")), "--codes"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == hook.LINKED


@pytest.mark.parametrize(
    ("code", "languages"),
    [
        ("FKG001", {"fkg"}),
        ("FKG101", {"sh"}),
        ("FKG106", {"sh"}),
        ("FKG122", {"fkg", "text"}),
        ("FKG140", {"sh"}),
        ("FKG288", {"turtle"}),
        ("FKG320", {"sh"}),
        ("FKG321", {"turtle"}),
    ],
)
def test_a_block_has_its_own_language(
    code: str, languages: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook, "is_built", lambda: True)
    page = hook.code_page(code)
    assert set(re.findall(r"^```(\w+)$", page, re.MULTILINE)) == languages
    assert ("Open the example" in page) == (code == "FKG001")


def test_without_the_playground_there_are_no_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "is_built", lambda: False)
    assert "playground" not in hook.code_page("FKG200")


def test_the_site_has_no_copies_for_a_page_from_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("parts.json", "worker.js", "disk/parts.json.js", "disk/pyodide/pyodide.mjs.js"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setattr(hook, "BUILT", tmp_path)
    config = MkDocsConfig()
    config.load_dict({"site_name": "site"})
    config.validate()
    monkeypatch.setattr(config.plugins, "_current_plugin", "hook", raising=False)
    places = {one.src_uri for one in hook.on_files(Files([]), config)}
    app = {place.removeprefix("playground/app/") for place in places if "/app/" in place}
    assert app == {"parts.json", "worker.js"}


def test_a_folder_without_numpy_is_an_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "playground/build.py",
            "--numpy",
            str(tmp_path),
            "--folder",
            str(tmp_path),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "has no file numpy-*.whl" in done.stderr
    assert "Traceback" not in done.stderr
    assert not [*tmp_path.iterdir()]


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    build = load("build")
    with pytest.raises(build.BuildError, match="no-such-program is not installed"):
        build.run(["no-such-program"], tmp_path)
    with pytest.raises(build.BuildError, match=r"failed:\nwrong"):
        build.run([sys.executable, "-c", "import sys; sys.exit('wrong')"], tmp_path)
