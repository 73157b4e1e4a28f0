"""A bundle for machines without a network: pinned packages, and how to install them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

from fedkg.errors import FedkgError, MissingExtra, describe_install

INSTALL = """# Install fedkg without a network

The packages are those of {system}, Python {python}.{download}
Compare the wheels with a list of checksums that you trust, copy the folder, and on the machine
without a network:

    python -m venv fedkg && . fedkg/bin/activate
    pip install --no-index --find-links wheels -r requirements.txt fedkg

Then `fedkg site join INVITATION.zip --sites SITES.yaml` and `fedkg site run SITE`.
"""

DOWNLOAD = """ On a machine of this kind with a network, where CLONE is a clone of fedkg {version}:

    pip wheel --no-deps -r requirements.txt CLONE -w wheels
"""

WHEELS = "wheels"
"""Folder of the bundle with the packages."""

SHOWN_LINES = 3
"""Lines of pip's output that an error shows, the last ones."""


def write_bundle(path: Path, *, wheels: bool = False) -> list[str]:
    """Write a ZIP file with `requirements.txt` and `INSTALL.md`.

    Args:
        path: the file.
        wheels: whether to add the packages, which pip finds with its own settings (PIP_INDEX_URL,
            PIP_FIND_LINKS, PIP_NO_INDEX) and builds where there is no wheel; fedkg itself is
            built from its source if it was installed from a folder.

    Returns:
        The packages of this environment that a site or a server needs, as ``name==version``.

    Raises:
        MissingExtra: this environment lacks some of them.
        FedkgError: pip does not find a package.
    """
    packages = list_packages("fedkg", ("flower", "compiler"))
    version = distribution("fedkg").version
    text = INSTALL.format(
        system=f"{platform.system()} {platform.machine()}",
        python=".".join(platform.python_version_tuple()[:2]),
        download="\n" if wheels else DOWNLOAD.format(version=version),
    )
    partial = path.with_name(f".{path.name}.part")
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as scratch:
        requirements = Path(scratch) / "requirements.txt"
        requirements.write_text("".join(f"{package}\n" for package in packages))
        if wheels:
            own = _find_source() or f"fedkg=={version}"
            _make_wheels(requirements, str(own), Path(scratch) / WHEELS)
        try:
            with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.write(requirements, requirements.name)
                archive.writestr("INSTALL.md", text)
                for wheel in sorted((Path(scratch) / WHEELS).glob("*.whl")):
                    archive.write(wheel, f"{WHEELS}/{wheel.name}", zipfile.ZIP_STORED)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    return packages


def _make_wheels(requirements: Path, own: str, target: Path) -> None:
    """Let pip download or build wheels of all requirements and of fedkg.

    Raises FedkgError with the end of its output.
    """
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "wheel", "--no-deps"),
                *("-r", str(requirements), own, "-w", str(target)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"},
            check=False,
        )
    except OSError as error:
        raise FedkgError(
            "fedkg cannot run pip, which downloads the packages",
            received=str(error),
            help="install pip, or leave out --wheels",
        ) from error
    if done.returncode:
        printed = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        errors = [line for line in printed if line.startswith("ERROR: ")]
        lines = (errors or printed)[-SHOWN_LINES:]
        if "No module named pip" in done.stdout:
            raise FedkgError(
                "fedkg cannot run pip, which downloads the packages",
                received=lines[-1],
                help="install pip, or leave out --wheels",
            )
        raise FedkgError(
            "pip cannot download or build all packages, so fedkg wrote no bundle",
            received="; ".join(line.removeprefix("ERROR: ") for line in lines),
            help="connect to a package index, or set PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER if a "
            "folder contains the packages; without --wheels fedkg downloads nothing",
        )


def _find_source() -> Path | None:
    """The folder that fedkg was installed from (PEP 610), such as a clone; None: an index."""
    found = json.loads(distribution("fedkg").read_text("direct_url.json") or "{}")
    folder = Path(url2pathname(urlparse(found.get("url", "")).path))
    return folder if "dir_info" in found and (folder / "pyproject.toml").is_file() else None


def list_packages(name: str, extras: tuple[str, ...]) -> list[str]:
    """All packages that one with some extras needs, with their installed versions, sorted.

    Raises MissingExtra, FedkgError: one is not installed, or lacks an extra.
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found: dict[str, str] = {}
    waiting, seen = [(name, frozenset(extras))], set[tuple[str, frozenset[str]]]()
    while waiting:
        wanted = waiting.pop()
        if wanted in seen:
            continue
        seen.add(wanted)
        try:
            installed = distribution(wanted[0])
        except PackageNotFoundError as error:
            raise MissingExtra("a bundle", "flower") from error
        unknown = wanted[1] - set(installed.metadata.get_all("Provides-Extra") or ())
        if unknown:
            raise FedkgError(
                f"the installed {wanted[0]} {installed.version} does not define the optional "
                f"dependencies `{min(unknown)}`",
                help=f"install it again: {describe_install('flower')}",
            )
        found[canonicalize_name(wanted[0])] = installed.version
        for text in installed.requires or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is None or any(
                marker.evaluate({"extra": extra}) for extra in ("", *wanted[1])
            ):
                waiting.append((requirement.name, frozenset(requirement.extras)))
    found.pop(canonicalize_name(name))
    return sorted(f"{package}=={version}" for package, version in found.items())
