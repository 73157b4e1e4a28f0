"""`fedkg ontology publish`: write the documentation site of the modules."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.cli.console import AsJson, print_json, print_line
from fedkg.cli.output_files import check_output_path
from fedkg.errors import UsageError


def publish(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder to write, missing or empty.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Write into a folder that contains files.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a documentation site of the ontologies that ship with fedkg.

    It has a page for each module with its terms, definitions, mappings and metadata, the Turtle of
    the module, the alignments as SSSOM, and an index. The pages need no server and load nothing
    from elsewhere.

    \b
    Examples:
      fedkg ontology publish site/
    """
    from fedkg import ontologies

    check_site_folder(folder, force=force)
    files = ontologies.publication_files()
    write_site(folder, files)
    if as_json:
        print_json({"folder": str(folder), "files": sorted(files)})
        return
    pages = sum(name.endswith(".html") for name in files)
    contents = f"{count_noun(pages, 'page')} and {count_noun(len(files) - pages, 'source')}"
    print_line(f"{folder}: {contents}; open index.html")


def check_site_folder(folder: Path, *, force: bool) -> None:
    """Check that a site can be written to a folder, before computing anything.

    Raises:
        UsageError: it is a file, it has content and `force` is not set, or the folder above it is
            missing or not writable.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file", expected="the name of a folder")
    if folder.is_dir():
        if any(folder.iterdir()) and not force:
            raise UsageError(
                f"{folder} is not empty",
                help="choose another folder, or add --force to write into it",
            )
        check_output_path(folder / "index.html", "index.html")
    else:
        check_output_path(folder, folder.name)


def write_site(folder: Path, files: dict[str, str]) -> None:
    """Write files by their paths below a folder: all of them beside it first, then in their place.

    A failure before all files are written leaves the folder as it was. Other files of the folder
    stay.
    """
    target = folder.resolve()
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as place:
        whole = Path(place) / "site"
        for name, text in files.items():
            path = whole / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if not target.exists():
            whole.rename(target)
            return
        for name in files:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(whole / name, target / name)
