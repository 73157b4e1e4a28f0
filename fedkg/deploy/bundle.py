"""A bundle for machines without a network: pinned packages, and how to install them."""

from __future__ import annotations

import platform
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from io import BytesIO
from pathlib import Path

from fedkg._internal.atomic_file import replace_file
from fedkg.errors import FedkgError, MissingExtra

INSTALL = """# Install fedkg without a network

The packages are those of {system}, Python {python}. On a machine of this kind with a network:

    pip download --only-binary :all: -r requirements.txt -d wheels
    pip wheel --no-deps "fedkg=={version}" -w wheels

In a clone of the repository, replace `"fedkg=={version}"` by a dot.

Compare the wheels with a list of checksums that you trust, copy the folder, and on the machine
without a network:

    python -m venv fedkg && . fedkg/bin/activate
    pip install --no-index --find-links wheels -r requirements.txt fedkg

Then `fedkg site join INVITATION.zip --sites SITES.yaml` and `fedkg site run SITE`.
"""


def write_bundle(path: Path) -> list[str]:
    """Write a ZIP file with `requirements.txt` and `INSTALL.md`.

    Returns:
        The packages of this environment that a site or a server needs, as ``name==version``.

    Raises:
        MissingExtra: this environment lacks some of them.
    """
    packages = list_packages("fedkg", ("flower", "compiler"))
    text = INSTALL.format(
        system=f"{platform.system()} {platform.machine()}",
        python=".".join(platform.python_version_tuple()[:2]),
        version=distribution("fedkg").version,
    )
    body = BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("requirements.txt", "".join(f"{package}\n" for package in packages))
        archive.writestr("INSTALL.md", text)
    replace_file(path, body.getvalue())
    return packages


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
                f"the installed {wanted[0]} {installed.version} has no extra {min(unknown)}",
                help="install it again: in a clone, pip install -c constraints.txt -e '.[flower]'",
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
