"""`fedkg verify`: compare files with the checksums in a run's log, or with a signature."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.cli.console import AsJson, print_json, print_line
from fedkg.errors import FederationError, MissingExtra


def verify(
    folder: Annotated[
        Path,
        typer.Argument(metavar="PATH", help="A run or sweep; with --key, a pack, folder or run."),
    ],
    checksum: Annotated[
        str | None,
        typer.Option(
            "--checksum",
            metavar="SHA256",
            help="A checksum that `fedkg run` printed at its end; the log must contain it.",
        ),
    ] = None,
    keys: Annotated[
        list[Path] | None,
        typer.Option(
            "--key",
            metavar="NAME.pub",
            help="A public key that you trust: check the signature by it; can be repeated.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare every file of a run folder with its checksum in the log, without changing anything.

    With --key, compare a pack or a folder with its signature (`fedkg sign`), and a run with its
    attestation (`fedkg attest`). Exit code 0: all files are as they were written or signed; 1:
    something was changed, added or removed.

    \b
    Example:
      fedkg verify runs/tuesday
    """
    if keys:
        _verify_signature(folder, keys, as_json)
        return
    if any(find_spec(name) is None for name in ("torch", "yaml")):
        raise MissingExtra("reading run folders", "run")
    from fedkg.jobs.checksum_verification import verify as compare

    found = compare(folder, checksum=checksum)
    if as_json:
        print_json(
            {
                "folder": str(found.folder),
                "intact": not found.problems,
                "files": found.files,
                "entries": found.entries,
                "checksum": found.checksum,
                "problems": list(found.problems),
            }
        )
    else:
        for problem in found.problems:
            print_line(problem)
        print_line(
            f"damaged: {count_noun(len(found.problems), 'problem')}"
            if found.problems
            else f"intact: {count_noun(found.files, 'file')}; checksum of the log: {found.checksum}"
        )
    if found.problems:
        raise typer.Exit(1)


def _verify_signature(folder: Path, keys: list[Path], as_json: bool) -> None:
    """Compare a run with its attestation, or anything else with its signature."""
    from fedkg.deploy.signing import verify_folder

    problems, subject = [], ""
    try:
        if (folder / "environment.json").exists():
            from fedkg.deploy.run_attestation import verify_attestation

            subject = count_noun(len(verify_attestation(folder, keys)["subject"]), "model")
        else:
            subject = count_noun(len(verify_folder(folder, keys).files), "file")
    except FederationError as error:
        if not as_json:
            raise
        problems = [str(error)]
    if as_json:
        print_json({"folder": str(folder), "intact": not problems, "problems": problems})
    else:
        print_line(f"intact: {subject}, signed with a trusted key")
    if problems:
        raise typer.Exit(1)
