"""Build the playground: `python playground/build.py`.

npm and pip install the libraries by name into `build/playground`, which git ignores. The result,
`build/playground/page`, is a folder of static files without any request to another host. The
documentation contains it if it exists when the documentation is built.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BUILD = ROOT / "build" / "playground"
PLATFORM = "pyemscripten_2026_0_wasm32"
PYTHON = "3.14"
"""The platform and the Python of the `pyodide` in package.json."""
FIRST = ("lark", "pygls>=2.1,<3", "pydantic", "pint")
"""Libraries that the page needs to start, with what they depend on."""
LATER = ("z3-solver", "sympy")
"""Large libraries that only explanations need."""
RUNTIME = ("mjs", "wasm", "zip", "json")
"""Endings of the files of Pyodide."""
WITHOUT = (
    *("federated", "jobs", "deploy", "granger", "models", "data", "kernels", "projection"),
    *("teacher", "mining", "report", "cli", "export", "operations", "privacy"),
)
"""Folders of the runtime that neither rules nor tables need."""


class BuildError(Exception):
    """A library or a program is missing."""


def run(command: list[str], folder: Path) -> None:
    """Run a program. Raises BuildError with the end of its output."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise BuildError(f"{command[0]} is not installed") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-5:]
        raise BuildError(f"{' '.join(command[:4])} failed:\n" + "\n".join(said))


def install(folder: Path) -> None:
    """Install the libraries of package.json and the wheels, unless they are there."""
    shutil.copy(HERE / "package.json", folder)
    installed = folder / "node_modules" / ".package-lock.json"
    if (
        not installed.is_file()
        or installed.stat().st_mtime < (HERE / "package.json").stat().st_mtime
    ):
        run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
        installed.touch()
    for name, packages in (("first", FIRST), ("later", LATER)):
        wheels = folder / "wheels" / name
        if not wheels.is_dir():
            download = ["-m", "pip", "download", "--quiet", "--only-binary", ":all:"]
            target = ["--platform", PLATFORM, "--python-version", PYTHON, "--dest", str(wheels)]
            run([sys.executable, *download, *target, *packages], folder)


def sources() -> Iterable[tuple[str, Path]]:
    """The files of fedkg that the page needs, with their names in the archive."""
    for package in ("fedkg", "compiler/fedkg_compiler", "ontologies", "rules"):
        for path in sorted((ROOT / package).rglob("*")):
            name = path.relative_to(ROOT)
            skipped = "__pycache__" in name.parts or (
                package == "fedkg" and name.parts[1] in WITHOUT
            )
            if path.is_file() and not skipped:
                yield str(name), path
    yield "pyproject.toml", ROOT / "pyproject.toml"


def pack(target: Path, files: Iterable[tuple[str, Path]]) -> None:
    """Write a zip archive."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in files:
            archive.write(path, name)


def embed(page: Path, names: Iterable[str]) -> None:
    """Write a script for each of these files that gives it to the page, for a page from disk."""
    for name in names:
        script = page / "disk" / f"{name}.js"
        script.parent.mkdir(parents=True, exist_ok=True)
        text = base64.b64encode(gzip.compress((page / name).read_bytes(), mtime=0)).decode()
        script.write_text(f'receiveFile("{name}", "{text}");\n')


def tree(folder: Path) -> Iterable[tuple[str, Path]]:
    """The files below a folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield str(path.relative_to(folder)), path


def examples() -> dict[str, dict[str, str]]:
    """The examples of the page: the files of each folder in `playground/examples`."""
    return {
        folder.name.replace("-", " "): {
            path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())
        }
        for folder in sorted((HERE / "examples").iterdir())
    }


def build(folder: Path, numpy: Path | None) -> Path:
    """Build the page; returns its folder.

    Args:
        folder: where the libraries and the result go.
        numpy: a folder with wheels of NumPy for this Pyodide; None: the page evaluates with
            `playground/libraries/numpy`.

    Raises:
        BuildError: a library or a program is missing.
    """
    sys.path.insert(0, str(ROOT / "compiler"))
    from fedkg_compiler.editor.word_help import WORDS

    given = [] if numpy is None else sorted(numpy.glob("*.whl"))
    if numpy is not None and not any(path.name.startswith("numpy-") for path in given):
        raise BuildError(f"{numpy} has no file numpy-*.whl; give a folder with a wheel of NumPy")
    folder.mkdir(parents=True, exist_ok=True)
    install(folder)
    page = folder / "page"
    shutil.rmtree(page, ignore_errors=True)
    shutil.copytree(HERE / "page", page)
    (page / "words.json").write_text(json.dumps(sorted(WORDS)))
    (page / "examples.json").write_text(json.dumps(examples()))
    (page / "worker.json").write_text(json.dumps((page / "worker.js").read_text(encoding="utf-8")))
    modules = folder / "node_modules"
    bundle = [str(modules / ".bin" / "esbuild"), str(page / "page.js"), "--bundle", "--minify"]
    bundled = folder / "page.js"
    run([*bundle, "--format=iife", f"--outfile={bundled}"], folder)
    shutil.move(bundled, page / "page.js")
    for name in ("words.json", "examples.json", "worker.json"):
        (page / name).unlink()
    (page / "pyodide").mkdir()
    pyodide = [
        path
        for path in sorted((modules / "pyodide").iterdir())
        if path.suffix[1:] in RUNTIME and path.name != "package.json"
    ]
    for path in pyodide:
        shutil.copy(path, page / "pyodide")
    wheels = {name: sorted((folder / "wheels" / name).glob("*.whl")) for name in ("first", "later")}
    known = {path.name for path in wheels["first"]}
    later = [path for path in wheels["later"] if path.name not in known]
    for path in [*wheels["first"], *later, *given]:
        shutil.copy(path, page)
    left_out = () if numpy is None else ("numpy",)
    pack(page / "fedkg.zip", sources())
    libraries = [one for one in tree(HERE / "libraries") if not one[0].startswith(left_out or "\0")]
    pack(page / "libraries.zip", libraries)
    first = [*(path.name for path in [*wheels["first"], *given]), "libraries.zip", "fedkg.zip"]
    folders = dict.fromkeys([*first, *(path.name for path in later)], "/wheels")
    folders |= {"libraries.zip": "/libraries", "fedkg.zip": "/fedkg"}
    parts = {
        "first": first,
        "later": [path.name for path in later],
        "folders": folders,
        "paths": ["/libraries", "/fedkg", "/fedkg/compiler", "/wheels"],
    }
    (page / "parts.json").write_text(json.dumps(parts))
    run(["node", str(HERE / "precompile.mjs"), str(page)], folder)
    embed(page, ["parts.json", *folders, *(f"pyodide/{path.name}" for path in pyodide)])
    return page


def main() -> int:
    """Build from the command line."""
    parser = argparse.ArgumentParser(description="Build the playground of fedkg.")
    parser.add_argument("--folder", type=Path, default=BUILD, help="where the result goes")
    parser.add_argument(
        "--numpy", type=Path, metavar="DIR", help="a folder with a wheel of NumPy for Pyodide"
    )
    given = parser.parse_args()
    try:
        print(build(given.folder, given.numpy))
    except BuildError as error:
        print(f"the playground was not built: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
